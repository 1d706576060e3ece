// What the benchmarks have in common: every round measures the limit, then the call, and the ratio is taken round by round.
// A row shows the least, the median and the most.

#ifndef NONIC_BENCH_H
#define NONIC_BENCH_H

#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_ROUNDS 31

static int rounds = 11;
static double quick = 1;
static int missed;

struct series {
    double value[MOST_ROUNDS];
    int count;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_rank(struct series *s, int percent)
{
    qsort(s->value, s->count, sizeof(double), compare);
    return s->value[(s->count - 1) * percent / 100];
}

static void triple(struct series *s, const char *format)
{
    for (int percent = 0; percent <= 100; percent += 50)
        printf(format, at_rank(s, percent));
}

static double since(int64_t began, int iterations)
{
    return (double)(now_ns() - began) / iterations;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

typedef double (*measurement)(int iterations);

// One row: nanoseconds, and the ratio to the limit if there is one. A goal of 0 is none. The median.
static double row(const char *name, measurement call, const char *limit_name, measurement limit, int iterations,
                  double goal)
{
    struct series time = {0}, ratio = {0}, base = {0};
    iterations = (int)(iterations * quick) + 1;
    call(iterations / 10 + 1);
    for (int i = 0; i < rounds; i++) {
        double b = limit ? limit(iterations) : 1, t = call(iterations);
        time.value[time.count++] = t;
        base.value[base.count++] = b;
        ratio.value[ratio.count++] = t / b;
    }
    printf("%-46s", name);
    triple(&time, "%10.1f");
    double result = at_rank(limit ? &ratio : &time, 50);
    if (limit) {
        printf("   %-28s%10.1f  ", limit_name, at_rank(&base, 50));
        triple(&ratio, "%7.2f");
    } else {
        printf("   %-28s%10s  %7s%7s%7s", "", "", "", "", "");
    }
    if (goal > 0) {
        missed += result > goal;
        printf(limit ? "   at most %.2f: %s" : "   at most %.0f ns: %s", goal, result <= goal ? "kept" : "MISSED");
    }
    printf("\n");
    return at_rank(&time, 50);
}

#endif

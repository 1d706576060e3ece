// `nonic ctl`, as somebody outside runs it. The test says where the command is.

#ifndef NONIC_INTEROP_CHANGES_H
#define NONIC_INTEROP_CHANGES_H

#include "harness.h"

#include <stdarg.h>

// Runs it with these words; its exit status. What it says is printed with ours.
static UNUSED int ctl(const char *format, ...)
{
    char words[256], line[1024];
    const char *nonic = getenv("NONIC");
    va_list arguments;
    REQUIRE(nonic);
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "'%s' ctl %s 2>&1", nonic, words);
    fflush(stdout);
    int status = system(line);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Changes the device of this process.
#define CHANGE(...) REQUIRE(change(__VA_ARGS__) == 0)

static UNUSED int change(const char *words) { return ctl("--pid %d %s", (int)getpid(), words); }

// What stands in a file of the device's port.
static UNUSED const char *file_of(const char *name)
{
    static char text[128];
    char path[128];
    snprintf(path, sizeof path, "/sys/class/infiniband/nonic0/ports/1/%s", name);
    FILE *file = fopen(path, "r");
    text[0] = 0;
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = 0;
        fclose(file);
    }
    text[strcspn(text, "\n")] = 0;
    return text;
}

#endif

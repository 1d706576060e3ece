// Preloaded in front of the C library's allocator, as an allocator of a program's own would be: notes who enters it from a
// call of nonic's libraries. Each different way in is one line in the file that MALLOC_WATCH names:
//
//     <why> <function> <object>+<offset> ...
//
// with the innermost frames of the stack. <why> is what of the C library asked for memory on behalf of the call, if it is
// something that nonic cannot do without, and OTHER if it is not. Every process begins with a line WATCHING.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { FRAMES = 48, SEEN = 4096 };

static int report = -1;
static _Atomic uintptr_t seen[SEEN];
// backtrace and dladdr may allocate.
static __thread bool inside __attribute__((tls_model("initial-exec")));

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

static bool is_ours(const char *object)
{
    static const char *const ours[] = {"libnonic.so", "libibverbs.so.1", "libscif.so", "libdat.so", "libdaplnonic.so"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(object, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

// What of the C library asked, if it is what nonic calls with open eyes (ARCHITECTURE.md, "The library's own memory"), or the
// call of nonic's for whose answer the C library's memory is meant.
static const char *known(const char *symbol)
{
    static const char *const functions[] = {"pthread_create",     "pthread_getattr_np", "pthread_attr_destroy",
                                            "__tls_get_addr",     "dlopen",             "ibv_get_device_list",
                                            "ibv_free_device_list"};
    if (symbol && strncmp(symbol, "nonic_", 6) == 0)
        symbol += 6;
    for (size_t i = 0; symbol && i < sizeof functions / sizeof *functions; i++)
        if (strcmp(symbol, functions[i]) == 0)
            return functions[i];
    return NULL;
}

static void look(const char *function)
{
    if (report < 0 || inside)
        return;
    inside = true;
    int kept = errno;
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    const char *why = NULL;
    bool ours = false, over = false;
    uintptr_t hash = 14695981039346656037u;
    char line[2048];
    int length = 0;
    // The first two are this file's.
    for (int i = 2; i < count && !over; i++) {
        Dl_info info = {0};
        dladdr((char *)frames[i] - 1, &info);
        bool is = is_ours(base_name(info.dli_fname));
        over = ours && !is;
        ours |= is;
        if (!why && !over)
            why = known(info.dli_sname);
        hash = (hash ^ (uintptr_t)frames[i]) * 1099511628211u;
    }
    if (ours) {
        hash |= 1; // 0 is a free place
        size_t at = hash % SEEN;
        uintptr_t old = 0;
        while (!atomic_compare_exchange_strong(&seen[at], &old, hash) && old != hash) {
            at = (at + 1) % SEEN;
            old = 0;
        }
        if (old != hash) {
            length = snprintf(line, sizeof line, "%s %s", why ? why : "OTHER", function);
            for (int i = 2; i < count && i < 16 && length < (int)sizeof line - 200; i++) {
                Dl_info info = {0};
                dladdr((char *)frames[i] - 1, &info);
                length += snprintf(line + length, sizeof line - length, " %.40s+%#lx(%.60s)", base_name(info.dli_fname),
                                   (unsigned long)((char *)frames[i] - (char *)info.dli_fbase),
                                   info.dli_sname ? info.dli_sname : "");
            }
            line[length++] = '\n';
            if (write(report, line, length) != length)
                abort();
        }
    }
    errno = kept;
    inside = false;
}

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("MALLOC_WATCH");
    if (!name)
        return;
    inside = true;
    void *frames[4];
    backtrace(frames, 4); // loads what it needs
    int file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0)
        fchmod(file, 0666); // the first may be root before it steps down
    // A number that no program of the tests expects to be free or closes.
    report = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 900);
    if (report < 0 || write(report, "WATCHING\n", 9) != 9)
        abort();
    close(file);
    inside = false;
}

void *malloc(size_t size)
{
    look("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    look("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    look("realloc");
    return __libc_realloc(old, size);
}

void *memalign(size_t align, size_t size)
{
    look("memalign");
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    look("aligned_alloc");
    return __libc_memalign(align, size);
}

int posix_memalign(void **place, size_t align, size_t size)
{
    look("posix_memalign");
    *place = __libc_memalign(align, size);
    return *place ? 0 : ENOMEM;
}

void free(void *place)
{
    if (place)
        look("free");
    __libc_free(place);
}

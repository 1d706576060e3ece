// A child uses its parent's endpoint. What it stores to a registered buffer is its own; where the buffer was advised not
// to be inherited, touching it ends the child. The offsets the library chooses are the same on both sides.

#include "pair.h"

#include <sys/resource.h>

#define LENGTH (4 * PAGE)
#define HINT 0x4000000000000000

static off_t open_window(scif_epd_t epd, unsigned char *buffer)
{
    off_t at = MUST(scif_register(epd, buffer, LENGTH, HINT, SCIF_PROT_READ | SCIF_PROT_WRITE, 0));
    HOLDS(exchange(epd, at) == at);
    return at;
}

static int wait_for(pid_t child)
{
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    return status;
}

// In the child: its own bytes, the parent's window, the parent's endpoint.
static void be_child(scif_epd_t epd, unsigned char *buffer, off_t at)
{
    unsigned char *bytes = malloc(LENGTH);
    HOLDS(filled(buffer, LENGTH, 1));
    fill(buffer, LENGTH, 66);
    MUST(scif_writeto(epd, at, PAGE, at, SCIF_RMA_SYNC));
    MUST(scif_vreadfrom(epd, bytes, PAGE, at, SCIF_RMA_SYNC));
    HOLDS(filled(bytes, PAGE, 1));
    fill(bytes, PAGE, 3);
    MUST(scif_vwriteto(epd, bytes, PAGE, at + PAGE, SCIF_RMA_SYNC));
    MUST(scif_readfrom(epd, at + 3 * PAGE, PAGE, at + 2 * PAGE, SCIF_RMA_SYNC));
    barrier(epd);
    HOLDS(filled(buffer, LENGTH, 66));
    _exit(errno);
}

static int accepting(struct options *o)
{
    unsigned char *buffer = heap_pages(LENGTH / PAGE), *other = heap_pages(LENGTH / PAGE);
    scif_epd_t listener = listen_on(o, 1);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    MUST(scif_close(listener));
    fill(buffer, LENGTH, 2);
    open_window(epd, buffer);
    barrier(epd); // with the child
    HOLDS(filled(buffer, PAGE, 1) && filled(buffer + PAGE, PAGE, 3));
    for (size_t i = 2 * PAGE; i < LENGTH; i++)
        HOLDS(buffer[i] == pattern_byte(i, 2));
    barrier(epd); // with the parent, twice
    barrier(epd);
    HOLDS(filled(buffer, PAGE, 5));
    off_t at = open_window(epd, other);
    MUST(scif_vwriteto(epd, buffer, PAGE, at, SCIF_RMA_SYNC));
    barrier(epd);
    barrier(epd);
    free(other);
    return leave(epd, buffer);
}

static int connecting(struct options *o)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    unsigned char *buffer = heap_pages(LENGTH / PAGE);
    scif_epd_t epd = connect_to(o);
    fill(buffer, LENGTH, 1);
    off_t at = open_window(epd, buffer);
    pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0)
        be_child(epd, buffer, at);
    HOLDS(wait_for(child) == 0);
    // The child's stores are not here; what it read into the window is.
    HOLDS(filled(buffer, 3 * PAGE, 1));
    for (size_t i = 0; i < PAGE; i++)
        HOLDS(buffer[3 * PAGE + i] == pattern_byte(2 * PAGE + i, 2));
    // The parent's pages are those of the window still.
    barrier(epd);
    fill(buffer, PAGE, 5);
    MUST(scif_writeto(epd, at, PAGE, at, SCIF_RMA_SYNC));
    barrier(epd);

    unsigned char *alone = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(alone != MAP_FAILED && madvise(alone, LENGTH, MADV_DONTFORK) == 0);
    alone[0] = 1;
    open_window(epd, alone);
    child = fork();
    HOLDS(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile unsigned char *)alone = 6;
        _exit(0);
    }
    int status = wait_for(child);
    HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    barrier(epd);
    HOLDS(filled(alone, PAGE, 5));
    barrier(epd);
    munmap(alone, LENGTH);
    return leave(epd, buffer);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}

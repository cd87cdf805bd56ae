/*
 * What the checks in the guest run inside the sandbox: one static program, one way to use up something.
 *
 *   probe malloc|shm|memfd|tmpfs MB   use that much memory, of this kind, and say so
 *   probe forks N                     start N processes that wait, print how many there could be, end them
 *   probe burn N                      N processes that use CPU time for ever
 *   probe work SECONDS                use CPU time, print which part of that wall time it was, in percent
 *   probe direct-write FILE MB        write past the page cache, print how many milliseconds it took
 *   probe linger                      two processes, itself and one in a session of its own, until killed
 *
 * Exit status: 0 done, 1 the kernel refused it (the line says at which point), 2 called wrongly.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static int refused(const char *what, long at)
{
    printf("%s refused at %ld: %s\n", what, at, strerror(errno));
    return 1;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Touched page by page: memory counts only once it is used. */
static void touch(char *bytes)
{
    for (size_t at = 0; at < MB; at += 4096)
        ((volatile char *)bytes)[at] = 1;
}

static int use_malloc(long megabytes)
{
    for (long n = 0; n < megabytes; n++) {
        char *bytes = malloc(MB);
        if (!bytes)
            return refused("malloc", n);
        touch(bytes);
    }
    printf("used %ld MB\n", megabytes);
    return 0;
}

static int use_shm(long megabytes)
{
    char *bytes = mmap(NULL, megabytes * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return refused("mmap", 0);
    for (long n = 0; n < megabytes; n++)
        touch(bytes + n * MB);
    printf("used %ld MB\n", megabytes);
    return 0;
}

static int use_file(int file, long megabytes)
{
    static char block[MB];
    memset(block, 1, sizeof block);
    if (file < 0)
        return refused("open", 0);
    for (long n = 0; n < megabytes; n++)
        if (write(file, block, sizeof block) != (ssize_t)sizeof block)
            return refused("write", n);
    printf("used %ld MB\n", megabytes);
    return 0;
}

static int forks(long wanted)
{
    pid_t *children = calloc(wanted, sizeof *children);
    long started = 0;
    while (children && started < wanted) {
        pid_t child = fork();
        if (child < 0)
            break;
        if (child == 0)
            for (;;)
                pause();
        children[started++] = child;
    }
    printf("%ld\n", started);
    fflush(stdout);
    for (long n = 0; n < started; n++)
        kill(children[n], SIGKILL);
    while (wait(NULL) > 0)
        ;
    return 0;
}

static _Noreturn void burn(long processes)
{
    for (long n = 1; n < processes; n++)
        if (fork() == 0)
            break;
    for (volatile uint64_t turns = 0;; turns++)
        ;
}

static int work(double wanted)
{
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID), start = seconds(CLOCK_MONOTONIC), now;
    do {
        for (volatile int turns = 0; turns < 10000; turns++)
            ;
        now = seconds(CLOCK_MONOTONIC);
    } while (now - start < wanted);
    used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%.0f\n", 100 * used / (now - start));
    return 0;
}

static int direct_write(const char *path, long megabytes)
{
    /* Small against a limit of 1 MB/s, so that a single request does not overshoot it by much. */
    const size_t size = 128 << 10;
    void *block;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (file < 0)
        return refused("open", 0);
    if (posix_memalign(&block, 4096, size))
        return refused("memalign", 0);
    memset(block, 1, size);
    double start = seconds(CLOCK_MONOTONIC);
    for (size_t done = 0; done < megabytes * MB; done += size)
        if (write(file, block, size) != (ssize_t)size)
            return refused("write", done);
    fsync(file);
    printf("%.0f\n", 1000 * (seconds(CLOCK_MONOTONIC) - start));
    return 0;
}

static _Noreturn void linger(void)
{
    if (fork() == 0)
        setsid();
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const char *first = argc > 2 ? argv[2] : "0";
    long number = atol(first);
    if (!strcmp(name, "linger"))
        linger();
    if (!strcmp(name, "direct-write") && argc > 3)
        return direct_write(first, atol(argv[3]));
    if (number > 0) {
        if (!strcmp(name, "malloc"))
            return use_malloc(number);
        if (!strcmp(name, "shm"))
            return use_shm(number);
        if (!strcmp(name, "memfd"))
            return use_file(memfd_create("probe", 0), number);
        if (!strcmp(name, "tmpfs"))
            return use_file(open("/tmp/probe", O_WRONLY | O_CREAT | O_TRUNC, 0600), number);
        if (!strcmp(name, "forks"))
            return forks(number);
        if (!strcmp(name, "burn"))
            burn(number);
        if (!strcmp(name, "work"))
            return work(atof(first));
    }
    fprintf(stderr, "probe: called wrongly\n");
    return 2;
}

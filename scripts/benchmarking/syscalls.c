/* Time per call of a few cheap system calls, in nanoseconds: getppid, open and close, stat. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *file = argv[1];
    long cheap = atol(argv[2]), files = atol(argv[3]);
    struct stat about;

    double begin = now();
    for (long i = 0; i < cheap; i++)
        syscall(SYS_getppid);
    printf("%f\n", (now() - begin) / cheap);

    begin = now();
    for (long i = 0; i < files; i++) {
        int fd = open(file, O_RDONLY);
        if (fd < 0)
            return 1;
        close(fd);
    }
    printf("%f\n", (now() - begin) / files);

    begin = now();
    for (long i = 0; i < files; i++)
        if (stat(file, &about) != 0)
            return 1;
    printf("%f\n", (now() - begin) / files);
    return 0;
}

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"

// A parser's warnings would be most of what a fuzzer prints.
__attribute__((constructor)) static void be_quiet(void)
{
    sl_log_set_level(SL_LOG_ERROR);
}

const char *fuzz_file(int which, const void *data, size_t n)
{
    static char paths[2][64];
    static int fds[2] = {-1, -1};
    int *fd = &fds[which];
    if (*fd < 0)
        *fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, 0) != 0 || pwrite(*fd, data, n, 0) != (ssize_t)n) {
        perror("fuzz: a file for the input");
        exit(1);
    }
    snprintf(paths[which], sizeof paths[which], "/proc/self/fd/%d", *fd);
    return paths[which];
}

char *fuzz_text(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    if (!text)
        exit(1);
    if (n)
        memcpy(text, data, n);
    text[n] = '\0';
    return text;
}

char *fuzz_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');
    if (end)
        *end++ = '\0';
    *rest = end ? end : line + strlen(line);
    return line;
}

void fuzz_touch(const void *bytes, size_t n)
{
    const volatile unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        (void)p[i];
}

void fuzz_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: wanted %s; the last message is: %s\n", file, line, condition,
            sl_error_message());
    abort();
}

/*
 * driver.c - runs a target without libFuzzer: its corpus, and a number of seeded changes of it.
 *
 *     TARGET [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-artifact_prefix=P] FILE|FOLDER...
 *
 * The options are libFuzzer's, so that whoever starts a target need not know which one it is. Each
 * file is run once, in the order of the names; then N inputs (0: none), or as many as fit into the
 * time, are made from them by small changes. The same seed and files give the same inputs, without
 * an eye for coverage: that is libFuzzer's business.
 *
 * The input under way lies in a mapped file, P and "input", which is removed at a good end: however
 * the process dies, it is there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/philox.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_BYTES = 1 << 20, INPUTS_MAX = 4096, CHANGES_MAX = 4, PATH_BYTES = 4096 };

struct input {
    uint8_t *bytes;
    size_t n;
};

struct driver {
    struct input inputs[INPUTS_MAX];
    size_t n_inputs;
    uint64_t runs, seconds, seed, round;
    uint32_t draws; // of this round
    char path[PATH_BYTES];
    uint8_t *now; // (INPUT_BYTES) the input under way, in the file
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint32_t draw(struct driver *d, size_t below)
{
    uint32_t round = (uint32_t)d->round, high = (uint32_t)(d->round >> 32);
    uint32_t x = sl_philox(d->seed, high, d->draws++, round, 0).w[0];
    return below ? (uint32_t)(x % below) : 0;
}

// --- inputs --------------------------------------------------------------------------------------

static void take_file(struct driver *d, const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &st) != 0 || st.st_size > INPUT_BYTES || d->n_inputs == INPUTS_MAX)
        die(path);
    struct input *in = &d->inputs[d->n_inputs++];
    in->n = (size_t)st.st_size;
    in->bytes = malloc(in->n + 1);
    if (!in->bytes || fread(in->bytes, 1, in->n, f) != in->n)
        die(path);
    fclose(f);
}

static void take_path(struct driver *d, const char *path)
{
    struct stat st;
    struct dirent **names;
    if (stat(path, &st) != 0)
        die(path);
    if (!S_ISDIR(st.st_mode)) {
        take_file(d, path);
        return;
    }
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        die(path);
    for (int i = 0; i < n; i++) {
        char file[PATH_BYTES];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            take_file(d, file);
        free(names[i]);
    }
    free(names);
}

static void run(struct driver *d, size_t n)
{
    // Of just the size: a sanitizer sees a read beyond it.
    uint8_t *bytes = malloc(n ? n : 1);
    if (!bytes)
        die("fuzz: memory");
    memcpy(bytes, d->now, n);
    LLVMFuzzerTestOneInput(bytes, n);
    free(bytes);
}

// --- changes -------------------------------------------------------------------------------------

// Replaces d->now[at..at + cut) by the n bytes; the new length of the input.
static size_t put(struct driver *d, size_t size, size_t at, size_t cut, const void *bytes, size_t n)
{
    cut = SL_MIN(cut, size - at);
    if (size - cut + n > INPUT_BYTES)
        return size;
    memmove(d->now + at + n, d->now + at + cut, size - at - cut);
    memcpy(d->now + at, bytes, n);
    return size - cut + n;
}

static size_t change(struct driver *d, size_t size)
{
    static const uint64_t numbers[] = {0,      1,         0x7f,       0x80,      0xff,
                                       0xffff, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const char *const words[] = {"0",    "-1",   "1e999", "18446744073709551616",
                                        "\"",   "{",    "}",     "[",
                                        "]",    ",",    ":",     "\\u0000",
                                        "null", "true", "\n"};
    size_t at = draw(d, size + 1), n = 1 + draw(d, 16);
    uint8_t byte = (uint8_t)draw(d, 256);
    uint64_t number = numbers[draw(d, SL_COUNT_OF(numbers))] + draw(d, 3) - 1;
    const char *word = words[draw(d, SL_COUNT_OF(words))];
    const struct input *other = &d->inputs[draw(d, d->n_inputs)];
    size_t from = draw(d, other->n);
    switch (draw(d, 8)) {
    case 0: return put(d, size, at, 1, &byte, 1);
    case 1: return put(d, size, at, n, "", 0);
    case 2: return put(d, size, at, 0, &byte, 1);
    case 3: // a number of one to eight bytes
        n = (size_t)1 << draw(d, 4);
        return put(d, size, at, n, &number, n);
    case 4: return put(d, size, at, draw(d, 2), word, strlen(word));
    case 5: // a piece of another one
        return put(d, size, at, draw(d, 2) * n, other->bytes + from,
                   SL_MIN(other->n - from, n * 4));
    case 6:
        if (at < size)
            d->now[at] ^= (uint8_t)(1 << draw(d, 8));
        return size;
    default: return draw(d, 8) ? size : at; // the end is missing
    }
}

// --- the run -------------------------------------------------------------------------------------

static const char *value_of(const char *argument, const char *name)
{
    size_t n = strlen(name);
    return strncmp(argument, name, n) == 0 ? argument + n : NULL;
}

static void parse(struct driver *d, int argc, char **argv)
{
    const char *v;
    snprintf(d->path, sizeof d->path, "input");
    for (int i = 1; i < argc; i++)
        if ((v = value_of(argv[i], "-runs=")))
            d->runs = strtoull(v, NULL, 10);
        else if ((v = value_of(argv[i], "-max_total_time=")))
            d->seconds = strtoull(v, NULL, 10);
        else if ((v = value_of(argv[i], "-seed=")))
            d->seed = strtoull(v, NULL, 10);
        else if ((v = value_of(argv[i], "-artifact_prefix=")))
            snprintf(d->path, sizeof d->path, "%sinput", v);
        else if (argv[i][0] != '-') // libFuzzer's other options mean nothing here
            take_path(d, argv[i]);
}

static void map_input(struct driver *d)
{
    int fd = open(d->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, INPUT_BYTES) != 0)
        die(d->path);
    d->now = mmap(NULL, INPUT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (d->now == MAP_FAILED)
        die(d->path);
    close(fd);
}

int main(int argc, char **argv)
{
    static struct driver d;
    parse(&d, argc, argv);
    map_input(&d);
    for (size_t i = 0; i < d.n_inputs; i++) {
        memcpy(d.now, d.inputs[i].bytes, d.inputs[i].n);
        run(&d, d.inputs[i].n);
    }
    time_t end = time(NULL) + (time_t)d.seconds;
    while (d.n_inputs && (d.round < d.runs || (d.seconds && time(NULL) < end))) {
        d.draws = 0;
        const struct input *in = &d.inputs[draw(&d, d.n_inputs)];
        size_t n = in->n;
        memcpy(d.now, in->bytes, n);
        for (uint32_t i = 1 + draw(&d, CHANGES_MAX); i > 0; i--)
            n = change(&d, n);
        run(&d, n);
        d.round++;
    }
    unlink(d.path);
    printf("%zu inputs, %llu changed ones\n%zu passed, 0 failed\n", d.n_inputs,
           (unsigned long long)d.round, d.n_inputs + (d.round > 0));
    for (size_t i = 0; i < d.n_inputs; i++)
        free(d.inputs[i].bytes);
    return d.n_inputs ? EXIT_SUCCESS : EXIT_FAILURE;
}

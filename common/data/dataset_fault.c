/*
 * The handler runs in the middle of anything, so it calls nothing but write(2) and looks only at
 * what does not move: the data sets that are open stand in a table of pointers, each set before a
 * byte of it is read through a mapping, and taken out before it is unmapped.
 */
#include "common/data/dataset_fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/data/dataset_files.h"

enum { OPEN_MAX_SETS = 8 }; // at once, of one process; those beyond are not named

static const struct sl_dataset_files *_Atomic opened[OPEN_MAX_SETS];
static const char *who_says;

static bool exchange(const struct sl_dataset_files *from, const struct sl_dataset_files *to)
{
    for (int i = 0; i < OPEN_MAX_SETS; i++) {
        const struct sl_dataset_files *expected = from;
        if (atomic_compare_exchange_strong(&opened[i], &expected, to))
            return true;
    }
    return false;
}

void sl_dataset_faults_begin(const struct sl_dataset_files *files)
{
    (void)exchange(NULL, files);
}

void sl_dataset_faults_end(const struct sl_dataset_files *files)
{
    (void)exchange(files, NULL);
}

struct line {
    char text[2 * 4096 + 256];
    size_t n;
};

static void add(struct line *l, const char *text)
{
    while (*text && l->n < sizeof l->text - 1)
        l->text[l->n++] = *text++;
}

// stripes: that the file `name` is mapped from, or NULL.
static void add_path(struct line *l, const struct sl_dataset_files *files, const char *name,
                     const struct sl_stripes *s, uint64_t at)
{
    if (s) {
        uint32_t file;
        uint64_t offset;
        sl_stripes_place(s->unit_bytes, s->n, at, &file, &offset);
        add(l, s->file[file].path);
        return;
    }
    add(l, files->directory);
    add(l, "/");
    add(l, name);
}

static bool is_in(const struct sl_npy *npy, const char *address)
{
    const char *map = npy->map;
    return map && address >= map && address < map + npy->file_bytes;
}

static bool add_file(struct line *l, const struct sl_dataset_files *files, const char *address)
{
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        if (!is_in(&files->npy[f], address))
            continue;
        add_path(l, files, sl_dataset_file_name((enum sl_dataset_file)f),
                 f == SL_FILE_FEAT ? sl_dataset_stripes(files, 0) : NULL,
                 (uint64_t)(address - (const char *)files->npy[f].map));
        return true;
    }
    for (uint32_t t = 0; t < files->n_typed; t++) {
        if (!is_in(&files->typed[t].npy, address))
            continue;
        add_path(l, files, files->typed[t].name, sl_dataset_stripes(files, t),
                 (uint64_t)(address - (const char *)files->typed[t].npy.map));
        return true;
    }
    return false;
}

// Afterwards the access is tried again, and the signal, which has no handler any more, kills.
static void on_fault(int number, siginfo_t *info, void *context)
{
    static struct line line; // the first fault is the one that counts
    (void)context;
    if (info->si_code <= 0) { // sent by somebody: nothing is tried again
        raise(number);
        return;
    }
    add(&line, who_says);
    add(&line, ": ");
    bool found = false;
    for (int i = 0; i < OPEN_MAX_SETS && !found; i++) {
        const struct sl_dataset_files *files = atomic_load(&opened[i]);
        found = files && add_file(&line, files, info->si_addr);
    }
    add(&line, found ? ": was made shorter while it was in use, or its drive cannot be read: leave "
                       "it as it is while a job uses it\n"
                     : "a page of a file that is mapped cannot be had: look whether /dev/shm is "
                       "full, or whether a file was made shorter\n");
    ssize_t ignored = write(STDERR_FILENO, line.text, line.n);
    (void)ignored;
}

void sl_dataset_name_faults(const char *who)
{
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    who_says = who;
    sigaction(SIGBUS, &sa, NULL);
}

/*
 * shared_copy.h - a part of the data set in memory that any driver pins, one copy for all workers.
 *
 * The files of a data set are mapped to be read only, and many drivers pin no such memory. The copy
 * is a shared array (shared_array.h): whoever comes first makes it, on all of its threads, part by
 * part in huge pages where the kernel grants them.
 */
#ifndef SL_ARENA_SHARED_COPY_H
#define SL_ARENA_SHARED_COPY_H

#include "common/arena/shared_array.h"

struct sl_shared_copy {
    int fd; // of the array
    const void *from;
    uint64_t bytes;
    int threads;               // at least 1
    const _Atomic bool *stops; // or NULL
    // Asked before the copy is made; its error is returned. NULL: it may be made.
    int (*may)(void *ctx, uint64_t bytes);
    void *ctx;
};

// Errors of sl_shared_array_open() and may(); SL_EABORTED when it was stopped meanwhile.
int sl_shared_copy_open(const struct sl_shared_copy *copy, struct sl_shared_array *out);

// "123 MiB in pages of 2 MiB, made here in 0.12 s": for logs; ns: what opening it took.
enum { SL_SHARED_COPY_TEXT_BYTES = 96 };
const char *sl_shared_copy_text(const struct sl_shared_array *a, uint64_t bytes, uint64_t ns,
                                char out[SL_SHARED_COPY_TEXT_BYTES]);

#endif

/*
 * record_sort.h - sorts any number of records (a key and a payload each) in bounded memory: names
 * of vertices, rows of tables.
 *
 * Keys are bytes and compare as memcmp() has it, a shorter one before what continues it; equal keys
 * come out in the order in which they were added. One thread.
 */
#ifndef SL_DATASET_RECORD_SORT_H
#define SL_DATASET_RECORD_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_record_sort;

struct sl_record {
    const void *key, *payload; // any alignment
    uint32_t key_bytes, payload_bytes;
};

// Records that do not fit memory_bytes go to a file without a name in `dir`; a record that is
// larger than all of it takes what it needs. SL_ENOMEM.
int sl_record_sort_create(const char *dir, uint64_t memory_bytes, struct sl_record_sort **out);
void sl_record_sort_destroy(struct sl_record_sort *s); // NULL is fine

int sl_record_sort_add(struct sl_record_sort *s, const struct sl_record *r); // SL_EIO, SL_ENOMEM

int sl_record_sort_finish(struct sl_record_sort *s); // no more are added

// The next record, borrowed until the next call; *more is false behind the last one. SL_EIO.
int sl_record_sort_next(struct sl_record_sort *s, struct sl_record *out, bool *more);

uint64_t sl_record_sort_runs(const struct sl_record_sort *s); // that were written to the file

#endif

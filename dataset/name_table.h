/*
 * name_table.h - numbers different names 0, 1, 2, ... in the order of their first appearance, as
 * many as fit a given memory.
 */
#ifndef SL_DATASET_NAME_TABLE_H
#define SL_DATASET_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_name_table {
    char *text; // (text_bytes) of every name: its number, its length, its bytes
    size_t text_bytes, used;
    uint64_t *slots; // (n_slots) hash << 40 | place in the text + 1; 0 = free
    size_t n_slots, max_slots;
    uint32_t n; // names
};

// Memory is taken as names come; a few of the longest names always fit. SL_ENOMEM.
int sl_name_table_init(struct sl_name_table *t, uint64_t memory_bytes);
void sl_name_table_fini(struct sl_name_table *t); // safe on a zeroed struct

// A hint that the name is looked up next: two that are announced together wait for memory once.
void sl_name_table_expect(const struct sl_name_table *t, const char *name, size_t n);

// The number of a name, new or not; *full and no number when there is no room for another one.
int sl_name_table_put(struct sl_name_table *t, const char *name, size_t n, uint32_t *number,
                      bool *full);

// A name that is there: its number, else false.
bool sl_name_table_find(const struct sl_name_table *t, const char *name, size_t n,
                        uint32_t *number);

// The names in the order of their numbers: *at begins at 0; false behind the last one.
bool sl_name_table_next(const struct sl_name_table *t, size_t *at, const char **name, size_t *n);

void sl_name_table_clear(struct sl_name_table *t); // keeps the memory

#endif

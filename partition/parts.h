/*
 * parts.h - a partition: which part each vertex is in, how even the parts are, what they cut.
 *
 * In a file it is one array, uint8 of up to 256 parts and uint16 of more, with an entry a vertex.
 */
#ifndef SL_PARTITION_PARTS_H
#define SL_PARTITION_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/text/progress.h"

enum { SL_PARTITION_PARTS_MAX = SL_SHARDS_MAX, SL_PARTITION_NO_PART = 65535 };

// What a method is given. It fills part (n_nodes) with numbers below n_parts.
struct sl_parts_task {
    const struct sl_dataset *ds; // of at least n_parts vertices
    const uint8_t *training;     // a bit for each vertex: sl_parts_training()
    uint32_t n_parts;
    double slack; // how much fuller than the mean a part may be: 0.03
    struct sl_progress *progress;
};

static inline bool sl_parts_is_training(const uint8_t *training, uint64_t v)
{
    return training[v / 8] >> v % 8 & 1;
}

// The most that a part may hold of n when it may be fuller than the mean by `slack`; no less than
// what n leaves for the fullest of even parts.
uint64_t sl_parts_limit(uint64_t n, uint32_t n_parts, double slack);

// A bit for each vertex, set for those of the training set. Owned: free(); NULL: no memory.
uint8_t *sl_parts_training(const struct sl_dataset *ds);

// How something is spread over the parts.
struct sl_parts_spread {
    uint64_t n; // in all
    uint64_t fullest, least;
    uint32_t n_empty; // parts that have none
    bool is_even;     // no part has more than it may
};

// Of the vertices, and of those for training. O(V); SL_ENOMEM.
int sl_parts_count(const struct sl_parts_task *t, const uint16_t *part,
                   struct sl_parts_spread *vertices, struct sl_parts_spread *training);

/*
 * Gives each part that has no vertex one of a part that has more than the mean: methods leave
 * parts empty, and a node needs something to hold. O(V); *n_moved says how many; SL_ENOMEM.
 */
int sl_parts_fill_empty(uint32_t n_parts, uint64_t n_nodes, uint16_t *part, uint32_t *n_moved);

// Edges of the data set, each as often as it is stored, whose ends are in different parts. O(E);
// SL_EABORTED.
int sl_parts_cut(const struct sl_parts_task *t, const uint16_t *part, uint64_t *n_cut);

// Writes the file, whole or not at all. As sl_npy_writer_open() and commit().
int sl_parts_write(const char *path, uint32_t n_parts, uint64_t n_nodes, const uint16_t *part);

// Reads such a file, or one of other integers. SL_EFORMAT where it has not a number below n_parts
// for each of n_nodes vertices; as sl_npy_open().
int sl_parts_read(const char *path, uint32_t n_parts, uint64_t n_nodes, uint16_t *part);

enum { SL_PARTS_TICK = 65536 }; // vertices between two looks at Ctrl-C
// Behind each vertex of a stage: now and then shows how far it is. SL_EABORTED.
int sl_parts_tick(struct sl_progress *progress, uint64_t v);

#endif

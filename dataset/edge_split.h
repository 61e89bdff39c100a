/*
 * edge_split.h - holds out edges of a data set, for models of links: a data set whose graph lacks
 * them, with val_edges.npy and test_edges.npy. It is made of another one, or is one that an import
 * has just written.
 */
#ifndef SL_DATASET_EDGE_SPLIT_H
#define SL_DATASET_EDGE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dataset/dataset_builder.h"
#include "dataset/file_share.h"

// What is held out together: an edge and its reverse, or an edge by itself.
enum sl_edge_split_pairs { SL_EDGE_SPLIT_AUTO, SL_EDGE_SPLIT_UNDIRECTED, SL_EDGE_SPLIT_DIRECTED };
extern const char *const sl_edge_split_pairs[]; // their names, NULL behind the last

struct sl_edge_split {
    struct sl_dataset_builder making; // of the command
    const char *source;
    const char *relation; // of a graph of several types: whose edges are held out; else NULL
    double val, test;     // shares of the pairs
    uint64_t seed;
    int pairs;          // enum sl_edge_split_pairs
    bool keep_one;      // no vertex loses its last edge
    bool by_time;       // of an import: edge_weight.npy has times (sl_edge_split_time)
    uint64_t n_threads; // 0 = all

    // Found.
    bool undirected;
    uint64_t n_pairs, n_held[2]; // all, and of them test and validation
    uint64_t n_edges, n_left;    // before and afterwards
    uint64_t n_bare;             // vertices whose in-edges are all gone
    struct sl_file_share shared; // files that stay as they are
};

// A time in the place of a weight, whose float has the time's bits, so that the larger one is the
// later one: whole numbers below this are exact.
#define SL_EDGE_SPLIT_TIME_END UINT32_C(0x7f800000) // the bits of infinity

static inline float sl_edge_split_time(uint32_t time)
{
    float x;
    memcpy(&x, &time, sizeof x);
    return x;
}

/*
 * SL_EINVAL: shares that leave nothing, a relation that is not there, a graph not undirected where
 * it is said to be, a data set that has held out edges already, or, with keep_one, too few
 * edges that may go. SL_ENOMEM, and what reading the data set and writing files fail with.
 */
int sl_edge_split_run(struct sl_edge_split *run);

/*
 * The same of the whole data set in `st`, whose files it replaces; run->making is not used. By time
 * the latest pairs are the test, the latest of the others the validation, so that no edge that
 * stays is later than one that went; a pair has the time of its latest edge, and the weights, which
 * are times, go. `who`: "import edgelist FILE", for messages.
 */
int sl_edge_split_in_place(struct sl_edge_split *run, const struct sl_staging *st,
                           struct sl_progress *progress, const char *who);
void sl_edge_split_summarise(const struct sl_edge_split *run, struct sl_table *t);

#endif

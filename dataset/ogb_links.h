/*
 * ogb_links.h - the split of a link property prediction data set of OGB: SRC/split/SCHEME/train.pt,
 * valid.pt and test.pt, or all of them in split_dict.pt. Each is a dictionary of arrays:
 *
 *   edge (n, 2)                     pairs: ogbl-ppa, -collab, -ddi and -vessel
 *   source_node, target_node (n)    pairs: ogbl-citation2
 *   weight (n)                      of the pairs: ogbl-collab, whose year is not used
 *   edge_neg (m, 2)                 pairs that are no edges, for all edges alike
 *   target_node_neg (n, k)          of each source k targets that are no edges
 */
#ifndef SL_DATASET_OGB_LINKS_H
#define SL_DATASET_OGB_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/import.h"
#include "dataset/torch_file.h"

struct sl_ogb_links {
    uint64_t n[SL_SPLIT_COUNT], n_negatives[SL_SPLIT_COUNT];
    uint32_t per_positive[SL_SPLIT_COUNT]; // of n_negatives; 0: they are pairs
    bool weighted;
};

// One part: the dictionary of `t`, or the one in it under `group`. file: its name, for messages.
int sl_ogb_links_read(struct sl_import *im, const struct sl_torch_file *t, const char *file,
                      const char *group, enum sl_split split, uint64_t n_nodes,
                      struct sl_ogb_links *out);

void sl_ogb_links_summarise(const struct sl_ogb_links *l, struct sl_table *t);

#endif

/*
 * metapath_names.h - what walks go along on a graph of several types: sampler.metapaths, as in
 * {"near": ["user -likes-> item", "item -liked_by-> user"]}. A job file is read without its data
 * set: names are kept, and looked up when there is one.
 */
#ifndef SL_CONFIG_METAPATH_NAMES_H
#define SL_CONFIG_METAPATH_NAMES_H

#include <stdint.h>

#include "common/data/typed.h"

enum { SL_METAPATHS_MAX = 16 };

struct sl_named_path {
    char name[SL_TYPE_NAME_BYTES];
    uint32_t n_steps;
    char step[SL_METAPATH_STEPS_MAX][sizeof(struct sl_relation_text)]; // as in sampler.fanout
};

struct sl_metapaths {
    uint32_t n;
    struct sl_named_path path[SL_METAPATHS_MAX]; // by name: the file's order changes nothing
};

#endif

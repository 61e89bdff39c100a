/*
 * fanout_names.h - neighbours by relation: sampler.fanout and evaluate.fanout of a graph of several
 * types may name its relations, as in {"author -writes-> paper": [15, 10], "cites": [5, 5],
 * "*": [2, 2]}. A job file is read without its data set: names are kept, and looked up when there
 * is one.
 */
#ifndef SL_CONFIG_FANOUT_NAMES_H
#define SL_CONFIG_FANOUT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"

enum { SL_FANOUT_MAX_HOPS = 8, SL_FANOUT_MAX_NAMES = 64 };

struct sl_named_fanout {
    char name[sizeof(struct sl_relation_text)]; // a relation, or its bare name if only one has it
    int64_t fanout[SL_FANOUT_MAX_HOPS];         // 0: none of it in that hop
};

struct sl_fanout_names {
    uint32_t n;
    bool has_rest; // "*": the list is for those that are not named; else they are missing
    struct sl_named_fanout named[SL_FANOUT_MAX_NAMES];
    // No key: (hops, relations) once the names have been looked up. Owned. NULL: the list is for
    // every relation.
    int64_t *by_relation;
};

// Whether the job has an object, and not a list for every relation.
static inline bool sl_fanout_is_named(const struct sl_fanout_names *names)
{
    return names->n > 0 || names->has_rest;
}

#endif

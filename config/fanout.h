/*
 * fanout.h - neighbours by relation: sampler.fanout and evaluate.fanout of a graph of several types
 * may name its relations, as in {"author -writes-> paper": [15, 10], "cites": [5, 5], "*": [2, 2]}.
 * A job file is read without its data set: names are kept, and looked up when there is one.
 */
#ifndef SL_CONFIG_FANOUT_H
#define SL_CONFIG_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"

struct sl_config;

enum { SL_FANOUT_MAX_HOPS = 8, SL_FANOUT_MAX_NAMES = 64 };

struct sl_named_fanout {
    char name[sizeof(struct sl_relation_text)]; // a relation, or its bare name if only one has it
    int64_t fanout[SL_FANOUT_MAX_HOPS];         // 0: none of it in that hop
};

struct sl_fanout_names {
    uint32_t n;    // 0: the list is for every relation
    bool has_rest; // ... "*": it is for those that are not named; else they are missing
    struct sl_named_fanout named[SL_FANOUT_MAX_NAMES];
    // No key: (hops, relations) once the names have been looked up. Owned. NULL: the list is for
    // every relation.
    int64_t *by_relation;
};

/*
 * Looks the names of both keys up in the data set's relations. SL_EINVAL with a message that begins
 * with the key: a name that no relation has, or several; a relation that two names mean, or none;
 * SL_ENOMEM.
 */
int sl_config_find_relations(struct sl_config *c, const struct sl_typed *typed);
void sl_config_forget_relations(struct sl_config *c); // safe on a zeroed struct

#endif

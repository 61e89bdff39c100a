/*
 * survey.h - what the first node finds out about all: `sluice doctor --nodes`.
 *
 *      every node   writes down its facts, which may take a while, and sends them
 *      first node   compares them, asks each for its clock, has each pair measured, one at a time,
 *                   unless something is wrong already; then it tells all how it went
 */
#ifndef SL_NODES_SURVEY_H
#define SL_NODES_SURVEY_H

#include "nodes/facts.h"
#include "nodes/links.h"
#include "nodes/world.h"

struct sl_survey;

enum { SL_SURVEY_LINKS_S = 60 }; // no pair is begun after so long

struct sl_survey_spec {
    int (*look)(void *ctx, struct sl_facts *facts); // in a thread of its own
    void *ctx;
    uint64_t (*wall_ns)(void); // this node's clock; NULL: CLOCK_REALTIME
    bool compares_only;        // nothing is measured
    // On the first node, when all is known and nobody has been told.
    void (*show)(void *ctx, const struct sl_world *w, const struct sl_survey *s);
};

struct sl_survey {
    struct sl_facts *facts; // (size) of all nodes
    double *clock_ahead_s;  // (size) of the first node's clock
    struct sl_node_notes notes;
    struct sl_link *link; // (n_links) in the order in which they were measured
    uint32_t n_links, n_pairs;
};

// Everybody calls it. *problems is what the first node has found. Errors of world.h, of look().
int sl_survey_run(struct sl_world *w, const struct sl_survey_spec *spec, uint32_t *problems);

#endif

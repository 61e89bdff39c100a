/*
 * node_facts.h - what a node has that has to be the same on all of them (nodes/facts.h): `sluice
 * doctor --nodes` and the link of a job look at the same things.
 */
#ifndef SL_LINK_NODE_FACTS_H
#define SL_LINK_NODE_FACTS_H

#include "common/data/dataset.h"
#include "nodes/facts.h"

// XXH3 of a file's bytes. SL_ENOENT, SL_EIO, ...
int sl_node_facts_digest(const char *path, uint64_t *digest);

// This program, the processor, the size of a page.
int sl_node_facts_add_machine(struct sl_facts *f);
// The programs of a job that lie beside this one.
int sl_node_facts_add_programs(struct sl_facts *f);
// The contents of an open data set.
int sl_node_facts_add_dataset(struct sl_facts *f, const struct sl_dataset *ds);
// The keys of a job, as resolved, that have to agree.
int sl_node_facts_add_job(struct sl_facts *f, const char *config_json);

#endif

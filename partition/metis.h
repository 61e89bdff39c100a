/*
 * metis.h - METIS 5, loaded when it is asked for: no program needs it to start.
 *
 * METIS draws from the C library's rand(), so that two calls at once differ each time; it cannot be
 * interrupted; it ends its process where memory is short. So a call is a child process of its own,
 * which shares the graph and leaves with SIGKILL, the parent's death included. METIS keeps its own
 * fixed seed: the same graph has the same parts.
 *
 * Options of METIS have other places in other versions, so none are given: what is asked for are
 * arguments.
 */
#ifndef SL_PARTITION_METIS_H
#define SL_PARTITION_METIS_H

#include "partition/symmetric.h"

#define SL_METIS_FILE "libmetis.so.5"

struct sl_metis {
    int (*recursive)(int32_t *, int32_t *, int32_t *, int32_t *, int32_t *, int32_t *, int32_t *,
                     int32_t *, float *, float *, int32_t *, int32_t *, int32_t *);
    int (*kway)(int32_t *, int32_t *, int32_t *, int32_t *, int32_t *, int32_t *, int32_t *,
                int32_t *, float *, float *, int32_t *, int32_t *, int32_t *);
};

// Loads SL_METIS_FILE, or what SLUICE_METIS names. SL_ENOENT with the package that has it;
// SL_EUNSUPPORTED for a library that is none of 32-bit numbers.
int sl_metis_open(struct sl_metis *out);

// Memory that METIS takes beside a graph of so many entries, about.
uint64_t sl_metis_bytes(uint64_t n_nodes, uint64_t n_entries);

/*
 * kway: direct k-way partitioning for a small cut, vertices even. Else recursive bisection,
 * vertices and training vertices even. SL_EFAILED where METIS refuses, dies, or answers with no
 * partition; SL_EABORTED on Ctrl-C; SL_ENOMEM. *peak_bytes: the most memory that the child had.
 */
int sl_metis_partition(const struct sl_metis *metis, const struct sl_parts_task *t,
                       const struct sl_symmetric_graph *graph, bool kway, uint16_t *part,
                       uint64_t *peak_bytes);

#endif

// topology.h - the graph a sampler reads: neighbour lists, labels and splits, mapped.
#ifndef SL_SAMPLER_TOPOLOGY_H
#define SL_SAMPLER_TOPOLOGY_H

#include "common/data/dataset.h"
#include "common/data/self_loops.h"
#include "common/arena/shared_array.h"
#include "kernels/kernels.h"

struct sl_topology {
    struct sl_dataset dataset;
    struct sl_topology_view view; // of the data set's arrays
    struct sl_shared_array sums;  // view.weight_prefix (n_edges), where something samples by weight
    struct sl_self_loops self_loops; // none unless they were looked for
    bool locked;                     // in memory: what has been read stays there
    // How a hop's lists are asked for before it is drawn; NULL: they are not.
    void (*ahead)(const void *p, uint64_t bytes, int advice);
};

/*
 * Opens the data set at `path`, as the broker has validated it (`record`; NULL: it is validated
 * here). need: SL_NEED_TIMES; SL_NEED_WEIGHTS, with their running sums, 8 bytes an edge, which the
 * first sampler makes for all in the file `sums_fd`; below 0: each for itself. Errors as
 * sl_dataset_open_recorded(), SL_EINVAL for a weight that cannot be, SL_ENOMEM.
 */
int sl_topology_open(struct sl_topology *t, const char *path, const char *record, unsigned need,
                     int sums_fd, const struct sl_kernels *kernels, int threads);
// For a job that samples by weight: degrees leave out edges of weight 0 from then on. 4 bytes a
// vertex where the graph has some. SL_ENOMEM.
int sl_topology_drop_weightless(struct sl_topology *t, int threads);
// In-degree of v as blocks carry it: without self-loops and edges of weight 0 where those are to be
// left out.
uint64_t sl_topology_degree(const struct sl_topology *t, uint32_t v);
// Looks for the graph's self-loops: from then on the degrees of blocks are without them. SL_ENOMEM.
int sl_topology_find_self_loops(struct sl_topology *t, int threads);
/*
 * The processor is going to draw: neighbours are read here and there from now on, and reading files
 * ahead would only push other pages out. (A device's copy is read front to back instead.)
 *
 *   at most half of the memory that is available   asked for in huge pages, which file systems with
 *                                                  large folios give to files that are not in
 *                                                  memory yet; and where features would push it
 *                                                  out, locked as it is read (RLIMIT_MEMLOCK)
 *   more than all of it                            a hop's lists are asked for all at once before
 *                                                  they are drawn from
 *
 * Every sampler maps the same pages.
 */
void sl_topology_expect_draws(struct sl_topology *t);

// A device is going to read it: makes what samplers share fit to be pinned, for what the device has
// no room for.
int sl_topology_expect_device(struct sl_topology *t);

enum { SL_TOPOLOGY_AHEAD_BYTES = 65536 }; // the longest list that is asked for

// A hop is going to read the lists of these vertices (n) in the view, with the times of its edges
// where there are some (else NULL). Nothing where the graph fits in memory.
void sl_topology_read_ahead(const struct sl_topology *t, const struct sl_topology_view *view,
                            const int64_t *time, const uint32_t *nodes, uint32_t n);

// Of a typed graph: the view whose row v is the row of vertex v in the relation.
struct sl_topology_view sl_topology_relation(const struct sl_topology *t, uint32_t relation);
// What walks go along from that view's rows on: a metapath, or the relation alone.
struct sl_walk_path sl_topology_path(const struct sl_topology *t, uint32_t relation);
// The times of that view's edges, NULL: the relation has none.
const int64_t *sl_topology_relation_times(const struct sl_topology *t, uint32_t relation);

// Logs how much of the files and of the running sums lies in huge pages.
void sl_topology_log_pages(void);
void sl_topology_close(struct sl_topology *t); // safe on a zeroed struct

// Bytes that a device which samples would hold: offsets, neighbours, running sums, labels.
uint64_t sl_topology_resident_bytes(const struct sl_topology *t);

#endif

/*
 * graph_placement.h - the graph where a GPU reads it: in its memory, or in the machine's, in place.
 *
 * PROBLEM. A GPU samples at the speed of the memory that the graph lies in. Its own is the fastest
 * and the smallest; the machine's is read over the bus, where each access of a few bytes costs a
 * line of 32.
 *
 * DESIGN. Array by array is decided by what it is worth: first what all rows read (offsets, the
 * degrees for a GCN), then neighbours with their running sums, row after row from vertex 0 on as
 * far as the part of the device that a sampler may take has room. The others are mapped, and read
 * in place (GIDS 3.2, "UVA"). Where an edge lies follows from its number by one comparison, so no
 * table says it; which rows the device has is the order of the vertices (XGNN 4.1), and `sluice
 * reorder --by reads` puts those first of whose entries most are read. The rest stays to the
 * trainer that shares it. Labels and splits stay with the processor, which writes them into blocks.
 * Several samplers' GPUs may hold the edges together, in the room that each has for its own
 * (sampler/share.h).
 *
 * FILES. Many systems let no device read the mapping of a file, since it cannot be written (struct
 * sl_gpu's maps_files). There the array is copied once for all samplers
 * (common/arena/shared_copy.h), with a line in the log. Whatever goes to the device is read front
 * to back, and asked of the disk ahead.
 *
 * FAILURE. An array that is mapped must stay in the machine's memory: a file of more than what is
 * available, or a copy of more than half of it before it is made, ends the job with the figures.
 * A sampler that dies while it copies is followed by another one.
 */
#ifndef SL_SAMPLER_GRAPH_PLACEMENT_H
#define SL_SAMPLER_GRAPH_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"
#include "common/arena/shared_copy.h"
#include "common/arena/store_way.h"
#include "sampler/topology.h"

enum sl_graph_placement_array {
    SL_RESIDENT_OFFSETS,
    SL_RESIDENT_DEGREES,
    SL_RESIDENT_NEAR_NEIGHBOURS, // of the first edges, in the device's memory
    SL_RESIDENT_NEAR_SUMS,
    SL_RESIDENT_FAR_NEIGHBOURS, // of the others, or of all
    SL_RESIDENT_FAR_SUMS,
    SL_GRAPH_PLACEMENT_ARRAYS
};

// One array of the graph, as the device reads it; zeroed: it is not there.
struct sl_resident_array {
    void *p;                     // for operations
    uint64_t bytes;              // of device memory, 0 where it is mapped
    void *mapped;                // what to unmap, or NULL
    struct sl_shared_array copy; // that was mapped instead of a file's
};

// Files for the copies, one for all samplers (enum sl_shared); below 0: memory of its own.
struct sl_graph_placement_files {
    int offsets, degrees, neighbours;
};

struct sl_graph_placement {
    const struct sl_device *device;
    const struct sl_kernels *kernels;
    struct sl_topology_view view; // pointers for operations
    const uint32_t *degree_of;    // (n_nodes) in-degrees as blocks carry them, or NULL
    struct sl_draw_types types;   // of a graph with several types; owned
    uint64_t n_edges, n_resident; // of all edges those in the device's memory
    uint64_t room;                // ... that there is room for
    const struct sl_topology *topology;
    bool shares; // all edges are mapped, not only those elsewhere
    struct sl_graph_placement_files files;
    int threads; // for making a copy
    struct sl_resident_array array[SL_GRAPH_PLACEMENT_ARRAYS];
};

/*
 * Brings the graph to a device whose memory is not the process's own. `degrees`: with the
 * in-degrees that blocks carry, without self-loops where the topology has looked for them. `share`
 * (0 to 1): the part of the device's free memory that it may take. The topology must outlive it,
 * and what it shares can be pinned (sl_topology_expect_device). SL_ENOMEM, errors of the device.
 */
struct sl_graph_placement_spec {
    const struct sl_topology *topology;
    bool degrees;
    double share;
    bool shares; // with others: all edges are mapped
    double most; // largest share of the edges in its memory; 0: all
    struct sl_graph_placement_files files;
    int threads;
};
int sl_graph_placement_open(struct sl_graph_placement *r,
                            const struct sl_graph_placement_spec *spec,
                            const struct sl_device *device, const struct sl_kernels *kernels);
void sl_graph_placement_close(struct sl_graph_placement *r); // safe on a zeroed struct

// Keeps the first n_edges in the device's memory, fewer where that is short, and maps all edges if
// they are not. Only while nothing is drawn. Errors of the device; SL_ENOMEM, with nothing changed,
// where the other edges have no place.
int sl_graph_placement_keep(struct sl_graph_placement *r, uint64_t n_edges);

// Device memory that it takes.
uint64_t sl_graph_placement_bytes(const struct sl_graph_placement *r);

// The way in which it is read; where parts are read in several ways, a copy counts before a file.
enum sl_store_way sl_graph_placement_way(const struct sl_graph_placement *r);

#endif

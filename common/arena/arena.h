/*
 * arena.h - the layout of a job's shared-memory segment (segment.h): all parts together.
 *
 * The broker sizes the segment once the workers have said what they need, writes the directory
 * below, and seals it; workers then map it. Only who makes, maps or measures the whole includes
 * this; the parts know one another by the files named here.
 *
 *   header     directory, abort word, events, fail-point counters     segment.h
 *   phases     lanes, ring of open phases of work     phase.h
 *   cells      one 64-bit word for each batch         phase.h
 *   entries    what is known of each batch            phase.h
 *   updates    what is known of each update           phase.h
 *   order      shuffled training vertices, two banks
 *   chunks     who owns each chunk of the payload     payload_alloc.h
 *   workers    what the worker of each seat says      stats.h
 *   seats      who is to do what on which device      seat.h
 *   board      versions of the parameter store        param_store.h
 *   group      trainers that sum gradients among themselves   group.h
 *   lent       GPU memory that other workers of the job read   peer_memory.h
 *   params     two banks of parameters and optimizer state, the best and the pinned parameters,
 *              gradient slots
 *   acts       one or two activations of all vertices for layer-wise inference, and with jumping
 *              knowledge a third one; a file may lie here instead (sl_arena_map_acts)
 *   predict    what an evaluation predicted for its vertices
 *   visits     how often each vertex was sampled      visit_counts.h
 *   hot        the hotness order                      visit_counts.h
 *   probe      one mini-batch to measure a training step with         visit_counts.h
 *   rows       feature rows from the drive        row_cache.h
 *   asks       for feature rows of other nodes    asks.h
 *   nodes      what each node of the job does         node_figures.h
 *   types      edges and rows by relation and type        type_counts.h
 *   payload    the blocks
 */
#ifndef SL_ARENA_ARENA_H
#define SL_ARENA_ARENA_H

#include "common/arena/segment.h"

#define SL_ARENA_MAGIC 0x31414e4552414c53ull // "SLARENA1"

enum { SL_ARENA_VERSION = 26 };

// Bytes that an arena of this spec takes (sparse until touched); fills *out when not NULL.
uint64_t sl_arena_layout(const struct sl_arena_spec *spec, struct sl_arena_header *out);

// Broker: a new memfd without size. Returns the descriptor (close-on-exec) or SL_ESYS.
int sl_arena_memfd(void);

// Broker: sizes fd, seals its size, maps it and writes the header; everything else is zero.
// SL_EINVAL for a spec without devices, in async mode with more than one batch an update, or with
// counts that nothing comes near.
int sl_arena_create(int fd, const struct sl_arena_spec *spec, struct sl_arena *out);

// Worker: maps an arena that the broker has created. SL_EFORMAT when it is none of this version or
// its header contradicts itself: after SL_OK every region lies in the segment. SL_EINVAL as above.
int sl_arena_attach(int fd, struct sl_arena *out);

/*
 * Worker: where `fd` has bytes it is a file as large as the region of activations, and is mapped in
 * its place: what of it has been touched may be on the disk, where the arena's own is memory. An
 * empty one is none. SL_EFORMAT for another size; SL_ENOMEM.
 */
int sl_arena_map_acts(struct sl_arena *a, int fd);

void sl_arena_detach(struct sl_arena *a); // safe on a zeroed struct; does not close fd

// The cache of feature rows; one without slots where there is none.
struct sl_row_cache sl_arena_rows(const struct sl_arena *a);

// Shuffled training vertices, or pairs, of the phases whose order_bank is `bank`, 0 or 1. (n_train)
uint32_t *sl_arena_order(const struct sl_arena *a, uint32_t bank);
uint64_t sl_arena_order_bytes(uint64_t n_train); // of both banks

// Activations for layer-wise inference, of layer `layer`: layers take turns in the banks, of which
// there is one at least. (act_rows, act_width)
float *sl_arena_acts(const struct sl_arena *a, uint32_t layer);

// What jumping knowledge has gathered of all layers so far. (act_rows, jumping_width)
float *sl_arena_jumping(const struct sl_arena *a);

/*
 * Predictions of the evaluation under way, in the order of the validation or test list.
 * (predict_rows, predict_words) What the words are is said in common/data/prediction.h.
 */
void *sl_arena_predictions(const struct sl_arena *a);

#endif

/*
 * asks.h - feature rows that are on other nodes: slots in which workers ask their node's link for
 * them.
 *
 * PROBLEM. Workers know no MPI, want rows by the thousand, and may be killed at any instruction,
 * also while what they asked for is on its way into memory that others would use again.
 *
 * DESIGN. A slot of the segment is one ask: vertices, those of one node side by side, and room for
 * their rows in the same order. The link sends each node its vertices in one message and receives
 * that node's rows straight into their place, so nobody copies but the asker, out of the slot. A
 * slot's word says where it is:
 *
 *      turn (32 bits) | worker (24) | state (8)
 *
 *      free --take--> taken --send--> asked --answer--> answered --give_back--> free
 *                                       |                                        ^
 *                                       +--- asker dead or gone ---> orphan -----+ the link, once
 *                                                                                  nothing comes
 *
 * It moves by compare-and-swap. While it is asked or orphan its memory is the link's; the broker
 * takes back what a dead worker had (sl_asks_reclaim), so a late answer never meets another ask.
 * An asker has at most SL_ASKS_EACH slots at a time and there are SL_ASKS_A_DEVICE for each device:
 * all that its threads may have, and some for what dead ones left.
 *
 * WAITS. The link is woken by `progress`. An asker sleeps on its slot's event, and looks at the
 * abort word as everywhere: the link ends the job when a node is lost or does not answer.
 *
 * Memory orders: send releases the vertices, answer the rows; both sides acquire by the word.
 */
#ifndef SL_ARENA_ASKS_H
#define SL_ARENA_ASKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/ask_shape.h"
#include "common/arena/event.h"

struct sl_arena;

enum {
    SL_ASKS_EACH = 2,
    SL_ASKS_A_DEVICE = 6,
    SL_ASKS_ROWS_BYTES = 4 << 20, // of a slot's rows, at most
    SL_ASKS_ROWS_MAX = 1 << 16,
};

enum sl_ask_state { SL_ASK_FREE, SL_ASK_TAKEN, SL_ASK_ASKED, SL_ASK_ANSWERED, SL_ASK_ORPHAN };

// One ask, as the segment holds it; vertices and rows stand behind it.
struct sl_ask_head {
    _Alignas(64) _Atomic uint64_t word;
    struct sl_event answered;
    uint32_t n;         // vertices
    uint32_t row_bytes; // of all of them: at most the shape's
    uint32_t end[];     // (n_nodes) those of node k end here, and begin where those of k - 1 end
};

struct sl_ask {
    struct sl_ask_head *head;
    uint32_t *vertices; // (max_rows)
    char *rows;         // (n, head->row_bytes)
};

// One process's view.
struct sl_asks {
    struct sl_asks_shape shape; // n_slots 0: there are none
    _Atomic uint64_t *calls;    // grows whenever the link has something to look at
    char *slots;
    uint64_t slot_bytes;
};

// Slots for so many devices. Rows of row_bytes at most, of a data set with n_rows in n_nodes parts.
struct sl_asks_shape sl_asks_shape(uint32_t n_devices, uint32_t n_nodes, uint64_t n_rows,
                                   uint64_t row_bytes);
uint64_t sl_asks_bytes(const struct sl_asks_shape *shape);
// Of an arena that has its memory: those of its spec.
struct sl_asks sl_asks_of(const struct sl_arena *a);
struct sl_ask sl_asks_at(const struct sl_asks *asks, uint32_t slot);

static inline enum sl_ask_state sl_ask_state(const struct sl_ask *ask)
{
    return (enum sl_ask_state)(atomic_load_explicit(&ask->head->word, memory_order_acquire) & 255);
}

// --- who asks ---

// A slot to write vertices into, by worker `worker`. False: none is free.
bool sl_asks_take(const struct sl_asks *asks, uint32_t worker, struct sl_ask *out);
// head->n, head->row_bytes, head->end and the vertices are written: wakes the link.
void sl_asks_send(struct sl_arena *a, const struct sl_asks *asks, const struct sl_ask *ask);
// The rows have been copied, or are not wanted any more: they may be under way still.
void sl_asks_give_back(struct sl_arena *a, const struct sl_asks *asks, const struct sl_ask *ask);

// --- the link ---

// All rows are in their places.
void sl_asks_answer(const struct sl_ask *ask);
// Of an orphan: nothing comes into it any more.
void sl_asks_free(const struct sl_ask *ask);

// --- the broker ---

// The worker is dead.
void sl_asks_reclaim(struct sl_arena *a, uint32_t worker);

#endif

/*
 * row_cache.h - one cache of feature rows for all workers of a machine, which knows the rows that
 * batches drawn ahead will need.
 *
 * PROBLEM. Features lie on a drive. A batch's rows are wanted in memory before it is trained, those
 * that the batches behind it want too should stay there, and any process may be killed while it
 * fills the cache.
 *
 * DESIGN (GIDS 3.4; Belady 1966 within what is known). Memory of the segment, as every worker maps
 * it: *slots* of one row each, those for rows of one width behind those of another, and for each
 * row of the data set two words:
 *
 *      wanted   which batches want it: the last one, and which of the 20 up to it. Whoever draws a
 *               batch notes it there, so looking ahead takes no sample of its own
 *      place    in which slot it may lie: a hint, the slot says which row it holds
 *
 * Batches are numbered through the whole job, in the order in which they are trained. A row that is
 * wanted takes the slot of its width that a clock's hand finds: a free one; else one whose row is
 * wanted by no batch that is not done, up to `window` behind the one that is fetched, of rows that
 * are not hot if there is one; else the one that is wanted last, if that is later than this batch.
 * So batches cannot push out one another's rows in turns for ever: who finds no slot reads its row
 * beside the cache. Hot rows (a prefix of the hotness order, visit_counts.h) are what is worth
 * keeping beyond the window.
 *
 * WHY NO ROW IS EVER TORN. A slot's word says which row it holds and how often it was filled:
 *
 *      row (32 bits) | turn (13) | hot (1) | worker (16) | free, filling or there (2)
 *
 * It moves by compare-and-swap to `filling` before the first byte is written, and to `there` after
 * the last. A reader remembers the word, copies the row, and looks again: if the word has moved the
 * copy is thrown away and the row read from the drive. A slot whose filler died is freed by the
 * broker (sl_row_cache_reclaim). What is noted of a batch that is drawn again is the same again.
 * Of two who want to fill the same row the one whose slot `place` names does, and the other one
 * waits for it.
 *
 * All zero is an empty cache. Nothing here waits.
 */
#ifndef SL_ARENA_ROW_CACHE_H
#define SL_ARENA_ROW_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SL_ROW_CACHE_WINDOW_MAX = 64, // batches; of those before the last 20 only the last use is known
    SL_ROW_CACHE_PROBES = 16,     // slots that are looked at for one row
    SL_ROW_WIDTHS_MAX = 16,
};

struct sl_row_width {
    uint64_t row_bytes;
    uint64_t n_slots; // for such rows
};

struct sl_row_cache_shape {
    uint64_t n_rows;  // of the data set
    uint64_t n_slots; // of all widths, below 2^32; 0: there is no cache
    uint64_t n_hot;   // slots for hot rows: those of a rank below it
    uint32_t window;  // batches behind the one that is fetched, at most SL_ROW_CACHE_WINDOW_MAX
    uint32_t n_widths;
    struct sl_row_width width[SL_ROW_WIDTHS_MAX]; // (n_widths) no two have the same bytes
};

// Bytes of it, whole pages; 0 without slots.
uint64_t sl_row_cache_bytes(const struct sl_row_cache_shape *shape);

// Bytes of rows that there are slots for, the slots' words with them; and of a cache that would
// have so many for the same rows.
uint64_t sl_row_cache_room(const struct sl_row_cache_shape *shape);
uint64_t sl_row_cache_least(const struct sl_row_cache_shape *shape, uint64_t room);

// Of the n_hot slots for hot rows those of one width; and what a cache of the same rows has for its
// size where that counts rows of `mean` bytes.
uint64_t sl_row_cache_hot_slots(const struct sl_row_cache_shape *shape, uint32_t width);
uint64_t sl_row_cache_hot_size(const struct sl_row_cache_shape *shape, uint64_t mean);

// Shared by all. The first worker that measures the drive leaves its figures here for the others
// and for reports: 0 = not measured.
struct sl_row_cache_head {
    struct sl_row_cache_hand {
        _Alignas(64) _Atomic uint64_t at;
        _Atomic uint64_t fresh; // slots before it were used: until all were, no other is looked at
    } hand[SL_ROW_WIDTHS_MAX];  // of the slots of each width
    _Alignas(64) _Atomic uint32_t depth; // reads that are under way at once; written last
    _Atomic uint64_t latency_ns;         // of one block alone
    _Atomic uint64_t reads_per_s;        // of many at once
};

// The slots of one width: the cache's from `first` on.
struct sl_row_slots {
    uint64_t row_bytes;
    uint32_t first, n;
    char *rows; // (n, row_bytes)
    struct sl_row_cache_hand *hand;
};

// One process's view of it.
struct sl_row_cache {
    struct sl_row_cache_shape shape; // n_slots 0: there is none
    struct sl_row_cache_head *head;
    _Atomic uint32_t *wanted, *place;             // (n_rows)
    _Atomic uint64_t *slot;                       // (n_slots)
    struct sl_row_slots slots[SL_ROW_WIDTHS_MAX]; // (shape.n_widths)
};

// `memory` holds sl_row_cache_bytes(), on a page.
void sl_row_cache_view(void *memory, const struct sl_row_cache_shape *shape,
                       struct sl_row_cache *out);

// Those for rows of so many bytes; of none where there are none.
struct sl_row_slots sl_row_cache_slots(const struct sl_row_cache *c, uint64_t row_bytes);

// Batch `batch` wants these rows (n, each below n_rows).
void sl_row_cache_note(const struct sl_row_cache *c, const uint32_t *rows, uint32_t n,
                       uint64_t batch);

// Which of some rows are in the cache.
struct sl_row_places {
    uint32_t n_found, n_missing;
    uint64_t *word;             // (n_found) the slot's, when the row was found
    uint32_t *slot, *found_at;  // (n_found) where it is, and which of the rows it is
    uint32_t *row, *missing_at; // (n_missing) the row, and which of the rows it is
    uint32_t room;              // of each array
};

int sl_row_places_grow(struct sl_row_places *p, uint32_t n); // SL_ENOMEM. What it says is gone
void sl_row_places_fini(struct sl_row_places *p);            // safe on a zeroed struct

// *out has room for n. A number that is no row is missing.
void sl_row_cache_find(const struct sl_row_cache *c, const uint32_t *rows, uint32_t n,
                       struct sl_row_places *out);

// After the rows that were found have been copied: those whose slot has moved since are missing
// now; the others stay found. Returns how many moved.
uint32_t sl_row_cache_check(const struct sl_row_cache *c, struct sl_row_places *places);

// The batch that a row is fetched for.
struct sl_row_cache_use {
    uint32_t worker;
    uint64_t batch, oldest; // that wants it; the oldest one that is not done
};

enum sl_row_taken {
    SL_ROW_NO_SLOT, // every slot that was looked at holds a more useful row
    SL_ROW_TAKEN,   // *slot is `filling`: write the row there, and say so by there()
    SL_ROW_COMES,   // another worker fetches the row, or has done so
};

// Takes one of these slots for the row. A slot that its taker cannot fill is freed by
// sl_row_cache_reclaim().
enum sl_row_taken sl_row_cache_take(const struct sl_row_cache *c, const struct sl_row_slots *slots,
                                    const struct sl_row_cache_use *use, uint32_t row, bool hot,
                                    uint32_t *slot);
void sl_row_cache_there(const struct sl_row_cache *c, uint32_t slot);

// Broker: the worker is dead; what it was filling is free.
void sl_row_cache_reclaim(const struct sl_row_cache *c, uint32_t worker);

// Slots that hold a row.
uint64_t sl_row_cache_used(const struct sl_row_cache *c);

#endif

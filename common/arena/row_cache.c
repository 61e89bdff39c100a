#include "common/arena/row_cache.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"

/*
 * Memory orders (the edges they pair with):
 *
 *   slot    release by there()    acquire by find(): the row's bytes
 *           the fences of take() and check() pair: who has read a byte of what a slot was filled
 *           with next sees in check() that its word has moved
 *   wanted, place, hand   relaxed: hints
 */

enum { PAGE = 4096, AHEAD = 16 };

_Static_assert(sizeof(struct sl_row_cache_head) <= PAGE, "what a cache begins with");

// --- a row's word: which batches want it ---------------------------------------------------------

enum {
    LAST_BITS = 12,
    USE_BITS = 20,
    LAST_MASK = (1 << LAST_BITS) - 1,
    LAST_HALF = 1 << (LAST_BITS - 1),
    USE_MASK = (1 << USE_BITS) - 1,
};

static uint32_t word_of(uint32_t last, uint32_t uses)
{
    return (last & LAST_MASK) << USE_BITS | (uses & USE_MASK);
}

// The word once `batch` wants the row, too. Bit i of the uses is for the batch i before the last.
static uint32_t with_use(uint32_t word, uint64_t batch)
{
    const uint32_t number = (uint32_t)batch & LAST_MASK;
    const uint32_t last = word >> USE_BITS, uses = word & USE_MASK;
    const uint32_t later = (number - last) & LAST_MASK, earlier = (last - number) & LAST_MASK;
    if (uses == 0)
        return word_of(number, 1);
    if (later < LAST_HALF)
        return word_of(number, later < USE_BITS ? uses << later | 1 : 1);
    return earlier < USE_BITS ? word | 1u << earlier : word;
}

// In how many batches from `oldest` on the row is wanted next; UINT32_MAX: in none that is known.
static uint32_t next_use(uint32_t word, uint64_t oldest)
{
    const uint32_t uses = word & USE_MASK;
    const uint32_t last = ((word >> USE_BITS) - (uint32_t)oldest) & LAST_MASK;
    if (uses == 0 || last >= LAST_HALF)
        return UINT32_MAX;
    const uint32_t reach = SL_MIN(last, (uint32_t)USE_BITS - 1);
    const uint32_t ahead = uses & ((2u << reach) - 1);
    return last - (31 - (uint32_t)__builtin_clz(ahead | 1)); // bit 0 is the last use
}

// --- a slot's word -------------------------------------------------------------------------------

enum kind { FREE, FILLING, THERE };
enum { TURN_MASK = (1 << 13) - 1 };

static uint64_t slot_word(uint32_t row, uint32_t turn, bool hot, uint32_t worker, enum kind kind)
{
    return (uint64_t)row << 32 | (uint64_t)(turn & TURN_MASK) << 19 | (uint64_t)hot << 18 |
           (uint64_t)(worker & UINT16_MAX) << 2 | (uint64_t)kind;
}

static enum kind kind_of(uint64_t word)
{
    return (enum kind)(word & 3);
}

static uint32_t row_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t turn_of(uint64_t word)
{
    return (uint32_t)(word >> 19) & TURN_MASK;
}

static bool is_hot(uint64_t word)
{
    return word >> 18 & 1;
}

static uint32_t worker_of(uint64_t word)
{
    return (uint32_t)(word >> 2) & UINT16_MAX;
}

// --- the whole -----------------------------------------------------------------------------------

static uint64_t layout(char *base, const struct sl_row_cache_shape *shape, struct sl_row_cache *out)
{
    const uint64_t wanted = PAGE, words = sl_align_up(shape->n_rows * sizeof(uint32_t), PAGE);
    const uint64_t place = wanted + words, slot = place + words;
    uint64_t rows = slot + sl_align_up(shape->n_slots * sizeof(uint64_t), PAGE);
    if (out)
        *out = (struct sl_row_cache){
            .shape = *shape,
            .head = (void *)base,
            .wanted = (void *)(base + wanted),
            .place = (void *)(base + place),
            .slot = (void *)(base + slot),
        };
    for (uint32_t w = 0, first = 0; w < shape->n_widths; w++) {
        const struct sl_row_width *width = &shape->width[w];
        if (out)
            out->slots[w] = (struct sl_row_slots){.row_bytes = width->row_bytes,
                                                  .first = first,
                                                  .n = (uint32_t)width->n_slots,
                                                  .rows = base + rows,
                                                  .hand = &out->head->hand[w]};
        first += (uint32_t)width->n_slots;
        rows += sl_align_up(width->n_slots * width->row_bytes, PAGE);
    }
    return rows;
}

uint64_t sl_row_cache_bytes(const struct sl_row_cache_shape *shape)
{
    return shape->n_slots ? layout(NULL, shape, NULL) : 0;
}

uint64_t sl_row_cache_hot_slots(const struct sl_row_cache_shape *shape, uint32_t width)
{
    if (shape->n_widths <= 1)
        return shape->n_hot;
    return (uint64_t)((double)shape->n_hot / (double)shape->n_slots *
                      (double)shape->width[width].n_slots);
}

uint64_t sl_row_cache_hot_size(const struct sl_row_cache_shape *shape, uint64_t mean)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < shape->n_widths; w++)
        bytes += sl_row_cache_hot_slots(shape, w) * shape->width[w].row_bytes;
    return mean ? sl_div_up(bytes, mean) : 0;
}

uint64_t sl_row_cache_room(const struct sl_row_cache_shape *shape)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < shape->n_widths; w++)
        bytes += shape->width[w].n_slots * (shape->width[w].row_bytes + sizeof(uint64_t));
    return bytes;
}

uint64_t sl_row_cache_least(const struct sl_row_cache_shape *shape, uint64_t room)
{
    return 2 * sizeof(uint32_t) * shape->n_rows + room;
}

void sl_row_cache_view(void *memory, const struct sl_row_cache_shape *shape,
                       struct sl_row_cache *out)
{
    *out = (struct sl_row_cache){.shape = *shape};
    if (shape->n_slots)
        layout(memory, shape, out);
}

struct sl_row_slots sl_row_cache_slots(const struct sl_row_cache *c, uint64_t row_bytes)
{
    for (uint32_t w = 0; w < c->shape.n_widths; w++)
        if (c->slots[w].row_bytes == row_bytes)
            return c->slots[w];
    return (struct sl_row_slots){.row_bytes = row_bytes};
}

void sl_row_cache_note(const struct sl_row_cache *c, const uint32_t *rows, uint32_t n,
                       uint64_t batch)
{
    for (uint32_t i = 0; c->shape.n_slots && i < n; i++) {
        if (n - i > AHEAD)
            __builtin_prefetch((const void *)&c->wanted[rows[i + AHEAD]], 1);
        _Atomic uint32_t *wanted = &c->wanted[rows[i]];
        uint32_t word = atomic_load_explicit(wanted, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(wanted, &word, with_use(word, batch),
                                                      memory_order_relaxed, memory_order_relaxed)) {
        }
    }
}

int sl_row_places_grow(struct sl_row_places *p, uint32_t n)
{
    if (n <= p->room)
        return SL_OK;
    sl_row_places_fini(p);
    uint64_t room = sl_pow2_at_least(n);
    uint64_t *all = malloc(room * (sizeof *p->word + 4 * sizeof *p->row));
    if (!all)
        return sl_fail(SL_ENOMEM, "no memory to look for %u rows of features", n);
    uint32_t *words = (uint32_t *)(all + room);
    *p = (struct sl_row_places){
        .word = all,
        .slot = words,
        .found_at = words + room,
        .row = words + 2 * room,
        .missing_at = words + 3 * room,
        .room = (uint32_t)room,
    };
    return SL_OK;
}

void sl_row_places_fini(struct sl_row_places *p)
{
    free(p->word);
    *p = (struct sl_row_places){0};
}

// --- readers -------------------------------------------------------------------------------------

// place + 1, so that zero is none.
static bool find_slot(const struct sl_row_cache *c, uint32_t row, uint32_t *slot, uint64_t *word)
{
    if (row >= c->shape.n_rows)
        return false;
    const uint32_t at = atomic_load_explicit(&c->place[row], memory_order_relaxed);
    if (at == 0 || at > c->shape.n_slots)
        return false;
    *slot = at - 1;
    *word = atomic_load_explicit(&c->slot[at - 1], memory_order_acquire);
    return kind_of(*word) == THERE && row_of(*word) == row;
}

static void add_missing(struct sl_row_places *p, uint32_t row, uint32_t at)
{
    p->row[p->n_missing] = row;
    p->missing_at[p->n_missing++] = at;
}

void sl_row_cache_find(const struct sl_row_cache *c, const uint32_t *rows, uint32_t n,
                       struct sl_row_places *out)
{
    out->n_found = out->n_missing = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot;
        uint64_t word;
        if (n - i > AHEAD && rows[i + AHEAD] < c->shape.n_rows)
            __builtin_prefetch((const void *)&c->place[rows[i + AHEAD]], 0);
        if (!c->shape.n_slots || !find_slot(c, rows[i], &slot, &word)) {
            add_missing(out, rows[i], i);
            continue;
        }
        out->slot[out->n_found] = slot;
        out->word[out->n_found] = word;
        out->found_at[out->n_found++] = i;
    }
}

uint32_t sl_row_cache_check(const struct sl_row_cache *c, struct sl_row_places *p)
{
    const uint32_t before = p->n_found;
    atomic_thread_fence(memory_order_acquire);
    p->n_found = 0;
    for (uint32_t i = 0; i < before; i++) {
        const uint32_t at = p->found_at[i], slot = p->slot[i];
        if (atomic_load_explicit(&c->slot[slot], memory_order_relaxed) != p->word[i]) {
            add_missing(p, row_of(p->word[i]), at);
            continue;
        }
        p->slot[p->n_found] = slot;
        p->word[p->n_found] = p->word[i];
        p->found_at[p->n_found++] = at;
    }
    return before - p->n_found;
}

// --- fillers -------------------------------------------------------------------------------------

// Of how little use a slot's row is: the higher the sooner it goes. 0: it stays.
enum { STAYS, WANTED, HOT = WANTED + SL_ROW_CACHE_WINDOW_MAX + 1, COLD, NONE };

static uint32_t uselessness(const struct sl_row_cache *c, const struct sl_row_cache_use *use,
                            uint64_t word)
{
    if (kind_of(word) == FILLING)
        return STAYS;
    const uint32_t row = row_of(word);
    if (kind_of(word) == FREE || row >= c->shape.n_rows)
        return NONE;
    const uint32_t wanted = atomic_load_explicit(&c->wanted[row], memory_order_relaxed);
    const uint32_t next = next_use(wanted, use->oldest), own = (uint32_t)(use->batch - use->oldest);
    if (next > own + c->shape.window)
        return is_hot(word) ? HOT : COLD;
    return next > own ? WANTED + (next - own) : STAYS;
}

// The most useless of the slots that the hand comes past; STAYS where none may go.
static uint32_t choose(const struct sl_row_cache *c, const struct sl_row_slots *slots,
                       const struct sl_row_cache_use *use, uint32_t *slot, uint64_t *word)
{
    uint32_t most = STAYS;
    for (int i = 0; i < SL_ROW_CACHE_PROBES && most < COLD; i++) {
        const uint64_t at = atomic_fetch_add_explicit(&slots->hand->at, 1, memory_order_relaxed);
        const uint32_t s = slots->first + (uint32_t)(at % slots->n);
        const uint64_t w = atomic_load_explicit(&c->slot[s], memory_order_relaxed);
        const uint32_t this = uselessness(c, use, w);
        if (this > most) {
            most = this;
            *slot = s;
            *word = w;
        }
    }
    return most;
}

static bool take_fresh(const struct sl_row_slots *slots, uint32_t *slot, uint64_t *word)
{
    if (atomic_load_explicit(&slots->hand->fresh, memory_order_relaxed) >= slots->n)
        return false;
    const uint64_t s = atomic_fetch_add_explicit(&slots->hand->fresh, 1, memory_order_relaxed);
    *slot = slots->first + (uint32_t)s;
    *word = 0;
    return s < slots->n;
}

// Of a slot that is being filled: the filler's alone.
static void end(const struct sl_row_cache *c, uint32_t slot, enum kind kind)
{
    const uint64_t w = atomic_load_explicit(&c->slot[slot], memory_order_relaxed);
    atomic_store_explicit(&c->slot[slot], slot_word(row_of(w), turn_of(w), is_hot(w), 0, kind),
                          memory_order_release);
}

// Whether somebody fills a slot with the row that its place names, or has.
static bool comes(const struct sl_row_cache *c, uint32_t row, uint32_t place)
{
    if (place == 0 || place > c->shape.n_slots)
        return false;
    const uint64_t w = atomic_load_explicit(&c->slot[place - 1], memory_order_relaxed);
    return kind_of(w) != FREE && row_of(w) == row;
}

enum sl_row_taken sl_row_cache_take(const struct sl_row_cache *c, const struct sl_row_slots *slots,
                                    const struct sl_row_cache_use *use, uint32_t row, bool hot,
                                    uint32_t *slot)
{
    uint64_t word;
    if (!slots->n || row >= c->shape.n_rows)
        return SL_ROW_NO_SLOT;
    uint32_t place = atomic_load_explicit(&c->place[row], memory_order_relaxed);
    if (comes(c, row, place))
        return SL_ROW_COMES;
    do {
        if (!take_fresh(slots, slot, &word) && choose(c, slots, use, slot, &word) == STAYS)
            return SL_ROW_NO_SLOT;
    } while (!atomic_compare_exchange_strong(
        &c->slot[*slot], &word, slot_word(row, turn_of(word) + 1, hot, use->worker, FILLING)));
    atomic_thread_fence(memory_order_release); // before the row's bytes
    uint32_t named = *slot + 1;
    if (kind_of(word) == THERE && row_of(word) < c->shape.n_rows)
        atomic_compare_exchange_strong_explicit(&c->place[row_of(word)], &named, 0,
                                                memory_order_relaxed, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&c->place[row], &place, *slot + 1,
                                                memory_order_relaxed, memory_order_relaxed))
        return SL_ROW_TAKEN;
    end(c, *slot, FREE);
    return SL_ROW_COMES;
}

void sl_row_cache_there(const struct sl_row_cache *c, uint32_t slot)
{
    end(c, slot, THERE);
}

void sl_row_cache_reclaim(const struct sl_row_cache *c, uint32_t worker)
{
    for (uint64_t s = 0; s < c->shape.n_slots; s++) {
        const uint64_t w = atomic_load_explicit(&c->slot[s], memory_order_relaxed);
        if (kind_of(w) == FILLING && worker_of(w) == (worker & UINT16_MAX))
            end(c, (uint32_t)s, FREE);
    }
}

uint64_t sl_row_cache_used(const struct sl_row_cache *c)
{
    uint64_t n = 0;
    for (uint64_t s = 0; s < c->shape.n_slots; s++)
        n += kind_of(atomic_load_explicit(&c->slot[s], memory_order_relaxed)) == THERE;
    return n;
}

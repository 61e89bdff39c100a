#include "common/arena/asks.h"

#include "common/base/bits.h"
#include "common/arena/segment.h"

enum { PAGE = 4096, CALLS_BYTES = 64, STATE_BITS = 8, WORKER_BITS = 24 };

static uint64_t word_of(uint32_t turn, uint32_t worker, enum sl_ask_state state)
{
    return (uint64_t)turn << 32 | (uint64_t)(worker & ((1u << WORKER_BITS) - 1)) << STATE_BITS |
           (uint64_t)state;
}

static uint32_t turn_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t worker_of(uint64_t word)
{
    return (uint32_t)word >> STATE_BITS;
}

static enum sl_ask_state state_of(uint64_t word)
{
    return (enum sl_ask_state)(word & ((1u << STATE_BITS) - 1));
}

// --- the whole -----------------------------------------------------------------------------------

struct sl_asks_shape sl_asks_shape(uint32_t n_devices, uint32_t n_nodes, uint64_t n_rows,
                                   uint64_t row_bytes)
{
    const uint64_t rows = SL_MIN(SL_ASKS_ROWS_BYTES / row_bytes, (uint64_t)SL_ASKS_ROWS_MAX);
    return (struct sl_asks_shape){
        .n_slots = SL_ASKS_A_DEVICE * n_devices,
        .n_nodes = n_nodes,
        .max_rows = (uint32_t)SL_MAX(SL_MIN(rows, n_rows), 1u),
        .row_bytes = (uint32_t)row_bytes,
    };
}

static uint64_t vertices_at(const struct sl_asks_shape *s)
{
    return sl_align_up(sizeof(struct sl_ask_head) + s->n_nodes * sizeof(uint32_t), 64);
}

static uint64_t rows_at(const struct sl_asks_shape *s)
{
    return sl_align_up(vertices_at(s) + s->max_rows * sizeof(uint32_t), PAGE);
}

static uint64_t slot_bytes(const struct sl_asks_shape *s)
{
    return rows_at(s) + sl_align_up((uint64_t)s->max_rows * s->row_bytes, PAGE);
}

uint64_t sl_asks_bytes(const struct sl_asks_shape *s)
{
    return s->n_slots ? PAGE + s->n_slots * slot_bytes(s) : 0;
}

struct sl_asks sl_asks_of(const struct sl_arena *a)
{
    const struct sl_asks_shape *s = &a->h->spec.asks;
    char *base = sl_arena_region(a, SL_REGION_ASKS);
    return (struct sl_asks){
        .shape = *s, .calls = (void *)base, .slots = base + PAGE, .slot_bytes = slot_bytes(s)};
}

struct sl_ask sl_asks_at(const struct sl_asks *asks, uint32_t slot)
{
    char *at = asks->slots + slot * asks->slot_bytes;
    return (struct sl_ask){.head = (void *)at,
                           .vertices = (void *)(at + vertices_at(&asks->shape)),
                           .rows = at + rows_at(&asks->shape)};
}

// --- moves ---------------------------------------------------------------------------------------

// One step of the word. False when somebody else has moved it.
static bool move(const struct sl_ask *ask, uint64_t word, enum sl_ask_state to)
{
    const uint64_t next = to == SL_ASK_FREE ? word_of(turn_of(word) + 1, 0, SL_ASK_FREE)
                                            : word_of(turn_of(word), worker_of(word), to);
    return atomic_compare_exchange_strong(&ask->head->word, &word, next);
}

static void call(struct sl_arena *a, const struct sl_asks *asks)
{
    atomic_fetch_add(asks->calls, 1);
    sl_event_signal(&a->h->progress);
}

bool sl_asks_take(const struct sl_asks *asks, uint32_t worker, struct sl_ask *out)
{
    for (uint32_t i = 0; i < asks->shape.n_slots; i++) {
        *out = sl_asks_at(asks, i);
        uint64_t word = atomic_load(&out->head->word);
        if (state_of(word) == SL_ASK_FREE &&
            atomic_compare_exchange_strong(&out->head->word, &word,
                                           word_of(turn_of(word), worker, SL_ASK_TAKEN)))
            return true;
    }
    return false;
}

void sl_asks_send(struct sl_arena *a, const struct sl_asks *asks, const struct sl_ask *ask)
{
    move(ask, atomic_load(&ask->head->word), SL_ASK_ASKED);
    call(a, asks);
}

// The link may answer meanwhile, which is why it looks again.
static void leave(struct sl_arena *a, const struct sl_asks *asks, const struct sl_ask *ask)
{
    uint64_t word;
    enum sl_ask_state to;
    do {
        word = atomic_load(&ask->head->word);
        to = state_of(word) == SL_ASK_ASKED ? SL_ASK_ORPHAN : SL_ASK_FREE;
    } while (!move(ask, word, to));
    if (to == SL_ASK_ORPHAN)
        call(a, asks);
}

void sl_asks_give_back(struct sl_arena *a, const struct sl_asks *asks, const struct sl_ask *ask)
{
    leave(a, asks, ask);
}

void sl_asks_answer(const struct sl_ask *ask)
{
    const uint64_t word = atomic_load(&ask->head->word);
    if (state_of(word) == SL_ASK_ASKED && move(ask, word, SL_ASK_ANSWERED))
        sl_event_signal(&ask->head->answered);
    else
        sl_asks_free(ask); // it has just become an orphan
}

void sl_asks_free(const struct sl_ask *ask)
{
    move(ask, atomic_load(&ask->head->word), SL_ASK_FREE);
}

void sl_asks_reclaim(struct sl_arena *a, uint32_t worker)
{
    const struct sl_asks asks = sl_asks_of(a);
    for (uint32_t i = 0; i < asks.shape.n_slots; i++) {
        const struct sl_ask ask = sl_asks_at(&asks, i);
        const uint64_t word = atomic_load(&ask.head->word);
        const enum sl_ask_state state = state_of(word);
        if (worker_of(word) == worker && state != SL_ASK_FREE && state != SL_ASK_ORPHAN)
            leave(a, &asks, &ask);
    }
}

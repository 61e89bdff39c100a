#include "common/arena/peer_import.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

void sl_peer_import_init(struct sl_peer_import *b, struct sl_arena *arena,
                         enum sl_peer_memory_kind kind, uint32_t reader,
                         const struct sl_device *device)
{
    *b = (struct sl_peer_import){.arena = arena, .kind = kind, .reader = reader, .device = device};
}

static bool is_open(const struct sl_peer_import *b, uint32_t lender)
{
    return b->opened >> lender & 1;
}

// Takes the lowest of the bits; there is one.
static uint32_t next_of(uint64_t *bits)
{
    const uint32_t bit = (uint32_t)__builtin_ctzll(*bits);
    *bits &= *bits - 1;
    return bit;
}

// Tells lenders of what has been closed since.
static void settle(struct sl_peer_import *b)
{
    for (uint64_t left = b->closing; left != 0;) {
        const uint32_t l = next_of(&left);
        if (b->device->is_open(b->of[l].p))
            continue;
        b->of[l].p = NULL;
        b->closing &= ~((uint64_t)1 << l);
        sl_peer_memory_close(b->arena, b->kind, l, b->reader);
    }
}

static void close_one(struct sl_peer_import *b, uint32_t lender)
{
    b->device->detach(b->of[lender].p);
    b->opened &= ~((uint64_t)1 << lender);
    b->lost &= ~((uint64_t)1 << lender);
    b->closing |= (uint64_t)1 << lender;
    settle(b);
}

bool sl_peer_import_close(struct sl_peer_import *b)
{
    for (uint64_t left = b->opened; left != 0;)
        close_one(b, next_of(&left));
    settle(b);
    return b->closing == 0;
}

static bool stands(const struct sl_peer_import *b, uint32_t lender, uint64_t *elements)
{
    return !(b->lost >> lender & 1) &&
           sl_peer_memory_stands(b->arena, b->kind, lender, b->of[lender].version, elements);
}

bool sl_peer_import_stands(const struct sl_peer_import *b)
{
    uint64_t elements;
    for (uint64_t left = b->opened; left != 0;)
        if (!stands(b, next_of(&left), &elements))
            return false;
    return b->closing == 0;
}

void sl_peer_import_drop(struct sl_peer_import *b)
{
    for (uint64_t left = b->opened; left != 0;) {
        const uint32_t l = next_of(&left);
        if (!stands(b, l, &b->of[l].elements))
            close_one(b, l);
    }
    settle(b);
}

static void attach(struct sl_peer_import *b, uint32_t lender,
                   const struct sl_peer_memory_offer *offer)
{
    if (b->closing >> lender & 1 || offer->version == b->of[lender].refused ||
        !sl_peer_memory_open(b->arena, b->kind, lender, b->reader, offer->version))
        return;
    b->of[lender].version = offer->version;
    b->of[lender].plan = offer->plan;
    b->of[lender].order = offer->order;
    b->of[lender].room = offer->room;
    b->of[lender].elements = offer->elements;
    if (b->device->attach(&offer->share, &b->of[lender].p) == SL_OK) {
        b->opened |= (uint64_t)1 << lender;
        SL_FAILPOINT(LENT_OPENED);
        return;
    }
    sl_log_warn("GPU memory of device %u cannot be read from device %u, so its data is read from "
                "the machine's memory: %s",
                lender, b->reader, sl_error_message());
    b->of[lender].refused = offer->version;
    sl_peer_memory_close(b->arena, b->kind, lender, b->reader);
}

static void open_one(struct sl_peer_import *b, uint32_t lender,
                     const struct sl_peer_memory_plan *plan, uint64_t order)
{
    struct sl_peer_memory_offer offer;
    if (sl_peer_memory_read(b->arena, b->kind, lender, &offer) && offer.plan == plan->generation &&
        offer.order == order)
        attach(b, lender, &offer);
}

const char *sl_peer_import_take(struct sl_peer_import *b, uint32_t lender, uint64_t version)
{
    struct sl_peer_memory_offer offer;
    if (is_open(b, lender) && b->of[lender].version != version)
        close_one(b, lender);
    settle(b);
    if (!is_open(b, lender) && sl_peer_memory_read(b->arena, b->kind, lender, &offer) &&
        offer.version == version)
        attach(b, lender, &offer);
    return is_open(b, lender) ? b->of[lender].p : NULL;
}

// Of whom the plan lets the reader read, as bits.
static uint64_t lenders(const struct sl_peer_import *b, const struct sl_peer_memory_plan *plan)
{
    uint64_t found = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const uint32_t from = plan->from[b->reader][p];
        if (from != SL_PEER_MEMORY_NOBODY && from != b->reader)
            found |= (uint64_t)1 << from;
    }
    return found;
}

void sl_peer_import_add(struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                        uint64_t order)
{
    for (uint64_t left = b->opened; left != 0;) {
        const uint32_t l = next_of(&left);
        stands(b, l, &b->of[l].elements);
    }
    settle(b);
    for (uint64_t left = lenders(b, plan) & ~b->opened; left != 0;)
        open_one(b, next_of(&left), plan, order);
}

void sl_peer_import_open(struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                         uint64_t order)
{
    const uint64_t wanted = lenders(b, plan);
    sl_peer_import_drop(b);
    for (uint64_t left = b->opened; left != 0;) {
        const uint32_t l = next_of(&left);
        if (!(wanted >> l & 1) || b->of[l].plan != plan->generation || b->of[l].order != order)
            close_one(b, l);
    }
    sl_peer_import_add(b, plan, order);
}

bool sl_peer_import_is_good(struct sl_peer_import *b)
{
    for (uint64_t left = b->opened; left != 0;) {
        const uint32_t l = next_of(&left);
        if (!sl_peer_memory_is_good(b->arena, b->kind, l, b->reader))
            b->lost |= (uint64_t)1 << l;
    }
    return b->lost == 0;
}

bool sl_peer_import_part(const struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                         uint32_t p, struct sl_peer_import_part *out)
{
    const uint32_t from = plan->from[b->reader][p];
    if (from == SL_PEER_MEMORY_NOBODY || from == b->reader || !is_open(b, from) ||
        b->lost >> from & 1 || b->of[from].plan != plan->generation)
        return false;
    const uint32_t before = plan->held[from] & (((uint32_t)1 << p) - 1);
    *out = (struct sl_peer_import_part){
        .lender = from,
        .n_held = (uint32_t)__builtin_popcount(plan->held[from]),
        .memory = b->of[from].p,
        .number = (uint32_t)__builtin_popcount(before),
        .room = b->of[from].room,
        .elements = b->of[from].elements,
    };
    return true;
}

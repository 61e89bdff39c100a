// What a lender keeps when its parts lie otherwise: by chance, compared element by element.
#include "common/arena/peer_export.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

// Enough for parts to move in several pieces, by less than a piece and by more.
enum { ROOM = 1 << 23, PIECE = 1 << 18, PLANS = 24, OWNER = 3 };

static struct sl_peer_export lending;

// --- elements: each says which it is -------------------------------------------------------------

static uint32_t value(uint32_t part, uint64_t i)
{
    return (uint32_t)(i << 4 | part);
}

static uint32_t *first_plane(void)
{
    return (uint32_t *)(void *)lending.p;
}

static double *second_plane(void)
{
    return (double *)(void *)(lending.p +
                              sl_peer_export_second(&lending, lending.at.n_held, lending.room));
}

static bool has_second(void)
{
    return lending.plane_bytes[1] > 0;
}

static int load(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to)
{
    uint64_t *brought = ctx;
    uint32_t *first = first_plane() + to;
    double *second = has_second() ? second_plane() + to : NULL;
    for (uint64_t i = 0; i < n; i++) {
        first[i] = value(part, from + i);
        if (second)
            second[i] = value(part, from + i);
    }
    *brought += n;
    return SL_OK;
}

static uint64_t pieces_left; // before it is interrupted

static bool goes_on(void *ctx)
{
    (void)ctx;
    return pieces_left-- > 0;
}

// Whatever is said to be there is.
static void expect_elements(void)
{
    uint64_t wrong = 0;
    for (uint32_t part = 0, number = 0; part < lending.at.n_parts; part++) {
        if (!(lending.at.held >> part & 1))
            continue;
        const uint64_t there = SL_MAX(lending.elements, lending.kept[part]);
        const uint64_t at = number++ * lending.room;
        const uint32_t *first = first_plane() + at;
        const double *second = has_second() ? second_plane() + at : NULL;
        ck_assert_uint_le(there, lending.room);
        for (uint64_t i = 0; i < there; i++) {
            wrong += first[i] != value(part, i);
            wrong += second && second[i] != value(part, i);
        }
    }
    ck_assert_uint_eq(wrong, 0);
}

// --- plans ---------------------------------------------------------------------------------------

static uint32_t chance(uint32_t stream, uint32_t k, uint32_t below)
{
    return sl_philox(91, 0, stream, k, 0).w[0] % below;
}

// Some of what it held before, more or less; now and then another shape of it all.
static struct sl_peer_memory_plan next_plan(const struct sl_peer_memory_plan *before, uint32_t k)
{
    struct sl_peer_memory_plan p = *before;
    const uint32_t gone = chance(1, k, 1 << 16) & chance(2, k, 1 << 16);
    const uint32_t come = chance(3, k, 1 << 16) & chance(4, k, 1 << 16) & chance(5, k, 1 << 16);
    p.generation++;
    p.n_parts = SL_PEER_MEMORY_PARTS_MAX;
    p.held[OWNER] = (p.held[OWNER] & ~gone) | come;
    if (p.held[OWNER] == 0)
        p.held[OWNER] = 1u << chance(6, k, 16);
    if (chance(7, k, 8) == 0)
        p.first = 1024 * chance(8, k, 4);
    p.shift = 10;
    p.part_elements = ROOM;
    return p;
}

// Of a layout that follows another: how much of what was there need not come again.
static uint64_t may_stay(const struct sl_peer_export *old, const struct sl_peer_export *now)
{
    uint64_t n = 0;
    if (old->at.first != now->at.first)
        return 0;
    for (uint32_t part = 0; part < SL_PEER_MEMORY_PARTS_MAX; part++)
        if (old->at.held & now->at.held & 1u << part)
            n += SL_MIN(SL_MAX(old->elements, old->kept[part]), now->room);
    return n;
}

LOOP_TEST(what_is_kept_is_as_it_was, 0, 2)
{
    const uint64_t planes[][SL_PEER_EXPORT_PLANES] = {{4, 0}, {4, 8}};
    struct sl_peer_memory_plan plan = {.generation = 0};
    struct sl_peer_export_layout layout;
    uint64_t brought = 0, stayed = 0;
    const struct sl_peer_export_source source = {
        .load = load, .goes_on = goes_on, .ctx = &brought, .piece = PIECE};
    sl_peer_export_init(&lending, NULL, SL_PEER_MEMORY_GRAPH, OWNER, sl_device_host(), planes[_i],
                        "test");
    for (uint32_t k = 0; k < PLANS; k++) {
        plan = next_plan(&plan, k);
        const struct sl_peer_export old = lending;
        ck_assert(sl_peer_export_layout(&lending, &plan, ROOM, &layout));
        ck_assert(sl_peer_export_may_change(&lending, &layout));
        if (!lending.p)
            ck_assert(sl_peer_export_allocate(&lending, &layout));
        expect_elements();
        const uint64_t before = brought;
        pieces_left = chance(9, k, 4) ? UINT64_MAX : chance(10, k, 8);
        ck_assert_int_eq(sl_peer_export_fill(&lending, plan.generation, 0, &source), SL_OK);
        expect_elements();
        ck_assert_uint_eq(lending.loaded, brought);
        ck_assert_uint_ge(lending.room * 16, layout.wanted * 15);
        if (lending.elements == lending.room) {
            const uint64_t all = sl_peer_export_elements(&lending),
                           stays = may_stay(&old, &lending);
            ck_assert_uint_eq(brought - before, all - stays);
            stayed += stays;
        }
    }
    ck_assert_uint_gt(stayed, brought / 2);
    sl_peer_export_fini(&lending);
}

// Memory that is far too large for what it is to have from now on goes back.
TEST(memory_that_is_no_longer_wanted_goes)
{
    const uint64_t planes[SL_PEER_EXPORT_PLANES] = {4, 0};
    struct sl_peer_memory_plan plan = {
        .generation = 1, .n_parts = 2, .held[OWNER] = 3, .part_elements = ROOM / 2};
    struct sl_peer_export_layout layout;
    sl_peer_export_init(&lending, NULL, SL_PEER_MEMORY_GRAPH, OWNER, sl_device_host(), planes,
                        "test");
    ck_assert(sl_peer_export_layout(&lending, &plan, ROOM, &layout));
    ck_assert(sl_peer_export_allocate(&lending, &layout));
    plan.held[OWNER] = 1;
    ck_assert(sl_peer_export_layout(&lending, &plan, ROOM, &layout));
    ck_assert(sl_peer_export_may_change(&lending, &layout));
    ck_assert_ptr_null(lending.p);
    ck_assert_uint_eq(sl_peer_export_elements(&lending), 0);
}

RUN_TESTS(.quiet = true, .timeout_s = 120)

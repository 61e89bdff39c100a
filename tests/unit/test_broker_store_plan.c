// Who holds which rows: known machines, what holds of every plan, and shares against a count of
// each row by itself.
#include "broker/sharding/shard_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { ROWS = SL_STORE_CURVE_POINTS };

static const float OWN = 900, FAST = 50, SINGLE = 25;

// Devices 1 .. n are GPUs that train; device 0 samples and reads now and then.
static struct sl_plan_question apart(uint32_t n, uint64_t room)
{
    struct sl_plan_question q = {
        .n_devices = n + 1, .host = 12, .n_elements = ROWS, .most = ROWS, .reads = 1};
    for (uint32_t d = 0; d <= n; d++)
        q.rate[d][d] = OWN;
    for (uint32_t d = 1; d <= n; d++) {
        q.room[d] = room;
        q.works |= UINT64_C(1) << d;
    }
    return q;
}

static void join(struct sl_plan_question *q, uint32_t a, uint32_t b, float rate)
{
    q->rate[a][b] = q->rate[b][a] = rate;
}

static struct sl_plan_question linked(uint32_t n, uint64_t room, float rate)
{
    struct sl_plan_question q = apart(n, room);
    for (uint32_t a = 0; a <= n; a++)
        for (uint32_t b = 0; b < a; b++)
            join(&q, a, b, rate);
    return q;
}

static struct sl_plan_question cube_mesh(uint64_t room)
{
    struct sl_plan_question q = apart(8, room);
    for (uint32_t g = 1; g <= 8; g += 4)
        for (uint32_t a = 0; a < 4; a++)
            for (uint32_t b = 0; b < a; b++)
                join(&q, g + a, g + b, a + b == 3 ? FAST : SINGLE);
    for (uint32_t g = 0; g < 4; g++)
        join(&q, 1 + g, 5 + (g + 2) % 4, FAST);
    return q;
}

// Row r is read as often as Zipf's law has it.
static const uint32_t *zipf(void)
{
    static uint32_t hotness[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        hotness[r] = 1000000 / (r + 10);
    return hotness;
}

static int curve_of_zipf(struct sl_store_curve *out)
{
    static float visits[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        visits[r] = (float)zipf()[r];
    return sl_store_curve_make(&(struct sl_typed){0}, zipf(), visits, ROWS, out);
}

static uint64_t end_of(const struct sl_shard_plan *p)
{
    return p->lent.first + p->lent.n_parts * p->lent.part_elements;
}

// What holds of every plan.
static void expect_sound(const struct sl_plan_question *q, const struct sl_shard_plan *p)
{
    const struct sl_peer_memory_plan *l = &p->lent;
    ck_assert(end_of(p) <= SL_MIN(q->n_elements, q->most));
    ck_assert_uint_le(p->cached, SL_MIN(q->n_elements, q->most));
    ck_assert_uint_eq(l->generation, 0);
    const uint32_t shift =
        q->kind == SL_PEER_MEMORY_GRAPH && l->n_parts ? SL_PEER_MEMORY_EDGE_SHIFT : 0;
    ck_assert_uint_eq(l->shift, shift);
    ck_assert_uint_eq(l->part_elements % (UINT64_C(1) << l->shift), 0);
    for (uint32_t d = 0; d < q->n_devices; d++) {
        const uint32_t held = (uint32_t)__builtin_popcount(l->held[d]);
        ck_assert_msg(p->elements[d] <= q->room[d], "device %u: %llu rows of %llu", d,
                      (unsigned long long)p->elements[d], (unsigned long long)q->room[d]);
        ck_assert(held == 0 || q->works >> d & 1);
        if (held) {
            const uint64_t each = sl_shard_plan_each(p, d);
            ck_assert_uint_eq(p->elements[d], l->first + held * each);
            ck_assert_uint_le(each, l->part_elements);
            ck_assert_uint_eq(each % (UINT64_C(1) << l->shift), 0);
        }
        for (uint32_t part = 0; part < l->n_parts; part++) {
            const uint32_t from = l->from[d][part];
            if (l->held[d] >> part & 1)
                ck_assert_uint_eq(from, d);
            if (from == SL_PEER_MEMORY_NOBODY)
                continue;
            ck_assert(l->held[from] >> part & 1);
            ck_assert(q->rate[d][from] > 0);
            ck_assert((q->works | q->reads) >> d & 1);
        }
    }
}

static struct sl_shard_plan planned(const struct sl_plan_question *q)
{
    struct sl_shard_plan p, again;
    ck_assert_msg(sl_shard_plan_make(q, &p) == SL_OK, "%s", sl_error_message());
    ck_assert_int_eq(sl_shard_plan_make(q, &again), SL_OK);
    ck_assert(memcmp(&p.lent, &again.lent, sizeof p.lent) == 0);
    expect_sound(q, &p);
    return p;
}

static struct sl_shard_plan planned_as(struct sl_plan_question q, enum sl_store_placement placement)
{
    q.placement = placement;
    return planned(&q);
}

// Types of any number whose rows have one width are as one: the same curve, so the same plans.
TEST(rows_of_one_width_are_those_of_a_plain_graph)
{
    struct sl_vertex_type type[] = {
        {.n = 1000, .feat_dim = 7, .feat_dtype = SL_DTYPE_F32},
        {.first = 1000, .n = ROWS - 1000, .feat_dim = 14, .feat_dtype = SL_DTYPE_F16}};
    const struct sl_typed typed = {.n_types = 2, .type = type};
    static struct sl_store_curve plain, of_types;
    float visits[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        visits[r] = (float)zipf()[r];
    ck_assert_int_eq(curve_of_zipf(&plain), SL_OK);
    ck_assert_int_eq(sl_store_curve_make(&typed, zipf(), visits, ROWS, &of_types), SL_OK);
    for (uint32_t i = 0; i <= ROWS; i++)
        ck_assert_double_eq_tol(of_types.met[i], plain.met[i], 1e-12);
    struct sl_plan_question q = linked(4, 300, FAST);
    q.curve = &plain;
    const struct sl_shard_plan one = planned(&q);
    q.curve = &of_types;
    const struct sl_shard_plan two = planned(&q);
    ck_assert(memcmp(&one.lent, &two.lent, sizeof one.lent) == 0);
    ck_assert(memcmp(one.elements, two.elements, sizeof one.elements) == 0);
}

// Elements are rows of the mean width: so many of the hottest as fit their bytes, and what they
// have of the bytes that are read. Against a count of each.
TEST(rows_of_several_widths_count_by_their_bytes)
{
    enum { NARROW = 3000, WIDE = 900, BARE = ROWS - NARROW - WIDE };
    struct sl_vertex_type type[] = {
        {.n = NARROW, .feat_dim = 16, .feat_dtype = SL_DTYPE_F32},
        {.first = NARROW, .n = WIDE, .feat_dim = 1024, .feat_dtype = SL_DTYPE_F32},
        {.first = NARROW + WIDE, .n = BARE}};
    static const uint64_t bytes[] = {64, 4096, 0};
    const struct sl_typed typed = {.n_types = 3, .type = type};
    static struct sl_store_curve curve;
    static float visits[ROWS];
    static uint32_t hotness[ROWS];
    const uint64_t unit = (NARROW * bytes[0] + WIDE * bytes[1] + ROWS - 1) / ROWS;
    double all = 0;
    // A wide row and then two narrow ones, as far as there are both: row i of the order.
    uint32_t order[ROWS], n[] = {0, 0, 0};
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t t = i % 3 == 0 ? 1 : 0;
        t = n[t] < type[t].n ? t : n[1 - t] < type[1 - t].n ? 1 - t : 2;
        order[i] = (uint32_t)type[t].first + n[t]++;
        hotness[order[i]] = ROWS - i;
        visits[order[i]] = 1000.0f / (float)(i + 10);
        all += (double)visits[order[i]] * (double)bytes[t];
    }
    ck_assert_int_eq(sl_store_curve_make(&typed, hotness, visits, ROWS, &curve), SL_OK);
    uint64_t taken = 0;
    double met = 0;
    for (uint32_t elements = 0, at = 0; elements <= ROWS; elements++) {
        for (; at < ROWS; at++) {
            const uint64_t b = bytes[sl_typed_type_of(&typed, order[at])];
            if (taken + b > elements * unit)
                break;
            taken += b;
            met += (double)visits[order[at]] * (double)b;
        }
        ck_assert_double_eq_tol(curve.met[elements], met / all, 1e-9);
    }
    ck_assert_double_eq_tol(curve.met[ROWS], 1, 1e-9);
}

LOOP_TEST(gpus_that_all_reach_one_another_hold_as_many_parts_each, 2, 9)
{
    const uint32_t n = (uint32_t)_i;
    const struct sl_plan_question q = linked(n, 100, FAST);
    const struct sl_shard_plan p = planned(&q);
    ck_assert_uint_eq(p.placement, SL_STORE_SOLVER);
    ck_assert_uint_lt(p.lent.first, 10);
    ck_assert_uint_gt(p.cached, n * (100 - 10)); // parts are of whole rows, 8 for a GPU at most
    ck_assert(p.proved);
    for (uint32_t d = 1; d <= n; d++) {
        const int held = __builtin_popcount(p.lent.held[d]), each = (int)(p.lent.n_parts / n);
        ck_assert(held == each || held == each + 1);
    }
    for (uint32_t part = 0; part < p.lent.n_parts; part++)
        ck_assert_uint_ne(p.lent.from[0][part],
                          SL_PEER_MEMORY_NOBODY); // which reads and holds nothing
    ck_assert_uint_eq(p.elements[0], 0);
}

TEST(where_links_are_missing_parts_lie_twice)
{
    struct sl_plan_question q = apart(4, 100);
    for (uint32_t g = 0; g < 4; g++)
        join(&q, 1 + g, 1 + (g + 1) % 4, SINGLE);
    struct sl_shard_plan p = planned(&q);
    ck_assert_uint_eq(p.cached, 200);
    for (uint32_t d = 1; d <= 4; d++)
        ck_assert_int_eq(__builtin_popcount(p.lent.held[d]), 2);
    q = cube_mesh(100);
    p = planned(&q);
    ck_assert_uint_eq(p.cached, 400);
    ck_assert_uint_eq(planned_as(q, SL_STORE_ONE_COPY).cached, 800);
    // Nobody is left without rows that it could hold, though a link is missing.
    q = linked(3, 100, FAST);
    for (uint32_t d = 0; d < 3; d++)
        q.rate[3][d] = q.rate[d][3] = 0;
    p = planned(&q);
    ck_assert_uint_eq(p.lent.held[3], 0);
    ck_assert_uint_eq(p.elements[3], 100);
}

TEST(gpus_that_reach_nobody_are_alone)
{
    const struct sl_plan_question q = apart(4, 100);
    for (int placement = SL_STORE_AUTO; placement <= SL_STORE_ONE_COPY; placement++) {
        const struct sl_shard_plan p = planned_as(q, (enum sl_store_placement)placement);
        ck_assert_uint_eq(p.placement, SL_STORE_ALONE);
        ck_assert_uint_eq(p.lent.n_parts, 0);
        ck_assert_uint_eq(p.elements[4], 100);
    }
}

TEST(who_has_room_for_everything_is_alone)
{
    const struct sl_plan_question q = linked(4, ROWS, FAST);
    ck_assert_uint_eq(planned(&q).placement, SL_STORE_ALONE);
}

TEST(a_gpu_with_little_room_holds_no_part)
{
    struct sl_store_curve curve;
    ck_assert_int_eq(curve_of_zipf(&curve), SL_OK);
    struct sl_plan_question q = linked(4, 800, FAST);
    q.curve = &curve;
    q.room[3] = 10;
    const struct sl_shard_plan p = planned(&q);
    ck_assert_uint_eq(p.lent.held[3], 0);
    ck_assert_uint_eq(p.elements[3], 10);
    ck_assert_uint_gt(p.cached, 2400 - 16);
    for (uint32_t part = 0; part < p.lent.n_parts; part++)
        ck_assert_uint_ne(p.lent.from[3][part], SL_PEER_MEMORY_NOBODY);
}

TEST(all_gpus_hold_no_more_than_the_job_allows)
{
    struct sl_plan_question q = linked(4, 800, FAST);
    for (q.most = 0; q.most < 50; q.most++)
        for (int placement = SL_STORE_AUTO; placement <= SL_STORE_ONE_COPY; placement++)
            planned_as(q, (enum sl_store_placement)placement);
    q.most = 1003; // no multiple of the parts: three rows are on none, or on each
    const struct sl_shard_plan p = planned_as(q, SL_STORE_SOLVER);
    ck_assert_uint_eq(p.cached, 1003);
    ck_assert_uint_eq(p.lent.first, 1003 % SL_PEER_MEMORY_PARTS_MAX);
}

TEST(slow_links_have_the_hottest_rows_on_each)
{
    struct sl_store_curve curve;
    ck_assert_int_eq(curve_of_zipf(&curve), SL_OK);
    struct sl_plan_question q = linked(4, 800, FAST);
    q.curve = &curve;
    const struct sl_shard_plan fast = planned_as(q, SL_STORE_SOLVER);
    q = linked(4, 800, 2);
    q.curve = &curve;
    const struct sl_shard_plan slow = planned_as(q, SL_STORE_SOLVER);
    ck_assert_uint_gt(slow.lent.first, fast.lent.first);
    ck_assert_uint_lt(slow.cached, fast.cached);
    // Much slower than the bus: better none.
    q = linked(4, 800, 0.01F);
    q.curve = &curve;
    ck_assert_uint_eq(planned(&q).placement, SL_STORE_ALONE);
}

// Where row r of the hotness order is read by device d, as its trainer finds it.
static uint32_t source_of(const struct sl_plan_question *q, const struct sl_shard_plan *p,
                          uint32_t d, uint64_t r)
{
    const uint64_t near = p->lent.held[d] ? p->lent.first : p->elements[d];
    if (r < near)
        return d;
    if (r < p->lent.first || r >= end_of(p))
        return q->n_devices;
    const uint64_t i = r - p->lent.first;
    const uint32_t from = p->lent.from[d][i % p->lent.n_parts];
    return from == SL_PEER_MEMORY_NOBODY || i / p->lent.n_parts >= sl_shard_plan_each(p, from)
               ? q->n_devices
               : from;
}

TEST(shares_are_those_of_all_rows_counted)
{
    const uint32_t *hotness = zipf();
    struct sl_store_curve curve;
    double all = 0;
    ck_assert_int_eq(curve_of_zipf(&curve), SL_OK);
    for (uint32_t r = 0; r < ROWS; r++)
        all += hotness[r];
    struct sl_plan_question questions[] = {linked(4, 500, FAST), cube_mesh(300), linked(3, 700, 3)};
    questions[2].room[2] = 20;
    for (size_t i = 0; i < SL_COUNT_OF(questions); i++)
        for (int placement = SL_STORE_AUTO; placement <= SL_STORE_ONE_COPY; placement++) {
            struct sl_plan_question *q = &questions[i];
            q->curve = &curve;
            q->placement = (enum sl_store_placement)placement;
            const struct sl_shard_plan p = planned(q);
            for (uint32_t d = 0; d < q->n_devices; d++) {
                double share[SL_PEER_MEMORY_DEVICES_MAX + 1],
                    found[SL_PEER_MEMORY_DEVICES_MAX + 1] = {0};
                for (uint32_t r = 0; r < ROWS; r++)
                    found[source_of(q, &p, d, r)] += hotness[r] / all;
                sl_shard_plan_shares(q, &p, d, share);
                // Parts are taken for equal, and the first of them has the hottest row of all.
                for (uint32_t from = 0; from <= q->n_devices; from++)
                    ck_assert_double_eq_tol(share[from], found[from], 0.03);
                ck_assert_double_eq_tol(share[q->n_devices], found[q->n_devices], 0.005);
            }
        }
}

// Any machine: budgets, links and what the job allows by chance.
LOOP_TEST(every_plan_is_sound, 0, 4)
{
    struct sl_store_curve curve;
    ck_assert_int_eq(curve_of_zipf(&curve), SL_OK);
    for (uint32_t k = 0; k < 60; k++) {
        const uint32_t n = 2 + k % 7;
        struct sl_plan_question q = apart(n, 0);
        uint32_t word = 0;
#define CHANCE(most) (sl_philox(77, 0, (uint32_t)_i, k, word++).w[0] % (most))
        for (uint32_t a = 0; a <= n; a++) {
            q.room[a] = CHANCE(4) ? CHANCE(ROWS) : 500;
            for (uint32_t b = 0; b < a; b++)
                if (CHANCE(3))
                    join(&q, a, b, (float)(1 + CHANCE(60)));
        }
        q.most = CHANCE(3) ? ROWS : CHANCE(ROWS);
        q.curve = CHANCE(2) ? &curve : NULL;
        const struct sl_shard_plan alone = planned_as(q, SL_STORE_ALONE);
        ck_assert_double_le(planned(&q).busiest_seconds, alone.busiest_seconds);
        for (int placement = SL_STORE_SOLVER; placement <= SL_STORE_ONE_COPY; placement++)
            planned_as(q, (enum sl_store_placement)placement);
    }
}

// The graph: rows of any degree, and of each vertex as many reads as chance has it.
enum { VERTICES = 3000 };
static uint64_t offsets[VERTICES + 1];
static float edge_reads[VERTICES];

static void make_graph(void)
{
    for (uint32_t v = 0; v < VERTICES; v++) {
        const struct sl_rng_block random = sl_philox(5, 0, 0, 0, v);
        const uint32_t *w = random.w;
        offsets[v + 1] = offsets[v] + (v % 7 == 0 ? 0 : w[0] % 200) + (v == 1000 ? 100000 : 0);
        const float each = (float)(50 + w[1] % 100) / (float)(100 + v); // of its edges
        edge_reads[v] = (float)(offsets[v + 1] - offsets[v]) * each;
    }
}

static struct sl_plan_question of_graph(struct sl_plan_question q)
{
    q.kind = SL_PEER_MEMORY_GRAPH;
    q.n_elements = q.most = offsets[VERTICES];
    q.reads = 0;
    return q;
}

TEST(the_curve_of_edges_is_that_of_all_edges_counted)
{
    struct sl_store_curve curve;
    double all = 0, before = 0;
    uint64_t edge = 0;
    make_graph();
    sl_store_curve_of_edges(offsets, edge_reads, VERTICES, &curve);
    for (uint32_t v = 0; v < VERTICES; v++)
        all += (double)edge_reads[v];
    for (uint32_t v = 0; v < VERTICES; v++)
        for (uint64_t e = offsets[v]; e < offsets[v + 1]; e++, edge++) {
            const double each = (double)edge_reads[v] / (double)(offsets[v + 1] - offsets[v]);
            const double at = (double)edge * SL_STORE_CURVE_POINTS / (double)offsets[VERTICES];
            const uint32_t i = (uint32_t)at; // between points of the curve
            ck_assert_double_ge(before / all, curve.met[i] - 1e-6);
            ck_assert_double_le(before / all, curve.met[i + 1] + 1e-6);
            before += each;
        }
    ck_assert_double_eq_tol(curve.met[SL_STORE_CURVE_POINTS], 1, 1e-9);
    ck_assert_double_eq(curve.met[0], 0);
}

TEST(edges_that_nobody_reads_count_the_same)
{
    static const float none[VERTICES];
    struct sl_store_curve curve;
    make_graph();
    sl_store_curve_of_edges(offsets, none, VERTICES, &curve);
    ck_assert_double_eq_tol(curve.met[SL_STORE_CURVE_POINTS / 4], 0.25, 1e-9);
}

// Edge e is read by device d there.
static uint32_t source_of_edge(const struct sl_plan_question *q, const struct sl_shard_plan *p,
                               uint32_t d, uint64_t e)
{
    const struct sl_peer_memory_plan *l = &p->lent;
    const uint64_t near = l->held[d] ? l->first : p->elements[d];
    if (e < near)
        return d;
    if (e < l->first || e >= end_of(p))
        return q->n_devices;
    const uint64_t run = (e - l->first) >> l->shift;
    const uint32_t from = l->from[d][run % l->n_parts];
    return from == SL_PEER_MEMORY_NOBODY ||
                   run / l->n_parts >= sl_shard_plan_each(p, from) >> l->shift
               ? q->n_devices
               : from;
}

// Every subset of four GPUs samples, under each placement: where each edge is read, counted.
TEST(every_subset_of_gpus_reads_what_shares_say)
{
    struct sl_store_curve curve;
    make_graph();
    sl_store_curve_of_edges(offsets, edge_reads, VERTICES, &curve);
    const uint64_t n_edges = offsets[VERTICES];
    double all = 0;
    for (uint32_t v = 0; v < VERTICES; v++)
        all += (double)edge_reads[v];
    for (uint32_t set = 0; set < 16; set++)
        for (int placement = SL_STORE_AUTO; placement <= SL_STORE_ONE_COPY; placement++) {
            struct sl_plan_question q = of_graph(linked(4, n_edges / 5, FAST));
            q.curve = &curve;
            q.works = (uint64_t)set << 1;
            for (uint32_t d = 1; d <= 4; d++)
                q.room[d] = set >> (d - 1) & 1 ? q.room[d] + 137 * d : 0;
            const struct sl_shard_plan p = planned_as(q, (enum sl_store_placement)placement);
            const uint32_t n = (uint32_t)__builtin_popcount(set);
            ck_assert_int_eq(p.lent.n_parts > 0, n > 1 && placement != SL_STORE_ALONE);
            // Nothing but what does not fill runs is left out of anybody's room.
            for (uint32_t d = 1; d <= 4; d++)
                if (p.lent.held[d])
                    ck_assert_uint_gt(p.elements[d] + ((uint64_t)__builtin_popcount(p.lent.held[d])
                                                       << SL_PEER_MEMORY_EDGE_SHIFT),
                                      q.room[d]);
            for (uint32_t d = 1; d <= 4; d++) {
                double share[SL_PEER_MEMORY_DEVICES_MAX + 1],
                    found[SL_PEER_MEMORY_DEVICES_MAX + 1] = {0};
                if (!(q.works >> d & 1))
                    continue;
                for (uint32_t v = 0; v < VERTICES; v++)
                    for (uint64_t e = offsets[v]; e < offsets[v + 1]; e++)
                        found[source_of_edge(&q, &p, d, e)] +=
                            (double)edge_reads[v] / (double)(offsets[v + 1] - offsets[v]) / all;
                sl_shard_plan_shares(&q, &p, d, share);
                for (uint32_t from = 0; from <= q.n_devices; from++)
                    ck_assert_double_eq_tol(share[from], found[from], 0.05);
                ck_assert_double_eq_tol(share[q.n_devices], found[q.n_devices], 0.002);
            }
        }
}

TEST(what_fills_no_runs_lies_on_each_where_there_is_room)
{
    make_graph();
    struct sl_plan_question q = of_graph(linked(4, 60 << SL_PEER_MEMORY_EDGE_SHIFT, FAST));
    const uint64_t run = 1 << SL_PEER_MEMORY_EDGE_SHIFT;
    q.placement = SL_STORE_SOLVER;
    q.most = 32 * run + 5; // two runs of each part, and five edges
    struct sl_shard_plan p = planned(&q);
    ck_assert_uint_eq(end_of(&p), q.most);
    ck_assert_uint_eq(p.lent.n_parts, SL_PEER_MEMORY_PARTS_MAX);
    ck_assert_uint_eq(p.lent.part_elements, 2 * run);
    ck_assert_uint_eq(p.lent.first, 5);
    for (uint32_t d = 1; d <= 4; d++) // no room beside the parts
        q.room[d] = 8 * run;
    p = planned(&q);
    ck_assert_uint_eq(end_of(&p), 32 * run);
    ck_assert_uint_eq(p.lent.first, 0);
}

TEST(a_graph_that_each_gpu_holds_is_in_no_parts)
{
    make_graph();
    struct sl_plan_question q = of_graph(linked(4, offsets[VERTICES], FAST));
    const struct sl_shard_plan p = planned_as(q, SL_STORE_SOLVER);
    ck_assert_uint_eq(p.lent.n_parts, 0);
    ck_assert_str_eq(p.reason, "each GPU that samples has room for every edge");
}

TEST(without_room_for_a_run_nobody_shares)
{
    make_graph();
    const struct sl_plan_question q = of_graph(linked(4, 1000, FAST));
    ck_assert_uint_eq(planned_as(q, SL_STORE_SOLVER).lent.n_parts, 0);
}

// --- from one plan to the next -------------------------------------------------------------------

// Parts that a device holds and has not held before.
static uint32_t moved(const struct sl_plan_question *q, const struct sl_peer_memory_plan *before,
                      const struct sl_peer_memory_plan *after)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < q->n_devices; d++)
        n += (uint32_t)__builtin_popcount(after->held[d] & ~before->held[d]);
    return n;
}

// The least that can move: each keeps what it had as far as all have about as many.
static uint32_t least_moved(const struct sl_plan_question *q,
                            const struct sl_peer_memory_plan *before)
{
    const uint32_t n = (uint32_t)__builtin_popcountll(q->works),
                   each = SL_PEER_MEMORY_PARTS_MAX / n;
    uint32_t more = SL_PEER_MEMORY_PARTS_MAX % n, kept = 0;
    for (uint32_t d = 0; d < q->n_devices; d++) {
        const uint32_t had = (uint32_t)__builtin_popcount(before->held[d]);
        if (!(q->works >> d & 1))
            continue;
        kept += SL_MIN(had, each + (more > 0));
        more -= had > each && more > 0;
    }
    return SL_PEER_MEMORY_PARTS_MAX - kept;
}

// GPUs come and go by chance, all linked: nothing moves that could stay.
LOOP_TEST(what_changes_hands_is_the_least, 0, 4)
{
    struct sl_store_curve curve;
    ck_assert_int_eq(curve_of_zipf(&curve), SL_OK);
    struct sl_plan_question q = linked(8, 40 + 30 * (uint64_t)_i, 400);
    struct sl_peer_memory_plan before = {0};
    q.curve = &curve;
    q.placement = SL_STORE_SOLVER;
    for (uint32_t k = 0; k < 40; k++) {
        const uint64_t works = q.works;
        q.works = sl_philox(78, 0, (uint32_t)_i, k, 0).w[0] & 0x1fe;
        if (__builtin_popcountll(q.works) < 2)
            q.works = works;
        q.before = &before;
        const struct sl_shard_plan p = planned(&q);
        ck_assert_uint_eq(p.lent.n_parts, SL_PEER_MEMORY_PARTS_MAX);
        if (before.n_parts) {
            ck_assert_uint_eq(p.lent.first, before.first);
            ck_assert_uint_eq(moved(&q, &before, &p.lent), least_moved(&q, &before));
        }
        before = p.lent;
    }
}

// Where one GPU with a part more than others would be the slowest, all change hands instead.
TEST(parts_that_stay_cost_no_work)
{
    struct sl_plan_question q = linked(4, ROWS / 2, FAST);
    q.host = 1; // all that there is to do is over links
    const struct sl_shard_plan four = planned_as(q, SL_STORE_SOLVER);
    ck_assert_uint_eq(four.lent.n_parts, SL_PEER_MEMORY_PARTS_MAX);
    q.works = 0xe;
    q.before = &four.lent;
    const struct sl_shard_plan three = planned_as(q, SL_STORE_SOLVER);
    ck_assert_uint_eq(three.lent.n_parts, 3);
}

RUN_TESTS(.timeout_s = 120)

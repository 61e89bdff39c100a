// What part of a cache of rows each width gets, and that no other division saves the drive more.
#include "broker/scheduler/row_widths.h"

#include <math.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

static struct sl_row_cache_shape divide(const struct sl_row_widths *w, uint64_t bytes,
                                        uint64_t least)
{
    struct sl_row_cache_shape shape = {.n_rows = 1};
    sl_row_widths_divide(w, bytes, least, &shape);
    uint64_t slots = 0;
    ck_assert_uint_eq(shape.n_widths, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        ck_assert_uint_eq(shape.width[i].row_bytes, w->of[i].row_bytes);
        ck_assert_uint_ge(shape.width[i].n_slots, SL_MIN(least, w->of[i].n_rows));
        ck_assert_uint_le(shape.width[i].n_slots, w->of[i].n_rows);
        slots += shape.width[i].n_slots;
    }
    ck_assert_uint_eq(shape.n_slots, slots);
    ck_assert_uint_le(sl_row_cache_room(&shape), bytes);
    return shape;
}

TEST(one_width_has_it_all)
{
    const struct sl_row_widths w = {1, {{92, 1000, 0.5, 0}}};
    ck_assert_uint_eq(divide(&w, 64000, 10).n_slots, 640);
    ck_assert_uint_eq(divide(&w, 64099, 640).n_slots, 640);
    ck_assert_uint_eq(divide(&w, 640000, 10).n_slots, 1000); // there are no more
}

// Of the first n rows those that a mini-batch wants, the k-th with chance 1 - exp(-a / k).
static double wanted_of(double a, uint64_t n)
{
    double sum = 0;
    for (uint64_t k = 1; k <= n; k++)
        sum -= expm1(-a / (double)k);
    return sum;
}

// Blocks that rows save the drive.
static double saved(const struct sl_row_widths *w, const struct sl_row_cache_shape *s)
{
    double blocks = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        double low = 0, high = 40.0 * (double)w->of[i].n_rows;
        for (int step = 0; step < 60; step++) {
            const double a = (low + high) / 2;
            *(wanted_of(a, w->of[i].n_rows) < w->of[i].wanted ? &low : &high) = a;
        }
        blocks += wanted_of(low, s->width[i].n_slots) * sl_row_blocks(w->of[i].row_bytes);
    }
    return blocks;
}

// Than this division: moving bytes from any width to any other saves less.
static void no_other_is_better(const struct sl_row_widths *w, const struct sl_row_cache_shape *best)
{
    for (uint32_t from = 0; from < w->n; from++)
        for (uint32_t to = 0; to < w->n; to++) {
            struct sl_row_cache_shape other = *best;
            const uint64_t moved =
                SL_MIN(best->width[from].n_slots * w->of[from].row_bytes / 16, (uint64_t)1 << 20);
            other.width[from].n_slots -= moved / (w->of[from].row_bytes + 8);
            other.width[to].n_slots += moved / (w->of[to].row_bytes + 8);
            if (from != to && other.width[to].n_slots <= w->of[to].n_rows)
                ck_assert_double_lt(saved(w, &other), saved(w, best));
        }
}

/*
 * A narrow row is worth more a byte, since a read of one block brings no more of it.
 */
TEST(bytes_go_where_they_save_the_drive_most)
{
    const struct sl_row_widths w = {
        3, {{4096, 20000, 900, 0}, {64, 30000, 700, 0}, {1024, 20000, 10, 0}}};
    struct sl_row_cache_shape shape = divide(&w, 20 << 20, 64);
    ck_assert_uint_eq(shape.width[1].n_slots, 30000); // 2 MiB for all of them
    ck_assert_uint_gt(shape.width[0].n_slots, 10 * shape.width[2].n_slots);
    ck_assert_uint_gt(sl_row_cache_room(&shape), (20 << 20) - 3 * 5000);
    no_other_is_better(&w, &shape);
}

// A mini-batch wants most rows of the wide ones: they are all alike then.
TEST(narrow_rows_come_first_where_most_rows_are_wanted)
{
    const struct sl_row_widths w = {2, {{512, 20000, 17000, 0}, {64, 10000, 3000, 0}}};
    const struct sl_row_cache_shape few = divide(&w, 144000, 0), more = divide(&w, 2 << 20, 0);
    ck_assert_uint_eq(few.width[0].n_slots, 0);
    ck_assert_uint_eq(few.width[1].n_slots, 2000);
    ck_assert_uint_gt(more.width[0].n_slots, 1000);
    no_other_is_better(&w, &more);
}

TEST(what_nobody_wants_has_the_least)
{
    const struct sl_row_widths w = {3, {{100, 500, 0, 0}, {200, 500, 9, 0}, {300, 0, 0, 0}}};
    const struct sl_row_cache_shape shape = divide(&w, 1 << 20, 20);
    ck_assert_uint_eq(shape.width[0].n_slots, 20);
    ck_assert_uint_eq(shape.width[1].n_slots, 500);
    ck_assert_uint_eq(sl_row_widths_bytes(&w, 20), 20 * 108 + 20 * 208);
}

// ---- what a mini-batch wants --------------------------------------------------------------------

static struct sl_vertex_type type[] = {
    {.n = 1000, .feat_dim = 8, .feat_dtype = SL_DTYPE_F16, .feat = type},
    {.first = 1000, .n = 100000, .feat_dim = 4, .feat_dtype = SL_DTYPE_F32, .feat = type},
    {.first = 101000, .n = 10, .feat_dim = 2, .feat_dtype = SL_DTYPE_F32, .feat = type},
    {.first = 101010, .n = 50},
};
// 5 of type 1 for each of type 0, 3 of type 2 for each of type 1, 1 of type 3 for each of type 2
static struct sl_relation relation[] = {
    {.source = 1, .target = 0, .n_edges = 5000},
    {.source = 2, .target = 1, .n_edges = 300000},
    {.source = 3, .target = 2, .n_edges = 10},
};
static struct sl_dataset ds = {
    .n_nodes = 101060,
    .typed = {.n_types = 4, .n_relations = 3, .type = type, .relation = relation}};

static struct sl_row_widths find(int64_t first, int64_t second)
{
    static struct sl_config config;
    struct sl_row_widths w;
    config.sampler.batch_size = 10;
    config.sampler.expand = SL_EXPAND_NEW;
    config.sampler.n_fanout = 2;
    config.sampler.fanout[0] = first;
    config.sampler.fanout[1] = second;
    sl_row_widths_find(&config, &ds, &w);
    return w;
}

TEST(types_of_one_width_go_together)
{
    const struct sl_row_widths w = find(4, -1);
    ck_assert_uint_eq(w.n, 2);
    ck_assert_uint_eq(w.of[0].row_bytes, 16);
    ck_assert_uint_eq(w.of[0].n_rows, 101000);
    ck_assert_double_eq_tol(w.of[0].wanted, 10 + 40, 0.1);
    ck_assert_uint_eq(w.of[1].row_bytes, 8);
    ck_assert_double_eq_tol(w.of[1].wanted, 10 * -expm1(-4 * 10 * 3 / 10.0), 0.1); // all, nearly
    ck_assert_double_eq_tol(find(-1, 1).of[0].wanted, 10 + 50, 0.1);
    ck_assert_double_eq_tol(find(0, 5).of[0].wanted, 10, 0.1);
}

// Of type 1: 4 walks, each 3 times through the relations from type 0 to it; they begin anywhere.
TEST(walks_find_as_many_as_they_may_meet)
{
    struct sl_relation along[] = {{.source = 1, .target = 0, .n_steps = 1, .step = {1}},
                                  relation[0]};
    const struct sl_dataset walked = {
        .n_nodes = 101060,
        .typed = {.n_types = 4, .n_relations = 1, .n_walked = 1, .type = type, .relation = along}};
    static struct sl_config config;
    struct sl_row_widths w;
    config.sampler.batch_size = 10;
    config.sampler.n_fanout = 1;
    config.sampler.paths = 4;
    config.sampler.length = 3;
    config.sampler.fanout[0] = -1;
    sl_row_widths_find(&config, &walked, &w);
    ck_assert_double_eq_tol(w.of[0].wanted, 10 + 120, 0.2);
    config.sampler.fanout[0] = 5;
    sl_row_widths_find(&config, &walked, &w);
    ck_assert_double_eq_tol(w.of[0].wanted, 10 + 50, 0.1);
}

TEST(a_plain_graph_has_one_width)
{
    const struct sl_dataset plain = {.n_nodes = 77, .feat_dim = 3, .feat_dtype = SL_DTYPE_F16};
    const struct sl_config config = {0};
    struct sl_row_widths w;
    sl_row_widths_find(&config, &plain, &w);
    ck_assert_uint_eq(w.n, 1);
    ck_assert_uint_eq(w.of[0].row_bytes, 6);
    ck_assert_uint_eq(w.of[0].n_rows, 77);
    sl_row_widths_find(&config, &(struct sl_dataset){.n_nodes = 77}, &w);
    ck_assert_uint_eq(w.n, 0);
}

RUN_TESTS()

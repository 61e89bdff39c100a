// Rows that a node's batches want of other nodes, and those that its cache does not have, beside
// those of a plain walk over all neighbours.
#include "common/arena/phase.h"
#include "partition/node_rows.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

enum { NODES_MAX = 8, EPOCHS = 2, PHASES = 3 * EPOCHS, HOPS = 2, MANY = 1000, SLOTS = 400 };

static uint16_t part[GRAPH_NODES_MAX];
static uint32_t evaluated[GRAPH_NODES_MAX];
static struct sl_dataset opened;
static struct sl_config config;
static struct sl_phase_spec phase[PHASES];
static struct sl_node_rows rows;

// Training, an evaluation that each node does by itself, and the same once more.
static void begin(uint32_t n_vertices, uint32_t n_nodes, unsigned seed)
{
    write_graph(n_vertices, n_nodes, seed);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_TRAIN, SL_CHECK_CACHED, 1, &opened));
    for (uint32_t v = 0; v < n_vertices; v++)
        part[v] = (uint16_t)((uint32_t)rand() % n_nodes);
    for (uint32_t i = 0; i < 20; i++)
        evaluated[i] = i * 2;
    opened.split[SL_SPLIT_VAL] = (struct sl_vertex_list){.n = 20, .ids = evaluated};
    config = (struct sl_config){.seed = seed,
                                .sampler = {.n_fanout = HOPS, .fanout = {-1, -1}, .batch_size = 3},
                                .evaluate = {.n_fanout = 1, .fanout = {-1}, .batch_size = 2},
                                .updates.batches_per_update = 5};
    for (uint32_t e = 0; e < EPOCHS; e++) {
        phase[2 * e] = (struct sl_phase_spec){.kind = SL_PHASE_TRAIN,
                                              .set = SL_SET_TRAIN,
                                              .epoch = e,
                                              .batch_size = 3,
                                              .n_items = opened.split[SL_SPLIT_TRAIN].n};
        phase[2 * e + 1] = (struct sl_phase_spec){
            .kind = SL_PHASE_EVAL, .set = SL_SET_VAL, .epoch = e, .batch_size = 2, .n_items = 20};
    }
    const struct sl_node_rows_spec spec = {.config = &config,
                                           .ds = &opened,
                                           .n_nodes = n_nodes,
                                           .part = part,
                                           .phase = phase,
                                           .n_phases = 2 * EPOCHS,
                                           .progress = &quiet};
    must(sl_node_rows_open(&rows, &spec));
}

static void end(void)
{
    sl_node_rows_close(&rows);
    sl_dataset_close(&opened);
    free_graph();
}

static struct sl_arena_spec arena_of(uint64_t n_slots, uint32_t window)
{
    return (struct sl_arena_spec){.rows = {.n_rows = opened.n_nodes,
                                           .n_slots = n_slots,
                                           .window = window,
                                           .n_widths = 1,
                                           .width = {{.row_bytes = 4, .n_slots = n_slots}}},
                                  .asks = {.n_slots = 2, .max_rows = 4}};
}

// What a node without a cache, and one that keeps every row for ever, come to.
struct walk {
    struct sl_node_rows_count bare[PHASES], keeps[PHASES];
    bool has[GRAPH_NODES_MAX];
};

static void walk_batch(struct walk *w, uint32_t node, uint32_t p, const uint32_t *seeds, uint32_t n)
{
    bool is_in[GRAPH_NODES_MAX] = {0};
    bool asked[NODES_MAX] = {0}, asked_kept[NODES_MAX] = {0};
    uint64_t remote = 0, missing = 0, routes = 0, kept_routes = 0;
    for (uint32_t i = 0; i < n; i++)
        is_in[seeds[i]] = true;
    for (uint32_t hop = 0; hop < (phase[p].kind == SL_PHASE_TRAIN ? HOPS : 1); hop++) {
        bool was_in[GRAPH_NODES_MAX];
        memcpy(was_in, is_in, sizeof was_in);
        for (uint32_t v = 0; v < opened.n_nodes; v++)
            for (uint64_t e = opened.indptr[v]; was_in[v] && e < opened.indptr[v + 1]; e++)
                is_in[sl_dataset_source(&opened, e)] = true;
    }
    for (uint32_t v = 0; v < opened.n_nodes; v++) {
        w->bare[p].inputs += is_in[v];
        if (!is_in[v] || part[v] == node)
            continue;
        remote++;
        routes += !asked[part[v]];
        asked[part[v]] = true;
        if (w->has[v])
            continue;
        missing++;
        kept_routes += !asked_kept[part[v]];
        asked_kept[part[v]] = w->has[v] = true;
    }
    w->bare[p].batches++;
    w->bare[p].remote += remote;
    w->bare[p].fetched += remote;
    w->bare[p].messages += routes * ((remote + 3) / 4);
    w->keeps[p].fetched += missing;
    w->keeps[p].messages += kept_routes * ((missing + 3) / 4);
}

static void walk_all(struct walk *w, uint32_t node, uint32_t n_nodes)
{
    const struct sl_vertex_list train = opened.split[SL_SPLIT_TRAIN];
    const struct sl_order_inputs facts = {
        .dataset = &opened, .train = train, .seed = config.seed, .batch_size = 3};
    uint32_t order[GRAPH_NODES_MAX];
    struct sl_epoch_order epochs;
    memset(w, 0, sizeof *w);
    must(sl_epoch_order_open(&epochs, SL_ORDER_SHUFFLED, &facts));
    for (uint32_t p = 0; p < 2 * EPOCHS; p++) {
        const bool trains = phase[p].kind == SL_PHASE_TRAIN;
        sl_epoch_order_fill(&epochs, phase[p].epoch, order);
        for (uint32_t cell = 0; cell * phase[p].batch_size < phase[p].n_items; cell++) {
            const uint32_t first = cell * phase[p].batch_size;
            if ((trains ? cell % 5 : cell) % n_nodes == node)
                walk_batch(w, node, p, (trains ? order : evaluated) + first,
                           SL_MIN(phase[p].batch_size, (uint32_t)phase[p].n_items - first));
        }
        w->bare[p].cells = w->bare[p].batches;
        w->keeps[p].cells = w->keeps[p].batches = w->bare[p].batches;
        w->keeps[p].inputs = w->bare[p].inputs;
        w->keeps[p].remote = w->bare[p].remote;
    }
    sl_epoch_order_close(&epochs);
}

static void assert_counts(const struct sl_node_rows_count *found,
                          const struct sl_node_rows_count *wanted)
{
    for (uint32_t p = 0; p < 2 * EPOCHS; p++) {
        ck_assert_uint_eq(found[p].cells, wanted[p].cells);
        ck_assert_uint_eq(found[p].batches, wanted[p].batches);
        ck_assert_uint_eq(found[p].inputs, wanted[p].inputs);
        ck_assert_uint_eq(found[p].remote, wanted[p].remote);
        ck_assert_uint_eq(found[p].fetched, wanted[p].fetched);
        ck_assert_uint_eq(found[p].messages, wanted[p].messages);
    }
}

CASE(.begin = scratch_begin, .end = scratch_end)

LOOP_TEST(rows_are_those_of_a_walk_over_the_node_s_batches, 0, 8)
{
    const uint32_t n_nodes = 2 + (uint32_t)_i % 4, node = (uint32_t)_i % n_nodes;
    struct sl_node_rows_count found[PHASES];
    struct walk w;
    begin(80 + (uint32_t)_i * 20, n_nodes, (unsigned)_i);
    walk_all(&w, node, n_nodes);
    struct sl_arena_spec arena = arena_of(0, 0);
    must(sl_node_rows_count(&rows, node, &arena, false, MANY, found));
    assert_counts(found, w.bare);
    arena = arena_of(SLOTS, (uint32_t)_i * 3);
    must(sl_node_rows_count(&rows, node, &arena, false, MANY, found));
    assert_counts(found, w.keeps);
    // Own rows have places in the cache, too, and come from nowhere.
    must(sl_node_rows_count(&rows, node, &arena, true, MANY, found));
    assert_counts(found, w.keeps);
    end();
}

// Rows that are fetched long before they are used lose their slots to those that are used earlier.
TEST(a_cache_that_is_too_small_for_all_batches_in_hand_brings_rows_twice)
{
    struct sl_node_rows_count near[PHASES], far[PHASES];
    uint64_t sum_near = 0, sum_far = 0;
    begin(400, 2, 5);
    config.sampler.n_fanout = 1;
    struct sl_arena_spec arena = arena_of(16, 16);
    must(sl_node_rows_count(&rows, 1, &arena, false, MANY, near));
    arena.fetch_ahead = 16;
    must(sl_node_rows_count(&rows, 1, &arena, false, MANY, far));
    for (uint32_t p = 0; p < 2 * EPOCHS; p++) {
        ck_assert_uint_eq(near[p].remote, far[p].remote);
        ck_assert_uint_le(near[p].fetched, near[p].remote);
        sum_near += near[p].fetched;
        sum_far += far[p].fetched;
    }
    ck_assert_uint_gt(sum_far, sum_near);
    end();
}

TEST(a_small_cache_brings_more_than_a_large_one_and_less_than_none)
{
    struct sl_node_rows_count found[PHASES], again[PHASES];
    struct walk w;
    uint64_t fetched = 0, least = 0, most = 0;
    begin(300, 2, 5);
    walk_all(&w, 1, 2);
    const struct sl_arena_spec arena = arena_of(90, 4);
    must(sl_node_rows_count(&rows, 1, &arena, false, MANY, found));
    must(sl_node_rows_count(&rows, 1, &arena, false, MANY, again));
    ck_assert_mem_eq(found, again, 2 * EPOCHS * sizeof *found);
    for (uint32_t p = 0; p < 2 * EPOCHS; p++) {
        fetched += found[p].fetched;
        least += w.keeps[p].fetched;
        most += w.bare[p].fetched;
    }
    ck_assert_uint_gt(fetched, least);
    ck_assert_uint_lt(fetched, most);
    end();
}

TEST(no_more_batches_of_a_phase_are_drawn_than_are_asked_for)
{
    struct sl_node_rows_count all[PHASES], some[PHASES];
    begin(200, 3, 2);
    const struct sl_arena_spec arena = arena_of(0, 8);
    must(sl_node_rows_count(&rows, 2, &arena, false, MANY, all));
    must(sl_node_rows_count(&rows, 2, &arena, false, 2, some));
    for (uint32_t p = 0; p < 2 * EPOCHS; p++) {
        ck_assert_uint_eq(some[p].cells, all[p].cells);
        ck_assert_uint_gt(all[p].batches, 2);
        ck_assert_uint_eq(some[p].batches, 2);
        ck_assert_uint_lt(some[p].remote, all[p].remote);
    }
    end();
}

// Vertex 0, which one edge in ten is from, is not pushed out by what comes between.
TEST(hot_rows_stay_in_a_cache_that_is_too_small)
{
    struct sl_node_rows_count cold[PHASES], hot[PHASES];
    uint32_t rank[GRAPH_NODES_MAX];
    begin(400, 2, 8);
    const uint32_t node = 1 - part[0];
    config.sampler.n_fanout = 1;
    phase[0].batch_size = phase[2].batch_size = 1;
    for (uint32_t v = 0; v < opened.n_nodes; v++)
        rank[v] = v;
    struct sl_arena_spec arena = arena_of(20, 0);
    must(sl_node_rows_count(&rows, node, &arena, false, MANY, cold));
    rows.spec.rank = rank;
    arena.rows.n_hot = 1;
    must(sl_node_rows_count(&rows, node, &arena, false, MANY, hot));
    ck_assert_uint_lt(hot[2].fetched, cold[2].fetched);
    end();
}

RUN_TESTS()

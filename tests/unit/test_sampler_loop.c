/*
 * The sampler's loop against a real arena in one process: this program is broker and trainer, the
 * samplers are threads.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/ipc/extent.h"
#include "config/config.h"
#include "sampler/loop.h"
#include "tests/unit/sampler_fixture.h"

enum { N = 3000, BATCH = 100, SAMPLERS_MAX = 4, CLAIM_MS = 20000 };

static struct fixture fx;
static struct sl_config config;
static struct sl_arena arena;
static int fd;

struct runner {
    struct sl_drawer drawer;
    struct sl_sampler sampler;
    _Atomic bool stop;
    pthread_t thread;
    int rc;
};

static struct runner runners[SAMPLERS_MAX];

static void setup(void)
{
    fx = fixture_graph(N);
    memset(&config, 0, sizeof config);
    config.seed = 12;
    config.digest = true;
    config.sampler.n_fanout = 2;
    config.sampler.fanout[0] = 10;
    config.sampler.fanout[1] = 5;
    config.sampler.batch_size = BATCH;
    config.evaluate.n_fanout = 1;
    config.evaluate.fanout[0] = -1;
    config.evaluate.batch_size = BATCH;
}

static void open_arena(uint64_t payload_bytes)
{
    uint64_t n_train = fx.topology.dataset.split[SL_SPLIT_TRAIN].n;
    struct sl_arena_spec spec = {.n_workers = SAMPLERS_MAX + 1,
                                 .n_cells = 64,
                                 .n_train = n_train,
                                 .n_params = 4,
                                 .n_state = 1,
                                 .batches_per_update = 4,
                                 .payload_bytes = payload_bytes};
    fd = sl_arena_memfd();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sl_arena_create(fd, &spec, &arena), SL_OK);
    // An order that is not the list's: backwards, the next epoch's from the middle on.
    const uint32_t *train = fx.split[SL_SPLIT_TRAIN];
    for (uint64_t i = 0; i < n_train; i++) {
        sl_arena_order(&arena, 0)[i] = train[n_train - 1 - i];
        sl_arena_order(&arena, 1)[i] = train[(i + n_train / 2) % n_train];
    }
}

static void teardown(void)
{
    sl_arena_detach(&arena);
    close(fd);
    fixture_free(&fx);
}

// EVAL phases have no updates to wait for, so that they are over when their batches are done.
static uint64_t open_phase(enum sl_phase_kind kind, enum sl_vertex_set set, uint32_t epoch,
                           uint64_t n_items)
{
    struct sl_phase_spec p = {
        .kind = kind, .set = set, .epoch = epoch, .batch_size = BATCH, .n_items = n_items};
    uint64_t seq = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
    return seq;
}

static void prepare(struct runner *r, uint32_t worker, uint64_t guess_bytes)
{
    ck_assert_int_eq(sl_drawer_init(&r->drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
    atomic_store(&r->stop, false);
    r->sampler = (struct sl_sampler){.arena = &arena,
                                     .worker = worker,
                                     .config = &config,
                                     .drawer = &r->drawer,
                                     .stats = sl_stats_slot(&arena, worker),
                                     .stop = &r->stop,
                                     .guess_bytes = guess_bytes};
    sl_stats_begin(r->sampler.stats, worker);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    r->rc = sl_sampler_run(&r->sampler);
    return NULL;
}

static void start(struct runner *r, uint32_t worker, uint64_t guess_bytes)
{
    prepare(r, worker, guess_bytes);
    ck_assert_int_eq(pthread_create(&r->thread, NULL, run, r), 0);
}

static int join(struct runner *r)
{
    ck_assert_int_eq(pthread_join(r->thread, NULL), 0);
    sl_drawer_fini(&r->drawer);
    return r->rc;
}

static int stop(struct runner *r)
{
    atomic_store(&r->stop, true);
    return join(r);
}

static uint64_t used_bytes(void)
{
    struct sl_ledger_depth depth;
    sl_ledger_depth(&arena, &depth);
    return depth.payload_bytes;
}

// Takes the next ready batch, compares it with one drawn here, and finishes it.
static void take_and_compare(struct sl_drawer *d, uint32_t cell, enum sl_phase_kind kind,
                             uint32_t epoch, const uint32_t *vertices, uint64_t n)
{
    struct sl_lease lease;
    int rc = sl_ledger_claim_train(&arena, 99, CLAIM_MS, &lease);
    EXPECT(rc == SL_OK, "batch %u: %d", cell, rc);
    const struct sl_batch_entry *e = lease.entry;
    const struct sl_block *got = (const struct sl_block *)(arena.base + e->payload_offset);
    const struct sl_draw_plan plan = sl_plan_of(&config, kind);
    uint32_t n_seeds = (uint32_t)SL_MIN((uint64_t)BATCH, n - (uint64_t)cell * BATCH);
    struct sl_block *want =
        fixture_draw(d, &plan, epoch, cell, vertices + (uint64_t)cell * BATCH, n_seeds);
    EXPECT(lease.cell == cell, "batch %u, wanted %u", lease.cell, cell);
    EXPECT(got->bytes == want->bytes && memcmp(got, want, want->bytes) == 0, "batch %u differs",
           cell);
    EXPECT(e->n_seeds == n_seeds && e->n_input == want->n_input && e->n_edges == want->n_edges,
           "batch %u: entry", cell);
    EXPECT(e->payload_bytes == sl_align_up(want->bytes, (uint64_t)SL_ARENA_CHUNK_BYTES),
           "batch %u: what is over is given back", cell);
    EXPECT(e->digest == (config.digest ? XXH3_64bits(want, want->bytes) : 0), "batch %u: digest",
           cell);
    EXPECT(e->ready_at_ns > 0 && e->sample_ns > 0 && e->sampler >= 1, "batch %u: times", cell);
    free(want);
    EXPECT(sl_ledger_complete(&arena, &lease) == SL_OK, "batch %u: completing", cell);
}

static void take_all(enum sl_phase_kind kind, uint32_t epoch, const uint32_t *vertices, uint64_t n)
{
    struct sl_drawer d;
    ck_assert_int_eq(sl_drawer_init(&d, &fx.topology, sl_kernels_ref()), SL_OK);
    for (uint32_t cell = 0; cell < sl_div_up(n, BATCH); cell++)
        take_and_compare(&d, cell, kind, epoch, vertices, n);
    sl_drawer_fini(&d);
}

START_TEST(every_batch_of_an_epoch_is_drawn_from_the_shuffled_order)
{
    uint32_t samplers = (uint32_t)_i + 1;
    open_arena(16 << 20);
    uint64_t n = arena.h->spec.n_train;
    for (uint32_t i = 0; i < samplers; i++)
        start(&runners[i], i + 1, 64 << 10);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 1, n);
    take_all(SL_PHASE_TRAIN, 1, sl_arena_order(&arena, 1), n);
    uint64_t batches = 0, edges = 0;
    for (uint32_t i = 0; i < samplers; i++) {
        ck_assert_int_eq(stop(&runners[i]), SL_OK);
        struct sl_worker_figures f;
        ck_assert(sl_stats_read(sl_stats_slot(&arena, i + 1), &f));
        ck_assert_uint_eq(f.current_tag, 0);
        batches += f.batches;
        edges += f.edges;
    }
    ck_assert_uint_eq(batches, sl_div_up(n, BATCH));
    ck_assert_uint_gt(edges, batches * BATCH);
    ck_assert_uint_eq(used_bytes(), 0);
}
END_TEST

START_TEST(evaluation_draws_the_lists_with_its_own_fanout)
{
    open_arena(16 << 20);
    start(&runners[0], 1, 64 << 10);
    const struct sl_dataset *ds = &fx.topology.dataset;
    open_phase(SL_PHASE_EVAL, SL_SET_VAL, 4, ds->split[SL_SPLIT_VAL].n);
    open_phase(SL_PHASE_EVAL, SL_SET_TEST, 4, ds->split[SL_SPLIT_TEST].n);
    take_all(SL_PHASE_EVAL, 4, fx.split[SL_SPLIT_VAL], ds->split[SL_SPLIT_VAL].n);
    take_all(SL_PHASE_EVAL, 4, fx.split[SL_SPLIT_TEST], ds->split[SL_SPLIT_TEST].n);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
}
END_TEST

START_TEST(a_first_guess_that_is_too_small_grows)
{
    config.digest = false;
    config.sampler.fanout[0] = config.sampler.fanout[1] = 25;
    open_arena(16 << 20);
    uint64_t n = arena.h->spec.n_train;
    start(&runners[0], 1, 1);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, n);
    take_all(SL_PHASE_TRAIN, 0, sl_arena_order(&arena, 0), n);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_gt(runners[0].sampler.guess_bytes, SL_ARENA_CHUNK_BYTES); // it was needed
}
END_TEST

START_TEST(a_small_arena_holds_the_sampler_back_and_nothing_is_lost)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    uint64_t n = arena.h->spec.n_train;
    start(&runners[0], 1, 1 << 20);
    start(&runners[1], 2, 100);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, n);
    take_all(SL_PHASE_TRAIN, 0, sl_arena_order(&arena, 0), n);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_int_eq(stop(&runners[1]), SL_OK);
    ck_assert_uint_eq(used_bytes(), 0);
}
END_TEST

START_TEST(a_block_that_can_never_fit_is_an_error_with_the_numbers)
{
    config.sampler.fanout[0] = config.sampler.fanout[1] = -1;
    open_arena(SL_ARENA_CHUNK_BYTES);
    prepare(&runners[0], 1, 100);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    ck_assert_int_eq(sl_sampler_run(&runners[0].sampler), SL_ENOMEM);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "65536"));
    ck_assert_uint_eq(used_bytes(), 0);
    sl_drawer_fini(&runners[0].drawer);
}
END_TEST

START_TEST(a_phase_of_vertices_that_are_not_there_is_refused)
{
    open_arena(1 << 20);
    prepare(&runners[0], 1, 100);
    open_phase(SL_PHASE_EVAL, SL_SET_VAL, 0, N);
    // The first batches exist, the one that runs over the list's end does not.
    ck_assert_int_eq(sl_sampler_run(&runners[0].sampler), SL_EPROTO);
    sl_drawer_fini(&runners[0].drawer);
}
END_TEST

START_TEST(an_abort_ends_the_loop_wherever_it_is)
{
    open_arena(_i ? SL_ARENA_CHUNK_BYTES : 1 << 20);
    start(&runners[0], 1, 60000);
    if (_i) { // it waits for memory, not for work
        open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
        while (used_bytes() == 0)
            usleep(1000);
    }
    usleep(20000);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(join(&runners[0]), SL_OK);
}
END_TEST

// Every chunk belongs to another batch, so that a sampler has to wait with its lease.
static struct sl_lease occupy(struct sl_extent *extent)
{
    struct sl_lease lease;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 77, 0, &lease), SL_OK);
    ck_assert_int_eq(sl_extent_alloc(&arena, &lease, arena.h->spec.payload_bytes, 0, extent),
                     SL_OK);
    return lease;
}

static uint32_t state_of(uint64_t seq, uint32_t cell)
{
    return sl_cell_state(sl_ledger_word(&arena, seq, cell));
}

START_TEST(a_stopped_sampler_gives_its_batch_back)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    uint64_t seq = open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    struct sl_extent all;
    occupy(&all);
    start(&runners[0], 1, 1000);
    while (state_of(seq, 1) != SL_CELL_SAMPLING)
        usleep(1000);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(state_of(seq, 1), SL_CELL_PENDING);
}
END_TEST

START_TEST(a_batch_that_was_taken_away_is_dropped_and_drawn_again)
{
    open_arena(16 * SL_ARENA_CHUNK_BYTES);
    uint64_t n = arena.h->spec.n_train;
    uint64_t seq = open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, n);
    struct sl_extent all;
    struct sl_lease mine = occupy(&all);
    start(&runners[0], 1, 1000);
    while (state_of(seq, 1) != SL_CELL_SAMPLING)
        usleep(1000);
    // As if worker 1 had died; but it goes on, and its lease is worth nothing.
    struct sl_reclaimed lost;
    sl_ledger_reclaim(&arena, 1, &lost);
    ck_assert_uint_eq(lost.resample, 1);
    sl_extent_free(&arena, mine.tag, all.offset, all.bytes);
    sl_ledger_return(&arena, &mine);
    take_all(SL_PHASE_TRAIN, 0, sl_arena_order(&arena, 0), n);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(used_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler_loop");
    TCase *c = tcase_create("loop");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, every_batch_of_an_epoch_is_drawn_from_the_shuffled_order, 0,
                        SAMPLERS_MAX);
    tcase_add_test(c, evaluation_draws_the_lists_with_its_own_fanout);
    tcase_add_test(c, a_first_guess_that_is_too_small_grows);
    tcase_add_test(c, a_small_arena_holds_the_sampler_back_and_nothing_is_lost);
    tcase_add_test(c, a_block_that_can_never_fit_is_an_error_with_the_numbers);
    tcase_add_test(c, a_phase_of_vertices_that_are_not_there_is_refused);
    tcase_add_loop_test(c, an_abort_ends_the_loop_wherever_it_is, 0, 2);
    tcase_add_test(c, a_stopped_sampler_gives_its_batch_back);
    tcase_add_test(c, a_batch_that_was_taken_away_is_dropped_and_drawn_again);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

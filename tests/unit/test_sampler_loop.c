/*
 * The sampler's loop against a real arena in one process: this program is broker and trainer, the
 * samplers are threads. On cores, on a GPU, where two batches are in hand; of vertices, of pairs.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "config/config.h"
#include "sampler/loop.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_fixture.h"

enum { N = 3000, BATCH = 100, SAMPLERS_MAX = 4, CLAIM_MS = 20000 };

static struct fixture fx;
static struct sl_config config;
static struct sl_arena arena;
static int fd;
static uint32_t visits_wanted[N];
static const struct sl_plugin *gpu; // that samplers draw on; NULL: the processor draws
static struct sl_graph_placement residence;

struct runner {
    struct sl_drawer drawer;
    struct sl_pair_maker pairs;
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

static struct sl_pair_maker maker; // of what is wanted

static void setup_links(void)
{
    setup();
    config.task.kind = SL_JOB_LINKS;
    config.task.negatives = SL_NEGATIVES_DEGREE;
    config.task.per_positive = 2;
    ck_assert_int_eq(sl_config_choose_items(&config, &fx.topology.dataset), SL_OK);
    fx.topology.dataset.split[SL_SPLIT_TRAIN].n = N + 1000; // the hub's edges and others
    ck_assert_int_eq(sl_pair_maker_init(&maker, &config, &fx.topology.dataset), SL_OK);
}

static void setup_gpu(void)
{
    setup();
    gpu = gpu_open(0);
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .degrees = true, .share = 0.6, .files = {-1, -1, -1}};
    ck_assert_msg(sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels) == SL_OK,
                  "%s", sl_error_message());
}

// As a sampler's program does: blocks leave the GPU where they lie.
static void pin_blocks(bool on)
{
    const struct sl_region *payload = &arena.h->region[SL_REGION_PAYLOAD];
    void *start = arena.base + payload->offset, *there;
    if (gpu && on)
        ck_assert_int_eq(gpu->device->map(start, payload->bytes, false, &there), SL_OK);
    else if (gpu)
        gpu->device->unmap(start);
}

static void open_arena(uint64_t payload_bytes)
{
    uint64_t n_train = fx.topology.dataset.split[SL_SPLIT_TRAIN].n;
    struct sl_arena_spec spec = {.n_devices = SAMPLERS_MAX,
                                 .n_cells = 64,
                                 .n_train = n_train,
                                 .n_params = 4,
                                 .n_state = 1,
                                 .batches_per_update = 4,
                                 .visit_rows = N,
                                 .hot_rows = N,
                                 .probe_bytes = 1 << 20,
                                 .payload_bytes = payload_bytes};
    fd = sl_arena_memfd();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sl_arena_create(fd, &spec, &arena), SL_OK);
    // An order that is not the list's: backwards, the next epoch's from the middle on.
    const struct sl_vertex_list *train = &fx.topology.dataset.split[SL_SPLIT_TRAIN];
    for (uint64_t i = 0; i < n_train; i++) {
        sl_arena_order(&arena, 0)[i] = sl_vertex_at(train, n_train - 1 - i);
        sl_arena_order(&arena, 1)[i] = sl_vertex_at(train, (i + n_train / 2) % n_train);
    }
    pin_blocks(true);
}

static void teardown(void)
{
    pin_blocks(false);
    if (gpu)
        sl_graph_placement_close(&residence);
    sl_pair_maker_fini(&maker);
    sl_arena_detach(&arena);
    close(fd);
    fixture_free(&fx);
}

// EVAL phases have no updates to wait for, so that they are over when their batches are done.
static struct sl_phase_spec spec_of(enum sl_phase_kind kind, enum sl_vertex_set set, uint32_t epoch,
                                    uint64_t n_items)
{
    return (struct sl_phase_spec){.kind = kind,
                                  .set = set,
                                  .epoch = epoch,
                                  .order_bank = epoch & 1,
                                  .batch_size = BATCH,
                                  .n_items = n_items};
}

static uint64_t open_spec(const struct sl_phase_spec *spec)
{
    uint64_t seq = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, spec, &seq), SL_OK);
    return seq;
}

static uint64_t open_phase(enum sl_phase_kind kind, enum sl_vertex_set set, uint32_t epoch,
                           uint64_t n_items)
{
    const struct sl_phase_spec spec = spec_of(kind, set, epoch, n_items);
    return open_spec(&spec);
}

// The whole training set as an epoch of this kind.
static struct sl_phase_spec epoch_of(enum sl_phase_kind kind, uint32_t epoch)
{
    return spec_of(kind, SL_SET_TRAIN, epoch, arena.h->spec.n_train);
}

static void prepare(struct runner *r, uint32_t worker, uint64_t guess_bytes)
{
    if (gpu)
        ck_assert_int_eq(sl_drawer_init_on(&r->drawer, &fx.topology, &residence), SL_OK);
    else
        ck_assert_int_eq(sl_drawer_init(&r->drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
    if (sl_config_is_links(&config))
        ck_assert_int_eq(sl_pair_maker_init(&r->pairs, &config, &fx.topology.dataset), SL_OK);
    atomic_store(&r->stop, false);
    r->sampler = (struct sl_sampler){.arena = &arena,
                                     .worker = worker,
                                     .device = worker - 1,
                                     .config = &config,
                                     .drawer = &r->drawer,
                                     .pairs = &r->pairs,
                                     .stats = sl_stats_slot(&arena, worker - 1),
                                     .stop = &r->stop,
                                     .guess_bytes = guess_bytes,
                                     .marker = {.device = gpu ? gpu->device : NULL}};
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
    sl_pair_maker_fini(&r->pairs);
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

// Of vertices 0 .. N - 1 the last HOT are hot, the more the larger: in two tiers, by id within one.
enum { HOTTEST = 37, HOT = 331 };

static void rank_backwards(uint32_t generation)
{
    for (uint32_t i = 0; i < N; i++)
        sl_visit_counts_order(&arena)[i] = i < HOTTEST ? N - HOTTEST + i
                                           : i < HOT   ? N - HOT + i - HOTTEST
                                                       : N - 1 - i;
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){HOTTEST, HOT}, 2);
    sl_visit_counts_publish(&arena, generation);
}

static uint32_t rank_of(uint32_t v)
{
    if (v >= N - HOTTEST)
        return v - (N - HOTTEST);
    return v >= N - HOT ? v - (N - HOT) + HOTTEST : SL_RANK_NONE;
}

static void mark_cell(struct sl_drawer *d, uint32_t generation, struct sl_block *b, uint64_t bytes)
{
    struct sl_marker m = {0};
    EXPECT(sl_marker_refresh(&m, &arena, N) == SL_OK, "index");
    EXPECT(fixture_mark(d, &m.index, generation, b, bytes) == SL_OK, "marking");
    for (uint32_t i = 0; i < b->n_input; i++)
        EXPECT(sl_block_ranks(b)[i] == rank_of(sl_block_nodes(b)[i]), "rank of row %u", i);
    sl_marker_fini(&m);
}

// The block that cell `cell` of a phase must be, with ranks where it asks for them (free()); also
// adds what its input nodes count to visits_wanted.
static struct sl_block *draw_cell(struct sl_drawer *d, const struct sl_phase_spec *spec,
                                  uint32_t cell, const uint32_t *vertices, uint64_t *digest)
{
    const struct sl_draw_plan plan = sl_plan_of(&config, (enum sl_phase_kind)spec->kind);
    uint64_t first = (uint64_t)cell * spec->batch_size;
    uint32_t n_seeds = (uint32_t)SL_MIN((uint64_t)spec->batch_size, spec->n_items - first);
    struct sl_draw_job job = {.seeds = vertices + first, .n_seeds = n_seeds};
    job.epoch = spec->epoch, job.batch = cell;
    EXPECT(!plan.pairs || sl_pair_maker_find_seeds(&maker, &job) == SL_OK, "pairs");
    fixture_pairs = job.pairs;
    struct sl_block *plain = fixture_draw(d, &plan, job.epoch, job.batch, job.seeds, job.n_seeds);
    uint64_t bytes = sl_drawer_marked_bytes(plain);
    struct sl_block *b = fixture_alloc(bytes);
    memcpy(b, plain, plain->bytes);
    *digest = XXH3_64bits(plain, plain->bytes);
    free(plain);
    if (spec->rank_generation)
        mark_cell(d, spec->rank_generation, b, bytes);
    for (uint32_t i = 0; i < b->n_input; i++)
        visits_wanted[sl_block_nodes(b)[i]]++;
    return b;
}

// Takes the next ready batch, compares it with one drawn here, and finishes it.
static void take_and_compare(struct sl_drawer *d, uint32_t cell, const struct sl_phase_spec *spec,
                             const uint32_t *vertices)
{
    struct sl_lease lease;
    int rc = sl_ledger_claim_train(&arena, 99, CLAIM_MS, &lease);
    EXPECT(rc == SL_OK, "batch %u: %d", cell, rc);
    const struct sl_batch_entry *e = lease.entry;
    const struct sl_block *got = (const struct sl_block *)(arena.base + e->payload_offset);
    uint64_t digest;
    struct sl_block *want = draw_cell(d, spec, cell, vertices, &digest);
    EXPECT(lease.cell == cell, "batch %u, wanted %u", lease.cell, cell);
    EXPECT(got->bytes == want->bytes && memcmp(got, want, want->bytes) == 0, "batch %u differs",
           cell);
    EXPECT(e->n_seeds == want->n_seeds && e->n_input == want->n_input &&
               e->n_edges == want->n_edges && e->visits_counted == spec->count_visits,
           "batch %u: entry", cell);
    EXPECT(e->payload_bytes == sl_align_up(want->bytes, (uint64_t)SL_ARENA_CHUNK_BYTES),
           "batch %u: what is over is given back", cell);
    EXPECT(e->digest == (config.digest ? digest : 0), "batch %u: digest", cell);
    EXPECT(e->ready_at_ns > 0 && e->sample_ns > 0 && e->copy_ns > 0 && e->sampler >= 1,
           "batch %u: times", cell);
    EXPECT(e->sampling_at_ns > 0 &&
               e->sampling_at_ns + e->sample_wait_ns + e->sample_ns + e->copy_ns + e->mark_ns <=
                   e->ready_at_ns,
           "batch %u: its parts take longer than all of it", cell);
    EXPECT(!(spec->rank_generation || spec->count_visits) || e->mark_ns > 0, "batch %u: mark",
           cell);
    free(want);
    EXPECT(sl_ledger_complete(&arena, &lease) == SL_OK, "batch %u: completing", cell);
}

static void take_spec(const struct sl_phase_spec *spec, const uint32_t *vertices)
{
    struct sl_drawer d;
    ck_assert_int_eq(sl_drawer_init(&d, &fx.topology, sl_kernels_ref()), SL_OK);
    for (uint32_t cell = 0; cell < sl_div_up(spec->n_items, spec->batch_size); cell++)
        take_and_compare(&d, cell, spec, vertices);
    sl_drawer_fini(&d);
}

static void take_all(enum sl_phase_kind kind, uint32_t epoch, const uint32_t *vertices, uint64_t n)
{
    const struct sl_phase_spec spec = spec_of(kind, SL_SET_TRAIN, epoch, n);
    take_spec(&spec, vertices);
}

static void take_epoch(uint32_t epoch)
{
    take_all(SL_PHASE_TRAIN, epoch, sl_arena_order(&arena, epoch & 1), arena.h->spec.n_train);
}

START_TEST(every_batch_of_an_epoch_is_drawn_from_the_shuffled_order)
{
    uint32_t samplers = (uint32_t)_i + 1;
    open_arena(16 << 20);
    uint64_t n = arena.h->spec.n_train;
    for (uint32_t i = 0; i < samplers; i++)
        start(&runners[i], i + 1, 64 << 10);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 1, n);
    take_epoch(1);
    uint64_t batches = 0, edges = 0;
    for (uint32_t i = 0; i < samplers; i++) {
        ck_assert_int_eq(stop(&runners[i]), SL_OK);
        struct sl_worker_totals f;
        ck_assert(sl_stats_read(sl_stats_slot(&arena, i), &f));
        ck_assert_uint_eq(f.current_tag, 0);
        batches += f.batches;
        edges += f.edges;
    }
    ck_assert_uint_eq(batches, sl_div_up(n, BATCH));
    ck_assert_uint_gt(edges, batches * BATCH);
    ck_assert_uint_eq(used_bytes(), 0);
}

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
    struct sl_worker_totals f;
    ck_assert(sl_stats_read(sl_stats_slot(&arena, 0), &f));
    ck_assert_uint_gt(f.batches, 0);
    ck_assert_uint_eq(f.training, 0);
}

START_TEST(a_first_guess_that_is_too_small_grows)
{
    config.digest = false;
    config.sampler.fanout[0] = config.sampler.fanout[1] = 25;
    open_arena(16 << 20);
    start(&runners[0], 1, 1);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    take_epoch(0);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_gt(runners[0].sampler.guess_bytes, SL_ARENA_CHUNK_BYTES); // it was needed
}

START_TEST(a_small_arena_holds_the_sampler_back_and_nothing_is_lost)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    start(&runners[0], 1, 1 << 20);
    start(&runners[1], 2, 100);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    take_epoch(0);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_int_eq(stop(&runners[1]), SL_OK);
    ck_assert_uint_eq(used_bytes(), 0);
}

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

START_TEST(a_phase_of_vertices_that_are_not_there_is_refused)
{
    open_arena(1 << 20);
    prepare(&runners[0], 1, 100);
    open_phase(SL_PHASE_EVAL, SL_SET_VAL, 0, N);
    // The first batches exist, the one that runs over the list's end does not.
    ck_assert_int_eq(sl_sampler_run(&runners[0].sampler), SL_EPROTO);
    sl_drawer_fini(&runners[0].drawer);
}

START_TEST(an_abort_ends_the_loop_wherever_it_is)
{
    open_arena(_i ? SL_ARENA_CHUNK_BYTES : 1 << 20);
    start(&runners[0], 1, 60000);
    if (_i) { // it waits for memory, not for work
        open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
        while (used_bytes() == 0)
            usleep(1000);
    }
    struct sl_event *event = _i ? &arena.h->progress : &arena.h->work;
    while (atomic_load(&event->waiters) == 0)
        usleep(1000);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(join(&runners[0]), SL_OK);
}

// Every chunk belongs to another batch, so that a sampler has to wait with its lease.
static struct sl_lease occupy(struct sl_extent *extent)
{
    struct sl_lease lease;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 77, SL_AHEAD_ALL, 0, &lease), SL_OK);
    ck_assert_int_eq(sl_payload_alloc(&arena, &lease, arena.h->spec.payload_bytes, 0, extent),
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

START_TEST(a_batch_that_was_taken_away_is_dropped_and_drawn_again)
{
    open_arena(16 * SL_ARENA_CHUNK_BYTES);
    uint64_t seq = open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    struct sl_extent all;
    struct sl_lease mine = occupy(&all);
    start(&runners[0], 1, 1000);
    while (state_of(seq, 1) != SL_CELL_SAMPLING)
        usleep(1000);
    // As if worker 1 had died; but it goes on, and its lease is worth nothing.
    struct sl_reclaimed lost;
    sl_ledger_reclaim(&arena, 1, &lost);
    ck_assert_uint_eq(lost.resample, 1);
    sl_payload_free(&arena, mine.tag, all.offset, all.bytes);
    sl_ledger_return(&arena, &mine);
    take_epoch(0);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(used_bytes(), 0);
}

START_TEST(a_sampler_without_memory_turns_to_an_older_batch_that_came_back)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    uint64_t n = arena.h->spec.n_train;
    // _i = 1: the batches that fill the arena, and the one that waits, are of a later phase.
    uint64_t first_items = _i ? BATCH : n;
    open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 0, first_items);
    struct sl_lease first;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 77, SL_AHEAD_ALL, 0, &first), SL_OK);
    if (_i)
        open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 1, n);
    start(&runners[0], 1, 1000);
    while (atomic_load(&sl_seat(&arena, 0)->activity) != SL_ACTIVITY_BLOCKED)
        usleep(500);
    sl_ledger_return(&arena, &first); // as a sampler does that is stopped
    take_all(SL_PHASE_EVAL, 0, sl_arena_order(&arena, 0), first_items);
    if (_i)
        take_all(SL_PHASE_EVAL, 1, sl_arena_order(&arena, 1), n);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(used_bytes(), 0);
}

// --- counting and marking ------------------------------------------------------------------------

static void expect_visits(void)
{
    const _Atomic uint32_t *visits = sl_visit_counts_visits(&arena);
    for (uint32_t v = 0; v < N; v++)
        EXPECT(visits[v] == visits_wanted[v], "vertex %u: %u visits, wanted %u", v, visits[v],
               visits_wanted[v]);
}

START_TEST(a_pre_sampled_epoch_is_counted_and_not_kept)
{
    open_arena(SL_ARENA_CHUNK_BYTES); // far less than it would take to keep them
    config.sampler.fanout[0] = 20;
    struct sl_phase_spec spec = epoch_of(SL_PHASE_PRESAMPLE, 1);
    spec.count_visits = (uint32_t)_i; // that it is counted goes without saying
    start(&runners[0], 1, 1000);
    start(&runners[1], 2, 100000);
    uint64_t seq = open_spec(&spec);
    while (!sl_ledger_phase_complete(&arena, seq)) {
        ck_assert_uint_eq(used_bytes(), 0);
        usleep(1000);
    }
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_int_eq(stop(&runners[1]), SL_OK);
    struct sl_drawer d;
    ck_assert_int_eq(sl_drawer_init(&d, &fx.topology, sl_kernels_ref()), SL_OK);
    for (uint32_t cell = 0; cell < sl_div_up(spec.n_items, BATCH); cell++) {
        const struct sl_batch_entry *e = sl_ledger_entry(&arena, seq, cell);
        uint64_t digest;
        spec.kind = SL_PHASE_TRAIN; // the very same batches
        struct sl_block *want = draw_cell(&d, &spec, cell, sl_arena_order(&arena, 1), &digest);
        EXPECT(e->visits_counted == 1 && e->n_input == want->n_input && e->payload_bytes == 0 &&
                   e->digest == 0 && e->sample_ns > 0 && e->mark_ns > 0,
               "batch %u: entry", cell);
        free(want);
    }
    sl_drawer_fini(&d);
    expect_visits();
}

START_TEST(a_batch_that_is_drawn_again_is_not_counted_again)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    struct sl_phase_spec spec = epoch_of(SL_PHASE_TRAIN, 0);
    spec.count_visits = 1;
    uint64_t seq = open_spec(&spec);
    // Batch 0 is somebody else's, so nothing is trained and the arena fills.
    struct sl_lease first;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 77, SL_AHEAD_ALL, 0, &first), SL_OK);
    start(&runners[0], 1, 1000);
    struct sl_seat *seat = sl_seat(&arena, sl_seat_sampler(&arena, 0));
    while (atomic_load(&seat->activity) != SL_ACTIVITY_BLOCKED)
        usleep(1000);
    // It comes back; whoever draws it now has to throw others out.
    sl_ledger_return(&arena, &first);
    start(&runners[1], 2, 1000);
    while (state_of(seq, 0) != SL_CELL_READY)
        usleep(1000);
    ck_assert_uint_gt(atomic_load(&sl_ledger_of(&arena)->evicted), 0);
    take_spec(&spec, sl_arena_order(&arena, 0));
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_int_eq(stop(&runners[1]), SL_OK);
    expect_visits();
}

START_TEST(a_sampler_killed_after_counting_has_counted)
{
    open_arena(1 << 20);
    struct sl_phase_spec spec = epoch_of(SL_PHASE_TRAIN, 0);
    spec.count_visits = 1;
    uint64_t seq = open_spec(&spec);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("SLUICE_FAILPOINT", "sampler_marked:2", 1);
        if (sl_failpoint_init() == SL_OK) {
            prepare(&runners[0], 1, 1000);
            sl_sampler_run(&runners[0].sampler);
        }
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_READY);
    ck_assert_uint_eq(state_of(seq, 1), SL_CELL_SAMPLING);
    ck_assert_uint_eq(sl_ledger_entry(&arena, seq, 1)->visits_counted, 1);
    struct sl_reclaimed lost;
    sl_ledger_reclaim(&arena, 1, &lost);
    ck_assert_uint_eq(lost.resample, 1);
    start(&runners[0], 2, 1000);
    take_spec(&spec, sl_arena_order(&arena, 0));
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    expect_visits();
}

START_TEST(blocks_carry_ranks_once_there_is_an_order)
{
    open_arena(16 << 20);
    rank_backwards(7);
    struct sl_phase_spec train = epoch_of(SL_PHASE_TRAIN, 0), ranked = epoch_of(SL_PHASE_EVAL, 1);
    ranked.set = SL_SET_VAL;
    ranked.n_items = fx.topology.dataset.split[SL_SPLIT_VAL].n;
    train.rank_generation = ranked.rank_generation = 7;
    train.count_visits = 1; // both, for the optimal hit rate
    open_spec(&ranked);
    open_spec(&train);
    start(&runners[0], 1, 1000);
    take_spec(&ranked, fx.split[SL_SPLIT_VAL]);
    memset(visits_wanted, 0, sizeof visits_wanted);
    take_spec(&train, sl_arena_order(&arena, 0));
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    expect_visits();
    struct sl_worker_totals f;
    ck_assert(sl_stats_read(runners[0].sampler.stats, &f));
    ck_assert_uint_gt(f.stage_ns[SL_STAGE_SAMPLE], 0);
    ck_assert_uint_gt(f.stage_ns[SL_STAGE_MARK], 0);
    ck_assert_uint_gt(f.stage_ns[SL_STAGE_COPY], 0);
}

START_TEST(a_block_that_fits_without_its_ranks_only_is_drawn_again)
{
    open_arena(1 << 20);
    rank_backwards(1);
    struct sl_phase_spec spec = epoch_of(SL_PHASE_TRAIN, 0);
    spec.rank_generation = spec.count_visits = 1;
    struct sl_drawer d;
    ck_assert_int_eq(sl_drawer_init(&d, &fx.topology, sl_kernels_ref()), SL_OK);
    bool found = false;
    config.sampler.fanout[0] = 30;
    while (!found) {
        ck_assert_int_lt(++config.sampler.fanout[1], 1000);
        const struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
        struct sl_block *b = fixture_draw(&d, &plan, 0, 0, sl_arena_order(&arena, 0), BATCH);
        found =
            b->bytes <= SL_ARENA_CHUNK_BYTES && sl_drawer_marked_bytes(b) > SL_ARENA_CHUNK_BYTES;
        free(b);
    }
    sl_drawer_fini(&d);
    open_spec(&spec);
    start(&runners[0], 1, 1);
    take_spec(&spec, sl_arena_order(&arena, 0));
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    expect_visits(); // that, too, was counted once
    ck_assert_uint_eq(used_bytes(), 0);
}

START_TEST(what_the_arena_does_not_have_is_refused)
{
    open_arena(1 << 20);
    struct sl_phase_spec spec = epoch_of(SL_PHASE_TRAIN, 0);
    if (_i == 0) {
        spec.rank_generation = 2; // published is 1
        rank_backwards(1);
    } else if (_i == 1) {
        spec.rank_generation = 1;
        sl_visit_counts_publish(&arena, 1);
        arena.h->spec.hot_rows = 0;
    } else {
        spec.count_visits = 1;
        arena.h->spec.visit_rows = 0;
    }
    open_spec(&spec);
    prepare(&runners[0], 1, 1000);
    ck_assert_int_eq(sl_sampler_run(&runners[0].sampler), SL_EPROTO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), _i < 2 ? "ranks" : "visit counts"));
    ck_assert_uint_eq(used_bytes(), 0);
    sl_drawer_fini(&runners[0].drawer);
}

// --- the device and its other user ---------------------------------------------------------------

static void wait_activity(uint32_t device, enum sl_activity wanted)
{
    struct sl_seat *seat = sl_seat(&arena, sl_seat_sampler(&arena, device));
    while (atomic_load(&seat->activity) != (uint32_t)wanted)
        usleep(500);
}

static void wait_sampled(uint64_t seq, uint32_t n_cells)
{
    for (uint32_t cell = 0; cell < n_cells; cell++)
        while (state_of(seq, cell) != SL_CELL_READY)
            usleep(500);
}

START_TEST(nothing_ahead_is_drawn_while_the_standby_trainer_is_awake)
{
    open_arena(16 << 20);
    uint32_t n_cells = (uint32_t)sl_div_up(arena.h->spec.n_train, BATCH);
    uint32_t standby = sl_seat_trainer(&arena, 0);
    sl_seat_set_duty(&arena, standby, SL_DUTY_STANDBY);
    sl_seat_set_activity(&arena, standby, SL_ACTIVITY_BUSY);
    uint64_t now = open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    uint64_t next = open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 1, arena.h->spec.n_train);
    start(&runners[0], 1, 1000);
    wait_sampled(now, n_cells);
    while (atomic_load(&arena.h->work.waiters) == 0) // it found nothing that it may draw
        usleep(500);
    for (uint32_t cell = 0; cell < n_cells; cell++)
        EXPECT(state_of(next, cell) == SL_CELL_PENDING, "batch %u", cell);
    sl_seat_set_activity(&arena, standby, SL_ACTIVITY_ASLEEP);
    wait_sampled(next, n_cells);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
}

START_TEST(other_trainers_do_not_hold_a_sampler_back)
{
    open_arena(16 << 20);
    uint32_t n_cells = (uint32_t)sl_div_up(arena.h->spec.n_train, BATCH);
    // Another device's standby trainer, and a normal one on this device.
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 1), SL_DUTY_STANDBY);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 1), SL_ACTIVITY_BUSY);
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 0), SL_DUTY_WORK);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 0), SL_ACTIVITY_BUSY);
    open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    uint64_t next = open_phase(SL_PHASE_EVAL, SL_SET_TRAIN, 1, arena.h->spec.n_train);
    start(&runners[0], 1, 1000);
    wait_sampled(next, n_cells);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
}

START_TEST(a_seat_says_what_its_sampler_does)
{
    open_arena(4 * SL_ARENA_CHUNK_BYTES);
    uint64_t seq = open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    struct sl_extent all;
    struct sl_lease other = occupy(&all);
    uint32_t seen = sl_event_read(&arena.h->work);
    start(&runners[2], 3, 1000);
    wait_activity(2, SL_ACTIVITY_BLOCKED);
    ck_assert_uint_ne(sl_event_read(&arena.h->work), seen); // standby trainers are told
    ck_assert_uint_eq(state_of(seq, 1), SL_CELL_SAMPLING);
    sl_payload_free(&arena, other.tag, all.offset, all.bytes);
    while (state_of(seq, 1) != SL_CELL_READY)
        usleep(500);
    sl_ledger_return(&arena, &other);
    take_epoch(0);
    wait_activity(2, SL_ACTIVITY_BUSY); // it looks for work
    ck_assert_int_eq(stop(&runners[2]), SL_OK);
    wait_activity(2, SL_ACTIVITY_NONE);
}

enum { TIMEOUT_S = 90 };

// --- throttle, probe -----------------------------------------------------------------------------

START_TEST(a_throttled_batch_takes_so_long_at_least)
{
    config.throttle.sample = 0.1;
    open_arena(1 << 20);
    uint64_t seq = open_phase(SL_PHASE_EVAL, SL_SET_VAL, 0, 3 * BATCH);
    start(&runners[0], 1, 100000);
    wait_sampled(seq, 3);
    for (uint32_t cell = 0; cell < 3; cell++) {
        const struct sl_batch_entry *e = sl_ledger_entry(&arena, seq, cell);
        uint64_t took_ns = e->sample_ns + e->mark_ns + e->copy_ns;
        ck_assert_uint_ge(took_ns, 100000000);
        ck_assert_uint_lt(took_ns, TIMEOUT_S * 1000000000ull); // and not 100 s
    }
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
}

START_TEST(a_stop_does_not_wait_for_the_throttle)
{
    config.throttle.sample = 3600;
    open_arena(1 << 20);
    uint64_t seq = open_phase(SL_PHASE_EVAL, SL_SET_VAL, 0, 3 * BATCH);
    start(&runners[0], 1, 100000);
    while (state_of(seq, 0) != SL_CELL_SAMPLING)
        usleep(500);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_READY); // it was drawn, so it is handed on
}

START_TEST(the_probe_is_a_training_batch_that_trainers_find_in_the_arena)
{
    open_arena(1 << 20);
    config.model.kind = SL_MODEL_GCN;
    struct sl_drawer d;
    struct sl_block_estimate e;
    const struct sl_block *there;
    ck_assert_int_eq(sl_drawer_init(&d, &fx.topology, sl_kernels_cpu()), SL_OK);
    ck_assert_int_eq(sl_plan_measure(&config, &d, NULL, &e), SL_OK);
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &there), SL_ETIMEDOUT);
    sl_probe_offer(&arena, 1, e.probe);
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &there), SL_OK);
    ck_assert_uint_eq(there->bytes, e.probe->bytes);
    ck_assert_int_eq(memcmp(there, e.probe, there->bytes), 0);
    ck_assert_uint_eq(there->n_seeds, BATCH);
    ck_assert_ptr_nonnull(sl_view_degrees(sl_block_here(there)));
    sl_block_estimate_fini(&e);
    sl_drawer_fini(&d);
}

// --- two batches in hand -------------------------------------------------------------------------

// Either has a chunk, and needs more than that: there is room for one of them.
START_TEST(of_two_batches_that_turn_out_too_large_one_goes_back)
{
    open_arena(2 * SL_ARENA_CHUNK_BYTES);
    config.sampler.fanout[0] = 20;
    config.sampler.fanout[1] = 15;
    start(&runners[0], 1, 1);
    open_phase(SL_PHASE_TRAIN, SL_SET_TRAIN, 0, arena.h->spec.n_train);
    take_epoch(0);
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_gt(runners[0].sampler.guess_bytes, SL_ARENA_CHUNK_BYTES);
    ck_assert_uint_le(runners[0].sampler.guess_bytes, 2 * SL_ARENA_CHUNK_BYTES);
    ck_assert_uint_eq(used_bytes(), 0);
}

// What an epoch of ranked batches takes when buffers have grown, each as the processor's.
START_TEST(a_batch_is_waited_for_once)
{
    enum { ROUNDS = 4, COUNTED = 3 };
    open_arena(16 << 20);
    rank_backwards(1);
    config.sampler.kind = (enum sl_sampler_kind)_i;
    config.sampler.paths = 3;
    config.sampler.length = 2;
    config.sampler.restart = 0.3;
    config.evaluate.n_fanout = config.sampler.n_fanout;
    memcpy(config.evaluate.fanout, config.sampler.fanout, sizeof config.sampler.fanout);
    const uint32_t n_cells = (uint32_t)sl_div_up(arena.h->spec.n_train, BATCH);
    struct simt_counts before = {0}, after;
    start(&runners[0], 1, 1 << 17); // whose ends all fit: nobody trains meanwhile
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct sl_phase_spec spec = epoch_of(SL_PHASE_EVAL, round);
        spec.rank_generation = spec.count_visits = 1;
        if (round == COUNTED)
            ck_assert(gpu_counts(&before));
        uint64_t seq = open_spec(&spec);
        wait_sampled(seq, n_cells);
        if (round == COUNTED)
            ck_assert(gpu_counts(&after));
        take_spec(&spec, sl_arena_order(&arena, round & 1));
    }
    ck_assert_int_eq(stop(&runners[0]), SL_OK);
    ck_assert_uint_eq(after.waits - before.waits, n_cells);
    ck_assert_uint_eq(after.pageable_to + after.pageable_from,
                      before.pageable_to + before.pageable_from);
    ck_assert_uint_eq(after.stops, before.stops);
    // Seeds there and counts back; blocks are written by the GPU.
    ck_assert_uint_eq(after.pinned_to - before.pinned_to, n_cells);
    ck_assert_uint_eq(after.pinned_from - before.pinned_from, n_cells);
    printf("  %s: %.1f launches and %.1f fills a batch of 2 hops\n", sl_sampler_words[_i],
           (double)(after.launches - before.launches) / n_cells,
           (double)(after.fills - before.fills) / n_cells);
}

// What differs by where it is drawn.
static TCase *make_case(const char *name, SFun prepare_case)
{
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, TIMEOUT_S);
    tcase_add_checked_fixture(c, prepare_case, teardown);
    tcase_add_loop_test(c, every_batch_of_an_epoch_is_drawn_from_the_shuffled_order, 0,
                        SAMPLERS_MAX);
    tcase_add_test(c, a_first_guess_that_is_too_small_grows);
    tcase_add_test(c, a_small_arena_holds_the_sampler_back_and_nothing_is_lost);
    tcase_add_test(c, a_block_that_can_never_fit_is_an_error_with_the_numbers);
    tcase_add_loop_test(c, an_abort_ends_the_loop_wherever_it_is, 0, 2);
    tcase_add_test(c, a_stopped_sampler_gives_its_batch_back);
    tcase_add_test(c, a_batch_that_was_taken_away_is_dropped_and_drawn_again);
    tcase_add_loop_test(c, a_sampler_without_memory_turns_to_an_older_batch_that_came_back, 0, 2);
    tcase_add_loop_test(c, a_pre_sampled_epoch_is_counted_and_not_kept, 0, 2);
    if (prepare_case == setup_links)
        return c; // the others are made for the sizes of blocks of vertices
    tcase_add_test(c, a_batch_that_is_drawn_again_is_not_counted_again);
    tcase_add_test(c, blocks_carry_ranks_once_there_is_an_order);
    tcase_add_test(c, a_block_that_fits_without_its_ranks_only_is_drawn_again);
    tcase_add_test(c, of_two_batches_that_turn_out_too_large_one_goes_back);
    return c;
}

int main(void)
{
    sl_log_set_level(SL_LOG_WARN);
    Suite *s = suite_create("sampler_loop");
    TCase *c = make_case("loop", setup);
    tcase_add_test(c, evaluation_draws_the_lists_with_its_own_fanout);
    tcase_add_test(c, a_phase_of_vertices_that_are_not_there_is_refused);
    tcase_add_loop_test(c, what_the_arena_does_not_have_is_refused, 0, 3);
    tcase_add_test(c, nothing_ahead_is_drawn_while_the_standby_trainer_is_awake);
    tcase_add_test(c, other_trainers_do_not_hold_a_sampler_back);
    tcase_add_test(c, a_seat_says_what_its_sampler_does);
    tcase_add_test(c, a_throttled_batch_takes_so_long_at_least);
    tcase_add_test(c, a_stop_does_not_wait_for_the_throttle);
    tcase_add_test(c, a_sampler_killed_after_counting_has_counted);
    tcase_add_test(c, the_probe_is_a_training_batch_that_trainers_find_in_the_arena);
    suite_add_tcase(s, c);
    if (gpu_exists()) {
        c = make_case("gpu", setup_gpu);
        tcase_add_loop_test(c, a_batch_is_waited_for_once, 0, SL_SAMPLER_KINDS);
        suite_add_tcase(s, c);
    } else {
        printf("SKIP: tests on a GPU: there is no lib/libsluice_cuda_simt.so here\n");
    }
    suite_add_tcase(s, make_case("links", setup_links));
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

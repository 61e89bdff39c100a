// Batches in the hands of a training loop: lent once each, by epochs, given back, or kept too long.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

#include <pthread.h>
#include <sched.h>

#include "common/arena/seat.h"
#include "common/base/clock.h"
#include "loader/lending.h"

enum { SAMPLER = 1, LOADER = 9, OTHER = 10, DEVICE = 1 };
enum { NODES = 400, WIDTH = 6, CELLS = 5, BATCH = 10, CHUNKS = 8, EXTRA = 3 };
enum { NOW = 0, SOON = 60000 }; // ms

static float rows[NODES][WIDTH];
static struct sl_dataset ds;
static struct sl_gather gather;
static struct sl_compute compute;
static struct sl_lending lending;

static void make(uint32_t world)
{
    const struct sl_arena_spec spec = {
        .world = world,
        .n_devices = 2,
        .n_cells = 16,
        .n_params = 5,
        .batches_per_update = 1,
        .payload_bytes = CHUNKS * SL_ARENA_CHUNK_BYTES,
    };
    create_arena(&spec);
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, DEVICE), SL_DUTY_WORK);
    for (uint32_t v = 0; v < NODES; v++)
        for (uint32_t c = 0; c < WIDTH; c++)
            rows[v][c] = (float)(v * 100 + c) / 7;
    ds = (struct sl_dataset){
        .n_nodes = NODES, .feat_dim = WIDTH, .feat_dtype = SL_DTYPE_F32, .feat = rows};
    compute = (struct sl_compute){sl_device_host(), sl_kernels_rows(), sl_kernels_rows()};
}

static void setup(void)
{
    make(1);
}

static void setup_world(void)
{
    make(2);
}

static void start_with(bool ahead, bool made, bool early)
{
    sl_gather_init(&gather, &compute, &ds, SL_GATHER_STAGED);
    gather.half = ds.feat_dtype == SL_DTYPE_F16;
    const struct sl_lending_spec spec = {
        .arena = &arena,
        .worker = LOADER,
        .device = DEVICE,
        .rank = arena.h->spec.world - 1,
        .dataset = &ds,
        .compute = compute,
        .gather = &gather,
        .shape = {.n_hops = 1},
        .ahead = ahead,
        .arrays = made,
        .early = early,
    };
    ck_assert_msg(sl_lending_init(&lending, &spec) == SL_OK, "%s", sl_error_message());
}

static void start(bool ahead)
{
    start_with(ahead, false, false);
}

static void teardown(void)
{
    sl_lending_fini(&lending);
    sl_gather_fini(&gather);
    destroy_arena();
}

static uint64_t open_epoch(uint32_t epoch)
{
    const struct sl_phase_spec p = {
        .kind = SL_PHASE_LEND, .epoch = epoch, .batch_size = BATCH, .n_items = CELLS * BATCH - 3};
    uint64_t seq = 0;
    ck_assert_msg(sl_ledger_open_phase(&arena, &p, &seq) == SL_OK, "%s", sl_error_message());
    return seq;
}

// Seed i of a batch is vertex 10 * cell + i, and there are three vertices more, from the top.
static uint32_t vertex(uint32_t cell, uint32_t n_seeds, uint32_t i)
{
    return i < n_seeds ? cell * BATCH + i : NODES - 1 - (i - n_seeds);
}

// A block of one hop without edges.
static void write_block(const struct sl_lease *lease)
{
    enum { AT = 1024, LABELS = 2048, INDPTR = 3072, INDICES = 4096 };
    uint32_t n;
    sl_phase_range(lease->phase, lease->cell, &n);
    char *at = arena.base + lease->entry->payload_offset;
    struct sl_block *b = (struct sl_block *)(void *)at;
    memset(at, 0, INDICES + 64);
    *b = (struct sl_block){
        .magic = SL_BLOCK_MAGIC,
        .bytes = INDICES + 64,
        .batch = lease->cell,
        .n_hops = 1,
        .n_seeds = n,
        .n_input = n + EXTRA,
        .n_nodes = {n, n + EXTRA},
        .nodes_offset = AT,
        .label_offset = LABELS,
        .hop = {{.n_dst = n, .indptr_offset = INDPTR, .indices_offset = INDICES}},
    };
    for (uint32_t i = 0; i < b->n_input; i++)
        ((uint32_t *)(void *)(at + AT))[i] = vertex(lease->cell, n, i);
    lease->entry->n_seeds = n;
    lease->entry->n_input = b->n_input;
    lease->entry->n_edges = 7;
}

static void draw(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_lease l;
        struct sl_extent e;
        ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &l), SL_OK);
        ck_assert_int_eq(sl_payload_alloc(&arena, &l, SL_ARENA_CHUNK_BYTES, 10, &e), SL_OK);
        l.entry->payload_offset = e.offset;
        l.entry->payload_bytes = e.bytes;
        write_block(&l);
        ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
    }
}

// The next batch, its number checked.
static uint64_t lent(uint32_t cell)
{
    const struct sl_lent *l;
    ck_assert_msg(sl_lending_next(&lending, SOON, &l) == SL_OK, "%s", sl_error_message());
    ck_assert_uint_eq(l->work.lease.cell, cell);
    ck_assert_uint_eq(l->work.block.header->batch, cell);
    return l->work.lease.tag;
}

static void expect(int wanted, uint32_t timeout_ms)
{
    const struct sl_lent *l;
    ck_assert_int_eq(sl_lending_next(&lending, timeout_ms, &l), wanted);
}

static void done(uint64_t tag)
{
    ck_assert_msg(sl_lending_done(&lending, tag) == SL_OK, "%s", sl_error_message());
}

static uint32_t state(uint64_t seq, uint32_t cell)
{
    return sl_cell_state(sl_ledger_word(&arena, seq, cell));
}

CASE(.name = "asked", .setup = setup, .teardown = teardown)

TEST(each_batch_of_an_epoch_is_lent_once_and_in_order)
{
    start(false);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        const uint64_t seq = open_epoch(epoch);
        draw(CELLS);
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            const uint64_t tag = lent(cell);
            ck_assert_uint_eq(lending.epoch, epoch);
            done(tag);
            ck_assert_uint_eq(state(seq, cell), SL_CELL_DONE);
        }
        expect(SL_LENDING_END, NOW);
        ck_assert(sl_ledger_phase_complete(&arena, seq));
        expect(SL_ETIMEDOUT, NOW); // the next one has not begun
    }
    ck_assert_uint_eq(lending.figures.batches, 3 * CELLS);
    ck_assert_uint_eq(lending.figures.edges, 3 * CELLS * 7);
}

// Also where the next one is open before the caller asks whether this one has ended.
TEST(an_epoch_ends_before_the_next_begins)
{
    start(false);
    open_epoch(0);
    open_epoch(1);
    draw(CELLS + 1);
    for (uint32_t cell = 0; cell < CELLS; cell++)
        done(lent(cell));
    expect(SL_LENDING_END, NOW);
    done(lent(0));
    ck_assert_uint_eq(lending.epoch, 1);
}

LOOP_TEST(the_end_of_the_last_epoch_comes_before_that_of_the_job, 0, 2)
{
    start(_i == 1);
    open_epoch(0);
    draw(CELLS);
    for (uint32_t cell = 0; cell < CELLS; cell++)
        done(lent(cell));
    sl_arena_abort(&arena, SL_ABORT_STOP);
    expect(SL_LENDING_END, 0);
    expect(SL_EABORTED, 0);
}

TEST(a_batch_is_done_once)
{
    start(false);
    open_epoch(0);
    draw(1);
    const uint64_t tag = lent(0);
    done(tag);
    ck_assert_int_eq(sl_lending_done(&lending, tag), SL_ESTALE);
    ck_assert_int_eq(sl_lending_return(&lending, tag), SL_ESTALE);
    ck_assert_int_eq(sl_lending_features(&lending, tag, rows, sizeof rows), SL_ESTALE);
    ck_assert_int_eq(sl_lending_done(&lending, tag + 1), SL_ESTALE);
}

TEST(a_batch_that_is_given_back_is_lent_again)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    const uint64_t first = lent(0), second = lent(1);
    ck_assert_int_eq(sl_lending_return(&lending, first), SL_OK);
    ck_assert_uint_eq(state(seq, 0), SL_CELL_READY);
    const uint64_t again = lent(0);
    done(second);
    done(again);
    ck_assert_uint_eq(lending.returned, 1);
    ck_assert_uint_eq(lending.figures.batches, 2);
}

TEST(what_is_held_at_the_end_goes_to_others)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    lent(0);
    done(lent(1));
    lent(2);
    sl_lending_fini(&lending);
    ck_assert_uint_eq(state(seq, 0), SL_CELL_READY);
    ck_assert_uint_eq(state(seq, 1), SL_CELL_DONE);
    ck_assert_uint_eq(state(seq, 2), SL_CELL_READY);
}

TEST(features_are_those_of_the_data_set)
{
    float out[BATCH + EXTRA][WIDTH];
    start(false);
    open_epoch(0);
    draw(2);
    lent(0);
    const uint64_t tag = lent(1);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out - 1), SL_ERANGE);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_OK);
    for (uint32_t i = 0; i < BATCH + EXTRA; i++)
        ck_assert_mem_eq(out[i], rows[vertex(1, BATCH, i)], sizeof out[i]);
    done(tag);
    ck_assert_uint_eq(lending.figures.bytes, sizeof out);
}

TEST(what_a_batch_took_is_in_the_ledger)
{
    float out[BATCH + EXTRA][WIDTH];
    start(false);
    const uint64_t seq = open_epoch(0);
    draw(1);
    const uint64_t tag = lent(0);
    sl_clock_advance(1000000000);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_OK);
    sl_clock_advance(3000000000);
    done(tag);
    const struct sl_batch_entry *e = sl_ledger_entry(&arena, seq, 0);
    ck_assert_uint_eq(e->trainer, LOADER);
    ck_assert_uint_eq(e->miss_bytes, sizeof out);
    ck_assert(e->claimed_at_ns && e->extract_from_ns && e->train_from_ns && e->done_at_ns);
    ck_assert_uint_ge(e->train_ns, 3000000000);
    ck_assert_uint_ge(e->train_from_ns, e->extract_from_ns + e->extract_ns);
    ck_assert_uint_ge(e->done_at_ns - e->claimed_at_ns, 4000000000);
}

CASE(.name = "epochs that are left", .setup = setup, .teardown = teardown)

TEST(what_is_left_of_an_epoch_is_done_unseen)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    open_epoch(1);
    draw(CELLS);
    const uint64_t kept = lent(0);
    ck_assert_int_eq(sl_lending_start(&lending, 1, 0), SL_OK);
    expect(SL_ETIMEDOUT, NOW);
    for (uint32_t cell = 1; cell < CELLS; cell++)
        ck_assert_uint_eq(state(seq, cell), SL_CELL_DONE);
    done(kept); // which was lent
    draw(1);
    lent(0);
    ck_assert_uint_eq(lending.epoch, 1);
    ck_assert_uint_eq(lending.figures.batches, 1);
}

TEST(epochs_between_are_left_out)
{
    start(false);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        open_epoch(epoch);
    ck_assert_int_eq(sl_lending_start(&lending, 2, 0), SL_OK);
    draw(1); // samplers complete what is left of the others
    lent(0);
    ck_assert_uint_eq(lending.epoch, 2);
}

TEST(a_loader_goes_on_where_another_one_was)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    ck_assert_int_eq(sl_lending_start(&lending, 0, 3), SL_OK);
    draw(CELLS - 3);
    done(lent(3));
    ck_assert_uint_eq(state(seq, 0), SL_CELL_DONE);
    done(lent(4));
    expect(SL_LENDING_END, NOW);
    ck_assert_uint_eq(lending.figures.batches, 2);
}

// The epoch's end comes once, also where it is over before the loader looks.
TEST(a_loader_goes_on_at_the_end_of_an_epoch)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    open_epoch(1);
    ck_assert_int_eq(sl_lending_start(&lending, 0, CELLS), SL_OK);
    draw(1); // samplers complete what is left
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    expect(SL_LENDING_END, NOW);
    done(lent(0));
    ck_assert_uint_eq(lending.epoch, 1);
}

TEST(it_goes_forward_alone)
{
    start(false);
    open_epoch(0);
    draw(3);
    ck_assert_int_eq(sl_lending_start(&lending, 0, 0), SL_OK); // there it is
    lent(0);
    lent(1);
    ck_assert_int_eq(sl_lending_start(&lending, 0, 1), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "batches before 2 of epoch 0"));
    ck_assert_int_eq(sl_lending_start(&lending, 0, 2), SL_OK); // which comes next
    lent(2);
}

TEST(a_job_is_not_started_before_where_it_is)
{
    start(false);
    open_epoch(4);
    ck_assert_int_eq(sl_lending_start(&lending, 3, 0), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "the job is in epoch 4"));
    draw(1);
    lent(0);
    ck_assert_uint_eq(lending.epoch, 4);
}

// Nobody else could take it, and the next epoch waits for it.
LOOP_TEST(what_is_given_back_after_the_end_comes_again, 0, 2)
{
    start(_i);
    const uint64_t seq = open_epoch(0);
    open_epoch(1);
    draw(CELLS + 1);
    uint64_t last = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        last = lent(cell);
        if (cell + 1 < CELLS)
            done(last);
    }
    expect(SL_LENDING_END, SOON);
    ck_assert_int_eq(sl_lending_return(&lending, last), SL_OK);
    done(lent(CELLS - 1));
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    lent(0);
    ck_assert_uint_eq(lending.epoch, 1);
}

CASE(.name = "shares", .setup = setup_world, .teardown = teardown)

TEST(a_rank_has_its_share)
{
    start(false);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    done(lent(1));
    done(lent(3));
    expect(SL_LENDING_END, NOW);
    for (uint32_t cell = 0; cell < CELLS; cell += 2)
        ck_assert_uint_eq(state(seq, cell), SL_CELL_READY);
}

CASE(.name = "kept too long", .setup = setup, .teardown = teardown)

// A sampler that finds no memory.
static void starve(void)
{
    struct sl_lease l;
    struct sl_extent e;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &l), SL_OK);
    ck_assert_int_eq(sl_payload_alloc(&arena, &l, CHUNKS * SL_ARENA_CHUNK_BYTES, 0, &e),
                     SL_ETIMEDOUT);
}

TEST(a_full_arena_is_said_after_a_while)
{
    start(false);
    open_epoch(0);
    draw(3);
    const uint64_t first = lent(0);
    lent(1);
    lent(2);
    expect(SL_ETIMEDOUT, NOW); // samplers may be slow
    sl_clock_advance(SL_LENDING_STUCK_NS);
    expect(SL_ETIMEDOUT, NOW); // nobody wants memory
    starve();
    expect(SL_ENOMEM, NOW);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "3 batches are held"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "arena.memory"));
    done(first);
    expect(SL_ETIMEDOUT, NOW); // time to draw it
}

TEST(the_next_epoch_waits_for_what_is_held)
{
    start(false);
    open_epoch(0);
    open_epoch(1);
    draw(CELLS + 1);
    uint64_t kept = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        kept = lent(cell);
        if (cell + 1 < CELLS)
            done(kept);
    }
    expect(SL_LENDING_END, NOW);
    expect(SL_ETIMEDOUT, NOW);
    sl_clock_advance(SL_LENDING_STUCK_NS);
    expect(SL_ENOMEM, NOW);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "1 batches of epoch 0 are held"));
    done(kept);
    lent(0);
    ck_assert_uint_eq(lending.epoch, 1);
}

CASE(.name = "ahead", .setup = setup, .teardown = teardown)

static const void *x_of(uint64_t tag)
{
    const struct sl_lent *l = sl_lending_find(&lending, tag);
    ck_assert_ptr_nonnull(l);
    return l->work.x;
}

TEST(features_are_there_before_they_are_asked_for)
{
    float out[BATCH + EXTRA][WIDTH];
    start(true);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        const uint64_t tag = lent(cell);
        const uint32_t n = cell == CELLS - 1 ? BATCH - 3 : BATCH;
        const float *x = x_of(tag);
        for (uint32_t i = 0; i < n + EXTRA; i++)
            ck_assert_mem_eq(x + i * WIDTH, rows[vertex(cell, n, i)], sizeof rows[0]);
        ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_OK);
        ck_assert_mem_eq(out, x, (n + EXTRA) * sizeof out[0]);
        done(tag);
        ck_assert_uint_eq(sl_ledger_entry(&arena, seq, cell)->miss_bytes,
                          (n + EXTRA) * sizeof rows[0]);
    }
    expect(SL_LENDING_END, SOON);
}

// Two bytes a number, moved as they are.
TEST(features_of_two_bytes_stay_as_they_are)
{
    uint16_t half[BATCH + EXTRA][WIDTH];
    ds.feat_dtype = SL_DTYPE_F16; // of the same memory, which then has too many rows
    start(true);
    open_epoch(0);
    draw(1);
    const uint64_t tag = lent(0);
    ck_assert_int_eq(sl_lending_features(&lending, tag, half, sizeof half), SL_OK);
    const uint16_t *stored = (const void *)rows;
    for (uint32_t i = 0; i < BATCH + EXTRA; i++)
        ck_assert_mem_eq(half[i], stored + vertex(0, BATCH, i) * WIDTH, sizeof half[i]);
}

TEST(there_are_two_buffers)
{
    start(true);
    open_epoch(0);
    draw(CELLS);
    const uint64_t first = lent(0);
    lent(1);
    expect(SL_ETIMEDOUT, NOW);
    sl_clock_advance(SL_LENDING_STUCK_NS);
    expect(SL_ENOMEM, NOW);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "2 batches are held"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "without prefetch"));
    done(first);
    lent(2);
}

// What a loop takes has no buffer, so it may keep what it likes.
LOOP_TEST(arrays_are_the_callers, 0, 4)
{
    struct sl_arrays *taken[CELLS];
    void *x[CELLS];
    uint64_t tag[CELLS];
    start_with(_i > 0, _i > 1, _i > 2);
    open_epoch(0);
    draw(CELLS);
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        tag[cell] = lent(cell);
        ck_assert_msg(sl_lending_take(&lending, tag[cell], &taken[cell], &x[cell]) == SL_OK, "%s",
                      sl_error_message());
    }
    expect(SL_LENDING_END, SOON);
    for (uint32_t cell = 0; cell < CELLS; cell++)
        done(tag[cell]);
    sl_lending_fini(&lending);
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        const uint32_t n = cell == CELLS - 1 ? BATCH - 3 : BATCH;
        const float *rows_of = x[cell];
        for (uint32_t i = 0; i < n + EXTRA; i++) {
            ck_assert_int_eq(taken[cell]->nodes[i], vertex(cell, n, i));
            ck_assert_mem_eq(rows_of + i * WIDTH, rows[vertex(cell, n, i)], sizeof rows[0]);
        }
        sl_arrays_free(taken[cell]);
    }
}

// A loop that lets a batch go behind the next one has two pieces of memory, whoever is faster.
LOOP_TEST(a_usual_loop_has_two_pieces, 0, 2)
{
    struct sl_arrays *before = NULL, *piece[2] = {NULL, NULL}, *a;
    void *x;
    start_with(true, true, _i);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        const uint64_t tag = lent(cell);
        ck_assert_int_eq(sl_lending_take(&lending, tag, &a, &x), SL_OK);
        ck_assert_int_eq(sl_lending_wait(&lending, tag, SOON), SL_OK);
        UNTIL(cell + 1 == CELLS || state(seq, cell + 1) == SL_CELL_TRAINING);
        if (cell < 2)
            piece[cell] = a;
        ck_assert_ptr_eq(a, piece[cell % 2]);
        ck_assert_mem_eq(x, rows[vertex(cell, BATCH, 0)], sizeof rows[0]);
        sl_arrays_free(before);
        before = a;
        done(tag);
    }
    sl_arrays_free(before);
}

LOOP_TEST(arrays_are_taken_once, 0, 3)
{
    struct sl_arrays *a, *again;
    void *x;
    float out[BATCH + EXTRA][WIDTH];
    start_with(_i > 0, _i > 0, _i > 1);
    open_epoch(0);
    draw(CELLS);
    const uint64_t tag = lent(0);
    ck_assert_int_eq(sl_lending_take(&lending, tag, &a, &x), SL_OK);
    ck_assert_int_eq(sl_lending_take(&lending, tag, &again, &x), SL_EINVAL);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_EINVAL);
    ck_assert_int_eq(sl_lending_return(&lending, tag), SL_OK);
    ck_assert_int_eq(sl_lending_take(&lending, tag, &again, &x), SL_ESTALE);
    // Somebody's again, with arrays of its own; one that was gathered before that comes first.
    const struct sl_lent *l;
    ck_assert_int_eq(sl_lending_next(&lending, SOON, &l), SL_OK);
    uint64_t second = l->work.lease.tag;
    if (l->work.lease.cell == 1) {
        done(second);
        second = lent(0);
    }
    ck_assert_int_eq(sl_lending_take(&lending, second, &again, &x), SL_OK);
    ck_assert_int_eq(sl_lending_wait(&lending, second, SOON), SL_OK);
    ck_assert_ptr_ne(again, a);
    ck_assert_mem_eq(x, rows[vertex(0, BATCH, 0)], sizeof rows[0]);
    done(second);
    sl_arrays_free(a);
    sl_arrays_free(again);
}

TEST(an_epoch_is_left_while_its_next_batch_is_gathered)
{
    start(true);
    const uint64_t seq = open_epoch(0);
    open_epoch(1);
    draw(CELLS);
    done(lent(0));
    UNTIL(state(seq, 1) == SL_CELL_TRAINING);
    ck_assert_int_eq(sl_lending_start(&lending, 1, 0), SL_OK);
    UNTIL(sl_lending_next(&lending, NOW, &(const struct sl_lent *){0}) == SL_ETIMEDOUT &&
          sl_ledger_phase_complete(&arena, seq));
    draw(1);
    lent(0);
    ck_assert_uint_eq(lending.epoch, 1);
}

// --- lent before the rows are there --------------------------------------------------------------

static struct sl_kernels gated;
static _Atomic bool open_gate;
static _Atomic int gather_rc, gathering;

// Stands still until the gate is open, or fails.
static int gather_behind_gate(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                              const uint32_t *which, uint64_t n, float *out)
{
    atomic_fetch_add(&gathering, 1);
    while (!atomic_load(&open_gate))
        sched_yield();
    if (atomic_load(&gather_rc) != SL_OK)
        return sl_fail(atomic_load(&gather_rc), "no rows today");
    return sl_kernels_rows()->gather_rows(table, dtype, n_rows, dim, which, n, out);
}

static uint64_t start_gated(void)
{
    gated = *sl_kernels_rows();
    gated.gather_rows = gather_behind_gate;
    compute.kernels = compute.host = &gated;
    start_with(true, true, true);
    const uint64_t seq = open_epoch(0);
    draw(CELLS);
    return seq;
}

// The next batch, whose rows are not there.
static uint64_t lent_early(uint32_t cell, struct sl_arrays **a, void **x)
{
    const uint64_t tag = lent(cell);
    UNTIL(atomic_load(&gathering) > 0);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, NOW), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_lending_take(&lending, tag, a, x), SL_OK);
    for (uint32_t i = 0; i < BATCH + EXTRA; i++)
        ck_assert_int_eq((*a)->nodes[i], vertex(cell, BATCH, i));
    ck_assert_ptr_nonnull(*x);
    return tag;
}

static void *let_through(void *unused)
{
    UNTIL(atomic_load(&gathering) > 0);
    atomic_store(&open_gate, true);
    return unused;
}

TEST(a_batch_is_lent_before_its_rows_are_there)
{
    struct sl_arrays *a;
    void *x;
    const uint64_t seq = start_gated(), tag = lent_early(0, &a, &x);
    expect(SL_ETIMEDOUT, NOW); // its rows come first
    atomic_store(&open_gate, true);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, SOON), SL_OK);
    for (uint32_t i = 0; i < BATCH + EXTRA; i++)
        ck_assert_mem_eq((float *)x + i * WIDTH, rows[vertex(0, BATCH, i)], sizeof rows[0]);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, NOW), SL_OK);
    done(tag);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, NOW), SL_ESTALE);
    ck_assert_uint_eq(sl_ledger_entry(&arena, seq, 0)->miss_bytes,
                      (BATCH + EXTRA) * sizeof rows[0]);
    sl_arrays_free(a);
    done(lent(1));
}

// The memory stays until nobody writes to it any more, and the batch does not go before.
LOOP_TEST(arrays_go_while_their_rows_come, 0, 3)
{
    struct sl_arrays *a;
    void *x;
    pthread_t other;
    const uint64_t seq = start_gated(), tag = lent_early(0, &a, &x);
    sl_arrays_free(a);
    ck_assert_int_eq(state(seq, 0), SL_CELL_TRAINING);
    ck_assert_int_eq(pthread_create(&other, NULL, let_through, NULL), 0);
    if (_i == 0)
        done(tag);
    else if (_i == 1)
        ck_assert_int_eq(sl_lending_return(&lending, tag), SL_OK);
    else
        sl_lending_fini(&lending);
    ck_assert(atomic_load(&open_gate)); // it has waited
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_uint_eq(lending.n_held, 0);
    sl_lending_fini(&lending); // the thread may have claimed what came back
    ck_assert_int_eq(state(seq, 0), _i == 0 ? SL_CELL_DONE : SL_CELL_READY);
}

TEST(what_is_asked_of_the_features_waits_for_them)
{
    float out[BATCH + EXTRA][WIDTH];
    pthread_t other;
    start_gated();
    const uint64_t tag = lent(0);
    ck_assert_int_eq(pthread_create(&other, NULL, let_through, NULL), 0);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_OK);
    ck_assert_mem_eq(out[0], rows[vertex(0, BATCH, 0)], sizeof rows[0]);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
}

// However often it is asked, and whatever was called before.
TEST(a_batch_whose_rows_never_came_has_none)
{
    float out[BATCH + EXTRA][WIDTH];
    struct sl_arrays *a;
    void *x;
    atomic_store(&gather_rc, SL_EIO);
    start_gated();
    const uint64_t tag = lent(0);
    atomic_store(&open_gate, true);
    expect(SL_EIO, SOON);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, SOON), SL_EIO);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, SOON), SL_EIO);
    ck_assert_int_eq(sl_lending_features(&lending, tag, out, sizeof out), SL_EIO);
    ck_assert_int_eq(sl_lending_take(&lending, tag, &a, &x), SL_EIO);
    ck_assert_int_eq(sl_lending_return(&lending, tag), SL_OK);
}

TEST(rows_that_never_come)
{
    struct sl_arrays *a;
    void *x;
    atomic_store(&gather_rc, SL_EIO);
    const uint64_t seq = start_gated(), tag = lent_early(0, &a, &x);
    atomic_store(&open_gate, true);
    ck_assert_int_eq(sl_lending_wait(&lending, tag, SOON), SL_EIO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "no rows today"));
    sl_arrays_free(a);
    expect(SL_EIO, SOON);
    ck_assert_int_eq(sl_lending_return(&lending, tag), SL_OK);
    ck_assert_int_eq(state(seq, 0), SL_CELL_READY);
}

RUN_TESTS(.timeout_s = 60)

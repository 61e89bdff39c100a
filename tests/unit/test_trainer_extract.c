// The extracting thread: one batch ahead, its buffers, its share, its errors.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include "trainer/feed/prefetch.h"

static void wait_for_state(struct farm *f, uint64_t seq, uint32_t cell, enum sl_cell_state state)
{
    farm_until(sl_cell_state(sl_ledger_word(&f->arena, seq, cell)) == (uint32_t)state);
}

enum { FOR_EVER_MS = 3600 * 1000 };

// What the thread borrows: there is one in a test at a time.
static struct sl_gather gather;

// The extracting thread of worker 1.
static void start(struct farm *f, struct sl_prefetch *x)
{
    const struct sl_prefetch_spec spec = {.arena = &f->arena,
                                          .worker = 1,
                                          .device = 3,
                                          .dataset = &f->g->ds,
                                          .compute = {sl_device_host(), sl_kernels_ref()},
                                          .gather = &gather,
                                          .shape = sl_model_block_shape(&f->model),
                                          .keeps_rows = sl_model_keeps_features(&f->model),
                                          .pulse = &f->pulse};
    f->pulse.slot = sl_stats_slot(&f->arena, sl_seat_trainer(&f->arena, spec.device));
    sl_gather_init(&gather, &spec.compute, spec.dataset, SL_GATHER_FASTER);
    ck_assert_int_eq(sl_prefetch_start(x, &spec), SL_OK);
}

// The thread has found out what there is for it to do.
static void comes_round(struct farm *f)
{
    farm_comes_round(f, 3, SL_THREAD_EXTRACT);
}

static bool is_offered(struct sl_prefetch *x)
{
    pthread_mutex_lock(&x->lock);
    bool offered = x->offered;
    pthread_mutex_unlock(&x->lock);
    return offered;
}

static void stop(struct sl_prefetch *x)
{
    sl_prefetch_stop(x);
    sl_gather_fini(&gather);
}

// All cells of one phase sampled; the extracting thread runs. per_update 0: async.
static void extract_init(struct farm *f, struct sl_prefetch *x, uint32_t per_update,
                         uint32_t trainers, uint64_t *seq)
{
    struct sl_config c = farm_job(SL_MAX(per_update, 1u));
    c.updates.mode = per_update ? SL_UPDATE_ORDERED : SL_UPDATE_ASYNC;
    farm_init_small(f, &c, sl_kernels_ref());
    sl_seat_set_duty(&f->arena, sl_seat_trainer(&f->arena, 3), SL_DUTY_WORK);
    atomic_store(&sl_schedule_of(&f->arena)->trainers, trainers);
    *seq = farm_open_train(f, 0);
    for (uint32_t i = 0; i < farm_batches(f); i++)
        farm_sample_one(f);
    start(f, x);
}

static void assert_features(const struct farm *f, const struct sl_work *work)
{
    float *wanted = fixture_input(&f->g->ds, work->block.header);
    ck_assert_int_eq(memcmp(work->x, wanted,
                            (uint64_t)work->block.header->n_input * FARM_FEATURES * sizeof *wanted),
                     0);
    free(wanted);
}

TEST(extraction_is_one_batch_ahead_in_its_own_buffer)
{
    struct farm f;
    struct sl_prefetch x;
    uint64_t seq;
    extract_init(&f, &x, 8, 1, &seq);
    struct sl_work a, b;
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    ck_assert_uint_eq(a.lease.cell, 0);
    wait_for_state(&f, seq, 1, SL_CELL_TRAINING);
    farm_until(is_offered(&x));
    assert_features(&f, &a); // the batch ahead has not touched it
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &b), SL_OK);
    ck_assert_uint_eq(b.lease.cell, 1);
    assert_features(&f, &a);
    assert_features(&f, &b);
    ck_assert_ptr_ne(a.x, b.x);
    // Both buffers are in use: nothing more is claimed.
    comes_round(&f);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 2)), SL_CELL_READY);
    sl_prefetch_release(&x, &a);
    wait_for_state(&f, seq, 2, SL_CELL_TRAINING);
    // What is claimed and not taken goes back at the end.
    farm_until(is_offered(&x));
    stop(&x);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 2)), SL_CELL_READY);
    farm_fini(&f);
}

TEST(batches_beyond_the_share_are_left_to_the_others_while_there_is_work)
{
    struct farm f;
    struct sl_prefetch x;
    uint64_t seq;
    extract_init(&f, &x, 2, 2, &seq);
    struct sl_work a, b;
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    comes_round(&f);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 1)), SL_CELL_READY);
    farm_until(atomic_load(&f.arena.h->progress.waiters) == 1); // where others' claims are told
    // Another trainer takes the rest of the update; then the next update is fair game.
    struct sl_lease other;
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, 2, 0, &other), SL_OK);
    ck_assert_uint_eq(other.cell, 1);
    wait_for_state(&f, seq, 2, SL_CELL_TRAINING);
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &b), SL_OK);
    ck_assert_uint_eq(b.lease.cell, 2);
    sl_prefetch_release(&x, &a);
    sl_prefetch_release(&x, &b);
    // Idle, it takes what there is.
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    ck_assert_uint_eq(a.lease.cell, 3);
    stop(&x);
    farm_fini(&f);
}

// In async mode each batch is an update of its own, and none waits for another one.
TEST(async_batches_are_claimed_ahead_whoever_else_there_is)
{
    struct farm f;
    struct sl_prefetch x;
    uint64_t seq;
    extract_init(&f, &x, 0, 3, &seq);
    struct sl_work a;
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    wait_for_state(&f, seq, 1, SL_CELL_TRAINING);
    sl_prefetch_release(&x, &a);
    stop(&x);
    farm_fini(&f);
}

// A standby trainer that is switched on is one to share with.
TEST(share_counts_those_that_work_now)
{
    struct farm f;
    struct sl_prefetch x;
    uint64_t seq;
    extract_init(&f, &x, 2, 1, &seq);
    struct sl_work a, b;
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    wait_for_state(&f, seq, 1, SL_CELL_TRAINING); // alone it takes both batches of the update
    uint32_t standby = sl_seat_trainer(&f.arena, 0);
    sl_seat_set_duty(&f.arena, standby, SL_DUTY_STANDBY);
    sl_seat_set_activity(&f.arena, standby, SL_ACTIVITY_BUSY);
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &b), SL_OK);
    sl_prefetch_release(&x, &a);
    wait_for_state(&f, seq, 2, SL_CELL_TRAINING); // of the next update: one
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &a), SL_OK);
    sl_prefetch_release(&x, &b);
    comes_round(&f);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 3)), SL_CELL_READY);
    sl_seat_set_activity(&f.arena, standby, SL_ACTIVITY_ASLEEP);
    wait_for_state(&f, seq, 3, SL_CELL_TRAINING);
    sl_prefetch_release(&x, &a);
    stop(&x);
    farm_fini(&f);
}

// What may be wrong with a block, or with what its entry says of where it is.
static void no_block(struct sl_block *b, struct sl_batch_entry *e)
{
    memset(b, 0x5a, sizeof *b);
    (void)e;
}

// clang-format off
#define DAMAGES(X) \
    X(outside_the_arena, e->payload_offset = UINT64_MAX / 2) \
    X(before_payload_memory, e->payload_offset = 0) \
    X(between_chunks, e->payload_offset += 8) \
    X(longer_than_memory, e->payload_bytes = UINT64_MAX) \
    X(longer_than_its_extent, b->bytes = UINT64_MAX) \
    X(many_hops, b->n_hops = UINT32_MAX) \
    X(nodes_elsewhere, b->nodes_offset = b->bytes) \
    X(labels_elsewhere, b->label_offset = UINT64_MAX - 3) \
    X(degrees_elsewhere, b->degree_offset = b->bytes - 4) \
    X(ranks_elsewhere, (b->flags |= SL_BLOCK_HAS_RANKS, b->rank_offset = 1 << 30)) \
    X(indptr_elsewhere, b->hop[0].indptr_offset = 0) \
    X(indices_elsewhere, b->hop[1].indices_offset += 1) \
    X(many_edges, b->hop[1].n_edges = UINT32_MAX) \
    X(many_nodes, b->n_input = b->n_nodes[b->n_hops] = UINT32_MAX) \
    X(other_seeds, b->n_nodes[0]++) \
    X(fewer_nodes_further_out, b->n_nodes[1] = b->hop[1].n_dst = b->n_input + 1) \
    X(other_rows, b->hop[1].n_dst--) \
    X(other_input, b->n_input--)
// clang-format on

#define DAMAGE(name, change)                                                                       \
    static void name(struct sl_block *b, struct sl_batch_entry *e)                                 \
    {                                                                                              \
        change;                                                                                    \
        (void)b;                                                                                   \
        (void)e;                                                                                   \
    }
DAMAGES(DAMAGE)

#define NAME(name, change) name,
static void (*const damages[])(struct sl_block *, struct sl_batch_entry *) = {no_block,
                                                                              DAMAGES(NAME)};

// A message, and the batch goes back; nobody reads where it points to.
LOOP_TEST(a_damaged_block_is_an_error_with_its_message, 0, SL_COUNT_OF(damages))
{
    struct farm f;
    farm_init_plain(&f, 1);
    sl_seat_set_duty(&f.arena, sl_seat_trainer(&f.arena, 3), SL_DUTY_WORK);
    farm_open_train(&f, 0);
    struct sl_lease lease = farm_sample_one(&f);
    damages[_i]((struct sl_block *)(f.arena.base + lease.entry->payload_offset), lease.entry);
    struct sl_prefetch x;
    start(&f, &x);
    struct sl_work work;
    ck_assert_int_eq(sl_prefetch_next(&x, FOR_EVER_MS, &work), SL_EPROTO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "block"));
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, lease.seq, lease.cell)),
                      SL_CELL_READY);
    stop(&x);
    sl_payload_free(&f.arena, lease.tag, lease.entry->payload_offset, lease.entry->payload_bytes);
    farm_fini(&f);
}

RUN_TESTS(.timeout_s = 120)

// A node's arena: which cells are its own, what its link may do when, and a checkpoint's state.
#include "tests/unit/test_arena_fixture.h"

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "tests/unit/nodes_link.h"
#include "tests/unit/suite.h"

enum { PARAMS = 100, PER_UPDATE = 5, CELLS = 12, TRAINER = 7, SAMPLER = 6 };

static struct sl_arena_spec spec_of(uint32_t n, uint32_t rank)
{
    return (struct sl_arena_spec){.n_devices = 1,
                                  .n_cells = 64,
                                  .n_params = PARAMS,
                                  .n_state = 1,
                                  .batches_per_update = PER_UPDATE,
                                  .nodes = {.n = n, .rank = rank},
                                  .payload_bytes = 64 * SL_ARENA_CHUNK_BYTES};
}

static void init(uint32_t n, uint32_t rank)
{
    const struct sl_arena_spec spec = spec_of(n, rank);
    create_arena(&spec);
}

// The lowest own cell, drawn and trained with that gradient.
static uint32_t train_one(float gradient)
{
    sample_and_publish(SAMPLER);
    struct sl_lease l = claim_train(TRAINER);
    float *g = sl_param_store_gradient(&arena, l.cell);
    for (uint32_t i = 0; i < PARAMS; i++)
        g[i] = gradient;
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    return l.cell;
}

static struct sl_nodes_step next_step(void)
{
    struct sl_nodes_step s;
    ck_assert_int_eq(sl_nodes_next(&arena, &s), SL_OK);
    return s;
}

static struct sl_nodes_batch batch_of(const struct sl_nodes_step *s, uint32_t cell)
{
    return (struct sl_nodes_batch){
        .magic = SL_NODES_BATCH_MAGIC, .version = s->version, .epoch = s->epoch, .cell = cell};
}

// All cells of the step that are a node's arrive.
static void arrive(const struct sl_nodes_step *s, uint32_t from)
{
    uint32_t cell = sl_nodes_first_cell(&arena, s, from);
    do {
        const struct sl_nodes_batch b = batch_of(s, cell);
        ck_assert_int_eq(sl_nodes_batch_arrived(&arena, s, from, cell, &b, 0), SL_OK);
        cell += arena.h->spec.nodes.n;
    } while (cell - arena.h->spec.nodes.n != SL_NODES_NO_CELL && cell < s->first_cell + s->n_cells);
}

static void make(void)
{
    struct sl_update u;
    ck_assert_int_eq(sl_param_store_begin_update(&arena, TRAINER, &u), SL_OK);
    sl_param_store_commit_update(&arena, &u);
}

// --- who has what ---

static void assert_slices_cover(uint64_t n_params, uint32_t n)
{
    struct sl_arena_spec spec = spec_of(n, 0);
    spec.n_params = n_params;
    spec.batches_per_update = n;
    create_arena(&spec);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_nodes_part p = sl_nodes_slice(&arena, i);
        ck_assert(p.n == 0 || (p.first == at && p.first % SL_NODES_FLOATS == 0));
        ck_assert_uint_le(p.n, sl_div_up(n_params, n) + SL_NODES_FLOATS);
        at += p.n;
    }
    ck_assert_uint_eq(at, n_params);
    destroy_arena();
}

TEST(slices_cover_all_parameters_once)
{
    static const uint64_t n_params[] = {1, 15, 16, 17, 33, 100, 4099, 500000};
    static const uint32_t n[] = {1, 2, 3, 5, 64, SL_NODES_MAX};
    for (size_t i = 0; i < SL_COUNT_OF(n_params); i++)
        for (size_t k = 0; k < SL_COUNT_OF(n); k++)
            assert_slices_cover(n_params[i], n[k]);
}

TEST(own_cells_are_counted_as_they_are_dealt)
{
    for (uint32_t n = 1; n <= PER_UPDATE; n++)
        for (uint32_t rank = 0; rank < n; rank++) {
            uint32_t own = 0, of_eval = 0;
            init(n, rank);
            for (uint32_t cell = 0; cell < 40; cell++) {
                ck_assert_uint_eq(sl_nodes_own_before(&arena, SL_PHASE_TRAIN, cell), own);
                ck_assert_uint_eq(sl_nodes_own_before(&arena, SL_PHASE_EVAL, cell), of_eval);
                ck_assert_uint_eq(sl_nodes_own_before(&arena, SL_PHASE_INFER, cell), cell);
                ck_assert_uint_eq(sl_nodes_owner(&arena, SL_PHASE_EVAL, cell), cell % n);
                of_eval += cell % n == rank;
                ck_assert_uint_eq(sl_nodes_owner(&arena, SL_PHASE_TRAIN, cell),
                                  cell % PER_UPDATE % n);
                ck_assert(sl_nodes_is_own(&arena, SL_PHASE_PRESAMPLE, cell));
                own += sl_nodes_is_own(&arena, SL_PHASE_TRAIN, cell);
            }
            destroy_arena();
        }
}

// Slices of 100 parameters on three nodes are of 32, 32 and 36; of five batches nodes have 2, 2, 1.
TEST(an_update_s_traffic_is_that_of_its_batches_and_slices)
{
    enum { BATCH = sizeof(struct sl_nodes_batch), MADE = sizeof(struct sl_nodes_made) };
    init(3, 0);
    struct sl_nodes_traffic t = sl_nodes_update_traffic(&arena, 0, 5);
    ck_assert_uint_eq(t.out_bytes, 2 * (2 * BATCH + MADE + 4 * 32) + 2 * 4 * (32 + 36));
    ck_assert_uint_eq(t.in_bytes, 3 * BATCH + 2 * MADE + 4 * (32 + 36) + 3 * 4 * 32);
    // Of one batch the others say that they have none.
    t = sl_nodes_update_traffic(&arena, 1, 1);
    ck_assert_uint_eq(t.out_bytes, 2 * (BATCH + MADE + 4 * 32));
    ck_assert_uint_eq(t.in_bytes, 2 * (BATCH + MADE) + 4 * (32 + 36) + 4 * 32);
    arena.h->spec.nodes.whole_gradients = 1;
    t = sl_nodes_update_traffic(&arena, 2, 5);
    ck_assert_uint_eq(t.out_bytes, 2 * (BATCH + MADE + 4 * 36 + 4 * PARAMS));
    ck_assert_uint_eq(t.in_bytes, 2 * (2 * BATCH + MADE + 4 * 32 + 2 * 4 * PARAMS));
    destroy_arena();
}

TEST(a_spec_of_nodes_that_cannot_be_is_refused)
{
    struct sl_arena_spec bad[] = {
        spec_of(2, 2), spec_of(0, 1), spec_of(SL_NODES_MAX, 0), spec_of(SL_NODES_MAX + 1, 0),
        spec_of(2, 0), spec_of(2, 0)};
    bad[3].batches_per_update = SL_NODES_MAX + 1;
    bad[4].async = 1;
    bad[4].batches_per_update = 1;
    bad[5].exchange = 1;
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        const int fd = sl_arena_memfd();
        ck_assert_int_eq(sl_arena_create(fd, &bad[i], &arena), SL_EINVAL);
        close(fd);
    }
    init(2, 1);
    arena.h->spec.nodes.rank = 2;
    struct sl_arena other;
    ck_assert_int_lt(sl_arena_attach(arena_fd, &other), 0);
    destroy_arena();
}

// --- the ledger ---

TEST(other_nodes_cells_are_neither_drawn_nor_trained_nor_counted)
{
    struct sl_ledger_ahead ahead;
    struct sl_ledger_depth depth;
    init(2, 1);
    const uint64_t seq = open_train(CELLS, 0, 0); // updates of 5, 5, 2: own are 1 3, 6 8, 11
    static const uint32_t own[] = {1, 3, 6, 8, 11};
    for (uint32_t i = 0; i < SL_COUNT_OF(own); i++) {
        sl_ledger_look_ahead(&arena, &ahead);
        ck_assert_uint_eq(ahead.unsampled, SL_COUNT_OF(own) - i);
        ck_assert_uint_eq(ahead.unclaimed, SL_COUNT_OF(own));
        const struct sl_lease l = sample(SAMPLER);
        ck_assert_uint_eq(l.cell, own[i]);
        ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
        ck_assert_uint_eq(sl_phase_batch(&arena, l.phase, l.cell), i);
    }
    struct sl_lease none;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &none), SL_ETIMEDOUT);
    sl_ledger_depth(&arena, &depth);
    ck_assert_uint_eq(depth.batches[SL_CELL_PENDING], 0);
    ck_assert_uint_eq(depth.batches[SL_CELL_READY], SL_COUNT_OF(own));
    ck_assert_uint_eq(depth.batches[SL_CELL_ELSEWHERE], CELLS - SL_COUNT_OF(own));
    for (uint32_t i = 0; i < SL_COUNT_OF(own); i++) {
        ck_assert_uint_eq(claim_train(TRAINER).cell, own[i]);
        sl_ledger_look_ahead(&arena, &ahead);
        ck_assert_uint_eq(ahead.unclaimed, SL_COUNT_OF(own) - 1 - i);
    }
    ck_assert_int_eq(sl_ledger_claim_train(&arena, TRAINER, 0, &none), SL_ETIMEDOUT);
    ck_assert_uint_eq(sl_ledger_oldest_batch(&arena), 0);
    // A phase of another kind is all its own.
    open_phase(SL_PHASE_PRESAMPLE, 3, 0, 0);
    ck_assert_uint_eq(claim(SAMPLER).cell, 0);
    // Of an evaluation every second one is, numbered behind these.
    const uint64_t eval = open_phase(SL_PHASE_EVAL, 4, 0, 0);
    ck_assert_uint_eq(sl_phase_batch(&arena, sl_ledger_find(&arena, eval), 3),
                      SL_COUNT_OF(own) + 1);
    ck_assert_uint_eq(sl_ledger_current(&arena, SL_LANE_MAIN), seq);
    destroy_arena();
}

// Trainers that have their share of an update sleep until its last own batch is claimed.
LOOP_TEST(the_claim_of_the_last_own_batch_of_an_update_is_told, 0, 2)
{
    const uint32_t n_own = _i == 0 ? 3 : 2; // of 0 2 4, of 1 3
    init(2, (uint32_t)_i);
    open_train(CELLS, 0, 0);
    for (uint32_t i = 0; i < n_own; i++)
        sample_and_publish(SAMPLER);
    for (uint32_t i = 0; i < n_own; i++) {
        const uint32_t seen = sl_event_read(&arena.h->progress);
        claim_train(TRAINER);
        ck_assert_int_eq(sl_event_read(&arena.h->progress) != seen, i + 1 == n_own);
    }
    destroy_arena();
}

TEST(as_many_own_batches_as_are_allowed_are_fetched_ahead)
{
    struct sl_arena_spec spec = spec_of(2, 0);
    struct sl_lease l;
    spec.rows =
        (struct sl_row_cache_shape){.n_slots = 8, .n_rows = 8, .n_widths = 1, .width[0] = {4, 8}};
    spec.fetch_ahead = 3;
    create_arena(&spec);
    open_train(CELLS, 0, 0); // own: 0 2 4, 5 7 9, 10
    for (uint32_t i = 0; i < 5; i++)
        sample_and_publish(SAMPLER);
    static const uint32_t own[] = {0, 2, 4};
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(sl_ledger_claim_fetch(&arena, TRAINER, 0, &l), SL_OK);
        ck_assert_uint_eq(l.cell, own[i]);
    }
    ck_assert_int_eq(sl_ledger_claim_fetch(&arena, TRAINER, 0, &l), SL_ETIMEDOUT);
    destroy_arena();
}

TEST(what_a_checkpoint_has_is_done_whosever_it_was)
{
    struct sl_cell_record records[PER_UPDATE] = {{0}};
    struct sl_phase_spec p = {.kind = SL_PHASE_TRAIN, .batch_size = 1, .n_items = CELLS};
    uint64_t seq;
    for (uint32_t i = 0; i < PER_UPDATE; i++)
        records[i].cell = i;
    init(3, 2);
    sl_param_store_restore(&arena, 1);
    ck_assert_int_eq(sl_ledger_open_restored(&arena, &p, records, PER_UPDATE, &seq), SL_OK);
    for (uint32_t i = 0; i < CELLS; i++) {
        const uint32_t state = sl_cell_state(sl_ledger_word(&arena, seq, i));
        ck_assert_uint_eq(state, i < PER_UPDATE            ? SL_CELL_DONE
                                 : i % PER_UPDATE % 3 == 2 ? SL_CELL_PENDING
                                                           : SL_CELL_ELSEWHERE);
        ck_assert_int_eq(sl_param_store_is_applied(&arena, seq, i), i < PER_UPDATE);
    }
    ck_assert_uint_eq(next_step().first_cell, PER_UPDATE);
    ck_assert(sl_nodes_state_is_whole(&arena));
    destroy_arena();
}

// --- an update ---

TEST(a_version_waits_for_others_batches_and_slices)
{
    struct sl_update u;
    init(2, 0);
    const uint64_t seq = open_train(CELLS, 0, 0);
    const struct sl_nodes_step s = next_step();
    ck_assert(s.version == 0 && s.first_cell == 0 && s.n_cells == PER_UPDATE && s.seq == seq);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(train_one(1), 2 * i);
    ck_assert(sl_nodes_cell_is_done(&arena, &s, 4) && !sl_nodes_cell_is_done(&arena, &s, 3));
    ck_assert_int_eq(sl_param_store_begin_update(&arena, TRAINER, &u), SL_EAGAIN);
    const uint32_t seen = sl_event_read(&arena.h->progress);
    arrive(&s, 1);
    ck_assert_uint_ne(sl_event_read(&arena.h->progress), seen); // whoever makes it is woken
    ck_assert_int_eq(sl_nodes_flip(&arena, &s, LINK_WORKER), SL_EAGAIN);
    make();
    ck_assert(sl_nodes_is_made(&arena, &s));
    ck_assert_uint_eq(sl_param_store_version(&arena), 0);
    ck_assert(!sl_param_store_is_applied(&arena, seq, 0));
    // Nobody makes it again, over what the link receives or sends.
    ck_assert_int_eq(sl_param_store_begin_update(&arena, TRAINER, &u), SL_EAGAIN);
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_OK);
    ck_assert_int_eq(sl_nodes_flip(&arena, &s, LINK_WORKER), SL_EAGAIN);
    sl_param_store_thaw(&arena);
    ck_assert_int_eq(sl_nodes_flip(&arena, &s, LINK_WORKER), SL_OK);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    ck_assert(sl_param_store_is_applied(&arena, seq, 1));
    ck_assert_uint_eq(next_step().first_cell, PER_UPDATE);
    destroy_arena();
}

// The last update of an epoch may be too short to have a cell of each node.
TEST(a_node_without_a_cell_has_to_be_heard)
{
    struct sl_update u;
    init(3, 0);
    const uint64_t seq = open_train(1, 0, 0);
    const struct sl_nodes_step s = next_step();
    train_one(1);
    ck_assert_uint_eq(sl_nodes_first_cell(&arena, &s, 1), SL_NODES_NO_CELL);
    arrive(&s, 1);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, TRAINER, &u), SL_EAGAIN);
    arrive(&s, 2);
    make();
    ck_assert_int_eq(sl_nodes_flip(&arena, &s, LINK_WORKER), SL_OK);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    destroy_arena();
}

TEST(only_the_batch_that_is_waited_for_is_taken)
{
    init(2, 0);
    open_train(CELLS, 0, 0);
    const struct sl_nodes_step s = next_step();
    struct sl_nodes_batch bad[] = {batch_of(&s, 1), batch_of(&s, 1), batch_of(&s, 1),
                                   batch_of(&s, 3)};
    bad[0].magic++;
    bad[1].version++;
    bad[2].epoch++;
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 1, 1, &bad[i], 0), SL_EPROTO);
        ck_assert_ptr_ne(strstr(sl_error_message(), "node 1"), NULL);
        ck_assert(!sl_nodes_cell_is_done(&arena, &s, 1));
    }
    const struct sl_nodes_batch own = batch_of(&s, 0), good = batch_of(&s, 1);
    ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 0, 0, &own, 0), SL_EPROTO);
    ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 1, 1, &good, 0), SL_OK);
    ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 1, 1, &good, 0), SL_EPROTO);
    const struct sl_nodes_made made = {.magic = SL_NODES_SLICE_MAGIC, .version = s.version};
    ck_assert_int_eq(sl_nodes_check_made(&s, 1, &made), SL_EPROTO);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    struct sl_nodes_step none;
    ck_assert_int_eq(sl_nodes_next(&arena, &none), SL_EABORTED);
    destroy_arena();
}

TEST(an_entry_of_another_node_has_this_ones_times_and_names_its_workers)
{
    init(3, 2);
    open_train(CELLS, 0, 0);
    const struct sl_nodes_step s = next_step();
    struct sl_nodes_batch b = batch_of(&s, 1);
    b.entry = (struct sl_batch_entry){.payload_offset = 64,
                                      .payload_bytes = 65536,
                                      .payload_tag = 5,
                                      .mirror_version = 3,
                                      .sampling_at_ns = 1000,
                                      .sample_ns = 10,
                                      .done_at_ns = 2000,
                                      .loss = 4.5,
                                      .sampler = 3,
                                      .trainer = 4};
    ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 1, 1, &b, -400), SL_OK);
    const struct sl_batch_entry *e = sl_ledger_entry(&arena, s.seq, 1);
    ck_assert_uint_eq(e->sampling_at_ns, 600);
    ck_assert_uint_eq(e->done_at_ns, 1600);
    ck_assert_uint_eq(e->sample_ns, 10);
    ck_assert_uint_eq(e->claimed_at_ns, 0); // was not set
    ck_assert_uint_eq(e->payload_bytes, 65536);
    ck_assert(e->payload_offset == 0 && e->payload_tag == 0 && e->mirror_version == 0);
    ck_assert(e->loss == 4.5);
    ck_assert_uint_eq(sl_nodes_worker_node(&arena, e->trainer), 1);
    ck_assert_uint_ne(e->trainer, 4); // none of this node's
    ck_assert_uint_eq(sl_nodes_worker_node(&arena, 4), 2);
    ck_assert_uint_eq(sl_nodes_worker(&arena, 2, 4), 4);
    destroy_arena();
}

// Its clock was compared while the machine was busy: by that it would be done in the next hour.
TEST(what_another_node_sent_is_past)
{
    init(3, 2);
    open_train(CELLS, 0, 0);
    const struct sl_nodes_step s = next_step();
    struct sl_nodes_batch b = batch_of(&s, 1);
    b.entry = (struct sl_batch_entry){.claimed_at_ns = 1000, .done_at_ns = sl_now_ns()};
    const int64_t hour_ns = INT64_C(3600000000000);
    ck_assert_int_eq(sl_nodes_batch_arrived(&arena, &s, 1, 1, &b, hour_ns), SL_OK);
    const struct sl_batch_entry *e = sl_ledger_entry(&arena, s.seq, 1);
    ck_assert_uint_le(e->done_at_ns, sl_now_ns());
    ck_assert_uint_ge(e->done_at_ns, b.entry.done_at_ns);
    destroy_arena();
}

// --- an evaluation ---

enum { WORDS = 2 };

static uint64_t open_eval(uint32_t gated)
{
    struct sl_arena_spec spec = spec_of(2, 0);
    spec.predict_rows = 30;
    spec.predict_words = WORDS;
    create_arena(&spec);
    return open_phase(SL_PHASE_EVAL, 3, 0, gated); // of 10, 10 and 7 vertices; own are 0 and 2
}

static void evaluate_one(void)
{
    sample_and_publish(SAMPLER);
    const struct sl_lease l = claim_train(TRAINER);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
}

static struct sl_nodes_result *result_of(const struct sl_nodes_eval *e, uint32_t cell)
{
    static _Alignas(64) char bytes[sizeof(struct sl_nodes_result) + 10 * WORDS * sizeof(uint32_t)];
    struct sl_nodes_result *r = (struct sl_nodes_result *)(void *)bytes;
    memset(bytes, 7, sizeof bytes);
    *r = (struct sl_nodes_result){.magic = SL_NODES_RESULT_MAGIC,
                                  .epoch = e->epoch,
                                  .set = e->set,
                                  .cell = cell,
                                  .entry = {.loss = 2.5, .weight = 10, .trainer = 4}};
    return r;
}

TEST(an_evaluation_is_over_once_results_are_here_and_given)
{
    struct sl_nodes_eval e, none;
    const uint64_t seq = open_eval(0);
    ck_assert_int_eq(sl_nodes_next_eval(&arena, &e), SL_OK);
    ck_assert(e.seq == seq && e.n_cells == 3);
    evaluate_one();
    evaluate_one();
    ck_assert(sl_nodes_result_is_there(&arena, &e, 0) && sl_nodes_result_is_there(&arena, &e, 2));
    ck_assert(!sl_nodes_result_is_there(&arena, &e, 1));
    ck_assert_uint_eq(sl_nodes_result_bytes(&arena, &e, 2),
                      sizeof(struct sl_nodes_result) + 7 * WORDS * sizeof(uint32_t));
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, result_of(&e, 1), 0), SL_OK);
    ck_assert(sl_ledger_entry(&arena, seq, 1)->loss == 2.5);
    const uint32_t *words = sl_arena_predictions(&arena);
    for (uint32_t i = 0; i < 30 * WORDS; i++)
        ck_assert_uint_eq(words[i], i / WORDS / 10 == 1 ? 0x07070707 : 0);
    ck_assert(!sl_ledger_phase_complete(&arena, seq)); // the link has still to read its own
    sl_nodes_give_results(&arena, &e);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_int_eq(sl_nodes_next_eval(&arena, &none), SL_EAGAIN);
    destroy_arena();
}

TEST(what_comes_into_an_evaluation_is_what_is_due)
{
    struct sl_nodes_eval e;
    const uint64_t seq = open_eval(1);
    ck_assert_int_eq(sl_nodes_next_eval(&arena, &e), SL_EAGAIN); // predictions are being judged
    sl_ledger_open_gate(&arena, seq);
    ck_assert_int_eq(sl_nodes_next_eval(&arena, &e), SL_OK);
    struct sl_nodes_result *r = result_of(&e, 1);
    r->magic++;
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, r, 0), SL_EPROTO);
    r = result_of(&e, 1);
    r->epoch++;
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, r, 0), SL_EPROTO);
    r = result_of(&e, 1);
    r->set = SL_SET_TEST;
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, r, 0), SL_EPROTO);
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, result_of(&e, 0), 0), SL_EPROTO);
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 0, result_of(&e, 0), 0), SL_EPROTO);
    ck_assert_ptr_ne(strstr(sl_error_message(), "node 1"), NULL);
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, result_of(&e, 1), 0), SL_OK);
    ck_assert_int_eq(sl_nodes_result_arrived(&arena, &e, 1, 1, result_of(&e, 1), 0), SL_EPROTO);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(sl_nodes_next_eval(&arena, &e), SL_EABORTED);
    destroy_arena();
}

// --- the state ---

LOOP_TEST(a_checkpoint_waits_for_the_state_and_holds_the_version, 0, 2)
{
    uint64_t v;
    init(2, 0);
    open_train(CELLS, 0, 0);
    const struct sl_nodes_step s = next_step();
    ck_assert(sl_nodes_state_is_whole(&arena)); // of the beginning
    for (uint32_t i = 0; i < 3; i++)
        train_one(1);
    arrive(&s, 1);
    make();
    ck_assert(sl_nodes_has_state(&arena, 0) && sl_nodes_has_state(&arena, 1));
    ck_assert(!sl_nodes_has_state(&arena, 2));
    ck_assert_int_eq(sl_nodes_flip(&arena, &s, LINK_WORKER), SL_OK);
    ck_assert(!sl_nodes_state_is_whole(&arena) && !sl_nodes_state_is_wanted(&arena, &v));
    sl_nodes_ask_state(&arena);
    ck_assert(sl_nodes_state_is_wanted(&arena, &v));
    ck_assert_uint_eq(v, 1);
    sl_nodes_state_arrived(&arena, 0); // late
    ck_assert(!sl_nodes_state_is_whole(&arena));
    sl_nodes_state_arrived(&arena, 1);
    ck_assert(sl_nodes_state_is_whole(&arena) && !sl_nodes_state_is_wanted(&arena, &v));
    // The next version is there, and waits until the state has been copied.
    const struct sl_nodes_step two = next_step();
    for (uint32_t i = 0; i < 3; i++)
        train_one(1);
    arrive(&two, 1);
    make();
    ck_assert_int_eq(sl_nodes_flip(&arena, &two, LINK_WORKER), SL_EAGAIN);
    if (_i == 0)
        sl_nodes_end_ask(&arena);
    else
        sl_clock_advance((uint64_t)SL_NODES_HOLD_MS * 1000000); // a broker that stands still
    ck_assert_int_eq(sl_nodes_flip(&arena, &two, LINK_WORKER), SL_OK);
    ck_assert(!sl_nodes_state_is_whole(&arena));
    ck_assert_int_eq(sl_nodes_state_is_wanted(&arena, &v), _i);
    destroy_arena();
}

RUN_TESTS()

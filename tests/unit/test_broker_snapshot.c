// Where a job is at any moment, and the same job going on from there in an arena of its own.
#include "broker/rundir/snapshot.h"
#include "common/arena/nodes.h"
#include "tests/unit/broker_phases_fixture.h"
#include "tests/unit/suite.h"

// 35 vertices in batches of 10: 4 batches and 2 updates an epoch.
static void sampled_setup(void)
{
    setup();
    config.model.layers = 2;
    config.digest = true;
    config.evaluate.full = false;
    plan.n_nodes = 100;
    for (uint32_t i = 0; i < plan.n_nodes; i++)
        labels[i] = (int32_t)i % 3;
    phases_setup.keeps_records = true;
}

static void end(void)
{
    sl_phases_fini(&t.phases);
    sl_arena_detach(&t.arena);
    close(t.fd);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    uv_loop_close(&t.loop);
}

static void apply_all(void)
{
    struct sl_update u;
    for (; sl_param_store_begin_update(&t.arena, 2, &u) == SL_OK;
         sl_param_store_commit_update(&t.arena, &u))
        for (uint32_t i = 0; i < 3; i++) {
            sl_param_store_params(&t.arena, u.version + 1)[i] = (float)(u.version + 1);
            sl_param_store_state(&t.arena, u.version + 1, 0)[i] = (float)(u.version + 1) * 10;
            sl_param_store_state(&t.arena, u.version + 1, 1)[i] = (float)(u.version + 1) * 100;
        }
}

// One cell of the current phase, drawn and trained. The loss is of epoch and cell alone.
static void work_one(bool apply)
{
    struct sl_lease l;
    must(sl_ledger_claim_sample(&t.arena, 1, SL_AHEAD_ALL, 1, &l));
    l.entry->digest = l.phase->spec.epoch * 100 + l.cell + 1;
    l.entry->n_input = 2;
    must(sl_ledger_publish(&t.arena, &l));
    must(sl_ledger_claim_train(&t.arena, 2, 1, &l));
    sl_phase_range(l.phase, l.cell, &l.entry->n_seeds);
    // An evaluation is right about one vertex more in each epoch.
    leave_predictions(&t.arena, &l, false, 0, l.phase->spec.epoch + 1);
    l.entry->weight = l.entry->n_seeds;
    l.entry->loss = l.phase->spec.epoch * 7 + l.cell;
    must(sl_ledger_complete(&t.arena, &l));
    if (apply)
        apply_all();
}

static void work_phase(void)
{
    uint64_t seq = sl_ledger_current(&t.arena, SL_LANE_MAIN);
    while (sl_ledger_current(&t.arena, SL_LANE_MAIN) == seq)
        work_one(true);
}

static void poll(void)
{
    sl_phases_poll(&t.phases);
    // What was handed to the thread pool.
    uv_run(&t.loop, UV_RUN_DEFAULT);
    sl_phases_poll(&t.phases);
}

static void expect(struct sl_snapshot *s, uint64_t version, uint32_t epoch, uint32_t n_records)
{
    ck_assert_uint_eq(s->version, version);
    ck_assert_uint_eq(s->epoch, epoch);
    ck_assert_uint_eq(s->n_records, n_records);
    for (uint32_t i = 0; i < n_records; i++) {
        ck_assert_uint_eq(s->records[i].cell, i);
        ck_assert_uint_eq(s->records[i].digest, epoch * 100 + i + 1);
        ck_assert_double_eq(s->records[i].loss, epoch * 7 + i);
    }
    for (uint32_t i = 0; i < 3 && version; i++) {
        ck_assert_float_eq(s->params[i], (float)version);
        ck_assert_float_eq(s->state[0][i], (float)version * 10);
        ck_assert_float_eq(s->state[1][i], (float)version * 100);
    }
}

TEST(a_position_is_what_the_parameters_contain)
{
    struct sl_snapshot s;
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 0, 0, 0);
    work_one(true); // one batch of an update of two
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 0, 0, 0);
    work_one(false); // both, and nobody has applied it
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 0, 0, 0);
    apply_all();
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 1, 0, 2);
    ck_assert_uint_eq(sl_snapshot_batches(&s), 2);
    sl_snapshot_fini(&s);
    end();
}

TEST(an_epoch_under_evaluation_is_all_of_its_batches)
{
    struct sl_snapshot s;
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_phase();
    must(sl_snapshot_take(&s, &t.phases, false)); // complete and not read
    expect(&s, 2, 0, 4);
    poll();
    must(sl_snapshot_take(&s, &t.phases, false)); // read and not evaluated
    expect(&s, 2, 0, 4);
    ck_assert(!s.best.has);
    static const uint8_t none[SL_PHASES_DIGEST_BYTES];
    ck_assert_int_eq(memcmp(s.digest, none, sizeof none), 0);
    work_phase(); // the evaluation
    poll();
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 2, 1, 0);
    ck_assert(s.best.has && s.best.epoch == 0);
    ck_assert_float_eq(s.best_params[0], 2);
    ck_assert_int_ne(memcmp(s.digest, none, sizeof none), 0);
    sl_snapshot_fini(&s);
    end();
}

// A snapshot with rows: no update is made until a thread has copied them.
static void take_rows(struct sl_snapshot *s)
{
    struct sl_update u;
    must(sl_snapshot_take(s, &t.phases, false));
    ck_assert(s->frozen);
    ck_assert_int_eq(sl_param_store_begin_update(&t.arena, 2, &u), SL_EAGAIN);
    sl_snapshot_copy_rows(s, &t.phases);
    sl_snapshot_thaw(s, &t.phases);
    ck_assert(!s->frozen);
}

// Rows that an applier has half written are of no version; best ones are those of the best epoch,
// and are not written while they are copied.
TEST(learned_rows_are_copied_when_they_are_whole)
{
    const struct sl_row_table_shape shape = {.n_rows = 50, .dim = 3, .n_state = 2, .n_slots = 2};
    const int rows_fd = sl_arena_memfd(), work_fd = sl_arena_memfd();
    struct sl_row_table rows;
    struct sl_snapshot s;
    must(sl_row_table_create(rows_fd, work_fd, &shape, false, &rows));
    phases_setup.rows = &rows;
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    must(sl_row_copy_init(&s.copy, &rows, -1));
    work_one(true);
    work_one(true);
    rows.values[149] = 1;
    sl_row_table_advance(&rows, 5, 0, 0, true); // its applier died, and nobody has gone on yet
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_EAGAIN);
    ck_assert(!s.frozen && s.copy.values[149] == 0);
    rows.state[1][149] = 2;
    sl_row_table_restore(&rows, 1);
    work_one(true);
    work_one(false); // the next update could be made
    take_rows(&s);
    ck_assert(s.rows.values[149] == 1 && s.rows.state[1][149] == 2 && s.rows.best[149] == 0);
    apply_all();
    rows.values[149] = 3;
    sl_row_table_restore(&rows, 2);
    poll();
    work_phase(); // the evaluation
    sl_phases_hold_best(&t.phases);
    poll();
    ck_assert(t.phases.keeping.busy && rows.best[149] == 0 && t.epochs == 0);
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_EAGAIN);
    sl_phases_release_best(&t.phases);
    poll();
    ck_assert(!t.phases.keeping.busy && rows.best[149] == 3 && t.epochs == 1);
    rows.values[149] = 4; // of the next epoch
    work_one(true);
    work_one(false);
    take_rows(&s);
    ck_assert(s.best.has && s.rows.values[149] == 4 && s.rows.best[149] == 3);
    must(sl_snapshot_take(&s, &t.phases, true)); // nobody is left, and nothing is copied
    ck_assert(!s.frozen && s.rows.values == rows.values && s.rows.best == rows.best);
    sl_snapshot_fini(&s);
    sl_row_table_close(&rows);
    close(rows_fd);
    close(work_fd);
    end();
}

TEST(what_has_not_been_read_has_no_position_yet)
{
    struct sl_snapshot s;
    config.evaluate.every = 0;
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_phase();
    work_one(true);
    work_one(true); // an update of the next epoch, and the broker knows nothing of the first
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_EAGAIN);
    poll();
    must(sl_snapshot_take(&s, &t.phases, false));
    expect(&s, 3, 1, 2);
    // The same after a stop, when nothing is read any more but for this.
    work_one(true);
    work_one(true);
    work_one(true);
    work_one(true);
    sl_phases_stop(&t.phases);
    poll();
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, true), SL_EAGAIN);
    sl_phases_read_rest(&t.phases);
    must(sl_snapshot_take(&s, &t.phases, true));
    expect(&s, 5, 2, 2);
    sl_snapshot_fini(&s);
    end();
}

TEST(nobody_waits_for_an_update_that_is_being_applied)
{
    struct sl_snapshot s;
    struct sl_update u;
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_one(false);
    work_one(false);
    must(sl_param_store_begin_update(&t.arena, 2, &u));
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_EAGAIN);
    sl_param_store_commit_update(&t.arena, &u);
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_OK);
    sl_snapshot_fini(&s);
    end();
}

// The other of two nodes: its batches of the update come, its slice, and the version is made.
static void finish_update_of_two(void)
{
    struct sl_nodes_step s;
    must(sl_nodes_next(&t.arena, &s));
    for (uint32_t cell = s.first_cell + 1; cell < s.first_cell + s.n_cells; cell += 2) {
        const struct sl_nodes_batch b = {
            .magic = SL_NODES_BATCH_MAGIC, .version = s.version, .epoch = s.epoch, .cell = cell};
        must(sl_nodes_batch_arrived(&t.arena, &s, 1, cell, &b, 0));
    }
    apply_all();
    must(sl_nodes_flip(&t.arena, &s, 3));
}

TEST(a_snapshot_of_several_nodes_waits_for_their_state)
{
    struct sl_snapshot s;
    uint64_t v;
    nodes = (struct sl_nodes_spec){.n = 2};
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    must(sl_snapshot_take(&s, &t.phases, false)); // of the beginning
    ck_assert(!sl_nodes_state_is_wanted(&t.arena, &v));
    work_one(false);
    ck_assert_int_eq(sl_cell_state(sl_ledger_word(&t.arena, 1, 1)), SL_CELL_ELSEWHERE);
    finish_update_of_two();
    ck_assert_int_eq(sl_snapshot_take(&s, &t.phases, false), SL_EAGAIN);
    ck_assert(sl_nodes_state_is_wanted(&t.arena, &v));
    ck_assert_uint_eq(v, 1);
    sl_nodes_state_arrived(&t.arena, 1);
    must(sl_snapshot_take(&s, &t.phases, false));
    ck_assert(s.version == 1 && s.n_records == 2 && s.records[1].cell == 1);
    ck_assert_float_eq(s.state[1][2], 100);
    ck_assert(sl_nodes_hold_is_over(&t.arena)); // nothing is asked for any more
    sl_snapshot_fini(&s);
    end();
}

// The same job again in a new arena, from a snapshot on.
static void go_on(const struct sl_snapshot *s)
{
    end();
    int epochs = t.epochs;
    memset(&t, 0, sizeof t);
    t.epochs = epochs;
    plan.resume = (struct sl_resume_point){
        .epoch = s->epoch, .n_records = s->n_records, .records = s->records, .best = s->best};
    memcpy(plan.resume.digest, s->digest, sizeof s->digest);
    init_arena();
    sl_param_store_restore(&t.arena, s->version);
    for (uint32_t i = 0; i < 3; i++) {
        sl_param_store_params(&t.arena, s->version)[i] = s->params[i];
        sl_param_store_state(&t.arena, s->version, 0)[i] = s->state[0][i];
        sl_param_store_state(&t.arena, s->version, 1)[i] = s->state[1][i];
        sl_param_store_best(&t.arena)[i] = s->best.has ? s->best_params[i] : 0;
        sl_param_store_pinned(&t.arena)[i] = sl_snapshot_beside(s) ? s->pinned_params[i] : 0;
    }
    sl_phases_start(&t.phases);
}

static void to_the_end(void)
{
    for (int i = 0; i < 1000 && !t.complete; i++) {
        if (sl_ledger_current(&t.arena, SL_LANE_MAIN) <= sl_ledger_opened(&t.arena))
            work_phase();
        poll();
    }
    ck_assert(t.complete);
}

static struct {
    char digest[33];
    double loss[8], accuracy[8];
    uint64_t scheduled;
    struct sl_early_stopping best;
    float best_param;
} calm;

// What a job that nobody disturbs has come to.
static void keep_the_calm(void)
{
    ck_assert(t.complete);
    ck_assert(sl_phases_digest(&t.phases, calm.digest));
    memcpy(calm.loss, t.losses, sizeof calm.loss);
    memcpy(calm.accuracy, t.accuracies, sizeof calm.accuracy);
    calm.scheduled = t.phases.scheduled;
    calm.best = t.phases.best;
    calm.best_param = sl_param_store_best(&t.arena)[0];
    end();
    memset(&t, 0, sizeof t);
}

// After `cells` cells of work, evaluations among them.
LOOP_TEST(it_goes_on_from_any_moment, 0, 28)
{
    struct sl_snapshot s;
    char digest[33];
    make_arena();
    to_the_end();
    keep_the_calm();
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    for (int i = 0; i < _i && !t.complete; i++) {
        work_one(true);
        poll();
    }
    must(sl_snapshot_take(&s, &t.phases, false));
    go_on(&s);
    to_the_end();
    ck_assert_int_eq(t.epochs, 4);
    ck_assert(sl_phases_digest(&t.phases, digest));
    ck_assert_str_eq(digest, calm.digest);
    for (uint32_t e = s.epoch; e < 4; e++)
        ck_assert_double_eq(t.losses[e], calm.loss[e]);
    ck_assert_uint_eq(t.phases.scheduled, calm.scheduled);
    ck_assert_uint_eq(t.phases.done, calm.scheduled);
    ck_assert_uint_eq(sl_param_store_version(&t.arena), 8);
    ck_assert_uint_eq(t.phases.trained, 4);
    ck_assert_uint_eq(t.phases.best.epoch, 3);
    sl_snapshot_fini(&s);
    end();
}

// --- beside an evaluation ---

// Four devices, of which two can train at once: the others evaluate meanwhile.
static void overlap_setup(void)
{
    config.evaluate.full = true;
    config.evaluate.overlap = true;
    config.n_devices = 4;
    config.allocation.samplers = config.allocation.trainers = 0; // the job file says nothing
}

// The vertices that an evaluation is right about tell the parameters that it was made with.
static void evaluate(const struct sl_lease *l)
{
    const struct sl_phase_spec *spec = &l->phase->spec;
    const float *params = spec->params == SL_PARAMS_PINNED ? sl_param_store_pinned(&t.arena)
                          : spec->params == SL_PARAMS_BEST
                              ? sl_param_store_best(&t.arena)
                              : sl_param_store_params(&t.arena, sl_param_store_version(&t.arena));
    leave_predictions(&t.arena, l, false, 0, (uint64_t)params[0]);
}

// One cell of either lane, that of the side first or last.
static void work_beside(bool aside)
{
    struct sl_lease l;
    while (sl_ledger_claim_sample(&t.arena, 1, SL_AHEAD_CURRENT_ONLY, 0, &l) == SL_OK) {
        l.entry->digest = l.phase->spec.epoch * 100 + l.cell + 1;
        must(sl_ledger_publish(&t.arena, &l));
    }
    if (!aside || sl_ledger_claim_beside(&t.arena, 2, SL_OCCUPATION_ASIDE, 0, &l) < 0)
        must(sl_ledger_claim_train(&t.arena, 2, 1, &l));
    l.entry->weight = 1;
    l.entry->loss = l.phase->spec.epoch * 7 + l.cell;
    if (l.phase->spec.kind == SL_PHASE_INFER)
        evaluate(&l);
    must(sl_ledger_complete(&t.arena, &l));
    apply_all();
}

enum { ASIDE_FIRST, TRAINS_FIRST, IN_TURN, WAYS };

static void work_in_a_way(int way, int from, int to)
{
    poll(); // what a checkpoint had done may be complete
    for (int i = from; i < to && !t.complete; i++) {
        work_beside(way == ASIDE_FIRST || (way == IN_TURN && i % 2 == 0));
        poll();
    }
}

static void expect_the_calm(void)
{
    char digest[33];
    ck_assert(t.complete);
    ck_assert_int_eq(t.epochs, 4);
    ck_assert(sl_phases_digest(&t.phases, digest));
    ck_assert_str_eq(digest, calm.digest);
    ck_assert_uint_eq(t.phases.done, calm.scheduled);
    ck_assert_uint_eq(t.phases.scheduled, calm.scheduled);
    ck_assert_uint_eq(sl_param_store_version(&t.arena), 8);
    ck_assert_uint_eq(t.phases.best.epoch, calm.best.epoch);
    ck_assert_double_eq(t.phases.best.value, calm.best.value);
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], calm.best_param);
}

// Without an overlap, as the others are compared with.
static void evaluate_in_peace(void)
{
    config.evaluate.overlap = false;
    make_arena();
    work_in_a_way(TRAINS_FIRST, 0, 1000);
    keep_the_calm();
    ck_assert(calm.accuracy[0] != calm.accuracy[1]);
    config.evaluate.overlap = true;
}

// After so many cells of both lanes.
LOOP_TEST(it_goes_on_from_any_moment_beside_an_evaluation, 0, 27 * WAYS)
{
    struct sl_snapshot s;
    int way = _i % WAYS, steps = _i / WAYS;
    overlap_setup();
    evaluate_in_peace();
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_in_a_way(way, 0, steps);
    must(sl_snapshot_take(&s, &t.phases, false));
    ck_assert_uint_eq(sl_snapshot_batches(&s), 2 * s.version);
    go_on(&s);
    work_in_a_way(way, steps, 1000);
    expect_the_calm();
    for (uint32_t e = 0; e < 4; e++) {
        if (e < s.epoch)
            continue;
        ck_assert_double_eq(t.losses[e], calm.loss[e]);
        ck_assert_double_eq(t.accuracies[e], calm.accuracy[e]);
    }
    sl_snapshot_fini(&s);
    end();
}

TEST(the_next_epochs_batches_stand_behind_those_that_are_evaluated)
{
    struct sl_snapshot s;
    overlap_setup();
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_in_a_way(TRAINS_FIRST, 0, 4 + 2);
    must(sl_snapshot_take(&s, &t.phases, false));
    ck_assert_uint_eq(s.epoch, 0);
    ck_assert_uint_eq(s.n_records, 6);
    ck_assert_uint_eq(sl_snapshot_beside(&s), 2);
    ck_assert_uint_eq(s.records[3].digest, 4);
    ck_assert_uint_eq(s.records[4].cell, 0);
    ck_assert_uint_eq(s.records[5].digest, 102);
    ck_assert_float_eq(s.params[0], 3);
    ck_assert_float_eq(s.pinned_params[0], 2);
    work_in_a_way(TRAINS_FIRST, 0, 2); // all of it, and the evaluation has not begun
    must(sl_snapshot_take(&s, &t.phases, false));
    ck_assert_uint_eq(s.n_records, 8);
    sl_phases_stop(&t.phases);
    sl_phases_read_rest(&t.phases);
    must(sl_snapshot_take(&s, &t.phases, true));
    ck_assert_uint_eq(s.n_records, 8);
    ck_assert_uint_eq(s.epoch, 0);
    sl_snapshot_fini(&s);
    end();
}

// A job that is given patience while it goes on has begun the epoch that this could end.
TEST(patience_that_runs_out_beside_an_epoch_ends_it_behind_that)
{
    struct sl_snapshot s;
    overlap_setup();
    make_arena();
    must(sl_snapshot_init(&s, &t.phases));
    work_in_a_way(TRAINS_FIRST, 0, 4 + 2);
    must(sl_snapshot_take(&s, &t.phases, false));
    config.early_stopping.patience = 1;
    config.early_stopping.min_delta = 10; // nothing is ever better
    s.best = (struct sl_early_stopping){.has = true, .epoch = 0, .value = 0.5, .mark = 0.5};
    go_on(&s);
    work_in_a_way(ASIDE_FIRST, 0, 1000);
    ck_assert(t.complete && t.phases.stopped_early);
    ck_assert_int_eq(t.epochs, 2);
    ck_assert_uint_eq(sl_param_store_version(&t.arena), 4);
    sl_snapshot_fini(&s);
    end();
}

// --- the plan ---

TEST(the_plan_begins_where_the_job_is)
{
    plan.resume.epoch = 2;
    expect_plan("t2 v2 t3 v3 x3 ");
    plan.resume.epoch = 4;
    expect_plan("x3 ");
    plan.split[SL_SPLIT_TEST].n = 0;
    expect_plan("");
}

TEST(a_cache_begins_anew)
{
    config.cache.policy = SL_CACHE_OPTIMAL;
    plan.resume.epoch = 2;
    expect_plan("p2 p3 t2 v2 t3 v3 x3 ");
    ck_assert_uint_eq(sl_plan_orders(&plan), 4);
    for (uint32_t order = 0; order < 4; order++)
        ck_assert_uint_eq(sl_plan_order_epoch(&plan, order), 2 + order % 2);
    ck_assert_uint_eq(sl_plan_order(&plan, (struct sl_plan_step){SL_PURPOSE_TRAIN, 2, 0}), 2);
    ck_assert_uint_eq(sl_plan_counted_orders(&plan), 2);
    config.cache.policy = SL_CACHE_PRESC;
    config.cache.presample_epochs = 1;
    ck_assert_uint_eq(sl_plan_first_ranked(&plan), 3);
    // Of an epoch that was begun only the rest is drawn: the next one is counted as well.
    plan.resume.epoch = 1;
    plan.resume.n_records = 3;
    ck_assert_uint_eq(sl_plan_first_ranked(&plan), 3);
    ck_assert_uint_eq(sl_plan_counted_orders(&plan), 2);
    plan.resume.epoch = 3;
    ck_assert_uint_eq(sl_plan_first_ranked(&plan), 4); // none
    config.cache.policy = SL_CACHE_DEGREE;
    ck_assert_uint_eq(sl_plan_first_ranked(&plan), 3);
    plan.resume.epoch = 4;
    plan.resume.n_records = 0;
    ck_assert(!sl_plan_is_ranked(&plan, sl_plan_first(&plan)));
}

TEST(batches_of_a_version)
{
    static const uint64_t want[] = {0, 2, 4, 6, 8, 10};
    for (uint64_t v = 0; v < SL_COUNT_OF(want); v++)
        ck_assert_uint_eq(sl_phases_batches_of(&config, 35, v), want[v]);
    config.updates.batches_per_update = 3; // 3 and 1
    ck_assert_uint_eq(sl_phases_batches_of(&config, 35, 1), 3);
    ck_assert_uint_eq(sl_phases_batches_of(&config, 35, 2), 4);
    ck_assert_uint_eq(sl_phases_batches_of(&config, 35, 5), 11);
    config.updates.mode = SL_UPDATE_ASYNC;
    ck_assert_uint_eq(sl_phases_batches_of(&config, 35, 5), 5);
}

RUN_TESTS(.setup = sampled_setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 20)

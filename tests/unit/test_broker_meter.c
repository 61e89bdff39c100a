// Looking at a job: cells that have become done, and seats.
#include "broker/scheduler/role_split_internal.h"
#include "tests/unit/broker_live_fixture.h"
#include "tests/unit/suite.h"

static uint64_t n_of(const struct sl_meter_times *t)
{
    uint64_t n = 0;
    for (int i = 0; i < SL_METER_BUCKETS; i++)
        n += t->bucket[i];
    return n;
}

// --- cells ---------------------------------------------------------------------------------------

CASE(.name = "look", .setup = setup_ordered, .teardown = teardown, .timeout_s = 60)

TEST(a_batch_is_counted_once_when_it_is_done)
{
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    for (int i = 0; i < 8; i++)
        sample();
    ck_assert_uint_eq(look()->sums.batches, 0);
    train(4);
    ck_assert_uint_eq(look()->sums.batches, 4);
    ck_assert_uint_eq(look()->sums.batches, 4);
    train(4);
    close_phase(); // without a look in between: the hook takes the rest
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->sums.batches, 8);
    ck_assert_uint_eq(l->sums.edges, 800);
    ck_assert_uint_eq(l->sums.input_nodes, 160);
    ck_assert_uint_eq(l->sums.hits, 120);
    ck_assert_uint_eq(l->sums.misses, 40);
    ck_assert_uint_eq(l->sums.hit_bytes, 12000);
    ck_assert_uint_eq(l->sums.blocks_near_bytes, 2400);
    ck_assert_uint_eq(l->sums.queued_ns, 8 * 2 * MS);
    ck_assert_uint_eq(l->times[SL_LIVE_SAMPLE].count, 8);
    ck_assert_uint_eq(l->times[SL_LIVE_TRAIN].ns, 8 * 7 * MS);
}

TEST(a_batch_counts_once_its_update_is_applied)
{
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    for (int i = 0; i < 8; i++)
        sample();
    for (int i = 0; i < 4; i++) {
        struct sl_lease l = claim();
        complete(&l);
    }
    ck_assert_uint_eq(look()->sums.batches, 0);
    apply_next(3, true, (struct sl_update_entry){.from_ns = 1, .took_ns = 3 * MS});
    ck_assert_uint_eq(look()->sums.batches, 0);
    apply_next(2, false, (struct sl_update_entry){.from_ns = 1, .took_ns = 5 * MS});
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->sums.batches, 4);
    ck_assert_uint_eq(l->times[SL_LIVE_TRAIN].ns, (4 * 7 + 5) * MS);
}

CASE(.name = "async", .setup = setup_async, .teardown = teardown, .timeout_s = 60)

TEST(an_async_batch_counts_once_it_is_applied)
{
    struct sl_lease l;
    float params[3];
    uint64_t version;
    open_phase(SL_PHASE_TRAIN, 4, 0, NULL, 0);
    sample();
    l = claim();
    must(sl_param_store_join(&job.arena, 1, 2, params, &version));
    sl_param_store_offer(&job.arena, 1, &l);
    complete(&l);
    ck_assert_uint_eq(look()->sums.trained, 0);
    // One dies that has written down when it applied the update, and to which version.
    apply_next(3, true, (struct sl_update_entry){.from_ns = 1, .applied_version = 9});
    ck_assert_uint_eq(look()->sums.trained, 0);
    apply_next(2, false, (struct sl_update_entry){.from_ns = 1});
    ck_assert_uint_eq(look()->sums.trained, 1);
    ck_assert_uint_eq(job.meter.sums.stale, 0);
}

CASE(.setup = setup_ordered, .teardown = teardown, .timeout_s = 60)

TEST(a_straggler_holds_back_those_behind_it)
{
    open_phase(SL_PHASE_INFER, 5, 0, NULL, 0);
    struct sl_lease first = claim(), second = claim();
    complete(&second);
    ck_assert_uint_eq(look()->sums.cells, 0);
    complete(&first);
    ck_assert_uint_eq(look()->sums.cells, 2);
    ck_assert_uint_eq(job.meter.sums.batches, 0);
    ck_assert_uint_eq(job.meter.times[SL_LIVE_EVALUATE].count, 2);
    ck_assert_uint_eq(job.meter.times[SL_LIVE_SAMPLE].count, 0);
}

TEST(presampling_is_sampling_alone)
{
    open_phase(SL_PHASE_PRESAMPLE, 5, 0, NULL, 0);
    sample();
    sample();
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->sums.cells, 2);
    ck_assert_uint_eq(l->times[SL_LIVE_SAMPLE].count, 2);
    ck_assert_uint_eq(l->times[SL_LIVE_EXTRACT].count, 0);
    ck_assert_uint_eq(l->times[SL_LIVE_EVALUATE].count, 0);
}

TEST(batches_of_a_checkpoint_count_nowhere)
{
    const struct sl_cell_record records[] = {
        {.cell = 0, .n_edges = 9}, {.cell = 1}, {.cell = 2}, {.cell = 3}};
    sl_param_store_restore(&job.arena, 1);
    open_phase(SL_PHASE_TRAIN, 8, 0, records, 4);
    ck_assert_uint_eq(look()->sums.batches, 0);
    for (int i = 0; i < 4; i++)
        sample();
    train(4);
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->sums.batches, 4);
    ck_assert_uint_eq(l->sums.edges, 400);
    ck_assert_uint_eq(l->times[SL_LIVE_SAMPLE].count, 4);
}

TEST(slots_that_are_used_again_are_counted_anew)
{
    for (uint64_t epoch = 0; epoch < 3 * SL_ARENA_PHASES; epoch++) {
        open_phase(SL_PHASE_TRAIN, 4, epoch, NULL, 0);
        for (int i = 0; i < 4; i++)
            sample();
        train(4);
        if (epoch % 2)
            look();
        close_phase();
    }
    ck_assert_uint_eq(look()->sums.batches, 12 * SL_ARENA_PHASES);
}

TEST(measured_batches_tell_what_a_pool_is_taken)
{
    job.split.pool.n = 4;
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    for (int i = 0; i < 8; i++)
        sample();
    for (int i = 0; i < 8; i++) {
        struct sl_lease l = claim();
        if (i == 4) {
            train(0); // updates
            look();
            ck_assert(!sl_split_learn_pool(&job.split, 1));
        }
        if (i >= 4) {
            l.entry->draw_cpu_ns = 2 * MS;
            l.entry->train_cpu_ns = l.entry->helpers_cpu_ns = 6 * MS;
            l.entry->train_threads = 3;
        }
        complete(&l);
    }
    train(0);
    look();
    atomic_store(&sl_seat(&job.arena, sl_seat_trainer(&job.arena, 1))->step_bytes, 77);
    ck_assert(!sl_split_learn_pool(&job.split, 5));
    ck_assert(sl_split_learn_pool(&job.split, 4));
    ck_assert_double_eq_tol(job.split.pool.sample.one, 2e-3, 1e-12);
    ck_assert_double_eq_tol(job.split.pool.sample.all, 2e-3, 1e-12);
    // The caller and two helpers shared 9 of the 12 ms.
    ck_assert_double_eq_tol(job.split.pool.train.one, 12e-3, 1e-12);
    ck_assert_double_eq_tol(job.split.pool.train.all, 3e-3 + 9e-3 / 4, 1e-12);
    ck_assert_uint_eq(job.split.need.step_bytes, 77);
}

TEST(buckets_are_bounded_from_above)
{
    open_phase(SL_PHASE_TRAIN, 4, 0, NULL, 0);
    for (int i = 0; i < 4; i++)
        sample();
    train(4);
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->times[SL_LIVE_MARK].bucket[0], 4);    // 0.05 ms
    ck_assert_uint_eq(l->times[SL_LIVE_COPY].bucket[0], 4);    // 0.1 ms: the bound belongs to it
    ck_assert_uint_eq(l->times[SL_LIVE_EXTRACT].bucket[3], 4); // 1 ms
    ck_assert_uint_eq(l->times[SL_LIVE_SAMPLE].bucket[5], 4);  // 3 ms: 2 to 5
    ck_assert_uint_eq(l->times[SL_LIVE_WAIT].bucket[SL_METER_BUCKETS - 1], 4); // 200 s: +Inf
    for (int i = 0; i < SL_LIVE_STAGES; i++)
        ck_assert_uint_eq(n_of(&l->times[i]), l->times[i].count);
}

static double percentile(const struct sl_meter_ring *ring, double p)
{
    double seconds;
    sl_meter_percentiles(ring, 1, &p, &seconds);
    return seconds;
}

TEST(percentiles_are_of_the_newest)
{
    struct sl_meter_ring ring = {.n = 0};
    ck_assert(isnan(percentile(&ring, 50)));
    for (uint64_t i = 0; i < 10; i++)
        ring.ns[ring.n++] = (10 - i) * MS;
    ck_assert_double_eq_tol(percentile(&ring, 50), 5e-3, 1e-12);
    ck_assert_double_eq_tol(percentile(&ring, 99), 10e-3, 1e-12);
    for (uint64_t i = 0; i < SL_METER_RING; i++)
        ring.ns[ring.n++ % SL_METER_RING] = 1 * MS;
    ck_assert_double_eq_tol(percentile(&ring, 99), 1e-3, 1e-12);
}

// --- seats ---------------------------------------------------------------------------------------

TEST(a_seats_figures_grow_over_its_workers)
{
    publish(0, 5, 0, 0);
    look();
    publish(0, 5, 10, 100 * MS);
    ck_assert_uint_eq(look()->seat[0].sums.batches, 10);
    publish(0, 6, 0, 0); // it died, and another one took its seat
    look();
    publish(0, 6, 3, 20 * MS);
    const struct sl_meter *l = look();
    ck_assert_uint_eq(l->seat[0].sums.batches, 13);
    ck_assert_uint_eq(l->seat[0].sums.stage_ns[SL_STAGE_SAMPLE], 120 * MS);
}

TEST(a_new_worker_with_old_figures_is_no_jump)
{
    publish(0, 5, 10, 100 * MS);
    look();
    publish(0, 5, 1000, 100 * MS);
    // It has sat down, and the figures are still those of the one before.
    atomic_store(&sl_stats_slot(&job.arena, 0)->words.worker, 6);
    ck_assert_uint_eq(look()->seat[0].sums.batches, 990);
    publish(0, 6, 2000, 0);
    ck_assert_uint_eq(look()->seat[0].sums.batches, 990);
    publish(0, 6, 2002, 0);
    ck_assert_uint_eq(look()->seat[0].sums.batches, 992);
}

TEST(a_dead_worker_holds_nothing)
{
    publish_figures(0, 5, (struct sl_worker_totals){.current_tag = 77});
    ck_assert(look()->seat[0].held);
    workers[0].alive = false;
    ck_assert(!look()->seat[0].held);
}

TEST(a_pause_is_neither_work_nor_waiting)
{
    look();
    sl_pauses_begin(&job.pauses, sl_now_ns());
    for (int i = 0; i < 5; i++)
        look();
    ck_assert_uint_eq(job.meter.seat[0].sums.readings, 1);
}

RUN_TESTS()

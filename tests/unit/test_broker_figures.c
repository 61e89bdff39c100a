// The mathematics of the report: percentiles, queue depth, sums, and who is named the bottleneck.
#include "tests/unit/test_data_fixture.h"

#include "broker/figures.h"

#define MS 1000000ull

static struct sl_figures_scratch room;

static void setup(void)
{
    must(sl_figures_scratch_init(&room, 1000));
}

static void teardown(void)
{
    sl_figures_scratch_fini(&room);
}

START_TEST(percentiles_are_nearest_ranks)
{
    uint64_t v[100];
    for (uint64_t i = 0; i < 100; i++)
        v[i] = i + 1;
    ck_assert_uint_eq(sl_figures_percentile(v, 100, 50), 50);
    ck_assert_uint_eq(sl_figures_percentile(v, 100, 99), 99);
    ck_assert_uint_eq(sl_figures_percentile(v, 100, 99.5), 100);
    ck_assert_uint_eq(sl_figures_percentile(v, 100, 100), 100);
    ck_assert_uint_eq(sl_figures_percentile(v, 1, 50), 1);
    ck_assert_uint_eq(sl_figures_percentile(v, 1, 99), 1);
    ck_assert_uint_eq(sl_figures_percentile(v, 2, 50), 1);
    ck_assert_uint_eq(sl_figures_percentile(v, 3, 50), 2);
    ck_assert_uint_eq(sl_figures_percentile(v, 10, 99), 10);
}
END_TEST

// Batch i: ready at 10 i, claimed at 10 i + 25 ms, trained for i + 1 ms.
static void make_entries(struct sl_batch_entry *e, uint64_t n)
{
    memset(e, 0, n * sizeof *e);
    for (uint64_t i = 0; i < n; i++) {
        e[i].sample_ns = 2 * MS;
        e[i].sample_wait_ns = i == 0 ? 7 * MS : 0;
        e[i].ready_at_ns = (1000 + 10 * i) * MS;
        e[i].claimed_at_ns = (1000 + 10 * i + 25) * MS;
        e[i].train_ns = (i + 1) * MS;
        e[i].extract_ns = 3 * MS;
        e[i].train_wait_ns = MS;
        e[i].n_edges = 100 + i;
        e[i].n_input = 50;
        e[i].payload_bytes = 65536;
        e[i].extract_bytes = 400;
        e[i].loss = 20.0;
        e[i].correct = 4;
        e[i].counted = 10;
    }
}

START_TEST(an_epoch_is_summed_up)
{
    struct sl_batch_entry e[100];
    struct sl_epoch_figures f = {.samplers = 1, .trainers = 2};
    make_entries(e, 100);
    sl_figures_take_training(&f, e, 100, (struct sl_span){1000 * MS, 3000 * MS}, &room);
    ck_assert_uint_eq(f.batches, 100);
    ck_assert_double_eq_tol(f.seconds, 2.0, 1e-9);
    ck_assert_double_eq_tol(f.loss, 2.0, 1e-12);
    ck_assert_double_eq_tol(f.train_accuracy, 0.4, 1e-12);
    ck_assert_uint_eq(f.sampled_edges, 100 * 100 + 99 * 100 / 2);
    ck_assert_uint_eq(f.input_nodes, 5000);
    ck_assert_uint_eq(f.block_bytes, 6553600);
    ck_assert_uint_eq(f.feature_bytes, 40000);
    ck_assert_double_eq_tol(f.sample.seconds, 0.2, 1e-9);
    ck_assert_double_eq_tol(f.train.seconds, 5.05, 1e-9);
    ck_assert_double_eq_tol(f.train.p50, 0.050, 1e-9);
    ck_assert_double_eq_tol(f.train.p99, 0.099, 1e-9);
    ck_assert_uint_eq(f.train.count, 100);
    ck_assert_double_eq_tol(f.backpressure.seconds, 0.007, 1e-9);
    ck_assert_double_eq_tol(f.backpressure.p50, 0, 1e-9);
    ck_assert_double_eq_tol(f.wait.seconds, 0.1, 1e-9);
}
END_TEST

START_TEST(queue_depth_follows_arrivals_and_claims)
{
    struct sl_batch_entry e[100];
    struct sl_epoch_figures f = {0};
    make_entries(e, 100);
    sl_figures_take_training(&f, e, 100, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    // 100 batches lie 25 ms each within a second; at most three at once (at 20, 10 and 0 ms).
    ck_assert_double_eq_tol(f.queue_mean, 2.5, 1e-9);
    ck_assert_uint_eq(f.queue_max, 3);
}
END_TEST

START_TEST(batches_drawn_before_the_epoch_count_from_its_start)
{
    struct sl_batch_entry e[2] = {{.ready_at_ns = 100 * MS, .claimed_at_ns = 1500 * MS},
                                  {.ready_at_ns = 200 * MS, .claimed_at_ns = 1250 * MS}};
    struct sl_epoch_figures f = {0};
    sl_figures_take_training(&f, e, 2, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    ck_assert_double_eq_tol(f.queue_mean, 0.75, 1e-9);
    ck_assert_uint_eq(f.queue_max, 2);
}
END_TEST

START_TEST(an_epoch_of_one_batch_has_figures)
{
    struct sl_batch_entry e = {.train_ns = 5 * MS, .loss = 3, .counted = 3, .correct = 3};
    struct sl_epoch_figures f = {.samplers = 1, .trainers = 1};
    sl_figures_take_training(&f, &e, 1, (struct sl_span){0, 10 * MS}, &room);
    ck_assert_double_eq_tol(f.train.p50, 0.005, 1e-12);
    ck_assert_double_eq_tol(f.train.p99, 0.005, 1e-12);
    ck_assert_double_eq_tol(f.loss, 1, 1e-12);
    ck_assert_double_eq_tol(f.train_accuracy, 1, 1e-12);
}
END_TEST

START_TEST(nothing_counted_and_no_time_divide_by_nothing)
{
    struct sl_batch_entry e = {0};
    struct sl_epoch_figures f = {.samplers = 1, .trainers = 1};
    sl_figures_take_training(&f, &e, 1, (struct sl_span){5, 5}, &room);
    sl_figures_name_bottleneck(&f, 1);
    ck_assert_double_eq(f.loss, 0);
    ck_assert_double_eq(f.train_accuracy, 0);
    ck_assert_double_eq(f.queue_mean, 0);
    ck_assert_msg(!strstr(f.bottleneck, "nan") && f.bottleneck[0], "%s", f.bottleneck);
}
END_TEST

START_TEST(an_evaluation_keeps_the_percentiles_of_its_heaviest_phase)
{
    struct sl_batch_entry light[2] = {{.train_ns = MS}, {.train_ns = MS}};
    struct sl_batch_entry heavy[2] = {{.train_ns = 100 * MS}, {.extract_ns = 200 * MS}};
    struct sl_epoch_figures f = {0};
    sl_figures_take_evaluation(&f, light, 2, (struct sl_span){0, 2 * MS}, &room);
    sl_figures_take_evaluation(&f, heavy, 2, (struct sl_span){2 * MS, 302 * MS}, &room);
    sl_figures_take_evaluation(&f, light, 2, (struct sl_span){302 * MS, 304 * MS}, &room);
    ck_assert_double_eq_tol(f.evaluate_seconds, 0.304, 1e-9);
    ck_assert_double_eq_tol(f.evaluate.seconds, 0.304, 1e-9);
    ck_assert_uint_eq(f.evaluate.count, 6);
    ck_assert_double_eq_tol(f.evaluate.p50, 0.1, 1e-9);
    ck_assert_double_eq_tol(f.evaluate.p99, 0.2, 1e-9);
}
END_TEST

// --- the bottleneck ---

static struct sl_epoch_figures one_second(void)
{
    return (struct sl_epoch_figures){.seconds = 1, .samplers = 1, .trainers = 1, .batches = 10};
}

static void expect(struct sl_epoch_figures *f, uint32_t batches_per_update, const char *who,
                   const char *evidence)
{
    sl_figures_name_bottleneck(f, batches_per_update);
    ck_assert_msg(strncmp(f->bottleneck, who, strlen(who)) == 0 && strstr(f->bottleneck, evidence),
                  "wanted %s with %s, found: %s", who, evidence, f->bottleneck);
}

START_TEST(trainers_that_starve_accuse_the_samplers)
{
    struct sl_epoch_figures f = one_second();
    f.wait.seconds = 0.62;
    f.sample.seconds = 0.98;
    f.train.seconds = 0.35;
    f.queue_mean = 0.1;
    expect(&f, 4, "samplers:", "trainers waited 62 % of the time");
}
END_TEST

START_TEST(samplers_without_memory_accuse_the_trainers)
{
    struct sl_epoch_figures f = one_second();
    f.backpressure.seconds = 0.4;
    f.train.seconds = 0.97;
    f.extract.seconds = 0.2;
    f.queue_mean = 12;
    expect(&f, 4, "trainers:", "samplers waited for memory 40 %");
}
END_TEST

START_TEST(extraction_is_named_when_it_dominates)
{
    struct sl_epoch_figures f = one_second();
    f.train.seconds = 0.3;
    f.extract.seconds = 0.9;
    expect(&f, 4, "trainers:", "extraction took 90 %");
}
END_TEST

START_TEST(trainers_that_wait_before_a_full_queue_wait_for_updates)
{
    struct sl_epoch_figures f = one_second();
    f.trainers = 2;
    f.wait.seconds = 0.9; // of two trainers: 45 %
    f.train.seconds = 1.0;
    f.queue_mean = 6;
    expect(&f, 1, "updates:", "45 %");
}
END_TEST

START_TEST(a_long_evaluation_is_named)
{
    struct sl_epoch_figures f = one_second();
    f.train.seconds = 0.9;
    f.evaluate_seconds = 3;
    expect(&f, 1, "evaluation:", "75 %");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker figures");
    TCase *t = tcase_create("figures");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 10);
    tcase_add_test(t, percentiles_are_nearest_ranks);
    tcase_add_test(t, an_epoch_is_summed_up);
    tcase_add_test(t, queue_depth_follows_arrivals_and_claims);
    tcase_add_test(t, batches_drawn_before_the_epoch_count_from_its_start);
    tcase_add_test(t, an_epoch_of_one_batch_has_figures);
    tcase_add_test(t, nothing_counted_and_no_time_divide_by_nothing);
    tcase_add_test(t, an_evaluation_keeps_the_percentiles_of_its_heaviest_phase);
    tcase_add_test(t, trainers_that_starve_accuse_the_samplers);
    tcase_add_test(t, samplers_without_memory_accuse_the_trainers);
    tcase_add_test(t, extraction_is_named_when_it_dominates);
    tcase_add_test(t, trainers_that_wait_before_a_full_queue_wait_for_updates);
    tcase_add_test(t, a_long_evaluation_is_named);
    suite_add_tcase(s, t);
    return run_suite(s);
}

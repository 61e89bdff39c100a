// Who holds which rows as the split changes: what is published, and when.
#include "broker/split_internal.h"
#include "common/ipc/lent.h"
#include "tests/unit/broker_live_fixture.h"

enum { ROW = 64, NODES = 1000, ROOM = 100 };

static const enum sl_duty both[] = {SL_DUTY_WORK, SL_DUTY_WORK},
                          one[] = {SL_DUTY_STANDBY, SL_DUTY_WORK},
                          leaves[] = {SL_DUTY_NONE, SL_DUTY_WORK};

// Two GPUs that reach one another, each with room for so many rows.
static void make_gpus(void)
{
    make_job();
    job.config.cache.ratio_auto = job.config.store.feature_ratio_auto = true;
    job.split.need = (struct sl_budget_need){.row_bytes = ROW, .n_nodes = NODES};
    for (uint32_t d = 0; d < 2; d++) {
        job.config.devices[d].kind = SL_DEVICE_CUDA;
        job.config.devices[d].memory_bytes = ROOM * ROW;
        for (uint32_t e = 0; e < 2; e++)
            job.split.store.rates.of[d][e] = d == e ? 900 : 50;
    }
}

static void give_duties(const enum sl_duty *duties)
{
    enum sl_duty all[SL_CONFIG_MAX_DEVICES] = {duties[0], duties[1]};
    sl_split_plan_store(&job.split, all);
}

static uint64_t rows_of(uint32_t d)
{
    return atomic_load(&sl_seat(&job.arena, sl_seat_trainer(&job.arena, d))->cache_rows);
}

static uint64_t generation(void)
{
    return sl_lent_generation(&job.arena, SL_LENT_FEATURES);
}

START_TEST(a_plan_is_published_with_the_rows_of_each_seat)
{
    struct sl_lent_plan plan;
    ck_assert_uint_eq(generation(), 0);
    give_duties(both);
    ck_assert_uint_eq(generation(), 1);
    ck_assert(sl_lent_read_plan(&job.arena, SL_LENT_FEATURES, &plan));
    ck_assert_uint_eq(plan.n_parts, 2);
    for (uint32_t d = 0; d < 2; d++) {
        const uint32_t held = (uint32_t)__builtin_popcount(plan.held[d]);
        ck_assert_uint_eq(held, 1);
        ck_assert_uint_eq(rows_of(d), plan.first + held * plan.part_elements);
        ck_assert_uint_le(rows_of(d), ROOM);
    }
}
END_TEST

START_TEST(what_changes_nothing_is_no_new_plan)
{
    give_duties(both);
    give_duties(both);
    ck_assert_uint_eq(generation(), 1);
}
END_TEST

START_TEST(who_leaves_or_stands_by_lends_nothing)
{
    struct sl_lent_plan plan;
    give_duties(both);
    give_duties(one);
    ck_assert_uint_eq(generation(), 2);
    ck_assert(sl_lent_read_plan(&job.arena, SL_LENT_FEATURES, &plan));
    ck_assert_uint_eq(plan.n_parts, 0);
    ck_assert_uint_eq(rows_of(1), ROOM);
    give_duties(both);
    ck_assert_uint_eq(generation(), 3);
    give_duties(leaves);
    ck_assert_uint_eq(generation(), 4);
    ck_assert_uint_eq(rows_of(0), 0);
}
END_TEST

START_TEST(who_never_shares_publishes_nothing)
{
    job.config.store.placement = SL_STORE_ALONE;
    give_duties(both);
    give_duties(one);
    ck_assert_uint_eq(generation(), 0);
    ck_assert_uint_eq(rows_of(1), ROOM);
}
END_TEST

START_TEST(hotness_is_in_order_where_parts_begin_and_end)
{
    uint64_t sizes[SL_SPLIT_SIZES_MAX];
    bool end = false, most = false;
    give_duties(both);
    const struct sl_lent_plan *p = &job.split.store.plan.lent;
    const uint32_t n = sl_split_cache_sizes(&job.split, sizes);
    ck_assert_uint_le(n, SL_SPLIT_SIZES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        end |= sizes[i] == p->first + p->n_parts * p->part_elements;
        most |= sizes[i] >= 2 * ROOM;
    }
    ck_assert(end && most);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker split store");
    TCase *t = tcase_create("plans");
    tcase_add_checked_fixture(t, make_gpus, teardown);
    tcase_add_test(t, a_plan_is_published_with_the_rows_of_each_seat);
    tcase_add_test(t, what_changes_nothing_is_no_new_plan);
    tcase_add_test(t, who_leaves_or_stands_by_lends_nothing);
    tcase_add_test(t, who_never_shares_publishes_nothing);
    tcase_add_test(t, hotness_is_in_order_where_parts_begin_and_end);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

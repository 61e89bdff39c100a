// Who may start next: first come, first served, for each core by itself.
#include "broker/daemon/queue.h"

#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

enum { N = 8 };

static struct sl_cores cores[N];
static struct sl_queue_item items[N];
static uint32_t n;

static void begin(void)
{
    n = 0;
}

// One more job; its order is its place unless the test changes it.
static void job(const char *text, enum sl_queue_part part)
{
    cores[n] = cores_of(text);
    items[n] = (struct sl_queue_item){.cores = &cores[n], .part = part, .order = n};
    n++;
}

static struct sl_queue_view look(uint32_t i)
{
    struct sl_queue_view view;
    sl_queue_look(items, n, i, &view);
    return view;
}

TEST(nobody_starts_of_an_empty_queue)
{
    uint32_t next;
    ck_assert(!sl_queue_next(items, 0, &next));
    job("0", SL_QUEUE_HOLDS);
    job("1", SL_QUEUE_NO_PART);
    ck_assert(!sl_queue_next(items, n, &next));
}

TEST(the_first_one_starts_on_free_cores)
{
    uint32_t next;
    job("0-1", SL_QUEUE_WAITS);
    job("0", SL_QUEUE_WAITS);
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 0);
    ck_assert(look(0).may_start);
    ck_assert_uint_eq(look(0).position, 1);
    ck_assert_uint_eq(look(1).position, 2);
}

TEST(a_core_that_is_taken_is_waited_for)
{
    uint32_t next;
    job("2-3", SL_QUEUE_HOLDS);
    job("1,3", SL_QUEUE_WAITS);
    struct sl_queue_view view = look(1);
    ck_assert(!view.may_start);
    ck_assert_uint_eq(view.core, 3);
    ck_assert_uint_eq(view.by, 0);
    ck_assert(!sl_queue_next(items, n, &next));
}

TEST(a_gpu_that_is_taken_is_waited_for)
{
    uint32_t next;
    const struct sl_cores first = cores_of("0"), second = cores_of("1"), both = cores_of("0-1");
    job("0", SL_QUEUE_HOLDS);
    job("1", SL_QUEUE_WAITS);
    job("2", SL_QUEUE_WAITS);
    job("3", SL_QUEUE_WAITS);
    items[0].gpus = &first;
    items[1].gpus = &both;
    items[2].gpus = &second;
    struct sl_queue_view view = look(1);
    ck_assert(!view.may_start && view.gpu);
    ck_assert_uint_eq(view.core, 0);
    ck_assert_uint_eq(view.by, 0);
    view = look(2); // the one before it wants that GPU, too
    ck_assert(!view.may_start && view.gpu);
    ck_assert_uint_eq(view.core, 1);
    ck_assert_uint_eq(view.by, 1);
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 3); // without a GPU, on a core of its own
    items[0].part = SL_QUEUE_NO_PART;
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 1);
}

TEST(disjoint_jobs_run_side_by_side)
{
    uint32_t next;
    job("0", SL_QUEUE_HOLDS);
    job("0", SL_QUEUE_WAITS);
    job("1,700", SL_QUEUE_WAITS);
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 2);
}

// A small job that came later must not keep a wide one from its cores for ever.
TEST(nobody_is_overtaken_on_a_core)
{
    uint32_t next;
    job("0", SL_QUEUE_HOLDS);
    job("0-1", SL_QUEUE_WAITS);
    job("1", SL_QUEUE_WAITS);
    ck_assert(!sl_queue_next(items, n, &next));
    ck_assert_uint_eq(look(2).by, 1);
    ck_assert_uint_eq(look(2).core, 1);
    items[0].part = SL_QUEUE_NO_PART;
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 1);
}

TEST(order_decides_not_the_place_in_the_list)
{
    uint32_t next;
    job("0", SL_QUEUE_WAITS);
    job("0", SL_QUEUE_WAITS);
    items[1].order = -7;
    ck_assert(sl_queue_next(items, n, &next));
    ck_assert_uint_eq(next, 1);
    ck_assert_uint_eq(look(0).position, 2);
    ck_assert_uint_eq(look(0).by, 1);
}

// Who has a core says more than who waits for it too.
TEST(the_holder_is_named_first)
{
    job("5", SL_QUEUE_WAITS);
    job("4", SL_QUEUE_HOLDS);
    job("4-5", SL_QUEUE_WAITS);
    struct sl_queue_view view = look(2);
    ck_assert_uint_eq(view.by, 1);
    ck_assert_uint_eq(view.core, 4);
}

TEST(a_holder_that_waits_later_counts_whatever_its_order)
{
    job("0", SL_QUEUE_WAITS);
    job("0", SL_QUEUE_HOLDS);
    items[1].order = 100;
    ck_assert(!look(0).may_start);
    ck_assert_uint_eq(look(0).position, 1);
}

TEST(free_cores_are_those_nobody_holds)
{
    struct sl_cores all = cores_of("0-3,64"), idle;
    char text[64];
    job("1", SL_QUEUE_HOLDS);
    job("2", SL_QUEUE_WAITS);
    job("3", SL_QUEUE_NO_PART);
    job("64", SL_QUEUE_HOLDS);
    sl_queue_free(items, n, &all, &idle);
    sl_cores_format(&idle, text, sizeof text);
    ck_assert_str_eq(text, "0,2-3");
}

RUN_TESTS(.setup = begin, .timeout_s = 60)

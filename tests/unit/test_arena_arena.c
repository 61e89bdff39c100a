// The segment, its directory, events and statistics slots.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/arena/arena.h"
#include "common/arena/group.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "common/arena/stats.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

static const struct sl_arena_spec spec = {.n_devices = 3,
                                          .n_cells = 100,
                                          .n_train = 1001,
                                          .n_params = 77,
                                          .n_state = 2,
                                          .batches_per_update = 3,
                                          .act_banks = 2,
                                          .act_rows = 50,
                                          .act_width = 7,
                                          .jumping_width = 5,
                                          .predict_rows = 333,
                                          .predict_words = 3,
                                          .visit_rows = 999,
                                          .hot_rows = 1003,
                                          .probe_bytes = 5000,
                                          .payload_bytes = 3 * SL_ARENA_CHUNK_BYTES + 1};

TEST(regions_are_page_aligned_and_apart)
{
    struct sl_arena_header h;
    uint64_t total = sl_arena_layout(&spec, &h);
    uint64_t end = 0;
    for (int i = 0; i < SL_REGION_COUNT; i++) {
        ck_assert_uint_eq(h.region[i].offset % 4096, 0);
        ck_assert_uint_ge(h.region[i].offset, end);
        end = h.region[i].offset + h.region[i].bytes;
    }
    ck_assert_uint_le(end, total);
    ck_assert_uint_eq(h.n_chunks, 4);
    ck_assert_uint_ge(h.region[SL_REGION_ORDER].bytes, 2 * 1001 * 4);
    // Each bank begins with a page of its own.
    ck_assert_uint_eq(h.region[SL_REGION_ACTS].bytes, 2 * 4096 + 50 * 5 * 4);
    ck_assert_uint_eq(h.region[SL_REGION_PREDICT].bytes, 333 * 3 * 4);
    ck_assert_uint_ge(h.region[SL_REGION_WORKERS].bytes, 6 * sizeof(struct sl_worker_slot));
    ck_assert_uint_ge(h.region[SL_REGION_SEATS].bytes,
                      sizeof(struct sl_schedule) + 6 * sizeof(struct sl_seat));
    ck_assert_uint_ge(h.region[SL_REGION_BOARD].bytes,
                      sizeof(struct sl_param_store) + 3 * sizeof(struct sl_param_store_seat));
    ck_assert_uint_ge(h.region[SL_REGION_VISITS].bytes, 999 * 4);
    ck_assert_uint_eq(h.region[SL_REGION_HOT].bytes, sizeof(struct sl_visit_counts) + 1003 * 4);
    ck_assert_uint_ge(h.region[SL_REGION_PROBE].bytes, 5000);
    // Two banks of parameters and two states, the best ones, three gradients: strides of 80.
    ck_assert_uint_eq(h.region[SL_REGION_PARAMS].bytes, (2 * 3 + 2 + 3) * 80 * 4);
}

TEST(async_mode_has_a_gradient_for_each_device)
{
    struct sl_arena_spec async = spec;
    struct sl_arena_header h;
    async.async = 1;
    async.batches_per_update = 1;
    async.n_devices = 5;
    sl_arena_layout(&async, &h);
    ck_assert_uint_eq(h.region[SL_REGION_PARAMS].bytes, (2 * 3 + 2 + 5) * 80 * 4);
}

TEST(a_spec_that_can_not_be_is_refused)
{
    struct sl_arena_spec bad = spec;
    struct sl_arena a;
    int fd = sl_arena_memfd();
    bad.n_devices = 0;
    ck_assert_int_eq(sl_arena_create(fd, &bad, &a), SL_EINVAL);
    bad = spec;
    bad.async = 1;
    ck_assert_int_eq(sl_arena_create(fd, &bad, &a), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "3 batches"));
    ck_assert_int_eq(sl_arena_create(fd, &spec, &a), SL_OK); // nothing was touched
    sl_arena_detach(&a);
    close(fd);
}

TEST(a_job_with_an_exchange_has_a_region_for_the_group)
{
    struct sl_arena_spec exchange = spec;
    struct sl_arena_header without, with, larger;
    exchange.exchange = 1;
    sl_arena_layout(&spec, &without);
    sl_arena_layout(&exchange, &with);
    exchange.n_devices++;
    sl_arena_layout(&exchange, &larger);
    ck_assert_uint_eq(without.region[SL_REGION_GROUP].bytes, 0);
    ck_assert_uint_eq(with.region[SL_REGION_GROUP].bytes, sl_group_bytes(&with.spec));
    // The list of members, and on each device a name in cache lines of its own.
    ck_assert_uint_ge(with.region[SL_REGION_GROUP].bytes,
                      SL_GROUP_MAX * 8 + 3 * SL_GROUP_NAME_BYTES);
    uint64_t seat = larger.region[SL_REGION_GROUP].bytes - with.region[SL_REGION_GROUP].bytes;
    ck_assert_uint_gt(seat, SL_GROUP_NAME_BYTES);
    ck_assert_uint_eq(seat % 64, 0);
    // Gradients have the slots that they have without.
    ck_assert_uint_eq(with.region[SL_REGION_PARAMS].bytes, without.region[SL_REGION_PARAMS].bytes);
}

TEST(an_exchange_is_of_ordered_updates_and_a_bounded_number_of_devices)
{
    struct sl_arena_spec bad = spec;
    struct sl_arena a;
    int fd = sl_arena_memfd();
    bad.exchange = 1;
    bad.async = 1;
    bad.batches_per_update = 1;
    ck_assert_int_eq(sl_arena_create(fd, &bad, &a), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "async"));
    bad = spec;
    bad.exchange = 1;
    bad.n_devices = SL_GROUP_MAX + 1;
    ck_assert_int_eq(sl_arena_create(fd, &bad, &a), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "65 devices"));
    bad.n_devices = SL_GROUP_MAX;
    ck_assert_msg(sl_arena_create(fd, &bad, &a) == SL_OK, "%s", sl_error_message());
    ck_assert_uint_eq(a.h->spec.exchange, 1);
    sl_arena_detach(&a);
    close(fd);
}

TEST(two_views_see_the_same_memory)
{
    struct sl_arena a, b;
    int fd = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_create(fd, &spec, &a), SL_OK);
    ck_assert_int_eq(sl_arena_attach(fd, &b), SL_OK);
    sl_arena_order(&a, 1)[1000] = 42;
    ck_assert_uint_eq(sl_arena_order(&b, 3)[1000], 42);
    ck_assert_ptr_ne(sl_arena_acts(&a, 0), sl_arena_acts(&a, 1));
    // The size is sealed: nobody can make the others fault.
    ck_assert_int_ne(ftruncate(fd, 4096), 0);
    sl_arena_detach(&a);
    sl_arena_detach(&b);
    close(fd);
}

// Each is written to its last element; a neighbour would see it.
TEST(activations_and_predictions_do_not_overlap)
{
    struct sl_arena a;
    int fd = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_create(fd, &spec, &a), SL_OK);
    float *acts[] = {sl_arena_acts(&a, 0), sl_arena_acts(&a, 1), sl_arena_jumping(&a)};
    const int n[] = {50 * 7, 50 * 7, 50 * 5};
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < n[b]; i++)
            acts[b][i] = (float)(b + 1);
    memset(sl_arena_predictions(&a), 0x7f, 333 * 3 * 4);
    *(uint32_t *)sl_arena_region(&a, SL_REGION_VISITS) = 77;
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < n[b]; i++)
            ck_assert_float_eq(acts[b][i], (float)(b + 1));
    ck_assert_uint_eq(((uint32_t *)sl_arena_predictions(&a))[333 * 3 - 1], 0x7f7f7f7f);
    sl_arena_detach(&a);
    close(fd);
}

TEST(a_file_lies_in_the_place_of_the_activations)
{
    struct sl_arena a, b;
    float last;
    int fd = sl_arena_memfd(), file = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_create(fd, &spec, &a), SL_OK);
    ck_assert_int_eq(sl_arena_attach(fd, &b), SL_OK);
    const uint64_t bytes = a.h->region[SL_REGION_ACTS].bytes;
    float *own = sl_arena_acts(&a, 0), *acts = sl_arena_acts(&b, 0);
    ck_assert_int_eq(sl_arena_map_acts(&b, file), SL_OK); // empty: none
    acts[0] = 1;
    ck_assert_float_eq(own[0], 1);
    ck_assert_int_eq(ftruncate(file, (off_t)bytes - 4), 0);
    ck_assert_int_eq(sl_arena_map_acts(&b, file), SL_EFORMAT);
    ck_assert_int_eq(ftruncate(file, (off_t)bytes), 0);
    ck_assert_int_eq(sl_arena_map_acts(&b, file), SL_OK);
    ck_assert_float_eq(acts[0], 0);
    // What stands before and behind is the arena's still.
    acts[bytes / sizeof *acts - 1] = 3;
    memset(sl_arena_predictions(&b), 0x7f, 4);
    ck_assert_int_eq(pread(file, &last, sizeof last, (off_t)(bytes - sizeof last)), sizeof last);
    ck_assert_float_eq(last, 3);
    ck_assert_float_eq(own[bytes / sizeof *own - 1], 0);
    ck_assert_uint_eq(*(uint32_t *)sl_arena_predictions(&a), 0x7f7f7f7f);
    ck_assert_uint_eq(b.h->magic, SL_ARENA_MAGIC);
    sl_arena_detach(&a);
    sl_arena_detach(&b);
    close(fd);
    close(file);
}

TEST(attaching_to_something_else_is_refused)
{
    struct sl_arena a, b;
    int fd = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_attach(fd, &b), SL_EFORMAT); // no size yet
    ck_assert_int_eq(sl_arena_create(fd, &spec, &a), SL_OK);
    a.h->magic++;
    ck_assert_int_eq(sl_arena_attach(fd, &b), SL_EFORMAT);
    a.h->magic--;
    a.h->version++;
    ck_assert_int_eq(sl_arena_attach(fd, &b), SL_EFORMAT);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "version"));
    ck_assert_ptr_null(b.base);
    sl_arena_detach(&a);
    close(fd);
}

static struct sl_event event;

static _Atomic bool woken;

static void *wait_for_ever(void *arg)
{
    const uint32_t *seen = arg;
    sl_event_wait(&event, *seen, FOR_EVER_MS);
    atomic_store(&woken, true);
    return NULL;
}

TEST(an_event_wakes_its_waiter)
{
    pthread_t t;
    uint32_t seen = sl_event_read(&event);
    pthread_create(&t, NULL, wait_for_ever, &seen);
    until_asleep(&event, 1);
    ck_assert(!woken);
    sl_event_signal(&event);
    pthread_join(t, NULL);
    ck_assert(woken);
    ck_assert_uint_ne(sl_event_read(&event), seen);
    sl_event_wait(&event, seen, FOR_EVER_MS); // already over
    ck_assert_uint_eq(event.waiters, 0);
}

TEST(a_wait_is_bounded)
{
    uint32_t seen = sl_event_read(&event);
    sl_event_wait(&event, seen, 1); // nobody signals
    sl_event_wait(&event, seen, 0);
    ck_assert_uint_eq(sl_event_read(&event), seen);
    ck_assert_uint_eq(event.waiters, 0);
}

static struct sl_worker_slot slot;
static _Atomic bool over;

static void *write_figures(void *arg)
{
    struct sl_worker_totals f = {0};
    for (uint64_t i = 1; !over; i++) {
        f.batches = i;
        f.edges = 2 * i;
        f.bytes = 3 * i;
        sl_stats_publish(&slot, &f);
    }
    return arg;
}

TEST(a_reader_never_sees_half_a_set_of_figures)
{
    pthread_t t;
    sl_stats_begin(&slot, 9);
    pthread_create(&t, NULL, write_figures, NULL);
    struct sl_worker_totals f = {0};
    int seen = 0;
    for (int i = 0; i < 200000; i++) {
        seen += sl_stats_read(&slot, &f);
        ck_assert_uint_eq(f.edges, 2 * f.batches);
        ck_assert_uint_eq(f.bytes, 3 * f.batches);
    }
    ck_assert_int_gt(seen, 0);
    over = true;
    pthread_join(t, NULL);
}

RUN_TESTS(.timeout_s = 60)

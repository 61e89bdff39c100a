// Rows of a shard: own ones and those of other nodes, against a link that is a thread of the test.
#include <pthread.h>
#include <unistd.h>

#include "trainer/feed/reading.h"
#include "trainer/feed/rows.h"
#include "tests/unit/await.h"
#include "tests/unit/shards_fixture.h"
#include "tests/unit/suite.h"
#include "common/arena/asks.h"

enum { VERTICES = 500, WORKER = 3, OWN = 1, SLOT_ROWS = 37 };

static struct shards shards;
static struct sl_arena arena;
static struct sl_asks asks;
static int fd;
static pthread_t link_thread;
static _Atomic bool over, silent, stop;
static _Atomic uint32_t answered, rows_answered;
static struct sl_reading reading;

// Answers what is asked as it should be: of other nodes alone, each node's side by side.
static void answer(const struct sl_ask *ask)
{
    uint32_t at = 0;
    ck_assert_uint_le(ask->head->n, SLOT_ROWS);
    for (uint32_t node = 0; node < shards.count; node++)
        for (; at < ask->head->end[node]; at++) {
            const uint32_t v = ask->vertices[at];
            ck_assert_uint_eq(shards.part[v], node);
            ck_assert_uint_ne(node, OWN);
            ck_assert_uint_eq(ask->head->row_bytes, shards_width(&shards, v));
            memcpy(ask->rows + at * ask->head->row_bytes, shards_row(&shards, v),
                   ask->head->row_bytes);
        }
    ck_assert_uint_eq(at, ask->head->n);
    atomic_fetch_add(&rows_answered, at);
    atomic_fetch_add(&answered, 1);
    sl_asks_answer(ask);
}

static void *run_link(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        const uint32_t seen = sl_event_read(&arena.h->progress);
        // The last one first: an asker takes them in its own order.
        for (uint32_t i = asks.shape.n_slots; i-- > 0;) {
            const struct sl_ask ask = sl_asks_at(&asks, i);
            if (atomic_load(&silent))
                continue;
            if (sl_ask_state(&ask) == SL_ASK_ASKED)
                answer(&ask);
            else if (sl_ask_state(&ask) == SL_ASK_ORPHAN)
                sl_asks_free(&ask);
        }
        sl_event_wait(&arena.h->progress, seen, 1);
    }
    return NULL;
}

// second: the first vertex of a second type; 0: there is one.
static void begin_types(enum sl_dtype dtype, bool empty, uint32_t slots, uint32_t second)
{
    shards = shards_make(VERTICES, 3, 3, dtype, empty);
    if (second)
        shards_add_type(&shards, second);
    fd = shards_arena(&shards, slots, SLOT_ROWS, &arena);
    asks = sl_asks_of(&arena);
    ck_assert_int_eq(pthread_create(&link_thread, NULL, run_link, NULL), 0);
    const struct sl_reading_spec spec = {.dataset = &shards.ds[OWN],
                                         .pulse = {.arena = &arena, .stop = &stop},
                                         .arena = &arena,
                                         .worker = WORKER};
    ck_assert_msg(sl_reading_open(&reading, &spec) == SL_OK, "%s", sl_error_message());
}

static void begin(enum sl_dtype dtype, bool empty, uint32_t slots)
{
    begin_types(dtype, empty, slots, 0);
}

static void end(void)
{
    atomic_store(&over, true);
    pthread_join(link_thread, NULL);
    sl_reading_close(&reading);
    sl_arena_detach(&arena);
    close(fd);
    shards_free(&shards);
}

static void expect_all_free(void)
{
    for (uint32_t i = 0; i < asks.shape.n_slots; i++) {
        const struct sl_ask ask = sl_asks_at(&asks, i);
        ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_FREE);
    }
}

// f32, f16; and fewer slots than a reader may have.
LOOP_TEST(rows_come_to_their_places, 0, 4)
{
    enum { N = 400 };
    static uint32_t vertices[N], to[N];
    static char out[2 * N * 12];
    uint32_t others = 0;
    begin(_i & 1 ? SL_DTYPE_F16 : SL_DTYPE_F32, false, _i & 2 ? 1 : 6);
    for (uint32_t i = 0; i < N; i++) {
        vertices[i] = i * 7919 % VERTICES; // some of them twice
        to[i] = 2 * ((i * 31) % N) + 1;
        others += shards.part[vertices[i]] != OWN;
    }
    ck_assert_int_eq(sl_reading_read(&reading, vertices, to, N, out), SL_OK);
    for (uint32_t i = 0; i < N; i++)
        shards_expect_row(&shards, vertices[i], out + to[i] * shards.row_bytes);
    ck_assert_uint_eq(sl_reading_remote(&reading).rows, others);
    ck_assert_uint_eq(sl_reading_remote(&reading).bytes, others * shards.row_bytes);
    ck_assert_uint_eq(atomic_load(&rows_answered), others);
    ck_assert_uint_eq(atomic_load(&answered), (others + SLOT_ROWS - 1) / SLOT_ROWS);
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, N, out), SL_OK);
    for (uint32_t i = 0; i < N; i++)
        shards_expect_row(&shards, vertices[i], out + i * shards.row_bytes);
    expect_all_free();
    end();
}

// Rows of several widths: f32 or f16 beside one number of half precision.
LOOP_TEST(rows_of_each_type_come_in_their_width, 0, 2)
{
    enum { SECOND = 200, N = 150 };
    uint32_t vertices[N], others = 0;
    uint64_t bytes = 0;
    char out[N * 12 + 1];
    begin_types(_i ? SL_DTYPE_F16 : SL_DTYPE_F32, true, 6, SECOND);
    for (uint32_t first = 0; first <= SECOND; first += SECOND) {
        const uint32_t width = shards_width(&shards, first);
        for (uint32_t i = 0; i < N; i++) {
            vertices[i] = first + i;
            others += shards.part[first + i] != OWN;
            bytes += shards.part[first + i] != OWN ? width : 0;
        }
        out[N * width] = 77;
        ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, N, out), SL_OK);
        for (uint32_t i = 0; i < N; i++)
            shards_expect_row(&shards, vertices[i], out + i * width);
        ck_assert_int_eq(out[N * width], 77);
    }
    ck_assert_uint_eq(sl_reading_remote(&reading).rows, others);
    ck_assert_uint_eq(sl_reading_remote(&reading).bytes, bytes);
    const uint32_t both[] = {SECOND, SECOND - 1};
    ck_assert_int_eq(sl_reading_read(&reading, both, NULL, 2, out), SL_ERANGE);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "vertex 199 at 1, wanted one from 200"));
    expect_all_free();
    end();
}

TEST(own_rows_ask_nobody)
{
    static uint32_t vertices[VERTICES];
    static char out[VERTICES * 12];
    uint32_t n = 0;
    begin(SL_DTYPE_F32, true, 6);
    for (uint32_t v = 0; v < VERTICES; v++)
        if (shards.part[v] == OWN)
            vertices[n++] = v;
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, n, out), SL_OK);
    for (uint32_t i = 0; i < n; i++)
        shards_expect_row(&shards, vertices[i], out + i * shards.row_bytes);
    ck_assert_uint_eq(atomic_load(&answered), 0);
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, 0, out), SL_OK);
    end();
}

// Those of others come first, in their order, and with their places.
TEST(rows_that_are_mapped_need_no_reading)
{
    enum { N = 60 };
    uint32_t rows[N], at[N], others = 0;
    begin(SL_DTYPE_F32, false, 6);
    for (uint32_t i = 0; i < N; i++) {
        rows[i] = 7 * i;
        at[i] = i;
        others += shards.part[7 * i] != OWN;
    }
    ck_assert_uint_eq(sl_reading_count(&reading, rows, N), others);
    ck_assert_uint_eq(sl_reading_sort(&reading, rows, at, N), others);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_uint_eq(rows[i], 7 * at[i]);
        ck_assert_int_eq(shards.part[rows[i]] == OWN, i >= others);
        ck_assert(i == 0 || i >= others || at[i] > at[i - 1]);
    }
    struct sl_reading whole = {0};
    ck_assert_uint_eq(sl_reading_count(&whole, rows, N), N);
    ck_assert_uint_eq(sl_reading_sort(&whole, rows, at, N), N);
    end();
}

TEST(no_vertex_is_an_error)
{
    const uint32_t vertices[] = {4, VERTICES};
    char out[24];
    begin(SL_DTYPE_F32, false, 6);
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, 2, out), SL_ERANGE);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "vertex 500 at 1"));
    expect_all_free();
    end();
}

static void *stop_once_asked(void *arg)
{
    (void)arg;
    const struct sl_ask ask = sl_asks_at(&asks, 0);
    AWAIT(sl_ask_state(&ask) == SL_ASK_ASKED);
    atomic_store(&stop, true);
    return NULL;
}

// What it has asked for is the link's to free: rows may be on their way.
TEST(who_is_told_to_stop_leaves_orphans)
{
    static uint32_t vertices[VERTICES];
    static char out[VERTICES * 12];
    pthread_t stopper;
    begin(SL_DTYPE_F32, false, 6);
    atomic_store(&silent, true);
    for (uint32_t v = 0; v < VERTICES; v++)
        vertices[v] = v;
    ck_assert_int_eq(pthread_create(&stopper, NULL, stop_once_asked, NULL), 0);
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, VERTICES, out), SL_EABORTED);
    pthread_join(stopper, NULL);
    for (uint32_t i = 0; i < asks.shape.n_slots; i++) {
        const struct sl_ask ask = sl_asks_at(&asks, i);
        ck_assert_int_eq(sl_ask_state(&ask), i < SL_ASKS_EACH ? SL_ASK_ORPHAN : SL_ASK_FREE);
    }
    end();
}

// Slots that a dead worker's asks still have are waited for.
TEST(who_finds_no_slot_waits_for_one)
{
    const uint32_t vertices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    char out[8 * 12];
    struct sl_ask ask;
    begin(SL_DTYPE_F32, false, 1);
    atomic_store(&silent, true);
    ck_assert(sl_asks_take(&asks, WORKER + 1, &ask));
    ask.head->n = 0;
    memset(ask.head->end, 0, 3 * sizeof *ask.head->end);
    sl_asks_send(&arena, &asks, &ask);
    sl_asks_reclaim(&arena, WORKER + 1);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ORPHAN);
    atomic_store(&silent, false);
    ck_assert_int_eq(sl_reading_read(&reading, vertices, NULL, 8, out), SL_OK);
    for (uint32_t i = 0; i < 8; i++)
        shards_expect_row(&shards, vertices[i], out + i * shards.row_bytes);
    end();
}

// Through the machine's cache: what lies there is not asked for, and own rows never lie there.
LOOP_TEST(rows_in_the_cache_are_not_asked_for, 0, 2)
{
    enum { N = 200 };
    static uint32_t vertices[N], to[N];
    static char out[N * 12];
    uint32_t others = 0, kept = 0;
    begin(_i ? SL_DTYPE_F16 : SL_DTYPE_F32, false, 6);
    struct sl_row_source source = {
        .dataset = &shards.ds[OWN], .reader = &reading, .shared = sl_arena_rows(&arena)};
    for (uint32_t i = 0; i < N; i++) {
        vertices[i] = i * 7919 % VERTICES;
        to[i] = N - 1 - i;
        if (shards.part[vertices[i]] == OWN)
            continue;
        others++;
        const struct sl_row_cache_use use = {.worker = WORKER};
        uint32_t slot;
        if (i % 3 == 0 && sl_row_cache_take(&source.shared, source.shared.slots, &use, vertices[i],
                                            false, &slot) == SL_ROW_TAKEN) {
            for (uint32_t k = 0; k < shards.row_bytes; k++)
                source.shared.slots->rows[slot * shards.row_bytes + k] =
                    shards_byte(vertices[i], k);
            sl_row_cache_there(&source.shared, slot);
            kept++;
        }
    }
    ck_assert_uint_gt(kept, 0);
    ck_assert_int_eq(sl_rows_copy(&source, sl_kernels_cpu(), vertices, to, N, N, out), SL_OK);
    for (uint32_t i = 0; i < N; i++)
        shards_expect_row(&shards, vertices[i], out + to[i] * shards.row_bytes);
    ck_assert_uint_eq(atomic_load(&rows_answered), others - kept);
    source.shared.shape.n_slots = 0; // a cache there is none
    ck_assert_int_eq(sl_rows_copy(&source, sl_kernels_cpu(), vertices, NULL, N, N, out), SL_OK);
    for (uint32_t i = 0; i < N; i++)
        shards_expect_row(&shards, vertices[i], out + i * shards.row_bytes);
    sl_row_source_fini(&source);
    end();
}

TEST(a_job_that_asks_nobody_cannot_read_a_shard)
{
    begin(SL_DTYPE_F32, false, 6);
    struct sl_reading other;
    struct sl_dataset two = shards.ds[OWN];
    two.shard.count = 2;
    const struct sl_reading_spec spec = {.dataset = &two, .arena = &arena, .worker = WORKER};
    ck_assert_int_eq(sl_reading_open(&other, &spec), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "2 shards"));
    sl_reading_close(&other);
    end();
}

RUN_TESTS(.timeout_s = AWAIT_CASE_S)

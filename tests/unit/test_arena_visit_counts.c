// Visits, the hotness order and the probe block, between processes and across deaths.
#include "common/arena/arena.h"
#include "common/arena/visit_counts.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { ROWS = 100003, PROBE_BYTES = 8 << 20, PAGE_BYTES = 4096 };

static struct sl_arena_spec spec = {.n_devices = 2,
                                    .n_cells = 4,
                                    .n_params = 1,
                                    .batches_per_update = 1,
                                    .visit_rows = ROWS,
                                    .hot_rows = ROWS,
                                    .probe_bytes = PROBE_BYTES,
                                    .payload_bytes = SL_ARENA_CHUNK_BYTES};

static void setup(void)
{
    create_arena(&spec);
}

// --- visits ---

static void *count_some(void *arg)
{
    uint32_t nodes[] = {0, 5, 5, ROWS - 1};
    for (int i = 0; i < 10000; i++)
        sl_visit_counts_count(&arena, nodes, 4);
    return arg;
}

// Of batches shorter and longer than what is asked for ahead every vertex is counted once.
TEST(batches_of_any_length_are_counted)
{
    uint32_t nodes[40];
    for (uint32_t i = 0; i < 40; i++)
        nodes[i] = i * 2000;
    for (uint32_t n = 0; n <= 40; n++)
        sl_visit_counts_count(&arena, nodes, n);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_uint_eq(sl_visit_counts_visits(&arena)[nodes[i]], 40 - i);
}

TEST(concurrent_visits_are_all_counted)
{
    pthread_t t;
    pthread_create(&t, NULL, count_some, NULL);
    count_some(NULL);
    pthread_join(t, NULL);
    _Atomic uint32_t *visits = sl_visit_counts_visits(&arena);
    ck_assert_uint_eq(visits[0], 20000);
    ck_assert_uint_eq(visits[5], 40000);
    ck_assert_uint_eq(visits[ROWS - 1], 20000);
    ck_assert_uint_eq(visits[1], 0);
}

TEST(forgotten_visits_are_zero_and_take_no_memory)
{
    _Atomic uint32_t *visits = sl_visit_counts_visits(&arena);
    uint32_t *order = sl_visit_counts_order(&arena);
    struct stat before, full, after;
    fstat(arena_fd, &before);
    for (uint32_t v = 0; v < ROWS; v++)
        sl_visit_counts_count(&arena, &v, 1);
    order[0] = 77; // the next region
    fstat(arena_fd, &full);
    sl_visit_counts_forget_visits(&arena);
    fstat(arena_fd, &after);
    for (uint32_t v = 0; v < ROWS; v++)
        ck_assert_uint_eq(visits[v], 0);
    ck_assert_uint_eq(order[0], 77);
    ck_assert_int_gt(full.st_blocks - before.st_blocks, ROWS * 4 / 512);
    ck_assert_int_lt(after.st_blocks - before.st_blocks, 64);
    uint32_t node = 3;
    sl_visit_counts_count(&arena, &node, 1);
    ck_assert_uint_eq(visits[3], 1);
}

// --- order ---

TEST(tiers_and_order_are_seen_once_published)
{
    struct sl_arena other;
    ck_assert_uint_eq(sl_visit_counts_generation(&arena), 0);
    uint32_t *order = sl_visit_counts_order(&arena);
    const struct sl_region *r = &arena.h->region[SL_REGION_HOT];
    ck_assert((char *)(order + ROWS) <= arena.base + r->offset + r->bytes);
    ck_assert_uint_eq(sl_visit_counts_tiers(&arena)->n, 0);
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){70, 7}, 2);
    for (uint32_t i = 0; i < ROWS; i++)
        order[i] = ROWS - 1 - i;
    uint32_t standby = sl_event_read(&arena.h->work);
    sl_visit_counts_publish(&arena, 1);
    ck_assert(rang(&arena.h->work, &standby));
    ck_assert_int_eq(sl_arena_attach(arena_fd, &other), SL_OK);
    ck_assert_uint_eq(sl_visit_counts_generation(&other), 1);
    for (uint32_t i = 0; i < ROWS; i++)
        ck_assert_uint_eq(sl_visit_counts_order(&other)[i], ROWS - 1 - i);
    ck_assert_uint_eq(sl_visit_counts_tiers(&other)->n, 2);
    ck_assert_uint_eq(sl_visit_counts_tiers(&other)->end[0], 7);
    ck_assert_uint_eq(sl_visit_counts_tiers(&other)->end[1], 70);
    sl_arena_detach(&other);
}

static void expect_tiers(const uint64_t *end, uint32_t n)
{
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(&arena);
    ck_assert_uint_eq(tiers->n, n);
    for (uint32_t t = 0; t < n; t++)
        ck_assert_uint_eq(tiers->end[t], end[t]);
}

TEST(tiers_are_the_different_sizes_of_caches)
{
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){9, 0, 4, 9, ROWS + 5ull, 4, 0}, 7);
    expect_tiers((const uint64_t[]){4, 9, ROWS}, 3);
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){0, 0}, 2);
    expect_tiers(NULL, 0);
    sl_visit_counts_set_tiers(&arena, NULL, 0);
    expect_tiers(NULL, 0);
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){8, 7, 6, 5, 4, 3, 2, UINT64_MAX}, 8);
    expect_tiers((const uint64_t[]){2, 3, 4, 5, 6, 7, 8, ROWS}, 8);
}

TEST(more_sizes_than_tiers_keep_the_largest)
{
    uint64_t capacity[128];
    for (uint32_t n = SL_VISIT_COUNTS_TIERS_MAX + 1; n <= 128; n++) {
        for (uint32_t i = 0; i < n; i++)
            capacity[i] = 10 * (n - i);
        sl_visit_counts_set_tiers(&arena, capacity, n);
        const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(&arena);
        ck_assert_uint_eq(tiers->n, SL_VISIT_COUNTS_TIERS_MAX);
        ck_assert_uint_eq(tiers->end[SL_VISIT_COUNTS_TIERS_MAX - 1], 10 * n);
        for (uint32_t t = 0; t < SL_VISIT_COUNTS_TIERS_MAX; t++) {
            uint64_t below = t ? tiers->end[t - 1] : 0;
            ck_assert_uint_gt(tiers->end[t], below);
            ck_assert_uint_le(tiers->end[t] - below, 10 * (n / SL_VISIT_COUNTS_TIERS_MAX + 1));
        }
    }
}

TEST(without_a_cache_there_is_nothing)
{
    struct sl_arena_spec none = spec;
    none.visit_rows = none.hot_rows = none.probe_bytes = 0;
    destroy_arena();
    create_arena(&none);
    uint32_t node = 0;
    struct sl_block block = {.bytes = sizeof block};
    const struct sl_block *found;
    ck_assert_ptr_null(sl_visit_counts_visits(&arena));
    ck_assert_ptr_null(sl_visit_counts_order(&arena));
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){5}, 1);
    ck_assert_uint_eq(sl_visit_counts_tiers(&arena)->n, 0);
    sl_visit_counts_count(&arena, &node, 1);
    sl_visit_counts_forget_visits(&arena);
    sl_probe_offer(&arena, 1, &block); // too large: not taken
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &found), SL_ETIMEDOUT);
}

// --- probe ---

static struct sl_block *make_block(uint64_t bytes, int fill)
{
    struct sl_block *b = malloc(bytes);
    memset(b, fill, bytes);
    b->magic = SL_BLOCK_MAGIC;
    b->bytes = bytes;
    return b;
}

TEST(the_first_probe_stays)
{
    struct sl_block *first = make_block(5000, 1), *second = make_block(6000, 2);
    const struct sl_block *found;
    sl_probe_offer(&arena, 1, first);
    sl_probe_offer(&arena, 2, second);
    ck_assert_int_eq(sl_probe_wait(&arena, 0, &found), SL_OK);
    ck_assert_int_eq(memcmp(found, first, 5000), 0);
    sl_probe_reclaim(&arena, 1); // it is written: its death changes nothing
    ck_assert_int_eq(sl_probe_wait(&arena, 0, &found), SL_OK);
    free(first);
    free(second);
}

static void *offer_to_the_sleeping(void *arg)
{
    until_asleep(&arena.h->progress, 1);
    sl_probe_offer(&arena, 1, arg);
    return NULL;
}

TEST(a_trainer_waits_for_the_probe)
{
    pthread_t t;
    const struct sl_block *found;
    struct sl_block *b = make_block(5000, 3);
    uint32_t seen = sl_event_read(&arena.h->progress);
    ck_assert_int_eq(sl_probe_wait(&arena, 5, &found), SL_ETIMEDOUT);
    ck_assert(!rang(&arena.h->progress, &seen));
    pthread_create(&t, NULL, offer_to_the_sleeping, b);
    ck_assert_int_eq(sl_probe_wait(&arena, FOR_EVER_MS, &found), SL_OK);
    ck_assert_int_eq(memcmp(found, b, 5000), 0);
    pthread_join(t, NULL);
    ck_assert(rang(&arena.h->progress, &seen)); // no time-out found it
    free(b);
}

TEST(an_abort_ends_the_wait_for_the_probe)
{
    const struct sl_block *found;
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(sl_probe_wait(&arena, FOR_EVER_MS, &found), SL_EABORTED);
}

TEST(another_sampler_writes_the_probe_of_a_dead_one)
{
    struct sl_block *b = make_block(PROBE_BYTES, 4), *c = make_block(7000, 5);
    const struct sl_block *found;
    // Killed in the middle: the word stands as the writer left it.
    pid_t pid = fork();
    if (pid == 0) {
        uint64_t none = 0;
        atomic_compare_exchange_strong(&sl_visit_counts_of(&arena)->probe, &none,
                                       (uint64_t)41 << 8 | 1);
        memcpy(sl_arena_region(&arena, SL_REGION_PROBE), b, PROBE_BYTES / 2);
        raise(SIGKILL);
    }
    waitpid(pid, NULL, 0);
    sl_probe_offer(&arena, 42, c); // its death is not known yet
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &found), SL_ETIMEDOUT);
    reclaim(40); // somebody else
    sl_probe_offer(&arena, 42, c);
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &found), SL_ETIMEDOUT);
    reclaim(41);
    sl_probe_offer(&arena, 42, c);
    ck_assert_int_eq(sl_probe_wait(&arena, 1, &found), SL_OK);
    ck_assert_int_eq(memcmp(found, c, 7000), 0);
    free(b);
    free(c);
}

static void die(int number)
{
    (void)number;
    raise(SIGKILL);
}

// Offers the block in a process that is killed on reading page `page` of it, or right behind it.
static void offer_and_die(uint32_t worker, struct sl_block *b, size_t page)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, die);
        if (page * PAGE_BYTES < PROBE_BYTES)
            mprotect((char *)b + page * PAGE_BYTES, PAGE_BYTES, PROT_NONE);
        sl_probe_offer(&arena, worker, b);
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_writer_killed_anywhere_leaves_a_whole_probe_or_none)
{
    enum { KILLS = 16, PAGES = PROBE_BYTES / PAGE_BYTES };
    struct sl_block *b =
        mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct sl_block *found;
    ck_assert_ptr_ne(b, MAP_FAILED);
    memset(b, 6, PROBE_BYTES);
    b->bytes = PROBE_BYTES;
    for (uint32_t i = 1; i < KILLS; i++) { // page 0 says how large it is
        offer_and_die(i, b, (size_t)i * PAGES / KILLS);
        ck_assert_uint_ne(atomic_load(&sl_visit_counts_of(&arena)->probe), 0); // it had begun
        ck_assert_int_eq(sl_probe_wait(&arena, 0, &found), SL_ETIMEDOUT);
        reclaim(i);
        ck_assert_uint_eq(atomic_load(&sl_visit_counts_of(&arena)->probe), 0);
    }
    offer_and_die(KILLS, b, PAGES);
    reclaim(KILLS);
    ck_assert_int_eq(sl_probe_wait(&arena, 0, &found), SL_OK);
    ck_assert_int_eq(memcmp(found, b, PROBE_BYTES), 0);
    munmap(b, PROBE_BYTES);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena, .timeout_s = 120)

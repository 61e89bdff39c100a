// The machine's cache of feature rows: what stays, what goes, and that no row is torn.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "common/arena/row_cache.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { ROWS = 64, WINDOW = 6, WORKER = 9 };

static struct sl_row_cache cache;

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 11;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

// In memory that processes share.
static void make(uint64_t n_rows, uint64_t n_slots, uint64_t row_bytes, uint32_t window)
{
    const struct sl_row_cache_shape shape = {.n_rows = n_rows,
                                             .n_slots = n_slots,
                                             .window = window,
                                             .n_widths = 1,
                                             .width[0] = {row_bytes, n_slots}};
    uint64_t bytes = SL_MAX(sl_row_cache_bytes(&shape), (uint64_t)1);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memory != MAP_FAILED);
    sl_row_cache_view(memory, &shape, &cache);
}

static void unmake(void)
{
    if (cache.head)
        munmap(cache.head, sl_row_cache_bytes(&cache.shape));
}

static bool is_there(uint32_t row)
{
    struct sl_row_places p = {0};
    ck_assert_int_eq(sl_row_places_grow(&p, 1), SL_OK);
    sl_row_cache_find(&cache, &row, 1, &p);
    ck_assert_uint_eq(p.n_found + p.n_missing, 1);
    bool there = p.n_found == 1;
    if (!there)
        ck_assert_uint_eq(p.row[0], row);
    sl_row_places_fini(&p);
    return there;
}

// A row for a batch, while that one and those before it from `oldest` on are not done.
static bool fetch(uint32_t row, uint64_t batch, uint64_t oldest, bool hot)
{
    const struct sl_row_cache_use use = {.worker = WORKER, .batch = batch, .oldest = oldest};
    uint32_t slot;
    if (sl_row_cache_take(&cache, cache.slots, &use, row, hot, &slot) != SL_ROW_TAKEN)
        return false;
    memset(cache.slots->rows + slot * cache.slots->row_bytes, (int)row, cache.slots->row_bytes);
    sl_row_cache_there(&cache, slot);
    return true;
}

LOOP_TEST(an_empty_cache_has_nothing_and_none_has_nothing, 0, 2)
{
    make(ROWS, _i ? 4 : 0, 8, WINDOW);
    const uint32_t rows[] = {0, ROWS - 1, ROWS, UINT32_MAX};
    struct sl_row_places p = {0};
    ck_assert_int_eq(sl_row_places_grow(&p, SL_COUNT_OF(rows)), SL_OK);
    sl_row_cache_note(&cache, rows, 2, 0);
    sl_row_cache_find(&cache, rows, SL_COUNT_OF(rows), &p);
    ck_assert_uint_eq(p.n_found, 0);
    ck_assert_uint_eq(p.n_missing, SL_COUNT_OF(rows));
    ck_assert_int_eq(memcmp(p.row, rows, sizeof rows), 0);
    ck_assert(!fetch(ROWS, 0, 0, false)); // no such row
    ck_assert(fetch(3, 0, 0, false) == (_i == 1));
    sl_row_cache_reclaim(&cache, WORKER);
    ck_assert_uint_eq(sl_row_cache_used(&cache), (uint64_t)_i);
    sl_row_places_fini(&p);
    unmake();
}

/*
 * Against a model of no words and no bits, from batch `first` on: with at most as many slots as are
 * looked at for a row, what goes is exactly of the least use.
 */
enum { USES_KNOWN = 20 };

struct model {
    bool wants[256][ROWS]; // by batch modulo 256
    int64_t last[ROWS];    // batch that wants it
    struct {
        int row; // -1: none
        bool hot;
    } slot[SL_ROW_CACHE_PROBES];
    uint32_t n_slots;
};

// How soon a slot goes, as row_cache.c ranks it. UINT32_MAX: it stays.
static uint32_t model_use(const struct model *m, uint32_t s, uint64_t batch, uint64_t oldest)
{
    const int row = m->slot[s].row;
    if (row < 0)
        return 1000;
    for (uint64_t b = oldest; b <= batch + WINDOW && (int64_t)b <= m->last[row]; b++) {
        if (!m->wants[b % 256][row] || (int64_t)b <= m->last[row] - USES_KNOWN)
            continue;
        return b > batch ? (uint32_t)(b - batch) : 0;
    }
    return m->slot[s].hot ? 900 : 950;
}

LOOP_TEST(what_goes_is_of_the_least_use, 0, 8)
{
    static const uint64_t firsts[] = {1000, 4090, 1ull << 40, 65500};
    static struct model m;
    const uint64_t first = firsts[_i % 4];
    uint32_t seen[4] = {0};
    m = (struct model){.n_slots = _i < 4 ? SL_ROW_CACHE_PROBES : 5};
    make(ROWS, m.n_slots, 16, WINDOW);
    for (uint32_t s = 0; s < m.n_slots; s++)
        m.slot[s].row = -1;
    for (int r = 0; r < ROWS; r++)
        m.last[r] = INT64_MIN / 2;
    uint64_t noted = first, oldest = first;
    for (uint64_t batch = first; batch < first + 400; batch++) {
        for (; noted <= batch + random_below(WINDOW + 3); noted++) {
            memset(m.wants[noted % 256], 0, ROWS);
            uint32_t rows[24], n = random_below(24);
            for (uint32_t i = 0; i < n; i++) {
                rows[i] = random_below(random_below(2) ? ROWS : 12); // some are met often
                m.wants[noted % 256][rows[i]] = true;
                m.last[rows[i]] = SL_MAX(m.last[rows[i]], (int64_t)noted);
            }
            sl_row_cache_note(&cache, rows, n, noted);
        }
        oldest = SL_MAX(oldest, batch - SL_MIN(batch - first, (uint64_t)random_below(4)));
        for (uint32_t row = 0; row < ROWS; row++) {
            if (!m.wants[batch % 256][row] || is_there(row))
                continue;
            uint32_t most = 0;
            for (uint32_t s = 0; s < m.n_slots; s++)
                most = SL_MAX(most, model_use(&m, s, batch, oldest));
            bool hot = row % 3 == 0;
            ck_assert_msg(fetch(row, batch, oldest, hot) == (most > 0),
                          "row %u of batch %llu, of which the most useless is %u", row,
                          (unsigned long long)batch, most);
            seen[most == 0 ? 0 : most < 900 ? 1 : most == 900 ? 2 : 3]++;
            // The one that went is one of those.
            uint32_t gone = m.n_slots;
            for (uint32_t s = 0; most > 0 && s < m.n_slots; s++)
                if (m.slot[s].row < 0 ? gone == m.n_slots && most == 1000
                                      : !is_there((uint32_t)m.slot[s].row))
                    gone = s;
            if (most == 0)
                continue;
            ck_assert_uint_lt(gone, m.n_slots);
            ck_assert_uint_eq(model_use(&m, gone, batch, oldest), SL_MIN(most, 1000u));
            m.slot[gone].row = (int)row;
            m.slot[gone].hot = hot;
        }
    }
    for (int i = 0; i < 4; i++) // every way was gone
        ck_assert_msg(seen[i] > 0 || (i == 0 && m.n_slots > 5), "way %d", i);
    unmake();
}

TEST(a_row_whose_slot_moved_is_not_believed)
{
    make(ROWS, 2, 8, 0);
    ck_assert(fetch(1, 0, 0, false));
    ck_assert(fetch(2, 0, 0, false));
    const uint32_t rows[] = {2, 7, 1};
    struct sl_row_places p = {0};
    ck_assert_int_eq(sl_row_places_grow(&p, 3), SL_OK);
    sl_row_cache_find(&cache, rows, 3, &p);
    ck_assert_uint_eq(p.n_found, 2);
    ck_assert_uint_eq(sl_row_cache_check(&cache, &p), 0);
    ck_assert_uint_eq(p.n_found, 2);
    ck_assert_uint_eq(p.n_missing, 1);
    // The same rows come back: their slots have moved all the same.
    for (int round = 0; round < 2; round++) {
        ck_assert(fetch(9 + (uint32_t)round, 0, 0, false));
        ck_assert(fetch(round ? 2 : 1, 0, 0, false));
    }
    ck_assert_uint_eq(sl_row_cache_check(&cache, &p), 2);
    ck_assert_uint_eq(p.n_found, 0);
    ck_assert_uint_eq(p.n_missing, 3);
    uint32_t sum = 0, places = 0;
    for (int i = 0; i < 3; i++) {
        sum += p.row[i];
        places += p.missing_at[i];
        ck_assert_uint_eq(rows[p.missing_at[i]], p.row[i]);
    }
    ck_assert_uint_eq(sum, 10);
    ck_assert_uint_eq(places, 3);
    sl_row_places_fini(&p);
    unmake();
}

// Rows of each width are in slots of their own, and nobody's bytes are another's.
TEST(widths_have_slots_of_their_own)
{
    const struct sl_row_cache_shape shape = {
        .n_rows = ROWS, .n_slots = 7, .n_widths = 3, .width = {{5, 4}, {5000, 1}, {16, 2}}};
    static const uint32_t first[] = {0, 4, 5}, slots[] = {4, 1, 2};
    void *memory = calloc(1, sl_row_cache_bytes(&shape) + 1);
    ((char *)memory)[sl_row_cache_bytes(&shape)] = 77;
    sl_row_cache_view(memory, &shape, &cache);
    ck_assert_uint_eq(sl_row_cache_room(&shape), 4 * 13 + 5008 + 2 * 24);
    for (uint32_t round = 0; round < 9; round++) {
        const struct sl_row_cache_use use = {.worker = WORKER, .batch = round, .oldest = round};
        for (uint32_t w = 0; w < 3; w++) {
            const struct sl_row_slots mine = sl_row_cache_slots(&cache, shape.width[w].row_bytes);
            for (uint32_t i = 0; i < slots[w]; i++) { // 7 rows a round
                const uint32_t row = round * 7 + first[w] + i;
                uint32_t slot;
                ck_assert_int_eq(sl_row_cache_take(&cache, &mine, &use, row, false, &slot),
                                 SL_ROW_TAKEN);
                ck_assert_uint_ge(slot, first[w]);
                ck_assert_uint_lt(slot, first[w] + slots[w]);
                memset(mine.rows + (slot - first[w]) * mine.row_bytes, (int)row, mine.row_bytes);
                sl_row_cache_there(&cache, slot);
            }
        }
        for (uint32_t w = 0; w < 3; w++) {
            const struct sl_row_slots mine = sl_row_cache_slots(&cache, shape.width[w].row_bytes);
            for (uint32_t i = 0; i < mine.n * mine.row_bytes; i++)
                ck_assert_uint_eq((uint8_t)mine.rows[i] / 7, round);
            for (uint32_t i = 0; i < slots[w]; i++)
                ck_assert(is_there(round * 7 + first[w] + i));
        }
    }
    ck_assert_uint_eq(sl_row_cache_slots(&cache, 17).n, 0);
    ck_assert_int_eq(((char *)memory)[sl_row_cache_bytes(&shape)], 77);
    free(memory);
}

TEST(what_a_dead_worker_was_filling_is_free)
{
    make(ROWS, 3, 8, 0);
    const struct sl_row_cache_use dead = {.worker = 3}, other = {.worker = 4};
    uint32_t slot, kept;
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &dead, 5, false, &slot), SL_ROW_TAKEN);
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &other, 6, false, &kept), SL_ROW_TAKEN);
    ck_assert(fetch(7, 0, 0, false));
    ck_assert(!is_there(5));
    ck_assert(!is_there(6));
    sl_row_cache_reclaim(&cache, 3);
    ck_assert(!is_there(5));
    ck_assert(is_there(7));
    ck_assert(fetch(8, 0, 0, false)); // in the slot that is free now
    ck_assert(is_there(7) && is_there(8));
    sl_row_cache_there(&cache, kept); // who lives goes on
    ck_assert(is_there(6));
    unmake();
}

TEST(a_row_is_fetched_by_one_at_a_time)
{
    make(ROWS, 3, 8, WINDOW);
    const struct sl_row_cache_use one = {.worker = 1}, two = {.worker = 2};
    uint32_t a, b;
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &one, 5, false, &a), SL_ROW_TAKEN);
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &two, 5, false, &b), SL_ROW_COMES);
    sl_row_cache_reclaim(&cache, 1); // it died
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &two, 5, false, &b), SL_ROW_TAKEN);
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &one, 5, false, &a), SL_ROW_COMES);
    sl_row_cache_there(&cache, b);
    ck_assert(is_there(5));
    ck_assert_int_eq(sl_row_cache_take(&cache, cache.slots, &one, 5, false, &a), SL_ROW_COMES);
    ck_assert_uint_eq(sl_row_cache_used(&cache), 1);
    unmake();
}

/*
 * Processes that fetch and read as trainers do, some of them killed: whatever a reader believes is
 * whole. Rows are long, so that a copy takes as long as others need to move a slot.
 */
enum { LONG_ROWS = 40, LONG_SLOTS = 6, LONG_WORDS = 4096, DEATHS = 60, FILLERS = 3 };

struct tally {
    _Atomic uint64_t read, moved, torn;
};

static void fill_for_ever(uint32_t worker)
{
    for (uint64_t batch = worker;; batch++) {
        const uint32_t row = (uint32_t)(batch * 2654435761u >> 7) % LONG_ROWS;
        const struct sl_row_cache_use use = {.worker = worker, .batch = batch, .oldest = batch};
        uint32_t slot;
        if (sl_row_cache_take(&cache, cache.slots, &use, row, false, &slot) != SL_ROW_TAKEN)
            continue;
        uint32_t *words = (uint32_t *)(void *)(cache.slots->rows + slot * cache.slots->row_bytes);
        for (int i = 0; i < LONG_WORDS; i++)
            words[i] = row;
        sl_row_cache_there(&cache, slot);
    }
}

static void read_for_ever(struct tally *tally)
{
    static uint32_t copy[LONG_WORDS];
    struct sl_row_places p = {0};
    if (sl_row_places_grow(&p, 1) < 0)
        _exit(1);
    for (uint32_t row = 0;; row = (row + 1) % LONG_ROWS) {
        sl_row_cache_find(&cache, &row, 1, &p);
        if (p.n_found == 0)
            continue;
        memcpy(copy, cache.slots->rows + p.slot[0] * cache.slots->row_bytes, sizeof copy);
        bool whole = true;
        for (int i = 0; i < LONG_WORDS; i++)
            whole &= copy[i] == row;
        if (sl_row_cache_check(&cache, &p))
            atomic_fetch_add(&tally->moved, 1);
        else
            atomic_fetch_add(whole ? &tally->read : &tally->torn, 1);
    }
}

static pid_t start(uint32_t worker, struct tally *tally)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    if (tally)
        read_for_ever(tally);
    fill_for_ever(worker);
    _exit(1);
}

static void bury(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(no_row_is_torn_whoever_dies)
{
    struct tally *tally =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(tally != MAP_FAILED);
    make(LONG_ROWS, LONG_SLOTS, LONG_WORDS * sizeof(uint32_t), 0);
    pid_t reader = start(0, tally), filler[FILLERS];
    for (uint32_t i = 0; i < FILLERS; i++)
        filler[i] = start(i + 1, NULL);
    for (uint32_t n = 0; n < DEATHS; n++) {
        const uint32_t i = n % FILLERS;
        const uint64_t before = atomic_load(&tally->read);
        UNTIL(atomic_load(&tally->read) > before);
        bury(filler[i]);
        sl_row_cache_reclaim(&cache, n + 1);
        filler[i] = start(n + 1 + FILLERS, NULL);
    }
    UNTIL(atomic_load(&tally->moved) > 10); // it happened, and was seen
    for (uint32_t i = 0; i < FILLERS; i++)
        bury(filler[i]);
    bury(reader);
    ck_assert_uint_eq(atomic_load(&tally->torn), 0);
    unmake();
    munmap(tally, 4096);
}

RUN_TESTS(.timeout_s = 120)

// What workers lend one another: plans, offers, who reads them, and lenders that die.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "common/arena/peer_export.h"
#include "common/arena/seat.h"

enum { DEVICES = 4 };
#define KIND SL_PEER_MEMORY_FEATURES

static void setup(void)
{
    struct sl_arena_spec spec = {.n_devices = DEVICES,
                                 .n_cells = 4,
                                 .n_params = 1,
                                 .batches_per_update = 1,
                                 .payload_bytes = SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

// Two parts; device 0 holds part 0, 1 part 1, 2 both and 3 none. Everything says the generation.
static struct sl_peer_memory_plan plan_of(uint64_t generation)
{
    struct sl_peer_memory_plan plan = {
        .generation = generation,
        .n_parts = 2,
        .first = 10 * generation,
        .part_elements = 100 * generation,
        .held = {1, 2, 3, 0},
    };
    for (uint32_t d = 0; d < SL_PEER_MEMORY_DEVICES_MAX; d++)
        for (uint32_t p = 0; p < SL_PEER_MEMORY_PARTS_MAX; p++)
            plan.from[d][p] = d < DEVICES && p < 2 ? (uint8_t)p : (uint8_t)(generation & 0xf);
    return plan;
}

static struct sl_peer_memory_offer offer_of(uint64_t plan, uint64_t elements)
{
    struct sl_peer_memory_offer offer = {
        .plan = plan, .order = 7, .room = 100, .elements = elements};
    memset(&offer.share, (int)plan, sizeof offer.share);
    return offer;
}

// --- the plan ------------------------------------------------------------------------------------

TEST(there_is_no_plan_to_begin_with_and_then_the_last_one)
{
    static const struct sl_peer_memory_plan none;
    struct sl_peer_memory_plan found = plan_of(1);
    ck_assert(sl_peer_memory_read_plan(&arena, KIND, &found));
    ck_assert_mem_eq(&found, &none, sizeof none);
    ck_assert_uint_eq(sl_peer_memory_generation(&arena, KIND), 0);
    uint32_t work = sl_event_read(&arena.h->work);
    for (uint64_t g = 1; g <= 3; g++) {
        const struct sl_peer_memory_plan plan = plan_of(g);
        sl_peer_memory_publish(&arena, KIND, &plan, NULL);
        ck_assert(rang(&arena.h->work, &work));
        ck_assert_uint_eq(sl_peer_memory_generation(&arena, KIND), g);
        ck_assert(sl_peer_memory_read_plan(&arena, KIND, &found));
        ck_assert_mem_eq(&found, &plan, sizeof plan);
    }
    ck_assert_uint_eq(sl_peer_memory_generation(&arena, SL_PEER_MEMORY_GRAPH),
                      0); // the other kind has its own
}

enum { PLANS = 3000 };

// With rows that say the generation, too.
static void publish(uint64_t g)
{
    const struct sl_peer_memory_plan plan = plan_of(g);
    uint64_t rows[DEVICES];
    for (uint32_t d = 0; d < DEVICES; d++)
        rows[d] = 1000 * g + d;
    sl_peer_memory_publish(&arena, KIND, &plan, rows);
}

static void assert_published(uint32_t device, uint64_t g)
{
    const struct sl_peer_memory_plan wanted = plan_of(g);
    struct sl_peer_memory_plan found;
    uint64_t rows;
    ck_assert(sl_peer_memory_read_rows(&arena, device, &found, &rows));
    ck_assert_mem_eq(&found, &wanted, sizeof wanted);
    ck_assert_uint_eq(rows, 1000 * g + device);
}

static void *write_plans(void *ctx)
{
    (void)ctx;
    for (uint64_t g = 1; g <= PLANS; g++)
        publish(g);
    return NULL;
}

TEST(a_plan_that_is_read_while_it_is_written_is_one_plan)
{
    pthread_t writer;
    struct sl_peer_memory_plan found = {0};
    uint64_t last = 0, rows;
    ck_assert_int_eq(pthread_create(&writer, NULL, write_plans, NULL), 0);
    while (found.generation < PLANS) {
        if (!sl_peer_memory_read_rows(&arena, 2, &found, &rows) || found.generation == 0)
            continue;
        ck_assert_uint_eq(rows, 1000 * found.generation + 2);
        const struct sl_peer_memory_plan wanted = plan_of(found.generation);
        ck_assert_mem_eq(&found, &wanted, sizeof wanted);
        ck_assert_uint_ge(found.generation, last);
        last = found.generation;
    }
    pthread_join(writer, NULL);
}

// Who looks in the middle of it has neither the new rows nor the new parts.
TEST(rows_are_those_of_the_plan_however_far_the_broker_is)
{
    struct sl_peer_memory_plan found;
    uint64_t rows;
    int status;
    publish(1);
    pid_t broker = fork();
    if (broker == 0) {
        setenv("SLUICE_FAILPOINT", "lent_planning:1:stop", 1);
        if (sl_failpoint_init() == SL_OK)
            publish(2);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(broker, &status, WUNTRACED), broker);
    ck_assert(WIFSTOPPED(status));
    for (uint32_t d = 0; d < DEVICES; d++)
        ck_assert(!sl_peer_memory_read_rows(&arena, d, &found, &rows));
    ck_assert_uint_eq(sl_peer_memory_generation(&arena, KIND), 1);
    kill(broker, SIGCONT);
    ck_assert_int_eq(waitpid(broker, &status, 0), broker);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint32_t d = 0; d < DEVICES; d++)
        assert_published(d, 2);
    // Other rows by the same plan.
    sl_peer_memory_give_rows(&arena, (uint64_t[DEVICES]){2000, 2001, 5, 2003});
    ck_assert(sl_peer_memory_read_rows(&arena, 2, &found, &rows));
    ck_assert_uint_eq(rows, 5);
    ck_assert_uint_eq(found.generation, 2);
    assert_published(3, 2);
}

// --- offers, in one process ----------------------------------------------------------------------

TEST(an_offer_is_seen_as_long_as_it_stands_and_its_lender_lives)
{
    struct sl_peer_memory_offer offer = offer_of(1, 5), found;
    uint64_t elements;
    ck_assert(!sl_peer_memory_read(&arena, KIND, 1, &found));
    sl_peer_memory_offer(&arena, KIND, 1, &offer);
    ck_assert(!sl_peer_memory_read(&arena, KIND, 1, &found)); // of nobody who lives
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    ck_assert(sl_peer_memory_read(&arena, KIND, 1, &found));
    ck_assert_uint_eq(found.plan, 1);
    ck_assert_uint_eq(found.order, 7);
    ck_assert_uint_eq(found.room, 100);
    ck_assert_uint_eq(found.elements, 5);
    ck_assert_mem_eq(&found.share, &offer.share, sizeof offer.share);
    sl_peer_memory_grow(&arena, KIND, 1, 50);
    ck_assert(sl_peer_memory_stands(&arena, KIND, 1, found.version, &elements));
    ck_assert_uint_eq(elements, 50);
    sl_peer_memory_withdraw(&arena, KIND, 1);
    sl_peer_memory_withdraw(&arena, KIND, 1);
    ck_assert(!sl_peer_memory_stands(&arena, KIND, 1, found.version, &elements));
    ck_assert(!sl_peer_memory_read(&arena, KIND, 1, &found));
    const uint64_t earlier = found.version;
    sl_peer_memory_offer(&arena, KIND, 1, &offer);
    ck_assert(sl_peer_memory_read(&arena, KIND, 1, &found));
    ck_assert_uint_gt(found.version, earlier);
    // Another kind, and another seat, is another place; of a process there is one.
    ck_assert(!sl_peer_memory_read(&arena, SL_PEER_MEMORY_GRAPH, 1, &found));
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 2), SL_ESYS);
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    sl_peer_memory_leave(&arena, KIND, 1);
    ck_assert(!sl_peer_memory_is_alive(&arena, KIND, 1));
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    ck_assert(sl_peer_memory_is_alive(&arena, KIND, 1));
}

// A lender's steps against a reader's, each at every place between the other's: the lender never
// finds its memory unread while somebody has it open.
TEST(what_is_open_is_not_given_back_whatever_comes_first)
{
    const struct sl_peer_memory_offer offer = offer_of(1, 5);
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 0), SL_OK);
    for (int at = 0; at < 4; at++) { // the lender withdraws before the reader's step `at`
        struct sl_peer_memory_offer seen;
        bool opened = false, looked = false;
        sl_peer_memory_offer(&arena, KIND, 0, &offer);
        for (int step = 0; step < 4; step++) {
            if (step == at)
                sl_peer_memory_withdraw(&arena, KIND, 0);
            if (step == 0)
                looked = sl_peer_memory_read(&arena, KIND, 0, &seen);
            else if (step == 1)
                opened = looked && sl_peer_memory_open(&arena, KIND, 0, 3, seen.version);
            else if (step == 2 && opened)
                ck_assert(sl_peer_memory_is_read(&arena, KIND, 0) &&
                          sl_peer_memory_is_good(&arena, KIND, 0, 3));
            else if (step == 3 && opened)
                sl_peer_memory_close(&arena, KIND, 0, 3);
        }
        ck_assert(looked == (at > 0));
        ck_assert(opened == (at > 1));
        ck_assert(!sl_peer_memory_is_read(&arena, KIND, 0));
    }
}

// Memory of a lender as one word: 0 while it is given back.
static _Atomic uint64_t lent_memory;
static _Atomic bool readers_end;

static void *read_often(void *ctx)
{
    const uint32_t reader = (uint32_t)(uintptr_t)ctx;
    uint64_t reads = 0;
    struct sl_peer_memory_offer seen;
    while (!atomic_load(&readers_end)) {
        if (!sl_peer_memory_read(&arena, KIND, 0, &seen) ||
            !sl_peer_memory_open(&arena, KIND, 0, reader, seen.version))
            continue;
        for (int i = 0; i < 3; i++)
            if (atomic_load(&lent_memory) != seen.plan) // laid out by the plan that was opened
                return ctx;
        reads++;
        sl_peer_memory_close(&arena, KIND, 0, reader);
    }
    return reads > 0 ? NULL : ctx;
}

TEST(memory_changes_only_while_nobody_has_it_open)
{
    enum { ROUNDS = 2000 };
    pthread_t reader[3];
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 0), SL_OK);
    for (uintptr_t i = 0; i < SL_COUNT_OF(reader); i++)
        ck_assert_int_eq(pthread_create(&reader[i], NULL, read_often, (void *)(i + 1)), 0);
    for (uint64_t g = 1; g <= ROUNDS; g++) {
        atomic_store(&lent_memory, g);
        const struct sl_peer_memory_offer offer = offer_of(g, 1);
        sl_peer_memory_offer(&arena, KIND, 0, &offer);
        if (g == 1 || g % 16 == 0)
            UNTIL(sl_peer_memory_is_read(&arena, KIND, 0));
        sl_peer_memory_withdraw(&arena, KIND, 0);
        while (sl_peer_memory_is_read(&arena, KIND, 0))
            sched_yield();
        atomic_store(&lent_memory, 0);
    }
    const struct sl_peer_memory_offer last = offer_of(ROUNDS + 1, 1);
    atomic_store(&lent_memory, ROUNDS + 1);
    sl_peer_memory_offer(&arena, KIND, 0, &last);
    UNTIL(sl_peer_memory_is_read(&arena, KIND, 0));
    atomic_store(&readers_end, true);
    for (size_t i = 0; i < SL_COUNT_OF(reader); i++) {
        void *bad;
        pthread_join(reader[i], &bad);
        ck_assert_ptr_null(bad);
    }
}

TEST(a_dead_workers_bits_go_and_what_was_read_of_it_is_not_good)
{
    const struct sl_peer_memory_offer offer = offer_of(1, 5);
    struct sl_peer_memory_offer seen;
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 0), SL_OK);
    sl_peer_memory_offer(&arena, KIND, 0, &offer);
    ck_assert(sl_peer_memory_read(&arena, KIND, 0, &seen));
    ck_assert(sl_peer_memory_open(&arena, KIND, 0, 2, seen.version));
    ck_assert(sl_peer_memory_open(&arena, KIND, 0, 3, seen.version));
    sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_TRAINER, 2); // a reader
    ck_assert(sl_peer_memory_is_read(&arena, KIND, 0));
    ck_assert(!sl_peer_memory_is_good(&arena, KIND, 0, 2));
    ck_assert(sl_peer_memory_is_good(&arena, KIND, 0, 3));
    sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_TRAINER, 0); // the lender
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 0));
    ck_assert(!sl_peer_memory_is_good(&arena, KIND, 0, 3));
    ck_assert(!sl_peer_memory_open(&arena, KIND, 0, 3, seen.version));
    // Somebody else sits down there, while the reader is still amid what it read of the dead one.
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 0), SL_OK);
    sl_peer_memory_offer(&arena, KIND, 0, &offer);
    ck_assert(sl_peer_memory_is_alive(&arena, KIND, 0));
    ck_assert(!sl_peer_memory_is_good(&arena, KIND, 0, 3));
}

TEST(bytes_are_counted_by_reader_and_by_whom_they_are_of)
{
    for (uint32_t d = 0; d <= DEVICES; d++) {
        sl_peer_memory_count(&arena, KIND, 1, d, 100 + d);
        sl_peer_memory_count(&arena, KIND, 1, d, 1000);
    }
    sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_TRAINER, 1); // whoever sat there
    for (uint32_t d = 0; d <= DEVICES; d++) {
        ck_assert_uint_eq(sl_peer_memory_counted(&arena, KIND, 1, d), 1100 + d);
        ck_assert_uint_eq(sl_peer_memory_counted(&arena, KIND, 2, d), 0);
        ck_assert_uint_eq(sl_peer_memory_counted(&arena, SL_PEER_MEMORY_GRAPH, 1, d), 0);
    }
}

// --- lenders that die ----------------------------------------------------------------------------

static void *rest(void *ctx)
{
    for (;;)
        pause();
    return ctx;
}

enum ending { KILLED, KILLED_STOPPED, EXITS, EXITS_AT_ONCE, ENDINGS };

struct lender {
    pid_t pid;
    int holds; // end of file once its files are closed, as its GPU's memory is gone
    int tell;
};

// A process that lives on device 0, with some threads and a word in the arena.
static struct lender lender_start(enum ending ending)
{
    int holds[2], tells[2], ready[2];
    char byte;
    ck_assert(pipe(holds) == 0 && pipe(tells) == 0 && pipe(ready) == 0);
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        close(holds[0]);
        close(tells[1]);
        for (int i = 0; i < 4; i++)
            if (pthread_create(&thread, NULL, rest, NULL) != 0)
                _exit(2);
        const struct sl_peer_memory_offer offer = offer_of(1, 5);
        if (sl_peer_memory_live(&arena, KIND, 0) < 0)
            _exit(2);
        sl_peer_memory_offer(&arena, KIND, 0, &offer);
        (void)!write(ready[1], "r", 1);
        (void)!read(tells[0], &byte, 1);
        if (ending == EXITS)
            exit(0);
        _exit(0);
    }
    close(holds[1]);
    close(tells[0]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return (struct lender){pid, holds[0], tells[1]};
}

static void lender_end(const struct lender *l, enum ending ending)
{
    int status;
    if (ending == KILLED_STOPPED) {
        ck_assert_int_eq(kill(l->pid, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(l->pid, &status, WUNTRACED), l->pid);
    }
    if (ending == KILLED || ending == KILLED_STOPPED)
        ck_assert_int_eq(kill(l->pid, SIGKILL), 0);
    else
        close(l->tell);
}

// Before its files are closed and before anybody can see its death it is marked.
LOOP_TEST(a_lender_that_dies_is_marked_before_its_memory_can_be_gone, 0, ENDINGS)
{
    const enum ending ending = (enum ending)_i;
    struct sl_peer_memory_offer seen;
    char byte;
    int status;
    for (int round = 0; round < 10; round++) {
        struct lender l = lender_start(ending);
        ck_assert(sl_peer_memory_read(&arena, KIND, 0, &seen));
        ck_assert(sl_peer_memory_open(&arena, KIND, 0, 3, seen.version));
        ck_assert(sl_peer_memory_is_good(&arena, KIND, 0, 3));
        int pidfd = (int)syscall(SYS_pidfd_open, l.pid, 0);
        ck_assert_int_ge(pidfd, 0);
        lender_end(&l, ending);
        if (round % 2) { // its files
            ck_assert_int_eq(read(l.holds, &byte, 1), 0);
        } else { // its death
            struct pollfd p = {.fd = pidfd, .events = POLLIN};
            ck_assert_int_eq(poll(&p, 1, -1), 1);
        }
        ck_assert(!sl_peer_memory_is_good(&arena, KIND, 0, 3));
        ck_assert(!sl_peer_memory_read(&arena, KIND, 0, &seen));
        ck_assert_int_eq(waitpid(l.pid, &status, 0), l.pid);
        sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_TRAINER, 0);
        close(pidfd);
        close(l.holds);
        if (ending == KILLED || ending == KILLED_STOPPED)
            close(l.tell);
    }
}

TEST(a_lender_that_stands_still_lives)
{
    struct sl_peer_memory_offer seen;
    int status;
    struct lender l = lender_start(KILLED);
    ck_assert_int_eq(kill(l.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(l.pid, &status, WUNTRACED), l.pid);
    ck_assert(sl_peer_memory_read(&arena, KIND, 0, &seen));
    ck_assert(sl_peer_memory_is_alive(&arena, KIND, 0));
    lender_end(&l, KILLED);
    ck_assert_int_eq(waitpid(l.pid, &status, 0), l.pid);
    ck_assert(!sl_peer_memory_is_alive(&arena, KIND, 0));
}

// --- what a reader has open ----------------------------------------------------------------------

// A device whose attach() gives addresses by what the share says, and can refuse; and which does
// not close what is detached while a sum is under way.
static struct {
    int attached, attaches;
    bool refuses, sums;
    void *put_off;
} peer;

static int fake_attach(const struct sl_device_share *share, void **out)
{
    peer.attaches++;
    if (peer.refuses)
        return sl_fail(SL_EUNSUPPORTED, "no way there");
    peer.attached++;
    *out = (void *)(uintptr_t)(share->bytes[0] * 4096u);
    return SL_OK;
}

static void fake_detach(void *p)
{
    ck_assert_ptr_nonnull(p);
    peer.attached--;
    if (peer.sums)
        peer.put_off = p;
}

static bool fake_is_open(const void *p)
{
    ck_assert_ptr_nonnull(p);
    return peer.sums && peer.put_off == p;
}

static struct sl_peer_import borrowed_by(uint32_t reader)
{
    static struct sl_device device = {
        .attach = fake_attach, .detach = fake_detach, .is_open = fake_is_open};
    struct sl_peer_import b;
    sl_peer_import_init(&b, &arena, KIND, reader, &device);
    return b;
}

TEST(a_reader_opens_what_its_plan_says_and_closes_what_is_withdrawn)
{
    struct sl_peer_import b = borrowed_by(3);
    struct sl_peer_import_part part;
    struct sl_peer_memory_plan plan = plan_of(1);
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 2), SL_OK);
    plan.from[3][0] = plan.from[3][1] = 2; // one lender of two parts
    sl_peer_import_open(&b, &plan, 7);
    ck_assert_int_eq(peer.attaches, 0);
    ck_assert(!sl_peer_import_part(&b, &plan, 0, &part));

    struct sl_peer_memory_offer offer = offer_of(1, 5);
    sl_peer_memory_offer(&arena, KIND, 2, &offer);
    sl_peer_import_open(&b, &plan, 8); // of another order
    ck_assert_int_eq(peer.attaches, 0);
    sl_peer_import_open(&b, &plan, 7);
    sl_peer_import_open(&b, &plan, 7);
    ck_assert_int_eq(peer.attaches, 1);
    ck_assert(sl_peer_memory_is_read(&arena, KIND, 2));
    for (uint32_t p = 0; p < 2; p++) {
        ck_assert(sl_peer_import_part(&b, &plan, p, &part));
        ck_assert_uint_eq(part.lender, 2);
        ck_assert_uint_eq(part.number, p);
        ck_assert_uint_eq(part.room, 100);
        ck_assert_uint_eq(part.elements, 5);
        ck_assert_ptr_eq(part.memory, (char *)4096);
    }
    sl_peer_memory_grow(&arena, KIND, 2, 60);
    sl_peer_import_drop(&b);
    ck_assert(sl_peer_import_part(&b, &plan, 1, &part));
    ck_assert_uint_eq(part.elements, 60);

    sl_peer_memory_withdraw(&arena, KIND, 2);
    ck_assert(sl_peer_import_is_good(&b)); // what was read before is
    sl_peer_import_drop(&b);
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 2));
    ck_assert(!sl_peer_import_part(&b, &plan, 0, &part));
    ck_assert_int_eq(peer.attached, 0);
    sl_peer_memory_offer(&arena, KIND, 2, &offer);
    sl_peer_import_open(&b, &plan, 7);
    sl_peer_import_close(&b); // it sleeps
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 2));
    sl_peer_import_open(&b, &plan, 7); // and wakes
    ck_assert(sl_peer_import_part(&b, &plan, 0, &part));
    const struct sl_peer_memory_plan later = plan_of(2); // by which it reads others
    sl_peer_import_open(&b, &later, 7);
    ck_assert_int_eq(peer.attached, 0);
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 2));
    sl_peer_import_close(&b);
}

TEST(a_reader_drops_a_dead_lender_and_only_that)
{
    struct sl_peer_import b = borrowed_by(3);
    struct sl_peer_import_part part;
    const struct sl_peer_memory_plan plan = plan_of(1);
    const struct sl_peer_memory_offer offer = offer_of(1, 5);
    struct lender l = lender_start(KILLED); // on device 0
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    sl_peer_memory_offer(&arena, KIND, 1, &offer);
    sl_peer_import_open(&b, &plan, 7);
    ck_assert_int_eq(peer.attached, 2);
    ck_assert(sl_peer_import_is_good(&b));
    lender_end(&l, KILLED);
    ck_assert_int_eq(waitpid(l.pid, NULL, 0), l.pid);
    ck_assert(!sl_peer_import_is_good(&b));
    ck_assert(!sl_peer_import_is_good(&b)); // whoever else has read of it is told as well
    ck_assert_int_eq(peer.attached, 2);     // and may still do so
    ck_assert(!sl_peer_import_part(&b, &plan, 0, &part));
    ck_assert(sl_peer_import_part(&b, &plan, 1, &part));
    sl_peer_import_open(&b, &plan, 7); // it is closed, and not opened again
    ck_assert_int_eq(peer.attached, 1);
    ck_assert(sl_peer_import_is_good(&b));
    ck_assert_int_eq(peer.attaches, 2);
    sl_peer_import_close(&b);
    ck_assert_int_eq(peer.attached, 0);
}

// The lender goes on waiting, whoever of the two calls what next; and the reader opens nothing else
// of it meanwhile.
LOOP_TEST(a_lender_is_told_when_its_memory_is_closed_and_not_before, 0, 4)
{
    enum { DROP, OPEN, CLOSE, TAKE };
    struct sl_peer_import b = borrowed_by(3);
    const struct sl_peer_memory_plan plan = plan_of(1);
    struct sl_peer_memory_offer offer = offer_of(1, 5);
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    sl_peer_memory_offer(&arena, KIND, 1, &offer);
    sl_peer_import_open(&b, &plan, 7);
    ck_assert_int_eq(peer.attached, 1);
    peer.sums = true;
    sl_peer_memory_withdraw(&arena, KIND, 1);
    if (_i == CLOSE)
        ck_assert(!sl_peer_import_close(&b));
    else
        sl_peer_import_drop(&b);
    ck_assert_int_eq(peer.attached, 0);
    ck_assert(sl_peer_memory_is_read(&arena, KIND, 1));
    ck_assert(!sl_peer_import_stands(&b));
    const uint64_t version = sl_peer_memory_offer(&arena, KIND, 1, &offer);
    for (int over = 0; over < 2; over++) {
        peer.sums = !over;
        switch (_i) {
        case DROP: sl_peer_import_drop(&b); break;
        case OPEN: sl_peer_import_open(&b, &plan, 7); break;
        case CLOSE: ck_assert(sl_peer_import_close(&b) == over); break;
        default: ck_assert(!sl_peer_import_take(&b, 1, version) == !over); break;
        }
        const bool opens = over && (_i == OPEN || _i == TAKE);
        ck_assert(sl_peer_memory_is_read(&arena, KIND, 1) == (!over || opens));
        ck_assert_int_eq(peer.attaches, 1 + opens);
        ck_assert(sl_peer_import_stands(&b) == over);
    }
    ck_assert(sl_peer_import_close(&b));
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 1));
}

// --- what a lender that ends does with memory that is open ---------------------------------------

static int frees;

static void count_free(void *p, size_t n)
{
    frees++;
    sl_device_host()->memory.free(p, n);
}

static int share_anything(const void *p, struct sl_device_share *out)
{
    (void)p;
    *out = (struct sl_device_share){{1}};
    return SL_OK;
}

static int load_nothing(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to)
{
    (void)ctx, (void)part, (void)from, (void)n, (void)to;
    return SL_OK;
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

// By the plan, of device 1.
static void lend_by(struct sl_peer_export *l, const struct sl_peer_memory_plan *plan)
{
    static struct sl_device device;
    const struct sl_peer_export_source source = {
        .load = load_nothing, .goes_on = always, .piece = 1000};
    const uint64_t planes[SL_PEER_EXPORT_PLANES] = {4, 0};
    struct sl_peer_export_layout layout;
    device = *sl_device_host();
    device.memory.free = count_free;
    device.share = share_anything;
    sl_peer_export_init(l, &arena, KIND, 1, &device, planes, "test");
    ck_assert(sl_peer_export_layout(l, plan, 1000, &layout) && sl_peer_export_allocate(l, &layout));
    ck_assert_int_eq(sl_peer_export_fill(l, plan->generation, 7, &source), SL_OK);
}

// The broker proves that the reader is dead: what it was about to close holds nobody up.
TEST(a_reader_that_dies_before_its_memory_is_closed_is_in_nobodys_way)
{
    struct sl_peer_import b = borrowed_by(3);
    const struct sl_peer_memory_plan plan = plan_of(1);
    struct sl_peer_export l;
    lend_by(&l, &plan);
    sl_peer_import_open(&b, &plan, 7);
    ck_assert_int_eq(peer.attached, 1);
    peer.sums = true;
    ck_assert(!sl_peer_import_close(&b));
    ck_assert(!sl_peer_export_may_change(&l, NULL));
    sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_TRAINER, 3);
    ck_assert(sl_peer_export_may_change(&l, NULL));
    ck_assert_int_eq(frees, 1);
    sl_peer_export_fini(&l);
}

LOOP_TEST(a_lender_that_ends_leaves_what_is_open_to_the_end_of_its_process, 0, 2)
{
    struct sl_peer_import b = borrowed_by(3);
    const struct sl_peer_memory_plan plan = plan_of(1);
    struct sl_peer_export l;
    lend_by(&l, &plan);
    if (_i) {
        sl_peer_import_open(&b, &plan, 7);
        ck_assert_int_eq(peer.attached, 1);
    }
    sl_peer_export_fini(&l);
    ck_assert_int_eq(frees, !_i);
    ck_assert(!sl_peer_memory_is_alive(&arena, KIND, 1));
}

TEST(memory_that_cannot_be_attached_is_tried_once_an_offer)
{
    struct sl_peer_import b = borrowed_by(3);
    const struct sl_peer_memory_plan plan = plan_of(1);
    const struct sl_peer_memory_offer offer = offer_of(1, 5);
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 1), SL_OK);
    for (int round = 1; round <= 2; round++) {
        peer.refuses = true;
        sl_peer_memory_offer(&arena, KIND, 1, &offer);
        sl_peer_import_open(&b, &plan, 7);
        sl_peer_import_open(&b, &plan, 7);
        ck_assert_int_eq(peer.attaches, round);
        ck_assert(!sl_peer_memory_is_read(&arena, KIND, 1));
    }
    sl_peer_import_close(&b);
}

// --- all of them ---------------------------------------------------------------------------------

static struct sl_seat *sit(uint32_t device, enum sl_duty duty, uint32_t order, uint64_t rows)
{
    const uint32_t seat = sl_seat_trainer(&arena, device);
    sl_seat_set_duty(&arena, seat, duty);
    sl_seat(&arena, seat)->cache_generation = order;
    sl_seat(&arena, seat)->cache_loaded = rows;
    return sl_seat(&arena, seat);
}

TEST(rows_that_all_trainers_at_work_have_are_held)
{
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 0); // nobody works
    struct sl_seat *first = sit(0, SL_DUTY_WORK, 7, 50), *second = sit(1, SL_DUTY_WORK, 7, 30);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 30);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 8), 0);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 0), 0); // of no order
    sit(2, SL_DUTY_STANDBY, 7, 20)->activity = SL_ACTIVITY_ASLEEP;
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 30);
    sl_seat(&arena, sl_seat_trainer(&arena, 2))->activity = SL_ACTIVITY_BUSY;
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 20);
    sl_seat_vacate(&arena, sl_seat_trainer(&arena, 2)); // dead: nobody yet has what it had
    sl_seat(&arena, sl_seat_trainer(&arena, 2))->duty = SL_DUTY_NONE;
    second->cache_generation = 6;
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 0);
    sl_seat_vacate(&arena, sl_seat_trainer(&arena, 1));
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 0);
    second->duty = SL_DUTY_NONE;
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), first->cache_loaded);
}

TEST(rows_that_trainers_lend_one_another_are_held)
{
    struct sl_peer_memory_plan plan = plan_of(1); // 10 rows each, then parts of 100
    struct sl_peer_memory_offer offer = offer_of(1, 40);
    plan.held[2] = 0;
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
    for (uint32_t d = 0; d < DEVICES; d++)
        sit(d, SL_DUTY_WORK, 7, 200);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 10); // nothing is lent
    ck_assert_int_eq(sl_peer_memory_live(&arena, KIND, 0), SL_OK);
    sl_peer_memory_offer(&arena, KIND, 0, &offer);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 10);
    plan.held[1] = 0;
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 10 + 2 * 40);
    sl_peer_memory_grow(&arena, KIND, 0, 90);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 10 + 2 * 90);
    sit(3, SL_DUTY_WORK, 7, 5);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 5);
    sit(3, SL_DUTY_WORK, 7, 200);
    plan.from[3][1] = SL_PEER_MEMORY_NOBODY;
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 10);
    plan = plan_of(2);
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
    ck_assert_uint_eq(sl_peer_memory_rows_held(&arena, 7), 20); // lent by another plan
    ck_assert(sl_peer_memory_leave(&arena, KIND, 0));
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena, .timeout_s = 60)

/*
 * Sums over the GPUs of several processes (kernels/cuda/nccl.cc), on emulated GPUs with the
 * emulation's NCCL (tests/simt/nccl.cc): each rank is a process with a GPU of its own. Whatever
 * becomes of the others, calls return at once and a group can be given up and formed anew.
 */
#include "tests/unit/gpu_fixture.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "tests/unit/suite.h"

enum { RANKS = 4, GROUPS = 32, PATIENCE_S = 60 };

// What the ranks of a test share.
struct meeting_place {
    uint8_t id[GROUPS][SL_COLLECTIVE_ID_BYTES];
    atomic_int named[GROUPS];
    atomic_int arrived[GROUPS]; // at a point of the test
};

static char plugin_path[4200];
static struct meeting_place *place;
static const struct sl_device *gpu;
static const struct sl_kernels *kernels;
static const struct sl_collective *together;

#define OK(expr) ck_assert_msg((expr) == SL_OK, #expr ": %s", sl_error_message())
#define SAYS(words)                                                                                \
    ck_assert_msg(strstr(sl_error_message(), words), "'%s' is not in '%s'", words,                 \
                  sl_error_message())

static void set_up(void)
{
    unsetenv("SLUICE_SIMT_FAIL");
    unsetenv("SLUICE_SIMT_NCCL");
    unsetenv("SLUICE_NCCL");
    unsetenv("NCCL_COMM_ID");
    unsetenv("NCCL_COMM_BLOCKING");
    setenv("SLUICE_SIMT_SEED", "0", 1);
    setenv("SLUICE_SIMT_DEVICES", "4", 1);
    setenv("SLUICE_SIMT_MEMORY", "67108864", 1);
    setenv("SLUICE_CUDA_PLUGIN", plugin_path, 1);
    place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(place, MAP_FAILED);
}

// Odd tests of a loop have streams that run late.
static void be_late(int i)
{
    setenv("SLUICE_SIMT_SEED", i & 1 ? "1" : "0", 1);
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = 200 * 1000};
    nanosleep(&pause, NULL);
}

static uint64_t deadline(void)
{
    return sl_now_ns() + PATIENCE_S * 1000000000ull;
}

// ---- ranks --------------------------------------------------------------------------------------

static void open_gpu(uint32_t index)
{
    const struct sl_plugin *plugin = NULL;
    ck_assert_msg(sl_plugin_open(&plugin) == SL_OK, "%s", sl_error_message());
    together = plugin->collective;
    ck_assert_ptr_nonnull(together);
    ck_assert_uint_eq(together->bytes, sizeof *together);
    OK(plugin->open(index, 0));
    gpu = plugin->device;
    kernels = plugin->kernels;
}

typedef void (*rank_function)(uint32_t rank, uint32_t n);

static pid_t start(rank_function run, uint32_t rank, uint32_t n)
{
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm(PATIENCE_S + 5); // however the test ends
        run(rank, n);
        _exit(0);
    }
    return child;
}

static void end(pid_t child, bool was_killed)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (was_killed)
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
        ck_assert_msg(status == 0, "a rank ended with status %#x", (unsigned)status);
}

// Each as a process of its own; `killed` kills itself (n: nobody does).
static void run_ranks(rank_function run, uint32_t n, uint32_t killed)
{
    pid_t child[RANKS];
    for (uint32_t r = 0; r < n; r++)
        child[r] = start(run, r, n);
    for (uint32_t r = 0; r < n; r++)
        end(child[r], r == killed);
}

static void name(int group)
{
    OK(together->unique_id(place->id[group]));
    atomic_store(&place->named[group], 1);
}

static void wait_for(atomic_int *what, int value)
{
    for (const uint64_t until = deadline(); atomic_load(what) < value; rest())
        ck_assert_msg(sl_now_ns() < until, "another rank did not come");
}

// All of n ranks are at this point of the test.
static void arrive(int point, uint32_t n)
{
    atomic_fetch_add(&place->arrived[point], 1);
    wait_for(&place->arrived[point], (int)n);
}

static void begin(int group, uint32_t rank, uint32_t n)
{
    if (rank == 0)
        name(group);
    wait_for(&place->named[group], 1);
    OK(together->begin(place->id[group], rank, n));
}

// What comes of what was begun.
static int outcome(void)
{
    int rc;
    const uint64_t until = deadline();
    while ((rc = together->poll()) == SL_EAGAIN) {
        ck_assert_msg(sl_now_ns() < until, "it never ends");
        rest();
    }
    return rc;
}

static void meet(int group, uint32_t rank, uint32_t n)
{
    begin(group, rank, n);
    OK(outcome());
}

static void stays_unfinished(void)
{
    for (int i = 0; i < 100; i++, rest())
        ck_assert_int_eq(together->poll(), SL_EAGAIN);
}

// ---- sums ---------------------------------------------------------------------------------------

static float value(uint32_t rank, uint64_t i, uint32_t round)
{
    uint32_t x = (uint32_t)i * 2654435761u + rank * 40503u + round * 97u;
    return (float)((int)(x >> 8 & 0xffff) - 30000) * (x & 1 ? 1e-3f : 1e3f);
}

static float *put_values(uint32_t rank, uint64_t n, uint32_t round)
{
    float *host = malloc(n * sizeof *host + 1), *p = gpu->memory.alloc(n * sizeof *p + 1);
    ck_assert_msg(host && p, "%s", sl_error_message());
    for (uint64_t i = 0; i < n; i++)
        host[i] = value(rank, i, round);
    OK(gpu->copy(p, host, n * sizeof *p));
    free(host);
    return p;
}

static void check_total(const float *p, uint32_t ranks, uint64_t n, uint32_t round)
{
    float *host = malloc(n * sizeof *host + 1);
    ck_assert_ptr_nonnull(host);
    OK(gpu->copy(host, p, n * sizeof *host));
    OK(gpu->sync());
    for (uint64_t i = 0; i < n; i++) {
        volatile float wanted = value(0, i, round);
        for (uint32_t r = 1; r < ranks; r++)
            wanted += value(r, i, round);
        ck_assert_msg(host[i] == wanted, "number %llu of %llu: %a, wanted %a",
                      (unsigned long long)i, (unsigned long long)n, (double)host[i],
                      (double)wanted);
    }
    free(host);
}

static void sum(uint32_t rank, uint32_t ranks, uint64_t n, uint32_t round, bool in_place)
{
    const size_t bytes = n * sizeof(float) + 1;
    float *in = put_values(rank, n, round), *out = in_place ? in : gpu->memory.alloc(bytes);
    ck_assert_ptr_nonnull(out);
    OK(together->all_reduce(in, out, n));
    OK(outcome());
    check_total(out, ranks, n, round);
    gpu->memory.free(in, bytes);
    if (!in_place)
        gpu->memory.free(out, bytes);
}

static const uint64_t sizes[] = {1, 100000, 0, 3, 4096, 4097, 0, 77, 200001, 1};

static void sum_many(uint32_t rank, uint32_t n)
{
    open_gpu(rank);
    meet(0, rank, n);
    for (uint32_t i = 0; i < SL_COUNT_OF(sizes); i++)
        sum(rank, n, sizes[i], i, i & 1);
    together->abort();
}

LOOP_TEST(sums_are_those_in_the_order_of_the_ranks, 0, 2 * RANKS)
{
    be_late(_i);
    run_ranks(sum_many, 1 + (uint32_t)_i / 2, RANKS);
}

// What the thread asked for before comes before, without a sync in between.
static void sum_behind_work(uint32_t rank, uint32_t n)
{
    enum { N = 1000 };
    float back[N];
    open_gpu(rank);
    meet(0, rank, n);
    float *in = gpu->memory.alloc(sizeof back), *out = gpu->memory.alloc(sizeof back);
    OK(gpu->fill(in, 0, sizeof back));
    OK(gpu->fill(out, 0x7f, sizeof back));
    OK(together->all_reduce(in, out, N));
    OK(outcome());
    OK(gpu->copy(back, out, sizeof back));
    OK(gpu->sync());
    for (int i = 0; i < N; i++)
        ck_assert(back[i] == 0);
}

LOOP_TEST(a_sum_comes_behind_what_was_asked_before, 0, 2)
{
    be_late(_i);
    run_ranks(sum_behind_work, 2, RANKS);
}

static uint32_t open_files(void)
{
    uint32_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void form_many(uint32_t rank, uint32_t n)
{
    uint32_t files = 0;
    open_gpu(rank);
    for (int group = 0; group < GROUPS; group++) {
        meet(group, rank, n);
        sum(rank, n, 1000, (uint32_t)group, false);
        together->abort();
        if (group == 1)
            files = open_files();
    }
    ck_assert_uint_eq(open_files(), files);
    ck_assert_int_eq(together->poll(), SL_EINVAL);
    together->abort(); // of nothing
}

LOOP_TEST(groups_that_were_given_up_leave_nothing, 0, 2)
{
    be_late(_i);
    run_ranks(form_many, 2, RANKS);
}

// ---- others that do not come, or die ------------------------------------------------------------

// A sum that is given up leaves `out` alone afterwards.
static void give_up_a_sum(uint32_t rank)
{
    enum { N = 5000 };
    unsigned char back[N * sizeof(float)];
    float *in = put_values(rank, N, 0), *out = gpu->memory.alloc(sizeof back);
    OK(gpu->fill(out, 0x11, sizeof back));
    OK(together->all_reduce(in, out, N));
    stays_unfinished();
    together->abort();
    OK(gpu->copy(back, out, sizeof back));
    OK(gpu->sync());
    for (size_t i = 0; i < sizeof back; i++)
        ck_assert_uint_eq(back[i], 0x11);
    gpu->memory.free(in, sizeof back);
    gpu->memory.free(out, sizeof back);
}

enum stage { NEVER_COMES, DIES_BEFORE_A_SUM, DIES_AFTER_A_SUM, LEAVES, STAGES };
static enum stage stage;

static void be_lost(void)
{
    if (stage == LEAVES) {
        together->abort();
        _exit(0);
    }
    raise(SIGKILL);
}

// The last rank is lost at `stage`; the others find it out by themselves or are told, and go on.
static void lose_one(uint32_t rank, uint32_t n)
{
    const bool is_lost = rank == n - 1;
    open_gpu(rank);
    if (stage == NEVER_COMES && is_lost)
        be_lost();
    begin(0, rank, n);
    if (stage == NEVER_COMES) {
        stays_unfinished();
        ck_assert_int_eq(together->all_reduce(NULL, NULL, 0), SL_EINVAL);
        SAYS("before poll() has said that the meeting is over");
        together->abort();
    } else {
        OK(outcome());
        if (stage == DIES_AFTER_A_SUM) {
            sum(rank, n, 1001, 0, false);
            arrive(0, n); // it may not die before the others have read its part
        }
        if (is_lost)
            be_lost();
        give_up_a_sum(rank);
    }
    meet(1, rank, n - 1);
    sum(rank, n - 1, 70000, 1, false);
    together->abort();
}

LOOP_TEST(the_others_give_up_and_form_a_new_group, 0, 2 * STAGES)
{
    be_late(_i);
    stage = (enum stage)(_i / 2);
    run_ranks(lose_one, 3, stage == LEAVES ? RANKS : 2);
}

static void notice_in_a_sum(uint32_t rank, uint32_t n)
{
    open_gpu(rank);
    meet(0, rank, n);
    if (rank == n - 1)
        raise(SIGKILL);
    float *p = put_values(rank, 10, 0);
    OK(together->all_reduce(p, p, 10));
    ck_assert_int_eq(outcome(), SL_EDEVICE);
    SAYS("summing: remote process exited");
    SAYS("another process of the group is gone");
    ck_assert_int_eq(together->poll(), SL_EDEVICE);
    together->abort();
    meet(1, rank, n - 1);
    sum(rank, n - 1, 11, 1, true);
}

// Of four ranks one never starts, so that the meeting cannot be over before the death.
static void notice_in_the_meeting(uint32_t rank, uint32_t n)
{
    open_gpu(rank);
    if (rank == 0)
        name(0);
    wait_for(&place->named[0], 1);
    OK(together->begin(place->id[0], rank, n + 1));
    if (rank == n - 1)
        raise(SIGKILL);
    ck_assert_int_eq(outcome(), SL_EDEVICE);
    SAYS("meeting the others: remote process exited");
    together->abort();
    meet(1, rank, n - 1);
    sum(rank, n - 1, 11, 1, true);
}

LOOP_TEST(a_death_that_is_noticed_is_an_error, 0, 4)
{
    be_late(_i);
    setenv("SLUICE_SIMT_NCCL", "remote_error", 1);
    run_ranks(_i / 2 ? notice_in_a_sum : notice_in_the_meeting, 3, 2);
}

static void name_only(uint32_t rank, uint32_t n)
{
    open_gpu(rank);
    name(0);
}

LOOP_TEST(a_name_whose_maker_is_gone_leads_nowhere, 0, 2)
{
    if (_i)
        setenv("SLUICE_SIMT_NCCL", "remote_error", 1);
    end(start(name_only, 0, 2), false);
    open_gpu(1);
    OK(together->begin(place->id[0], 1, 2));
    if (_i)
        ck_assert_int_eq(outcome(), SL_EDEVICE);
    else
        stays_unfinished();
    together->abort();
    memset(place->id[0], 0x55, sizeof place->id[0]);
    ck_assert_int_eq(together->begin(place->id[0], 1, 2), SL_EDEVICE);
    SAYS("meeting as rank 1 of 2");
    ck_assert_int_eq(together->poll(), SL_EINVAL);
}

// ---- what waits for the whole GPU ---------------------------------------------------------------

#define MIB ((size_t)1 << 20)
enum { DEVICE_MIB = 256, LARGE_MIB = 200, SMALLER_MIB = 150, LARGER_MIB = 230 };

// What a thread that does not sum has, and does in the meantime.
struct bystander {
    char *large, *pinned, *pages;
    void *lent; // by another process
    float *x;
    struct simt_counts before, after;
    void *reused;
};

// None of it waits for the sum: it would be a wait for a peer that is dead. The first kernel of its
// kind, too, is loaded already.
static void *give_back(void *context)
{
    struct bystander *b = context;
    ck_assert(gpu_counts(&b->before));
    gpu->memory.free(b->large, LARGE_MIB * MIB);
    gpu->trim();
    gpu->host_free(b->pinned, 1);
    gpu->unmap(b->pages);
    gpu->detach(b->lent);
    ck_assert(gpu->is_open(b->lent)); // its lender must not free it
    OK(kernels->scale_columns(b->x, 1, 1, b->x + 1, b->x + 2));
    OK(gpu->sync());
    ck_assert(gpu_counts(&b->after));
    ck_assert_uint_ge(gpu->held(), LARGE_MIB * MIB);
    // There is no room for this beside what is kept: that is used, though it is larger.
    b->reused = gpu->memory.alloc(SMALLER_MIB * MIB);
    ck_assert_ptr_eq(b->reused, b->large);
    gpu->memory.free(b->reused, SMALLER_MIB * MIB);
    return context;
}

// There is no room for this until what is kept has gone back.
static void *wait_for_room(void *context)
{
    struct bystander *b = context;
    return gpu->memory.alloc(LARGER_MIB * MIB) ? b : NULL;
}

// A process that lends memory of another GPU until it is told to free it, which the emulation takes
// ill of it while somebody has it open.
static struct sl_device_share lent;
static int asks_for_it[2], tells_of_it[2];

static void lend_until_asked(uint32_t rank, uint32_t n)
{
    char byte;
    open_gpu(n);
    (void)rank;
    char *p = gpu->memory.alloc(MIB);
    OK(gpu->share(p, &lent));
    ck_assert_int_eq(write(tells_of_it[1], &lent, sizeof lent), sizeof lent);
    ck_assert_int_eq(read(asks_for_it[0], &byte, 1), 1);
    gpu->memory.free(p, MIB);
    gpu->trim();
}

static void leave_a_peer_alone(uint32_t rank, uint32_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct bystander b = {0};
    pthread_t thread;
    void *result = NULL;
    open_gpu(rank);
    meet(0, rank, n);
    if (rank == n - 1)
        raise(SIGKILL);
    float *p = put_values(rank, 10, 0);
    b.large = gpu->memory.alloc(LARGE_MIB * MIB);
    b.pinned = gpu->host_alloc(1);
    b.pages = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b.x = gpu->memory.alloc(3 * sizeof *b.x);
    ck_assert(b.large && b.pinned && b.pages != MAP_FAILED && b.x);
    ck_assert_int_eq(read(tells_of_it[0], &lent, sizeof lent), sizeof lent);
    OK(gpu->attach(&lent, &b.lent));
    OK(gpu->fill(b.x, 0, 3 * sizeof *b.x));
    void *there;
    OK(gpu->map(b.pages, page, false, &there));
    OK(gpu->sync());
    OK(together->all_reduce(p, p, 10));
    ck_assert_int_eq(together->poll(), SL_EAGAIN);
    ck_assert_int_eq(pthread_create(&thread, NULL, give_back, &b), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_nonnull(result);
    ck_assert_uint_eq(b.after.stops, b.before.stops);
    // The thread that has to see to the end of the sum is not made to wait for it.
    ck_assert_ptr_null(gpu->memory.alloc(LARGER_MIB * MIB));
    SAYS("no room for");
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_room, &b), 0);
    stays_unfinished();
    together->abort();
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_nonnull(result);
    ck_assert(gpu_counts(&b.after));
    ck_assert_uint_eq(b.after.stops - b.before.stops, 4);
    ck_assert(!gpu->is_open(b.lent));
    ck_assert_int_eq(write(asks_for_it[1], "", 1), 1);
    ck_assert_uint_lt(gpu->held(), (LARGER_MIB + 10) * MIB);
    // As before: what is given back now goes back now.
    OK(gpu->map(b.pages, page, false, &there));
    gpu->unmap(b.pages);
    ck_assert(gpu_counts(&b.after));
    ck_assert_uint_eq(b.after.stops - b.before.stops, 5);
}

LOOP_TEST(what_is_given_back_during_a_sum_goes_when_it_is_over, 0, 2)
{
    char memory[32];
    snprintf(memory, sizeof memory, "%zu", DEVICE_MIB * MIB);
    setenv("SLUICE_SIMT_MEMORY", memory, 1);
    be_late(_i);
    ck_assert_int_eq(pipe(asks_for_it), 0);
    ck_assert_int_eq(pipe(tells_of_it), 0);
    const pid_t lender = start(lend_until_asked, 0, 2);
    run_ranks(leave_a_peer_alone, 2, 1);
    end(lender, false);
}

SIGNAL_TEST(a_sync_behind_a_sum_that_never_ends_is_said_loudly, SIGABRT)
{
    setenv("SLUICE_SIMT_NCCL", "wait:1", 1);
    stage = DIES_BEFORE_A_SUM;
    pid_t other = start(lose_one, 1, 2);
    open_gpu(0);
    meet(0, 0, 2);
    end(other, true);
    float *p = put_values(0, 10, 0);
    OK(together->all_reduce(p, p, 10));
    gpu->sync();
}

// ---- what is refused ----------------------------------------------------------------------------

static void same_gpu(uint32_t rank, uint32_t n)
{
    open_gpu(2);
    begin(0, rank, n);
    ck_assert_int_eq(outcome(), SL_EDEVICE);
    SAYS("invalid usage");
    SAYS("Duplicate GPU detected");
    SAYS("give each device of the job a GPU of its own");
    together->abort();
}

LOOP_TEST(two_ranks_on_one_gpu_are_refused, 0, 2)
{
    be_late(_i);
    run_ranks(same_gpu, 2, RANKS);
}

LOOP_TEST(calls_out_of_order_are_refused, 0, 2)
{
    be_late(_i);
    open_gpu(0);
    float *p = put_values(0, 4, 0);
    ck_assert_int_eq(together->poll(), SL_EINVAL);
    ck_assert_int_eq(together->all_reduce(p, p, 4), SL_EINVAL);
    together->abort();
    name(0);
    ck_assert_int_eq(together->begin(place->id[0], 1, 1), SL_EINVAL);
    SAYS("rank 1 of 1");
    ck_assert_int_eq(together->begin(place->id[0], 0, 0), SL_EINVAL);
    OK(together->begin(place->id[0], 0, 1));
    ck_assert_int_eq(together->begin(place->id[0], 0, 1), SL_EINVAL);
    SAYS("has not been given up");
    OK(outcome());
    ck_assert_int_eq(together->all_reduce(NULL, p, 4), SL_EINVAL);
    OK(together->all_reduce(p, p, 4));
    ck_assert_int_eq(together->all_reduce(p, p, 4), SL_EINVAL);
    SAYS("before poll() has said that the last one is over");
    OK(outcome());
    OK(together->all_reduce(p, p, 4));
    OK(outcome());
    check_total(p, 1, 4, 0);
}

TEST(no_group_without_a_gpu)
{
    const struct sl_plugin *plugin = NULL;
    OK(sl_plugin_open(&plugin));
    OK(plugin->collective->unique_id(place->id[0]));
    ck_assert_int_eq(plugin->collective->begin(place->id[0], 0, 1), SL_EDEVICE);
    SAYS("no GPU is open");
    plugin->collective->abort();
}

TEST(a_group_that_can_not_begin_says_why_and_the_next_one_may)
{
    setenv("SLUICE_SIMT_NCCL", "fail_init:2", 1);
    open_gpu(0);
    meet(0, 0, 1);
    together->abort();
    name(1);
    ck_assert_int_eq(together->begin(place->id[1], 0, 1), SL_EDEVICE);
    SAYS("NCCL, meeting as rank 0 of 1: unhandled system error");
    SAYS("NCCL_DEBUG");
    together->abort();
    meet(2, 0, 1);
    sum(0, 1, 10, 0, false);
}

static const struct {
    const char *variable, *value, *words;
} refused[] = {
    {"NCCL_COMM_ID", "127.0.0.1:9999", "unset NCCL_COMM_ID"},
    {"NCCL_COMM_BLOCKING", "1", "unset NCCL_COMM_BLOCKING"},
};

LOOP_TEST(settings_of_nccl_that_can_not_work_are_refused, 0, SL_COUNT_OF(refused))
{
    open_gpu(0);
    name(0);
    setenv(refused[_i].variable, refused[_i].value, 1);
    ck_assert_int_eq(together->unique_id(place->id[1]), SL_EUNSUPPORTED);
    SAYS(refused[_i].words);
    ck_assert_int_eq(together->begin(place->id[0], 0, 1), SL_EUNSUPPORTED);
    SAYS(refused[_i].words);
    ck_assert_int_eq(together->poll(), SL_EINVAL);
}

TEST(calls_that_do_not_wait_may_be_asked_for)
{
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    open_gpu(0);
    meet(0, 0, 1);
}

TEST(a_gpu_that_faults_ends_the_group)
{
    setenv("SLUICE_SIMT_FAIL", "sync:1", 1);
    open_gpu(0);
    meet(0, 0, 1);
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
    ck_assert_int_eq(together->poll(), SL_EDEVICE);
    SAYS("has faulted before");
    ck_assert_int_eq(together->all_reduce((float *)place, (float *)place, 1), SL_EDEVICE);
    together->abort();
    ck_assert_int_eq(together->begin(place->id[0], 0, 1), SL_EDEVICE);
    SAYS("has faulted before");
}

static const struct {
    const char *variable, *value, *words;
} missing[] = {
    {"SLUICE_SIMT_NCCL", "none", "SLUICE_NCCL"},
    {"SLUICE_SIMT_NCCL", "version:21805", "is of version 2.18.5: wanted 2.19 or newer"},
    {"SLUICE_NCCL", "/nowhere/libnccl.so.2", "SLUICE_NCCL names /nowhere/libnccl.so.2"},
    {"SLUICE_NCCL", "libm.so.6", "SLUICE_NCCL names ./libm.so.6"},
    {"SLUICE_NCCL", plugin_path, "has no ncclGetVersion(): wanted NCCL 2.19 or newer"},
};

LOOP_TEST(without_nccl_it_is_said_where_it_was_looked_for, 0, SL_COUNT_OF(missing))
{
    static struct sl_gpu_report report;
    const struct sl_plugin *plugin = NULL;
    setenv(missing[_i].variable, missing[_i].value, 1);
    open_gpu(0);
    ck_assert_int_eq(together->unique_id(place->id[0]), SL_ENOENT);
    SAYS("there is no NCCL: ");
    SAYS(missing[_i].words);
    ck_assert_int_eq(together->begin(place->id[0], 0, 1), SL_ENOENT);
    together->abort();
    OK(sl_plugin_open(&plugin));
    plugin->report(&report);
    ck_assert_int_eq(strncmp(report.nccl, "none: ", 6), 0);
    ck_assert_msg(strstr(report.nccl, missing[_i].words), "%s", report.nccl);
}

static bool is_emulated(void)
{
    return gpu_find(plugin_path, sizeof plugin_path);
}

RUN_TESTS(.setup = set_up, .timeout_s = 120, .needs = is_emulated,
          .skipped = "there is no emulated GPU")

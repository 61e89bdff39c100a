/*
 * Memory of other processes' GPUs, as the emulation has it (tests/simt/peers.cc, links.cc): who
 * reaches it, and what becomes of it when its owner is killed, between kernels and in one.
 */
#include "tests/unit/gpu_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "tests/simt/selftest.h"
#include "tests/unit/suite.h"

enum { BYTES = 3 << 12, LENT = 42, GONE = 0xdb };

static const struct sl_device *gpu;

#define OK(expr) ck_assert_msg((expr) == SL_OK, #expr ": %s", sl_error_message())

static void set_up(void)
{
    unsetenv("SLUICE_SIMT_FAIL");
    unsetenv("SLUICE_SIMT_DEAD");
    unsetenv("SLUICE_SIMT_KEYS");
    unsetenv("SLUICE_SIMT_SEED");
    unsetenv("SLUICE_SIMT_LINKS");
    unsetenv("SLUICE_NVML");
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    char path[4200];
    ck_assert(gpu_find(path, sizeof path));
    setenv("SLUICE_CUDA_PLUGIN", path, 1);
}

static void open_gpu(uint32_t index)
{
    const struct sl_plugin *plugin;
    OK(sl_plugin_open(&plugin));
    OK(plugin->open(index, 0));
    gpu = plugin->device;
}

// Another process with BYTES of LENT on GPU 1, which lives until it is killed.
static pid_t lend(struct sl_device_share *share)
{
    int there[2];
    ck_assert_int_eq(pipe(there), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves nobody behind
        open_gpu(1);
        unsigned char *p = gpu->memory.alloc(BYTES);
        OK(gpu->fill(p, LENT, BYTES));
        OK(gpu->sync());
        OK(gpu->share(p, share));
        ck_assert_int_eq(write(there[1], share, sizeof *share), (int)sizeof *share);
        for (;;)
            pause();
    }
    close(there[1]);
    ck_assert_int_eq(read(there[0], share, sizeof *share), (int)sizeof *share);
    close(there[0]);
    return child;
}

static void end(pid_t process)
{
    int status;
    ck_assert_int_eq(kill(process, SIGKILL), 0);
    ck_assert_int_eq(waitpid(process, &status, 0), process);
}

static void expect(const void *p, int byte)
{
    unsigned char *seen = gpu_get(gpu, p, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        ck_assert_int_eq(seen[i], byte);
    free(seen);
}

// --- links ---------------------------------------------------------------------------------------

static const struct {
    const char *links, *devices;
    // What GPU 0 and the last one reach, bit by bit; GB/s of 0 from 1 and from the last
    uint64_t first, last;
    float from_next, from_last;
} machines[] = {
    {NULL, "4", 14, 7, 50, 50},       {"full", "2", 2, 1, 50, 50},
    {"none", "4", 0, 0, 0, 0},        {"ring", "4", 10, 5, 25, 25},
    {"ring", "2", 2, 1, 25, 25},      {"ring", "1", 0, 0, 0, 0},
    {"cube", "8", 0x4e, 0x72, 25, 0}, // 0: 1, 2, 3 and 6; 7: 4, 5, 6 and 1
    {"cube", "4", 14, 7, 25, 50},     {"0 12.5; 0 0", "2", 2, 0, 12.5f, 12.5f}, // in one direction
};

// The file, with `text` in it.
static void write_file(char path[32], const char *text)
{
    strcpy(path, "/tmp/links.XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (int)strlen(text));
    close(file);
}

static void report_gpus(struct sl_gpu_report *out)
{
    const struct sl_plugin *plugin;
    OK(sl_plugin_open(&plugin));
    plugin->report(out);
}

LOOP_TEST(links_are_those_of_the_machine, 0, SL_COUNT_OF(machines))
{
    static struct sl_gpu_report report;
    setenv("SLUICE_SIMT_DEVICES", machines[_i].devices, 1);
    if (machines[_i].links)
        setenv("SLUICE_SIMT_LINKS", machines[_i].links, 1);
    report_gpus(&report);
    uint32_t last = report.n - 1;
    ck_assert_int_eq((int)report.n, atoi(machines[_i].devices));
    ck_assert_uint_eq(report.gpu[0].peers, machines[_i].first);
    ck_assert_uint_eq(report.gpu[last].peers, machines[_i].last);
    if (last > 0) {
        ck_assert_float_eq(report.gpu[0].link[1], machines[_i].from_next);
        ck_assert_float_eq(report.gpu[0].link[last], machines[_i].from_last);
    }
    for (uint32_t i = 0; i <= last; i++)
        ck_assert_float_gt(report.gpu[i].link[i], 50); // its own
}

TEST(links_come_from_a_file)
{
    static struct sl_gpu_report report;
    char path[32];
    write_file(path, "0 1 2\n3 0 0\n5 6 0\n");
    setenv("SLUICE_SIMT_DEVICES", "3", 1);
    setenv("SLUICE_SIMT_LINKS", path, 1);
    report_gpus(&report);
    unlink(path);
    ck_assert_float_eq(report.gpu[0].link[2], 2);
    ck_assert_float_eq(report.gpu[1].link[0], 3);
    ck_assert_float_eq(report.gpu[2].link[1], 6);
    ck_assert_uint_eq(report.gpu[1].peers, 1);
}

TEST(memory_that_is_not_reached_is_not_attached)
{
    struct sl_device_share share;
    void *p;
    setenv("SLUICE_SIMT_LINKS", "0 0; 9 0", 1); // 1 reads 0 alone
    pid_t owner = lend(&share);
    open_gpu(0);
    ck_assert_int_eq(gpu->attach(&share, &p), SL_EUNSUPPORTED);
    ck_assert_msg(strstr(sl_error_message(), "peer access is not supported"), "%s",
                  sl_error_message());
    OK(gpu->sync()); // which costs nothing else
    end(owner);
}

TEST(memory_of_ones_own_gpu_needs_no_link)
{
    struct sl_device_share share;
    void *p;
    setenv("SLUICE_SIMT_LINKS", "none", 1);
    pid_t owner = lend(&share);
    open_gpu(1);
    OK(gpu->attach(&share, &p));
    expect(p, LENT);
    gpu->detach(p);
    end(owner);
}

// --- bytes ---------------------------------------------------------------------------------------

TEST(bytes_of_peers_are_counted_by_device)
{
    // 4 and 2 bytes an element; both builds know of copies, the checked one of kernels
    enum { ROWS = 3, DIM = 20, N = 50, COPIED = 100 };
    static const enum sl_dtype types[] = {SL_DTYPE_F32, SL_DTYPE_F16};
    struct simt_counts before, after;
    struct sl_device_share share;
    const struct sl_plugin *plugin;
    uint32_t rows[N];
    unsigned char seen[COPIED];
    char path[4200];
    void *p;
    ck_assert(gpu_find(path, sizeof path));
    strcpy(strrchr(path, '.'), "_checked.so");
    setenv("SLUICE_CUDA_PLUGIN", path, 1);
    pid_t owner = lend(&share);
    open_gpu(0);
    OK(sl_plugin_open(&plugin));
    OK(gpu->attach(&share, &p));
    for (uint32_t i = 0; i < N; i++)
        rows[i] = i % ROWS;
    uint32_t *there = gpu_put(gpu, rows, sizeof rows);
    float *out = gpu->memory.alloc(N * DIM * sizeof *out),
          *pinned = gpu->host_alloc(ROWS * DIM * 4);
    ck_assert(out && pinned);
    memset(pinned, 0, ROWS * DIM * 4);
    for (size_t type = 0; type < SL_COUNT_OF(types); type++) {
        uint64_t bytes = N * DIM * sl_dtype_bytes(types[type]);
        ck_assert(gpu_counts(&before));
        OK(plugin->kernels->gather_rows(p, types[type], ROWS, DIM, there, N, out));
        OK(gpu->sync());
        ck_assert(gpu_counts(&after));
        ck_assert_uint_eq(after.peer_bytes[1] - before.peer_bytes[1], bytes);
        ck_assert_uint_eq(after.mapped_bytes - before.mapped_bytes, 0);
        OK(plugin->kernels->gather_rows(pinned, types[type], ROWS, DIM, there, N, out));
        OK(gpu->copy(seen, p, COPIED));
        OK(gpu->sync());
        ck_assert(gpu_counts(&before));
        ck_assert_uint_eq(before.peer_bytes[1] - after.peer_bytes[1], COPIED);
        ck_assert_uint_eq(before.mapped_bytes - after.mapped_bytes, bytes);
        ck_assert_uint_eq(before.peer_bytes[0], 0);
    }
    end(owner);
}

// --- deaths --------------------------------------------------------------------------------------

// With the processor's protection keys (where it has them) and without.
static void set_keys(int with)
{
    setenv("SLUICE_SIMT_KEYS", with ? "1" : "0", 1);
}

LOOP_TEST(memory_of_a_dead_process_is_rubbish, 0, 2)
{
    struct sl_device_share share, other;
    void *p, *q;
    set_keys(_i);
    pid_t owner = lend(&share), neighbour = lend(&other);
    open_gpu(0);
    OK(gpu->attach(&share, &p));
    OK(gpu->attach(&other, &q));
    expect(p, LENT);
    end(owner);
    expect(p, GONE);
    expect(q, LENT);
    gpu->detach(p);
    ck_assert_int_eq(gpu->attach(&share, &p), SL_EUNSUPPORTED);
    gpu->detach(q);
    OK(gpu->sync());
    end(neighbour);
}

// Another process with memory that it frees when it is told to.
static pid_t lend_and_free(struct sl_device_share *share, int *tell)
{
    int there[2], back[2];
    char byte;
    ck_assert_int_eq(pipe(there), 0);
    ck_assert_int_eq(pipe(back), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        open_gpu(1);
        unsigned char *p = gpu->memory.alloc(BYTES);
        OK(gpu->share(p, share));
        ck_assert_int_eq(write(there[1], share, sizeof *share), (int)sizeof *share);
        ck_assert_int_eq(read(back[0], &byte, 1), 1);
        gpu->memory.free(p, BYTES);
        gpu->trim();
        _exit(0);
    }
    ck_assert_int_eq(read(there[0], share, sizeof *share), (int)sizeof *share);
    *tell = back[1];
    return child;
}

LOOP_TEST(memory_that_is_freed_while_it_is_open_is_told, 0, 2)
{
    const bool closes = _i;
    struct sl_device_share share;
    int tell, status;
    void *p;
    pid_t owner = lend_and_free(&share, &tell);
    open_gpu(0);
    OK(gpu->attach(&share, &p));
    ck_assert(gpu->is_open(p));
    if (closes)
        gpu->detach(p);
    ck_assert(gpu->is_open(p) != closes);
    ck_assert_int_eq(write(tell, "", 1), 1);
    ck_assert_int_eq(waitpid(owner, &status, 0), owner);
    if (closes)
        ck_assert_int_eq(status, 0);
    else
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(memory_that_is_closed_first_is_of_no_concern)
{
    struct sl_device_share share;
    void *p;
    setenv("SLUICE_SIMT_DEAD", "fault", 1);
    pid_t owner = lend(&share);
    open_gpu(0);
    OK(gpu->attach(&share, &p));
    gpu->detach(p);
    end(owner);
    p = gpu->memory.alloc(BYTES);
    OK(gpu->fill(p, 1, BYTES));
    expect(p, 1);
}

LOOP_TEST(a_copy_of_a_dead_process_s_memory_can_lose_the_device, 0, 2)
{
    struct sl_device_share share;
    unsigned char seen[16];
    void *p;
    set_keys(_i);
    setenv("SLUICE_SIMT_DEAD", "fault", 1);
    pid_t owner = lend(&share);
    open_gpu(0);
    OK(gpu->attach(&share, &p));
    end(owner);
    void *own = gpu->memory.alloc(BYTES);
    OK(gpu->fill(own, 1, BYTES));
    expect(own, 1); // nothing is lost by its being open
    int rc = gpu->copy(seen, p, sizeof seen);
    ck_assert_int_eq(rc == SL_OK ? gpu->sync() : rc, SL_EDEVICE);
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
}

// --- in a kernel ---------------------------------------------------------------------------------

struct killer {
    volatile uint32_t *stage;
    pid_t process;
};

// While the kernel is between its two blocks.
static void *kill_in_between(void *context)
{
    const struct killer *k = context;
    while (*k->stage != 1)
        sched_yield();
    end(k->process);
    *k->stage = 2;
    return NULL;
}

// What two blocks read of a word of the memory of a process that is killed between them.
static int read_around_a_death(uint32_t seen[2])
{
    struct sl_device_share share;
    void *p;
    pthread_t thread;
    simt_read_twice read_twice = NULL;
    pid_t owner = lend(&share);
    open_gpu(0);
    void *library = dlopen(sl_plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(library);
    *(void **)&read_twice = dlsym(library, SIMT_READ_TWICE_SYMBOL);
    ck_assert_ptr_nonnull(read_twice);
    OK(gpu->attach(&share, &p));
    uint32_t *out = gpu->memory.alloc(2 * sizeof *out);
    struct killer killer = {gpu->host_alloc(sizeof(uint32_t)), owner};
    ck_assert(out && killer.stage);
    *killer.stage = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, kill_in_between, &killer), 0);
    int rc = read_twice(p, out, killer.stage);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (rc == 0) {
        OK(gpu->copy(seen, out, 2 * sizeof *seen));
        OK(gpu->sync());
    }
    return rc;
}

LOOP_TEST(a_kernel_reads_rubbish_when_the_owner_dies, 0, 2)
{
    uint32_t seen[2];
    set_keys(_i);
    ck_assert_int_eq(read_around_a_death(seen), 0);
    ck_assert_uint_eq(seen[0], 0x01010101u * LENT);
    ck_assert_uint_eq(seen[1], 0x01010101u * GONE);
}

LOOP_TEST(a_kernel_can_fault_when_the_owner_dies, 0, 2)
{
    enum { ILLEGAL_ADDRESS = 700 };
    uint32_t seen[2];
    set_keys(_i);
    setenv("SLUICE_SIMT_DEAD", "fault", 1);
    ck_assert_int_eq(read_around_a_death(seen), ILLEGAL_ADDRESS);
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
}

static bool is_emulated(void)
{
    char path[4200];
    return gpu_find(path, sizeof path);
}

RUN_TESTS(.setup = set_up, .timeout_s = 60, .needs = is_emulated,
          .skipped = "there is no emulated GPU")

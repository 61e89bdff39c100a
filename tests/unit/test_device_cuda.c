/*
 * The GPU as a device (kernels/cuda/{runtime,memory,mapping,plugin}.cu), through the plug-in for
 * the emulated GPU (tests/simt): each test is a process of its own and opens the GPU that it needs.
 */
#include "tests/unit/gpu_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

#define MIB ((size_t)1 << 20)

static char plugin_path[4200];
static const struct sl_device *gpu;

static void set_up(void)
{
    unsetenv("SLUICE_SIMT_FAIL");
    unsetenv("SLUICE_SIMT_DEVICES");
    unsetenv("SLUICE_SIMT_MEMORY");
    unsetenv("SLUICE_SIMT_READ_ONLY");
    unsetenv("SLUICE_NVML");
    unsetenv("FAKE_NVML");
    unsetenv("FAKE_NVML_LINKS");
    unsetenv("SLUICE_SIMT_LINKS");
    setenv("SLUICE_CUDA_PLUGIN", plugin_path, 1);
}

static const struct sl_plugin *plugin(void)
{
    const struct sl_plugin *found = NULL;
    ck_assert_msg(sl_plugin_open(&found) == SL_OK, "%s", sl_error_message());
    return found;
}

static void open_gpu(uint64_t budget)
{
    const struct sl_plugin *p = plugin();
    ck_assert_ptr_null(p->device);
    ck_assert_ptr_null(p->kernels);
    ck_assert_msg(p->open(0, budget) == SL_OK, "%s", sl_error_message());
    ck_assert_ptr_nonnull(p->kernels);
    gpu = p->device;
    ck_assert_str_eq(gpu->kind, "cuda");
    ck_assert(!gpu->is_host);
}

#define OK(expr) ck_assert_msg((expr) == SL_OK, #expr ": %s", sl_error_message())
#define SAYS(words)                                                                                \
    ck_assert_msg(strstr(sl_error_message(), words), "'%s' is not in '%s'", words,                 \
                  sl_error_message())

// ---- what there is ------------------------------------------------------------------------------

TEST(a_report_tells_of_each_gpu)
{
    static struct sl_gpu_report report;
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    setenv("SLUICE_SIMT_MEMORY", "67108864", 1);
    plugin()->report(&report);
    ck_assert_str_eq(report.problem, "");
    ck_assert_uint_eq(report.n, 2);
    ck_assert_uint_gt(report.driver_version, 0);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_gt(strlen(report.gpu[i].name), 0);
        ck_assert_uint_ge(report.gpu[i].major, 8);
        ck_assert_uint_eq(report.gpu[i].total_bytes, 64 * MIB);
        ck_assert_uint_eq(report.gpu[i].free_bytes, 64 * MIB);
        ck_assert_uint_gt(report.gpu[i].processors, 0);
    }
    ck_assert_str_ne(report.gpu[0].bus_id, report.gpu[1].bus_id);
    ck_assert_msg(strstr(report.nccl, "2.28.9, emulated"), "%s", report.nccl);
}

static const struct {
    const char *failure, *words;
} absent[] = {
    {"nodevice", "there is no NVIDIA driver"},
    {"olddriver", "the NVIDIA driver is too old: it supports CUDA 11.4"},
};

LOOP_TEST(without_a_gpu_report_and_open_say_why, 0, SL_COUNT_OF(absent))
{
    static struct sl_gpu_report report;
    setenv("SLUICE_SIMT_FAIL", absent[_i].failure, 1);
    plugin()->report(&report);
    ck_assert_uint_eq(report.n, 0);
    ck_assert_msg(strstr(report.problem, absent[_i].words), "%s", report.problem);
    ck_assert_int_eq(plugin()->open(0, 0), SL_EDEVICE);
    SAYS("GPU 0");
    SAYS(absent[_i].words);
    ck_assert_ptr_null(plugin()->device);
}

TEST(an_index_that_does_not_exist_is_refused_with_those_that_do)
{
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    ck_assert_int_eq(plugin()->open(2, 0), SL_ENOENT);
    SAYS("there is no GPU 2: this process sees 2: 0 (");
    SAYS(", 1 (");
    ck_assert_ptr_null(plugin()->kernels);
    ck_assert_int_eq(plugin()->open(1, 0), SL_OK);
}

TEST(a_process_computes_on_one_gpu)
{
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    open_gpu(0);
    OK(plugin()->open(0, 0));
    ck_assert_int_eq(plugin()->open(1, 0), SL_EINVAL);
    SAYS("GPU 0 already");
}

// ---- what NVML says -----------------------------------------------------------------------------

// Beside the plug-in.
static void name_nvml(char *out, size_t bytes)
{
    snprintf(out, bytes, "%.*s/fake_nvml.so", (int)(strrchr(plugin_path, '/') - plugin_path),
             plugin_path);
    setenv("SLUICE_NVML", out, 1);
}

TEST(load_and_free_memory_are_nvml_s)
{
    static struct sl_gpu_report report;
    char path[PATH_MAX];
    struct sl_device_load load;
    name_nvml(path, sizeof path);
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    setenv("SLUICE_SIMT_MEMORY", "67108864", 1);
    setenv("FAKE_NVML", "37,12,5000000", 1);
    plugin()->report(&report);
    ck_assert_uint_eq(report.gpu[0].free_bytes, 5000000);
    ck_assert_uint_eq(report.gpu[1].free_bytes, 64 * MIB); // it does not know this one
    open_gpu(0);
    ck_assert(gpu->load(&load));
    ck_assert_float_eq(load.busy, 0.37f);
    ck_assert_float_eq(load.memory_busy, 0.12f);
    setenv("FAKE_NVML", "0,100,1", 1);
    ck_assert(gpu->load(&load));
    ck_assert(load.busy == 0 && load.memory_busy == 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_msg(library != NULL, "%s", dlerror());
    ck_assert_int_eq(*(int *)dlsym(library, "fake_nvml_inits"), 1);
    dlclose(library);
}

static const struct {
    const char *library, *says; // library NULL: the fake one
    bool tells_free;
} unknown[] = {
    {"", "", false},          {"/nowhere/libnvidia-ml.so.1", "", false},
    {"libm.so.6", "", false},                          // a driver that is too old
    {NULL, "refuses", false}, {NULL, "slices", false}, // what is free is the whole GPU's
    {NULL, "silent", true},   {NULL, "nonsense", true},
};

LOOP_TEST(what_nvml_does_not_say_is_not_known, 0, SL_COUNT_OF(unknown))
{
    static struct sl_gpu_report report;
    char path[PATH_MAX];
    struct sl_device_load load = {.busy = 7, .memory_busy = 8};
    uint64_t used, total;
    name_nvml(path, sizeof path);
    if (unknown[_i].library)
        setenv("SLUICE_NVML", unknown[_i].library, 1);
    setenv("FAKE_NVML", unknown[_i].says, 1);
    setenv("SLUICE_SIMT_MEMORY", "67108864", 1);
    open_gpu(0);
    for (int i = 0; i < 3; i++)
        ck_assert(!gpu->load(&load));
    ck_assert(load.busy == 7 && load.memory_busy == 8);
    plugin()->report(&report);
    ck_assert_uint_eq(report.gpu[0].free_bytes, (unknown[_i].tells_free ? 512 : 64) * MIB);
    OK(gpu->usage(&used, &total)); // which CUDA says in any case
    ck_assert_uint_eq(used, 0);
    ck_assert_uint_eq(total, 64 * MIB);
}

static const struct {
    const char *links, *says;
    float rate; // GB/s between two GPUs
} linked[] = {
    {"direct", "", 53},                           // three, of which one is down
    {"old", "", 50},       {"switch", "", 79.5f}, // what the one with fewer of them has
    {"pcie", "", 15.752f}, {"nothing", "", 0},    {"direct", "slices", 0},
};

LOOP_TEST(rates_of_links_are_nvml_s, 0, SL_COUNT_OF(linked))
{
    static struct sl_gpu_report report;
    char path[PATH_MAX];
    name_nvml(path, sizeof path);
    setenv("SLUICE_SIMT_DEVICES", "3", 1);
    setenv("FAKE_NVML", linked[_i].says, 1);
    setenv("FAKE_NVML_LINKS", linked[_i].links, 1);
    plugin()->report(&report);
    ck_assert_float_eq_tol(report.gpu[0].link[1], linked[_i].rate, 1e-3);
    ck_assert_float_eq_tol(report.gpu[1].link[0], linked[_i].rate, 1e-3);
    ck_assert_uint_eq(report.gpu[0].peers, 6);
    ck_assert_float_eq(report.gpu[0].link[2], 0);    // which NVML knows not
    ck_assert_float_eq(report.gpu[2].link[2], 1024); // 4096 bits twice a ns
}

TEST(gpus_that_do_not_reach_each_other_have_no_rate)
{
    static struct sl_gpu_report report;
    char path[PATH_MAX];
    name_nvml(path, sizeof path);
    setenv("SLUICE_SIMT_DEVICES", "2", 1);
    setenv("SLUICE_SIMT_LINKS", "none", 1);
    setenv("FAKE_NVML_LINKS", "pcie", 1);
    plugin()->report(&report);
    ck_assert_uint_eq(report.gpu[0].peers, 0);
    ck_assert_float_eq(report.gpu[0].link[1], 0);
}

TEST(cores_have_no_load_of_their_own)
{
    struct sl_device_load load;
    ck_assert(!sl_device_host()->load(&load));
}

// ---- memory -------------------------------------------------------------------------------------

TEST(memory_is_kept_and_steady_use_asks_for_no_more)
{
    static const size_t sizes[] = {1, 300, 5000, 100000, 3 * MIB, 5 * MIB + 77};
    uint64_t before = 0;
    open_gpu(0);
    for (int round = 0; round < 20; round++) {
        void *p[SL_COUNT_OF(sizes)];
        for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
            size_t bytes = sizes[i] - sizes[i] / 64 * (size_t)(round & 1); // a little less
            p[i] = gpu->memory.alloc(bytes);
            ck_assert_msg(p[i] != NULL, "%s", sl_error_message());
            ck_assert_uint_eq((uintptr_t)p[i] % 256, 0);
            OK(gpu->fill(p[i], round, bytes));
            for (size_t j = 0; j < i; j++)
                ck_assert_ptr_ne(p[i], p[j]);
        }
        for (size_t i = 0; i < SL_COUNT_OF(sizes); i++)
            gpu->memory.free(p[i], sizes[i]);
        if (round >= 2)
            ck_assert_uint_eq(gpu->held(), before);
        before = gpu->held();
    }
    ck_assert_uint_ge(before, 8 * MIB);
    ck_assert_uint_le(before, 10 * MIB);
    gpu->trim();
    ck_assert_uint_eq(gpu->held(), 0);
}

TEST(a_budget_is_kept_and_its_message_says_what_to_change)
{
    open_gpu(16 * MIB);
    void *a = gpu->memory.alloc(10 * MIB);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(gpu->memory.alloc(8 * MIB));
    SAYS("no room for 8.0 MiB more");
    SAYS("10.0 MiB of it in use");
    SAYS("its budget (devices[].memory) is 16.0 MiB");
    SAYS("sampler.fanout, evaluate.fanout or cache.ratio, or raise devices[].memory");
    ck_assert_uint_eq(gpu->held(), 10 * MIB);
    // What is kept makes room for another size.
    gpu->memory.free(a, 10 * MIB);
    void *b = gpu->memory.alloc(14 * MIB);
    ck_assert_msg(b != NULL, "%s", sl_error_message());
    ck_assert_uint_eq(gpu->held(), 14 * MIB);
    gpu->memory.free(b, 14 * MIB);
}

TEST(a_full_gpu_says_so)
{
    setenv("SLUICE_SIMT_MEMORY", "33554432", 1); // 32 MiB
    open_gpu(0);
    ck_assert_ptr_null(gpu->memory.alloc(64 * MIB));
    SAYS("no room for 64.0 MiB more");
    SAYS("32.0 MiB are free");
    void *p = gpu->memory.alloc(20 * MIB);
    ck_assert_ptr_nonnull(p); // the next one is judged alone
    OK(gpu->fill(p, 1, 20 * MIB));
    OK(gpu->sync());
}

TEST(a_size_that_overflowed_is_refused)
{
    open_gpu(0);
    ck_assert_ptr_null(gpu->memory.alloc(SIZE_MAX - 5));
    SAYS("overflowed");
}

TEST(space_is_what_the_budget_leaves)
{
    uint64_t free_bytes, total_bytes;
    setenv("SLUICE_SIMT_MEMORY", "67108864", 1);
    open_gpu(24 * MIB);
    void *p = gpu->memory.alloc(4 * MIB);
    OK(gpu->space(&free_bytes, &total_bytes));
    ck_assert_uint_eq(free_bytes, 20 * MIB);
    ck_assert_uint_eq(total_bytes, 24 * MIB);
    gpu->memory.free(p, 4 * MIB);
    OK(gpu->space(&free_bytes, &total_bytes));
    ck_assert_uint_eq(free_bytes, 24 * MIB); // kept memory is as good as free
}

static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 200; i++) {
        size_t bytes = 1 + (size_t)rand_r(&seed) % 200000;
        unsigned char back, *p = gpu->memory.alloc(bytes);
        if (!p || gpu->fill(p, (int)(seed & 0x7f), bytes) < 0 ||
            gpu->copy(&back, p + bytes - 1, 1) < 0 || gpu->sync() < 0 || back != (seed & 0x7f))
            return (void *)1;
        gpu->memory.free(p, bytes);
    }
    return NULL;
}

TEST(threads_share_memory_and_have_queues_of_their_own)
{
    enum { THREADS = 6, ROUNDS = 3 };
    open_gpu(0);
    for (int round = 0; round < ROUNDS; round++) { // queues end with their threads
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
        for (int i = 0; i < THREADS; i++) {
            void *bad;
            pthread_join(threads[i], &bad);
            ck_assert_ptr_null(bad);
        }
    }
    OK(gpu->sync());
    gpu->trim();
    ck_assert_uint_eq(gpu->held(), 0);
}

// ---- copies -------------------------------------------------------------------------------------

TEST(bytes_arrive_both_ways_and_in_rows)
{
    enum { ROWS = 5, COLUMNS = 7, STRIDE = 16 };
    unsigned char from[ROWS * COLUMNS], back[ROWS * COLUMNS] = {0};
    open_gpu(0);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i + 1);
    unsigned char *p = gpu->memory.alloc(ROWS * STRIDE), *q = gpu->memory.alloc(ROWS * STRIDE);
    OK(gpu->fill(p, 0xee, ROWS * STRIDE));
    OK(gpu->copy_2d(p, STRIDE, from, COLUMNS, COLUMNS, ROWS));
    OK(gpu->copy(q, p, ROWS * STRIDE));
    OK(gpu->copy_2d(back, COLUMNS, q, STRIDE, COLUMNS, ROWS));
    OK(gpu->sync());
    ck_assert_mem_eq(back, from, sizeof from);
    OK(gpu->copy(back, q + COLUMNS, STRIDE - COLUMNS));
    OK(gpu->sync());
    for (size_t i = 0; i < STRIDE - COLUMNS; i++)
        ck_assert_uint_eq(back[i], 0xee);
    OK(gpu->copy(p, NULL, 0));
    OK(gpu->fill(NULL, 0, 0));
    OK(gpu->copy_2d(NULL, 0, NULL, 0, 0, 4));
}

TEST(pinned_memory_is_memory)
{
    unsigned char back[100];
    open_gpu(0);
    unsigned char *host = gpu->host_alloc(sizeof back), *p = gpu->memory.alloc(sizeof back);
    ck_assert_ptr_nonnull(host);
    memset(host, 7, sizeof back);
    OK(gpu->copy(p, host, sizeof back));
    OK(gpu->copy(back, p, sizeof back));
    OK(gpu->sync());
    ck_assert_mem_eq(back, host, sizeof back);
    gpu->host_free(host, sizeof back);
    gpu->host_free(NULL, 0);
}

// ---- mapped memory ------------------------------------------------------------------------------

static unsigned char *pages(size_t n)
{
    unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

TEST(mapped_memory_is_used_in_place)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *host = pages(8 * page);
    void *all, *part, *other;
    open_gpu(0);
    memset(host, 3, 8 * page);
    OK(gpu->map(host + page, 4 * page, false, &all));
    OK(gpu->fill(all, 9, 10));
    OK(gpu->sync());
    ck_assert_uint_eq(host[page], 9);
    ck_assert_uint_eq(host[page + 10], 3);
    // A range inside shares it, at any address.
    OK(gpu->map(host + page + 100, 50, true, &part));
    ck_assert_ptr_eq(part, (char *)all + 100);
    // One that reaches over its end cannot.
    ck_assert_int_eq(gpu->map(host + 4 * page, 2 * page, false, &other), SL_EUNSUPPORTED);
    SAYS("overlaps");
    // The first unmap leaves the memory to the other user.
    gpu->unmap(host + page);
    OK(gpu->fill(part, 5, 1));
    OK(gpu->sync());
    ck_assert_uint_eq(host[page + 100], 5);
    gpu->unmap(part);
    OK(gpu->map(host + 4 * page, 2 * page, false, &other)); // now nothing is in the way
    gpu->unmap(other);
    munmap(host, 8 * page);
}

// As the file of a data set: shared, and not to be written.
static unsigned char *file_pages(size_t n)
{
    int fd = memfd_create("data", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)n), 0);
    unsigned char *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    close(fd);
    return p;
}

LOOP_TEST(files_are_used_in_place_where_the_system_knows_how, 0, 2)
{
    static struct sl_gpu_report report;
    const bool knows = _i;
    unsigned char *file = file_pages(MIB), *memory = pages(MIB);
    void *out;
    if (knows)
        setenv("SLUICE_SIMT_READ_ONLY", "1", 1);
    plugin()->report(&report);
    ck_assert(report.gpu[0].maps_files == knows);
    open_gpu(0);
    ck_assert_int_eq(gpu->map(file, MIB, true, &out), knows ? SL_OK : SL_EUNSUPPORTED);
    if (knows) {
        gpu->unmap(file);
    } else {
        SAYS("1.0 MiB of read-only host memory");
        SAYS("mappings of files and read-only memory need support");
    }
    // What the process may write can be lent to be read anywhere, and not lent to be written.
    OK(gpu->map(memory, MIB, true, &out));
    gpu->unmap(memory);
    ck_assert_int_eq(gpu->map(file, MIB, false, &out), SL_EUNSUPPORTED);
    munmap(file, MIB);
    munmap(memory, MIB);
}

TEST(memory_that_can_not_be_pinned_is_refused_with_the_limit)
{
    void *out;
    unsigned char *host = pages(MIB);
    setenv("SLUICE_SIMT_FAIL", "noregister", 1);
    open_gpu(0);
    ck_assert_int_eq(gpu->map(host, MIB, false, &out), SL_ENOMEM);
    SAYS("1.0 MiB of host memory");
    SAYS("ulimit -l");
    // Nothing else is hurt: copies go on.
    unsigned char *p = gpu->memory.alloc(MIB);
    OK(gpu->copy(p, host, MIB));
    OK(gpu->sync());
    munmap(host, MIB);
}

// ---- memory of other processes ------------------------------------------------------------------

TEST(a_share_of_ones_own_is_the_same_pointer)
{
    struct sl_device_share share;
    void *again = NULL;
    open_gpu(0);
    char *p = gpu->memory.alloc(1000);
    OK(gpu->share(p + 64, &share));
    OK(gpu->attach(&share, &again));
    ck_assert_ptr_eq(again, p + 64);
    gpu->detach(again);
    ck_assert_int_eq(gpu->share(&share, &share), SL_EINVAL);
    memset(&share, 0x55, sizeof share);
    ck_assert_int_eq(gpu->attach(&share, &again), SL_EPROTO);
}

// The child opens the GPU by itself, as another worker does, and hands its memory over.
static void lend(int to, int until)
{
    struct sl_device_share share;
    char byte;
    open_gpu(0);
    unsigned char *p = gpu->memory.alloc(4096);
    OK(gpu->fill(p, 42, 4096));
    OK(gpu->sync());
    OK(gpu->share(p + 100, &share));
    ck_assert_int_eq(write(to, &share, sizeof share), (int)sizeof share);
    (void)!read(until, &byte, 1); // until the other one is through
    _exit(0);
}

TEST(another_process_reads_what_was_shared)
{
    int there[2], back[2], status;
    struct sl_device_share share;
    unsigned char seen[16];
    void *p = NULL;
    ck_assert_int_eq(pipe(there), 0);
    ck_assert_int_eq(pipe(back), 0);
    pid_t child = fork();
    if (child == 0) {
        close(back[1]);
        lend(there[1], back[0]);
    }
    close(back[0]);
    close(there[1]);
    ck_assert_int_eq(read(there[0], &share, sizeof share), (int)sizeof share);
    open_gpu(0);
    int rc = gpu->attach(&share, &p);
    if (rc == SL_EUNSUPPORTED) {
        printf("SKIP: memory is not shared between processes here: %s\n", sl_error_message());
    } else {
        ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
        OK(gpu->copy(seen, p, sizeof seen));
        OK(gpu->sync());
        for (size_t i = 0; i < sizeof seen; i++)
            ck_assert_uint_eq(seen[i], 42);
        gpu->detach(p);
    }
    close(back[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

// ---- faults -------------------------------------------------------------------------------------

TEST(a_fault_sticks)
{
    uint64_t free_bytes, total_bytes;
    unsigned char host[16] = {0};
    struct sl_device_share share;
    void *out;
    setenv("SLUICE_SIMT_FAIL", "sync:2", 1);
    open_gpu(0);
    void *p = gpu->memory.alloc(16), *pinned = gpu->host_alloc(16);
    int rc = SL_OK;
    for (int i = 0; i < 3 && rc == SL_OK; i++)
        rc = gpu->sync();
    ck_assert_int_eq(rc, SL_EDEVICE);
    SAYS("cudaErrorIllegalAddress");
    SAYS("GPU 0");
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
    SAYS("has faulted before");
    SAYS("cudaErrorIllegalAddress");
    ck_assert_int_eq(gpu->copy(p, host, 16), SL_EDEVICE);
    ck_assert_int_eq(gpu->copy_2d(p, 4, host, 4, 4, 4), SL_EDEVICE);
    ck_assert_int_eq(gpu->fill(p, 0, 16), SL_EDEVICE);
    ck_assert_ptr_null(gpu->memory.alloc(16));
    ck_assert_ptr_null(gpu->host_alloc(16));
    ck_assert_int_eq(gpu->map(host, 16, false, &out), SL_EDEVICE);
    ck_assert_int_eq(gpu->space(&free_bytes, &total_bytes), SL_EDEVICE);
    ck_assert_int_eq(gpu->share(p, &share), SL_EDEVICE);
    // What a process releases on its way out is harmless.
    gpu->memory.free(p, 16);
    gpu->host_free(pinned, 16);
    gpu->unmap(host);
    gpu->detach(p);
    gpu->trim();
}

static void *sync_only(void *out)
{
    *(int *)out = gpu->sync();
    return NULL;
}

TEST(a_fault_is_every_threads)
{
    pthread_t thread;
    int rc = SL_OK;
    setenv("SLUICE_SIMT_FAIL", "sync:1", 1);
    open_gpu(0);
    ck_assert_int_eq(gpu->sync(), SL_EDEVICE);
    ck_assert_int_eq(pthread_create(&thread, NULL, sync_only, &rc), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(rc, SL_EDEVICE);
}

// What bounds on waits and copies elsewhere are measured with (tests/simt/counts.h).
TEST(what_is_asked_of_the_gpu_is_counted)
{
    enum { BYTES = 1000, COLUMNS = 10, ROWS = 3 };
    char pageable[BYTES] = {0};
    struct simt_counts before, after;
    open_gpu(0);
    char *pinned = gpu->host_alloc(BYTES), *there = gpu->memory.alloc(2 * BYTES);
    ck_assert(pinned && there && gpu_counts(&before));
    memset(pinned, 1, BYTES);
    ck_assert_int_eq(gpu->copy(there, pinned, BYTES), SL_OK);
    ck_assert_int_eq(gpu->copy(there, pageable, BYTES - 1), SL_OK);
    ck_assert_int_eq(gpu->copy(there + BYTES, there, BYTES), SL_OK);
    ck_assert_int_eq(gpu->fill(there, 7, BYTES), SL_OK);
    ck_assert_int_eq(gpu->copy(pageable, there, BYTES - 2), SL_OK);
    ck_assert_int_eq(gpu->copy_2d(pinned, COLUMNS, there, 2 * COLUMNS, COLUMNS, ROWS), SL_OK);
    ck_assert_int_eq(gpu->sync(), SL_OK);
    ck_assert(gpu_counts(&after));
    ck_assert_uint_eq(after.waits - before.waits, 1);
    ck_assert_uint_eq(after.stops - before.stops, 0);
    ck_assert_uint_eq(after.launches - before.launches, 0);
    ck_assert_uint_eq(after.fills - before.fills, 1);
    ck_assert_uint_eq(after.pinned_to - before.pinned_to, 1);
    ck_assert_uint_eq(after.pinned_to_bytes - before.pinned_to_bytes, BYTES);
    ck_assert_uint_eq(after.pageable_to - before.pageable_to, 1);
    ck_assert_uint_eq(after.pageable_to_bytes - before.pageable_to_bytes, BYTES - 1);
    ck_assert_uint_eq(after.within - before.within, 1);
    ck_assert_uint_eq(after.within_bytes - before.within_bytes, BYTES);
    ck_assert_uint_eq(after.pageable_from - before.pageable_from, 1);
    ck_assert_uint_eq(after.pageable_from_bytes - before.pageable_from_bytes, BYTES - 2);
    ck_assert_uint_eq(after.pinned_from - before.pinned_from, 1);
    ck_assert_uint_eq(after.pinned_from_bytes - before.pinned_from_bytes, COLUMNS * ROWS);
    gpu->memory.free(there, 2 * BYTES);
    gpu->host_free(pinned, BYTES);
    ck_assert(gpu_counts(&before));
    ck_assert_uint_eq(before.stops - after.stops, 1); // pinned memory alone is given back
}

static bool is_emulated(void)
{
    return gpu_find(plugin_path, sizeof plugin_path);
}

RUN_TESTS(.setup = set_up, .timeout_s = 30, .needs = is_emulated,
          .skipped = "there is no emulated GPU")

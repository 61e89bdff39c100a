/*
 * nccl.cc - NCCL for emulated GPUs: sums among processes of one machine, by the C interface that
 * kernels/cuda/nccl_api.h declares.
 *
 * MEETING. A group's name says process and descriptor of a file in memory (memfd) of the process
 * that made it, and a random number that stands in the file too. The others open it through /proc,
 * so nothing is left behind, whoever is killed. Everybody takes the seat of its rank; the
 * communicator is ready once all seats are taken.
 *
 * A SUM is an operation of the stream (runtime.cc). When its turn comes it
 *
 *      waits until all have read the last sum's parts,
 *      writes its part, in its own place of the file, and says so (`published`),
 *      waits until all have, adds them in the order of the ranks and says so (`taken`).
 *
 * Every step is tried, never waited for. So the file has one part of each rank, as large as the
 * largest sum, and everybody gets the same bits.
 *
 * HARD CASES are the rule: calls only start something, and on a lazy stream a sum is put into the
 * stream when ncclCommGetAsyncError() is asked for the second time, as if another thread did it.
 * That a peer is gone is never noticed, unless SLUICE_SIMT_NCCL says remote_error. Of two ranks on
 * one GPU each says so, and others wait for ever.
 */
#include "kernels/cuda/nccl_api.h"
#include "tests/simt/internal.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

using namespace simt;

namespace {

enum { RANKS_MAX = 64, VERSION = 22809, TABLE_BYTES = 64 << 10, CHUNK = 4096 };
const uint64_t ID_MAGIC = 0x53494d544e43434cull;
const uint64_t PART_BYTES = 1ull << 36; // of addresses in the file, which has holes

// What stands in the group's name.
struct address {
    uint64_t magic, number;
    int32_t pid, file;
};

struct seat {
    std::atomic<int32_t> pid; // 0: nobody yet; released last
    int32_t device;
    uint64_t count;                         // floats of the part; before `published`
    std::atomic<uint64_t> published, taken; // sums, from 1
    std::atomic<uint32_t> has_left;
};

struct table {
    uint64_t number;
    std::atomic<uint32_t> n; // ranks; 0: nobody has come
    seat seats[RANKS_MAX];
};
static_assert(sizeof(table) <= TABLE_BYTES, "the table is before the parts");

// What a communicator and its operations share.
struct meeting {
    int file = -1;
    table *shared = NULL; // NULL: the name leads nowhere
    int rank = 0, n = 0;
    bool has_met = false, is_over = false;
    uint64_t number = 0;              // of its name
    uint64_t given = 0, finished = 0; // sums
    int result = SL_NCCL_SUCCESS;     // what stays
    std::function<bool()> later;      // a sum that is not in its stream yet
    cudaStream_t stream = NULL;       // which it goes to
    bool was_seen = false;            // `later` was asked about

    ~meeting()
    {
        if (shared)
            munmap(shared, TABLE_BYTES);
        if (file >= 0)
            close(file);
    }
};

char last_words[256];
long init_calls;
address own; // of the last name that this process made; its file is open

int say(int result, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int say(int result, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last_words, sizeof last_words, fmt, ap);
    va_end(ap);
    return result;
}

table *map_table(int file)
{
    struct stat found;
    if (fstat(file, &found) != 0 || found.st_size < TABLE_BYTES)
        return NULL;
    void *p = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return p == MAP_FAILED ? NULL : static_cast<table *>(p);
}

// ---- meeting ------------------------------------------------------------------------------------

// Follows the name; leaves `shared` NULL where its maker is gone or has given the group up.
void follow(meeting &m, const address &to)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", to.pid, to.file);
    m.number = to.number;
    m.file = open(path, O_RDWR | O_CLOEXEC);
    if (m.file < 0)
        return;
    m.shared = map_table(m.file);
    if (!m.shared || m.shared->number == to.number)
        return;
    munmap(m.shared, TABLE_BYTES);
    m.shared = NULL;
}

int take_seat(meeting &m)
{
    uint32_t none = 0;
    int32_t nobody = 0;
    if (!m.shared)
        return SL_NCCL_SUCCESS; // it will wait
    if (!m.shared->n.compare_exchange_strong(none, (uint32_t)m.n) && none != (uint32_t)m.n)
        return say(SL_NCCL_INTERNAL_ERROR, "Bootstrap Root : mismatch in rank count, %d vs %u", m.n,
                   none);
    seat &mine = m.shared->seats[m.rank];
    // Taken in two steps, so that whoever sees the process sees the device too.
    if (!mine.pid.compare_exchange_strong(nobody, -1))
        return say(SL_NCCL_INTERNAL_ERROR,
                   "Bootstrap Root : rank %d of %d ranks has already checked in", m.rank, m.n);
    mine.device = current_device();
    mine.pid.store(getpid());
    return SL_NCCL_SUCCESS;
}

bool is_gone(const seat &s)
{
    int32_t pid = s.pid.load();
    if (pid <= 0)
        return false;
    if (s.has_left.load())
        return true;
    int file = (int)syscall(SYS_pidfd_open, pid, 0);
    if (file < 0)
        return true;
    pollfd look = {file, POLLIN, 0};
    bool gone = ::poll(&look, 1, 0) > 0; // readable once it has ended, reaped or not
    close(file);
    return gone;
}

bool all_are_there(const meeting &m)
{
    for (int r = 0; m.shared && r < m.n; r++)
        if (m.shared->seats[r].pid.load() <= 0)
            return false;
    return m.shared != nullptr;
}

// What there is to say of the others while something is under way. Whoever was there when the last
// one came, or has given its part of the sum, is no longer needed: it may do so and end between two
// looks, so that it is gone is looked at first.
int look_at_peers(meeting &m)
{
    if (!settings().remote_error)
        return SL_NCCL_IN_PROGRESS;
    if (!m.shared)
        return m.result = say(SL_NCCL_REMOTE_ERROR, "socketPollConnect: connection refused");
    for (int r = 0; r < m.n; r++) {
        const seat &s = m.shared->seats[r];
        if (r != m.rank && is_gone(s) &&
            (m.has_met ? s.published.load() < m.given : !all_are_there(m)))
            return m.result = say(SL_NCCL_REMOTE_ERROR,
                                  "socketProgress: Connection closed by remote peer, rank %d", r);
    }
    return SL_NCCL_IN_PROGRESS;
}

int meet(meeting &m)
{
    if (!all_are_there(m))
        return look_at_peers(m);
    const seat *seats = m.shared->seats;
    for (int r = 0; r < m.n; r++)
        if (r != m.rank && seats[r].device == seats[m.rank].device)
            return m.result = say(SL_NCCL_INVALID_USAGE,
                                  "Duplicate GPU detected : rank %d and rank %d both on CUDA "
                                  "device %x",
                                  m.rank, r, (unsigned)seats[r].device);
    m.has_met = true;
    return SL_NCCL_SUCCESS;
}

// ---- sums ---------------------------------------------------------------------------------------

long in_flight; // all-reduces that are neither over nor given up; guarded by lock()

struct sum {
    std::shared_ptr<meeting> m;
    const float *in;
    float *out;
    uint64_t count, number;
    bool is_published;
};

off_t place_of(int rank, uint64_t at)
{
    return (off_t)(TABLE_BYTES + (uint64_t)rank * PART_BYTES + at * sizeof(float));
}

void write_part(const sum &s)
{
    const char *from = reinterpret_cast<const char *>(s.in);
    off_t to = place_of(s.m->rank, 0);
    window open;
    for (size_t left = s.count * sizeof(float); left > 0;) {
        ssize_t n = pwrite(s.m->file, from, left, to);
        if (n <= 0)
            report("SYSTEM", "a part of a sum cannot be written: %m");
        from += n;
        to += n;
        left -= (size_t)n;
    }
}

void read_part(const sum &s, int rank, uint64_t at, uint64_t n, float *out)
{
    if (pread(s.m->file, out, n * sizeof(float), place_of(rank, at)) !=
        (ssize_t)(n * sizeof(float)))
        report("SYSTEM", "a part of a sum cannot be read: %m");
}

void add_parts(const sum &s)
{
    static float total[CHUNK], part[CHUNK]; // under the lock
    for (uint64_t at = 0; at < s.count; at += CHUNK) {
        uint64_t n = std::min<uint64_t>(CHUNK, s.count - at);
        read_part(s, 0, at, n, total);
        for (int r = 1; r < s.m->n; r++) {
            read_part(s, r, at, n, part);
            for (uint64_t i = 0; i < n; i++)
                total[i] += part[i];
        }
        window open;
        memcpy(s.out + at, total, n * sizeof *total);
    }
}

// The next steps of a sum, as far as the others let it. Returns whether it is over.
bool proceed(sum &s)
{
    meeting &m = *s.m;
    if (m.is_over)
        return true;
    seat *seats = m.shared->seats;
    if (!s.is_published) {
        for (int r = 0; r < m.n; r++)
            if (seats[r].taken.load() + 1 < s.number)
                return false;
        write_part(s);
        seats[m.rank].count = s.count;
        seats[m.rank].published.store(s.number);
        s.is_published = true;
    }
    for (int r = 0; r < m.n; r++)
        if (seats[r].published.load() < s.number)
            return false;
    for (int r = 0; r < m.n; r++)
        if (seats[r].count != s.count)
            report("NCCL", "sum %llu is of %llu numbers on rank %d, of %llu on rank %d",
                   (unsigned long long)s.number, (unsigned long long)s.count, m.rank,
                   (unsigned long long)seats[r].count, r);
    add_parts(s);
    seats[m.rank].taken.store(s.number);
    m.finished = s.number;
    in_flight--;
    return true;
}

void check_array(const void *p, uint64_t count, const char *what)
{
    char where[256];
    const range *r = find_range(p);
    if (r && (r->kind == RANGE_DEVICE || r->kind == RANGE_PEER) &&
        r->end - (uintptr_t)p >= count * sizeof(float))
        return;
    describe_address(p, where, sizeof where);
    report("NCCL", "a sum of %llu numbers has its %s at %s: wanted as much device memory",
           (unsigned long long)count, what, where);
}

} // namespace

struct sl_nccl_comm {
    std::shared_ptr<meeting> m;
};

// ---- the interface ------------------------------------------------------------------------------

void simt::refuse_in_a_sum(const char *what)
{
    if (in_flight > 0)
        report("WAIT IN A SUM",
               "%s may wait for the whole device while an all-reduce is in flight: if a peer is "
               "dead it never returns",
               what);
}

bool simt_nccl_is_there()
{
    return !settings().no_nccl;
}

int ncclGetVersion(int *version)
{
    *version = settings().nccl_version ? (int)settings().nccl_version : VERSION;
    return SL_NCCL_SUCCESS;
}

int ncclGetUniqueId(sl_nccl_id *id)
{
    std::lock_guard<big_lock> hold(lock());
    address made = {ID_MAGIC, 0, getpid(), memfd_create("simt-nccl", MFD_CLOEXEC)};
    table *t = NULL;
    if (made.file >= 0 && ftruncate(made.file, TABLE_BYTES) == 0)
        t = map_table(made.file);
    if (!t || getrandom(&made.number, sizeof made.number, 0) != sizeof made.number)
        report("OUT OF MEMORY", "no file in memory for a group: %m");
    t->number = made.number;
    munmap(t, TABLE_BYTES);
    if (own.magic && own.pid == made.pid)
        close(own.file); // whoever comes too late finds nothing
    own = made;
    memset(id, 0, sizeof *id);
    memcpy(id, &made, sizeof made);
    return SL_NCCL_SUCCESS;
}

static int check_init(int n, const address &to, int rank, const sl_nccl_config *config)
{
    if (device_error())
        return say(SL_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure '%s'",
                   cudaGetErrorString(device_error()));
    if (!config || config->magic != SL_NCCL_CONFIG_MAGIC || config->size < sizeof *config ||
        config->version < (unsigned)SL_NCCL_CONFIG_VERSION)
        return say(SL_NCCL_INVALID_ARGUMENT,
                   "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (config->blocking != 0)
        return say(SL_NCCL_INVALID_ARGUMENT, "the emulation has no blocking communicators");
    if (n < 1 || n > RANKS_MAX || rank < 0 || rank >= n)
        return say(SL_NCCL_INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank, n);
    if (to.magic != ID_MAGIC)
        return say(SL_NCCL_INVALID_ARGUMENT, "the name of the group is not NCCL's");
    if (++init_calls == settings().fail_init)
        return say(SL_NCCL_SYSTEM_ERROR,
                   "Call to connect failed : Resource temporarily unavailable");
    return SL_NCCL_SUCCESS;
}

// A library's own thread may follow the address when the caller's function is over.
static void check_place(sl_nccl_comm **out)
{
    pthread_attr_t mine;
    void *stack = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &mine) != 0)
        return;
    pthread_attr_getstack(&mine, &stack, &bytes);
    pthread_attr_destroy(&mine);
    if ((uintptr_t)out - (uintptr_t)stack < bytes)
        report("NCCL", "the communicator is to be written to %p, in a thread's stack",
               static_cast<void *>(out));
}

int ncclCommInitRankConfig(sl_nccl_comm **out, int n, sl_nccl_id id, int rank,
                           sl_nccl_config *config)
{
    std::lock_guard<big_lock> hold(lock());
    address to;
    check_place(out);
    *out = NULL;
    memcpy(&to, &id, sizeof to);
    if (int bad = check_init(n, to, rank, config))
        return bad;
    std::shared_ptr<meeting> m = std::make_shared<meeting>();
    m->rank = rank;
    m->n = n;
    follow(*m, to);
    m->result = take_seat(*m);
    *out = new sl_nccl_comm{m};
    return SL_NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(sl_nccl_comm *comm, int *result)
{
    std::lock_guard<big_lock> hold(lock());
    meeting &m = *comm->m;
    *result = m.result;
    if (m.result != SL_NCCL_SUCCESS)
        return SL_NCCL_SUCCESS;
    if (!m.has_met) {
        *result = meet(m);
    } else if (m.later && !m.was_seen) {
        m.was_seen = true;
        *result = SL_NCCL_IN_PROGRESS;
    } else if (m.later) {
        give_waiting(m.stream, std::move(m.later));
        m.later = nullptr;
        *result = SL_NCCL_IN_PROGRESS;
    } else if (m.finished < m.given && look_at_peers(m) != SL_NCCL_IN_PROGRESS) {
        *result = m.result;
    }
    return SL_NCCL_SUCCESS;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int operation,
                  sl_nccl_comm *comm, void *stream)
{
    std::lock_guard<big_lock> hold(lock());
    std::shared_ptr<meeting> m = comm->m;
    if (m->result != SL_NCCL_SUCCESS)
        return m->result;
    if (!m->has_met || m->later)
        return say(SL_NCCL_INVALID_ARGUMENT,
                   "Attempt to use communicator before the previous operation returned "
                   "ncclSuccess");
    if (type != SL_NCCL_FLOAT32 || operation != SL_NCCL_SUM)
        return say(SL_NCCL_INVALID_ARGUMENT, "the emulation has sums of floats only");
    if (count == 0)
        return SL_NCCL_SUCCESS;
    check_array(in, count, "input");
    check_array(out, count, "output");
    std::shared_ptr<sum> s = std::make_shared<sum>(sum{
        m, static_cast<const float *>(in), static_cast<float *>(out), count, ++m->given, false});
    std::function<bool()> step = [s] { return proceed(*s); };
    in_flight++;
    if (!settings().lazy) {
        give_waiting(static_cast<cudaStream_t>(stream), std::move(step));
        return SL_NCCL_SUCCESS;
    }
    m->stream = static_cast<cudaStream_t>(stream);
    m->later = std::move(step);
    m->was_seen = false;
    return SL_NCCL_IN_PROGRESS;
}

int ncclCommAbort(sl_nccl_comm *comm)
{
    std::lock_guard<big_lock> hold(lock());
    meeting &m = *comm->m;
    m.is_over = true;
    m.later = nullptr;
    in_flight -= (long)(m.given - m.finished);
    if (m.shared && m.shared->seats[m.rank].pid.load() == getpid())
        m.shared->seats[m.rank].has_left.store(1);
    if (own.magic && own.pid == getpid() && own.number == m.number) {
        close(own.file);
        own = {};
    }
    delete comm;
    return SL_NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    return result >= 0 && result <= SL_NCCL_IN_PROGRESS ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(sl_nccl_comm *)
{
    return last_words;
}

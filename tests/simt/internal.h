/*
 * internal.h - what the parts of the emulation share: settings, reports, the running launch.
 *
 * One lock (lock()) guards all of it: launches and calls of the runtime from several threads of the
 * process are done one after the other. A call that waits for another process lets go of it.
 */
#ifndef SL_TESTS_SIMT_INTERNAL_H
#define SL_TESTS_SIMT_INTERNAL_H

#include <functional>
#include <map>
#include <mutex>

#include "tests/simt/counts.h"
#include "tests/simt/simt.h"

namespace simt {

enum { DEVICES_MAX = SIMT_DEVICES_MAX };
enum order { ORDER_FORWARD, ORDER_REVERSE, ORDER_SHUFFLED };

// What the environment says, read once (settings.cc).
struct settings {
    uint64_t seed;
    enum order order; // of blocks and of threads that could run
    bool lazy;        // streams run at synchronisation only, not when they are given work
    size_t memory_bytes;
    int devices;
    const char *links; // between them, or NULL
    bool no_device, old_driver, no_register;
    bool maps_read_only; // memory that the process may only read can be registered
    bool dead_faults;    // memory of a process that has died cannot be read, instead of rubbish
    long fail_malloc, fail_launch, fail_sync; // the Nth call; 0 = none
    bool no_nccl, remote_error;
    long fail_init;         // the Nth ncclCommInitRankConfig(); 0 = none
    long nccl_version;      // what ncclGetVersion() says; 0 = the usual one
    long patience_s;        // how long a call waits for other processes
    const char *registered; // the file that registrations are written to, or NULL
    const char *counts;     // the file that gets a line of counts at the end, or NULL
};
const struct settings &settings();

// A recursive mutex that can be let go of altogether.
class big_lock {
    std::recursive_mutex mutex;
    int depth = 0; // guarded by the mutex

  public:
    void lock()
    {
        mutex.lock();
        depth++;
    }
    void unlock()
    {
        depth--;
        mutex.unlock();
    }
    // However often this thread has it; returned for take().
    int let_go();
    void take(int times);
};
big_lock &lock();

// ---- report.cc ----------------------------------------------------------------------------------

// Says what was found, in which kernel, block and thread, and aborts the process.
[[noreturn]] void report(const char *what, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Names code of the plug-in, as "function (file:line)" where addr2line is found.
void describe_code(const void *address, char *out, size_t bytes);
void catch_faults(); // this thread's SIGSEGV and SIGBUS become reports

// ---- counts.cc ----------------------------------------------------------------------------------

simt_counts &counts(); // under the lock

// ---- runtime.cc ---------------------------------------------------------------------------------

/*
 * An operation that may have to wait for other processes: it is asked again and again, under the
 * lock, until it says that it is over, and all behind it in the stream waits.
 */
void give_waiting(cudaStream_t stream, std::function<bool()> step);
// cudaDeviceSynchronize(), for what waits for the whole device besides.
cudaError_t wait_for_device();

// ---- nccl.cc ------------------------------------------------------------------------------------

// What waits for the whole device, or may: a defect while an all-reduce of the process is in
// flight, which never ends where a peer has died.
void refuse_in_a_sum(const char *what);

// ---- engine.cc ----------------------------------------------------------------------------------

enum { THREADS_MAX = 1024, WARPS_MAX = 32, STACK_BYTES = 256 << 10, SHARED_MAX = 227 << 10 };

// The running launch, block and thread. kernel is NULL outside of kernels.
struct running {
    call *kernel;
    uint32_t launch;                // counts from 1
    uint32_t block;                 // linear
    uint32_t block_epoch;           // barriers that the block has passed
    uint32_t thread;                // linear in the block
    uint32_t warp_epoch[WARPS_MAX]; // __syncwarp()s that each warp has passed
    uintptr_t stack, stack_end;     // of the running thread
};
extern struct running running;

// Runs a kernel to its end.
void execute(call &kernel);
// Ends the running launch where it is, as a fault of the device does: for a signal's handler.
[[noreturn]] void abandon(cudaError_t why);
// The first time that a kernel is named it is loaded.
void note_loaded(const void *function, const char *name);
// What a launch is refused for.
cudaError_t validate(const call &kernel);
unsigned char *dynamic_shared_begin();
void static_shared(unsigned char **begin, unsigned char **end);
// Another thread of the block may go on: called now and then by accesses of the checked build.
void maybe_yield();
uint64_t random_word();

// ---- memory.cc ----------------------------------------------------------------------------------

// While one exists the process may touch device memory.
struct window {
    window();
    ~window();
    static void reopen(); // behind a signal, which closes it where there are protection keys
};

enum range_kind { RANGE_DEVICE, RANGE_PINNED, RANGE_REGISTERED, RANGE_PEER };
struct range {
    uintptr_t begin, end;
    range_kind kind;
    int device;
    bool read_only;
    uint64_t number;      // counts allocations
    bool is_lost = false; // another process's, which is dead, and using it is a fault
};

enum : size_t { PAGE = 4096 };
enum { FREED_BYTE = 0xdb };

struct device {
    uintptr_t begin, end; // its part of the region
    size_t used;
};

struct heap {
    unsigned char *base;
    size_t bytes, touched; // touched: the end of what was ever allocated
    int file;
    device devices[DEVICES_MAX];
    std::map<uintptr_t, range> ranges; // by begin: of all kinds
    uint64_t numbers;
    int windows;
    int key; // memory protection key of the region; -1: the system has none
    cudaError_t lost;
};
heap &the_heap();
// The range that an address is in, or NULL.
const struct range *find_range(const void *p);
bool touches_range(const void *p, size_t bytes);
bool in_region(const void *p);
void describe_address(const void *p, char *out, size_t bytes);
int current_device();
bool device_is_lost();
void lose_device(cudaError_t why);

// What giving memory back begins with: it waits for all that the device does, in whatever stream.
cudaError_t stop_device(const char *what);
void check_all_guards();
// What every call of the runtime fails with: no devices, or a device that has faulted.
cudaError_t device_error();
// Notes an error for cudaGetLastError(), and returns it.
cudaError_t failed(cudaError_t error);

// How every call of the runtime begins.
#define SIMT_ENTRY()                                                                               \
    std::lock_guard<big_lock> hold(lock());                                                        \
    if (cudaError_t error = device_error())                                                        \
    return failed(error)

// ---- links.cc -----------------------------------------------------------------------------------

// Whether one device may use the memory of another one.
bool reaches(int reader, int owner);

// ---- peers.cc -----------------------------------------------------------------------------------

// Takes away the memory of processes that have died. Between blocks too: cheap where there is none.
void drop_the_dead();
// Of an allocation that is about to be freed.
void refuse_to_free_what_is_open(const range &r);
// Whether it is memory that is gone: then the device is lost.
bool is_lost_memory(const void *p);

// ---- check.cc: what is known of accesses --------------------------------------------------------

void check_launch();
void check_fence();
void check_atomic(const void *p, size_t bytes, const void *code);

} // namespace simt

#endif

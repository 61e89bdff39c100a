/*
 * worker.h - what samplers and trainers have in common: start, attach, stop.
 *
 * The broker starts a worker as
 *
 *   sluice-<role> --worker ID --slot N --role-index I --device D --endpoint E
 *                 [--broker PID] [--start N]
 *
 * (--broker: whose death is its own; --start: workers of this role started before it in this job)
 * with inherited descriptors: SL_WORKER_FD_ARENA (a memfd that has no size until the broker has
 * heard from every worker), SL_WORKER_FD_CONFIG (assignment.h), SL_WORKER_FD_DOORBELL
 * (eventfd), SL_WORKER_FD_ACTS (a file that is empty, or as large as the arena's activations and
 * holds them once the arena is there), SL_WORKER_FD_KEY (bus_key.h), and from SL_WORKER_FD_SHARED
 * on a file for each array that the first worker who needs it makes for all (enum sl_shared,
 * shared_array.h). Standard error is a pipe to the broker, which keeps the log.
 *
 * A worker asks the kernel to kill it when its broker dies, says Hello, waits for Attach, maps the
 * arena, says Ready, and works until the abort word or a Stop message. A thread listens to the
 * broker meanwhile.
 */
#ifndef SL_BUS_WORKER_H
#define SL_BUS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/arena.h"
#include "common/bus/assignment.h"
#include "common/bus/bus.h"
#include "common/arena/stats.h"

enum {
    SL_WORKER_FD_ARENA = 3,
    SL_WORKER_FD_CONFIG = 4,
    SL_WORKER_FD_DOORBELL = 5,
    SL_WORKER_FD_ACTS = 6,
    SL_WORKER_FD_KEY = 7,
    SL_WORKER_FD_SHARED = 8,
};

// Arrays that workers share beside the arena.
enum sl_shared {
    SL_SHARED_SUMS, // of weights
    // What GPUs read in the machine's memory where the data set's files cannot be pinned.
    SL_SHARED_FEATURES,
    SL_SHARED_OFFSETS,
    SL_SHARED_DEGREES,
    SL_SHARED_NEIGHBOURS,
    SL_SHARED_COUNT,
};

static inline int sl_worker_fd_shared(enum sl_shared which)
{
    return SL_WORKER_FD_SHARED + (int)which;
}

// The longest that the slowest worker may take to load a data set from a cold disk and be ready.
// It is the broker's to judge, for all of them: what a worker waits for meanwhile (the arena, a
// block to measure with) has no bound of its own; it dies with the broker and is killed by it.
enum { SL_WORKER_START_SECONDS = 900 };

struct sl_worker {
    uint32_t id;         // 1 .. 65535, never reused within a job
    uint32_t slot;       // seat and statistics slot (seat.h)
    uint32_t role_index; // "sampler 0"
    uint32_t device;     // index into the configuration's devices
    char name[32];       // "sampler 0"
    struct sl_assignment told;
    uint64_t start_ns;
    // trainers: measured on the probe block, before Ready
    uint64_t step_bytes, t_train_ns;
    struct sl_arena arena; // mapped after sl_worker_attach
    struct sl_worker_slot *stats;
    struct sl_bus *bus;
    bool ready;                      // has said so
    _Atomic bool stop;               // set by the listening thread
    struct sl_worker_thread *thread; // private
};

// Parses argv, arms the death signal, reads the configuration, connects. Prints nothing but help
// that was asked for: SL_OPTIONS_HELP.
int sl_worker_init(struct sl_worker *w, const char *role, int argc, char **argv);

// Sends Hello (role, worker, pid and load_ns are filled in here), waits for Attach (SL_EABORTED on
// Stop), maps the arena and starts the listening thread.
int sl_worker_attach(struct sl_worker *w, Sl__Control__Hello *hello);

// Says Ready, with what a trainer has measured.
int sl_worker_ready(struct sl_worker *w);

// Tells the broker why this worker cannot go on (the recorded message of `code`), so that it is
// not started again.
void sl_worker_failed(struct sl_worker *w, int code);

void sl_worker_fini(struct sl_worker *w);

/*
 * A worker's whole main(): init, work(ctx), telling the broker why it failed, release(ctx), fini.
 * Returns the exit status: 0 after a stop, 1 after an error.
 *
 * A device that fails under a worker which was ready (SL_EDEVICE) is no reason to end the job: the
 * log says so, and the worker dies as if it had crashed. Its batches are leased again, and it is
 * replaced as often as crashed ones are; a device that is gone for good is then an error of the
 * next one's start.
 */
int sl_worker_main(struct sl_worker *w, const char *role, int argc, char **argv,
                   int (*work)(void *ctx), void (*release)(void *ctx), void *ctx);

#endif

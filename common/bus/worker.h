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
 *
 * An external trainer is a worker like these from its Hello on, in a process that is not the
 * broker's: attach.h brings it its numbers and descriptors. It is left as it is: no signal is sent
 * to it or ignored, nothing is written to its standard error.
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
#include "common/bus/worker_fds.h"
#include "common/arena/stats.h"

// The longest that the slowest worker may take to load a data set from a cold disk and be ready.
// It is the broker's to judge, for all of them: what a worker waits for meanwhile (the arena, a
// block to measure with) has no bound of its own; it dies with the broker and is killed by it.
enum { SL_WORKER_START_SECONDS = 900 };

// The slot of a worker without a seat or statistics: the link of a job over several nodes.
enum { SL_WORKER_NO_SLOT = UINT16_MAX };

// A Note of the broker's, as a link gets it.
struct sl_worker_note {
    uint32_t kind; // Sl__Control__NoteKind
    int32_t status;
    char text[2048];
};

struct sl_worker {
    uint32_t id;         // 1 .. 65535, never reused within a job
    uint32_t slot;       // seat and statistics slot (seat.h)
    uint32_t role_index; // "sampler 0"
    uint32_t device;     // index into the configuration's devices
    char name[32];       // "sampler 0"
    struct sl_assignment told;
    struct sl_worker_fds fd; // an external trainer's own
    bool external;
    int broker_fd;     // external: the connection to the broker, which ends with either of them
    uint64_t until_ns; // external: it waits no longer for Attach; 0: without bound
    // external: asked while it waits for Attach, what is below 0 ends that; may be NULL
    int (*on_wait)(void *ctx);
    void *ctx;
    uint64_t start_ns;
    // trainers: measured on the probe block, before Ready
    uint64_t step_bytes, t_train_ns;
    struct sl_arena arena; // mapped after sl_worker_attach
    struct sl_worker_slot *stats;
    struct sl_bus *bus;
    bool ready;                      // has said so
    _Atomic bool stop;               // set by the listening thread
    _Atomic bool lost;               // ... external trainers: the broker died and ended nothing
    struct sl_worker_thread *thread; // private
};

// Parses argv, arms the death signal, reads the configuration, connects. Prints nothing but help
// that was asked for: SL_OPTIONS_HELP.
int sl_worker_init(struct sl_worker *w, const char *role, int argc, char **argv);

// What is left of it once numbers, name and descriptors are there: connects to the bus, reads the
// job. sl_worker_fini() is needed after an error too.
int sl_worker_open(struct sl_worker *w, const char *role, const char *endpoint);

// External trainers: why the job ended, in the broker's words. Returns buf.
char *sl_worker_end_text(struct sl_worker *w, char *buf, size_t bytes);

// Sends Hello (role, worker, pid and load_ns are filled in here), waits for Attach (SL_EABORTED on
// Stop), maps the arena and starts the listening thread. External trainers: SL_EFAILED with the
// broker's words when the job ends first, SL_ETIMEDOUT.
int sl_worker_attach(struct sl_worker *w, Sl__Control__Hello *hello);

// The two halves of it, for who has other things to do meanwhile. sl_worker_poll_attach() does not
// wait: SL_EAGAIN until the broker has said so.
int sl_worker_hello(struct sl_worker *w, Sl__Control__Hello *hello);
int sl_worker_poll_attach(struct sl_worker *w);

// Says Ready, with what a trainer has measured.
int sl_worker_ready(struct sl_worker *w);

// Links: sends a message of theirs.
int sl_worker_send(struct sl_worker *w, Sl__Control__Envelope *e);
// Links: the next Note of the broker's. False: there is none.
bool sl_worker_take_note(struct sl_worker *w, struct sl_worker_note *out);
// Links: the next question, or answer to one, that the broker has given it for some node, owned by
// the caller (sl_bus_message_free). NULL: there is none.
Sl__Control__Envelope *sl_worker_take_message(struct sl_worker *w);

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

/*
 * gpus.h - which GPUs this machine offers, as `sluice-trainer --devices` reports.
 *
 * The broker and the command line never open CUDA: a process that does holds memory on every GPU,
 * may hang in a broken driver, and must not be forked from. So a child is asked, with a time limit
 * (a driver without a persistence daemon takes seconds for each GPU that it wakes), and what it
 * says is kept: GPUs do not come and go. Only where none was found the question is asked again
 * later (a daemon lives long, and a driver may be loaded meanwhile). Where the child would find no
 * plug-in to open, which is known without it, none is started.
 *
 * TWO WAYS TO WAIT. Commands and the broker of one job have nothing else to do: sl_gpus_known()
 * returns once there is an answer. A daemon has others to serve: it asks, looks now and then
 * whether the child has answered, and keeps requests that need the answer until then
 * (daemon/pending.c). It is the same child, the same limit and the same report.
 *
 * AN ANSWER IS FRESH for good where it has a GPU. Without one it is for ten seconds, or as long as
 * it took to get where that was longer: a driver that hangs is waited for half of the time at most.
 * A child that was killed and does not die (the driver keeps it) is not joined by a second one: "it
 * did not answer" holds until it is gone.
 */
#ifndef SL_BROKER_SHARDING_GPUS_H
#define SL_BROKER_SHARDING_GPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/device/plugin.h"
#include "config/config.h"

enum { SL_GPUS_LIMIT_S = 60, SL_GPUS_PATH_BYTES = 4096 };

struct sl_gpus {
    struct sl_gpu_report report;     // with nothing found, `problem` says why, never empty
    char plugin[SL_GPUS_PATH_BYTES]; // the file of the plug-in; "" = none was found
    bool asked;                      // the child answered: false where it could not even be asked
};

/*
 * A question, and the last answer. Zeroed, nothing is known and nothing was asked. The child lives
 * for SL_GPUS_LIMIT_S seconds at most, or what SLUICE_GPU_SECONDS says (1 to 600).
 */
struct sl_gpus_asking {
    const char *program;  // to ask; NULL: sluice-trainer beside this program
    struct sl_gpus known; // the last answer, if known_ns
    uint64_t known_ns;    // when it came; 0: there was none yet
    uint64_t asked_ns;    // when the last question was asked
    pid_t pid;            // of the child; 0: none. With it:
    bool assumed;         // nobody was: `known` was given, and holds for good
    bool killed;          // its time was over, which is the answer; it only has to die
    int pidfd;            // readable once it has ended; -1: an old kernel
    int answer, errors;   // what it writes
};

// Asks, if nobody is being asked. Does not wait and never fails: that it could not be asked is an
// answer, which is there at once.
void sl_gpus_ask(struct sl_gpus_asking *a);

// Takes what has come. True as long as the answer has not; does not wait.
bool sl_gpus_poll(struct sl_gpus_asking *a);

// The last answer (borrowed, until the next one comes); NULL where it should be asked for (again),
// or is being.
const struct sl_gpus *sl_gpus_fresh(const struct sl_gpus_asking *a);

// Ends a child that is there, without waiting for its end. What is known stays.
void sl_gpus_fini(struct sl_gpus_asking *a);

// What is fresh, or a new answer, waited for; never fails: see `problem`. Kept in this process; of
// its main thread. Borrowed, valid until the next call. Not for a daemon's loop.
const struct sl_gpus *sl_gpus_known(void);

// Has sl_gpus_known() say this and ask nobody: of a dry run for another machine.
void sl_gpus_assume(const struct sl_gpus *gpus);

// Asks for what sl_gpus_known() is to say later, so that there is less to wait for then.
void sl_gpus_expect(void);

// Rates of links that the report does not give, in GB/s: of a GPU's own memory, of a peer's, and of
// the machine's over the bus. Only their proportions decide anything.
enum { SL_GPUS_OWN_GBS = 900, SL_GPUS_PEER_GBS = 25, SL_GPUS_HOST_GBS = 12 };
// GB/s at which GPU `reader` reads the memory of GPU `owner`; 0: it cannot.
double sl_gpus_link(const struct sl_gpu_report *report, uint32_t reader, uint32_t owner);

/*
 * What a job's sums depend on beside the job and the processor: "cores", or the models of the GPUs
 * that may train and the library of their products, "NVIDIA H100 80GB HBM3 (capability 9.0),
 * cuBLASLt 12.8.4". Of several models, or cores beside GPUs, all: "A and B". Returns buf.
 */
enum { SL_GPUS_TRAINERS_BYTES = 512 };
#define SL_GPUS_AND " and "
char *sl_gpus_trainers(const struct sl_config *c, const struct sl_gpu_report *gpus,
                       char buf[SL_GPUS_TRAINERS_BYTES]);

// Whether there is something of a GPU (a driver, a device file, a plug-in that was refused) and yet
// none can be used. A machine without any of that is an ordinary one.
bool sl_gpus_is_odd(const struct sl_gpus *gpus);

// Reads the child's answer (schema sluice.devices/1). SL_EPROTO: it is none.
int sl_gpus_read(const char *text, struct sl_gpus *out);

/*
 * Brings a job together with the GPUs of this machine where it asks for any: sl_config_use_gpus()
 * with sl_gpus_known(), or with `gpus` (only read where it asks for any). note ("" = nothing) is
 * what a user should know of a job that goes on nevertheless: that there is a driver but no GPU
 * can be used, that a budget is more than is free now, that the results depend on who trains
 * what, that trainers will have nothing to do, that workers take turns on a GPU. SL_EINVAL also
 * where updates.exchange wants NCCL and there is none.
 */
enum { SL_GPUS_NOTE_BYTES = 1024 };
int sl_gpus_resolve(struct sl_config *config, const char *origin, char note[SL_GPUS_NOTE_BYTES]);
int sl_gpus_resolve_with(struct sl_config *config, const struct sl_gpus *gpus, bool budgets,
                         const char *origin, char note[SL_GPUS_NOTE_BYTES]);

#endif

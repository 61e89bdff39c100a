/*
 * launch.h - starting the broker of one job: for `sluice run`, and for the daemon.
 *
 * The broker gets a session of its own, so that the terminal's signals reach this process alone,
 * and asks the kernel for a signal when this process dies: a killed command line stops its job.
 * That signal goes by the thread that started it. Where this is a program of the user's, whose
 * threads come and go (a library's), the job has an *owner* instead: the broker is given a pidfd of
 * that process and ends the job once the whole process is gone.
 */
#ifndef SL_BROKER_WORKERS_LAUNCH_H
#define SL_BROKER_WORKERS_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/workers/exit_status.h"
#include "common/bus/attach_protocol.h"
#include "common/bus/bus_key.h"

// What the broker gets when the process that started it dies. It may come more than once: threads
// die one after the other, and each that the kernel hands the child on to tells it again. So it is
// no signal of which a second one says more than the first.
enum { SL_LAUNCH_DEATH_SIGNAL = SIGHUP };

struct sl_launch {
    pid_t pid; // 0 = none
    int pidfd;
    char endpoint[128];
    char key[SL_BUS_KEY_TEXT];
    char attach[SL_ATTACH_PATH_BYTES]; // where external trainers of the job attach
};

// What a broker is told on its command line. Strings are borrowed.
struct sl_launch_job {
    const char *config_json;    // the resolved job
    const char *dataset_record; // of what was validated; NULL: the broker looks itself
    const char *name,
        *output;             // what run_jobs.h finds it by. output NULL: there is no run directory
    const char *report_path; // NULL for none
    const char *resume;      // the checkpoint to go on from, NULL for none
    // The broker itself looks whether there is a checkpoint to go on from, and checks the data set
    // again: the job may have waited for long (the daemon).
    bool checks;
    const char *id;              // the daemon's number of it, NULL for none
    int error_fd;                // its standard error; -1 = this process's
    const char *directory;       // of sluice's programs; NULL: where this program is
    const char *http;            // "PORT" or "ADDRESS:PORT" to serve the page on; NULL for none
    const char *http_token_file; // NULL: the page is read-only
    pid_t owner;    // the job ends when this process does; 0: when the thread that starts it does
    bool http_open; // other users of this machine may see it
    // On several nodes, as a launcher says: how many (0: it does not say), and which this one is.
    bool over_nodes;
    uint32_t nodes, node;
    int keep_fd; // inherited under its number, for MPI; 0 or less: none
};

// Starts the broker that stands beside this program. SL_ESYS, SL_ENOENT with a message.
int sl_launch_broker(const struct sl_launch_job *job, struct sl_launch *out);

void sl_launch_kill(const struct sl_launch *launch);

// Waits up to timeout_ms for its end. True when it has ended; *death says how. Once only.
bool sl_launch_wait(struct sl_launch *launch, int timeout_ms, struct sl_exit_status *death);

#endif

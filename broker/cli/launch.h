/*
 * launch.h - starting the private broker of one `sluice run`.
 *
 * The broker gets a session of its own, so that the terminal's signals reach this process alone,
 * and asks the kernel for SIGTERM when this process dies: a killed command line stops its job.
 */
#ifndef SL_BROKER_CLI_LAUNCH_H
#define SL_BROKER_CLI_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/death.h"

struct sl_launch {
    pid_t pid; // 0 = none
    int pidfd;
    char endpoint[128];
    uint64_t token;
};

// Starts the broker that stands beside this program, with the resolved job; report_path may be
// NULL; job and output are what find_job.h finds it by. SL_ESYS, SL_ENOENT with a message.
int sl_launch_broker(const char *config_json, const char *job, const char *output,
                     const char *report_path, struct sl_launch *out);

void sl_launch_kill(const struct sl_launch *launch);

// Waits up to timeout_ms for its end. True when it has ended; *death says how. Once only.
bool sl_launch_wait(struct sl_launch *launch, int timeout_ms, struct sl_death *death);

#endif

/*
 * trainer_subprocess.h - the model, asked from the command line: `sluice-trainer --predict`,
 * `--describe`.
 *
 * The command line links no model, so the program that does is started beside it and told the job
 * on a memfd. It says Hello with the model's tensors, gets the parameters on another memfd, and
 * reports progress and results in lines on a pipe; the protocol is in trainer/predict.h. It gets
 * SIGTERM when this process dies, and then removes what it began.
 */
#ifndef SL_CLI_TRAINER_SUBPROCESS_H
#define SL_CLI_TRAINER_SUBPROCESS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "broker/rundir/params.h"
#include "common/data/dataset.h"

enum { SL_TRAINER_SUBPROCESS_OPTIONS = 32 };

struct sl_trainer_subprocess {
    pid_t pid; // 0 = none
    int to;    // its standard input; -1 = closed
    int params_fd;
    FILE *from; // its standard output
};

/*
 * The job of a run directory (its config.json) or of a job file, made fit for this machine: what
 * says where it trained (devices, split, schedule, arena, cache) is left out, and `dataset` takes
 * the place of the job's unless it is NULL. *json is owned by the caller.
 */
int sl_trainer_subprocess_job(const char *path, const char *dataset, char **json);
int sl_trainer_subprocess_fit(const char *text, const char *origin, const char *dataset,
                              char **json);

// Whether the job there, a run's config.json, trains on a GPU: its last device does.
int sl_trainer_subprocess_trained(const char *path, bool *on_gpu);

// Starts it on a data set that was validated here, with options such as "--predict",
// NULL-terminated, at most SL_TRAINER_SUBPROCESS_OPTIONS - 4.
int sl_trainer_subprocess_start(struct sl_trainer_subprocess *c, const char *config_json,
                                const struct sl_dataset *dataset, const char *const *options);

// Waits for its Hello.
int sl_trainer_subprocess_hello(struct sl_trainer_subprocess *c, struct sl_params *params);

// Hands it the parameters, (n) floats.
int sl_trainer_subprocess_go(struct sl_trainer_subprocess *c, const float *values, uint64_t n);

/*
 * The next line, without its end: SL_OK, SL_EAGAIN when it has said all and ended well, the error
 * it told, SL_EFAILED when it died, SL_EABORTED after Ctrl-C (sl_interrupt_catch()).
 */
int sl_trainer_subprocess_line(struct sl_trainer_subprocess *c, char *line, size_t bytes);

// All of it for who only wants to know the model's tensors; *params: sl_params_fini().
int sl_trainer_subprocess_describe(const char *config_json, const struct sl_dataset *dataset,
                                   struct sl_params *params);

// Ends it if it still runs; waits for it.
void sl_trainer_subprocess_end(struct sl_trainer_subprocess *c); // safe on a zeroed struct

#endif

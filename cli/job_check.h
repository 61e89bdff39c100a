/*
 * job_check.h - everything about a job that can be known before a process is started: the job file,
 * the data set, whether the results may go where they are to go, whether there is a run to go on
 * with. `sluice run` and `sluice submit` refuse the same things with the same words.
 */
#ifndef SL_CLI_JOB_CHECK_H
#define SL_CLI_JOB_CHECK_H

#include <stdbool.h>

#include "cli/command.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "broker/epochs/judging.h"
#include "broker/rundir/resume.h"
#include "common/data/dataset.h"
#include "common/bus/control.pb-c.h"
#include "config/config.h"

struct sl_job_check {
    // what the user gives
    const char *job, *report, *checkpoint;
    struct sl_text_list set;
    bool quiet, dry_run;
    const struct sl_machine *machine; // that a dry run is for; NULL: this one
    // what came of it
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_judging judging; // by what its evaluations are judged
    char *config_json;         // resolved, as it is sent: epochs may be "auto" there (owned)
    char epochs_note[SL_CONFIG_EPOCHS_TEXT]; // what "auto" of `config` was settled to, and why
    // The nodes that run it together, as a launcher has started them.
    bool over_nodes; // there are several, or may be
    uint32_t nodes;  // how many; 0: it does not say; of a dry run how many there would be
    uint32_t node; // which this is; the others than the first follow it: they say and keep nothing
    char *report_path; // absolute (owned), where it is asked for; else NULL
    struct sl_resume resume;
};

// --set, --report, --checkpoint and --quiet, of a struct sl_job_check.
extern const struct sl_option sl_job_check_options[];

/*
 * Checks. Nothing has a side effect but the record of a data set that was checked. Notes go to
 * standard error unless `quiet`. absolute: data set, output and initial parameters become absolute
 * paths, for a process elsewhere. Every error means that the job cannot run as it is.
 */
int sl_job_check_run(struct sl_job_check *check, bool absolute);
void sl_job_check_fini(struct sl_job_check *check); // safe on a zeroed struct

/*
 * What a command returns for an error of sl_job_check_run(): whatever it was, nothing has been
 * started, and the status is that of a job that cannot run. Prints the message where the status
 * alone would not say so.
 */
int sl_job_check_status(int rc);

// What a command returns for the job's end, which it prints as --quiet and --output say.
int sl_job_check_result(const struct sl_job_check *check, const Sl__Control__Finished *finished,
                        enum sl_output output);

#endif

/*
 * main.c - the `sluice` command: finds the command, prints the one error, exits.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/log.h"
#include "broker/cli/answer.h"
#include "broker/cli/command.h"

static const struct sl_command commands[] = {
    {"run", "run a job in the foreground: progress, then a summary", sl_command_run},
    {"submit", "give a job to the daemon, and look on", sl_command_submit},
    {"ps", "list jobs, and what those that wait are waiting for", sl_command_ps},
    {"logs", "what a job's processes have written", sl_command_logs},
    {"stats", "what a job does: stages, queue, rates, what limits it", sl_command_stats},
    {"stop", "stop jobs: a checkpoint and the report are written", sl_command_stop},
    {"pause", "let a job's workers wait", sl_command_pause},
    {"resume", "let a paused job go on, or one that is over from its checkpoint",
     sl_command_resume},
    {"wait", "wait until jobs are over; their exit status", sl_command_wait},
    {"top", "watch a job: the pipeline live, with keys to steer it", sl_command_top},
    {"scale", "change how many devices of a running job sample and train", sl_command_scale},
    {"trace", "record what every batch of a running job does, for Perfetto", sl_command_trace},
    {"report", "what came out of a run and how it went; --html makes a page of it",
     sl_command_report},
    {"predict", "apply a run's model to a graph: outputs, classes or probabilities",
     sl_command_predict},
    {"embed", "apply a run's model to a graph: a hidden layer's output", sl_command_embed},
    {"generate", "make a synthetic data set", sl_command_generate},
    {"import", "make a data set from files in another format", sl_command_import},
    {"reorder", "number a data set's vertices anew, for locality", sl_command_reorder},
    {"import-weights", "make a run directory of parameters that were trained elsewhere",
     sl_command_import_weights},
    {"inspect", "validate and describe a data set", sl_command_inspect},
    {"schema", "print the JSON Schema of the job file", sl_command_schema},
    {"keygen", "make keys for a daemon that listens on TCP", sl_command_keygen},
    {"doctor", "what this machine offers and what would stop a job", sl_command_doctor},
    {"completion", "print the script that completes commands in bash or zsh",
     sl_command_completion},
    {"complete", NULL, sl_command_complete},
};

// A full disk shows only when standard output is flushed, which may have been done before. A reader
// who has gone does not want the rest.
static int finish_output(int result)
{
    errno = 0;
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || result != SL_EXIT_OK || sl_output_is_closed())
        return result;
    return errno ? sl_fail_errno(SL_EIO, errno, "standard output could not be written")
                 : sl_fail(SL_EIO, "standard output could not be written");
}

int main(int argc, char **argv)
{
    // `sluice ... | head` ends neither a job nor what is being made; see finish_output().
    signal(SIGPIPE, SIG_IGN);
    sl_log_init("sluice");
    int result = sl_isa_init();
    if (result == SL_OK)
        result = sl_command_dispatch(commands, SL_COUNT_OF(commands), argc, argv);
    result = finish_output(result);
    if (result < 0)
        fprintf(stderr, "sluice: %s\n", sl_error_message());
    return sl_exit_status(result);
}

/*
 * main.c - the `sluice` command: finds the command, prints the one error, exits.
 */
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "broker/cli/command.h"

static const struct sl_command commands[] = {
    {"run", "run a job in the foreground: progress, then a summary", sl_command_run},
    {"scale", "change how many devices of a running job sample and train", sl_command_scale},
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
    {"doctor", "what this machine offers and what would stop a job", sl_command_doctor},
};

int main(int argc, char **argv)
{
    sl_log_init("sluice");
    int result = sl_command_dispatch(commands, SL_COUNT_OF(commands), argc, argv);
    // A full disk shows only when standard output is flushed.
    if (fflush(stdout) != 0 && result == SL_EXIT_OK)
        result = sl_fail(SL_EIO, "standard output could not be written");
    if (result < 0)
        fprintf(stderr, "sluice: %s\n", sl_error_message());
    return sl_exit_status(result);
}

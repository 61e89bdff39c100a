/*
 * dataset_command.h - commands that make a data set: the options that all of them have, and what
 * they say at their end: a table for people, or JSON, schema sluice.made/1:
 *
 *   {"schema", "directory", "bytes", "seconds", "metadata" (the data set's metadata.json),
 *    "summary" (the lines of the table as texts)}
 */
#ifndef SL_CLI_DATASET_COMMAND_H
#define SL_CLI_DATASET_COMMAND_H

#include <stdbool.h>

#include "cli/output.h"
#include "dataset/dataset_builder.h"
#include "common/data/dataset.h"

// Of a struct sl_dataset_builder: --out, --force and --name; --quiet.
extern const struct sl_option sl_dataset_command_place[], sl_dataset_command_quiet[];

// After sl_dataset_builder_run(); output: enum sl_output. SL_ENOMEM, SL_ENOENT.
int sl_dataset_command_print(const struct sl_dataset_builder *m, int output);

// --- opening one ---------------------------------------------------------------------------------

// As sl_dataset_open(), by all cores. Unless `quiet`, standard error says how far a pass over more
// than 256 MiB is: a bar on a terminal, elsewhere a line every two seconds.
int sl_dataset_check_open(const char *path, unsigned need, enum sl_dataset_check check, bool quiet,
                          struct sl_dataset *out);

#endif

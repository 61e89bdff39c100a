/*
 * made.h - commands that make a data set: the options that all of them have, and what they say at
 * their end: a table for people, or JSON, schema sluice.made/1:
 *
 *   {"schema", "directory", "bytes", "seconds", "metadata" (the data set's metadata.json),
 *    "summary" (the lines of the table as texts)}
 */
#ifndef SL_BROKER_CLI_MADE_H
#define SL_BROKER_CLI_MADE_H

#include <stddef.h>

#include "broker/cli/answer.h"
#include "dataset/make.h"

enum { SL_MADE_FIRST_OPTIONS = 3, SL_MADE_LAST_OPTIONS = 2 };

// --out, --force and --name; --quiet and --output. Each returns how many it wrote.
size_t sl_made_first_options(struct sl_making *m, struct sl_option *options);
size_t sl_made_last_options(struct sl_making *m, int *output, struct sl_option *options);

// After sl_making_run(); output: enum sl_output. SL_ENOMEM, SL_ENOENT.
int sl_made_print(const struct sl_making *m, int output);

#endif

/*
 * made.h - what a command that makes a data set says at its end: a table for people, or JSON,
 * schema sluice.made/1:
 *
 *   {"schema", "directory", "bytes", "seconds", "metadata" (the data set's metadata.json),
 *    "summary" (the lines of the table as texts)}
 */
#ifndef SL_BROKER_CLI_MADE_H
#define SL_BROKER_CLI_MADE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/cli/answer.h"
#include "broker/cli/table.h"

struct sl_made {
    int output; // enum sl_output
    bool quiet; // no table; JSON all the same
    const char *directory;
    uint64_t bytes;
    double seconds;
};

// `summary` has two columns: what, and the value. SL_ENOMEM, SL_ENOENT.
int sl_made_print(const struct sl_made *made, const struct sl_table *summary);

#endif

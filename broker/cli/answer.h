/*
 * answer.h - what a command that asks something of a job says of it: a line for people, or one of
 * JSON, schema sluice.answer/1:
 *
 *   {"schema", "job", "id" (null for `sluice run`), "ok", "state" (or null), "exit_status" (of a
 *    job that is over, or null), "message"}
 */
#ifndef SL_BROKER_CLI_ANSWER_H
#define SL_BROKER_CLI_ANSWER_H

#include <stdbool.h>

#include "broker/cli/options.h"

enum sl_output { SL_OUTPUT_TEXT, SL_OUTPUT_JSON };

// -o, --output text|json.
struct sl_option sl_output_option(int *output);

struct sl_answer {
    const char *job, *id;   // id "" for none
    const char *state;      // NULL: not known
    const int *exit_status; // NULL: it is not over
    const char *message;
};

// On standard output, which is flushed: whoever reads a pipe has the line at once.
void sl_answer_print(enum sl_output output, const struct sl_answer *a);

// Whether standard output is a pipe that nobody reads any more: `sluice logs -f | head` ends then,
// not when there happens to be another line.
bool sl_output_is_closed(void);

#endif

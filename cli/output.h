/*
 * output.h - what commands print on standard output: lines for people, or JSON.
 *
 * A command that asks something of a job says what came of it in a line, or as sluice.answer/1:
 *
 *   {"schema", "job", "id" (null for `sluice run`), "ok", "state" (or null), "exit_status" (of a
 *    job that is over, or null), "message"}
 */
#ifndef SL_CLI_OUTPUT_H
#define SL_CLI_OUTPUT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "common/text/options.h"

enum sl_output { SL_OUTPUT_TEXT, SL_OUTPUT_JSON };

extern const char *const sl_output_names[];
extern const struct sl_option sl_output_option[]; // -o, --output text|json, into an int

/*
 * Prints a tree as a line, or laid out for people, and frees it. SL_ENOMEM: `what` names the
 * command and perhaps what it was of.
 */
int sl_output_json_line(cJSON *tree, const char *what);
int sl_output_json_pages(cJSON *tree, const char *what);

// id "" for none; state and exit_status NULL: not known, not over. On standard output, which is
// flushed: the reader of a pipe has the line at once.
void sl_answer_print(enum sl_output output, const char *job, const char *id, const char *state,
                     const int *exit_status, const char *message);

// Whether standard output is a pipe that nobody reads any more: `sluice logs -f | head` ends then,
// not when there happens to be another line.
bool sl_output_is_closed(void);

// The width of the terminal that standard output is; 0: it is none.
unsigned sl_output_columns(void);

#endif

/*
 * last_word.h - how a job ended, for the command that watched it: Finished as lines and as an exit
 * status, the same for `run`, `submit` and `wait`.
 */
#ifndef SL_BROKER_CLI_LAST_WORD_H
#define SL_BROKER_CLI_LAST_WORD_H

#include <stdbool.h>

#include "common/ipc/control.pb-c.h"

enum sl_last_word_form {
    SL_LAST_WORD_SUMMARY, // the tables at the end
    SL_LAST_WORD_JSON,    // the report as it is
    SL_LAST_WORD_NOTHING, // the exit status alone, and an error's line
};

// resumed: it was to go on with a run that is there. Prints to standard output; returns as a
// command does.
int sl_last_word_tell(const Sl__Control__Finished *finished, const char *job,
                      enum sl_last_word_form form, bool resumed);

#endif

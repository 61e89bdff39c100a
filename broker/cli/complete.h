/*
 * complete.h - what a shell asks while somebody types: `sluice complete -- WORD...`, hidden.
 *
 * PROBLEM. A completion that lists commands and options by itself is soon out of date.
 * DESIGN. Every command describes itself to sl_options_parse(), and every group of commands to
 * sl_command_choose(). While a line is completed these two hand their tables over to here and
 * report that help was asked for, so the command returns having done nothing. Nothing is listed
 * twice, and what a command does not accept is never offered.
 *
 * ANSWER. One candidate a line, a tab and its description behind it; or what the shell knows:
 * ":files", ":files *.json", ":directories". A candidate that ends in '=' wants no blank behind it.
 */
#ifndef SL_BROKER_CLI_COMPLETE_H
#define SL_BROKER_CLI_COMPLETE_H

#include <stdbool.h>

#include "broker/cli/command.h"
#include "broker/cli/options.h"

// True while a line is completed: the table was used, and the caller does nothing more.
bool sl_completion_take_usage(const struct sl_command_usage *usage);
bool sl_completion_take_commands(const struct sl_command *commands, size_t n);

// command.c: the table that sl_command_dispatch() was given.
const struct sl_command *sl_command_table(size_t *n);

#endif

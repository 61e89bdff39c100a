// dispatch.h - finds the command of a command line, runs it, and gives its exit status.
#ifndef SL_CLI_DISPATCH_H
#define SL_CLI_DISPATCH_H

#include <stddef.h>

#include "cli/command.h"

/*
 * Runs `sluice` with main()'s arguments over a table of commands; returns as a command does.
 * An unknown command is SL_EINVAL with a suggestion.
 */
int sl_dispatch(const struct sl_command *const *commands, size_t n_commands, int argc, char **argv);

// The table that sl_dispatch() was given.
const struct sl_command *const *sl_dispatch_commands(size_t *n);

// Runs one command, or the one of its group that argv[1] names, on the words after argv[0].
int sl_dispatch_command(const struct sl_command *c, int argc, char **argv);

// Sets the defaults in a zeroed struct of a command.
int sl_dispatch_init(const struct sl_command *c, void *state);

// The name under which a command of the table or of a group is found: its last word.
const char *sl_dispatch_name(const struct sl_command *c);

// What a command returned (exit status or SL_E*) as the process's exit status.
int sl_exit_status(int result);

#endif

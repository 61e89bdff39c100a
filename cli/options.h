/*
 * options.h - command-line options from tables.
 *
 * A command describes itself once (command.h). Parsing, bounds checks, "did you mean" and --help
 * all come from that description, so no command treats an option differently.
 *
 * Accepted: --key value, --key=value, -k value, -kvalue; --flag and --no-flag; `--` ends options.
 * Options and operands may be mixed.
 */
#ifndef SL_CLI_OPTIONS_H
#define SL_CLI_OPTIONS_H

#include "cli/command.h"

enum { SL_OPTIONS_HELP = 1 };

/*
 * argv[0] is skipped. SL_OK; SL_OPTIONS_HELP when --help was asked for and printed on standard
 * output (the command then does nothing); SL_EINVAL with a message. Values are set in order, so on
 * an error some may have been set. --help and -h are always known.
 */
int sl_options_parse(const struct sl_command *c, void *state, int argc, char **argv);
void sl_options_fini(const struct sl_command *c, void *state); // lists of words

// Prints what --help prints.
void sl_options_print_help(const struct sl_command *c, const void *state);

// An option of a command, and where its value lies in the command's struct.
struct sl_option_cursor {
    const struct sl_option *option;
    void *value;
    char *base; // what its other offset is of
    size_t group, next;
};

// All options one after another, with a cursor that begins zeroed; false behind the last.
bool sl_options_next(const struct sl_command *c, const void *state, struct sl_option_cursor *at);

// The option of a long name (n bytes), as it is or was, or of a letter, the other being "" or 0.
bool sl_options_find(const struct sl_command *c, const void *state, const char *name, size_t n,
                     char letter, struct sl_option_cursor *at);

#endif

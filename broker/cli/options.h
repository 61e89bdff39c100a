/*
 * options.h - command-line options from tables.
 *
 * A command describes itself once (command.h). Parsing, bounds checks, "did you mean" and --help
 * all come from that description, so no command treats an option differently.
 *
 * Accepted: --key value, --key=value, -k value, -kvalue; --flag and --no-flag; `--` ends options.
 * Options and operands may be mixed.
 */
#ifndef SL_BROKER_CLI_OPTIONS_H
#define SL_BROKER_CLI_OPTIONS_H

#include "broker/cli/command.h"

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

/*
 * All options of a command one after another: it begins zeroed; NULL behind the last. `value` is
 * where an option's value lies in `state`, `base` the struct that its other offsets are of.
 */
struct sl_option_cursor {
    size_t group, at;
    char *base;
    void *value;
};
const struct sl_option *sl_options_next(const struct sl_command *c, const void *state,
                                        struct sl_option_cursor *cursor);

#endif

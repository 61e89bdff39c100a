/*
 * options.h - command-line options from a table.
 *
 * A command describes itself once, in a struct sl_command_usage: its text, its operands and its
 * options with types, bounds and the variables that hold their defaults. Parsing, bounds checks,
 * "did you mean" and --help all come from that description, so no command treats an option
 * differently.
 *
 * Accepted: --key value, --key=value, -k value, -kvalue; --flag and --no-flag; `--` ends options.
 * Options and operands may be mixed.
 */
#ifndef SL_BROKER_CLI_OPTIONS_H
#define SL_BROKER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text/option.h"

struct sl_text_list {
    const char **items; // borrowed from argv; free(items) by sl_text_list_fini
    size_t n;
};
void sl_text_list_fini(struct sl_text_list *list);

struct sl_operand {
    const char *name; // "JOB.json"
    const char **value;
    bool optional;
};

struct sl_command_usage {
    const char *command; // "generate planted": what the user typed after `sluice`
    const char *about;   // what it does, in a few lines
    const char *example; // complete command lines, one a line
    const struct sl_operand *operands;
    size_t n_operands;
    const char *rest_name; // NULL, or: all words after the operands, at least one
    struct sl_text_list *rest;
    const struct sl_option *options;
    size_t n_options;
};

enum { SL_OPTIONS_HELP = 1 };

/*
 * argv[0] is skipped. SL_OK; SL_OPTIONS_HELP when --help was asked for and printed on standard
 * output (the command then returns 0); SL_EINVAL with a message. Values are set in order, so on an
 * error some may have been set. --help and -h are always known.
 */
int sl_options_parse(const struct sl_command_usage *usage, int argc, char **argv);

// Prints what --help prints.
void sl_options_print_help(const struct sl_command_usage *usage);

#endif

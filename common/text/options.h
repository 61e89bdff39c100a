/*
 * options.h - what programs and their commands are told on the command line, from tables.
 *
 * A program, or a command of `sluice` (cli/command.h), describes itself once: its operands, and its
 * options in constant tables with offsets into a struct that holds the defaults before parsing.
 * Parsing, bounds checks, "did you mean" and --help all come from that description, so no program
 * treats an option differently. Who offers an option describes it, wherever it is used.
 *
 * Accepted: --key value, --key=value, -k value, -kvalue; --flag and --no-flag; `--` ends options.
 * Options and operands may be mixed.
 */
#ifndef SL_TEXT_OPTIONS_H
#define SL_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { SL_OPTION_KEY_BYTES = 128 };

enum sl_option_type {
    SL_OPTION_FLAG,   // bool: --name sets it, --no-name clears it
    SL_OPTION_TEXT,   // const char *: any text but the empty one
    SL_OPTION_LIST,   // struct sl_text_list: may be given many times
    SL_OPTION_UINT,   // uint64_t, or uint32_t with bounds: whole number; 2e6 and 1_000_000 are fine
    SL_OPTION_REAL,   // double: in [min, max]
    SL_OPTION_SIZE,   // uint64_t: bytes: 4GiB, 512MiB, 2e6
    SL_OPTION_CHOICE, // int: index into `choices`
};

struct sl_option {
    const char *name;  // long name without dashes
    char letter;       // short name, 0 for none
    const char *alias; // a long name it had before: accepted, not shown; NULL for none
    enum sl_option_type type;
    size_t offset;           // of the value in the struct
    size_t bytes;            // of the value
    const char *placeholder; // what the value is called in --help: "DIR", "N"
    const char *help;
    // UINT, REAL and SIZE: both 0 means no bounds. A default beyond them stands for one that is
    // computed; --help does not show it.
    double min, max;
    const char *const *choices; // CHOICE: NULL-terminated
    size_t given; // of a bool that is set when the user gave the option, not the struct's first; 0:
                  // there is none
    // LIST of NAME=VALUE: whether a word that is no option is such a NAME, written to `key`.
    bool (*find_key)(const char *word, char key[SL_OPTION_KEY_BYTES]);
    bool required;
    bool verbatim; // any word is a value, the empty one and one like an option, too: of programs
    bool may_be_empty; // of a TEXT: '' says something, too
    bool no_default;   // --help does not show the default (it is computed or means nothing)
};

// The type of a value, without SL_OPTION_, and the field that it is.
#define SL_OPTION_AT(kind, struct_, field)                                                         \
    .type = SL_OPTION_##kind, .offset = offsetof(struct struct_, field),                           \
    .bytes = sizeof(((struct struct_ *)NULL)->field)
#define SL_OPTION_GIVEN(struct_, field) .given = offsetof(struct struct_, field)

struct sl_text_list {
    const char **items; // borrowed from argv
    size_t n;
};

struct sl_operand {
    const char *name; // "JOB.json"
    size_t offset;    // of a const char *, which NULL or another default stays in
    bool optional;
};

// A table of options, and where the struct that its offsets are of lies in the command's.
struct sl_option_group {
    const struct sl_option *options;
    size_t offset;
    bool elsewhere; // a pointer to that struct lies there
};

enum { SL_COMMAND_OPERANDS_MAX = 3, SL_COMMAND_GROUPS_MAX = 10 };

struct sl_command {
    const char *name;    // "generate planted": what is typed after `sluice`
    bool is_program;     // it is a program of its own, of that name
    const char *help;    // a line in the list of commands; NULL: not in it
    const char *about;   // what it does, in a few lines
    const char *example; // complete command lines, one a line
    bool of_ended_jobs;  // a JOB or RUN of it may be one that is over
    // Both end with an entry without a name or a table; options also where they are full.
    struct sl_operand operands[SL_COMMAND_OPERANDS_MAX + 1];
    struct sl_option_group options[SL_COMMAND_GROUPS_MAX];
    struct sl_operand rest; // all words after the operands: a struct sl_text_list

    // Its struct, which begins as `defaults`, or zeroed; init, where it is not NULL, sets more.
    // fini, NULL where there is nothing to release, is called whatever came before.
    size_t bytes;
    const void *defaults;
    int (*init)(const struct sl_command *c, void *state);
    int (*run)(void *state);
    void (*fini)(void *state);

    // A group of commands instead: what is chosen ("format"), and from which.
    const char *kind;
    const struct sl_command *(*kinds)(void); // ends with an entry without a name
    const void *of;                          // what a command of a group is of; its own business
};

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

#include "broker/cli/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "common/text/suggest.h"
#include "broker/cli/complete.h"

enum { COMMANDS_MAX = 64 };

// ---- exit statuses ------------------------------------------------------------------------------

int sl_exit_status(int result)
{
    if (result >= 0)
        return result;
    switch (result) {
    case SL_EABORTED: return SL_EXIT_INTERRUPTED;
    // What the user gave, or this machine's limits, rule it out: nothing was begun.
    case SL_EINVAL:
    case SL_EFORMAT:
    case SL_ENOENT:
    case SL_EACCESS:
    case SL_EEXIST:
    case SL_ENOMEM:
    case SL_ERANGE:
    case SL_EPROTO: // a daemon of another version
    case SL_EUNSUPPORTED: return SL_EXIT_USAGE;
    default: return SL_EXIT_FAILED;
    }
}

// ---- commands -----------------------------------------------------------------------------------

static struct {
    const struct sl_command *commands;
    size_t n;
} table; // of the process

const struct sl_command *sl_command_table(size_t *n)
{
    *n = table.n;
    return table.commands;
}

static void print_commands(const struct sl_command *commands, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = SL_MAX(width, (int)strlen(commands[i].name));
    for (size_t i = 0; i < n; i++)
        if (commands[i].help)
            printf("  %-*s  %s\n", width, commands[i].name, commands[i].help);
}

static const struct sl_command *find_command(const struct sl_command *commands, size_t n,
                                             const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// " : did you mean 'x'?" or where the list is.
static int unknown_command(const struct sl_command *commands, size_t n, const char *what,
                           const char *word, const char *help)
{
    const char *names[COMMANDS_MAX];
    size_t n_names = 0;
    for (size_t i = 0; i < n && n_names < COMMANDS_MAX; i++)
        if (commands[i].help)
            names[n_names++] = commands[i].name;
    const char *near = sl_suggest_closest(word, names, n_names);
    if (near)
        return sl_fail(SL_EINVAL, "unknown %s '%s': did you mean '%s'?", what, word, near);
    return sl_fail(SL_EINVAL, "unknown %s '%s': '%s' lists what there is", what, word, help);
}

static void print_top_help(const struct sl_command *commands, size_t n)
{
    printf("usage: sluice COMMAND [ARGUMENT]...\n"
           "\n"
           "Trains graph neural networks on graphs that are larger than one device's memory:\n"
           "sampler and trainer processes, each on its own devices, around one queue in shared "
           "memory.\n"
           "\n"
           "Commands:\n");
    print_commands(commands, n);
    printf("\n"
           "'sluice COMMAND --help' describes a command and shows an example.\n"
           "'sluice --version' prints the version.\n"
           "\n"
           "Exit status:\n"
           "  0    done\n"
           "  1    it could not be done, or the job failed\n"
           "  2    usage, job file, data set or daemon that can not be used: nothing was begun\n"
           "  130  interrupted: Ctrl-C stops what runs, a second one kills it\n"
           "\n"
           "Environment:\n"
           "  SLUICE_RUNTIME_DIR  where the daemon's sockets are [$XDG_RUNTIME_DIR/sluice]\n"
           "  SLUICE_CACHE_DIR    which data sets have been checked [~/.cache/sluice]\n"
           "  SLUICE_LOG          how much is logged: error, warn, info or debug\n"
           "  NO_COLOR            no colours when set to anything\n");
    fflush(stdout);
}

int sl_command_dispatch(const struct sl_command *commands, size_t n, int argc, char **argv)
{
    table.commands = commands;
    table.n = n;
    if (argc < 2) {
        return sl_fail(SL_EINVAL, "no command given: wanted 'sluice COMMAND': 'sluice --help' "
                                  "lists them");
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        const struct sl_command *about = argc > 2 ? find_command(commands, n, argv[2]) : NULL;
        if (argc > 2 && !about)
            return unknown_command(commands, n, "command", argv[2], "sluice --help");
        if (!about) {
            print_top_help(commands, n);
            return SL_EXIT_OK;
        }
        char help[] = "--help";
        char *words[] = {argv[2], help, NULL};
        return about->run(2, words);
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version")) {
        printf("sluice %s\n", SL_VERSION);
        return SL_EXIT_OK;
    }
    if (word[0] == '-')
        return sl_fail(SL_EINVAL,
                       "option '%s' before a command: wanted 'sluice COMMAND %s': "
                       "'sluice --help' lists the commands",
                       word, word);
    const struct sl_command *command = find_command(commands, n, word);
    if (!command)
        return unknown_command(commands, n, "command", word, "sluice --help");
    return command->run(argc - 1, argv + 1);
}

int sl_command_choose(const struct sl_command *commands, size_t n, const char *what,
                      const char *example, int argc, char **argv, const struct sl_command **out)
{
    *out = NULL;
    if (argc < 2 && sl_completion_take_commands(commands, n))
        return SL_OK;
    if (argc >= 2 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
        char named[64], help[64];
        snprintf(named, sizeof named, "%s to %s", what, argv[0]);
        snprintf(help, sizeof help, "sluice %s --help", argv[0]);
        if (argv[1][0] == '-')
            return sl_fail(SL_EINVAL,
                           "%s: option '%s' before the %s: wanted 'sluice %s %s ...': "
                           "'%s' lists them",
                           argv[0], argv[1], what, argv[0], commands[0].name, help);
        *out = find_command(commands, n, argv[1]);
        return *out ? SL_OK : unknown_command(commands, n, named, argv[1], help);
    }
    if (argc < 2)
        return sl_fail(SL_EINVAL, "%s: no %s given: 'sluice %s --help' lists them", argv[0], what,
                       argv[0]);
    char upper[32];
    snprintf(upper, sizeof upper, "%s", what);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    printf("usage: sluice %s %s [ARGUMENT]...\n\n", argv[0], upper);
    print_commands(commands, n);
    printf("\n'sluice %s %s --help' describes one.\n\nExample:\n  %s\n", argv[0], upper, example);
    fflush(stdout);
    return SL_OK;
}

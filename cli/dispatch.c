#include "cli/dispatch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "common/text/suggest.h"
#include "common/text/synonyms.h"
#include "common/text/options.h"

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
    const struct sl_command *const *commands;
    size_t n;
} table; // of the process

const struct sl_command *const *sl_dispatch_commands(size_t *n)
{
    *n = table.n;
    return table.commands;
}

const char *sl_dispatch_name(const struct sl_command *c)
{
    const char *blank = strrchr(c->name, ' ');
    return blank ? blank + 1 : c->name;
}

static void print_commands(const struct sl_command *const *commands, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = SL_MAX(width, (int)strlen(sl_dispatch_name(commands[i])));
    for (size_t i = 0; i < n; i++)
        if (commands[i]->help)
            printf("  %-*s  %s\n", width, sl_dispatch_name(commands[i]), commands[i]->help);
}

// *out: the command of that name. SL_EINVAL: did you mean another one, or where the list is.
static int find_command(const struct sl_command *const *commands, size_t n, const char *what,
                        const char *word, const char *help, const struct sl_command **out)
{
    const char *names[COMMANDS_MAX] = {NULL};
    size_t n_names = 0;
    for (size_t i = 0; i < n && n_names < COMMANDS_MAX; i++) {
        *out = commands[i];
        if (strcmp(sl_dispatch_name(*out), word) == 0)
            return SL_OK;
        if (commands[i]->help)
            names[n_names++] = sl_dispatch_name(commands[i]);
    }
    const char *near = sl_suggest_closest(word, names, n_names);
    char means[SL_SYNONYM_BYTES];
    sl_synonym_find(SL_SYNONYM_COMMAND, NULL, word, means);
    for (size_t i = 0; i < n_names; i++)
        near = strcmp(names[i], means) == 0 ? means : near;
    if (near)
        return sl_fail(SL_EINVAL, "unknown %s '%s': did you mean '%s'?", what, word, near);
    return sl_fail(SL_EINVAL, "unknown %s '%s': '%s' lists what there is", what, word, help);
}

int sl_dispatch_init(const struct sl_command *c, void *state)
{
    if (c->defaults)
        memcpy(state, c->defaults, c->bytes);
    return c->init ? c->init(c, state) : SL_OK;
}

static int run_command(const struct sl_command *c, int argc, char **argv)
{
    void *state = calloc(1, c->bytes + 1);
    if (!state)
        return sl_fail(SL_ENOMEM, "%s: no memory", c->name);
    int rc = sl_dispatch_init(c, state);
    if (rc == SL_OK)
        rc = sl_options_parse(c, state, argc, argv);
    if (rc == SL_OPTIONS_HELP)
        rc = SL_EXIT_OK;
    else if (rc == SL_OK)
        rc = c->run(state);
    if (c->fini)
        c->fini(state);
    sl_options_fini(c, state);
    free(state);
    return rc;
}

// ---- groups -------------------------------------------------------------------------------------

static void print_group_help(const struct sl_command *group, const struct sl_command *const *kinds,
                             size_t n)
{
    char upper[32];
    snprintf(upper, sizeof upper, "%s", group->kind);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    printf("usage: sluice %s %s [ARGUMENT]...\n\n", group->name, upper);
    print_commands(kinds, n);
    printf("\n'sluice %s %s --help' describes one.\n\nExample:\n  %s\n", group->name, upper,
           group->example);
    fflush(stdout);
}

static int run_group(const struct sl_command *group, int argc, char **argv)
{
    size_t n = 0;
    const struct sl_command *kinds = group->kinds(), *list[COMMANDS_MAX], *chosen;
    char named[64], help[64];
    for (; kinds[n].name; n++)
        list[n] = &kinds[n];
    if (argc < 2)
        return sl_fail(SL_EINVAL, "%s: no %s given: 'sluice %s --help' lists them", group->name,
                       group->kind, group->name);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_group_help(group, list, n);
        return SL_EXIT_OK;
    }
    snprintf(named, sizeof named, "%s to %s", group->kind, group->name);
    snprintf(help, sizeof help, "sluice %s --help", group->name);
    if (argv[1][0] == '-')
        return sl_fail(SL_EINVAL,
                       "%s: option '%s' before the %s: wanted 'sluice %s ...': '%s' lists them",
                       group->name, argv[1], group->kind, kinds[0].name, help);
    SL_TRY(find_command(list, n, named, argv[1], help, &chosen));
    return run_command(chosen, argc - 1, argv + 1);
}

int sl_dispatch_command(const struct sl_command *c, int argc, char **argv)
{
    return c->kinds ? run_group(c, argc, argv) : run_command(c, argc, argv);
}

// ---- the whole line -----------------------------------------------------------------------------

static void print_top_help(const struct sl_command *const *commands, size_t n)
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
           "  2    usage, job file, data set or daemon that cannot be used: nothing was begun\n"
           "  130  interrupted: Ctrl-C stops what runs, a second one kills it\n"
           "\n"
           "Environment:\n"
           "  SLUICE_RUNTIME_DIR  where the daemon's sockets are [$XDG_RUNTIME_DIR/sluice]\n"
           "  SLUICE_CACHE_DIR    which data sets have been checked [~/.cache/sluice]\n"
           "  SLUICE_LOG          how much is logged: error, warn, info or debug\n"
           "  NO_COLOR            no colours when set to anything\n");
    fflush(stdout);
}

int sl_dispatch(const struct sl_command *const *commands, size_t n, int argc, char **argv)
{
    const struct sl_command *command;
    table.commands = commands;
    table.n = n;
    if (argc < 2) {
        return sl_fail(SL_EINVAL, "no command given: wanted 'sluice COMMAND': 'sluice --help' "
                                  "lists them");
    }
    const char *word = argv[1];
    bool asks = !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
    if (asks && argc == 2) {
        print_top_help(commands, n);
        return SL_EXIT_OK;
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version")) {
        printf("sluice %s\n", SL_VERSION);
        return SL_EXIT_OK;
    }
    if (!asks && word[0] == '-')
        return sl_fail(SL_EINVAL,
                       "option '%s' before a command: wanted 'sluice COMMAND %s': "
                       "'sluice --help' lists the commands",
                       word, word);
    SL_TRY(find_command(commands, n, "command", asks ? argv[2] : word, "sluice --help", &command));
    char help[] = "--help";
    char *words[] = {argv[asks ? 2 : 1], help, NULL};
    return asks ? sl_dispatch_command(command, 2, words)
                : sl_dispatch_command(command, argc - 1, argv + 1);
}

/*
 * completion.c - `sluice completion bash|zsh`: the script that a shell reads to complete `sluice`.
 *
 * The scripts are those of scripts/completion, put into the program by the assembler: an installed
 * program has them with it, and the Makefile knows that this object depends on them.
 */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "common/text/suggest.h"
#include "common/base/bits.h"
#include "common/base/error.h"

// A text that ends with a NUL. Paths are from the project's root, where the compiler runs.
#define INCLUDE_TEXT(name, path)                                                                   \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global sl_completion_" #name "\n"                                                    \
            "sl_completion_" #name ":\n"                                                           \
            ".incbin \"" path "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char sl_completion_##name[] __attribute__((visibility("hidden")))

INCLUDE_TEXT(bash, "scripts/completion/sluice.bash");
INCLUDE_TEXT(zsh, "scripts/completion/_sluice");

struct request {
    const char *shell;
};

static int print_script(void *state)
{
    static const char *const shells[] = {"bash", "zsh"};
    const char *const scripts[] = {sl_completion_bash, sl_completion_zsh};
    const char *shell = ((struct request *)state)->shell;
    for (size_t i = 0; i < SL_COUNT_OF(shells); i++) {
        if (strcmp(shell, shells[i]) != 0)
            continue;
        fputs(scripts[i], stdout);
        return SL_EXIT_OK;
    }
    const char *near = sl_suggest_closest(shell, shells, SL_COUNT_OF(shells));
    return sl_fail(SL_EINVAL, "completion: found '%s', wanted bash or zsh%s%s%s", shell,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

const struct sl_command sl_command_completion = {
    .name = "completion",
    .help = "print the script that completes commands in bash or zsh",
    .about = "Prints the script with which a shell completes commands, options, their values "
             "and jobs' names.\nIt asks the program that is typed, so it does not go out of "
             "date.",
    .example = "source <(sluice completion bash)        # in ~/.bashrc: for every shell\n"
               "source <(sluice completion zsh)         # in ~/.zshrc, behind compinit\n"
               "sluice completion bash | sudo tee /usr/share/bash-completion/completions/sluice",
    .operands = {{"bash|zsh", offsetof(struct request, shell)}},
    .bytes = sizeof(struct request),
    .run = print_script,
};

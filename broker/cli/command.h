/*
 * command.h - the commands of `sluice` and how they end.
 *
 * A command gets its own name in argv[0] and its arguments after it. It returns an exit status
 * (0, or a positive one whose reason it has shown itself), or a negative SL_E* code: main() then
 * prints "sluice: " and the recorded message, and sl_exit_status() says how the process ends.
 */
#ifndef SL_BROKER_CLI_COMMAND_H
#define SL_BROKER_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum sl_exit {
    SL_EXIT_OK = 0,
    SL_EXIT_FAILED = 1,        // it began and did not succeed
    SL_EXIT_USAGE = 2,         // usage, configuration or a data set that can not be used
    SL_EXIT_INTERRUPTED = 130, // Ctrl-C
};

struct sl_command {
    const char *name;
    const char *help; // one line; NULL: not shown
    int (*run)(int argc, char **argv);
};

int sl_command_run(int argc, char **argv);
int sl_command_submit(int argc, char **argv);
int sl_command_ps(int argc, char **argv);
int sl_command_logs(int argc, char **argv);
int sl_command_stats(int argc, char **argv);
int sl_command_stop(int argc, char **argv);
int sl_command_pause(int argc, char **argv);
int sl_command_resume(int argc, char **argv);
int sl_command_wait(int argc, char **argv);
int sl_command_scale(int argc, char **argv);
int sl_command_top(int argc, char **argv);
int sl_command_trace(int argc, char **argv);
int sl_command_predict(int argc, char **argv);
int sl_command_embed(int argc, char **argv);
int sl_command_generate(int argc, char **argv);
int sl_command_import(int argc, char **argv);
int sl_command_reorder(int argc, char **argv);
int sl_command_import_weights(int argc, char **argv);
int sl_command_inspect(int argc, char **argv);
int sl_command_keygen(int argc, char **argv);
int sl_command_report(int argc, char **argv);
int sl_command_complete(int argc, char **argv);
int sl_command_completion(int argc, char **argv);
int sl_command_doctor(int argc, char **argv);
int sl_command_schema(int argc, char **argv);

/*
 * Runs `sluice` with main()'s arguments over a table of commands; returns as a command does.
 * An unknown command is SL_EINVAL with a suggestion.
 */
int sl_command_dispatch(const struct sl_command *commands, size_t n_commands, int argc,
                        char **argv);

/*
 * The sub-command named by argv[1] of a command such as `generate`; prints the list for --help.
 * `what` names what is chosen ("kind", "format"). *out = NULL when help was printed.
 */
int sl_command_choose(const struct sl_command *commands, size_t n_commands, const char *what,
                      const char *example, int argc, char **argv, const struct sl_command **out);

// What a command returned (exit status or SL_E*) as the process's exit status.
int sl_exit_status(int result);

#endif

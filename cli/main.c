/*
 * main.c - the `sluice` command: finds the command, prints the one error, exits.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/log.h"
#include "common/data/dataset_fault.h"
#include "cli/dispatch.h"
#include "cli/output.h"

#define ADDRESS(name) &sl_command_##name,
static const struct sl_command *const commands[] = {SL_COMMANDS(ADDRESS)};

// A full disk shows only when standard output is flushed, which may have been done before. A reader
// who has gone does not want the rest.
static int finish_output(int result)
{
    errno = 0;
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || result != SL_EXIT_OK || sl_output_is_closed())
        return result;
    return errno ? sl_fail_errno(SL_EIO, errno, "standard output could not be written")
                 : sl_fail(SL_EIO, "standard output could not be written");
}

int main(int argc, char **argv)
{
    // `sluice ... | head` ends neither a job nor what is being made; see finish_output().
    signal(SIGPIPE, SIG_IGN);
    sl_log_init("sluice");
    sl_dataset_name_faults("sluice");
    int result = sl_isa_init();
    if (result == SL_OK)
        result = sl_dispatch(commands, SL_COUNT_OF(commands), argc, argv);
    result = finish_output(result);
    if (result < 0)
        fprintf(stderr, "sluice: %s\n", sl_error_message());
    return sl_exit_status(result);
}

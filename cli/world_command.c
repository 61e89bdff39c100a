#include "cli/world_command.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/dispatch.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/interrupt.h"
#include "nodes/launcher.h"

enum { SAID_US = 500000 };

// In the thread that watches: the first one is in a call of MPI that does not return.
static void give_up(const char *sentence)
{
    fprintf(stderr, "sluice: %s\n", sentence);
    _exit(SL_EXIT_FAILED);
}

static int meet(struct sl_world *w, const struct sl_survey_spec *survey, uint32_t *problems)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct sl_world_spec spec = {.host = host, .give_up = give_up};
    SL_TRY(sl_launcher_read(&spec.launcher));
    gethostname(host, sizeof host - 1);
    SL_TRY(sl_world_plugin_open(&spec.table));
    SL_TRY(sl_world_open(w, &spec));
    SL_TRY(sl_survey_run(w, survey, problems));
    return sl_world_close(w);
}

int sl_world_command_run(const char *name, const struct sl_survey_spec *survey, uint32_t *problems)
{
    struct sl_world w = {0};
    SL_TRY(sl_failpoint_init());
    sl_interrupt_catch();
    int rc = meet(&w, survey, problems);
    if (rc < 0)
        rc = sl_fail_prefix(rc, "%s", name);
    if (rc < 0 && w.is_open) {
        // Said before this process is ended with the others; a launcher that is told to end all
        // shows no more of what has just been said.
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        usleep(SAID_US);
        sl_world_abort(&w, sl_exit_status(rc));
        _exit(sl_exit_status(rc));
    }
    sl_world_fini(&w);
    return rc;
}

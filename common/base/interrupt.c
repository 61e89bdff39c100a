#include "common/base/interrupt.h"

#include <signal.h>
#include <stdatomic.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"

// Lock-free, so a handler may set it; threads other than the one that was interrupted read it.
static _Atomic int interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = 1;
}

void sl_interrupt_catch(void)
{
    // SA_RESETHAND: the second signal has its default effect.
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    // A file beyond the limit (ulimit -f) is then a write that fails, after which all is removed.
    signal(SIGXFSZ, SIG_IGN);
}

bool sl_interrupt_seen(void)
{
    return interrupted != 0;
}

int sl_interrupt_check(void)
{
    SL_FAILPOINT(COMMAND_STAGED);
    if (!interrupted)
        return SL_OK;
    return sl_fail(SL_EABORTED, "interrupted: nothing was kept");
}

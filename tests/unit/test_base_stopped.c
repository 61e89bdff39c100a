// A process that was stopped is told from one that takes long.
#include "common/base/stopped.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static const uint64_t second_ns = 1000000000;

// Sends a signal to the child and waits until it has come to that.
static void bring(pid_t child, int signal, int options)
{
    ck_assert_int_eq(kill(child, signal), 0);
    ck_assert_int_eq(waitpid(child, NULL, options), child);
}

// So many looks, a second apart: what the last one says.
static uint32_t look(struct sl_stopped *s, pid_t child, int times)
{
    uint32_t found = 0;
    for (int i = 0; i < times; i++)
        found = sl_stopped_look(s, child, s->looked_ns + second_ns);
    return found;
}

TEST(looks_in_a_row_that_find_it_stopped_are_counted)
{
    struct sl_stopped s = {0};
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    ck_assert_uint_eq(look(&s, child, 5), 0); // it lives
    bring(child, SIGSTOP, WUNTRACED);
    ck_assert_uint_eq(look(&s, child, 3), 3);
    bring(child, SIGCONT, WCONTINUED);
    ck_assert_uint_eq(look(&s, child, 1), 0);
    bring(child, SIGSTOP, WUNTRACED);
    ck_assert_uint_eq(look(&s, child, 3), 3);
    // A time in which nobody has looked counts once, however long it was.
    ck_assert_uint_eq(sl_stopped_look(&s, child, s.looked_ns + second_ns / 2), 3);
    ck_assert_uint_eq(sl_stopped_look(&s, child, s.looked_ns + 100 * second_ns), 4);
    bring(child, SIGKILL, 0);
    ck_assert_uint_eq(look(&s, child, 5), 0); // it is gone
}

RUN_TESTS()

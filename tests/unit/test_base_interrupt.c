// Ctrl-C in the middle of something long.
#include "common/base/interrupt.h"

#include <signal.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

TEST(the_first_interrupt_is_noticed)
{
    ck_assert(!sl_interrupt_seen());
    sl_interrupt_catch();
    raise(SIGINT);
    ck_assert(sl_interrupt_seen());
    ck_assert_int_eq(sl_interrupt_check(), SL_EABORTED);
}

SIGNAL_TEST(the_second_interrupt_kills, SIGINT)
{
    sl_interrupt_catch();
    raise(SIGINT);
    raise(SIGINT);
}

RUN_TESTS()

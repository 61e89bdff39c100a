// A tangled graph of N vertices, which whoever includes this has said, and a drawer on cores.
#ifndef SL_TESTS_UNIT_SAMPLER_TANGLE_H
#define SL_TESTS_UNIT_SAMPLER_TANGLE_H

#include "tests/unit/sampler_fixture.h"

static struct fixture fx;
static struct sl_drawer drawer;

static void setup(void)
{
    fx = fixture_graph(N);
    fixture_tangle(&fx);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
}

static void teardown(void)
{
    sl_drawer_fini(&drawer);
    fixture_free(&fx);
}

#endif

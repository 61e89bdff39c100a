// A tangled graph, and a drawer on cores.
#ifndef SL_TESTS_UNIT_SAMPLER_TANGLE_H
#define SL_TESTS_UNIT_SAMPLER_TANGLE_H

#include "tests/unit/sampler_fixture.h"

static struct fixture fx;
static struct sl_drawer drawer;

static inline void tangle(uint32_t n_nodes)
{
    fx = fixture_graph(n_nodes);
    fixture_tangle(&fx);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
}

static inline void teardown(void)
{
    sl_drawer_fini(&drawer);
    fixture_free(&fx);
}

#endif

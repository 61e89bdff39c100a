#include "sampler/topology.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// Neighbours are read here and there: reading ahead would only push other pages out.
static void advise_random(const void *p, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)p & ~(page - 1);
    if (p && bytes)
        madvise((void *)from, (uintptr_t)p + bytes - from, MADV_RANDOM); // a hint
}

int sl_topology_open(struct sl_topology *t, const char *path, int threads)
{
    memset(t, 0, sizeof *t);
    SL_TRY(sl_dataset_open(path, SL_NEED_TOPOLOGY | SL_NEED_LABELS | SL_NEED_TRAIN, SL_CHECK_TRUST,
                           threads, &t->dataset));
    const struct sl_dataset *ds = &t->dataset;
    t->view = (struct sl_topology_view){
        .n_nodes = ds->n_nodes,
        .indptr = ds->indptr,
        .indices = ds->indices,
        .indices_dtype = ds->indices_dtype,
    };
    advise_random(ds->indices, ds->n_edges * sl_dtype_bytes(ds->indices_dtype));
    return SL_OK;
}

void sl_topology_close(struct sl_topology *t)
{
    sl_dataset_close(&t->dataset);
}

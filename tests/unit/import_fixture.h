// import_fixture.h - what an import made: its topology as a line of text.
#ifndef SL_TESTS_UNIT_IMPORT_FIXTURE_H
#define SL_TESTS_UNIT_IMPORT_FIXTURE_H

#include <zlib.h>

#include "common/data/dataset.h"
#include "tests/unit/cli_fixture.h"

static inline void imported(int rc)
{
    if (rc != 0)
        ck_abort_msg("%d: %s", rc, sl_error_message());
}

static inline void write_gz(const char *name, const char *text, size_t n)
{
    gzFile gz = gzopen(in_dir(name), "wb");
    ck_assert_ptr_nonnull(gz);
    if (n > 0)
        ck_assert_int_eq(gzwrite(gz, text, (unsigned)n), (int)n);
    ck_assert_int_eq(gzclose(gz), Z_OK);
}

static inline void open_dataset(const char *name, unsigned need, struct sl_dataset *ds)
{
    must(sl_dataset_open(in_dir(name), need, SL_CHECK_FULL, 2, ds));
}

// "1<0,2 2<1 " : vertices with in-edges and their sources.
static inline const char *topology(const char *name)
{
    static char text[4096];
    struct sl_dataset ds;
    int n = 0;
    text[0] = '\0';
    open_dataset(name, SL_NEED_TOPOLOGY, &ds);
    for (uint64_t v = 0; v < ds.n_nodes; v++) {
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++) {
            if (e == ds.indptr[v])
                n += sprintf(text + n, "%s%ju<", n ? " " : "", (uintmax_t)v);
            n += sprintf(text + n, "%s%u", e == ds.indptr[v] ? "" : ",",
                         ((const uint32_t *)ds.indices)[e]);
            if (ds.edge_weight)
                n += sprintf(text + n, ":%g", (double)ds.edge_weight[e]);
        }
    }
    n += sprintf(text + n, " of %ju", (uintmax_t)ds.n_nodes);
    sl_dataset_close(&ds);
    return text;
}

#endif

// daemon_fixture.h - a scratch directory for each test, and jobs for a daemon.
#ifndef SL_TESTS_UNIT_DAEMON_FIXTURE_H
#define SL_TESTS_UNIT_DAEMON_FIXTURE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/daemon/registry.h"
#include "common/base/error.h"
#include "tests/unit/asserts.h"

static char dir[256]; // of the test

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static inline void dir_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/sluice-test-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static inline void dir_end(void)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// A path inside the test's directory; valid until the next call but one.
static inline const char *in_dir(const char *name)
{
    static char path[2][512];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static inline void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static inline struct sl_cores cores_of(const char *text)
{
    struct sl_cores cores;
    ck_assert_int_eq(sl_cores_parse(text, &cores), SL_OK);
    return cores;
}

// A job that waits, not in a list yet; its run directory is in the test's directory.
static inline struct sl_entry *make_entry(const char *name, const char *cores)
{
    struct sl_entry *e = sl_entry_new();
    ck_assert_ptr_nonnull(e);
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->output, sizeof e->output, "%s/run-%s", dir, name);
    e->cores = cores_of(cores);
    e->config_json = strdup("{\"seed\": 18446744073709551615}");
    e->epochs = 4;
    e->n_devices = 1;
    e->submitted = 1000;
    return e;
}

static inline struct sl_entry *add_entry(struct sl_registry *r, const char *name, const char *cores)
{
    struct sl_entry *e = make_entry(name, cores);
    e->order = sl_registry_order_last(r);
    ck_assert_int_eq(sl_registry_add(r, e), SL_OK);
    return e;
}

#endif

#include "common/base/failpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

enum { ENTRY_MAX = 64, HOLD = 0 }; // no signal has the number 0

static const char *const names[] = {
#define SL_FAILPOINT_NAME(sym, name, where) name,
    SL_FAILPOINT_MAP(SL_FAILPOINT_NAME)
#undef SL_FAILPOINT_NAME
};

static const char *const wheres[] = {
#define SL_FAILPOINT_WHERE(sym, name, where) where,
    SL_FAILPOINT_MAP(SL_FAILPOINT_WHERE)
#undef SL_FAILPOINT_WHERE
};

int sl_failpoint_armed;

static struct {
    uint32_t point;
    uint32_t count;
    int signal;
} entries[ENTRY_MAX];
static int n_entries;
static _Atomic uint32_t own_reaches[SL_FAILPOINT_COUNT];
static _Atomic uint32_t *reaches = own_reaches;

const char *sl_failpoint_name(enum sl_failpoint point)
{
    return names[point];
}

const char *sl_failpoint_where(enum sl_failpoint point)
{
    return wheres[point];
}

void sl_failpoint_bind(_Atomic uint32_t *shared)
{
    reaches = shared;
}

// NAME[:COUNT][:stop|:hold]
static int parse_entry(char *text)
{
    unsigned long count = 1;
    int number = SIGKILL;
    char *colon = strrchr(text, ':');
    if (colon && (strcmp(colon, ":stop") == 0 || strcmp(colon, ":hold") == 0)) {
        number = strcmp(colon, ":stop") == 0 ? SIGSTOP : HOLD;
        *colon = '\0';
    }
    if (number == HOLD && !getenv("SLUICE_FAILPOINT_HOLD"))
        return sl_fail(SL_EINVAL,
                       "SLUICE_FAILPOINT: '%s:hold' wants SLUICE_FAILPOINT_HOLD to name "
                       "a named pipe, which lets go when it is closed",
                       text);
    colon = strchr(text, ':');
    if (colon) {
        char *end;
        *colon = '\0';
        count = strtoul(colon + 1, &end, 10);
        if (end == colon + 1 || *end || count == 0 || count > UINT32_MAX)
            return sl_fail(SL_EINVAL,
                           "SLUICE_FAILPOINT: '%s' behind '%s': wanted a whole number from 1, "
                           "'stop' or 'hold', or both as in '%s:3:stop'",
                           colon + 1, text, text);
    }
    for (uint32_t i = 0; i < SL_FAILPOINT_COUNT; i++) {
        if (strcmp(names[i], text) != 0)
            continue;
        if (n_entries == ENTRY_MAX)
            return sl_fail(SL_EINVAL, "SLUICE_FAILPOINT: more than %d entries", ENTRY_MAX);
        entries[n_entries].point = i;
        entries[n_entries].count = (uint32_t)count;
        entries[n_entries].signal = number;
        n_entries++;
        return SL_OK;
    }
    return sl_fail(SL_EINVAL,
                   "SLUICE_FAILPOINT: no failpoint is named '%s': 'sluice doctor --failpoints' "
                   "lists them",
                   text);
}

int sl_failpoint_init(void)
{
    const char *env = getenv("SLUICE_FAILPOINT");
    n_entries = 0;
    if (!env || !*env)
        return SL_OK;
    char *copy = strdup(env);
    if (!copy)
        return sl_fail(SL_ENOMEM, "SLUICE_FAILPOINT: no memory");
    int rc = SL_OK;
    char *save = NULL;
    for (char *t = strtok_r(copy, ",", &save); t && rc == SL_OK; t = strtok_r(NULL, ",", &save))
        rc = parse_entry(t);
    free(copy);
    sl_failpoint_armed = rc == SL_OK && n_entries > 0;
    return rc;
}

// Opening the pipe waits for a writer, who knows then that the thread is here; reading it, for its
// end.
static void hold(void)
{
    char byte;
    int fd;
    while ((fd = open(getenv("SLUICE_FAILPOINT_HOLD"), O_RDONLY | O_CLOEXEC)) < 0)
        if (errno != EINTR)
            return;
    ssize_t n;
    while ((n = read(fd, &byte, 1)) > 0 || (n < 0 && errno == EINTR)) {
    }
    close(fd);
}

void sl_failpoint_reach(enum sl_failpoint point)
{
    uint32_t mine = atomic_fetch_add(&reaches[point], 1) + 1;
    for (int i = 0; i < n_entries; i++) {
        if (entries[i].point != point || entries[i].count != mine)
            continue;
        if (entries[i].signal == HOLD)
            hold();
        else
            kill(getpid(), entries[i].signal);
    }
}

int sl_failpoint_suspend(void)
{
    int before = sl_failpoint_armed;
    sl_failpoint_armed = 0;
    return before;
}

void sl_failpoint_resume(int before)
{
    sl_failpoint_armed = before;
}

/*
 * settings.cc - what the environment says of the emulation.
 *
 *   SLUICE_SIMT_SEED=N        0 forward, 1 reverse, from 2 on shuffled by N; odd: streams are lazy
 *   SLUICE_SIMT_MEMORY=BYTES  of a device (1 GiB)
 *   SLUICE_SIMT_DEVICES=N     how many there are (1)
 *   SLUICE_SIMT_LINKS=WHICH   who reaches whose memory, and at what rate: full, ring, cube, none, the
 *                             GB/s of each pair or a file of them (full)
 *   SLUICE_SIMT_HOLD=FILE     nothing starts while there is this file, as with a driver that wakes up
 *   SLUICE_SIMT_FAIL=LIST     of malloc:N, launch:N, sync:N (the Nth such call fails), nodevice,
 *                             olddriver, noregister; commas between them
 *   SLUICE_SIMT_NCCL=LIST     none: there is no NCCL; remote_error: it notices that a peer is gone;
 *                             fail_init:N: the Nth ncclCommInitRankConfig() fails; version:N: as
 *                             ncclGetVersion() says it; wait:SECONDS: how long a call waits for an
 *                             all-reduce of others (60)
 *   SLUICE_SIMT_CUBLAS=FILE   the library that stands in for cuBLASLt; without it
 *                             there is none (cublas_lt.cc)
 *   SLUICE_SIMT_CUBLAS_FAIL=LIST  where that library fails: create, describe, algorithm, check,
 *                             unsupported, memory, lost, broken; memory:3 is the third call alone
 *   SLUICE_SIMT_KEYS=0        do without the processor's protection keys (memory.cc)
 *   SLUICE_SIMT_READ_ONLY=1   memory that the process may only read can be registered; without it
 *                             that fails, as with many drivers
 *   SLUICE_SIMT_DEAD=WHAT     garbage: memory of a process that has died is rubbish to those who have it
 *                             open; fault: using it loses the device (garbage)
 *   SLUICE_SIMT_REGISTERED=FILE  gets a line for each piece of host memory that is registered:
 *                             process, address, bytes
 *   SLUICE_SIMT_COUNTS=FILE   gets a line as JSON at the end of each process: what it has counted
 *                             (counts.h)
 */
#include "tests/simt/internal.h"

#include <stdlib.h>
#include <unistd.h>

namespace simt {

namespace {

// The next of a list: `n` bytes, of which `word` are before the number.
long take_number(const char *text, size_t *n, size_t *word)
{
    *n = strcspn(text, ",");
    const char *colon = static_cast<const char *>(memchr(text, ':', *n));
    *word = colon ? (size_t)(colon - text) : *n;
    return colon ? strtol(colon + 1, NULL, 10) : 0;
}

void parse_failures(struct settings *s, const char *text)
{
    while (*text) {
        size_t n, word;
        long number = take_number(text, &n, &word);
        if (word == 6 && memcmp(text, "malloc", 6) == 0 && number > 0)
            s->fail_malloc = number;
        else if (word == 6 && memcmp(text, "launch", 6) == 0 && number > 0)
            s->fail_launch = number;
        else if (word == 4 && memcmp(text, "sync", 4) == 0 && number > 0)
            s->fail_sync = number;
        else if (n == 8 && memcmp(text, "nodevice", 8) == 0)
            s->no_device = true;
        else if (n == 9 && memcmp(text, "olddriver", 9) == 0)
            s->old_driver = true;
        else if (n == 10 && memcmp(text, "noregister", 10) == 0)
            s->no_register = true;
        else
            report("SETTINGS",
                   "SLUICE_SIMT_FAIL has \"%.*s\", wanted malloc:N, launch:N, sync:N, "
                   "nodevice, olddriver or noregister",
                   (int)n, text);
        text += n + (text[n] == ',');
    }
}

void parse_nccl(struct settings *s, const char *text)
{
    while (*text) {
        size_t n, word;
        long number = take_number(text, &n, &word);
        if (n == 4 && memcmp(text, "none", 4) == 0)
            s->no_nccl = true;
        else if (n == 12 && memcmp(text, "remote_error", 12) == 0)
            s->remote_error = true;
        else if (word == 9 && memcmp(text, "fail_init", 9) == 0 && number > 0)
            s->fail_init = number;
        else if (word == 7 && memcmp(text, "version", 7) == 0 && number > 0)
            s->nccl_version = number;
        else if (word == 4 && memcmp(text, "wait", 4) == 0 && number > 0)
            s->patience_s = number;
        else
            report("SETTINGS",
                   "SLUICE_SIMT_NCCL has \"%.*s\", wanted none, remote_error, fail_init:N, "
                   "version:N or wait:SECONDS",
                   (int)n, text);
        text += n + (text[n] == ',');
    }
}

struct settings read_settings()
{
    struct settings s = {};
    const char *seed = getenv("SLUICE_SIMT_SEED"), *memory = getenv("SLUICE_SIMT_MEMORY");
    const char *devices = getenv("SLUICE_SIMT_DEVICES"), *fail = getenv("SLUICE_SIMT_FAIL");
    s.seed = seed ? strtoull(seed, NULL, 0) : 0;
    s.order = s.seed == 0 ? ORDER_FORWARD : s.seed == 1 ? ORDER_REVERSE : ORDER_SHUFFLED;
    s.lazy = s.seed & 1;
    s.memory_bytes = memory ? strtoull(memory, NULL, 0) : (size_t)1 << 30;
    s.devices = devices ? atoi(devices) : 1;
    if (s.devices < 0 || s.devices > DEVICES_MAX)
        report("SETTINGS", "SLUICE_SIMT_DEVICES is %d, wanted 0 to %d", s.devices, DEVICES_MAX);
    s.links = getenv("SLUICE_SIMT_LINKS");
    if (fail)
        parse_failures(&s, fail);
    s.registered = getenv("SLUICE_SIMT_REGISTERED");
    s.counts = getenv("SLUICE_SIMT_COUNTS");
    if (const char *read_only = getenv("SLUICE_SIMT_READ_ONLY"))
        s.maps_read_only = atoi(read_only) != 0;
    const char *dead = getenv("SLUICE_SIMT_DEAD");
    s.dead_faults = dead && strcmp(dead, "fault") == 0;
    if (dead && !s.dead_faults && strcmp(dead, "garbage") != 0)
        report("SETTINGS", "SLUICE_SIMT_DEAD is \"%s\", wanted garbage or fault", dead);
    for (const char *hold = getenv("SLUICE_SIMT_HOLD"); hold && access(hold, F_OK) == 0;)
        usleep(10000);
    s.patience_s = 60;
    if (const char *nccl = getenv("SLUICE_SIMT_NCCL"))
        parse_nccl(&s, nccl);
    return s;
}

} // namespace

const struct settings &settings()
{
    static const struct settings s = read_settings();
    return s;
}

int big_lock::let_go()
{
    int times = depth;
    for (int i = 0; i < times; i++)
        unlock();
    return times;
}

void big_lock::take(int times)
{
    for (int i = 0; i < times; i++)
        lock();
}

big_lock &lock()
{
    static big_lock *mutex = new big_lock; // for exit handlers too
    return *mutex;
}

} // namespace simt

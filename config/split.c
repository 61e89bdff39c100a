/*
 * split.c - which devices there are, and how many of them sample and how many train.
 *
 * A device samples or trains, never both at the same time: a split needs as many devices as it has
 * roles. A list of devices is the user's, and a split that it cannot hold is refused. "auto" lists
 * the physical cores, of them only as many as a container's CPU quota has time for, and uses them
 * again in turn where the split or the schedule asks for more, so that a job for eight devices runs
 * on two cores. GPUs, where there are any, take the cores' place afterwards (gpus.c): reading a job
 * asks no other program.
 *
 * What the job leaves open gets a first guess here, a function of the devices alone (the resolved
 * text parses back to the same); the broker decides once it has measured. Where CPU devices and
 * GPUs are listed together there is nothing to decide, since the formula is one of equal devices:
 * the CPU devices sample and the GPUs train, unless the job says otherwise.
 *
 * CPU devices of "auto" and "cpu" are a pool unless the job says otherwise: each has all of the
 * cores, and which of them a worker gets is the broker's to say (broker/scheduler/core_layout.h).
 * Devices are then numbers for workers: one for a sampler and one for a trainer of each core,
 * whatever split is chosen or asked for while the job runs; more where the job file names a larger
 * one.
 *
 * EXTERNAL TRAINERS are processes of the user's, which run where they like: their seats take the
 * last devices, as trainers do. With "auto" and "cpu" samplers have a core each and may be as many
 * as there are cores; a quarter of that is where a job begins, since rows are gathered by the
 * trainers' threads, which takes most of a loader's time. The seats stand beside them and have all
 * cores.
 *
 * One device is a case of its own: it samples and its standby trainer trains, in turn. There are no
 * trainers then, and without switching nobody would train.
 */
#include "config/parse_internal.h"

#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/device/cores.h"

void sl_config_group_cores(const struct sl_cores *set, struct sl_config *c)
{
    uint16_t cores[SL_CORES_MAX];
    uint32_t n = sl_cores_list(set, cores, SL_CORES_MAX);
    uint32_t each = (uint32_t)sl_div_up(n, SL_CONFIG_MAX_DEVICES);
    for (uint32_t i = 0; i < n; i++) {
        struct sl_device_config *device = &c->devices[i / each];
        device->kind = SL_DEVICE_CPU;
        device->cores[device->n_cores++] = cores[i];
    }
    c->n_devices = (uint32_t)sl_div_up(n, each);
}

void sl_config_cores(const struct sl_config *c, struct sl_cores *out)
{
    *out = (struct sl_cores){0};
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (uint32_t i = 0; i < c->devices[d].n_cores; i++)
            sl_cores_add(out, c->devices[d].cores[i]);
}

// At least n devices, or as many as there can be: the ones that are there, again in turn.
static void repeat_devices(struct sl_config *c, uint32_t n)
{
    uint32_t turn = c->n_devices;
    n = SL_MIN(n, (uint32_t)SL_CONFIG_MAX_DEVICES);
    for (; c->n_devices < n; c->n_devices++)
        c->devices[c->n_devices] = c->devices[c->n_devices - turn];
}

// Seats for external trainers behind the devices that are there; of CPU devices with all the cores.
static void add_seats(struct sl_config *c, uint32_t seats)
{
    struct sl_cores set;
    const uint32_t first = c->n_devices;
    sl_config_cores(c, &set);
    repeat_devices(c, first + seats);
    for (struct sl_device_config *seat = &c->devices[first]; seat < &c->devices[c->n_devices];
         seat++)
        if (seat->kind == SL_DEVICE_CPU)
            seat->n_cores = sl_cores_list(&set, seat->cores, SL_CONFIG_MAX_CORES);
}

int sl_parse_resolve_cores(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    char path[SL_KEY_PATH_BYTES];
    if (!sl_parse_find(p->root, "allocation.cores"))
        c->allocation.cores = c->devices_auto && !sl_config_is_external(c) &&
                                      !sl_parse_find(p->root, "allocation.switching")
                                  ? SL_CORES_POOL
                                  : SL_CORES_FIXED;
    for (uint32_t d = 0; d < c->n_devices && sl_config_is_pool(c); d++) {
        if (c->devices[d].kind == SL_DEVICE_CPU && c->devices[d].memory_bytes == 0)
            continue;
        bool gpu = c->devices[d].kind != SL_DEVICE_CPU;
        snprintf(path, sizeof path, "devices[%u].%s", d, gpu ? "kind" : "memory");
        return sl_parse_fail(p, path,
                             "found %s with allocation.cores \"pool\", which has whole cores only: "
                             "take it out, or set allocation.cores to \"fixed\"",
                             gpu ? "a GPU" : "a budget");
    }
    return SL_OK;
}

// The devices' cores together are what each of them has.
static void make_pool(struct sl_config *c)
{
    struct sl_cores set;
    sl_config_cores(c, &set);
    struct sl_device_config *one = &c->devices[0];
    one->n_cores = sl_cores_list(&set, one->cores, SL_CONFIG_MAX_CORES);
    c->n_devices = 1;
    repeat_devices(c, 2 * one->n_cores);
}

static int check_cores(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    struct sl_cores allowed;
    SL_TRY(sl_cores_allowed(&allowed));
    for (uint32_t d = 0; d < c->n_devices; d++) {
        for (uint32_t i = 0; i < c->devices[d].n_cores; i++) {
            uint32_t core = c->devices[d].cores[i];
            if (sl_cores_has(&allowed, core))
                continue;
            char path[SL_KEY_PATH_BYTES], text[256];
            snprintf(path, sizeof path, "devices[%u].cores", d);
            sl_cores_format(&allowed, text, sizeof text);
            if (core >= sl_cores_configured())
                return sl_parse_fail(
                    p, path,
                    "found core %u, which this machine does not have, wanted cores "
                    "among %s: correct it (several devices may name the same "
                    "core)",
                    core, text);
            return sl_parse_fail(
                p, path,
                "found core %u, which this process may not use, wanted cores among "
                "%s: correct it, or widen the process's affinity or cpuset",
                core, text);
        }
    }
    return SL_OK;
}

// The fewest workers that a split may have.
struct roles {
    uint32_t samplers, trainers;
};

static struct roles roles_of_allocation(const struct sl_config *c)
{
    struct roles r = {
        .samplers = c->allocation.samplers_auto ? 1 : c->allocation.samplers,
        .trainers = c->allocation.trainers_auto ? 1 : c->allocation.trainers,
    };
    // One device that alternates will do.
    bool alternates = c->allocation.switching && c->allocation.cores == SL_CORES_FIXED;
    if (c->allocation.trainers_auto && alternates && r.samplers == 1)
        r.trainers = 0;
    return r;
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

// Whether the devices can hold a split; `open`: what it says of trainers is the least.
static int check_roles(const struct sl_parse *p, const char *path, struct roles r, bool open)
{
    uint32_t n = p->out->n_devices;
    if (r.samplers + r.trainers <= n)
        return SL_OK;
    char found[96];
    snprintf(found, sizeof found, "%u sampler%s and %s%u trainer%s", r.samplers, plural(r.samplers),
             open ? "at least " : "", r.trainers, plural(r.trainers));
    if (p->out->devices_auto || sl_config_is_pool(p->out))
        return sl_parse_fail(p, path,
                             "found %s, wanted at most %u workers, which is how many a job can "
                             "have: ask for fewer",
                             found, n);
    return sl_parse_fail(p, path,
                         "found %s, wanted at most %u role%s on %u device%s: list more devices "
                         "(several may name the same core or GPU) or ask for fewer",
                         found, n, plural(n), n, plural(n));
}

static int check_schedule(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    char path[SL_KEY_PATH_BYTES];
    for (uint32_t i = 0; i < c->n_schedule; i++) {
        const struct sl_schedule_config *s = &c->schedule[i], *before = s - 1;
        snprintf(path, sizeof path, "schedule[%u].epoch", i);
        if (!c->epochs_auto && s->epoch >= c->epochs)
            return sl_parse_fail(p, path,
                                 "found %u with %u epoch%s, which are counted from 0, wanted at "
                                 "most %u: correct it, or raise epochs",
                                 s->epoch, c->epochs, plural(c->epochs), c->epochs - 1);
        snprintf(path, sizeof path, "schedule[%u]", i);
        if (i &&
            (s->epoch < before->epoch || (s->epoch == before->epoch && s->batch <= before->batch)))
            return sl_parse_fail(p, path,
                                 "found epoch %u, batch %u after epoch %u, batch %u, wanted "
                                 "ascending entries: sort them, one for each moment",
                                 s->epoch, s->batch, before->epoch, before->batch);
        SL_TRY(check_roles(p, path, (struct roles){s->samplers, s->trainers}, false));
    }
    return SL_OK;
}

// Of CPU devices and GPUs, both numbers open: those of the first kind sample, the others train.
static int share_between_kinds(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    uint32_t n = c->n_devices, first = 0;
    while (first < n && c->devices[first].kind == c->devices[0].kind)
        first++;
    if (first == n)
        return SL_OK;
    for (uint32_t d = 1; d < n; d++) {
        char path[SL_KEY_PATH_BYTES];
        if (c->devices[d].kind != SL_DEVICE_CPU || c->devices[d - 1].kind == SL_DEVICE_CPU)
            continue;
        snprintf(path, sizeof path, "devices[%u].kind", d);
        return sl_parse_fail(p, path,
                             "found \"cpu\" after \"cuda\", wanted CPU devices first: the first "
                             "devices sample and the last ones train, and GPUs train unless the "
                             "job says otherwise; sort the list, or give allocation.samplers and "
                             "allocation.trainers");
    }
    c->allocation.samplers = first;
    c->allocation.trainers = n - first;
    c->allocation.samplers_auto = c->allocation.trainers_auto = false;
    return SL_OK;
}

int sl_parse_resolve_roles(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    struct roles least = roles_of_allocation(c);
    uint32_t *samplers = &c->allocation.samplers, *trainers = &c->allocation.trainers;
    const bool pool = sl_config_is_pool(c), external = sl_config_is_external(c);
    if (c->devices_auto || pool) {
        uint32_t most = least.samplers + least.trainers;
        for (uint32_t i = 0; i < c->n_schedule; i++)
            most = SL_MAX(most, c->schedule[i].samplers + c->schedule[i].trainers);
        repeat_devices(c, external ? most - least.trainers : most);
        if (external)
            add_seats(c, least.trainers);
    } else if (c->n_devices == 1 && !c->allocation.switching && least.samplers == 1 &&
               c->allocation.trainers_auto) {
        return sl_parse_fail(p, "allocation.switching",
                             "found false with 1 device, wanted true: one device samples and "
                             "trains in turn, which is switching; set it to true, or list a "
                             "second device (several may name the same core or GPU)");
    }
    SL_TRY(check_roles(p, "allocation", least, c->allocation.trainers_auto));
    SL_TRY(check_schedule(p));

    bool both = c->allocation.samplers_auto && c->allocation.trainers_auto;
    if (both)
        SL_TRY(share_between_kinds(p));
    uint32_t n = c->n_devices;
    if (c->allocation.samplers_auto)
        *samplers = pool ? 1 : both ? SL_MAX(1u, n / 4) : n - *trainers;
    if (external && c->allocation.samplers_auto) {
        c->allocation.samplers_auto = false; // the broker decides nothing here
        c->allocation.by_cores = c->devices_auto && c->devices[0].kind == SL_DEVICE_CPU;
        if (c->allocation.by_cores)
            *samplers = SL_MAX(1u, *samplers / 4);
    }
    if (c->allocation.trainers_auto)
        *trainers = pool ? 1 : n - *samplers;
    return SL_OK;
}

int sl_parse_resolve_split(const struct sl_parse *p)
{
    struct sl_cores physical;
    if (!p->out->devices_auto) {
        SL_TRY(check_cores(p));
    } else {
        SL_TRY(sl_cores_physical(&physical));
        sl_cores_keep_quota(&physical, sl_cores_quota());
        sl_config_group_cores(&physical, p->out);
    }
    if (sl_config_is_pool(p->out))
        make_pool(p->out);
    return sl_parse_resolve_roles(p);
}

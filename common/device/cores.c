/*
 * cores.c - cores by number, from the kernel and from hwloc.
 *
 * Which numbers the process may use is the kernel's answer alone (sched_getaffinity, which already
 * reflects cpusets); hwloc only says which of them are hardware threads of one core. It is asked
 * for cores and nothing else, without binding itself to each of them in turn, so it loads in a few
 * milliseconds. Where it cannot tell, every allowed number counts as a core.
 *
 * A container's CPU limit is mostly a quota, which no affinity shows: threads beyond it are stopped
 * for the rest of each period, all at the same time. The control groups are asked for it.
 */
#include "common/device/cores.h"

#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/cgroup.h"
#include "common/base/error.h"

uint32_t sl_cores_count(const struct sl_cores *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SL_CORES_MAX / 64; i++)
        n += (uint32_t)__builtin_popcountll(set->bits[i]);
    return n;
}

uint32_t sl_cores_list(const struct sl_cores *set, uint16_t *list, uint32_t capacity)
{
    uint32_t n = 0;
    for (uint32_t core = 0; core < SL_CORES_MAX && n < capacity; core++)
        if (sl_cores_has(set, core))
            list[n++] = (uint16_t)core;
    return n;
}

// Reads a core number at *at and moves past it.
static int parse_number(const char *text, const char **at, uint32_t *out)
{
    if (**at == '\0')
        return sl_fail(SL_EINVAL, "a core number is missing at its end");
    if (**at < '0' || **at > '9')
        return sl_fail(SL_EINVAL, "character %zu is not a core number", (size_t)(*at - text) + 1);
    uint32_t value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (uint32_t)(**at - '0');
        if (value >= SL_CORES_MAX)
            return sl_fail(SL_EINVAL, "core numbers end at %d", SL_CORES_MAX - 1);
    }
    *out = value;
    return SL_OK;
}

int sl_cores_parse(const char *text, struct sl_cores *out)
{
    *out = (struct sl_cores){0};
    const char *at = text;
    for (;;) {
        uint32_t first = 0, last;
        SL_TRY(parse_number(text, &at, &first));
        last = first;
        if (*at == '-') {
            at++;
            SL_TRY(parse_number(text, &at, &last));
            if (last < first)
                return sl_fail(SL_EINVAL, "the range %u-%u runs backwards", first, last);
        }
        for (uint32_t core = first; core <= last; core++) {
            if (sl_cores_has(out, core))
                return sl_fail(SL_EINVAL, "core %u is listed twice", core);
            sl_cores_add(out, core);
        }
        if (*at == '\0')
            return SL_OK;
        if (*at != ',')
            return sl_fail(SL_EINVAL, "character %zu is neither \",\" nor \"-\"",
                           (size_t)(at - text) + 1);
        at++;
        if (*at == ' ')
            at++;
    }
}

// Owned: hwloc_bitmap_free(). NULL without memory.
static hwloc_bitmap_t bitmap_of(const struct sl_cores *set)
{
    hwloc_bitmap_t map = hwloc_bitmap_alloc();
    if (map && hwloc_bitmap_from_ulongs(map, SL_CORES_MAX / 64, set->bits) == 0)
        return map;
    hwloc_bitmap_free(map);
    return NULL;
}

void sl_cores_format(const struct sl_cores *set, char *out, size_t bytes)
{
    hwloc_bitmap_t map = bitmap_of(set);
    out[0] = '\0';
    if (map)
        hwloc_bitmap_list_snprintf(out, bytes, map);
    hwloc_bitmap_free(map);
}

int sl_cores_allowed(struct sl_cores *out)
{
    *out = (struct sl_cores){0};
    // The kernel refuses a mask smaller than its own, whose size it does not tell.
    for (size_t n = SL_CORES_MAX; n <= (size_t)1 << 20; n *= 4) {
        cpu_set_t *mask = CPU_ALLOC(n);
        if (!mask)
            return sl_fail(SL_ENOMEM, "cores: no memory for a mask of %zu cores", n);
        size_t bytes = CPU_ALLOC_SIZE(n);
        int rc = sched_getaffinity(0, bytes, mask);
        int err = errno;
        if (rc == 0)
            for (uint32_t core = 0; core < SL_CORES_MAX; core++)
                if (CPU_ISSET_S(core, bytes, mask))
                    sl_cores_add(out, core);
        CPU_FREE(mask);
        if (rc == 0)
            break;
        if (err != EINVAL)
            return sl_fail_errno(SL_ESYS, err, "cores: asking which cores this process may use");
    }
    if (sl_cores_count(out) == 0)
        return sl_fail(SL_ESYS,
                       "cores: this process may use no core below %d: widen its affinity (taskset)",
                       SL_CORES_MAX);
    return SL_OK;
}

// The machine's objects of some types alone; false when hwloc cannot tell.
static bool load_topology(const hwloc_obj_type_t *types, size_t n, hwloc_topology_t *out)
{
    if (hwloc_topology_init(out) < 0)
        return false;
    unsigned long flags = 0;
#if HWLOC_API_VERSION >= 0x00020500
    // Without it the x86 back end would move this process over all cores, one after the other.
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
    flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
             HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
    bool ok = hwloc_topology_set_all_types_filter(*out, HWLOC_TYPE_FILTER_KEEP_NONE) == 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = hwloc_topology_set_type_filter(*out, types[i], HWLOC_TYPE_FILTER_KEEP_ALL) == 0;
    if (ok && hwloc_topology_set_flags(*out, flags) == 0 && hwloc_topology_load(*out) == 0)
        return true;
    hwloc_topology_destroy(*out);
    return false;
}

// The lowest allowed number of every core that hwloc sees; false when it cannot tell.
static bool one_per_core(const struct sl_cores *allowed, struct sl_cores *out)
{
    hwloc_topology_t topology;
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_CORE};
    if (!load_topology(types, 1, &topology))
        return false;
    hwloc_bitmap_t map = bitmap_of(allowed);
    // A topology that misses a core which the kernel lets us use is no base for a decision.
    bool ok = map &&
              hwloc_bitmap_isincluded(map, hwloc_topology_get_topology_cpuset(topology)) == 1 &&
              hwloc_bitmap_singlify_per_core(topology, map, 0) == 0 &&
              hwloc_bitmap_to_ulongs(map, SL_CORES_MAX / 64, out->bits) == 0;
    hwloc_bitmap_free(map);
    hwloc_topology_destroy(topology);
    return ok;
}

uint32_t sl_cores_neighbours(const struct sl_cores *set, uint16_t *list, uint32_t capacity)
{
    // What hwloc orders hardware threads by: without these it is their numbers.
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE};
    hwloc_topology_t topology;
    uint32_t n = 0, found = 0, all = sl_cores_count(set);
    if (load_topology(types, SL_COUNT_OF(types), &topology)) {
        hwloc_obj_t pu = NULL;
        while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != NULL) {
            if (!sl_cores_has(set, pu->os_index))
                continue;
            found++;
            if (n < capacity)
                list[n++] = (uint16_t)pu->os_index;
        }
        hwloc_topology_destroy(topology);
    }
    return found == all ? n : sl_cores_list(set, list, capacity);
}

int sl_cores_physical(struct sl_cores *out)
{
    struct sl_cores allowed;
    *out = (struct sl_cores){0};
    SL_TRY(sl_cores_allowed(&allowed));
    if (!one_per_core(&allowed, out))
        *out = allowed; // what hwloc added before it fell short is forgotten
    return SL_OK;
}

// --- the quota -----------------------------------------------------------------------------------

// Version 2 has both in one file, "max 100000" or "150000 100000"; version 1 has -1 for no limit.
static double quota_in(const char *dir, enum sl_cgroup_version version)
{
    char text[SL_CGROUP_TEXT_BYTES];
    double quota = 0, period = 0;
    if (version == SL_CGROUP_V2) {
        if (!sl_cgroup_read(dir, "cpu.max", text) || sscanf(text, "%lf %lf", &quota, &period) != 2)
            return INFINITY;
    } else {
        if (!sl_cgroup_read(dir, "cpu.cfs_quota_us", text))
            return INFINITY;
        quota = strtod(text, NULL);
        if (!sl_cgroup_read(dir, "cpu.cfs_period_us", text))
            return INFINITY;
        period = strtod(text, NULL);
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

static void take_least(void *ctx, const char *dir, enum sl_cgroup_version version)
{
    double *least = ctx;
    *least = fmin(*least, quota_in(dir, version));
}

double sl_cores_quota_below(const char *root)
{
    double least = INFINITY;
    sl_cgroup_each(root, "cpu", take_least, &least);
    return least;
}

double sl_cores_quota(void)
{
    return sl_cores_quota_below("");
}

bool sl_cores_keep_quota(struct sl_cores *set, double quota)
{
    // 2.005 is somebody's way to write 2.
    double most = fmax(ceil(quota - 0.01), 1);
    uint32_t n = 0;
    bool some = false;
    for (uint32_t core = 0; core < SL_CORES_MAX; core++) {
        if (!sl_cores_has(set, core) || n++ < most)
            continue;
        set->bits[core / 64] &= ~((uint64_t)1 << (core % 64));
        some = true;
    }
    return some;
}

uint32_t sl_cores_configured(void)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);
    return n < 1 ? 1 : (uint32_t)n;
}

int sl_device_pin(const uint16_t *cores, uint32_t n)
{
    struct sl_cores wanted = {0}, have;
    cpu_set_t mask;
    _Static_assert(CPU_SETSIZE >= SL_CORES_MAX, "cpu_set_t holds every core that sluice uses");
    CPU_ZERO(&mask);
    for (uint32_t i = 0; i < n; i++) {
        if (cores[i] >= SL_CORES_MAX)
            return sl_fail(SL_EINVAL, "device: core %u: core numbers end at %d", cores[i],
                           SL_CORES_MAX - 1);
        CPU_SET(cores[i], &mask);
        sl_cores_add(&wanted, cores[i]);
    }
    char text[256];
    sl_cores_format(&wanted, text, sizeof text);
    if (n == 0)
        return sl_fail(SL_EINVAL, "device: pinned to no core at all: wanted at least one");
    if (sched_setaffinity(0, sizeof mask, &mask) < 0)
        return sl_fail_errno(errno == EINVAL ? SL_EINVAL : SL_ESYS, errno,
                             "device: running on cores %s", text);
    // The kernel silently leaves out what the cpuset forbids.
    SL_TRY(sl_cores_allowed(&have));
    if (memcmp(&have, &wanted, sizeof have) != 0) {
        char got[256];
        sl_cores_format(&have, got, sizeof got);
        return sl_fail(
            SL_EINVAL,
            "device: running on cores %s: got only %s: the cpuset of this process leaves "
            "some out",
            text, got);
    }
    return SL_OK;
}

// struct sched_attr of Linux, in its first version: its header and <sched.h> both have sched_param.
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void sl_cores_long_slices(void)
{
    struct attributes a = {0};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0)
        return;
    if (a.policy != SCHED_OTHER && a.policy != SCHED_BATCH)
        return;
    a.runtime = SL_CORES_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

/*
 * cores.h - sets of CPU cores: which ones there are, which ones a text names, running on them.
 *
 * A core is what the operating system numbers as a CPU (taskset's and lstopo's P# numbers).
 */
#ifndef SL_DEVICE_CORES_H
#define SL_DEVICE_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_CORES_MAX = 1024,        // highest core number + 1; cores beyond it are not used
    SL_CORES_TEXT_BYTES = 8192, // enough for sl_cores_format() of any set
};

// A zeroed set is empty.
struct sl_cores {
    uint64_t bits[SL_CORES_MAX / 64];
};

static inline bool sl_cores_has(const struct sl_cores *set, uint32_t core)
{
    return core < SL_CORES_MAX && (set->bits[core / 64] >> (core % 64) & 1);
}

static inline void sl_cores_add(struct sl_cores *set, uint32_t core)
{
    set->bits[core / 64] |= (uint64_t)1 << (core % 64);
}

uint32_t sl_cores_count(const struct sl_cores *set);

// The members in ascending order, at most `capacity` of them; returns how many were written.
uint32_t sl_cores_list(const struct sl_cores *set, uint16_t *list, uint32_t capacity);

// "0", "0-3", "0,2", "0-1,6": SL_OK, or SL_EINVAL with a message that says what is wrong with the
// text; the caller names the text and what it is for.
int sl_cores_parse(const char *text, struct sl_cores *out);

// The shortest text that sl_cores_parse() reads back as this set; cut off at `bytes`.
void sl_cores_format(const struct sl_cores *set, char *out, size_t bytes);

// The cores that the calling thread may run on (affinity and cpuset). SL_ESYS when unknown.
int sl_cores_allowed(struct sl_cores *out);

// Of each physical core that the calling thread may run on, the lowest of its allowed numbers:
// hardware threads of one core count once. SL_ESYS when unknown.
int sl_cores_physical(struct sl_cores *out);

// The members in the order of the machine, at most `capacity` of them: cores of one node, and of
// one cache, follow one another, whatever their numbers are. Returns how many were written.
uint32_t sl_cores_neighbours(const struct sl_cores *set, uint16_t *list, uint32_t capacity);

/*
 * How many cores' worth of time the control groups above this process grant (their CPU quota,
 * versions 1 and 2; the tightest of them counts); INFINITY without a limit. The quota says nothing
 * of which cores: more of them may be used, for a part of the time each.
 */
double sl_cores_quota(void);
// The same from the files below `root` ("" is this machine): what tests use.
double sl_cores_quota_below(const char *root);

/*
 * Keeps the lowest cores of the set as far as the quota lasts: as many as it rounds up to, and at
 * least one. Returns true when some were left out.
 */
bool sl_cores_keep_quota(struct sl_cores *set, double quota);

// Core numbers below this exist on this machine (some may be offline or not allowed).
uint32_t sl_cores_configured(void);

// Runs the calling thread, and threads and processes that it starts from now on, on exactly these
// cores. SL_EINVAL when one of them cannot be had.
int sl_device_pin(const uint16_t *cores, uint32_t n);

/*
 * Asks Linux (6.12 or newer; others ignore it) to let the calling thread, and what it starts from
 * now on, compute SL_CORES_SLICE_NS at a time where threads share a core, at the same share of it:
 * each change of threads costs what the caches had. Whoever has shorter slices, as a user's own
 * program, still runs at once when it wakes. Threads that are no fair-share ones are left alone.
 */
#define SL_CORES_SLICE_NS 10000000u
void sl_cores_long_slices(void);

#endif

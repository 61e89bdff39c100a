/*
 * placement.h - which device each role of a job runs on.
 *
 * Samplers take the devices from the first one up, trainers from the last one down: sampler i sits
 * on device i, trainer k on device n - 1 - k, and every split of the same devices is a prefix and a
 * suffix. A change of the split thus touches only the devices in the middle, and names stay what
 * they are. With switching, the device of every sampler has a standby trainer too, if it is of the
 * kind of the devices that train: a CPU and a GPU give sums that differ in their last bits, and
 * which of them trains a mini-batch depends on time, so that a run would never be repeated exactly.
 * The last device is one of those that train.
 */
#ifndef SL_BROKER_PLACEMENT_PLACEMENT_H
#define SL_BROKER_PLACEMENT_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/device/cores.h"
#include "common/arena/seat.h"
#include "config/config.h"

// The link of a job over several nodes is on no device, and is not counted among the others.
enum sl_role { SL_ROLE_SAMPLER, SL_ROLE_TRAINER, SL_ROLE_COUNT, SL_ROLE_LINK = SL_ROLE_COUNT };

const char *sl_role_name(enum sl_role role); // "sampler", "trainer", "link"

struct sl_roles {
    uint32_t samplers, trainers;
};

// Mini-batches that the workers of a split have in hand at most, and one that lies ready: a trainer
// has two (it trains one and extracts the other), of which there always is one, a sampler one.
uint64_t sl_placement_batches(struct sl_roles split);

// What the seat of a role on a device is for under a split of n_devices.
enum sl_duty sl_placement_duty(struct sl_roles split, uint32_t n_devices, bool switching,
                               enum sl_role role, uint32_t device);

// Whether the device may have a standby trainer while it samples: the job allows switching, and the
// device is of the right kind.
bool sl_placement_switches(const struct sl_config *config, uint32_t device);

// 0 for "sampler 0".
uint32_t sl_placement_role_index(uint32_t n_devices, enum sl_role role, uint32_t device);

// People are shown the devices of the job, or the pool, of which devices are only the places: how
// many there are, and which of them a device is.
static inline uint32_t sl_placement_shown_devices(const struct sl_config *c)
{
    return sl_config_is_pool(c) ? 1 : c->n_devices;
}
static inline uint32_t sl_placement_shown(const struct sl_config *c, uint32_t device)
{
    return sl_config_is_pool(c) ? 0 : device;
}
// "cpu 0", "pool". Returns buf.
char *sl_placement_device_name(const struct sl_config *config, uint32_t shown, char *buf,
                               size_t bytes);
// Its cores, of a GPU those of its host.
void sl_placement_device_cores(const struct sl_config *config, uint32_t shown,
                               struct sl_cores *out);

// "cpu 0: cores 0,2", "pool: cores 0-1", "cuda 1: GPU 0, 8GiB, host cores 0-3", of one that
// is shown. Returns buf.
char *sl_placement_device_text(const struct sl_config *config, uint32_t shown, char *buf,
                               size_t bytes);

// How the split of a job file comes about, before anything is measured. Returns buf.
char *sl_placement_reason(const struct sl_config *config, char *buf, size_t bytes);

#endif

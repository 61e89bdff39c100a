/*
 * exchange.c - what updates.exchange requires of a job's devices.
 *
 * With "nccl" the trainers of a job sum the gradients of each update from GPU to GPU. Two things
 * follow. Each trainer needs a GPU of its own, since NCCL refuses to use a GPU twice; samplers may
 * share a trainer's GPU or run on cores. And there are no standby trainers: these come and go while
 * an update is under way, and the members of a sum cannot change then.
 *
 * Trainers run on the last devices. Checked is the largest number of them that the job can come to
 * by itself: what it names, its schedule included, or all devices but one where the broker chooses.
 * A request for more while the job runs is refused when it comes.
 */
#include "config/parse_internal.h"

#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { MISFIT_BYTES = 96 };

// How many of these trainers can sum by NCCL, and in words what keeps the next one from it.
static uint32_t count_fit(const struct sl_config *c, uint32_t trainers, char misfit[MISFIT_BYTES])
{
    uint32_t n = c->n_devices;
    misfit[0] = '\0';
    trainers = SL_MIN(trainers, n);
    for (uint32_t i = 0; i < trainers; i++) {
        uint32_t d = n - 1 - i;
        if (c->devices[d].kind != SL_DEVICE_CUDA) {
            snprintf(misfit, MISFIT_BYTES, "device %u is a CPU device", d);
            return i;
        }
        for (uint32_t other = d + 1; other < n; other++) {
            if (c->devices[other].index != c->devices[d].index)
                continue;
            snprintf(misfit, MISFIT_BYTES, "device %u and device %u are both on GPU %u", d, other,
                     c->devices[d].index);
            return i;
        }
    }
    return trainers;
}

int sl_config_check_trainers(const struct sl_config *config, uint32_t trainers)
{
    char misfit[MISFIT_BYTES];
    if (config->updates.exchange != SL_EXCHANGE_NCCL)
        return SL_OK;
    uint32_t fit = count_fit(config, trainers, misfit);
    if (fit >= trainers)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "found trainers=%u with updates.exchange \"nccl\", wanted at most %u: each "
                   "trainer needs a GPU of its own, but %s: ask for fewer",
                   trainers, fit, misfit);
}

uint32_t sl_parse_most_trainers(const struct sl_config *c)
{
    if (c->allocation.samplers_auto && c->allocation.trainers_auto)
        return c->n_devices - 1;
    uint32_t most = c->allocation.trainers;
    for (uint32_t i = 0; i < c->n_schedule; i++)
        most = SL_MAX(most, c->schedule[i].trainers);
    return most;
}

int sl_parse_resolve_exchange(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    if (c->updates.exchange != SL_EXCHANGE_NCCL)
        return SL_OK;
    if (!sl_parse_find(p->root, "allocation.switching"))
        c->allocation.switching = false;
    if (c->allocation.switching)
        return sl_parse_fail(
            p, "allocation.switching",
            "found true with updates.exchange \"nccl\", wanted false: a "
            "group of trainers that sums gradients cannot change in mid-update, so "
            "there are no standby trainers; take it out, or set updates.exchange to \"board\"");
    if (!c->devices_auto && c->n_devices == 1)
        return sl_parse_fail(p, "updates.exchange",
                             "found \"nccl\" with 1 device, wanted at least 2: a device that "
                             "samples and trains in turn has only a standby trainer; list a second "
                             "one (it may name the same GPU), or take \"board\"");
    return SL_OK;
}

int sl_parse_check_exchange(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    char misfit[MISFIT_BYTES];
    if (c->updates.exchange != SL_EXCHANGE_NCCL)
        return SL_OK;
    uint32_t most = sl_parse_most_trainers(c), fit = count_fit(c, most, misfit);
    if (fit >= most)
        return SL_OK;
    if (fit == 0)
        return sl_parse_fail(p, "updates.exchange",
                             "found \"nccl\", wanted a GPU for each trainer, but %s and has a "
                             "trainer: list GPUs last, or take \"board\"",
                             misfit);
    return sl_parse_fail(p, "updates.exchange",
                         "found \"nccl\" with as many as %u trainers, wanted a GPU of its own for "
                         "each, but %s: set allocation.trainers to at most %u, list other GPUs, or "
                         "take \"board\"",
                         most, misfit, fit);
}

// placement.h - which device each worker of a job runs on.
#ifndef SL_BROKER_PLACEMENT_H
#define SL_BROKER_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/*
 * Round-robin over the devices: samplers from device 0 up, trainers after them. Where there are
 * fewer devices than workers, several workers share one.
 */
uint32_t sl_placement_sampler(const struct sl_config *config, uint32_t sampler);
uint32_t sl_placement_trainer(const struct sl_config *config, uint32_t trainer);

// "cpu 0: cores 0,2" for people. Returns buf.
char *sl_placement_device_text(const struct sl_config *config, uint32_t device, char *buf,
                               size_t bytes);

// Why there are so many samplers and trainers, for the report. Returns buf.
char *sl_placement_reason(const struct sl_config *config, char *buf, size_t bytes);

#endif

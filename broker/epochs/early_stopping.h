/*
 * early_stopping.h - which evaluation was the best one, and whether it is time to stop.
 *
 * The best parameters are those of the best value that there was, of equals the first. Patience is
 * measured otherwise: an evaluation is progress when it is better by more than min_delta than the
 * last one that was progress, so that many small steps are progress once they add up. After
 * `patience` evaluations in a row without progress training stops, and with the first one that
 * reaches the target.
 *
 * A value that is not a number does not count: a metric that the labels do not define (judging.h)
 * has no best epoch, and patience does not count what could not have been better.
 */
#ifndef SL_BROKER_EPOCHS_EARLY_STOPPING_H
#define SL_BROKER_EPOCHS_EARLY_STOPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/epochs/metrics.h"
#include "config/config.h"

struct sl_early_stopping {
    bool has;
    uint32_t epoch;
    double value;
    double mark;             // of the last evaluation that was progress
    uint32_t waited;         // evaluations since that one
    enum sl_measure measure; // that the values are of; SL_MEASURE_COUNT: an older checkpoint's
};

// Takes an evaluation's value; NaN changes nothing. True when it is the best one so far.
bool sl_early_stopping_on_value(struct sl_early_stopping *best, enum sl_measure measure,
                                double min_delta, uint32_t epoch, double value);

// Whether patience (0: without end) has run out.
static inline bool sl_early_stopping_is_stale(const struct sl_early_stopping *best,
                                              uint32_t patience)
{
    return patience > 0 && best->waited >= patience;
}

// Whether the best value is the target (0: none) or better.
bool sl_early_stopping_has_reached(const struct sl_early_stopping *best, double target);

// Whether training ends now, by either.
static inline bool sl_early_stopping_ends(const struct sl_early_stopping *best,
                                          const struct sl_config *config)
{
    return sl_early_stopping_is_stale(best, config->early_stopping.patience) ||
           sl_early_stopping_has_reached(best, config->early_stopping.target);
}

#endif

#include "broker/epochs/early_stopping.h"

#include <math.h>

// By how much `value` is better than `other`.
static double gain(enum sl_measure measure, double value, double other)
{
    if (value == other)
        return 0; // infinite ones too
    return sl_measure_kinds[measure].less_is_better ? other - value : value - other;
}

bool sl_early_stopping_on_value(struct sl_early_stopping *best, enum sl_measure measure,
                                double min_delta, uint32_t epoch, double value)
{
    if (isnan(value))
        return false;
    bool better = !best->has || gain(measure, value, best->value) > 0;
    if (!best->has || gain(measure, value, best->mark) > min_delta) {
        best->mark = value;
        best->waited = 0;
    } else {
        best->waited++;
    }
    if (better) {
        best->has = true;
        best->measure = measure;
        best->epoch = epoch;
        best->value = value;
    }
    return better;
}

bool sl_early_stopping_has_reached(const struct sl_early_stopping *best, double target)
{
    return target > 0 && best->has && best->measure < SL_MEASURE_COUNT &&
           gain(best->measure, best->value, target) >= 0;
}

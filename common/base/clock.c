#include "common/base/clock.h"

uint64_t sl_clock_ahead_ns;

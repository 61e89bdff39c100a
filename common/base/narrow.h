// narrow.h - numbers of other programs as float32.
#ifndef SL_BASE_NARROW_H
#define SL_BASE_NARROW_H

#include <math.h>
#include <stdbool.h>

#define SL_FLOAT32_LARGEST "3.4028235e+38" // for messages

// *out = x rounded; false where x is finite and float32 has nothing so large.
static inline bool sl_narrow(double x, float *out)
{
    *out = (float)x;
    return isfinite(*out) || !isfinite(x);
}

#endif

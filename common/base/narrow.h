// narrow.h - rounds numbers of other programs to float32.
#ifndef SL_BASE_NARROW_H
#define SL_BASE_NARROW_H

#include <math.h>
#include <stdbool.h>

#define SL_FLOAT32_LARGEST "3.4028235e+38" // for messages

// *out = x rounded; false where x is finite and too large for float32.
static inline bool sl_narrow(double x, float *out)
{
    *out = (float)x;
    return isfinite(*out) || !isfinite(x);
}

#endif

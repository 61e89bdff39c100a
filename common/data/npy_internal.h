// npy_internal.h - what the parts of npy.h share.
#ifndef SL_DATA_NPY_INTERNAL_H
#define SL_DATA_NPY_INTERNAL_H

#include "common/base/dtype.h"

// "f4" and so on, without the byte order; NULL for a type that .npy files cannot hold.
const char *sl_npy_descr(enum sl_dtype dtype);

#endif

// dtype.h - element types of arrays in files and in kernels. Seen by CUDA sources.
#ifndef SL_BASE_DTYPE_H
#define SL_BASE_DTYPE_H

#include <stddef.h>

enum sl_dtype {
    SL_DTYPE_NONE,
    SL_DTYPE_F32,
    SL_DTYPE_F16,
    SL_DTYPE_BF16,
    SL_DTYPE_F64,
    SL_DTYPE_I8,
    SL_DTYPE_U8,
    SL_DTYPE_I32,
    SL_DTYPE_I64,
    SL_DTYPE_U32,
    SL_DTYPE_U64,
    SL_DTYPE_I16,
    SL_DTYPE_U16,
};

static inline size_t sl_dtype_bytes(enum sl_dtype t)
{
    switch (t) {
    case SL_DTYPE_F32:
    case SL_DTYPE_I32:
    case SL_DTYPE_U32: return 4;
    case SL_DTYPE_F16:
    case SL_DTYPE_BF16:
    case SL_DTYPE_I16:
    case SL_DTYPE_U16: return 2;
    case SL_DTYPE_F64:
    case SL_DTYPE_I64:
    case SL_DTYPE_U64: return 8;
    case SL_DTYPE_I8:
    case SL_DTYPE_U8: return 1;
    default: return 0;
    }
}

#endif

#!/bin/sh
# NumPy 2.4.6 with ml_dtypes 0.6.0: an array of bfloat16 is saved as raw bytes of no type (`<V2`), an
# array of float8 as `V1`; numpy.load gives them back as such without a word, ml_dtypes there or not.
# Seen: dtype('V2'); the numbers come back only by .view(ml_dtypes.bfloat16).
exec "$(dirname "$0")/with" numpy==2.4.6 ml_dtypes==0.6.0 <<'PYTHON'
import ml_dtypes
import numpy as np

saved = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
np.save("rows.npy", saved)
loaded = np.load("rows.npy")
print(f"saved {saved.dtype}, loaded {loaded.dtype}")
assert loaded.dtype == np.dtype("V2")
assert (loaded.view(ml_dtypes.bfloat16) == saved).all()
np.save("rows.npy", np.array([1, 2], ml_dtypes.float8_e4m3fn))
assert np.load("rows.npy").dtype == np.dtype("V1")
PYTHON

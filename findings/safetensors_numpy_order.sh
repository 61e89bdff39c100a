#!/bin/sh
# safetensors 0.8.0 writes a NumPy array in the order in which it lies in memory, under the shape of
# the array: one in column order, a transpose or every second column comes back scrambled, and
# nothing says so. Contiguous rows come back whole.
# Seen: [[0 1 2] [3 4 5]] in column order is read back as [[0 3 1] [4 2 5]].
exec "$(dirname "$0")/with" safetensors==0.8.0 numpy==2.4.6 <<'PYTHON'
import numpy as np
from safetensors.numpy import load, save

rows = np.arange(6, dtype=np.float32).reshape(2, 3)
columns = np.asfortranarray(rows)
assert (rows == columns).all()
assert (load(save({"x": rows}))["x"] == rows).all()
back = load(save({"x": columns}))["x"]
print("in column order", columns.tolist(), "comes back as", back.tolist())
assert back.tolist() == [[0, 3, 1], [4, 2, 5]]
back = load(save({"x": rows.T}))["x"]
print("transposed", rows.T.tolist(), "comes back as", back.tolist())
assert back.tolist() == [[0, 1], [2, 3], [4, 5]]
back = load(save({"x": rows[:, ::2]}))["x"]
print("every second column", rows[:, ::2].tolist(), "comes back as", back.tolist())
assert back.tolist() != rows[:, ::2].tolist()
PYTHON

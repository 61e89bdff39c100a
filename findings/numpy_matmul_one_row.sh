#!/bin/sh
# NumPy 2.4.6 (the wheel's OpenBLAS): a row's product with a matrix has other last bits when the row is
# multiplied alone than together with others, since one row is a product of a vector, summed in another order.
# Seen: 37 of 40 elements differ for one row of 300, none for two rows and more.
exec "$(dirname "$0")/with" numpy==2.4.6 <<'PYTHON'
import numpy as np

random = np.random.default_rng(1)
rows = random.standard_normal((64, 300), dtype=np.float32)
matrix = random.standard_normal((300, 40), dtype=np.float32)
whole = rows @ matrix
differ = {n: int((rows[:n] @ matrix != whole[:n]).sum()) for n in (1, 2, 8)}
print(f"elements that differ from the product of 64 rows, by number of rows: {differ}")
assert differ[1] > 0
PYTHON

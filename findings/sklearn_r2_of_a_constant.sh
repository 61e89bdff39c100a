#!/bin/sh
# R2 of a column that does not vary is 0 in scikit-learn 1.9.1 (1 where all of it is predicted
# exactly), unless the mean of the column rounds: then its variance is not 0 but 1e-34, and R2 is
# like -1e29, by the number of rows. A mean over columns is that number.
# Seen: of 10 values 0.1 it is 0, of 7 values 0.1 it is -5e29.
exec "$(dirname "$0")/with" scikit-learn==1.9.1 numpy==2.4.6 <<'PYTHON'
import numpy as np
from sklearn.metrics import r2_score

found = [r2_score(np.full(n, 0.1), np.full(n, 0.1) + 0.01) for n in (10, 7)]
print(f"R2 of 10 values 0.1: {found[0]:g}, of 7 values: {found[1]:g}")
assert found[0] == 0 and found[1] < -1e20
PYTHON

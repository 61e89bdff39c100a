#!/bin/sh
# scipy 1.17.1: repeated edges are summed in the weights' own type, and so are products: with a type of
# one byte, taken to save memory, both wrap round in silence, while .sum(axis) widens and does not.
# Seen: two edges of weights 200 and 100 become one of 44; a row of 300 ones of int8 has 44 by A @ 1
# and 300 by A.sum(axis=1).
exec "$(dirname "$0")/with" scipy==1.17.1 numpy==2.4.6 <<'PYTHON'
import numpy as np
import scipy.sparse

twice = scipy.sparse.coo_array((np.array([200, 100], np.uint8), ([0, 0], [1, 1])), shape=(2, 2))
ones = np.ones(300, np.int8)
row = scipy.sparse.csr_array((ones, np.arange(300), [0, 300]), shape=(1, 300))
print(f"200 + 100: {twice.tocsr()[0, 1]}; 300 ones: {(row @ ones)[0]} and {row.sum(axis=1)[0]}")
assert twice.tocsr()[0, 1] == 44
assert (row @ ones)[0] == 44 and row.sum(axis=1)[0] == 300
PYTHON

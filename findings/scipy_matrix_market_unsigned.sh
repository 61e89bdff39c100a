#!/bin/sh
# scipy 1.17.1 writes a matrix of unsigned integers with a field that the Matrix Market format does
# not have: "unsigned-integer" (the format has real, complex, integer and pattern). And a directed
# graph that happens to have each edge both ways is written as symmetric, with half of the entries.
# Seen: %%MatrixMarket matrix coordinate unsigned-integer general
#       %%MatrixMarket matrix coordinate integer symmetric, 1 entry for 2 edges
exec "$(dirname "$0")/with" scipy==1.17.1 numpy==2.4.6 <<'PYTHON'
import io

import numpy as np
import scipy.io
import scipy.sparse


def written(sources, targets, values):
    file = io.BytesIO()
    scipy.io.mmwrite(file, scipy.sparse.coo_array((values, (sources, targets)), shape=(3, 3)))
    return file.getvalue().decode().splitlines()


unsigned = written([0, 1], [1, 2], np.array([7, 9], np.uint32))
print(unsigned[0])
assert unsigned[0] == "%%MatrixMarket matrix coordinate unsigned-integer general"
both_ways = written([0, 1], [1, 0], np.array([7, 7], np.int32))
print(both_ways[0], "|", both_ways[2])
assert both_ways[0] == "%%MatrixMarket matrix coordinate integer symmetric"
assert both_ways[2] == "3 3 1"
PYTHON

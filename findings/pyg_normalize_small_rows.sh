#!/bin/sh
# PyTorch Geometric 2.8.1: NormalizeFeatures "row-normalizes the attributes given to sum-up to one", and does
# not where a row sums up to less than 1: it divides by max(sum, 1). Before that it subtracts the smallest
# value of the whole matrix, so that one negative number anywhere changes every row, and training on a
# part of the vertices sees other features than on all of them.
# Seen: row 0, 0.1, 0.2 stays as it is (sum 0.3) beside 2, 1, 1, which sums to 1; with -1 in another row
# 1, 1, 2 becomes 2/7, 2/7, 3/7.
exec "$(dirname "$0")/with" torch==2.2.2 torch_geometric==2.8.1 "numpy<2" <<'PYTHON'
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures


def normalized(*rows):
    return NormalizeFeatures()(Data(x=torch.tensor(rows))).x


small = normalized([0.0, 0.1, 0.2], [2.0, 1.0, 1.0])
moved = normalized([-1.0, 1.0, 0.0], [1.0, 1.0, 2.0])
print(f"sums {small.sum(1).tolist()}; beside a negative number {moved[1].tolist()}")
assert torch.allclose(small.sum(1), torch.tensor([0.3, 1.0]))
assert torch.allclose(moved[1], torch.tensor([2.0, 2.0, 3.0]) / 7)
PYTHON

#!/bin/sh
# PyTorch Geometric 2.8.1: HGTConv reads its relations' weights by their place in the metadata, and the
# edges by their place in edge_index_dict. Where a dictionary is in another order than the metadata, each
# relation gets another one's weights: no error, other numbers.
# Seen: the same edges, a dictionary turned round: rows differ by more than 0.01.
exec "$(dirname "$0")/with" torch==2.2.2 torch_geometric==2.8.1 "numpy<2" <<'PYTHON'
import torch
from torch_geometric.nn import HGTConv

torch.manual_seed(0)
types, relations = ["a", "b"], [("a", "to", "b"), ("b", "to", "a"), ("a", "near", "a")]
conv = HGTConv(4, 8, (types, relations), heads=2)
x = {"a": torch.rand(3, 4), "b": torch.rand(3, 4)}
edges = {key: torch.tensor([[0, 1, 2], [1, 2, 0]]) for key in relations}
turned = dict(reversed(edges.items()))
with torch.no_grad():
    one, other = conv(x, edges), conv(x, turned)
off = max(float((one[t] - other[t]).abs().max()) for t in types)
print(f"the same edges in another order: rows differ by {off:.2f}")
assert off > 0.01, off
PYTHON

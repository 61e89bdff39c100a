#!/bin/sh
# PyTorch Geometric 2.8.1: to_undirected, and ToUndirected with it, on a graph that has both directions
# already doubles its weights (edges that meet are added up); the edges themselves stay as they were.
# Seen: weights 2, 2, 3, 3 become 4, 4, 6, 6; with reduce="mean" they stay.
exec "$(dirname "$0")/with" torch==2.2.2 torch_geometric==2.8.1 "numpy<2" <<'PYTHON'
import torch
from torch_geometric.utils import is_undirected, to_undirected

edges, weights = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([2.0, 2.0, 3.0, 3.0])
assert is_undirected(edges, weights)
found = {how: to_undirected(edges, weights, reduce=how) for how in ("add", "mean")}
print(f"{weights.tolist()} become {({how: w.tolist() for how, (_, w) in found.items()})}")
assert torch.equal(found["add"][0], edges) and torch.equal(found["add"][1], 2 * weights)
assert torch.equal(to_undirected(edges, weights)[1], 2 * weights)
assert torch.equal(found["mean"][1], weights)
PYTHON

#!/bin/sh
# PyTorch Geometric 2.8.1: LayerNorm normalizes by mean and deviation of the whole input (mode="graph", the
# default), not row by row as torch's of that name does: a vertex's output depends on which others are
# in the mini-batch, in evaluation too. A state_dict does not tell the modes apart.
# Seen: rows 0 to 2 of 6 differ by 0.27 from the same three rows normalized alone; with mode="node" by 0.
exec "$(dirname "$0")/with" torch==2.2.2 torch_geometric==2.8.1 "numpy<2" <<'PYTHON'
import torch
from torch_geometric.nn import LayerNorm

torch.manual_seed(0)
rows = torch.randn(6, 8)
differ, shapes = {}, {}
for mode in ("graph", "node"):
    norm = LayerNorm(8, mode=mode).eval()
    differ[mode] = float((norm(rows)[:3] - norm(rows[:3])).abs().max())
    shapes[mode] = {name: tuple(value.shape) for name, value in norm.state_dict().items()}
print(f"the same rows in a smaller batch differ by {differ}; parameters {shapes['graph']}")
assert LayerNorm(8).mode == "graph"
assert differ["graph"] > 0.1 and differ["node"] < 1e-6 and shapes["graph"] == shapes["node"]
PYTHON

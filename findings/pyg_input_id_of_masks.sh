#!/bin/sh
# PyTorch Geometric 2.8.1: input_id, which a batch has to find what else one knows of its seeds, is the
# place in input_nodes where that is a list of vertices, and the vertex where it is a boolean mask. An array
# with a row for each seed, made as mask.nonzero(), is read at wrong rows, or beyond its end.
# Seen: seeds 2, 5, 9 have input_id 0, 1, 2 as a list and 2, 5, 9 as a mask.
exec "$(dirname "$0")/with" torch==2.2.2 torch_geometric==2.8.1 "numpy<2" <<'PYTHON'
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, SamplerOutput


class SeedsAlone(BaseSampler):
    """Batches without edges."""

    def sample_from_nodes(self, index, **_):
        none = torch.empty(0, dtype=torch.long)
        return SamplerOutput(index.node, none, none, none, metadata=(index.input_id, None))

    sample_from_edges = None


data = Data(x=torch.rand(10, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
nodes = torch.tensor([2, 5, 9])
mask = torch.zeros(10, dtype=torch.bool)
mask[nodes] = True
found = {}
for name, seeds in ("list", nodes), ("mask", mask):
    (batch,) = NodeLoader(data, SeedsAlone(), seeds, batch_size=3)
    assert batch.x.equal(data.x[nodes])
    found[name] = batch.input_id.tolist()
print(f"input_id of the same seeds: {found}")
assert found == {"list": [0, 1, 2], "mask": [2, 5, 9]}, found
PYTHON

#!/bin/sh
# DGL 2.1.0: partition_graph() ends with "There are N edges in the graph and 0 edge cuts for P
# partitions", whatever the partition: it subtracts the edges of all parts from those of the graph,
# and each edge is in the part of the vertex that it goes to.
# Seen: a ring of 1000 vertices dealt to two parts in turn has 1000 edges cut, and 0 are told.
exec "$(dirname "$0")/with" torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 numpy==1.26.4 pandas==3.0.6 \
    pydantic==2.14.4 pyyaml==6.0.4 "setuptools<80" <<'PYTHON'
import contextlib
import io
import os
import re
from unittest import mock

os.environ["DGLBACKEND"] = "pytorch"
import dgl
import torch

n = 1000
graph = dgl.graph((torch.arange(n), (torch.arange(n) + 1) % n))
parts = torch.arange(n) % 2
source, target = graph.edges()
cut = int((parts[source] != parts[target]).sum())
said = io.StringIO()
ours = mock.patch("dgl.distributed.partition.metis_partition_assignment", return_value=parts)
with ours, contextlib.redirect_stdout(said):
    dgl.distributed.partition_graph(graph, "ring", 2, "parts", part_method="metis")
told = int(re.search(r"and (\d+) edge cuts", said.getvalue())[1])
print(f"edges cut: {cut}; told: {told}")
assert (cut, told) == (n, 0)
PYTHON

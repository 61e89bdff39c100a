"""Batches as blocks (message flow graphs) of DGL."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import dgl
import numpy as np
import torch

from . import _batch, _lib
from ._loader import Loader

__all__ = ["NeighborLoader"]

# By names of PyTorch Geometric.
NDATA = {"feat": "x", "label": "y"}
EDATA = {"e_id": dgl.EID, "edge_attr": "feat", "edge_weight": "weight"}


class NeighborLoader(Loader):
    """Mini-batches as dgl.dataloading.DataLoader has them with a NeighborSampler:

        loader = sluice.dgl.NeighborLoader(g, [5, 10, 15], 1024, "train", shuffle=True, seed=7)
        for input_nodes, output_nodes, blocks in loader:
            out = model(blocks, blocks[0].srcdata["feat"])
            loss = loss_fn(out, blocks[-1].dstdata["label"])

    All arguments are those of sluice.NeighborLoader (`help` has them), but for `arrays` and `adj`.
    As `data` it also takes a DGLGraph of one kind of vertices and edges, whose ndata may have
    "feat", "label", "train_mask", "val_mask" and "test_mask", and its edata "feat" and what
    weight_attr names.

    num_neighbors   the hop next to the seeds first, which is DGL's `fanouts` from its end; -1 takes
                    all. As in DGL each hop draws every vertex anew (sampler.expand "all")

    A batch is (input_nodes, output_nodes, blocks)
        input_nodes    int64 (n_nodes): vertices whose features are read
        output_nodes   int64 (batch_size): the seeds
        blocks         list of DGLBlock, the one next to input_nodes first, with
            srcdata[dgl.NID], dstdata[dgl.NID]   int64: vertices; destinations are the first sources
            edata[dgl.EID]   int64: edges, by their number in the DGLGraph; of a directory by their
                             place in indices.npy. Not with sampler.kind "walk"
            edata["feat"]    (edges, ...), rows of the DGLGraph's, or of a directory's edge_feat.npy
            edata["weight"]  float32: of edge_weight.npy, or of walks their visits
            srcdata["feat"]  of the first: (n_nodes, feat_dim), rows of the data set
            dstdata["label"] of the last: int64 (batch_size), -1 unlabelled; or float32 (batch_size,
                             numbers)
    """

    EXPAND = "all"

    def __init__(
        self,
        data: Any = None,
        num_neighbors: Optional[Sequence[int]] = None,
        *more: Any,
        **named: Any,
    ) -> None:
        is_graph = isinstance(data, dgl.DGLGraph)
        given = _graph(data, named.get("weight_attr")) if is_graph else data
        super().__init__(given, num_neighbors, *more, arrays="torch", **named)
        self._make = _batch_of
        if is_graph:
            self._data = data

    def _fields(self) -> Dict[str, Any]:
        """What the batch has in memory of the job's, copied."""
        lent, info, finish, pin = self._lent, self._info, self._finish, self.pin_memory
        given = self._plan.pyg
        view = _lib.Taken(self._handle.library).view  # of nothing that would go back
        after = view(lent.n_nodes_after, (lent.n_hops + 1,), "<u4").tolist()
        hops: List[Dict[str, Any]] = []
        for hop, n_src in zip(lent.hop[: lent.n_hops], after[1:]):
            arrays: Dict[str, Any] = {
                "indptr": view(hop.indptr, (hop.n_dst + 1,), "<u4").astype(np.int64),
                "indices": view(hop.indices, (hop.n_edges,), "<u4").astype(np.int64),
            }
            if hop.weights:
                arrays["edge_weight"] = view(hop.weights, (hop.n_edges,), "<f4").copy()
            fields = {name: finish(array) for name, array in arrays.items()}
            if hop.edge_ids:
                places = view(hop.edge_ids, (hop.n_edges,), "<i8").copy()
                fields.update(self._known.of_edges(places, finish))
            if given is not None and "edge_attr" in given:
                fields["edge_attr"] = _batch.take(given.edge_attr, fields["e_id"], 0, pin)
            hops.append({**fields, "n_src": n_src, "n_dst": hop.n_dst})
        nodes = view(lent.nodes, (lent.n_nodes,), "<u4").astype(np.int64)
        out: Dict[str, Any] = {"hops": hops, "nodes": finish(nodes)}
        if info.feat_dim:
            out["x"] = self._features()
        elif given is not None and "x" in given:
            out["x"] = _batch.take(given.x, out["nodes"], 0, pin)
        if lent.labels:
            shape = self._known.label_shape(lent.n_seeds, info.n_targets)
            y = view(lent.labels, shape, "<f4" if info.n_targets else "<i4")
            out["y"] = finish(y.copy() if info.n_targets else y.astype(np.int64))
        elif given is not None and "y" in given:
            out["y"] = _batch.take(given.y, out["nodes"][: lent.n_seeds], 0, pin)
        return out


def _batch_of(fields: Dict[str, Any]) -> Tuple[Any, Any, List[Any]]:
    # The blocks keep these tensors themselves: DGL copies none of them.
    nodes, blocks = fields["nodes"], []
    for hop in reversed(fields["hops"]):
        csc = ("csc", (hop["indptr"], hop["indices"], torch.empty(0, dtype=torch.int64)))
        block = dgl.create_block(csc, hop["n_src"], hop["n_dst"])
        block.srcdata[dgl.NID] = nodes[: hop["n_src"]]
        block.dstdata[dgl.NID] = nodes[: hop["n_dst"]]
        for name, key in EDATA.items():
            if name in hop:
                block.edata[key] = hop[name]
        blocks.append(block)
    if "x" in fields:
        blocks[0].srcdata["feat"] = fields["x"]
    if "y" in fields:
        blocks[-1].dstdata["label"] = fields["y"]
    return nodes, nodes[: blocks[-1].num_dst_nodes()], blocks


def _graph(g: Any, weight_attr: Optional[str]) -> Any:
    """A DGLGraph under the names that data sets are made from."""
    fields = {NDATA.get(key, key): value for key, value in g.ndata.items()}
    if "feat" in g.edata:
        fields["edge_attr"] = g.edata["feat"]
    if weight_attr in g.edata:
        fields[weight_attr] = g.edata[weight_attr]
    edges = torch.stack(g.edges(order="eid"))
    return _batch.Batch({**fields, "edge_index": edges, "num_nodes": g.num_nodes()})

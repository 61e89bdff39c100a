"""From a block to what user code gets.

A block has the sampled edges of each hop in CSR form by destination, in local numbers (include/
sluice.h). With sampler.expand "new" a vertex is expanded once, in the hop after the one that it is
new in, and rows only follow: so the CSR of hop h is a prefix of the CSR of hop h + 1, and the last
one is the whole edge_index, each edge once, by destination. What PyG calls the edges of a hop is
the difference of two prefixes.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _lib
from ._memory import Pool


class Hop(NamedTuple):
    """Edges of one hop: neighbours of destination i are indices[indptr[i]:indptr[i + 1]]."""

    indptr: np.ndarray  # uint32 (n_dst + 1)
    indices: np.ndarray  # uint32 (n_edges), local
    edge_ids: Optional[np.ndarray] = None  # uint64 (n_edges), places in the data set's indices.npy
    weights: Optional[np.ndarray] = None  # float32 (n_edges), visits of random walks


class Block(NamedTuple):
    """Views of a mini-batch in the arena, valid as long as its lease."""

    nodes: np.ndarray  # uint32 (n_nodes), seeds first, then by hop
    n_nodes_after: np.ndarray  # uint32 (n_hops + 1)
    hops: Sequence[Hop]  # (n_hops), the one next to the seeds first
    labels: Optional[np.ndarray]  # int32 (n_seeds), or float32 (n_seeds, n_targets)


def block_of(batch: "_lib.Batch", info: "_lib.Info") -> Block:
    """Views of a batch that the library has lent."""
    at = _lib.array_at
    n_hops, n_seeds = batch.n_hops, batch.n_seeds
    hops = [
        Hop(
            at(hop.indptr, (hop.n_dst + 1,), "<u4"),
            at(hop.indices, (hop.n_edges,), "<u4"),
            at(hop.edge_ids, (hop.n_edges,), "<u8") if hop.edge_ids else None,
            at(hop.weights, (hop.n_edges,), "<f4") if hop.weights else None,
        )
        for hop in batch.hop[:n_hops]
    ]
    labels = None
    if batch.labels:
        shape = (n_seeds, info.n_targets) if info.n_targets else (n_seeds,)
        labels = at(batch.labels, shape, "<f4" if info.n_targets else "<i4")
    return Block(
        at(batch.nodes, (batch.n_nodes,), "<u4"),
        at(batch.n_nodes_after, (n_hops + 1,), "<u4"),
        hops,
        labels,
    )


# An array of a shape and NumPy type, as the user gets it and as NumPy writes to it.
Empty = Callable[[Tuple[int, ...], Any], Tuple[Any, np.ndarray]]


def empty_numpy() -> Empty:
    pool = Pool()

    def empty(shape: Tuple[int, ...], dtype: Any) -> Tuple[np.ndarray, np.ndarray]:
        array = pool.empty(shape, dtype)
        return array, array

    return empty


def empty_torch() -> Empty:
    import torch

    pool = Pool()

    def empty(shape: Tuple[int, ...], dtype: Any) -> Tuple[Any, np.ndarray]:
        array = pool.empty(shape, dtype)
        return torch.from_numpy(array), array

    return empty


def empty_pinned() -> Empty:
    """In page-locked memory, which torch keeps for the next tensor by itself."""
    import torch

    types = {
        np.dtype(np.int64): torch.int64,
        np.dtype(np.float32): torch.float32,
        np.dtype(np.float16): torch.float16,
    }

    def empty(shape: Tuple[int, ...], dtype: Any) -> Tuple[Any, np.ndarray]:
        tensor = torch.empty(shape, dtype=types[np.dtype(dtype)], pin_memory=True)
        return tensor, tensor.numpy()

    return empty


def can_pin(kind: str) -> bool:
    """Whether tensors of batches of that kind can be in page-locked memory here."""
    if kind == "numpy":
        return False
    import torch

    return bool(torch.cuda.is_available())


def best_kind() -> str:
    """What batches are made of: "pyg" (torch_geometric.data.Data), "torch" or "numpy"."""
    if not importlib.util.find_spec("torch"):
        return "numpy"
    return "pyg" if importlib.util.find_spec("torch_geometric") else "torch"


def maker(kind: str) -> Callable[[Dict[str, Any]], Any]:
    """What makes a batch of its fields."""
    if kind != "pyg":
        return Batch
    from torch_geometric.data import Data

    return lambda fields: Data(**fields)


def index_fields(
    block: Block, empty: Empty, edge_map: Optional[np.ndarray] = None
) -> Dict[str, Any]:
    """What a batch says of vertices and edges, under PyG's names. All arrays are copies.

    edge_index  int64 (2, n_edges): sources, then destinations, in local numbers, by destination
    n_id        int64 (n_nodes): vertices of the data set; the first n_seeds are the seeds in order
    e_id        int64 (n_edges): numbers of the edges (edge_map of them), where the block has any
    edge_weight float32 (n_edges): visits of sampler.kind "walk"
    y           int64 (n_seeds), or float32 (n_seeds, n_targets): labels of the seeds
    num_sampled_nodes, num_sampled_edges  lists of int, by hop; as trim_to_layer wants them
    """
    last = block.hops[-1]
    out: Dict[str, Any] = {}
    out["edge_index"], edges = empty((2, len(last.indices)), np.int64)
    edges[0] = last.indices
    degrees = np.diff(last.indptr)
    edges[1] = np.repeat(np.arange(len(degrees), dtype=np.int64), degrees)
    out["n_id"], nodes = empty(block.nodes.shape, np.int64)
    nodes[:] = block.nodes
    if last.edge_ids is not None:
        out["e_id"], edge_ids = empty(last.edge_ids.shape, np.int64)
        edge_ids[:] = last.edge_ids if edge_map is None else edge_map[last.edge_ids]
    if last.weights is not None:
        out["edge_weight"], weights = empty(last.weights.shape, np.float32)
        weights[:] = last.weights
    if block.labels is not None:
        dtype = np.int64 if block.labels.ndim == 1 else np.float32
        out["y"], labels = empty(block.labels.shape, dtype)
        labels[:] = block.labels
    out["batch_size"] = int(block.n_nodes_after[0])
    out["num_sampled_nodes"] = differences(block.n_nodes_after)
    out["num_sampled_edges"] = differences([len(hop.indices) for hop in block.hops])
    return out


def differences(totals: Sequence[int]) -> List[int]:
    """[3, 5, 9] -> [3, 2, 4], as plain ints."""
    return [int(t) - int(before) for before, t in zip([0, *totals[:-1]], totals)]


class Places:
    """Where vertices stand in a list of distinct ones, in memory of the list's size."""

    def __init__(self, ids: Optional[np.ndarray]) -> None:
        """ids (n): the list; None: 0, 1, 2, ..."""
        self.ids, self.order = ids, None
        if ids is not None and len(ids) and not bool(np.all(ids[:-1] < ids[1:])):
            self.order = np.argsort(ids, kind="stable")
            self.ids = ids[self.order]

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """int64 (n) places of vertices that are all in the list."""
        if self.ids is None:
            return nodes.astype(np.int64)
        at = np.searchsorted(self.ids, nodes)
        return (at if self.order is None else self.order[at]).astype(np.int64)


def of_whole_graph(data: Any, fields: Dict[str, Any]) -> Dict[str, Any]:
    """What else a torch_geometric Data has: rows of its tensors by vertex or by edge for those of
    the batch, and the rest as it is. `fields` are those of the batch."""
    out: Dict[str, Any] = {}
    for name, value in data.to_dict().items():
        if name in ("x", "edge_index", "num_nodes", "adj_t"):
            continue
        by_vertex = data.is_node_attr(name)
        if by_vertex or data.is_edge_attr(name):
            ids = fields["n_id" if by_vertex else "e_id"]
            out[name] = value.index_select(data.__cat_dim__(name, value), ids.to(value.device))
        else:
            out[name] = value
    return out


def as_tensor(array: np.ndarray) -> Any:
    """A tensor of the same memory."""
    import torch

    return torch.from_numpy(array)


class Batch:
    """A mini-batch where torch_geometric is not used: arrays of NumPy or torch under PyG's
    names."""

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def keys(self) -> List[str]:
        return list(self.__dict__)

    def __contains__(self, key: str) -> bool:
        return key in self.__dict__

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __repr__(self) -> str:
        def brief(value: Any) -> str:
            shape = getattr(value, "shape", None)
            return repr(value) if shape is None else str(list(shape))

        return f"Batch({', '.join(f'{k}={brief(v)}' for k, v in self.__dict__.items())})"

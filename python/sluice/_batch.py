"""From what the library took of a batch to what user code gets.

With sampler.expand "new" a vertex is expanded once, in the hop after the one that it is new in, and
rows only follow: so the edges of hop h are a prefix of those of hop h + 1, and the last hop has the
whole edge_index, each edge once, by destination. What PyG calls the edges of a hop is the
difference of two prefixes.
"""

from __future__ import annotations

import importlib.util
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _lib


# From an array as the library made it to what the user gets.
Finish = Callable[[np.ndarray], Any]


def finish(kind: str, pin: bool) -> Finish:
    """Arrays as they are, tensors of the same memory, or copies in page-locked memory, which torch
    keeps for the next tensor by itself."""
    if kind == "numpy":
        return lambda array: array
    import torch

    if pin:
        return lambda array: torch.from_numpy(array).pin_memory()
    return torch.from_numpy


class Known(NamedTuple):
    """What is known of the data set, beside what libsluice hands over."""

    # int64 (num_edges): the numbers that its edges have where they came from; None: their places.
    edge_numbers: Optional[np.ndarray] = None
    edge_rows: Mapping[str, Any] = {}  # (num_edges, ...), by their names in a batch
    labels_are_list: bool = False  # (num_nodes), not (num_nodes, numbers)
    pin: bool = False

    def of_edges(self, places: np.ndarray, finish: Finish) -> Dict[str, Any]:
        """Of the edges of a batch e_id, their numbers, and their rows; places int64 (n)."""
        out = {name: take(whole, places, 0, self.pin) for name, whole in self.edge_rows.items()}
        numbers = self.edge_numbers
        return {**out, "e_id": finish(places if numbers is None else numbers[places])}

    def fields(
        self, lent: "_lib.Batch", info: "_lib.Info", taken: "_lib.Taken", finish: Finish
    ) -> Dict[str, Any]:
        return fields_of(lent, info, taken, finish, self)

    def seeds(self, fields: Dict[str, Any]) -> Dict[str, Any]:
        """Those fields of a batch that are of its seeds."""
        return fields

    def add_pairs(self, fields: Dict[str, Any], pairs: Mapping[str, Any]) -> None:
        fields.update(pairs)

    def fanout(self, info: "_lib.Info") -> Any:
        return list(info.fanout[: info.n_hops])

    def of_graph(
        self, data: Any, fields: Dict[str, Any], pin: bool, hidden: Sequence[str] = ()
    ) -> Dict[str, Any]:
        return of_store(data, data.__cat_dim__, fields, pin, hidden)

    def maker(self, kind: str, csc: bool) -> Callable[[Dict[str, Any]], Any]:
        return maker(kind, csc)

    def label_shape(self, n_seeds: int, n_targets: int) -> Tuple[int, ...]:
        return (n_seeds, n_targets) if n_targets and not self.labels_are_list else (n_seeds,)

    def labels(
        self, taken: "_lib.Taken", numbers: "_lib.Numbers", at: int, n_seeds: int, n_targets: int
    ) -> np.ndarray:
        """Of the seeds, classes (n_targets 0) or numbers."""
        if n_targets == 0:
            return numbers.at(at, n_seeds)
        return taken.view(at, self.label_shape(n_seeds, n_targets), "<f4")


def rows_of(arrays: Mapping[Any, np.ndarray], kind: str) -> Mapping[Any, Any]:
    """The same as tensors, unless batches are of arrays."""
    if kind == "numpy":
        return arrays
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def known_of(dataset: Any, kind: str, pin: bool) -> Known:
    """Of a data set from a directory."""
    rows = rows_of(dataset.by_edge(), kind)
    label = dataset.arrays.get("node_label")
    return Known(None, rows, label is not None and label.ndim == 1, pin)


def take(value: Any, ids: Any, along: int, pin: bool) -> Any:
    """Those rows of a tensor, an array or a list; pin: of a tensor in page-locked memory."""
    if isinstance(value, np.ndarray):
        return value.take(np.asarray(ids), along)
    if not hasattr(value, "index_select"):
        return [value[i] for i in ids.tolist()]
    import torch

    ids = torch.as_tensor(ids).to(value.device)
    if not pin or value.device.type != "cpu":
        return value.index_select(along, ids)
    shape = (*value.shape[:along], len(ids), *value.shape[along:][1:])
    rows = torch.empty(shape, dtype=value.dtype, pin_memory=True)
    return torch.index_select(value, along, ids, out=rows)


def has_gpu(kind: str) -> bool:
    """Whether tensors of batches of that kind can be in a GPU's memory, or page-locked, here."""
    if kind == "numpy":
        return False
    import torch

    return bool(torch.cuda.is_available())


class _OnGpu:
    """What torch makes a tensor of, without a copy."""

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self, address: int, shape: Tuple[int, ...], kind: str) -> None:
        self.__cuda_array_interface__ = {
            "version": 3, "shape": shape, "typestr": kind, "data": (address, True), "stream": None,
        }  # fmt: skip


def rows_on_gpu(address: int, shape: Tuple[int, ...], kind: str, device: int) -> Tuple[Any, Any]:
    """A tensor of its own of the rows at `address` in that GPU's memory, and the event behind which
    they may change there."""
    import torch

    with torch.cuda.device(device):
        rows = torch.as_tensor(_OnGpu(address, shape, kind), device=f"cuda:{device}").clone()
        copied = torch.cuda.Event()
        copied.record()
    return rows, copied


def best_kind() -> str:
    """What batches are made of: "pyg" (torch_geometric.data.Data), "torch" or "numpy"."""
    if not importlib.util.find_spec("torch"):
        return "numpy"
    return "pyg" if importlib.util.find_spec("torch_geometric") else "torch"


def copy_of(empty: Any) -> Any:
    """Another of torch_geometric's Data or HeteroData, as its own __copy__() makes it: what
    constructors and setattr() do costs more than all tensors. Its stores are the caller's to set.
    """
    out = empty.__class__.__new__(empty.__class__)
    out.__dict__.update(empty.__dict__)
    return out


def store_of(empty: Any, data: Any, fields: Dict[str, Any]) -> Any:
    """Likewise of a store of `data`, with these fields, which it keeps."""
    out = copy_of(empty)
    out.__dict__.update(_mapping=fields, _parent=weakref.ref(data))
    return out


def maker(kind: str, csc: bool) -> Callable[[Dict[str, Any]], Any]:
    """What makes a batch of its fields; csc: its edge_index tells PyG by what it is sorted."""
    if kind != "pyg":
        return Batch
    from torch_geometric.data import Data

    empty = Data()

    def make(fields: Dict[str, Any]) -> Any:
        data = copy_of(empty)
        data.__dict__["_store"] = store_of(empty._store, data, fields)
        return data

    if not csc:
        return make
    from torch_geometric import EdgeIndex

    def make_csc(fields: Dict[str, Any]) -> Any:
        size = (len(fields["n_id"]),) * 2
        edges = EdgeIndex(fields["edge_index"], sparse_size=size, sort_order="col")
        return make({**fields, "edge_index": edges})

    return make_csc


def fields_of(
    lent: "_lib.Batch",
    info: "_lib.Info",
    taken: "_lib.Taken",
    finish: Finish,
    known: Known = Known(),
) -> Dict[str, Any]:
    """What a batch says of vertices and edges, under PyG's names.

    x           (n_nodes, feat_dim), where there are features in this process's memory
    edge_index  int64 (2, n_edges): sources, then destinations, in local numbers, by destination
    n_id        int64 (n_nodes): vertices of the data set; the first n_seeds are the seeds in order
    e_id        int64 (n_edges): numbers of the edges, where the block has any; then also edge_attr
                and edge_weight, their rows of the data set
    edge_weight float32 (n_edges): visits of sampler.kind "walk"
    batch       int64 (n_nodes): which of the seeds each vertex is of, where each has its own
    y           int64 (n_seeds), or float32 (n_seeds, n_targets) or (n_seeds): labels of the seeds
    input_id    int64 (batch_size): places of the seeds among all; of links, of the positives
    batch_size  int: number of seeds; of links, of positives
    num_sampled_nodes, num_sampled_edges  lists of int, by hop; as trim_to_layer wants them. The
                latter is missing where a hop behind those drawn has the edges (sampler.subgraph)
    """
    _, _, _, n_seeds, n_nodes, n_drawn = _lib.HEAD(lent)
    _, n_edges, nodes, edges, edge_ids, weights, labels, rows, places, seed_of, *_ = taken.fields()
    view, n_hops = taken.view, info.n_hops
    n_items = lent.n_positive if info.has_pairs else n_seeds
    ends = [max(nodes, seed_of) + 8 * n_nodes, places + 8 * n_items, labels + 8 * n_seeds]
    ends += [edges + 16 * n_edges, edge_ids + 8 * n_edges]
    numbers = _lib.Numbers(taken, nodes, max(ends))
    out: Dict[str, Any] = {}
    if rows:
        out["x"] = finish(view(rows, (n_nodes, info.feat_dim), _lib.DTYPES[info.feat_type]))
    out["edge_index"] = finish(numbers.at(edges, 2 * n_edges).reshape(2, n_edges))
    out["n_id"] = finish(numbers.at(nodes, n_nodes))
    if edge_ids:
        out.update(known.of_edges(numbers.at(edge_ids, n_edges), finish))
    if weights:
        out["edge_weight"] = finish(view(weights, (n_edges,), "<f4"))
    if seed_of:
        out["batch"] = finish(numbers.at(seed_of, n_nodes))
    if labels:
        out["y"] = finish(known.labels(taken, numbers, labels, n_seeds, info.n_targets))
    out["input_id"] = finish(numbers.at(places, n_items))
    out["batch_size"] = n_items
    before, edges_of = lent.by_hop(n_drawn)
    out["num_sampled_nodes"] = differences((*before, n_nodes)[: n_hops + 1])
    if n_drawn == n_hops:
        out["num_sampled_edges"] = differences(edges_of)
    return out


def differences(totals: Sequence[int]) -> List[int]:
    """[3, 5, 9] -> [3, 2, 4], as plain ints."""
    return [t - before for before, t in zip([0, *totals[:-1]], totals)]


def of_store(
    store: Any,
    along: Callable[[str, Any], Any],
    fields: Dict[str, Any],
    pin: bool,
    hidden: Sequence[str] = (),
) -> Dict[str, Any]:
    """What else a torch_geometric Data has, or a type's or a relation's store of a HeteroData: rows
    of its tensors, arrays and lists by vertex or by edge for those of the batch, the rest as it is.
    `fields` are those of the batch, which has them under these names whatever the store has; but
    for y. hidden: names that are not taken. along: of an attribute's name and value, the dimension
    by which it is cut."""
    out: Dict[str, Any] = {}
    for name, value in store.to_dict().items():
        if name in ("edge_index", "num_nodes", "_num_nodes", "adj_t", *hidden):
            continue
        if name in fields and name != "y":
            continue
        by_vertex = store.is_node_attr(name)
        if not by_vertex and not store.is_edge_attr(name):
            out[name] = value
            continue
        ids = fields["n_id" if by_vertex else "e_id"]
        out[name] = take(value, ids, along(name, value), pin)
    return out


class Batch:
    """A mini-batch where torch_geometric is not used: arrays of NumPy or torch under PyG's
    names."""

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """With its tensors on that device of torch."""
        return Batch(
            {
                name: value.to(device, non_blocking=non_blocking) if hasattr(value, "to") else value
                for name, value in self.__dict__.items()
            }
        )

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

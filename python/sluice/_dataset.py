"""Data sets as arrays: from and to PyTorch Geometric, SciPy and NumPy. The files are those of
common/data/README.md; what is checked here is what makes them, the contents are checked by the job
that opens them.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _typed
from ._errors import UsageError

SPLITS = ("train", "val", "test")
# Arrays that a data set may have: files NAME.npy of its directory.
NAMES = ("indptr", "indices", "edge_weight", "node_feat", "node_label")
NAMES += tuple(f"{split}_idx" for split in SPLITS) + ("vertex_map", "edge_feat")
NAMES += ("edge_time", "node_time")
# Those with a row for each edge, and what they are called in a batch and in a Data.
BY_EDGE = {"edge_weight": "edge_weight", "edge_feat": "edge_attr"}
# Of a graph with types arrays NAME.SOURCE.RELATION.TARGET, with a row for each edge of it.
BY_RELATION = ("edge_feat", "edge_time")
# What both NumPy and torch have, of which edge_feat may be.
NUMBERS = "float16 float32 float64 int8 int16 int32 int64 uint8 bool".split()


def names_of(schema: Any) -> Sequence[str]:
    """NAMES of a graph with types."""
    if schema is None:
        return NAMES
    by_relation = [f"{name}.{r.file}" for r in schema.relations for name in BY_RELATION]
    return (*NAMES, *(f"node_feat.{t.name}" for t in schema.types), *by_relation)


class Dataset:
    """A graph with features, labels and lists of vertices.

    metadata   what metadata.json says: num_nodes, num_edges, feat_dim, num_classes, task, ...
    arrays     by the names of the files: indptr (num_nodes + 1), indices (num_edges; the sources of
               v's in-edges are indices[indptr[v]:indptr[v + 1]]), and where there are such
               edge_weight (num_edges), edge_feat (num_edges, ...), node_feat (num_nodes, feat_dim),
               node_label, train_idx, val_idx, test_idx, vertex_map, edge_time (num_edges),
               node_time (num_nodes)
    path       its directory, or None where it is in memory
    edge_map   int64 (num_edges) or None: the numbers that its edges have where it came from
    schema     of a graph with types what they are; else None. Features are node_feat.TYPE then,
               edge_feat.SOURCE.RELATION.TARGET, and times edge_time.SOURCE.RELATION.TARGET
    words      what messages call its arrays, by their names: that where they came from
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        path: Optional[str] = None,
        edge_map: Optional[np.ndarray] = None,
        words: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.metadata, self.arrays = dict(metadata), dict(arrays)
        self.path, self.edge_map = path, edge_map
        self.schema = _typed.schema_of(self.metadata, path or "data")
        own = {name: f"data.arrays['{name}']" for name in names_of(self.schema)}
        self.words = own if words is None else dict(words)

    @property
    def num_nodes(self) -> int:
        if self.schema is not None:
            return sum(t.n for t in self.schema.types)
        return len(self.arrays["indptr"]) - 1

    @property
    def num_timed(self) -> int:
        """Vertices that node_time has as seeds: of a graph with types those of the first."""
        return self.schema.types[0].n if self.schema is not None else self.num_nodes

    @property
    def first_listed(self) -> int:
        """The vertex that number 0 of train_idx and so on is."""
        if self.schema is None:
            return 0
        name = self.metadata.get("list_type", self.schema.first)
        return self.schema.type(name, "list_type").first

    @property
    def num_edges(self) -> int:
        return len(self.arrays["indices"])

    def __repr__(self) -> str:
        where = self.path or "in memory"
        return f"Dataset({where}: num_nodes={self.num_nodes}, num_edges={self.num_edges})"

    # ---- ways out -------------------------------------------------------------------------------

    def to_numpy(self) -> Dict[str, np.ndarray]:
        """The arrays by the names of their files. Those of a directory are mapped: what is written
        to one of them stays in this process."""
        return dict(self.arrays)

    def to_scipy(self) -> Any:
        """A scipy.sparse.csc_matrix (num_nodes, num_nodes): row u, column v is the edge u -> v, and
        its value the weight, else 1. Edges stand in the order of the data set."""
        if self.schema is not None:
            raise UsageError("to_scipy: the graph has types: use to_pyg(), or to_numpy()")
        import scipy.sparse

        weight = self.arrays.get("edge_weight")
        values = np.ones(self.num_edges, np.float32) if weight is None else weight
        n = self.num_nodes
        indptr, indices = self.arrays["indptr"], self.arrays["indices"]
        return scipy.sparse.csc_matrix((values, indices, indptr), shape=(n, n))

    def numbered_edges(self, of: "Optional[_typed.Relation]" = None) -> Optional[np.ndarray]:
        """int64 (num_edges, 2): all edges by the numbers that they have where they came from; None:
        these are their places in indices. of: those of a relation, as numbers in its types."""
        if self.edge_map is None:
            return None
        if of is not None:
            mine = slice(of.first_edge, of.first_edge + of.n_edges)
            rows = self.arrays["indptr"][of.first_row : of.first_row + of.target.n + 1]
            edges = np.empty((of.n_edges, 2), np.int64)
            edges[self.edge_map[mine], 0] = self.arrays["indices"][mine]
            edges[self.edge_map[mine], 1] = np.repeat(np.arange(of.target.n), np.diff(rows))
            edges[:, 0] -= of.source.first
            return edges
        edges = np.empty((self.num_edges, 2), np.int64)
        degrees = np.diff(self.arrays["indptr"])
        edges[self.edge_map, 0] = self.arrays["indices"]
        edges[self.edge_map, 1] = np.repeat(np.arange(self.num_nodes), degrees)
        return edges

    def to_pyg(self) -> Any:
        """A torch_geometric.data.Data: edge_index int64 (2, num_edges) by destination, in the order
        of the data set, or that of the Data that it was made of (edge_map), so that e_id of a batch
        is a column of it; and where the data set has them x, y, edge_attr, edge_weight, train_mask,
        val_mask, test_mask. Features stay mapped: what is written to x or edge_attr stays in this
        process. Of a graph with types a HeteroData, with these for each type and each relation."""
        self._check_features()
        if self.schema is not None:
            from . import _hetero

            return _hetero.to_pyg(self, self.schema)
        import torch
        from torch_geometric.data import Data

        indptr = np.asarray(self.arrays["indptr"]).astype(np.int64)
        edges = np.empty((2, self.num_edges), np.int64)
        edges[0] = self.arrays["indices"]
        edges[1] = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(indptr))
        edges = by_number(edges, self.edge_map, 1)
        data = Data(edge_index=torch.from_numpy(edges), num_nodes=self.num_nodes)
        if "node_feat" in self.arrays:
            data.x = torch.from_numpy(np.asarray(self.arrays["node_feat"]))
        if "node_label" in self.arrays:
            data.y = torch.from_numpy(self.labels())
        for name, rows in self.by_edge().items():
            data[name] = torch.from_numpy(by_number(rows, self.edge_map))
        for split in SPLITS:
            if f"{split}_idx" in self.arrays:
                mask = np.zeros(self.num_nodes, bool)
                mask[self.arrays[f"{split}_idx"]] = True
                data[f"{split}_mask"] = torch.from_numpy(mask)
        return data

    def _check_features(self) -> None:
        types = self.metadata["types"] if self.schema is not None else ()
        striped = {f"node_feat.{t['name']}": t for t in types} or {"node_feat": self.metadata}
        for name, of in striped.items():
            if "feat_stripes" in of and name not in self.arrays:
                raise UsageError(
                    f"data set {self.path}: its features are in stripes, wanted {name}.npy: "
                    "`sluice reorder` writes them as one file; a loader takes them as they are"
                )

    def by_edge(self) -> Dict[str, np.ndarray]:
        """What has a row for each edge, in the order of `indices`, by its name in a batch.
        UsageError for edge_feat of another shape or type."""
        if "edge_feat" in self.arrays:
            what = f"{self.path}/edge_feat.npy" if self.path else self.words["edge_feat"]
            _check_edge_feat(self.arrays["edge_feat"], self.num_edges, what)
        return {BY_EDGE[name]: self.arrays[name] for name in BY_EDGE if name in self.arrays}

    def edge_attr(self) -> Dict[Tuple[str, str, str], np.ndarray]:
        """Of a graph with types the features of edges, by relation, in the order of its edges.
        UsageError for some of another shape or type."""
        found = {}
        for r in self.schema.relations if self.schema else ():
            name = f"edge_feat.{r.file}"
            if name not in self.arrays:
                continue
            what = f"{self.path}/{name}.npy" if self.path else self.words.get(name, name)
            _check_edge_feat(self.arrays[name], r.n_edges, what)
            found[r.key] = self.arrays[name]
        return found

    def labels(self) -> np.ndarray:
        """int64 (num_nodes) classes, -1 unlabelled; of other tasks float32 (num_nodes,
        num_classes), or (num_nodes) where the file is a list, NaN unlabelled."""
        label = np.asarray(self.arrays["node_label"])
        if self.metadata.get("task", "multiclass") == "multiclass":
            label = label.reshape(-1)
            if label.dtype.kind == "f":
                label = np.where(np.isnan(label), -1, label)
            return np.maximum(label.astype(np.int64), -1)
        known = label.astype(np.float32)
        if self.metadata["task"] == "multilabel":
            known[known < 0] = np.nan
        return known

    def save(self, path: str) -> str:
        """Writes the data set to a new directory, whole or not at all, and returns its path."""
        self._check_features()
        path = os.path.abspath(os.fspath(path))
        if os.path.lexists(path):
            raise UsageError(f"{path}: exists: choose another directory, or remove that one")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        staging = tempfile.mkdtemp(
            prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=os.path.dirname(path)
        )
        try:
            for name, array in self.arrays.items():
                np.save(os.path.join(staging, f"{name}.npy"), np.ascontiguousarray(array))
            with open(os.path.join(staging, "metadata.json"), "w", encoding="utf-8") as file:
                json.dump(self._saved_metadata(), file, indent=2)
            os.chmod(staging, 0o777 & ~_umask())
            os.rename(staging, path)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return path

    def _saved_metadata(self) -> Dict[str, Any]:
        """Without what is true of this directory alone: features are whole files in the next."""
        gone = "temporary", "feat_stripes"
        kept = {k: v for k, v in self.metadata.items() if k not in gone}
        if self.schema is not None:
            kept["types"] = [{k: v for k, v in t.items() if k not in gone} for t in kept["types"]]
        return kept


def by_number(rows: np.ndarray, numbers: Optional[np.ndarray], along: int = 0) -> np.ndarray:
    """What has one for each edge along that dimension, in the order of these numbers of the edges;
    None: as it is."""
    if numbers is None:
        return rows
    out = np.empty_like(rows)
    out[(slice(None),) * along + (numbers,)] = rows
    return out


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("Umask:")).split()[1], 8)


# ---- ways in ------------------------------------------------------------------------------------


def check_directory(path: str) -> None:
    """UsageError where no data set is there, with the ways to make one."""
    if os.path.exists(os.path.join(path, "metadata.json")):
        return
    why = "has no metadata.json" if os.path.isdir(path) else "no such directory"
    if os.path.isfile(path):
        why = "is a file, wanted a data set's directory"
    raise UsageError(
        f"data set {path}: {why}: correct the path, or make one with `sluice generate`, "
        "`sluice import` or sluice.from_pyg(data).save(path)"
    )


def open_dataset(path: str) -> Dataset:
    """The data set in a directory; its arrays are mapped, not read. Errors are UsageError."""
    path = os.fspath(path)
    check_directory(path)
    try:
        with open(os.path.join(path, "metadata.json"), encoding="utf-8") as file:
            metadata = json.load(file)
    except OSError as error:
        raise UsageError(f"{path}/metadata.json: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}/metadata.json: is not valid JSON: {error}") from None
    arrays = {}
    for name in names_of(_typed.schema_of(metadata, path)):
        file_path = os.path.join(path, f"{name}.npy")
        if not os.path.exists(file_path):
            continue
        arrays[name] = _map(file_path)
    for name in ("indptr", "indices"):
        if name not in arrays:
            raise UsageError(f"data set {path}: has no {name}.npy")
    return Dataset(metadata, arrays, path=os.path.abspath(path))


class Seen:
    """The files of a data set as they are now: later ones under its name may be others."""

    def __init__(self, path: str) -> None:
        self._path, self._was = path, self._look(path)

    @staticmethod
    def _look(path: str) -> Dict[str, Tuple[int, ...]]:
        found = {}
        for name in ("metadata.json", *(f"{n}.npy" for n in names_of(_typed.schema_at(path)))):
            try:
                of = os.stat(os.path.join(path, name))
            except OSError:
                continue
            found[name] = of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns
        return found

    def check(self) -> None:
        """UsageError where a file is another, was changed, has come or is gone."""
        now = self._look(self._path)
        for name in {**self._was, **now}:
            if now.get(name) != self._was.get(name):
                gone, new = name not in now, name not in self._was
                how = "is gone" if gone else "has come" if new else "was replaced or changed"
                raise UsageError(
                    f"{os.path.join(self._path, name)}: {how} since this loader was opened, whose "
                    "batches are of the data set as it was: close it and open another"
                )


def _map(path: str) -> np.ndarray:
    """The array in a .npy file, mapped. Copied on write, since PyTorch wants memory that may be
    written to; without memory set aside for that, of which a large file has more than the machine.
    """
    try:
        array = np.load(path, mmap_mode="r")
        with open(path, "rb") as file:
            flags = mmap.MAP_PRIVATE | 0x4000  # MAP_NORESERVE
            memory = mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise UsageError(f"{path}: cannot be mapped: {error.strerror}") from None
    except (EOFError, ValueError) as error:
        raise UsageError(f"{path}: is no whole .npy file: {error}: make it again") from None
    order = "C" if array.flags.c_contiguous else "F"
    return np.ndarray(array.shape, array.dtype, memory, array.offset, order=order)


def _check_edge_feat(array: np.ndarray, n_edges: int, what: str) -> None:
    if array.dtype.name not in NUMBERS or not array.dtype.isnative:
        wanted, advice = f"one of {', '.join(NUMBERS)}", "save x.astype(numpy.float32)"
    elif array.shape[:1] != (n_edges,):
        wanted, advice = f"[{n_edges}, ...]", "a row for each edge, in the order of indices.npy"
    elif not array.flags.c_contiguous:
        wanted, advice = "it in C order", "save numpy.ascontiguousarray(x)"
    else:
        return
    raise UsageError(f"{what}: is {array.dtype} {list(array.shape)}, wanted {wanted}: {advice}")


def from_scipy(
    matrix: Any,
    x: Any = None,
    y: Any = None,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    weights: bool = False,
    task: Optional[str] = None,
    name: str = "graph",
) -> Dataset:
    """A data set of a SciPy sparse matrix (num_nodes, num_nodes): an entry in row u, column v is
    the edge u -> v.

    x          features (num_nodes, feat_dim)
    y          labels, by `task` as in from_pyg
    train, val, test   vertices: ids (n) or masks (num_nodes)
    weights    whether the entries are the edges' weights
    """
    if not hasattr(matrix, "tocsc"):
        raise UsageError(
            f"matrix: is {type(matrix).__name__}, wanted a sparse matrix, such as "
            "scipy.sparse.csc_matrix(matrix)"
        )
    csc = matrix.tocsc()
    n = csc.shape[1]
    if csc.shape[0] != n:
        raise UsageError(f"matrix: is {csc.shape[0]} x {n}, wanted as many rows as columns")
    arrays = {"indptr": csc.indptr.astype(np.int64), "indices": _ids(csc.indices, n)}
    if weights:

        def entry(at: int) -> str:
            column = int(np.searchsorted(csc.indptr, at, side="right")) - 1
            return f"entry ({csc.indices[at]}, {column})"

        arrays["edge_weight"] = _weights(csc.data, "matrix", entry)
    words = {**dict(zip(NAMES, ("matrix",) * 3 + ("x", "y"))), **{f"{s}_idx": s for s in SPLITS}}
    _add_vertices(arrays, n, words, x, y, {"train": train, "val": val, "test": test})
    return Dataset(_metadata(arrays, y, task, name), arrays, words=words)


def from_pyg(
    data: Any,
    weight_attr: Union[str, bool, None] = None,
    task: Optional[str] = None,
    labels: bool = True,
    splits: Sequence[str] = SPLITS,
    edge_attr: bool = True,
    features: bool = True,
    first: Optional[str] = None,
    time_attr: Optional[str] = None,
) -> Dataset:
    """A data set of a torch_geometric.data.Data, or of a HeteroData, of each of whose types and
    relations the following are taken.

    edge_index  (2, num_edges) sources, then destinations; the data set has them by destination, and
                edges of one destination in their order
    x           features (num_nodes, feat_dim); float16 stays
    y           labels. Integers (num_nodes) are classes, a matrix of integers or bools is one
                column a label; floats are numbers. `task` ("multiclass", "multilabel",
                "regression") says otherwise
    train_mask, val_mask, test_mask   (num_nodes) bool, or ids
    edge_attr   features of edges, (num_edges, ...): floats, integers or bools
    weight_attr   name of the edges' weights (num_edges); None: edge_weight, where there is one;
                False: without. Relations of a HeteroData that have none have 1
    labels, edge_attr, features   whether y, edge_attr, x are taken; of a HeteroData features=False
                leaves out those that are no floats (n, d)
    splits      which of "train", "val", "test" are taken, where there are such masks
    first       of a HeteroData the type that has labels, masks and seeds; None: the first one with
                y or train_mask
    time_attr   of a HeteroData the name of times, int64: of edges, by relation, or of vertices, by
                type, whose edges to others have then the time of their source. Relations and types
                that have none are of any time. Edges of one destination are then by time

    What else `data` has is not stored.
    """
    if hasattr(data, "edge_types") and not holds_graphs(data):
        from . import _hetero

        return _hetero.from_pyg(
            data, first, weight_attr, task, labels, splits, not features, edge_attr, time_attr
        )
    if holds_graphs(data) or not hasattr(data, "edge_index"):
        advice = ": use data[0]" if holds_graphs(data) else ""
        raise UsageError(
            f"data: is {type(data).__name__}, wanted a torch_geometric.data.Data with "
            f"edge_index{advice}"
        )
    for name, given in ("first", first), ("time_attr", time_attr):
        if given is not None:
            raise UsageError(f"{name}={given!r}: is for a HeteroData: leave it out")
    if data.edge_index is None:
        raise UsageError(
            "data.edge_index: is missing: where there is an adj_t, use "
            "edge_index = torch.stack(adj_t.t().coo()[:2])"
        )
    edges = _array(data.edge_index, "data.edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        turned = edges.ndim == 2 and edges.shape[1] == 2 != edges.shape[0]
        advice = ": use edge_index.t()" if turned else ": use edge_index.long()"
        raise UsageError(
            f"data.edge_index: is {edges.dtype} {list(edges.shape)}, wanted int64 [2, num_edges]"
            f"{advice if turned or edges.shape[:1] == (2,) else ''}"
        )
    n = int(data.num_nodes)
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        bad = int(edges.max() if edges.max() >= n else edges.min())
        raise UsageError(
            f"data.edge_index: has vertex {bad}, wanted 0 to {n - 1}: data.num_nodes is {n}"
        )
    order = np.argsort(edges[1], kind="stable")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(edges[1], minlength=n), out=indptr[1:])
    arrays = {"indptr": indptr, "indices": _ids(edges[0][order], n)}
    name = weight_attr or "edge_weight"
    weight = data[name] if name in data and weight_attr is not False else None
    if weight is None and weight_attr:
        raise UsageError(f"weight_attr: data has no '{weight_attr}'")
    if weight is not None:
        values = _array(weight, f"data.{name}")
        if values.shape not in ((edges.shape[1],), (edges.shape[1], 1)):
            raise UsageError(
                f"data.{name}: is {list(values.shape)}, wanted a weight an edge: "
                f"[{edges.shape[1]}]"
            )
        arrays["edge_weight"] = _weights(values.reshape(-1), f"data.{name}")[order]
    words = dict(zip(NAMES, ("data.edge_index",) * 2 + (f"data.{name}", "data.x", "data.y")))
    words.update({f"{s}_idx": f"data.{s}_mask" for s in SPLITS}, edge_feat="data.edge_attr")
    if edge_attr and "edge_attr" in data and data.edge_attr is not None:
        feat = np.ascontiguousarray(_array(data.edge_attr, "data.edge_attr"))
        _check_edge_feat(feat, len(order), "data.edge_attr")
        arrays["edge_feat"] = feat[order]
    masks = {s: data[f"{s}_mask"] if f"{s}_mask" in data else None for s in splits}
    y = data.y if labels and "y" in data else None
    x = data.x if features and "x" in data else None
    _add_vertices(arrays, n, words, x, y, masks)
    return Dataset(_metadata(arrays, y, task, "graph"), arrays, edge_map=order, words=words)


def is_other_than_features(data: Any) -> bool:
    """Whether a Data's x has a row for each vertex and is still nothing that a data set has:
    integers, or rows of more dimensions than one."""
    x = data.x if "x" in data else None
    if not hasattr(x, "dtype") or str(getattr(x, "layout", "torch.strided")) != "torch.strided":
        return False
    if x.ndim == 0 or x.shape[0] != int(data.num_nodes):
        return False
    kept = str(x.dtype).rpartition(".")[2] in ("float32", "float16")
    return not (kept and x.ndim == 2 and x.shape[1] > 0)


def holds_graphs(data: Any) -> bool:
    """Whether it is a list or a torch_geometric.data.Dataset of graphs, instead of one."""
    kind = type(data)
    return isinstance(data, (list, tuple)) or (hasattr(kind, "indices") and hasattr(kind, "get"))


def vertex_ids(ids: Any, n: int, what: str) -> np.ndarray:
    """int64 ids of a list of vertices or of a mask of n. UsageError for ids out of range, and for
    vertices that are listed twice."""
    array = _array(ids, what)
    if array.dtype.kind in "US":
        raise UsageError(f"{what}={ids!r}: is text, wanted a list or array of vertices, or a mask")
    if array.ndim == 0:
        raise UsageError(
            f"{what}={ids!r}: is one number, wanted a list or array of vertices, such as "
            f"[{array}], or a mask"
        )
    if array.ndim == 2 and array.shape[1] == 1:  # as nonzero() has it
        array = array[:, 0]
    if array.ndim != 1:
        raise UsageError(
            f"{what}: has {array.ndim} dimensions, wanted one: choose a column, such as [:, 0]"
        )
    if array.dtype == bool:
        if len(array) != n:
            raise UsageError(f"{what}: is a mask of {len(array)}, wanted {n}: one for each vertex")
        return np.flatnonzero(array)
    if len(array) == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise UsageError(f"{what}: is of type {array.dtype}, wanted integers or bools")
    dtype = array.dtype
    array = array.astype(np.int64)
    if array.min() < 0 or array.max() >= n:
        bad = int(array.max() if array.max() >= n else array.min())
        raise UsageError(f"{what}: has vertex {bad}, wanted 0 to {n - 1}")
    order = np.sort(array)
    twice = order[1:][order[1:] == order[:-1]]
    if len(twice):
        if order[-1] <= 1:
            raise UsageError(
                f"{what}: has {dtype} zeros and ones: a mask is bool: use .bool() of a "
                "tensor, .astype(bool) of an array"
            )
        raise UsageError(
            f"{what}: lists vertex {int(twice[0])} more than once: each vertex is a seed once "
            "in an epoch; numpy.unique() leaves repetitions out"
        )
    return array


def pairs_of(value: Any, what: str) -> np.ndarray:
    """Pairs of vertices (n, 2) of an array or tensor (2, n). UsageError; whether they are vertices
    of the graph is checked by the job."""
    pairs = _array(value, what)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        advice = f": give {what}.T" if pairs.ndim == 2 and pairs.shape[1] == 2 else ""
        raise UsageError(
            f"{what}: is {pairs.dtype} {list(pairs.shape)}, wanted int64 [2, n], sources and "
            f"targets{advice}"
        )
    if pairs.shape[1] == 0:
        raise UsageError(f"{what}: is empty, wanted a pair of vertices or more")
    return pairs.T.astype(np.int64, order="C")


def is_mask(ids: Any) -> bool:
    return bool(_array(ids, "ids").dtype == bool)


def _array(value: Any, what: str) -> np.ndarray:
    if hasattr(value, "detach"):
        if str(value.layout) != "torch.strided":
            raise UsageError(f"{what}: is sparse ({value.layout}), wanted a dense tensor")
        if str(value.dtype) == "torch.bfloat16":
            raise UsageError(f"{what}: is bfloat16, which data sets have not: use .float()")
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.dtype == object:
        raise UsageError(f"{what}: is {type(value).__name__}, wanted an array of numbers")
    return array


def _float32(array: np.ndarray, what: str, place: Callable[..., str]) -> np.ndarray:
    """As float32. UsageError for a finite number that would be infinite there."""
    most = float(np.finfo(np.float32).max)
    if array.dtype.kind == "f" and array.dtype.itemsize > 4 and array.size:
        if max(np.fmax.reduce(array, axis=None), -np.fmin.reduce(array, axis=None)) > most:
            above = np.argwhere(np.isfinite(array) & (np.abs(array) > most))
            if len(above):
                raise UsageError(
                    f"{what}: {place(*above[0])} is {array[tuple(above[0])]:g}, wanted numbers "
                    f"that float32 has, up to {most:g}: data sets have float32"
                )
    return array.astype(np.float32)


def _weights(array: np.ndarray, what: str, place: Callable[..., str] = "element {}".format) -> Any:
    """Weights of edges, float32 (n), finite and not negative. UsageError."""
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{what}: is of type {array.dtype}, wanted numbers")
    out = _float32(array, what, place)
    good = np.isfinite(out) & (out >= 0)
    if not good.all():
        at = int(np.argmin(good))
        raise UsageError(f"{what}: {place(at)} is {out[at]:g}, wanted a finite number from 0 on")
    return out


def _ids(array: np.ndarray, n: int) -> np.ndarray:
    return array.astype(np.int32 if n < 1 << 31 else np.int64)


def _add_vertices(
    arrays: Dict[str, np.ndarray],
    n: int,
    words: Mapping[str, str],
    x: Any,
    y: Any,
    lists: Mapping[str, Any],
) -> None:
    for value, name in (x, "node_feat"), (y, "node_label"):
        if value is None:
            continue
        what = words[name]
        array = _array(value, what)
        if array.ndim == 0 or array.shape[0] != n:
            raise UsageError(
                f"{what}: is {list(array.shape)}, wanted {n} rows: one for each vertex"
            )
        arrays[name] = array
    if x is not None:
        feat, what = arrays["node_feat"], words["node_feat"]
        if feat.ndim != 2 or feat.dtype.kind not in "fiub" or not feat.shape[1]:
            advice = f": use {what}[:, None]" if feat.ndim == 1 else ""
            raise UsageError(
                f"{what}: is {feat.dtype} {list(feat.shape)}, wanted float32 [num_nodes, feat_dim]"
                f"{advice}"
            )
        if feat.dtype != np.float16:
            arrays["node_feat"] = _float32(feat, what, "row {}, column {}".format)
    for split, value in lists.items():
        if value is not None:
            arrays[f"{split}_idx"] = vertex_ids(value, n, words[f"{split}_idx"])


def _label_task(label: np.ndarray, task: Optional[str]) -> Tuple[str, np.ndarray]:
    """The task, and the labels as the file of such a task has them."""
    columns = label.shape[1] if label.ndim == 2 else 1
    if task is None:
        whole = label.dtype.kind in "iub"
        task = "regression" if not whole else "multilabel" if columns > 1 else "multiclass"
    if task == "multiclass":
        label = label.reshape(-1)
        return task, label if label.dtype.kind in "fub" else np.maximum(label, -1)
    if task == "multilabel" or label.ndim > 2:
        label = label.reshape(len(label), -1)
    return task, label.astype(np.uint8) if label.dtype == bool else label


def _metadata(
    arrays: Dict[str, np.ndarray], y: Any, task: Optional[str], name: str
) -> Dict[str, Any]:
    out: Dict[str, Any] = {
        "name": name,
        "num_nodes": len(arrays["indptr"]) - 1,
        "num_edges": len(arrays["indices"]),
        "task": "none",
    }
    if "node_feat" in arrays:
        out["feat_dim"] = arrays["node_feat"].shape[1]
    if y is not None:
        out["task"], label = _label_task(arrays["node_label"], task)
        arrays["node_label"] = label
        known = label[np.isfinite(label)] if label.dtype.kind == "f" else label
        classes = max(1, int(known.max()) + 1) if known.size else 1
        numbers = label.shape[1] if label.ndim == 2 else 1
        out["num_classes"] = classes if out["task"] == "multiclass" else numbers
    lists = [arrays[f"{s}_idx"] for s in SPLITS if f"{s}_idx" in arrays]
    if lists and len(np.unique(np.concatenate(lists))) < sum(map(len, lists)):
        out["splits"] = "overlap"
    return out

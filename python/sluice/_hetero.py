"""Data sets with types from and to torch_geometric.data.HeteroData."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _dataset, _typed
from ._errors import UsageError

NAME_MAX = 63
Relation = Tuple[str, str, str]


def to_pyg(dataset: "_dataset.Dataset", schema: "_typed.Schema") -> Any:
    """A HeteroData, as Dataset.to_pyg() says."""
    import torch
    from torch_geometric.data import HeteroData

    arrays, data = dataset.arrays, HeteroData()
    for t in schema.types:
        feat = arrays.get(f"node_feat.{t.name}")
        if feat is None:
            data[t.name].num_nodes = t.n
        else:
            data[t.name].x = torch.from_numpy(np.asarray(feat))
    if "node_label" in arrays:
        data[schema.first].y = torch.from_numpy(dataset.labels())
    listed = schema.type(dataset.metadata.get("list_type", schema.first), "list_type")
    for split in _dataset.SPLITS:
        if f"{split}_idx" in arrays:
            mask = np.zeros(listed.n, bool)
            mask[arrays[f"{split}_idx"]] = True
            data[listed.name][f"{split}_mask"] = torch.from_numpy(mask)
    by_edge, edge_attr = dataset.by_edge(), dataset.edge_attr()
    for r in schema.relations:
        mine = slice(r.first_edge, r.first_edge + r.n_edges)
        numbers = None if dataset.edge_map is None else dataset.edge_map[mine]
        rows = np.asarray(arrays["indptr"][r.first_row : r.first_row + r.target.n + 1])
        edges = np.empty((2, r.n_edges), np.int64)
        edges[0] = arrays["indices"][mine]
        edges[0] -= r.source.first
        edges[1] = np.repeat(np.arange(r.target.n), np.diff(rows.astype(np.int64)))
        data[r.key].edge_index = torch.from_numpy(_dataset.by_number(edges, numbers, 1))
        for name, values in by_edge.items():
            data[r.key][name] = torch.from_numpy(_dataset.by_number(values[mine], numbers))
        if r.key in edge_attr:
            rows = _dataset.by_number(edge_attr[r.key], numbers)
            data[r.key].edge_attr = torch.from_numpy(rows)
    return data


def _check_name(name: Any, what: str) -> str:
    if isinstance(name, str) and re.fullmatch(rf"[A-Za-z0-9_-]{{1,{NAME_MAX}}}", name):
        return name
    raise UsageError(
        f"data: has {what} {name!r}, wanted 1 to {NAME_MAX} letters, digits, '_' and '-': "
        + ("data.rename() changes it" if what == "type" else "make it again under another name")
    )


def _first_of(data: Any, asked: Optional[str]) -> str:
    if asked is not None:
        if asked not in data.node_types:
            raise UsageError(f"first={asked!r}: wanted one of {', '.join(data.node_types)}")
        return asked
    for name in data.node_types:
        if "y" in data[name] or "train_mask" in data[name]:
            return str(name)
    return str(data.node_types[0])


def _edges_of(store: Any, key: Tuple[str, str, str], counts: Mapping[str, int]) -> np.ndarray:
    what = f"data[{key}].edge_index"
    if "edge_index" not in store:
        raise UsageError(f"{what}: is missing: of an adj_t give both ends of its edges")
    edges = _dataset._array(store.edge_index, what)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise UsageError(f"{what}: is {edges.dtype} {list(edges.shape)}, wanted int64 [2, n]")
    for ends, name in (edges[0], key[0]), (edges[1], key[2]):
        n = counts[name]
        if ends.size and (ends.min() < 0 or ends.max() >= n):
            bad = int(ends.max() if ends.max() >= n else ends.min())
            raise UsageError(f"{what}: has {name} {bad}, wanted 0 to {n - 1}: as many there are")
    return edges


def _counts_of(data: Any, order: Sequence[str]) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for name in order:
        n = data[_check_name(name, "type")].num_nodes
        if n is None:
            raise UsageError(f"data['{name}'].num_nodes: is not known: say it")
        counts[name] = int(n)
    return counts


def _weights_of(
    data: Any, order: Mapping[Any, np.ndarray], asked: Union[str, bool, None]
) -> Optional[np.ndarray]:
    """Weights of all edges, 1 in relations that have none; None: none has."""
    name = asked or "edge_weight"
    if asked is False or not any(name in data[key] for key in order):
        if asked:
            raise UsageError(f"weight_attr: no relation of data has '{asked}'")
        return None
    parts: List[np.ndarray] = []
    for key, places in order.items():
        values = np.ones(len(places), np.float32)
        if name in data[key]:
            what = f"data[{key}].{name}"
            values = _dataset._array(data[key][name], what)
            if values.shape not in ((len(places),), (len(places), 1)):
                raise UsageError(
                    f"{what}: is {list(values.shape)}, wanted a weight an edge: [{len(places)}]"
                )
            values = _dataset._weights(values.reshape(-1), what)[places]
        parts.append(values)
    return np.concatenate(parts)


def from_pyg(
    data: Any,
    first: Optional[str] = None,
    weight_attr: Union[str, bool, None] = None,
    task: Optional[str] = None,
    labels: bool = True,
    splits: Sequence[str] = _dataset.SPLITS,
    as_they_are: bool = False,
    edge_attr: bool = True,
    time_attr: Optional[str] = None,
) -> "_dataset.Dataset":
    """A data set of a HeteroData, as _dataset.from_pyg() says. as_they_are: features that a data
    set has not in that shape and type are left out."""
    if not data.node_types or not data.edge_types:
        raise UsageError("data: is a HeteroData without types or relations, wanted one of each")
    first = _first_of(data, first)
    counts = _counts_of(data, [first, *(name for name in data.node_types if name != first)])
    arrays: Dict[str, np.ndarray] = {}
    words: Dict[str, str] = {}
    taken = {first: (labels, splits)}
    types = [
        _add_type(arrays, words, data[name], name, n, as_they_are, *taken.get(name, (False, ())))
        for name, n in counts.items()
    ]
    times = _times_of(data, time_attr, counts) if time_attr is not None else {}
    places = _add_edges(arrays, data, counts, times)
    if time_attr is not None and time_attr in data[first]:
        what, shape = f"data['{first}']", (counts[first],)
        arrays["node_time"] = _whole_numbers(data[first], time_attr, what, shape)
    words["node_time"] = f"data['{first}'].{time_attr}"
    for key, order in places.items():
        file = ".".join(key)
        if key in times:
            arrays[f"edge_time.{file}"] = times[key][order]
        words[f"edge_time.{file}"] = f"data[{key}].{time_attr}"
        words[f"edge_feat.{file}"] = what = f"data[{key}].edge_attr"
        if edge_attr and data[key].get("edge_attr") is not None:
            feat = np.ascontiguousarray(_dataset._array(data[key].edge_attr, what))
            _dataset._check_edge_feat(feat, len(order), what)
            arrays[f"edge_feat.{file}"] = feat[order]
    weights = _weights_of(data, places, weight_attr)
    if weights is not None:
        arrays["edge_weight"] = weights
    words.update(indptr="data.edge_index_dict", indices="data.edge_index_dict")
    words["edge_weight"] = f"data.{weight_attr or 'edge_weight'}_dict"
    metadata = _dataset._metadata(arrays, arrays.get("node_label"), task, "graph")
    relations = [
        {"source": key[0], "name": key[1], "target": key[2], "edges": len(order)}
        for key, order in places.items()
    ]
    for relation in relations:  # as torch_geometric.transforms.ToUndirected names reverses
        for other in relations:
            ends = (other["target"], other["source"], f"rev_{other['name']}", other["edges"])
            if ends == tuple(relation[k] for k in ("source", "target", "name", "edges")):
                relation["reverse_of"] = other["name"]
    metadata.update(
        num_nodes=sum(counts.values()), label_type=first, types=types, relations=relations
    )
    edge_map = np.concatenate(list(places.values()))
    return _dataset.Dataset(metadata, arrays, edge_map=edge_map, words=words)


def _add_type(
    arrays: Dict[str, np.ndarray],
    words: Dict[str, str],
    store: Any,
    name: str,
    n: int,
    as_they_are: bool,
    labels: bool,
    splits: Sequence[str],
) -> Dict[str, Any]:
    """Puts a type's features, and labels and lists of the first one, into the arrays; returns what
    metadata.json says of it."""
    said = {"node_feat": f"data['{name}'].x", "node_label": f"data['{name}'].y"}
    said.update({f"{s}_idx": f"data['{name}'].{s}_mask" for s in _dataset.SPLITS})
    x = store.x if "x" in store and n else None
    if as_they_are and _dataset.is_other_than_features(store):
        x = None
    y = store.y if labels and "y" in store else None
    masks = {s: store[f"{s}_mask"] for s in splits if f"{s}_mask" in store}
    mine: Dict[str, np.ndarray] = {}
    _dataset._add_vertices(mine, n, said, x, y, masks)
    out = {"name": name, "count": n}
    feat = mine.pop("node_feat", None)
    if feat is not None:
        out["feat_dim"] = feat.shape[1]
        arrays[f"node_feat.{name}"] = feat
    words[f"node_feat.{name}"] = said.pop("node_feat")
    arrays.update(mine)
    for key, word in said.items():
        words.setdefault(key, word)  # those of the first type
    return out


def _whole_numbers(store: Any, name: str, of: str, shape: Tuple[int, ...]) -> np.ndarray:
    values = _dataset._array(store[name], f"{of}.{name}")
    if values.dtype.kind not in "iu" or values.shape != shape:
        raise UsageError(
            f"{of}.{name}: is {values.dtype} {list(values.shape)}, wanted whole numbers "
            f"{list(shape)}"
        )
    return values.astype(np.int64)


def _times_of(data: Any, name: str, counts: Mapping[str, int]) -> Dict[Relation, np.ndarray]:
    """Of each relation that has some the times of its edges: its own, or their sources'."""
    of_types = [key for key in data.node_types if name in data[key]]
    of_relations = [key for key in data.edge_types if name in data[key]]
    if bool(of_types) == bool(of_relations):
        found = "both types and relations have" if of_types else "no type and no relation has"
        raise UsageError(f"time_attr={name!r}: {found} it, wanted it of vertices, or of edges")
    times = {}
    for key in data.edge_types:
        if key in of_relations:
            n = _edges_of(data[key], key, counts).shape[1]
            times[key] = _whole_numbers(data[key], name, f"data[{key}]", (n,))
        elif key[0] in of_types:
            what = f"data['{key[0]}']"
            of_source = _whole_numbers(data[key[0]], name, what, (counts[key[0]],))
            times[key] = of_source[_edges_of(data[key], key, counts)[0]]
    return times


def _add_edges(
    arrays: Dict[str, np.ndarray],
    data: Any,
    counts: Mapping[str, int],
    times: Mapping[Relation, np.ndarray],
) -> Dict[Relation, np.ndarray]:
    """Puts indptr and indices into the arrays; returns the columns of each relation's edge_index in
    the order of the data set: by target, and then by time where there are some."""
    base = dict(zip(counts, np.cumsum([0, *counts.values()])))
    places: Dict[Relation, np.ndarray] = {}
    indices, degrees = [], []
    for key in data.edge_types:
        _check_name(key[1], "relation")
        edges = _edges_of(data[key], key, counts)
        by = (times[key], edges[1]) if key in times else (edges[1],)
        places[key] = np.lexsort(by)
        indices.append(edges[0][places[key]].astype(np.int64) + base[key[0]])
        degrees.append(np.bincount(edges[1], minlength=counts[key[2]]))
    arrays["indptr"] = np.concatenate([[0], np.cumsum(np.concatenate(degrees))]).astype(np.int64)
    arrays["indices"] = _dataset._ids(np.concatenate(indices), sum(counts.values()))
    return places

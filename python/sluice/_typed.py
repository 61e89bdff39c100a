"""Graphs of several types of vertices and relations: what they are called, their batches, and from
and to torch_geometric.data.HeteroData.

A type's vertices are a contiguous range of one numbering, and users see a vertex by its number in
its type. The first type is the one with labels, so its vertices have the same number in both. A
relation's edges stand together, by target, and users see an edge by its place
among them. common/data/README.md has the files.
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _batch, _lib
from ._errors import UsageError

# What stands in a batch by a type's name or a relation's three; None: what is of the whole graph.
Key = Union[str, Tuple[str, str, str], None]
Fields = Dict[Key, Dict[str, Any]]


class Type(NamedTuple):
    name: str
    first: int
    n: int


class Relation(NamedTuple):
    key: Tuple[str, str, str]
    source: Type
    target: Type
    first_row: int
    first_edge: int
    n_edges: int

    @property
    def text(self) -> str:
        """As jobs and messages have it."""
        return "{} -{}-> {}".format(*self.key)

    @property
    def file(self) -> str:
        """As names of files have it."""
        return ".".join(self.key)


class Schema(NamedTuple):
    types: Sequence[Type]
    relations: Sequence[Relation]

    @property
    def first(self) -> str:
        """The type that has labels."""
        return self.types[0].name

    def type(self, name: str, what: str) -> Type:
        for found in self.types:
            if found.name == name:
                return found
        raise UsageError(f"{what}: has type {name!r}, wanted one of {self.names()}")

    def keys(self) -> List[Key]:
        return [t.name for t in self.types] + [r.key for r in self.relations]

    def names(self) -> str:
        return ", ".join(repr(t.name) for t in self.types)

    def relation(self, asked: Any, what: str = "num_neighbors") -> Relation:
        """Of a tuple of three names, or PyG's text of it. UsageError."""
        for relation in self.relations:
            if asked in (relation.key, "__".join(relation.key), relation.text):
                return relation
        known = ", ".join(str(r.key) for r in self.relations)
        raise UsageError(f"{what}: has {asked!r}, wanted relations of the graph: {known}")

    def fanout(self, values: Mapping[Any, Any], default: Any) -> Dict[str, Any]:
        """What a job says of num_neighbors by relation; default: of those that are not there."""
        found = {self.relation(asked).text: value for asked, value in values.items()}
        if default is not None:
            return {**found, "*": default}
        for relation in self.relations:
            if relation.text not in found:
                raise UsageError(
                    f"num_neighbors: has nothing for {relation.key}: wanted a list for each "
                    f"relation, such as {relation.key}: [0] of one that is left out"
                )
        return found

    def seeds(self, asked: Any, listed: Optional[str]) -> Tuple[str, Any]:
        """Of input_nodes, which may be a type or begin with one, the type, and what it is of that.
        listed: the type that the data set's lists are of; None: the first."""
        listed = listed or self.first
        name, ids = asked, "all"
        if isinstance(asked, (tuple, list)) and len(asked) == 2 and isinstance(asked[0], str):
            name, ids = asked[0], "all" if asked[1] is None else asked[1]
        elif not isinstance(asked, str) or asked not in [t.name for t in self.types]:
            return listed, asked
        kind = self.type(name, "input_nodes")
        if isinstance(ids, str) and ids != "all" and name != listed:
            raise UsageError(
                f"input_nodes: is {ids!r} of type {name!r}, and the data set's lists are of "
                f"{listed!r}: give ids"
            )
        if isinstance(ids, str) and ids == "all" and name != self.first:
            ids = np.arange(kind.n)
        return name, ids

    def pairs(self, asked: Any, linked: Optional[str]) -> Tuple["Relation", Any]:
        """Of edge_label_index, which is or begins with a relation, that, and what it is of it.
        linked: the relation that the data set's lists are of, where it says so."""
        is_key = isinstance(asked, (tuple, list)) and all(isinstance(a, str) for a in asked)
        if is_key and len(asked) == 3:
            return self.relation(tuple(asked), "edge_label_index"), None
        if isinstance(asked, (tuple, list)) and len(asked) == 2 and not hasattr(asked[0], "ndim"):
            key = tuple(asked[0]) if isinstance(asked[0], list) else asked[0]
            return self.relation(key, "edge_label_index"), asked[1]
        if linked is None or not (asked is None or isinstance(asked, str)):
            raise UsageError(
                "edge_label_index: is of no relation, and the graph has several types: wanted "
                f"(relation, pairs), such as ({self.relations[0].key}, pairs)"
            )
        return self.relation(linked, "edge_label_index"), asked

    def reverse(self, of: "Relation", metadata: Mapping[str, Any]) -> bool:
        """Whether something says which relation has the reverse of that one's edges."""
        said = metadata.get("relations", [])
        mine = said[list(self.relations).index(of)]
        others = [r for r in said if r.get("reverse_of") == of.key[1]]
        back = [r for r in others if (r["source"], r["target"]) == (of.key[2], of.key[0])]
        return of.source == of.target or "reverse_of" in mine or bool(back)


def of_sizes(
    types: Sequence[Tuple[str, int]], relations: Sequence[Tuple[Tuple[str, str, str], int]]
) -> Schema:
    """Of names and counts: types (name, n), relations (key, edges)."""
    found: List[Type] = []
    for name, n in types:
        found.append(Type(name, found[-1].first + found[-1].n if found else 0, n))
    by_name = {t.name: t for t in found}
    listed: List[Relation] = []
    for key, n_edges in relations:
        last = listed[-1] if listed else None
        row, edge = (
            (last.first_row + last.target.n, last.first_edge + last.n_edges) if last else (0, 0)
        )
        listed.append(Relation(key, by_name[key[0]], by_name[key[2]], row, edge, n_edges))
    return Schema(found, listed)


def schema_of(metadata: Any, path: str) -> Optional[Schema]:
    """Of what metadata.json says; None: of a plain graph. UsageError for what is none."""
    if not isinstance(metadata, dict) or "types" not in metadata:
        return None
    try:
        return of_sizes(
            [(str(t["name"]), int(t["count"])) for t in metadata["types"]],
            [
                ((str(r["source"]), str(r["name"]), str(r["target"])), int(r["edges"]))
                for r in metadata["relations"]
            ],
        )
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path}/metadata.json: types and relations are not what they should be: "
            f"`sluice inspect {path}` says why"
        ) from None


def schema_of_info(info: "_lib.Info") -> Optional[Schema]:
    """Of what the library says of a job; None: of a plain graph."""
    if info.n_types == 0:
        return None
    types = [(t.name.decode(), t.n) for t in info.types[: info.n_types]]
    relations = []
    for r in info.relations[: info.n_relations]:
        key = types[r.source][0], r.name.decode(), types[r.target][0]
        relations.append((key, r.n_edges))
    return of_sizes(types, relations)


def schema_at(path: Any) -> Optional[Schema]:
    """Of a data set directory, of which others say what is wrong."""
    try:
        with open(os.path.join(path, "metadata.json"), encoding="utf-8") as file:
            return schema_of(json.load(file), os.fspath(path))
    except (OSError, TypeError, ValueError):
        return None


# ---- batches ------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What is known of the data set, as _batch.Known."""

    schema: Schema
    plain: "_batch.Known" = _batch.Known()  # of all edges of all relations
    edge_attr: Mapping[Key, Any] = {}  # of the edges of those relations that have some

    def seeds(self, fields: Fields) -> Dict[str, Any]:
        """Those fields of a batch that are of its seeds, or its pairs."""
        return next(mine for mine in fields.values() if "input_id" in mine)

    def add_pairs(self, fields: Fields, pairs: Mapping[str, Any]) -> None:
        """What a batch says of its pairs, where PyG has it."""
        key = next(key for key, mine in fields.items() if "input_id" in mine)
        assert isinstance(key, tuple)
        of = {"src_index": key[0], "dst_pos_index": key[2], "dst_neg_index": key[2]}
        for name, value in pairs.items():
            fields[of.get(name, key)][name] = value

    def fanout(self, info: "_lib.Info") -> Any:
        relations = info.relations[: info.n_relations]
        lists = [r.fanout[: info.n_hops] for r in relations]
        if all(one == lists[0] for one in lists):
            return lists[0]
        return dict(zip([r.key for r in self.schema.relations], lists))

    def of_graph(
        self, data: Any, fields: Fields, pin: bool, hidden: Sequence[str] = ()
    ) -> Fields:
        return of_whole_graph(data, fields, pin, hidden)

    def maker(self, kind: str, csc: bool) -> Any:
        if csc:
            raise UsageError("adj='csc': is for graphs of one type: leave it out")
        return _maker() if kind == "pyg" else HeteroBatch

    def fields(
        self, lent: "_lib.Batch", info: "_lib.Info", taken: "_lib.Taken", finish: "_batch.Finish"
    ) -> Fields:
        """What a batch has, by type and by relation: of a type

        x           (n_nodes, feat_dim), where it has features; else num_nodes
        n_id        int64 (n_nodes): numbers in the type
        num_sampled_nodes  list of int, by hop
        batch       int64 (n_nodes): number of the seed that a vertex is of, where disjoint

        and of that of the seeds input_id, batch_size, of the first one y, as of a plain graph; of a
        relation

        edge_index  int64 (2, n_edges): sources, then targets, in local numbers of their types
        e_id        int64 (n_edges): numbers in the relation; then also edge_attr, edge_weight
        edge_weight float32 (n_edges): visits of walks, whose relations are sampler.metapaths
        num_sampled_edges  list of int, by hop

        and of that of the pairs input_id and batch_size
        """
        _, _, _, n_seeds, n_nodes, _ = _lib.HEAD(lent)
        n_hops = info.n_hops
        _, _, nodes, _, _, _, labels, rows, places, seed_of, *_ = taken.fields()
        n_items = lent.n_positive or n_seeds
        parts = _lib.numbers_of(lent.parts, info.n_types, 4)  # first, then n_after
        types = _lib.numbers_of(taken.arrays.types, info.n_types, 8)
        relations = _lib.numbers_of(taken.arrays.relations, info.n_relations, 8)
        ends = [max(nodes, seed_of) + 8 * n_nodes, places + 8 * n_items, labels + 8 * n_seeds]
        ends += [max(row[-3] + 16 * row[0], row[-2] + 8 * row[0]) for row in relations]
        numbers = _lib.Numbers(taken, nodes, max(ends))
        x = _lib.rows_of(taken, rows, types, info.rows())
        out: Fields = {}
        for i, (kind, part, (n, ids, own)) in enumerate(zip(self.schema.types, parts, types)):
            store: Dict[str, Any] = {}
            if own:
                store["x"] = finish(x[i])
            else:
                store["num_nodes"] = n
            store["n_id"] = finish(numbers.at(ids, n))
            if seed_of:
                store["batch"] = finish(numbers.at(seed_of + 8 * part[0], n))
            store["num_sampled_nodes"] = _batch.differences(part[1 : n_hops + 2])
            out[kind.name] = store
        if not lent.n_pairs:
            kind = next(t for t, part in zip(self.schema.types, parts) if part[1])
            store = out[kind.name]
            store.update(input_id=finish(numbers.at(places, n_seeds)), batch_size=n_seeds)
            if labels and kind.name == self.schema.first:
                y = self.plain.labels(taken, numbers, labels, n_seeds, info.n_targets)
                store["y"] = finish(y)
        has_edge_ids, has_weights = info.has_edge_ids, info.has_weights
        for i, (relation, row) in enumerate(zip(self.schema.relations, relations)):
            n, n_after, (edges, edge_ids, weights) = row[0], row[1 : n_hops + 1], row[-3:]
            store = {"edge_index": finish(numbers.at(edges, 2 * n).reshape(2, n))}
            if has_edge_ids:
                store.update(self._of_edges(relation, numbers.at(edge_ids, n), finish))
            if has_weights:
                store["edge_weight"] = finish(taken.view(weights, (n,), "<f4"))
            store["num_sampled_edges"] = _batch.differences(n_after)
            if lent.n_pairs and i == info.linked:
                store.update(input_id=finish(numbers.at(places, n_items)), batch_size=n_items)
            out[relation.key] = store
        return out

    def _of_edges(
        self, relation: Relation, ids: np.ndarray, finish: "_batch.Finish"
    ) -> Dict[str, Any]:
        plain, numbers = self.plain, self.plain.edge_numbers
        places = ids + relation.first_edge if plain.edge_rows or numbers is not None else ids
        out = {
            name: _batch.take(whole, places, 0, plain.pin)
            for name, whole in plain.edge_rows.items()
        }
        if relation.key in self.edge_attr:
            out["edge_attr"] = _batch.take(self.edge_attr[relation.key], ids, 0, plain.pin)
        out["e_id"] = finish(ids if numbers is None else numbers[places])
        return out


def of_whole_graph(data: Any, fields: Fields, pin: bool, hidden: Sequence[str]) -> Fields:
    """What else a HeteroData has, as _batch.of_store() of each of its parts."""
    out: Fields = {}
    for key, mine in fields.items():
        store = data[key]
        along = functools.partial(data.__cat_dim__, store=store)
        out[key] = {**mine, **_batch.of_store(store, along, mine, pin, hidden)}
    out[None] = {
        name: value for name, value in data._global_store.items() if not name.startswith("_")
    }
    return out


def _maker() -> Callable[[Fields], Any]:
    from torch_geometric.data import HeteroData

    empty = HeteroData()
    stores: Dict[Any, Any] = {}  # empty ones of types and relations, by their key

    def make(fields: Fields) -> Any:
        data = _batch.copy_of(empty)
        nodes: Dict[Any, Any] = {}
        edges: Dict[Any, Any] = {}
        whole = _batch.store_of(empty._global_store, data, {})
        data.__dict__.update(_global_store=whole, _node_store_dict=nodes, _edge_store_dict=edges)
        for key, mine in fields.items():
            if key is None:
                for name, value in mine.items():
                    setattr(data, name, value)
                continue
            of_edges = isinstance(key, tuple)
            if key not in stores:
                of = HeteroData()
                stores[key] = of.get_edge_store(*key) if of_edges else of.get_node_store(key)
            (edges if of_edges else nodes)[key] = _batch.store_of(stores[key], data, mine)
        return data

    return make


class HeteroBatch:
    """A mini-batch where torch_geometric is not used: batch["paper"].x,
    batch["author", "writes", "paper"].edge_index, and by name x_dict, edge_index_dict and so on."""

    def __init__(self, fields: Mapping[Key, Any]) -> None:
        self._stores = {
            key: mine if isinstance(mine, _batch.Batch) else _batch.Batch(mine)
            for key, mine in fields.items()
        }

    @property
    def node_types(self) -> List[str]:
        return [key for key in self._stores if isinstance(key, str)]

    @property
    def edge_types(self) -> List[Tuple[str, str, str]]:
        return [key for key in self._stores if isinstance(key, tuple)]

    def __getitem__(self, key: Key) -> "_batch.Batch":
        return self._stores[key]

    def __contains__(self, key: Key) -> bool:
        return key in self._stores

    def __getattr__(self, name: str) -> Dict[Key, Any]:
        stores = self.__dict__.get("_stores", {})
        found = {k: store[name[:-5]] for k, store in stores.items() if name[:-5] in store}
        if not name.endswith("_dict") or not found:
            raise AttributeError(name)
        return found

    def to(self, device: Any, non_blocking: bool = False) -> "HeteroBatch":
        """With its tensors on that device of torch."""
        return HeteroBatch({k: v.to(device, non_blocking) for k, v in self._stores.items()})

    def __repr__(self) -> str:
        return f"HeteroBatch({', '.join(f'{k}={v!r}' for k, v in self._stores.items())})"

"""sluice.NeighborLoader on graphs with types: batches against a NumPy reference, and beside PyTorch
Geometric's loader of HeteroData."""

import ctypes
import json
import os

import libsluice as s
import numpy as np
from harness import cases, python_with, whole
from sluice import _lib
from test_libsluice import job, opened, refused
from test_python_loader import NOT_UNDER, run  # noqa: F401
from test_python_pyg import ENV
from test_typed_data import TYPES, draw, features, reference


def typed_dataset(box, seed=3, name="typed", reverse=False):
    """Of test_typed_data's types: a hub, duplicates, self-loops, a type without vertices, one with
    one, a relation without edges; authors have labels."""
    listed, indptr, indices, weight = reference(TYPES, draw(seed), reverse)
    folder = box.path(name)
    os.makedirs(folder)
    arrays = {"indptr": indptr, "indices": indices, "edge_weight": weight}
    arrays["node_label"] = np.arange(64) % 3 - 1
    arrays["train_idx"] = np.random.default_rng(seed).permutation(64)[:50]
    types = []
    for kind, n, dim, dtype in TYPES:
        types.append({"name": kind, "count": n})
        if dim and n:
            types[-1]["feat_dim"] = dim
            arrays[f"node_feat.{kind}"] = features(kind, n, dim, dtype)
    for key, array in arrays.items():
        np.save(os.path.join(folder, f"{key}.npy"), array)
    metadata = {"num_nodes": sum(t[1] for t in TYPES), "num_edges": len(indices), "num_classes": 2}
    metadata.update(types=types, relations=listed)
    with open(os.path.join(folder, "metadata.json"), "w", encoding="utf-8") as file:
        json.dump(metadata, file)
    return folder


HEAD = """
from sluice import _typed
schema = sluice.open(path).schema
keys = [r.key for r in schema.relations]

def reference(seeds, hops, gone=lambda key, source, target: False):
    # Vertices of each type and edges of each relation, as a search in breadth meets them.
    nodes = {t.name: [] for t in schema.types}
    nodes.update({t: list(ids) for t, ids in seeds.items()})
    edges = {key: [] for key in keys}
    counts, hops_of = [{t: 0 for t in nodes}, {t: len(of) for t, of in nodes.items()}], []
    for _ in range(hops):
        for r in schema.relations:
            for row in range(counts[-2][r.target.name], counts[-1][r.target.name]):
                v = r.first_row + nodes[r.target.name][row]
                for e in range(*graph["indptr"][v : v + 2].tolist()):
                    source = int(graph["indices"][e]) - r.source.first
                    met = nodes[r.source.name]
                    if gone(r.key, source, nodes[r.target.name][row]):
                        continue
                    if source not in met:
                        met.append(source)
                    edges[r.key].append((met.index(source), row, e - r.first_edge))
        counts.append({t: len(of) for t, of in nodes.items()})
        hops_of.append({key: len(of) for key, of in edges.items()})
    return nodes, edges, counts[1:], hops_of

def check_rows(batch):
    # What the batch has of its vertices and edges is that of the data set.
    for t in schema.types:
        store, whole = batch[t.name], graph.get(f"node_feat.{t.name}")
        assert store.n_id.dtype == np.int64 and sum(store.num_sampled_nodes) == len(store.n_id)
        assert ("x" in store) == (whole is not None)
        if whole is not None:
            assert store.x.dtype == whole.dtype and (store.x == whole[store.n_id]).all()
        else:
            assert store.num_nodes == len(store.n_id)
    assert "y" not in batch[schema.first] or "batch_size" in batch[schema.first]
    if "y" in batch[schema.first]:
        first = batch[schema.first]
        seeds = first.n_id[: first.batch_size]
        assert (first.y == np.maximum(graph["node_label"], -1)[seeds]).all()
    for r in schema.relations:
        store = batch[r.key]
        assert store.edge_index.dtype == store.e_id.dtype == np.int64
        assert sum(store.num_sampled_edges) == store.edge_index.shape[1] == len(store.e_id)
        source, target = store.edge_index
        at = store.e_id + r.first_edge
        assert (graph["indices"][at] == batch[r.source.name].n_id[source] + r.source.first).all()
        row = r.first_row + batch[r.target.name].n_id[target]
        assert ((graph["indptr"][row] <= at) & (at < graph["indptr"][row + 1])).all()
        assert (store.edge_weight == graph["edge_weight"][at]).all()
        assert (np.diff(target) >= 0).all()

def same(one, two):
    assert one.node_types == two.node_types and one.edge_types == two.edge_types
    for key in [*one.node_types, *one.edge_types]:
        assert one[key].keys() == two[key].keys()
        assert all(np.array_equal(one[key][name], two[key][name]) for name in one[key].keys())
"""

HEAD += """
def check_all(batch, hops, seeds, *gone):
    # All neighbours of these seeds, by type.
    check_rows(batch)
    nodes, edges, counts, hops_of = reference(seeds, hops, *gone)
    for t in nodes:
        assert batch[t].n_id.tolist() == nodes[t], t
        assert np.cumsum(batch[t].num_sampled_nodes).tolist() == [c[t] for c in counts], t
    for key in keys:
        found = zip(*batch[key].edge_index.tolist(), batch[key].e_id.tolist())
        assert list(found) == edges[key], key
        assert np.cumsum(batch[key].num_sampled_edges).tolist() == [h[key] for h in hops_of]
"""

EPOCH = """
def check(batch, hops, kind="author"):
    of = batch[kind]
    check_all(batch, hops, {kind: of.n_id[: of.batch_size].tolist()})

for hops in 1, 2, 3:
    with open_loader(path, [-1] * hops, batch_size=7) as loader:
        seeds = []
        for batch in loader:
            check(batch, hops)
            first = batch["author"]
            assert (graph["train_idx"][first.input_id] == first.n_id[: first.batch_size]).all()
            seeds += first.n_id[: first.batch_size].tolist()
        assert sorted(seeds) == sorted(graph["train_idx"].tolist()) and len(loader) == 8
        one = loader([4, 2])
        check(one, hops)
        assert one["author"].n_id[:2].tolist() == graph["train_idx"][[4, 2]].tolist()
        assert one["author"].input_id.tolist() == [4, 2] and one["author"].batch_size == 2
mask = np.arange(64) % 5 == 1
for nodes, wanted in (("author", range(64)), ("all", range(64)), (("author", None), range(64)),
                      (("author", [9, 5]), [9, 5]), ([9, 5], [9, 5]),
                      (("author", mask), range(1, 64, 5))):
    with open_loader(path, [-1, -1], input_nodes=nodes, shuffle=False) as loader:
        (batch,) = loader
        check(batch, 2)
        first = batch["author"]
        assert first.n_id[: first.batch_size].tolist() == list(wanted)
        places = wanted if isinstance(nodes, tuple) and nodes[1] is mask else range(len(wanted))
        assert first.input_id.tolist() == list(places)
mask = np.arange(65) % 5 == 1
for nodes, wanted in (("paper", range(65)), (("paper", [9, 64]), [9, 64]),
                      (("paper", mask), range(1, 65, 5)), (("venue", [0]), [0])):
    kind = nodes if isinstance(nodes, str) else nodes[0]
    with open_loader(path, [-1, -1], 7, input_nodes=nodes, shuffle=False) as loader:
        batches = list(loader)
        for batch in batches:
            check(batch, 2, kind)
            assert "y" not in batch["author"] and "y" not in batch[kind]
        assert sum((b[kind].n_id[: b[kind].batch_size].tolist() for b in batches), []) == [*wanted]
        places = wanted if nodes[1] is mask else range(len(wanted))
        assert np.concatenate([b[kind].input_id for b in batches]).tolist() == list(places)
        check(loader([0]), 2, kind)

def drawn(batch, fanout):
    check_rows(batch)
    for r in schema.relations:
        store, target = batch[r.key], batch[r.target.name]
        row = r.first_row + target.n_id
        degrees = np.diff(graph["indptr"])[row]
        found = np.bincount(store.edge_index[1], minlength=len(row))
        begins = np.cumsum([0, *target.num_sampled_nodes])
        for hop, most in enumerate(fanout[r.key]):
            rows = slice(begins[hop], begins[hop + 1])
            wanted = degrees[rows] if most < 0 else np.minimum(degrees[rows], most)
            assert (found[rows] == wanted).all(), (r.key, hop, found[rows], wanted)
            assert found[rows].sum() == store.num_sampled_edges[hop]
        assert not found[begins[len(fanout[r.key])] :].any()
        assert len(np.unique(store.e_id)) == len(store.e_id)

fanout = dict.fromkeys(keys, [2, 3])
with open_loader(path, [2, 3], batch_size=7) as loader:
    epochs = [list(loader) for _ in range(2)]
    assert loader.num_neighbors == [2, 3]
    for batch in sum(epochs, []):
        drawn(batch, fanout)
        assert (batch.n_id_dict["paper"] == batch["paper"].n_id).all()
with open_loader(path, [2, 3], batch_size=7, samplers=2, prefetch=False) as loader:
    for one, two in zip(epochs[0], loader):
        same(one, two)
with open_loader(path, [2, 3], batch_size=7, weight_attr="edge_weight") as loader:
    for batch in loader:
        check_rows(batch)
        assert all((w > 0).all() for w in batch.edge_weight_dict.values())
by_relation = {**fanout, keys[1]: [1, 0], keys[0]: [-1, 0]}
with open_loader(path, by_relation, batch_size=7) as loader:
    for batch in loader:
        drawn(batch, by_relation)
    drawn(loader([3, 1]), by_relation)
    assert loader.num_neighbors == by_relation
print("ok")
"""


def test_an_epoch(box):
    """All neighbours: what a search in breadth meets, in its order; fewer: as many of each
    relation. The same batches with another number of samplers."""
    assert run(box, HEAD + EPOCH, typed_dataset(box)) == "ok\n"


LINKS = """
def open_links(pairs, num_neighbors=(-1, -1), data=path, **more):
    more = dict(dict(batch_size=9, shuffle=True, seed=7, arrays="numpy", samplers=1), **more)
    return sluice.LinkNeighborLoader(data, list(num_neighbors), pairs, **more)

def edges_of(r):
    rows = graph["indptr"][r.first_row : r.first_row + r.target.n + 1]
    source = graph["indices"][r.first_edge : r.first_edge + r.n_edges] - r.source.first
    return np.stack([source, np.repeat(np.arange(r.target.n), np.diff(rows))])

def check_pairs(batch, r, pairs, amount, exclude, strict=True, hops=2):
    store, source, target = batch[r.key], batch[r.source.name], batch[r.target.name]
    n = store.batch_size
    assert store.edge_label_index.shape == (2, n * (1 + amount))
    u, v = store.edge_label_index
    ends = np.stack([source.n_id[u], target.n_id[v]])
    assert (ends[:, :n] == pairs[:, store.input_id]).all()
    there = store.edge_label_weight[n:] > 0
    assert (store.edge_label_weight[:n] == 1).all()
    assert (ends[0, n:] == np.repeat(ends[0, :n], amount)).all()
    known = set(zip(*edges_of(r).tolist()))
    if strict:
        assert not known.intersection(zip(*ends[:, n:][:, there].tolist()))
    assert amount == 0 or store.edge_label.tolist() == [1] * n + [0] * (n * amount)
    # Seeds are the ends, as the pairs name them, and the batch is that of the graph without edges.
    of = {r.source.name: [], r.target.name: []}
    for u, v in zip(*ends[:, :n].tolist()):
        of[r.source.name] += [u] if u not in of[r.source.name] else []
        of[r.target.name] += [v] if v not in of[r.target.name] else []
    for v in ends[1, n:].tolist():
        of[r.target.name] += [v] if v not in of[r.target.name] else []
    gone = set(zip(*ends[:, :n].tolist())) if exclude != "none" else set()
    back = reverse[r.key] if exclude == "reverse" else None
    check_all(batch, hops, of, lambda key, u, v: (
        (key == r.key and (u, v) in gone) or (key == back and (v, u) in gone)))

writes, back = ("author", "writes", "paper"), ("paper", "rev_writes", "author")
cites = ("paper", "cites", "paper")
reverse = {writes: back, back: writes, cites: cites}
by_key = {r.key: r for r in schema.relations}
for key in (writes, back, cites):
    r = by_key[key]
    pairs = edges_of(r)
    for exclude in "reverse", "self", "none":
        with open_links(key, neg_sampling=("binary", 2), exclude=exclude) as loader:
            assert loader.dataset == range(r.n_edges)
            seen = []
            for batch in loader:
                check_pairs(batch, r, pairs, 2, exclude)
                seen += batch[key].input_id.tolist()
            assert sorted(seen) == list(range(r.n_edges))
    mine = np.stack([np.arange(30) % r.source.n, np.arange(30) * 7 % r.target.n])
    with open_links((key, mine), shuffle=False, label_shift=True, neg_sampling=1, strict="none",
                    edge_label=np.arange(30)) as loader:
        for batch in loader:
            places = batch[key].input_id
            label = batch[key].edge_label
            assert label.tolist() == [*(places + 1), *([0] * len(places))]
            check = dict(zip(("r", "pairs", "amount", "exclude"), (r, mine, 1, "reverse")))
            batch[key].__dict__["edge_label"] = np.repeat([1, 0], len(places))
            check_pairs(batch, strict=False, **check)
    with open_links(key, neg_sampling=("triplet", 3)) as loader:
        batch = next(iter(loader))
        n = batch[key].batch_size
        assert batch[key[0]].src_index.shape == batch[key[2]].dst_pos_index.shape == (n,)
        assert batch[key[2]].dst_neg_index.shape == (n, 3) and "edge_label_index" not in batch[key]
        ends = batch[key[0]].n_id[batch[key[0]].src_index], batch[key[2]].n_id[
            batch[key[2]].dst_pos_index]
        assert (np.stack(ends) == pairs[:, batch[key].input_id]).all()
# The same whoever draws them; by degree and from the batch; all kinds of sampling.
for more in dict(negatives="degree"), dict(negatives="batch"), dict(weight_attr="edge_weight"):
    more.update(neg_sampling=1, num_neighbors=[3, 2])
    with open_links(writes, **more) as one, open_links(writes, samplers=2, **more) as two:
        for a, b in zip(one, two, strict=True):
            same(a, b)
            assert (a[writes].edge_label_index[0] < len(a["author"].n_id)).all()
print("ok")
"""


def test_links(box):
    """Pairs of a relation, between two types in both orders and within one: against a search in
    breadth of the graph that lacks their edges."""
    assert run(box, HEAD + LINKS, typed_dataset(box, reverse=True)) == "ok\n"


WALKS = """
by_name = {(r.source.name, r.key[1], r.target.name): r for r in schema.relations}
writes, cites = by_name["author", "writes", "paper"], by_name["paper", "cites", "paper"]
back = by_name["paper", "rev_writes", "author"]
paths = {"near": [back, writes], "read": [back, cites]}  # against the edges
job = {"dataset": path, "seed": 3, "sampler": {
    "kind": "walk", "fanout": [4, 3], "batch_size": 7, "paths": 6, "length": 2, "restart": 0.3,
    "metapaths": {name: [r.text for r in steps] for name, steps in paths.items()}}}

def ends(steps, starts):
    for r in steps:
        rows = [graph["indptr"][r.first_row + v : r.first_row + v + 2] for v in starts]
        starts = {int(s) - r.source.first for row in rows for s in graph["indices"][slice(*row)]}
    return starts

n_edges = n_beyond = 0
with sluice.NeighborLoader(job, arrays="numpy") as loader:
    for batch in loader:
        assert batch.edge_types == [("author", "near", "author"), ("paper", "read", "author")]
        for key in batch.edge_types:
            store, steps = batch[key], paths[key[1]]
            assert "e_id" not in store and store.edge_weight.dtype == np.float32
            assert sum(store.num_sampled_edges) == len(store.edge_weight)
            of, found = batch["author"].n_id, batch[key[0]].n_id
            n_edges += len(store.edge_weight)
            for row in np.unique(store.edge_index[1]):
                mine = store.edge_index[1] == row
                visits, met = store.edge_weight[mine], found[store.edge_index[0][mine]]
                once = ends(steps, {int(of[row])})
                # A walk goes on where it has come to, or, at another type, from its author again.
                twice = once | ends(steps, once) if key[0] == key[2] else once
                assert (np.diff(visits) <= 0).all() and 1 <= visits.sum() <= 12
                assert len(met) <= 4 and set(met.tolist()) <= twice
                assert key[0] != key[2] or of[row] not in met
                n_beyond += len(set(met.tolist()) - once)
    assert loader.num_neighbors == [4, 3]
assert n_edges > 100 and n_beyond > 0
for wrong, words in (({"a": ["wrote"]}, "which is no relation"), ({"a": ["writes"]}, "begins at")):
    job["sampler"]["metapaths"] = wrong
    assert words in refused(sluice.NeighborLoader, job, arrays="numpy")
print("ok")
"""


def test_walks_along_metapaths(box):
    """Where walks end and how often, by metapath, in the graph as a NumPy reader has it."""
    assert run(box, HEAD + WALKS, typed_dataset(box, reverse=True)) == "ok\n"


def typed_job(box, folder, **sampler):
    config = job(box)
    config["dataset"] = folder
    config["sampler"] = {"fanout": [2, 3], "batch_size": 7, "edge_ids": True, **sampler}
    return config


def rows_of(batch, info, rows):
    """Features as sluice_features() lays them out, by type."""
    out, at = [], 0
    for t in info.types[: info.n_types]:
        n, dim = batch.parts[len(out)].n_after[batch.n_hops], t.feat_dim
        kind = np.float16 if t.feat_type == 2 else np.float32
        n_bytes = n * t.feat_row_bytes
        out.append(rows[at : at + n_bytes].view(kind).reshape(n, dim) if dim else None)
        at += -(-n_bytes // 64) * 64
    assert at == len(rows)
    return out


@cases("all", "new")
def test_libsluice(box, expand):
    """A batch's parts, runs of edges and features by the calls of the library alone; who has been
    compiled before there were types is told so."""
    folder = typed_dataset(box)
    config = typed_job(box, folder, expand=expand)
    graph = {name: np.load(f"{folder}/{name}.npy") for name in ("indptr", "indices")}
    with opened(box, config) as loader:
        info = loader.info
        names = [t.name.decode() for t in info.types[: info.n_types]]
        assert names == [t[0] for t in TYPES] and info.feat_dim == 0
        assert [r.fanout[:2] for r in info.relations[: info.n_relations]] == [[2, 3]] * 5
        for batch in loader.epoch():
            nodes, before = s.nodes(batch), None
            for i in range(batch.n_runs):
                run = _lib.Run()
                assert loader.lib.sluice_get_run(ctypes.byref(batch), i, ctypes.byref(run)) == s.OK
                assert before is None or before < (run.hop, run.relation)
                before = run.hop, run.relation
                r = info.relations[run.relation]
                source, target = info.types[r.source], batch.parts[r.target]
                indptr = s.array(run.indptr, run.n_dst + 1)
                assert run.n_dst == target.n_after[run.hop] and indptr[-1] == run.n_edges > 0
                ids = s.array(run.edge_ids, run.n_edges, "<i8")
                at = batch.parts[r.source].first + s.array(run.indices, run.n_edges)
                assert np.array_equal(nodes[at], graph["indices"][ids])
                assert ((source.first <= nodes[at]) & (nodes[at] < source.first + source.n)).all()
                assert (ids >= r.first_edge).all() and (ids < r.first_edge + r.n_edges).all()
            sizes = [batch.parts[i].n_after[2] * t.feat_row_bytes for i, t in enumerate(
                info.types[: info.n_types])]  # fmt: skip
            rows = np.empty(sum(-(-n // 64) * 64 for n in sizes), np.uint8)
            call = loader.lib.sluice_features, loader.at, ctypes.byref(batch), rows.ctypes.data
            assert call[0](*call[1:], len(rows) - 1) == s.ERANGE
            loader.check(call[0](*call[1:], len(rows)))
            for i, found in enumerate(rows_of(batch, info, rows)):
                if found is not None and len(found):
                    part = batch.parts[i]
                    mine = nodes[part.first : part.first + part.n_after[2]] - info.types[i].first
                    whole_ = np.load(f"{folder}/node_feat.{names[i]}.npy")
                    assert found.dtype == whole_.dtype and np.array_equal(found, whole_[mine])
            if expand == "all":
                refused("sampler.expand", loader.take, batch)
        batch = _lib.Batch()
        batch.size = _lib.Batch.n_types.offset
        assert loader.lib.sluice_next(loader.at, 0, ctypes.byref(batch)) == s.EINVAL
        assert b"size of the structure" in loader.lib.sluice_error()


def test_given_seeds(box):
    """The batch of a job's own seeds, drawn by sluice_sampler_draw(), is that of the job."""
    config = typed_job(box, typed_dataset(box), expand="new")

    def parts(batch, arrays):
        types, relations = arrays.types[: info.n_types], arrays.relations[: info.n_relations]
        for t, of in zip(types, info.types):
            assert bool(t.features) == (of.feat_dim > 0)
        nodes = [s.array(t.nodes, t.n_nodes, "<i8").tolist() for t in types]
        edges = [
            (s.array(r.edges, 2 * r.n_edges, "<i8").tolist() if r.n_edges else [],
             s.array(r.edge_ids, r.n_edges, "<i8").tolist() if r.n_edges else [], r.n_after[:2])
            for r in relations
        ]  # fmt: skip
        rows = [
            bytes((ctypes.c_char * (t.n_nodes * info.types[i].feat_row_bytes)).from_address(
                t.features)) if t.features else b""
            for i, t in enumerate(types)
        ]  # fmt: skip
        return nodes, edges, rows

    with opened(box, config, prefetch=1, arrays=1) as loader:
        info = loader.info
        with s.Sampler(config, loader.lib, features=1) as sampler:
            for batch in loader.epoch():
                taken = loader.take(batch)
                wanted = parts(batch, taken)
                loader.lib.sluice_free(taken.memory)
                drawn, own = sampler.draw(batch.epoch, batch.number, s.seeds(batch))
                assert parts(drawn, own) == wanted
                loader.lib.sluice_free(own.memory)


REFUSED = """
def says(words, *arguments, **named):
    said = refused(open_loader, path, *arguments, **named)
    assert words in said, said

says("has vertex 65, wanted 0 to 64", input_nodes=("paper", [65]))
says("lists are of 'author': give ids", input_nodes=("paper", "train"))
says("'nobody', wanted one of 'author', 'paper'", input_nodes=("nobody", [1]))
says("has vertex 64, wanted 0 to 63", input_nodes=("author", [64]))
unknown = {("author", "x", "paper"): [1]}
says("wanted relations of the graph: ('author', 'writes', 'paper')", unknown)
says("has nothing for ('paper', 'cites', 'paper')", {("author", "writes", "paper"): [1, 1]})
says("has 1 hops and 'author -writes-> paper' 2", {k: [1, 1][:1 + (k == keys[0])] for k in keys})
says("adj='csc': is for graphs of one type", adj="csc", arrays="pyg") if arrays_of_pyg else None
for name, value in ("subgraph_type", "induced"), ("subgraph_type", "inducd"), ("disjoint", "yes"):
    said = refused(open_loader, path, **{name: value})
    assert said.startswith(f"{name}: found "), said
for wrong, words in ((None, "is of no relation"),
                     (("author", "x", "paper"), "wanted relations of the graph"),
                     ((keys[0], [[64], [0]]), "wanted a number within type author")):
    said = refused(sluice.LinkNeighborLoader, path, [1], wrong, batch_size=2)
    assert words in said, said
assert "the graph has types" in refused(sluice.open(path).to_scipy)
plain = sys.argv[2]
for wrong in dict(input_nodes=("author", [1])), dict(num_neighbors={("a", "b", "c"): [1]}):
    said = refused(open_loader, plain, **wrong)
    assert "the graph has" in said, said
print("ok")
"""


def test_what_is_not_there(box):
    head = "arrays_of_pyg = False\n"
    program = HEAD + head + REFUSED
    assert run(box, program, typed_dataset(box), box.shared_dataset("planted")) == "ok\n"


FACTS = """
import shutil
# Times of two relations, rising in each list; features of two, of widths of their own.
rng = np.random.default_rng(5)
timed = {keys[0]: None, ("paper", "rev_writes", "author"): None}
for r in schema.relations:
    if r.key in timed:
        time = timed[r.key] = rng.integers(0, 30, r.n_edges)
        rows = graph["indptr"][r.first_row : r.first_row + r.target.n + 1] - r.first_edge
        for first, last in zip(rows, rows[1:]):
            time[first:last].sort()
        graph[f"edge_time.{r.file}"] = time
feat = {keys[0]: rng.random((schema.relations[0].n_edges, 3)), keys[1]: None}
feat[keys[1]] = np.arange(schema.relations[1].n_edges)
for r in schema.relations[:2]:
    graph[f"edge_feat.{r.file}"] = feat[r.key]
graph["node_time"] = rng.integers(0, 32, schema.types[0].n)
memory = sluice.Dataset(sluice.open(path).metadata, graph)
memory.save("timed")

def check(batch, fanout, bound, last):  # of each seed; returns how many edges were too late
    check_rows(batch)
    n_late = 0
    for r in schema.relations:
        store, target = batch[r.key], batch[r.target.name]
        assert ("edge_attr" in store) == (r.key in feat)
        if r.key in feat:
            assert store.edge_attr.dtype == feat[r.key].dtype
            assert (store.edge_attr == feat[r.key][store.e_id]).all()
        source_tree, tree = batch[r.source.name].batch[store.edge_index[0]], target.batch
        assert (source_tree == tree[store.edge_index[1]]).all()
        begins = np.cumsum([0, *target.num_sampled_nodes])
        for hop, most in enumerate(fanout):
            for row in range(begins[hop], begins[hop + 1]):
                v = r.first_row + target.n_id[row]
                there = np.arange(*graph["indptr"][v : v + 2]) - r.first_edge
                n_late += len(there)
                if r.key in timed:
                    there = there[timed[r.key][there] <= bound[tree[row]]]
                n_late -= len(there)
                mine = store.e_id[store.edge_index[1] == row]
                assert len(mine) == (min(len(there), most) if most >= 0 else len(there))
                assert set(mine) <= set(there)
                if last and r.key in timed:
                    assert (mine == there[len(there) - len(mine):]).all()
    return n_late

nodes = rng.permutation(schema.types[0].n)[:20]
for data, strategy, fanout in ("timed", "uniform", [5, -1, 2]), (memory, "last", [3, 4, 2]):
    more = dict(time_attr="time", temporal_strategy=strategy, batch_size=7)
    for input_time in None, rng.integers(0, 30, len(nodes)):
        with open_loader(data, fanout, input_nodes=nodes, input_time=input_time, **more) as loader:
            n_late = 0
            for batch in loader:
                first = batch["author"]
                bound = graph["node_time"][first.n_id[: first.batch_size]]
                if input_time is not None:
                    bound = input_time[first.input_id]
                assert len(np.unique(first.batch)) == first.batch_size
                n_late += check(batch, fanout, bound, strategy == "last")
            assert n_late > 100
            bound = graph["node_time"][nodes] if input_time is None else input_time
            check(loader([3, 0, 7]), fanout, bound[[3, 0, 7]], strategy == "last")
for n in 1, 2:  # without times, seed by seed
    with open_loader("timed", [4, 3], batch_size=1, input_nodes=nodes, shuffle=False) as alone:
        with open_loader("timed", [4, 3], batch_size=9, input_nodes=nodes, shuffle=False,
                         disjoint=True, samplers=n) as loader:
            ones, done = list(alone), 0
            for batch in loader:
                for tree in range(batch["author"].batch_size):
                    for t in schema.types:
                        mine = batch[t.name].n_id[batch[t.name].batch == tree]
                        assert mine.tolist() == ones[done][t.name].n_id.tolist(), t
                    for r in schema.relations:
                        store = batch[r.key]
                        of = batch[r.target.name].batch[store.edge_index[1]]
                        assert store.e_id[of == tree].tolist() == ones[done][r.key].e_id.tolist()
                    done += 1
            assert done == len(nodes)
more = dict(input_nodes=("paper", [1, 2]), time_attr="time")
said = refused(open_loader, "timed", input_time=[3, 4], **more)
assert said.startswith("input_time: is of 'paper', wanted vertices of 'author'"), said
said = refused(open_loader, "timed", **more)
assert "vertices of type paper, wanted those of author, which have times" in said, said
for seeds in ("paper", [3, 8, 1]), ("author", [5, 2, 9]):  # trees whose seeds are of any type
    with open_loader(path, [4, 3], batch_size=1, input_nodes=seeds, shuffle=False) as alone:
        with open_loader(path, [4, 3], batch_size=3, input_nodes=seeds, shuffle=False,
                         disjoint=True) as loader:
            (batch,), ones = list(loader), list(alone)
    assert batch[seeds[0]].batch[:3].tolist() == [0, 1, 2]
    for tree, one in enumerate(ones):
        for t in schema.types:
            mine = batch[t.name].n_id[batch[t.name].batch == tree]
            assert mine.tolist() == one[t.name].n_id.tolist(), t
assert "has no node_time.npy" in refused(open_loader, path, time_attr="time")
said = refused(open_loader, path, time_attr="time", input_nodes=[1], input_time=[3])
assert "has no edge_time.SOURCE.NAME.TARGET.npy, such as edge_time.author.writes.paper" in said
shutil.copy("timed/edge_time.author.writes.paper.npy", "timed/edge_time.author.wrote.paper.npy")
open_loader("timed", [1]).close()  # nobody asks for times
said = refused(open_loader, "timed", [1], time_attr="time")
assert "has edge_time.author.wrote.paper.npy, which is of none of its relations" in said, said
graph[f"edge_feat.{schema.relations[0].file}"] = feat[keys[0]][:9]
wrong = sluice.Dataset(sluice.open(path).metadata, graph)
said = refused(wrong.edge_attr)
assert said.startswith("data.arrays['edge_feat.author.writes.paper']: is float64 [9, 3]"), said
print("ok")
"""


def test_edges_have_times_and_features(box):
    """In any hop no edge is later than its seed, in relations that have times; as many are drawn as
    there are, or the latest. Disjoint, each seed has what a batch of it alone has."""
    assert run(box, HEAD + FACTS, typed_dataset(box, reverse=True)) == "ok\n"


PYG = """
import warnings
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.utils import trim_to_layer
import torch_geometric.loader

def theirs(*arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyg-lib, which is not there
        return torch_geometric.loader.NeighborLoader(*arguments, **named)

data = sluice.open(path).to_pyg()
assert data.node_types == [t.name for t in schema.types]
assert data["author"].y.tolist() == np.maximum(graph["node_label"], -1).tolist()
for r in schema.relations:
    assert data[r.key].num_edges == r.n_edges

def edges_of(batch, key):
    source, target = batch[key].edge_index
    ends = batch[key[0]].n_id[source], batch[key[2]].n_id[target]
    return sorted(zip(*(end.tolist() for end in ends), batch[key].e_id.tolist()))

"""

PYG_NODES = """
ids = torch.tensor([9, 5, 63, 0, 40])
more = dict(input_nodes=("author", ids), batch_size=2)
with sluice.NeighborLoader(path, [-1, -1, -1], **more) as loader:
    for ours, wanted in zip(loader, theirs(data, [-1, -1, -1], **more), strict=True):
        assert isinstance(ours, HeteroData)
        assert ours.node_types == wanted.node_types and ours.edge_types == wanted.edge_types
        assert ours["author"].batch_size == wanted["author"].batch_size
        assert torch.equal(ours["author"].input_id, wanted["author"].input_id)
        seeds = wanted["author"].n_id[: wanted["author"].batch_size]
        assert torch.equal(ours["author"].n_id[: len(seeds)], seeds)
        for t in wanted.node_types:
            assert ours[t].n_id.sort()[0].tolist() == wanted[t].n_id.sort()[0].tolist()
            assert ("x" in ours[t]) == ("x" in wanted[t])
            assert ours[t].num_nodes == wanted[t].num_nodes
            if "x" in wanted[t]:
                assert ours[t].x.dtype == wanted[t].x.dtype
                assert torch.equal(ours[t].x, data[t].x[ours[t].n_id])
        for key in wanted.edge_types:
            assert edges_of(ours, key) == edges_of(wanted, key)

# A layer reads a part of the batch, and trimming to it changes nothing.
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.convs = torch.nn.ModuleList([
            HeteroConv({key: SAGEConv((-1, -1), 8) for key in used}) for _ in range(3)])

    def forward(self, batch, trim):
        x = {t: x.float() for t, x in batch.x_dict.items()}
        edges = {key: batch[key].edge_index for key in used}
        nodes = {t: batch[t].num_sampled_nodes for t in x} if trim else None
        counts = {key: batch[key].num_sampled_edges for key in used} if trim else None
        for layer, conv in enumerate(self.convs):
            if trim:
                x, edges, _ = trim_to_layer(layer, nodes, counts, x, edges)
            x = {t: out.relu() for t, out in conv(x, edges).items()}
        return x["author"]

used = [("author", "writes", "paper"), ("author", "cites", "author"),
        ("paper", "rev_writes", "author"), ("paper", "cites", "paper")]
used = [key for key in used if key in data.edge_types]
model = Model()
with torch.no_grad(), sluice.NeighborLoader(path, [4, 3, 2], batch_size=9,
                                            input_nodes="train") as loader:
    for batch in loader:
        n = batch["author"].batch_size
        assert torch.allclose(model(batch, False)[:n], model(batch, True)[:n], atol=1e-6)

# A HeteroData of the caller's: any type may have the seeds, and what else it has comes with them.
mine = HeteroData()
for t in reversed(data.node_types):
    mine[t].num_nodes = data[t].num_nodes
mine["paper"].x = torch.rand(65, 3, 2)
mine["author"].x = data["author"].x.double()
mine["institute"].x = torch.rand(7, 4).half()
mine["paper"].names = [f"p{i}" for i in range(65)]
mine["author"].y = torch.rand(64, 2)
mine["paper"].train_mask = torch.arange(65) % 2 == 1
mine["author"].val_mask = torch.arange(64) > 50
mine.title = "mine"
for key in data.edge_types:
    order = torch.randperm(data[key].num_edges)
    mine[key].edge_index = data[key].edge_index[:, order]
    mine[key].edge_attr = torch.rand(data[key].num_edges, 3)
ids = torch.tensor([64, 3, 9])
for nodes, kind, listed in ((("paper", ids), "paper", ids), ("paper", "paper", torch.arange(65)),
                            (("author", torch.arange(64) > 50), "author", torch.arange(64)),
                            ("train", "paper", torch.arange(1, 65, 2)),
                            (("author", "val"), "author", torch.arange(51, 64)),
                            ("val", "author", torch.arange(51, 64))):
    with sluice.NeighborLoader(mine, [-1, 2], 2, nodes, seed=4) as loader:
        assert loader.data is mine
        for batch in [*loader, loader([1, 0])]:
            assert batch.title == "mine"
            for t in mine.node_types:
                for name in set(mine[t].keys()) - {"num_nodes", "names"}:
                    assert torch.equal(batch[t][name], mine[t][name][batch[t].n_id]), (t, name)
            assert batch["paper"].names == [f"p{i}" for i in batch["paper"].n_id.tolist()]
            for key in mine.edge_types:
                e = batch[key].e_id
                source, target = batch[key].edge_index
                ends = torch.stack([batch[key[0]].n_id[source], batch[key[2]].n_id[target]])
                assert torch.equal(mine[key].edge_index[:, e], ends)
                assert torch.equal(mine[key].edge_attr[e], batch[key].edge_attr)
            seeds = batch[kind].n_id[: batch[kind].batch_size]
            assert torch.equal(listed[batch[kind].input_id], seeds)
small = HeteroData()  # ids of a small type, which those of the whole graph are beyond
small["a"].num_nodes = small["b"].num_nodes = 100
small["b", "to", "a"].edge_index = torch.tensor([[99], [0]], dtype=torch.int8)
assert sluice.from_pyg(small).arrays["indices"].tolist() == [199]
sluice.from_pyg(data).save("saved")
again = sluice.open("saved").to_pyg()
for one, two in zip(data.stores, again.stores, strict=True):
    assert set(one.keys()) == set(two.keys()), (one, two)
    for name in one.keys():
        assert np.array_equal(one[name], two[name]), name
        assert getattr(one[name], "dtype", None) == getattr(two[name], "dtype", None)
sluice.from_pyg(again, first="paper").save("papers")
with sluice.NeighborLoader("papers", [2], input_nodes=("paper", [9, 64]), batch_size=2) as loader:
    (batch,) = loader
    assert batch["paper"].n_id[:2].tolist() == [9, 64] and "y" not in batch["paper"]
    assert torch.equal(batch["author"].x, data["author"].x[batch["author"].n_id])
writes = ("author", "writes", "paper")
mine[writes].w = torch.arange(mine[writes].num_edges).float() % 3
for source in mine, sluice.from_pyg(mine, "w", features=False, first="paper"):
    with sluice.NeighborLoader(source, [9, 9], 5, "paper", weight_attr=(
            "w" if source is mine else "edge_weight")) as loader:
        whole = loader.data
        for batch in loader:
            weights = mine[writes].w[batch[writes].e_id]
            source, target = batch[writes].edge_index
            assert (weights > 0).all()
            ends = batch["author"].n_id[source], batch["paper"].n_id[target]
            assert torch.equal(mine[writes].edge_index[:, batch[writes].e_id], torch.stack(ends))
            assert torch.equal(whole[writes].edge_index[:, batch[writes].e_id], torch.stack(ends))
with sluice.NeighborLoader(path, [2], input_nodes=("paper", [9, 64]), batch_size=2) as loader:
    assert loader.data["paper"].train_mask.nonzero()[:, 0].tolist() == [9, 64]
    assert "train_mask" not in loader.data["author"]

def bad(words, **named):
    said = refused(sluice.from_pyg, wrong, **named)
    assert words in said, said

wrong = mine.clone()
bad("first='nobody': wanted one of institute, topic", first="nobody")
bad("data['paper'].x: is float32 [65, 3, 2], wanted float32 [num_nodes, feat_dim]")
del wrong["paper"].x
wrong[writes].edge_index[1, 3] = 65
bad("edge_index: has paper 65, wanted 0 to 64")
wrong[writes].edge_index[1, 3] = 0
bad("weight_attr: no relation of data has 'none'", weight_attr="none")
wrong["a b"].num_nodes = 3
bad("data: has type 'a b', wanted 1 to 63 letters, digits, '_' and '-': data.rename() changes it")
wrong.rename("a b", "ab")["ab", "w r", "ab"].edge_index = torch.zeros(2, 1, dtype=torch.int64)
bad("data: has relation 'w r', wanted 1 to 63 letters, digits, '_' and '-': make it again under")

# Times of a HeteroData: of edges, or of vertices, whose edges have those of their sources.
rng = np.random.default_rng(2)
timed = data.clone()
for at, key in enumerate(timed.edge_types):
    edges = timed[key].edge_index.flip(1)
    timed[key].edge_index = edges
    if at < 2:
        timed[key].when = torch.from_numpy(rng.integers(0, 30, edges.shape[1]))
for t in "author", "paper":
    timed[t].born = torch.from_numpy(rng.integers(0, 30, timed[t].num_nodes))
seeds, at = torch.arange(60), torch.from_numpy(rng.integers(0, 30, 60))
for name, strategy in ("when", "uniform"), ("born", "last"):
    more = dict(input_nodes=("paper", seeds), time_attr=name, temporal_strategy=strategy)
    n_edges = n_all = 0
    for input_time in (at, None) if name == "born" else (at,):
        with sluice.NeighborLoader(timed, [-1, -1], 16, input_time=input_time, **more) as loader:
            for batch in loader:
                bound = timed["paper"].born[seeds] if input_time is None else at
                bound = bound[batch["paper"].input_id]
                for key in timed.edge_types:
                    store, source = batch[key], batch[key[0]]
                    tree = batch[key[2]].batch[store.edge_index[1]]
                    time = None
                    if name == "when" and name in timed[key]:
                        time = timed[key].when[store.e_id]
                    elif name == "born" and name in timed[key[0]]:
                        time = timed[key[0]].born[source.n_id[store.edge_index[0]]]
                    if time is not None:
                        assert (time <= bound[tree]).all()
                        n_edges += len(time)
                    if time is not None and "paper" == key[2]:  # of seeds all that may be there
                        whole = timed[key]
                        times = whole.when if name == "when" else (
                            timed[key[0]].born[whole.edge_index[0]])
                        for row in range(batch["paper"].batch_size):
                            v = batch["paper"].n_id[row]
                            there = (whole.edge_index[1] == v) & (times <= bound[row])
                            found = store.e_id[store.edge_index[1] == row]
                            assert found.sort()[0].tolist() == there.nonzero()[:, 0].tolist()
    assert n_edges > 50
for words, more in (
    ("input_time: is needed", dict(time_attr="when")),
    ("time_attr='then': no type and no relation has it", dict(time_attr="then")),
):
    said = refused(sluice.NeighborLoader, timed, [2], 2, ("paper", seeds), **more)
    assert words in said, said
timed["paper"].when = timed["paper"].born
said = refused(sluice.NeighborLoader, timed, [2], 2, ("paper", seeds), time_attr="when")
assert "both types and relations have it" in said, said
from torch_geometric.data import Data
one = Data(x=torch.ones(12, 2), edge_index=torch.arange(9).repeat(2, 1), when=torch.arange(9))
more = dict(time_attr="when", input_time=torch.full((12,), 4))
said = refused(sluice.NeighborLoader, one, [2], 12, **more)
assert "give data.to_heterogeneous(), whose vertices are of type '0'" in said, said
with sluice.NeighborLoader(one.to_heterogeneous(), [2], 12, "0", **more) as loader:
    assert next(iter(loader))["0", "0", "0"].edge_index.shape == (2, 5)
one.w, more["temporal_strategy"] = torch.ones(9), "last"
said = refused(sluice.NeighborLoader, one.to_heterogeneous(), [2], 12, "0", weight_attr="w", **more)
assert "taken, not drawn by weight: leave weight_attr out" in said, said
import sluice.pyg
assert "which sluice.NeighborLoader takes" in refused(sluice.pyg.Sampler, path, [1])
says("adj='csc': is for graphs of one type", adj="csc", arrays="pyg")
print("ok")
"""

PYG_LINKS = """
# Pairs: the same vertices, edges and fields without exclusion and negatives; others by their shape.
writes = ("author", "writes", "paper")
data[writes].edge_label = torch.zeros(data[writes].num_edges)  # of others than the batch's
pairs = data[writes].edge_index[:, [5, 0, 9, 9, 30]]
labels = torch.arange(5) % 3
def theirs_of_links(*arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch_geometric.loader.LinkNeighborLoader(*arguments, **named)
for mode in None, "binary", "triplet":
    label = None if mode == "triplet" else labels
    more = dict(edge_label_index=(writes, pairs), batch_size=2, neg_sampling=mode, edge_label=label)
    own = dict(more, exclude="none", label_shift=mode == "binary")
    with sluice.LinkNeighborLoader(data, [-1, -1], **own) as loader:
        for ours, wanted in zip(loader, theirs_of_links(data, [-1, -1], **more), strict=True):
            if mode is None:
                for t in wanted.node_types:
                    assert ours[t].n_id.sort()[0].tolist() == wanted[t].n_id.sort()[0].tolist()
                for key in wanted.edge_types:
                    assert edges_of(ours, key) == edges_of(wanted, key)
            for key in "author", "paper", writes:
                extra = {"edge_label_weight", "batch_size"}
                extra |= {"num_sampled_nodes", "num_sampled_edges"}
                nothing = {"edge_label_time", "seed_time", "batch"}
                nothing |= {"edge_label"} if mode == "triplet" else set()  # of all edges
                assert set(ours[key].keys()) - extra == set(wanted[key].keys()) - nothing - extra, (
                    mode, key, ours[key], wanted[key])
            assert torch.equal(ours[writes].input_id, wanted[writes].input_id)
            n = len(wanted[writes].input_id)
            if mode == "triplet":
                sides = ("author", "src_index"), ("paper", "dst_pos_index")
                for t, name in sides:
                    assert torch.equal(ours[t].n_id[ours[t][name]], wanted[t].n_id[wanted[t][name]])
                assert ours["paper"].dst_neg_index.shape == wanted["paper"].dst_neg_index.shape
                continue
            for end, t in enumerate(("author", "paper")):
                a, b = (batch[t].n_id[batch[writes].edge_label_index[end, :n]]
                        for batch in (ours, wanted))
                assert torch.equal(a, b)
            assert torch.equal(ours[writes].edge_label, wanted[writes].edge_label)
del data[writes].edge_label
print("ok")
"""


def beside_pyg(box, program):
    says = REFUSED[: REFUSED.index("says(\"has vertex 65")]
    os.makedirs(box.path(ENV["TMPDIR"]))
    env = {**ENV, "TMPDIR": box.path(ENV["TMPDIR"])}
    python = python_with("torch_geometric")
    out = run(box, HEAD + says + PYG + program, typed_dataset(box), python=python, env=env)
    assert out == "ok\n"


@whole
def test_beside_pyg(box):
    """The same vertices and edges as PyG's loader with all neighbours; trim_to_layer() changes
    nothing; a HeteroData in memory, saved and opened again."""
    beside_pyg(box, PYG_NODES)


@whole
def test_links_beside_pyg(box):
    """Pairs, and what a batch says of them, where PyG's loader of links has it."""
    beside_pyg(box, PYG_LINKS)

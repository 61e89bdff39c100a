"""Data sets of several types of vertices and relations: imports against a NumPy reference."""

import gzip
import itertools
import os
import shutil

import numpy as np

from harness import cases, read_json, whole
from test_bad_input import refused
from torch_saved import save

# Name, vertices, features (0: none) and their type; sizes around a word of bits, none, one.
TYPES = [("author", 64, 3, "float32"), ("paper", 65, 5, "float16"), ("venue", 1, 0, None)]
TYPES += [("topic", 0, 0, None), ("institute", 7, 2, "float32")]
COUNT = {name: n for name, n, _, _ in TYPES}


def draw(seed):
    """Relations of TYPES as (source, name, target, (2, E), weights or None): a hub, duplicates,
    self-loops, an empty one, types without edges."""
    rng = np.random.default_rng(seed)

    def edges(source, target, n):
        e = np.stack([rng.integers(0, COUNT[source], n), rng.integers(0, COUNT[target], n)])
        e[1, : n // 4] = COUNT[target] - 1
        e[:, n // 2 : n // 2 + 9] = e[:, :9]
        return e

    cites = edges("paper", "paper", 300)
    cites[1, 7] = cites[0, 7]
    return [
        ("author", "writes", "paper", edges("author", "paper", 400), None),
        ("paper", "cites", "paper", cites, rng.integers(0, 9, 300).astype(np.float32)),
        ("venue", "hosts", "paper", edges("venue", "paper", 65), None),
        ("paper", "has", "topic", np.zeros((2, 0), int), None),
        ("author", "cites", "author", np.array([[63], [0]]), None),
    ]


def one_each(source, target, weight, own):
    """The first of equal edges; those of the file before those that were added."""
    kept = {}
    for mine in (True, False):
        for s, t, w, o in zip(source, target, weight, own):
            if o == mine:
                kept.setdefault((s, t), w)
    keys = np.array(list(kept), int).reshape(-1, 2)
    return keys[:, 0], keys[:, 1], np.array(list(kept.values()), np.float32)


def reference(types, relations, reverse=False):
    """What the data set has to be: metadata's relations, indptr, indices, edge_weight."""
    count = {t[0]: t[1] for t in types}
    base = dict(zip([t[0] for t in types], np.cumsum([0] + [t[1] for t in types])))
    relations = [r + (None,) for r in relations]
    for source, name, target, edges, weight, _ in list(relations) if reverse else []:
        if source != target:
            relations.append((target, f"rev_{name}", source, edges[::-1], weight, name))
    indptr, indices, weights, listed = [], [], [], []
    for source, name, target, edges, weight, of in relations:
        s, t = edges
        w = np.ones(len(s), np.float32) if weight is None else weight
        if reverse and source == target:
            loop = s == t
            own = np.arange(len(s) + (~loop).sum()) < len(s)
            s, t = np.concatenate([s, t[~loop]]), np.concatenate([t, s[~loop]])
            s, t, w = one_each(s, t, np.concatenate([w, w[~loop]]), own)
            of = name
        order = np.lexsort((s, t))  # stable: equal edges in the order of the file
        degrees = np.bincount(t, minlength=count[target])
        before = sum(map(len, indices))
        indptr.append(before + np.cumsum(degrees) - degrees)
        indices.append(base[source] + s[order])
        weights.append(w[order])
        listed.append({"source": source, "name": name, "target": target, "edges": len(s)})
        if of:
            listed[-1]["reverse_of"] = of
    n_edges = sum(map(len, indices))
    return (
        listed,
        np.concatenate(indptr + [[n_edges]]),
        np.concatenate(indices),
        np.concatenate(weights),
    )


def features(name, n, dim, dtype):
    rng = np.random.default_rng(len(name))
    return rng.integers(-9, 9, (n, dim)).astype(dtype)


def check(box, folder, types, relations, reverse=False, weighted=True):
    """The data set against the reference; returns what inspect says."""
    listed, indptr, indices, weight = reference(types, relations, reverse)
    metadata = read_json(box.path(folder, "metadata.json"))
    assert metadata["relations"] == listed, metadata["relations"]
    assert [(t["name"], t["count"]) for t in metadata["types"]] == [t[:2] for t in types]
    assert np.array_equal(np.load(box.path(folder, "indptr.npy")), indptr)
    assert np.array_equal(np.load(box.path(folder, "indices.npy")), indices)
    assert os.path.exists(box.path(folder, "edge_weight.npy")) == weighted
    if weighted:
        found = np.load(box.path(folder, "edge_weight.npy"))
        assert found.dtype == np.float32 and np.array_equal(found, weight)
    for name, n, dim, dtype in types:
        path = box.path(folder, f"node_feat.{name}.npy")
        assert os.path.exists(path) == (dim > 0 and n > 0)
        if os.path.exists(path):
            assert np.load(path).dtype == dtype
            assert np.array_equal(np.load(path), features(name, n, dim, dtype))
    seen = box.sluice("inspect", folder, "-o", "json").ok().json()
    row, reached = 0, {name: np.zeros(n, bool) for name, n in COUNT.items()}
    for relation, found in zip(listed, seen["relations"]):
        degrees = np.diff(indptr[row : row + COUNT[relation["target"]] + 1])
        row += len(degrees)
        reached[relation["target"]] |= degrees > 0
        assert all(found[key] == value for key, value in relation.items())
        assert found["empty_rows"] == (degrees == 0).sum()
        assert found["max_degree"] == (degrees.max() if len(degrees) else 0)
    for found in seen["types"]:
        assert found["unreached"] == (~reached[found["name"]]).sum(), found
    return seen


def front(name):
    """TYPES with the type of the labels first."""
    return sorted(TYPES, key=lambda t: t[0] != name)


# ---- a folder with graph.json -------------------------------------------------------------------


def write_text(path, rows, heading=None):
    with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
        if heading:
            file.write(heading + "\n")
        for row in rows:
            file.write(",".join(map(str, row)) + "\n")


def write_edges(box, folder, form, relation):
    """A relation's files; its entry in graph.json."""
    source, name, target, edges, weight = relation
    entry = {"source": source, "name": name, "target": target}
    entry["edges"] = f"{source}.{name}.{'npy' if form in ('rows', 'pairs') else form}"
    path = box.path(folder, entry["edges"])
    if form in ("rows", "pairs"):
        np.save(path, edges if form == "rows" else edges.T)
        if weight is not None:
            np.save(box.path(folder, f"{name}.w.npy"), weight)
            entry["weights"] = f"{name}.w.npy"
        return entry
    columns = [*edges] if weight is None else [*edges, weight.astype(int)]
    write_text(path, zip(*columns), "from,to" if form == "csv" else None)
    return entry | {"heading": form == "csv"} | ({"weights": True} if weight is not None else {})


def folder_of(box, relations, form, text=False):
    """A folder of files and graph.json."""
    os.makedirs(box.path("src"), exist_ok=True)
    types = []
    for name, n, dim, dtype in TYPES:
        types.append({"name": name, "count": n})
        if dim and text and dtype == "float32":
            write_text(box.path("src", f"{name}.csv"), features(name, n, dim, dtype))
            types[-1]["features"] = f"{name}.csv"
        elif dim:
            np.save(box.path("src", f"{name}.npy"), features(name, n, dim, dtype))
            types[-1] = {"name": name, "features": f"{name}.npy"}
    labels = np.arange(COUNT["paper"]) % 4 - 1
    np.save(box.path("src", "labels.npy"), labels)
    np.save(box.path("src", "train.npy"), np.array([64, 3, 1]))
    write_text(box.path("src", "val.csv"), [[0], [63]])
    graph = {"name": "papers", "types": types}
    graph["relations"] = [write_edges(box, "src", form, r) for r in relations]
    graph["labels"] = {"type": "paper", "file": "labels.npy"}
    graph["splits"] = {"train": "train.npy", "val": "val.csv"}
    box.write_json("src/graph.json", graph)
    return graph, labels


@cases(*[(f, r) for f in ("rows", "csv", "csv.gz") for r in (False, True)])
def test_import(box, form, reverse):
    relations = draw(reverse)
    _, labels = folder_of(box, relations, form, text=reverse)
    options = ["--reverse"] if reverse else []
    box.sluice("import", "typed", "src", *options, "--out", "made").ok()
    seen = check(box, "made", front("paper"), relations, reverse)
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), labels)
    assert np.load(box.path("made", "train_idx.npy")).tolist() == [64, 3, 1]
    assert np.load(box.path("made", "val_idx.npy")).tolist() == [0, 63]
    assert seen["types"][0]["labels"] and seen["types"][0]["name"] == "paper"
    assert seen["name"] == "papers" and seen["num_classes"] == 3
    text = box.sluice("inspect", "made").ok().out
    assert "author -writes-> paper" in text and "5 x float16" in text
    assert ("reverse of writes" in text) == reverse


FACTS = {("author", "writes"): ("time", "feat"), ("venue", "hosts"): ("feat",)}
FACTS[("author", "cites")] = FACTS[("paper", "has")] = ("time", "feat")


def facts_of(relations):
    """Times and features by relation: few different times, features that tell edges apart."""
    rng, found = np.random.default_rng(8), {}
    for source, name, _, edges, _ in relations:
        n, has = edges.shape[1], FACTS.get((source, name), ())
        time = rng.integers(-5, 5, n).astype(np.int32) if "time" in has else None
        feat = np.arange(n * 3).reshape(n, 3).astype(np.float16) if "feat" in has else None
        found[source, name] = time, feat
    return found


@cases(*[(f, r) for f in ("rows", "csv") for r in (False, True)])
def test_edges_with_facts(box, form, reverse):
    """Edges of a row by time, of equal times by source, each with its own features; the reverse of
    an edge has its facts, too. Relations without times have those of their sources, and keep their
    weights."""
    relations = draw(3)
    graph, _ = folder_of(box, relations, form)
    facts, born = facts_of(relations), np.arange(COUNT["paper"], dtype=np.uint8) * 3
    for entry in graph["relations"]:
        for key, values in zip(("times", "features"), facts[entry["source"], entry["name"]]):
            if values is not None:
                entry[key] = f"{entry['name']}.{entry['target']}.{key}.npy"
                np.save(box.path("src", entry[key]), values)
    np.save(box.path("src", "born.npy"), born)
    if form == "rows":
        graph["labels"]["times"] = "born.npy"
    of_type = {"paper": np.arange(COUNT["paper"]) % 7 - 3, "venue": np.array([5])}
    for entry in graph["types"]:
        if entry["name"] in of_type:
            entry["times"] = f"{entry['name']}.times.npy"
            np.save(box.path("src", entry["times"]), of_type[entry["name"]])
    box.write_json("src/graph.json", graph)
    box.sluice("import", "typed", "src", *["--reverse"] * reverse, "--out", "made").ok()
    found = np.load(box.path("made", "node_time.npy"))
    wanted = born if form == "rows" else of_type["paper"]
    assert found.dtype == np.int64 and np.array_equal(found, wanted)
    listed, indptr, indices, weight = reference(front("paper"), relations, reverse)
    made = {n: np.load(box.path("made", f"{n}.npy")) for n in ("indptr", "indices", "edge_weight")}
    assert np.array_equal(made["indptr"], indptr)
    assert box.sluice("inspect", "made", "-o", "json").ok().json()["edge_times_rise"]
    row = edge = 0
    base = dict(zip([t[0] for t in front("paper")],
                    np.cumsum([0] + [t[1] for t in front("paper")])))  # fmt: skip
    for r in listed:
        n, rows = r["edges"], indptr[row : row + COUNT[r["target"]] + 1]
        row, first, edge = row + COUNT[r["target"]], edge, edge + n
        part = slice(first, edge)
        name = r["name"].removeprefix("rev_")
        swapped = name != r["name"]
        time, feat = facts[r["target"] if swapped else r["source"], name]
        ends = next(e for s, m, t, e, _ in relations
                    if m == name and {s, t} == {r["source"], r["target"]})  # fmt: skip
        key = "{source}.{name}.{target}".format(**r)
        by_source = of_type.get(r["source"]) if time is None else None
        for what, values in ("edge_time", (time, by_source)), ("edge_feat", (feat,)):
            path = box.path("made", f"{what}.{key}.npy")
            assert os.path.exists(path) == any(v is not None for v in values), path
        target = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
        source = made["indices"][part] - base[r["source"]]
        if by_source is not None:
            times = by_source[indices[part] - base[r["source"]]]
            order = np.lexsort((times, target))
            assert np.array_equal(made["indices"][part], indices[part][order])
            assert np.array_equal(made["edge_weight"][part], weight[part][order])
            found = np.load(box.path("made", f"edge_time.{key}.npy"))
            assert found.dtype == np.int64 and np.array_equal(found, times[order])
        if time is None and feat is None:
            if by_source is None:
                assert np.array_equal(made["indices"][part], indices[part])
                assert np.array_equal(made["edge_weight"][part], weight[part])
            continue
        assert (made["edge_weight"][part] == 1).all()
        if feat is not None:  # it tells which edge each one is
            rows_of = np.load(box.path("made", f"edge_feat.{key}.npy"))
            assert rows_of.dtype == feat.dtype and rows_of.shape == (n, 3)
            number = (rows_of[:, 0] / 3).astype(int)
            assert np.array_equal(rows_of, feat[number])
            s, t = ends[::-1] if swapped else ends
            there = (s[number] == source) & (t[number] == target)
            if reverse and r["source"] == r["target"]:
                there |= (t[number] == source) & (s[number] == target)
            assert there.all()
            if not (reverse and r["source"] == r["target"]):
                assert sorted(number) == list(range(n))
        if time is not None:
            times = np.load(box.path("made", f"edge_time.{key}.npy"))
            assert times.dtype == np.int64 and np.array_equal(times, time[number])
            order = np.lexsort((source, times, target))
            assert np.array_equal(order, np.arange(n))


def test_inspect_tells_times_of_no_relation(box):
    graph, _ = folder_of(box, draw(3), "rows")
    box.write_json("src/graph.json", graph)
    box.sluice("import", "typed", "src", "-q", "--out", "made").ok()
    assert "no_times" not in box.sluice("inspect", "made", "-o", "json").ok().json()
    name = "edge_time.author.wrote.paper.npy"
    np.save(box.path("made", name), np.arange(400))
    for _ in range(2):  # looked at, and remembered
        said = box.sluice("inspect", "made").ok().out
        assert "No job can sample by time: " in said and f"has {name}, which is of none" in said
    assert name in box.sluice("inspect", "made", "-o", "json").ok().json()["no_times"]


BAD_FACTS = {
    "text": ({"times": "t.csv"}, [], ("wanted times and features of edges as .npy arrays",)),
    "length": ({"times": "nine.npy"}, [], (r"is int64 \(9,\), wanted a whole number for each",)),
    "fraction": ({"times": "half.npy"}, [], (r"is float64 \(400,\), wanted a whole number",)),
    "rows": ({"features": "nine.npy"}, [], ("wanted a row for each of 400 edges",)),
    "weights": ({"times": "t.npy", "weights": "t.npy"}, [], (
        r'src/graph.json: "relations\[0\]": has "weights" beside "times"', "--no-weights")),
    "loops": ({"times": "t.npy"}, ["--add-self-loops"], ("--add-self-loops", "leave it out")),
}


@cases(*BAD_FACTS)
def test_facts_that_cannot_be(box, what):
    relations = draw(3)
    graph, _ = folder_of(box, relations, "rows")
    keys, options, words = BAD_FACTS[what]
    np.save(box.path("src", "nine.npy"), np.arange(9))
    np.save(box.path("src", "half.npy"), np.arange(400) / 2)
    np.save(box.path("src", "t.npy"), np.arange(400))
    graph["relations"][0].update(keys)
    box.write_json("src/graph.json", graph)
    box.sluice("import", "typed", "src", *options, "--out", "made").error(2, *words)
    assert not os.path.exists(box.path("made"))
    if what == "weights":
        box.sluice("import", "typed", "src", "--no-weights", "--out", "made").ok()
        assert not os.path.exists(box.path("made", "edge_weight.npy"))


def test_memory_and_pairs(box):
    """Sorted in runs, each relation by itself; weights are dropped."""
    rng = np.random.default_rng(5)
    relations = [
        ("paper", "cites", "paper", rng.integers(0, 65, (2, 200000)), None),
        ("author", "writes", "paper", rng.integers(0, 64, (2, 150000)), None),
    ]
    folder_of(box, relations, "pairs")
    box.sluice("import", "typed", "src", "--memory", "1MiB", "--out", "made").ok()
    check(box, "made", front("paper"), relations, weighted=False)


def test_options(box):
    relations = draw(9)
    folder_of(box, relations, "pairs")
    options = ["--no-weights", "--split", "0.5,0.25"]
    box.sluice("import", "typed", "src/graph.json", *options, "--out", "made").ok()
    check(box, "made", front("paper"), relations, weighted=False)
    lists = [np.load(box.path("made", f"{s}_idx.npy")) for s in ("train", "val", "test")]
    labelled = np.flatnonzero(np.arange(65) % 4 - 1 >= 0)
    assert np.array_equal(np.sort(np.concatenate(lists)), labelled)
    # Each type is normalised by itself, and stored as float16.
    options = ["--f16", "--normalize-features", "--no-weights"]
    box.sluice("import", "typed", "src", *options, "--out", "half").ok()
    for name, n, dim, dtype in TYPES:
        if dim:
            x = features(name, n, dim, dtype).astype(np.float32)
            x -= x.min()
            x /= np.maximum(x.sum(1, keepdims=True), 1)
            found = np.load(box.path("half", f"node_feat.{name}.npy"))
            assert found.dtype == np.float16 and np.abs(found - x).max() < 1e-3
    # Self-loops are those of relations within a type, whatever numbers the others have.
    options = ["--remove-self-loops", "--add-self-loops", "--dedup", "--no-weights"]
    box.sluice("import", "typed", "src", *options, "--out", "loops").ok()
    wanted = []
    for source, name, target, edges, _ in relations:
        edges = np.unique(edges, axis=1)
        if source == target:
            edges = edges[:, edges[0] != edges[1]]
            edges = np.concatenate([edges, np.tile(np.arange(COUNT[source]), (2, 1))], 1)
        wanted.append((source, name, target, edges, None))
    check(box, "loops", front("paper"), wanted, weighted=False)


# ---- other programs' layouts --------------------------------------------------------------------


def save_csv(box, path, rows):
    os.makedirs(os.path.dirname(box.path(path)), exist_ok=True)
    write_text(box.path(path), rows)


def mag_folder(box):
    """As ogbn-mag is laid out."""
    relations = [r[:4] + (None,) for r in draw(3)]
    for source, name, target, edges, _ in relations:
        folder = f"mag/raw/relations/{source}___{name}___{target}"
        save_csv(box, f"{folder}/edge.csv.gz", edges.T)
        save_csv(box, f"{folder}/num-edge-list.csv.gz", [[edges.shape[1]]])
    save_csv(box, "mag/raw/num-node-dict.csv.gz", [list(COUNT), list(COUNT.values())])
    save_csv(box, "mag/raw/triplet-type-list.csv.gz", [r[:3] for r in relations])
    for name, n, dim, dtype in TYPES:
        if dim:
            x = features(name, n, dim, dtype)
            save_csv(box, f"mag/raw/node-feat/{name}/node-feat.csv.gz", x)
    labels = np.arange(COUNT["paper"]) % 5
    save_csv(box, "mag/raw/node-label/paper/node-label.csv.gz", labels[:, None])
    for s, ids in MAG_SPLIT.items():
        save_csv(box, f"mag/split/time/paper/{s}.csv.gz", np.array(ids)[:, None])
    has = [list(COUNT), [n == "paper" for n in COUNT]]
    save_csv(box, "mag/split/time/nodetype-has-split.csv.gz", has)
    return relations, labels


MAG_SPLIT = {"train": [5, 64, 0], "valid": [1], "test": [2, 3]}


@cases(False, True)
def test_ogb(box, reverse):
    relations, labels = mag_folder(box)
    box.sluice("import", "ogb", "mag", *["--reverse"][: int(reverse)], "--out", "made").ok()
    # Numbers that are text are float32.
    types = [(name, n, dim, dtype and "float32") for name, n, dim, dtype in front("paper")]
    check(box, "made", types, relations, reverse, weighted=False)
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), labels)
    for theirs, ours in (("train", "train"), ("valid", "val"), ("test", "test")):
        assert np.load(box.path("made", f"{ours}_idx.npy")).tolist() == MAG_SPLIT[theirs]


def zipped_folder(box):
    """As OGB's DatasetSaver lays it out; topics have no vertices, and years are not read."""
    relations = [r[:4] + (None,) for r in draw(6)]
    os.makedirs(box.path("zip/raw"))
    os.makedirs(box.path("zip/split/time"))
    keys = ["___".join(r[:3]) for r in relations]
    raw = {"num_nodes_dict": {name: [n] for name, n in COUNT.items()}}
    raw["num_edges_dict"] = {key: [r[3].shape[1]] for key, r in zip(keys, relations)}
    raw["edge_index_dict"] = {key: r[3] for key, r in zip(keys, relations)}
    raw["node_feat_dict"] = {t[0]: features(*t) for t in TYPES if t[2]}
    raw["node-label"] = {"paper": np.arange(COUNT["paper"])[:, None] % 5}
    raw["node_year"] = {"paper": np.arange(COUNT["paper"])}
    for name, arrays in raw.items():
        np.savez_compressed(box.path("zip/raw", f"{name}.npz"), **arrays)
    split = {s: {"paper": np.array(ids)} for s, ids in MAG_SPLIT.items()}
    save(box.path("zip/split/time/split_dict.pt"), split)
    return relations, raw


def test_ogb_binary(box):
    relations, raw = zipped_folder(box)
    said = box.sluice("import", "ogb", "zip", "--reverse", "--out", "made").ok().out
    assert "node_year.npz" in said and "edge_index" not in said
    check(box, "made", front("paper"), relations, reverse=True, weighted=False)
    label = np.load(box.path("made", "node_label.npy"))
    assert np.array_equal(label, raw["node-label"]["paper"][:, 0])
    for theirs, ours in (("train", "train"), ("valid", "val"), ("test", "test")):
        assert np.load(box.path("made", f"{ours}_idx.npy")).tolist() == MAG_SPLIT[theirs]
    first = "author___writes___paper"
    for name, members, words in (
        ("num_edges_dict", {**raw["num_edges_dict"], first: [399]}, [first, "400", "399"]),
        ("num_edges_dict", {**raw["num_edges_dict"], first: [200, 200]}, ["2 graphs"]),
        ("edge_index_dict", {"author_writes_paper": relations[0][3]}, ["source___relation"]),
        ("node-label", {"book": np.zeros((3, 1))}, ["labels of one type"]),
    ):
        np.savez(box.path("zip/raw", f"{name}.npz"), **members)
        said = box.sluice("import", "ogb", "zip", "-q", "--out", "other")
        refused(box, said, *words, output="other")
        np.savez(box.path("zip/raw", f"{name}.npz"), **raw[name])
    os.remove(box.path("zip/raw/num_edges_dict.npz"))
    said = box.sluice("import", "ogb", "zip", "-q", "--out", "other")
    refused(box, said, "num_edges_dict.npz", "is not there", output="other")


def test_ogb_that_is_not_whole(box):
    relations, _ = mag_folder(box)
    save_csv(box, "mag/raw/relations/author___writes___paper/num-edge-list.csv.gz", [[399]])
    said = box.sluice("import", "ogb", "mag", "-q", "--out", "made")
    refused(box, said, "found 400 edges", "wanted 399", output="made")
    os.remove(box.path("mag/raw/relations/author___writes___paper/edge.csv.gz"))
    said = box.sluice("import", "ogb", "mag", "-q", "--out", "made")
    refused(box, said, "author___writes___paper/edge.csv", "is not there", output="made")
    save_csv(box, "mag/raw/num-node-dict.csv.gz", [list(COUNT)[:2], [1, 2]])
    said = box.sluice("import", "ogb", "mag", "-q", "--out", "made")
    refused(box, said, "triplet-type-list", "'venue'", output="made")


def graphbolt_folder(box):
    """metadata.yaml and its files; papers 0 to 19 have labels."""
    types = [t for t in TYPES if t[1]]
    relations = [r[:4] + (None,) for r in draw(4) if r[2] != "topic"]
    os.makedirs(box.path("bolt"))
    lines = ["dataset_name: papers", "graph:", "  nodes:"]
    for name, n, _, _ in types:
        lines += [f"    - type: {name}", f"      num: {n}"]
    lines += ["  edges:"]
    for i, (source, name, target, edges, _) in enumerate(relations):
        form = ("csv", "numpy")[i % 2]
        path = f"{i}.csv" if form == "csv" else f"{i}.npy"
        if form == "csv":
            write_text(box.path("bolt", path), edges.T)
        else:
            np.save(box.path("bolt", path), edges)
        lines += [f'    - type: "{source}:{name}:{target}"']
        lines += [f"      format: {form}", f"      path: {path}"]
    lines += ["feature_data:"]
    for name, n, dim, dtype in types:
        if dim:
            np.save(box.path("bolt", f"{name}.npy"), features(name, n, dim, dtype))
            lines += ["  - domain: node", f"    type: {name}", "    name: feat"]
            lines += ["    format: numpy", f"    path: {name}.npy"]
    lines += ["tasks:", "  - name: areas", "    num_classes: 7"]
    for s, (first, end) in BOLT_SETS.items():
        np.save(box.path("bolt", f"{s}.npy"), np.arange(first, end)[::-1])
        np.save(box.path("bolt", f"{s}_y.npy"), np.arange(first, end)[::-1] % 6)
        lines += [f"    {s}_set:", "      - type: paper", "        data:"]
        for name, path in (("seeds", f"{s}.npy"), ("labels", f"{s}_y.npy")):
            lines += [f"          - name: {name}", "            format: numpy"]
            lines += [f"            path: {path}"]
    return types, relations, lines


BOLT_SETS = {"train": (0, 12), "validation": (12, 15), "test": (15, 20)}


def write_yaml(box, lines):
    with open(box.path("bolt", "metadata.yaml"), "w") as file:
        file.write("\n".join(lines) + "\n")


def test_graphbolt(box):
    types, relations, lines = graphbolt_folder(box)
    write_yaml(box, lines)
    box.sluice("import", "graphbolt", "bolt", "--reverse", "--out", "made").ok()
    types.sort(key=lambda t: t[0] != "paper")
    seen = check(box, "made", types, relations, reverse=True, weighted=False)
    assert seen["num_classes"] == 7 and seen["unlabelled"] == COUNT["paper"] - 20
    assert np.load(box.path("made", "val_idx.npy")).tolist() == [14, 13, 12]
    label = np.load(box.path("made", "node_label.npy"))
    assert np.array_equal(label[:20], np.arange(20) % 6) and (label[20:] == -1).all()
    for old, new, word in (
        ('"author:writes:paper"', '"author:writes"', "source:relation:target"),
        ('"author:writes:paper"', '"writer:writes:paper"', "'writer'"),
        ("      - type: paper", "      - type: book", "type of each set"),
    ):
        write_yaml(box, [line.replace(old, new) for line in lines])
        said = box.sluice("import", "graphbolt", "bolt", "-q", "--out", "other")
        refused(box, said, word, output="other")


@cases(False, True)
def test_igb(box, raw):
    """The heterogeneous layout; papers without headers, as in the large sizes, are told apart."""
    rng = np.random.default_rng(8)
    counts = {"paper": 40, "author": 70, "institute": 3, "fos": 9}
    ends = ["paper__cites__paper", "paper__written_by__author", "author__affiliated_to__institute"]
    relations = []
    for key in ends + ["paper__topic__fos"]:
        source, name, target = key.split("__")
        e = np.stack([rng.integers(0, counts[t], 150) for t in (source, target)])
        os.makedirs(box.path("igb/processed", key))
        np.save(box.path("igb/processed", key, "edge_index.npy"), e.T.astype(np.int32))
        relations.append((source, name, target, e, None))
    x = {t: rng.random((n, 1024)).astype(np.float32) for t, n in counts.items()}
    labels = rng.integers(0, 19, 40).astype(np.float32)
    for t in counts:
        os.makedirs(box.path("igb/processed", t))
        path = box.path("igb/processed", t, "node_feat.npy")
        x[t].tofile(path) if raw and t == "paper" else np.save(path, x[t])
    path = box.path("igb/processed/paper/node_label_19.npy")
    labels.tofile(path) if raw else np.save(path, labels)
    options = ["--raw", "--nodes", "40"] if raw else []
    options += ["--hetero", "--reverse", "--remove-self-loops", "--add-self-loops"]
    box.sluice("import", "igb", "igb", *options, "--out", "made").ok()
    # cites is symmetric, without duplicates, with a self-loop each; so it is given as such.
    a = np.zeros((40, 40), bool)
    a[tuple(relations[0][3])] = True
    a |= a.T
    np.fill_diagonal(a, True)
    relations[0] = ("paper", "cites", "paper", np.stack(a.nonzero()), None)
    listed, indptr, indices, _ = reference(list(counts.items()), relations, True)
    metadata = read_json(box.path("made", "metadata.json"))
    assert metadata["relations"] == listed and metadata["num_classes"] == 19
    assert np.array_equal(np.load(box.path("made", "indptr.npy")), indptr)
    assert np.array_equal(np.load(box.path("made", "indices.npy")), indices)
    for t in counts:
        assert np.array_equal(np.load(box.path("made", f"node_feat.{t}.npy")), x[t])
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), labels)
    lists = [np.load(box.path("made", f"{s}_idx.npy")) for s in ("train", "val", "test")]
    assert [len(ids) for ids in lists] == [24, 8, 8]
    box.sluice("inspect", "made").ok()


# ---- the generator ------------------------------------------------------------------------------


def relation_rows(box, folder, name):
    """Sources of each target, numbers within their types, as (targets, degree); all are alike."""
    metadata = read_json(box.path(folder, "metadata.json"))
    counts = {t["name"]: t["count"] for t in metadata["types"]}
    first = dict(zip(counts, np.cumsum([0, *counts.values()])))
    indptr, indices = (np.load(box.path(folder, f"{f}.npy")) for f in ("indptr", "indices"))
    row = 0
    for r in metadata["relations"]:
        if r["name"] == name:
            edges = indices[indptr[row] : indptr[row + counts[r["target"]]]]
            return (edges - first[r["source"]]).reshape(counts[r["target"]], -1)
        row += counts[r["target"]]
    raise AssertionError(name)


def best_guess(writers, areas, stray):
    """The accuracy of the most frequent area, by all that may happen; the paper's is 0."""
    sum = 0
    for of in itertools.product(range(areas), repeat=writers):
        n = np.bincount(of, minlength=areas)
        chance = np.prod([1 - stray if a == 0 else stray / (areas - 1) for a in of])
        sum += chance * (n[0] == n.max()) / (n == n.max()).sum()
    return sum


GENERATED = ((4, 3, 0.3), (2, 4, 0.45), (3, 1, 0.2), (5, 5, 0.0), (7, 4, 0.6))


@cases(*GENERATED[:2])
def test_generator(box, areas, writers, stray):
    check_generated(box, areas, writers, stray)


@whole
@cases(*GENERATED[2:])
def test_generator_further(box, areas, writers, stray):
    check_generated(box, areas, writers, stray)


def check_generated(box, areas, writers, stray):
    options = ["--nodes", "2001", "--authors", "151", "--fields", str(3 * areas + 1)]
    options += ["--classes", str(areas), "--writers", str(writers), "--stray", str(stray)]
    box.sluice("generate", "typed", *options, "--noise", "0.05", "--out", "made").ok()
    box.sluice("inspect", "made").ok()
    said = read_json(box.path("made", "metadata.json"))["generator"]
    label = np.load(box.path("made", "node_label.npy"))
    field = relation_rows(box, "made", "studied_by")[:, 0]
    x = np.load(box.path("made", "node_feat.field.npy"))
    # The nearest other field by features is of the same area, which is its number's.
    distance = np.square(x[:, None] - x).sum(2) + 99 * np.eye(len(x))
    assert np.array_equal(distance.argmin(1) % areas, np.arange(len(x)) % areas)
    area = field % areas
    writes, reviews = (relation_rows(box, "made", name) for name in ("writes", "reviews"))
    both = np.concatenate([writes, reviews], 1)
    assert all(len(set(row)) == areas * writers for row in both.tolist())
    # Without the relations' names every paper has the same neighbours' areas.
    assert (np.sort(area[both], 1) == np.repeat(np.arange(areas), writers)).all()
    # With them the most frequent area of the writers is right as often as is said.
    n = np.stack([(area[writes] == a).sum(1) for a in range(areas)], 1)
    at_best = n == n.max(1, keepdims=True)
    right = (at_best[np.arange(len(n)), label] / at_best.sum(1)).mean()
    best = said["best_accuracy"]
    assert abs(best - best_guess(writers, areas, stray)) < 1e-9
    assert abs(right - best) < 5 * np.sqrt(best * (1 - best) / len(n)) + 1e-12
    assert said["blind_accuracy"] == np.bincount(label).max() / len(label)


def test_generator_is_reproducible(box):
    options = ["--nodes", "9000", "--authors", "4000"]
    box.sluice("generate", "typed", *options, "--threads", "1", "--out", "one").ok()
    box.sluice("generate", "typed", *options, "--memory", "1MiB", "--out", "two").ok()
    for name in os.listdir(box.path("one")):
        one, two = (open(box.path(d, name), "rb").read() for d in ("one", "two"))
        assert one == two or name == "metadata.json", name
    box.sluice("generate", "typed", *options, "--edges", "0", "--out", "none").ok()
    assert not len(np.load(box.path("none", "indices.npy")))
    generator = read_json(box.path("none", "metadata.json"))["generator"]
    assert generator["best_accuracy"] == generator["blind_accuracy"]
    for name in ("node_feat.paper", "node_feat.field", "node_label", "train_idx"):
        one, none = (np.load(box.path(d, f"{name}.npy")) for d in ("one", "none"))
        assert np.array_equal(one, none), name
    for options, word in (
        (["--edges", "7"], "--writers"),
        (["--classes", "1"], "two areas"),
        (["--authors", "39"], "--writers"),
        (["--fields", "7"], "--classes 8"),
        (["--stray", "0.9"], "at most 0.875"),
    ):
        said = box.sluice("generate", "typed", *options, "-q", "--out", "three")
        refused(box, said, word, output="three")


# ---- what is refused ----------------------------------------------------------------------------


def change(graph, *path, to):
    for key in path[:-1]:
        graph = graph[key]
    graph[path[-1]] = to


WRONG = {
    "no such type": (["relations", 0, "source"], "writer", ["'writer'", "name of a type"]),
    "name": (["types", 0, "name"], "a b", ["'a b'", "letters"]),
    "twice": (["types", 0, "name"], "paper", ["'paper' twice"]),
    "relation twice": (["relations", 3, "name"], "has", ["author -has-> author twice"]),
    "key": (["types", 0, "feature"], "x.npy", ["types[0].feature", "no key"]),
    "count": (["types", 2, "count"], -1, ["types[2].count", "whole number"]),
    "no file": (["relations", 0, "edges"], "none.npy", ["none.npy"]),
    "labels": (["labels", "type"], "author", ["labels.npy", "64"]),
    "label type": (["labels", "type"], "writer", ["labels.type"]),
    "types": (["types"], [], ["\"types\"", "list"]),
    "reverse": (["relations", 0, "reverse_of"], "cites", ["relations[0].reverse_of"]),
    "reverse number": (["relations", 0, "reverse_of"], 5, ["relations[0].reverse_of", "text"]),
    "heading": (["relations", 0, "heading"], "true", ["heading", "true or false"]),
    "type number": (["types", 0, "name"], 5, ["types[0].name", "wanted text"]),
    "splits list": (["splits"], ["train.npy"], ["\"splits\"", "an object"]),
    "splits text": (["splits"], "train.npy", ["\"splits\"", "an object"]),
    "mask": (["splits", "train"], "mask.npy", ["mask.npy", "flatnonzero"]),
    "labels list": (["labels"], ["labels.npy"], ["\"labels\"", "an object"]),
    "target": (["relations", 0, "target"], "venue", ["author.writes.npy", "vertex from 0 to 0"]),
    "empty": (["relations", 0, "target"], "topic", ["no vertices"]),
    "rounded": (["types", 2, "count"], 20000000, [
        "wide.npy", "found 16777216, which may be another number that float32 rounded", "int64"]),
    "rounded half": (["types", 2, "count"], 20000000, ["half.npy", "found 2048", "float16"]),
}


@cases(*WRONG)
def test_bad_folders(box, what):
    path, to, words = WRONG[what]
    graph, _ = folder_of(box, draw(1), "rows")
    change(graph, *path, to=to)
    np.save(box.path("src", "mask.npy"), np.arange(COUNT["paper"]) % 2 == 0)
    if what.startswith("rounded"):  # 16777217 and 2049 as they come out of float32 and float16
        kind = ("half", np.float16, 2049) if "half" in what else ("wide", np.float32, 16777217)
        graph["relations"][0].update(edges=kind[0] + ".npy", source=graph["types"][2]["name"])
        np.save(box.path("src", kind[0] + ".npy"), np.array([[3, kind[2]], [0, 1]], kind[1]))
    if what == "relation twice":
        graph["relations"] += [graph["relations"][4] | {"name": "has"}] * 2
    box.write_json("src/graph.json", graph)
    refused(box, box.sluice("import", "typed", "src", "-q", "--out", "made"), *words, output="made")


def test_options_that_do_not_go_with_types(box):
    folder_of(box, draw(1), "rows")
    write_text(box.path("plain.csv"), [[0, 1], [1, 2]])
    for command, word in (
        (["typed", "src", "--symmetrise"], "--reverse"),
        (["typed", "src", "--holdout", "0.1,0.1"], "--holdout"),
        (["edgelist", "plain.csv", "--reverse"], "--symmetrise"),
    ):
        said = box.sluice("import", *command, "-q", "--out", "made")
        refused(box, said, word, output="made")

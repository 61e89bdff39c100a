"""`sluice featurize`: means of neighbours' features by type, against NumPy."""

import os

import numpy as np

from harness import cases, planted, read_json, write_dataset
from test_bad_input import refused

F16, F32 = np.float16, np.float32


class Graph:
    """A data set of several types: counts, features by type, relations as lists of sources."""

    def __init__(self, box, counts, features, relations):
        os.makedirs(box.path("src"))
        self.counts, self.x, self.relations = counts, features, relations
        types, listed = [], []
        for name, n in counts.items():
            types.append({"name": name, "count": n})
            if name in features:
                np.save(box.path("src", f"{name}.npy"), features[name])
                types[-1]["features"] = f"{name}.npy"
        for source, name, target, edges in relations:
            np.save(box.path("src", f"{name}.npy"), edges)
            listed.append({"source": source, "name": name, "target": target})
            listed[-1]["edges"] = f"{name}.npy"
        box.write_json("src/graph.json", {"types": types, "relations": listed})
        box.sluice("import", "typed", "src", "-q", "--out", "data").ok()

    def means(self, box, target, names, dtype=F32):
        """Sums in the order of the lists, as the data set has them; how many are without."""
        at, row = 0, 0
        first = dict(zip(self.counts, np.cumsum([0, *self.counts.values()])))
        indptr, indices = (np.load(box.path("data", f"{f}.npy")) for f in ("indptr", "indices"))
        dim = self.x[[r[0] for r in self.relations if r[1] in names][0]].shape[1]
        sums = np.zeros((self.counts[target], dim), F32)
        n = np.zeros(self.counts[target], int)
        for source, name, to, _ in self.relations:
            for v in range(self.counts[to]):
                of = indices[indptr[row + v] : indptr[row + v + 1]] - first[source]
                for u in of if name in names and to == target else ():
                    sums[v] += self.x[source][u].astype(F32)
                    n[v] += 1
            row += self.counts[to]
        out = sums / np.maximum(n, 1).astype(F32)[:, None]
        return out.astype(dtype), int((n == 0).sum())


def edges(rng, n_sources, n_targets, n):
    """A hub, duplicates, targets without edges."""
    e = np.stack([rng.integers(0, n_sources, n), rng.integers(0, max(n_targets - 2, 1), n)])
    e[1, : n // 4] = n_targets // 2
    e[:, n // 2 : n // 2 + 5] = e[:, :5]
    return e


def small(box, seed=1, papers=F16):
    rng = np.random.default_rng(seed)
    counts = {"paper": 300, "editor": 50, "author": 200, "venue": 1, "institute": 9, "none": 0}
    x = {"paper": rng.integers(-9, 9, (300, 5)).astype(papers) / 8}
    x["editor"] = rng.random((50, 5)).astype(F32)
    return Graph(
        box,
        counts,
        x,
        [
            ("venue", "hosts", "paper", edges(rng, 1, 300, 400)),
            ("paper", "written_by", "author", edges(rng, 300, 200, 700)),
            ("author", "is_of", "institute", edges(rng, 200, 9, 300)),
            ("editor", "knows", "author", edges(rng, 50, 200, 90)),
            ("paper", "is_in", "none", np.zeros((2, 0), int)),
        ],
    )


def load(box, folder, name):
    return np.load(box.path(folder, f"node_feat.{name}.npy"))


def same(found, wanted):
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_rounds(box):
    """Authors by papers and editors, then institutes by authors; nothing leads to the venue."""
    g = small(box)
    said = box.sluice("featurize", "data", "--out", "made").ok().out
    g.x["author"], bare = g.means(box, "author", ["written_by", "knows"])
    assert same(load(box, "made", "author"), g.x["author"]) and bare > 0
    wanted, empty = g.means(box, "institute", ["is_of"])
    assert same(load(box, "made", "institute"), wanted)
    assert "5 x float32, in round 2" in said and "mean by editor -knows-> author" in said
    assert f"zeros: {bare} vertices" in said and "venue" in said
    metadata = read_json(box.path("made", "metadata.json"))
    assert metadata["featurized"] == [
        {
            "type": "author",
            "by": ["paper -written_by-> author", "editor -knows-> author"],
            "zeros": bare,
        },
        {"type": "institute", "by": ["author -is_of-> institute"], "zeros": empty},
    ]
    seen = box.sluice("inspect", "made", "-o", "json").ok().json()
    dims = {t["name"]: t["feat_dim"] for t in seen["types"]}
    assert dims == {"paper": 5, "editor": 5, "author": 5, "venue": 0, "institute": 5, "none": 0}
    for name in os.listdir(box.path("data")):
        if name.endswith(".npy"):
            old, new = (open(box.path(d, name), "rb").read() for d in ("data", "made"))
            assert old == new, name


@cases("float16", "float32")
def test_chosen(box, papers):
    """One relation, one type; float16 where all sources have it."""
    papers = np.dtype(papers).type
    g = small(box, 2, papers)
    options = ["--type", "author", "--by", "paper:written_by:author"]
    box.sluice("featurize", "data", *options, "-q", "--out", "made").ok()
    wanted, _ = g.means(box, "author", ["written_by"], papers)
    assert same(load(box, "made", "author"), wanted)
    assert not os.path.exists(box.path("made", "node_feat.institute.npy"))
    # What is left goes on from there.
    box.sluice("featurize", "made", "-q", "--out", "all").ok()
    g.x["author"] = wanted
    assert same(load(box, "all", "institute"), g.means(box, "institute", ["is_of"], papers)[0])
    listed = read_json(box.path("all", "metadata.json"))["featurized"]
    assert [f["type"] for f in listed] == ["author", "institute"]


@cases("rising", "falling")
def test_any_memory_and_threads(box, lists):
    """Several blocks and windows; lists that do not rise are read as they are."""
    rng = np.random.default_rng(3)
    counts, dim = {"a": 6000, "b": 3000, "c": 700}, 80
    x = {t: rng.standard_normal((counts[t], dim)).astype(F32) for t in "ac"}
    relations = [("a", "ab", "b", edges(rng, 6000, 3000, 12000))]
    relations += [("c", "cb", "b", edges(rng, 700, 3000, 4000))]
    g = Graph(box, counts, x, relations)
    if lists == "falling":
        indptr, indices = (np.load(box.path("data", f"{f}.npy")) for f in ("indptr", "indices"))
        for begin, end in zip(indptr, indptr[1:]):
            indices[begin:end] = indices[begin:end][::-1]
        np.save(box.path("data", "indices.npy"), indices)
    box.sluice("featurize", "data", "-q", "--out", "one").ok()
    assert same(load(box, "one", "b"), g.means(box, "b", ["ab", "cb"])[0])
    options = ["--memory", "1MiB", "--threads", "3"]
    box.sluice("featurize", "data", *options, "-q", "--out", "two").ok()
    assert same(load(box, "two", "b"), load(box, "one", "b"))


BAD = {
    "type": (["--type", "writer"], ["--type writer", "paper, editor, author"]),
    "has some": (["--type", "paper"], ["--type paper", "has features already"]),
    "empty": (["--type", "none"], ["--type none", "no vertices"]),
    "too far": (["--type", "institute"], ["leads to institute", "--reverse", "by --type"]),
    "never": (["--type", "author,venue"], ["leads to venue"]),
    "relation": (["--by", "writes"], ["--by writes", "paper -written_by-> author"]),
    "unused": (["--by", "hosts,knows"], ["venue -hosts-> paper", "leave it out"]),
    "only": (["--by", "is_of"], ["no relation of --by leads to author, venue, institute"]),
}


@cases(*BAD)
def test_bad_options(box, what):
    options, words = BAD[what]
    small(box)
    said = box.sluice("featurize", "data", *options, "-q", "--out", "made")
    refused(box, said, *words, output="made")


def test_other_graphs(box):
    rng = np.random.default_rng(1)
    x = {"a": np.ones((4, 3), F32), "b": np.ones((4, 2), F32)}
    relations = [("a", "ac", "c", edges(rng, 4, 4, 9)), ("b", "bc", "c", edges(rng, 4, 4, 9))]
    Graph(box, {"a": 4, "b": 4, "c": 4}, x, relations)
    said = box.sluice("featurize", "data", "-q", "--out", "made")
    refused(box, said, "a -ac-> c (3), b -bc-> c (2)", "--by", output="made")
    box.sluice("featurize", "data", "-q", "--by", "bc", "--out", "made").ok()
    said = box.sluice("featurize", "made", "-q", "--out", "other")
    refused(box, said, "every type has features already", output="other")
    write_dataset(box.path("plain"), planted(n=50))
    refused(box, box.sluice("featurize", "plain", "--out", "x"), "one type", output="x")


def test_too_large(box):
    """A sum beyond float32 is an error, not a feature."""
    x = {"a": np.full((3, 2), 3e38, F32)}
    e = np.array([[0, 1, 2], [0, 1, 1]])
    Graph(box, {"a": 3, "b": 3}, x, [("a", "ab", "b", e)])
    said = box.sluice("featurize", "data", "-q", "--out", "made")
    refused(box, said, "type b, vertex 1", "beyond float32", output="made")

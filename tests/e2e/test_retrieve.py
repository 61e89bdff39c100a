"""`sluice retrieve`: the nearest rows, beside all products in NumPy."""

import csv
import os

import numpy as np

from harness import cases, planted, small_job, text_of, whole, write_dataset
from test_bad_input import refused


COMMAND = ("retrieve", "rows.npy", "--sources", "sources.npy")


def wanted(rows, sources, k, targets=None, cosine=False, known=frozenset()):
    """By scores that fall, then by ids that rise. Rows of small integers: products are exact."""
    targets = np.arange(len(rows)) if targets is None else np.unique(targets)
    ids = np.full((len(sources), k), -1)
    scores = np.full((len(sources), k), np.nan, np.float32)
    length = np.sqrt((rows.astype(np.float64) ** 2).sum(1))
    unit = rows / np.maximum(length, 1e-300)[:, None] if cosine else rows
    for i, s in enumerate(sources):
        of = [t for t in targets if t != s and (s, t) not in known]
        score = (unit[of] @ unit[s]).astype(np.float32) if of else np.zeros(0, np.float32)
        best = np.lexsort((of, -score))[:k]
        ids[i, : len(best)] = np.array(of)[best] if len(best) else []
        scores[i, : len(best)] = score[best]
    return ids, scores


def retrieve(box, rows, sources, k, *options):
    np.save(box.path("rows.npy"), rows.astype(np.float32))
    np.save(box.path("sources.npy"), np.asarray(sources))
    out = ("--out", "ids.npy", "--scores", "scores.npy", "--force", "--quiet")
    box.sluice(*COMMAND, "--k", str(k), *out, *options).ok()
    return np.load(box.path("ids.npy")), np.load(box.path("scores.npy"))


# Around a stride of 64 scores, a chunk of 1,024 targets and a block of 256 sources.
SIZES = [(1, 1, 1, 3), (5, 3, 4, 7), (63, 9, 8, 1), (65, 9, 64, 64), (1023, 257, 16, 20)]


@cases(*[*SIZES, (1025, 255, 33, 1024), (2100, 300, 128, 5)])
def test_beside_numpy(box, n, n_sources, dim, k):
    rng = np.random.default_rng(n)
    rows = rng.integers(-2, 3, (n, dim))
    rows[rng.random(n) < 0.1] = 0
    sources = rng.integers(0, n, n_sources)
    for threads in ("1", "3"):
        found = retrieve(box, rows, sources, k, "--threads", threads)
        for a, b in zip(found, wanted(rows, sources, k)):
            assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype == np.float32)


def test_by_angle(box):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((700, 24)).astype(np.float32)
    rows[5] = 0
    sources = np.array([0, 5, 699, 17])
    ids, scores = retrieve(box, rows, sources, 10, "--by", "cosine")
    exact_ids, exact = wanted(rows, sources, 10, cosine=True)
    assert np.abs(scores - exact).max() < 1e-5
    assert np.array_equal(ids[[0, 2, 3]], exact_ids[[0, 2, 3]])  # no two are as near
    assert (scores[1] == 0).all() and ids[1].tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_targets_and_known_edges(box):
    arrays = planted(n=400)
    write_dataset(box.path("data"), arrays)
    to = np.repeat(np.arange(400), np.diff(arrays["indptr"]))
    known = set(zip(arrays["indices"].tolist(), to.tolist()))
    rng = np.random.default_rng(4)
    rows, sources = rng.integers(-2, 3, (400, 8)), rng.integers(0, 400, 50)
    targets = rng.integers(0, 400, 90)
    np.save(box.path("targets.npy"), targets.astype(np.int32))
    only = ("--targets", "targets.npy")
    assert np.array_equal(retrieve(box, rows, sources, 30, *only)[0],
                          wanted(rows, sources, 30, targets)[0])
    found = retrieve(box, rows, sources, 88, *only, "--exclude-known", "--dataset", "data")
    exact = wanted(rows, sources, 88, targets, known=known)
    assert np.array_equal(found[0], exact[0]) and (found[0] == -1).any()
    # Of a reordered data set rows and ids are those from before.
    box.sluice("reorder", "data", "--by", "degree", "--out", "sorted", "--quiet").ok()
    again = retrieve(box, rows, sources, 88, *only, "--exclude-known", "--dataset", "sorted")
    assert np.array_equal(again[0], exact[0])


def test_answers_are_of_the_other_side(box):
    arrays = {"indptr": np.arange(1301).clip(0, 2), "indices": np.array([1150, 1151])}
    about = {"num_nodes": 1300, "num_edges": 2, "first_side": 1100}
    write_dataset(box.path("two"), arrays, metadata=about)
    rng = np.random.default_rng(6)
    rows = rng.integers(-2, 3, (1300, 4))
    side = {True: np.arange(1100), False: np.arange(1100, 1300)}
    for sources in ([0, 1099, 7], [1299, 1100], [1299, 3, 1100, 5]):
        found = retrieve(box, rows, sources, 250, "--dataset", "two")
        exact = [wanted(rows, [s], 250, side[s >= 1100]) for s in sources]
        for a, b in zip(found, (np.concatenate(part) for part in zip(*exact))):
            assert np.array_equal(a, b, equal_nan=a.dtype == np.float32), sources
    np.save(box.path("targets.npy"), np.arange(9))
    found = retrieve(box, rows, [3], 9, "--dataset", "two", "--targets", "targets.npy")
    assert sorted(found[0][0].tolist()) == [-1, 0, 1, 2, 4, 5, 6, 7, 8]
    rest = ("--dataset", "two", "--out", "a.npy", "--force")
    assert "of 200 targets, those of the other side, for 1 source" in box.sluice(
        "retrieve", "rows.npy", "--sources", "sources.npy", *rest).ok().out


def test_lines(box):
    rows = np.array([[1.0, 0], [2, 0], [0, 3]])
    retrieve(box, rows, [1, 0], 5)
    box.sluice(*COMMAND, "--k", "5", "--out", "a.csv").ok()
    with open(box.path("a.csv")) as file:
        assert list(csv.reader(file)) == [
            ["source", "rank", "target", "score"],
            ["1", "1", "0", "2"],
            ["1", "2", "2", "0"],
            ["0", "1", "1", "2"],
            ["0", "2", "2", "0"],
        ]


def test_names(box):
    """As `sluice import --relabel` wrote them, with all separators."""
    names = ['a,b', 'c "d"', "e"]
    with open(box.path("edges.csv"), "w", newline="") as file:
        csv.writer(file).writerows(zip(names, names[1:] + names[:1]))
    box.sluice("import", "edgelist", "edges.csv", "--relabel", "--out", "data", "-q").ok()
    retrieve(box, np.array([[1.0, 0], [2, 0], [0, 3]]), [1, 0], 5)
    command = (*COMMAND, "--names", "--out")
    refused(box, box.sluice(*command, "n.csv"), "--names", "wanted --dataset DIR, whose names")
    refused(box, box.sluice(*command, "n.npy", "--dataset", "data"), "--names", ".csv")
    box.sluice(*command, "n.csv", "--dataset", "data").ok()
    with open(box.path("n.csv"), newline="") as file:
        found = [(a, b) for a, _, b, _ in csv.reader(file)][1:]
    assert found == [(names[1], names[0]), (names[1], names[2]), (names[0], names[1]),
                     (names[0], names[2])]
    os.remove(box.path("data/vertex_names.npy"))
    os.remove(box.path("data/vertex_name_offsets.npy"))
    said = box.sluice(*command, "o.csv", "--dataset", "data")
    refused(box, said, "has no names", "--relabel", output="o.csv")


def test_of_a_run(box):
    """The same as of the file that `sluice embed` writes; nothing else is left beside --out."""
    box.run(small_job(box.shared_dataset("small")))
    np.save(box.path("sources.npy"), np.arange(9))
    box.sluice("embed", "runs/job", "--out", "hidden.npy", "--quiet").ok()
    data = ("--exclude-known", "--dataset", box.shared_dataset("small"))
    os.makedirs(box.path("made"))
    rest = ("--sources", "sources.npy", "--k", "4", "--quiet", "--out")
    box.sluice("retrieve", "runs/job", "--exclude-known", *rest, "made/a.csv").ok()
    box.sluice("retrieve", "hidden.npy", *data, *rest, "made/b.csv").ok()
    assert text_of(box.path("made/a.csv")) == text_of(box.path("made/b.csv"))
    assert sorted(os.listdir(box.path("made"))) == ["a.csv", "b.csv"]
    refused(box, box.sluice("retrieve", "runs/none", *rest, "made/c.csv"), "runs/none", output="")


@whole
def test_many_sources_are_taken_in_groups(box):
    rng = np.random.default_rng(5)
    rows = rng.integers(-2, 3, (300, 4))
    sources = rng.integers(0, 300, 900)
    ids, scores = retrieve(box, rows, sources, 30000, "--threads", "2")
    exact = wanted(rows, np.arange(300), 299)
    assert np.array_equal(ids[:, :299], exact[0][sources]) and (ids[:, 299:] == -1).all()


FAULTY = {
    "type": ({"rows": np.ones((4, 2))}, "float64 (4, 2)", "sluice embed"),
    "shape": ({"rows": np.ones(4, np.float32)}, "float32 (4,)", "a row for each vertex"),
    "nan": ({"rows": np.array([[1, 2], [np.nan, 1]], np.float32)}, "row 1 is not finite"),
    "range": ({"sources": np.array([0, 4])}, "sources.npy", "entry 1 is 4", "from 0 to 3"),
    "negative": ({"sources": np.array([-1])}, "entry 0 is -1"),
    "none": ({"sources": np.zeros(0, np.int64)}, "at least one vertex"),
}


@cases(*FAULTY)
def test_what_is_refused(box, what):
    arrays = {"rows": np.ones((4, 2), np.float32), "sources": np.array([0]), **FAULTY[what][0]}
    for name, array in arrays.items():
        np.save(box.path(f"{name}.npy"), array)
    refused(box, box.sluice(*COMMAND, "--out", "out.npy"), *FAULTY[what][1:])
    assert not os.path.exists(box.path("out.npy"))


def test_places_and_data_sets_that_do_not_fit(box):
    np.save(box.path("rows.npy"), np.ones((4, 2), np.float32))
    np.save(box.path("sources.npy"), np.array([0]))
    write_dataset(box.path("data"), planted(n=50))
    command = (*COMMAND, "--quiet", "--out")
    refused(box, box.sluice(*command, "out.txt"), "--out out.txt", ".npy or .csv")
    refused(box, box.sluice(*command, "out.npy", "--scores", "out.npy"), "--scores", "also --out")
    refused(box, box.sluice(*command, "out.npy", "--exclude-known"), "wanted --dataset DIR")
    said = box.sluice(*command, "out.npy", "--exclude-known", "--dataset", "data")
    refused(box, said, "50 vertices", "4 rows")
    box.sluice(*command, "out.npy").ok()
    refused(box, box.sluice(*command, "out.npy"), "out.npy exists", "--force")

"""`sluice partition`: a file of parts, and what it says they are worth."""

import os
import resource
import shutil
import subprocess

import numpy as np

from harness import BIN, SHARED_DATA, Skip, cases, gone, planted, read_json, whole, write_dataset
from test_bad_input import refused
from test_data_tools import leftovers
from test_typed_jobs import job, papers

FAKE = os.path.join(os.path.dirname(BIN), "lib", "fake_metis.so")
NOWHERE = {"SLUICE_METIS": "/none/libmetis.so"}
METHODS = ("metis", "metis-kway", "stream", "random")


def has_metis(box):
    write_dataset(box.path("asked"), planted(n=50))
    done = box.sluice("partition", "asked", "--parts", "2", "--method", "metis", "--quiet")
    return "libmetis5" not in done.err


def partition(box, *options, data="data", env=None):
    return box.sluice("partition", data, *options, "-o", "json", env=env).ok().json()


def check_figures(arrays, part, said):
    """What the command says, counted again."""
    n, n_parts = len(arrays["indptr"]) - 1, said["parts"]
    to = np.repeat(np.arange(n), np.diff(arrays["indptr"]))
    assert part.shape == (n,) and part.dtype == (np.uint8 if n_parts <= 256 else np.uint16)
    assert said["cut"] == (part[to] != part[arrays["indices"]]).sum()
    assert said["edges"] == len(to) and abs(said["cut_share"] - said["cut"] / len(to)) < 1e-12
    for name, counted in (("vertices", part), ("training", part[arrays["train_idx"]])):
        counts = np.bincount(counted, minlength=n_parts)
        assert len(counts) == n_parts, counts
        found = said[name]
        assert (found["all"], found["fullest"], found["least"], found["empty_parts"]) == (
            counts.sum(),
            counts.max(),
            counts.min(),
            (counts == 0).sum(),
        ), (found, counts)
        assert abs(found["balance"] - counts.max() / counts.mean()) < 1e-9, (found, counts)
        most = max(int(1.03 * counts.mean() + 1e-9), -(-counts.sum() // n_parts))
        assert found["even"] == (counts.max() <= most), (found, counts)
    assert said["vertices"]["least"] > 0
    assert said["even"] == (said["vertices"]["even"] and said["training"]["even"])


@cases(*METHODS)
def test_a_partition_twice_has_the_same_bits(box, method):
    if method.startswith("metis") and not has_metis(box):
        raise Skip("libmetis5 is not installed")
    arrays = planted(n=3000)
    write_dataset(box.path("data"), arrays)
    options = ("--parts", "4", "--method", method, "--batch", "100", "--fanout", "5,5")
    said = partition(box, *options)
    assert said["schema"] == "sluice.partition/1" and said["method"] == method, said
    assert said["file"] == "data/node_part.npy", said
    part = np.load(box.path("data", "node_part.npy"))
    check_figures(arrays, part, said)
    rows = said["rows"]
    assert rows["fanout"] == [5, 5] and rows["batch_size"] == 100 and rows["batches"] > 4, rows
    assert rows["row_bytes"] == 64 and rows["remote_share"] == rows["remote"] / rows["all"], rows
    if method == "random":
        assert abs(rows["remote_share"] / rows["random_share"] - 1) < 0.03, rows
    else:
        assert rows["remote_share"] < 0.9 * rows["random_share"], rows
    again = partition(box, *options, "--out", "again.npy")
    with open(box.path("data", "node_part.npy"), "rb") as a:
        with open(box.path("again.npy"), "rb") as b:
            assert a.read() == b.read()
    varies = ("file", "method_cpu_seconds", "seconds", "peak_bytes")
    assert {**again, **dict.fromkeys(varies)} == {**said, **dict.fromkeys(varies)}
    text = box.sluice("partition", "data", *options, "--force").ok().out
    for words in ("remote rows", 'order.kind "parts"', "edges cut", "training"):
        assert words in text, text


def test_without_metis(box):
    arrays = planted(n=2000)
    write_dataset(box.path("data"), arrays)
    result = box.sluice("partition", "data", "--parts", "3", "--method", "metis", env=NOWHERE)
    refused(box, result, "METIS is not there", "/none/libmetis.so", "libmetis5", "--method stream")
    assert not leftovers(box, "data") and "node_part.npy" not in os.listdir(box.path("data"))
    said = partition(box, "--parts", "3", env=NOWHERE)
    assert said["method"] == "stream" and "libmetis5" in said["why"], said
    check_figures(arrays, np.load(box.path("data", "node_part.npy")), said)
    text = box.sluice("partition", "data", "--parts", "3", "--force", env=NOWHERE).ok().out
    assert "libmetis5" in text, text


def check_rows_of_types(box, about, first, to, indices):
    """Of one batch a part with all neighbours: vertices with features, and their bytes."""
    said = partition(box, "--parts", "3", "--batch", "9999", "--fanout", "-1,-1", "--force")["rows"]
    part = np.load(box.path("data", "node_part.npy"))
    each = np.zeros(len(part), np.int64)
    for t in about["types"]:
        if t.get("feat_dim"):
            rows = np.load(box.path("data", f"node_feat.{t['name']}.npy"))
            each[first[t["name"]]:][: len(rows)] = rows[0].nbytes
    train = np.load(box.path("data", "train_idx.npy")) + first[next(iter(first))]
    all_rows = remote = remote_bytes = 0
    for i in range(3):
        got = train[part[train] == i]
        for _ in range(2):
            got = np.union1d(got, indices[np.isin(to, got)])
        got = got[each[got] > 0]
        all_rows += len(got)
        remote += (part[got] != i).sum()
        remote_bytes += each[got[part[got] != i]].sum()
    assert (said["all"], said["remote"], said["remote_bytes"]) == (all_rows, remote, remote_bytes)
    assert 0 < remote < all_rows and (each == 0).any(), said


@cases(*METHODS)
def test_types_are_one_numbering(box, method):
    """Figures of all relations together; batches of one part train; shards have rows by type."""
    if method.startswith("metis") and not has_metis(box):
        raise Skip("libmetis5 is not installed")
    shutil.copytree(papers(box, 400), box.path("data"))
    about = read_json(box.path("data", "metadata.json"))
    count = {t["name"]: t["count"] for t in about["types"]}
    first = dict(zip(count, np.cumsum([0, *count.values()])))
    rows = [first[r["target"]] + np.arange(count[r["target"]]) for r in about["relations"]]
    said = partition(box, "--parts", "3", "--method", method, "--batch", "50", "--fanout", "3,3")
    part, indptr, indices = (np.load(box.path("data", f"{name}.npy"))
                             for name in ("node_part", "indptr", "indices"))
    to = np.repeat(np.concatenate(rows), np.diff(indptr))
    assert said["cut"] == (part[to] != part[indices]).sum() > 0, said
    assert said["vertices"]["all"] == len(part) == about["num_nodes"], said
    assert 0 < said["rows"]["remote"] < said["rows"]["all"], said
    if method in ("stream", "metis"):
        assert said["cut_share"] < 0.6 < said["rows"]["random_share"], said
    check_rows_of_types(box, about, first, to, indices)
    box.sluice("partition", "data", "--parts", "3", "--method", method, "--out", "shards").ok()
    for i in range(3):
        place = np.load(box.path("shards", str(i), "node_part.npy"))
        of_papers = place[: count["paper"]] == i
        wanted = np.load(box.path("data", "node_feat.paper.npy"))[of_papers]
        found = np.load(box.path("shards", str(i), "node_feat.paper.npy"))
        assert np.array_equal(found, wanted), i
    if method == "stream":
        box.run(job(box, dataset="data", **{"order.kind": "parts"}))[0].ok()


def test_many_parts_of_little(box):
    arrays = planted(n=400)
    write_dataset(box.path("data"), arrays)
    for parts in (300, 400):
        said = partition(box, "--parts", str(parts), "--force", "--method", "stream")
        check_figures(arrays, np.load(box.path("data", "node_part.npy")), said)


def test_parts_that_metis_leaves_empty_get_a_vertex(box):
    arrays = planted(n=400)
    write_dataset(box.path("data"), arrays)
    env = {"SLUICE_METIS": FAKE, "FAKE_METIS": "be empty"}
    said = partition(box, "--parts", "9", "--method", "metis-kway", env=env)
    check_figures(arrays, np.load(box.path("data", "node_part.npy")), said)
    assert said["filled"] == 8 and not said["even"], said
    text = box.sluice("partition", "data", "--parts", "9", "--force", env=env).ok().out
    assert "8 parts had none and got one" in text and "not as even as asked for" in text, text


def test_parts_that_something_else_made(box):
    arrays = planted(n=400)
    write_dataset(box.path("data"), arrays)
    made = partition(box, "--parts", "3", "--method", "stream", "--out", "made.npy")
    given = ("--parts", "3", "--method", "given", "--from")
    part = np.load(box.path("made.npy"))
    for dtype in ("uint8", "uint16", "int32", "int64"):
        np.save(box.path("mine.npy"), part.astype(dtype))
        said = partition(box, *given, "mine.npy", "--out", "again.npy", "--force")
        check_figures(arrays, np.load(box.path("again.npy")), said)
        assert said["method"] == "given" and said["rows"] == made["rows"], (said, made)
    assert (np.load(box.path("again.npy")) == part).all()
    wrong = {
        "-1": np.where(np.arange(400) == 5, -1, part.astype(int)),
        "3": np.where(np.arange(400) == 5, 3, part),
        "(399,)": part[1:],
        "float32": part.astype(np.float32),
    }
    for what, array in wrong.items():
        np.save(box.path("mine.npy"), array)
        words = ("element 5 is no part",) if what in ("-1", "3") else (what, "400 vertices")
        refused(box, box.sluice("partition", "data", *given, "mine.npy"), "mine.npy", *words)
    refused(box, box.sluice("partition", "data", *given, "none.npy"), "none.npy")
    for options in (given[:-1], ("--parts", "3", "--from", "made.npy")):
        refused(box, box.sluice("partition", "data", *options), "--method given --from FILE.npy")
    assert "node_part.npy" not in os.listdir(box.path("data"))


BAD = {
    "parts_0": (["--parts", "0"], ("--parts", "2", "65535")),
    "parts_1": (["--parts", "1"], ("--parts", "2")),
    "parts_65536": (["--parts", "65536"], ("--parts", "65535")),
    "parts_2001": (["--parts", "2001"], ("2001", "at most its 2000 vertices")),
    "no_parts": ([], ("--parts",)),
    "fanout": (["--parts", "2", "--fanout", "0"], ("--fanout '0'", "15,10,5")),
    "imbalance": (["--parts", "2", "--imbalance", "0"], ("--imbalance", "0.001")),
    "method": (["--parts", "2", "--method", "metsi"], ("metsi", "metis")),
    "out_there": (["--parts", "2", "--out", "there.npy"], ("'there.npy' exists", "--force")),
    "out_nowhere": (["--parts", "2", "--out", "none/p.npy"], ("none",)),
}


@cases(*BAD)
def test_bad_input(box, what):
    options, words = BAD[what]
    write_dataset(box.path("data"), planted(n=2000))
    with open(box.path("there.npy"), "w") as file:
        file.write("mine")
    refused(box, box.sluice("partition", "data", *options), *words)
    with open(box.path("there.npy")) as file:
        assert file.read() == "mine"
    assert not leftovers(box, "data", "there.npy")
    assert "node_part.npy" not in os.listdir(box.path("data"))


def test_a_data_set_that_has_no_parts(box):
    refused(box, box.sluice("partition", "none", "--parts", "2"), "none")
    arrays = planted(n=200)
    del arrays["train_idx"]
    write_dataset(box.path("data"), arrays)
    refused(box, box.sluice("partition", "data", "--parts", "2"), "train_idx.npy")


def test_a_file_that_may_not_grow(box):
    write_dataset(box.path("data"), planted(n=3000))
    os.makedirs(box.path("disk"))
    command = ["partition", "data", "--parts", "2", "--method", "stream", "--out", "disk/p.npy"]
    box.sluice(*command).ok()  # leaves a record of the data set's check
    os.remove(box.path("disk", "p.npy"))
    done = subprocess.run(
        [os.path.join(BIN, "sluice"), *command],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.returncode == 1 and "write disk/p.npy" in done.stderr, done
    assert os.listdir(box.path("disk")) == [], os.listdir(box.path("disk"))


@cases("interrupt", "kill")
def test_metis_ends_with_the_command(box, how):
    """METIS cannot be interrupted: its process is ended, with nothing left."""
    write_dataset(box.path("data"), planted(n=500))
    env = {"SLUICE_METIS": FAKE, "FAKE_METIS": "hang"}
    running = box.start("partition", "data", "--parts", "2", "--method", "metis", env=env)
    running.until(lambda: os.path.exists(box.path("metis.pid")), "METIS at work")
    with open(box.path("metis.pid")) as file:
        metis = int(file.read())
    getattr(running, how)()
    result = running.wait()
    assert result.rc == (130 if how == "interrupt" else -9), result
    gone(metis)
    assert not leftovers(box, "data", "metis.pid")
    assert "node_part.npy" not in os.listdir(box.path("data"))
    box.assert_nothing_left()


@whole
def test_figures_of_ogbn_arxiv(box):
    """Cut share at 4 parts: METIS k-way .089, recursive .139, the stream .186; random .750."""
    data = os.path.join(SHARED_DATA, "ogbn_arxiv")
    if not os.path.isdir(data) or not has_metis(box):
        raise Skip("there is no ogbn_arxiv, or no libmetis5")
    found = {
        method: partition(
            box, "--parts", "4", "--method", method, "--out", f"{method}.npy", data=data
        )
        for method in METHODS
    }
    cut = {method: said["cut_share"] for method, said in found.items()}
    remote = {method: said["rows"]["remote_share"] for method, said in found.items()}
    assert cut["metis-kway"] < 0.095 and cut["metis"] < 0.145 and cut["stream"] < 0.206, cut
    assert found["metis"]["even"] and found["stream"]["even"], found
    assert remote["metis"] < 0.6 * remote["random"], remote
    assert remote["stream"] < 0.8 * remote["random"], remote

"""A disk that fills up, and Ctrl-C, in the middle of `import` and `reorder`: nothing is left."""

import os
import resource
import subprocess

import numpy as np

from harness import BIN, cases, planted, write_dataset
from test_data_tools import leftovers
from test_import_igb import write_igb
from test_import_options import write_npz


def write_edges(box):
    edges = np.random.default_rng(1).integers(0, 5000, (60000, 2))
    np.savetxt(box.path("source"), edges, "%d")


def write_tables(box):
    """More names than fit a mebibyte, and more features than the disk has room for."""
    with open(box.path("source"), "w") as edges, open(box.path("features"), "w") as features:
        for i in range(30000):
            edges.write(f"name {i},name {i * 7 % 30000}\n")
            features.write(f"name {i},{i},0.5\n")


def write_graph(box):
    write_dataset(box.path("source"), planted(n=3000, feat_dim=64))


def write_arrays(box):
    write_npz(box, np.random.default_rng(1).random((40, 6000)).astype(np.float32))
    os.rename(box.path("graph.npz"), box.path("source"))


def write_types(box):
    """The second type's features are more than the disk has room for."""
    box.sluice("generate", "typed", "--nodes", "3000", "--out", "source").ok()


SOURCES = {
    # Their sort has to spill: 60,000 edges are more than fit half of a mebibyte.
    "spill": (write_edges, ["import", "edgelist", "source", "--memory", "1MiB", "--symmetrise"]),
    "edges": (write_edges, ["import", "edgelist", "source"]),
    "names": (write_tables, ["import", "edgelist", "source", "--memory", "1MiB", "--relabel"]),
    "tables": (
        write_tables,
        ["import", "edgelist", "source", "--memory", "1MiB", "--relabel", "--features", "features"],
    ),
    "features": (write_arrays, ["import", "npz", "source"]),
    "normalised": (write_arrays, ["import", "npz", "source", "--normalize-features", "--f16"]),
    "igb": (lambda box: write_igb(box, "source"), ["import", "igb", "source"]),
    "reorder": (write_graph, ["reorder", "source", "--by", "bfs"]),
    "split-edges": (write_graph, ["split-edges", "source"]),
    "featurize": (write_types, ["featurize", "source", "--by", "rev_writes"]),
}


def assert_failed_cleanly(box, rc, err, folder):
    assert rc == 1, (rc, err)
    lines = [line for line in err.splitlines() if line.startswith("sluice: ")]
    assert len(lines) == 1 and ("write" in lines[0] or "spill" in lines[0]), err
    assert os.listdir(folder) == [], os.listdir(folder)


@cases(*SOURCES)
def test_a_file_that_may_not_grow(box, what):
    """RLIMIT_FSIZE: every write beyond 100 KB is refused, as on a full disk, in its middle."""
    make, command = SOURCES[what]
    make(box)
    os.makedirs(box.path("disk"))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [os.path.join(BIN, "sluice"), *command, "--out", "disk/made"],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert_failed_cleanly(box, done.returncode, done.stderr, box.path("disk"))
    assert "too large" in done.stderr.lower(), done.stderr


@cases("igb", "reorder")
def test_interrupted(box, what):
    rng = np.random.default_rng(1)
    if what == "igb":
        write_igb(box, "source", paper__of__node_feat=np.zeros((50, 1024), np.float32))
        edges = rng.integers(0, 50, (6_000_000, 2)).astype(np.int32)
        np.save(box.path("source/processed/paper__cites__paper/edge_index.npy"), edges)
        command = ["import", "igb", "source"]
    else:
        n, degree = 300_000, 20
        arrays = {
            "indptr": np.arange(n + 1) * degree,
            "indices": rng.integers(0, n, n * degree).astype(np.int32),
        }
        write_dataset(
            box.path("source"), arrays, metadata={"num_nodes": n, "num_edges": n * degree}
        )
        command = ["reorder", "source", "--by", "bfs"]
    os.makedirs(box.path("disk"))
    running = box.start(*command, "--out", "disk/made")
    running.until(lambda: os.listdir(box.path("disk")), "a directory under construction")
    running.interrupt()
    result = running.wait()
    assert result.rc == 130, result
    assert os.listdir(box.path("disk")) == [], os.listdir(box.path("disk"))
    assert not leftovers(box, "source", "disk")


@cases("igb", "reorder")
def test_killed(box, what):
    """What a SIGKILL leaves is hidden, and the next attempt removes it."""
    make, command = SOURCES[what]
    make(box)
    os.makedirs(box.path("disk"))
    running = box.start(*command, "--out", "disk/made")
    running.kill()
    running.wait()
    assert "made" not in os.listdir(box.path("disk")) or is_whole(box.path("disk", "made"))
    box.sluice(*command, "--out", "disk/made", "--force").ok()
    assert os.listdir(box.path("disk")) == ["made"]


def is_whole(folder):
    return os.path.exists(os.path.join(folder, "metadata.json"))

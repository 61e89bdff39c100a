"""`sluice generate` and `inspect`: what they make is whole or not there.

What a graph is like that is generated or imported: tests/unit/test_cli_generate.c and
test_cli_import.c."""

import hashlib
import os
import re
import subprocess

import numpy as np

from harness import BIN, read_json, small_job


def digest_of(folder):
    """One hash of every file but metadata.json, which names the folder."""
    total = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".npy"):
            with open(os.path.join(folder, name), "rb") as file:
                total.update(name.encode() + file.read())
    return total.hexdigest()


def load(folder):
    return {
        name[:-4]: np.load(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.endswith(".npy")
    }


def check_dataset(folder):
    """What DESIGN calls a data set directory; returns (metadata, arrays)."""
    meta, arrays = read_json(os.path.join(folder, "metadata.json")), load(folder)
    n = meta["num_nodes"]
    indptr, indices = arrays["indptr"], arrays["indices"]
    assert indptr.shape == (n + 1,) and indptr[0] == 0 and indptr[-1] == len(indices)
    assert (np.diff(indptr) >= 0).all()
    assert meta["num_edges"] == len(indices)
    assert len(indices) == 0 or (indices.min() >= 0 and indices.max() < n)
    if meta.get("feat_dim"):
        assert arrays["node_feat"].shape == (n, meta["feat_dim"])
        assert np.isfinite(arrays["node_feat"]).all()
    if meta.get("num_classes"):
        label = arrays["node_label"].reshape(-1)
        assert label.shape == (n,) and label.min() >= -1 and label.max() < meta["num_classes"]
    return meta, arrays


def in_edges(arrays):
    """(source, target) or (source, target, weight) of a data set, by target."""
    targets = np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
    columns = [arrays["indices"], targets]
    columns += [arrays["edge_weight"]] if "edge_weight" in arrays else []
    return list(zip(*(column.tolist() for column in columns)))


def leftovers(box, *known):
    """Names in the box that no test made."""
    standard = {"tmp", "logs", "cache", *known}
    return [n for n in os.listdir(box.folder) if n not in standard and not n.endswith(".json")]


def test_generate_trains(box):
    box.sluice("generate", "planted", "--nodes", "3000", "--classes", "4", "--out", "made").ok()
    result, report = box.run(small_job("made", **{"epochs": 6}))
    result.ok()
    assert report["test_accuracy"] > 0.5


def test_help(box):
    for command in ("", "run", "generate", "generate planted", "import", "inspect", "doctor"):
        result = box.sluice(*command.split(), "--help").ok()
        assert not result.err and "sluice" in result.out, str(result)
        assert not command or "xample" in result.out, f"no example\n{result}"


def test_doctor_knows_the_library_of_the_page_and_commands_do_not_load_it(box):
    found = box.sluice("doctor", "-o", "json").json()["checks"]["libraries"]["found"]
    assert re.search(r"libmicrohttpd \d+\.\d", found), found
    program = os.path.join(BIN, "sluice")
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libzmq" in needed and not re.search("microhttpd|gnutls", needed), needed

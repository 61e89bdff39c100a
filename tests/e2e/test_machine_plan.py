"""A dry run for a machine that is not there, of a data set that may not be there either."""

import json
import os

import numpy as np

from edge_papers import job as edge_job
from harness import ROOT, cases, read_json, small_job
from test_bad_input import refused
from test_typed_jobs import job, papers

JOB = os.path.join(ROOT, "config/examples/igbh-rgat.json")
FULL = os.path.join(ROOT, "config/examples/igbh-full")
GIB, TIB = 1 << 30, 1 << 40
RATES = {"bus": 25e9, "read": 200e9, "edges": 20e6, "products": 40e12}


def machine(gpus=0, **more):
    words = {"gpus": gpus, "gpu_memory": 80 * GIB, "memory": 2 * TIB, **RATES, **more}
    if not gpus:
        del words["gpus"], words["gpu_memory"], words["bus"]
    return ["--machine", ",".join(f"{k}={int(v)}" for k, v in words.items() if v)]


def plan(box, path, *arguments):
    return box.sluice("run", path, "--dry-run", "-o", "json", *arguments).ok().json()


def igbh(box, *arguments, sets=()):
    words = [w for s in (f"dataset={FULL}", *sets) for w in ("--set", s)]
    return plan(box, JOB, *words, *arguments)["machine"]


def near(a, b, by=1e-6):
    return abs(a - b) <= by * max(abs(a), abs(b))


def described(box, folder, says=None, **changes):
    """A data set's metadata.json, and what it lacks where there is nothing else."""
    metadata = {**read_json(f"{folder}/metadata.json"), **changes}
    lists = {s: len(np.load(f"{folder}/{s}_idx.npy")) for s in ("train", "val", "test")}
    metadata["described"] = {"features": "float32", **lists, **(says or {})}
    os.makedirs(box.path("described"), exist_ok=True)
    box.write_json("described/metadata.json", metadata)
    return box.path("described")


def unweighted(box):
    def make(folder):
        box.sluice("generate", "typed", "--nodes", 6000, "--out", folder, "-q").ok()

    return box.shared_folder("papers-unweighted", make)


# ---- what is said of a data set whose files are not there ---------------------------------------


@cases("types", "plain")
def test_a_description_says_what_the_files_do(box, kind):
    """And mini-batches that are drawn are about as large."""
    model = {"kind": "graphsage", "layers": 2, "hidden": 16}
    config = job(box, dataset=unweighted(box), epochs=1) if kind == "types" else small_job(
        box.shared_dataset("small"), model=model, epochs=1
    )
    folder = config["dataset"]
    path = box.job(config)
    there = plan(box, path, *machine())
    alone = plan(box, path, *machine(), "--set", f"dataset={described(box, folder)}")
    assert there["num_params"] == alone["num_params"] > 0
    assert there["batches_per_epoch"] == alone["batches_per_epoch"] > 1
    there["machine"]["memory"].pop("arena_bytes")  # has room for the most, which lists tell
    alone["machine"]["memory"].pop("arena_bytes")
    for key in "memory", "train", "evaluation", "split":
        if key in there["machine"]:
            assert there["machine"][key] == alone["machine"][key], key
    size = lambda name: os.path.getsize(f"{folder}/{name}.npy") - 128  # the header
    memory = alone["machine"]["memory"]
    assert near(memory["graph_bytes"], size("indptr") + size("indices"), 0.01), memory
    _, report = box.run(config)
    epoch = report["epochs"][0]
    mean = alone["machine"]
    inputs = sum(t["vertices"] for t in mean["types"].values()) * epoch["batches"]
    most = sum(t["vertices_most"] for t in mean["types"].values()) * epoch["batches"]
    hubs = 1.1 if kind == "types" else 1.4  # are found again and again
    assert 0.9 < inputs / epoch["input_nodes"] < hubs, (inputs, epoch)
    assert most >= 0.99 * epoch["input_nodes"], (most, epoch)
    for one in mean["types"].values():
        assert one["vertices"] <= one["vertices_most"], mean["types"]


def test_who_reads_files_refuses_a_description(box):
    folder = described(box, papers(box))
    path = box.job(job(box, dataset=folder))
    refused(box, box.sluice("run", path), "is described alone", "`sluice run --dry-run`")
    refused(box, box.sluice("inspect", folder), "is described alone")
    weighted = box.sluice("run", path, "--dry-run", "--set", "sampler.kind=weighted")
    refused(box, weighted, "weights and times", "khop")
    said = box.sluice("run", path, "--dry-run").ok().out  # of this machine
    assert "3 types, 6 relations" in said and "mini-batch  at most about " in said, said


@cases(("few", 16384, 5, "presc"), ("many", 4194304, 5, "expected"), ("once", 16384, 1, "none"),
       ("long", 16384, 500, "expected"))
def test_a_large_graph_of_few_seeds_counts_visits(box, name, seeds, epochs, policy):
    """Where expected visits would take longer than they save in the whole job."""
    folder = box.shared_dataset("small")
    sampler = {"kind": "khop", "fanout": [15, 10, 5], "batch_size": 1024}
    model = {"kind": "graphsage", "layers": 3, "hidden": 16}
    config = small_job(folder, model=model, sampler=sampler, epochs=epochs,
                       store={"features": "storage"}, evaluate={"every": 0})  # fmt: skip
    large = described(box, folder, {"train": seeds}, num_nodes=143750000, num_edges=2300000000)
    more = ("--set", f"dataset={large}")
    found = plan(box, box.job(config), *machine(drive=6e9), *more)["cache"]
    assert found["policy"] == policy and "the drive" in found["why"], found
    assert ("count visits" in found["why"]) == (name == "few"), found
    small = plan(box, box.job(config), *machine(drive=6e9))["cache"]
    assert small["policy"] == "expected", small


def test_a_description_says_what_edges_have(box):
    """As the files do, and with a model that reads them."""
    config = edge_job(box)
    says = {"edge_features": {"writes": 3, "by": 1}}
    alone = f"dataset={described(box, config['dataset'], says)}"
    path = box.job(config)
    found = [plan(box, path, *machine(1, drive=6e9), *more) for more in ((), ("--set", alone))]
    for p in found:
        p["machine"]["memory"].pop("arena_bytes")  # has room for the most, which lists tell
    assert found[0]["num_params"] == found[1]["num_params"], found
    assert found[1]["store"]["edge_feature_bytes"] == 16 * 4500, found[1]["store"]
    for key in "memory", "train":
        assert found[0]["machine"][key] == found[1]["machine"][key], key
    reads, blind = (plan(box, path, "--set", alone, "--set", f"model.edge_features={how}")
                    for how in ("true", "false"))  # fmt: skip
    writes, by = reads["mini_batch"]["edges"].values()
    more = reads["mini_batch"]["feature_bytes"] - blind["mini_batch"]["feature_bytes"]
    assert abs(more - 4 * (3 * writes + by)) <= 16, (reads, blind)
    assert blind["store"]["edge_feature_bytes"] == 0, blind["store"]
    nothing = f"dataset={described(box, config['dataset'])}"
    refused(box, box.sluice("run", path, "--dry-run", "--set", nothing), "no features of edges")


def test_features_of_edges_count(box):
    """In memory as their files, and in each mini-batch as edges have them."""
    path = box.job(edge_job(box, devices="auto"))
    drive = machine(1, drive=6e9)
    plans = plan(box, path, *drive), plan(box, path, *drive, "--set", "model.edge_features=false")
    parameters = plans[0]["num_params"] - plans[1]["num_params"]
    reads, blind = (p["machine"] for p in plans)
    n = {name: r["edges"] for name, r in reads["relations"].items()}
    width = {name: r["feature_bytes"] / 4500 for name, r in reads["relations"].items()}
    assert sorted(width.values()) == [4, 12], reads["relations"]
    drawn = sum(n[name] * width[name] for name in n)
    each, without = (m["train"]["mini_batch"] for m in (reads, blind))
    assert near(each["read"] - without["read"], drawn), (each, without)
    there_and_back = 8 * parameters
    assert near(each["bus"] - without["bus"] - there_and_back, drawn), (each, without)
    assert reads["memory"]["edge_feature_bytes"] == 16 * 4500, reads["memory"]
    assert blind["memory"]["edge_feature_bytes"] == 0, blind["memory"]
    assert reads["memory"]["edge_feature_share"] == 1 and each["drive"] == 0, reads
    assert reads["gpu"]["step_bytes"] - blind["gpu"]["step_bytes"] > 2 * drawn, reads["gpu"]
    said = box.sluice("run", path, "--dry-run", *drive).ok().out
    assert "  features of edges: 70.3 KiB, of which 100 % are there" in said, said


# ---- MLPerf's job -------------------------------------------------------------------------------


def test_igbh_on_gpus(box):
    one = igbh(box, *machine(1))
    assert set(one["types"]) == {
        t["name"] for t in read_json(f"{FULL}/metadata.json")["types"]
    }
    assert one["types"]["paper"]["feature_bytes"] == 269346174 * 2048
    assert len(one["relations"]) == 11
    assert one["relations"]["paper -cites-> paper"]["bytes"] == 8262230182 * 4 + 269346174 * 8
    memory = one["memory"]
    assert memory["feature_bytes"] == 547360534 * 2048 and memory["feature_share"] == 1
    # Numbers of 4 bytes for each vertex, of the one trainer; an epoch is a 20th of the way.
    assert memory["notes_bytes"] == 4 * 547360534
    train = one["train"]
    assert train["batches"] == 4620 and one["evaluation"]["batches"] == 770
    # What the GPU has no room for.
    rows = (1 - one["gpu"]["feature_share"]) * sum(t["vertices"] for t in one["types"].values())
    assert near(train["mini_batch"]["read"], 2048 * rows)
    assert near(train["mini_batch"]["bus"], 4096 * rows + 8 * 13115303)
    assert near(train["stages"]["bus"], 4620 * train["mini_batch"]["bus"] / 25e9)
    # One GPU samples, then trains.
    others = max(s for stage, s in train["stages"].items() if stage != "draw")
    assert near(train["seconds"], train["stages"]["draw"] + others), train
    assert near(one["epoch_seconds"], train["seconds"] + one["evaluation"]["seconds"])
    assert one["gpu"]["fits"] and 0 < one["gpu"]["edges"] < 0.3 * 11894230182
    # It is too small for the whole graph and a step together.
    none = ["cache.policy=none"]
    whole = igbh(box, *machine(1), sets=none)
    assert not whole["gpu"]["fits"] and whole["gpu"]["edges"] == 11894230182
    advised = igbh(box, *machine(1), sets=[*none, "store.prefer=features"])
    assert advised["gpu"]["fits"] and advised["gpu"]["edges"] < 0.3 * 11894230182


def test_igbh_on_eight(box):
    alone = igbh(box, *machine(8))
    assert alone["split"] == {"samplers": 1, "trainers": 1, "working": 1}, alone["split"]
    eight = igbh(box, *machine(8), sets=["updates.batches_per_update=5"])
    split, train = eight["split"], eight["train"]
    assert split == {"samplers": 2, "trainers": 5, "working": 5}, split
    rates = {"draw": ("edges", 2), "bus": ("bus", 5), "train": ("products", 5), "read": ("read", 1)}
    for stage, (word, workers) in rates.items():
        wanted = 4620 * train["mini_batch"][stage] / RATES[word] / workers
        assert near(train["stages"][stage], wanted), (stage, train)
    assert near(train["seconds"], max(train["stages"].values())), train
    assert near(train["seconds"], alone["train"]["seconds"] / 5), train


@cases(("gpus", 8), ("cores", 0))
def test_igbh_on_a_drive(box, name, gpus):
    said = igbh(box, *machine(gpus, memory=512 * GIB, drive=6e9))
    memory, train = said["memory"], said["train"]
    assert near(memory["feature_share"], memory["cache_bytes"] / memory["feature_bytes"]), memory
    blocks = sum(t["vertices"] for t in said["types"].values()) * (1 + 2047 / 4096)
    kept = said["gpu"]["feature_share"] if gpus else 0
    assert (kept > 0) == (gpus > 0), kept
    wanted = (1 - kept) * (1 - memory["feature_share"]) * blocks * 4096
    assert near(train["mini_batch"]["drive"], wanted), train
    assert near(train["stages"]["drive"], 4620 * wanted / 6e9), train
    assert train["slowest"] == "drive" if gpus else memory["cache_bytes"] > 0
    mapped = igbh(
        box, *machine(gpus, memory=512 * GIB, drive=6e9), sets=["store.features=memory"]
    )["memory"]
    left = 512 * GIB - sum(mapped[k] for k in ("arena_bytes", "notes_bytes", "graph_bytes"))
    assert near(mapped["feature_share"], left / mapped["feature_bytes"]), mapped
    bound = igbh(box, *machine(gpus, memory=512 * GIB), sets=["memory=300GiB"])  # of the job
    assert 0 < bound["memory"]["feature_share"] < memory["feature_share"], bound["memory"]
    unsaid = igbh(box, *machine(gpus, memory=512 * GIB))["train"]
    assert "drive" not in unsaid["stages"] and unsaid["seconds"] < train["seconds"], unsaid


def test_it_is_said_on_a_screen(box):
    words = ["--set", f"dataset={FULL}", *machine(8, memory=512 * GIB)]
    said = box.sluice("run", JOB, "--dry-run", *words).ok().out
    assert len(said.splitlines()) <= 50 and "described, so that sizes alone" in said, said
    for line in (
        "machine     8 GPUs of 80.0 GiB",
        "\npaper       269,346,174   514 GiB ",
        "\npaper -cites-> paper                   8,262,230,182      32.8 GiB ",
        "\nan epoch    4,620 mini-batches, at least ",
        "\n  features: 1.02 TiB, of which 12.3 % are there, in a cache of 128 GiB; the drive ",
        "drive is not counted: --machine gives no rate, as drive=6GB would",
        "1 trainer can work at once: set updates.batches_per_update higher",
    ):
        assert line in said, (line, said)
    mapped = ["--set", "store.features=memory"]
    said = box.sluice("run", JOB, "--dry-run", *words, *mapped).ok().out
    assert "\n  mapped rows that are not there come page by page, " in said, said


def test_what_is_refused(box):
    path = box.job(job(box, dataset=papers(box)))

    def dry(*words):
        return box.sluice("run", path, "--dry-run", *words)

    refused(box, box.sluice("run", path, "--machine", "memory=1TiB"), "without --dry-run")
    refused(box, dry("--machine", "memory=1TiB,gpuz=8"), "did you mean gpus?")
    two = ["--set", "nodes=2", "--set", "updates.batches_per_update=2"]
    two += ["--set", "evaluate.fanout=[2, 2]"]
    refused(box, dry("--machine", "memory=1TiB", *two), "--machine", "set nodes to 1")
    # Sizes of 547 M vertices, and too little memory for what must lie there.
    full = ["--set", f"dataset={FULL}"]
    small = box.sluice("run", JOB, "--dry-run", *full, *machine(8, memory=GIB))
    refused(box, small, "store.cache: found 268435456 bytes", "wanted at least")
    full += ["--set", "store.features=memory"]
    small = box.sluice("run", JOB, "--dry-run", *full, *machine(8, memory=GIB))
    refused(box, small, "wanted at least", "arena.memory")
    small = box.sluice("run", JOB, "--dry-run", *full, *machine(8, memory=8 * GIB))
    refused(box, small, "--machine: memory: found 8", "wanted at least", "8 trainers on gpus")
    # GPUs that are assumed are those that a job may name.
    few = dry("--machine", "memory=1TiB,gpus=1,gpu_memory=80GiB", "--set",
              'devices=[{"kind": "cuda", "index": 0}, {"kind": "cuda", "index": 1}]')
    refused(box, few, "devices[1].index", "found GPU 1", "as --machine says")


def test_more_vertices_than_ids_are_refused(box):
    """By whoever reads a data set, and by imports."""
    types = [{"name": "paper", "count": 4000000000}, {"name": "author", "count": 400000000}]
    relation = {"source": "author", "name": "writes", "target": "paper"}
    metadata = {
        "num_nodes": 4400000000,
        "num_edges": 2,
        "types": types,
        "relations": [{**relation, "edges": 2}],
        "described": {"features": "float16", "train": 5},
    }
    os.makedirs(box.path("large"))
    box.write_json("large/metadata.json", metadata)
    path = box.job(job(box, dataset=box.path("large")))
    found = box.sluice("run", path, "--dry-run")
    refused(box, found, '"num_nodes" is 4400000000', "vertex ids are 32-bit", "4294967294")
    os.makedirs(box.path("source"))
    with open(box.path("source/w.csv"), "w") as file:
        file.write("0 0\n1 1\n")
    graph = {"types": types, "relations": [{**relation, "edges": "w.csv"}]}
    with open(box.path("source/graph.json"), "w") as file:
        json.dump(graph, file)
    result = box.sluice("import", "typed", "source", "--out", "out")
    refused(box, result, "4400000000 vertices", "at most 4294967294 of all types")
    assert not os.path.exists(box.path("out"))

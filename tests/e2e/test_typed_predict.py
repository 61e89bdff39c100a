"""`sluice predict` and `embed` of models of graphs of several types, and MLPerf's job on them."""

import json
import os
import shutil

import numpy as np

from harness import ROOT, Running, cases, python_with, read_json, whole
from tensors import read_tensors
from test_bad_input import refused
from test_typed_jobs import WALKS, job, papers


def shared_run(box):
    """A GraphSAGE by relation on 400 papers, 200 authors and some fields."""

    def train(path):
        config = job(box, dataset=papers(box, 400), output=path, **{"evaluate.batch_size": 50})
        box.run(config, "--quiet")[0].ok()

    return box.shared_folder("typed-run", train)


def rows(box, run, *arguments, command="predict"):
    """What the command writes, and its summary."""
    out = box.path("rows.npy")
    said = box.sluice(command, run, "--out", out, "-f", "-q", "-o", "json", *arguments).ok()
    return np.load(out), json.loads(said.out)


def opened(folder, learned=None):
    """Of a data set: rows of features by type, edges (source, row) by relation. Rows of types
    without features are of `learned`, type after type, or ones."""
    about = read_json(folder + "/metadata.json")
    indptr, indices = np.load(folder + "/indptr.npy"), np.load(folder + "/indices.npy")
    count = [t["count"] for t in about["types"]]
    first = dict(zip((t["name"] for t in about["types"]), np.cumsum([0] + count)))
    x = {t["name"]: np.load(f"{folder}/node_feat.{t['name']}.npy").astype(float)
         if t.get("feat_dim") else np.ones((t["count"], 1)) for t in about["types"]}
    at = 0
    for t in about["types"]:
        if learned is not None and not t.get("feat_dim"):
            x[t["name"]] = learned[at : at + t["count"]].astype(float)
            at += t["count"]
    edges, at = {}, 0
    for r in about["relations"]:
        n = len(x[r["target"]])
        part = indptr[at : at + n + 1]
        row = np.repeat(np.arange(n), np.diff(part))
        edges[r["source"], r["name"], r["target"]] = (
            indices[part[0] : part[-1]].astype(int) - first[r["source"]], row)
        at += n
    return x, edges


def by_hand(run, layers=2):
    """What PyG's HeteroConv of SAGEConv gives in each layer, and the outputs: in NumPy."""
    config = read_json(run + "/config.json")
    rows = run + "/embedding.best.npy"
    x, edges = opened(config["dataset"], np.load(rows) if os.path.exists(rows) else None)
    tensors = {k: v.astype(float) for k, v in read_tensors(run + "/model.best.safetensors").items()}
    found = []
    for layer in range(layers):
        y = {t: 0 for t in x}
        for (source, name, target), (s, t) in edges.items():
            w = f"convs.{layer}.convs.<{source}___{name}___{target}>.lin_"
            sums = np.zeros((len(x[target]), x[source].shape[1]))
            np.add.at(sums, t, x[source][s])
            mean = sums / np.maximum(np.bincount(t, minlength=len(sums)), 1)[:, None]
            y[target] = y[target] + mean @ tensors[w + "l.weight"].T + tensors[w + "l.bias"]
            y[target] = y[target] + x[target] @ tensors[w + "r.weight"].T
        x = y if layer + 1 == layers else {t: np.maximum(v, 0) for t, v in y.items()}
        found.append(x)
    return found, x["paper"] @ tensors["lin.weight"].T + tensors["lin.bias"]


def near(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_rows_are_those_of_the_model(box):
    """Of outputs, and of each layer and type that a layer gives rows to."""
    run = shared_run(box)
    hidden, outputs = by_hand(run)
    report = read_json(run + "/report.json")
    found, said = rows(box, run)
    assert near(found, outputs)
    # Layer by layer: all papers twice, all authors once.
    assert said["computed_rows"] == 400 + 400 + 200, said
    assert said["test"]["accuracy"] == report["test_accuracy"], (said, report["test_accuracy"])
    with open(box.path("job.json"), "w") as file:
        json.dump(job(box, dataset=papers(box, 400)), file)
    box.sluice("import-weights", run + "/model.best.safetensors", "--job", "job.json", "--out",
               "runs/again", "--check", "rows.npy").ok()
    ids = np.array([399, 3, 0, 3])
    np.save(box.path("ids.npy"), ids)
    found, said = rows(box, run, "--nodes", box.path("ids.npy"))
    assert near(found, outputs[ids]) and said["computed_rows"] < 500, said
    ids = np.array([7, 199, 7])
    np.save(box.path("ids.npy"), ids)
    for options, wanted in (
        ((), hidden[1]["paper"]),
        (("--layer", "0"), hidden[0]["paper"]),
        (("--type", "author"), hidden[0]["author"]),
        (("--type", "author", "--nodes", box.path("ids.npy")), hidden[0]["author"][ids]),
    ):
        assert near(rows(box, run, *options, command="embed")[0], wanted), options


def test_rows_are_those_of_learned_rows(box):
    """Of the authors, who have no features; in one mini-batch, and layer by layer."""
    changes = {"features.kind": "both", "features.dim": 5, "evaluate.batch_size": 50}
    result, report = box.run(job(box, dataset=papers(box, 400), output="runs/learned", **changes))
    run = box.path("runs/learned")
    result.ok()
    assert np.load(run + "/embedding.best.npy").shape == (200, 5)
    _, outputs = by_hand(run)
    found, said = rows(box, run)
    assert near(found, outputs)
    assert said["test"]["accuracy"] == report["test_accuracy"], (said, report["test_accuracy"])
    ids = np.array([399, 3, 0, 3])
    np.save(box.path("ids.npy"), ids)
    assert near(rows(box, run, "--nodes", box.path("ids.npy"))[0], outputs[ids])


def test_what_there_is_not_is_refused(box):
    run = shared_run(box)
    for command, options, words in (
        ("embed", ("--type", "field"), ("'field'", "no layer", "'paper', 'author'")),
        ("embed", ("--type", "writer"), ("'writer'", "no such type", "'paper', 'author'")),
        ("embed", ("--type", "author", "--layer", "1"), ("--layer 1", "'author'", "0 to 0")),
        ("embed", ("--type", "author", "--set", "test"), ("--set test", "'paper'", "--set all")),
        ("predict", ("--memory", "1g"), ("--memory", '"rsage"', "--chunk 64")),
    ):
        refused(box, box.sluice(command, run, "--out", "rows.npy", *options), *words)


def weighted(box, source):
    """The data set with weights of edges, of which a third and all of some rows are 0."""
    def make(folder):
        shutil.copytree(source, folder)
        indptr = np.load(folder + "/indptr.npy")
        weight = np.random.default_rng(5).integers(0, 3, indptr[-1]).astype(np.float32)
        weight[indptr[3] : indptr[9]] = 0
        np.save(folder + "/edge_weight.npy", weight)

    return box.shared_folder("typed-weighted", make)


def test_tensors_stacked_by_relation_are_not_of_others(box):
    """Of rgcn and hgt a relation's weights are told by their place alone."""
    other = box.path("other")
    shutil.copytree(papers(box, 400), other)
    about = read_json(other + "/metadata.json")
    about["relations"][0]["name"], about["relations"][1]["name"] = (
        about["relations"][i]["name"] for i in (1, 0))
    for r in about["relations"]:
        if r.get("reverse_of") in ("writes", "reviews"):
            r["reverse_of"] = {"writes": "reviews", "reviews": "writes"}[r["reverse_of"]]
    with open(other + "/metadata.json", "w", encoding="utf-8") as f:
        json.dump(about, f)
    for kind in ("rgcn", "hgt"):
        run = box.path(kind)
        config = job(box, dataset=papers(box, 400), output=run, epochs=1,
                     **{"model.kind": kind})
        box.run(config, "--quiet")[0].ok()
        out = box.path("other.npy")
        refused(box, box.sluice("predict", run, "--dataset", other, "--out", out),
                "relation 0", "found 'author -writes-> paper', wanted 'author -reviews-> paper'")
        assert not os.path.exists(out)
        begun = job(box, dataset=other, output=run + "-2", **{
            "model.kind": kind, "model.weights": run + "/model.safetensors"})
        said = box.run(begun, "--quiet")[0]
        assert said.rc == 2 and "model.weights" in said.err and "relation 0" in said.err, said


@whole
@cases("rgat", "rgatv2", "rgcn", "hgt", "weighted", "walk")
def test_a_test_again(box, way):
    """The test's metrics, bit for bit where its mini-batches are the same."""
    sampler = way if way in ("weighted", "walk") else "khop"
    model = {"kind": "rsage" if way == sampler else way, "layers": 2, "hidden": 16}
    dataset = papers(box, 400)
    if way == "weighted":
        dataset = weighted(box, dataset)
    changes = WALKS if way == "walk" else {"sampler.kind": sampler}
    config = job(box, dataset=dataset, output="runs/a", model=model, **changes)
    result, report = box.run(config)
    result.ok()
    found, said = rows(box, box.path("runs/a"), "--set", "test")
    assert said["test"]["accuracy"] == report["test_accuracy"]
    assert np.isclose(said["test"]["loss"], report["test"]["loss"], rtol=1e-6), report["test"]
    everything, _ = rows(box, box.path("runs/a"), "--chunk", "1000")
    assert near(found, everything[np.load(dataset + "/test_idx.npy")])


# ---- MLPerf's job -------------------------------------------------------------------------------

IGBH_JOB = os.path.join(ROOT, "config/examples/igbh-rgat.json")
# IGBH-full in thousands, so a thousandth of it: vertices, and edges before their reverses.
IGBH = {"paper": 269346, "author": 277221, "institute": 27, "fos": 713, "journal": 49,
        "conference": 5}
IGBH_EDGES = {"paper__cites__paper": 3996442, "paper__written_by__author": 641000,
              "paper__topic__fos": 1061000, "author__affiliated_to__institute": 48000,
              "paper__published__journal": 57000, "paper__venue__conference": 9000}


def igbh(box, part, width, labelled):
    """A data set of IGBH's shape by `import igb`; a part 1 is a thousandth. Labelled papers are of
    four classes, which their features tell, and cite papers of their own."""
    def make(folder):
        rng, source = np.random.default_rng(3), folder + "-source"
        counts = {t: max(1, round(n * part)) for t, n in IGBH.items()}
        for name, n in IGBH_EDGES.items():
            a, _, b = name.split("__")
            ends = [rng.integers(0, counts[t], round(n * part), np.int32) for t in (a, b)]
            if a == b:
                ends[1] = np.minimum(ends[1] // 4 * 4 + ends[0] % 4, counts[a] - 1)
            os.makedirs(f"{source}/processed/{name}")
            np.save(f"{source}/processed/{name}/edge_index.npy", np.stack(ends, 1))
        area = np.arange(counts["paper"]) % 4
        label = np.where(np.arange(len(area)) < labelled, area, 2982)
        for t, n in counts.items():
            os.makedirs(f"{source}/processed/{t}")
            x = rng.standard_normal((n, width), np.float32)
            if t == "paper":
                x[np.arange(n), area] += 4
            np.save(f"{source}/processed/{t}/node_feat.npy", x)
        np.save(f"{source}/processed/paper/node_label_2K.npy", label.astype(np.float32))
        box.sluice("import", "igb", source, "--hetero", "--classes", "2983", "--reverse",
                   "--remove-self-loops", "--add-self-loops", "--f16", "--nodes",
                   counts["paper"], "--labelled", labelled, "--out", folder, "-q").ok()
        shutil.rmtree(source)

    return box.shared_folder(f"igbh-{part}-{width}", make)


def igbh_run(box, dataset, *settings, options=()):
    """MLPerf's job on that data, with other settings where they are given."""
    settings = (f"dataset={dataset}", "output=runs/igbh", *settings)
    sets = [word for s in settings for word in ("--set", s)]
    return box.sluice("run", IGBH_JOB, *sets, *options)


def is_planned(box, part):
    """The dry run of the job as it is: types, relations, model, bytes, mini-batches."""
    every = "evaluate.every=1"  # fewer vertices have labels than a mini-batch has seeds
    said = igbh_run(box, igbh(box, part, 16, 200), every, options=["--dry-run"]).ok().out
    for t, n in IGBH.items():
        assert f"  {t}: {max(1, round(n * part)):,} vertices, 16 features, " in said, said
    assert "6 types, 11 relations, 2983 classes" in said, said
    assert f"  conference -rev_venue-> paper: {round(9000 * part):,} edges\n" in said, said
    assert "rgat, layers 3, hidden 512: 7,438,247 parameters" in said, said
    assert "1 mini-batch" in said, said
    return igbh(box, part, 16, 200)


def test_the_job_of_mlperf(box):
    """A small one learns until it has its target, and what it learned is applied."""
    data = is_planned(box, 0.02)
    small = ("sampler.batch_size=40", "model.hidden=32", "optimizer.lr=0.01", "epochs=30",
             "evaluate.every=0.5")
    igbh_run(box, data, *small, "sampler.fanout=[5,4,3]", "evaluate.fanout=full").ok()
    report = read_json(box.path("runs/igbh/report.json"))
    *before, last = [e["val_accuracy"] for e in report["epochs"]]
    assert max(before) < 0.72 <= last and report["test_accuracy"] > 0.5, report["test"]
    assert "reached early_stopping.target, 0.72" in report["stopped_early"]["reason"], report
    _, said = rows(box, box.path("runs/igbh"), "--set", "test", "--classes")
    assert said["test"]["accuracy"] == report["test_accuracy"]


@whole
def test_the_job_of_mlperf_in_a_thousandth(box):
    """As it is, but for widths and labels: two mini-batches."""
    data = is_planned(box, 1)
    igbh_run(box, data, "model.hidden=32", "early_stopping.target=0", "evaluate.every=0",
             "evaluate.test=never", "epochs=2").ok()
    report = read_json(box.path("runs/igbh/report.json"))
    assert len(report["epochs"]) == 2, report
    assert report["epochs"][1]["loss"] < report["epochs"][0]["loss"]


# ---- torch_geometric's classes ------------------------------------------------------------------


def test_models_are_those_of_torch_geometric(box):
    """Each kind of model after an epoch: strict load, and the loss of the validation vertices."""
    python = python_with("torch_geometric")
    env = {**box.environment(), "TMPDIR": box.path("left")}  # it leaves its own sources there
    os.mkdir(env["TMPDIR"])
    program = [python, os.path.join(ROOT, "scripts/check_pyg.py"), "--all", papers(box, 400)]
    said = Running(box, [*program, "--epochs", "1"], env).wait(600).ok().out
    assert said.count(": ok") == 10, said

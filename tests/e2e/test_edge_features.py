"""Features of edges (model.edge_features), in models of plain graphs and of graphs of several
types: what they learn of them, that it does not depend on who works, that evaluations and
predictions agree, PyTorch Geometric's numbers."""

import json
import os
import shutil

import numpy as np

from edge_papers import AUTHORS, CLASSES, PAPERS, TYPED, WRITERS, file_of, job, papers
from harness import ROOT, Running, cases, fingerprint, python_with, read_json
from test_cuda import CPU, gpu, run
from test_cuda_typed import near, need_plugin
from test_machine_plan import described, machine, plan
from test_typed_jobs import evaluations


def of_one_weight(box):
    """Of papers that are as wide as authors."""
    def make(folder):
        shutil.copytree(papers(box), folder)
        rows = np.load(f"{folder}/node_feat.paper.npy")
        np.save(f"{folder}/node_feat.paper.npy", np.concatenate([rows, rows[:, :2]], 1))
        metadata = read_json(f"{folder}/metadata.json")
        metadata["types"][0]["feat_dim"] = CLASSES
        with open(f"{folder}/metadata.json", "w", encoding="utf-8") as f:
            json.dump(metadata, f)

    return {"model.share_weights": True, "dataset": box.shared_folder("papers-even", make)}


def trained(box, label, env=None, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label, env=env)
    result.ok()
    return report


@cases(("gat", "float32"), ("rgat", "float16"), ("gatv2", "float16"), ("rgat", "float32"),
       ("rgatv2", "float32"))
def test_learns_what_edges_tell(box, kind, mark):
    """By one layer, which reads the authors' own features."""
    changes = {"dataset": papers(box, kind, mark), "epochs": 20, "kind": kind, "model.layers": 1,
               "sampler.fanout": [WRITERS if kind in TYPED else 2 * WRITERS]}
    sees = trained(box, "sees", **changes)["test_accuracy"]
    blind = trained(box, "blind", **changes, **{"model.edge_features": False})["test_accuracy"]
    assert blind < 0.75 < 0.95 < sees, (blind, sees)


@cases(("gat", "new"), ("rgat", "all"), ("gatv2", "all"), ("rgat", "new"), ("rgatv2", "new"))
def test_same_bits_for_every_split(box, kind, expand):
    found = {}
    changes = {"kind": kind, "sampler.expand": expand, "updates.batches_per_update": 4}
    for samplers, trainers in ((1, 1), (2, 1), (1, 2), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        report = trained(box, f"s{samplers}t{trainers}", allocation=split, **changes)
        found[samplers, trainers] = fingerprint(report)
    assert all(f == found[1, 1] for f in found.values()), found


@cases("gat", "rgat")
def test_same_bits_from_a_drive(box, kind):
    """Features of vertices come from there, those of edges from files that are mapped."""
    found = [trained(box, where, kind=kind, **{"store.features": where})
             for where in ("memory", "storage")]
    assert found[0]["params_sha256"] == found[1]["params_sha256"]


@cases(("gat", "sampler_drawn:5"), ("rgat", "trainer_infer:2"), ("gat", "trainer_gradient:7"),
       ("gat", "trainer_infer:2"), ("rgat", "sampler_drawn:5"), ("rgat", "trainer_gradient:7"),
       ("rgatv2", "trainer_gradient:7"))
def test_a_worker_dies(box, kind, point):
    split = {"allocation": {"samplers": 2, "trainers": 2, "switching": False}, "kind": kind}
    whole = trained(box, "whole", **split)
    killed = trained(box, "killed", env={"SLUICE_FAILPOINT": point}, **split)
    assert len(killed["restarts"]) == 1, killed["restarts"]
    assert fingerprint(killed) == fingerprint(whole)


@cases("gat", "gatv2", "rgat", "rgatv2")
def test_a_full_evaluation_is_exact(box, kind):
    """Layer by layer, by mini-batches with all neighbours, and of predictions."""
    report = trained(box, "full", kind=kind)
    found = [evaluations(report)]
    for label, batch in (("small", 7), ("large", 400)):
        batches = {"evaluate.fanout": [-1, -1], "evaluate.batch_size": batch}
        found.append(evaluations(trained(box, label, kind=kind, **batches)))
    for accuracy, losses in found[1:]:
        assert accuracy == found[0][0], found
        assert np.allclose(losses, found[0][1], rtol=1e-5, atol=0), found
    folder = papers(box, kind)
    labels, test = np.load(f"{folder}/node_label.npy"), np.load(f"{folder}/test_idx.npy")
    rows = {}
    for chunk in ("7", "100", "100000"):  # mini-batches of few; layer by layer
        options = ["--out", "logits.npy", "--chunk", chunk, "--force", "-q"]
        box.sluice("predict", "runs/full", *options).ok()
        rows[chunk] = np.load(box.path("logits.npy"))
        right = rows[chunk][test].argmax(1) == labels[test]
        assert abs(right.mean() - report["test_accuracy"]) < 1e-9, chunk
        assert np.abs(rows[chunk] - rows["7"]).max() < 1e-5
    of, wanted = (["--type", "author"], AUTHORS) if kind in TYPED else ([], PAPERS + AUTHORS)
    box.sluice("embed", "runs/full", *of, "--out", "rows.npy", "-q").ok()
    assert np.load(box.path("rows.npy")).shape == (wanted, 16)


@cases(("gat", False), ("rgatv2", True), ("gatv2", False), ("rgat", False), ("rgatv2", False))
def test_pyg_computes_the_same(box, kind, shares):
    python = python_with("torch_geometric")
    trained(box, "job", kind=kind, **(of_one_weight(box) if shares else {}))
    env = {**box.environment(), "TMPDIR": box.path("left")}  # it leaves its own sources there
    os.mkdir(env["TMPDIR"])
    program = [python, os.path.join(ROOT, "scripts/check_pyg.py"), box.path("runs/job")]
    said = Running(box, program, env).wait(600).ok().out
    loads = "strict load into " + ("TypedModel" if kind in TYPED else "GAT")
    assert loads in said and ": ok" in said, said


@cases("gat", "rgat")
def test_a_run_goes_on_with_these_edges_alone(box, kind):
    """Other features of edges are other data."""
    folder = box.path("data")
    shutil.copytree(papers(box, kind), folder)
    of = {"dataset": folder, "kind": kind}
    trained(box, "job", epochs=1, **of)
    whole = trained(box, "whole", epochs=2, **of)
    again = trained(box, "job", epochs=2, **of)
    assert again["params_sha256"] == whole["params_sha256"]
    rows = np.load(f"{folder}/{file_of(kind)}")
    np.save(f"{folder}/{file_of(kind)}", rows + 1)
    result, _ = box.run(job(box, output="runs/job", epochs=3, **of), name="again")
    result.error(2, "data set")


@cases("gat", "rgat")
def test_what_cannot_be_is_refused(box, kind):
    def said(*parts, **changes):
        result, _ = box.run(job(box, output="runs/bad", kind=kind, **changes), name="bad")
        result.error(2, *parts)
        assert not os.path.exists(box.path("runs/bad"))

    if kind in TYPED:
        said(r"model\.edge_features: found", 'only with "gat", "gatv2", "rgat" or "rgatv2"',
             model={"kind": "hgt", "layers": 2, "hidden": 16, "heads": 2, "edge_features": True})
    file, folder = file_of(kind), box.path("data")
    shutil.copytree(papers(box, kind), folder)
    rows = np.load(f"{folder}/{file}")
    np.save(f"{folder}/{file}", rows[1:])
    said(rf"{file}: is float32 \({len(rows) - 1}, 3\)", f"{len(rows)} edges", dataset=folder)
    np.save(f"{folder}/{file}", rows.astype(np.int64))
    said(rf"{file}: is int64", "float32 or float16", dataset=folder)
    rows[3, 1] = np.nan
    np.save(f"{folder}/{file}", rows)
    said(rf"{file}: row 3, column 1 is NaN", dataset=folder)
    os.unlink(f"{folder}/{file}")
    if kind in TYPED:
        os.unlink(f"{folder}/edge_feat.paper.by.author.npy")
    wanted = r"edge_feat\.SOURCE\.NAME\.TARGET\.npy" if kind in TYPED else r"edge_feat\.npy"
    said(f"has no {wanted}", r"model\.edge_features", dataset=folder)


# ---- plain graphs alone --------------------------------------------------------------------------


def test_a_plan_counts_them(box):
    """On this machine and on another one, also where metadata.json alone says that they are."""
    folder = papers(box, "gat")
    n = len(np.load(f"{folder}/{file_of('gat')}"))
    alone = described(box, folder, {"edge_features": 3})
    for reads in (True, False):
        path = box.job(job(box, kind="gat", devices="auto", **{"model.edge_features": reads}))
        for more in (), ("--set", f"dataset={alone}"):
            said = plan(box, path, *machine(1, drive=6e9), *more)
            found = said["store"], said["machine"]["memory"]
            assert [f["edge_feature_bytes"] for f in found] == 2 * [12 * n * reads], found
            here = plan(box, path, *more)
            assert here["num_params"] == said["num_params"], here
            assert here["store"]["edge_feature_bytes"] == 12 * n * reads, here["store"]
            text = box.sluice("run", path, "--dry-run", *more).ok().out
            assert ("edges, 3 features of each" in text) == reads, text


@cases("gat", "gatv2")
def test_gpus_compute_what_cores_do(box, kind):
    """Emulated ones."""
    need_plugin()
    changes = {"kind": kind, "epochs": 2, "precision": "fp32",
               "allocation": {"samplers": 1, "trainers": 1, "switching": False}}
    wanted = trained(box, "cores", devices=[CPU, CPU], **changes)
    result, found = run(box, job(box, devices=[CPU, gpu(0)], output="runs/gpu", **changes),
                        SLUICE_SIMT_DEVICES="4")
    result.ok()
    near(found, wanted)


# ---- several types alone -------------------------------------------------------------------------


def test_inspect_tells_features_of_edges(box):
    """Their width, type and bytes by relation; of a set without there is no word of them."""
    found = box.sluice("inspect", papers(box), "-o", "json").ok().json()["relations"]
    told = [[r[key] for key in ("name", "edge_feat_dim", "edge_feat_dtype", "edge_feature_bytes")]
            for r in found]  # fmt: skip
    n = PAPERS * WRITERS
    assert told == [["writes", 3, "float32", 12 * n], ["by", 1, "float32", 4 * n]], told
    said = box.sluice("inspect", papers(box)).ok().out
    assert "3 x float32" in said and "1 x float32" in said, said
    bare = box.path("bare")
    shutil.copytree(papers(box), bare)
    os.remove(f"{bare}/{file_of('rgat')}")
    found = box.sluice("inspect", bare, "-o", "json").ok().json()["relations"]
    assert ["edge_feat_dim" in r for r in found] == [False, True], found
    os.rename(f"{bare}/edge_feat.paper.by.author.npy", f"{bare}/edge_feat.npy")  # of no relation
    found = box.sluice("inspect", bare, "-o", "json").ok().json()["relations"]
    assert not any("edge_feat_dim" in r for r in found), found
    # Of a kind that no model reads: said, and no reason to refuse the data set.
    np.save(f"{bare}/{file_of('rgat')}", np.zeros((n, 3)))
    found = box.sluice("inspect", bare, "-o", "json").ok().json()
    assert not any("edge_feat_dim" in r for r in found["relations"]), found
    assert "is float64" in found["no_edge_features"], found
    said = box.sluice("inspect", bare, "--full").ok().out
    assert "No model can read the features of edges: " in said and "is float64" in said, said


def test_links_of_edges_with_features(box):
    """The graph that a pair is scored by has them; the pair itself has none."""
    task = {"kind": "link", "relation": "writes", "exclude": "self"}
    found = []
    for trainers in (1, 2):
        split = {"samplers": 1, "trainers": trainers}
        found.append(trained(box, f"t{trainers}", task=task, allocation=split,
                             **{"evaluate.test": "never", "updates.batches_per_update": 2}))
    assert found[0]["params_sha256"] == found[1]["params_sha256"]
    assert found[0]["epochs"][-1]["loss"] < found[0]["epochs"][0]["loss"]
    np.save(box.path("pairs.npy"), np.array([[1, 2], [299, 899]], np.int32))
    box.sluice("predict", "runs/t1", "--pairs", "pairs.npy", "--out", "scores.npy", "-q").ok()
    assert np.isfinite(np.load(box.path("scores.npy"))).all()


def test_a_plan_counts_them_by_relation(box):
    plans = []
    for reads in (True, False):
        path = box.job(job(box, **{"model.edge_features": reads}))
        plans.append(box.sluice("run", path, "--dry-run", "-o", "json").ok().json()["mini_batch"])
    writes, by = (plans[0]["edges"][r] for r in plans[0]["edges"])
    more = plans[0]["feature_bytes"] - plans[1]["feature_bytes"]
    assert abs(more - 4 * (3 * writes + by)) <= 16, plans


@cases(("rgat", b"att_edge"), ("rgatv2", b"lin_r.bias"))
def test_parameters_are_named_as_theirs(box, kind, other):
    trained(box, "job", epochs=1, kind=kind)
    with open(box.path("runs/job/model.safetensors"), "rb") as f:
        names = f.read(1 << 16)
    assert b"convs.0.convs.<author___writes___paper>.lin_edge.weight" in names
    assert b"convs.1.convs.<paper___by___author>." + other in names


def test_one_weight_of_two_names_goes_on(box):
    """Whose values stand twice in a checkpoint."""
    changes = {"kind": "rgatv2", **of_one_weight(box)}
    whole = trained(box, "whole", epochs=2, **changes)
    trained(box, "job", epochs=1, **changes)
    again = trained(box, "job", epochs=2, **changes)
    assert again["params_sha256"] == whole["params_sha256"]
    apart = trained(box, "apart", epochs=1, **{**changes, "model.share_weights": False})
    assert apart["num_params"] - whole["num_params"] == 2 * (6 * 16 + 16 + 16 * 16 + 16)

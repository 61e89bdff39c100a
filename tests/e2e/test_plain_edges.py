"""Features of edges of plain graphs: gat and gatv2 with model.edge_features, as edge_dim of PyTorch
Geometric's GATConv and GATv2Conv, which see who of a vertex's neighbours is to be listened to."""

import json
import os
import shutil

import numpy as np

from harness import ROOT, Running, cases, fingerprint, python_with, small_job
from test_cuda import CPU, gpu, run
from test_cuda_typed import near, need_plugin
from test_machine_plan import described, machine, plan
from test_typed_jobs import evaluations

PAPERS, AUTHORS, CLASSES, WRITERS = 900, 300, 6, 5
FEAT = "edge_feat.npy"


def papers(box, mark="float32"):
    """Papers have five authors, one of whom is of the paper's area: the edges' features say who.
    Authors' features say their area; those of edges back are noise. Some cite themselves."""
    def make(folder):
        os.makedirs(folder)
        r = np.random.default_rng(3)
        labels, areas = r.integers(0, CLASSES, PAPERS), np.arange(AUTHORS) % CLASSES
        writers = r.integers(0, AUTHORS, (PAPERS, WRITERS))
        right = r.integers(0, WRITERS, PAPERS)
        own = r.integers(0, AUTHORS // CLASSES, PAPERS) * CLASSES + labels
        writers[np.arange(PAPERS), right] = own
        says = (np.arange(WRITERS) == right[:, None]) * 1.0
        lists, rows = [], []
        for p in range(PAPERS):
            own_loops = 1 if p % 9 == 0 else 0
            lists.append(np.append(PAPERS + writers[p], [p] * own_loops))
            rows.append(np.append(says[p], [5.0] * own_loops))
        for a in range(AUTHORS):
            lists.append(np.nonzero((writers == a).any(1))[0])
            rows.append(np.zeros(len(lists[-1])))
        says, lengths = np.concatenate(rows), [len(x) for x in lists]
        order = r.permutation(PAPERS)
        feat = np.concatenate([0.1 * r.standard_normal((PAPERS, CLASSES)), np.eye(CLASSES)[areas]])
        arrays = {
            "indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            "indices": np.concatenate(lists).astype(np.int32),
            "node_label": np.concatenate([labels, np.full(AUTHORS, -1)]).astype(np.int32),
            "node_feat": feat.astype(np.float32),
            "edge_feat": np.concatenate(
                [says[:, None], r.standard_normal((len(says), 2))], 1).astype(mark),
            "train_idx": order[:600].astype(np.int32),
            "val_idx": order[600:750].astype(np.int32),
            "test_idx": order[750:].astype(np.int32),
        }
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)
        told = {"name": "papers", "num_nodes": PAPERS + AUTHORS, "num_edges": len(says),
                "feat_dim": CLASSES, "num_classes": CLASSES, "task": "multiclass"}
        with open(f"{folder}/metadata.json", "w", encoding="utf-8") as f:
            json.dump(told, f)

    return box.shared_folder(f"plain-papers-of-edges-{mark}", make)


def job(box, dataset=None, kind="gat", **changes):
    model = {"kind": kind, "layers": 2, "hidden": 16, "heads": 2, "edge_features": True,
             "dropout": 0.1, "attention_dropout": 0.1}
    return small_job(dataset or papers(box), **{"model": model, "evaluate.test": "each", **changes})


def trained(box, label, env=None, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label, env=env)
    result.ok()
    return report


@cases(("gat", "float32"), ("gatv2", "float16"))
def test_learns_what_edges_tell(box, kind, mark):
    changes = {"dataset": papers(box, mark), "epochs": 20, "kind": kind, "model.layers": 1,
               "sampler.fanout": [2 * WRITERS]}
    sees = trained(box, "sees", **changes)["test_accuracy"]
    blind = trained(box, "blind", **changes, **{"model.edge_features": False})["test_accuracy"]
    assert blind < 0.75 < 0.95 < sees, (blind, sees)


@cases(("gat", "new"), ("gatv2", "all"))
def test_same_bits_for_every_split(box, kind, expand):
    found = {}
    changes = {"kind": kind, "sampler.expand": expand, "updates.batches_per_update": 4}
    for samplers, trainers in ((1, 1), (2, 1), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        report = trained(box, f"s{samplers}t{trainers}", allocation=split, **changes)
        found[samplers, trainers] = fingerprint(report)
    assert all(f == found[1, 1] for f in found.values()), found


def test_same_bits_from_a_drive(box):
    """Features of vertices come from there, those of edges from files that are mapped."""
    found = [trained(box, where, **{"store.features": where}) for where in ("memory", "storage")]
    assert found[0]["params_sha256"] == found[1]["params_sha256"]


@cases("sampler_drawn:5", "trainer_gradient:7", "trainer_infer:2")
def test_a_worker_dies(box, point):
    split = {"allocation": {"samplers": 2, "trainers": 2, "switching": False}}
    whole = trained(box, "whole", **split)
    killed = trained(box, "killed", env={"SLUICE_FAILPOINT": point}, **split)
    assert len(killed["restarts"]) == 1, killed["restarts"]
    assert fingerprint(killed) == fingerprint(whole)


@cases("gat", "gatv2")
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
    folder = papers(box)
    labels, test = np.load(f"{folder}/node_label.npy"), np.load(f"{folder}/test_idx.npy")
    rows = {}
    for chunk in ("7", "100000"):
        options = ["--out", "logits.npy", "--chunk", chunk, "--force", "-q"]
        box.sluice("predict", "runs/full", *options).ok()
        rows[chunk] = np.load(box.path("logits.npy"))
        right = rows[chunk][test].argmax(1) == labels[test]
        assert abs(right.mean() - report["test_accuracy"]) < 1e-9, chunk
        assert np.abs(rows[chunk] - rows["7"]).max() < 1e-5
    box.sluice("embed", "runs/full", "--out", "rows.npy", "-q").ok()
    assert np.load(box.path("rows.npy")).shape == (PAPERS + AUTHORS, 16)


@cases("gat", "gatv2")
def test_pyg_computes_the_same(box, kind):
    python = python_with("torch_geometric")
    trained(box, "job", kind=kind)
    env = {**box.environment(), "TMPDIR": box.path("left")}  # it leaves its own sources there
    os.mkdir(env["TMPDIR"])
    program = [python, os.path.join(ROOT, "scripts/check_pyg.py"), box.path("runs/job")]
    said = Running(box, program, env).wait(600).ok().out
    assert "strict load into GAT" in said and ": ok" in said, said


def test_a_plan_counts_them(box):
    """On this machine and on another one, also where metadata.json alone says that they are."""
    n = len(np.load(f"{papers(box)}/{FEAT}"))
    alone = described(box, papers(box), {"edge_features": 3})
    for reads in (True, False):
        path = box.job(job(box, devices="auto", **{"model.edge_features": reads}))
        for more in (), ("--set", f"dataset={alone}"):
            said = plan(box, path, *machine(1, drive=6e9), *more)
            found = said["store"], said["machine"]["memory"]
            assert [f["edge_feature_bytes"] for f in found] == 2 * [12 * n * reads], found
            here = plan(box, path, *more)
            assert here["num_params"] == said["num_params"], here
            assert here["store"]["edge_feature_bytes"] == 12 * n * reads, here["store"]
            text = box.sluice("run", path, "--dry-run", *more).ok().out
            assert ("edges, 3 features of each" in text) == reads, text


def test_a_run_goes_on_with_these_edges_alone(box):
    """Other features of edges are other data."""
    folder = box.path("data")
    shutil.copytree(papers(box), folder)
    trained(box, "job", dataset=folder, epochs=1)
    whole = trained(box, "whole", dataset=folder, epochs=2)
    again = trained(box, "job", dataset=folder, epochs=2)
    assert again["params_sha256"] == whole["params_sha256"]
    rows = np.load(f"{folder}/{FEAT}")
    np.save(f"{folder}/{FEAT}", rows + 1)
    result, _ = box.run(job(box, dataset=folder, output="runs/job", epochs=3), name="again")
    result.error(2, "data set")


def test_what_cannot_be_is_refused(box):
    def said(status, *parts, **changes):
        result, _ = box.run(job(box, output="runs/bad", **changes), name="bad")
        result.error(status, *parts)
        assert not os.path.exists(box.path("runs/bad"))

    folder = box.path("data")
    shutil.copytree(papers(box), folder)
    rows = np.load(f"{folder}/{FEAT}")
    np.save(f"{folder}/{FEAT}", rows[1:])
    said(2, rf"{FEAT}: is float32 \({len(rows) - 1}, 3\)", f"says {len(rows)} edges",
         dataset=folder)
    np.save(f"{folder}/{FEAT}", rows.astype(np.int64))
    said(2, rf"{FEAT}: is int64", "float32 or float16", dataset=folder)
    rows[3, 1] = np.nan
    np.save(f"{folder}/{FEAT}", rows)
    said(2, rf"{FEAT}: row 3, column 1 is NaN", dataset=folder)
    os.unlink(f"{folder}/{FEAT}")
    said(2, "has no edge_feat.npy", r"model\.edge_features", dataset=folder)


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

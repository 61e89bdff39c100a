"""Jobs of links: what they learn, that it does not depend on who works, and scores of pairs."""

import csv
import os
import shutil

import numpy as np

from harness import cases, planted, read_json, small_job, whole, write_dataset
from test_bad_input import refused


def links(box, name="links", **options):
    """A graph whose edges join vertices of a class, with 5 % and 10 % of its pairs held out."""
    def make(folder):
        os.makedirs(folder)
        write_dataset(folder + "/whole", planted(n=900, noise=1.0))
        more = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        box.sluice("split-edges", folder + "/whole", "--out", folder + "/data", "-q", *more).ok()

    return box.shared_folder(name, make) + "/data"


def job(box, /, **changes):
    changes = {"task": {"kind": "link"}, "model.dropout": 0.0, "epochs": 2, **changes}
    return small_job(links(box), **{"sampler.batch_size": 256, **changes})


def trained(box, label, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label)
    result.ok()
    return report


MEASURES = ("hits", "mrr", "roc_auc", "average_precision", "loss")


def fingerprint(report):
    assert report["status"] == "done", report["status"]
    batches, epochs = report["batches"], report["epochs"]
    assert batches["trained"] == batches["scheduled"], batches
    return (
        report["params_sha256"],
        report["samples_digest"],
        [e["loss"] for e in epochs],
        [[e["val"][m] for m in MEASURES] for e in epochs],
        [report["test"][m] for m in MEASURES],
    )


WAYS = {
    "plain": {},
    "batch": {"task.negatives": "batch", "task.loss": "softmax", "task.per_positive": 5},
    "hard": {"task": {"kind": "link", "per_positive": 3, "loss": "margin", "hard": {
        "kind": "walks", "per_positive": 2, "first_rank": 3, "last_rank": 20, "paths": 20}}},
    "degree": {"task.negatives": "degree", "task.per_positive": 3, "task.loss": "bpr",
               "model.kind": "gcn"},
    "walks": {"task.loss": "margin", "task.decoder": "cosine", "sampler.kind": "walk",
              "model.kind": "pinsage"},
    "labor": {"task.decoder": "mlp", "task.combine": "concat", "sampler.kind": "labor",
              "model.kind": "gat", "model.heads": 2, "model.jumping": "cat"},
    "new": {"task.decoder": "bilinear", "task.strict": "all", "task.exclude": "self",
            "sampler.expand": "new"},
    "kept": {"task.decoder": "distmult", "task.exclude": "none", "model.norm": "batch",
             "cache.policy": "presc"},
}


def same_bits(box, way):
    found = {}
    for samplers, trainers in ((1, 1), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        changes = {"updates.batches_per_update": 4, "allocation": split, **WAYS[way]}
        found[samplers, trainers] = fingerprint(trained(box, f"s{samplers}", **changes))
    assert found[1, 1] == found[2, 2], found


@cases("plain", "batch", "hard")
def test_same_bits_for_every_split(box, way):
    same_bits(box, way)


@whole
@cases("degree", "walks", "labor", "new", "kept")
def test_same_bits_of_other_ways(box, way):
    same_bits(box, way)


# A number of 4 bytes a training pair, in two banks.
def test_a_dry_run_says_what_orders_take(box):
    config = job(box)
    n = len(np.load(config["dataset"] + "/indices.npy"))  # all edges of the graph are pairs
    plan = box.sluice("run", box.job(config), "--dry-run", "-o", "json").ok().json()
    assert plan["order_bytes"] == 2 * 4 * n > 0, (plan["order_bytes"], n)
    text = box.sluice("run", box.job(config), "--dry-run").ok().out
    size = f"{2 * 4 * n / 1024:.3g} KiB"
    assert f"{n:,} edges to train with, whose orders of two epochs take {size}" in text, text


def test_a_dry_run_says_what_strict_takes(box):
    """8 bytes for each edge that a list has: of the validation and the test here."""
    config = job(box, **{"task.strict": "all"})
    n = sum(len(np.load(f"{config['dataset']}/{s}_edges.npy")) for s in ("val", "test"))
    plan = box.sluice("run", box.job(config), "--dry-run", "-o", "json").ok().json()
    assert plan["strict_bytes"] == 8 * n > 0, (plan["strict_bytes"], n)
    text = box.sluice("run", box.job(config), "--dry-run").ok().out
    assert f"8 bytes for each listed edge: {8 * n / 1024:.2f} KiB of memory" in text, text
    graph = box.job(job(box, **{"task.strict": "graph"}))
    plan = box.sluice("run", graph, "--dry-run", "-o", "json").ok().json()
    assert "strict_bytes" not in plan, plan["strict_bytes"]


def auc(positive, negative):
    order = np.sort(negative)
    below = np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")
    return below.mean() / 2 / len(negative)


def test_learns_and_predicts(box):
    report = trained(box, "job", epochs=20)
    assert report["test"]["roc_auc"] > 0.75, report["test"]["roc_auc"]
    data = links(box)
    test = np.load(data + "/test_edges.npy")
    rng = np.random.default_rng(1)
    others = rng.integers(0, 900, (len(test) * 5, 2))
    pairs = np.concatenate([test, others]).astype(np.int64)
    np.save(box.path("pairs.npy"), pairs)
    for out in ("scores.npy", "scores.csv"):
        box.sluice("predict", "runs/job", "--pairs", "pairs.npy", "--out", out).ok()
    scores = np.load(box.path("scores.npy"))
    assert scores.dtype == np.float32 and scores.shape == (len(pairs),)
    box.sluice("embed", "runs/job", "--out", "rows.npy").ok()
    rows = np.load(box.path("rows.npy")).astype(np.float64)
    exact = (rows[pairs[:, 0]] * rows[pairs[:, 1]]).sum(1)
    assert np.abs(scores - exact).max() < 1e-4 * np.abs(exact).max()
    assert abs(auc(scores[: len(test)], scores[len(test):]) - report["test"]["roc_auc"]) < 0.06
    with open(box.path("scores.csv")) as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["source", "target", "score"] and len(lines) == len(pairs) + 1
    assert [int(word) for word in lines[1][:2]] == pairs[0].tolist()
    assert np.float32(lines[-1][2]) == scores[-1]


def test_negatives_of_the_data_set(box):
    """Each positive is ranked among its own ones; what the report says follows from the scores."""
    data = links(box)
    folder = box.shared_folder("given", lambda folder: give_negatives(data, folder))
    result, report = box.run(job(box, dataset=folder), name="job")
    result.ok()
    test, own = np.load(folder + "/test_edges.npy"), np.load(folder + "/test_neg_target.npy")
    pairs = np.concatenate([test, np.stack([np.repeat(test[:, 0], own.shape[1]), own.ravel()], 1)])
    np.save(box.path("pairs.npy"), pairs)
    box.sluice("predict", "runs/job", "--pairs", "pairs.npy", "--out", "s.npy").ok()
    scores = np.load(box.path("s.npy"))
    positive, negative = scores[: len(test), None], scores[len(test):].reshape(own.shape)
    above, ties = (negative > positive).sum(1), (negative == positive).sum(1)
    rank = 1 + above + ties / 2
    assert abs((1 / rank).mean() - report["test"]["mrr"]) < 0.02, (1 / rank).mean()
    assert report["best_metric"]["name"] == "mrr", report["best_metric"]
    assert "each edge has negatives of its own" in result.out, result.out
    assert "Hits@50 is 1 whatever the model says: there are 20 negatives for each" in result.err


def give_negatives(data, out):
    shutil.copytree(data, out)
    rng = np.random.default_rng(3)
    for split in ("val", "test"):
        n = len(np.load(f"{out}/{split}_edges.npy"))
        np.save(os.path.join(out, f"{split}_neg_target.npy"), rng.integers(0, 900, (n, 20)))


def give_training(data, out, own):
    shutil.copytree(data, out)
    edges = np.load(f"{out}/val_edges.npy")  # some pairs to train with
    np.save(f"{out}/train_edges.npy", edges)
    rng = np.random.default_rng(4)
    drawn = rng.integers(0, 900, (len(edges), 3) if own else (500, 2))
    np.save(f"{out}/train_neg{'_target' if own else ''}.npy", drawn)


@cases("pool", "own")
def test_given_negatives_to_train_with(box, kind):
    data = links(box)
    folder = box.shared_folder(f"given-{kind}",
                               lambda out: give_training(data, out, kind == "own"))
    found = []
    for samplers, negatives in ((1, "given"), (2, "given"), (1, "uniform")):
        task = {"kind": "link", "negatives": negatives, "per_positive": 3}
        split = {"samplers": samplers, "trainers": samplers}
        report = trained(box, f"{negatives}{samplers}", dataset=folder, task=task,
                         allocation=split, **{"sampler.batch_size": 64})
        found.append(fingerprint(report))
    assert found[0] == found[1] != found[2], found


def test_given_negatives_that_are_none(box):
    data = links(box)
    given = {"kind": "link", "negatives": "given"}
    result, _ = box.run(job(box, task=given))
    refused(box, result, "task.negatives", "given", "train_neg.npy", "train_neg_target.npy")
    folder = box.shared_folder("given-own", lambda out: give_training(data, out, True))
    result, _ = box.run(job(box, dataset=folder, task={**given, "per_positive": 4}))
    refused(box, result, "task.per_positive", "found 4", "3 targets", "at most 3")
    lent = {"model": {"kind": "external"}, "features": {"kind": "file"}}
    result, _ = box.run(job(box, dataset=folder, task=given, **lent))
    refused(box, result, "task.negatives", "given", "external")


def test_hard_negatives_by_curriculum(box):
    """Each epoch has one more, the last ones; where walks meet too few, others stand for them."""
    hard = {"kind": "walks", "per_positive": 2, "from_epoch": 2, "first_rank": 2, "last_rank": 9}
    task = {"kind": "link", "per_positive": 3, "hard": hard}
    report = trained(box, "easy", task=task, epochs=4)
    n = report["epochs"][0]["positives"]
    counts = [(e["hard_negatives"], e["hard_missing"]) for e in report["epochs"]]
    assert [sum(pair) for pair in counts] == [0, n, 2 * n, 2 * n], counts
    assert all(missing < n / 10 for _, missing in counts), counts
    hard.update(first_rank=50, last_rank=60, paths=20)
    result, report = box.run(job(box, task=task, epochs=2, output="runs/few"), name="few")
    last = report["epochs"][1]
    assert last["hard_missing"] > last["hard_negatives"], last
    assert "too few vertices for a hard negative" in result.ok().err, result.err
    assert "others stand for missing ones" in result.out, result.out


def test_wrong_tasks(box):
    def hard(**keys):
        return {"task": {"kind": "link", "hard": {"kind": "walks", **keys}}}

    for changes, words in (
        (hard(per_positive=2), ("task.hard.per_positive", "found 2", "task.per_positive 1")),
        (hard(first_rank=9, last_rank=8), ("task.hard.last_rank", "found 8", "first_rank 9")),
        (hard(first_rank=31, paths=10), ("task.hard.first_rank", "found 31", "10 walks")),
        (hard(kind="none", paths=5), ("task.hard.paths", "walks")),
        ({"task": {**hard()["task"], "negatives": "batch"}}, ("task.hard.kind", "batch")),
        ({"task.decoder": "dott"}, ("task.decoder", "dot")),
        ({"task.margin": 0.5}, ("task.margin", "margin")),
        ({"evaluate.fanout": [5, 5]}, ("evaluate.fanout", "full")),
        ({"loss.class_weights": "balanced"}, ("loss.class_weights", "link")),
        ({"evaluate.metric": "accuracy"}, ("evaluate.metric", "hits")),
    ):
        result, _ = box.run(job(box, **changes))
        refused(box, result, *words)
    result, _ = box.run(small_job(box.shared_dataset("small"), **{"evaluate.metric": "hits"}))
    refused(box, result, "evaluate.metric", "hits")


def test_losses_are_told_apart(box):
    """That of an evaluation is bce."""
    for loss, name in (("margin", ", bce loss 0."), ("bce", ", loss 0.")):
        result, _ = box.run(job(box, epochs=1, **{"task.loss": loss, "output": f"runs/{loss}"}))
        evaluation = result.ok().out.split("\nvalidation")[1].split("\n")[0]
        assert name in evaluation, evaluation


def test_nothing_to_learn_or_to_judge_by(box):
    """What the message advises is followed."""
    folder = box.path("empty")
    shutil.copytree(links(box), folder)
    for split in ("train", "val", "test"):
        np.save(f"{folder}/{split}_edges.npy", np.zeros((0, 2), np.int64))
    result, _ = box.run(job(box, dataset=folder))
    refused(box, result, "train_edges.npy is", "remove it")
    os.remove(f"{folder}/train_edges.npy")
    result = box.sluice("run", box.job(job(box, dataset=folder)), "--dry-run").ok()
    assert "note: the data set has no edges to validate or to test" in result.err, result.err
    result = box.sluice("run", box.job(job(box)), "--dry-run").ok()
    assert "note:" not in result.err, result.err


def test_pairs_that_are_none(box):
    trained(box, "job", epochs=1)
    for pairs, words in (
        ([[0, 900]], ("pairs.npy", "the target of pair 0 is 900", "899")),
        ([0, 1], ("pairs.npy", r"\(n, 2\)")),
        ([[0.5, 1]], ("pairs.npy", "int32 or int64")),
    ):
        np.save(box.path("pairs.npy"), np.array(pairs))
        box.sluice("predict", "runs/job", "--pairs", "pairs.npy", "--out", "s.npy").error(2, *words)
    box.sluice("predict", "runs/job", "--out", "s.npy").error(2, "of links", "--pairs")
    np.save(box.path("pairs.npy"), np.zeros((0, 2), np.int64))
    box.sluice("predict", "runs/job", "--pairs", "pairs.npy", "--out", "s.npy").ok()
    assert np.load(box.path("s.npy")).shape == (0,)


def test_report_names(box):
    result, report = box.run(job(box, epochs=1, **{"task.per_positive": 3, "evaluate.k": 20}))
    assert "val Hits@20 " in result.ok().err and "pairs right 0." in result.err, result.err
    assert "test        ROC-AUC" in result.out and "Hits@20 0." in result.out, result.out
    assert "uniform negatives a second" in result.out, result.out
    table = box.sluice("report", "runs/job").ok().out.split("Epochs")[1]
    assert "  pairs right  Hits@20 " in table, table
    epoch = report["epochs"][0]
    assert epoch["negatives"] == 3 * epoch["positives"] > 0, epoch
    assert set(report["test"]) == set(MEASURES), report["test"]
    assert report["best_metric"]["name"] == "hits" and report["test_accuracy"] is None

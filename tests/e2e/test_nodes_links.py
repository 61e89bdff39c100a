"""One job of links on several nodes: it comes to what it comes to on one, whatever its pairs and
negatives are, and whatever dies meanwhile."""

import shutil

import numpy as np

from harness import cases, whole
from nodes import Nodes, Ranks
from test_link_jobs import MEASURES, give_training, links
from test_link_jobs import WAYS as PLAIN
from test_nodes_run import MPIS, ended, log_of_node, lose_a_node, nodes_job, report_of, start
from test_typed_links import WAYS as TYPED
from test_typed_links import tastes
from test_val_edges import KEY as WIDER

# All of a job's own: a decoder with weights, hard negatives, and a test after each epoch, of
# another graph.
FULL = {
    "task": {**PLAIN["hard"]["task"], "decoder": "mlp"},
    "evaluate.test": "each",
    WIDER: True,
}
SPREAD = {"allocation": {"samplers": 2, "trainers": 2, "switching": False}}
DIES = {"task": FULL["task"], "checkpoint.every_updates": 2}


def fingerprint(report):
    """What does not depend on who worked: parameters, losses, metrics, counts of negatives."""
    assert report["status"] == "done", report
    epochs, batches = report["epochs"], report["batches"]
    assert batches["trained"] == batches["scheduled"], batches
    evaluations = [e[s] for e in epochs for s in ("val", "test") if e.get(s)] + [report["test"]]
    counts = ("loss", "positives", "negatives", "sampled_edges", "input_nodes", "batches")
    hard = ("hard_negatives", "hard_missing")
    return repr([
        report["params_sha256"],
        report["samples_digest"],
        report["best_epoch"],
        [[e[key] for key in counts] + [e.get(key) for key in hard] for e in epochs],
        [[found[m] for m in MEASURES] for found in evaluations],
    ])  # fmt: skip


def dataset_of(box, kind):
    if kind.startswith("given"):
        own = kind == "given own"
        fill = lambda out: give_training(links(box), out, own)  # noqa: E731
        return box.shared_folder(f"nodes-{kind.replace(' ', '-')}", fill)
    return tastes(box) if kind.startswith("typed") else links(box)


def job(box, kind="plain", /, **changes):
    typed = {"model": {"kind": "rsage", "layers": 2, "hidden": 16, "dropout": 0.1},
             "sampler": {"fanout": [5, 5], "batch_size": 256, "expand": "new"}}  # fmt: skip
    usual = {"task": {"kind": "link"}, "sampler.batch_size": 256, "epochs": 2}
    more = {**usual, **(typed if kind.startswith("typed") else {}), **changes}
    return nodes_job(box, more.pop("dataset", None) or dataset_of(box, kind), **more)


def alone(box, kind, **changes):
    def compute():
        config = {**job(box, kind, **changes), "output": "runs/undisturbed", "nodes": 1}
        result, report = box.run(config, name="undisturbed")
        result.ok()
        return fingerprint(report)

    return box.shared_value(f"nodes-links-{kind.replace(' ', '-')}", compute)


def check_same(box, kind, nodes, changes, more=None, only=None):
    """On these nodes, with more that changes no bit."""
    config = job(box, kind, **changes, **(more or {}))
    ended(nodes, start(box, nodes, config, only=only)).ok()
    assert fingerprint(report_of(box)) == alone(box, kind, **changes)


GIVEN = {"task": {"kind": "link", "per_positive": 2, "negatives": "given"}}


@cases(
    ("full", 2, FULL),
    ("degree", 3, PLAIN["degree"]),
    ("batch", 4, PLAIN["batch"]),
    ("given", 2, GIVEN),
    ("given own", 3, GIVEN),
    ("typed", 2, {**TYPED["hard"], "optimizer.clip_norm": 0.5}),
)
def test_bits_are_those_of_one_node(box, kind, n, changes):
    check_same(box, kind, Ranks(box, MPIS[0], n), changes, SPREAD if n == 2 else None)


@whole
@cases(
    ("walks", 2, PLAIN["walks"]),
    ("labor", 3, PLAIN["labor"]),
    ("kept", 2, PLAIN["kept"]),
    ("drive", 2, {"store.features": "storage"}),
    ("typed walks", 2, {**TYPED["walks"], WIDER: True}),
    ("typed rgcn", 3, TYPED["rgcn"]),
    ("typed mlp", 2, TYPED["mlp"]),
)
def test_bits_are_those_of_one_node_whatever_it_has(box, kind, n, changes):
    check_same(box, kind, Ranks(box, MPIS[0], n), changes)


@whole
@cases(*MPIS)
def test_bits_are_those_of_one_node_over_a_network(box, mpi):
    check_same(box, "full", Nodes(box, mpi, 3), FULL)


@cases("sampler_drawn:4", "trainer_gradient:3", "trainer_infer:2")
def test_a_worker_that_dies_on_one_node_changes_nothing(box, point):
    only = {1: f"export SLUICE_FAILPOINT={point}"}
    check_same(box, "full", Ranks(box, MPIS[0], 2), FULL, only=only)
    assert "was killed by SIGKILL" in log_of_node(box, 1)


@cases(2, 1)
def test_a_node_that_is_lost_ends_the_job_which_goes_on_with_fewer(box, n):
    config = job(box, "dies", **DIES)
    lose_a_node(box, Ranks(box, MPIS[0], 3), config, 8)
    nodes = Ranks(box, MPIS[0], n)
    if n == 1:
        box.run({**config, "nodes": 1})[0].ok()
    else:
        ended(nodes, start(box, nodes, config, name="rest")).ok()
    assert "going on from" in log_of_node(box, 0)
    assert fingerprint(report_of(box)) == alone(box, "dies", **DIES)


def test_pairs_that_differ_are_refused_and_named(box):
    """Of the data set's lists, as of its other files."""
    other = box.path("other")
    shutil.copytree(links(box), other)
    np.save(f"{other}/test_edges.npy", np.load(f"{other}/test_edges.npy")[::-1])
    only = {1: 'set -- "$@" --set dataset=' + other}
    nodes = Ranks(box, MPIS[0], 2)
    result = ended(nodes, start(box, nodes, job(box), only=only))
    assert result.rc == 2 and "data set test_edges.npy: found" in result.err, str(result)
    box.assert_no_run()


def test_shards_are_refused(box):
    box.sluice("partition", links(box), "--parts", 2, "--method", "random", "--out",
               box.path("shards"), "-q").ok()
    nodes = Ranks(box, MPIS[0], 2)
    result = ended(nodes, start(box, nodes, job(box, dataset=box.path("shards"))))
    assert result.rc == 2 and 'task.kind: found "link"' in result.err, str(result)
    assert "is shard 0 of 2" in result.err, str(result)
    box.assert_no_run()


@cases("plain", "typed")
def test_a_dry_run_plans_several_nodes(box, kind):
    plan = box.sluice("run", box.job(job(box, kind, nodes=2)), "--dry-run", "-o", "json", "-q")
    plan = plan.ok().json()["nodes"]
    assert (plan["features"], plan["count"]) == ("whole", 2), plan
    assert "have no shards" in plan["note"], plan
    assert all(epoch["update_bytes"] > 0 for epoch in plan["epochs"]), plan

"""Jobs on graphs of several types: what they learn, that it does not depend on who works, fanouts
by relation, and what is not there yet."""

import numpy as np

from harness import cases, fingerprint, read_json, small_job, whole
from test_bad_input import refused
from test_external import begin, borrow
from test_external import job as lent_job

WRITES, REVIEWS = "author -writes-> paper", "author -reviews-> paper"


def papers(box, n=1600):
    """Papers whose area only the fields of their authors tell."""
    def make(folder):
        box.sluice("generate", "typed", "--nodes", str(n), "--out", folder, "-q").ok()
        n_edges = read_json(folder + "/metadata.json")["num_edges"]
        weights = np.random.default_rng(1).integers(0, 4, n_edges)
        np.save(folder + "/edge_weight.npy", weights.astype(np.float32))

    return box.shared_folder(f"papers-{n}", make)


def job(box, **changes):
    return small_job(
        papers(box),
        **{
            "model": {"kind": "rsage", "layers": 2, "hidden": 16, "dropout": 0.1},
            "sampler.expand": "new",
            "epochs": 2,
            **changes,
        },
    )


def trained(box, label, env=None, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label, env=env)
    result.ok()
    return report


# ---- what a job may ask for ---------------------------------------------------------------------


def plan(box, *settings, config=None):
    path = box.job(config or lent_job(box, dataset=papers(box)))
    sets = [word for s in settings for word in ("--set", s)]
    return box.sluice("run", path, "--dry-run", *sets)


def test_a_plan_has_types_and_relations(box):
    said = plan(box).ok().out
    assert "3 types, 6 relations, 8 classes\n  paper: 1,600 vertices, 32 features, 200 KiB" in said
    assert "  author: 800 vertices, no features\n" in said, said
    assert f"  {WRITES}: 8,000 edges\n" in said, said
    path = box.job(lent_job(box, dataset=papers(box)))
    found = box.sluice("run", path, "--dry-run", "-o", "json").ok().json()
    inspected = box.sluice("inspect", papers(box), "-o", "json").ok().json()
    assert found["types"] == inspected["types"]
    for relation in inspected["relations"]:
        for key in "mean_degree", "max_degree", "empty_rows":
            del relation[key]
    assert found["relations"] == inspected["relations"]
    sizes = sum(t["feature_bytes"] for t in found["types"])
    assert found["store"]["feature_bytes"] == sizes > 0


REFUSED = {
    'sampler.fanout={"wrote": [1, 1], "*": [1, 1]}':
        ("sampler.fanout", '"wrote"', "no relation", f'"{WRITES}"', '"field -studied_by-> author"'),
    'sampler.fanout={"writes": [1, 1]}':
        ("sampler.fanout", f'no list for "{REVIEWS}"', '"*"'),
    'sampler.fanout={"writes": [1, 1], "author -writes-> paper": [1, 1], "*": [0, 0]}':
        ("sampler.fanout", "same relation"),
    'sampler.fanout={"writes": [1, 1], "*": [1]}': ("sampler.fanout", '"*": found 1 entry'),
    "sampler.kind=walk": ("sampler.kind", '"walk"', "khop"),
    "cache.policy=degree": ("cache.policy", "auto or none", 'store.features to "storage"'),
    "order.kind=proximity": ("order.kind", "shuffled"),
    "nodes=2": ("nodes: found 2", "set it to 1"),
    "sampler.disjoint=true": ("sampler.disjoint", "take it out"),
}


def test_what_is_not_there_is_refused(box):
    for setting, words in REFUSED.items():
        refused(box, plan(box, setting), *words)
    # Following the advice.
    plan(box, 'sampler.fanout={"writes": [1, 1], "*": [1, 1]}').ok()


def test_kinds_of_models_and_of_graphs_go_together(box):
    said = plan(box, config=job(box, **{"model.kind": "graphsage"}))
    refused(box, said, "model.kind", '"graphsage"', "several types", '"rsage"', '"external"')
    plain = small_job(box.shared_dataset("small"), **{"model.kind": "rsage"})
    refused(box, plan(box, config=plain), "model.kind", '"rsage"', "one type", '"graphsage"')
    plain = small_job(box.shared_dataset("small"))
    plain["sampler"]["fanout"] = {"writes": [1, 1], "*": [2, 2]}
    refused(box, plan(box, config=plain), "sampler.fanout", "by relation", "[15, 10]")


# ---- batches for programs that attach -----------------------------------------------------------


def lent(box, label, env=None, **changes):
    """The report of a job whose batches a program looks at."""
    config = {"dataset": papers(box), "epochs": 2, "digest": True, "output": f"runs/{label}"}
    running, path = begin(box, env=env, **config, **changes)
    assert borrow(box, path).wait().rc == 0
    assert running.wait().rc == 0
    return read_json(box.path(f"runs/{label}/report.json"))


def sampled(report):
    return report["samples_digest"], [e["sampled_edges"] for e in report["epochs"]]


def test_fanouts_by_relation_reach_the_samplers(box):
    """A zero takes a relation out, a one counts its rows, and any way to say the same is the same:
    a writer a paper and its field, and with all writers five times as many."""
    one = {"fanout": {"writes": [1, 0], "studied_by": [0, 1], "*": [0, 0]}, "batch_size": 80}
    full = {"fanout": {WRITES: [-1, 0], "studied_by": [0, 1], "*": [0, 0]}, "batch_size": 80}
    few, many = lent(box, "few", sampler=one), lent(box, "many", sampler=full)
    seeds = 800
    assert all(seeds <= e["sampled_edges"] <= 2 * seeds for e in few["epochs"]), few["epochs"]
    assert all(5 * seeds < e["sampled_edges"] for e in many["epochs"]), many["epochs"]
    again = {"fanout": {"*": [0, 0], "field -studied_by-> author": [0, 1], "writes": [-1, 0]}}
    again = lent(box, "again", sampler={**again, "batch_size": 80})
    assert sampled(again) == sampled(many)
    assert [t["name"] for t in many["types"]] == ["paper", "author", "field"]
    assert many["relations"][0]["edges"] == 8000


@cases("khop", "labor")
def test_the_same_batches_whoever_draws_them(box, kind):
    sampler = {"kind": kind, "fanout": [3, 4], "expand": "new", "batch_size": 80}
    allocation = {"samplers": 2, "trainers": 1}
    one = lent(box, "one", sampler=sampler)
    killed = lent(box, "killed", env={"SLUICE_FAILPOINT": "sampler_drawn:5"}, sampler=sampler,
                  allocation=allocation)
    assert killed["restarts"], killed
    assert sampled(killed) == sampled(one)


# ---- training -----------------------------------------------------------------------------------


def learns(box, kind, n, epochs):
    """Test accuracy; that of a model that guesses; what one can reach that knows all."""
    made = read_json(papers(box, n) + "/metadata.json")["generator"]
    model = {"kind": kind, "layers": 2, "hidden": 16, "dropout": 0}
    if kind == "rgat":
        model["heads"] = 2
    report = trained(box, "job", dataset=papers(box, n), epochs=epochs, model=model,
                     **{"sampler.fanout": [-1, -1], "optimizer.lr": 0.02})
    return report["test_accuracy"], made["blind_accuracy"], made["best_accuracy"]


def test_learns_what_only_relations_tell(box):
    found, blind, best = learns(box, "rsage", 1600, 12)
    assert blind < 0.2 and 0.55 < found < best + 0.05, found
    # The fields of authors are what tells: without them it guesses.
    fanout = {"studied_by": [0, 0], "*": [5, 5]}
    without = {"sampler.fanout": fanout, "evaluate.fanout": fanout, "epochs": 4}
    report = trained(box, "without", **without)
    assert report["test_accuracy"] < blind + 0.1, report["test_accuracy"]


@whole
@cases("rsage", "rgat", "rgcn")
def test_comes_near_what_can_be_learned(box, kind):
    found, _, best = learns(box, kind, 6000, 6)
    assert abs(found - best) < 0.12, (found, best)


WAYS = {
    "plain": {},
    "all": {"sampler.expand": "all", "model.norm": "batch", "evaluate.fanout": [3, 4]},
    "weighted": {"sampler.kind": "weighted", "evaluate.fanout": {"reviews": [1, 1], "*": [3, 4]}},
    "named": {"sampler.fanout": {"reviews": [0, 0], WRITES: [4, 3], "*": [2, -1]},
              "sampler.kind": "labor", "model.norm": "layer"},
    "rgat": {"model.kind": "rgat", "model.heads": 2, "model.attention_dropout": 0.2},
    "rgcn": {"model.kind": "rgcn", "model.bases": 2},
}


def same_bits(box, way):
    found = {}
    changes = {"updates.batches_per_update": 4, **WAYS[way]}
    for samplers, trainers in ((1, 1), (2, 1), (1, 2), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        found[samplers, trainers] = fingerprint(
            trained(box, f"s{samplers}t{trainers}", allocation=split, **changes)
        )
    assert all(f == found[1, 1] for f in found.values()), found


@cases("plain", "rgat")
def test_same_bits_for_every_split(box, way):
    same_bits(box, way)


@whole
@cases("all", "weighted", "named", "rgcn")
def test_same_bits_of_other_ways(box, way):
    same_bits(box, way)


def test_a_full_evaluation_is_exact(box):
    """Whatever the size of its mini-batches, and as a list with all neighbours."""
    found = []
    for label, changes in (
        ("full", {}),
        ("small", {"evaluate.batch_size": 7}),
        ("list", {"evaluate.fanout": [-1, -1], "evaluate.batch_size": 400}),
    ):
        report = trained(box, label, **changes)
        found.append([report["test_accuracy"], *(e["val_accuracy"] for e in report["epochs"])])
    assert found[0] == found[1] == found[2], found
    result, _ = box.run(job(box, epochs=1, output="runs/said"), name="said")
    said = "mini-batches of 64 vertices with all their neighbours"
    assert f"evaluation: {said}" in result.ok().err and f" by {said}\n" in result.out, str(result)


def test_memory_of_an_evaluation_is_bounded(box):
    """Its mini-batches are the largest of all; the message says so, and what to do is followed."""
    tight = {"arena.memory": "600KiB", "sampler.fanout": [2, 1]}
    result, _ = box.run(job(box, **tight, **{"evaluate.batch_size": 400}))
    result.error(2, r"arena\.memory: found", r"take a smaller evaluate\.batch_size")
    box.run(job(box, epochs=1, **tight, **{"evaluate.batch_size": 4}))[0].ok()

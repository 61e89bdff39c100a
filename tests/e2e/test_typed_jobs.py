"""Jobs on graphs of several types: what they learn, that it does not depend on who works, fanouts
by relation, and what is not there yet."""

import json
import os
import shutil

import numpy as np

from harness import accuracies, cases, fingerprint, read_json, small_job, whole
from test_bad_input import refused
from test_external import begin, borrow
from test_external import job as lent_job

WRITES, REVIEWS = "author -writes-> paper", "author -reviews-> paper"
# Papers that a paper has writers in common with, the fields of its writers, and a field's papers.
METAPATHS = {
    "beside": [WRITES, "rev_writes"],
    "about": ["writes", "field -studied_by-> author"],
    "of": ["author -rev_studied_by-> field", "paper -rev_writes-> author"],
}
WALKS = {"sampler.kind": "walk", "sampler.metapaths": METAPATHS, "sampler.paths": 6,
         "sampler.length": 3, "sampler.restart": 0.3, "sampler.fanout": [5, 4]}


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
    for kind in inspected["types"]:
        del kind["unreached"]
    assert found["types"] == inspected["types"]
    for relation in inspected["relations"]:
        for key in "mean_degree", "max_degree", "empty_rows":
            del relation[key]
    assert found["relations"] == inspected["relations"]
    sizes = sum(t["feature_bytes"] for t in found["types"])
    assert found["store"]["feature_bytes"] == sizes > 0


@cases("new", "all")
def test_a_plan_tells_of_mini_batches(box, expand):
    """At most so many vertices and edges, and not many more, than are drawn then."""
    changes = {"sampler.expand": expand, "sampler.fanout": {"reviews": [0, 0], "*": [3, 2]}}
    config = job(box, dataset=papers(box, 6000), **changes)
    path = box.job(config)
    said = box.sluice("run", path, "--dry-run", "-o", "json").ok().json()
    forecast = said["mini_batch"]
    assert forecast["edges"][REVIEWS] == 0 < forecast["edges"][WRITES], forecast
    _, report = box.run({**config, "epochs": 1})
    epoch = report["epochs"][0]
    again = 3 * 64 if expand == "new" else 0  # of the first hop, which the second one has, too
    for found, wanted in ((sum(forecast["vertices"].values()), epoch["input_nodes"]),
                          (sum(forecast["edges"].values()) + again, epoch["sampled_edges"])):
        assert 0.97 < found * epoch["batches"] / wanted < 1.35, (found, epoch)
    width = {t["name"]: 4 * t["feat_dim"] for t in said["types"]}
    wanted = sum(width[t] * n for t, n in forecast["vertices"].items())
    assert abs(forecast["feature_bytes"] - wanted) <= sum(width.values()), forecast
    text = box.sluice("run", path, "--dry-run", "--set", "output=runs/text").ok().out
    assert "mini-batch  at most about " in text and "\ntopology    " in text, text


REFUSED = {
    'sampler.fanout={"wrote": [1, 1], "*": [1, 1]}':
        ("sampler.fanout", '"wrote"', "no relation", f'"{WRITES}"', '"field -studied_by-> author"'),
    'sampler.fanout={"writes": [1, 1]}':
        ("sampler.fanout", f'no list for "{REVIEWS}"', '"*"'),
    'sampler.fanout={"writes": [1, 1], "author -writes-> paper": [1, 1], "*": [0, 0]}':
        ("sampler.fanout", "same relation"),
    'sampler.fanout={"writes": [1, 1], "*": [1]}': ("sampler.fanout", '"*": found 1 entry'),
    "sampler.kind=walk": ("sampler.metapaths", "found none", '"walk"', "several types"),
    'sampler={"kind": "walk", "fanout": [2, 2], "metapaths": {"a": ["writes", "reviews"]}}':
        ("sampler.metapaths", f'"a": found "{REVIEWS}" behind "{WRITES}"', "leads to author"),
    'sampler={"kind": "walk", "fanout": [2, 2], "metapaths": {"a": ["studied_by"]}}':
        ("sampler.metapaths", "none that begins at type paper"),
    "order.kind=proximity": ("order.kind", "shuffled"),
}


def test_what_is_not_there_is_refused(box):
    for setting, words in REFUSED.items():
        refused(box, plan(box, setting), *words)
    # Following the advice.
    plan(box, 'sampler.fanout={"writes": [1, 1], "*": [1, 1]}').ok()


def test_learned_rows_are_those_of_types_without_features(box):
    changes = {"features.kind": "learned", "features.dim": 5}
    said = plan(box, config=job(box, **changes))
    refused(box, said, "features.kind", '"learned"', "file or both", 'take "both"')
    said = plan(box, "features.kind=both", config=job(box, **changes)).ok().out
    assert "learned     5 numbers a vertex: 80 B each" in said, said

    def all_have_features(folder):
        shutil.copytree(papers(box), folder, dirs_exist_ok=True)
        about = read_json(folder + "/metadata.json")
        for kind in about["types"]:
            if not kind.get("feat_dim"):
                kind["feat_dim"] = 1
                np.save(f"{folder}/node_feat.{kind['name']}.npy",
                        np.ones((kind["count"], 1), np.float32))
        with open(folder + "/metadata.json", "w") as file:
            json.dump(about, file)

    changes = {"features.kind": "both", "dataset": box.shared_folder("bare", all_have_features)}
    said = plan(box, config=job(box, **changes))
    refused(box, said, "features.kind", "each of whose types has features", 'take "file"')
    plan(box, "features.kind=file", config=job(box, **changes)).ok()


def test_a_plan_of_several_nodes_has_all_features_on_each(box):
    """Until the data set is partitioned."""
    said = plan(box, "nodes=2", "updates.batches_per_update=2", config=job(box)).ok().out
    assert "rows        each node has all features; after 'sluice partition " in said, said
    assert "the first epoch: 0 B of rows for training" in said, said


def test_kinds_of_models_and_of_graphs_go_together(box):
    said = plan(box, config=job(box, **{"model.kind": "graphsage"}))
    refused(box, said, "model.kind", '"graphsage"', "several types", '"rsage"', '"external"')
    plain = small_job(box.shared_dataset("small"), **{"model.kind": "rsage"})
    refused(box, plan(box, config=plain), "model.kind", '"rsage"', "one type", '"graphsage"')
    plain = small_job(box.shared_dataset("small"))
    plain["sampler"]["fanout"] = {"writes": [1, 1], "*": [2, 2]}
    refused(box, plan(box, config=plain), "sampler.fanout", "by relation", "[15, 10]")


# ---- times --------------------------------------------------------------------------------------


def timed(box):
    """The papers, where edges from authors have times, rising in each list."""
    def make(folder):
        shutil.copytree(papers(box), folder, dirs_exist_ok=True)
        rng, row, first = np.random.default_rng(7), 0, 0
        arrays = {n: np.load(f"{folder}/{n}.npy") for n in ("indptr", "indices", "edge_weight")}
        said = read_json(folder + "/metadata.json")
        count = {t["name"]: t["count"] for t in said["types"]}
        for r in said["relations"]:
            n, rows = r["edges"], count[r["target"]]
            part, ends = slice(first, first + n), arrays["indptr"][row : row + rows + 1]
            row, first = row + rows, first + n
            if r["source"] == "author":
                time = rng.integers(0, 40, n)
                order = np.lexsort((time, np.repeat(np.arange(rows), np.diff(ends))))
                for name in "indices", "edge_weight":
                    arrays[name][part] = arrays[name][part][order]
                file = "edge_time.{source}.{name}.{target}.npy".format(**r)
                np.save(f"{folder}/{file}", time[order])
        np.save(folder + "/node_time.npy", rng.integers(0, 60, count["paper"]))
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)

    return box.shared_folder("timed-papers", make)


@cases(("latest", "new"), ("uniform", "all"))
def test_jobs_by_time(box, rule, expand):
    """Training, with its evaluations: by one sampler, by two, and by one of which others die; with
    other batches than without times."""
    found = []
    more = {"dataset": timed(box), "sampler.expand": expand, "evaluate.fanout": [-1, -1]}
    more |= {"model.layers": 2, "digest": True}
    at = {**more, "sampler.time": rule, "sampler.time_strict": expand == "new"}
    for samplers, env in ((1, None), (2, None), (2, {"SLUICE_FAILPOINT": "sampler_drawn:3"})):
        report = trained(box, len(found), env, **at, **{"allocation.samplers": samplers})
        found.append([report[k] for k in ("params_sha256", "samples_digest", "test")])
        assert bool(report["restarts"]) == bool(env), report["restarts"]
    assert found[0] == found[1] == found[2], found
    other = trained(box, "without", **more, **{"epochs": 1})
    assert other["samples_digest"] != found[0][1]
    # Times go with their vertices and edges.
    box.sluice("reorder", timed(box), "--by", "degree", "--out", "sorted", "-q").ok()
    again = trained(box, "again", **{**at, "dataset": "sorted", "digest": False})
    assert again["params_sha256"] == found[0][0]


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


def test_a_report_counts_rows_by_type_and_edges_by_relation(box):
    """One more epoch adds its edges and rows to what the evaluation at the end has, too."""
    fanout = {"writes": [3, 0], "studied_by": [0, 2], "*": [0, 0]}
    few, more = (
        trained(box, f"counts{n}", epochs=n, evaluate={"every": 0, "test": "never"},
                sampler={"fanout": fanout, "expand": "new", "batch_size": 80},
                allocation={"samplers": 2, "trainers": 1})
        for n in (1, 2)
    )
    epoch = more["epochs"][1]
    drawn = {
        r["name"]: r["sampled_edges"] - before["sampled_edges"]
        for r, before in zip(more["relations"], few["relations"])
    }
    assert sum(drawn.values()) == epoch["sampled_edges"], (drawn, epoch)
    assert {name for name, n in drawn.items() if n} == {"writes", "studied_by"}, drawn
    # The second hop has the edges of the first, too.
    assert drawn["writes"] == 2 * 3 * 800 and drawn["studied_by"] > 0, drawn
    rows = sum(t["input_nodes"] for t in more["types"]) - sum(
        t["input_nodes"] for t in few["types"])
    assert rows == epoch["input_nodes"], (more["types"], epoch)
    types = {t["name"]: t for t in more["types"]}
    assert all(t["input_nodes"] > 0 and t["hits"] == 0 for t in types.values()), types
    assert types["paper"]["miss_bytes"] == types["paper"]["input_nodes"] * 32 * 4, types
    assert types["author"]["miss_bytes"] == 0, types


@cases("khop", "labor", "walk")
def test_the_same_batches_whoever_draws_them(box, kind):
    sampler = {"kind": kind, "fanout": [3, 4], "expand": "new", "batch_size": 80}
    if kind == "walk":
        sampler["metapaths"] = METAPATHS
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
    if kind in ("rgat", "rgatv2"):
        model["heads"] = 2
    recipe = {"sampler.fanout": [-1, -1], "optimizer.lr": 0.02}
    if kind == "hgt":  # whose gates and weights of relations a decay holds where they begin
        model.update(hidden=64, heads=4, dropout=0.1)
        recipe = {"sampler.fanout": [10, 10], "optimizer.lr": 0.005, "optimizer.weight_decay": 0}
        epochs += 3
    report = trained(box, "job", dataset=papers(box, n), epochs=epochs, model=model, **recipe)
    return report["test_accuracy"], made["blind_accuracy"], made["best_accuracy"]


def test_learns_what_only_relations_tell(box):
    found, blind, best = learns(box, "rsage", 1600, 12)
    assert blind < 0.2 and 0.55 < found < best + 0.05, found
    # The fields of authors are what tells: without them it guesses.
    fanout = {"studied_by": [0, 0], "*": [5, 5]}
    without = {"sampler.fanout": fanout, "evaluate.fanout": fanout, "epochs": 4}
    report = trained(box, "without", **without)
    assert report["test_accuracy"] < blind + 0.1, report["test_accuracy"]


def test_learns_along_metapaths(box):
    """From the fields of writers, and figures by metapath; without them it guesses."""
    blind = read_json(papers(box) + "/metadata.json")["generator"]["blind_accuracy"]
    recipe = {"optimizer.lr": 0.02, "model.dropout": 0, "epochs": 10}
    report = trained(box, "job", **{**WALKS, **recipe})
    assert report["test_accuracy"] > blind + 0.3, (report["test_accuracy"], blind)
    assert [r["name"] for r in report["relations"]] == sorted(METAPATHS), report["relations"]
    assert report["relations"][2]["metapath"] == METAPATHS["of"], report["relations"]
    edges = {r["name"]: r["sampled_edges"] for r in report["relations"]}
    assert min(edges.values()) > 0, edges
    less = {**WALKS, **recipe, "sampler.metapaths": {"beside": METAPATHS["beside"]}}
    report = trained(box, "less", **less)
    assert report["test_accuracy"] < blind + 0.25, (report["test_accuracy"], blind)


def test_a_plan_of_walks(box):
    config = job(box, **WALKS)
    said = plan(box, config=config).ok().out
    assert "3 types, 6 relations, 8 classes" in said and f"  {WRITES}: 8,000 edges\n" in said, said
    paths = "field -about-> paper: walks along author -writes-> paper, field -studied_by-> author"
    assert f"  {paths}\n" in said and "layer by layer over what walks meet" in said, said
    forecast = box.sluice("run", box.job(config), "--dry-run", "-o", "json").ok().json()
    edges = forecast["mini_batch"]["edges"]
    assert set(edges) == {"paper -beside-> paper", "field -about-> paper", "paper -of-> field"}
    assert edges["paper -beside-> paper"] > edges["paper -of-> field"] > 0, edges


@whole
@cases("rsage", "rgat", "rgatv2", "rgcn", "hgt")
def test_comes_near_what_can_be_learned(box, kind):
    found, _, best = learns(box, kind, 6000, 6)
    assert abs(found - best) < 0.12, (found, best)


WAYS = {
    "plain": {},
    "rsage": {"model.norm": "layer"},
    "all": {"sampler.expand": "all", "model.norm": "batch", "evaluate.fanout": [3, 4]},
    "weighted": {"sampler.kind": "weighted", "evaluate.fanout": {"reviews": [1, 1], "*": [3, 4]}},
    "named": {"sampler.fanout": {"reviews": [0, 0], WRITES: [4, 3], "*": [2, -1]},
              "sampler.kind": "labor", "model.norm": "layer"},
    "rgat": {"model.kind": "rgat", "model.heads": 2, "model.attention_dropout": 0.2,
             "model.residual": True},
    "rgatv2": {"model.kind": "rgatv2", "model.heads": 2, "model.attention_dropout": 0.2,
               "model.relations": "mean", "model.residual": True},
    "rgcn": {"model.kind": "rgcn", "model.bases": 2},
    "learned": {"features.kind": "both", "features.dim": 6, "model.input_dropout": 0.1},
    "hgt": {"model.kind": "hgt", "model.heads": 4},
    "walks": WALKS,
    "sampled walks": {**WALKS, "model.kind": "rgcn", "sampler.expand": "all",
                      "sampler.fanout": {"of": [0, 2], "*": [5, -1]}, "evaluate.fanout": [3, 4]},
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


@cases("plain", "rgat", "rgatv2", "learned", "walks")
def test_same_bits_for_every_split(box, way):
    same_bits(box, way)


@whole
@cases("all", "weighted", "named", "rgcn", "hgt", "sampled walks")
def test_same_bits_of_other_ways(box, way):
    same_bits(box, way)


def evaluations(report):
    """What is the same to the last digit, and losses, whose sums have another order."""
    found = [report["test"], *(e["val"] for e in report["epochs"])]
    return accuracies(report), [f["loss"] for f in found]


@cases("rsage", "rgat", "rgatv2", "rgcn")
def test_a_full_evaluation_is_exact(box, kind):
    """Layer by layer, and by mini-batches with all neighbours: of a list that says so."""
    found = []
    for label, changes in (
        ("full", {}),
        ("small", {"evaluate.fanout": [-1, -1], "evaluate.batch_size": 7}),
        ("large", {"evaluate.fanout": [-1, -1], "evaluate.batch_size": 400}),
    ):
        found.append(evaluations(trained(box, label, **{**WAYS[kind], **changes})))
    for accuracy, losses in found[1:]:
        assert accuracy == found[0][0], found
        assert np.allclose(losses, found[0][1], rtol=1e-5, atol=0), found


def ring(box, n=300):
    """Papers and authors of whom each has one in-edge: walks have no choice."""
    def make(folder):
        rng = np.random.default_rng(2)
        feat = rng.random((n, 6), np.float32)
        ids = rng.permutation(n)
        arrays = {"indptr": np.arange(2 * n + 1), "node_feat.paper": feat,
                  "indices": np.concatenate([n + rng.permutation(n), rng.permutation(n)]),
                  "node_label": feat[:, :4].argmax(axis=1), "train_idx": ids[:200],
                  "val_idx": ids[200:250], "test_idx": ids[250:]}
        os.makedirs(folder)
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)
        types = [{"name": "paper", "count": n, "feat_dim": 6}, {"name": "author", "count": n}]
        relations = [{"source": "author", "name": "by", "target": "paper", "edges": n},
                     {"source": "paper", "name": "next", "target": "author", "edges": n}]
        about = {"num_nodes": 2 * n, "num_edges": 2 * n, "num_classes": 4, "types": types,
                 "relations": relations}
        with open(folder + "/metadata.json", "w") as file:
            json.dump(about, file)

    return box.shared_folder("ring", make)


@cases("rsage", "rgcn")
def test_an_evaluation_walks_as_samplers_do(box, kind):
    """Where walks have no choice: layer by layer, and by mini-batches."""
    found = []
    walks = {**WALKS, "dataset": ring(box), "model.kind": kind, "sampler.restart": 0,
             "sampler.fanout": [-1, 2], "sampler.expand": "all",
             "sampler.metapaths": {"beside": ["by", "next"], "who": ["by"], "read": ["next"]}}
    for label, changes in (
        ("full", {}), ("batches", {"evaluate.fanout": [-1, 2], "evaluate.batch_size": 7})
    ):
        found.append(evaluations(trained(box, label, **{**walks, **changes})))
    assert found[0][0] == found[1][0], found
    assert np.allclose(found[0][1], found[1][1], rtol=1e-5, atol=0), found


def test_an_evaluation_by_batches_says_so(box):
    result, _ = box.run(job(box, epochs=1, **{"evaluate.fanout": [-1, -1]}))
    said = "evaluation: mini-batches of 64 vertices with all their neighbours"
    assert said in result.ok().err, str(result)
    result, _ = box.run(job(box, epochs=1, output="runs/full"), name="full")
    assert "mini-batches of" not in result.ok().err, str(result)
    said = plan(box, config=job(box, output="runs/planned")).ok().out
    assert "evaluation  layer by layer over all neighbours\n" in said, said


@cases("trainer_infer:1", "trainer_infer:2")
def test_an_evaluation_survives_a_trainer(box, point):
    two = {"allocation": {"samplers": 1, "trainers": 2}, "evaluate.test": "each"}
    whole = trained(box, "whole", **two)
    killed = trained(box, "killed", env={"SLUICE_FAILPOINT": point}, **two)
    assert killed["restarts"], killed
    assert fingerprint(killed) == fingerprint(whole)
    assert evaluations(killed) == evaluations(whole)


def test_memory_of_an_evaluation_is_bounded(box):
    """Its mini-batches are the largest of all; the message says so, and what to do is followed."""
    tight = {"arena.memory": "600KiB", "sampler.fanout": [2, 1], "evaluate.fanout": [-1, -1]}
    result, _ = box.run(job(box, **tight, **{"evaluate.batch_size": 400}))
    result.error(2, r"arena\.memory: found", r"take a smaller evaluate\.batch_size")
    box.run(job(box, epochs=1, **tight, **{"evaluate.batch_size": 4}))[0].ok()

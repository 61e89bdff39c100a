"""Jobs of links on graphs of several types: what they learn, that it does not depend on who works,
what predictions say, and what is refused."""

import json
import os
import shutil

import numpy as np

from harness import cases, fingerprint, read_json, small_job, whole
from test_bad_input import refused

USERS, ITEMS, GROUPS = 400, 300, 6
LIKES, LIKED_BY = "user -likes-> item", "item -liked_by-> user"


def rows_of(source, target, n):
    """The lists of a relation: where each row's end, and the sources by row."""
    order = np.lexsort((source, target))
    return np.cumsum(np.bincount(target, minlength=n)), source[order]


def save(folder, arrays, metadata):
    os.makedirs(folder, exist_ok=True)
    for name, array in arrays.items():
        np.save(f"{folder}/{name}.npy", array)
    with open(f"{folder}/metadata.json", "w", encoding="utf-8") as file:
        json.dump(metadata, file)


def tastes(box, relation=LIKES):
    """Users like items of their group, which noisy features and the others' likes tell. Items, the
    first type, have other features. Some likes are held out, as pairs of `relation`."""

    def make(folder):
        rng = np.random.default_rng(5)
        group = [rng.integers(0, GROUPS, n) for n in (ITEMS, USERS)]
        feat = [np.eye(GROUPS)[g] + rng.normal(0, 1, (len(g), GROUPS)) for g in group]
        feat[0] = np.concatenate([feat[0], rng.normal(0, 1, (ITEMS, 2))], 1)
        likely = np.where(group[1][:, None] == group[0][None], 0.2, 0.01)
        pairs = rng.permutation(np.argwhere(rng.random((USERS, ITEMS)) < likely))
        held = len(pairs) // 10
        user, item = pairs[2 * held :].T
        n = len(user)
        ends, sources = rows_of(user, item, ITEMS)
        back_ends, back = rows_of(item, user, USERS)
        arrays = {
            "indptr": np.concatenate([[0], ends, back_ends + n]),
            "indices": np.concatenate([sources + ITEMS, back]).astype(np.int32),
            "node_feat.item": feat[0].astype(np.float32),
            "node_feat.user": feat[1].astype(np.float32),
        }
        for split, mine in ("val", pairs[:held]), ("test", pairs[held : 2 * held]):
            arrays[f"{split}_edges"] = mine if relation == LIKES else mine[:, ::-1]
        types = [{"name": "item", "count": ITEMS, "feat_dim": GROUPS + 2}]
        types.append({"name": "user", "count": USERS, "feat_dim": GROUPS})
        likes = {"source": "user", "name": "likes", "target": "item", "edges": n}
        back = {"source": "item", "name": "liked_by", "target": "user", "edges": n}
        save(folder, arrays, {
            "num_nodes": ITEMS + USERS, "num_edges": 2 * n, "pair_relation": relation,
            "types": types, "relations": [likes, {**back, "reverse_of": "likes"}],
        })  # fmt: skip

    return box.shared_folder(f"tastes-{relation.split()[0]}", make)


def job(box, **changes):
    return small_job(
        tastes(box),
        **{
            "task": {"kind": "link", "dim": 12},
            "model": {"kind": "rsage", "layers": 2, "hidden": 16, "dropout": 0.1},
            "sampler": {"fanout": [5, 5], "batch_size": 256, "expand": "new"},
            "optimizer.lr": 0.02,
            "epochs": 2,
            **changes,
        },
    )


def trained(box, label, env=None, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label, env=env)
    result.ok()
    return report


def check_predictions(box, run, pairs, types):
    """Scores of pairs are the products of their ends' embeddings, which are by type."""
    box.sluice("predict", run, "--pairs", pairs, "--out", "scores.npy", "-q").ok()
    rows = []
    for kind in types:
        box.sluice("embed", run, "--type", kind, "--out", f"{kind}.npy", "-q").ok()
        rows.append(np.load(box.path(f"{kind}.npy")))
    ends = np.load(pairs)
    wanted = (rows[0][ends[:, 0]] * rows[1][ends[:, 1]]).sum(1)
    found = np.load(box.path("scores.npy"))
    assert np.abs(found - wanted).max() < 1e-4 and len(found) == len(ends)
    return found


def auc(box, run, relation):
    """Of test pairs against all others of some users, by predictions alone."""
    folder = tastes(box, relation)
    likes = relation == LIKES
    types = ("user", "item") if likes else ("item", "user")
    positive = check_predictions(box, run, f"{folder}/test_edges.npy", types)
    rng = np.random.default_rng(2)
    others = np.stack([rng.integers(0, n, 2000) for n in (USERS, ITEMS)], 1)
    np.save(box.path("others.npy"), others if likes else others[:, ::-1])
    box.sluice("predict", run, "--pairs", "others.npy", "--out", "others_scores.npy", "-q").ok()
    negative = np.load(box.path("others_scores.npy"))
    return (positive[:, None] > negative[None]).mean()


@cases(LIKES, LIKED_BY)
def test_learns_which_pairs_are_linked(box, relation):
    """Both orders of the types. The job's figure is what predictions of its model give."""
    report = trained(box, "job", dataset=tastes(box, relation), epochs=8)
    assert report["test"]["roc_auc"] > 0.75, report["test"]
    assert abs(auc(box, "runs/job", relation) - report["test"]["roc_auc"]) < 0.05


def test_learns_by_walks(box):
    """Over the relation that is learned, both ways, which the pairs of a batch are taken out of."""
    report = trained(box, "job", epochs=8, **WAYS["walks"])
    assert report["test"]["roc_auc"] > 0.75, report["test"]
    assert abs(auc(box, "runs/job", LIKES) - report["test"]["roc_auc"]) < 0.05
    assert {r["name"] for r in report["relations"]} == set(ALONG["metapaths"]), report["relations"]
    assert report["pair_relation"] == LIKES, report
    digests = [trained(box, exclude, epochs=1, digest=True, **WAYS["walks"],
                       task={"kind": "link", "dim": 12, "exclude": exclude})["samples_digest"]
               for exclude in ("reverse", "self", "none")]  # fmt: skip
    assert len(set(digests)) == 3, digests


@whole
@cases("wider", "hard", "other way")
def test_walks_go_with_the_rest(box, way):
    """The same bits for other splits, and of either relation."""
    task = {"kind": "link", "dim": 12}
    more = {
        "wider": {KEY: True},
        "hard": {"task": {**WAYS["hard"]["task"], "relation": "likes"}},
        "other way": {"dataset": tastes(box, LIKED_BY), "task": {**task, "relation": LIKED_BY}},
    }[way]
    found = [trained(box, f"t{n}", allocation={"samplers": n, "trainers": n},
                     **{"updates.batches_per_update": 2, **WAYS["walks"], **more})
             for n in (1, 2)]  # fmt: skip
    assert fingerprint(found[0]) == fingerprint(found[1])
    assert values(found[0]["test"]) == values(found[1]["test"])


def test_figures_name_their_relation(box):
    """In the line of a job that runs, as in its report and in what it ends with."""
    name = box.unique("named")
    path = box.job(job(box, name=name, epochs=1000))
    running = box.start("run", path)
    box.until_epoch(running)
    metric = box.sluice("stats", name, "-o", "json").ok().json()["metric"]
    assert metric["relation"] == LIKES and metric["title"].startswith("Hits@"), metric
    running.stop()
    report = read_json(box.path("runs/job/report.json"))
    assert report["pair_relation"] == LIKES
    result, _ = box.run(job(box, output="runs/other", epochs=1), name="other")
    assert f"of {LIKES}, as all that is said of pairs" in result.ok().out
    result, report = box.run(small_job(box.shared_dataset("small"), output="runs/plain", epochs=1))
    assert "pair_relation" not in report and "relation" not in result.ok().out


# Both ways over the relation that is learned, from either end, and to the other end.
ALONG = {"kind": "walk", "fanout": [5, 5], "batch_size": 256, "paths": 8, "length": 2,
         "metapaths": {"near": ["likes", "liked_by"], "same": ["liked_by", "likes"],
                       "of": ["likes"], "to": ["liked_by"]}}
WAYS = {
    "walks": {"sampler": ALONG},
    "dot": {},
    "mlp": {"task": {"kind": "link", "decoder": "mlp", "loss": "bpr", "negatives": "degree",
                     "per_positive": 2}, "sampler.expand": "all"},
    "rgcn": {"model.kind": "rgcn", "model.bases": 2, "sampler.kind": "labor",
             "task": {"kind": "link", "negatives": "batch", "loss": "softmax", "per_positive": 3}},
    "rgat": {"model.kind": "rgat", "model.heads": 2, "model.norm": "batch"},
    "rgatv2": {"model.kind": "rgatv2", "model.heads": 2, "model.norm": "layer"},
    "hard": {"task": {"kind": "link", "per_positive": 3,
                      "hard": {"kind": "walks", "from_epoch": 1, "per_positive": 2}}},
}


def same_bits(box, way):
    found = {}
    changes = {"updates.batches_per_update": 4, **WAYS[way]}
    for samplers, trainers in ((1, 1), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        found[samplers, trainers] = fingerprint(
            trained(box, f"s{samplers}t{trainers}", allocation=split, **changes)
        )
    for failpoint in "sampler_drawn:5", "trainer_gradient:3", "trainer_infer:2":
        name = failpoint.split(":")[0]
        report = trained(box, name, env={"SLUICE_FAILPOINT": failpoint}, **changes)
        assert report["restarts"], failpoint
        found[failpoint] = fingerprint(report)
    assert all(f == found[1, 1] for f in found.values()), found


@cases("dot")
def test_same_bits_for_every_split_and_death(box, way):
    same_bits(box, way)


@cases("walks")
def test_same_bits_of_walks(box, way):
    same_bits(box, way)


@whole
@cases("hard", "mlp", "rgcn", "rgat", "rgatv2")
def test_same_bits_of_other_kinds(box, way):
    same_bits(box, way)


def test_hard_negatives_are_found_by_walks(box):
    """There and back: from users by what they like to others, and to what these like."""
    report = trained(box, "job", epochs=1, **WAYS["hard"])
    found = [report["epochs"][0][key] for key in ("hard_negatives", "hard_missing")]
    assert found[0] > 10 * found[1] >= 0, found


@cases("dot", "both")
def test_a_drive_gives_the_same_rows(box, way):
    """Also beside learned rows, of users, whose features are taken away."""
    changes = {"updates.batches_per_update": 4}
    if way == "both":
        changes |= {"features.kind": "both", "features.dim": 8, "dataset": without_users(box)}
    memory = trained(box, "memory", **changes)
    drive = trained(box, "drive", store={"features": "storage"}, **changes)
    assert fingerprint(drive) == fingerprint(memory)
    assert drive["store"]["features"] == "storage" and drive["test"]["roc_auc"] > 0.5
    folder = changes.get("dataset", tastes(box))
    check_predictions(box, "runs/drive", f"{folder}/test_edges.npy", ("user", "item"))


def test_learned_rows_tell_what_features_told(box):
    changes = {"features.kind": "both", "features.dim": 8, "dataset": without_users(box)}
    split = {"samplers": 2, "trainers": 2}
    report = trained(box, "job", epochs=8, allocation=split, **changes)
    assert report["test"]["roc_auc"] > 0.7, report["test"]
    said = box.sluice("import-weights", "runs/job/model.safetensors", "--job", "job.json", "--out",
                      "runs/again")  # fmt: skip
    refused(box, said, "features.kind", '"both"', "of type user of data set", '"file"',
            output="runs/again")  # fmt: skip


def without_users(box):
    folder, name = tastes(box), box.path("bare")
    shutil.copytree(folder, name)
    os.remove(f"{name}/node_feat.user.npy")
    metadata = read_json(f"{name}/metadata.json")
    del metadata["types"][1]["feat_dim"]
    save(name, {}, metadata)
    return name


def changed(box, name, relation=LIKES, **changes):
    """The data set with other metadata."""
    folder = tastes(box, relation)
    metadata = read_json(folder + "/metadata.json")
    arrays = {f[:-4]: np.load(f"{folder}/{f}") for f in os.listdir(folder) if f.endswith(".npy")}
    for key in "pair_relation", "relations":
        metadata[key] = changes.pop(key, metadata[key])
    said = {key: value for key, value in metadata.items() if value is not None}
    save(box.path(name), {**arrays, **changes}, said)
    return box.path(name)


KEY = "evaluate.val_edges_as_input"
MEASURES = ("hits", "mrr", "roc_auc", "average_precision", "loss")


def values(evaluation):
    return [evaluation[m] for m in MEASURES]


def tested(report):
    return [values(e["test"]) for e in report["epochs"]] + [values(report["test"])]


def with_validation_edges(box, relation, back):
    """A data set with validation edges of which some are edges, or stand twice; the same with all
    of them in its graph, and in the relation that has their reverses; and how many are new."""
    folder = tastes(box, relation)
    have = relations_of(folder)
    name = relation.split("-")[1]
    val = np.load(f"{folder}/val_edges.npy")
    val = np.concatenate([val, np.array(have[name][5:8]), val[:2]])
    none = np.stack([val[::-1, 0], val[:, 1]], 1)  # drawn ones would be no edges of either graph
    data = changed(box, "data", relation, val_edges=val, val_neg=none, test_neg=none)
    wider = {n: set(pairs) for n, pairs in have.items()}
    wider[name] |= set(map(tuple, val.tolist()))
    if back:
        wider[back] |= set(map(tuple, val[:, ::-1].tolist()))
    ends, sources, metadata = [[0]], [], read_json(data + "/metadata.json")
    for r, first, n in zip(metadata["relations"], (ITEMS, 0), (ITEMS, USERS)):
        source, target = np.array(sorted(wider[r["name"]])).T
        stop, source = rows_of(source, target, n)
        ends.append(stop + ends[-1][-1])
        sources.append(source + first)
        r["edges"] = len(source)
    metadata["num_edges"] = int(ends[-1][-1])
    shutil.copytree(data, box.path("wider"))
    indices = np.concatenate(sources).astype(np.int32)
    save(box.path("wider"), {"indptr": np.concatenate(ends), "indices": indices}, metadata)
    return data, box.path("wider"), len(indices) - sum(map(len, have.values()))


def check_validation_edges(box, relation, back, exclude):
    data, wider, n_new = with_validation_edges(box, relation, back)
    task = {"kind": "link", "dim": 12, "exclude": exclude}
    changes = {"task": task, "model.dropout": 0.0, "evaluate.test": "each"}

    def run(label, dataset=data, **more):
        return trained(box, label, dataset=dataset, **{**changes, **more})

    without, with_it = run("without"), run("with", **{KEY: True})
    more = run("more", **{KEY: True, "allocation": {"samplers": 2, "trainers": 2}})
    assert with_it["val_edges_added"] == n_new > 0 and "val_edges_added" not in without
    for other in without, more:
        assert other["params_sha256"] == with_it["params_sha256"]
        assert [values(e["val"]) for e in other["epochs"]] == [
            values(e["val"]) for e in with_it["epochs"]]
    assert tested(with_it) == tested(more) != tested(without)
    # The same parameters all along, on both graphs.
    still = {"model.weights": "runs/with/model.safetensors", "epochs": 1,
             "optimizer": {"kind": "sgd", "lr": 1e-300, "weight_decay": 0}}  # fmt: skip
    assert tested(run("here", **{KEY: True, **still})) == tested(run("there", wider, **still))
    for kind in "user", "item":
        rows = {}
        for name, words in (("auto", ()), ("wider", ("--dataset", wider, "--val-edges", "without")),
                            ("narrow", ("--val-edges", "without"))):  # fmt: skip
            words = ("--last", "--type", kind, "--out", f"{name}.npy", "-q", "--force", *words)
            box.sluice("embed", "runs/with", *words).ok()
            rows[name] = np.load(box.path(f"{name}.npy"))
        assert (rows["auto"] == rows["wider"]).all() and (rows["auto"] != rows["narrow"]).any()
    return data


@cases(LIKES, LIKED_BY)
def test_validation_edges_are_in_the_graph_of_the_test(box, relation):
    """And their reverses in the relation that has these; neither is an answer of the run."""
    back = {LIKES: "liked_by", LIKED_BY: "likes"}[relation]
    data = check_validation_edges(box, relation, back, "reverse")
    sources = np.arange(USERS if relation == LIKES else ITEMS)
    np.save(box.path("sources.npy"), sources)
    box.sluice("retrieve", "runs/with", "--sources", "sources.npy", "--k", "400", "--exclude-known",
               "--out", "answers.npy", "-q").ok()  # fmt: skip
    answers = np.load(box.path("answers.npy"))
    found = {(u, v) for u in sources.tolist() for v in answers[u].tolist() if v >= 0}
    assert not found & set(map(tuple, np.load(f"{data}/val_edges.npy").tolist()))
    assert found > set(map(tuple, np.load(f"{data}/test_edges.npy").tolist()))


def relations_of(folder):
    """Pairs of each relation as a sorted list: multi-edges stay."""
    metadata, first, n_rows, n_edges = read_json(f"{folder}/metadata.json"), {}, 0, 0
    indptr, indices = np.load(f"{folder}/indptr.npy"), np.load(f"{folder}/indices.npy")
    for t in metadata["types"]:
        first[t["name"]] = sum(o["count"] for o in metadata["types"][: len(first)])
    count, out = {t["name"]: t["count"] for t in metadata["types"]}, {}
    for r in metadata["relations"]:
        n = count[r["target"]]
        source = indices[n_edges : n_edges + r["edges"]] - first[r["source"]]
        target = np.repeat(np.arange(n), np.diff(indptr[n_rows : n_rows + n + 1]))
        out[r["name"]] = sorted(zip(source.tolist(), target.tolist()))
        n_rows, n_edges = n_rows + n, n_edges + r["edges"]
    assert n_rows + 1 == len(indptr) and n_edges == len(indices) == metadata["num_edges"]
    return out


def mixed(box):
    """Relations with multi-edges and self-loops, of which one within a type is symmetric."""
    rng, folder = np.random.default_rng(3), box.path("mixed")
    count = {"item": 30, "user": 40}
    likes = np.stack([rng.integers(0, 40, 150), rng.integers(0, 30, 150)]).repeat(2, 1)
    alike = rng.integers(0, 30, (2, 100))
    alike = np.concatenate([alike, alike[::-1]], 1)
    ends, sources, listed = [[0]], [], []
    for key, (source, target), of in (
        (("user", "likes", "item"), likes, None),
        (("item", "alike", "item"), alike, "alike"),
        (("item", "liked_by", "user"), likes[::-1], "likes"),
        (("user", "sees", "item"), likes[:, :50], None),
    ):
        stop, source = rows_of(source, target, count[key[2]])
        ends.append(stop + ends[-1][-1])
        sources.append(source + (count["item"] if key[0] == "user" else 0))
        listed.append(dict(zip(("source", "name", "target"), key), edges=len(source)))
        listed[-1].update({"reverse_of": of} if of else {})
    weight = np.arange(ends[-1][-1], dtype=np.float32)
    arrays = {"indptr": np.concatenate(ends), "indices": np.concatenate(sources).astype(np.int32)}
    types = [{"name": name, "count": n} for name, n in count.items()]
    metadata = {"num_nodes": 70, "num_edges": len(weight), "types": types, "relations": listed}
    edges = np.split(weight, np.cumsum([r["edges"] for r in listed])[:-1])
    for kind in "edge_feat", "edge_time":  # of each edge its number
        arrays.update({f"{kind}.{r['source']}.{r['name']}.{r['target']}":
                       of[:, None] if kind == "edge_feat" else of.astype(np.int64)
                       for r, of in zip(listed, edges)})  # fmt: skip
    save(folder, {**arrays, "edge_weight": weight}, metadata)
    return folder


@cases("likes", "alike", "sees")
def test_split_edges_takes_pairs_out_of_a_relation(box, name):
    """Against a removal by hand: multi-edges together, reverses as well, all other relations and
    self-loops as they were; weights, features and times of the edges that stay."""
    folder, share = mixed(box), {"likes": 0.2, "alike": 0.2, "sees": 0.3}[name]
    box.sluice("split-edges", folder, "--relation", name, "--val", "0.1", "--test", str(share),
               "--out", "split", "-q").ok()  # fmt: skip
    before, after = relations_of(folder), relations_of(box.path("split"))
    held = {s: set(map(tuple, np.load(box.path(f"split/{s}_edges.npy")).tolist()))
            for s in ("val", "test")}  # fmt: skip
    gone = held["val"] | held["test"]
    both = {(min(p), max(p)) for p in before[name]} if name == "alike" else set(before[name])
    both = {p for p in both if p[0] != p[1] or name != "alike"}
    assert not held["val"] & held["test"] and gone <= set(before[name])
    wanted = [int(x * len(both) + 0.5) for x in (0.1, share)]
    assert [len(held[s]) for s in ("val", "test")] == wanted
    back = {"likes": "liked_by", "alike": "alike"}.get(name)
    reverses = {(v, u) for u, v in gone}
    for relation, pairs in before.items():
        out = gone if relation == name else set()
        out = out | (reverses if relation == back else set())
        assert after[relation] == [p for p in pairs if p not in out], relation
    metadata = read_json(box.path("split/metadata.json"))
    assert f" -{name}-> " in metadata["pair_relation"]
    weight, whole_ = np.load(box.path("split/edge_weight.npy")), np.load(f"{folder}/indices.npy")
    assert np.array_equal(np.load(box.path("split/indices.npy")), whole_[weight.astype(int)])
    for kind in "edge_feat", "edge_time":
        of = [np.load(box.path(f"split/{kind}.{r['source']}.{r['name']}.{r['target']}.npy"))
              for r in metadata["relations"]]
        assert np.array_equal(np.concatenate(of).ravel(), weight)
    np.save(f"{folder}/edge_time.user.liked.item.npy", weight[:7])
    said = box.sluice("split-edges", folder, "--relation", name, "--out", "again", "-q")
    refused(box, said, "edge_time.user.liked.item.npy", "found 7 rows", "none of its relations")


def test_what_is_refused(box):
    def plan(*settings, **changes):
        sets = [word for s in settings for word in ("--set", s)]
        return box.sluice("run", box.job(job(box, **changes)), "--dry-run", *sets)

    said = plan("task.relation=likes").ok().out
    assert "edges to train with" in said and "mini-batches of" not in said, said
    refused(box, plan("task.relation=hates"), "task.relation", "no relation", f'"{LIKES}"')
    of_others = f'lists of pairs are of "{LIKES}"'
    refused(box, plan("task.relation=liked_by"), "task.relation", of_others)
    plain = box.shared_dataset("small")
    model = {"kind": "graphsage", "layers": 2, "hidden": 8}
    refused(box, plan("task.relation=likes", dataset=plain, model=model), "one type", "take it out")
    metadata = read_json(tastes(box) + "/metadata.json")
    for relation in metadata["relations"]:
        relation.pop("reverse_of", None)
    alone = changed(box, "alone", relations=metadata["relations"])
    refused(box, plan(dataset=alone), "task.exclude", "reverse_of", '"self"')
    plan('task.exclude="self"', dataset=alone).ok()  # following the advice
    hard = ('task.exclude="self"', 'task.hard={"kind": "walks"}')
    refused(box, plan(*hard, dataset=alone), "task.hard.kind", "reverse_of", "take it out")
    nameless = changed(box, "nameless", pair_relation=None)
    refused(box, plan(dataset=nameless), "val_edges.npy", '"pair_relation": "user -likes-> item"')
    outside = changed(box, "outside", val_edges=np.array([[USERS - 1, ITEMS]]))
    refused(box, plan(dataset=outside), "val_edges.npy", "target of pair 0 is 300", "type item")
    wrong = changed(box, "wrong", pair_relation="hates")
    refused(box, plan(dataset=wrong), '"pair_relation" is "hates"', "no relation")
    ends = [{"source": s, "name": n, "target": t, "edges": n + ".csv", "reverse_of": of}
            for s, n, t, of in (("user", "likes", "item", "liked_by"),
                                ("item", "liked_by", "user", "likes"))]  # fmt: skip
    os.makedirs(box.path("few"))
    box.write_json("few/graph.json", {"relations": ends, "types": [
        {"name": "item", "features": "x.npy"}, {"name": "user", "count": 3}]})
    np.save(box.path("few/x.npy"), np.ones((4, 2), np.float32))
    for name in "likes", "liked_by":
        open(box.path(f"few/{name}.csv"), "w").close()
    box.sluice("import", "typed", "few", "-q", "--out", "none").ok()
    refused(box, plan("task.relation=likes", dataset=box.path("none")), "no edge to learn from",
            "wanted edges in its relation user -likes-> item or in train_edges.npy")
    split = box.sluice("split-edges", mixed(box), "--out", "split")
    refused(box, split, "found no relation", '--relation NAME', '"user -likes-> item"')

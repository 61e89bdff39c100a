"""Jobs on graphs of several types with GPUs, emulated: the batches are those of cores, and the
models learn what they learn there."""

import os

import numpy as np

from tensors import read_tensors

from edge_papers import papers as papers_of_edges
from harness import Skip, accuracies, cases, fingerprint, read_json, small_job, whole
from test_bad_input import refused
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, run
from test_external import begin, borrow, lines
from test_typed_cache import held
from test_typed_jobs import METAPATHS, papers
from test_typed_links import ALONG as LINKED, tastes
from test_typed_store import rows_of, striped, wide

NOT_UNDER = {"address": SANITIZED}
PAPERS = 400  # an emulated GPU takes a second for what a GPU does in a millisecond


def need_plugin():
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")


def typed_job(box, devices, **changes):
    need_plugin()
    return small_job(
        papers(box, n=PAPERS),
        **{
            "devices": devices,
            "model": {"kind": "rsage", "layers": 2, "hidden": 8, "dropout": 0.1},
            "sampler": {"fanout": [4, 3], "expand": "new", "batch_size": 60},
            "evaluate": {"every": 1, "fanout": [5, 5]},
            "allocation": {"samplers": 1, "trainers": 1, "switching": False},
            "epochs": 2,
            "digest": True,
            "precision": "fp32",
            **changes,
        },
    )


def trained(report):
    """Without what a busy machine had to draw or train again for want of memory."""
    return report["batches"]["scheduled"], report["batches"]["trained"]


def near(found, wanted):
    """The same batches, and the same sums in another order."""
    assert found["samples_digest"] == wanted["samples_digest"]
    assert trained(found) == trained(wanted)
    for one, other in zip(accuracies(found), accuracies(wanted)):
        assert abs(one - other) <= 0.02, (accuracies(found), accuracies(wanted))
    for one, other in zip(found["epochs"], wanted["epochs"]):
        assert abs(one["loss"] - other["loss"]) <= 1e-3 * other["loss"], (one, other)


def compare(box, devices, env=None, there=None, **changes):
    """The report of the job with GPUs; `there`: changes of that one alone."""
    cores = typed_job(box, [CPU] * len(devices), output="runs/cores", **changes)
    result, wanted = box.run(cores, name="cores")
    result.ok()
    job = typed_job(box, devices, **changes, **(there or {}))
    result, found = run(box, job, SLUICE_SIMT_DEVICES="4", **(env or {}))
    result.ok()
    near(found, wanted)
    return found


def test_gpus_draw_and_train_as_cores_do(box):
    compare(box, [gpu(0), gpu(1)])


@cases("mapped", "staged")
def test_rows_get_to_a_gpu_in_either_way(box, way):
    """In place where the GPU reads files; the trainer may find that copies are faster."""
    env = {"SLUICE_SIMT_READ_ONLY": "1"} if way == "mapped" else {}
    found = compare(box, [CPU, gpu(0)], env=env)["store"]
    allowed = {"mapped": ("file", "staged"), "staged": ("staged",)}[way]
    assert found["gpu_way"] in allowed and found["copy_bytes"] == 0, found


OF_EDGES = {"kind": "rgat", "layers": 2, "hidden": 8, "heads": 2, "edge_features": True}


def of_edges(box, devices, env=None, **changes):
    compare(box, devices, env=env, dataset=papers_of_edges(box), model=OF_EDGES, **changes)


def test_features_of_edges_get_to_a_gpu(box):
    """Which draws and trains in turn, and so has the block."""
    of_edges(box, [gpu(0)], allocation={"samplers": "auto", "trainers": "auto"})


@whole
@cases("drawn by another", "beside rows in place", "in a sum with both rows")
def test_features_of_edges_get_to_gpus_in_other_ways(box, way):
    if way == "in a sum with both rows":
        compare(box, [CPU, gpu(0)], dataset=papers_of_edges(box),
                model={**OF_EDGES, "kind": "rgatv2"})
    elif way == "drawn by another":
        of_edges(box, [gpu(0), gpu(1)])
    else:
        of_edges(box, [CPU, gpu(0)], {"SLUICE_SIMT_READ_ONLY": "1"})


def kept(box, devices, env=None, slack=None, **changes):
    """Rows of the types that have features, in caches of GPUs, with the results of cores."""
    report = compare(box, devices, env=env, dataset=wide(box, ("field",), n=PAPERS), **changes)
    types = {t["name"]: t for t in report["types"]}
    last = report["epochs"][-1]["cache"]
    assert last["hits"] > 0 and types["paper"]["hits"] > 0 == types["author"]["hits"], types
    for t in types.values():
        assert 4 * t["feat_dim"] * t["hits"] == t["hit_bytes"], t
    held(box, report, "job", slack)
    return report


@cases("mapped", "staged")
def test_a_gpu_keeps_rows_of_several_widths(box, way):
    env = {"SLUICE_SIMT_READ_ONLY": "1"} if way == "mapped" else {}
    report = kept(box, [CPU, gpu(0)], env=env, cache={"policy": "expected", "ratio": 0.4})
    paper = next(t for t in report["types"] if t["name"] == "paper")
    assert paper["miss_bytes"] > 0, paper


@cases("two-gpus", "in-turn")
def test_more_gpus_keep_rows_of_their_own(box, name):
    """A block that stays on the GPU of its sampler has ranks of the processor's, behind it."""
    more = {"allocation": {"samplers": "auto", "trainers": "auto"}} if name == "in-turn" else {}
    devices = [gpu(0)] if name == "in-turn" else [gpu(0), gpu(1)]
    kept(box, devices, cache={"policy": "presc", "ratio": 0.5}, **more)


@cases("one_copy", "alone")
def test_gpus_share_rows_of_several_widths(box, placement):
    """Dealt out by the rank within the type; and what is not there is in no other place."""
    report = kept(box, [CPU, CPU, gpu(0), gpu(1)], cache={"policy": "expected", "ratio": 0.3},
                  allocation={"samplers": 2, "trainers": 2, "switching": False},
                  updates={"mode": "ordered", "batches_per_update": 2},
                  slack=4000 if placement == "one_copy" else None,  # parts are of whole rows
                  there={"store": {"placement": placement}})
    links = {(link["reader"], link["from"]) for link in report["store"]["links"]
             if link["kind"] == "features"}
    assert {(2, "2"), (3, "3")} <= links, links
    assert ({(2, "3"), (3, "2")} <= links) == (placement == "one_copy"), links


def shares(links, what):
    """Of what all trainers read, the shares by where it lies. Who trains which batch is chance."""
    found = {}
    for link in links:
        if link.get("kind", "features") == "features":
            place = "its own" if link["from"] == str(link["reader"]) else link["from"]
            found[place] = found.get(place, 0) + link[what]
    return {place: found[place] / sum(found.values()) for place in found}


def test_a_plan_foresees_bytes_of_rows_of_several_widths(box):
    """From where which bytes come: as many as there came in the run, up to what the batches draw.
    With each GPU alone, since what others lend is there once they have filled it."""
    job = typed_job(box, [CPU, CPU, gpu(0), gpu(1)], dataset=wide(box),
                    store={"placement": "alone"}, cache={"policy": "expected", "ratio": 0.3},
                    allocation={"samplers": 2, "trainers": 2, "switching": False},
                    updates={"mode": "ordered", "batches_per_update": 2}, epochs=1,
                    evaluate={"every": 0, "test": "never"})
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "SLUICE_SIMT_DEVICES": "4"}
    plan = box.sluice("run", box.job(job), "--dry-run", "-o", "json", env=env).ok().json()["store"]
    result, report = run(box, job, SLUICE_SIMT_DEVICES="4")
    result.ok()
    foreseen, found = shares(plan["links"], "share"), shares(report["store"]["links"], "bytes")
    assert set(foreseen) == set(found), (foreseen, found)
    assert abs(found["its own"] - foreseen["its own"]) < 0.05, (foreseen, found)


def lent(box, name, env=None, **changes):
    """Two of four GPUs hold rows for one another, to the bit whatever happens to them."""
    job = typed_job(
        box,
        [gpu(d) for d in range(4)],
        allocation={"samplers": 2, "trainers": 2, "switching": False},
        updates={"mode": "ordered", "batches_per_update": 2},
        output=f"runs/{name}",
        **{
            "dataset": wide(box, n=PAPERS),
            "store": {"placement": "one_copy"},
            "cache": {"policy": "expected", "ratio": 0.3},
            **changes,
        },
    )
    result, report = run(box, job, SLUICE_SIMT_DEVICES="4", **(env or {}))
    result.ok()
    return report


@cases("lent_gathering:5", "lent_filling:1")
def test_a_lender_that_dies_changes_nothing(box, point):
    found = lent(box, "killed", env={"SLUICE_FAILPOINT": point})
    assert found["restarts"], found
    assert fingerprint(found) == fingerprint(lent(box, "kept", cache={"policy": "none"}))


@cases("file", "stripes")
def test_rows_on_drives_get_to_gpus(box, way):
    """By the machine's cache, beside the parts that GPUs hold for one another: to the bit."""
    data, less = wide(box, n=PAPERS), {}
    store = {"features": "storage", "placement": "one_copy"}
    if way == "stripes":  # and batches of some of the rows, of which not all stay in the cache
        data = striped(box, data)[0]
        store.update({"cache": "90KiB", "window": 1})
        less = {"sampler": {"fanout": [2, 2], "expand": "new", "batch_size": 20}}
    found = lent(box, "drive", dataset=data, store=store, **less)
    assert fingerprint(found) == fingerprint(lent(box, "mapped", **less))
    assert found["store"]["features"] == "storage" and rows_of(found, "read") > 0, found["store"]
    assert found["store"]["gpu_way"] == "staged", found["store"]
    assert found["epochs"][-1]["cache"]["hits"] > 0, found["epochs"]
    links = {(link["reader"], link["from"]) for link in found["store"]["links"]}
    assert {(2, "3"), (3, "2")} <= links, links


SGD = {"kind": "sgd", "lr": 0.3}  # whose steps are as long as gradients are


def same_parameters(box):
    """Up to rounding, after all steps of both runs."""
    files = (box.path(f"runs/{run}/model.safetensors") for run in ("job", "cores"))
    ours, wanted = (read_tensors(file) for file in files)
    off = {name: np.abs(ours[name] - wanted[name]).max() for name in wanted}
    assert max(off.values()) < 1e-5, off


@cases("sum", "norm")
def test_attention_over_all_relations(box, way):
    """hgt: one softmax over the edges of all relations, gates and a linear layer for each type."""
    more = {"norm": "batch", "layers": 2} if way == "norm" else {"layers": 1}
    model = {"kind": "hgt", "hidden": 8, "heads": 2, **more}
    sampler = {"fanout": [4, 3][: more["layers"]], "expand": "new", "batch_size": 60}
    evaluate = {"every": 1, "fanout": [5, 5][: more["layers"]]}
    compare(box, [CPU, gpu(0)], model=model, sampler=sampler, evaluate=evaluate, optimizer=SGD)
    same_parameters(box)


BY_RELATION = {
    "fanout": {"writes": [3, 2], "author -reviews-> paper": [0, 2], "*": [2, 1]},
    "batch_size": 60,
}


ALONG = {"kind": "walk", "fanout": [4, 3], "batch_size": 60, "expand": "new", "paths": 5,
         "metapaths": METAPATHS}


@whole
@cases(
    # Blocks stay on the GPU that draws and trains in turn.
    ("in-turn", [gpu(0)], {"allocation": {"samplers": "auto", "trainers": "auto"}}),
    ("rgat", [CPU, gpu(0)], {"model": {"kind": "rgat", "layers": 2, "hidden": 8, "heads": 2}}),
    ("rgatv2", [CPU, gpu(0)], {"model": {"kind": "rgatv2", "layers": 2, "hidden": 8, "heads": 2}}),
    ("rgcn", [gpu(0), CPU], {"model": {"kind": "rgcn", "layers": 2, "hidden": 8, "bases": 2}}),
    ("labor", [gpu(0), gpu(1)], {"sampler": {"kind": "labor", "fanout": [4, 3], "batch_size": 60}}),
    ("weighted", [gpu(0), gpu(1)],
     {"sampler": {"kind": "weighted", "fanout": [4, 3], "batch_size": 60}}),
    ("by-relation", [gpu(0), gpu(1)], {"sampler": BY_RELATION}),
    ("walks", [gpu(0), gpu(1)], {"sampler": ALONG}),
    ("full", [CPU, gpu(1)], {"evaluate": {"every": 1, "fanout": "full"}}),
)
def test_more_jobs_with_gpus(box, name, devices, changes):
    compare(box, devices, **changes)


LINKS = {
    "dot": {},
    "mlp": {"task": {"kind": "link", "decoder": "mlp", "loss": "bpr", "negatives": "degree",
                     "per_positive": 2}},
    "hgt": {"model": {"kind": "hgt", "layers": 2, "hidden": 8, "heads": 2}},
    "walks": {"sampler": LINKED},
}


def links_near(box, devices, **changes):
    """The same pairs and batches as on cores, and the same losses and measures up to rounding."""
    same = {
        "dataset": tastes(box),
        "task": {"kind": "link", "dim": 12},
        "evaluate": {"every": 1, "fanout": "full"},
        "sampler": {"fanout": [4, 3], "expand": "new", "batch_size": 256},
        "optimizer": SGD,
        **changes,
    }
    cores = typed_job(box, [CPU] * len(devices), output="runs/cores", **same)
    result, wanted = box.run(cores, name="cores")
    result.ok()
    result, found = run(box, typed_job(box, devices, **same), SLUICE_SIMT_DEVICES="4")
    result.ok()
    assert found["samples_digest"] == wanted["samples_digest"]
    assert trained(found) == trained(wanted)
    for one, other in zip(found["epochs"], wanted["epochs"]):
        assert abs(one["loss"] - other["loss"]) <= 1e-3 * other["loss"], (one, other)
        for measure in "roc_auc", "loss":
            near = abs(one["val"][measure] - other["val"][measure]) <= 2e-3
            assert near, (measure, one["val"], other["val"])
    assert abs(found["test"]["roc_auc"] - wanted["test"]["roc_auc"]) <= 2e-3
    same_parameters(box)


@cases("dot")
def test_links_of_one_relation(box, way):
    """Pairs and batches are drawn on cores; embeddings, scores and evaluations are the GPU's."""
    links_near(box, [CPU, gpu(0)], **LINKS[way])


@whole
@cases("mlp", "hgt", "walks")
def test_links_of_other_kinds(box, way):
    links_near(box, [gpu(0), gpu(1)], **LINKS[way])


@whole
def test_links_of_trainers_that_die(box):
    """In a step, and in a cell of an evaluation: the bits are those of two GPUs that live."""
    found = []
    for point in "", "trainer_gradient:3", "trainer_infer:2":
        job = typed_job(
            box,
            [CPU, gpu(0), gpu(1)],
            dataset=tastes(box),
            task={"kind": "link", "dim": 12},
            evaluate={"every": 1, "fanout": "full"},
            updates={"mode": "ordered", "batches_per_update": 4},
            allocation={"samplers": 1, "trainers": 2, "switching": False},
        )
        job["output"] = f"runs/{point.split(':')[0]}"
        result, report = run(box, job, SLUICE_SIMT_DEVICES="4", SLUICE_FAILPOINT=point)
        result.ok()
        assert bool(report["restarts"]) == bool(point), report["restarts"]
        measures = [(e["val"], report["test"]) for e in report["epochs"]]
        found.append((fingerprint(report), measures))
    assert found[0] == found[1] == found[2], found


@whole
def test_pairs_for_trainers_of_other_programs(box):
    """Of a relation, with a GPU that samples: they are drawn on cores, and are the same."""
    need_plugin()
    uses = []
    for device in gpu(0), CPU:
        output = f"runs/{device['kind']}"
        running, path = begin(
            box,
            env={"SLUICE_CUDA_PLUGIN": PLUGIN, "SLUICE_SIMT_DEVICES": "1"},
            dataset=tastes(box),
            task={"kind": "link"},
            devices=[device, CPU],
            epochs=1,
            digest=True,
            output=output,
        )
        trainer = borrow(box, path)
        assert (ended := running.wait()).rc == 0, str(ended)
        assert trainer.wait().rc == 0
        report = read_json(box.path(output, "report.json"))
        uses.append((report["samples_digest"], lines(trainer, "use")))
    assert uses[0] == uses[1] and uses[0][0] and uses[0][1], uses


@whole
def test_the_edges_lie_on_two_gpus(box):
    """Each of which has room for some of them, and reads the other's."""
    few = [gpu(d, memory="1300KiB") for d in range(2)]
    found = compare(
        box,
        [*few, CPU, CPU],
        dataset=papers(box),
        allocation={"samplers": 2, "trainers": 2, "switching": False},
        updates={"mode": "ordered", "batches_per_update": 2},
        there={"store": {"prefer": "features", "placement": "one_copy"}},
    )["store"]
    ways = {(link["reader"], link["from"]) for link in found["links"]}
    assert found["graph_parts"] > 0 and {(0, "1"), (1, "0"), (0, "memory")} <= ways, found


def test_a_plan_says_how_rows_get_to_gpus(box):
    path = box.job(typed_job(box, [gpu(0), gpu(1)]))
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "SLUICE_SIMT_DEVICES": "4"}
    said = box.sluice("run", path, "--dry-run", env=env).ok().out
    assert "rows of several widths are gathered by the processor" in said, said
    assert "GPU 0 has room for 100 % of the edges" in said and "GPU 1 has" not in said, said
    refused(
        box,
        box.sluice("run", path, "--dry-run", "--set", "updates.exchange=nccl", env=env),
        "updates.exchange",
        "several types",
        "take it out",
    )
    few = [gpu(0, memory="100KiB"), gpu(1)]
    path = box.job(typed_job(box, few))
    found = box.sluice("run", path, "--dry-run", "-o", "json", env=env).ok().json()
    (room,) = found["store"]["graph_room"]
    assert room["device"] == 0 and 0 < room["edges"] < found["num_edges"], room
    assert room["bytes"] == 4 * room["edges"] < 100 << 10, room

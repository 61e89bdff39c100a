"""Jobs on graphs of several types with GPUs, emulated: the batches are those of cores, and the
models learn what they learn there."""

import os

from harness import Skip, accuracies, cases, fingerprint, small_job, whole
from test_bad_input import refused
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, run
from test_typed_jobs import papers
from test_typed_store import wide

NOT_UNDER = {"address": SANITIZED}

def typed_job(box, devices, **changes):
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    return small_job(
        papers(box, n=400),
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


def near(found, wanted):
    """The same batches, and the same sums in another order."""
    assert found["samples_digest"] == wanted["samples_digest"]
    assert found["batches"] == wanted["batches"]
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


def kept(box, devices, env=None, **changes):
    """Rows of the types that have features, in caches of GPUs, with the results of cores."""
    report = compare(box, devices, env=env, dataset=wide(box, types=("field",)), **changes)
    types = {t["name"]: t for t in report["types"]}
    last = report["epochs"][-1]["cache"]
    assert last["hits"] > 0 and types["paper"]["hits"] > 0 == types["author"]["hits"], types
    for t in types.values():
        assert 4 * t["feat_dim"] * t["hits"] == t["hit_bytes"], t
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
                  there={"store": {"placement": placement}})
    links = {(link["reader"], link["from"]) for link in report["store"]["links"]
             if link["kind"] == "features"}
    assert {(2, "2"), (3, "3")} <= links, links
    assert ({(2, "3"), (3, "2")} <= links) == (placement == "one_copy"), links


def lent(box, name, env=None, **changes):
    """Two of four GPUs hold rows for one another, to the bit whatever happens to them."""
    job = typed_job(
        box,
        [gpu(d) for d in range(4)],
        dataset=wide(box),
        allocation={"samplers": 2, "trainers": 2, "switching": False},
        updates={"mode": "ordered", "batches_per_update": 2},
        store={"placement": "one_copy"},
        output=f"runs/{name}",
        **{"cache": {"policy": "expected", "ratio": 0.3}, **changes},
    )
    result, report = run(box, job, SLUICE_SIMT_DEVICES="4", **(env or {}))
    result.ok()
    return report


@cases("lent_gathering:5", "lent_filling:1")
def test_a_lender_that_dies_changes_nothing(box, point):
    found = lent(box, "killed", env={"SLUICE_FAILPOINT": point})
    assert found["restarts"], found
    assert fingerprint(found) == fingerprint(lent(box, "kept", cache={"policy": "none"}))


BY_RELATION = {
    "fanout": {"writes": [3, 2], "author -reviews-> paper": [0, 2], "*": [2, 1]},
    "batch_size": 60,
}


@whole
@cases(
    # Blocks stay on the GPU that draws and trains in turn.
    ("in-turn", [gpu(0)], {"allocation": {"samplers": "auto", "trainers": "auto"}}),
    ("rgat", [CPU, gpu(0)], {"model": {"kind": "rgat", "layers": 2, "hidden": 8, "heads": 2}}),
    ("rgcn", [gpu(0), CPU], {"model": {"kind": "rgcn", "layers": 2, "hidden": 8, "bases": 2}}),
    ("labor", [gpu(0), gpu(1)], {"sampler": {"kind": "labor", "fanout": [4, 3], "batch_size": 60}}),
    ("weighted", [gpu(0), gpu(1)],
     {"sampler": {"kind": "weighted", "fanout": [4, 3], "batch_size": 60}}),
    ("by-relation", [gpu(0), gpu(1)], {"sampler": BY_RELATION}),
)
def test_more_jobs_with_gpus(box, name, devices, changes):
    compare(box, devices, **changes)


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

"""Who holds which features, of several GPUs that train: what the broker plans and says of it.

The GPUs are emulated (tests/simt).
"""

from harness import cases, fingerprint, not_under, timeout
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job, run

NODES = 400  # of gpu_job's data set
ROOM = 0.2
ROW = 4 * 16  # bytes of its features


def plan_job(box, gpus, **changes):
    job = gpu_job(
        box,
        [CPU] + [gpu(i) for i in range(gpus)],
        **{
            "epochs": 1,
            "allocation": {"samplers": 1, "trainers": gpus, "switching": False},
            "cache": {"policy": "degree", "ratio": ROOM},
            **changes,
        },
    )
    return job


def train(box, job, gpus, **env):
    result, report = run(box, job, SLUICE_SIMT_DEVICES=str(gpus), **env)
    result.ok()
    return result, report


def held_by_all(store):
    """Rows that the parts of all GPUs come to, each part counted once."""
    return {d["device"]: (d["rows"], d["parts"]) for d in store["held"]}


@timeout(120)
@not_under("address", SANITIZED)
@cases(
    ("2-auto", 2, {}, "solver", 2),
    ("4-auto", 4, {}, "solver", 4),
    ("2-alone", 2, {"store": {"placement": "alone"}}, "alone", 0),
    ("4-one-copy", 4, {"store": {"placement": "one_copy"}}, "one_copy", 4),
    ("4-cliques", 4, {"store": {"placement": "cliques"}}, "cliques", 4),
)
def test_linked_gpus_hold_parts(box, name, gpus, changes, placement, parts):
    result, report = train(box, plan_job(box, gpus, **changes), gpus)
    store, room = report["store"], int(ROOM * NODES)
    assert (store["placement"], store["parts"]) == (placement, parts), store
    assert store["gpu_rows"] == room * (parts or 1), store
    assert held_by_all(store) == {d + 1: (room, 1 if parts else 0) for d in range(gpus)}, store
    assert placement in result.out and store["placement_reason"] in result.out, result


def dry_run(box, job, gpus, *more, **env):
    env = {
        "SLUICE_CUDA_PLUGIN": PLUGIN,
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "SLUICE_SIMT_DEVICES": str(gpus),
        **env,
    }
    return box.sluice("run", box.job(job), "--dry-run", *more, env=env).ok()


@timeout(60)
@not_under("address", SANITIZED)
@cases(("two", 2), ("four", 4))
def test_a_dry_run_shows_the_plan_and_what_others_come_to(box, name, gpus):
    job = plan_job(box, gpus)
    store = dry_run(box, job, gpus, "-o", "json").json()["store"]
    room = int(ROOM * NODES)
    assert (store["placement"], store["parts"]) == ("solver", gpus), store
    held = {d["device"]: d for d in store["held"]}
    assert sorted(held) == list(range(1, gpus + 1)), store
    parts = [p for d in held.values() for p in d["parts"]]
    assert sorted(parts) == list(range(gpus)), store
    assert all(d["rows"] <= room and d["bytes"] == d["rows"] * ROW for d in held.values()), store
    for reader in held:
        ways = {w["from"]: w["share"] for w in store["links"] if w["reader"] == reader}
        assert abs(sum(ways.values()) - 1) < 1e-6, (reader, ways)
        peers = {str(d) for d in held if d != reader}
        assert peers <= set(ways) <= peers | {str(reader), "memory"}, (reader, ways)
    others = store["placements"]
    assert sorted(others) == ["alone", "cliques", "one_copy", "solver"], others
    assert others["alone"]["on_peers"] == 0, others
    assert others["solver"]["in_memory"] < others["alone"]["in_memory"], others
    assert others["solver"]["busiest_seconds"] <= min(
        o["busiest_seconds"] for o in others.values()
    ), others
    said = dry_run(box, job, gpus).out
    assert f"store       solver: {store['gpu_rows']} of {NODES} rows" in said, said
    assert all(f"device {d}: {held[d]['rows']} rows" in said for d in held), said

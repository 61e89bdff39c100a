"""Who holds which features, of several GPUs that train: what the broker plans and says of it.

The GPUs are emulated (tests/simt).
"""

from harness import cases, fingerprint, not_under, timeout
from test_cuda import CPU, SANITIZED, gpu, gpu_job, run

NODES = 400  # of gpu_job's data set
ROOM = 0.2


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

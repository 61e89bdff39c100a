"""Trainers' GPUs, emulated, that hold the hottest features together: whole jobs."""

from harness import cases, fingerprint, not_under, timeout
from test_cuda import CPU, SANITIZED, gpu, gpu_job, run

PRESC = {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}


def train(box, placement, output, **env):
    dataset = box.shared_dataset("gpu-lent", n=400, feat_dim=64)
    job = {"dataset": dataset, "epochs": 3, "cache": PRESC, "output": f"runs/{output}"}
    job["allocation"] = {"samplers": 1, "trainers": 3, "switching": False}
    job["store.placement"] = placement
    job = gpu_job(box, [CPU, gpu(0), gpu(1), gpu(2)], **job)
    result, report = run(box, job, SLUICE_SIMT_DEVICES="3", **env)
    result.ok()
    return report


def alone(box):
    return box.shared_value("gpu-lent-alone", lambda: fingerprint(train(box, "alone", "alone")))


def read_of_others(report):
    return [x for x in report["store"]["links"] if x["from"] not in (str(x["reader"]), "memory")]


@timeout(120)
@not_under("address", SANITIZED)
@cases("lent_filling", "lent_gathering:9")
def test_nor_does_a_trainer_that_dies(box, point):
    report = train(box, "solver", "killed", SLUICE_FAILPOINT=point)
    (death,) = report["restarts"]
    assert death["worker"].startswith("trainer") and "SIGKILL" in death["cause"], death
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert fingerprint(report) == alone(box)


@timeout(120)
@not_under("address", SANITIZED)
def test_readers_that_fault_at_the_memory_of_the_dead_are_replaced(box):
    """Where a GPU that reads it is lost to its process, too."""
    env = {"SLUICE_FAILPOINT": "lent_gathering:9", "SLUICE_SIMT_DEAD": "fault"}
    report = train(box, "solver", "faults", **env)
    workers = [death["worker"] for death in report["restarts"]]
    assert workers and all(w.startswith("trainer") for w in workers), report["restarts"]
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert fingerprint(report) == alone(box)


@timeout(120)
@not_under("address", SANITIZED)
def test_nor_does_another_split(box):
    """The plan is another one from the second epoch on, while others still read by the first."""
    job = {"dataset": box.shared_dataset("gpu-lent", n=400, feat_dim=64), "epochs": 3}
    job["cache"] = {"policy": "degree", "ratio": 0.2}
    job["store.placement"] = "solver"
    job["allocation"] = {"samplers": 1, "trainers": 3, "switching": True}
    job["schedule"] = [{"epoch": 1, "samplers": 2, "trainers": 2}]
    job = gpu_job(box, [gpu(d) for d in range(4)], **job)
    result, report = run(box, job, SLUICE_SIMT_DEVICES="4")
    result.ok()
    assert report["store"]["plans"] == 2 and read_of_others(report), report["store"]
    assert fingerprint(report) == alone(box), report["store"]

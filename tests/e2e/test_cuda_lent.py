"""Trainers' GPUs, emulated, that hold the hottest features together: whole jobs."""

from harness import cases, fingerprint
from test_cuda import CPU, gpu, gpu_job, run

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


@cases("solver", "cliques", "one_copy")
def test_sharing_changes_no_bit(box, placement):
    report = train(box, placement, "shared")
    assert read_of_others(report), report["store"]
    assert fingerprint(report) == alone(box)


@cases("lent_offered", "lent_filling", "lent_opened", "lent_gathering", "lent_gathering:9")
def test_nor_does_a_trainer_that_dies(box, point):
    report = train(box, "solver", "killed", SLUICE_FAILPOINT=point)
    (death,) = report["restarts"]
    assert death["worker"].startswith("trainer") and "SIGKILL" in death["cause"], death
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert fingerprint(report) == alone(box)

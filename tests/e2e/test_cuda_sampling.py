"""Samplers on a GPU, the emulated one (tests/simt): their batches are those of cores, to the byte.

What a run draws is its samples_digest; trainers are on cores here, so parameters are equal too.
"""

from harness import cases, fingerprint
from test_cuda import CPU, SANITIZED, gpu, gpu_job, run, weighted_dataset

NOT_UNDER = {"address": SANITIZED}

KINDS = {
    "whole": {"sampler.fanout": [-1, 4]},
    "weighted": {"sampler.kind": "weighted"},
    "labor": {"sampler.kind": "labor", "sampler.fanout": [4, 3]},
    "new": {
        "sampler.expand": "new",
        "sampler.edge_ids": True,
        "sampler.fanout": [4, 6],
        "evaluate.fanout": [3, 3],
    },
    "walk": {
        "sampler.kind": "walk",
        "sampler.paths": 6,
        "sampler.length": 3,
        "sampler.restart": 0.3,
    },
    "presc": {"cache": {"policy": "presc", "ratio": 0.2}},
}


def weighted_job(box, devices, **changes):
    """The tests' job on a graph with weights and vertices that are their own neighbours."""
    job = gpu_job(box, devices, **changes)
    job["dataset"] = weighted_dataset(box, "weights", none=0.2, n=400)
    return job


def on_cores(box, name):
    def compute():
        result, report = box.run(weighted_job(box, [CPU, CPU], output="runs/c", **KINDS[name]))
        result.ok()
        return report

    return box.shared_value(f"gpu-sampling-{name}", compute)


@cases(*KINDS)
def test_a_gpu_draws_what_cores_do(box, name):
    wanted = on_cores(box, name)
    result, report = run(box, weighted_job(box, [gpu(), CPU], **KINDS[name]))
    result.ok()
    assert fingerprint(report) == fingerprint(wanted), (fingerprint(report), fingerprint(wanted))
    for found, expected in zip(report["epochs"], wanted["epochs"]):
        for key in ("sampled_edges", "input_nodes"):
            assert found[key] == expected[key], (found, expected)


def test_sampler_of_a_faulting_gpu_is_replaced(box):
    result, report = run(box, weighted_job(box, [gpu(), CPU], **KINDS["whole"]), fail="sync:32")
    result.ok()
    assert fingerprint(report) == fingerprint(on_cores(box, "whole"))
    assert report["batches"]["resampled"] >= 1, report["batches"]


def test_memory_that_can_not_be_pinned_is_copied(box):
    result, report = run(box, weighted_job(box, [gpu(), CPU], **KINDS["whole"]), fail="noregister")
    result.ok()
    assert fingerprint(report) == fingerprint(on_cores(box, "whole"))
    with open(box.path("runs", "job", "log", "sampler-0.log")) as file:
        assert "the arena cannot be pinned" in file.read()

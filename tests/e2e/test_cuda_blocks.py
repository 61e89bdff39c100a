"""Blocks that stay on the emulated GPU where sampler and trainer share it: whole jobs."""

from harness import cases, fingerprint, not_under, timeout
from test_cuda import SANITIZED, gpu, gpu_job, run

CACHES = {"none": {"policy": "none"}, "degree": {"policy": "degree", "ratio": 0.2}}


def train(box, sampler, output, cache="none", **env):
    """Trained on GPU 0, sampled on the GPU of that number."""
    changes = {"epochs": 4, "output": f"runs/{output}", "cache": CACHES[cache]}
    job = gpu_job(box, [gpu(sampler), gpu(0)], **changes)
    result, report = run(box, job, SLUICE_SIMT_DEVICES="2", **env)
    result.ok()
    return report


def apart(box, cache):
    def compute():
        report = train(box, 1, f"apart-{cache}", cache)
        assert near(report) == 0, report["epochs"]
        return fingerprint(report)

    return box.shared_value(f"gpu-blocks-apart-{cache}", compute)


def near(report):
    return sum(e["bytes"]["blocks_near"] for e in report["epochs"])


def blocks(report):
    return sum(e["bytes"]["blocks"] for e in report["epochs"])


@timeout(120)
@not_under("address", SANITIZED)
@cases(*CACHES)
def test_blocks_stay_on_a_gpu_that_does_both(box, cache):
    report = train(box, 0, "shared", cache)
    assert 0 < near(report) <= blocks(report), report["epochs"]
    assert fingerprint(report) == apart(box, cache)


@timeout(120)
@not_under("address", SANITIZED)
def test_and_with_the_trainer_that_helps_out(box):
    """A single device, whose trainer is the sampler's standby trainer."""
    alone = gpu_job(box, [gpu(0)], epochs=4, output="runs/one", cache=CACHES["none"])
    del alone["allocation"]
    result, report = run(box, alone, SLUICE_SIMT_DEVICES="1")
    result.ok()
    assert near(report) > 0, report["epochs"]
    assert fingerprint(report) == apart(box, "none")


@timeout(120)
@not_under("address", SANITIZED)
@cases(
    ("sampler_drawn:3", "garbage"),
    ("sampler_published:4", "garbage"),
    ("lent_block", "garbage"),
    ("lent_block:3", "garbage"),
    ("sampler_drawn:5", "fault"),
)
def test_nor_does_a_death_change_a_bit(box, point, dead):
    report = train(box, 0, "killed", SLUICE_FAILPOINT=point, SLUICE_SIMT_DEAD=dead)
    assert report["restarts"] and "SIGKILL" in report["restarts"][0]["cause"], report["restarts"]
    assert near(report) > 0, report["epochs"]
    assert fingerprint(report) == apart(box, "none")

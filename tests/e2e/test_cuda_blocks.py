"""Blocks that stay on the emulated GPU where sampler and trainer share it: whole jobs."""

from harness import cases, fingerprint
from test_cuda import PLUGIN, SANITIZED, gpu, gpu_job, run

NOT_UNDER = {"address": SANITIZED}

CACHES = {"none": {"policy": "none"}, "degree": {"policy": "degree", "ratio": 0.2}}


# Blocks with all arrays that they may have.
SAMPLER = {"sampler.expand": "new", "sampler.edge_ids": True}


def job_of(box, sampler, **changes):
    """Trained on GPU 0, sampled on the GPU of that number."""
    return gpu_job(box, [gpu(sampler), gpu(0)], **{"epochs": 3, **SAMPLER, **changes})


def train(box, sampler, output, cache="none", **env):
    job = job_of(box, sampler, output=f"runs/{output}", cache=CACHES[cache])
    result, report = run(box, job, SLUICE_SIMT_DEVICES="2", **env)
    stayed = [line for line in result.ok().out.split("\n") if line.startswith("blocks ")]
    assert (near(report) > 0) == (sampler == 0) == bool(stayed), (stayed, report["epochs"])
    assert all("within a GPU that samples and trains" in line for line in stayed), stayed
    return report


def apart(box, cache):
    def compute():
        return fingerprint(train(box, 1, f"apart-{cache}", cache))

    return box.shared_value(f"gpu-blocks-apart-{cache}", compute)


def near(report):
    return sum(e["bytes"]["blocks_near"] for e in report["epochs"])


def blocks(report):
    return sum(e["bytes"]["blocks"] for e in report["epochs"])


@cases(*CACHES)
def test_blocks_stay_on_a_gpu_that_does_both(box, cache):
    report = train(box, 0, "shared", cache)
    assert near(report) <= blocks(report), report["epochs"]
    assert fingerprint(report) == apart(box, cache)


def test_and_with_the_trainer_that_helps_out(box):
    """A single device, whose trainer is the sampler's standby trainer."""
    alone = gpu_job(box, [gpu(0)], epochs=3, output="runs/one", cache=CACHES["none"], **SAMPLER)
    del alone["allocation"]
    result, report = run(box, alone, SLUICE_SIMT_DEVICES="1")
    result.ok()
    assert near(report) > 0, report["epochs"]
    assert fingerprint(report) == apart(box, "none")


@cases(
    ("sampler_published:4", "garbage"),
    ("lent_block:3", "garbage"),
    ("sampler_drawn:5", "fault"),
)
def test_nor_does_a_death_change_a_bit(box, point, dead):
    report = train(box, 0, "killed", SLUICE_FAILPOINT=point, SLUICE_SIMT_DEAD=dead)
    assert report["restarts"] and "SIGKILL" in report["restarts"][0]["cause"], report["restarts"]
    assert near(report) > 0, report["epochs"]
    assert fingerprint(report) == apart(box, "none")


def test_how_much_stays_is_told_while_the_job_runs(box):
    job = job_of(box, 0, epochs=100000, throttle={"sample": 0.01, "train": 0.02})
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0", "SLUICE_SIMT_DEVICES": "1"}
    running = box.start("run", box.job(job), env=env)
    box.until_epoch(running)

    def stats():
        return box.sluice("stats", box.path("runs/job"), "-o", "json").ok().json()

    running.until(lambda: stats()["bytes"]["blocks_near"] > 0, "near blocks of the last seconds")
    totals = stats()["totals"]
    assert 0 < totals["blocks_near_bytes"] <= totals["block_bytes"], totals
    running.stop()

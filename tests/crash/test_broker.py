"""The broker dies at its failpoints: a clear error, no leftovers, no half-written file."""

import json
import os

from harness import cases, small_job


def listed(box):
    text = box.sluice("doctor", "--failpoints").ok().out
    import re

    return set(re.findall(r"^\s*((?:sampler|trainer|standby|broker)_[a-z_]+)\b", text, re.M))


def test_every_failpoint_has_a_test(box):
    from test_workers import POINTS, SCHEDULED_POINTS

    tested = {point[0] for point in POINTS} | {"broker_phase", "broker_report", "broker_scale"}
    tested |= {"broker_checkpoint", "broker_checkpoint_named"}  # test_resume.py
    tested |= {point.split(":")[0] for point in SCHEDULED_POINTS}
    tested |= {"trainer_joined", "trainer_offered"}  # e2e/test_scheduling.py: async updates
    # e2e/test_exchange.py: gradients summed from GPU to GPU
    tested |= {f"trainer_{at}" for at in ("held", "reduce", "reduced", "written", "counted")}
    assert (
        listed(box) == tested
    ), f"not tested: {listed(box) - tested}; unknown: {tested - listed(box)}"


@cases(("broker_phase", 1), ("broker_phase", 4), ("broker_report", 1), ("broker_scale", 1))
def test_failpoint(box, name, count):
    config = small_job(
        box.shared_dataset("small"),
        allocation={"samplers": 2, "trainers": 2},
        schedule=[{"epoch": 1, "samplers": 1, "trainers": 3}],
    )
    result, report = box.run(config, env={"SLUICE_FAILPOINT": f"{name}:{count}"})
    assert result.rc == 1, str(result)
    errors = result.errors()
    assert len(errors) == 1 and "broker" in errors[0], str(result)
    box.until_gone()
    # Under its final name a file is whole or absent.
    for path in (box.path("runs/job/report.json"), box.path("job.report.json")):
        if os.path.exists(path):
            with open(path) as file:
                json.load(file)

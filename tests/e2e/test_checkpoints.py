"""Checkpoints of a run directory: which one is in charge, what is believed, what does not stay."""

import os

from harness import cases, small_job


def job(box, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "epochs": 1000,
            "throttle": {"train": 0.01},
            "checkpoint": {"every_updates": 5, "keep": 3},
            **changes,
        },
    )


def killed_at(box, config, point, *arguments):
    """Runs the job until its broker stands at the failpoint, and kills all of it there."""
    running = box.start(
        "run", box.job(config), *arguments, env={"SLUICE_FAILPOINT": f"{point}:stop"}
    )
    box.until_stopped(running, "broker")
    box.kill_everything()
    result = running.wait()
    box.until_gone()
    return result


@cases(False, True)
def test_the_older_one_stays_in_charge(box, damaged):
    """Killed before it has left a checkpoint of its own, it goes on from the older one again."""
    config = job(box)
    killed_at(box, config, "broker_checkpoint_named:2")
    older, newer = box.checkpoints()
    if damaged:
        os.truncate(box.path("runs/job/checkpoints", newer, "model.safetensors"), 10)
    result = killed_at(box, config, "broker_checkpoint", "--checkpoint", older)
    assert f"going on from update {int(older)}," in result.err, str(result)
    assert f"{newer}.abandoned" in box.checkpoints(), box.checkpoints()
    result, _ = box.run(config, "--dry-run")
    assert f"going on from update {int(older)}," in result.ok().err, str(result)

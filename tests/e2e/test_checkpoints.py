"""Checkpoints of a run directory: which one is in charge, what is believed, what does not stay."""

import os

from harness import cases, read_json, small_job

BATCHES = 12  # of an epoch: 750 training vertices, 64 a batch


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


def names(box, output="runs/job"):
    return sorted(os.listdir(box.path(output, "checkpoints")))


def hidden(box, output="runs/job"):
    found = []
    for folder, _, files in os.walk(box.path(output)):
        here = [os.path.basename(folder), *files]
        found += [os.path.join(folder, name) for name in here if name[0] == "."]
    return found


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


def state_of(box, name):
    return read_json(box.path("runs/job/checkpoints", name, "state.json"))


def damage(box, name):
    os.truncate(box.path("runs/job/checkpoints", name, "model.safetensors"), 10)


# ---- an older one is taken ----------------------------------------------------------------------


@cases(False, True)
def test_the_older_one_stays_in_charge(box, damaged):
    """Killed before it has left a checkpoint of its own, it goes on from the older one again."""
    config = job(box)
    killed_at(box, config, "broker_checkpoint_named:2")
    older, newer = names(box)
    if damaged:
        damage(box, newer)
    result = killed_at(box, config, "broker_checkpoint", "--checkpoint", older)
    assert f"going on from update {int(older)}," in result.err, str(result)
    assert f"{newer}.abandoned" in names(box), names(box)
    result, _ = box.run(config, "--dry-run")
    assert f"going on from update {int(older)}," in result.ok().err, str(result)


# ---- a run that is begun anew --------------------------------------------------------------------


# ---- counters that contradict one another --------------------------------------------------------

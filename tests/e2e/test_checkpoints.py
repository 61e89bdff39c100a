"""Checkpoints of a run directory: which one is in charge, what is believed, what does not stay."""

import hashlib
import os
import re

from harness import cases, read_json, small_job, timeout

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


@timeout(120)
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


@timeout(120)
def test_the_one_just_written_outlives_those_that_were_left_behind(box):
    config = job(box)
    killed_at(box, config, "broker_checkpoint_named:2")
    older, newer = names(box)
    config["checkpoint"] = {"every_updates": 1, "keep": 1}
    killed_at(box, config, "broker_checkpoint:2", "--checkpoint", older)
    (written,) = [name for name in names(box) if name[0] != "."]
    resumes = state_of(box, written)["history"]["resumes"]
    assert [resume["update"] for resume in resumes] == [int(older)], (older, newer, written)


# ---- a run that is begun anew --------------------------------------------------------------------


@timeout(120)
def test_nothing_hidden_is_left_of_a_first_checkpoint_that_was_cut_short(box):
    config = job(box)
    killed_at(box, config, "broker_checkpoint")
    assert [name for name in names(box) if name.endswith(".tmp")], names(box)
    config["epochs"] = 3
    result, report = box.run(config)
    result.ok()
    assert "begins anew" in result.err and report["resumes"] == [], str(result)
    assert not hidden(box), hidden(box)


# ---- counters that contradict one another --------------------------------------------------------


def contradict(box, name, **changes):
    path = box.path("runs/job/checkpoints", name, "state.json")
    with open(path) as file:
        text = file.read()
    # Numbers are written in C's shortest form, which JSON's own parser here would change.
    for key, value in changes.items():
        text, n = re.subn(rf'"{key}":\s*\d+', f'"{key}": {value}', text, count=1)
        assert n == 1, key
    bare = re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda m: m.group(1) or "", text)
    bare, n = re.subn(r',"sha256":"[0-9a-f]{64}"}$', "}", bare)
    assert n == 1, bare[-100:]
    new = hashlib.sha256(bare.encode()).hexdigest()
    text, n = re.subn(r'("sha256":\s*)"[0-9a-f]{64}"(\s*}\s*)$', rf'\1"{new}"\2', text)
    assert n == 1
    with open(path, "w") as file:
        file.write(text)


@timeout(120)
@cases("the_epoch", "the_epochs")
def test_counters_that_contradict_one_another_are_refused(box, what):
    """Its sums are right, so it was written so, by whatever: the job would wait for ever."""
    config = job(box, **{"checkpoint": {"every_updates": 1, "keep": 1}})
    killed_at(box, config, "broker_checkpoint_named:2")
    name = names(box)[-1]
    state = state_of(box, name)
    key = what.removeprefix("the_")
    contradict(box, name, **{key: state[key] + 1})
    result, _ = box.run(config)
    assert result.rc == 2, str(result)
    (error,) = result.errors()
    assert f"{name}/state.json: " in error and "found " in error and "wanted " in error, error

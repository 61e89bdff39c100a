"""Jobs that go wrong in their numbers do not end as "done" in silence, and their advice works."""

import os
import re

import numpy as np

from harness import SHARED_DATA, Skip, cases, planted, small_job, text_of, write_dataset

TOO_LARGE = {"optimizer.kind": "sgd", "optimizer.lr": 1000, "optimizer.weight_decay": 0}


def wild(box, **changes):
    """SGD whose steps are far too large."""
    return small_job(box.shared_dataset("planted"), **{**TOO_LARGE, **changes})


def fails(box, job, *wanted, env=None):
    """The job fails and its message has all of that: the message, and the report."""
    result, report = box.run(job, env=env)
    assert result.rc == 1, str(result)
    (line,) = result.errors()
    assert report["status"] == "failed" and report["message"] in line, str(result)
    for text in wanted:
        assert text in line, f"no '{text}'\n{result}"
    return report["message"], report


def assert_nothing_wrong_is_left(box, output):
    """No parameters that are not finite in any file of the run."""
    for folder, _, names in os.walk(box.path(output)):
        for name in names:
            if name.endswith(".safetensors"):
                data = open(os.path.join(folder, name), "rb").read()
                n = int.from_bytes(data[:8], "little")
                values = np.frombuffer(data[8 + n :][: (len(data) - 8 - n) // 4 * 4], np.float32)
                assert np.isfinite(values).all(), f"{folder}/{name}"


MODES = {
    "ordered": {},
    "async": {"updates.mode": "async"},
}


@cases(*MODES)
def test_steps_that_are_too_large_end_the_job(box, mode):
    changes = MODES[mode]
    job = wild(box, **{"optimizer.momentum": 0.9, "evaluate.every": 0, **changes})
    message, report = fails(box, job, "at a learning rate of 1000", "is not finite")
    assert re.match(r"update \d+ \(epoch \d+, \d+ of 12\) at a learning", message), message
    assert re.search(r"loss before it was \S+e[+]\d+, where guessing", message), message
    assert "lower optimizer.lr (now 1000) or " in message, message
    assert "--set output=DIR" in message, message
    assert not os.path.exists(box.path("runs/job/model.safetensors"))
    assert not os.path.exists(box.path("runs/job/checkpoints"))
    assert report["params_sha256"] is None and report["warnings"] == [], report["warnings"]
    assert_nothing_wrong_is_left(box, "runs/job")
    # What the message says to do: either is enough.
    for name, better in (("lower", {"optimizer.lr": 0.1}), ("clip", {"optimizer.clip_norm": 1e-3})):
        again = wild(box, output=f"runs/{name}", **{**changes, **better})
        result, report = box.run(again, name=name)
        result.ok()
        assert report["status"] == "done", str(result)
    assert "warning" in result.out or report["epochs"][-1]["loss"] < 3, str(result)


def test_whoever_meets_it_says_the_same(box):
    """One trainer, two, and with a death in the middle of the update that is not finite."""
    job = wild(box, **{"updates.batches_per_update": 2, "evaluate.every": 0})
    alone, _ = fails(box, dict(job, output="runs/alone"))
    last = int(re.match(r"update (\d+)", alone).group(1))
    two = dict(job, allocation={"samplers": 1, "trainers": 2, "switching": False})
    assert fails(box, dict(two, output="runs/two"))[0] == alone
    fatal = {"SLUICE_FAILPOINT": f"trainer_apply:{last}"}
    message, report = fails(box, dict(two, output="runs/dead"), env=fatal)
    assert message == alone
    (death,) = report["restarts"]
    assert death["cause"].startswith("was killed by SIGKILL"), death


def test_the_checkpoint_that_is_named_goes_on(box):
    """The learning rate grows by 0.1 with every update; the first epoch still learns."""
    changes = {"optimizer.warmup_epochs": 840, "epochs": 840, "evaluate.every": 0}
    job = wild(box, checkpoint={"every_updates": 1, "keep": 1000}, **changes)
    path = box.job(job)
    report = box.path("report.json")
    running = box.start(
        "run", path, "--report", report, env={"SLUICE_FAILPOINT": "trainer_gradient:4:stop"}
    )
    pid = box.until_stopped(running, "trainer")
    kept = box.path("runs/job/checkpoints")
    running.until(lambda: os.path.isdir(kept) and os.listdir(kept), "a checkpoint")
    os.kill(pid, 18)  # SIGCONT
    result = running.wait()
    assert result.rc == 1, str(result)
    (line,) = result.errors()
    found = re.search(r"--set model.weights=(\S+) --set output=DIR", line)
    assert found, line
    assert re.search(r"whose loss had not grown is of update ([1-9]|1[01]):", line), line
    better = ["optimizer.lr=0.1", "optimizer.warmup_epochs=0", "epochs=2", "evaluate.every=1"]
    sets = [word for key in better for word in ("--set", key)]
    sets += ["--set", f"model.weights={found.group(1)}", "--set", "output=runs/on"]
    box.sluice("run", path, *sets).ok()


def test_features_that_are_too_large_are_the_cause(box):
    arrays = planted()
    arrays["node_feat"] = arrays["node_feat"] * np.float32(1e25)
    folder = write_dataset(box.path("data"), arrays)
    message, _ = fails(box, small_job(folder), "update 1 (epoch 1, 1 of 12)", "no step was made")
    assert re.search(r"features are as large as \S+e[+]26: scale node_feat.npy", message), message
    arrays["node_feat"] *= np.float32(1e-25)
    box.run(small_job(write_dataset(box.path("scaled"), arrays), output="runs/on"))[0].ok()


def test_an_evaluation_that_is_not_finite_ends_the_job(box):
    """A validation vertex that nobody else meets: training never sees its features."""
    arrays = planted()
    v = arrays["val_idx"][0]
    rows = np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
    stays = (arrays["indices"] != v) & (rows != v)
    arrays["indices"] = arrays["indices"][stays]
    arrays["indptr"][1:] = np.cumsum(np.bincount(rows[stays], minlength=len(arrays["indptr"]) - 1))
    arrays["node_feat"][v] = 3e38
    folder = write_dataset(box.path("data"), arrays)
    message, report = fails(
        box,
        small_job(folder, epochs=20, **{"optimizer.lr": 0.1}),
        "the validation after epoch ",
        "of parameters that are all finite",
        "features are as large as 3e+38",
    )
    # Training was well: its parameters are kept, and a checkpoint of them is named.
    weights = re.search(r"--set model.weights=(\S+)", message).group(1)
    assert os.path.exists(box.path(weights)) and report["params_sha256"]
    assert_nothing_wrong_is_left(box, "runs/job")


def test_a_loss_that_explodes_is_said(box):
    """Adam's steps are finite whatever the learning rate: the job is done, and says what it is."""
    result, report = box.run(wild(box, **{"optimizer.kind": "adam"}))
    result.ok()
    text = report["warnings"][0]
    assert re.match(r"the training loss of the last epoch, \S+, is far above the 1.3\d+ that", text)
    assert "lower optimizer.lr (now 1000) or set optimizer.clip_norm" in text, text
    assert f"warning     {text}\n" in result.out, str(result)
    assert f"sluice: warning: broker: {text}\n" in result.err, str(result)
    assert text in box.sluice("report", "runs/job", "--html", "--out", "-").ok().out
    assert text in text_of(box.path("runs/job/events.jsonl"))
    box.run(wild(box, output="runs/on", **{"optimizer.kind": "adam", "optimizer.lr": 0.01}))[0].ok()


def test_who_is_no_better_than_the_majority_says_so(box):
    """Labels that nothing tells, most of them of one class."""
    arrays = planted()
    rng = np.random.default_rng(3)
    arrays["node_label"] = (rng.random(len(arrays["node_label"])) < 0.2) * rng.integers(0, 4)
    arrays["node_label"][:3] = (1, 2, 3)
    arrays["node_label"] = arrays["node_label"].astype(np.int64)
    folder = write_dataset(box.path("data"), arrays)
    result, report = box.run(small_job(folder, epochs=1))
    result.ok()
    assert len(report["warnings"]) == 2, report["warnings"]
    for what, text in zip(("validation", "test"), report["warnings"]):
        list_of = {"validation": "val_idx", "test": "test_idx"}[what]
        counts = np.bincount(arrays["node_label"][arrays[list_of]])
        share = counts.max() / counts.sum()
        wanted = f"is no better than the {share:.4g} that always answering class"
        assert text.startswith(f"the {what}'s accuracy, ") and wanted in text, (text, wanted)
        assert f"warning     {text}\n" in result.out, str(result)
    good = box.run(small_job(box.shared_dataset("planted"), output="runs/good"))
    assert good[0].ok() and good[1]["warnings"] == [] and "warning " not in good[0].out


def test_a_rare_class_is_judged_by_roc_auc(box):
    folder = os.path.join(SHARED_DATA, "tolokers")
    if not os.path.isdir(folder):
        raise Skip(f"{folder} is not there")
    job = small_job(folder, epochs=1, **{"sampler.batch_size": 1024})
    result, report = box.run(job)
    result.ok()
    best = report["best_metric"]
    why = "21.8 % of the training vertices are of class 1"
    assert best["name"] == "roc_auc" and best["why"] == why, best
    assert f"the best by ROC-AUC, chosen since {why})" in result.out, str(result)
    assert f"judged by   ROC-AUC, chosen automatically: {why}\n" in box.sluice(
        "run", box.job(dict(job, output="runs/dry")), "--dry-run"
    ).ok().out
    told = box.run(dict(job, output="runs/told", evaluate={"metric": "accuracy"}))[1]
    assert told["best_metric"]["name"] == "accuracy" and "why" not in told["best_metric"]

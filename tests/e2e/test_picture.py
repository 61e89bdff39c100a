"""scripts/pipeline-picture draws any report: one device or many, a run that failed at once."""

import copy
import os
import re
import subprocess

from harness import ROOT, cases, cpu_devices, small_job, timeout
from svg import SVG, sound

SCRIPT = os.path.join(ROOT, "scripts", "pipeline-picture")


def draw(box, report, name="report"):
    """The picture's texts and its root, after what can be checked of every picture."""
    path, svg = box.write_json(f"{name}.json", report), box.path(f"{name}.svg")
    done = subprocess.run([SCRIPT, path, "-o", svg], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    texts, root = sound(svg)
    for device in report.get("devices", []):
        wanted = f"{device['kind']} {device['index']}"
        assert wanted in texts, f"{name}: no '{wanted}' among {texts}"
    return texts, root


def flags_cover_nothing(root):
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(f"{SVG}circle")]
    for i, (x1, y1) in enumerate(circles):
        for x2, y2 in circles[:i]:
            assert (x1 - x2) ** 2 + (y1 - y2) ** 2 >= 17**2, f"flags at {x1},{y1} and {x2},{y2}"


def report_of(box, **changes):
    """A report of a real run; the picture is of what the broker writes, not of what we think."""
    config = small_job(
        box.shared_dataset("small"),
        **{"sampler.batch_size": 48, "updates.batches_per_update": 4, "epochs": 3, **changes},
    )
    result, report = box.run(config)
    result.ok()
    return report


AUTO = {"samplers": "auto", "trainers": "auto", "switching": True}
PRESC = {"policy": "presc", "ratio": 0.2, "report_optimal": True}
JOBS = {
    "one-device": {"allocation": AUTO, "devices": cpu_devices(1), "cache": PRESC},
    "eight-devices": {"allocation": AUTO, "devices": cpu_devices(8), "cache": PRESC},
    "no-cache-no-switching": {"allocation.switching": False, "evaluate.every": 0},
    "async": {"updates": {"mode": "async"}, "updates.batches_per_update": 1},
    "scaled": {
        "devices": cpu_devices(4),
        "schedule": [{"epoch": 1, "samplers": 1, "trainers": 3}],
    },
}


@timeout(90)
@cases(*JOBS)
def test_it_shows(box, job):
    report = report_of(box, **JOBS[job])
    texts, root = draw(box, report)
    for device in report["devices"]:
        for worker, role in zip(device["workers"], device["roles"]):
            shown = worker + (", standby" if role == "standby" else "")
            several = sum(role in d["roles"] for d in report["devices"]) > 6
            assert shown in texts or (several and worker in texts), f"no {shown} in {texts}"
    assert any(t.startswith("done in ") for t in texts), texts
    assert "a sampler" in texts and "One batch" in texts, texts
    assert any("to sample" in t for t in texts), "the decision in words is missing"
    assert (job == "one-device") == any("No device only trains" in t for t in texts), texts
    assert any("hit a cache" in t for t in texts) == ("cache" in JOBS[job]), texts
    assert any("the schedule changes the split" in t for t in texts) == (job == "scaled"), texts
    titles = [t.text for t in root.iter(f"{SVG}title")]
    for epoch in (1, 2, 3):
        assert any(t.startswith(f"epoch {epoch}: ") for t in titles), titles
    flags_cover_nothing(root)


def test_any_numbers_fit(box):
    small = report_of(box, cache=PRESC)
    few = copy.deepcopy(small)
    few.update(status="failed", message="trainer 0 died <5> times & more", epochs=[], scales=[])
    few.update(allocations=[], test_accuracy=None, restarts=[])
    texts, _ = draw(box, few, "no-epoch")
    assert "No epoch was completed." in texts and few["message"] in texts, texts
    assert any(t.startswith("failed after") for t in texts), texts

    draw(box, {"schema": "sluice.report/1", "job": "bare", "status": "failed"}, "bare")

    large = copy.deepcopy(small)
    large["job"] = 'a "long" <name> & \u0007 \u4e2d\u6587 ' * 9
    large["config"]["dataset"] = "/far" * 200
    large["devices"] = [
        {"index": i, "kind": "cpu", "cores": list(range(64)), "memory": 1 << 40,
         "workers": [f"sampler {i}", f"trainer {63 - i}"][i >= 40:],
         "roles": ["sampler", "standby"] if i < 40 else ["trainer"]}
        for i in range(64)
    ]  # fmt: skip
    large["epochs"] = [dict(small["epochs"][i % 3], epoch=i) for i in range(400)]
    large["wall_seconds"] = sum(e["seconds"] + e["evaluate_seconds"] for e in large["epochs"]) + 1
    split = {"samplers": 40, "trainers": 24}
    large["scales"] = [
        {"seconds": 0.5 + 0.01 * i, "epoch": 0, "by": "user", "from": split, "to": split,
         "took_seconds": 1e-7, "ok": i % 2 == 0, "message": "no " * 99}
        for i in range(40)
    ]  # fmt: skip
    large["restarts"] = [{"worker": "trainer 3", "seconds": 1e9, "cause": "signal 9", "held": None}]
    texts, root = draw(box, large, "large")
    assert any(t.startswith("and ") and t.endswith(" more") for t in texts), texts
    flags_cover_nothing(root)


def test_it_refuses_what_is_no_report(box):
    for name, value in (("list", []), ("other", {"schema": "other/1"})):
        path = box.write_json(f"{name}.json", value)
        done = subprocess.run([SCRIPT, path], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1 and done.stdout == "", done
        assert re.fullmatch(r"pipeline-picture: .*wanted 'sluice.report/1'.*\n", done.stderr), done
    missing = subprocess.run([SCRIPT, "nothing.json"], capture_output=True, text=True, timeout=30)
    assert missing.returncode == 1 and "No such file" in missing.stderr, missing

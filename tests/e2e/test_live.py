"""Live statistics of real jobs: they add up, say who waits for whom, and never go backwards.

Jobs stand still at a failpoint while they are looked at; what is told then is compared with what is
told elsewhere, in the report or in other lines. What follows from given times is in unit tests.
"""

import math
import os
import re

from harness import cases, go_on, json_lines, read_json, steady_job

EPOCHS = 6


def me(box):
    return box.unique("live")


def job(box, **changes):
    return steady_job(box, "live", **{"allocation.switching": False, **changes})


def start(box, config, **failpoints):
    points = ",".join(f"{point}:{what}" for point, what in failpoints.items())
    env = {"SLUICE_FAILPOINT": points, "SLUICE_LOG": "info"}
    running = box.start("run", box.job(config), "--report", box.path("report.json"), env=env)
    running.until(lambda: os.path.exists(box.path("runs/job")), "a run directory")
    return running


def follow(box, config, **failpoints):
    """A running job and a reader of its lines."""
    running = start(box, config, **failpoints)
    return running, box.start("stats", me(box), "--follow", "-o", "json")


def stop(box, running, follower):
    running.stop()
    follower.wait()
    return read_json(box.path("report.json"))


def newest(follower, condition, what):
    """The first line that it holds of."""

    def found():
        lines = json_lines(follower)
        return lines and condition(lines[-1]) and lines[-1]

    return follower.until(found, what, 60)


def numbers(value, path=""):
    """Every number of a JSON value, with where it is."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        yield path, value
    else:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from numbers(item, f"{path}.{key}")


def check(line):
    """What holds of every line, whatever the job does."""
    for path, number in numbers(line):
        assert math.isfinite(number) and number >= 0, (path, number)
    for name, stage in line["stages"].items():
        assert 0 <= stage["busy"] <= 1, (name, stage)
        assert (stage["p50"] is None) == (stage["count"] == 0), (name, stage)
        assert stage["p50"] is None or stage["p50"] <= stage["p99"], (name, stage)
    for worker in line["workers"]:
        assert worker["busy"] + worker["wait"] <= 1.001, worker
    bounds = line["histograms"]["le"]
    assert bounds == sorted(bounds)
    for name in ("sample", "extract", "train", "wait"):
        histogram = line["histograms"][name]
        assert len(histogram["counts"]) == len(bounds) + 1
        assert sum(histogram["counts"]) == histogram["count"] == line["stages"][name]["count"]
    assert line["queue"]["used_bytes"] <= line["queue"]["capacity_bytes"]
    assert 0 <= line["done"] <= line["total"] or line["total"] == 0


def started_by(line):
    """Batches that were trained when the window of its rates began."""
    return line["totals"]["batches"] - line["rates"]["batches"] * line["rates"]["seconds"]


def stands_still(line):
    """Whether something was trained, and nothing in its window."""
    return line["totals"]["batches"] and not line["rates"]["batches"]


def total(report, key, of=lambda epoch: epoch):
    return sum(of(epoch)[key] for epoch in report["epochs"])


def test_lines_add_up(box):
    """All epochs are trained, and a trainer stands still before the last word on them."""
    config = job(
        box,
        **{
            "epochs": EPOCHS,
            "evaluate.every": 0,
            "throttle": {"sample": 0.004, "train": 0.02},
            "cache": {"policy": "degree", "ratio": 0.3},
        },
    )
    running, follower = follow(box, config, trainer_infer="1:stop")
    pid = box.until_stopped(running, "trainer")
    newest(follower, stands_still, "the last batch out of the window")
    go_on(pid)
    running.wait().ok()
    follower.wait()
    report = read_json(box.path("report.json"))
    lines = [line for line in json_lines(follower) if line["state"] == "running"]
    for before, line in zip([None, *lines], lines):
        check(line)
        if before is None:
            continue
        for key, number in line["totals"].items():
            assert number >= before["totals"][key], (key, before["totals"], line["totals"])
        assert line["updates"]["version"] >= before["updates"]["version"]
    # The first one is made for who asks, a little after the look that its rates are of.
    exact = [started_by(line) for line in lines[1:]]
    begun = [round(batches) for batches in exact]
    assert all(abs(a - b) < 1e-5 for a, b in zip(exact, begun)), exact
    assert begun == sorted(begun) and begun[-1] == lines[-1]["totals"]["batches"], begun
    last = lines[-1]
    totals, stages, cache = last["totals"], last["stages"], last["cache"]
    assert totals["batches"] == report["batches"]["trained"] == total(report, "batches")
    assert totals["edges"] == total(report, "sampled_edges"), totals
    assert totals["input_nodes"] == total(report, "input_nodes"), totals
    assert totals["cache_hits"] == total(report, "hits", lambda epoch: epoch["cache"]), totals
    assert cache["ranked"] and 0 < cache["hit_rate_total"] < 1, cache
    for name, least in (("sample", 0.004), ("extract", 0), ("train", 0.02), ("wait", 0)):
        known = [epoch["stages"][name] for epoch in report["epochs"]]
        assert stages[name]["count"] == sum(stage["count"] for stage in known), (name, stages)
        assert abs(stages[name]["seconds"] - sum(s["seconds"] for s in known)) < 1e-6, name
        # A median of all lies among those of the parts.
        medians = [stage["p50"] for stage in known]
        assert least <= min(medians) <= stages[name]["p50"] <= max(medians), (name, medians)


def wakes(box):
    """How often the broker has slept and gone on: it does so for each look and each tick."""
    (broker,) = box.processes("broker")
    with open(f"/proc/{broker}/status") as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M).group(1))


@cases(False, True)
def test_looking_costs_next_to_nothing(box, followed):
    """A batch is looked at once, but for the first of each phase that is not done; a line is made
    for who wants it."""
    changes = {"sampler.batch_size": 8, "epochs": EPOCHS, "evaluate.every": 0}
    running = start(box, job(box, **changes), trainer_gradient="80:stop")
    pid = box.until_stopped(running, "trainer")
    seen = 0
    if followed:
        follower = box.start("stats", me(box), "--follow", "-o", "json")
        follower.until(lambda: len(json_lines(follower)) >= 4, "four lines", 60)
    else:
        slept = wakes(box)
        running.until(lambda: wakes(box) >= slept + 20, "a broker that has looked around", 60)
    go_on(pid)
    running.wait().ok()
    if followed:
        follower.wait()
        seen = len(json_lines(follower))
    report = read_json(box.path("report.json"))
    log = open(box.path("runs/job/log/broker.log")).read()
    said = re.search(
        r"statistics: (\d+) looks at (\d+) batches; (\d+) lines told, (\d+) made for "
        r"(\d+) questions",
        log,
    )
    looks, batches, told, made, questions = map(int, said.groups())
    trained, evaluated = report["batches"]["trained"], 64
    assert trained <= batches <= trained + evaluated + 4 * looks, said.group(0)
    # The follower's first line is an answer; the last one may be on its way when it leaves. Whoever
    # lists jobs on this machine asks, too.
    assert max(seen - 1, 0) <= told <= seen + bool(seen), (said.group(0), seen)
    assert made <= questions, said.group(0)

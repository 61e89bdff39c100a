"""`sluice report`: of runs that are over, under way, killed or damaged; the page in one file."""

import json
import os
import re

from harness import cases, read_json, small_job


def finished(box, **changes):
    box.run(small_job(box.shared_dataset("small"), **changes))[0].ok()
    return read_json(box.path("runs/job/report.json"))


def test_text_tells_the_whole_run(box):
    report = finished(box)
    result = box.sluice("report", "runs/job").ok()
    last = report["epochs"][-1]
    for words in (
        "test: done in ",
        f"3  {last['loss']:.4f}",
        "Bottlenecks",
        "Decisions on the split\n  epoch 1: 1+1: fixed by the job file",
        f"parameters  sha256 {report['params_sha256']}",
        f"directory   {os.path.realpath(box.path('runs/job'))}",
    ):
        assert words in result.out, f"'{words}' is missing\n{result}"
    assert result.err == ""


def test_json_is_the_report_as_it_is(box):
    report = finished(box)
    assert box.sluice("report", "runs/job/", "-o", "json").ok().json() == report


def embedded(page):
    """The JSON that the page carries in itself."""
    pattern = r'<script type="application/json" id="sluice-data">(.*?)</script>'
    (data,) = re.findall(pattern, page, re.S)
    return json.loads(data)


def test_a_page_in_one_file(box):
    report = finished(box)
    result = box.sluice("report", "runs/job", "--html").ok()
    assert result.out == "runs/job/report.html\n", str(result)
    with open(box.path("runs/job/report.html")) as file:
        page = file.read()
    data = embedded(page)
    assert data["schema"] == "sluice.describe/1" and data["state"] == "done"
    assert data["report"] == report and data["epochs"] == report["epochs"]
    # Nothing is fetched from anywhere.
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page)
    # Again, over the old one, to a pipe, and elsewhere.
    box.sluice("report", "runs/job", "--html").ok()
    assert box.sluice("report", "runs/job", "--html", "--out", "-").ok().out == page + "\n"
    box.sluice("report", "runs/job", "--html", "--out", "elsewhere.html").ok()
    with open(box.path("elsewhere.html")) as file:
        assert embedded(file.read()) == data
    left = [name for name in os.listdir(box.path("runs/job")) if name.startswith(".")]
    assert not left, left


def test_the_page_has_nowhere_to_go(box):
    finished(box)
    result = box.sluice("report", "runs/job", "--html", "--out", "no/such/place.html")
    assert result.rc == 2 and "no/such" in result.errors()[0], str(result)


def test_a_disk_that_is_full(box):
    """The page is whole or not there, and the old one stays."""
    finished(box)
    with box.small_disk("40k") as disk:
        with open(os.path.join(disk, "report.html"), "w") as file:
            file.write("the old one")
        with open(os.path.join(disk, "ballast"), "w") as file:
            file.write("x" * 30000)
        result = box.sluice("report", "runs/job", "--html", "--out", "disk/report.html")
        assert result.rc == 1 and len(result.errors()) == 1, str(result)
        assert "No space left" in result.errors()[0], str(result)
        assert sorted(os.listdir(disk)) == ["ballast", "report.html"]
        with open(os.path.join(disk, "report.html")) as file:
            assert file.read() == "the old one"


def test_a_run_under_way_is_told_so_far(box):
    name = f"told-{os.getpid()}"  # no other job of this machine has it
    config = small_job(box.shared_dataset("small"), epochs=500, throttle={"train": 0.01}, name=name)
    running = box.start("run", box.job(config))
    box.until_epoch(running, 2)
    for run in ("runs/job", name):  # the job's name will do
        result = box.sluice("report", run).ok()
        assert f"{name}: running in " in result.out and "Epochs" in result.out, str(result)
    report = box.sluice("report", "runs/job", "-o", "json").ok().json()
    assert report["status"] == "running" and len(report["epochs"]) >= 2
    assert report["batches"]["trained"] == sum(e["batches"] for e in report["epochs"])
    box.sluice("report", "runs/job", "--html", "--out", "so-far.html").ok()
    with open(box.path("so-far.html")) as file:
        assert embedded(file.read())["state"] == "running"
    running.interrupt()
    running.wait()
    assert f"{name}: stopped in " in box.sluice("report", "runs/job").ok().out


def cut_short(box):
    path = box.path("runs/job/report.json")
    os.truncate(path, os.path.getsize(path) // 2)


def empty(box):
    for name in ("report.json", "config.json"):
        os.remove(box.path("runs/job", name))


def somebody_elses(box):
    with open(box.path("runs/job/report.json"), "w") as file:
        file.write('{"schema": "other/1"}')


DAMAGES = {
    "cut short": (cut_short, "report.json' is damaged"),
    "somebody else's": (somebody_elses, 'found schema "other/1"'),
    "empty": (empty, "without report.json or config.json"),
}


@cases(*DAMAGES)
def test_what_is_no_run_is_said(box, what):
    damage, words = DAMAGES[what]
    finished(box)
    damage(box)
    result = box.sluice("report", "runs/job")
    assert result.rc == 2 and result.out == "", str(result)
    (error,) = result.errors()
    assert words in error, error


@cases("nowhere", "runs/nowhere", "job.json")
def test_a_run_that_is_not_there(box, name):
    finished(box)
    result = box.sluice("report", name)
    assert result.rc == 2, str(result)
    (error,) = result.errors()
    assert f"'{name}'" in error and "no run directory" in error, error

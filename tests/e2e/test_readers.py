"""Readers that go away (`sluice ... | head`): what is done comes to its end, quietly."""

import os
import subprocess

from harness import BIN, SLOW, cases, read_json, small_job


def without_a_reader(box, *arguments, err=False, ignored=False, program="sluice"):
    """Runs a command whose standard output (and error) goes to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [os.path.join(BIN, program), *arguments],
            cwd=box.folder,
            env=box.environment(),
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer if err else subprocess.PIPE,
            text=True,
            timeout=60 * SLOW,
            restore_signals=not ignored,  # Python itself ignores SIGPIPE
            check=False,
        )
    finally:
        os.close(writer)


def quietly(done, status=0):
    assert done.returncode == status, (done.returncode, done.stderr)
    said = [line for line in (done.stderr or "").splitlines() if line.startswith("sluice: ")]
    assert not [line for line in said if not line.startswith("sluice: note: ")], done.stderr


@cases(
    ("text", [], True),
    ("quiet_json", ["--quiet", "-o", "json"], False),
)
def test_a_job_goes_on_to_its_end(box, _, arguments, err):
    config = small_job(box.shared_dataset("small"))
    report = box.path("report.json")
    quietly(without_a_reader(box, "run", box.job(config), "--report", report, *arguments, err=err))
    assert read_json(report)["status"] == "done"
    alone, wanted = box.run(dict(config, output="runs/alone"), name="alone")
    alone.ok()
    assert read_json(report)["params_sha256"] == wanted["params_sha256"]


def test_a_job_that_fails_has_its_own_status(box):
    config = small_job(box.path("nowhere"))
    assert without_a_reader(box, "run", box.job(config), err=True).returncode == 2


def test_what_is_made_is_whole(box):
    arguments = ["rmat", "--nodes", "2000", "--edges", "20000", "--out", "graph"]
    quietly(without_a_reader(box, "generate", *arguments, err=True))
    box.sluice("inspect", "graph").ok()
    assert os.listdir(box.path("graph"))


PRINTING = (
    ["--help"],
    ["schema"],
    ["doctor", "--failpoints"],
    ["inspect", "DATA", "-o", "json"],
    ["run", "job.json", "--dry-run"],
    ["report", "runs/job"],
)


def test_what_prints_ends_quietly(box):
    data = box.shared_dataset("small")
    box.run(small_job(data), name="first")[0].ok()
    box.job(small_job(data, output="runs/other"))
    for words in PRINTING:
        arguments = [data if word == "DATA" else word for word in words]
        quietly(without_a_reader(box, *arguments))
        quietly(without_a_reader(box, *arguments, ignored=True))
        # A disk that is full is no reader that has gone.
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [os.path.join(BIN, "sluice"), *arguments],
                cwd=box.folder,
                env=box.environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60 * SLOW,
                check=False,
            )
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert "sluice: standard output could not be written" in done.stderr


FOLLOWING = (
    ["stats", "runs/job", "--follow", "-o", "json"],
    ["stats", "runs/job", "--follow"],
    ["logs", "runs/job", "--follow"],
    ["ps", "-o", "json"],
)


def test_what_follows_ends_with_its_reader_and_the_job_does_not(box):
    running = box.start("run", box.job(small_job(box.shared_dataset("small"), epochs=1000000)))
    running.until(lambda: os.path.exists(box.path("runs/job/config.json")), "the run directory")
    for arguments in FOLLOWING:
        for ignored in (False, True):
            quietly(without_a_reader(box, *arguments, ignored=ignored))
    assert not running.finished()
    running.interrupt()
    assert running.wait().rc == 130

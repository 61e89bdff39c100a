"""scripts/sluice.service: systemd understands it, and it says what the daemon relies on."""

import os
import re
import shutil
import subprocess

from harness import BIN, ROOT, Daemon, Skip, small_job

UNIT = os.path.join(ROOT, "scripts", "sluice.service")


def settings():
    with open(UNIT) as file:
        lines = [line.strip() for line in file]
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#[")


def test_systemd_accepts_the_unit(box):
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not installed")
    with open(UNIT) as file:
        text = file.read()
    # The program is here, and there is no user sluice.
    text = text.replace("/usr/local/bin/", f"{BIN}/").replace("User=sluice", "User=daemon")
    path = box.path("sluice.service")
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True
    )
    if "Failed to" in done.stderr and "manager" in done.stderr:
        raise Skip(f"systemd-analyze cannot work here: {done.stderr.strip()}")
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_the_unit_fits_the_daemon(box):
    unit = settings()
    assert unit["Type"] == "notify" and unit["RuntimeDirectoryMode"] == "0700"
    # Only the daemon is told to stop; it waits two minutes for checkpoints.
    assert unit["KillMode"] == "mixed" and int(unit["TimeoutStopSec"]) > 120
    # The kernel's choice of a worker is no reason to end the daemon.
    assert unit["OOMPolicy"] == "continue"
    program, *options = unit["ExecStart"].split()
    help_text = box.start("--help", program=os.path.basename(program)).wait().ok().out
    for option in options[::2]:
        assert re.search(rf"^ +{option} ", help_text, re.M), option


def seen_by_doctor(daemon):
    return daemon.do("doctor", "-o", "json").ok().json()["checks"]["daemon"]


def test_doctor_finds_the_daemon_its_page_and_its_end(box):
    daemon = Daemon(box, "--http", "0")
    seen = seen_by_doctor(daemon)
    assert seen["verdict"] == "ok", seen
    for words in (f"process {daemon.running.process.pid}", daemon.folder, "page http://127.0.0.1:"):
        assert words in seen["found"], seen
    daemon.kill()
    seen = seen_by_doctor(daemon)
    assert seen["verdict"] == "ok" and "none at " in seen["found"], seen


def test_report_and_completion_know_the_daemons_jobs(box):
    daemon = Daemon(box)
    job = box.job(small_job(box.shared_dataset("small"), name="by-daemon"))
    daemon.do("submit", job).ok()
    (number,) = [j["id"] for j in daemon.jobs().values()]
    for name in ("by-daemon", number):
        result = daemon.do("report", name).ok()
        assert "by-daemon: done in " in result.out, str(result)
    offered = daemon.do("complete", "--", "report", "by").ok().out
    assert offered.split("\t")[0] == "by-daemon", offered
    assert daemon.do("complete", "--", "pause", "by").ok().out == ""  # it is over
    daemon.kill()
    box.until_gone()

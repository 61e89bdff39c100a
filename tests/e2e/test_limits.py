"""Limits of containers: a CPU quota, a small /dev/shm, a user that is not root."""

import glob
import json
import os
import shutil
import subprocess

from harness import BIN, NOBODY, SLOW, Skip, cases, small_job, text_of

# Version 1 has its own hierarchy for CPU time, version 2 one for everything.
QUOTAS = {
    "version 1": ("/sys/fs/cgroup/cpu*", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "{}"}),
    "version 2": ("/sys/fs/cgroup", {"cpu.max": "{} 100000"}),
}


class Group:
    """A control group with a quota in microseconds of each 100,000; removed at the end."""

    def __init__(self, version, quota):
        pattern, files = QUOTAS[version]
        wanted = next(iter(files))
        for top in sorted(glob.glob(pattern)):
            self.folder = os.path.join(top, f"sluice-test-{os.getpid()}")
            try:
                os.mkdir(self.folder)
            except OSError:
                continue
            if os.path.exists(os.path.join(self.folder, wanted)):
                break
            os.rmdir(self.folder)
        else:
            raise Skip(f"no control group of {version} with {wanted} can be made here")
        for name, text in files.items():
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text.format(quota))

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def remove(self):
        os.rmdir(self.folder)


def sluice(box, *arguments, **options):
    done = subprocess.run(
        [os.path.join(BIN, "sluice"), *arguments],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        timeout=60 * SLOW,
        **options,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def pool_of(plan):
    """How many cores."""
    (device,) = json.loads(plan)["config"]["devices"]
    ranges = [part.split("-") for part in device["cores"].split(",")]
    return sum(int(r[-1]) - int(r[0]) + 1 for r in ranges)


@cases(*QUOTAS)
def test_a_quota_limits_auto_devices_and_doctor_says_so(box, version):
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core is within any quota")
    job = box.job(small_job(box.shared_dataset("small"), devices="auto", allocation={}))
    group = Group(version, 100_000)
    try:
        plan = sluice(box, "run", job, "--dry-run", "-o", "json", preexec_fn=group.enter)
        assert pool_of(plan) == 1, plan
        found = json.loads(sluice(box, "doctor", "-o", "json", preexec_fn=group.enter))
        quota = found["checks"]["cpu_quota"]
        assert quota["verdict"] == "warning" and "time of 1 cores" in quota["found"], quota
        assert "takes 1 core;" in quota["advice"], quota
    finally:
        group.remove()
    plan = sluice(box, "run", job, "--dry-run", "-o", "json")
    assert pool_of(plan) > 1, plan


@cases(*QUOTAS)
def test_less_than_its_cores_is_told(box, version):
    job = box.job(small_job(box.shared_dataset("small"), devices="cpu", allocation={}, epochs=1))
    group = Group(version, 50_000)
    try:
        sluice(box, "run", job, preexec_fn=group.enter)
    finally:
        group.remove()
    said = "cores: the devices have 1, and the control group grants the time of 0.5:"
    assert said in text_of(box.path("runs/job/log/broker.log"))
    sluice(box, "run", job, "--set", "output=runs/free")
    assert "the control group" not in text_of(box.path("runs/free/log/broker.log"))


def test_a_job_runs_as_somebody_else_with_a_small_dev_shm(box):
    """What the Dockerfile promises: no root, 64 MiB of /dev/shm, of which nothing is used."""
    if os.geteuid() != 0:
        raise Skip("only root may become somebody else")
    for tool in ("unshare", "setpriv"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    job = box.job(small_job(box.shared_dataset("small"), **{"arena.memory": "128MiB"}))
    box.open_to_all()
    script = (
        "mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm || exit 77\n"
        # Full but for a mebibyte.
        "head -c 63M /dev/zero >/dev/shm/ballast || exit 77\n"
        f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --no-new-privs "
        f"'{box.programs}/sluice' run '{job}' --quiet --report report.json\n"
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        timeout=60 * SLOW,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        raise Skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    with open(box.path("report.json")) as file:
        report = json.load(file)
    assert report["status"] == "done"
    owner = os.stat(box.path("runs/job/report.json")).st_uid
    assert owner == NOBODY, owner

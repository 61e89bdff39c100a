"""The wheel of `make wheel`: its list is true, nothing in it is of the hour, and what pip installs
of it works where nothing else of sluice is. Its programs were linked by `make tests`."""

import base64
import csv
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile

from harness import BIN, ROOT, Running, Skip, whole
from nodes import runs_over_nodes

BUILD = os.path.dirname(BIN)
PROGRAMS = [f"sluice{role}" for role in ("", "-broker", "-sampler", "-trainer", "-link")]
PROGRAMS = [os.path.join(BUILD, "bundle", "programs", name) for name in PROGRAMS]
LIBRARY = os.path.join(BUILD, "bundle", "lib", "libsluice.so.0")


def wheel(box):
    """The wheel's path, made once for all tests. Without a plug-in: a build may be making one."""
    if not all(map(os.path.exists, [LIBRARY, *PROGRAMS])):
        raise Skip("make tests links no programs for a wheel in this build")

    def make():
        out = os.path.join(box.suite, "wheel")
        os.makedirs(out)
        command = [os.path.join(ROOT, "scripts", "wheel"), LIBRARY, "none", out, *PROGRAMS]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (name,) = [name for name in os.listdir(out) if name.endswith(".whl")]
        return os.path.join(out, name)

    return box.shared_value("wheel", make)


def test_its_list_is_true(box):
    path = wheel(box)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names == [*sorted(names[:-1]), names[-1]]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        (record,) = [name for name in names if name.endswith("/RECORD")]
        listed = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}
        assert sorted(listed) == sorted(names) and listed.pop(record) == ["", ""]
        for name, (digest, size) in listed.items():
            data = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={found}", str(len(data))), name
        tag = os.path.basename(path)[:-4].split("-", 2)[2]
        (info,) = [name for name in names if name.endswith("/WHEEL")]
        assert f"Tag: {tag}\n" in archive.read(info).decode()
        package = {n for n in os.listdir(f"{ROOT}/python/sluice") if n.endswith((".py", ".typed"))}
        assert {f"sluice/{name}" for name in package} <= set(names)


@whole
def test_its_programs_run_over_nodes(box):
    """Without pip, which this machine may not have: it unpacks, and sets what is executable."""
    made = box.path("unpacked")
    with zipfile.ZipFile(wheel(box)) as archive:
        archive.extractall(made)
        for entry in archive.infolist():
            os.chmod(os.path.join(made, entry.filename), entry.external_attr >> 16)
    runs_over_nodes(box, os.path.join(made, "sluice"))


USE = """
import sluice, sys
assert sluice.__file__.startswith(sys.prefix), sluice.__file__
with sluice.NeighborLoader(sys.argv[1], [4, 3], 64, "train", arrays="numpy") as loader:
    print(sum(batch.batch_size for batch in loader))
"""


def test_pip_installs_it(box):
    """Into an environment of its own, whose NumPy is the machine's."""
    if not importlib.util.find_spec("ensurepip"):
        raise Skip("this python3 cannot make environments (python3-venv)")
    made, path = box.path("venv"), wheel(box)
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", made], check=True)
    env = {**box.environment(), "PATH": "/usr/bin:/bin"}

    def run(program, *arguments):
        command = [os.path.join(made, "bin", program), *arguments]
        return Running(box, command, env).wait()

    run("pip", "install", "--no-index", "--no-deps", path).ok()
    version = box.sluice("--version").out
    assert run("sluice", "--version").ok().out == version
    assert run("python", "-m", "sluice", "--version").ok().out == version
    assert run("python", "-c", USE, box.shared_dataset("planted")).ok().out == "750\n"
    run("pip", "uninstall", "-y", "sluice").ok()
    packages = os.path.join(made, "lib", f"python3.{sys.version_info[1]}", "site-packages")
    assert "sluice" not in os.listdir(packages)

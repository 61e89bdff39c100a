"""Manual pages: one for every command, with every option, that groff formats without a word."""

import os
import re
import shutil
import subprocess

from harness import BIN, ROOT, Skip


def pages(box):
    """{name: file}; they are made once for all tests."""

    def make(out):
        done = subprocess.run(
            [os.path.join(ROOT, "scripts", "make-man"), BIN, out],
            env=box.environment({"PATH": f"/usr/bin:{os.environ['PATH']}"}),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stderr == "", done

    out = box.shared_folder("man", make)
    return {name: os.path.join(out, name) for name in os.listdir(out)}


def groff(path):
    if not shutil.which("groff"):
        raise Skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", "-rLL=200n", path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == "", (path, done.stderr)
    return done.stdout


def test_every_command_has_a_page_with_all_its_options(box):
    made = pages(box)
    listed = re.findall(r"^  ([a-z-]+)  ", box.sluice("--help").ok().out, re.M)
    assert {f"sluice-{command}.1" for command in listed} <= set(made)
    for extra in ("sluice.1", "sluice-broker.1", "sluice-generate-rmat.1", "sluice-import-ogb.1"):
        assert extra in made, sorted(made)
    for command in listed:
        text = groff(made[f"sluice-{command}.1"])
        said = box.sluice(command, "--help").ok().out
        for option in re.findall(r"^  (?:-\w,|   ) (--[a-z0-9-]+)", said, re.M):
            assert option in text, (command, option)
        for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"):
            assert f"\n{part}\n" in text, (command, part)
    text = groff(made["sluice.1"])
    for words in ("COMMANDS", "EXIT STATUS", "130", "SLUICE_RUNTIME_DIR", "sluice-doctor(1)"):
        assert words in text, text
    text = groff(made["sluice-broker.1"])
    for words in ("--state-dir", "EXAMPLES", "--private"):
        assert words in text, text

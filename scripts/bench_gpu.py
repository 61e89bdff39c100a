"""The part of scripts/bench that needs a GPU: kernels beside their ceilings, and epochs."""

import json
import os
import re
import subprocess
import sys
import tempfile

from benchlib import BIN, QUICK, ROOT, part, row, run

SUITE = os.path.join(ROOT, "scripts", "gpu_suite")
# Of copying, for rows of f32: what the cores aim at too.
AIM = 0.60


def why_no_gpu():
    """None where there is a GPU that can be used."""
    command = [os.path.join(BIN, "sluice-trainer"), "--devices"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip() or f"{command[0]} ended with status {done.returncode}"
    found = json.loads(done.stdout)
    return None if found["devices"] else found["problem"]


def rows_of(path):
    """The cells of a table behind its heading."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip()[2:-2].split(" | ") for line in file if line.startswith("| ")]
    return lines[2:]


@part
def part_gpu():
    why = why_no_gpu()
    if why:
        print(f"SKIP: there is no GPU: {why}")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        steps = ["--rehearse"] if QUICK else []
        run(sys.executable, SUITE, *steps, "--out", scratch, "figures", "epoch")
        found, cells = (rows_of(os.path.join(scratch, name)) for name in ("table.md", "epochs.md"))
    for figure, value, beside in found:
        share = re.match(r"([\d.]+) % of (.*)", beside)
        aimed = re.match(r"aggregate: .* of 1 x (128|256): aggregate$", figure)
        row(
            figure, value, share[2] if share else beside, float(share[1]) / 100 if share else None,
            AIM if aimed else None,
        )
    for cache, precision, value, *others in cells:
        row(f"epoch, cache {cache}, {precision}, one device", value, "; ".join(others), None, None)

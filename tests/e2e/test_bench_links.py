"""scripts/bench links: what whole jobs on emulated GPUs read over which way, by placement."""

import os
import re
import subprocess

from harness import ROOT, not_under, timeout, whole
from test_cuda import SANITIZED

LINE = re.compile(
    r"power law, 2 linked, (\w+): (\w+), (\d+)% held +([\d.]+) \+ ([\d.]+) \+ ([\d.]+) MB, ([\d.]+)"
)


@whole
@timeout(300)
@not_under("address", SANITIZED)
def test_links(box):
    done = subprocess.run(
        [os.path.join(ROOT, "scripts", "bench"), "links"],
        env=box.environment({"BENCH_QUICK": "1", "SLUICE_TEST_DATA": box.path("nothing")}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SKIP: {box.path('nothing', 'ogbn_arxiv')} is not there" in done.stdout, done.stdout
    same = re.search(r"power law: one result in all, (\d+) bytes of the graph", done.stdout)
    assert same, done.stdout
    found = {}
    for placement, kind, held, *megabytes in LINE.findall(done.stdout):
        found[placement, kind] = (int(held), *map(float, megabytes))
    assert len(found) == 8, done.stdout
    for (placement, kind), (held, own, peers, memory, busiest) in found.items():
        assert held <= (10 if placement == "alone" else 20), done.stdout
        assert peers == 0 or placement != "alone", done.stdout
        assert busiest <= peers <= own + peers + memory, done.stdout
    # What is read of the graph is the same wherever it lies; each of three ways is rounded.
    for (_, kind), ways in found.items():
        if kind == "graph":
            assert abs(sum(ways[1:4]) - int(same.group(1)) / 1e6) < 0.0151, done.stdout

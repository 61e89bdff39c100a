"""scripts/bench shows the paper's figures and how sluice scales, from numbers that it measured."""

import importlib.util
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

from harness import ROOT, whole

DRAWS = importlib.util.find_spec("matplotlib") is not None
FIGURES = ["4b", "5", "T2", "10", "11", "T4", "T5", "13", "14", "16"]


def bench(box, part):
    """Output of a part with tiny parameters, where no real data set is; pictures lie in out/."""
    done = subprocess.run(
        [os.path.join(ROOT, "scripts", "bench"), part, "--out", box.path("out")],
        env=box.environment({"BENCH_QUICK": "1", "SLUICE_TEST_DATA": box.path("nothing")}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown(box, name, pictures):
    """The page, which shows these pictures where there is matplotlib, and no broken number."""
    with open(box.path("out", name)) as file:
        text = file.read()
    assert not re.search(r"[> ](nan|inf|None|null)[< ]", text), text
    assert re.findall(r'<img src="([^"]+)"', text) == (pictures if DRAWS else []), text
    assert DRAWS == ("Nothing is drawn" not in text), text
    for picture in pictures if DRAWS else []:
        assert len(ElementTree.parse(box.path("out", picture)).getroot()) > 0
    return text


@whole
def test_figures(box):
    said = bench(box, "figures")
    drawn = [f"figure-{name}.svg" for name in FIGURES if name[0] != "T"]
    text = shown(box, "index.html", drawn)
    assert text.count("<h2>") == text.count("Here: ") == len(FIGURES), text
    assert text.count("<table>") == 3 and "Not here: ogbn_arxiv, cnr_2000" in text, text
    assert said.count("SKIP: ") == 2 and "SKIP: " + box.path("nothing", "cnr_2000") in said, said

    with open(box.path("out", "figures.json")) as file:
        found = json.load(file)
    for kind, graphs in found["10"].items():
        assert list(graphs) == ["R-MAT", "citation"], graphs
        for graph, hits in graphs.items():
            assert max(hits.values()) == hits["optimal"] > hits["random"] > 0, (kind, graph, hits)
    for kind, graphs in found["T2"].items():
        assert all(0 < value <= 100 for value in graphs.values()), graphs
        for value in graphs.values():
            assert f"<td>{value:.1f}</td>" in text, f"{value} of {kind}: {text}"
    # Transferred is what was not hit: less with a better policy, more with wider features.
    for case, by_policy in found["5"].items():
        for (_, degree), (_, optimal) in zip(*(by_policy[p] for p in ("degree", "optimal"))):
            assert degree >= optimal >= 0, (case, degree, optimal)
    sizes = [megabytes for _, _, megabytes in found["4b"]["degree"]]
    assert sizes == sorted(sizes) and sizes[0] > 0, sizes
    for model, runs in found["13"].items():
        splits = [(run["samplers"], run["trainers"]) for run in runs]
        assert splits == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)], (model, splits)
    for model, graphs in found["T4"].items():
        for graph, modes in graphs.items():
            wanted = {"space": "1S 1T", "shared": "1S 0T"}
            assert all(modes[m]["split"] == s for m, s in wanted.items()), (model, graph, modes)


@whole
def test_scale(box):
    said = bench(box, "scale")
    text = shown(box, "scale.html", ["scale.svg"])
    for name in ("0.05 M edges", "0.2 M edges", "1 device", "2 devices", "4 devices"):
        assert f"<td>{name}</td>" in text and f"{name}: epoch" in said, f"no {name} in {text}"

"""`sluice retrieve` on runs of links of graphs of several types: targets of one type for sources of
another, beside all products of what `sluice embed --type` writes."""

import csv
import os
import shutil

import numpy as np

from harness import cases, small_job
from test_bad_input import refused as refused_in
from test_typed_jobs import job as labels_job
from test_typed_links import ITEMS, LIKED_BY, LIKES, USERS, mixed, relations_of, tastes, trained

K = 12


def embedded(box, run, types, *options):
    """Rows of sources and of targets."""
    rows = []
    for kind in types:
        box.sluice("embed", run, "--type", kind, "--out", f"{kind}.npy", "-q", "-f", *options).ok()
        rows.append(np.load(box.path(f"{kind}.npy")))
    return rows


def check_answers(ids, scores, rows, sources, targets, known, same=False):
    """Each source's best, in falling order, none of them known, and none better left out."""
    for i, s in enumerate(sources):
        own = {t for u, t in known if u == s} | ({s} if same else set())
        may = [t for t in targets if t not in own]
        products = rows[1][may] @ rows[0][s]
        best = np.sort(products)[::-1][: len(ids[i])]
        n = len(best)
        assert set(ids[i][:n].tolist()) <= set(may) and len(set(ids[i][:n].tolist())) == n
        assert (ids[i][n:] == -1).all() and np.isnan(scores[i][n:]).all()
        assert np.abs(scores[i][:n] - best).max(initial=0) < 1e-4
        assert np.abs(rows[1][ids[i][:n]] @ rows[0][s] - scores[i][:n]).max(initial=0) < 1e-4


def retrieve(box, run, sources, *options, k=K):
    np.save(box.path("sources.npy"), np.asarray(sources))
    out = ("--out", "ids.npy", "--scores", "scores.npy", "--force", "-o", "json")
    said = box.sluice("retrieve", run, "--sources", "sources.npy", "--k", str(k), *out, *options)
    said = said.ok().json()
    assert not [f for f in os.listdir(box.path()) if f.endswith(".rows.npy")]
    return np.load(box.path("ids.npy")), np.load(box.path("scores.npy")), said


@cases(LIKES, LIKED_BY)
def test_targets_are_of_the_other_type(box, relation):
    """Both orders of the types: numbers are those within a type, and known edges the relation's."""
    folder = tastes(box, relation)
    trained(box, "job", dataset=folder, epochs=1)
    likes = relation == LIKES
    types, counts = ("user", "item"), (USERS, ITEMS)
    if not likes:
        types, counts = types[::-1], counts[::-1]
    known = relations_of(folder)["likes" if likes else "liked_by"]
    rows = embedded(box, "runs/job", types)
    sources = np.array([counts[0] - 1, 0, 17, 0])
    ids, scores, said = retrieve(box, "runs/job", sources)
    check_answers(ids, scores, rows, sources, range(counts[1]), [])
    assert said["relation"] == relation and said["targets"] == counts[1]
    ids, scores, _ = retrieve(box, "runs/job", sources, "--exclude-known", k=counts[1])
    check_answers(ids, scores, rows, sources, range(counts[1]), known)
    targets = np.array([5, 3, counts[1] - 1, 3])
    np.save(box.path("targets.npy"), targets)
    ids, scores, _ = retrieve(box, "runs/job", sources, "--targets", "targets.npy")
    check_answers(ids, scores, rows, sources, sorted(set(targets.tolist())), [])
    said = box.sluice("retrieve", "runs/job", "--sources", "sources.npy", "--out", "b.npy").ok().out
    assert f"for 4 sources of {relation}, by dot" in said, said


def test_ids_are_those_from_before_a_reordering(box):
    folder = tastes(box)
    box.sluice("reorder", folder, "--by", "degree", "--out", "sorted", "-q").ok()
    trained(box, "job", dataset=box.path("sorted"), epochs=1)
    known = relations_of(folder)["likes"]
    rows = embedded(box, "runs/job", ("user", "item"))
    ids, scores, _ = retrieve(box, "runs/job", np.arange(50), "--exclude-known", k=ITEMS)
    check_answers(ids, scores, rows, np.arange(50), range(ITEMS), known)
    moved = np.load(box.path("sorted/vertex_map.npy"))
    assert (moved != np.arange(USERS + ITEMS)).any()


def test_within_a_type_nobody_is_its_own_answer(box):
    folder = mixed(box)
    config = small_job(folder, **{
        "task": {"kind": "link", "relation": "alike", "dim": 6},
        "model.kind": "rsage",
        "features": {"kind": "both", "dim": 4},
        "epochs": 1,
    })  # fmt: skip
    box.run(config)[0].ok()
    rows = embedded(box, "runs/job", ("item",)) * 2
    known = relations_of(folder)["alike"]
    sources = np.arange(30)
    ids, scores, said = retrieve(box, "runs/job", sources, k=30)
    check_answers(ids, scores, rows, sources, range(30), [], same=True)
    assert said["relation"] == "item -alike-> item"
    ids, scores, _ = retrieve(box, "runs/job", sources, "--exclude-known", k=30)
    check_answers(ids, scores, rows, sources, range(30), known, same=True)


def test_names(box):
    folder = box.path("named")
    shutil.copytree(tastes(box), folder)
    names = [f"item {i}" for i in range(ITEMS)] + [f'user "{i}"' for i in range(USERS)]
    text = "".join(names).encode()
    np.save(f"{folder}/vertex_names.npy", np.frombuffer(text, np.uint8))
    np.save(f"{folder}/vertex_name_offsets.npy", np.cumsum([0] + [len(n) for n in names]))
    trained(box, "job", dataset=folder, epochs=1)
    ids, _, _ = retrieve(box, "runs/job", [3, 399])
    box.sluice("retrieve", "runs/job", "--sources", "sources.npy", "--k", str(K), "--names",
               "--out", "named.csv").ok()  # fmt: skip
    with open(box.path("named.csv"), newline="") as file:
        found = [(row[0], row[2]) for row in csv.reader(file)][1:]
    assert found == [(f'user "{u}"', f"item {v}") for u, row in zip((3, 399), ids) for v in row]


def refused(box, result, *words):
    refused_in(box, result, *words, output="a.npy")


def test_what_is_refused(box):
    trained(box, "job", epochs=1)
    np.save(box.path("sources.npy"), np.array([USERS - 1, USERS]))
    rest = ("--sources", "sources.npy", "--out", "a.npy", "-q")
    refused(box, box.sluice("retrieve", "runs/job", *rest), "type 'user'", "entry 1 is 400", "399")
    np.save(box.path("targets.npy"), np.array([ITEMS]))
    np.save(box.path("sources.npy"), np.array([0]))
    said = box.sluice("retrieve", "runs/job", *rest, "--targets", "targets.npy")
    refused(box, said, "type 'item'", "entry 0 is 300", "299")
    np.save(box.path("rows.npy"), np.ones((ITEMS + USERS, 2), np.float32))
    said = box.sluice("retrieve", "rows.npy", *rest, "--exclude-known", "--dataset", tastes(box))
    refused(box, said, "has several types", "wanted the run of links in place of rows.npy")
    named = ("--sources", "sources.npy", "--out", "a.csv", "--names", "-q")
    refused(box, box.sluice("retrieve", "runs/job", *named), "has no names")
    box.run(labels_job(box, output="runs/labels", epochs=1), name="labels")[0].ok()
    said = box.sluice("retrieve", "runs/labels", *rest)
    refused(box, said, "learned labels", "wanted a run of links", "sluice embed")

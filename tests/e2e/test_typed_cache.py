"""Trainers' own caches on graphs with types: rows of several widths, those that save most a byte;
the same results as without, and hits by type."""

import re

from harness import cases, fingerprint, whole
from test_typed_store import TIGHT, trained, wide

WIDTHS = {"paper": 128, "author": 48, "field": 800}


def none(box, **changes):
    """The job without a cache."""
    return trained(box, wide(box), "none", cache={"policy": "none"}, **changes)


def counted(report):
    """The figures of types are those of all."""
    types = {t["name"]: t for t in report["types"]}
    for name, t in types.items():
        assert t["hit_bytes"] == t["hits"] * WIDTHS[name], t
        assert t["hit_bytes"] + t["miss_bytes"] == t["input_nodes"] * WIDTHS[name], t
    return types


def said_last(box, name, worker):
    """Rows that this worker said last that its cache holds in all."""
    log = box.path(f"runs/{name}/log/{worker.replace(' ', '-')}.log")
    with open(log, encoding="utf-8") as f:
        return int(re.findall(r"feature cache: (\d+) of \d+ rows", f.read())[-1])


def held(box, report, name, slack=None):
    """What caches hold of each type is what each holds, and all that it may: the next row by
    benefit has no room."""
    features = sum(t["feature_bytes"] for t in report["types"])
    width = {t["name"]: t["feature_bytes"] // t["count"] for t in report["types"]}
    for cache in report["cache"]["trainers"]:
        of = {h["type"]: h for h in report["cache"]["held"] if h["worker"] == cache["worker"]}
        assert all(h["device"] == cache["device"] for h in of.values()), of
        assert all(h["bytes"] == h["rows"] * width[t] > 0 for t, h in of.items()), of
        assert sum(h["rows"] for h in of.values()) == said_last(box, name, cache["worker"]), of
        total = sum(h["bytes"] for h in of.values())
        room = min(cache["bytes"], features) - total
        assert 0 <= room < (slack or max(width.values())), (of, cache, features)


POLICIES = {
    "degree": {"policy": "degree", "ratio": 0.3},
    "expected": {"policy": "expected", "ratio": 0.1},
    "presc": {"policy": "presc", "ratio": 0.2, "report_optimal": True},
    "random": {"policy": "random", "ratio": 1},
    "auto-ratio": {"policy": "degree"},
}


@cases("presc", "degree")
def test_results_are_those_without(box, policy):
    kept(box, policy)


@whole
@cases("expected", "random", "auto-ratio")
def test_results_of_other_policies_are_those_without(box, policy):
    kept(box, policy)


def kept(box, policy):
    cache = POLICIES[policy]
    found = trained(box, wide(box), policy, cache=cache)
    assert fingerprint(found) == fingerprint(none(box))
    types = counted(found)
    features = sum(t["feature_bytes"] for t in found["types"])
    full = cache.get("ratio", 1) == 1
    for e in found["epochs"]:
        hits, misses = e["cache"]["hits"], e["cache"]["misses"]
        assert hits + misses == e["input_nodes"], e
        if policy == "presc" and e["epoch"] == 0:
            assert hits == 0, e
        else:
            assert hits > 0 and (full or misses > 0), e
    assert not full or found["epochs"][-1]["cache"]["misses"] == 0, found["epochs"][-1]
    assert found["cache"]["trainers"], found["cache"]
    for cached in found["cache"]["trainers"]:
        most = features if full else cache["ratio"] * features
        assert 0.9 * most <= cached["bytes"] <= 1.01 * most, (cached, most)
    held(box, found, policy)
    one = found["cache"]["held"][0]
    said = box.sluice("report", f"runs/{policy}").ok().out
    assert "% of the features, " in said, said
    assert f"{one['worker']} holds {one['rows']:,} rows of {one['type']} (" in said, said
    if policy == "presc":
        last = found["epochs"][-1]["cache"]
        assert 0 < last["hit_rate"] <= last["optimal_hit_rate"] + 0.1, last
    assert sum(t["hits"] for t in types.values()) > 0, types


@cases("memory", "storage")
def test_hits_of_types_are_counted(box, features):
    store = {"features": "storage", **TIGHT} if features == "storage" else {"features": "memory"}
    found = trained(box, wide(box), features, store=store,
                    cache={"policy": "expected", "ratio": 0.9})
    types = counted(found)
    assert all(0 < t["hits"] <= t["input_nodes"] for t in types.values()), types
    assert any(t["hits"] < t["input_nodes"] for t in types.values()), types
    if features == "storage":
        in_cache = sum(e["store"]["cached"] for e in found["epochs"])
        assert in_cache <= sum(t["hits"] for t in types.values()), (in_cache, types)


def test_types_without_features_have_no_hits_and_no_misses(box):
    dataset = wide(box, types=("field",))
    found = trained(box, dataset, "bare", cache={"policy": "degree", "ratio": 1})
    authors = next(t for t in found["types"] if t["name"] == "author")
    assert authors["input_nodes"] > 0 and authors["hits"] == authors["miss_bytes"] == 0, authors
    last = found["epochs"][-1]["cache"]  # in the first one a cache may be on its way
    assert last["misses"] == 0 < last["hits"], last


def test_a_trainer_that_dies_while_it_fills_its_cache(box):
    cache = {"policy": "degree", "ratio": 0.5}
    env = {"SLUICE_FAILPOINT": "trainer_cache:1"}
    found = trained(box, wide(box), "dies", env=env, cache=cache)
    assert found["restarts"], found
    assert fingerprint(found) == fingerprint(none(box))


# Caches of two sizes, and of trainers that come later.
CHANGES = {
    "standby": {"allocation": {"samplers": 1, "trainers": 1, "switching": True},
                "throttle": {"train": 0.005, "standby": 0.005}},
    "scaled": {"schedule": [{"epoch": 1, "batch": 3, "samplers": 1, "trainers": 3}]},
    "budgets": {"devices": [{"kind": "cpu", "cores": "0", "memory": m}
                            for m in ("40MiB", "6MiB", "7MiB")]},
}


@whole
@cases(*CHANGES)
def test_same_result_with_trainers_that_differ(box, way):
    found = trained(box, wide(box), way, cache={"policy": "presc"}, **CHANGES[way])
    assert sum(e["cache"]["hits"] for e in found["epochs"]) > 0, found["epochs"]
    assert fingerprint(found) == fingerprint(none(box))

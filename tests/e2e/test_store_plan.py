"""Who holds which features, of several GPUs that train: what the broker plans and says of it.

Where jobs run the GPUs are emulated (tests/simt); dry runs are of machines that are made up.
"""

from harness import cases, fingerprint, not_under, small_job
from test_cuda import CPU, SANITIZED, gpu, gpu_job, run
from test_cuda_config import Machine
from test_cuda_config import gpu as pretend

NODES = 400  # of gpu_job's data set
ROOM = 0.2
PARTS = 16  # that are dealt out where a placement has each part once


def plan_job(box, gpus, **changes):
    job = gpu_job(
        box,
        [CPU] + [gpu(i) for i in range(gpus)],
        **{
            "epochs": 1,
            "allocation": {"samplers": 1, "trainers": gpus, "switching": False},
            "cache": {"policy": "degree", "ratio": ROOM},
            **changes,
        },
    )
    return job


def train(box, job, gpus, **env):
    result, report = run(box, job, SLUICE_SIMT_DEVICES=str(gpus), **env)
    result.ok()
    return result, report


def held_by(store):
    """Of each device the rows that it holds, and how many parts."""
    return {d["device"]: (d["rows"], d["parts"]) for d in store["held"]}


@not_under("address", SANITIZED)
@cases(
    ("4-auto", 4, {}, "solver", PARTS),
    ("2-alone", 2, {"store": {"placement": "alone"}}, "alone", 0),
)
def test_linked_gpus_hold_parts(box, name, gpus, changes, placement, parts):
    """Also where one of them dies."""
    env = {"SLUICE_FAILPOINT": "trainer_extracted:5"}
    result, report = train(box, plan_job(box, gpus, **changes), gpus, **env)
    store, room = report["store"], int(ROOM * NODES)
    assert len(report["restarts"]) == 1 and store["plans"] <= 1, (report["restarts"], store)
    assert (store["placement"], store["parts"]) == (placement, parts), store
    assert store["gpu_rows"] == room * (gpus if parts else 1), store
    assert held_by(store) == {d + 1: (room, parts // gpus) for d in range(gpus)}, store
    assert placement in result.out and store["placement_reason"] in result.out, result


def by_way(store):
    """Bytes from the reader's own memory, from peers', from the machine's."""
    held = {d["device"]: d["parts"] for d in store["held"]}
    ways = {"own": 0, "peers": 0, "memory": 0}
    for link in store["links"]:
        assert link["kind"] == "features" and link["bytes"] > 0, link
        if link["from"] == "memory":
            ways["memory"] += link["bytes"]
        elif link["from"] == str(link["reader"]):
            ways["own"] += link["bytes"]
        else:
            assert held[int(link["from"])], (link, held)
            ways["peers"] += link["bytes"]
    return ways


@not_under("address", SANITIZED)
def test_what_is_read_over_which_way_is_told_and_changes_no_bit(box):
    alone, prints, gpus = None, set(), 4
    for placement in ("alone", "solver", "cliques", "one_copy"):
        job = plan_job(
            box, gpus, store={"placement": placement}, epochs=2, output=f"runs/{placement}"
        )
        result, report = train(box, job, gpus, CUDA_VISIBLE_DEVICES="0,1,2,3")
        prints.add(str(fingerprint(report)))
        ways = by_way(report["store"])
        alone = alone or ways
        assert sum(ways.values()) == sum(alone.values()), (placement, ways, alone)
        assert (ways["peers"] > 0) == (placement != "alone"), (placement, ways)
        assert "from peers" in result.out, result
    assert len(prints) == 1, prints


# ---- when the split changes ----------------------------------------------------------------------


@not_under("address", SANITIZED)
def test_no_gpu_holds_more_than_its_budget_leaves(box):
    budgets = [5000, 5400, 5800]  # KiB; a step takes more than 3.4 MB
    devices = [CPU] + [gpu(i, memory=kib * 1024) for i, kib in enumerate(budgets)]
    job = plan_job(box, 3, cache={"policy": "degree"}, store={"feature_ratio": 0.9})
    job["dataset"] = box.shared_dataset("store-plan", n=1000, feat_dim=800)
    job["sampler"].update({"batch_size": 8, "fanout": [2, 2]})
    job["evaluate"]["fanout"] = [2, 2]
    job["devices"] = devices
    result, report = train(box, job, 3)
    store, batches = report["store"], report["batches"]
    share = store["gpu_rows"] / 1000
    said = f"found 0.9, and the GPUs that train have room for {share:.4f} of"
    assert share < 0.9 and result.err.count(said) == 1, result
    assert batches["trained"] == batches["scheduled"], batches
    rows = [d["rows"] for d in store["held"]]
    assert store["placement"] == "solver" and store["gpu_rows"] > max(rows), store
    # A step was measured, and a quarter more is left to it.
    assert all(d["bytes"] < kib * 1024 - 4e6 for d, kib in zip(store["held"], budgets)), store
    assert 0 < rows[0] <= min(rows[1:]), store


# ---- dry runs -----------------------------------------------------------------------------------

SMALL, SMALL_ROW = 1500, 4 * 16  # vertices of the shared data set; bytes of a vertex's features
TENTH = SMALL // 10
SHARED = {"solver", "cliques", "one_copy"}


def linked(n, rate=50):
    return [{b: rate for b in range(n) if b != a} for a in range(n)]


def dry_run(box, links, ratio=0.1, **changes):
    """The plan as JSON and the text of a job whose devices but the first all train."""
    machine = Machine.with_gpus(box, *(pretend(i, reads=r) for i, r in enumerate(links)))
    devices = [CPU] + [{"kind": "cuda", "index": i} for i in range(len(links))]
    job = {
        "devices": devices,
        "allocation": {"samplers": 1, "trainers": len(links), "switching": False},
        "cache": {"policy": "expected", "ratio": ratio},
    }
    path = box.job(small_job(box.shared_dataset("small"), **{**job, **changes}))
    store = machine.sluice("run", path, "--dry-run", "-o", "json").ok().json()["store"]
    return store, machine.sluice("run", path, "--dry-run").ok().out


def assert_whole(store, links):
    """Who reads a part does so where it lies and where the reader reaches."""
    held = {d["device"]: d["parts"] for d in store["held"]}
    assert all(d["bytes"] == d["rows"] * SMALL_ROW for d in store["held"]), store
    for way in store["links"]:
        reader, source = way["reader"], way["from"]
        if source not in ("memory", str(reader)):
            assert held[int(source)], way
            assert int(source) - 1 in links[reader - 1], (way, links)
    for reader in held:
        shares = [w["share"] for w in store["links"] if w["reader"] == reader]
        assert abs(sum(shares) - 1) < 1e-6, (reader, shares)


@cases(("4-linked", linked(4), 4, 4), ("4-apart", [{}] * 4, 0, 1))
def test_a_dry_run_shows_who_would_hold_what(box, name, links, parts_each, rooms):
    store, said = dry_run(box, links)
    assert store["placement"] == ("solver" if parts_each else "alone"), store
    assert [len(d["parts"]) for d in store["held"]] == [parts_each] * len(links), store
    assert all(d["rows"] <= TENTH for d in store["held"]), store
    first = store["first_rows"]
    assert store["gpu_rows"] <= rooms * TENTH, store
    if first == 0:
        assert store["gpu_rows"] > rooms * (TENTH - PARTS), store
    assert store["proved"] or not parts_each, store
    assert_whole(store, links)
    others = store["placements"]
    assert set(others) == {"alone"} | (SHARED if parts_each else set()), others
    best = others[store["placement"]]["busiest_seconds"]
    assert best <= others["alone"]["busiest_seconds"], others
    assert f"store       {store['placement']}" in said and store["placement_reason"] in said, said
    for d in store["held"]:
        assert f"  device {d['device']}: {d['rows']} rows" in said, said
    for placement in others:
        assert f"\n  {placement} " in said, said


def graph_plan(box, samplers, **store):
    """Of a job with so many GPUs that sample, all linked, and one more that trains."""
    gpus = samplers + 1
    return dry_run(
        box,
        linked(gpus),
        devices=[{"kind": "cuda", "index": i} for i in range(gpus)],
        allocation={"samplers": samplers, "trainers": 1, "switching": False},
        store=store,
    )


RUN = 1024  # edges


def test_a_dry_run_shows_who_would_hold_the_graph(box):
    samplers = 3
    store, said = graph_plan(box, samplers, graph_ratio=0.8, placement="solver")
    graph = store["graph"]
    assert graph["placement"] == "solver" and graph["parts"] in (samplers, PARTS), graph
    assert [d["device"] for d in graph["held"]] == list(range(samplers)), graph
    whole = {d["device"]: d["edges"] - graph["first_edges"] for d in graph["held"]}
    assert all(n > 0 and n % RUN == 0 for n in whole.values()), graph
    assert graph["gpu_edges"] == graph["first_edges"] + sum(whole.values()), graph
    assert all(d["bytes"] == 4 * d["edges"] for d in graph["held"]), graph
    for reader in range(samplers):
        ways = {w["from"]: w for w in graph["links"] if w["reader"] == reader}
        assert abs(sum(w["share"] for w in ways.values()) - 1) < 1e-6, ways
        assert ways[str((reader + 1) % samplers)]["share"] > 0, ways
        assert ways["memory"]["epoch_bytes"] > 0, ways
    assert set(graph["placements"]) == {"alone"} | SHARED, graph
    assert "\ngraph       solver: " in said and "edges (" in said, said


def preferred(box, degree, memory, links=({},), **changes):
    """What a dry run says that GPUs keep more of which sample and may train; and why."""
    gpus = len(links)
    machine = Machine.with_gpus(box, *(pretend(i, reads=r) for i, r in enumerate(links)))
    job = {
        "allocation": {},
        "devices": [{"kind": "cuda", "index": i, "memory": memory} for i in range(gpus)],
        "cache": {"policy": "expected"},
        **changes,
    }
    dataset = box.shared_dataset(f"prefer-{degree}", n=1000, degree=degree)
    path = box.job(small_job(dataset, **job))
    store = machine.sluice("run", path, "--dry-run", "-o", "json").ok().json()["store"]
    return store["prefer"], store.get("prefer_reason")


LESS = "links and buses of GPUs that sample and train have less to do"


@cases(
    ("few-neighbours", 4, {}, "graph", LESS),
    ("many-neighbours", 100, {}, "features", LESS),  # of which few are drawn
    ("asked", 4, {"store": {"prefer": "features"}}, "features", None),
    ("trainers-apart", 4, {"allocation.switching": False}, "graph", "no GPU that samples trains"),
    ("with-room-for-both", 100, {"devices": "auto"}, "graph", "as much of features with either"),
)
def test_a_gpu_with_both_roles_prefers_what_saves_more(box, name, degree, changes, wanted, why):
    links = linked(2) if name == "trainers-apart" else [{}]
    found, reason = preferred(box, degree, 80 * 1024, links, **changes)
    assert found == wanted and (why in reason if why else not reason), (found, reason)


# ---- refused ------------------------------------------------------------------------------------


@cases(
    ("both-ratios", {"feature_ratio": 0.5}, {"policy": "degree", "ratio": 0.1}, "take one out"),
    ("no-cache", {"feature_ratio": 0.5}, {"policy": "none"}, "cache.policy"),
    ("no-word", {"placement": "everywhere"}, {"policy": "degree"}, "store.placement"),
)
def test_keys_that_contradict_one_another_are_refused(box, name, store, cache, why):
    machine = Machine.with_gpus(box, pretend(0), pretend(1))
    result = machine.plan(devices="auto", store=store, cache=cache)
    assert result.rc == 2 and why in result.err, result


@cases(
    ("placement", {"placement": "solver"}),
    ("ratio", {"feature_ratio": 0.5}),
    ("graph-ratio", {"graph_ratio": 0.5}),
)
def test_what_is_of_gpus_is_refused_on_cores(box, name, store):
    machine = Machine.with_gpus(box)
    result = machine.plan(devices=[CPU, CPU], store=store, cache={"policy": "degree"})
    assert result.rc == 2 and "no GPUs" in result.err, result
    # Where the job leaves devices open it runs, and is told so.
    result = machine.plan(devices="auto", store=store, cache={"policy": "degree"}).ok()
    assert "change nothing" in result.err, result
    assert result.json()["config"]["store"]["placement"] == "auto", result

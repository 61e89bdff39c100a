"""Who holds which features, of several GPUs that train: what the broker plans and says of it.

Where jobs run the GPUs are emulated (tests/simt); dry runs are of machines that are made up.
"""

from harness import cases, fingerprint, not_under, small_job, timeout
from test_cuda import CPU, SANITIZED, gpu, gpu_job, run
from test_cuda_config import Machine
from test_cuda_config import gpu as pretend

NODES = 400  # of gpu_job's data set
ROOM = 0.2
ROW = 4 * 16  # bytes of its features
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


@timeout(120)
@not_under("address", SANITIZED)
@cases(
    ("2-auto", 2, {}, "solver", PARTS),
    ("4-auto", 4, {}, "solver", PARTS),
    ("2-alone", 2, {"store": {"placement": "alone"}}, "alone", 0),
    ("4-one-copy", 4, {"store": {"placement": "one_copy"}}, "one_copy", PARTS),
    ("4-cliques", 4, {"store": {"placement": "cliques"}}, "cliques", PARTS),
)
def test_linked_gpus_hold_parts(box, name, gpus, changes, placement, parts):
    result, report = train(box, plan_job(box, gpus, **changes), gpus)
    store, room = report["store"], int(ROOM * NODES)
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


@timeout(200)
@not_under("address", SANITIZED)
@cases(("2", 2), ("4", 4), ("8", 8))
def test_what_is_read_over_which_way_is_told_and_changes_no_bit(box, name, gpus):
    alone, prints = None, set()
    for placement in ("alone", "solver", "cliques", "one_copy"):
        job = plan_job(
            box, gpus, store={"placement": placement}, epochs=6, output=f"runs/{placement}"
        )
        result, report = train(box, job, gpus, CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7")
        prints.add(str(fingerprint(report)))
        ways = by_way(report["store"])
        alone = alone or ways
        assert sum(ways.values()) == sum(alone.values()), (placement, ways, alone)
        assert (ways["peers"] > 0) == (placement != "alone"), (placement, ways)
        assert "from peers" in result.out, result
    assert len(prints) == 1, prints


# ---- when the split changes ----------------------------------------------------------------------


@timeout(120)
@not_under("address", SANITIZED)
@cases(("fewer", (1, 3), (2, 2)), ("more", (2, 2), (1, 3)))
def test_a_change_of_the_split_changes_the_plan_once(box, name, before, after):
    job = gpu_job(
        box,
        [gpu(i) for i in range(4)],
        epochs=3,
        allocation={"samplers": before[0], "trainers": before[1]},
        schedule=[{"epoch": 1, "samplers": after[0], "trainers": after[1]}],
        cache={"policy": "degree", "ratio": ROOM},
    )
    _, report = train(box, job, 4)
    store, room = report["store"], int(ROOM * NODES)
    assert (store["parts"], store["plans"]) == (PARTS, 2), store
    each = PARTS // after[1]
    for device, (rows, parts) in held_by(store).items():
        if device < after[0]:  # standby trainers hold no part, but what they have room for
            assert (rows, parts) == (room, 0), store
        else:
            assert room - each - 1 < rows <= room and parts in (each, each + 1), store


@timeout(120)
@not_under("address", SANITIZED)
def test_a_death_changes_no_plan(box):
    _, report = train(box, plan_job(box, 2), 2, SLUICE_FAILPOINT="trainer_extracted:5")
    assert len(report["restarts"]) == 1, report["restarts"]
    assert (report["store"]["parts"], report["store"]["plans"]) == (PARTS, 1), report["store"]


@timeout(120)
@not_under("address", SANITIZED)
def test_a_feature_ratio_that_budgets_do_not_allow_is_said(box):
    job = plan_job(box, 2, cache={"policy": "degree"}, store={"feature_ratio": 0.9})
    job["dataset"] = box.shared_dataset("store-plan", n=1000, feat_dim=800)
    job["sampler"].update({"batch_size": 8, "fanout": [2, 2]})
    job["evaluate"]["fanout"] = [2, 2]
    job["devices"] = [CPU] + [gpu(i, memory=5000 * 1024) for i in range(2)]
    result, report = train(box, job, 2)
    share = report["store"]["gpu_rows"] / 1000
    assert share < 0.9, report["store"]
    said = f"found 0.9, and the GPUs that train have room for {share:.4f} of"
    assert result.err.count(said) == 1, result


@timeout(120)
@not_under("address", SANITIZED)
def test_no_gpu_holds_more_than_its_budget_leaves(box):
    budgets = [5000, 5400, 5800]  # KiB; a step takes more than 3.4 MB
    devices = [CPU] + [gpu(i, memory=kib * 1024) for i, kib in enumerate(budgets)]
    job = plan_job(box, 3, cache={"policy": "degree"})
    job["dataset"] = box.shared_dataset("store-plan", n=1000, feat_dim=800)
    job["sampler"].update({"batch_size": 8, "fanout": [2, 2]})
    job["evaluate"]["fanout"] = [2, 2]
    job["devices"] = devices
    _, report = train(box, job, 3)
    store, batches = report["store"], report["batches"]
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


def ring(n, rate=25):
    return [{(a + 1) % n: rate, (a - 1) % n: rate} for a in range(n)]


def cube_mesh():
    """Eight V100: two quads, each GPU with a link to one of the other."""
    rates = [{} for _ in range(8)]
    for a in range(8):
        for b in range(8):
            if a != b and a // 4 == b // 4:
                rates[a][b] = 50 if a % 4 + b % 4 == 3 else 25
    for a in range(4):
        b = 4 + (a + 2) % 4
        rates[a][b] = rates[b][a] = 50
    return rates


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


@cases(
    ("2-linked", linked(2), 8, 2),
    ("4-linked", linked(4), 4, 4),
    ("8-linked", linked(8), 2, 8),
    ("ring-of-4", ring(4), 2, 2),
    ("8-v100", cube_mesh(), 2, 4),
    ("4-apart", [{}] * 4, 0, 1),
)
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


def test_the_solver_has_more_on_gpus_than_cliques(box):
    six = [{b: rate for b, rate in reads.items() if b < 6} for reads in cube_mesh()[:6]]
    store, _ = dry_run(box, six)
    rows = {p: o["gpu_rows"] for p, o in store["placements"].items()}
    assert rows["alone"] < rows["cliques"] < rows["solver"] < rows["one_copy"], rows
    seconds = {p: o["busiest_seconds"] for p, o in store["placements"].items()}
    assert seconds["solver"] < seconds["cliques"] < seconds["alone"], seconds


def test_all_gpus_hold_no_more_than_feature_ratio(box):
    store, _ = dry_run(
        box,
        linked(4),
        cache={"policy": "expected"},
        store={"feature_ratio": 0.2, "placement": "solver"},
    )
    assert SMALL // 5 - 4 < store["gpu_rows"] <= SMALL // 5, store
    assert all(d["rows"] < SMALL // 5 for d in store["held"]), store


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


@cases(("2", 2), ("3", 3))
def test_a_dry_run_shows_who_would_hold_the_graph(box, name, samplers):
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


def test_a_graph_that_each_gpu_has_room_for_is_in_no_parts(box):
    store, _ = graph_plan(box, 2)
    assert store["graph"]["placement"] == "alone" and store["graph"]["parts"] == 0, store
    assert "room for every edge" in store["graph"]["placement_reason"], store


def test_one_gpu_that_samples_has_no_plan_of_the_graph(box):
    store, said = graph_plan(box, 1)
    assert "graph" not in store and "\ngraph " not in said, store


def test_with_room_for_everything_nobody_shares(box):
    store, _ = dry_run(box, linked(4), cache={"policy": "expected"})
    assert store["placement"] == "alone" and store["gpu_rows"] == SMALL, store
    assert "room for every row" in store["placement_reason"], store


def test_slow_links_have_the_hottest_rows_everywhere(box):
    fast, _ = dry_run(box, linked(4, 300), store={"placement": "solver"})
    slow, _ = dry_run(box, linked(4, 2), store={"placement": "solver"})
    assert fast["first_rows"] < slow["first_rows"], (fast["first_rows"], slow["first_rows"])
    assert slow["gpu_rows"] < fast["gpu_rows"], (slow, fast)


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


@cases(
    ("its-trainers-reach-features", 100, 2, "features", "graph"),
    ("its-samplers-hold-the-graph", 20, 3, "graph", "features"),
)
def test_what_others_hold_weighs_by_their_links(box, name, degree, samplers, apart, joined):
    allocation = {"samplers": samplers, "trainers": 1}
    for links, wanted in (([{}] * (samplers + 1), apart), (linked(samplers + 1), joined)):
        found, reason = preferred(box, degree, 80 * 1024, links, allocation=allocation)
        assert found == wanted and LESS in reason, (links, found, reason)


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

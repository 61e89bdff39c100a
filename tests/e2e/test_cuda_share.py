"""Samplers' GPUs, emulated, that hold the edges of the graph together: whole jobs."""

import re

from browser import Browser
from harness import cases, fingerprint, planted, whole, write_dataset
from terminal import Terminal
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job, run, weighted_dataset
from test_cuda_load import SAYS
from test_top import fits

NOT_UNDER = {"address": SANITIZED}

KINDS = {
    "whole": {"sampler.fanout": [-1, 4]},
    "weighted": {"sampler.kind": "weighted"},
    "walk": {"sampler.kind": "walk", "sampler.paths": 6, "sampler.length": 3},
}
PARTS = 16  # that are dealt out where a placement has each part once
BUDGET = 440 << 10  # of which edges get less than all of them take


def share_job(box, gpus, placement="one_copy", kind=None, idle=0, **changes):
    """GPUs that sample, of which the last ones stay idle at first, and two cores that train."""
    split = {"samplers": gpus - idle, "trainers": 2, "switching": False}
    more = {
        "cache": {"policy": "none"},
        "epochs": 3,
        "allocation": split,
        "sampler.fanout": [5, 5],
        "store.placement": placement,
        "store.prefer": "features",
        # For all batches of a job: where memory is full, a batch that is drawn gives its own up to
        # an older one whose sampler was slow, and is drawn, and read, once more.
        "arena.memory": "16MiB",
    }
    devices = [gpu(d, memory=BUDGET) for d in range(gpus)] + [CPU, CPU]
    job = gpu_job(box, devices, **{**more, **KINDS.get(kind, {}), **changes})
    job["dataset"] = weighted_dataset(box, "share", n=2000, degree=25)
    return job


def train(box, job, **env):
    result, report = run(box, job, SLUICE_SIMT_DEVICES="8", **env)
    result.ok()
    return report


def graph_bytes(report):
    """Read at home, of other samplers, and in the machine's memory."""
    assert report["batches"]["evicted"] == 0, report["batches"]
    ways = {"own": 0, "peers": 0, "memory": 0}
    for link in report["store"]["links"]:
        if link["kind"] == "graph":
            own = link["from"] == str(link["reader"])
            way = "own" if own else "memory" if link["from"] == "memory" else "peers"
            ways[way] += link["bytes"]
    return ways


def alone(box, kind=None):
    """Fingerprint, and bytes of the graph that were read."""

    def compute():
        job = share_job(box, 2, placement="alone", kind=kind, output="runs/alone")
        report = train(box, job)
        ways = graph_bytes(report)
        assert ways["peers"] == 0 and ways["memory"] > 0, report["store"]
        assert report["store"]["graph_parts"] == 0, report["store"]
        return [fingerprint(report), sum(ways.values())]

    return box.shared_value(f"gpu-share-alone-{kind}", compute)


@cases(*KINDS)
def test_sharing_edges_changes_no_bit(box, kind):
    report = train(box, share_job(box, 2, kind=kind))
    ways = graph_bytes(report)
    wanted, total = alone(box, kind)
    assert report["store"]["graph_parts"] in (2, PARTS) and ways["peers"] > 0, report["store"]
    assert fingerprint(report) == wanted
    # Sums are searched where batches begin and end alike: as many bytes, in other places.
    assert sum(ways.values()) == total, (ways, total)


@cases((2, "cliques"), (4, "solver"))
def test_nor_does_a_placement(box, gpus, placement):
    links = {2: "full", 4: "ring"}[gpus]
    report = train(box, share_job(box, gpus, placement), SLUICE_SIMT_LINKS=links)
    ways = graph_bytes(report)
    wanted, total = alone(box)
    assert report["store"]["graph_placement"] == placement, report["store"]
    assert report["store"]["graph_parts"] in (gpus, PARTS) and ways["peers"] > 0, report["store"]
    assert sum(ways.values()) == total, (ways, total)
    assert fingerprint(report) == wanted


@cases("lent_filling", "lent_drawing:9")
def test_nor_does_a_sampler_that_dies(box, point):
    report = train(box, share_job(box, 3), SLUICE_FAILPOINT=point)
    (death,) = report["restarts"]
    assert death["worker"].startswith("sampler") and "SIGKILL" in death["cause"], death
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert fingerprint(report) == alone(box)[0]


def test_nor_does_another_split(box):
    """The plan is another one from the second epoch on."""
    job = share_job(box, 3, idle=1)
    job["schedule"] = [{"epoch": 1, "samplers": 3, "trainers": 2}]
    report = train(box, job)
    assert report["store"]["graph_plans"] >= 2, report["store"]
    assert report["store"]["graph_parts"] in (3, PARTS), report["store"]
    assert graph_bytes(report)["peers"] > 0, report["store"]
    assert fingerprint(report) == alone(box)[0]


def start(box, *arguments, **more):
    """Two GPUs that sample, until the job is stopped."""
    job = share_job(box, 2, epochs=100000, throttle={"sample": 0.01, "train": 0.02})
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0,1", "SLUICE_SIMT_DEVICES": "8"}
    return box.start("run", box.job(job), *arguments, env={**env, **more})


def test_the_page_shows_from_where_gpus_read_and_their_load(box):
    running = start(box, "--http", "0", **SAYS)
    url = running.until(
        lambda: re.search(r"http://127\.0\.0\.1:\d+/", "".join(running.output())), "page's address"
    )
    with Browser(box) as browser:
        browser.open(url.group())
        for ways in ("its own memory.*device 1.*machine", "device 0.*its own memory.*machine"):
            browser.until(
                "[...document.querySelectorAll('#devices table')].some((table) =>"
                f" /^graph read from.*{ways}.*%$/s.test(table.textContent))",
                "table of what it has read",
            )
        panel = "document.querySelector('#devices')?.textContent"
        browser.until(f"{panel}.includes('37.0 %, its memory 12.0 %')", "load in the panel")
        assert browser.problems() == [], browser.problems()
    running.stop()


def test_top_shows_from_where_gpus_read(box):
    running, run_directory = start(box), box.path("runs/job")
    box.until_epoch(running)
    top = Terminal(box, "top", run_directory)
    top.press("2")
    # Of the first line of statistics there are no rates.
    top.until("graph read by each device, from where: bytes/s now, share of all")
    for reader, other in ((0, 1), (1, 0)):
        row = re.compile(rf"cuda {reader} +own +\d.* % +cuda {other} +\d.* % +memory +\d.* %")
        fits(top.until(row.search), 80, 24)
    top.press("q")
    assert top.wait() == 0
    top.close()
    stats = box.sluice("stats", run_directory).ok().out
    assert re.search(r"device 0: \S+ \S+ of graph from device 1\n", stats), stats
    running.stop()


def test_a_graph_ratio_that_budgets_do_not_allow_is_said(box):
    job = share_job(box, 2, kind="weighted", **{"store.graph_ratio": 1})  # 12 bytes an edge
    result, _ = run(box, job, SLUICE_SIMT_DEVICES="8")
    result.ok()
    assert "store.graph_ratio: found 1" in result.out + result.err, result.err


GPU_BUDGETS = [800 << 10, 800 << 10, 6 << 20, 6 << 20]  # two that sample, two that train


@whole
def test_a_graph_and_features_of_eight_times_all_budgets(box):
    """Samplers' GPUs share the edges, trainers' GPUs the features; nothing else changes."""
    arrays = planted(n=56000, feat_dim=500, degree=10)
    for split in ("train_idx", "val_idx", "test_idx"):
        arrays[split] = arrays[split][::100]
    dataset = write_dataset(box.path("large"), arrays, name="large")
    size = sum(arrays[name].nbytes for name in ("node_feat", "indices", "indptr"))
    assert size >= 8 * sum(GPU_BUDGETS), size

    def once(placement):
        job = {"dataset": dataset, "epochs": 2, "cache": {"policy": "degree"}}
        job["allocation"] = {"samplers": 2, "trainers": 2, "switching": False}
        job["store.placement"] = placement
        job["store.prefer"] = "features"  # most of so little memory is for batches
        job["sampler.batch_size"] = job["evaluate.batch_size"] = 16
        job["evaluate.fanout"] = [3, 3]  # as in training, a step of which is what is measured
        job["output"] = f"runs/{placement}"
        devices = [gpu(d, memory=bytes_) for d, bytes_ in enumerate(GPU_BUDGETS)]
        return train(box, gpu_job(box, devices, **job))

    report = once("one_copy")
    store = report["store"]
    assert store["parts"] == PARTS and store["graph_parts"] == PARTS, store
    for kind in ("features", "graph"):
        others = [
            link["bytes"]
            for link in store["links"]
            if link["kind"] == kind and link["from"] not in ("memory", str(link["reader"]))
        ]
        assert sum(others) > 0, store["links"]
    assert fingerprint(report) == fingerprint(once("alone"))

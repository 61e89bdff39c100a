"""The part `store` of scripts/bench: features on the drive, against other ways to read them."""

import os
import re
import time

from benchlib import QUICK, Failed, Jobs, cpu_devices, epoch_times, found_by, part, read_json, row

# Features of 12 GiB beside 100 M edges, of which a mini-batch touches some ten thousand rows.
KIND = "rmat --feat-dim 128 --classes 16 --val-ratio 0"
GRAPH = f"{KIND} --nodes 25M --edges 100M --train-ratio 0.006"
LITTLE = f"{KIND} --nodes 100k --edges 800k --train-ratio 0.05"
LIMIT = (4 << 30) if not QUICK else (512 << 20)  # bytes of memory for a job, page cache too
CACHE = (512 << 20) if not QUICK else (8 << 20)
GROUPS = "/sys/fs/cgroup/memory"


class Limited:
    """Processes started within it take at most so much memory, where control groups can be made."""

    def __init__(self, limit):
        self.path, self.limit = os.path.join(GROUPS, f"sluice-bench-{os.getpid()}"), limit
        self.home = None

    def __enter__(self):
        try:
            os.mkdir(self.path)
            self.write("memory.limit_in_bytes", self.limit)
            with open("/proc/self/cgroup") as file:
                self.home = re.search(r"memory:(.*)", file.read())[1].strip("/")
            self.move(self.path)
        except OSError as why:
            print(f"no limit of memory: {why}")
            self.home = None
        return self

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    @staticmethod
    def move(group):
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def __exit__(self, *_):
        if self.home is not None:
            self.move(os.path.join(GROUPS, self.home))
        if os.path.isdir(self.path):
            os.rmdir(self.path)


def forget_pages():
    """What files have in memory is given up, so that each job begins alike."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    except OSError as why:
        print(f"page cache stays: {why}")


def job_of(dataset, store, cache):
    return {
        "dataset": dataset,
        "epochs": 2,
        "seed": 1,
        "model": {"kind": "graphsage", "layers": 2, "hidden": 64},
        "sampler": {"kind": "khop", "fanout": [15, 10], "batch_size": 1024},
        "evaluate": {"every": 0, "fanout": [10, 5], "test": "never"},
        "devices": cpu_devices(2),
        "allocation": {"samplers": 1, "trainers": 1, "switching": False},
        "store": store,
        "cache": {"policy": cache},
    }


WAYS = {
    "window 16, expected": ({"features": "storage", "cache": CACHE, "window": 16}, "expected"),
    "window 16": ({"features": "storage", "cache": CACHE, "window": 16}, "none"),
    "window 0": ({"features": "storage", "cache": CACHE, "window": 0}, "none"),
}


def seconds_by_faults(jobs, dataset, most):
    """An epoch's, from the batches that were trained until then: few are."""
    process = jobs.start(dict(job_of(dataset, {"features": "memory"}, "none"), epochs=1))
    begin = time.monotonic()
    while process.poll() is None and time.monotonic() < begin + most:
        time.sleep(0.5)
    if process.poll() is None:
        process.terminate()
    if process.wait() != 0 and not os.path.exists(process.report):
        raise Failed(f"no mini-batch in {most} s by page faults")
    report = read_json(process.report)
    batches = report["batches"]
    seconds = report["wall_seconds"] - report["start_seconds"]
    return seconds * batches["scheduled"] / max(batches["trained"], 1), report


def store_rows(jobs, dataset):
    features = os.path.join(dataset, "node_feat.npy")
    found, hashes = {}, set()
    with Limited(LIMIT):
        for name, (store, cache) in WAYS.items():
            forget_pages()
            report = jobs.finish(jobs.start(job_of(dataset, store, cache)))
            hashes.add(report["params_sha256"])
            found[name] = report
        forget_pages()
        faults, mapped = seconds_by_faults(jobs, dataset, 240)
        forget_pages()
        depth = found["window 16"]["store"]["depth"]
        drive = found_by("drive", features, "--depth", str(depth))["reads_per_second"]
        others = {
            way: found_by("drive", features, "--way", way)["reads_per_second"]
            for way in ("pread", "faults")
        }
    row("drive, blocks of 4 KiB a second", f"{drive:.0f} at depth {depth}")
    for way, rate in others.items():
        row(f"  {way}", f"{rate:.0f}", f"{drive:.0f}", rate / drive)
    for name, report in found.items():
        seconds, last = epoch_times(report)[0], report["epochs"][-1]
        row(f"{name}: epoch", f"{seconds:.2f} s", f"page faults {faults:.1f} s", seconds / faults)
        rows = last["store"]
        if rows["read"]:
            rate = rows["read_bytes"] / 4096 / rows["seconds"]
            row("  blocks a second, fetching", f"{rate:.0f}", f"{drive:.0f}", rate / drive, 0.9)
            share = rows["cached"] / last["input_nodes"]
            row("  rows", f"{rows['cached']} cached", f"{rows['read']} read", share)
    if mapped["status"] == "done":
        hashes.add(mapped["params_sha256"])
    row("same parameters", "yes" if len(hashes) == 1 else "NO", f"page faults: {mapped['status']}")


@part
def part_store():
    with Jobs() as jobs:
        store_rows(jobs, jobs.generate("large", LITTLE if QUICK else GRAPH))

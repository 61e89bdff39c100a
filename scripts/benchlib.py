"""What the parts of scripts/bench share: paths, commands, jobs, and the table of results."""

import argparse
import contextlib
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.abspath(os.environ.get("BIN") or os.path.join(ROOT, "build", "bin"))
SHARED_DATA = os.path.abspath(
    os.environ.get("SLUICE_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
)
# Tiny parameters: shows that a part works, its figures mean nothing.
QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")
OPTIONS = argparse.Namespace(out=os.path.join(ROOT, "build", "figures"))  # of the command line
ROWS = []  # (metric, value, other, ratio, aim, at most?)


def row(metric, value, other="", ratio=None, aim=None, at_most=False):
    ROWS.append((metric, value, other, ratio, aim, at_most))


class Failed(Exception):
    """A command failed; the part ends."""


def run(*command, quiet=False):
    """Standard output of a command, shown as it comes."""
    print(
        f"$ {' '.join(os.path.relpath(c) if c.startswith(BIN) else c for c in command)}", flush=True
    )
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None, text=True,
        errors="replace",
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if not quiet:
            print("  " + line, end="", flush=True)
    if process.wait() != 0:
        raise Failed(f"{command[0]} ended with status {process.returncode}")
    return "".join(lines)


def found_by(name, *arguments, **more):
    """What a program of tests/bench has found: the JSON in its last line."""
    text = run(os.path.join(BIN, "tests", "bench", name), *arguments, **more)
    return json.loads(text.strip().splitlines()[-1])


def read_json(path):
    with open(path) as file:
        return json.load(file)


@functools.lru_cache(maxsize=None)
def ledger_ns():
    """Nanoseconds of queue and control a batch: one sampler, one trainer, nothing to compute."""
    text = run(
        os.path.join(BIN, "tests", "stress", "ledger"),
        *f"--batches {20000 if QUICK else 200000} --samplers 1 --trainers 1 --kill-every 0".split(),
    )
    return float(re.search(r"\((\d+) ns a batch\)", text)[1])


def real_graph(name="ogbn_arxiv"):
    """The path of a real graph; None, and a line, where it is not there."""
    dataset = os.path.join(SHARED_DATA, name)
    if os.path.isdir(dataset):
        return dataset
    print(f"SKIP: {dataset} is not there")
    return None


def epoch_dataset():
    """ogbn_arxiv, else the demo's graph: (path, name); (None, None) where neither is."""
    dataset = real_graph()
    if dataset:
        return dataset, "ogbn_arxiv"
    dataset = os.path.join(ROOT, "data", "demo")
    if os.path.isdir(dataset):
        return dataset, "demo"
    print("SKIP: nor is data/demo (`make demo` makes it)")
    return None, None


# ---- data sets ----------------------------------------------------------------------------------


def derive(dataset, path, arrays, **changes):
    """Makes the data set at `path`: that at `dataset`, with other arrays and metadata."""
    import numpy

    os.mkdir(path)
    for name in set(os.listdir(dataset)) - {f"{key}.npy" for key in arrays} - {"metadata.json"}:
        os.symlink(os.path.join(dataset, name), os.path.join(path, name))
    for key, array in arrays.items():
        numpy.save(os.path.join(path, f"{key}.npy"), array)
    with open(os.path.join(path, "metadata.json"), "w") as file:
        json.dump({**read_json(os.path.join(dataset, "metadata.json")), **changes}, file)
    return path


def year_weights(dataset):
    """Weights of a data set's edges that double with every four years of the source; where it has
    no years, they are random, as `sluice generate rmat --weights` has them."""
    import numpy

    years = os.path.join(dataset, "node_year.npy")
    if os.path.exists(years):
        year = numpy.load(years).reshape(-1).astype(numpy.float64)
    else:
        n = numpy.load(os.path.join(dataset, "indptr.npy"), mmap_mode="r").size - 1
        year = numpy.random.default_rng(7).integers(0, 32, n)
    sources = numpy.load(os.path.join(dataset, "indices.npy"), mmap_mode="r")
    return numpy.exp2((year - year.max()) / 4).astype(numpy.float32)[sources]


def import_types(jobs, name, features, relations, labels, splits):
    """The path of a data set of several types, with reverse relations. Of the types by name the
    features, of the relations by three names the edges (2, n), numbers in the types; labels and
    splits are of the first type. Each is an array or the path of a .npy file."""
    import numpy

    source, path = jobs.path(f"{name}-source"), jobs.path(name)
    os.mkdir(source)

    def file(key, array):
        if isinstance(array, str):
            return array
        numpy.save(os.path.join(source, f"{key}.npy"), array)
        return f"{key}.npy"

    graph = {
        "types": [{"name": key, "features": file(key, x)} for key, x in features.items()],
        "relations": [
            {"source": s, "name": key, "target": t, "edges": file(key, edges)}
            for (s, key, t), edges in relations.items()
        ],
        "labels": {"type": next(iter(features)), "file": file("labels", labels)},
        "splits": {key: file(key, ids) for key, ids in splits.items()},
    }
    with open(os.path.join(source, "graph.json"), "w") as out:
        json.dump(graph, out)
    command = [os.path.join(BIN, "sluice"), "import", "typed", source, "--reverse", "--out", path]
    run(*command, "--name", name, "--quiet")
    shutil.rmtree(source)
    return path


# ---- jobs ---------------------------------------------------------------------------------------


def two_cores():
    """The numbers of two cores that may be used; one where there is no other."""
    return sorted(os.sched_getaffinity(0))[:2]


def cpu_devices(n):
    """n devices that share two cores, as far as there are two."""
    cores = (two_cores() * 2)[:2]
    return [{"kind": "cpu", "cores": str(cores[i % 2])} for i in range(n)]


def epoch_job(dataset, **changes):
    """The job that times are told of: three layers of 256, fanout 15,10,5, 1024 seeds a batch."""
    return {
        "dataset": dataset,
        "model": {"kind": "graphsage", "layers": 3, "hidden": 256, "dropout": 0.5},
        "sampler": {"kind": "khop", "fanout": [15, 10, 5], "batch_size": 1024},
        "optimizer": {"kind": "adam", "lr": 0.003},
        "seed": 7,
        "evaluate": {"every": 0, "fanout": [5, 5, 5]},
        **changes,
    }


# In place of epoch_job's with BENCH_QUICK.
SMALL = {
    "model": {"kind": "graphsage", "layers": 3, "hidden": 16, "dropout": 0.5},
    "sampler": {"kind": "khop", "fanout": [3, 3, 3], "batch_size": 4096},
}


class Jobs:
    """Runs jobs in a folder of its own; `with Jobs() as jobs:` removes it and what still runs."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-bench-")
        self.count, self.processes = 0, []
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()  # sluice stops its job and takes its workers along
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, job):
        """The paths of the job's file and of its output."""
        self.count += 1
        path, output = self.path(f"{self.count}.json"), self.path(f"run-{self.count}")
        with open(path, "w") as file:
            json.dump({"name": f"bench-{self.count}", **job, "output": output}, file)
        return path, output

    def dry_run(self, job):
        """What is expected of a job."""
        command = [os.path.join(BIN, "sluice"), "run", self.write(job)[0], "--dry-run"]
        return json.loads(run(*command, "--output", "json", quiet=True))

    def start(self, job, *arguments, stderr=None):
        """The process of a job; it has the paths `report` and `output`."""
        path, output = self.write(job)
        report = self.path(f"{self.count}.report.json")
        process = subprocess.Popen(
            [os.path.join(BIN, "sluice"), "run", path, "--report", report, "--quiet", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        )
        process.report, process.output = report, output
        self.processes.append(process)
        return process

    def finish(self, process):
        if process.wait() != 0:
            raise Failed(f"`sluice run` ended with status {process.returncode}")
        report = read_json(process.report)
        batches = report["batches"]
        if report["status"] != "done" or batches["trained"] != batches["scheduled"]:
            raise Failed(f"a job ended {report['status']}, its batches {batches}")
        shutil.rmtree(process.output, ignore_errors=True)
        return report

    def run(self, jobs, at_once):
        """Reports of jobs in their order, at most so many at a time."""
        reports = []
        for begin in range(0, len(jobs), at_once):
            started = [self.start(job) for job in jobs[begin : begin + at_once]]
            reports += [self.finish(process) for process in started]
        return reports

    def generate(self, name, arguments):
        path = self.path(name)
        command = [os.path.join(BIN, "sluice"), "generate", *arguments.split(), "--out", path]
        run(*command, "--quiet")
        return path


def epoch_times(report):
    """Seconds of the epochs after the first, which pays for page faults and first touches."""
    return [epoch["seconds"] for epoch in report["epochs"][1:]]


PARTS = {}  # name: a function, whether it succeeded


def part(function):
    """Decorator of a part, part_NAME: Failed becomes a message and the status False."""

    def guarded():
        try:
            function()
        except (Failed, ImportError) as why:  # NumPy and matplotlib are not everywhere
            print(f"bench: {why}", file=sys.stderr)
            return False
        return True

    PARTS[function.__name__.removeprefix("part_")] = guarded
    return guarded


class Others:
    """What programs that are not of this bench take of the processor from here on."""

    def __init__(self):
        self.begin = self.read()

    def read(self):
        """(all, busy, ours) in seconds of all cores since they started."""
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        idle, whole = ticks[3] + ticks[4], sum(ticks)
        return (*(t / os.sysconf("SC_CLK_TCK") for t in (whole, whole - idle)), processor_seconds())

    def share(self):
        whole, busy, ours = (now - then for now, then in zip(self.read(), self.begin))
        return max(busy - ours, 0) / max(whole, 0.01)

    def __str__(self):
        return f"Other programs took {100 * self.share():.0f} % of the processor meanwhile."


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def family(pid):
    """The process and all below it."""
    members = [pid]
    for member in members:
        members += children(member)
    return members


def processor_seconds():
    """Of this process and of all that it started and that has ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


# ---- the table ----------------------------------------------------------------------------------


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) / 2**20
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"


def print_table():
    heading = ("metric", "value", "ceiling or other, same run", "ratio", "aim", "")
    lines = [heading]
    for metric, value, other, ratio, aim, at_most in ROWS:
        missed = ratio is not None and aim is not None and (ratio > aim if at_most else ratio < aim)
        lines.append(
            (
                metric,
                value,
                other,
                "" if ratio is None else f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.4f}",
                "" if aim is None else f"{'<=' if at_most else '>='} {aim:g}",
                "missed" if missed else "",
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    print()
    for number, line in enumerate(lines):
        cells = [
            cell.rjust(width) if i in (1, 3) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths)))

"""Graphs and jobs of gpu_suite: made in a folder of their own, which is removed at the end."""

import json
import os
import shutil
import sys
import tempfile

from suitelib import OUT, ROOT, Failed, program, run

# Where data sets are looked for: as tests do, in a bundle, beside a checkout.
DATA = [os.environ.get("SLUICE_TEST_DATA"), os.path.join(ROOT, "data")]
DATA += [os.path.join(ROOT, "../shared/data")]

CPU = {"kind": "cpu", "cores": str(min(os.sched_getaffinity(0)))}
CUDA = {"kind": "cuda", "index": 0}
# A GPU that samples and trains in turn; CPU cores that feed a GPU; CPU cores alone.
WAYS = {
    "cuda": ([CUDA], {}),
    "two roles": ([CUDA, CUDA], {"samplers": 1, "trainers": 1, "switching": False}),
    "mixed": ([CPU, CUDA], {"samplers": 1, "trainers": 1, "switching": False}),
    "cpu": ([CPU, CPU], {"samplers": 1, "trainers": 1, "switching": False}),
}


def data_set(name):
    """The folder of a real graph, or None."""
    found = (os.path.join(os.path.abspath(folder), name) for folder in DATA if folder)
    return next(filter(os.path.isdir, found), None)


def sage(fanout, batch, hidden, layers=None):
    return {
        "model": {"kind": "graphsage", "layers": layers or len(fanout), "hidden": hidden},
        "sampler": {"kind": "khop", "fanout": fanout, "batch_size": batch},
        "optimizer": {"kind": "adam", "lr": 0.003},
    }


class Box:
    def __init__(self, options):
        self.tiny = options.rehearse
        try:
            self.path = tempfile.mkdtemp(prefix="gpu_suite-")
        except OSError as e:
            sys.exit(f"gpu_suite: no folder for graphs: {e}: name one with room in TMPDIR")

    def at(self, *path):
        return os.path.join(self.path, *path)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def job(self, name, devices, allocation, **more):
        job = {
            "name": name,
            "devices": devices,
            "allocation": allocation,
            "output": self.at(name),
            "seed": 7,
            **more,
        }
        with open(self.at(name + ".json"), "w", encoding="utf-8") as f:
            json.dump(job, f)
        return self.at(name + ".json")

    def train(self, name, devices, allocation, limit_s, env=None, under=(), **more):
        """The report of a job, which asks for the GPUs and then opens them; `under` a command."""
        job = self.job(name, devices, allocation, **more)
        report = OUT.at("reports", name + ".json")
        command = [*under, program("sluice"), "run", job, "--report", report, "--quiet"]
        try:
            run(command, limit_s, env, show=False, starts=2)
        except Failed:
            if os.path.isdir(self.at(name, "log")):  # what its workers have said
                kept = OUT.at("reports", name + ".log")
                shutil.copytree(self.at(name, "log"), kept, dirs_exist_ok=True)
            raise
        with open(report, encoding="utf-8") as f:
            return json.load(f)

    def generate(self, name, *arguments):
        path = self.at(name)
        if not os.path.isdir(path):
            command = [program("sluice"), "generate", *arguments, "--out", path]
            run(command, 240, show=False, starts=0)
        return path

    def planted(self):
        nodes = 2000 if self.tiny else 50000
        return self.generate("planted", "planted", "--nodes", str(nodes))

    def large(self):
        """What epochs are measured on: 30 M edges, 128 features. Few vertices are there for
        evaluation, which is not measured."""
        size = "--nodes 1000000 --edges 30000000 --feat-dim 128"
        if self.tiny:
            size = "--nodes 1000 --edges 8000 --feat-dim 16"
        shape = f"rmat {size} --classes 47 --seed 1"
        return self.generate("rmat", *shape.split(), *"--train-ratio 0.1 --val-ratio 0.01".split())

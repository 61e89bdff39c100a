"""The part of scripts/bench that tells what watching a job costs it."""

import os
import statistics
import subprocess
import time

from benchlib import BIN, QUICK, Jobs, cpu_devices, epoch_dataset, epoch_job, epoch_times, part, row

ROUNDS = 1 if QUICK else 3
EPOCHS = 2 if QUICK else 4
LOOK_S = 0.05


class Watched:
    """A job that is run while commands watch it."""

    def __init__(self, jobs, job, commands):
        self.jobs, self.job, self.commands = jobs, job, commands

    def run(self):
        process = self.jobs.start(self.job)
        while not os.path.isdir(process.output) and process.poll() is None:
            time.sleep(LOOK_S)
        watchers = [
            subprocess.Popen(
                [os.path.join(BIN, "sluice"), *(w.format(process.output) for w in words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for words in self.commands(self.jobs)
        ]
        try:
            return epoch_times(self.jobs.finish(process))
        finally:
            for watcher in watchers:
                watcher.terminate()
                watcher.wait()


def nobody(jobs):
    return []


def three_followers(jobs):
    return [["stats", "{}", "--follow", "-o", "json"]] * 3


def a_trace(jobs):
    return [["trace", "{}", "--seconds", "600", "-o", jobs.path("trace.json")]]


WAYS = {"alone": nobody, "watched": three_followers, "traced": a_trace}


@part
def part_live():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    changes = {"epochs": EPOCHS, "updates": {"mode": "ordered", "batches_per_update": 4}}
    if QUICK:
        changes["model"] = {"kind": "graphsage", "layers": 3, "hidden": 16, "dropout": 0.5}
        changes["sampler"] = {"kind": "khop", "fanout": [3, 3, 3], "batch_size": 4096}
    job = epoch_job(dataset, devices=cpu_devices(2), **changes)
    times = {way: [] for way in WAYS}
    with Jobs() as jobs:
        for _ in range(ROUNDS):
            for way, commands in WAYS.items():
                took = Watched(jobs, job, commands).run()
                times[way] += took
                print(f"  {way:8} {' '.join(f'{t:.3f}' for t in took)} s an epoch", flush=True)
    alone = statistics.median(times["alone"])
    for way, what in (
        ("watched", "three `stats --follow`"),
        ("traced", "every batch traced"),
    ):
        seconds = statistics.median(times[way])
        row(
            f"{name}: epoch with {what}",
            f"{seconds:.3f} s",
            f"alone {alone:.3f} s",
            seconds / alone,
            1.01,
            True,
        )

"""The part of scripts/bench that tells what watching a job costs it."""

import os
import statistics
import subprocess
import threading
import time

from benchlib import (
    BIN, QUICK, SMALL, Jobs, children, cpu_devices, epoch_dataset, epoch_job, epoch_times, part,
    row,
)

ROUNDS = 1 if QUICK else 3
EPOCHS = 2 if QUICK else 4
LOOK_S = 0.05
CLOCK_S = 0.2
TICKS = os.sysconf("SC_CLK_TCK")


class Clock(threading.Thread):
    """Processor time of processes, from when it starts until they end."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.ends = pids, False
        self.first, self.last = {}, {}
        self.began = self.looked = time.monotonic()

    def look(self):
        for pid in self.pids:
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                self.last[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                self.first.setdefault(pid, self.last[pid])
                self.looked = time.monotonic()

    def run(self):
        while not self.ends:
            self.look()
            time.sleep(CLOCK_S)

    def share(self):
        """Of one core."""
        self.ends = True
        self.join()
        used = sum(self.last[pid] - self.first[pid] for pid in self.last)
        return used / max(self.looked - self.began, CLOCK_S)


class Watched:
    """A job that is run while commands watch it."""

    def __init__(self, jobs, job, commands):
        self.jobs, self.job, self.commands = jobs, job, commands

    def run(self):
        """Seconds of its epochs; what its command, its broker and the watchers took of a core."""
        process = self.jobs.start(self.job)
        while not os.path.isdir(process.output) and process.poll() is None:
            time.sleep(LOOK_S)
        watchers = [
            subprocess.Popen(
                [os.path.join(BIN, "sluice"), *(w.format(process.output) for w in words)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for words in self.commands(self.jobs)
        ]
        clock = Clock([process.pid, *children(process.pid), *(w.pid for w in watchers)])
        clock.start()
        try:
            return epoch_times(self.jobs.finish(process)), clock.share()
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
    updates = {"mode": "ordered", "batches_per_update": 4}
    changes = SMALL if QUICK else {}
    job = epoch_job(dataset, devices=cpu_devices(2), epochs=EPOCHS, updates=updates, **changes)
    times = {way: [] for way in WAYS}
    shares = {way: [] for way in WAYS}
    with Jobs() as jobs:
        for _ in range(ROUNDS):
            for way, commands in WAYS.items():
                took, share = Watched(jobs, job, commands).run()
                times[way] += took
                shares[way].append(share)
                print(
                    f"  {way:8} {' '.join(f'{t:.3f}' for t in took)} s an epoch, "
                    f"{100 * share:.2f} % of a core for broker and watchers",
                    flush=True,
                )
    alone = statistics.median(times["alone"])
    broker = statistics.median(shares["alone"])
    for way, what in (
        ("watched", "three `stats --follow`"),
        ("traced", "every batch traced"),
    ):
        seconds = statistics.median(times[way])
        row(
            f"{name}: epoch with {what}", f"{seconds:.3f} s", f"alone {alone:.3f} s",
            seconds / alone, 1.01, True,
        )
        # The epochs of one machine differ by more than this: what watching costs shows here.
        share = statistics.median(shares[way])
        row(
            f"{name}: broker and watchers, {what}", f"{100 * share:.2f} % of a core",
            f"broker alone {100 * broker:.2f} %", 1 + share - broker, 1.01, True,
        )

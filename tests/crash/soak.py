#!/usr/bin/python3
"""What stays after a thousand jobs: soak.py [--rounds 250] [--jobs 4] [--kills 8] [--scales 2]

One daemon lives through all of it, and so does one job of eight devices. In each round other jobs
are submitted and run to their ends, workers of the long job are killed (each only after it has
worked, so that the broker has no reason to give up), and its split is changed and changed back.
Then the daemon and the long job's broker stand as they stood a round before, and are measured:
private memory (Pss_Anon of smaps_rollup, without the arena that all share), all resident memory,
descriptors, threads. The defaults are 1,000 jobs, 2,000 deaths and 500 changes.

What is wanted at the end:
  jobs          each ended as "done", with the parameters of the first one
  descriptors   after the first rounds no more than then
  threads       the same; more, and not less after some minutes, ends the run
  memory        no growth: the least value of the last third of the judged rounds is at most the
                least value of the first third and ALLOWED_BYTES. The least, since an allocator
                gives back late what it once took; what leaks stays, and lifts the least value too
Memory is judged in the rounds after the daemon's list of jobs that are over and the report's of
decisions, deaths and changes have their LIST_KEPT entries; a run that is too short says so.
The broker's list of events may fill up later: EVENT_BYTES are allowed for each that came to it, and
EPOCH_BYTES for each epoch, of which a report has all.

Nothing here is a matter of time: on a busy machine it only takes longer. --seed repeats a run's
choices; --minutes ends it early, and what there is is judged. A short one that judges all:
`soak.py --rounds 40 --jobs 10 --kills 10 --scales 10`.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402

# Some pages: the allocator's own lists, and strings of other lengths in lists that are full.
ALLOWED_BYTES = 256 << 10
LIST_KEPT = 200  # SL_REGISTRY_OVER_KEPT, SL_REPORT_NEWEST
JUDGED_LEAST = 9  # rounds
SETTLED = 10  # rounds until each thread of a pool has had its turn
EVENTS_KEPT = 2048  # SL_TIMELINE_MAX of broker/log/timeline.h
EVENT_BYTES = 512
EPOCH_BYTES = 16 << 10  # the report has all epochs: some 90 numbers of each, as nodes of a tree
# The allocator keeps what each thread has once needed for the text of a checkpoint, and that grows
# with the report: one arena, which gives free memory back, shows what the program itself keeps.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(128 << 10)}
DEVICES = 8
SPLIT = {"samplers": 4, "trainers": 4}
PATIENCE_S = 600
PRINTED_ROWS = 12


def measure(pid):
    """What a process holds now: bytes, and how many of the rest."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        fields = dict(line.split(":", 1) for line in file if line.endswith("kB\n"))
    bytes_of = {key: int(value.split()[0]) << 10 for key, value in fields.items()}
    return {
        "private": bytes_of["Pss_Anon"],
        "resident": bytes_of["Rss"],
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


class LongJob:
    """The job that lives through everything, seen through its statistics."""

    def __init__(self, daemon):
        self.daemon, box = daemon, daemon.box
        dataset = box.shared_dataset("long", n=20000)
        core = str(harness.CORES[0])
        self.config = harness.small_job(
            dataset,
            output="runs/long",
            **{
                "name": "long",
                "devices": [{"kind": "cpu", "cores": core}] * DEVICES,
                "allocation": {**SPLIT, "switching": False},
                "sampler.batch_size": 2,
                "updates.batches_per_update": 4,
                "throttle": {"train": 0.05},
                "evaluate": {"every": 0},
                "arena": {"memory": "16MiB"},
                # Often: each thread of the pool that writes them keeps its largest one's memory.
                "checkpoint": {"every_updates": 50},
                "epochs": 100000,
            },
        )
        daemon.do("submit", box.job(self.config, "long.json"), "--detach").ok()
        daemon.until_state("long", "running", PATIENCE_S)
        (self.broker,) = [p for p, line in box.processes("broker").items() if "--private" in line]
        self.follower = daemon.background("stats", "long", "--follow", "-o", "json")
        self.lines = open(self.follower.out_path)
        self.text = ""
        self.events = open(box.path("runs/long/events.jsonl"))
        self.n_events = 0
        self.batches = {}  # of each process, as first seen
        self.epoch = 0

    def look(self):
        """The processes that have completed work by the newest line, {pid: name}; None where there
        is no new one."""
        self.text += self.lines.read()
        whole, newline, self.text = self.text.rpartition("\n")
        if not newline:
            return None
        stats = json.loads(whole.rpartition("\n")[2])
        workers = {w["pid"]: w for w in stats["workers"] if w["pid"]}
        self.epoch = stats["epoch"]
        first = {pid: self.batches.get(pid, w["batches"]) for pid, w in workers.items()}
        self.batches = first
        return {pid: w["name"] for pid, w in workers.items() if w["batches"] > first[pid]}

    def until(self, condition, what):
        """Waits for statistics in which condition(processes that work) holds."""

        def holds():
            working = self.look()
            return condition(working) if working is not None else None

        return self.follower.until(holds, what, PATIENCE_S)

    def kill(self, chance, n):
        """SIGKILL to n workers, one after another, none twice and none that has done nothing."""
        killed = set()
        while len(killed) < n:
            living = self.until(lambda w: set(w) - killed, "a worker that works")
            for pid in sorted(living)[: n - len(killed)]:
                if chance.random() < 0.8:
                    with contextlib.suppress(ProcessLookupError):  # it has left since that line
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)

    def scale(self, split):
        words = [f"{role}={n}" for role, n in split.items()]
        answer = self.daemon.do("scale", "long", *words, "-o", "json", seconds=PATIENCE_S)
        assert answer.json()["ok"], answer

    def until_whole(self):
        """All seats are filled by who works, as they were in the beginning."""
        self.until(lambda working: len(working) == sum(SPLIT.values()), "a whole crew")

    def events_kept(self):
        self.n_events += self.events.read().count("\n")
        return min(self.n_events, EVENTS_KEPT)

    def stop(self):
        self.events.close()
        self.daemon.do("stop", "long", seconds=PATIENCE_S).ok()
        self.daemon.until(lambda: self.daemon.state("long") != "running", "its end", PATIENCE_S)
        self.follower.wait(PATIENCE_S)
        self.lines.close()
        return harness.read_json(self.daemon.box.path("runs/long/report.json"))


class Jobs:
    """The others: submitted, waited for, and gone."""

    def __init__(self, daemon):
        self.daemon, self.n, self.wanted = daemon, 0, None
        self.dataset = daemon.box.shared_dataset("small")

    def submit(self, n):
        names = []
        for _ in range(n):
            name = f"job-{self.n}"
            config = harness.small_job(
                self.dataset,
                output=f"runs/{name}",
                **{
                    "name": name,
                    "devices": [{"kind": "cpu", "cores": str(harness.CORES[1])}] * 2,
                    "epochs": 1,
                    "evaluate": {"every": 0},
                },
            )
            path = self.daemon.box.job(config, f"{name}.json")
            self.daemon.do("submit", path, "--detach", seconds=PATIENCE_S).ok()
            os.unlink(path)
            names.append(name)
            self.n += 1
        return names

    def finish(self, names):
        for name in names:
            self.daemon.do("wait", name, seconds=PATIENCE_S).ok()
            folder = self.daemon.box.path("runs", name)
            report = harness.read_json(os.path.join(folder, "report.json"))
            found = (report["status"], report["params_sha256"])
            self.wanted = self.wanted or ("done", report["params_sha256"])
            assert found == self.wanted, (name, found, self.wanted)
            shutil.rmtree(folder)


def random_split(chance):
    while True:
        split = {"samplers": chance.randrange(1, 5), "trainers": chance.randrange(1, 5)}
        if split != SPLIT:
            return split


def one_round(long, jobs, chance, options):
    names = jobs.submit(options.jobs)
    long.kill(chance, options.kills)
    long.until_whole()
    for i in range(options.scales):
        long.scale(SPLIT if i % 2 else random_split(chance))
    if options.scales % 2:
        long.scale(SPLIT)
    long.until_whole()
    jobs.finish(names)


def not_flat(row, base):
    """Which counts are above those of the first judged round, as sentences."""
    return [
        f"{who}: {what} rose from {base[who][what]} to {row[who][what]}"
        for who in base
        for what in ("descriptors", "threads")
        if row[who][what] > base[who][what]
    ]


def rest(pids, base):
    """A row of the table. What a round has left may go away a little later: that is waited for."""
    end = time.monotonic() + PATIENCE_S
    while True:
        row = {who: measure(pid) for who, pid in pids.items()}
        wrong = not_flat(row, base) if base else []
        if not wrong:
            return row
        assert time.monotonic() < end, "; ".join(wrong)
        time.sleep(0.1)


def print_row(number, row, jobs, long):
    cells = [f"{number:6} {jobs.n:6} {long.epoch + 1:6}"]
    for who in ("daemon", "broker"):
        m = row[who]
        cells.append(
            f"{m['private'] >> 10:9} {m['resident'] >> 10:9} {m['descriptors']:6} {m['threads']:8}"
        )
    print(" | ".join(cells), flush=True)


HEAD = "\n".join(
    [
        f"{'':20} | {'daemon':35} | broker of the long job",
        " | ".join(
            [" round   jobs  epoch"] + ["  private  resident    fds  threads"] * 2
        )
        + "   (KiB)",
    ]
)


def judge(judged, explained):
    """Memory that grew, as sentences; counts that rise have ended the run before."""
    third, wrong = max(1, len(judged) // 3), []
    for who in judged[0]:
        first = min(row[who]["private"] for row in judged[:third])
        last = min(row[who]["private"] for row in judged[-third:])
        rounds, allowed = max(1, len(judged) - third), ALLOWED_BYTES + explained[who]
        seen = {what: [row[who][what] for row in judged] for what in ("descriptors", "threads")}
        counts = ", ".join(f"{what} {min(n)} to {max(n)}" for what, n in seen.items())
        print(
            f"{who}, {len(judged)} rounds judged: {counts}; private memory {first >> 10} to "
            f"{last >> 10} KiB, {(last - first) / rounds:.0f} bytes a round "
            f"(allowed {allowed >> 10} KiB: a leak of {allowed / rounds:.0f} would be seen)"
        )
        if last - first > allowed:
            wrong.append(f"{who}: private memory grew from {first} to {last} bytes")
    return wrong


def soak(box, options):
    chance = random.Random(options.seed)
    daemon = harness.Daemon(box)
    long, jobs, rows, kept = LongJob(daemon), Jobs(daemon), [], []
    pids = {"daemon": daemon.running.process.pid, "broker": long.broker}
    settled = min(SETTLED, options.rounds // 2)
    warm_up = SETTLED + -(-LIST_KEPT // max(1, min(options.jobs, options.kills, options.scales)))
    long.until_whole()
    end = time.monotonic() + options.minutes * 60
    print(HEAD, flush=True)
    for number in range(options.rounds):
        if time.monotonic() > end:
            print(f"ended early after {number} rounds of {options.rounds}: --minutes")
            break
        one_round(long, jobs, chance, options)
        rows.append(rest(pids, rows[settled] if len(rows) > settled else None))
        kept.append(EVENT_BYTES * long.events_kept() + EPOCH_BYTES * long.epoch)
        if number % max(1, options.rounds // PRINTED_ROWS) == 0 or number == options.rounds - 1:
            print_row(number + 1, rows[-1], jobs, long)
    report = long.stop()
    n = len(rows)
    print(
        f"{jobs.n} jobs, {n * options.kills} deaths, "
        f"{n * (options.scales + options.scales % 2)} changes of the split; the long job: "
        f"{report['batches']}"
    )
    daemon.stop(PATIENCE_S).ok()
    box.assert_nothing_left()
    if n < warm_up + JUDGED_LEAST:
        print(f"memory is not judged: that takes {warm_up + JUDGED_LEAST} rounds of this kind")
        return []
    explained = {"daemon": 0, "broker": kept[-1] - kept[warm_up]}
    return judge(rows[warm_up:], explained)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--rounds", type=int, default=250)
    options.add_argument("--jobs", type=int, default=4, help="of each round")
    options.add_argument("--kills", type=int, default=8, help="of each round")
    options.add_argument("--scales", type=int, default=2, help="of each round")
    options.add_argument("--minutes", type=float, default=float("inf"))
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    if harness.CORES[0] == harness.CORES[1]:
        print("soak: needs two cores, one for the long job and one for the others", file=sys.stderr)
        return 2
    os.environ.update(ALLOCATOR)
    suite = tempfile.mkdtemp(prefix="sluice-soak-")
    box = harness.Box(os.path.join(suite, "box"), f"{os.getpid()}.{time.time_ns()}", suite)
    box.enter()
    try:
        wrong = soak(box, options)
    except AssertionError as error:
        wrong = [str(error)]
    finally:
        box.kill_all()
        shutil.rmtree(suite, ignore_errors=True)
    for line in wrong:
        print(f"FAILED: {line}")
    print(f"{0 if wrong else 1} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

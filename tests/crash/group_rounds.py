"""Rounds of chaos.py whose trainers sum gradients from GPU to GPU (updates.exchange "nccl").

Emulated GPUs, emulated NCCL. What is drawn is compared with the same job on the board, in peace;
accuracies and losses within rounding, and where there was one trainer all the time every bit.
Beside deaths there are changes of the split, pauses, workers that stand still for a while, and runs
that are interrupted and go on. Where nobody died and the number of trainers stayed the same, every
bit is that of the same job in a group, in peace.
"""

import os
import re
import signal
import time

import harness

PLUGIN = os.path.join(os.path.dirname(harness.BIN), "lib", "libsluice_cuda_simt.so")
NAME = f"chaos-{os.getpid()}"  # no other job on the machine has it
GPUS = 3
KILLS_MAX = 4  # five of one worker in a row without a batch end the job
CACHES = [{"policy": "degree", "ratio": 0.3}, {"policy": "presc", "ratio": 0.3}]
POINTS = [
    "sampler_claimed",
    "sampler_allocated",
    "sampler_published",
    "trainer_claimed",
    "trainer_extracted",
    "trainer_held",
    "trainer_reduce",
    "trainer_reduced",
    "trainer_written",
    "trainer_counted",
    "trainer_done",
    "trainer_apply",
    "trainer_flipped",
]


def gpu(index):
    return {"kind": "cuda", "index": index}


def random_job(chance, dataset):
    norm = chance.choice(["none", "none", "batch"])
    return harness.small_job(
        dataset,
        **{
            "name": NAME,
            "model.kind": chance.choice(["graphsage", "gcn", "gin"]),
            "model.hidden": chance.choice([8, 17]),
            "model.norm": norm,
            "sampler.fanout": [3, 3],
            "sampler.batch_size": chance.choice([8, 16, 33]),
            "updates": {"batches_per_update": chance.randrange(1, 7)},
            "optimizer.clip_norm": chance.choice([0, 0, 1.0]),
            "evaluate": {
                "every": chance.choice([0, 1, 1, 2]),
                "fanout": chance.choice(["full", [4, 4]]),
            },
            "epochs": chance.choice([2, 4, 8]),
            "seed": chance.randrange(1000),
        },
    )


def environment(**more):
    return {
        "SLUICE_CUDA_PLUGIN": PLUGIN,
        "SLUICE_SIMT_DEVICES": str(GPUS + 1),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(GPUS + 1))),
        **more,
    }


def on_the_board(job):
    """The same with one trainer, and the gradients on the board."""
    split = {"samplers": 1, "trainers": 1, "switching": False}
    devices = [*harness.cpu_devices(1), gpu(0)]
    return dict(job, output="runs/calm", devices=devices, allocation=split)


def in_a_group(chance, job, samplers, trainers):
    """The same with its trainers in a group."""
    job = dict(job, output="runs/disturbed")
    job["devices"] = harness.cpu_devices(2) + [gpu(i) for i in range(GPUS)]
    job["allocation"] = {"samplers": samplers, "trainers": trainers, "switching": False}
    if trainers == "auto":
        job["allocation"] = {"samplers": "auto", "trainers": "auto"}
        job["devices"] = job["devices"][1:]
    job["updates"] = dict(job["updates"], exchange="nccl")
    job["throttle"] = {"sample": 0, "train": chance.choice([0, 0.005, 0.02]), "standby": 0}
    if chance.random() < 0.4:
        job["cache"] = chance.choice(CACHES)
    return job


def least_arena(box, job):
    """What arena.memory has to be at least, by the words of its refusal."""
    small = dict(job, output="runs/refused", arena={"memory": "64KiB"})
    result, _ = box.run(small, env=environment(), seconds=60, name="refused")
    found = re.search(r"set arena.memory to \"?(\d+)", result.err)
    assert result.rc == 2 and found, result
    return int(found.group(1))


class Disturber:
    """Does something at random to a job that runs, again and again."""

    def __init__(self, box, chance, running, gentle, may_scale):
        self.box, self.chance, self.running = box, chance, running
        self.pause = chance.choice([0.02, 0.1, 0.3])
        self.kills_left = 0 if gentle else chance.choice([0, 1, 2, KILLS_MAX])
        self.done = []
        self.what = [self.stand_still, self.stand_still, self.kill, self.kill, self.rest]
        self.what += [self.scale, self.scale] if may_scale else []

    def worker(self, role):
        # Who looks for GPUs before the job starts is no worker of its, and is not replaced.
        pids = [p for p, line in self.box.processes(role).items() if "--devices" not in line]
        return self.chance.choice(pids) if pids else None

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        pid = self.worker(self.chance.choice(["trainer", "trainer", "sampler"]))
        if pid is None or self.kills_left == 0:
            return
        self.kills_left -= 1
        self.done.append("kill")
        self.send(pid, signal.SIGKILL)

    def stand_still(self):
        pid = self.worker(self.chance.choice(["trainer", "trainer", "sampler"]))
        if pid is None:
            return
        self.done.append("stop")
        self.send(pid, signal.SIGSTOP)
        time.sleep(self.chance.choice([0.01, 0.1, 0.5]))
        self.send(pid, signal.SIGCONT)

    def rest(self):
        self.done.append("pause")
        if self.box.sluice("pause", NAME).rc == 0:
            time.sleep(self.chance.choice([0, 0.1, 0.4]))
            if self.chance.random() < 0.5:
                self.kill()
            self.box.sluice("resume", NAME)

    def scale(self):
        trainers, samplers = self.chance.choice([1, 2, 3]), self.chance.choice([1, 2, 3])
        words = [f"trainers={trainers}", f"samplers={samplers}"]
        self.done.append(" ".join(words))
        if self.chance.random() < 0.5:
            self.box.start("scale", NAME, *words)  # goes on while other things happen
        else:
            self.box.sluice("scale", NAME, *words)

    def go_on(self, until):
        while not self.running.finished() and time.monotonic() < until:
            time.sleep(self.pause * (0.5 + self.chance.random()))
            if os.path.isdir(self.box.path("runs/disturbed/log")):
                self.chance.choice(self.what)()


def run_disturbed(box, chance, job, points, gentle, may_scale):
    """(result, report, what was done)"""
    more = {"SLUICE_FAILPOINT": ",".join(points)} if points else {}
    if chance.random() < 0.3:
        more["SLUICE_SIMT_NCCL"] = "remote_error"
    elif chance.random() < 0.2:
        more["SLUICE_SIMT_SEED"] = str(chance.randrange(1, 1000))
    if not gentle and chance.random() < 0.15:
        more["SLUICE_SIMT_FAIL"] = f"sync:{chance.randrange(150, 500)}"  # of each process's GPU
    report_path = box.path("disturbed.json")
    done = []
    # One that has scaled up may have outgrown an arena that is as small as can be: it says so when
    # it is to go on.
    interrupts = chance.random() < 0.25 and not (may_scale and "arena" in job)
    while True:
        running = box.start(
            "run", box.job(job), "--report", report_path, env=environment(**more)
        )
        disturber = Disturber(box, chance, running, gentle, may_scale)
        until = time.monotonic() + (chance.choice([1, 2, 4]) if interrupts else 60)
        disturber.go_on(until)
        done += disturber.done
        if interrupts and not running.finished():
            done.append("interrupt")
            running.interrupt()
        elif not running.finished():
            done.append("left alone")
        result = running.wait()
        interrupts = False
        if result.rc != 130:
            break
        more.pop("SLUICE_FAILPOINT", None)
    report = harness.read_json(report_path) if os.path.exists(report_path) else None
    return result, report, done, more


def assert_equal(found, wanted, alone, said):
    assert found["samples_digest"] == wanted["samples_digest"], said
    if alone:
        assert found["params_sha256"] == wanted["params_sha256"], f"bits: {said}"
    for a, b in zip(found["epochs"], wanted["epochs"]):
        assert abs(a["loss"] - b["loss"]) <= 5e-3 * b["loss"], f"{a}\n{b}\n{said}"
        if b["val_accuracy"] is not None:
            assert abs(a["val_accuracy"] - b["val_accuracy"]) <= 0.03, f"{a}\n{b}\n{said}"
        assert a["sampled_edges"] == b["sampled_edges"], f"{a}\n{b}\n{said}"


def one_round(box, chance):
    """A line that says what it was; an AssertionError where something was wrong."""
    job = random_job(chance, box.shared_dataset("gpu", n=400))
    samplers, trainers = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2, 2, 3, 3, "auto"])
    samplers = min(samplers, 2) if trainers == 3 else samplers  # the third one is on a GPU
    gentle = trainers != "auto" and chance.random() < 0.4
    may_scale = not gentle and chance.random() < 0.5
    alone = trainers == 1 and not may_scale
    result, wanted = box.run(on_the_board(job), env=environment(), name="calm", seconds=120)
    result.ok()
    job = in_a_group(chance, job, samplers, trainers)
    calm = dict(job, output="runs/calm-group")
    if chance.random() < 0.4:
        job["arena"] = {"memory": least_arena(box, job)}
    points = [
        f"{chance.choice(POINTS)}:{chance.randrange(1, 30)}"
        for _ in range(0 if gentle else chance.choice([0, 1, 2, 4]))
    ]
    result, report, done, more = run_disturbed(box, chance, job, points, gentle, may_scale)
    keys = ("model", "sampler", "updates", "evaluate", "optimizer", "allocation", "arena", "cache")
    said = "\n".join(f"{k}: {job.get(k)}" for k in keys) + f"\n{done}\n{more}\n{result}"
    assert result.rc == 0, said
    batches = report["batches"]
    assert batches["trained"] == batches["scheduled"], f"{batches}\n{said}"
    assert_equal(report, wanted, alone, said)
    if gentle:
        assert report["restarts"] == [], said
        result, wanted = box.run(calm, env=environment(), name="calm-group", seconds=120)
        result.ok()
        assert_equal(report, wanted, True, said)
    box.assert_nothing_left()
    per_update = job["updates"]["batches_per_update"]
    return (
        f"nccl, {job['model']['kind']}, {trainers} trainers, {per_update} an update, "
        f"{batches['scheduled']} batches, {len(report['restarts'])} restarts, "
        f"{len(done)} disturbances, {batches['resampled']} resampled, "
        f"{batches['retrained']} retrained, {result.seconds:.2f} s: "
        f"{'equal' if alone or gentle else 'near'}"
    )

"""Gradients summed from GPU to GPU (updates.exchange "nccl"): emulated GPUs, emulated NCCL.

One trainer's bits are those of the board. Several trainers' depend on their number, and on nothing
else while nobody dies; what is drawn depends on neither. Whoever dies or comes, each batch counts
once.
"""

import os
import signal

from harness import accuracies, cases, fingerprint, go_on, read_json
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job, run, undisturbed

NOT_UNDER = {"address": SANITIZED}

SMALL = {"sampler.batch_size": 16}  # 13 batches an epoch
NORMED = {"model.kind": "gin", "model.norm": "batch", "optimizer.clip_norm": 1.0}


def group_job(box, trainers, per_update=4, **changes):
    split = {"samplers": 1, "trainers": trainers, "switching": False}
    updates = {"exchange": "nccl", "batches_per_update": per_update}
    devices = [CPU] + [gpu(i) for i in range(max(trainers, changes.pop("n_gpus", 0)))]
    return gpu_job(box, devices, allocation=split, updates=updates, **{**SMALL, **changes})


def train(box, trainers, **changes):
    env = {k: v for k, v in changes.items() if k.startswith("SLUICE")}
    fail = changes.pop("fail", "")
    job = group_job(box, trainers, **{k: v for k, v in changes.items() if k not in env})
    result, report = run(box, job, fail=fail, **{"SLUICE_SIMT_DEVICES": "4", **env})
    result.ok()
    batches = report["batches"]
    assert batches["trained"] == batches["scheduled"], batches
    return report


def board(box, per_update=4, **changes):
    """What the same job comes to with the gradients on the board."""
    name = f"board-{per_update}-{sorted(changes.items())}"
    return undisturbed(box, name, **{"updates.batches_per_update": per_update, **SMALL, **changes})


def assert_near(report, wanted):
    assert report["samples_digest"] == wanted["samples_digest"]
    for found, expected in zip(accuracies(report), wanted["accuracy"]):
        assert abs(found - expected) <= 0.02, (accuracies(report), wanted["accuracy"])
    for epoch, expected in zip(report["epochs"], wanted["loss"]):
        assert abs(epoch["loss"] - expected) <= 2e-3 * expected, (epoch["loss"], expected)


@cases((4, {}), (3, NORMED))
def test_one_trainer_makes_the_board_s_bits(box, per_update, changes):
    report = train(box, 1, per_update=per_update, **changes)
    wanted = board(box, per_update, **changes)
    assert fingerprint(report) == wanted, (fingerprint(report), wanted)


def test_bits_depend_on_the_number_of_trainers(box):
    """And not on who runs late."""
    first = train(box, 2, **NORMED)
    assert_near(first, board(box, **NORMED))
    late = train(box, 2, output="runs/late", SLUICE_SIMT_SEED="7", **NORMED)
    assert fingerprint(late) == fingerprint(first), (fingerprint(late), fingerprint(first))


def test_peers_that_hear_of_a_death_before_the_broker_wait_for_it(box):
    report = train(box, 3, SLUICE_FAILPOINT="trainer_reduce:4", SLUICE_SIMT_NCCL="remote_error")
    assert len(report["restarts"]) == 1, report["restarts"]
    assert_near(report, board(box))


def test_a_gpu_that_faults_is_replaced(box):
    report = train(box, 2, fail="sync:60")
    assert len(report["restarts"]) >= 1, report["restarts"]
    assert_near(report, board(box))


def test_trainers_come_and_go(box):
    steps = [
        {"epoch": 0, "batch": 6, "samplers": 1, "trainers": 3},
        {"epoch": 1, "samplers": 1, "trainers": 2},
        {"epoch": 2, "batch": 5, "samplers": 1, "trainers": 1},
        {"epoch": 3, "batch": 2, "samplers": 1, "trainers": 3},
    ]
    more = {"epochs": 5, "n_gpus": 3}
    report = train(box, 1, schedule=steps, **more)
    assert len(report["scales"]) == len(steps), report["scales"]
    assert report["restarts"] == [], report["restarts"]
    assert_near(report, board(box, epochs=5))


def held(box, trainers, **changes):
    """A job in its second epoch, one of whose trainers stands still before it sums gradients."""
    job = group_job(box, trainers, **{"name": "group", **changes})
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "SLUICE_SIMT_DEVICES": "4",
           "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    fail = {"SLUICE_FAILPOINT": f"trainer_reduce:{5 * trainers}:stop"}
    running = box.start("run", box.job(job), "--report", box.path("report.json"), env=env | fail)
    return running, box.until_stopped(running, "trainer"), job, env


def stats(box):
    return box.sluice("stats", box.path("runs/job"), "-o", "json").ok().json()


def test_a_pause_and_a_kill_in_it(box):
    running, trainer, _, _ = held(box, 2)
    now = stats(box)
    assert now["updates"]["exchange"] == "nccl", now["updates"]
    group = now["updates"]["group"]
    assert group["members"] == 2 and group["generation"] >= 1, group
    box.sluice("pause", box.path("runs/job")).ok()
    assert stats(box)["state"] == "paused"
    go_on(trainer)
    victim = next(w for w in stats(box)["workers"] if w["role"] == "trainer")
    os.kill(victim["pid"], signal.SIGKILL)
    running.until(lambda: stats(box)["updates"]["group"]["members"] == 2
                  and stats(box)["updates"]["group"]["generation"] > group["generation"],
                  "the group with another trainer")
    box.sluice("resume", box.path("runs/job")).ok()
    assert running.wait().rc == 0, running.wait()
    report = read_json(box.path("report.json"))
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert_near(report, board(box))


@cases("nccl", "board")
def test_a_stopped_run_goes_on_with_the_same_bits(box, exchange):
    """Also where the gradients go another way from then on: elsewhere there may be no NCCL."""
    running, trainer, job, env = held(box, 1)
    running.interrupt()
    box.until_gone("sampler")
    go_on(trainer)
    assert running.wait().rc == 130
    stopped = read_json(box.path("report.json"))
    assert stopped["status"] == "stopped", stopped["status"]
    job["updates"]["exchange"] = exchange
    result, report = box.run(job, env=env, seconds=100, name="again")
    result.ok()
    assert len(report["resumes"]) == 1
    assert fingerprint(report) == board(box)


def test_two_trainers_on_one_gpu_are_refused(box):
    job = group_job(box, 2)
    job["devices"] = [CPU, gpu(0), gpu(0)]
    result, _ = run(box, job, SLUICE_SIMT_DEVICES="4")
    assert result.rc == 2 and "updates.exchange" in result.err, result


def test_a_meeting_that_fails_ends_in_words(box):
    # Of every process the first one. There is no peer whose death could be the reason.
    job = group_job(box, 1, epochs=1)
    result, _ = run(box, job, SLUICE_SIMT_NCCL="fail_init:1")
    assert result.rc == 1, result
    said = " ".join(result.errors())
    assert "NCCL, meeting as rank 0 of 1" in said, result
    assert "died 5 times in a row without completing any work" in said, result

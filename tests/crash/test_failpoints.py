"""A process is killed at every failpoint, and what comes of its job is what comes of it in peace.

The points are those of the source: a new one fails here until it is in a job that reaches it.
"""

import os
import re
import signal

from harness import ROOT, Daemon, cases, fingerprint, not_under, read_json
from test_cuda import SANITIZED
from test_exchange import board, train
from test_workers import crash_job, survived, undisturbed

with open(os.path.join(ROOT, "common", "base", "failpoint.h")) as file:
    POINTS = re.findall(r'^ +X\(\w+, "(\w+)"', file.read(), re.M)

# Summed from GPU to GPU.
GROUP = [f"trainer_{at}" for at in ("held", "reduce", "reduced", "written", "counted")]
# While a copy is made for GPUs (tests/e2e/test_cuda_store.py).
SHARED = ["shared_copy"]
# What GPUs lend one another (tests/unit/test_trainer_lent.c, tests/e2e/test_cuda_lent.py).
LENT_POINTS = tuple(
    "planning offered filling withdrawn moving opened block gathering drawing".split()
)
LENT = [f"lent_{at}" for at in LENT_POINTS]
# Rows of other nodes (tests/e2e/test_nodes_shards.py).
ASKED = ["trainer_asked"]
PRESC = {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}}
ASYNC = {"updates": {"mode": "async", "staleness": 2}}
STANDBY = {
    "allocation": {"samplers": 1, "trainers": 1, "switching": True},
    "throttle": {"train": 0.02, "standby": 0.02},
}
STORAGE = {"store": {"features": "storage"}}
CHECKPOINTS = {"checkpoint": {"every_updates": 4}}
# Rows of 16 chunks an update (common/arena/row_table.h).
LEARNED = {"features": {"kind": "learned", "dim": 512}, "updates.batches_per_update": 2}
ROWS = [f"trainer_rows_{at}" for at in ("made", "marked", "copy", "copied", "done")]
BROKER_ROWS = [f"broker_rows_{at}" for at in ("fill", "copy", "best", "save")]
# What a job must have to get to a point.
NEEDS = {
    "sampler_marked": PRESC,
    "trainer_cache": PRESC,
    "trainer_fetching": STORAGE,
    "trainer_fetched": STORAGE,
    "trainer_joined": ASYNC,
    "trainer_offered": ASYNC,
    "standby_asleep": STANDBY,
    "standby_woken": STANDBY,
    "broker_scale": {"schedule": [{"epoch": 1, "samplers": 1, "trainers": 3}]},
    **{point: LEARNED for point in ROWS},
    **{point: {**LEARNED, **CHECKPOINTS} for point in BROKER_ROWS},
    "broker_checkpoint": CHECKPOINTS,
    "broker_checkpoint_named": CHECKPOINTS,
}
# In the middle of an epoch where a job gets there often, and what must be done again then.
LATER = {
    "sampler_claimed": (5, "resampled"),
    "sampler_allocated": (5, "resampled"),
    "sampler_drawn": (5, "resampled"),
    "sampler_published": (5, None),
    "trainer_claimed": (5, "retrained"),
    "trainer_extracted": (5, "retrained"),
    "trainer_gradient": (5, "retrained"),
    "trainer_done": (5, None),
    "trainer_apply": (3, None),
    "trainer_applied": (3, None),
    "trainer_flipped": (3, None),
    "trainer_infer": (2, None),
    **{point: (7, None) for point in ROWS},
    "broker_phase": (4, None),
}


def roles(*wanted):
    return [p for p in POINTS if p.split("_")[0] in wanted and p not in GROUP + ASKED]


def test_the_points_are_what_the_program_lists(box):
    listed = box.sluice("doctor", "--failpoints", "-o", "json").ok().json()
    assert [name for name in listed if name != "schema"] == POINTS, listed
    tested = roles("sampler", "trainer", "standby", "broker", "run", "daemon", "command")
    tested += roles("nodes", "link")  # by e2e/test_nodes.py, test_nodes_run.py, _shards.py
    tested += GROUP + SHARED + LENT + ASKED
    assert sorted(tested) == sorted(POINTS), set(POINTS) ^ set(tested)


def killed_at(point):
    return {"SLUICE_FAILPOINT": f"{point}:{LATER.get(point, (1,))[0]}"}


def assert_died_once(report, point):
    (death,) = report["restarts"]
    role = "sampler" if point.startswith("sampler") else "trainer"
    assert death["worker"].startswith(role) and "SIGKILL" in death["cause"], death
    again = LATER.get(point, (1, None))[1]
    assert not again or report["batches"][again] >= 1, report["batches"]


@cases(*roles("sampler", "trainer", "standby"))
def test_a_worker_dies_at(box, point):
    needs = NEEDS.get(point, {})
    result, report = box.run(
        crash_job(box.shared_dataset("small"), **needs), env=killed_at(point)
    )
    if point in ROWS:
        survived(box, result, report, undisturbed(box, "crash_rows", **LEARNED))
    elif needs is ASYNC:  # what is trained depends on who came first, what is drawn does not
        result.ok()
        found, wanted = fingerprint(report), undisturbed(box)
        for key in ("samples_digest", "edges", "batches"):
            assert found[key] == wanted[key], (key, found, wanted)
    else:
        survived(box, result, report, undisturbed(box))
    assert_died_once(report, point)


@not_under("address", SANITIZED)
@cases(*GROUP)
def test_a_trainer_of_a_group_dies_at(box, point):
    report = train(box, 1, SLUICE_FAILPOINT=f"{point}:3")
    assert fingerprint(report) == board(box)
    assert_died_once(report, point)


@cases(*roles("broker", "run"))
def test_a_command_or_its_broker_dies_at(box, point):
    """The same command does it, or goes on with what was done."""
    config = crash_job(box.shared_dataset("small"), **NEEDS.get(point, {}))
    result, _ = box.run(config, env=killed_at(point))
    if point.startswith("run"):
        assert result.rc == -signal.SIGKILL, str(result)
    else:
        result.error(1, "the broker was killed by SIGKILL")
    box.until_gone()
    # Under its final name a file is whole or absent.
    for path in (box.path("runs/job/report.json"), box.path("job.report.json")):
        if os.path.exists(path):
            read_json(path)
    wanted = undisturbed(box, "crash_rows", **LEARNED) if point in BROKER_ROWS else undisturbed(box)
    survived(box, *box.run(config), wanted)


@cases(*roles("daemon"))
def test_a_daemon_dies_at(box, point):
    daemon = Daemon(box, env=killed_at(point))
    path = box.job(crash_job(box.shared_dataset("small"), name="one"))
    daemon.do("submit", path, "--detach")  # it may not be answered
    result = daemon.running.wait()
    assert result.rc == -signal.SIGKILL, str(result)
    daemon.env.pop("SLUICE_FAILPOINT")
    daemon.start()
    assert list(daemon.jobs()) == ["one"]
    daemon.do("wait", "one").ok()
    assert daemon.jobs()["one"]["state"] == "done"
    assert fingerprint(read_json(box.path("runs/job/report.json"))) == undisturbed(box)
    daemon.stop().ok()

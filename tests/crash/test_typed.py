"""Jobs on graphs of several types: workers die, runs stop and go on; the result is the same."""

from harness import cases, fingerprint, read_json, whole
from test_resume import killed_at
from test_typed_jobs import WALKS, WRITES, job


def typed_job(box, **changes):
    return job(
        box,
        **{
            "sampler.fanout": {WRITES: [4, 3], "*": [2, 2]},
            "epochs": 3,
            "allocation": {"samplers": 2, "trainers": 2, "switching": False},
            "updates.batches_per_update": 2,
            "evaluate.test": "each",
            **changes,
        },
    )


def undisturbed(box, name="crash-typed", **changes):
    return box.undisturbed(name, typed_job(box, **changes))


def dies(box, point, **changes):
    config = typed_job(box, **changes)
    result, report = box.run(config, env={"SLUICE_FAILPOINT": point})
    result.ok()
    assert len(report["restarts"]) == 1, report["restarts"]
    assert fingerprint(report) == undisturbed(box, "-".join(["crash-typed", *changes]), **changes)


@cases("sampler_drawn:5", "trainer_gradient:7")
def test_worker_dies(box, point):
    dies(box, point)


@whole
@cases("sampler_claimed:9", "sampler_allocated:5", "sampler_published:14", "trainer_claimed:3",
       "trainer_extracted:8", "trainer_apply:3", "trainer_flipped:4", "trainer_done:9")
def test_worker_dies_anywhere(box, point):
    dies(box, point)


@cases("sampler_drawn:5")
def test_worker_dies_on_walks(box, point):
    dies(box, point, **WALKS)


@whole
@cases("sampler_published:14", "trainer_gradient:7", "trainer_infer:2")
def test_worker_dies_anywhere_on_walks(box, point):
    dies(box, point, **WALKS)


# Authors have no features.
LEARNED = {"features.kind": "both", "features.dim": 6}


@cases("trainer_rows_marked:5")
def test_worker_dies_over_learned_rows(box, point):
    dies(box, point, **LEARNED)


@whole
@cases("trainer_rows_made:2", "trainer_rows_copy:9", "trainer_gradient:3")
def test_worker_dies_anywhere_with_learned_rows(box, point):
    dies(box, point, **LEARNED)


def gone_on(box, point):
    """All of it is killed twice: behind the first checkpoint, and where the run from there is. It
    goes on with these fanouts alone."""
    config = typed_job(box, checkpoint={"every_updates": 2, "keep": 2})
    path = box.job(config)
    killed_at(box, path, "broker_checkpoint_named", "trainer_gradient:7", role="broker")
    others = {WRITES: [4, 3], "*": [2, 1]}, [4, 3]
    for other in others:
        sampler = {**config["sampler"], "fanout": other}
        result, _ = box.run(dict(config, sampler=sampler), name="other")
        result.error(2, r"sampler\.fanout: found [\[{]", r"the run has \{")
    said = killed_at(box, path, point)
    assert "going on from update" in said, said
    box.sluice("run", path).ok()
    assert fingerprint(read_json(box.path("runs/job/report.json"))) == undisturbed(box)


def test_resume_in_an_epoch(box):
    gone_on(box, "trainer_gradient:3")


@whole
@cases("trainer_flipped:3", "sampler_drawn:7", "broker_phase:2")
def test_resume_anywhere(box, point):
    gone_on(box, point)


# With things that change while it runs: the same bits.
CHANGES = {
    "standby": {"allocation": {"samplers": 1, "trainers": 1, "switching": True},
                "throttle": {"train": 0.005, "standby": 0.005}},
    "scaled": {"schedule": [{"epoch": 1, "batch": 3, "samplers": 1, "trainers": 3}]},
    "pool": {"devices": "cpu", "allocation": {"cores": "pool"}},
}


@whole
@cases(*CHANGES)
def test_same_result(box, way):
    result, report = box.run(typed_job(box, **CHANGES[way]))
    result.ok()
    assert fingerprint(report) == undisturbed(box)

"""Jobs of links: workers die, runs stop and go on, devices change; the result is the same."""

import os

from harness import cases, planted, read_json, small_job, whole, write_dataset
from test_resume import killed_at

EPOCHS = 3
MEASURES = ("hits", "mrr", "roc_auc", "average_precision", "loss")


def links(box):
    """A graph of 600 vertices with 5 % and 10 % of its pairs held out."""
    def make(folder):
        os.makedirs(folder)
        write_dataset(folder + "/whole", planted(n=600, noise=1.0))
        box.sluice("split-edges", folder + "/whole", "--out", folder + "/data", "-q").ok()

    return box.shared_folder("crash-links", make) + "/data"


def link_job(box, **changes):
    return small_job(
        links(box),
        **{
            "task": {
                "kind": "link", "decoder": "mlp", "per_positive": 2,
                "hard": {"kind": "walks", "first_rank": 5, "last_rank": 30, "paths": 30},
            },
            "sampler.batch_size": 400,
            "epochs": EPOCHS,
            "allocation": {"samplers": 2, "trainers": 2, "switching": False},
            "updates.batches_per_update": 2,
            "evaluate.test": "each",
            "evaluate.val_edges_as_input": True,
            **changes,
        },
    )


def result_of(report):
    """What does not depend on who worked and who died."""
    assert report["status"] == "done", report
    return (
        report["params_sha256"],
        report["samples_digest"],
        [(e["loss"], *(e[s][m] for s in ("val", "test") for m in MEASURES))
         for e in report["epochs"]],
        report["best_epoch"],
        [report["test"][m] for m in MEASURES],
    )


def undisturbed(box):
    def compute():
        result, report = box.run(link_job(box, output="runs/undisturbed"))
        result.ok()
        return result_of(report)

    return box.shared_value("crash-links", lambda: repr(compute()))


def same(box, **changes):
    result, report = box.run(link_job(box, **changes))
    result.ok()
    assert repr(result_of(report)) == undisturbed(box)
    return report


def dies(box, point, **changes):
    result, report = box.run(link_job(box, **changes), env={"SLUICE_FAILPOINT": point})
    result.ok()
    assert len(report["restarts"]) == 1, report["restarts"]
    assert repr(result_of(report)) == undisturbed(box)


@cases("sampler_drawn:5", "trainer_gradient:7")
def test_worker_dies(box, point):
    dies(box, point)


@whole
@cases("sampler_claimed:9", "sampler_allocated:5", "sampler_published:14", "trainer_claimed:3",
       "trainer_extracted:8", "trainer_apply:3", "trainer_flipped:4", "trainer_done:9",
       "trainer_infer:2", "trainer_infer:3", "trainer_infer:4", "trainer_infer:7")
def test_worker_dies_anywhere(box, point):
    dies(box, point)


def gone_on(box, point):
    """All of it is killed twice: behind the first checkpoint, and where the run from there is."""
    path = box.job(link_job(box, checkpoint={"every_updates": 2, "keep": 2}))
    killed_at(box, path, "broker_checkpoint_named", "trainer_gradient:7", role="broker")
    said = killed_at(box, path, point)
    assert "going on from update" in said, said
    box.sluice("run", path).ok()
    assert repr(result_of(read_json(box.path("runs/job/report.json")))) == undisturbed(box)


def test_resume_in_an_epoch(box):
    gone_on(box, "trainer_gradient:3")


# With things that change while it runs: the same bits.
CHANGES = {
    "drive": {"store.features": "storage"},
    "presc": {"cache": {"policy": "presc", "ratio": 0.3}},
    "degree": {"cache": {"policy": "degree", "ratio": 0.3}},
    "at the end": {"evaluate.overlap": False},
    "scaled": {"schedule": [{"epoch": 1, "batch": 3, "samplers": 1, "trainers": 3}]},
}


@whole
@cases(*CHANGES)
def test_same_result(box, way):
    same(box, **CHANGES[way])


@whole
@cases("trainer_infer:2", "trainer_infer:5", "trainer_flipped:3", "sampler_drawn:7",
       "broker_checkpoint:1", "broker_phase:2")
def test_resume_anywhere(box, point):
    gone_on(box, point)

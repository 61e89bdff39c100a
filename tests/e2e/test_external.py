"""Jobs whose trainers attach: each batch is consumed once, whoever dies; who may sit down; what is
seen of it. The trainer is tests/e2e/borrower.c."""

import os
import re
import signal

from harness import cases, cpu_devices, gone, read_json

BATCH = 48
SEATS = {"trainers": 2, "samplers": 1}


def job(box, **changes):
    return {
        "name": box.unique("lent"),
        "dataset": box.shared_dataset("small"),
        "model": {"kind": "external"},
        "sampler": {"fanout": [4, 3], "batch_size": BATCH},
        "devices": cpu_devices(3),
        "allocation": {"samplers": 1, "trainers": 1},
        "output": "runs/job",
        **changes,
    }



def test_a_dry_run_says_who_trains_and_how_long(box):
    for changes, said in (({}, "until it is stopped, of "), ({"epochs": 3}, "3 of ")):
        text = box.sluice("run", box.job(job(box, **changes)), "--dry-run").ok().out
        assert "model       external: batches are for 1 trainer that attach" in text, text
        assert f"epochs      {said}" in text, text


def begin(box, env=None, **changes):
    """The job, and where its trainers attach."""
    running = box.start("run", box.job(job(box, **changes)), env=env)

    def said():
        return re.search(r"trainers attach at (@\S+)", "".join(running.output()))

    return running, running.until(said, "word of where to attach").group(1)


def borrow(box, path, *arguments, env=None):
    return box.start("--path", path, *arguments, env=env, program="tests/e2e/borrower")


def lines(running, what):
    """Those of a borrower that begin so, as lists of words."""
    found = (line.split() for line in running.output()[0].splitlines())
    return [words[1:] for words in found if words[0] == what]


def seated(running):
    return running.until(lambda: lines(running, "seat"), "a seat")[0]


def batches_of(report):
    """(batches of an epoch, by the report's config and the planted data set)."""
    return report["epochs"][0]["batches"] + report["epochs"][0]["left"]


def gate(box, name):
    """A borrower's gate: (its path, what lets n batches pass, what opens it for good)."""
    path = box.path(name)
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    return path, lambda n: os.write(fd, b"." * n), lambda: os.close(fd)


@cases(
    ("trainer_claimed:1", 0),
    ("trainer_claimed:3", 2),
    ("trainer_done:2", 2),
)
def test_each_batch_is_consumed_once_whoever_dies(box, point, used):
    running, path = begin(box, epochs=2, allocation=SEATS)
    first = borrow(box, path, "--rank", "1", env={"SLUICE_FAILPOINT": point})
    assert first.wait().rc == -signal.SIGKILL
    assert len(lines(first, "use")) == used
    second, other = borrow(box, path, "--rank", "1"), borrow(box, path, "--any")
    assert (ended := running.wait()).rc == 0, str(ended)
    assert second.wait().rc == 0 and other.wait().rc == 0
    report = read_json(box.path("runs/job/report.json"))
    done = point.startswith("trainer_done")
    n = report["epochs"][0]["batches"]
    uses = [(int(e), int(c)) for r in (first, second, other) for e, c, *_ in lines(r, "use")]
    assert sorted(uses) == [(e, c) for e in range(2) for c in range(n)], uses
    assert all(int(c) % 2 == 1 for r in (first, second) for _, c, *_ in lines(r, "use"))
    assert all(int(c) % 2 == 0 for _, c, *_ in lines(other, "use"))
    assert report["status"] == "done" and report["batches"]["trained"] == 2 * n
    assert report["batches"]["retrained"] == (not done)
    assert report["params_sha256"] is None and report["num_params"] == 0
    assert all(e["loss"] is None and e["left"] == 0 for e in report["epochs"])
    gone = report["restarts"]
    assert [(r["worker"], r["cause"]) for r in gone] == [("external trainer 1", "is gone")], gone
    assert gone[0]["held"] == ("batch %d of epoch 1" % (2 * used + 1) if not done else None), gone
    refused = box.sluice("predict", "runs/job", "--out", "p.npy")
    assert refused.rc == 2 and 'is "external", a program\'s of yours' in refused.err, str(refused)


def test_an_epoch_that_is_left_ends_at_once(box):
    two = box.shared_dataset("two", classes=2)  # all of its vertices, in their order
    running, path = begin(
        box, dataset=two, input={"split": "all"}, order={"kind": "listed"}, digest=True
    )
    trainer = borrow(box, path, "--leave-at", "3", "--epochs", "2")
    assert trainer.wait().rc == 0
    rest = borrow(box, path, "--from-epoch", "3", "--from-cell", "2", "--epochs", "1")
    assert rest.wait().rc == 0
    box.sluice("stop", box.unique("lent")).ok()
    assert running.wait().rc == 0
    report = read_json(box.path("runs/job/report.json"))
    epochs = report["epochs"]
    n = batches_of(report)
    assert [e["batches"] for e in epochs] == [3, 3, 0, n - 2]
    assert [e["left"] for e in epochs] == [n - 3, n - 3, n, 2]
    assert n == -(-1500 // BATCH)
    seeds = [[int(x) for x in words[1:]] for words in lines(rest, "use")]
    assert seeds == [[k, min(BATCH, 1500 - k * BATCH), k * BATCH] for k in range(2, n)], seeds
    assert report["status"] == "done"


def test_a_broker_that_is_killed_is_an_error_and_no_signal(box):
    running, path = begin(box)
    held, _, let_go = gate(box, "gate")
    trainer = borrow(box, path, "--gate", held)
    seated(trainer)
    idle = borrow(box, path, "--any").wait()
    assert idle.rc == 2, str(idle)
    assert re.search(
        rf"all seats for trainers are taken: rank 0 is process {trainer.process.pid} \(borrower\)",
        idle.out,
    ), str(idle)
    wrong = borrow(box, path, "--rank", "1").wait()
    assert wrong.rc == 2 and "found rank 1, wanted 0 to 0" in wrong.out, str(wrong)
    for pid in box.processes("broker"):
        os.kill(pid, signal.SIGKILL)
    os.kill(trainer.process.pid, 0)  # it lives
    let_go()
    assert trainer.wait().rc in (1, 3)
    assert running.wait().rc == 1


def test_a_killed_command_ends_the_job(box):
    """Also for who holds a batch then, which the job has taken back before it is done."""
    running, path = begin(box)
    assert borrow(box, path, "--epochs", "1").wait().rc == 0
    held, let_pass, let_go = gate(box, "gate")
    holds = borrow(box, path, "--gate", held)
    let_pass(1)
    holds.until(lambda: lines(holds, "use"), "a batch")
    (broker,) = box.processes("broker")
    running.kill()
    gone(broker)
    let_go()
    assert holds.wait().rc == 0, str(holds.output())
    assert lines(holds, "end"), holds.output()


def test_nothing_is_left_when_the_owner_is_killed(box):
    path = box.job(job(box))
    before = set(os.listdir(box.folder))
    owner = box.start(path, box.programs, program="tests/e2e/owner")
    said = owner.until(lambda: owner.output()[0].split(), "where to attach")
    answered = []

    def once():
        answered.append(borrow(box, said[0], "--epochs", "1").wait())
        return "seat" in answered[-1].out or None

    owner.until(once, "a job that has started")  # until then nobody listens
    assert answered[-1].rc == 0, str(answered[-1])
    trainer = borrow(box, said[0])
    seated(trainer)
    owner.kill()
    owner.wait()
    assert trainer.wait().rc == 0
    assert lines(trainer, "end"), trainer.output()
    for what in ("broker", "sampler"):
        for pid in box.processes(what):
            gone(pid)
    assert set(os.listdir(box.folder)) == before
    assert not os.listdir(box.temp)


def test_it_is_seen_and_samplers_are_scaled(box):
    name = box.unique("lent")
    running, path = begin(box)
    held, let, _ = gate(box, "gate")
    trainer = borrow(box, path, "--gate", held)
    seated(trainer)

    def stats():
        return box.sluice("stats", name, "-o", "json").ok().json()

    def rows():
        return {w["name"]: w for w in stats()["workers"]}

    def row():
        return rows().get("external trainer 0", {})

    running.until(lambda: row().get("batch") == "batch 0 of epoch 1", "the first batch in hand")
    let(2)
    running.until(lambda: row()["batches"] == 2 and row()["batch"] == "batch 2 of epoch 1", "two")
    assert row()["pid"] == trainer.process.pid and row()["role"] == "trainer", row()
    box.sluice("scale", name, "samplers=2").ok()
    names = {"sampler 0", "sampler 1", "external trainer 0"}
    running.until(lambda: set(rows()) >= names, "the second sampler")
    refused = box.sluice("scale", name, "trainers=2")
    assert refused.rc == 1 and "programs that attach" in refused.err, str(refused)
    running.until(
        lambda: "external trainers' own code" in stats()["bottleneck"], "a bottleneck with a name"
    )
    os.kill(trainer.process.pid, signal.SIGKILL)
    trainer.wait()
    running.until(lambda: "external trainer 0" not in rows(), "an empty seat")
    running.interrupt()
    assert running.wait().rc == 0
    report = read_json(box.path("runs/job/report.json"))
    assert report["scales"][0]["ok"] and report["status"] == "done"

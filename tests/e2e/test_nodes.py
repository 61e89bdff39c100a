"""`sluice doctor --nodes` on several nodes, with each MPI: what it says of them, and that a node
that dies, freezes or is cut off ends all of it, with its name, and leaves nothing."""

import os
import shutil
import signal
import subprocess

from harness import BIN, cases, go_on, gone, small_job, whole
from nodes import Nodes

MPIS = ("openmpi", "mpich")
PHASES = ("nodes_start", "nodes_met", "nodes_compared", "nodes_measuring", "nodes_closing")


def a_job(box):
    return box.job(small_job(box.shared_dataset("small")))


def ended(nodes, running, seconds=120):
    result = running.wait(seconds)
    nodes.close()
    return result


def test_nodes_that_are_alike_are_measured(box, mpi=MPIS[0]):
    nodes = Nodes(box, mpi, 3)
    job = a_job(box)
    said = ended(nodes, nodes.start("doctor", "--nodes", job, "-o", "json")).ok().json()
    assert said["verdict"] == "ok" and said["notes"] == [], said
    assert [node["host"] for node in said["nodes"]] == ["a", "b", "c"]
    assert {(link["from"], link["to"]) for link in said["links"]} == {(0, 1), (0, 2), (1, 2)}
    for link in said["links"]:
        assert link["trip_8_b_s"] > 0 and link["rate_1_mib_bytes_per_s"] > 0, link


def test_a_table_of_nodes_and_one_of_links(box, mpi=MPIS[0]):
    nodes = Nodes(box, mpi, 2)
    lines = ended(nodes, nodes.start("doctor", "--nodes")).ok().out.splitlines()
    assert lines[0].startswith("2 nodes by "), lines
    hosts = [line.split()[1] for line in lines if line.split()[:1] in (["0"], ["1"])]
    assert hosts == ["a", "b"], lines
    assert any(line.split()[:2] == ["a", "b"] and "/s" in line for line in lines), lines
    assert lines[-1] == "The nodes are alike.", lines


@whole
def test_nodes_that_are_alike_are_measured_by_mpich(box):
    test_nodes_that_are_alike_are_measured(box, MPIS[1])


@whole
@cases(*MPIS)
def test_each_difference_names_node_found_and_wanted(box, mpi):
    nodes = Nodes(box, mpi, 3)
    job = a_job(box)
    other = box.path("other")
    shutil.copytree(box.shared_dataset("small"), other)
    with open(os.path.join(other, "node_feat.npy"), "r+b") as file:
        file.seek(4000)
        file.write(b"\0\0\0\0")
    other_job = box.job(small_job(other, epochs=2), "other.json")
    program = box.path("sluice")
    shutil.copy(os.path.join(BIN, "sluice"), program)
    with open(program, "ab") as file:
        file.write(b"another build")
    changed = f"set -- doctor --nodes {other_job}"
    running = nodes.start("doctor", "--nodes", job, only={"b": changed, "c": f"PROGRAM={program}"})
    result = ended(nodes, running)
    assert result.rc == 2, str(result)
    problems = [line for line in result.out.splitlines() if line.startswith("problem: ")]
    wanted = ["b: job file: found", "b: data set node_feat.npy: found", "c: sluice: found version"]
    for line, words in zip(sorted(problems), sorted(wanted), strict=True):
        assert line.startswith(f"problem: {words}") and ", wanted " in line, str(result)
    assert "MiB/s" not in result.out, str(result)  # nothing is measured


@whole
@cases(*MPIS)
def test_a_node_that_cannot_read_the_job_says_why(box, mpi):
    nodes = Nodes(box, mpi, 2)
    only = {"b": "set -- doctor --nodes no.json"}
    running = nodes.start("doctor", "--nodes", a_job(box), only=only)
    result = ended(nodes, running)
    assert result.rc == 2 and "problem: b: no.json" in result.out, str(result)


@whole
@cases(*[(mpi, phase) for phase in PHASES for mpi in MPIS])
def test_a_node_that_dies_ends_all_and_is_named(box, mpi, phase):
    nodes = Nodes(box, mpi, 3)
    running = nodes.start("doctor", "--nodes", only={"b": f"export SLUICE_FAILPOINT={phase}"})
    result = ended(nodes, running)
    assert result.rc not in (0, 2), str(result)
    said = result.out + result.err
    assert "on node b" in said or "AT b" in said or "host b " in said, str(result)


@whole
@cases(*[(mpi, phase) for phase in PHASES[1:] for mpi in MPIS])
def test_a_node_that_freezes_ends_all_and_is_named(box, mpi, phase):
    nodes = Nodes(box, mpi, 3)
    running = nodes.start("doctor", "--nodes", only={"b": f"export SLUICE_FAILPOINT={phase}:stop"})
    result = ended(nodes, running)
    assert result.rc not in (0, 2), str(result)
    assert "host b (rank 1) was not heard of for 10 s" in result.err, str(result)


@whole
@cases(*MPIS)
def test_a_cable_that_is_cut_ends_all(box, mpi):
    nodes = Nodes(box, mpi, 3)
    frozen = {"b": "export SLUICE_FAILPOINT=nodes_measuring:stop"}
    running = nodes.start("doctor", "--nodes", only=frozen)
    pid = box.until_stopped(running)
    nodes.cut("b")
    go_on(pid)
    result = ended(nodes, running)
    assert result.rc not in (0, 2), str(result)
    # Open MPI's own look at the cable may be quicker.
    assert "host b (rank 1)" in result.err, str(result)


@whole
def test_what_a_killed_mpirun_has_left_is_named_by_its_node(box):
    nodes = Nodes(box, "openmpi", 2)
    running = nodes.start("doctor", "--nodes", only={"b": "export SLUICE_FAILPOINT=nodes_met:stop"})
    box.until_stopped(running)
    started = set(box.processes()) - {holder.pid for holder in nodes.holders}
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them tidies up
        for pid in started:
            os.kill(pid, number)
    running.wait()
    for pid in started:
        gone(pid)
    said = ended(nodes, nodes.start("doctor", "--nodes", "-o", "json")).ok().json()
    texts = [note["text"] for note in said["notes"]]
    assert len(texts) == 2, said
    for text, name in zip(texts, ("a.0/pid.", "b.0/jf.")):
        assert f"such as {box.temp}/ompi.{name}" in text, said
    for name in os.listdir(box.temp):
        shutil.rmtree(box.path("tmp", name))


@cases(*MPIS)
def test_n_worlds_of_one_are_refused(box, mpi):
    """As where Slurm has no PMIx: each process takes itself for the whole job."""
    nodes = Nodes(box, mpi, 1)
    nodes.close()
    env = {"SLURM_NTASKS": "4", "SLUICE_MPI_PLUGIN": nodes.plugin, **nodes.kind["env"]}
    env.pop("OMPI_MCA_oob_tcp_if_include", None)
    result = box.sluice("doctor", "--nodes", env=env)
    assert result.rc == 2, str(result)
    assert "4 processes (SLURM_NTASKS)" in result.err and "srun --mpi=pmix" in result.err
    # And where there is no plug-in, no launcher, or a job file that nobody compares.
    result = box.sluice("doctor", "--nodes", env=dict(env, SLUICE_MPI_PLUGIN="/nowhere.so"))
    assert result.rc == 2 and "SLUICE_MPI_PLUGIN names /nowhere.so" in result.err, str(result)
    result = box.sluice("doctor", "--nodes")
    assert result.rc == 2 and "no launcher started this process" in result.err, str(result)
    result = box.sluice("doctor", "job.json")
    assert result.rc == 2 and "'job.json' without --nodes" in result.err, str(result)


def test_no_program_is_linked_to_mpi(box):
    for name in ("", "-broker", "-sampler", "-trainer"):
        said = subprocess.run(
            ["ldd", os.path.join(BIN, f"sluice{name}")], capture_output=True, text=True, check=True
        )
        assert "mpi" not in said.stdout and "ucp" not in said.stdout, said.stdout

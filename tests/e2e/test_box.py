"""What a box proves of /dev/shm, whatever others do; what it offers to tests that give root up."""

import os
import subprocess

from harness import ROOT, Running, Skip, copy_programs


def elsewhere(*command):
    """Done by a program of the machine that is none of the box's: outside its mounts."""
    # The pool, which started this test, is outside.
    outside = ["nsenter", "--target", str(os.getppid()), "--mount"]
    subprocess.run([*outside, *command], check=True)


def complaint(box):
    try:
        box.assert_nothing_left()
    except AssertionError as error:
        return str(error)
    return ""


def test_names_in_dev_shm_are_those_of_the_box(box):
    if not box.own_shm:
        raise Skip("no mounts of one's own here: what is left in /dev/shm is not looked for")
    foreign = f"/dev/shm/sluice-test-foreign-{box.mark}"
    elsewhere("touch", foreign)
    try:
        assert complaint(box) == ""
    finally:
        elsewhere("rm", foreign)
    assert complaint(box) == ""
    # One of its processes leaves a name and is gone.
    Running(box, ["/bin/touch", "/dev/shm/left"], box.environment()).wait().ok()
    assert complaint(box) == "names are left in /dev/shm: ['left']"
    os.remove("/dev/shm/left")


def test_nobody_runs_programs_from_where_only_root_may_go(box):
    if os.getuid() != 0:
        raise Skip("only root gives privileges up")
    copy_programs(box.path("secret"))
    os.chmod(box.path("secret"), 0o700)
    done = subprocess.run(
        [os.path.join(ROOT, "tests", "e2e", "run.py"), "data_tools.help"],
        env=box.environment({"BIN": box.path("secret", "bin")}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "\n1 passed, 0 failed, 0 skipped\n" in done.stdout, done

"""What a box proves of /dev/shm: its own processes left nothing there, whatever others do."""

import os
import subprocess

from harness import Running, Skip


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

"""The box of a test itself: what it takes for a sanitizer's report."""

import os

from harness import cases

SILENT = "==9==Unable to get registers from thread 7.\n"


@cases(
    ("killed_before_a_word", "", True, True),
    ("killed_in_the_middle", SILENT, True, True),
    ("killed_after_it_said_something", SILENT + "==7==ERROR: LeakSanitizer\n", True, False),
    ("killed_by_somebody_else", SILENT, False, False),
    ("said_nothing_and_was_not_killed", "", False, False),
)
def test_reports_of_sanitizers(box, _, text, killed, passes):
    pid = 4194303 + 7  # above what the kernel gives away
    if killed:
        assert not box.kill(pid)
    with open(box.path(f"sanitizer.{pid}"), "w", encoding="utf-8") as file:
        file.write(text)
    try:
        box.assert_nothing_left()
        found = True
    except AssertionError as error:
        assert str(pid) in str(error), error
        found = False
    assert found == passes
    os.unlink(box.path(f"sanitizer.{pid}"))

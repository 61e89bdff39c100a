#!/bin/sh
# TensorBoard 2.21.0: a run that goes on from an earlier step, in a second event file, has both curves one
# after the other, so that the line runs back; the old points go only where the second file begins
# with a session's start (SessionLog.START) at that step.
# Seen: steps 0 to 9 and then 5 to 7 give 13 points; with the start event 8.
exec "$(dirname "$0")/with" tensorboard==2.21.0 "setuptools<81" <<'PYTHON'
import shutil

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def write(suffix, steps, clock, start):
    writer = EventFileWriter("events", filename_suffix=suffix)
    if start:
        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        writer.add_event(event_pb2.Event(wall_time=clock, step=steps[0], session_log=log))
    for step in steps:
        value = summary_pb2.Summary.Value(tag="loss", simple_value=step)
        summary = summary_pb2.Summary(value=[value])
        writer.add_event(event_pb2.Event(wall_time=clock + step, step=step, summary=summary))
    writer.close()


def points(start):
    shutil.rmtree("events", ignore_errors=True)
    write(".first", range(10), 1000, False)
    write(".second", range(5, 8), 2000, start)
    events = EventAccumulator("events")
    events.Reload()
    return [point.step for point in events.Scalars("loss")]


plain, started = points(False), points(True)
print(f"without a start event {plain}, with one {started}")
assert plain == [*range(10), 5, 6, 7] and started == list(range(8))
PYTHON

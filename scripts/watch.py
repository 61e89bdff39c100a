#!/usr/bin/python3
"""Prints what running jobs do, a line a second each: scripts/watch.py [JOB] [RUNTIME_DIR]

JOB: a job's name ("" = all). RUNTIME_DIR: where the daemon lives (else $SLUICE_RUNTIME_DIR,
$XDG_RUNTIME_DIR/sluice or /tmp/sluice-UID). Needs pyzmq (Debian: python3-zmq) alone."""
import json, os, sys

uid = os.geteuid()
sessions = [d for d in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}") if d]
places = [f"{d}/sluice" for d in sessions] + [f"/tmp/sluice-{uid}"]
found = [d for d in places if os.path.exists(f"{d}/stats.sock") and os.stat(d).st_uid == uid]
usual = os.environ.get("SLUICE_RUNTIME_DIR") or (found + places)[0]
job, where = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2] if len(sys.argv) > 2 else usual
if job in ("-h", "--help"):
    sys.exit(print(__doc__))
if not os.path.exists(where + "/stats.sock"):
    sys.exit(f"watch.py: {where}/stats.sock: there is none: start a daemon with sluice-broker")
import zmq

socket = zmq.Context().socket(zmq.SUB)
socket.connect("ipc://" + os.path.abspath(where) + "/stats.sock")
socket.subscribe(f"stats:{job}:" if job else "stats:")
try:
    while True:
        stats = json.loads(socket.recv_multipart()[1])
        loss = "-" if stats["loss"] is None else f"{stats['loss']:.4f}"
        print(f"{stats['job']:<20} epoch {stats['epoch']:>4}/{stats['epochs']}  loss {loss:>8}  "
              f"{stats['rates']['batches']:8.1f} batches/s  {stats['bottleneck']}", flush=True)
except (KeyboardInterrupt, BrokenPipeError):
    pass

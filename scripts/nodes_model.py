#!/usr/bin/python3
"""Batches a second of a job over many nodes, from rates of few: scripts/nodes_model.py --help

Every stage is said in seconds of an update, of which all nodes wait for the slowest:

  train    the rounds that a node's GPUs need for its batches, and then what nothing else hides:
           the last gradient, the new parameters, and the time of an update that neither bytes nor
           training explain (--update-ms)
  sample   a node's batches at --sample-ms each, on so many samplers at once
  wire     what a node receives: rows of other nodes, slices of gradients and of parameters; it
           sends as much at the same time

Assumed: sampling, reading and training overlap wholly, as long as batches are drawn ahead; parts
are even, so each node asks for, and serves, as much as any other; the switch carries what all
cables carry; a link reaches --gbit (one thread copies all rows of a node: give what `sluice
doctor --nodes` measures where that is less); rows that are not remote cost nothing, in memory or
over PCIe; nodes that come to few batches an update do not change how much of a batch is remote
(--remote is of the same number of parts: more parts have more). Nothing fails, no node is slower
than another.

BGL (Liu et al., NSDI 2023) has 195 MB of features of about 400,000 vertices a batch, 100 Gbit/s,
and 96 virtual cores a machine; it measured 250 and 769 thousand seeds a second of GraphSAGE on
one and four machines of 4 V100 (its Figure 18), 0.76 of linear, which is 16 ms a batch of 1,000
on one. --train-ms, --input-rows and --row-bytes are its figures; --remote is what `scripts/bench
wire` shows, --update-ms what `nodes_scaling` does; what is left is assumed.
"""

import argparse

BGL = {1: 250e3, 4: 769e3}  # machines of BGL_GPUS: seeds a second
BGL_GPUS, SEEDS = 4, 1000


def stages(o, nodes, gpus):
    """Seconds of an update, by stage."""
    per_update = o.rounds * nodes * gpus
    own = per_update // nodes
    wire = o.gbit * 1e9 / 8
    row_bytes = o.input_rows * o.remote * (o.row_bytes + 4) if nodes > 1 else 0  # a question: 4
    others = (nodes - 1) / nodes * o.parameters * 4
    slices = own * others + others  # gradients of the others' batches, of which it sums its slice
    last = 2 * others / wire + (o.update_ms / 1e3 if nodes > 1 else 0)
    return per_update, {
        "train": o.rounds * o.train_ms / 1e3 + last,
        "sample": own / o.samplers * o.sample_ms / 1e3,
        "wire": (own * row_bytes + slices) / wire,
    }


def say(o, nodes, gpus):
    per_update, seconds = stages(o, nodes, gpus)
    slowest = max(seconds, key=seconds.get)
    rate = per_update / seconds[slowest]
    linear = rate / (nodes * gpus * 1e3 / o.train_ms)
    spent = ", ".join(f"{stage} {1e3 * s:.1f}" for stage, s in seconds.items())
    print(
        f"{nodes:4} x {gpus}: {rate:8.0f} batches/s, {linear:.2f} of GPUs that never wait; limit:"
        f" {slowest} (ms an update: {spent})",
        end="",
    )
    bgl = BGL.get(nodes) if gpus == BGL_GPUS else None
    print(f"; BGL {bgl / SEEDS:.0f}" if bgl else "")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": float}
    parser.add_argument("--remote", required=True, **number, help="rows from other nodes, share")
    parser.add_argument("--input-rows", default=400e3, **number, help="of a batch (BGL's)")
    parser.add_argument("--row-bytes", default=512, **number, help="(128 floats)")
    parser.add_argument("--parameters", default=300e3, **number, help="floats (3 layers of 256)")
    parser.add_argument("--train-ms", default=16, **number, help="a batch on a GPU (BGL's V100)")
    parser.add_argument("--sample-ms", default=40, **number, help="a batch on a sampler")
    parser.add_argument("--samplers", default=64, type=int, help="of a node: cores")
    parser.add_argument("--update-ms", default=3, **number, help="beside bytes and training")
    parser.add_argument("--gbit", default=100, **number, help="of a cable, each way")
    parser.add_argument("--rounds", default=1, type=int, help="batches of a GPU in an update")
    o = parser.parse_args()
    print(
        f"{o.input_rows:.0f} rows of {o.row_bytes:.0f} bytes a batch, {o.remote:.1%} remote,"
        f" {o.gbit:g} Gbit/s, {o.train_ms:g} ms to train and {o.sample_ms:g} to sample"
    )
    for nodes, gpus in ((1, 4), (4, 4), (1, 8), (2, 8), (4, 8), (8, 8), (16, 8)):
        say(o, nodes, gpus)


if __name__ == "__main__":
    main()

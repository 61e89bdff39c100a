#!/usr/bin/env python3
"""hits.py DATA TOP.npy: which share of DATA's held-out items `sluice retrieve` found for their
users (it was asked for all of users.npy), beside the best share, which `generate` knows."""

import json
import sys

import numpy as np

data, top = sys.argv[1], np.load(sys.argv[2])
place = {user: i for i, user in enumerate(np.load(f"{data}/users.npy").tolist())}
with open(f"{data}/metadata.json", encoding="utf-8") as file:
    best = json.load(file)["generator"]["best_hits"]
for split in ("val", "test"):
    pairs = np.load(f"{data}/{split}_edges.npy")
    rows = top[[place[user] for user in pairs[:, 0].tolist()]]
    hits = (rows == pairs[:, 1:]).any(1).mean()
    print(f"{split}: Hits@{top.shape[1]} {hits:.3f}, at best {best[split]:.3f}")

#!/bin/sh
# torchmetrics 1.8.2: its binary curves (AUROC, AveragePrecision) take a batch of scores for logits and put
# them through a sigmoid only if one of THAT batch is outside [0, 1]. Scores of a dot product or a cosine
# come in batches of both kinds, so values of two scales are ranked together: the metric depends on how
# the same scores are cut into batches, without a warning.
# Seen: the AUROC of 4,096 scores is 0.777 in one batch and in batches of 64, 0.736 in batches of 8, 0.611
# in batches of 2; through a sigmoid of one's own first it is 0.777 in all.
exec "$(dirname "$0")/with" torch==2.2.2 torchmetrics==1.8.2 "numpy<2" <<'PYTHON'
import torch
from torchmetrics.classification import BinaryAUROC

generator = torch.Generator().manual_seed(1)
scores = torch.randn(4096, generator=generator) * 0.3 + 0.2
labels = (torch.rand(4096, generator=generator) < torch.sigmoid(4 * scores - 1)).long()


def auroc(scores, size):
    metric = BinaryAUROC()
    for part in zip(scores.split(size), labels.split(size)):
        metric.update(*part)
    return float(metric.compute())


sizes = (4096, 64, 8, 2)
raw = [auroc(scores, size) for size in sizes]
squashed = [auroc(torch.sigmoid(scores), size) for size in sizes]
print(f"AUROC in batches of {sizes}: {raw}; of probabilities {squashed}")
assert abs(raw[0] - raw[1]) < 1e-6 and raw[2] < raw[0] - 0.03 and raw[3] < raw[0] - 0.15
assert max(squashed) - min(squashed) < 1e-6 and abs(squashed[0] - raw[0]) < 1e-6
PYTHON

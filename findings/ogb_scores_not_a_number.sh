#!/bin/sh
# ogb 1.3.6, the evaluator of link prediction: an answer whose score is NaN has the best rank of all (MRR 1,
# Hits@1 1), since no comparison with NaN holds; where Hits@K has fewer than K negatives it is 1 whatever the
# scores; given NumPy arrays, which it says it takes, MRR ends with a TypeError.
# Seen: mrr 1.0 for NaN among three real scores; hits@2 1.0 for 0.1 against the one negative 0.5.
exec "$(dirname "$0")/with" ogb==1.3.6 torch==2.2.2 "numpy<2" "setuptools<81" <<'PYTHON'
import os

os.environ["OUTDATED_IGNORE"] = "1"  # it asks PyPI for newer versions otherwise
import numpy as np
import torch
from ogb.linkproppred import Evaluator

positive, negative = [float("nan"), 0.5], [[1.0, 2.0, 3.0], [1.0, 0.2, 0.1]]
ranks = Evaluator("ogbl-citation2")
found = ranks.eval({"y_pred_pos": torch.tensor(positive), "y_pred_neg": torch.tensor(negative)})
hits = Evaluator("ogbl-collab")
hits.K = 2
few = hits.eval({"y_pred_pos": torch.tensor([0.1]), "y_pred_neg": torch.tensor([0.5])})
print(f"reciprocal ranks of NaN and 0.5: {found['mrr_list'].tolist()}; one negative: {few}")
assert found["mrr_list"].tolist() == [1.0, 0.5] and few == {"hits@2": 1.0}
try:
    ranks.eval({"y_pred_pos": np.array(positive), "y_pred_neg": np.array(negative)})
    raise AssertionError("MRR of NumPy arrays works now")
except TypeError as error:
    print(f"NumPy arrays: {error}")
PYTHON

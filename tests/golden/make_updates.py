#!/usr/bin/env python3
"""Writes tests/unit/trainer_update_values.h: what torch.optim makes of gradients that the test
makes again in C. Needs torch; run it from the project's root:

    python tests/golden/make_updates.py > tests/unit/trainer_update_values.h
"""

import math
import textwrap

import torch

N_FIRST, N_RUNNING, N_FIXED, N_REST = 40, 7, 1, 103
N = N_FIRST + N_RUNNING + N_FIXED + N_REST
BATCHES, PER_UPDATE, UPDATES = 5, 2, 3
SHOWN = [0, 1, 39, 40, 41, 46, 47, 48, 49, 100, 150]

# Multiples of 1/16 and whole weights: exact in float32, in any order of adding.
def start(k):
    return ((k * 29 + 5) % 61 - 30) / 16


def gradient(b, k):
    return ((k * 37 + b * 101 + 11) % 127 - 63) / 16


def weight(b):
    return 3 + b


def scheduler(optimizer, job):
    """Stepped after every update; one epoch has UPDATES updates."""
    lr = torch.optim.lr_scheduler
    warmup = round(job["warmup"] * UPDATES)
    if job["schedule"] == "step":
        after = lr.StepLR(optimizer, job["step_epochs"] * UPDATES, job["gamma"])
    elif job["schedule"] == "cosine":
        after = lr.CosineAnnealingLR(optimizer, job["epochs"] * UPDATES - warmup, job["min_lr"])
    else:
        after = lr.ConstantLR(optimizer, 1.0)
    if warmup == 0:
        return after
    before = lr.LinearLR(optimizer, 1 / warmup, 1.0, max(warmup - 1, 1))
    return lr.SequentialLR(optimizer, [before, after], [warmup])


def train(job):
    """Parameters after one epoch, (N)."""
    p = torch.tensor([start(k) for k in range(N)])
    a = N_FIRST
    first = torch.nn.Parameter(p[:a].clone())
    rest = torch.nn.Parameter(p[a + N_RUNNING + N_FIXED:].clone())
    decay = job["weight_decay"]
    groups = [{"params": [first], "weight_decay": decay},
              {"params": [rest], "weight_decay": 0 if job["first_layer"] else decay}]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    extra = {"momentum": job["momentum"]} if job["kind"] == "sgd" else {}
    optimizer = kind[job["kind"]](groups, lr=job["lr"], **extra)
    schedule = scheduler(optimizer, job)
    norm = torch.nn.BatchNorm1d(N_RUNNING)
    norm.running_mean[:] = p[a:a + N_RUNNING]
    for u in range(UPDATES):
        batches = range(u * PER_UPDATE, min((u + 1) * PER_UPDATE, BATCHES))
        total = torch.zeros(N)
        for b in batches:
            g = torch.tensor([gradient(b, k) for k in range(N)])
            total += g
            s = g[a:a + N_RUNNING]
            norm(torch.stack([s - 1, s + 1]))  # of mean s
        total /= sum(weight(b) for b in batches)
        first.grad = total[:a].clone()
        rest.grad = total[a + N_RUNNING + N_FIXED:].clone()
        if job["clip"]:
            torch.nn.utils.clip_grad_norm_([first, rest], job["clip"])
        optimizer.step()
        schedule.step()
    fixed = p[a + N_RUNNING:a + N_RUNNING + N_FIXED]
    return torch.cat([first.detach(), norm.running_mean, fixed, rest.detach()])


def rates(job):
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=job["lr"])
    schedule = scheduler(optimizer, job)
    out = []
    for _ in range(job["epochs"] * UPDATES):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


PLAIN = dict(lr=0.02, weight_decay=0.0, first_layer=False, clip=0.0, momentum=0.0, epochs=4,
             schedule="constant", warmup=0.0, step_epochs=1, gamma=1.0, min_lr=0.0)
JOBS = [dict(PLAIN, kind="adam"),
        dict(PLAIN, kind="adam", weight_decay=0.3, first_layer=True, clip=1.5),
        dict(PLAIN, kind="adamw", weight_decay=0.3, schedule="cosine", warmup=2 / 3, min_lr=0.001),
        dict(PLAIN, kind="adamw", weight_decay=0.3, first_layer=True, lr=0.1),
        dict(PLAIN, kind="sgd", weight_decay=0.1, momentum=0.9, clip=0.7),
        dict(PLAIN, kind="sgd", clip=1e6, warmup=1.0)]
RATES = [dict(PLAIN), dict(PLAIN, schedule="step", step_epochs=2, gamma=0.5, epochs=7),
         dict(PLAIN, schedule="step", step_epochs=3, gamma=0.1, epochs=7, warmup=1.0),
         dict(PLAIN, schedule="cosine", epochs=5, min_lr=0.004),
         dict(PLAIN, schedule="cosine", epochs=5, warmup=4 / 3),
         dict(PLAIN, warmup=2 / 3)]


def enum(prefix, word):
    return f"{prefix}_{word.upper()}"


def fields(job):
    kind = enum("SL_OPTIMIZER", job.get("kind", "sgd"))
    return (f".kind = {kind}, .lr = {job['lr']!r}, .weight_decay = {job['weight_decay']!r}, "
            f".first_layer = {int(job['first_layer'])}, .clip = {job['clip']!r}, "
            f".momentum = {job['momentum']!r}, .epochs = {job['epochs']}, "
            f".schedule = {enum('SL_LR', job['schedule'])}, .warmup = {job['warmup']!r}, "
            f".step_epochs = {job['step_epochs']}, .gamma = {job['gamma']!r}, "
            f".min_lr = {job['min_lr']!r}")


def show(job, values):
    text = f"{{{fields(job)}, .wanted = {{{', '.join(repr(v) for v in values)}}}}},"
    print(textwrap.fill(text, 96, initial_indent="    ", subsequent_indent="     "))


def main():
    print("// trainer_update_values.h - written by tests/golden/make_updates.py with torch "
          f"{torch.__version__.split('+')[0]}.")
    print("// clang-format off")
    print("#ifndef SL_TESTS_TRAINER_UPDATE_VALUES_H\n#define SL_TESTS_TRAINER_UPDATE_VALUES_H\n")
    print('#include <stdint.h>\n\n#include "config/config.h"\n')
    print("enum {")
    for name, value in [("N_FIRST", N_FIRST), ("N_RUNNING", N_RUNNING), ("N_FIXED", N_FIXED),
                        ("N_REST", N_REST), ("BATCHES", BATCHES), ("PER_UPDATE", PER_UPDATE),
                        ("UPDATES", UPDATES), ("N_SHOWN", len(SHOWN))]:
        print(f"    VALUES_{name} = {value},")
    print("};\n")
    print("struct values_job {\n    enum sl_optimizer_kind kind;\n    double lr, weight_decay;\n"
          "    int first_layer;\n    double clip, momentum;\n    uint32_t epochs;\n"
          "    enum sl_lr_schedule schedule;\n    double warmup;\n    uint32_t step_epochs;\n"
          "    double gamma, min_lr;\n    double wanted[64];\n};\n")
    print(f"static const uint32_t values_shown[] = {{{', '.join(map(str, SHOWN))}}};\n")
    print("// Parameters values_shown[] after an epoch.")
    print("static const struct values_job values_jobs[] = {")
    for job in JOBS:
        p = train(job)
        show(job, [p[k].item() for k in SHOWN])
    print("};\n\n// The learning rate of each update of the whole job.")
    print("static const struct values_job values_rates[] = {")
    for job in RATES:
        show(job, rates(job))
    print("};\n\n#endif")
    assert not math.isnan(sum(rates(RATES[0])))


if __name__ == "__main__":
    main()

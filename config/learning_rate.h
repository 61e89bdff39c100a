/*
 * learning_rate.h - the learning rate of each update, a pure function of its number.
 *
 * Nothing is kept between updates, so it does not matter who makes an update, in which process, and
 * whether the job was resumed before it.
 *
 * TIME is counted in epochs. Every epoch has the same number of updates n; before update t (from 0
 * over the whole job) x = t / n epochs have been trained, in general a fraction. W is
 * optimizer.warmup_epochs, E is epochs:
 *
 *     while x < W   lr (t + 1) / (W n), so the first update moves a little and the last one of the
 *                   warm-up, where W n is whole, moves with lr
 *     constant      lr
 *     step          lr gamma^floor((x - W) / step_epochs)
 *     cosine        min_lr + (lr - min_lr) (1 + cos(pi (x - W) / (E - W))) / 2
 *
 * In PyTorch's words: SequentialLR of a LinearLR and of StepLR or CosineAnnealingLR, stepped after
 * every update; StepLR's step_size is then step_epochs * n and CosineAnnealingLR's T_max is
 * (E - W) * n. A StepLR that is stepped once an epoch is the same one; a CosineAnnealingLR that is
 * stepped once an epoch agrees at each epoch's first update.
 */
#ifndef SL_CONFIG_LEARNING_RATE_H
#define SL_CONFIG_LEARNING_RATE_H

#include <stdint.h>

#include "config/config.h"

struct sl_learning_rate {
    enum sl_lr_schedule schedule;
    double lr, min_lr, gamma;
    double epochs, warmup_epochs, step_epochs;
    uint64_t updates_per_epoch;
};

// n_train: vertices of the training set.
void sl_learning_rate_init(struct sl_learning_rate *r, const struct sl_config *config,
                           uint64_t n_train);

// Of update t, which makes version t + 1.
double sl_learning_rate_at(const struct sl_learning_rate *r, uint64_t t);

#endif

/*
 * trainer_group.h - which trainers sum an update's gradients among themselves
 * (common/arena/group.h).
 *
 * A trainer is taken off the list when its death is proved and never before: one that was told to
 * leave may be in the middle of a sum that the others need, or write a part of it. It is put on the
 * list when it is ready. Each change costs the members a meeting, so those who come at the same
 * time come together: as long as a trainer that is wanted is still on its way, the ready ones wait
 * for it, and the members work on. They wait for a bounded time, and not at all where there is no
 * member that works on: a trainer that dies again and again is handled by worker_pool.h, one that
 * loads for minutes joins later.
 *
 * While the job starts nothing is to be trained, so then all wait for the last one.
 */
#ifndef SL_BROKER_SCHEDULER_TRAINER_GROUP_H
#define SL_BROKER_SCHEDULER_TRAINER_GROUP_H

#include <stdint.h>

#include "common/arena/arena.h"
#include "config/config.h"

struct sl_joblog;
struct sl_role_split;
struct sl_timeline;

// The group that the arena has (updates.exchange "nccl"), by device.
struct sl_trainer_group {
    // borrowed
    const struct sl_role_split *split;
    struct sl_arena *arena;
    struct sl_joblog *log;
    struct sl_timeline *timeline;

    uint32_t worker[SL_CONFIG_MAX_DEVICES]; // 0: none of that device
    uint32_t n;
    uint64_t generation; // 0: there never was one
    uint64_t told;       // the generation that was told of
    uint64_t waiting_ns; // since when a ready trainer waits for others; 0: none does
};

// After whatever may change it: a death (once its leases are taken back), a Ready, a tick. Nothing
// in a job whose gradients go through the board.
void sl_trainer_group_form(struct sl_trainer_group *g);

#endif

// trainer_update_values.h - written by tests/golden/make_updates.py with torch 2.15.0.
// clang-format off
#ifndef SL_TESTS_UNIT_TRAINER_UPDATE_VALUES_H
#define SL_TESTS_UNIT_TRAINER_UPDATE_VALUES_H

#include <stdint.h>

#include "config/config.h"

enum {
    VALUES_N_FIRST = 40,
    VALUES_N_RUNNING = 7,
    VALUES_N_FIXED = 1,
    VALUES_N_REST = 103,
    VALUES_BATCHES = 5,
    VALUES_PER_UPDATE = 2,
    VALUES_UPDATES = 3,
    VALUES_N_SHOWN = 11,
};

struct values_job {
    enum sl_optimizer_kind kind;
    double lr, weight_decay;
    int first_layer;
    double clip, momentum;
    uint32_t epochs;
    enum sl_lr_schedule schedule;
    double warmup;
    uint32_t step_epochs;
    double gamma, min_lr;
    double wanted[64];
};

static const uint32_t values_shown[] = {0, 1, 39, 40, 41, 46, 47, 48, 49, 100, 150};

// Parameters values_shown[] after an epoch.
static const struct values_job values_jobs[] = {
    {.kind = SL_OPTIMIZER_ADAM, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.0, .wanted = {-1.5458897352218628, 0.26573026180267334,
     0.5433220267295837, -0.7690218687057495, -0.0662962794303894, 1.0454254150390625, -0.25,
     1.588355302810669, -0.4194626808166504, 0.5349266529083252, -0.40696510672569275}},
    {.kind = SL_OPTIMIZER_ADAM, .lr = 0.02, .weight_decay = 0.3, .first_layer = 1, .clip = 1.5,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.0, .wanted = {-1.5026423931121826, 0.24490179121494293,
     0.44165530800819397, -0.7690218687057495, -0.0662962794303894, 1.0454254150390625, -0.25,
     1.583655595779419, -0.42751309275627136, 0.5294942855834961, -0.40061110258102417}},
    {.kind = SL_OPTIMIZER_ADAMW, .lr = 0.02, .weight_decay = 0.3, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_COSINE, .warmup = 0.6666666666666666,
     .step_epochs = 1, .gamma = 1.0, .min_lr = 0.001, .wanted = {-1.5326156616210938,
     0.25188884139060974, 0.5256386399269104, -0.7690218687057495, -0.0662962794303894,
     1.0454254150390625, -0.25, 1.554938554763794, -0.4230477809906006, 0.5172973871231079,
     -0.3912360966205597}},
    {.kind = SL_OPTIMIZER_ADAMW, .lr = 0.1, .weight_decay = 0.3, .first_layer = 1, .clip = 0.0,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.0, .wanted = {-1.3471983671188354, 0.30116620659828186,
     0.6645432710647583, -0.7690218687057495, -0.0662962794303894, 1.0454254150390625, -0.25,
     1.6917765140533447, -0.34731340408325195, 0.6746331453323364, -0.5348254442214966}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.1, .first_layer = 0, .clip = 0.7,
     .momentum = 0.9, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.0, .wanted = {-1.544742226600647, 0.24628476798534393,
     0.49677205085754395, -0.7690218687057495, -0.0662962794303894, 1.0454254150390625, -0.25,
     1.5457298755645752, -0.4330398738384247, 0.4982322156429291, -0.37321069836616516}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip =
     1000000.0, .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 1.0,
     .step_epochs = 1, .gamma = 1.0, .min_lr = 0.0, .wanted = {-1.5586580038070679,
     0.24478355050086975, 0.5003625154495239, -0.7690218687057495, -0.0662962794303894,
     1.0454254150390625, -0.25, 1.5672402381896973, -0.4418181777000427, 0.5037662386894226,
     -0.38432902097702026}},
};

// The learning rate of each update of the whole job.
static const struct values_job values_rates[] = {
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.0, .wanted = {0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02,
     0.02, 0.02, 0.02, 0.02}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 7, .schedule = SL_LR_STEP, .warmup = 0.0, .step_epochs = 2,
     .gamma = 0.5, .min_lr = 0.0, .wanted = {0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.01, 0.01,
     0.01, 0.01, 0.01, 0.01, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.0025, 0.0025, 0.0025}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 7, .schedule = SL_LR_STEP, .warmup = 1.0, .step_epochs = 3,
     .gamma = 0.1, .min_lr = 0.0, .wanted = {0.006666666666666666, 0.013333333333333332,
     0.019999999999999997, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.002, 0.002,
     0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 5, .schedule = SL_LR_COSINE, .warmup = 0.0, .step_epochs = 1,
     .gamma = 1.0, .min_lr = 0.004, .wanted = {0.02, 0.019825180805870445, 0.019308363661140804,
     0.01847213595499958, 0.017353044850870865, 0.016, 0.01447213595499958, 0.01283622770614123,
     0.011163772293858775, 0.009527864045000422, 0.008000000000000002, 0.0066469551491291365,
     0.005527864045000421, 0.004691636338859192, 0.004174819194129554}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 5, .schedule = SL_LR_COSINE, .warmup = 1.3333333333333333,
     .step_epochs = 1, .gamma = 1.0, .min_lr = 0.0, .wanted = {0.005, 0.01, 0.015,
     0.019999999999999997, 0.02, 0.019594929736144975, 0.018412535328311812,
     0.016548607339452855, 0.014154150130018868, 0.011423148382732852, 0.00857685161726715,
     0.005845849869981138, 0.0034513926605471506, 0.0015874646716881892,
     0.0004050702638550264}},
    {.kind = SL_OPTIMIZER_SGD, .lr = 0.02, .weight_decay = 0.0, .first_layer = 0, .clip = 0.0,
     .momentum = 0.0, .epochs = 4, .schedule = SL_LR_CONSTANT, .warmup = 0.6666666666666666,
     .step_epochs = 1, .gamma = 1.0, .min_lr = 0.0, .wanted = {0.01, 0.02, 0.02, 0.02, 0.02,
     0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02}},
};

#endif

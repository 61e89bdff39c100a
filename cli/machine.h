/*
 * machine.h - a machine that a dry run is for and that need not be there: `sluice run --dry-run
 * --machine gpus=8,gpu_memory=80GiB,memory=1TiB,drive=6GB`.
 *
 * It is words and numbers, as whoever plans to buy or rent it reads them in an offer. What is not
 * given has a default, or is not counted; nothing is measured. The GPUs take the place of those
 * that are there (sl_gpus_assume()), so roles, budgets and placements are found as for them.
 */
#ifndef SL_CLI_MACHINE_H
#define SL_CLI_MACHINE_H

#include <stdint.h>

#include <cjson/cJSON.h>

// All of them whole numbers; 0: not given. Rates are a second's.
struct sl_machine {
    uint64_t gpus;
    uint64_t gpu_memory; // bytes of each
    uint64_t memory;     // bytes of the machine
    uint64_t read;       // bytes that its processors read of its memory, all together
    uint64_t bus;        // bytes from the machine's memory to one GPU
    uint64_t drive;      // bytes in blocks of 4 KiB that features are read by
    uint64_t edges;      // that one sampler draws
    uint64_t products;   // floating-point operations of one trainer's matrix products
};

// Reads "KEY=NUMBER,...". SL_EINVAL with what was found and wanted.
int sl_machine_read(const char *text, struct sl_machine *out);

// From now on this process finds these GPUs.
void sl_machine_assume(const struct sl_machine *m);

// What was given, as an object.
cJSON *sl_machine_to_json(const struct sl_machine *m);

#endif

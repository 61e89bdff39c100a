/*
 * resume.h - whether a job may go on in a run directory, and from where.
 *
 * A run goes on from its newest checkpoint when the job is the same in everything that its result
 * depends on, which the table of keys says (config/keys.c). Whatever else differs is refused by
 * name, with both values; so is another data set, a finished run, and a checkpoint that is damaged:
 * then the one before it is named, and --checkpoint takes it.
 */
#ifndef SL_BROKER_RUNDIR_RESUME_H
#define SL_BROKER_RUNDIR_RESUME_H

#include <stdint.h>

#include "broker/rundir/checkpoint.h"
#include "broker/rundir/rundir.h"
#include "config/config.h"

struct sl_resume {
    enum sl_rundir_content content;  // CHECKPOINTS: the run goes on from
    struct sl_checkpoint checkpoint; // (owned)
};

/*
 * Looks at config->output. `wanted` names a checkpoint; NULL takes the newest. config_json is the
 * resolved job. `waits` is told when a run there is ending and is waited for. SL_EEXIST: there is a
 * run that this job cannot go on with, the message says why and what to do. SL_EFORMAT: the
 * checkpoint is damaged.
 */
int sl_resume_find(const struct sl_config *config, const char *config_json, const char *wanted,
                   sl_rundir_waits waits, struct sl_resume *out);
void sl_resume_fini(struct sl_resume *r); // safe on a zeroed struct

// Whether the data set is the checkpoint's. SL_EEXIST.
int sl_resume_check_dataset(const struct sl_resume *r, const struct sl_config *config,
                            uint64_t dataset_digest);

/*
 * What becomes of a job that was killed and is given again as it was, as far as names tell: buf is
 * "goes on from update 105", or that it begins anew. SL_EEXIST: it would be refused, and the
 * message says why and what to do.
 */
enum { SL_RESUME_OUTLOOK_BYTES = 96 };
int sl_resume_outlook(const char *output, char buf[SL_RESUME_OUTLOOK_BYTES]);

// Where it is, in words. Returns buf.
char *sl_resume_text(const struct sl_checkpoint *c, char *buf, size_t bytes);

#endif

/*
 * assignment.h - the job that a process is started for: two texts in a memfd that it inherits from
 * the process that starts it.
 *
 *   the job     resolved, as JSON
 *   a record    of its data set as it was validated (sl_dataset_record), which must be the one that
 *               is opened. "" where it was not validated yet: the broker then does so.
 *
 * They lie one behind the other, the first with its terminating zero.
 */
#ifndef SL_BUS_ASSIGNMENT_H
#define SL_BUS_ASSIGNMENT_H

#include <stddef.h>

struct sl_assignment {
    char *job; // owned; NUL-terminated
    size_t job_bytes;
    const char *record; // lies behind it
};

// A new descriptor, close-on-exec. record may be NULL. SL_ESYS.
int sl_assignment_make(const char *job, const char *record);

// Reads from the beginning, whatever the descriptor's shared position is. SL_EFORMAT without a job;
// SL_EIO.
int sl_assignment_read(int fd, struct sl_assignment *out);
void sl_assignment_fini(struct sl_assignment *a); // safe on a zeroed struct

#endif

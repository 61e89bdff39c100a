/*
 * assignment.h - what a process that works on a job is told by the one that starts it: two texts in
 * a memfd that it inherits.
 *
 *   the job     resolved, as JSON
 *   a record    of its data set as it was validated (sl_dataset_record): what is opened has to be
 *               that. "" where nobody has validated it yet: a broker that does it itself.
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

// Whatever the descriptor's position, which processes share. SL_EFORMAT without a job; SL_EIO.
int sl_assignment_read(int fd, struct sl_assignment *out);
void sl_assignment_fini(struct sl_assignment *a); // safe on a zeroed struct

#endif

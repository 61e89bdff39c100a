/*
 * archive.h - what is left of a job that is over, read from its run directory.
 *
 * Files may be large and disks slow, so they are read on the loop's thread pool, at most
 * SL_ARCHIVE_FILE_MAX of each; the client has its answer when that is done.
 */
#ifndef SL_BROKER_DAEMON_ARCHIVE_H
#define SL_BROKER_DAEMON_ARCHIVE_H

#include "broker/daemon/daemon_internal.h"

enum {
    SL_ARCHIVE_FILE_MAX = 6 << 20,
    SL_ARCHIVE_AT_ONCE = 64, // requests; more are refused
};

#define SL_DESCRIBE_SCHEMA "sluice.describe/1"

// Answers with sluice.describe/1, the report in it where there is one. Any state.
void sl_archive_describe(struct sl_daemon *d, const struct sl_entry *e,
                         const struct sl_bus_peer *peer);

// Sends Finished with the report.
void sl_archive_finished(struct sl_daemon *d, const struct sl_entry *e,
                         const struct sl_bus_peer *peer);

// "status" and "message" of RUN/report.json when that was written after `since` (Unix seconds).
// False when there is none. Waits for the disk.
bool sl_archive_outcome(const char *output, double since, char status[16], char *message,
                        size_t bytes);

#endif

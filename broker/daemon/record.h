/*
 * record.h - what of a job survives the daemon: one file a job, schema sluice.record/1.
 *
 *   <state directory>/3.json    the job and where it stands; written whole or not at all
 *   <state directory>/3.log     what its broker wrote on its standard error
 *
 * A record is written before any client is told of the change in it, so what a client has heard is
 * still true after a crash. It holds the job's text as it is, and besides that only what cannot be
 * found out again.
 *
 * A key that comes new into the schema is optional when it is read: the records of an older daemon
 * are as good as they were.
 */
#ifndef SL_BROKER_DAEMON_RECORD_H
#define SL_BROKER_DAEMON_RECORD_H

#include "broker/daemon/registry.h"

// Makes it durable. SL_EIO, SL_EACCESS, SL_ENOMEM; what was there is untouched then.
int sl_record_write(const char *dir, const struct sl_entry *e);

// Reads one. SL_EFORMAT when it is damaged, with what and where.
int sl_record_read(const char *path, struct sl_entry **out);

/*
 * Reads all of a directory into the registry. Damaged ones are set aside under a name that ends in
 * ".damaged", with a warning in the log, and counted together with those of before
 * (sl_registry.n_damaged); what a crash left half written is removed. The next number is above that
 * of every record and log that is there, damaged or not: a new job never gets another one's log.
 * SL_EIO, SL_ENOMEM: not all could be read, and nothing is known of those.
 */
int sl_record_read_all(const char *dir, struct sl_registry *r);

// Removes record and log.
void sl_record_remove(const char *dir, const struct sl_entry *e);

#endif

/*
 * daemon.h - the daemon: owns a machine's devices, queues jobs over them, starts a broker for each.
 *
 *     client -- control.sock --> daemon -- one bus a job --> job's broker --> workers
 *
 * A job's broker is the same program that `sluice run` starts (launch.h), so a job knows no
 * difference, and a broker that dies takes nothing with it but its own job. The daemon keeps the
 * list, and forwards: what names a job goes to its broker, news from a broker go to subscribers, to
 * the statistics socket and to the list.
 */
#ifndef SL_BROKER_DAEMON_DAEMON_H
#define SL_BROKER_DAEMON_DAEMON_H

#include "broker/daemon/options.h"

// Runs until a signal ends it. Returns an exit status.
int sl_daemon_run(const struct sl_daemon_options *options);

#endif

/*
 * process.h - the broker of one job, as the daemon sees it: a process and a bus to it.
 *
 * It is launched as `sluice run` launches its own (launch.h), and the daemon is its client. Its
 * news go on to subscribers, the statistics socket and the list; its answers go to the client that
 * has asked. Its last message (Finished) is kept until the process is gone, so that a client that
 * hears of the end finds the cores free and the record written.
 *
 * A broker that dies without it has failed, and the last lines of its log say why.
 */
#ifndef SL_BROKER_DAEMON_PROCESS_H
#define SL_BROKER_DAEMON_PROCESS_H

#include <stdbool.h>

#include "broker/daemon/daemon_internal.h"

// Launches it; the entry is STARTING then. When that fails the entry is FAILED. Never waits for
// more than the exec.
void sl_process_start(struct sl_daemon *d, struct sl_entry *e);

// Reads what there is, and looks whether it is time for anything. After it the process may be gone
// and the entry over.
void sl_process_poll(struct sl_process *p);

// Hands a client's request on.
void sl_process_forward(struct sl_process *p, const struct sl_bus_peer *peer,
                        Sl__Control__Envelope *m);

/*
 * Asks it to stop. `kill`: at once, and if that takes long the broker is killed too. limit_ms:
 * after that long it is killed in any case, unless it says that it is saving; 0 = it may take its
 * time.
 */
void sl_process_stop(struct sl_process *p, bool kill, unsigned limit_ms);
void sl_process_kill(struct sl_process *p); // the broker, at once; its workers die with it

#endif

/*
 * daemon.h - the daemon: owns a machine's devices, queues jobs over them, starts a broker for each.
 *
 *     client -- control.sock --> daemon -- one bus a job --> job's broker --> workers
 *
 * A job's broker is the same program that `sluice run` starts (launch.h), so a job knows no
 * difference, and a broker that dies takes nothing with it but its own job. The daemon keeps the
 * list, and forwards: what names a job goes to its broker, what a broker tells goes to who has
 * subscribed, to the statistics socket and to the list.
 */
#ifndef SL_BROKER_DAEMON_DAEMON_H
#define SL_BROKER_DAEMON_DAEMON_H

struct sl_daemon_options {
    const char *runtime_dir;  // NULL: runtime_dir.h
    const char *state_dir;    // NULL: <runtime dir>/jobs
    const char *cores;        // which cores it gives away: "0-7"; NULL: all that it may run on
    const char *listen;       // "tcp://0.0.0.0:7400"; NULL: local only
    const char *stats_listen; // the statistics socket over TCP; NULL: local only
    const char *keys;         // daemon.key, needed with listen
    const char *http;         // NULL: no page
    const char *http_token_file;
};

// Runs until a signal ends it. Returns an exit status.
int sl_daemon_run(const struct sl_daemon_options *options);

#endif

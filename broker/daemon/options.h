// options.h - what the command line tells the daemon.
#ifndef SL_BROKER_DAEMON_OPTIONS_H
#define SL_BROKER_DAEMON_OPTIONS_H

#include <stdbool.h>

struct sl_daemon_options {
    const char *runtime_dir;  // NULL: runtime_dir.h
    const char *state_dir;    // NULL: <runtime dir>/jobs
    const char *cores;        // which cores it gives away: "0-7"; NULL: all that it may run on
    const char *listen;       // "tcp://0.0.0.0:7400"; NULL: local only
    const char *stats_listen; // the statistics socket over TCP; NULL: local only
    const char *keys;         // daemon.key, needed with listen
    const char *output_root;  // root.h; NULL: where the daemon is started
    const char *http;         // NULL: no page
    const char *http_token_file;
    bool http_open; // other users of this machine may read
};

#endif

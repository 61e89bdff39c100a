#include "common/base/threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

struct lane {
    pthread_t thread;
    bool started;
    int (*body)(void *, int);
    void *context;
    int number;
    int rc;
    char *message; // messages are recorded per thread: this one travels to the caller
};

int sl_threads_default(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return SL_MAX(1, CPU_COUNT(&set));
    // More cores than a cpu_set_t can name.
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)SL_MIN(n, (long)INT_MAX);
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    lane->rc = lane->body(lane->context, lane->number);
    if (lane->rc < 0)
        lane->message = strdup(sl_error_message());
    return NULL;
}

int sl_threads_run(int n_threads, int (*body)(void *context, int thread), void *context)
{
    struct lane *lanes = calloc((size_t)n_threads, sizeof *lanes);
    if (!lanes)
        return sl_fail(SL_ENOMEM, "no memory to start %d threads", n_threads);
    for (int i = 0; i < n_threads; i++) {
        lanes[i].body = body;
        lanes[i].context = context;
        lanes[i].number = i;
        if (i > 0)
            lanes[i].started = pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) == 0;
    }
    for (int i = 0; i < n_threads; i++)
        if (!lanes[i].started)
            run_lane(&lanes[i]);
    for (int i = 0; i < n_threads; i++)
        if (lanes[i].started)
            pthread_join(lanes[i].thread, NULL);
    int rc = SL_OK;
    for (int i = 0; i < n_threads; i++) {
        if (rc == SL_OK && lanes[i].rc < 0)
            rc = sl_fail(lanes[i].rc, "%s",
                         lanes[i].message ? lanes[i].message : sl_strerror(lanes[i].rc));
        free(lanes[i].message);
    }
    free(lanes);
    return rc;
}

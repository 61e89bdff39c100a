// worker_pool_internal.h - the process that fills a worker's place, for worker_pool.c, which starts
// it, and external_trainer.c, where somebody else has.
#ifndef SL_BROKER_WORKERS_WORKER_POOL_INTERNAL_H
#define SL_BROKER_WORKERS_WORKER_POOL_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct sl_exit_status;
struct sl_pool_worker;

// One process, from its start, or from when it attached, to the closing of its last handle.
struct sl_pool_process {
    uv_process_t handle;           // of a started one
    uv_poll_t death;               // pidfd
    uv_poll_t output;              // read end of its standard error; external: the connection
    struct sl_pool_worker *worker; // NULL once it has a newer process
    pid_t pid;
    int pidfd, output_fd; // -1 when closed or absent
    int open_handles;
    bool told; // the death has been handled
};

// It has an id, and is what fills the worker's place once it runs (pid is set by then).
void sl_pool_process_begin(struct sl_pool_process *p, struct sl_pool_worker *w);
void sl_pool_process_runs(struct sl_pool_process *p);
int sl_pool_process_watch(uv_loop_t *loop, struct sl_pool_process *p, uv_poll_t *handle, int fd,
                          uv_poll_cb callback);
void sl_pool_process_close_output(struct sl_pool_process *p);
void sl_pool_process_close(uv_handle_t *handle);
// It is dead, or has left: everybody is told, once.
void sl_pool_process_end(struct sl_pool_process *p, struct sl_exit_status *death);

#endif

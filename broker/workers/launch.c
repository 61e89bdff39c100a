#include "broker/workers/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/workers/worker_pool.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/bus/assignment.h"
#include "common/bus/bus.h"

enum { CONFIG_FD = 3, KEY_FD = 4, OWNER_FD = 5, ASIDE_FD = 10 };

// What the broker gets of this process. error, owner: -1 = none; keep: 0 or less = none.
struct inherited {
    int config, key, error, owner, keep;
};

static void drop(const struct inherited *of)
{
    close(of->config);
    close(of->key);
    if (of->owner >= 0)
        close(of->owner);
}

// In the child, between fork and exec: system calls only. Returns only on an error.
static void become_broker(char **argv, pid_t parent, const struct inherited *of)
{
    // First out of the terminal's reach. What it sent to both of us until here is for the parent,
    // which has it too: ignoring a signal drops it while it is still blocked.
    static const int from_terminal[] = {SIGINT, SIGHUP, SIGTERM, SIGUSR1};
    sigset_t none;
    setsid();
    for (size_t i = 0; i < SL_COUNT_OF(from_terminal); i++) {
        signal(from_terminal[i], SIG_IGN);
        signal(from_terminal[i], SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (of->owner < 0 &&
        (prctl(PR_SET_PDEATHSIG, SL_LAUNCH_DEATH_SIGNAL) != 0 || getppid() != parent))
        return;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        return;
    if (of->error >= 0 && dup2(of->error, STDERR_FILENO) < 0)
        return;
    // Aside first: either may stand where the other belongs.
    int config_at = fcntl(of->config, F_DUPFD, ASIDE_FD),
        key_at = fcntl(of->key, F_DUPFD, ASIDE_FD);
    int owner_at = of->owner < 0 ? -1 : fcntl(of->owner, F_DUPFD, ASIDE_FD);
    close_range(KEY_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (of->keep > 0 && fcntl(of->keep, F_SETFD, 0) < 0)
        return;
    if (dup2(config_at, CONFIG_FD) < 0 || dup2(key_at, KEY_FD) < 0 ||
        (owner_at >= 0 && dup2(owner_at, OWNER_FD) < 0))
        return;
    execv(argv[0], argv);
}

// A broker by these words; what it inherits is its own from here on.
static int start(char **argv, const struct inherited *of, struct sl_launch *out)
{
    int status[2];
    // Closed by a successful exec; else it brings the reason.
    if (pipe2(status, O_CLOEXEC) != 0) {
        int err = errno;
        drop(of);
        return sl_fail_errno(SL_ESYS, err, "starting the broker: pipe");
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        // Away from the numbers that are about to be taken.
        int report = fcntl(status[1], F_DUPFD_CLOEXEC, ASIDE_FD);
        become_broker(argv, parent, of);
        int err = errno;
        ssize_t ignored = write(report, &err, sizeof err);
        (void)ignored;
        _exit(127);
    }
    int err = errno;
    drop(of);
    close(status[1]);
    if (pid > 0) {
        ssize_t got = read(status[0], &err, sizeof err);
        close(status[0]);
        if (got != (ssize_t)sizeof err) {
            out->pid = pid;
            out->pidfd = sl_exit_status_open(pid);
            return SL_OK;
        }
        waitpid(pid, NULL, 0);
    } else {
        close(status[0]);
    }
    return sl_fail_errno(err == ENOENT ? SL_ENOENT : SL_ESYS, err, "starting the broker '%s'",
                         argv[0]);
}

int sl_launch_broker(const struct sl_launch_job *job, struct sl_launch *out)
{
    char program[4200], directory[4096], config[16], key[16], owner[16], nodes[16], node[16];
    char where[2 * PATH_MAX], here[PATH_MAX];
    struct inherited of = {.error = job->error_fd, .owner = -1, .keep = job->keep_fd};
    memset(out, 0, sizeof *out);
    out->pidfd = -1;
    if (!job->directory)
        SL_TRY(sl_worker_pool_own_directory(directory, sizeof directory));
    snprintf(program, sizeof program, "%s/sluice-broker",
             job->directory ? job->directory : directory);
    SL_TRY(sl_bus_new_endpoint(out->endpoint, sizeof out->endpoint, out->key));
    snprintf(config, sizeof config, "%d", CONFIG_FD);
    snprintf(key, sizeof key, "%d", KEY_FD);
    snprintf(owner, sizeof owner, "%d", OWNER_FD);
    snprintf(nodes, sizeof nodes, "%u", job->nodes);
    snprintf(node, sizeof node, "%u", job->node);
    sl_attach_path(out->endpoint, out->attach);
    // execv() writes to none of them
    char *argv[36] = {program,    "--private",   "--endpoint", out->endpoint, "--key-fd",
                      key,        "--config-fd", config,       "--job",       (char *)job->name,
                      "--output", where};
    int n = job->output ? 12 : 10;
    const struct {
        const char *option, *value;
    } optional[] = {
        {"--report", job->report_path},
        {"--resume", job->resume},
        {"--id", job->id},
        {"--http", job->http},
        {"--http-token", job->http_token_file},
        {"--owner-fd", job->owner ? owner : NULL},
        {"--nodes", job->over_nodes ? nodes : NULL},
        {"--node", job->over_nodes ? node : NULL},
    };
    for (size_t i = 0; i < SL_COUNT_OF(optional); i++) {
        if (!optional[i].value)
            continue;
        argv[n++] = (char *)optional[i].option;
        argv[n++] = (char *)optional[i].value;
    }
    if (job->checks)
        argv[n++] = "--checks";
    if (!job->output)
        argv[n++] = "--no-output";
    if (job->http_open)
        argv[n++] = "--http-open";
    // Relative to this process's directory, which is the broker's too, but not the next terminal's.
    const char *output = job->output ? job->output : "";
    bool relative = output[0] != '/' && getcwd(here, sizeof here);
    snprintf(where, sizeof where, "%s%s%s", relative ? here : "", relative ? "/" : "", output);
    of.config = sl_assignment_make(job->config_json, job->dataset_record);
    SL_TRY(of.config);
    of.key = sl_bus_key_hand_over(out->key);
    if (of.key < 0) {
        close(of.config);
        return of.key;
    }
    if (job->owner && (of.owner = sl_exit_status_open(job->owner)) < 0) {
        int err = errno;
        drop(&of);
        return sl_fail_errno(SL_ESYS, err,
                             "starting the broker: watching process %d, whose job it is",
                             (int)job->owner);
    }
    return start(argv, &of, out);
}

void sl_launch_kill(const struct sl_launch *launch)
{
    if (launch->pid)
        sl_exit_status_send(launch->pidfd, launch->pid, SIGKILL);
}

bool sl_launch_wait(struct sl_launch *launch, int timeout_ms, struct sl_exit_status *death)
{
    int status = 0;
    pid_t got;
    memset(death, 0, sizeof *death);
    if (!launch->pid)
        return true;
    uint64_t until = sl_now_ns() + (uint64_t)timeout_ms * 1000000u;
    while ((got = waitpid(launch->pid, &status, WNOHANG)) == 0) {
        uint64_t now = sl_now_ns();
        if (now >= until)
            return false;
        // Without a pidfd (an old kernel) look again now and then.
        struct pollfd fd = {.fd = launch->pidfd, .events = POLLIN};
        int left_ms = (int)((until - now) / 1000000u) + 1;
        poll(&fd, 1, launch->pidfd >= 0 ? left_ms : SL_MIN(left_ms, 20));
    }
    death->known = got > 0; // else another thread has reaped it
    death->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    death->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    death->core_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
    if (launch->pidfd >= 0)
        close(launch->pidfd);
    launch->pidfd = -1;
    launch->pid = 0;
    return true;
}

/*
 * Whether the emulation finds what it is there to find: each defect of tests/simt/selftest.h is run
 * in a process of its own, which must end with a report that names it.
 */
#include "tests/kernels/harness.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/device/plugin.h"
#include "tests/simt/selftest.h"

static const struct {
    enum simt_defect defect;
    const char *name, *words; // what the report begins with; NULL: the result is wrong
    int checked_alone;
} defects[] = {
    {SIMT_DIVERGENT_BARRIER, "another barrier", "DIVERGENT BARRIER in divergent_barrier", 0},
    {SIMT_ENDED_BARRIER, "a barrier that threads do not reach", "DIVERGENT BARRIER in ended", 0},
    {SIMT_WRONG_MASK, "lanes that do not come", "WRONG MASK in wrong_mask", 0},
    {SIMT_NOT_IN_MASK, "a mask without the lane", "WRONG MASK in not_in_mask", 0},
    {SIMT_BEHIND_DYNAMIC, "a store behind shared memory", "OUT OF BOUNDS in behind_dynamic", 0},
    {SIMT_BEHIND_DEVICE, "a store behind an allocation", "OUT OF BOUNDS", 0},
    {SIMT_NULL, "a load from NULL", "", 0}, // FAULT, or OUT OF BOUNDS
    {SIMT_HOST_TOUCH, "the host in device memory", "HOST ACCESS", 0},
    {SIMT_MISSING_BARRIER, "no barrier between warps", "RACE in missing_barrier", 1},
    {SIMT_MISSING_WARP_SYNC, "no __syncwarp between lanes", "RACE in missing_warp_sync", 1},
    {SIMT_BLOCK_RACE, "two blocks and one word", "RACE in block_race", 1},
    {SIMT_READ_BEHIND, "a load behind an allocation", "OUT OF BOUNDS in load_from", 1},
    {SIMT_HOST_MEMORY, "a load from the host's memory", "OUT OF BOUNDS in load_from", 1},
};

// Runs a defect under a seed; what it said goes to `text`, its end to the result.
static int run_apart(int (*run)(enum simt_defect), enum simt_defect defect, char *text, size_t n)
{
    int pipes[2];
    fflush(NULL);
    if (pipe(pipes) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        alarm(20);
        _exit(run(defect) & 0x7f);
    }
    close(pipes[1]);
    size_t used = 0;
    ssize_t more;
    while (child > 0 && used + 1 < n && (more = read(pipes[0], text + used, n - 1 - used)) > 0)
        used += (size_t)more;
    text[used] = 0;
    close(pipes[0]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

void test_emulation(struct suite *t)
{
    void *library = dlopen(sl_plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    int (*run)(enum simt_defect) = NULL;
    if (library)
        *(void **)&run = dlsym(library, "sluice_simt_selftest_run");
    if (!t->is_emulated || !run) {
        printf("SKIP: emulation: this device is not emulated\n");
        return;
    }
    char text[2000];
    t_begin(t, "the emulation runs what is right");
    t_expect(t, run(SIMT_NONE) == 0, "a sum is wrong");
    t_end(t);
    t_begin(t, "the order of threads is the seed's");
    const char *seed = getenv("SLUICE_SIMT_SEED");
    if (seed && strcmp(seed, "1") == 0)
        t_expect(t, run(SIMT_SHUFFLED_RACE) == 1, "the last thread came last, backwards too");
    t_end(t);
    for (size_t i = 0; i < SL_COUNT_OF(defects); i++) {
        if (defects[i].checked_alone && !t->is_checked)
            continue;
        t_begin(t, "the emulation finds: %s", defects[i].name);
        int status = run_apart(run, defects[i].defect, text, sizeof text);
        t_expect(t, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                 "it went on, status %#x: %s", (unsigned)status, text);
        t_expect(t, strncmp(text, "simt: ", 6) == 0 && strstr(text, defects[i].words), "it said %s",
                 text);
        t_end(t);
    }
}

/*
 * owner.c - a program of the user's that has a job of its own, as the library starts it: there is
 * no run directory, and the job ends with this process, however that ends.
 *
 *     owner JOB.json PROGRAMS
 *
 * Writes where trainers attach and the broker's process number, then waits to be killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/workers/launch.h"
#include "common/base/error.h"
#include "config/config.h"

static int run(char **argv)
{
    static struct sl_config config;
    struct sl_launch launch;
    SL_TRY(sl_config_load(argv[1], NULL, 0, &config));
    char *json = sl_config_to_json(&config);
    const struct sl_launch_job job = {
        .config_json = json,
        .name = config.name,
        .error_fd = -1,
        .owner = getpid(),
        .directory = argv[2],
    };
    SL_TRY(sl_launch_broker(&job, &launch));
    free(json);
    printf("%s %d\n", launch.attach, (int)launch.pid);
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (run(argv) < 0)
        fprintf(stderr, "owner: %s\n", sl_error_message());
    return 1;
}

/*
 * cgroup.h - the control groups that this process is in, versions 1 and 2.
 *
 * A limit holds for a group and all below it, so each one from the process's own up to the top of
 * what is mounted may be the tightest. Where a group lives is found from /proc/self/cgroup (its
 * path) and /proc/self/mountinfo (which part of that hierarchy is mounted where). In a container
 * without a cgroup namespace the path is the host's and need not exist below the mount: levels that
 * cannot be read are passed over by whoever reads them.
 */
#ifndef SL_BASE_CGROUP_H
#define SL_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum sl_cgroup_version { SL_CGROUP_V1, SL_CGROUP_V2 };

enum { SL_CGROUP_TEXT_BYTES = 16384 };

/*
 * Calls `visit` with the directory of each group that has a say on `controller` ("memory", "cpu").
 * `root` is put before every path: "" is this machine, tests make up their own.
 */
void sl_cgroup_each(const char *root, const char *controller,
                    void (*visit)(void *ctx, const char *dir, enum sl_cgroup_version version),
                    void *ctx);

// A small file of a directory as text; false when it cannot be read or is empty.
bool sl_cgroup_read(const char *dir, const char *name, char text[SL_CGROUP_TEXT_BYTES]);

#endif

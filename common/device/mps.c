/*
 * mps.c - looking for MPS.
 *
 * THE QUESTION IS NOT HEARD. A connection would be accepted and logged by the daemon, and a process
 * id in its file says nothing in a container, which shares the folder and not the processes. So a
 * socket of another type is connected: datagrams, where the daemon has a stream. The kernel refuses
 * that by the type (EPROTOTYPE) when somebody holds the socket, and otherwise says that nobody does
 * (ECONNREFUSED) or that this user may not (EACCES).
 *
 * A DAEMON OF ANOTHER USER serves that user alone; one of root's serves whoever comes first.
 */
#include "common/device/mps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FOLDER   "/tmp/nvidia-mps"
#define PID_FILE "nvidia-cuda-mps-control.pid"

// 0: somebody holds the socket; else an errno.
static int probe(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return ENAMETOOLONG;
    strcpy(at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int err = connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
    close(fd);
    return err == EPROTOTYPE ? 0 : err;
}

// The daemon's process by its own file; 0: not known.
static long pid_in(const char *folder)
{
    char path[SL_MPS_TEXT_BYTES];
    long pid = 0;
    snprintf(path, sizeof path, "%s/" PID_FILE, folder);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%ld", &pid) != 1 || pid < 0)
        pid = 0;
    fclose(f);
    return pid;
}

void sl_mps_look(struct sl_mps *out)
{
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    const char *folder = named && *named ? named : FOLDER;
    char path[SL_MPS_TEXT_BYTES], who[48] = "";
    struct stat socket_file;
    *out = (struct sl_mps){0};
    snprintf(path, sizeof path, "%.400s/control", folder);
    int err = probe(path);
    if (err == ENOENT || err == ENOTDIR)
        snprintf(out->found, sizeof out->found, "no MPS control daemon at %.400s", folder);
    else if (err == ECONNREFUSED)
        snprintf(out->found, sizeof out->found,
                 "no MPS control daemon listens at %.400s, which an earlier one has left", folder);
    else if (err)
        snprintf(out->found, sizeof out->found, "the MPS control daemon at %.400s: %s", folder,
                 strerror(err));
    else if (stat(path, &socket_file) == 0 && socket_file.st_uid != 0 &&
             socket_file.st_uid != geteuid())
        snprintf(out->found, sizeof out->found,
                 "the MPS control daemon at %.400s is another user's (%u)", folder,
                 (unsigned)socket_file.st_uid);
    else {
        long pid = pid_in(folder);
        out->serves = true;
        if (pid)
            snprintf(who, sizeof who, " (process %ld)", pid);
        snprintf(out->found, sizeof out->found, "the MPS control daemon at %.400s%s", folder, who);
    }
}

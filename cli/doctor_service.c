/*
 * doctor_service.c - what is around a job: a daemon, the libraries, a container, the terminal,
 * systemd. None of it can stop `sluice run`, so nothing here is a problem.
 */
#include "cli/doctor.h"

#include <curses.h>
#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>
#include <zmq.h>

#include "cli/job_list.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "common/bus/runtime_dir.h"
#include "common/text/json.h"

// --- the daemon ----------------------------------------------------------------------------------

// Where a daemon that lives says that its page is; it has to answer for that.
static void ask_daemon(struct sl_doctor_check *c, const struct sl_session_where *where)
{
    cJSON *list = NULL;
    if (sl_job_list(where, &list) < 0) {
        sl_doctor_advise(c, SL_VERDICT_WARNING, "%s", sl_error_message());
        return;
    }
    const char *page = sl_json_string(list, "daemon.page");
    size_t used = strlen(c->found);
    if (*page)
        snprintf(c->found + used, sizeof c->found - used, ", page %.400s", page);
    cJSON_Delete(list);
}

static void check_daemon(struct sl_doctor *d, const struct sl_session_where *where)
{
    char dir[SL_RUNTIME_DIR_BYTES];
    struct sl_runtime_holder holder;
    if (where->connect) {
        ask_daemon(sl_doctor_add(d, "daemon", "daemon", "at %.600s", where->connect), where);
        return;
    }
    if (sl_runtime_dir_find(where->runtime_dir, dir) < 0) {
        sl_doctor_advise(sl_doctor_add(d, "daemon", "daemon", "its directory has no name"),
                         SL_VERDICT_WARNING, "%s", sl_error_message());
        return;
    }
    int rc = sl_runtime_dir_look(dir, &holder);
    if (rc == SL_ENOENT || (rc == SL_OK && !holder.alive)) {
        sl_doctor_add(d, "daemon", "daemon",
                      "none at %.600s ('sluice run' needs none; 'sluice-broker &' starts one)",
                      dir);
        return;
    }
    if (rc < 0) {
        sl_doctor_advise(sl_doctor_add(d, "daemon", "daemon", "not known, at %.600s", dir),
                         SL_VERDICT_WARNING, "%s", sl_error_message());
        return;
    }
    struct sl_doctor_check *c =
        sl_doctor_add(d, "daemon", "daemon", "process %d, version %s, at %.600s", (int)holder.pid,
                      holder.version, dir);
    if (strcmp(holder.version, SL_VERSION) != 0)
        sl_doctor_advise(
            c, SL_VERDICT_WARNING,
            "this program is version %s: restart the daemon; its jobs leave checkpoints, from "
            "which those with \"resume\": \"auto\" go on, and others by 'sluice resume'",
            SL_VERSION);
    else
        ask_daemon(c, where);
}

// --- libraries -----------------------------------------------------------------------------------

// Of the library that sluice-broker serves its page by.
static const char *microhttpd_version(void)
{
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < SL_COUNT_OF(names); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    const char *(*version)(void) = NULL;
    if (library)
        *(void **)&version = dlsym(library, "MHD_get_version");
    return version ? version() : "not found";
}

static void check_libraries(struct sl_doctor *d)
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    bool curve = zmq_has("curve") == 1;
    struct sl_doctor_check *c = sl_doctor_add(
        d, "libraries", "libraries", "libzmq %d.%d.%d %s CURVE, libuv %s, libmicrohttpd %s, %s",
        major, minor, patch, curve ? "with" : "without", uv_version_string(), microhttpd_version(),
        curses_version());
    if (!curve)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM,
                         "no job can run, since its processes know one another by CURVE: use a "
                         "libzmq that was built with libsodium");
}

// --- where it runs -------------------------------------------------------------------------------

static bool names_a_container(const char *path, const char **which)
{
    static const char *const names[] = {"docker", "kubepods", "containerd", "libpod", "lxc"};
    char line[4096];
    FILE *f = fopen(path, "re");
    *which = NULL;
    while (f && !*which && fgets(line, sizeof line, f))
        for (size_t i = 0; i < SL_COUNT_OF(names); i++)
            if (strstr(line, names[i]))
                *which = names[i];
    if (f)
        fclose(f);
    return *which != NULL;
}

static void check_container(struct sl_doctor *d)
{
    const char *which = getenv("container");
    if (!which || !*which) {
        if (access("/.dockerenv", F_OK) == 0)
            which = "docker";
        else if (access("/run/.containerenv", F_OK) == 0)
            which = "podman";
        else if (!names_a_container("/proc/self/cgroup", &which))
            which = "none seen";
    }
    struct statvfs shm;
    char size[SL_UNITS_BYTES] = "absent";
    if (statvfs("/dev/shm", &shm) == 0)
        sl_units_bytes(size, shm.f_blocks * shm.f_frsize);
    sl_doctor_add(d, "container", "container",
                  "%.100s; /dev/shm is %s, which does not matter: a job's memory is a memfd", which,
                  size);
}

static void check_terminal(struct sl_doctor *d)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    setlocale(LC_CTYPE, "");
    const char *codeset = nl_langinfo(CODESET);
    bool utf8 = strcmp(codeset, "UTF-8") == 0;
    struct sl_doctor_check *c = sl_doctor_add(
        d, "terminal", "terminal", "TERM=%.100s, %s%s%s", term && *term ? term : "(not set)",
        codeset, no_color && *no_color ? ", NO_COLOR" : "",
        isatty(STDOUT_FILENO) ? "" : ", standard output is no terminal");
    bool dumb = !term || !*term || strcmp(term, "dumb") == 0;
    if (isatty(STDOUT_FILENO) && dumb)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "progress is shown as plain lines, and 'sluice top' has only --once: set "
                         "TERM to what the terminal is, such as xterm-256color");
    else if (isatty(STDOUT_FILENO) && !utf8)
        sl_doctor_advise(
            c, SL_VERDICT_WARNING,
            "'sluice top' draws with plain characters: a UTF-8 locale (LC_ALL=C.UTF-8) "
            "gives it more");
}

static void check_notify(struct sl_doctor *d)
{
    const char *socket = getenv("NOTIFY_SOCKET"), *watchdog = getenv("WATCHDOG_USEC");
    if (!socket || !*socket) {
        sl_doctor_add(d, "systemd", "systemd", "%s",
                      access("/run/systemd/system", F_OK) == 0
                          ? "runs this machine; scripts/sluice.service is a unit for a daemon"
                          : "does not run this machine");
        return;
    }
    sl_doctor_add(d, "systemd", "systemd", "waits for word at %.400s%s%.60s", socket,
                  watchdog ? ", watchdog us " : "", watchdog ? watchdog : "");
}

void sl_doctor_check_service(struct sl_doctor *d, const struct sl_session_where *where)
{
    check_daemon(d, where);
    check_libraries(d);
    check_container(d);
    check_terminal(d);
    check_notify(d);
}

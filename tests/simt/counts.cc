/*
 * counts.cc - what is counted, for tests (counts.h) and as a line a process (SLUICE_SIMT_COUNTS).
 */
#include "tests/simt/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

namespace simt {

namespace {

simt_counts so_far; // guarded by lock()

// {"process": 4711, "waits": 12, ..., "peer_bytes": [0, 4096]}: a line at the end of a process, in one piece.
void tell()
{
    std::lock_guard<big_lock> hold(lock());
    char line[2048];
    int n = snprintf(line, sizeof line, "{\"process\": %d", (int)getpid());
#define SIMT_TELL(name, text)                                                                      \
    n += snprintf(line + n, sizeof line - (size_t)n, ", \"" #name "\": %llu",                      \
                  (unsigned long long)so_far.name);
    SIMT_COUNTS(SIMT_TELL)
#undef SIMT_TELL
    n += snprintf(line + n, sizeof line - (size_t)n, ", \"peer_bytes\": [");
    for (int i = 0; i < settings().devices; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%llu", i ? ", " : "",
                      (unsigned long long)so_far.peer_bytes[i]);
    n += snprintf(line + n, sizeof line - (size_t)n, "]}\n");
    int file = open(settings().counts, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line, (size_t)n) != n)
        report("SYSTEM", "SLUICE_SIMT_COUNTS: %m");
    close(file);
}

} // namespace

simt_counts &counts()
{
    static bool tells;
    if (!tells) {
        tells = true;
        if (settings().counts)
            atexit(tell);
    }
    return so_far;
}

} // namespace simt

extern "C" __attribute__((visibility("default"))) void sluice_simt_counts(simt_counts *out)
{
    std::lock_guard<simt::big_lock> hold(simt::lock());
    *out = simt::counts();
}

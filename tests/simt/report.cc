/*
 * report.cc - how the emulation says what it found: one line on standard error, and abort().
 *
 * A fault of the processor is turned into such a line too: a null pointer in a kernel, a host that
 * follows a pointer to device memory, a stack that ran over.
 */
#include "tests/simt/internal.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace simt {

namespace {

enum { SIGNAL_STACK_BYTES = 64 << 10 };

void on_fault(int signal, siginfo_t *info, void *)
{
    if (running.kernel && is_lost_memory(info->si_addr))
        abandon(cudaErrorIllegalAddress);
    static thread_local volatile sig_atomic_t again;
    if (again++) {
        ::signal(signal, SIG_DFL);
        raise(signal);
        _exit(128 + signal);
    }
    char where[256];
    describe_address(info->si_addr, where, sizeof where);
    if (running.kernel)
        report("FAULT", "signal %d (%s) at %s", signal, strsignal(signal), where);
    report("HOST ACCESS", "the host's code touched %s; signal %d (%s)", where, signal,
           strsignal(signal));
}

void before(int signal, struct sigaction *old)
{
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &ours, old);
}

} // namespace

void catch_faults()
{
    static thread_local bool done;
    if (done)
        return;
    done = true;
    stack_t stack = {};
    stack.ss_size = SIGNAL_STACK_BYTES;
    stack.ss_sp =
        mmap(NULL, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp != MAP_FAILED)
        sigaltstack(&stack, NULL);
    static bool installed;
    if (installed)
        return;
    installed = true;
    for (int signal : {SIGSEGV, SIGBUS}) {
        struct sigaction old;
        before(signal, &old);
    }
}

void describe_code(const void *address, char *out, size_t bytes)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        snprintf(out, bytes, "%p", address);
        return;
    }
    size_t offset = (size_t)((const char *)address - (const char *)info.dli_fbase) - 1;
    snprintf(out, bytes, "%s+0x%zx", info.dli_fname, offset);
    char command[1200];
    snprintf(command, sizeof command, "addr2line -Cfsie '%s' 0x%zx 2>/dev/null", info.dli_fname,
             offset);
    FILE *pipe = popen(command, "re");
    if (!pipe)
        return;
    char function[300] = "", place[300] = "";
    if (fgets(function, sizeof function, pipe) && fgets(place, sizeof place, pipe)) {
        function[strcspn(function, "\n")] = place[strcspn(place, "\n")] = 0;
        if (function[0] != '?')
            snprintf(out, bytes, "%s (%s)", function, place);
    }
    pclose(pipe);
}

void report(const char *what, const char *fmt, ...)
{
    char text[1500], where[400] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const call *k = running.kernel;
    if (k) {
        uint32_t x = running.thread % k->block.x, y = running.thread / k->block.x % k->block.y;
        snprintf(where, sizeof where,
                 " in %s<<<(%u,%u,%u), (%u,%u,%u)>>>, block (%u,%u,%u), thread "
                 "(%u,%u,%u)",
                 k->name, k->grid.x, k->grid.y, k->grid.z, k->block.x, k->block.y, k->block.z,
                 block_idx.x, block_idx.y, block_idx.z, x, y,
                 running.thread / k->block.x / k->block.y);
    }
    fprintf(stderr, "simt: %s%s: %s (SLUICE_SIMT_SEED=%s)\n", what, where, text,
            getenv("SLUICE_SIMT_SEED") ? getenv("SLUICE_SIMT_SEED") : "0");
    fflush(stderr);
    abort();
}

} // namespace simt

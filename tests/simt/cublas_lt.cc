/*
 * cublas_lt.cc - what the emulation lends a library that stands in for cuBLASLt.
 */
#include "tests/simt/cublas_lt.h"
#include "tests/simt/internal.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <memory>

using namespace simt;

namespace {

bool give(cudaStream_t stream, void (*step)(void *), void *context)
{
    std::shared_ptr<void> kept(context, free);
    give_waiting(stream, [step, kept] {
        window open;
        step(kept.get());
        return true;
    });
    return true;
}

bool is_reached(const void *p, size_t bytes)
{
    std::lock_guard<big_lock> hold(lock());
    const range *r = find_range(p);
    return r && !r->is_lost && (uintptr_t)p + bytes <= r->end;
}

void say(const char *what, const char *text)
{
    report(what, "%s", text);
}

const struct simt_lent lent = {give, is_reached, say};

} // namespace

void *simt_lt_open(void)
{
    const char *file = getenv("SLUICE_SIMT_CUBLAS");
    if (!file || !file[0])
        return NULL;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        report("SETTINGS", "SLUICE_SIMT_CUBLAS: %s", dlerror());
    void *take = dlsym(library, SIMT_LT_TAKE_SYMBOL);
    if (!take)
        report("SETTINGS", "SLUICE_SIMT_CUBLAS: %s is not for emulated memory", file);
    reinterpret_cast<void (*)(const struct simt_lent *)>(take)(&lent);
    return library;
}

// backends.c - the tables of operations: ref, cpu, and that of the plug-in's GPU.
#include "kernels/kernels.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/device/cores.h"
#include "common/base/error.h"
#include "common/device/plugin.h"
#include "kernels/kernels_internal.h"

#define SLOT(backend, slot)                            .slot = sl_##backend##_##slot,
#define SAMPLE(backend, constant, word, kernel, flags) sl_##backend##_##kernel,
#define TABLE(backend)                                                                             \
    {                                                                                              \
        .name = #backend, .sample = {SL_SAMPLER_LIST(SAMPLE, backend)},                            \
        SL_KERNELS_SLOTS(SLOT, backend)                                                            \
    }

static const struct sl_kernels table_ref = TABLE(ref);
static const struct sl_kernels table_cpu = TABLE(cpu);

static const struct sl_kernels *const tables[] = {&table_ref, &table_cpu};

const struct sl_kernels *sl_kernels_ref(void)
{
    return &table_ref;
}

const struct sl_kernels *sl_kernels_cpu(void)
{
    return &table_cpu;
}

// The table of a plug-in whose GPU is open. SL_EPROTO when it is of another build.
static int table_of(const struct sl_plugin *plugin, const struct sl_kernels **out)
{
    if (plugin->kernels_bytes != sizeof *plugin->kernels)
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its table of operations has %u bytes, this "
                       "program's %zu: build both together",
                       sl_plugin_path(), plugin->kernels_bytes, sizeof *plugin->kernels);
    *out = plugin->kernels;
    return SL_OK;
}

int sl_kernels_open_gpu(uint32_t index, uint64_t budget_bytes, const struct sl_device **device,
                        const struct sl_kernels **kernels)
{
    const struct sl_plugin *plugin;
    SL_TRY(sl_plugin_open(&plugin));
    SL_TRY(plugin->open(index, budget_bytes));
    *device = plugin->device;
    return table_of(plugin, kernels);
}

static const struct sl_kernels *find_cuda(void)
{
    const struct sl_plugin *plugin = sl_plugin_opened();
    const struct sl_kernels *table = NULL;
    return plugin && plugin->kernels && table_of(plugin, &table) == SL_OK ? table : NULL;
}

const struct sl_kernels *sl_kernels_find(const char *name)
{
    if (name && strcmp(name, "cuda") == 0)
        return find_cuda();
    for (size_t i = 0; i < SL_COUNT_OF(tables); i++)
        if (name && strcmp(tables[i]->name, name) == 0)
            return tables[i];
    return NULL;
}

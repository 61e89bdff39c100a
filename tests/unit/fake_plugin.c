/*
 * fake_plugin.c - a plug-in that is wrong in the way that FAKE_PLUGIN in the environment names:
 * test_device_plugin.c opens it. Built as a shared object of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "common/device/plugin.h"

static struct sl_plugin plugin;

const struct sl_plugin *sluice_plugin(const struct sl_plugin_host *host);

const struct sl_plugin *sluice_plugin(const struct sl_plugin_host *host)
{
    const char *wrong = getenv("FAKE_PLUGIN");
    wrong = wrong ? wrong : "";
    plugin = (struct sl_plugin){
        .abi = SL_PLUGIN_ABI,
        .bytes = sizeof plugin,
        .device_bytes = sizeof(struct sl_device),
        .version = SL_VERSION,
    };
    if (strcmp(wrong, "refuses") == 0)
        return NULL;
    if (strcmp(wrong, "abi") == 0)
        plugin.abi = 1000;
    if (strcmp(wrong, "bytes") == 0)
        plugin.bytes = 8;
    if (strcmp(wrong, "device") == 0)
        plugin.device_bytes = 16;
    if (strcmp(wrong, "version") == 0)
        plugin.version = "0.0.1";
    if (strcmp(wrong, "speaks") == 0) {
        host->fail(-3, "said by the plug-in");
        host->log(1, "logged by the plug-in");
    }
    return &plugin;
}

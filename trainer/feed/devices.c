#include "trainer/feed/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/log.h"
#include "common/device/plugin.h"

bool sl_devices_asked(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--devices") == 0;
}

// What the plug-in says, or why there is none to ask.
static void look(struct sl_gpu_report *report)
{
    const struct sl_plugin *plugin = NULL;
    memset(report, 0, sizeof *report);
    if (sl_plugin_open(&plugin) == SL_OK)
        plugin->report(report);
    else
        sl_plugin_report_none(report);
}

// One of n.
static void add_gpu(cJSON *list, uint32_t n, uint32_t index, const struct sl_gpu *gpu)
{
    char capability[16];
    cJSON *item = cJSON_CreateObject();
    cJSON *peers = cJSON_CreateArray();
    snprintf(capability, sizeof capability, "%u.%u", gpu->major, gpu->minor);
    cJSON *links = cJSON_CreateArray();
    for (uint32_t i = 0; i < n; i++)
        cJSON_AddItemToArray(links, cJSON_CreateNumber(gpu->link[i]));
    for (uint32_t i = 0; i < SL_PLUGIN_DEVICES_MAX; i++)
        if (gpu->peers >> i & 1)
            cJSON_AddItemToArray(peers, cJSON_CreateNumber(i));
    cJSON_AddNumberToObject(item, "index", index);
    cJSON_AddStringToObject(item, "name", gpu->name);
    cJSON_AddStringToObject(item, "compute_capability", capability);
    cJSON_AddNumberToObject(item, "processors", gpu->processors);
    cJSON_AddNumberToObject(item, "memory_total", (double)gpu->total_bytes);
    cJSON_AddNumberToObject(item, "memory_free", (double)gpu->free_bytes);
    cJSON_AddStringToObject(item, "bus_id", gpu->bus_id);
    cJSON_AddStringToObject(item, "cores", gpu->cores);
    cJSON_AddItemToObject(item, "peers", peers);
    cJSON_AddItemToObject(item, "links", links);
    cJSON_AddBoolToObject(item, "maps_files", gpu->maps_files);
    cJSON_AddItemToArray(list, item);
}

// Owned by the caller (free()); NULL when there is no memory.
static char *text_of(const struct sl_gpu_report *report)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *list = cJSON_CreateArray();
    cJSON_AddStringToObject(root, "schema", "sluice.devices/1");
    cJSON_AddStringToObject(root, "plugin", sl_plugin_path());
    cJSON_AddNumberToObject(root, "driver_version", report->driver_version);
    cJSON_AddNumberToObject(root, "runtime_version", report->runtime_version);
    cJSON_AddStringToObject(root, "cublas", report->cublas);
    cJSON_AddStringToObject(root, "nccl", report->nccl);
    cJSON_AddStringToObject(root, "problem", report->problem);
    cJSON_AddItemToObject(root, "devices", list);
    for (uint32_t i = 0; i < report->n; i++)
        add_gpu(list, report->n, i, &report->gpu[i]);
    char *text = sl_json_pages(root);
    cJSON_Delete(root);
    return text;
}

int sl_devices_main(void)
{
    static struct sl_gpu_report report; // too large for a stack
    sl_log_init("devices");
    look(&report);
    char *text = text_of(&report);
    bool written = text && printf("%s\n", text) > 0 && fflush(stdout) == 0;
    free(text);
    if (!written)
        fprintf(stderr, "sluice-trainer: --devices: the answer could not be written\n");
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

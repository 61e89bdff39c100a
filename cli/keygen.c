/*
 * keygen.c - `sluice keygen`: keys for control and statistics over TCP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/text/units.h"
#include "common/base/error.h"
#include "common/bus/curve_keys.h"
#include "cli/output.h"
#include "cli/command.h"

enum { PATH_BYTES = 4096 };

struct request {
    const char *directory, *client;
    int output;
    // what there is afterwards
    char daemon_path[PATH_BYTES], client_path[PATH_BYTES];
    uint32_t n_clients;
    char daemon_key[SL_CURVE_KEY_TEXT], client_key[SL_CURVE_KEY_TEXT]; // the public ones
};

static int print_json(const struct request *m)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sluice.keygen/1");
    cJSON_AddStringToObject(root, "daemon", m->daemon_path);
    cJSON_AddStringToObject(root, "daemon_public", m->daemon_key);
    cJSON_AddStringToObject(root, "client", m->client_path);
    cJSON_AddStringToObject(root, "client_name", m->client);
    cJSON_AddStringToObject(root, "client_public", m->client_key);
    cJSON_AddNumberToObject(root, "clients", m->n_clients);
    return sl_output_json_pages(root, "keygen");
}

static void print_text(const struct request *m)
{
    printf("made  %s  of client '%s'\n", m->client_path, m->client);
    printf("%s  %s  of the daemon; %s may connect\n", m->n_clients == 1 ? "made" : "with",
           m->daemon_path, SL_PLURAL(m->n_clients, "client"));
    printf("\non the daemon's machine (started again, it knows the client):\n"
           "  sluice-broker --listen tcp://0.0.0.0:7400 --keys %s\n"
           "on the client's, which gets %s and nothing else:\n"
           "  sluice ps --connect tcp://HOST:7400 --key %s.key\n",
           m->daemon_path, m->client_path, m->client);
}

// What there is now, of the files themselves: so they can be read, too.
static int read_back(struct request *m)
{
    int rc;
    struct sl_curve *keys = malloc(sizeof *keys);
    if (!keys)
        return sl_fail(SL_ENOMEM, "keygen: no memory");
    snprintf(m->daemon_path, sizeof m->daemon_path, "%s/daemon.key", m->directory);
    snprintf(m->client_path, sizeof m->client_path, "%s/%s.key", m->directory, m->client);
    SL_TRY_OUT(sl_curve_read(m->daemon_path, keys));
    m->n_clients = keys->n_clients;
    memcpy(m->daemon_key, keys->public_key, sizeof m->daemon_key);
    SL_TRY_OUT(sl_curve_read(m->client_path, keys));
    memcpy(m->client_key, keys->public_key, sizeof m->client_key);
out:
    explicit_bzero(keys, sizeof *keys);
    free(keys);
    return rc;
}

static int keygen(void *state)
{
    struct request *m = state;
    if (strlen(m->directory) > PATH_BYTES - 128)
        return sl_fail(SL_ERANGE, "keygen: --out: a path of %zu bytes is too long",
                       strlen(m->directory));
    SL_TRY(sl_curve_generate(m->directory, m->client));
    SL_TRY(read_back(m));
    if (m->output == SL_OUTPUT_JSON)
        return print_json(m);
    print_text(m);
    return SL_EXIT_OK;
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "out", AT(TEXT, directory), .placeholder = "DIR", .required = true, .no_default = true,
     .help = "where the files go; made (0700) if it is not there"},
    {.name = "client", AT(TEXT, client), .placeholder = "NAME",
     .help = "name of the new client: its keys are in the file NAME.key"},
    {0},
};
// clang-format on

const struct sl_command sl_command_keygen = {
    .name = "keygen",
    .help = "make keys for a daemon that listens on TCP",
    .about = "Makes keys for a daemon that listens on TCP (CURVE: encrypted, and both sides "
             "know each other). The first time it makes daemon.key and one client's file; "
             "after that it adds one more client to daemon.key. A client whose key is not in "
             "daemon.key cannot connect; take its line out to keep it out, and start the "
             "daemon again. Nobody else may read the files (0600): others are refused. Who has a "
             "key can do with jobs what the daemon's user can, but write only below its "
             "--output-root.",
    .example = "sluice keygen --out keys\n"
               "sluice keygen --out keys --client laptop\n"
               "sluice-broker --listen tcp://0.0.0.0:7400 --keys keys/daemon.key\n"
               "sluice ps --connect tcp://HOST:7400 --key laptop.key",
    .options = {{options}, {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.client = "client"},
    .run = keygen,
};

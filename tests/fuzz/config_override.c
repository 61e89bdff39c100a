// An override of a job file ("--set KEY=VALUE"): as a job file.
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "config/config.h"
#include "tests/fuzz/fuzz.h"

static const char job[] =
    "{\"dataset\": \"data\", \"model\": {\"kind\": \"graphsage\", \"layers\": 2, \"hidden\": 64},\n"
    " \"sampler\": {\"fanout\": [10, 5], \"batch_size\": 1000}, \"epochs\": 12,\n"
    " \"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.1, \"momentum\": 0.9},\n"
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": 0}, {\"kind\": \"cpu\", \"cores\": 0}],\n"
    " \"schedule\": [{\"epoch\": 3, \"samplers\": 1, \"trainers\": 1}],\n"
    " \"evaluate\": {\"every\": 1, \"fanout\": \"full\"}}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct sl_config config, again;
    const char *path = fuzz_file(0, job, sizeof job - 1);
    char *text = fuzz_text(data, n);
    struct sl_config_override override = {text};
    int rc = sl_config_load(path, &override, 1, &config);
    if (rc < 0) {
        const char *said = sl_error_message();
        FUZZ_WANT(strncmp(said, "--set", 5) == 0 || strncmp(said, path, strlen(path)) == 0);
        FUZZ_WANT(!strchr(said, '\n'));
    } else {
        char *resolved = sl_config_to_json(&config);
        FUZZ_WANT(sl_config_parse(resolved, strlen(resolved), "resolved", &again) == SL_OK);
        free(resolved);
    }
    free(text);
    return 0;
}

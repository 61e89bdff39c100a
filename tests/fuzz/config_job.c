// A job file: refused with one line that names it, or accepted, and then what it resolves to is
// accepted too and resolves to itself.
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "config/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char name[] = "job.json";
    static struct sl_config config, again;
    if (sl_config_parse((const char *)data, n, name, &config) < 0) {
        FUZZ_WANT(strncmp(sl_error_message(), name, sizeof name - 1) == 0);
        FUZZ_WANT(!strchr(sl_error_message(), '\n'));
        return 0;
    }
    char *text = sl_config_to_json(&config);
    FUZZ_WANT(text && sl_config_parse(text, strlen(text), "resolved", &again) == SL_OK);
    char *twice = sl_config_to_json(&again);
    FUZZ_WANT(twice && strcmp(text, twice) == 0);
    free(text);
    free(twice);
    return 0;
}

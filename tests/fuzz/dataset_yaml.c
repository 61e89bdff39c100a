// A YAML file of a data set to be imported: a tree that can be printed, or one line that names it.
#include <stdlib.h>
#include <string.h>

#include "dataset/yaml_reader.h"
#include "common/base/error.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char name[] = "metadata.yaml";
    cJSON *tree;
    if (sl_yaml_parse((const char *)data, n, name, &tree) < 0) {
        FUZZ_WANT(strncmp(sl_error_message(), name, sizeof name - 1) == 0);
        FUZZ_WANT(!strchr(sl_error_message(), '\n'));
        return 0;
    }
    char *text = cJSON_PrintUnformatted(tree);
    FUZZ_WANT(text);
    free(text);
    cJSON_Delete(tree);
    return 0;
}

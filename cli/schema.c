// `sluice schema`: the JSON Schema of the job file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "common/base/error.h"
#include "config/config.h"

static int print_schema(void *state)
{
    char *text = sl_config_schema();
    if (!text)
        return sl_fail(SL_ENOMEM, "schema: no memory");
    size_t n = strlen(text);
    printf("%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
    free(text);
    return SL_EXIT_OK;
}

const struct sl_command sl_command_schema = {
    .name = "schema",
    .help = "print the JSON Schema of the job file",
    .about = "Prints the JSON Schema of the job file on standard output, from the same table "
             "that validates it. Editors complete and check job files with it.",
    .example = "sluice schema > job.schema.json",
    .run = print_schema,
};

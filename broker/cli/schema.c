#include "broker/cli/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "config/config.h"
#include "broker/cli/options.h"

int sl_command_schema(int argc, char **argv)
{
    const struct sl_command_usage usage = {
        .command = "schema",
        .about = "Prints the JSON Schema of the job file on standard output, from the same table "
                 "that validates it. Editors complete and check job files with it.",
        .example = "sluice schema > job.schema.json",
    };
    int rc = sl_options_parse(&usage, argc, argv);
    if (rc != SL_OK)
        return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
    char *text = sl_config_schema();
    if (!text)
        return sl_fail(SL_ENOMEM, "schema: no memory");
    size_t length = 0;
    for (; text[length]; length++)
        ;
    fwrite(text, 1, length, stdout);
    if (length == 0 || text[length - 1] != '\n')
        putchar('\n');
    free(text);
    return SL_EXIT_OK;
}

// `sluice schema`: the JSON Schema of the job file, and its keys in words.
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "common/base/error.h"
#include "config/config.h"

struct schema {
    const char *key;
    bool text;
};

static int print_schema(void *state)
{
    const struct schema *s = state;
    char *text = NULL;
    if (s->key || s->text)
        SL_TRY(sl_config_explain(s->key, &text));
    else if (!(text = sl_config_schema()))
        return sl_fail(SL_ENOMEM, "schema: no memory");
    fputs(text, stdout);
    free(text);
    return SL_EXIT_OK;
}

static const struct sl_option options[] = {
    {.name = "text", SL_OPTION_AT(FLAG, schema, text), .help = "all keys in words, as with a KEY"},
    {0},
};

const struct sl_command sl_command_schema = {
    .name = "schema",
    .help = "what each key of the job file means; its JSON Schema",
    .about =
        "Prints what a KEY of the job file may hold, its default and what it means, or all "
        "keys of a part of the job. Without a KEY: the JSON Schema of the job file, with which "
        "editors complete and check it.",
    .example = "sluice schema sampler.fanout\nsluice schema evaluate\nsluice schema > "
               "job.schema.json",
    .operands = {{.name = "KEY", .offset = offsetof(struct schema, key), .optional = true}},
    .options = {{options}},
    .bytes = sizeof(struct schema),
    .run = print_schema,
};

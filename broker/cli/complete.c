#include "broker/cli/complete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/cli/session.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "config/config.h"

// Nobody waits longer for a list of names.
enum { SECONDS_MAX = 2, PATH_BYTES = 256 };

// The line that is completed: words[n - 1] is begun, "" when nothing of it is there.
static struct {
    bool active;
    char **words;
    int n;
    // Other words that say where the daemon is.
    struct sl_session_where where;
} line;

static const char *current(void)
{
    return line.words[line.n - 1];
}

// --- candidates ----------------------------------------------------------------------------------

// prefix is what stands in front of the value in the same word, as in "--output=".
static void offer(const char *prefix, const char *text, const char *about)
{
    const char *typed = current();
    size_t length = strlen(prefix);
    if (strncmp(typed, prefix, length) != 0 ||
        strncmp(typed + length, text, strlen(typed + length)) != 0)
        return;
    printf("%s%s\t%.*s\n", prefix, text, (int)strcspn(about ? about : "", "\n"),
           about ? about : "");
}

static void offer_commands(const struct sl_command *commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (commands[i].help)
            offer("", commands[i].name, commands[i].help);
}

// Jobs of the daemon and of `sluice run`; all: those that are over, too.
static void offer_jobs(bool all)
{
    char *json = NULL;
    if (sl_session_list(&line.where, &json) < 0)
        return;
    cJSON *list = cJSON_Parse(json);
    const cJSON *job;
    cJSON_ArrayForEach(job, cJSON_GetObjectItemCaseSensitive(list, "jobs"))
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(job, "name");
        const cJSON *state = cJSON_GetObjectItemCaseSensitive(job, "state");
        if (!cJSON_IsString(name) || !cJSON_IsString(state))
            continue;
        const char *is = state->valuestring;
        bool over = !strcmp(is, "done") || !strcmp(is, "failed") || !strcmp(is, "stopped");
        if (all || !over)
            offer("", name->valuestring, is);
    }
    cJSON_Delete(list);
    free(json);
}

// Keys of the job file, from its schema: "model.kind=", or the words that one takes.
static void offer_keys(const char *prefix, const cJSON *schema, const char *path)
{
    const cJSON *key;
    cJSON_ArrayForEach(key, cJSON_GetObjectItemCaseSensitive(schema, "properties"))
    {
        char full[PATH_BYTES];
        const cJSON *about = cJSON_GetObjectItemCaseSensitive(key, "description");
        const cJSON *words = cJSON_GetObjectItemCaseSensitive(key, "enum"), *word;
        if (key->string[0] == '$')
            continue;
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", key->string);
        if (cJSON_HasObjectItem(key, "properties")) {
            offer_keys(prefix, key, full);
            continue;
        }
        size_t n = strlen(full);
        snprintf(full + n, sizeof full - n, "=");
        // Not before the '=' is there: the list would be long.
        bool chosen = strncmp(current() + strlen(prefix), full, n + 1) == 0;
        if (!chosen || !words)
            offer(prefix, full, cJSON_IsString(about) ? about->valuestring : "");
        cJSON_ArrayForEach(word, words)
        {
            char value[2 * PATH_BYTES];
            snprintf(value, sizeof value, "%s%s", full, word->valuestring ? word->valuestring : "");
            if (chosen && cJSON_IsString(word))
                offer(prefix, value, "");
        }
    }
}

static void offer_settings(const char *prefix)
{
    char *text = sl_config_schema();
    cJSON *schema = text ? cJSON_Parse(text) : NULL;
    offer_keys(prefix, schema, "");
    cJSON_Delete(schema);
    free(text);
}

// "bash|zsh"; what a number follows, as in "cuda:N", is not a word yet.
static void offer_words(const char *prefix, const char *words)
{
    char word[64];
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (!strchr(word, ':'))
            offer(prefix, word, "");
        words += n + (words[n] == '|');
    }
}

// What a placeholder or an operand is called says what it wants.
static void offer_value(const struct sl_command_usage *u, const char *prefix, const char *wanted)
{
    static const char *const of_all[] = {"logs", "resume", "wait", "report"};
    const char *dot = strchr(wanted, '.');
    bool all = false;
    for (size_t i = 0; i < SL_COUNT_OF(of_all); i++)
        all |= strcmp(u->command, of_all[i]) == 0;
    if (!strcmp(wanted, "JOB") || !strcmp(wanted, "RUN"))
        offer_jobs(all);
    if (strchr(wanted, '|')) // "bash|zsh"
        offer_words(prefix, wanted);
    else if (!strcmp(wanted, "PATH=VALUE"))
        offer_settings(prefix);
    else if (!strncmp(wanted, "DIR", 3) || !strcmp(wanted, "RUN"))
        printf(":directories\n");
    else if (dot && dot[1] && !strchr(dot, '/')) // "JOB.json", "FILE.npy"
        printf(":files *%s\n", dot);
    else if (!strcmp(wanted, "FILE") || !strcmp(wanted, "SRC"))
        printf(":files\n");
    else if (strlen(wanted) > 2 && wanted[strlen(wanted) - 2] == '=') { // "samplers=N"
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strlen(wanted) - 1, wanted);
        offer("", name, "");
    }
}

// --- options -------------------------------------------------------------------------------------

static const struct sl_option *find_option(const struct sl_command_usage *u, const char *word)
{
    for (size_t i = 0; i < u->n_options; i++) {
        const struct sl_option *o = &u->options[i];
        if (word[0] == '-' && word[1] == '-' &&
            (!strcmp(word + 2, o->name) || (o->alias && !strcmp(word + 2, o->alias))))
            return o;
        // Of letters put together the last one takes the value.
        if (word[0] == '-' && word[1] && word[1] != '-' && o->letter &&
            word[strlen(word) - 1] == o->letter)
            return o;
    }
    return NULL;
}

static bool takes_value(const struct sl_option *o)
{
    return o && o->type != SL_OPTION_FLAG;
}

static void offer_option_value(const struct sl_command_usage *u, const struct sl_option *o,
                               const char *prefix)
{
    if (o->type == SL_OPTION_CHOICE)
        for (size_t i = 0; o->choices[i]; i++)
            offer(prefix, o->choices[i], "");
    else if (o->placeholder)
        offer_value(u, prefix, o->placeholder);
}

static void offer_options(const struct sl_command_usage *u)
{
    for (size_t i = 0; i < u->n_options; i++) {
        const struct sl_option *o = &u->options[i];
        char name[64];
        bool turns_off = o->type == SL_OPTION_FLAG && *(bool *)o->value;
        snprintf(name, sizeof name, "--%s%s", turns_off ? "no-" : "", o->name);
        offer("", name, o->help);
    }
    offer("", "--help", "what it does, its options, an example");
}

// --- a command's line ----------------------------------------------------------------------------

// Words before the current one that are operands; *only: "--" has ended the options.
static size_t count_operands(const struct sl_command_usage *u, int first, bool *only)
{
    size_t n = 0;
    *only = false;
    for (int i = first; i < line.n - 1; i++) {
        const char *word = line.words[i];
        if (!*only && !strcmp(word, "--"))
            *only = true;
        else if (*only || word[0] != '-' || !word[1])
            n++;
        else if (!strchr(word, '=') && takes_value(find_option(u, word)))
            i++;
    }
    return n;
}

static void offer_operand(const struct sl_command_usage *u, size_t at)
{
    if (at < u->n_operands)
        offer_value(u, "", u->operands[at].name);
    else if (u->rest)
        offer_value(u, "", u->rest_name);
    // Assignments may come in any order.
    for (size_t i = 0; i < u->n_operands; i++)
        if (i != at && at > 0 && strchr(u->operands[i].name, '='))
            offer_value(u, "", u->operands[i].name);
}

// `sluice complete` looks where the daemon of the line is.
static void note_where(void)
{
    static const char *const names[] = {"--runtime-dir", "--connect", "--key"};
    const char **into[] = {&line.where.runtime_dir, &line.where.connect, &line.where.key};
    for (int i = 0; i + 2 < line.n; i++)
        for (size_t k = 0; k < SL_COUNT_OF(names); k++)
            if (!strcmp(line.words[i], names[k]))
                *into[k] = line.words[i + 1];
}

bool sl_completion_take_usage(const struct sl_command_usage *u)
{
    if (!line.active)
        return false;
    // "generate planted" has two words.
    int first = 1;
    for (const char *p = u->command; (p = strchr(p, ' ')); p++)
        first++;
    const char *word = current(), *equals = strchr(word, '=');
    bool only;
    size_t at = count_operands(u, first, &only);
    const struct sl_option *before =
        line.n - 1 > first && !only ? find_option(u, line.words[line.n - 2]) : NULL;
    note_where();
    if (takes_value(before)) {
        offer_option_value(u, before, "");
    } else if (!only && word[0] == '-' && equals) {
        char name[64], prefix[72];
        snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
        snprintf(prefix, sizeof prefix, "%s=", name);
        const struct sl_option *o = find_option(u, name);
        if (takes_value(o))
            offer_option_value(u, o, prefix);
    } else if (!only && word[0] == '-') {
        offer_options(u);
    } else {
        offer_operand(u, at);
    }
    return true;
}

bool sl_completion_take_commands(const struct sl_command *commands, size_t n)
{
    if (!line.active)
        return false;
    offer_commands(commands, n);
    offer("", "--help", "what there is");
    return true;
}

// --- the hidden command --------------------------------------------------------------------------

static void complete_first(const struct sl_command *commands, size_t n)
{
    offer_commands(commands, n);
    offer("", "help", "what a command does");
    offer("", "--help", "the commands");
    offer("", "--version", "this version");
}

int sl_command_complete(int argc, char **argv)
{
    size_t n;
    const struct sl_command *commands = sl_command_table(&n);
    int first = argc > 1 && !strcmp(argv[1], "--") ? 2 : 1;
    if (argc <= first)
        return sl_fail(SL_EINVAL, "complete: no words: shells call it, see scripts/completion");
    // A daemon that does not answer must not hold up a prompt; nor must a pipe that is closed.
    alarm(SECONDS_MAX);
    line.active = true;
    line.words = argv + first;
    line.n = argc - first;
    const char *word = line.words[0];
    if (line.n == 1) {
        complete_first(commands, n);
    } else if (!strcmp(word, "help")) {
        if (line.n == 2)
            offer_commands(commands, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            if (strcmp(commands[i].name, word) != 0 || !commands[i].help)
                continue;
            // Without the word that is begun: its table is all that is wanted of the command.
            char *words[] = {line.words[0], line.n > 2 ? line.words[1] : NULL, NULL};
            commands[i].run(line.n > 2 ? 2 : 1, words);
        }
    }
    return SL_EXIT_OK;
}

/*
 * complete.c - completes a command line for a shell: `sluice complete -- WORD...`, hidden.
 *
 * PROBLEM. A completion that lists commands and options by itself is soon out of date.
 * DESIGN. All of it comes from the descriptions that commands are parsed by (command.h). Nothing is
 * listed twice, and what a command does not accept is never offered.
 *
 * ANSWER. One candidate a line, a tab and its description behind it; or what the shell knows:
 * ":files", ":files *.json", ":directories". A candidate that ends in '=' wants no blank behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/dispatch.h"
#include "cli/job_list.h"
#include "common/text/options.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/json.h"
#include "config/config.h"
#include "common/schema/words.h"

// Nobody waits longer for a list of names.
enum { SECONDS_MAX = 2, PATH_BYTES = 256 };

// The line that is completed: words[n - 1] is begun, "" when nothing of it is there.
static struct {
    const char **words;
    int n;
    void *state; // of the command that it is for
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

static void offer_command(const struct sl_command *c)
{
    if (c->help)
        offer("", sl_dispatch_name(c), c->help);
}

// Jobs of the daemon and of `sluice run`; all: those that are over, too.
static void offer_jobs(bool all)
{
    cJSON *list = NULL;
    const cJSON *job;
    if (sl_job_list(&line.where, &list) < 0)
        return;
    cJSON_ArrayForEach(job, sl_json_at(list, "jobs"))
    {
        const char *name = sl_json_string(job, "name"), *state = sl_json_string(job, "state");
        if (*name && *state && (all || !sl_job_state_is_over(state)))
            offer("", name, state);
    }
    cJSON_Delete(list);
}

// Keys of the job file, from its schema: "model.kind=", or the words that one takes. With `bare`
// "model.kind", and "model" that it is of.
static void offer_keys(const char *prefix, const cJSON *schema, const char *path, bool bare)
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
        const bool inner = cJSON_HasObjectItem(key, "properties");
        size_t n = strlen(full);
        snprintf(full + n, sizeof full - n, bare ? "" : "=");
        // Not before the '=' is there: the list would be long.
        bool chosen = !bare && strncmp(current() + strlen(prefix), full, n + 1) == 0;
        if (bare || (!inner && (!chosen || !words)))
            offer(prefix, full, cJSON_IsString(about) ? about->valuestring : "");
        full[n] = '\0';
        if (inner)
            offer_keys(prefix, key, full, bare);
        if (inner || !chosen)
            continue;
        cJSON_ArrayForEach(word, words)
        {
            char value[2 * PATH_BYTES];
            snprintf(value, sizeof value, "%s=%s", full,
                     word->valuestring ? word->valuestring : "");
            if (cJSON_IsString(word))
                offer(prefix, value, "");
        }
    }
}

static void offer_settings(const char *prefix, bool bare)
{
    char *text = sl_config_schema();
    cJSON *schema = text ? cJSON_Parse(text) : NULL;
    offer_keys(prefix, schema, "", bare);
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
static void offer_value(const struct sl_command *c, const char *prefix, const char *wanted)
{
    const char *dot = strchr(wanted, '.');
    if (!strcmp(wanted, "JOB") || !strcmp(wanted, "RUN"))
        offer_jobs(c->of_ended_jobs);
    if (strchr(wanted, '|')) // "bash|zsh"
        offer_words(prefix, wanted);
    else if (!strcmp(wanted, "PATH=VALUE") || !strcmp(wanted, "KEY"))
        offer_settings(prefix, !strcmp(wanted, "KEY"));
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

static const struct sl_option *find_option(const struct sl_command *c, const char *word)
{
    struct sl_option_cursor at;
    bool is_long = word[0] == '-' && word[1] == '-',
         is_short = word[0] == '-' && word[1] && !is_long;
    size_t n = strlen(word);
    // Of letters put together the last one takes the value.
    bool found = is_long    ? sl_options_find(c, line.state, word + 2, n - 2, 0, &at)
                 : is_short ? sl_options_find(c, line.state, "", 0, word[n - 1], &at)
                            : false;
    return found ? at.option : NULL;
}

static bool takes_value(const struct sl_option *o)
{
    return o && o->type != SL_OPTION_FLAG;
}

static void offer_option_value(const struct sl_command *c, const struct sl_option *o,
                               const char *prefix)
{
    if (o->type == SL_OPTION_CHOICE)
        for (size_t i = 0; o->choices[i]; i++)
            offer(prefix, o->choices[i], "");
    else if (o->placeholder)
        offer_value(c, prefix, o->placeholder);
}

static void offer_options(const struct sl_command *c)
{
    for (struct sl_option_cursor at = {0}; sl_options_next(c, line.state, &at);) {
        char name[64];
        bool turns_off = at.option->type == SL_OPTION_FLAG && *(const bool *)at.value;
        snprintf(name, sizeof name, "--%s%s", turns_off ? "no-" : "", at.option->name);
        offer("", name, at.option->help);
    }
    offer("", "--help", "what it does, its options, an example");
}

// --- a command's line ----------------------------------------------------------------------------

// Words before the current one that are operands; *only: "--" has ended the options.
static size_t count_operands(const struct sl_command *c, int first, bool *only)
{
    size_t n = 0;
    *only = false;
    for (int i = first; i < line.n - 1; i++) {
        const char *word = line.words[i];
        if (!*only && !strcmp(word, "--"))
            *only = true;
        else if (*only || word[0] != '-' || !word[1])
            n++;
        else if (!strchr(word, '=') && takes_value(find_option(c, word)))
            i++;
    }
    return n;
}

static void offer_operand(const struct sl_command *c, size_t at)
{
    size_t n = 0;
    while (c->operands[n].name)
        n++;
    if (at < n)
        offer_value(c, "", c->operands[at].name);
    else if (c->rest.name)
        offer_value(c, "", c->rest.name);
    // Assignments may come in any order.
    for (size_t i = 0; i < n; i++)
        if (i != at && at > 0 && strchr(c->operands[i].name, '='))
            offer_value(c, "", c->operands[i].name);
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

static void offer_words_of(const struct sl_command *c)
{
    // "generate planted" has two words.
    int first = 1;
    for (const char *p = c->name; (p = strchr(p, ' ')); p++)
        first++;
    const char *word = current(), *equals = strchr(word, '=');
    bool only;
    size_t at = count_operands(c, first, &only);
    const struct sl_option *before =
        line.n - 1 > first && !only ? find_option(c, line.words[line.n - 2]) : NULL;
    note_where();
    if (takes_value(before)) {
        offer_option_value(c, before, "");
    } else if (!only && word[0] == '-' && equals) {
        char name[64], prefix[72];
        snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
        snprintf(prefix, sizeof prefix, "%s=", name);
        const struct sl_option *o = find_option(c, name);
        if (takes_value(o))
            offer_option_value(c, o, prefix);
    } else if (!only && word[0] == '-') {
        offer_options(c);
    } else {
        offer_operand(c, at);
    }
}

// --- the command ---------------------------------------------------------------------------------

struct request {
    struct sl_text_list words;
};

static void complete_first(void)
{
    size_t n;
    const struct sl_command *const *commands = sl_dispatch_commands(&n);
    for (size_t i = 0; i < n; i++)
        offer_command(commands[i]);
}

// The command that the words begin with; NULL: none that is offered.
static const struct sl_command *find_command(void)
{
    size_t n;
    const struct sl_command *const *commands = sl_dispatch_commands(&n);
    const struct sl_command *c = NULL;
    for (size_t i = 0; i < n && !c; i++)
        if (strcmp(commands[i]->name, line.words[0]) == 0 && commands[i]->help)
            c = commands[i];
    if (!c || !c->kinds || line.n < 3)
        return c;
    for (const struct sl_command *kind = c->kinds(); kind->name; kind++)
        if (strcmp(sl_dispatch_name(kind), line.words[1]) == 0)
            return kind;
    return NULL;
}

static void complete_command(const struct sl_command *c)
{
    if (c->kinds) {
        for (const struct sl_command *kind = c->kinds(); kind->name; kind++)
            offer_command(kind);
        offer("", "--help", "what there is");
        return;
    }
    line.state = calloc(1, c->bytes + 1); // for the defaults of its flags
    if (line.state && sl_dispatch_init(c, line.state) == SL_OK)
        offer_words_of(c);
    if (line.state && c->fini)
        c->fini(line.state);
    free(line.state);
}

static int complete(void *state)
{
    struct request *r = state;
    if (r->words.n == 0)
        return sl_fail(SL_EINVAL, "complete: no words: shells call it, see scripts/completion");
    // A daemon that does not answer must not hold up a prompt; nor must a pipe that is closed.
    alarm(SECONDS_MAX);
    line.words = r->words.items;
    line.n = (int)r->words.n;
    bool helps = strcmp(line.words[0], "help") == 0;
    const struct sl_command *c = find_command();
    if (line.n == 1 || (helps && line.n == 2))
        complete_first();
    if (line.n == 1) {
        offer("", "help", "what a command does");
        offer("", "--help", "the commands");
        offer("", "--version", "this version");
    } else if (c) {
        complete_command(c);
    }
    return SL_EXIT_OK;
}

const struct sl_command sl_command_complete = {
    .name = "complete",
    .about = "Says how a line of words may go on; shells call it ('sluice completion').",
    .rest = {"WORD", offsetof(struct request, words), true},
    .bytes = sizeof(struct request),
    .run = complete,
};

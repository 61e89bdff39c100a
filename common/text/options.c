#include "common/text/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/layout.h"
#include "common/text/suggest.h"
#include "common/text/units.h"

enum { NAMES_MAX = 64, MESSAGE_BYTES = 512, HELP_INDENT = 30, HELP_COLUMNS = 100 };

// ---- tables -------------------------------------------------------------------------------------

bool sl_options_next(const struct sl_command *c, const void *state, struct sl_option_cursor *at)
{
    for (; at->group < SL_COUNT_OF(c->options) && c->options[at->group].options;
         at->group++, at->next = 0) {
        const struct sl_option_group *g = &c->options[at->group];
        at->option = &g->options[at->next];
        if (!at->option->name)
            continue;
        at->base = (char *)state + g->offset; // a caller that only reads writes nothing
        if (g->elsewhere)
            at->base = *(char **)at->base;
        at->value = at->base + at->option->offset;
        at->next++;
        return true;
    }
    return false;
}

static bool is_name(const char *is, const char *name, size_t n)
{
    return is && n > 0 && strlen(is) == n && strncmp(is, name, n) == 0;
}

bool sl_options_find(const struct sl_command *c, const void *state, const char *name, size_t n,
                     char letter, struct sl_option_cursor *at)
{
    *at = (struct sl_option_cursor){0};
    while (sl_options_next(c, state, at))
        if (is_name(at->option->name, name, n) || is_name(at->option->alias, name, n) ||
            (letter && at->option->letter == letter))
            return true;
    return false;
}

static struct sl_text_list *rest_of(const struct sl_command *c, void *state)
{
    return c->rest.name ? (struct sl_text_list *)((char *)state + c->rest.offset) : NULL;
}

static size_t count_operands(const struct sl_command *c)
{
    size_t n = 0;
    while (c->operands[n].name)
        n++;
    return n;
}

static void free_list(struct sl_text_list *list)
{
    free(list->items);
    *list = (struct sl_text_list){0};
}

void sl_options_fini(const struct sl_command *c, void *state)
{
    for (struct sl_option_cursor at = {0}; sl_options_next(c, state, &at);)
        if (at.option->type == SL_OPTION_LIST)
            free_list(at.value);
    if (c->rest.name)
        free_list(rest_of(c, state));
}

// ---- messages -----------------------------------------------------------------------------------

// A message of a command of `sluice` names it; main() puts the program in front.
__attribute__((format(printf, 3, 4))) static int fail(const struct sl_command *c, int code,
                                                      const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sl_fail(code, "%s%s%s", c->is_program ? "" : c->name, c->is_program ? "" : ": ", text);
}

// What stands in front of a command's name where it is typed.
static const char *before(const struct sl_command *c)
{
    return c->is_program ? "" : "sluice ";
}

// ---- values -------------------------------------------------------------------------------------

static bool bounded(const struct sl_option *o)
{
    return o->min != 0 || o->max != 0;
}

static bool is_within(const struct sl_option *o, double x)
{
    return x >= o->min && x <= o->max;
}

// A bound as a user would write it: whole numbers up to 2^53 in full.
static const char *bound_text(char *buf, const struct sl_option *o, double x)
{
    if (isinf(x))
        snprintf(buf, SL_UNITS_BYTES, "any");
    else if (o->type == SL_OPTION_SIZE)
        sl_units_bytes(buf, x);
    else if (x == floor(x) && fabs(x) < 9007199254740992.0)
        snprintf(buf, SL_UNITS_BYTES, "%.0f", x);
    else
        snprintf(buf, SL_UNITS_BYTES, "%g", x);
    return buf;
}

// A number's value before it is parsed.
static double default_of(const struct sl_option *o, const void *value)
{
    if (o->type == SL_OPTION_REAL)
        return *(const double *)value;
    if (o->type != SL_OPTION_UINT && o->type != SL_OPTION_SIZE)
        return o->min;
    return o->bytes == sizeof(uint32_t) ? *(const uint32_t *)value
                                        : (double)*(const uint64_t *)value;
}

static int check_bounds(const struct sl_command *c, const struct sl_option *o, double x,
                        const char *text)
{
    char low[SL_UNITS_BYTES], high[SL_UNITS_BYTES];
    if (!bounded(o) || is_within(o, x))
        return SL_OK;
    bound_text(low, o, o->min);
    bound_text(high, o, o->max);
    if (isinf(o->max))
        return fail(c, SL_ERANGE, "--%s %s is out of range: wanted at least %s", o->name, text,
                    low);
    return fail(c, SL_ERANGE, "--%s %s is out of range: wanted %s to %s", o->name, text, low, high);
}

// UINT, SIZE and REAL.
static int set_number(const struct sl_command *c, const struct sl_option *o, const char *text,
                      void *value)
{
    uint64_t whole = 0;
    double real = 0;
    char *end = NULL;
    bool is_read;
    const char *wanted = " is not a number: wanted something like 0.25";
    if (o->type == SL_OPTION_SIZE) {
        is_read = sl_units_parse_bytes(text, &whole) == 0;
        wanted = " is not a size: wanted something like 512MiB or 4GiB";
    } else if (o->type == SL_OPTION_UINT) {
        is_read = sl_units_parse_count(text, &whole) == 0;
        wanted = o->placeholder && strcmp(o->placeholder, "SECONDS") == 0
                     ? ": wanted whole seconds, something like 30"
                     : " is not a whole number: wanted something like 17, 2e6 or 5M";
    } else {
        real = strtod(text, &end);
        is_read = end != text && !*end && isfinite(real);
    }
    if (!is_read)
        return fail(c, SL_EINVAL, "--%s '%s'%s", o->name, text, wanted);
    SL_TRY(check_bounds(c, o, o->type == SL_OPTION_REAL ? real : (double)whole, text));
    if (o->type == SL_OPTION_REAL)
        *(double *)value = real;
    else if (o->bytes == sizeof(uint32_t))
        *(uint32_t *)value = (uint32_t)whole;
    else
        *(uint64_t *)value = whole;
    return SL_OK;
}

static int set_choice(const struct sl_command *c, const struct sl_option *o, const char *text,
                      void *value)
{
    char all[256] = "";
    size_t n = 0, used = 0;
    for (; o->choices[n]; n++) {
        if (strcmp(o->choices[n], text) == 0) {
            *(int *)value = (int)n;
            return SL_OK;
        }
        int w = snprintf(all + used, sizeof all - used, "%s%s", n ? ", " : "", o->choices[n]);
        used = SL_MIN(used + (size_t)SL_MAX(w, 0), sizeof all - 1);
    }
    const char *near = sl_suggest_closest(text, o->choices, n);
    return fail(c, SL_EINVAL, "--%s '%s' is not known: wanted one of %s%s%s%s", o->name, text, all,
                near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int append_text(const struct sl_command *c, struct sl_text_list *list, const char *text)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return fail(c, SL_ENOMEM, "no memory for '%s'", text);
    items[list->n++] = text;
    list->items = items;
    return SL_OK;
}

static void note_given(const struct sl_option_cursor *m)
{
    if (m->option->given)
        *(bool *)(m->base + m->option->given) = true;
}

static int set_value(const struct sl_command *c, const struct sl_option_cursor *m, const char *text)
{
    const struct sl_option *o = m->option;
    void *value = m->value;
    note_given(m);
    switch (o->type) {
    case SL_OPTION_FLAG: *(bool *)value = true; return SL_OK;
    case SL_OPTION_UINT:
    case SL_OPTION_SIZE:
    case SL_OPTION_REAL: return set_number(c, o, text, value);
    case SL_OPTION_CHOICE: return set_choice(c, o, text, value);
    case SL_OPTION_TEXT:
    case SL_OPTION_LIST: break;
    }
    if (!*text && !o->verbatim && !o->may_be_empty)
        return fail(c, SL_EINVAL, "--%s is empty: wanted %s", o->name, o->placeholder);
    if (o->type == SL_OPTION_LIST)
        return append_text(c, value, text);
    *(const char **)value = text;
    return SL_OK;
}

// ---- the words ----------------------------------------------------------------------------------

static int unknown_option(const struct sl_command *c, const char *name, size_t length, void *state)
{
    const char *names[NAMES_MAX];
    char word[64], key[SL_OPTION_KEY_BYTES];
    size_t n = 0;
    snprintf(word, sizeof word, "%.*s", (int)SL_MIN(length, sizeof word - 1), name);
    for (struct sl_option_cursor at = {0}; n + 1 < NAMES_MAX && sl_options_next(c, state, &at);) {
        names[n++] = at.option->name;
        if (at.option->find_key && at.option->find_key(word, key))
            return fail(c, SL_EINVAL, "unknown option --%s: did you mean --%s %s=VALUE?", word,
                        at.option->name, key);
    }
    names[n++] = "help";
    const char *near = sl_suggest_closest(word, names, n);
    if (near)
        return fail(c, SL_EINVAL, "unknown option --%s: did you mean --%s?", word, near);
    return fail(c, SL_EINVAL, "unknown option --%s: '%s%s --help' lists them", word, before(c),
                c->name);
}

struct line {
    const struct sl_command *command;
    void *state;
    int argc;
    char **argv;
    int i;
    const struct sl_option *seen[NAMES_MAX]; // options that were met
    size_t n_seen;
};

static int take_value(struct line *l, const struct sl_option *o, const char **text)
{
    // A word that looks like an option is more likely a forgotten value than a value.
    if (l->i + 1 >= l->argc || (!o->verbatim && !strncmp(l->argv[l->i + 1], "--", 2)))
        return fail(l->command, SL_EINVAL, "--%s needs a value: --%s %s", o->name, o->name,
                    o->placeholder);
    *text = l->argv[++l->i];
    return SL_OK;
}

static bool was_seen(const struct line *l, const struct sl_option *o)
{
    for (size_t i = 0; i < l->n_seen; i++)
        if (l->seen[i] == o)
            return true;
    return false;
}

static int parse_long(struct line *l)
{
    const struct sl_command *c = l->command;
    const char *name = l->argv[l->i] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *text = equals ? equals + 1 : NULL;
    if (length == 4 && !strncmp(name, "help", 4))
        return SL_OPTIONS_HELP;
    struct sl_option_cursor m;
    if (!sl_options_find(c, l->state, name, length, 0, &m)) {
        bool no = length > 3 && !strncmp(name, "no-", 3) && !text &&
                  sl_options_find(c, l->state, name + 3, length - 3, 0, &m) &&
                  m.option->type == SL_OPTION_FLAG;
        if (!no)
            return unknown_option(c, name, length, l->state);
        note_given(&m);
        *(bool *)m.value = false;
        return SL_OK;
    }
    if (l->n_seen < NAMES_MAX && !was_seen(l, m.option))
        l->seen[l->n_seen++] = m.option;
    if (m.option->type == SL_OPTION_FLAG) {
        if (text)
            return fail(c, SL_EINVAL, "--%s takes no value, found '%s': leave '=%s' out",
                        m.option->name, text, text);
        return set_value(c, &m, NULL);
    }
    if (!text)
        SL_TRY(take_value(l, m.option, &text));
    return set_value(c, &m, text);
}

static int parse_letters(struct line *l)
{
    const struct sl_command *c = l->command;
    for (const char *p = l->argv[l->i] + 1; *p; p++) {
        if (*p == 'h')
            return SL_OPTIONS_HELP;
        struct sl_option_cursor m;
        if (!sl_options_find(c, l->state, "", 0, *p, &m))
            return fail(c, SL_EINVAL, "unknown option -%c: '%s%s --help' lists them", *p, before(c),
                        c->name);
        if (m.option->type == SL_OPTION_FLAG) {
            SL_TRY(set_value(c, &m, NULL));
            continue;
        }
        const char *text = p + 1;
        if (!*text)
            SL_TRY(take_value(l, m.option, &text));
        return set_value(c, &m, text);
    }
    return SL_OK;
}

static int is_missing(const struct sl_command *c, const char *name)
{
    return fail(c, SL_EINVAL, "%s is missing: '%s%s --help' shows what is wanted", name, before(c),
                c->name);
}

static int check_required(struct line *l, size_t n_operands)
{
    const struct sl_command *c = l->command;
    for (size_t i = n_operands; c->operands[i].name; i++)
        if (!c->operands[i].optional)
            return is_missing(c, c->operands[i].name);
    if (c->rest.name && !c->rest.optional && rest_of(c, l->state)->n == 0)
        return is_missing(c, c->rest.name);
    for (struct sl_option_cursor at = {0}; sl_options_next(c, l->state, &at);)
        if (at.option->required && !was_seen(l, at.option))
            return fail(c, SL_EINVAL, "--%s %s is missing: '%s%s --help' shows what is wanted",
                        at.option->name, at.option->placeholder, before(c), c->name);
    return SL_OK;
}

static int take_operand(struct line *l, size_t *n_operands, const char *word)
{
    const struct sl_command *c = l->command;
    if (*n_operands < count_operands(c)) {
        *(const char **)((char *)l->state + c->operands[(*n_operands)++].offset) = word;
        return SL_OK;
    }
    if (c->rest.name)
        return append_text(c, rest_of(c, l->state), word);
    return fail(c, SL_EINVAL, "one word too many: '%s': '%s%s --help' shows what is wanted", word,
                before(c), c->name);
}

int sl_options_parse(const struct sl_command *c, void *state, int argc, char **argv)
{
    struct line l = {.command = c, .state = state, .argc = argc, .argv = argv};
    size_t n_operands = 0;
    bool options_over = false, help = false;
    // Help wins wherever it stands, also behind a mistake.
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        help |= !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
    for (l.i = 1; !help && l.i < argc; l.i++) {
        const char *word = argv[l.i];
        int rc = SL_OK;
        if (!options_over && !strcmp(word, "--"))
            options_over = true;
        else if (options_over || word[0] != '-' || !word[1])
            rc = take_operand(&l, &n_operands, word);
        else
            rc = word[1] == '-' ? parse_long(&l) : parse_letters(&l);
        SL_TRY(rc);
        help = rc == SL_OPTIONS_HELP;
    }
    if (!help)
        return check_required(&l, n_operands);
    sl_options_print_help(c, state);
    return SL_OPTIONS_HELP;
}

// ---- help ---------------------------------------------------------------------------------------

static void default_text(char *buf, size_t n, const struct sl_option *o, const void *value)
{
    char number[SL_UNITS_BYTES];
    double x = default_of(o, value);
    buf[0] = '\0';
    if (o->no_default || o->required || (bounded(o) && !is_within(o, x)))
        return;
    switch (o->type) {
    case SL_OPTION_UINT: snprintf(buf, n, " [%.0f]", x); break;
    case SL_OPTION_REAL: snprintf(buf, n, " [%g]", x); break;
    case SL_OPTION_SIZE: snprintf(buf, n, " [%s]", sl_units_bytes(number, (uint64_t)x)); break;
    case SL_OPTION_CHOICE: snprintf(buf, n, " [%s]", o->choices[*(const int *)value]); break;
    case SL_OPTION_FLAG:
        if (*(const bool *)value)
            snprintf(buf, n, " [on; --no-%s turns it off]", o->name);
        break;
    case SL_OPTION_TEXT:
        if (*(const char *const *)value)
            snprintf(buf, n, " [%s]", *(const char *const *)value);
        break;
    case SL_OPTION_LIST: break;
    }
}

static void print_option(const struct sl_option *o, const void *value)
{
    char left[128], right[768], tail[160];
    int n = snprintf(left, sizeof left, "  %c%c%s --%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name);
    if (o->type == SL_OPTION_CHOICE) {
        n += snprintf(left + n, sizeof left - (size_t)n, " ");
        for (size_t i = 0; o->choices[i] && n < (int)sizeof left; i++)
            n += snprintf(left + n, sizeof left - (size_t)n, "%s%s", i ? "|" : "", o->choices[i]);
    } else if (o->type != SL_OPTION_FLAG) {
        n += snprintf(left + n, sizeof left - (size_t)n, " %s", o->placeholder);
    }
    default_text(tail, sizeof tail, o, value);
    snprintf(right, sizeof right, "%s%s", o->help, tail);
    n = SL_MIN(n, (int)sizeof left - 1);
    printf("%s", left);
    if (n + 2 > HELP_INDENT)
        printf("\n%*s", HELP_INDENT, "");
    else
        printf("%*s", HELP_INDENT - n, "");
    sl_layout_paragraph(right, HELP_INDENT, HELP_COLUMNS, stdout);
}

void sl_options_print_help(const struct sl_command *c, const void *state)
{
    bool any = sl_options_next(c, state, &(struct sl_option_cursor){0});
    printf("usage: %s%s", before(c), c->name);
    for (const struct sl_operand *o = c->operands; o->name; o++)
        printf(o->optional ? " [%s]" : " %s", o->name);
    if (c->rest.name)
        printf(" %s...", c->rest.name);
    for (struct sl_option_cursor at = {0}; sl_options_next(c, state, &at);)
        if (at.option->required)
            printf(" --%s %s", at.option->name, at.option->placeholder);
    printf("%s\n\n", any ? " [OPTION]..." : "");
    sl_layout_paragraph(c->about, 0, HELP_COLUMNS, stdout);
    if (any)
        printf("\nOptions:\n");
    for (struct sl_option_cursor at = {0}; sl_options_next(c, state, &at);)
        print_option(at.option, at.value);
    if (c->example) {
        printf("\nExample:\n");
        for (const char *p = c->example; *p;) {
            size_t length = strcspn(p, "\n");
            printf("  %.*s\n", (int)length, p);
            p += length + (p[length] == '\n');
        }
    }
    fflush(stdout);
}

#include "broker/cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/suggest.h"
#include "broker/cli/complete.h"
#include "common/text/units.h"

enum { NAMES_MAX = 64, HELP_INDENT = 30, HELP_COLUMNS = 100 };

void sl_text_list_fini(struct sl_text_list *list)
{
    free(list->items);
    list->items = NULL;
    list->n = 0;
}

// ---- values -------------------------------------------------------------------------------------

static bool bounded(const struct sl_option *o)
{
    return o->min != 0 || o->max != 0;
}

// A bound as a user would write it: whole numbers up to 2^53 in full.
static const char *bound_text(char *buf, const struct sl_option *o, double x)
{
    if (isinf(x))
        snprintf(buf, SL_UNITS_BYTES, "any");
    else if (o->type == SL_OPTION_SIZE)
        sl_units_bytes(buf, (uint64_t)x);
    else if (x == floor(x) && fabs(x) < 9007199254740992.0)
        snprintf(buf, SL_UNITS_BYTES, "%.0f", x);
    else
        snprintf(buf, SL_UNITS_BYTES, "%g", x);
    return buf;
}

static int check_bounds(const struct sl_command_usage *u, const struct sl_option *o, double x,
                        const char *text)
{
    char low[SL_UNITS_BYTES], high[SL_UNITS_BYTES];
    if (!bounded(o) || (x >= o->min && x <= o->max))
        return SL_OK;
    bound_text(low, o, o->min);
    bound_text(high, o, o->max);
    if (isinf(o->max))
        return sl_fail(SL_ERANGE, "%s: --%s %s is out of range: wanted at least %s", u->command,
                       o->name, text, low);
    return sl_fail(SL_ERANGE, "%s: --%s %s is out of range: wanted %s to %s", u->command, o->name,
                   text, low, high);
}

static int set_uint(const struct sl_command_usage *u, const struct sl_option *o, const char *text)
{
    uint64_t x;
    bool seconds = o->placeholder && strcmp(o->placeholder, "SECONDS") == 0;
    if (sl_units_parse_count(text, &x) < 0 && seconds)
        return sl_fail(SL_EINVAL, "%s: --%s '%s': wanted whole seconds, something like 30",
                       u->command, o->name, text);
    if (sl_units_parse_count(text, &x) < 0)
        return sl_fail(SL_EINVAL,
                       "%s: --%s '%s' is not a whole number: wanted something like 17, 2e6 or 5M",
                       u->command, o->name, text);
    SL_TRY(check_bounds(u, o, (double)x, text));
    *(uint64_t *)o->value = x;
    return SL_OK;
}

static int set_size(const struct sl_command_usage *u, const struct sl_option *o, const char *text)
{
    uint64_t x;
    if (sl_units_parse_bytes(text, &x) < 0)
        return sl_fail(SL_EINVAL,
                       "%s: --%s '%s' is not a size: wanted something like 512MiB or 4GiB",
                       u->command, o->name, text);
    SL_TRY(check_bounds(u, o, (double)x, text));
    *(uint64_t *)o->value = x;
    return SL_OK;
}

static int set_real(const struct sl_command_usage *u, const struct sl_option *o, const char *text)
{
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x))
        return sl_fail(SL_EINVAL, "%s: --%s '%s' is not a number: wanted something like 0.25",
                       u->command, o->name, text);
    SL_TRY(check_bounds(u, o, x, text));
    *(double *)o->value = x;
    return SL_OK;
}

static int set_choice(const struct sl_command_usage *u, const struct sl_option *o, const char *text)
{
    char all[256] = "";
    size_t n = 0, used = 0;
    for (; o->choices[n]; n++) {
        if (strcmp(o->choices[n], text) == 0) {
            *(int *)o->value = (int)n;
            return SL_OK;
        }
        int w = snprintf(all + used, sizeof all - used, "%s%s", n ? ", " : "", o->choices[n]);
        used = SL_MIN(used + (size_t)SL_MAX(w, 0), sizeof all - 1);
    }
    const char *near = sl_suggest_closest(text, o->choices, n);
    return sl_fail(SL_EINVAL, "%s: --%s '%s' is not known: wanted one of %s%s%s%s", u->command,
                   o->name, text, all, near ? ": did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static int append_text(const struct sl_command_usage *u, struct sl_text_list *list,
                       const char *text)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return sl_fail(SL_ENOMEM, "%s: no memory for '%s'", u->command, text);
    items[list->n++] = text;
    list->items = items;
    return SL_OK;
}

static int set_value(const struct sl_command_usage *u, const struct sl_option *o, const char *text)
{
    if (o->given)
        *o->given = true;
    switch (o->type) {
    case SL_OPTION_FLAG: *(bool *)o->value = true; return SL_OK;
    case SL_OPTION_UINT: return set_uint(u, o, text);
    case SL_OPTION_SIZE: return set_size(u, o, text);
    case SL_OPTION_REAL: return set_real(u, o, text);
    case SL_OPTION_CHOICE: return set_choice(u, o, text);
    case SL_OPTION_TEXT:
    case SL_OPTION_LIST: break;
    }
    if (!*text)
        return sl_fail(SL_EINVAL, "%s: --%s is empty: wanted %s", u->command, o->name,
                       o->placeholder);
    if (o->type == SL_OPTION_LIST)
        return append_text(u, o->value, text);
    *(const char **)o->value = text;
    return SL_OK;
}

// ---- finding an option --------------------------------------------------------------------------

static bool is_name(const char *is, const char *name, size_t length)
{
    return strlen(is) == length && strncmp(is, name, length) == 0;
}

static const struct sl_option *find_long(const struct sl_command_usage *u, const char *name,
                                         size_t length)
{
    for (size_t i = 0; i < u->n_options; i++) {
        const struct sl_option *o = &u->options[i];
        if (is_name(o->name, name, length) || (o->alias && is_name(o->alias, name, length)))
            return o;
    }
    return NULL;
}

static const struct sl_option *find_letter(const struct sl_command_usage *u, char letter)
{
    for (size_t i = 0; i < u->n_options; i++)
        if (letter && u->options[i].letter == letter)
            return &u->options[i];
    return NULL;
}

static int unknown_option(const struct sl_command_usage *u, const char *name, size_t length)
{
    const char *names[NAMES_MAX];
    char word[64];
    size_t n = 0;
    snprintf(word, sizeof word, "%.*s", (int)SL_MIN(length, sizeof word - 1), name);
    for (; n < u->n_options && n + 1 < NAMES_MAX; n++)
        names[n] = u->options[n].name;
    names[n++] = "help";
    const char *near = sl_suggest_closest(word, names, n);
    if (near)
        return sl_fail(SL_EINVAL, "%s: unknown option --%s: did you mean --%s?", u->command, word,
                       near);
    return sl_fail(SL_EINVAL, "%s: unknown option --%s: 'sluice %s --help' lists them", u->command,
                   word, u->command);
}

struct cursor {
    int argc;
    char **argv;
    int i;
    bool seen[NAMES_MAX]; // by position in the table of options
};

static int take_value(const struct sl_command_usage *u, const struct sl_option *o, struct cursor *c,
                      const char **text)
{
    // A word that looks like an option is more likely a forgotten value than a value.
    if (c->i + 1 >= c->argc || !strncmp(c->argv[c->i + 1], "--", 2))
        return sl_fail(SL_EINVAL, "%s: --%s needs a value: --%s %s", u->command, o->name, o->name,
                       o->placeholder);
    *text = c->argv[++c->i];
    return SL_OK;
}

static void mark_seen(const struct sl_command_usage *u, struct cursor *c, const struct sl_option *o)
{
    size_t at = (size_t)(o - u->options);
    if (at < NAMES_MAX)
        c->seen[at] = true;
}

static int parse_long(const struct sl_command_usage *u, struct cursor *c)
{
    const char *name = c->argv[c->i] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *text = equals ? equals + 1 : NULL;
    if (length == 4 && !strncmp(name, "help", 4))
        return SL_OPTIONS_HELP;
    const struct sl_option *o = find_long(u, name, length);
    if (!o && length > 3 && !strncmp(name, "no-", 3)) {
        const struct sl_option *flag = find_long(u, name + 3, length - 3);
        if (flag && flag->type == SL_OPTION_FLAG && !text) {
            if (flag->given)
                *flag->given = true;
            *(bool *)flag->value = false;
            return SL_OK;
        }
    }
    if (!o)
        return unknown_option(u, name, length);
    mark_seen(u, c, o);
    if (o->type == SL_OPTION_FLAG) {
        if (text)
            return sl_fail(SL_EINVAL, "%s: --%s takes no value, found '%s': leave '=%s' out",
                           u->command, o->name, text, text);
        return set_value(u, o, NULL);
    }
    if (!text)
        SL_TRY(take_value(u, o, c, &text));
    return set_value(u, o, text);
}

static int parse_letters(const struct sl_command_usage *u, struct cursor *c)
{
    for (const char *p = c->argv[c->i] + 1; *p; p++) {
        if (*p == 'h')
            return SL_OPTIONS_HELP;
        const struct sl_option *o = find_letter(u, *p);
        if (!o)
            return sl_fail(SL_EINVAL, "%s: unknown option -%c: 'sluice %s --help' lists them",
                           u->command, *p, u->command);
        if (o->type == SL_OPTION_FLAG) {
            SL_TRY(set_value(u, o, NULL));
            continue;
        }
        const char *text = p + 1;
        if (!*text)
            SL_TRY(take_value(u, o, c, &text));
        return set_value(u, o, text);
    }
    return SL_OK;
}

static int check_required(const struct sl_command_usage *u, size_t n_operands, const bool *seen)
{
    for (size_t i = n_operands; i < u->n_operands; i++)
        if (!u->operands[i].optional)
            return sl_fail(SL_EINVAL, "%s: %s is missing: 'sluice %s --help' shows an example",
                           u->command, u->operands[i].name, u->command);
    if (u->rest && u->rest->n == 0)
        return sl_fail(SL_EINVAL, "%s: %s is missing: 'sluice %s --help' shows an example",
                       u->command, u->rest_name, u->command);
    for (size_t i = 0; i < u->n_options; i++)
        if (u->options[i].required && !seen[i])
            return sl_fail(SL_EINVAL, "%s: --%s %s is missing: 'sluice %s --help' shows an example",
                           u->command, u->options[i].name, u->options[i].placeholder, u->command);
    return SL_OK;
}

int sl_options_parse(const struct sl_command_usage *u, int argc, char **argv)
{
    if (sl_completion_take_usage(u))
        return SL_OPTIONS_HELP;
    struct cursor c = {.argc = argc, .argv = argv, .i = 1};
    size_t n_operands = 0;
    bool options_over = false;
    // Help wins wherever it stands, also behind a mistake.
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            sl_options_print_help(u);
            return SL_OPTIONS_HELP;
        }
    }
    for (; c.i < argc; c.i++) {
        const char *word = argv[c.i];
        if (!options_over && !strcmp(word, "--")) {
            options_over = true;
            continue;
        }
        if (!options_over && word[0] == '-' && word[1]) {
            int rc = word[1] == '-' ? parse_long(u, &c) : parse_letters(u, &c);
            if (rc == SL_OPTIONS_HELP)
                sl_options_print_help(u);
            if (rc != SL_OK)
                return rc;
            continue;
        }
        if (n_operands == u->n_operands && u->rest) {
            SL_TRY(append_text(u, u->rest, word));
            continue;
        }
        if (n_operands == u->n_operands)
            return sl_fail(SL_EINVAL,
                           "%s: one word too many: '%s': 'sluice %s --help' shows what "
                           "is wanted",
                           u->command, word, u->command);
        *u->operands[n_operands++].value = word;
    }
    return check_required(u, n_operands, c.seen);
}

// ---- help ---------------------------------------------------------------------------------------

static void print_wrapped(const char *text, int indent, int column)
{
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)word > HELP_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += (int)word;
        text += word;
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            column = indent;
        }
        text += strspn(text, " \n");
    }
    putchar('\n');
}

static void default_text(char *buf, size_t n, const struct sl_option *o)
{
    char number[SL_UNITS_BYTES];
    buf[0] = '\0';
    if (o->no_default || o->required)
        return;
    switch (o->type) {
    case SL_OPTION_UINT: snprintf(buf, n, " [%" PRIu64 "]", *(uint64_t *)o->value); break;
    case SL_OPTION_REAL: snprintf(buf, n, " [%g]", *(double *)o->value); break;
    case SL_OPTION_SIZE:
        snprintf(buf, n, " [%s]", sl_units_bytes(number, *(uint64_t *)o->value));
        break;
    case SL_OPTION_CHOICE: snprintf(buf, n, " [%s]", o->choices[*(int *)o->value]); break;
    case SL_OPTION_FLAG:
        if (*(bool *)o->value)
            snprintf(buf, n, " [on; --no-%s turns it off]", o->name);
        break;
    case SL_OPTION_TEXT:
        if (*(const char **)o->value)
            snprintf(buf, n, " [%s]", *(const char **)o->value);
        break;
    case SL_OPTION_LIST: break;
    }
}

static void print_option(const struct sl_option *o)
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
    default_text(tail, sizeof tail, o);
    snprintf(right, sizeof right, "%s%s", o->help, tail);
    n = SL_MIN(n, (int)sizeof left - 1);
    printf("%s", left);
    if (n + 2 > HELP_INDENT)
        printf("\n%*s", HELP_INDENT, "");
    else
        printf("%*s", HELP_INDENT - n, "");
    print_wrapped(right, HELP_INDENT, HELP_INDENT);
}

void sl_options_print_help(const struct sl_command_usage *u)
{
    printf("usage: sluice %s", u->command);
    for (size_t i = 0; i < u->n_operands; i++)
        printf(u->operands[i].optional ? " [%s]" : " %s", u->operands[i].name);
    if (u->rest)
        printf(" %s...", u->rest_name);
    for (size_t i = 0; i < u->n_options; i++)
        if (u->options[i].required)
            printf(" --%s %s", u->options[i].name, u->options[i].placeholder);
    printf("%s\n\n", u->n_options ? " [OPTION]..." : "");
    print_wrapped(u->about, 0, 0);
    if (u->n_options)
        printf("\nOptions:\n");
    for (size_t i = 0; i < u->n_options; i++)
        print_option(&u->options[i]);
    if (u->example) {
        printf("\nExample:\n");
        for (const char *p = u->example; *p;) {
            size_t length = strcspn(p, "\n");
            printf("  %.*s\n", (int)length, p);
            p += length + (p[length] == '\n');
        }
    }
    fflush(stdout);
}

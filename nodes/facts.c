#include "nodes/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/text/text.h"

static const char *const words[] = {
#define SL_FACT_WORD(kind, word, advice) word,
    SL_FACTS_MAP(SL_FACT_WORD)
#undef SL_FACT_WORD
};

static const char *const advices[] = {
#define SL_FACT_ADVICE(kind, word, advice) advice,
    SL_FACTS_MAP(SL_FACT_ADVICE)
#undef SL_FACT_ADVICE
};

// --- a node's own --------------------------------------------------------------------------------

static void blank(char *text)
{
    for (; (text = strpbrk(text, "\t\n")) != NULL;)
        *text = ' ';
}

int sl_facts_add(struct sl_facts *f, enum sl_fact_kind kind, const char *name, const char *fmt, ...)
{
    struct sl_fact *more = realloc(f->fact, (f->n + 1) * sizeof *more);
    if (!more)
        return sl_fail(SL_ENOMEM, "what this node has: no memory");
    f->fact = more;
    struct sl_fact *fact = &more[f->n++];
    memset(fact, 0, sizeof *fact);
    fact->kind = kind;
    snprintf(fact->name, sizeof fact->name, "%s", name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fact->value, sizeof fact->value, fmt, ap);
    va_end(ap);
    blank(fact->name);
    blank(fact->value);
    return SL_OK;
}

char *sl_facts_write(const struct sl_facts *f)
{
    struct sl_text t = {0};
    for (size_t i = 0; i < f->n; i++)
        sl_text_printf(&t, "%s\t%s\t%s\n", words[f->fact[i].kind], f->fact[i].name,
                       f->fact[i].value);
    return sl_text_take(&t);
}

static int read_line(struct sl_facts *f, char *line)
{
    char *name = strchr(line, '\t'), *value = name ? strchr(name + 1, '\t') : NULL;
    if (!value)
        return sl_fail(SL_EFORMAT, "a node says '%.100s': wanted three words", line);
    *name++ = *value++ = '\0';
    for (int kind = 0; kind < SL_FACT_KINDS; kind++)
        if (strcmp(words[kind], line) == 0)
            return sl_facts_add(f, (enum sl_fact_kind)kind, name, "%s", value);
    return SL_OK; // of a newer sluice, whose version is told apart anyway
}

int sl_facts_read(struct sl_facts *f, const char *text)
{
    char *copy = strdup(text), *rest = copy, *line;
    int rc = copy ? SL_OK : sl_fail(SL_ENOMEM, "what a node has: no memory");
    while (rc == SL_OK && (line = strsep(&rest, "\n")))
        if (*line)
            rc = read_line(f, line);
    free(copy);
    return rc;
}

void sl_facts_fini(struct sl_facts *f)
{
    free(f->fact);
    *f = (struct sl_facts){0};
}

// --- notes ---------------------------------------------------------------------------------------

int sl_node_notes_add(struct sl_node_notes *notes, bool is_problem, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int length = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (length < 0)
        return sl_fail(SL_ENOMEM, "what is wrong with the nodes: no memory");
    for (size_t i = 0; i < notes->n; i++)
        if (strcmp(notes->note[i].text, text) == 0) {
            free(text);
            return SL_OK;
        }
    struct sl_node_note *more = realloc(notes->note, (notes->n + 1) * sizeof *more);
    if (!more) {
        free(text);
        return sl_fail(SL_ENOMEM, "what is wrong with the nodes: no memory");
    }
    more[notes->n++] = (struct sl_node_note){.is_problem = is_problem, .text = text};
    notes->note = more;
    notes->problems += is_problem;
    return SL_OK;
}

void sl_node_notes_fini(struct sl_node_notes *notes)
{
    for (size_t i = 0; i < notes->n; i++)
        free(notes->note[i].text);
    free(notes->note);
    *notes = (struct sl_node_notes){0};
}

// --- comparing -----------------------------------------------------------------------------------

static const char nothing[] = "nothing";

static const char *value_of(const struct sl_facts *f, const struct sl_fact *of)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->fact[i].kind == of->kind && strcmp(f->fact[i].name, of->name) == 0)
            return f->fact[i].value;
    return nothing;
}

// A node that could not look has said why already.
static bool has_problem(const struct sl_facts *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->fact[i].kind == SL_FACT_PROBLEM)
            return true;
    return false;
}

// The node whose value most have.
static uint32_t most_frequent(const struct sl_facts *facts, uint32_t n, const struct sl_fact *of)
{
    uint32_t best = 0, best_times = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t times = 0;
        for (uint32_t j = 0; j < n; j++)
            times += strcmp(value_of(&facts[i], of), value_of(&facts[j], of)) == 0;
        if (times > best_times) {
            best = i;
            best_times = times;
        }
    }
    return best;
}

static int compare_fact(const char *const *host, const struct sl_facts *facts, uint32_t n,
                        const struct sl_fact *of, struct sl_node_notes *notes)
{
    const uint32_t model = most_frequent(facts, n, of);
    const char *wanted = value_of(&facts[model], of);
    for (uint32_t i = 0; i < n; i++) {
        const char *found = value_of(&facts[i], of);
        if (strcmp(found, wanted) == 0 || (strcmp(found, nothing) == 0 && has_problem(&facts[i])))
            continue;
        SL_TRY(sl_node_notes_add(notes, true, "%s: %s%s%s: found %s, wanted %s, as on %s: %s",
                                 host[i], words[of->kind], of->name[0] ? " " : "", of->name, found,
                                 wanted, host[model], advices[of->kind]));
    }
    return SL_OK;
}

// The first node that has a fact speaks for all that have it.
static bool is_first(const struct sl_facts *facts, uint32_t node, const struct sl_fact *of)
{
    for (uint32_t i = 0; i < node; i++)
        if (strcmp(value_of(&facts[i], of), nothing) != 0)
            return false;
    return true;
}

int sl_facts_compare(const char *const *host, const struct sl_facts *facts, uint32_t n,
                     struct sl_node_notes *notes)
{
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < facts[i].n; j++) {
            const struct sl_fact *of = &facts[i].fact[j];
            if (of->kind == SL_FACT_PROBLEM || of->kind == SL_FACT_WARNING)
                SL_TRY(sl_node_notes_add(notes, of->kind == SL_FACT_PROBLEM, "%s: %s", host[i],
                                         of->value));
            else if (is_first(facts, i, of))
                SL_TRY(compare_fact(host, facts, n, of, notes));
        }
    return SL_OK;
}

#include "dataset/edge_heading.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "dataset/line_scan.h"

enum { WORDS = 5 };

struct word {
    const char *text;
    size_t n;
};

static bool is(const struct word *w, const char *text)
{
    return w->n == strlen(text) && strncasecmp(w->text, text, w->n) == 0;
}

// Words between blanks, the rest of them empty; a colon at a word's end is none of it.
static void split(const char *p, struct word words[WORDS])
{
    for (int i = 0; i < WORDS; i++) {
        p += strspn(p, " \t");
        size_t n = strcspn(p, " \t\r\n");
        words[i] = (struct word){p, n && p[n - 1] == ':' ? n - 1 : n};
        p += n;
    }
}

static bool get_number(const struct word *w, uint64_t *out)
{
    bool fits;
    const char *end = w->n ? sl_line_scan_uint(w->text, out, &fits) : NULL;
    return end && end == w->text + w->n && fits;
}

static void keep(struct sl_edge_heading *h, const char *comment, uint64_t line)
{
    size_t n = strcspn(comment, "\r\n");
    h->line = line;
    snprintf(h->text, sizeof h->text, "%.*s", (int)SL_MIN(n, sizeof h->text - 1), comment);
    for (char *p = h->text; *p; p++)
        *p = (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f || *p == '|' ? ' ' : *p;
}

static bool is_any(const struct word *w, const char *const *texts)
{
    for (; *texts; texts++)
        if (is(w, *texts))
            return true;
    return false;
}

// "sym", "asym" and "bip" with a kind of weights, or alone.
static bool read_konect(struct sl_edge_heading *h, const struct word words[WORDS])
{
    static const char *const kinds[] = {"unweighted",       "positive", "posweighted",   "signed",
                                        "multisigned",      "weighted", "multiweighted", "dynamic",
                                        "multiposweighted", NULL};
    bool sym = is(&words[0], "sym"), asym = is(&words[0], "asym"), bip = is(&words[0], "bip");
    if (!(sym || asym || bip) || (words[1].n && !is_any(&words[1], kinds)))
        return false;
    h->konect = true;
    h->bipartite = bip;
    h->direction = asym ? SL_HEADING_DIRECTED : SL_HEADING_UNDIRECTED;
    h->unweighted = is(&words[1], "unweighted");
    h->dynamic = is(&words[1], "dynamic");
    return true;
}

// "Directed graph" and "Undirected graph", with more behind it.
static bool read_snap(struct sl_edge_heading *h, const struct word words[WORDS])
{
    bool directed = is(&words[0], "directed"), undirected = is(&words[0], "undirected");
    if (!(directed || undirected) || !is(&words[1], "graph"))
        return false;
    h->direction = directed ? SL_HEADING_DIRECTED : SL_HEADING_UNDIRECTED;
    return true;
}

static void read_counts(struct sl_edge_heading *h, const struct word words[WORDS])
{
    uint64_t n[3];
    if (h->konect && h->n_edges == 0 && get_number(&words[0], &n[0]) &&
        get_number(&words[1], &n[1]) && get_number(&words[2], &n[2])) {
        h->n_edges = n[0];
        h->first_side = n[1];
    }
    if (is(&words[0], "nodes") && is(&words[2], "edges") && get_number(&words[3], &n[0]))
        h->n_edges = n[0];
}

void sl_edge_heading_read(struct sl_edge_heading *h, const char *comment, uint64_t line)
{
    struct word words[WORDS];
    split(comment + strspn(comment, "#%"), words);
    if (is(&words[0], "MatrixMarket"))
        h->matrix = true;
    else if (h->direction == SL_HEADING_SILENT &&
             ((*comment == '%' && read_konect(h, words)) || read_snap(h, words)))
        keep(h, comment, line);
    else
        read_counts(h, words);
}

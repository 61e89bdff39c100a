/*
 * standalone.c - the page in one file, with its data.
 *
 * The page's HTML names its style sheet and its script in two tags, which are replaced by their
 * contents; the data goes in front of the script. The account is the first element of the body: the
 * style sheet hides all that follows it until the script has marked the body, and the account from
 * then on, so that whoever has no scripts, or forbids them, reads it. A '<' in the data is written
 * as \u003c: outside of strings JSON has none, and inside of one it means the same, so no text of a
 * job can end the script element.
 */
#include "broker/page/page.h"

#include <stdlib.h>
#include <string.h>

static const char style_tag[] = "<link rel=\"stylesheet\" href=\"page.css\">";
static const char script_tag[] = "<script src=\"page.js\"></script>";
static const char body_tag[] = "<body>\n";
static const char policy[] = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                             "'none'; img-src data:; style-src 'unsafe-inline'; script-src "
                             "'unsafe-inline'\">\n";

// A text that is written once it is known to fit: with `to` NULL it only counts.
struct writer {
    char *to;
    size_t n;
};

static void put(struct writer *w, const char *bytes, size_t n)
{
    if (w->to)
        memcpy(w->to + w->n, bytes, n);
    w->n += n;
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_data(struct writer *w, const char *json)
{
    for (;;) {
        size_t n = strcspn(json, "<");
        put(w, json, n);
        json += n;
        if (!*json)
            return;
        put_text(w, "\\u003c");
        json++;
    }
}

static void put_page(struct writer *w, const char *account, const char *data_json)
{
    const struct sl_page_file *html = sl_page_find("/");
    const struct sl_page_file *css = sl_page_find("/page.css");
    const struct sl_page_file *js = sl_page_find("/page.js");
    const char *style = strstr(html->bytes, style_tag);
    const char *body = strstr(html->bytes, body_tag) + sizeof body_tag - 1;
    const char *script = strstr(html->bytes, script_tag);

    put(w, html->bytes, (size_t)(style - html->bytes));
    put_text(w, policy);
    put_text(w, "<style>\n");
    put(w, css->bytes, css->n);
    put_text(w, "</style>");
    style += sizeof style_tag - 1;
    put(w, style, (size_t)(body - style));
    put_text(w, "<article class=\"account\">\n");
    put_text(w, account);
    put_text(w, "</article>\n");
    put(w, body, (size_t)(script - body));
    put_text(w, "<script type=\"application/json\" id=\"sluice-data\">");
    put_data(w, data_json);
    put_text(w, "</script>\n<script>\n");
    put(w, js->bytes, js->n);
    put_text(w, "</script>");
    put_text(w, script + sizeof script_tag - 1);
}

char *sl_page_standalone(const char *account, const char *data_json)
{
    struct writer w = {0};
    put_page(&w, account, data_json);
    char *text = malloc(w.n + 1);
    if (!text)
        return NULL;
    w = (struct writer){.to = text};
    put_page(&w, account, data_json);
    text[w.n] = '\0';
    return text;
}

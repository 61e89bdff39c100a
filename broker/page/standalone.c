/*
 * standalone.c - the page in one file, with its data.
 *
 * The page's HTML names its style sheet and its script in two tags, which are replaced by their
 * contents; the data goes in front of the script. The words are the first element of the body: the
 * style sheet hides all that follows it until the script has marked the body, which then puts the
 * words among the panels, so that a reader without scripts sees them. A '<' in the
 * data is written as \u003c: outside of strings JSON has none, and inside of one it means the same,
 * so no text of a job can end the script element.
 */
#include "broker/page/page.h"

#include <string.h>

#include "common/text/text.h"

static const char style_tag[] = "<link rel=\"stylesheet\" href=\"page.css\">";
static const char script_tag[] = "<script src=\"page.js\"></script>";
static const char body_tag[] = "<body>\n";
static const char policy[] = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                             "'none'; img-src data:; style-src 'unsafe-inline'; script-src "
                             "'unsafe-inline'\">\n";

static void put_data(struct sl_text *t, const char *json)
{
    for (;;) {
        size_t n = strcspn(json, "<");
        sl_text_add(t, json, n);
        json += n;
        if (!*json)
            return;
        sl_text_puts(t, "\\u003c");
        json++;
    }
}

char *sl_page_standalone(const char *words, const char *data_json)
{
    const struct sl_page_file *html = sl_page_find("/");
    const struct sl_page_file *css = sl_page_find("/page.css");
    const struct sl_page_file *js = sl_page_find("/page.js");
    const char *style = strstr(html->bytes, style_tag);
    const char *body = strstr(html->bytes, body_tag) + sizeof body_tag - 1;
    const char *script = strstr(html->bytes, script_tag);
    struct sl_text t = {0};

    sl_text_add(&t, html->bytes, (size_t)(style - html->bytes));
    sl_text_puts(&t, policy);
    sl_text_puts(&t, "<style>\n");
    sl_text_add(&t, css->bytes, css->n);
    sl_text_puts(&t, "</style>");
    style += sizeof style_tag - 1;
    sl_text_add(&t, style, (size_t)(body - style));
    sl_text_puts(&t, "<pre class=\"words\">");
    sl_text_markup(&t, words);
    sl_text_puts(&t, "</pre>\n");
    sl_text_add(&t, body, (size_t)(script - body));
    sl_text_puts(&t, "<script type=\"application/json\" id=\"sluice-data\">");
    put_data(&t, data_json);
    sl_text_puts(&t, "</script>\n<script>\n");
    sl_text_add(&t, js->bytes, js->n);
    sl_text_puts(&t, "</script>");
    sl_text_puts(&t, script + sizeof script_tag - 1);
    return sl_text_take(&t);
}

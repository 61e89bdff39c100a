// The lines of an edge list: the first is --columns (empty: not given), comments are a heading, every
// other one is split into fields, of which the first says what the columns are.
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "dataset/edge_columns.h"
#include "dataset/edge_heading.h"
#include "dataset/import.h"
#include "tests/fuzz/fuzz.h"

// Fields are of the line or unescaped, with a byte behind each that is none of theirs.
static void check_fields(const struct sl_line_fields *f, const char *line, const char *next)
{
    FUZZ_WANT(next > line && next[-1] == '\n' && !memchr(line, '\n', (size_t)(next - 1 - line)));
    FUZZ_WANT(f->n <= f->most);
    for (int i = 0; i < f->most; i++) {
        const char *text = f->at[i].text;
        FUZZ_WANT((text >= line && text + f->at[i].n < next) ||
                  (text >= f->unescaped && text + f->at[i].n < f->unescaped + f->capacity));
        fuzz_touch(text, f->at[i].n + 1);
        FUZZ_WANT(!memchr(text, '\n', f->at[i].n));
        FUZZ_WANT(i < f->n || f->at[i].n == 0);
    }
}

static void choose_columns(const struct sl_import *im, const char *option, struct sl_line_fields *f)
{
    struct sl_edge_columns c;
    bool is_heading = false;
    int rc = *option ? sl_edge_columns_choose(im, option, f, &c, &is_heading)
                     : sl_edge_columns_default(im, true, f, &c);
    if (rc < 0) {
        FUZZ_WANT(strncmp(sl_error_message(), "import ", 7) == 0);
        FUZZ_WANT(!*option || rc == SL_EINVAL || sl_edge_columns_check(option) == SL_OK);
        return;
    }
    FUZZ_WANT(c.source >= 0 && c.target >= 0 && c.weight >= -1 && c.source != c.target);
    f->most = sl_edge_columns_width(&c);
    FUZZ_WANT(f->most > c.source && f->most > c.target && f->most > c.weight);
    FUZZ_WANT(f->most <= SL_FIELDS_MAX);
}

static void read_lines(struct sl_import *im, const char *option, const char *p)
{
    static struct sl_line_fields f;
    struct sl_edge_heading heading = {0};
    bool begun = false;
    f = (struct sl_line_fields){.most = SL_FIELDS_MAX};
    while (*p) {
        const char *line = p, *next;
        p = sl_import_next_line(line);
        im->line++;
        if (*line == '#' || *line == '%') {
            sl_edge_heading_read(&heading, line, im->line);
            FUZZ_WANT(strlen(heading.text) < SL_HEADING_TEXT_BYTES);
            continue;
        }
        if (!begun)
            f.separator = sl_line_separator(line, *option != '\0');
        int rc = sl_line_fields_split(&f, line, &next);
        if (rc < 0) {
            FUZZ_WANT(rc == SL_EFORMAT && next >= line && next < p && *next == '"');
            continue;
        }
        FUZZ_WANT(next == p);
        check_fields(&f, line, next);
        if (!begun)
            choose_columns(im, option, &f);
        begun = true;
    }
    sl_line_fields_fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct sl_import im;
    char *text = malloc(n + 2), *option = memchr(data, '\n', n) ? text : NULL;
    FUZZ_WANT(text);
    memcpy(text, data, n);
    text[n] = '\n'; // as blocks of text_reader.h end
    text[n + 1] = '\0';
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] ? text[i] : ' ';
    im = (struct sl_import){.source = "edges"};
    if (option) {
        char *rest = strchr(text, '\n');
        *rest = '\0';
        read_lines(&im, option, rest + 1);
    }
    free(text);
    return 0;
}

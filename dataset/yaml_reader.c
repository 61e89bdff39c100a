/*
 * A line at a time: a file is cut into its lines that hold something (number, indentation, text);
 * block structure is indentation alone, so mappings and sequences are loops over lines of one
 * indentation that call each other for deeper ones. "- key: value" is read by putting blanks in
 * the dash's place: what stands behind it is then a line of its own, indented deeper. Inside a line
 * a cursor reads keys, scalars and flow collections.
 *
 * YAML has many more ways to write the same; each is refused with its line and never read as
 * something else.
 */
#include "dataset/yaml_reader.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/open_file.h"

enum { MAX_FILE_BYTES = 16 << 20, MAX_DEPTH = 64 };

struct line {
    int number, indent;
    char *text; // without indentation and trailing blanks; never empty, no comment at its begin
};

struct parser {
    const char *name;
    char *text; // owns the lines' text
    struct line *lines;
    size_t n, at; // lines, the one being read
    int depth;
};

static int parse_node(struct parser *p, int indent, cJSON **out);

static int fail_at(const struct parser *p, const char *what)
{
    int number = p->n == 0 ? 0 : p->lines[p->at < p->n ? p->at : p->n - 1].number;
    return sl_fail(SL_EFORMAT, "%s: line %d: %s", p->name, number, what);
}

static int no_memory(const struct parser *p)
{
    return sl_fail(SL_ENOMEM, "%s: out of memory", p->name);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *s)
{
    while (is_blank(*s))
        s++;
    return s;
}

// Nothing but a comment from here to the line's end. `s` is behind a blank or at a line's begin.
static bool is_rest_empty(const char *s)
{
    s = skip_blanks(s);
    return *s == '\0' || *s == '#';
}

static bool is_dash(const struct line *l)
{
    return l->text[0] == '-' && (l->text[1] == '\0' || is_blank(l->text[1]));
}

// ---- scalars ------------------------------------------------------------------------------------

// Text between quotes; *s is at the first and is left behind the last.
static int take_quoted(struct parser *p, const char **s, char **out)
{
    char quote = **s, *text = malloc(strlen(*s) + 1), *to = text;
    const char *c = *s + 1;
    *out = NULL;
    if (!text)
        return no_memory(p);
    for (;; c++) {
        if (*c == '\0') {
            free(text);
            return fail_at(p, "a quoted text does not end on its line");
        }
        if (*c == quote && quote == '\'' && c[1] == '\'')
            c++;
        else if (*c == quote)
            break;
        if (quote == '"' && *c == '\\') {
            const char *known = strchr("\"\\/nt", *++c);
            if (!*c || !known) {
                free(text);
                return fail_at(p, "a backslash in quotes is followed by something else than \" \\ "
                                  "/ n or t: write the character itself");
            }
            *to++ = *c == 'n' ? '\n' : *c == 't' ? '\t' : *c;
            continue;
        }
        *to++ = *c;
    }
    *to = '\0';
    *s = c + 1;
    *out = text;
    return SL_OK;
}

// A decimal number as YAML 1.1 has it (1_000_000 too), without leading zeros.
static bool scan_number(const char *text, double *out)
{
    char digits[64];
    size_t n = 0;
    const char *s = text;
    bool whole = true;
    for (; *s; s++) {
        if (*s == '_' && s > text && s[1])
            continue;
        if (!strchr("+-.0123456789eE", *s) || n + 1 >= sizeof digits)
            return false;
        whole = whole && !strchr(".eE", *s);
        digits[n++] = *s;
    }
    digits[n] = '\0';
    const char *first = digits + (digits[0] == '-' || digits[0] == '+');
    if (*first < '0' || *first > '9' || (whole && *first == '0' && first[1]))
        return false;
    char *end;
    *out = strtod(digits, &end);
    return *end == '\0' && isfinite(*out);
}

static cJSON *plain_value(const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const truths[] = {"true", "True", "TRUE"};
    static const char *const lies[] = {"false", "False", "FALSE"};
    double x;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        if (strcmp(text, nulls[i]) == 0)
            return cJSON_CreateNull();
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, truths[i]) == 0)
            return cJSON_CreateTrue();
        if (strcmp(text, lies[i]) == 0)
            return cJSON_CreateFalse();
    }
    return scan_number(text, &x) ? cJSON_CreateNumber(x) : cJSON_CreateString(text);
}

// Why a scalar can not begin with this character; NULL when it can.
static const char *reserved(const char *s)
{
    switch (*s) {
    case '&':
    case '*': return "anchors and aliases (& and *) are not read: write the value out";
    case '!': return "tags (!) are not read: leave it out";
    case '|':
    case '>': return "block texts (| and >) are not read: write it in quotes on one line";
    case '%':
    case '@':
    case '`':
    case ']':
    case '}':
    case ',': return "a value begins with a character that YAML reserves: put it in quotes";
    case '?': return is_blank(s[1]) || !s[1] ? "complex keys (?) are not read" : NULL;
    default: return NULL;
    }
}

// A plain scalar's end: a comment, the line's end, or in a flow collection , ] } as well.
static const char *plain_end(const char *s, bool flow)
{
    const char *end = s;
    for (const char *c = s; *c; c++) {
        if ((*c == '#' && c > s && is_blank(c[-1])) || (flow && strchr(",[]{}", *c)))
            break;
        if (*c == ':' && (is_blank(c[1]) || !c[1]))
            break;
        if (!is_blank(*c))
            end = c + 1;
    }
    return end;
}

static int parse_flow(struct parser *p, const char **s, cJSON **out);

// A scalar or flow collection; *s is left behind it.
static int parse_value(struct parser *p, const char **s, bool flow, cJSON **out)
{
    const char *why = reserved(*s);
    char *text;
    if (why)
        return fail_at(p, why);
    if (**s == '[' || **s == '{')
        return parse_flow(p, s, out);
    if (**s == '"' || **s == '\'') {
        SL_TRY(take_quoted(p, s, &text));
        *out = cJSON_CreateString(text);
    } else {
        const char *end = plain_end(*s, flow);
        text = strndup(*s, (size_t)(end - *s));
        *out = text ? plain_value(text) : NULL;
        *s = end;
    }
    free(text);
    return *out ? SL_OK : no_memory(p);
}

// A key and its colon; *s is left behind the colon. *key is owned, NULL when there is no colon.
static int take_key(struct parser *p, const char **s, bool flow, char **key)
{
    const char *c = *s;
    *key = NULL;
    if (*c == '"' || *c == '\'') {
        SL_TRY(take_quoted(p, &c, key));
    } else {
        const char *end = plain_end(c, flow);
        *key = strndup(c, (size_t)(end - c));
        if (!*key)
            return no_memory(p);
        c = end;
    }
    c = skip_blanks(c);
    if (*c != ':' || (c[1] && !is_blank(c[1]))) {
        free(*key);
        *key = NULL;
        return SL_OK;
    }
    *s = c + 1;
    return SL_OK;
}

// Puts an owned value under a key that must be new. Frees the value on failure.
static int add_item(struct parser *p, cJSON *object, const char *key, cJSON *value)
{
    if (!cJSON_GetObjectItemCaseSensitive(object, key) && cJSON_AddItemToObject(object, key, value))
        return SL_OK;
    char what[128];
    snprintf(what, sizeof what, "the key '%.60s' is there twice", key);
    cJSON_Delete(value);
    return fail_at(p, what);
}

static int parse_flow_item(struct parser *p, const char **s, bool map, cJSON *to)
{
    char *key = NULL;
    cJSON *value = NULL;
    int rc = SL_OK;
    if (map) {
        SL_TRY(take_key(p, s, true, &key));
        if (!key)
            return fail_at(p, "wanted 'key: value' between { and }");
        *s = skip_blanks(*s);
    }
    if (map && (**s == ',' || **s == '}'))
        value = cJSON_CreateNull();
    else
        rc = parse_value(p, s, true, &value);
    if (rc == SL_OK && map)
        rc = add_item(p, to, key, value);
    else if (rc == SL_OK)
        cJSON_AddItemToArray(to, value);
    free(key);
    return rc;
}

static int parse_flow(struct parser *p, const char **s, cJSON **out)
{
    bool map = **s == '{';
    char close = map ? '}' : ']';
    cJSON *to = map ? cJSON_CreateObject() : cJSON_CreateArray();
    int rc = to ? SL_OK : no_memory(p);
    if (rc == SL_OK && ++p->depth > MAX_DEPTH)
        rc = fail_at(p, "is nested too deeply");
    *s = skip_blanks(*s + 1);
    while (rc == SL_OK && **s != close) {
        rc = parse_flow_item(p, s, map, to);
        *s = skip_blanks(*s);
        if (rc == SL_OK && **s == ',')
            *s = skip_blanks(*s + 1);
        else if (rc == SL_OK && **s != close)
            rc = fail_at(p, map ? "wanted , or } on the same line as its {"
                                : "wanted , or ] on the same line as its [");
    }
    p->depth--;
    if (rc < 0) {
        cJSON_Delete(to);
        return rc;
    }
    ++*s;
    *out = to;
    return SL_OK;
}

// A value that ends its line; goes on to the next.
static int parse_line_value(struct parser *p, const char *s, cJSON **out)
{
    SL_TRY(parse_value(p, &s, false, out));
    const char *rest = skip_blanks(s);
    if (*rest && !(*rest == '#' && rest > s)) {
        cJSON_Delete(*out);
        *out = NULL;
        return fail_at(p, *rest == ':' ? "a second ': ' on the line: put the value in quotes"
                                       : "something follows the value on its line");
    }
    p->at++;
    return SL_OK;
}

// ---- blocks -------------------------------------------------------------------------------------

// What stands below a key or dash without a value of its own: a deeper block, or nothing. A
// sequence may stand at its key's indentation.
static int parse_below(struct parser *p, int indent, bool key, cJSON **out)
{
    p->at++;
    const struct line *l = p->at < p->n ? &p->lines[p->at] : NULL;
    if (l && (l->indent > indent || (key && l->indent == indent && is_dash(l))))
        return parse_node(p, l->indent, out);
    *out = cJSON_CreateNull();
    return *out ? SL_OK : no_memory(p);
}

static int parse_entry(struct parser *p, int indent, cJSON *object)
{
    const char *s = p->lines[p->at].text;
    const char *why = reserved(s);
    char *key;
    cJSON *value = NULL;
    if (why)
        return fail_at(p, why);
    SL_TRY(take_key(p, &s, false, &key));
    if (!key)
        return fail_at(p, "wanted 'key: value'");
    int rc;
    if (is_rest_empty(s))
        rc = parse_below(p, indent, true, &value);
    else
        rc = parse_line_value(p, skip_blanks(s), &value);
    if (rc == SL_OK)
        rc = add_item(p, object, key, value);
    free(key);
    return rc;
}

static int parse_item(struct parser *p, int indent, cJSON *array)
{
    struct line *l = &p->lines[p->at];
    cJSON *value = NULL;
    char *rest = (char *)skip_blanks(l->text + 1);
    if (is_rest_empty(rest)) {
        SL_TRY(parse_below(p, indent, false, &value));
    } else {
        l->indent += (int)(rest - l->text); // blanks in the dash's place
        l->text = rest;
        SL_TRY(parse_node(p, l->indent, &value));
    }
    cJSON_AddItemToArray(array, value);
    return SL_OK;
}

// Whether a line is 'key: ...'.
static int has_key(struct parser *p, const struct line *l, bool *yes)
{
    const char *s = l->text;
    char *key = NULL;
    *yes = false;
    if (*s == '[' || *s == '{' || reserved(s))
        return SL_OK;
    SL_TRY(take_key(p, &s, false, &key));
    *yes = key != NULL;
    free(key);
    return SL_OK;
}

// The block of lines at `indent` from the current one on.
static int parse_node(struct parser *p, int indent, cJSON **out)
{
    const struct line *l = &p->lines[p->at];
    bool sequence = is_dash(l), mapping = false;
    if (!sequence)
        SL_TRY(has_key(p, l, &mapping));
    if (!sequence && !mapping)
        return parse_line_value(p, l->text, out);
    cJSON *to = sequence ? cJSON_CreateArray() : cJSON_CreateObject();
    int rc = to ? SL_OK : no_memory(p);
    if (rc == SL_OK && ++p->depth > MAX_DEPTH)
        rc = fail_at(p, "is nested too deeply");
    while (rc == SL_OK && p->at < p->n && p->lines[p->at].indent == indent &&
           is_dash(&p->lines[p->at]) == sequence)
        rc = sequence ? parse_item(p, indent, to) : parse_entry(p, indent, to);
    if (rc == SL_OK && p->at < p->n && p->lines[p->at].indent > indent)
        rc = fail_at(p, "is indented deeper than what it belongs to (values over several lines are "
                        "not read)");
    p->depth--;
    if (rc < 0)
        cJSON_Delete(to);
    else
        *out = to;
    return rc;
}

// ---- lines --------------------------------------------------------------------------------------

static int cut_line(struct parser *p, char *s, char *end, int number)
{
    char *begin = s;
    while (end > s && (is_blank(end[-1]) || end[-1] == '\r'))
        end--;
    *end = '\0';
    while (*s == ' ')
        s++;
    struct line l = {number, (int)(s - begin), s};
    if (*skip_blanks(s) == '\0' || *skip_blanks(s) == '#')
        return SL_OK;
    p->lines[p->n++] = l;
    p->at = p->n - 1; // for messages
    if (*s == '\t')
        return fail_at(p, "is indented with a tab: YAML wants blanks");
    bool marker = l.indent == 0 && (strcmp(s, "---") == 0 || strcmp(s, "...") == 0);
    if (marker && *s == '-' && p->n == 1)
        p->n = 0;
    else if (marker || (l.indent == 0 && strncmp(s, "--- ", 4) == 0))
        return fail_at(p, "a second document begins: wanted one");
    return SL_OK;
}

static int cut_lines(struct parser *p, size_t n_text)
{
    char *s = p->text, *all = p->text + n_text;
    int number = 0;
    if (n_text >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
        s += 3;
    while (s < all) {
        char *end = memchr(s, '\n', (size_t)(all - s));
        end = end ? end : all;
        SL_TRY(cut_line(p, s, end, ++number));
        s = end + 1;
    }
    p->at = 0;
    return SL_OK;
}

int sl_yaml_parse(const char *text, size_t n, const char *name, cJSON **out)
{
    struct parser p = {.name = name};
    cJSON *root = NULL;
    int rc = SL_OK;
    size_t n_lines = 1;
    *out = NULL;
    if (memchr(text, '\0', n))
        return sl_fail(SL_EFORMAT, "%s: holds a zero byte: it is no text", name);
    for (size_t i = 0; i < n; i++)
        n_lines += text[i] == '\n';
    p.text = strndup(text, n);
    p.lines = calloc(n_lines, sizeof *p.lines);
    if (!p.text || !p.lines)
        rc = no_memory(&p);
    if (rc == SL_OK)
        rc = cut_lines(&p, n);
    if (rc == SL_OK && p.n == 0)
        rc = sl_fail(SL_EFORMAT, "%s: is empty", name);
    if (rc == SL_OK)
        rc = parse_node(&p, p.lines[0].indent, &root);
    if (rc == SL_OK && p.at < p.n)
        rc = fail_at(&p, "does not line up with what is above it");
    free(p.lines);
    free(p.text);
    if (rc < 0)
        cJSON_Delete(root);
    else
        *out = root;
    return rc;
}

int sl_yaml_read(const char *path, cJSON **out)
{
    *out = NULL;
    int fd = sl_open_file(path);
    if (fd < 0)
        return fd;
    struct stat st;
    char *text = NULL;
    size_t n = 0;
    int rc = SL_OK;
    if (fstat(fd, &st) < 0)
        rc = sl_fail_errno(SL_EIO, errno, "%s", path);
    else if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES)
        rc = sl_fail(SL_EFORMAT, "%s: wanted a regular file of at most %d bytes", path,
                     (int)MAX_FILE_BYTES);
    else if (!(text = malloc((size_t)st.st_size + 1)))
        rc = sl_fail(SL_ENOMEM, "%s: out of memory", path);
    while (rc == SL_OK && n < (size_t)st.st_size) {
        ssize_t got = read(fd, text + n, (size_t)st.st_size - n);
        if (got < 0 && errno != EINTR)
            rc = sl_fail_errno(SL_EIO, errno, "%s: can not be read", path);
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (rc == SL_OK)
        rc = sl_yaml_parse(text, n, path, out);
    free(text);
    return rc;
}

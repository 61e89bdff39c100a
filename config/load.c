/*
 * load.c - a job file becomes a struct sl_config.
 *
 *   text --check--> JSON tree --structure--> --overrides--> --structure--> --values--> --resolve-->
 *
 * check      json_check.c: is it JSON (line and column when not)
 * structure  here: every key is known, stands once, and objects are objects; so the later steps
 *            need not check that
 * overrides  override.c: --set changes the tree, which is then checked again
 * values     value.c: each row of the table reads its value, or its default
 * resolve    resolve.c: what concerns two keys or this machine
 *
 * The first fault ends the reading; nothing outside *out is touched.
 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "config/parse_internal.h"
#include "config/text_internal.h"

enum { MAX_FILE_BYTES = 1 << 20 };

// Checks that the object holds known keys, each once. scope and shown end in "." unless empty.
static int check_structure(const struct sl_parse *p, const char *scope, const char *shown,
                           const cJSON *object)
{
    const cJSON *child;
    cJSON_ArrayForEach(child, object)
    {
        const char *name = child->string;
        char path[2 * SL_KEY_PATH_BYTES], visible[2 * SL_KEY_PATH_BYTES];
        char excerpt[SL_TEXT_QUOTE_BYTES], advice[600];
        snprintf(path, sizeof path, "%s%s", scope, strlen(name) < SL_KEY_PATH_BYTES ? name : "?");
        sl_text_excerpt(name, excerpt);
        snprintf(visible, sizeof visible, "%s%s", shown, excerpt);

        const struct sl_key *key = strpbrk(name, ".[") ? NULL : sl_key_find(path);
        if (!key) {
            char parent[SL_KEY_PATH_BYTES];
            snprintf(parent, sizeof parent, "%.*s", scope[0] ? (int)strlen(scope) - 1 : 0, scope);
            sl_key_suggest(parent, name, advice, sizeof advice);
            return sl_parse_fail(p, visible, "unknown key: %s", advice);
        }
        // At most as many siblings as there are keys: an unknown one has ended the reading.
        for (const cJSON *other = object->child; other != child; other = other->next)
            if (strcmp(other->string, name) == 0)
                return sl_parse_fail(p, visible, "found twice, wanted once: keep one of them");

        if (key->type == SL_KEY_OBJECT) {
            char inner[SL_KEY_PATH_BYTES + 1];
            if (!cJSON_IsObject(child))
                return sl_parse_value(p, key, visible, child, p->out);
            snprintf(inner, sizeof inner, "%s.", key->path);
            SL_TRY(check_structure(p, inner, inner, child));
        } else if (key->type == SL_KEY_LIST && cJSON_IsArray(child)) {
            unsigned i = 0;
            const cJSON *entry;
            char entry_scope[SL_KEY_PATH_BYTES + 3];
            snprintf(entry_scope, sizeof entry_scope, "%s[].", key->path);
            cJSON_ArrayForEach(entry, child)
            {
                char inner[SL_KEY_PATH_BYTES];
                snprintf(inner, sizeof inner, "%s[%u]", key->path, i++);
                if (!cJSON_IsObject(entry)) {
                    char found[SL_PARSE_FOUND_BYTES];
                    sl_parse_found(entry, found);
                    return sl_parse_fail(p, inner,
                                         "found %s, wanted an object such as %s: correct it", found,
                                         key->entry_eg);
                }
                strcat(inner, ".");
                SL_TRY(check_structure(p, entry_scope, inner, entry));
            }
        }
    }
    return SL_OK;
}

static int parse(const char *text, size_t length, const char *origin,
                 const struct sl_config_override *overrides, size_t n_overrides,
                 struct sl_config *out)
{
    int rc = SL_OK;
    struct sl_parse p = {.origin = origin, .overrides = overrides, .out = out};
    struct sl_json_fault fault;
    memset(out, 0, sizeof *out);
    if (strspn(text, " \t\r\n") >= length)
        return sl_fail(SL_EFORMAT,
                       "%s: the file is empty, wanted a JSON object such as "
                       "{\"dataset\": \"data/products\", \"model\": {\"kind\": "
                       "\"graphsage\"}}",
                       origin);
    if (!sl_json_check(text, length, &fault))
        return sl_fail(SL_EFORMAT, "%s: line %zu, column %zu: %s", origin, fault.line, fault.column,
                       fault.why);
    p.root = cJSON_ParseWithLength(text, length);
    if (!p.root)
        return sl_fail(SL_ENOMEM, "%s: out of memory while reading it", origin);
    if (!cJSON_IsObject(p.root)) {
        char found[SL_PARSE_FOUND_BYTES];
        sl_parse_found(p.root, found);
        rc = sl_parse_fail(&p, "", "found %s, wanted a JSON object {...} with the job's keys",
                           found);
        goto out;
    }

    SL_TRY_OUT(check_structure(&p, "", "", p.root));
    for (size_t i = 0; i < n_overrides; i++) {
        SL_TRY_OUT(sl_parse_override(&p, overrides[i].text));
        p.n_overrides = i + 1;
        SL_TRY_OUT(check_structure(&p, "", "", p.root));
    }
    SL_TRY_OUT(sl_parse_members(&p, "", "", p.root, out));
    SL_TRY_OUT(sl_parse_resolve(&p));
out:
    cJSON_Delete(p.root);
    return rc;
}

int sl_config_parse(const char *text, size_t length, const char *origin, struct sl_config *out)
{
    // A text in memory need not end in a NUL; the readers here like one.
    char *copy = malloc(length + 1);
    if (!copy)
        return sl_fail(SL_ENOMEM, "%s: no memory for its %zu bytes", origin, length);
    memcpy(copy, text, length);
    copy[length] = '\0';
    int rc = parse(copy, length, origin, NULL, 0, out);
    free(copy);
    return rc;
}

// The whole file with a NUL after it, owned by the caller.
static int read_file(const char *path, char **text, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return sl_fail(SL_ENOENT,
                       "%s: there is no such job file: check the path, which counts "
                       "from the working directory",
                       path);
    if (fd < 0 && errno == EACCES)
        return sl_fail(SL_EACCESS,
                       "%s: no permission to read the job file: chmod +r it, or run "
                       "as a user who may",
                       path);
    if (fd < 0)
        return sl_fail_errno(SL_EIO, errno, "%s: opening the job file", path);

    int rc = SL_OK;
    char *data = NULL;
    size_t n = 0;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        rc = sl_fail(SL_EINVAL,
                     "%s: found a directory, wanted a job file: name the .json file in "
                     "it",
                     path);
        goto out;
    }
    data = malloc(MAX_FILE_BYTES + 2);
    if (!data) {
        rc = sl_fail(SL_ENOMEM, "%s: no memory to read the job file", path);
        goto out;
    }
    // Not by st_size: the file may be a pipe.
    while (n <= MAX_FILE_BYTES) {
        ssize_t got = read(fd, data + n, MAX_FILE_BYTES + 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = sl_fail_errno(SL_EIO, errno, "%s: reading the job file", path);
            goto out;
        }
        if (got == 0)
            break;
        n += (size_t)got;
    }
    if (n > MAX_FILE_BYTES) {
        rc = sl_fail(SL_EINVAL,
                     "%s: found more than %d bytes, wanted a job file of at most that: "
                     "is it the right file?",
                     path, MAX_FILE_BYTES);
        goto out;
    }
    data[n] = '\0';
    *text = data;
    *length = n;
    data = NULL;
out:
    free(data);
    close(fd);
    return rc;
}

int sl_config_load(const char *path, const struct sl_config_override *overrides, size_t n_overrides,
                   struct sl_config *out)
{
    char *text = NULL;
    size_t length = 0;
    SL_TRY(read_file(path, &text, &length));
    int rc = parse(text, length, path, overrides, n_overrides, out);
    free(text);
    return rc;
}

/*
 * A pickle is a program for a machine with a stack: values are pushed, gathered into tuples, lists
 * and dictionaries, and given to functions. A memo has values that are used again. Values are never
 * removed, so that the stack, the memo and containers hold their numbers.
 */
#include "dataset/pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { VALUES_MAX = 1 << 16, MEMO_MAX = 1 << 17, MARKS_MAX = 1 << 10 };

struct item {
    uint32_t value, next; // item + 1; 0: the last
};

// An array that grows.
struct grown {
    void *p;
    size_t n, room;
};

struct sl_pickle {
    struct sl_pickle_source *src; // while it is read
    struct grown values;          // struct sl_pickle_value; the first one is nothing
    struct grown items;           // struct item
    struct grown stack;           // uint32_t
    uint32_t marks[MARKS_MAX], n_marks;
    uint32_t *memo; // (MEMO_MAX); 0: nothing
    uint32_t n_memo, root;
};

// ---- bytes --------------------------------------------------------------------------------------

static uint64_t position(const struct sl_pickle_source *s)
{
    return s->at - (s->n - s->next);
}

static int fail(const struct sl_pickle *p, int rc, const char *what)
{
    return sl_fail(rc, "%s: byte %" PRIu64 ": %s", p->src->name, position(p->src), what);
}

static int fail_damaged(const struct sl_pickle *p)
{
    return fail(p, SL_EFORMAT, "is no pickle of Python's, or a damaged one: get the file again");
}

static int fill(struct sl_pickle *p)
{
    struct sl_pickle_source *s = p->src;
    const size_t n = (size_t)SL_MIN(s->size - s->at, (uint64_t)sizeof s->buffer);
    ssize_t got = (ssize_t)n;
    if (n == 0)
        return fail(p, SL_EFORMAT, "the pickle ends early: get the file again");
    if (s->stream) {
        SL_TRY(sl_zip_stream_read(s->stream, s->buffer, n));
    } else {
        do
            got = pread(s->fd, s->buffer, n, (off_t)s->at);
        while (got < 0 && errno == EINTR);
        if (got <= 0)
            return sl_fail_errno(SL_EIO, got ? errno : EIO, "%s: cannot be read", s->name);
    }
    s->at += (uint64_t)got;
    s->next = 0;
    s->n = (uint32_t)got;
    return SL_OK;
}

static int take(struct sl_pickle *p, void *out, size_t n)
{
    struct sl_pickle_source *s = p->src;
    char *to = out;
    while (n > 0) {
        if (s->next == s->n)
            SL_TRY(fill(p));
        const size_t some = SL_MIN(n, (size_t)(s->n - s->next));
        memcpy(to, s->buffer + s->next, some);
        s->next += (uint32_t)some;
        to += some;
        n -= some;
    }
    return SL_OK;
}

static int skip(struct sl_pickle *p, uint64_t n)
{
    struct sl_pickle_source *s = p->src;
    if (n > s->size - position(s))
        return fail(p, SL_EFORMAT, "the pickle ends early: get the file again");
    while (n > 0) {
        if (s->next == s->n && !s->stream) {
            s->at += n;
            return SL_OK;
        }
        if (s->next == s->n)
            SL_TRY(fill(p));
        const uint64_t some = SL_MIN(n, (uint64_t)(s->n - s->next));
        s->next += (uint32_t)some;
        n -= some;
    }
    return SL_OK;
}

// A little-endian number of n bytes, at most 8; sign: the last one's highest bit is a minus.
static int take_number(struct sl_pickle *p, size_t n, bool sign, int64_t *out)
{
    unsigned char b[8] = {0};
    uint64_t x = 0;
    SL_TRY(take(p, b, n));
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)b[i] << 8 * i;
    if (sign && n > 0 && n < 8 && b[n - 1] >> 7)
        x |= UINT64_MAX << 8 * n;
    *out = (int64_t)x;
    return SL_OK;
}

// A line's text behind which `out` has room for `most` bytes; longer ones are cut.
static int take_line(struct sl_pickle *p, char *out, size_t most)
{
    size_t n = 0;
    for (char c;;) {
        SL_TRY(take(p, &c, 1));
        if (c == '\n')
            break;
        if (n + 1 < most)
            out[n++] = c;
    }
    out[n] = '\0';
    return SL_OK;
}

// ---- values -------------------------------------------------------------------------------------

static int grow(struct sl_pickle *p, struct grown *g, size_t bytes)
{
    if (g->n < g->room)
        return SL_OK;
    if (g->n >= VALUES_MAX)
        return fail(p, SL_EUNSUPPORTED,
                    "found more than 65,536 objects: wanted arrays of NumPy or PyTorch, not lists "
                    "of numbers (numpy.array)");
    const size_t room = SL_MAX(2 * g->room, (size_t)64);
    void *more = realloc(g->p, room * bytes);
    if (!more)
        return sl_fail(SL_ENOMEM, "%s: no memory", p->src->name);
    g->p = more;
    g->room = room;
    return SL_OK;
}

static struct sl_pickle_value *at(const struct sl_pickle *p, uint32_t value)
{
    return (struct sl_pickle_value *)p->values.p + value;
}

static int push(struct sl_pickle *p, uint32_t value)
{
    SL_TRY(grow(p, &p->stack, sizeof(uint32_t)));
    ((uint32_t *)p->stack.p)[p->stack.n++] = value;
    return SL_OK;
}

// A value on top of the stack; *out is valid until the next one.
static int push_new(struct sl_pickle *p, enum sl_pickle_kind kind, struct sl_pickle_value **out)
{
    SL_TRY(grow(p, &p->values, sizeof(struct sl_pickle_value)));
    *out = at(p, (uint32_t)p->values.n);
    **out = (struct sl_pickle_value){.kind = kind};
    return push(p, (uint32_t)p->values.n++);
}

static int push_number(struct sl_pickle *p, int64_t number)
{
    struct sl_pickle_value *v;
    SL_TRY(push_new(p, SL_PICKLE_NUMBER, &v));
    v->number = number;
    return SL_OK;
}

// Values above the last mark.
static uint32_t height(const struct sl_pickle *p)
{
    return (uint32_t)p->stack.n - (p->n_marks ? p->marks[p->n_marks - 1] : 0);
}

static int pop(struct sl_pickle *p, uint32_t *value)
{
    *value = 0;
    if (height(p) == 0)
        return fail_damaged(p);
    *value = ((uint32_t *)p->stack.p)[--p->stack.n];
    return SL_OK;
}

static int append(struct sl_pickle *p, uint32_t to, uint32_t value)
{
    SL_TRY(grow(p, &p->items, sizeof(struct item)));
    struct item *items = p->items.p;
    struct sl_pickle_value *v = at(p, to);
    if (v->kind != SL_PICKLE_SEQUENCE && v->kind != SL_PICKLE_DICT)
        return SL_OK;
    items[p->items.n++] = (struct item){.value = value};
    if (v->n++)
        items[v->last - 1].next = (uint32_t)p->items.n;
    else
        v->first = (uint32_t)p->items.n;
    v->last = (uint32_t)p->items.n;
    return SL_OK;
}

// The top n values go into `to`, the lowest first.
static int append_top(struct sl_pickle *p, uint32_t to, uint32_t n)
{
    if (height(p) < n)
        return fail_damaged(p);
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(append(p, to, ((uint32_t *)p->stack.p)[p->stack.n - n + i]));
    p->stack.n -= n;
    return SL_OK;
}

static int push_sequence(struct sl_pickle *p, enum sl_pickle_kind kind, uint32_t n)
{
    struct sl_pickle_value *v;
    const uint32_t new = (uint32_t)p->values.n;
    if (height(p) < n)
        return fail_damaged(p);
    SL_TRY(push_new(p, kind, &v));
    p->stack.n--;
    SL_TRY(append_top(p, new, n));
    return push(p, new);
}

// Those above the mark, which goes.
static int pop_mark(struct sl_pickle *p, uint32_t *n)
{
    *n = 0;
    if (p->n_marks == 0)
        return fail_damaged(p);
    *n = height(p);
    p->n_marks--;
    return SL_OK;
}

static int append_marked(struct sl_pickle *p)
{
    uint32_t n;
    SL_TRY(pop_mark(p, &n));
    if (height(p) <= n)
        return fail_damaged(p);
    return append_top(p, ((uint32_t *)p->stack.p)[p->stack.n - n - 1], n);
}

static int append_few(struct sl_pickle *p, uint32_t n)
{
    if (height(p) <= n)
        return fail_damaged(p);
    return append_top(p, ((uint32_t *)p->stack.p)[p->stack.n - n - 1], n);
}

static int push_text(struct sl_pickle *p, enum sl_pickle_kind kind, size_t n_length)
{
    struct sl_pickle_value *v;
    int64_t n;
    SL_TRY(take_number(p, n_length, false, &n));
    SL_TRY(push_new(p, kind, &v));
    v->at = position(p->src);
    v->n_bytes = (uint64_t)n;
    const size_t kept = (size_t)SL_MIN(v->n_bytes, (uint64_t)sizeof v->text - 1);
    if (v->n_bytes > p->src->size - v->at)
        return fail(p, SL_EFORMAT, "the pickle ends early: get the file again");
    SL_TRY(take(p, v->text, kept));
    return skip(p, v->n_bytes - kept);
}

static int remember(struct sl_pickle *p, int64_t where)
{
    if (height(p) == 0 || where < 0 || where >= MEMO_MAX)
        return fail_damaged(p);
    p->n_memo += p->memo[where] == 0;
    p->memo[where] = ((uint32_t *)p->stack.p)[p->stack.n - 1];
    return SL_OK;
}

static int recall(struct sl_pickle *p, int64_t where)
{
    if (where < 0 || where >= MEMO_MAX || p->memo[where] == 0)
        return fail_damaged(p);
    return push(p, p->memo[where]);
}

const struct sl_pickle_value *sl_pickle_root(const struct sl_pickle *p)
{
    return at(p, p->root);
}

const struct sl_pickle_value *sl_pickle_value(const struct sl_pickle *p, uint32_t value)
{
    return at(p, value);
}

// The number of an item's value; 0: there is no such item.
static uint32_t item_of(const struct sl_pickle *p, const struct sl_pickle_value *v, uint32_t i)
{
    const struct item *items = p->items.p;
    uint32_t item = v->first;
    if ((v->kind != SL_PICKLE_SEQUENCE && v->kind != SL_PICKLE_DICT) || i >= v->n)
        return 0;
    while (i-- > 0)
        item = items[item - 1].next;
    return items[item - 1].value;
}

const struct sl_pickle_value *sl_pickle_item(const struct sl_pickle *p,
                                             const struct sl_pickle_value *v, uint32_t i)
{
    const uint32_t value = item_of(p, v, i);
    return value ? at(p, value) : NULL;
}

const struct sl_pickle_value *sl_pickle_get(const struct sl_pickle *p,
                                            const struct sl_pickle_value *v, const char *key)
{
    const struct item *items = p->items.p;
    if (v->kind != SL_PICKLE_DICT)
        return NULL;
    for (uint32_t k = v->first; k; k = items[items[k - 1].next - 1].next) {
        const struct sl_pickle_value *name = at(p, items[k - 1].value);
        if (items[k - 1].next == 0)
            return NULL;
        if (name->kind == SL_PICKLE_TEXT && strcmp(name->text, key) == 0)
            return at(p, items[items[k - 1].next - 1].value);
    }
    return NULL;
}

// ---- what functions would make ------------------------------------------------------------------

static bool is(const struct sl_pickle_value *v, enum sl_pickle_kind kind)
{
    return v && v->kind == kind;
}

struct type_name {
    const char *name;
    enum sl_dtype dtype;
};

static enum sl_dtype find_type(const struct type_name *types, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].dtype;
    return SL_DTYPE_NONE;
}

// numpy.dtype('i8', ...)
static void make_type(struct sl_pickle_value *out, const struct sl_pickle_value *name)
{
    static const struct type_name types[] = {
        {"i8", SL_DTYPE_I64}, {"u8", SL_DTYPE_U64}, {"i4", SL_DTYPE_I32}, {"u4", SL_DTYPE_U32},
        {"i2", SL_DTYPE_I16}, {"u2", SL_DTYPE_U16}, {"i1", SL_DTYPE_I8},  {"u1", SL_DTYPE_U8},
        {"b1", SL_DTYPE_U8},  {"f8", SL_DTYPE_F64}, {"f4", SL_DTYPE_F32}, {"f2", SL_DTYPE_F16},
    };
    if (!is(name, SL_PICKLE_TEXT))
        return;
    out->kind = SL_PICKLE_TYPE;
    out->head.dtype = find_type(types, SL_COUNT_OF(types), name->text);
    out->head.boolean = strcmp(name->text, "b1") == 0;
}

// ('storage', class, key, device, elements[, view])
static void make_storage(const struct sl_pickle *p, struct sl_pickle_value *out,
                         const struct sl_pickle_value *args)
{
    static const struct type_name types[] = {
        {"torch LongStorage", SL_DTYPE_I64},   {"torch IntStorage", SL_DTYPE_I32},
        {"torch ShortStorage", SL_DTYPE_I16},  {"torch CharStorage", SL_DTYPE_I8},
        {"torch ByteStorage", SL_DTYPE_U8},    {"torch BoolStorage", SL_DTYPE_U8},
        {"torch DoubleStorage", SL_DTYPE_F64}, {"torch FloatStorage", SL_DTYPE_F32},
        {"torch HalfStorage", SL_DTYPE_F16},
    };
    const struct sl_pickle_value *of = sl_pickle_item(p, args, 1),
                                 *key = sl_pickle_item(p, args, 2), *n = sl_pickle_item(p, args, 4);
    if (!is(of, SL_PICKLE_GLOBAL) || !is(key, SL_PICKLE_TEXT) || !is(n, SL_PICKLE_NUMBER) ||
        n->number < 0)
        return;
    out->kind = SL_PICKLE_STORAGE;
    out->number = n->number;
    out->head.dtype = find_type(types, SL_COUNT_OF(types), of->text);
    out->head.boolean = strcmp(of->text, "torch BoolStorage") == 0;
    memcpy(out->text, key->text, sizeof out->text);
}

// Sizes, as long as their product fits: false otherwise.
static bool take_shape(const struct sl_pickle *p, const struct sl_pickle_value *shape,
                       struct sl_npy_header *head)
{
    uint64_t bytes = sl_dtype_bytes(head->dtype);
    if (!is(shape, SL_PICKLE_SEQUENCE) || shape->n > SL_NPY_MAX_DIMS || bytes == 0)
        return false;
    head->ndim = (int)shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        const struct sl_pickle_value *size = sl_pickle_item(p, shape, i);
        if (!is(size, SL_PICKLE_NUMBER) || size->number < 0 ||
            __builtin_mul_overflow(bytes, (uint64_t)size->number, &bytes) || bytes > INT64_MAX)
            return false;
        head->shape[i] = (uint64_t)size->number;
    }
    head->data_bytes = bytes;
    return true;
}

// Whether elements lie in the order of rows, or of two dimensions in that of columns.
static bool is_dense(const struct sl_pickle *p, const struct sl_pickle_value *strides,
                     struct sl_npy_header *head)
{
    int64_t wanted = 1, stride[SL_NPY_MAX_DIMS];
    bool rows = true;
    if (!is(strides, SL_PICKLE_SEQUENCE) || strides->n != (uint32_t)head->ndim)
        return false;
    for (int i = 0; i < head->ndim; i++) {
        const struct sl_pickle_value *v = sl_pickle_item(p, strides, (uint32_t)i);
        if (!is(v, SL_PICKLE_NUMBER))
            return false;
        stride[i] = v->number;
    }
    for (int i = head->ndim - 1; i >= 0; i--) {
        rows &= head->shape[i] <= 1 || stride[i] == wanted;
        wanted *= (int64_t)head->shape[i];
    }
    head->fortran =
        !rows && head->ndim == 2 && stride[0] == 1 && (uint64_t)stride[1] == head->shape[0];
    return rows || head->fortran || head->data_bytes == 0;
}

// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, ...)
static void make_tensor(const struct sl_pickle *p, struct sl_pickle_value *out,
                        const struct sl_pickle_value *args)
{
    const struct sl_pickle_value *storage = sl_pickle_item(p, args, 0),
                                 *offset = sl_pickle_item(p, args, 1);
    out->kind = SL_PICKLE_ARRAY;
    if (!is(storage, SL_PICKLE_STORAGE) || !is(offset, SL_PICKLE_NUMBER) || offset->number < 0)
        return;
    out->head.dtype = storage->head.dtype;
    out->head.boolean = storage->head.boolean;
    if (!take_shape(p, sl_pickle_item(p, args, 2), &out->head) ||
        !is_dense(p, sl_pickle_item(p, args, 3), &out->head))
        return;
    const uint64_t n = out->head.data_bytes / sl_dtype_bytes(out->head.dtype);
    out->offset = (uint64_t)offset->number;
    if (out->offset <= (uint64_t)storage->number && n <= (uint64_t)storage->number - out->offset)
        out->content = item_of(p, args, 0);
}

static void fill_array(const struct sl_pickle *p, struct sl_pickle_value *out,
                       const struct sl_pickle_value *shape, const struct sl_pickle_value *type,
                       uint32_t bytes, bool fortran)
{
    if (!is(type, SL_PICKLE_TYPE) || !bytes || !is(at(p, bytes), SL_PICKLE_BYTES))
        return;
    out->head.dtype = type->head.dtype;
    out->head.boolean = type->head.boolean;
    out->head.big_endian = type->head.big_endian;
    if (!take_shape(p, shape, &out->head))
        return;
    const struct sl_pickle_value *content = at(p, bytes);
    out->head.fortran = fortran && out->head.ndim > 1;
    if (content->utf8 ? content->n_bytes / 2 <= out->head.data_bytes &&
                            content->n_bytes >= out->head.data_bytes
                      : content->n_bytes == out->head.data_bytes)
        out->content = bytes;
}

static bool is_of_numpy(const char *function, const char *name)
{
    return (strncmp(function, "numpy.core.", 11) == 0 && strcmp(function + 11, name) == 0) ||
           (strncmp(function, "numpy._core.", 12) == 0 && strcmp(function + 12, name) == 0);
}

static bool is_builtin(const char *function, const char *name)
{
    return (strncmp(function, "builtins ", 9) == 0 && strcmp(function + 9, name) == 0) ||
           (strncmp(function, "__builtin__ ", 12) == 0 && strcmp(function + 12, name) == 0);
}

static void call(const struct sl_pickle *p, const struct sl_pickle_value *function,
                 const struct sl_pickle_value *args, struct sl_pickle_value *out)
{
    const char *name = is(function, SL_PICKLE_GLOBAL) ? function->text : "";
    const struct sl_pickle_value *first = sl_pickle_item(p, args, 0);
    if (strncmp(name, "torch._utils _rebuild_tensor", 28) == 0 && strcmp(name + 28, "_v3") != 0) {
        make_tensor(p, out, args);
    } else if (is_of_numpy(name, "multiarray _reconstruct")) {
        out->kind = SL_PICKLE_ARRAY; // without shape, type and content yet
    } else if (is_of_numpy(name, "numeric _frombuffer")) {
        const struct sl_pickle_value *order = sl_pickle_item(p, args, 3);
        out->kind = SL_PICKLE_ARRAY;
        fill_array(p, out, sl_pickle_item(p, args, 2), sl_pickle_item(p, args, 1),
                   item_of(p, args, 0), is(order, SL_PICKLE_TEXT) && order->text[0] == 'F');
    } else if (strcmp(name, "numpy dtype") == 0) {
        make_type(out, first);
    } else if (strcmp(name, "_codecs encode") == 0 && is(first, SL_PICKLE_TEXT)) {
        // Protocol 2 has no bytes: they are the text whose characters they are in Latin-1.
        *out = *first;
        out->kind = SL_PICKLE_BYTES;
        out->utf8 = true;
    } else if (is_builtin(name, "bytes") || is_builtin(name, "bytearray")) {
        out->kind = SL_PICKLE_BYTES;
        if (is(first, SL_PICKLE_BYTES))
            *out = *first;
    } else if (strcmp(name, "collections OrderedDict") == 0) {
        out->kind = SL_PICKLE_DICT;
    }
}

static int reduce(struct sl_pickle *p)
{
    struct sl_pickle_value made = {0}, *v;
    uint32_t args, function;
    SL_TRY(pop(p, &args));
    SL_TRY(pop(p, &function));
    call(p, at(p, function), at(p, args), &made);
    SL_TRY(push_new(p, made.kind, &v));
    *v = made;
    return SL_OK;
}

// What an object of NumPy gets behind its making: an array (version, shape, type, whether in
// columns, content), a type (version, byte order, fields ...).
static int build(struct sl_pickle *p)
{
    uint32_t with;
    SL_TRY(pop(p, &with));
    if (height(p) == 0)
        return fail_damaged(p);
    const struct sl_pickle_value *state = at(p, with), *second = sl_pickle_item(p, state, 1);
    struct sl_pickle_value *v = at(p, ((uint32_t *)p->stack.p)[p->stack.n - 1]);
    if (v->kind == SL_PICKLE_TYPE && is(second, SL_PICKLE_TEXT))
        v->head.big_endian = second->text[0] == '>' && sl_dtype_bytes(v->head.dtype) > 1;
    if (v->kind == SL_PICKLE_ARRAY && !v->content) {
        const struct sl_pickle_value *columns = sl_pickle_item(p, state, 3);
        fill_array(p, v, second, sl_pickle_item(p, state, 2), item_of(p, state, 4),
                   is(columns, SL_PICKLE_NUMBER) && columns->number != 0);
    }
    return SL_OK;
}

static int push_storage(struct sl_pickle *p)
{
    struct sl_pickle_value made = {0}, *v;
    uint32_t args;
    SL_TRY(pop(p, &args));
    make_storage(p, &made, at(p, args));
    SL_TRY(push_new(p, made.kind, &v));
    *v = made;
    return SL_OK;
}

static int push_global(struct sl_pickle *p, const char *module, const char *name)
{
    struct sl_pickle_value *v;
    SL_TRY(push_new(p, SL_PICKLE_GLOBAL, &v));
    snprintf(v->text, sizeof v->text, "%.31s %.31s", module, name);
    return SL_OK;
}

static int push_global_of_lines(struct sl_pickle *p)
{
    char module[SL_PICKLE_TEXT_BYTES], name[SL_PICKLE_TEXT_BYTES];
    SL_TRY(take_line(p, module, sizeof module));
    SL_TRY(take_line(p, name, sizeof name));
    return push_global(p, module, name);
}

static int push_global_of_stack(struct sl_pickle *p)
{
    char module[SL_PICKLE_TEXT_BYTES], name[SL_PICKLE_TEXT_BYTES];
    uint32_t a, b;
    SL_TRY(pop(p, &b));
    SL_TRY(pop(p, &a));
    memcpy(module, at(p, a)->text, sizeof module);
    memcpy(name, at(p, b)->text, sizeof name);
    return push_global(p, module, name);
}

// ---- the machine --------------------------------------------------------------------------------

static int push_other(struct sl_pickle *p)
{
    struct sl_pickle_value *v;
    return push_new(p, SL_PICKLE_OTHER, &v);
}

static int push_int(struct sl_pickle *p, size_t n, bool sign)
{
    int64_t x;
    SL_TRY(take_number(p, n, sign, &x));
    return push_number(p, x);
}

// Of any length; those of more than 8 bytes are only known to be there.
static int push_long(struct sl_pickle *p, size_t n_length)
{
    int64_t n;
    SL_TRY(take_number(p, n_length, false, &n));
    if (n <= 8)
        return push_int(p, (size_t)n, true);
    SL_TRY(skip(p, (uint64_t)n));
    return push_other(p);
}

static int push_marked(struct sl_pickle *p, enum sl_pickle_kind kind)
{
    uint32_t n;
    SL_TRY(pop_mark(p, &n));
    return push_sequence(p, kind, n);
}

static int remember_at(struct sl_pickle *p, size_t n_bytes)
{
    int64_t where;
    SL_TRY(take_number(p, n_bytes, false, &where));
    return remember(p, where);
}

static int recall_from(struct sl_pickle *p, size_t n_bytes)
{
    int64_t where;
    SL_TRY(take_number(p, n_bytes, false, &where));
    return recall(p, where);
}

static int mark(struct sl_pickle *p)
{
    if (p->n_marks == MARKS_MAX)
        return fail_damaged(p);
    p->marks[p->n_marks++] = (uint32_t)p->stack.n;
    return SL_OK;
}

static int step_other(struct sl_pickle *p, unsigned char op)
{
    char text[96];
    uint32_t value;
    switch (op) {
    case '(': return mark(p);
    case 'q': return remember_at(p, 1);
    case 'r': return remember_at(p, 4);
    case 0x94: return remember(p, p->n_memo);
    case 'h': return recall_from(p, 1);
    case 'j': return recall_from(p, 4);
    case 's': return append_few(p, 2);
    case 'a': return append_few(p, 1);
    case 'u':
    case 'e': return append_marked(p);
    case 'c': return push_global_of_lines(p);
    case 0x93: return push_global_of_stack(p);
    case 'R':
    case 0x81: return reduce(p);
    case 'b': return build(p);
    case 'Q': return push_storage(p);
    case '0': return pop(p, &value);
    case 0x98: return SL_OK; // "read-only", of a buffer
    case 0x80: return skip(p, 1);
    case 0x95: return skip(p, 8); // a frame's length
    default: break;
    }
    snprintf(text, sizeof text,
             "found instruction 0x%02x: wanted a pickle of arrays, as torch.save() makes it", op);
    return fail(p, SL_EUNSUPPORTED, text);
}

static int step(struct sl_pickle *p, unsigned char op)
{
    switch (op) {
    case 'N': return push_other(p);
    case 0x88: return push_number(p, 1);
    case 0x89: return push_number(p, 0);
    case 'K': return push_int(p, 1, false);
    case 'M': return push_int(p, 2, false);
    case 'J': return push_int(p, 4, true);
    case 0x8a: return push_long(p, 1);
    case 0x8b: return push_long(p, 4);
    case 'G': SL_TRY(skip(p, 8)); return push_other(p);
    case 'X': return push_text(p, SL_PICKLE_TEXT, 4);
    case 0x8c: return push_text(p, SL_PICKLE_TEXT, 1);
    case 0x8d: return push_text(p, SL_PICKLE_TEXT, 8);
    case 'C': return push_text(p, SL_PICKLE_BYTES, 1);
    case 'B': return push_text(p, SL_PICKLE_BYTES, 4);
    case 0x8e:
    case 0x96: return push_text(p, SL_PICKLE_BYTES, 8);
    case ')':
    case ']': return push_sequence(p, SL_PICKLE_SEQUENCE, 0);
    case '}': return push_sequence(p, SL_PICKLE_DICT, 0);
    case 0x85: return push_sequence(p, SL_PICKLE_SEQUENCE, 1);
    case 0x86: return push_sequence(p, SL_PICKLE_SEQUENCE, 2);
    case 0x87: return push_sequence(p, SL_PICKLE_SEQUENCE, 3);
    case 't':
    case 'l': return push_marked(p, SL_PICKLE_SEQUENCE);
    case 'd': return push_marked(p, SL_PICKLE_DICT);
    default: return step_other(p, op);
    }
}

static int follow(struct sl_pickle *p)
{
    struct sl_pickle_value *nothing;
    unsigned char op;
    if (!p->memo)
        return sl_fail(SL_ENOMEM, "%s: no memory", p->src->name);
    SL_TRY(push_new(p, SL_PICKLE_OTHER, &nothing)); // number 0
    p->stack.n = 0;
    SL_TRY(take(p, &op, 1));
    if (op != 0x80)
        return fail_damaged(p);
    while (op != '.') {
        SL_TRY(step(p, op));
        SL_TRY(take(p, &op, 1));
    }
    if (p->stack.n != 1 || p->n_marks)
        return fail_damaged(p);
    return pop(p, &p->root);
}

int sl_pickle_read(struct sl_pickle_source *src, struct sl_pickle **out)
{
    struct sl_pickle *p = *out = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "%s: no memory", src->name);
    p->src = src;
    p->memo = calloc(MEMO_MAX, sizeof *p->memo);
    int rc = follow(p);
    // What was read ahead belongs to whatever is behind the pickle.
    if (!src->stream) {
        src->at = position(src);
        src->next = src->n = 0;
    }
    p->src = NULL;
    if (rc == SL_OK)
        return rc;
    sl_pickle_close(p);
    *out = NULL;
    return rc;
}

void sl_pickle_close(struct sl_pickle *p)
{
    if (!p)
        return;
    free(p->values.p);
    free(p->items.p);
    free(p->stack.p);
    free(p->memo);
    free(p);
}

#include "broker/rundir/params.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { TENSORS_MAX = 1 << 17 }; // of thousands of relations

// Tensor i, a twin by what the trainer says: it has the place of one like it.
static int take_twin(const struct sl_params *params, uint32_t i, uint32_t distance)
{
    struct sl_param_tensor *t = &params->tensors[i];
    const struct sl_param_tensor *of = distance <= i ? t - distance : t;
    if (of == t || of->role != SL_PARAM_LEARNED || of->rank != t->rank ||
        memcmp(of->shape, t->shape, sizeof t->shape) != 0)
        return sl_fail(SL_EPROTO, "trainer: parameter '%s' is the twin of no learned one like it",
                       t->name);
    t->offset = of->offset;
    t->twin = distance;
    t->n = 0;
    return SL_OK;
}

static int take_tensor(struct sl_params *params, uint32_t i, const Sl__Control__Tensor *from)
{
    struct sl_param_tensor *t = &params->tensors[i];
    if (!from->name || !*from->name || strlen(from->name) >= sizeof t->name)
        return sl_fail(SL_EPROTO, "trainer: a parameter tensor's name is empty or too long");
    if (from->role >= SL_PARAM_ROLES)
        return sl_fail(SL_EPROTO, "trainer: parameter '%s' has the unknown role %u", from->name,
                       from->role);
    bool counter = from->role == SL_PARAM_COUNTER;
    if ((from->n_shape == 0) != counter || from->n_shape > SL_SAFETENSORS_MAX_DIMS)
        return sl_fail(SL_EPROTO, "trainer: parameter '%s' of %zu dimensions, wanted %s",
                       from->name, from->n_shape, counter ? "0" : "1 to 4");
    snprintf(t->name, sizeof t->name, "%s", from->name);
    t->role = (enum sl_param_role)from->role;
    t->rank = (uint32_t)from->n_shape;
    t->offset = params->n;
    t->n = counter ? 0 : 1;
    for (size_t d = 0; d < from->n_shape; d++) {
        t->shape[d] = from->shape[d];
        if (from->shape[d] == 0 || __builtin_mul_overflow(t->n, from->shape[d], &t->n) ||
            t->n > (uint64_t)1 << 40)
            return sl_fail(SL_EPROTO, "trainer: parameter '%s' has an impossible shape",
                           from->name);
    }
    t->init_constant = from->init_constant;
    t->init_bound = from->init_bound;
    if (t->role == SL_PARAM_TWIN)
        return take_twin(params, i, from->twin);
    if (from->twin)
        return sl_fail(SL_EPROTO, "trainer: parameter '%s' is no twin, and has one", t->name);
    return SL_OK;
}

int sl_params_from_hello(struct sl_params *params, const Sl__Control__Hello *hello)
{
    memset(params, 0, sizeof *params);
    if (hello->n_tensors == 0 || hello->n_tensors > TENSORS_MAX)
        return sl_fail(SL_EPROTO, "trainer: a model of %zu parameter tensors", hello->n_tensors);
    params->tensors = calloc(hello->n_tensors, sizeof *params->tensors);
    if (!params->tensors)
        return sl_fail(SL_ENOMEM, "no memory for %zu tensors", hello->n_tensors);
    for (size_t i = 0; i < hello->n_tensors; i++) {
        int rc = take_tensor(params, (uint32_t)i, hello->tensors[i]);
        if (rc < 0) {
            sl_params_fini(params);
            return rc;
        }
        params->n += params->tensors[i].n;
    }
    params->stacked = hello->stacked && *hello->stacked ? strdup(hello->stacked) : NULL;
    if (!params->stacked && hello->stacked && *hello->stacked) {
        sl_params_fini(params);
        return sl_fail(SL_ENOMEM, "no memory for the names of relations");
    }
    params->n_tensors = (uint32_t)hello->n_tensors;
    params->infer_width = hello->infer_width;
    params->jumping_width = hello->jumping_width;
    return SL_OK;
}

void sl_params_fini(struct sl_params *params)
{
    free(params->tensors);
    free(params->stacked);
    memset(params, 0, sizeof *params);
}

bool sl_params_agree(const struct sl_params *params, const Sl__Control__Hello *hello)
{
    if (hello->n_tensors != params->n_tensors)
        return false;
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        const struct sl_param_tensor *a = &params->tensors[i];
        const Sl__Control__Tensor *b = hello->tensors[i];
        if (strcmp(a->name, b->name) != 0 || a->rank != b->n_shape || a->role != b->role ||
            a->twin != b->twin ||
            (a->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0))
            return false;
    }
    return true;
}

void sl_params_initialise(const struct sl_params *params, uint64_t seed, float *out)
{
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        const struct sl_param_tensor *t = &params->tensors[i];
        float *value = out + t->offset;
        for (uint64_t e = 0; e < t->n; e += 4) {
            // Four elements share a counter; the group carries what position has no room for.
            struct sl_rng_block b = sl_philox(
                seed, sl_rng_word0(SL_RNG_INIT, 0, (uint32_t)(e >> 34)), (uint32_t)(e / 4), i, 0);
            for (uint64_t k = 0; k < 4 && e + k < t->n; k++)
                value[e + k] =
                    t->init_constant + (2.0f * sl_rng_unit(b.w[k]) - 1.0f) * t->init_bound;
        }
    }
}

// --- files ---------------------------------------------------------------------------------------

static struct sl_safetensor *as_safetensors(const struct sl_params *params, const float *values,
                                            const int64_t *batches)
{
    struct sl_safetensor *list = calloc(params->n_tensors, sizeof *list);
    for (uint32_t i = 0; list && i < params->n_tensors; i++) {
        const struct sl_param_tensor *t = &params->tensors[i];
        bool counter = t->role == SL_PARAM_COUNTER;
        list[i].name = t->name;
        list[i].dtype = counter ? SL_DTYPE_I64 : SL_DTYPE_F32;
        list[i].ndim = (int)t->rank;
        memcpy(list[i].shape, t->shape, sizeof t->shape);
        list[i].data = counter ? (const void *)batches : values + t->offset;
    }
    return list;
}

// Under which a file has sl_params.stacked.
static const char stacked_key[] = "relations";

static int write_list(const struct sl_params *params, const char *path,
                      const struct sl_safetensor *list, size_t n, const char *job, const char *what,
                      const char *note)
{
    const struct sl_safetensors_note notes[] = {
        {"format", "pt"}, // what PyTorch's own loader looks for
        {"job", job},
        {what, note},
        {stacked_key, params->stacked},
    };
    return sl_safetensors_write(path, list, n, notes, SL_COUNT_OF(notes) - !params->stacked);
}

int sl_params_save(const struct sl_params *params, const float *values, uint64_t batches,
                   const char *path, const char *job, const char *note)
{
    int64_t count = (int64_t)batches;
    struct sl_safetensor *list = as_safetensors(params, values, &count);
    if (!list)
        return sl_fail(SL_ENOMEM, "writing '%s': no memory", path);
    int rc = write_list(params, path, list, params->n_tensors, job, "parameters", note);
    free(list);
    return rc;
}

int sl_params_sha256(const struct sl_params *params, const float *values, uint64_t batches,
                     char hex[SL_SHA256_HEX_BYTES])
{
    int64_t count = (int64_t)batches;
    struct sl_safetensor *list = as_safetensors(params, values, &count);
    if (!list)
        return sl_fail(SL_ENOMEM, "hashing the parameters: no memory");
    int rc = sl_safetensors_sha256(list, params->n_tensors, hex);
    free(list);
    return rc;
}

// What a file has to hold: one tensor of it.
struct wanted {
    char name[320];
    const struct sl_param_tensor *like;
    float *values; // where they go; NULL for a counter
};

// What was found to be different: the first few in words, all counted.
struct differences {
    uint32_t n;
    char text[768];
};

enum { DIFFERENCES_NAMED = 4 };

static void differ(struct differences *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void differ(struct differences *d, const char *fmt, ...)
{
    size_t n = strlen(d->text);
    if (d->n++ >= DIFFERENCES_NAMED)
        return;
    va_list ap;
    va_start(ap, fmt);
    n += (size_t)snprintf(d->text + n, sizeof d->text - n, "%s", n ? "; " : "");
    vsnprintf(d->text + n, sizeof d->text - n, fmt, ap);
    va_end(ap);
}

// "(64, 16)"
static const char *shape_text(int rank, const uint64_t *shape, char out[96])
{
    int n = snprintf(out, 96, "(");
    for (int d = 0; d < rank; d++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%llu", d ? ", " : "",
                      (unsigned long long)shape[d]);
    snprintf(out + n, 96 - (size_t)n, ")");
    return out;
}

static void compare_tensor(const struct sl_safetensors_file *file, const struct wanted *w,
                           struct differences *d)
{
    char found[96], want[96];
    const struct sl_safetensor *t = sl_safetensors_find(file, w->name);
    const char *wanted_shape = shape_text((int)w->like->rank, w->like->shape, want);
    if (!t) {
        // Files of other programs may go without counters, which are not asked for anyway, and
        // without twins.
        if (w->values && w->like->role != SL_PARAM_TWIN)
            differ(d, "'%s' %s is missing", w->name, wanted_shape);
        return;
    }
    bool integer = t->dtype == SL_DTYPE_I64 || t->dtype == SL_DTYPE_I32;
    if (t->ndim != (int)w->like->rank ||
        memcmp(t->shape, w->like->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
        differ(d, "'%s': found shape %s, wanted %s", w->name, shape_text(t->ndim, t->shape, found),
               wanted_shape);
    else if (integer != (w->values == NULL))
        differ(d, "'%s': found %s, wanted %s", w->name, integer ? "integers" : "floats",
               w->values ? "floats" : "integers");
}

static size_t count_found(const struct sl_safetensors_file *file, const struct wanted *list,
                          size_t n, const char *prefix, size_t length)
{
    char name[512];
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%.*s%s", (int)length, prefix, list[i].name);
        found += sl_safetensors_find(file, name) != NULL;
    }
    return found;
}

// What stands before the names that are wanted, "model." for one: so many bytes of *prefix, which
// is in the file's names; 0 where most of them are there as they are or not at all.
static size_t find_prefix(const struct sl_safetensors_file *file, const struct wanted *list,
                          size_t n, const char **prefix)
{
    size_t length = 0, most = count_found(file, list, n, "", 0);
    for (size_t k = 0; k < file->n_tensors && most < n; k++) {
        const char *name = file->tensors[k].name;
        for (size_t i = 0; i < n; i++) {
            size_t a = strlen(name), b = strlen(list[i].name);
            if (a <= b + 1 || name[a - b - 1] != '.' || strcmp(name + a - b, list[i].name) != 0 ||
                (length == a - b && strncmp(*prefix, name, length) == 0))
                continue;
            size_t found = count_found(file, list, n, name, a - b);
            if (found <= most)
                continue;
            *prefix = name;
            length = a - b;
            most = found;
        }
    }
    return length;
}

static int fail_differences(const struct sl_safetensors_file *file, const struct wanted *list,
                            size_t n, const struct differences *d)
{
    const char *prefix = "";
    size_t length = find_prefix(file, list, n, &prefix);
    if (length)
        return sl_fail(SL_EFORMAT,
                       "'%s': its names begin with '%.*s', as in '%s': take that off with `sluice "
                       "import-weights --strip-prefix %.*s`",
                       file->path, (int)length, prefix, prefix, (int)length, prefix);
    return sl_fail(SL_EFORMAT,
                   "'%s' does not fit the model of this job: %s%s: %s: take a file "
                   "of the same model, or correct the job's \"model\"",
                   file->path, SL_PLURAL(d->n, "difference"),
                   d->n > DIFFERENCES_NAMED ? ", the first ones" : "", d->text);
}

// Whether the file, if it has a twin, says the same of it as of the other one, which is there.
static int check_twin(const struct sl_safetensors_file *file, const struct wanted *w)
{
    const struct sl_safetensor *found = sl_safetensors_find(file, w->name);
    const uint64_t n = (w - w->like->twin)->like->n;
    if (!found)
        return SL_OK;
    float *values = malloc(n * sizeof *values);
    int rc = values ? sl_safetensor_floats(found, values)
                    : sl_fail(SL_ENOMEM, "no memory for tensor %s", w->name);
    if (rc == SL_OK && memcmp(values, w->values, n * sizeof *values) != 0)
        rc = sl_fail(SL_EFORMAT,
                     "found other values of '%s' than of '%s', wanted the same, as "
                     "model.share_weights says: set it to false",
                     w->name, (w - w->like->twin)->name);
    free(values);
    return rc;
}

static int take_values(const struct sl_safetensors_file *file, const struct wanted *w)
{
    if (!w->values)
        return SL_OK;
    return w->like->role == SL_PARAM_TWIN
               ? check_twin(file, w)
               : sl_safetensor_floats(sl_safetensors_find(file, w->name), w->values);
}

// The first relation that is another one there: a stacked tensor fits in any order of them.
static int check_stacked(const struct sl_params *params, const struct sl_safetensors_file *file)
{
    const char *found = sl_safetensors_note(file, stacked_key), *wanted = params->stacked;
    if (!found || !wanted)
        return SL_OK;
    for (uint32_t i = 0; *found || *wanted; i++) {
        const int a = (int)strcspn(found, ","), b = (int)strcspn(wanted, ",");
        if (a != b || strncmp(found, wanted, (size_t)a) != 0)
            return sl_fail(SL_EFORMAT,
                           "'%s': relation %u, by whose number its tensors are stacked: found "
                           "'%.*s', wanted '%.*s': make the data set with its relations in the "
                           "order of the one that the model was trained on",
                           file->path, i, a, found, b, wanted);
        found += a + strspn(found + a, ", ");
        wanted += b + strspn(wanted + b, ", ");
    }
    return SL_OK;
}

// Compares everything before it writes anything.
static int take_file(const struct sl_params *params, const struct sl_safetensors_file *file,
                     const struct wanted *list, size_t n)
{
    struct differences d = {0};
    for (size_t i = 0; i < n; i++)
        compare_tensor(file, &list[i], &d);
    for (size_t k = 0; k < file->n_tensors; k++) {
        size_t i = 0;
        while (i < n && strcmp(list[i].name, file->tensors[k].name) != 0)
            i++;
        if (i == n)
            differ(&d, "'%s' is not a tensor of this model", file->tensors[k].name);
    }
    if (d.n)
        return fail_differences(file, list, n, &d);
    SL_TRY(check_stacked(params, file));
    for (size_t i = 0; i < n; i++) {
        const int rc = take_values(file, &list[i]);
        if (rc < 0)
            return sl_fail_prefix(rc, "'%s'", file->path);
    }
    return SL_OK;
}

static int load_list(const struct sl_params *params, const char *path, const struct wanted *list,
                     size_t n)
{
    struct sl_safetensors_file file;
    SL_TRY(sl_safetensors_open(path, &file));
    int rc = take_file(params, &file, list, n);
    sl_safetensors_close(&file);
    return rc;
}

// All tensors of the model, with their places in `values`. Owned: free(). NULL: no memory.
static struct wanted *list_model(const struct sl_params *params, float *values)
{
    struct wanted *list = calloc(params->n_tensors, sizeof *list);
    for (uint32_t i = 0; list && i < params->n_tensors; i++) {
        const struct sl_param_tensor *t = &params->tensors[i];
        snprintf(list[i].name, sizeof list[i].name, "%s", t->name);
        list[i].like = t;
        list[i].values = t->role == SL_PARAM_COUNTER ? NULL : values + t->offset;
    }
    return list;
}

int sl_params_load(const struct sl_params *params, const char *path, float *values)
{
    struct wanted *list = list_model(params, values);
    if (!list)
        return sl_fail(SL_ENOMEM, "reading '%s': no memory", path);
    int rc = load_list(params, path, list, params->n_tensors);
    free(list);
    return rc;
}

// --- files of others ---

static int strip_prefix(struct sl_safetensors_file *file, const char *prefix)
{
    size_t n = strlen(prefix), stripped = 0;
    for (size_t k = 0; k < file->n_tensors; k++) {
        bool begins = strncmp(file->tensors[k].name, prefix, n) == 0 && file->tensors[k].name[n];
        file->tensors[k].name += begins ? n : 0;
        stripped += begins;
    }
    for (size_t k = 0; k < file->n_tensors; k++)
        if (sl_safetensors_find(file, file->tensors[k].name) != &file->tensors[k])
            return sl_fail(SL_EINVAL, "'%s': without '%s' there are two tensors '%s'", file->path,
                           prefix, file->tensors[k].name);
    if (stripped == 0 && file->n_tensors > 0)
        return sl_fail(SL_EINVAL, "'%s': no name begins with '%s': the first one is '%s'",
                       file->path, prefix, file->tensors[0].name);
    return SL_OK;
}

static bool is_variance(const struct sl_param_tensor *t)
{
    static const char last[] = ".running_var";
    size_t n = strlen(t->name);
    return t->role == SL_PARAM_RUNNING && n >= sizeof last - 1 &&
           strcmp(t->name + n - (sizeof last - 1), last) == 0;
}

static int check_values(const struct sl_safetensors_file *file, const struct wanted *w)
{
    char place[96];
    const bool variance = is_variance(w->like);
    for (uint64_t i = 0; w->values && i < w->like->n; i++)
        if (!isfinite(w->values[i]) || (variance && w->values[i] < 0))
            return sl_fail(SL_EFORMAT,
                           "'%s': tensor %s: %s: found %g, wanted a finite number%s: was its "
                           "anew, or take an earlier checkpoint",
                           file->path, w->name,
                           sl_safetensor_place(sl_safetensors_find(file, w->name), i, place),
                           (double)w->values[i], variance ? " from 0: it is a variance" : "");
    return SL_OK;
}

static int import_file(const struct sl_params *params, struct sl_safetensors_file *file,
                       const char *prefix, const struct wanted *list, uint64_t *batches)
{
    if (prefix)
        SL_TRY(strip_prefix(file, prefix));
    SL_TRY(take_file(params, file, list, params->n_tensors));
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        const struct sl_safetensor *found = sl_safetensors_find(file, list[i].name);
        SL_TRY(check_values(file, &list[i]));
        if (batches && !list[i].values && found && found->dtype == SL_DTYPE_I64)
            memcpy(batches, found->data, sizeof *batches);
    }
    return SL_OK;
}

int sl_params_import(const struct sl_params *params, const char *path, const char *prefix,
                     float *values, uint64_t *batches)
{
    struct sl_safetensors_file file;
    struct wanted *list = list_model(params, values);
    if (batches)
        *batches = 0;
    if (!list)
        return sl_fail(SL_ENOMEM, "reading '%s': no memory", path);
    int rc = sl_safetensors_open(path, &file);
    if (rc == SL_OK) {
        rc = import_file(params, &file, prefix, list, batches);
        sl_safetensors_close(&file);
    }
    free(list);
    return rc;
}

// --- the optimizer's arrays ---

// PyTorch's names: Adam has two arrays, SGD one.
static const char *state_name(uint32_t n_state, uint32_t i)
{
    return n_state == 1 ? "momentum_buffer" : i == 0 ? "exp_avg" : "exp_avg_sq";
}

// Learned tensors of all arrays, with their places in `state`. Owned: free(). NULL: no memory.
static struct wanted *list_state(const struct sl_params *params, float *const *state,
                                 uint32_t n_state, size_t *n)
{
    struct wanted *list = calloc((size_t)n_state * params->n_tensors + 1, sizeof *list);
    *n = 0;
    for (uint32_t s = 0; list && s < n_state; s++) {
        for (uint32_t i = 0; i < params->n_tensors; i++) {
            const struct sl_param_tensor *t = &params->tensors[i];
            if (t->role != SL_PARAM_LEARNED)
                continue;
            snprintf(list[*n].name, sizeof list->name, "%s.%s", state_name(n_state, s), t->name);
            list[*n].like = t;
            list[*n].values = state[s] + t->offset;
            ++*n;
        }
    }
    return list;
}

int sl_params_save_state(const struct sl_params *params, const float *const *state,
                         uint32_t n_state, const char *path, const char *job, const char *note)
{
    size_t n;
    // The list's places are only read here.
    struct wanted *list = list_state(params, (float *const *)state, n_state, &n);
    struct sl_safetensor *tensors = calloc(n + 1, sizeof *tensors);
    int rc = list && tensors ? SL_OK : sl_fail(SL_ENOMEM, "writing '%s': no memory", path);
    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        tensors[i] = (struct sl_safetensor){.name = list[i].name,
                                            .dtype = SL_DTYPE_F32,
                                            .ndim = (int)list[i].like->rank,
                                            .data = list[i].values};
        memcpy(tensors[i].shape, list[i].like->shape, sizeof tensors[i].shape);
    }
    if (rc == SL_OK)
        rc = write_list(params, path, tensors, n, job, "optimizer", note);
    free(tensors);
    free(list);
    return rc;
}

int sl_params_load_state(const struct sl_params *params, const char *path, float *const *state,
                         uint32_t n_state)
{
    size_t n;
    struct wanted *list = list_state(params, state, n_state, &n);
    if (!list)
        return sl_fail(SL_ENOMEM, "reading '%s': no memory", path);
    int rc = load_list(params, path, list, n);
    free(list);
    return rc;
}

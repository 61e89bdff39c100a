/*
 * run.c - `sluice run`: one job in the foreground.
 *
 * Everything that can be known before a process is started is checked here: the job file, the data
 * set, where the results go. Then the private broker is started (launch.h) and this process is its
 * client: it shows what the broker tells, hands Ctrl-C on, and ends with the job.
 *
 *   first SIGINT, SIGTERM, SIGHUP or   Stop: workers leave, a checkpoint and the report are
 *   SIGUSR1                            written
 *   second                             Stop with kill: workers are killed first
 *   third, or no answer in time        the broker is killed; its workers die with it
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/cli/command.h"
#include "broker/cli/launch.h"
#include "broker/cli/options.h"
#include "broker/cli/run_view.h"
#include "broker/cli/units.h"
#include "broker/phases.h"
#include "broker/placement.h"
#include "broker/resume.h"
#include "broker/rundir.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/data/dataset.h"
#include "common/data/safetensors.h"
#include "common/ipc/bus.h"
#include "config/config.h"

enum {
    VALIDATION_NOTE_MS = 700, // longer checks say that they are going on
    STOP_MS = 8000,           // for the broker to answer a Stop
    KILL_MS = 1500,           // ... one with kill
    SAVE_MS = 120000,         // ... which says that it writes the last checkpoint
    LEAVE_MS = 3000,          // for the broker to end after its last word
    LAST_WORD_MS = 300,       // for a message of a dead broker to arrive
};

struct run_options {
    const char *job, *report, *checkpoint;
    struct sl_text_list set;
    bool dry_run, quiet;
    int format; // 0 text, 1 json
};

struct run {
    struct run_options options;
    struct sl_config config;
    struct sl_dataset dataset;
    enum sl_measure measure; // what its evaluations are judged by
    char *config_json;
    struct sl_resume resume;
    struct sl_launch broker;
    struct sl_bus *bus;
    struct sl_run_view view;
    int signal_fd;
    int n_signals;
    uint64_t kill_at_ns;              // 0 = never
    Sl__Control__Envelope *last_word; // Finished
};

// --- validation ----------------------------------------------------------------------------------

// Says that a check goes on, once it has taken a while.
struct patience {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
    const char *dataset;
};

static void *say_after_a_while(void *arg)
{
    struct patience *p = arg;
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    uint64_t ns = (uint64_t)when.tv_nsec + VALIDATION_NOTE_MS * 1000000u;
    when.tv_sec += (time_t)(ns / 1000000000u);
    when.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&p->lock);
    int rc = 0;
    while (!p->done && rc == 0)
        rc = pthread_cond_timedwait(&p->over, &p->lock, &when);
    if (!p->done)
        fprintf(stderr, "checking the data set '%s' in full (once; it is remembered)\n",
                p->dataset);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int open_dataset(struct run *r)
{
    struct patience p = {.dataset = r->config.dataset};
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.over, NULL);
    bool speaks = !r->options.quiet && pthread_create(&p.thread, NULL, say_after_a_while, &p) == 0;
    unsigned need = SL_NEED_TRAINING;
    if (r->config.sampler.kind == SL_SAMPLER_WEIGHTED)
        need |= SL_NEED_WEIGHTS;
    int rc = sl_dataset_open(r->config.dataset, need, SL_CHECK_CACHED, 0, &r->dataset);
    if (speaks) {
        pthread_mutex_lock(&p.lock);
        p.done = true;
        pthread_cond_signal(&p.over);
        pthread_mutex_unlock(&p.lock);
        pthread_join(p.thread, NULL);
    }
    pthread_cond_destroy(&p.over);
    pthread_mutex_destroy(&p.lock);
    return rc;
}

static int load_config(struct run *r)
{
    struct sl_config_override *overrides = NULL;
    size_t n = r->options.set.n;
    if (n) {
        overrides = calloc(n, sizeof *overrides);
        if (!overrides)
            return sl_fail(SL_ENOMEM, "no memory for %zu --set options", n);
        for (size_t i = 0; i < n; i++)
            overrides[i].text = r->options.set.items[i];
    }
    int rc = sl_config_load(r->options.job, overrides, n, &r->config);
    free(overrides);
    return rc;
}

// How many batches an epoch has only the data set can tell.
static int check_schedule(const struct run *r)
{
    uint64_t batches = sl_phases_batches(&r->config, r->dataset.split[SL_SPLIT_TRAIN].n);
    for (uint32_t i = 0; i < r->config.n_schedule; i++)
        if (r->config.schedule[i].batch > batches)
            return sl_fail(SL_EINVAL,
                           "%s: schedule[%u].batch: found %u, wanted at most %" PRIu64
                           ", the mini-batches of an epoch: correct it",
                           r->options.job, i, r->config.schedule[i].batch, batches);
    return SL_OK;
}

// One weight for each class of the data set.
static int check_class_weights(const struct run *r)
{
    enum sl_class_weights kind = r->config.loss.class_weights;
    const struct sl_dataset *ds = &r->dataset;
    if (kind != SL_CLASS_WEIGHTS_NONE && ds->task == SL_TASK_REGRESSION)
        return sl_fail(SL_EINVAL,
                       "%s: loss.class_weights: found it with the data set '%s', which is of a "
                       "regression and has no classes: take it out",
                       r->options.job, r->config.dataset);
    if (kind != SL_CLASS_WEIGHTS_LIST || r->config.loss.n_class_weights == ds->n_classes)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: loss.class_weights: found %u numbers, wanted %u, one for each %s of the "
                   "data set '%s': give as many, or \"balanced\" or \"none\"",
                   r->options.job, r->config.loss.n_class_weights, ds->n_classes,
                   ds->task == SL_TASK_MULTILABEL ? "label" : "class", r->config.dataset);
}

// Initial parameters: whether the file is one. Which model it is of only the trainers can tell.
static int check_weights(const struct run *r)
{
    struct sl_safetensors_file file;
    if (!r->config.model.weights[0] || r->resume.content == SL_RUNDIR_CHECKPOINTS)
        return SL_OK;
    int rc = sl_safetensors_open(r->config.model.weights, &file);
    if (rc == SL_ENOENT)
        return sl_fail(rc,
                       "%s: model.weights: found \"%s\", wanted a .safetensors file, and there is "
                       "none of that name: correct the path, or leave it out for random values",
                       r->options.job, r->config.model.weights);
    if (rc < 0)
        return sl_fail_prefix(rc, "model.weights");
    sl_safetensors_close(&file);
    return SL_OK;
}

// Says that it is not the beginning, before the first line of progress.
static void tell_resume(const struct run *r)
{
    char where[96];
    if (r->options.quiet)
        return;
    if (r->resume.content == SL_RUNDIR_BEGUN)
        fprintf(stderr,
                "sluice: note: '%s' is of a run that was killed before its first checkpoint: the "
                "job begins anew there\n",
                r->config.output);
    if (r->resume.content == SL_RUNDIR_CHECKPOINTS)
        fprintf(stderr, "going on from %s\n",
                sl_resume_text(&r->resume.checkpoint, where, sizeof where));
}

// Nothing has a side effect here but the record of a data set that was checked.
static int validate(struct run *r)
{
    SL_TRY(sl_failpoint_init()); // for the processes to come
    SL_TRY(load_config(r));
    r->config_json = sl_config_to_json(&r->config);
    if (!r->config_json)
        return sl_fail(SL_ENOMEM, "no memory for the configuration");
    SL_TRY(sl_resume_find(&r->config, r->config_json, r->options.checkpoint, &r->resume));
    if (r->options.report)
        SL_TRY(sl_rundir_check_file(r->options.report, "--report"));
    SL_TRY(check_weights(r));
    SL_TRY(open_dataset(r));
    SL_TRY(sl_resume_check_dataset(&r->resume, &r->config, r->dataset.digest));
    SL_TRY(sl_measure_check(&r->config, &r->dataset));
    r->measure = sl_measure_of(r->config.evaluate.metric, r->dataset.task);
    SL_TRY(check_class_weights(r));
    SL_TRY(check_schedule(r));
    tell_resume(r);
    uint64_t n_train = r->dataset.split[SL_SPLIT_TRAIN].n;
    if (r->config.sampler.batch_size > n_train && !r->options.quiet)
        fprintf(stderr,
                "sluice: note: sampler.batch_size %" PRIu64 " is larger than the training set of "
                "%" PRIu64 ": every epoch is one mini-batch\n",
                r->config.sampler.batch_size, n_train);
    return SL_OK;
}

// --- dry run -------------------------------------------------------------------------------------

enum { ROLES_BYTES = 96 };

// "sampler 0, standby trainer 1"
static const char *roles_text(const struct sl_config *c, uint32_t device, char out[ROLES_BYTES])
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    int n = 0;
    out[0] = '\0';
    for (enum sl_role role = SL_ROLE_SAMPLER; role < SL_ROLE_COUNT; role++) {
        enum sl_duty duty =
            sl_placement_duty(split, c->n_devices, c->allocation.switching, role, device);
        if (duty != SL_DUTY_NONE)
            n += snprintf(out + n, ROLES_BYTES - (size_t)n, "%s%s%s %u", n ? ", " : "",
                          duty == SL_DUTY_STANDBY ? "standby " : "", sl_role_name(role),
                          sl_placement_role_index(c->n_devices, role, device));
    }
    return out[0] ? out : "nothing";
}

static void add_role_devices(cJSON *to, const char *key, const struct sl_config *c,
                             enum sl_role role, enum sl_duty duty)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    cJSON *list = cJSON_AddArrayToObject(to, key);
    for (uint32_t i = 0; i < c->n_devices; i++)
        if (sl_placement_duty(split, c->n_devices, c->allocation.switching, role, i) == duty)
            cJSON_AddItemToArray(list, cJSON_CreateNumber(i));
}

static void print_plan_text(const struct run *r)
{
    const struct sl_config *c = &r->config;
    const struct sl_dataset *ds = &r->dataset;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], reason[192], device[512], roles[ROLES_BYTES];
    uint64_t n_train = ds->split[SL_SPLIT_TRAIN].n;
    printf("job         %s\n", c->name);
    printf("data set    %s: %s vertices, %s edges, %u features, %u classes\n", c->dataset,
           sl_units_grouped(a, ds->n_nodes), sl_units_grouped(b, ds->n_edges), ds->feat_dim,
           ds->n_classes);
    printf("epochs      %u of %s mini-batches, %s updates each\n", c->epochs,
           sl_units_grouped(a, sl_phases_batches(c, n_train)),
           sl_units_grouped(b, sl_phases_updates(c, n_train)));
    printf("split       %u sampler%s, %u trainer%s (%s)\n", c->allocation.samplers,
           c->allocation.samplers == 1 ? "" : "s", c->allocation.trainers,
           c->allocation.trainers == 1 ? "" : "s", sl_placement_reason(c, reason, sizeof reason));
    for (uint32_t i = 0; i < c->n_devices; i++)
        printf("  %s: %s\n", sl_placement_device_text(c, i, device, sizeof device),
               roles_text(c, i, roles));
    printf("output      %s\n\n%s\n", c->output, r->config_json);
}

static int print_plan_json(const struct run *r)
{
    const struct sl_config *c = &r->config;
    uint64_t n_train = r->dataset.split[SL_SPLIT_TRAIN].n;
    char reason[192];
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddItemToObject(plan, "config", cJSON_Parse(r->config_json));
    cJSON_AddNumberToObject(plan, "num_nodes", (double)r->dataset.n_nodes);
    cJSON_AddNumberToObject(plan, "num_edges", (double)r->dataset.n_edges);
    cJSON_AddNumberToObject(plan, "batches_per_epoch", (double)sl_phases_batches(c, n_train));
    cJSON_AddNumberToObject(plan, "updates_per_epoch", (double)sl_phases_updates(c, n_train));
    cJSON *split = cJSON_AddObjectToObject(plan, "allocation");
    cJSON_AddStringToObject(split, "reason", sl_placement_reason(c, reason, sizeof reason));
    add_role_devices(split, "sampler_devices", c, SL_ROLE_SAMPLER, SL_DUTY_WORK);
    add_role_devices(split, "trainer_devices", c, SL_ROLE_TRAINER, SL_DUTY_WORK);
    add_role_devices(split, "standby_devices", c, SL_ROLE_TRAINER, SL_DUTY_STANDBY);
    char *text = cJSON_Print(plan);
    cJSON_Delete(plan);
    if (!text)
        return sl_fail(SL_ENOMEM, "no memory for the plan");
    printf("%s\n", text);
    free(text);
    return SL_OK;
}

// --- the broker's client -------------------------------------------------------------------------

static void send_subscribe(struct run *r)
{
    Sl__Control__Subscribe subscribe = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE;
    e.subscribe = &subscribe;
    sl_bus_send(r->bus, NULL, &e);
}

static void send_stop(struct run *r, bool kill)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    stop.kill = kill;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    sl_bus_send(r->bus, NULL, &e);
}

static void on_signal(struct run *r)
{
    struct signalfd_siginfo info;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        r->n_signals++;
        if (r->n_signals == 1) {
            sl_progress_line(&r->view.progress, "stopping (once more kills)");
            send_stop(r, false);
            r->kill_at_ns = sl_now_ns() + STOP_MS * 1000000ull;
        } else if (r->n_signals == 2) {
            send_stop(r, true);
            r->kill_at_ns = sl_now_ns() + KILL_MS * 1000000ull;
        } else {
            sl_launch_kill(&r->broker);
        }
    }
}

// Shows a message, or keeps it when it is the last word.
static void on_message(struct run *r, Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_PROGRESS:
        if (r->kill_at_ns && strcmp(m->progress->phase, "save") == 0)
            r->kill_at_ns = sl_now_ns() + SAVE_MS * 1000000ull;
        sl_run_view_progress(&r->view, m->progress);
        break;
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE:
        sl_run_view_epoch(&r->view, m->epoch_done->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_LOG_LINE: sl_run_view_log(&r->view, m->log_line); break;
    case SL__CONTROL__ENVELOPE__BODY_FINISHED: r->last_word = m; return;
    default: break;
    }
    sl_bus_message_free(m);
}

static void receive(struct run *r, int timeout_ms)
{
    Sl__Control__Envelope *m;
    while (!r->last_word && sl_bus_receive(r->bus, timeout_ms, NULL, &m) == SL_OK)
        on_message(r, m);
}

// Until the broker has said its last word, or is gone. True when it is gone.
static bool follow(struct run *r, struct sl_death *death)
{
    for (;;) {
        receive(r, 0);
        if (r->last_word)
            return false;
        if (sl_launch_wait(&r->broker, 0, death)) {
            on_signal(r); // a signal may be why it is gone
            receive(r, LAST_WORD_MS);
            return true;
        }
        uint64_t now = sl_now_ns();
        if (r->kill_at_ns && now >= r->kill_at_ns) {
            sl_launch_kill(&r->broker);
            r->kill_at_ns = 0;
        }
        struct pollfd fds[] = {
            {.fd = sl_bus_fd(r->bus), .events = POLLIN},
            {.fd = r->signal_fd, .events = POLLIN},
            {.fd = r->broker.pidfd, .events = POLLIN},
        };
        poll(fds, SL_COUNT_OF(fds), 200);
        on_signal(r);
    }
}

// The command's result when the broker went without a last word.
static int broker_lost(struct run *r, const struct sl_death *death)
{
    char how[160];
    if (r->n_signals)
        return sl_fail(SL_EABORTED, "job '%s': killed; '%s' may hold an unfinished run",
                       r->config.name, r->config.output);
    // It could not even begin to talk, and has said why on the standard error that we share.
    if (death->known && !death->signal && death->exit_status == SL_EXIT_USAGE)
        return SL_EXIT_USAGE;
    sl_death_describe(death, how, sizeof how);
    return sl_fail(SL_EFAILED,
                   "job '%s': the broker %s and its workers with it: if '%s' exists it holds what "
                   "was done, and its log/ may say why; run the job again with another output",
                   r->config.name, how, r->config.output);
}

static int report_result(struct run *r)
{
    const Sl__Control__Finished *f = r->last_word->finished;
    const char *where = *f->run_directory ? f->run_directory : NULL;
    bool has_report = *f->report_json != '\0';
    bool resumed = r->resume.content == SL_RUNDIR_CHECKPOINTS;
    if (has_report && r->options.format == 1)
        printf("%s\n", f->report_json);
    switch (f->exit_status) {
    case 0:
        if (has_report && r->options.format == 0 && !r->options.quiet)
            sl_run_view_summary(f->report_json, f->run_directory);
        return SL_EXIT_OK;
    case 2: return sl_fail(SL_EINVAL, "job '%s': %s", r->config.name, f->message);
    case 130:
        return sl_fail(SL_EABORTED, "job '%s': %s%s%s", r->config.name, f->message,
                       where     ? ": what was done is in "
                       : resumed ? " before it went on; the run is as it was"
                                 : " before it began; nothing was left",
                       where ? where : "");
    default:
        return sl_fail(SL_EFAILED, "job '%s': %s%s%s", r->config.name, f->message,
                       where ? ": the report and the logs are in " : "", where ? where : "");
    }
}

// The signals that stop a job, but for those that whoever started us wants ignored (nohup).
static void stop_signals(sigset_t *out)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigemptyset(out);
    for (size_t i = 0; i < SL_COUNT_OF(all); i++) {
        struct sigaction now;
        if (sigaction(all[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(out, all[i]);
    }
}

static int run_job(struct run *r)
{
    struct sl_death death;
    sigset_t caught, before;
    stop_signals(&caught);
    sigprocmask(SIG_BLOCK, &caught, &before);
    r->signal_fd = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signal_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "catching signals");
    const struct sl_launch_job job = {
        .config_json = r->config_json,
        .name = r->config.name,
        .output = r->config.output,
        .report_path = r->options.report,
        .resume = r->resume.content == SL_RUNDIR_CHECKPOINTS ? r->resume.checkpoint.name : NULL,
    };
    SL_TRY(sl_launch_broker(&job, &r->broker));
    sl_run_view_init(&r->view, r->options.quiet, r->config.epochs, r->measure);
    int rc = sl_bus_connect(r->broker.endpoint, r->broker.token, &r->bus);
    if (rc < 0) {
        sl_launch_kill(&r->broker);
        sl_launch_wait(&r->broker, LEAVE_MS, &death);
        return rc;
    }
    send_subscribe(r);
    bool gone = follow(r, &death);
    sl_run_view_end(&r->view);
    rc = r->last_word ? report_result(r) : broker_lost(r, &death);
    if (!gone && !sl_launch_wait(&r->broker, LEAVE_MS, &death)) {
        sl_launch_kill(&r->broker);
        sl_launch_wait(&r->broker, LEAVE_MS, &death);
    }
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int parse(int argc, char **argv, struct run_options *o)
{
    static const char *const formats[] = {"text", "json", NULL};
    const struct sl_operand operands[] = {{"JOB.json", &o->job, false}};
    const struct sl_option options[] = {
        {.name = "set",
         .type = SL_OPTION_LIST,
         .value = &o->set,
         .placeholder = "PATH=VALUE",
         .help = "change a key of the job file, e.g. epochs=5 or sampler.fanout=[10,5]"},
        {.name = "report",
         .type = SL_OPTION_TEXT,
         .value = &o->report,
         .placeholder = "FILE",
         .help = "write the report here too"},
        {.name = "checkpoint",
         .type = SL_OPTION_TEXT,
         .value = &o->checkpoint,
         .placeholder = "NAME",
         .help = "go on from this checkpoint of the output directory, not from its newest"},
        {.name = "dry-run",
         .type = SL_OPTION_FLAG,
         .value = &o->dry_run,
         .help = "check everything, show what would run, start nothing"},
        {.name = "quiet",
         .letter = 'q',
         .type = SL_OPTION_FLAG,
         .value = &o->quiet,
         .help = "show nothing but errors"},
        {.name = "format",
         .letter = 'o',
         .type = SL_OPTION_CHOICE,
         .value = &o->format,
         .choices = formats,
         .help = "what standard output gets: a summary, or the report as JSON"},
    };
    const struct sl_command_usage usage = {
        .command = "run",
        .about = "Trains the model that a job file describes: starts samplers and trainers, shows "
                 "how far they\nare, and ends with a summary. The results go to the job's output "
                 "directory; a run that was\nstopped there is gone on with from its newest "
                 "checkpoint. Ctrl-C (or SIGTERM, SIGUSR1) stops\nthe job and keeps what was "
                 "done; a second one kills.",
        .example = "sluice run job.json --set epochs=5 --report report.json",
        .operands = operands,
        .n_operands = SL_COUNT_OF(operands),
        .options = options,
        .n_options = SL_COUNT_OF(options),
    };
    return sl_options_parse(&usage, argc, argv);
}

static int run(struct run *r)
{
    int rc = validate(r);
    if (rc < 0) {
        // Whatever the reason: the job can not run as it is, and nothing has been started.
        if (sl_exit_status(rc) == SL_EXIT_USAGE)
            return rc;
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        return SL_EXIT_USAGE;
    }
    if (!r->options.dry_run) {
        sl_dataset_close(&r->dataset); // the workers map it themselves
        return run_job(r);
    }
    if (r->options.format == 1)
        return print_plan_json(r);
    print_plan_text(r);
    return SL_OK;
}

int sl_command_run(int argc, char **argv)
{
    struct run *r = calloc(1, sizeof *r); // too large for a stack
    if (!r)
        return sl_fail(SL_ENOMEM, "run: no memory");
    r->signal_fd = -1;
    int rc = parse(argc, argv, &r->options);
    rc = rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc < 0 ? rc : run(r);
    sl_bus_message_free(r->last_word);
    sl_bus_close(r->bus, 0);
    sl_dataset_close(&r->dataset);
    sl_resume_fini(&r->resume);
    sl_text_list_fini(&r->options.set);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    free(r->config_json);
    free(r);
    return rc;
}

/*
 * Making and freeing jobs, and their responses.
 */
#include <errno.h>
#include <string.h>

#include "runtime/executor.h"
#include "runtime/text.h"
#include "sync/assert.h"
#include "sync/seams.h"

static const char *const default_labels[LX_CLASSES][LX_LANES] = {
    {"executor::Interactive::PureRead", "executor::Interactive::SerialStatus",
     "executor::Interactive::HeavyInit", "executor::Interactive::Mutating",
     "executor::Interactive::MaintenanceCommit"},
    {"executor::Maintenance::PureRead", "executor::Maintenance::SerialStatus",
     "executor::Maintenance::HeavyInit", "executor::Maintenance::Mutating",
     "executor::Maintenance::MaintenanceCommit"},
};

/* The slab of jobs is a member of the executor, and each chunk names its slab. */
struct lanex_executor *lx_job_executor(const struct lanex_job *job)
{
    const struct lx_slab_chunk *chunk =
        (const struct lx_slab_chunk *)((uintptr_t)job & ~(uintptr_t)(LX_SLAB_CHUNK - 1));

    return (struct lanex_executor *)((char *)chunk->slab - offsetof(struct lanex_executor, jobs));
}

/* Moves the number on to this use of the object. False when its generations are used up. */
static bool renumber(struct lanex_executor *ex, struct lanex_job *job)
{
    uint64_t number = atomic_load_explicit(&job->number, memory_order_relaxed);

    if (number == 0)
        number = lx_slab_index(&ex->jobs, job); /* its first use: the index stays from now on */
    number += LX_NUMBER_INDEX_MASK + 1;
    if (number <= LX_NUMBER_INDEX_MASK)
        return false;
    atomic_store_explicit(&job->number, number, memory_order_relaxed);
    return true;
}

/* An object whose 2^36 generations are used up is left out for ever: little memory, after many
 * hours. */
static struct lanex_job *allocate(struct lanex_executor *ex)
{
    for (;;) {
        struct lanex_job *job = lx_slab_alloc(&ex->jobs);
        if (job == NULL || renumber(ex, job))
            return job;
        atomic_fetch_add_explicit(&ex->jobs_left_out, 1, memory_order_relaxed);
    }
}

static int copy_texts(struct lanex_executor *ex, struct lanex_job *job,
                      const lanex_job_options *options)
{
    const char *id = options->request_id, *label = options->label;
    size_t id_length = options->request_id_length, label_length = options->label_length;

    if (id == NULL && label == NULL)
        return 0;
    if (id != NULL && id_length == 0)
        id_length = strlen(id);
    if (label != NULL && label_length == 0)
        label_length = strlen(label);
    if (label == NULL)
        job->texts = lx_text_copy(&ex->texts, id, id_length);
    else if (id == NULL)
        job->texts = lx_text_copy(&ex->texts, label, label_length);
    else
        job->texts = lx_text_copy_two(&ex->texts, id, id_length, label, label_length);
    if (job->texts == NULL)
        return -ENOMEM;
    job->entry.sink_kind |=
        (uint8_t)((id != NULL ? LX_JOB_HAS_ID : 0) | (label != NULL ? LX_JOB_HAS_LABEL : 0));
    return 0;
}

const char *lx_job_request_id(const struct lanex_job *job)
{
    unsigned has = job->entry.sink_kind & (LX_JOB_HAS_ID | LX_JOB_HAS_LABEL);

    if ((has & LX_JOB_HAS_ID) == 0)
        return "";
    return has == LX_JOB_HAS_ID ? job->texts : lx_text_first(job->texts);
}

const char *lx_job_label(const struct lanex_job *job)
{
    unsigned has = job->entry.sink_kind & (LX_JOB_HAS_ID | LX_JOB_HAS_LABEL);

    if ((has & LX_JOB_HAS_LABEL) == 0)
        return default_labels[job->entry.job_class][job->entry.lane];
    return has == LX_JOB_HAS_LABEL ? job->texts : lx_text_second(job->texts);
}

static int copy_extra(struct lanex_executor *ex, struct lanex_job *job,
                      const lanex_job_options *options)
{
    struct lx_job_extra *extra;

    if (options->deadline_ns == 0 && options->install == NULL)
        return 0;
    extra = lx_slab_alloc(&ex->extras);
    if (extra == NULL)
        return -ENOMEM;
    memset(extra, 0, sizeof *extra);
    extra->deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : LANEX_TIME_NEVER;
    extra->install = options->install;
    extra->job = &job->entry;
    job->entry.extra = extra;
    if (options->install != NULL)
        job->entry.flags |= LX_JOB_FLAG_HAS_INSTALL;
    return 0;
}

static void fill_entry(struct lanex_job *job, struct lanex_actor *actor,
                       const lanex_job_options *options)
{
    struct lx_job_entry *entry = &job->entry;

    entry->next = NULL;
    entry->response[0] = 0;
    entry->response[1] = 0;
    entry->actor = (struct lx_actor_entry *)actor;
    entry->extra = NULL;
    entry->cost = options->cost != 0 ? options->cost : 1;
    entry->job_class = (uint8_t)options->job_class;
    entry->lane = (uint8_t)options->lane;
    entry->coalesce_key = options->job_class == LANEX_CLASS_MAINTENANCE
                              ? (uint8_t)options->coalesce_key
                              : LANEX_COALESCE_NONE;
    entry->flags = (options->flags & LANEX_JOB_CONFIGURE) != 0 ? LX_JOB_FLAG_CONFIGURE : 0;
    entry->sink_kind = (uint8_t)options->sink.kind;
    entry->status = LANEX_STATUS_OK;
    atomic_store_explicit(&entry->marks, 0, memory_order_relaxed);
    /* release: after the new number; partner is the acquire in lx_job_find (request.c). */
    atomic_store_explicit(&entry->state, LX_JOB_NEW, memory_order_release);
}

static void fill_sink(struct lanex_job *job, const lanex_sink *sink)
{
    switch (sink->kind) {
    case LANEX_SINK_PORT:
        job->target.port = sink->port;
        break;
    case LANEX_SINK_RING:
        job->target.ring = sink->ring;
        job->sink.user_data = sink->user_data;
        break;
    default:
        job->target.callback = sink->callback;
        job->sink.callback_arg = sink->callback_arg;
        break;
    }
}

/* Frees what the object owns beside its response, and the object. */
static void free_job(struct lanex_executor *ex, struct lanex_job *job)
{
    if ((job->entry.sink_kind & (LX_JOB_HAS_ID | LX_JOB_HAS_LABEL)) != 0)
        lx_text_free(&ex->texts, job->texts);
    if ((job->entry.sink_kind & LX_JOB_TOKEN_SHARED) != 0)
        lanex_cancellation_unref(job->token.shared);
    if (job->entry.extra != NULL)
        lx_slab_free(&ex->extras, job->entry.extra);
    lx_slab_free(&ex->jobs, job);
}

int lx_job_create(struct lanex_executor *ex, struct lanex_actor *actor,
                  const lanex_job_options *options, bool ticket, struct lanex_job **ret_job)
{
    struct lanex_job *job = allocate(ex);
    uint32_t word = 2 * LX_WORD_HOLD;
    int rc;

    if (job == NULL)
        return -ENOMEM;
    if (ticket)
        word += LX_WORD_HOLD + LX_WORD_HAS_TICKET;
    fill_entry(job, actor, options);
    fill_sink(job, &options->sink);
    job->run = options->run;
    job->arg = options->arg;
    job->texts = NULL;
    rc = copy_texts(ex, job, options);
    if (rc == 0)
        rc = copy_extra(ex, job, options);
    if (rc == 0 && options->cancellation != NULL) {
        rc = lx_cancellation_bind(options->cancellation);
        if (rc == 0) {
            job->token.shared = lanex_cancellation_ref(options->cancellation);
            job->entry.sink_kind |= LX_JOB_TOKEN_SHARED;
            if (lanex_cancellation_is_cancelled(options->cancellation))
                job->entry.flags |= LX_JOB_FLAG_CANCELLED;
        }
    } else if (rc == 0 && (options->flags & LANEX_JOB_CANCELLABLE) != 0) {
        lx_cancellation_init_embedded(&job->token.own);
        job->entry.sink_kind |= LX_JOB_TOKEN_OWN;
    }
    if (rc < 0) {
        free_job(ex, job);
        return rc;
    }
    atomic_store_explicit(&job->entry.word, word, memory_order_relaxed);
    *ret_job = job;
    return 0;
}

void lx_job_discard(struct lanex_job *job)
{
    /* The token was given to no job after all. */
    if ((job->entry.sink_kind & LX_JOB_TOKEN_SHARED) != 0)
        lx_cancellation_unbind(job->token.shared);
    lx_job_release(job,
                   atomic_load_explicit(&job->entry.word, memory_order_relaxed) & LX_WORD_HOLDS);
}

void lx_job_release(struct lanex_job *job, uint32_t holds)
{
    /* acq_rel: the last one to let go sees what the others wrote before they did. */
    uint32_t before = atomic_fetch_sub_explicit(&job->entry.word, holds, memory_order_acq_rel);
    struct lanex_executor *ex;

    LX_ASSERT((before & LX_WORD_HOLDS) >= holds);
    if ((before & LX_WORD_HOLDS) != holds)
        return;
    ex = lx_job_executor(job);
    /* Data with a destructor is gone by now; an error's text is ours. */
    LX_ASSERT(job->entry.status != LANEX_STATUS_OK || job->entry.response[1] == 0);
    lx_job_clear_response(job);
    atomic_store_explicit(&job->entry.word, 0, memory_order_relaxed);
    if ((before & LX_WORD_ORPHAN) != 0)
        lx_executor_orphan_ending(ex);
    free_job(ex, job);
    if ((before & LX_WORD_ORPHAN) != 0)
        lx_executor_orphan_gone(ex);
}

static bool has_error_text(const struct lanex_job *job)
{
    switch (job->entry.status) {
    case LANEX_STATUS_OK:
    case LANEX_STATUS_MAINTENANCE_BACKPRESSURE:
    case LANEX_STATUS_EXECUTOR_BACKPRESSURE:
        return false;
    default:
        return job->entry.response[0] != 0;
    }
}

static struct lx_error_text *error_text(const struct lanex_job *job)
{
    return has_error_text(job) ? (struct lx_error_text *)(uintptr_t)job->entry.response[0] : NULL;
}

void lx_job_clear_response(struct lanex_job *job)
{
    struct lx_error_text *text = error_text(job);

    if (text != NULL) {
        lx_release(text);
    } else if (job->entry.status == LANEX_STATUS_OK && job->entry.response[1] != 0) {
        void (*destroy)(void *) = (void (*)(void *))(uintptr_t)job->entry.response[1];
        void *data = (void *)(uintptr_t)job->entry.response[0];
        job->entry.response[0] = 0;
        job->entry.response[1] = 0;
        destroy(data);
        return;
    }
    job->entry.response[0] = 0;
    job->entry.response[1] = 0;
}

/* A response that was replaced. Its destructor is the user's: in a body it may panic, so that the
 * new one must stand before it runs. */
struct old_response {
    struct lx_error_text *text;
    void *data;
    void (*destroy)(void *);
};

static struct old_response take_response(struct lanex_job *job)
{
    struct old_response old = {.text = error_text(job)};

    if (old.text == NULL && job->entry.status == LANEX_STATUS_OK) {
        old.data = (void *)(uintptr_t)job->entry.response[0];
        old.destroy = (void (*)(void *))(uintptr_t)job->entry.response[1];
    }
    job->entry.response[0] = 0;
    job->entry.response[1] = 0;
    return old;
}

static void destroy_old(struct old_response old)
{
    if (old.text != NULL)
        lx_release(old.text);
    if (old.destroy != NULL)
        old.destroy(old.data);
}

void lx_job_drop_build(struct lanex_job *job)
{
    uint8_t settled = job->entry.status;

    lx_job_drop_mark(&job->entry, LX_JOB_MARK_ANSWERED);
    job->entry.status = LANEX_STATUS_OK; /* what the build's response stands under */
    struct old_response old = take_response(job);
    job->entry.status = settled;
    destroy_old(old);
}

void lx_job_set_ok(struct lanex_job *job, void *data, void (*destroy)(void *))
{
    struct old_response old = take_response(job);

    job->entry.status = LANEX_STATUS_OK;
    job->entry.response[0] = (uint64_t)(uintptr_t)data;
    job->entry.response[1] = data != NULL ? (uint64_t)(uintptr_t)destroy : 0;
    destroy_old(old);
}

int lx_job_set_error(struct lanex_job *job, enum lanex_status status, const char *code,
                     const char *message, bool retryable)
{
    size_t code_size = strlen(code) + 1;
    size_t message_size = message != NULL ? strlen(message) + 1 : 1;
    struct lx_error_text *text = lx_allocate(sizeof *text + code_size + message_size);
    struct old_response old = take_response(job);

    job->entry.status = (uint8_t)status;
    if (text != NULL) {
        text->retryable = retryable;
        text->message = text->text + code_size;
        memcpy(text->text, code, code_size);
        memcpy(text->message, message != NULL ? message : "", message_size);
        job->entry.response[0] = (uint64_t)(uintptr_t)text;
    }
    destroy_old(old); /* last: code and message may lie in the data */
    return text != NULL ? 0 : -ENOMEM;
}

/* ---- the completion's view ---- */

struct status_text {
    const char *code, *message;
    bool retryable;
};

static const struct status_text status_texts[] = {
    [LANEX_STATUS_OK] = {"ok", "", false},
    [LANEX_STATUS_JOB_FAILED] = {"job_failed", "", false},
    [LANEX_STATUS_JOB_PANICKED] = {"job_panicked", "the job panicked", false},
    [LANEX_STATUS_JOB_ABANDONED] = {"job_abandoned", "the deferred answer was dropped", false},
    [LANEX_STATUS_ACTOR_FATAL] = {"actor_fatal", "the actor is fatal or was removed", false},
    [LANEX_STATUS_ACTOR_NOT_REGISTERED] = {"actor_not_registered", "the actor is not registered",
                                           false},
    [LANEX_STATUS_REQUEST_CANCELLED] = {"request_cancelled", "request cancelled before execution",
                                        false},
    [LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED] = {"request_deadline_exceeded",
                                                "deadline passed in phase queue", false},
    [LANEX_STATUS_MAINTENANCE_CANCELLED] = {"maintenance_cancelled", "" /* cancelled_texts */,
                                            false},
    [LANEX_STATUS_MAINTENANCE_BACKPRESSURE] = {"maintenance_backpressure",
                                               "the maintenance queue is full", true},
    [LANEX_STATUS_EXECUTOR_BACKPRESSURE] = {"executor_backpressure",
                                            "the interactive queue is full", true},
    [LANEX_STATUS_EXECUTOR_SHUTDOWN] = {"executor_shutdown", "the executor is shutting down",
                                        false},
};

/* Why maintenance was cancelled: enum lx_cancelled_as. */
static const char *const cancelled_texts[] = {
    [LX_CANCELLED_COALESCED] = "maintenance drain coalesced behind an identical queued drain",
    [LX_CANCELLED_DUPLICATE] = "duplicate maintenance drain removed to preserve queue capacity",
    [LX_CANCELLED_NO_ROUTES] = "maintenance cancelled because the actor has no bound routes",
};

uint64_t lanex_completion_job(const lanex_completion *completion)
{
    return atomic_load_explicit(&lx_job_of_completion(completion)->number, memory_order_relaxed);
}

int lanex_completion_status(const lanex_completion *completion)
{
    return lx_job_of_completion(completion)->entry.status;
}

const char *lanex_completion_code(const lanex_completion *completion)
{
    const struct lanex_job *job = lx_job_of_completion(completion);
    const struct lx_error_text *text = error_text(job);

    return text != NULL ? text->text : status_texts[job->entry.status].code;
}

const char *lanex_completion_message(const lanex_completion *completion)
{
    const struct lanex_job *job = lx_job_of_completion(completion);
    const struct lx_error_text *text = error_text(job);

    if (job->entry.status == LANEX_STATUS_MAINTENANCE_CANCELLED)
        return cancelled_texts[job->entry.coalesce_key];
    return text != NULL ? text->message : status_texts[job->entry.status].message;
}

bool lanex_completion_retryable(const lanex_completion *completion)
{
    const struct lanex_job *job = lx_job_of_completion(completion);
    const struct lx_error_text *text = error_text(job);

    return text != NULL ? text->retryable : status_texts[job->entry.status].retryable;
}

const char *lanex_completion_phase(const lanex_completion *completion)
{
    return lanex_completion_status(completion) == LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED ? "queue"
                                                                                         : "";
}

const char *lanex_completion_request_id(const lanex_completion *completion)
{
    return lx_job_request_id(lx_job_of_completion(completion));
}

const char *lanex_completion_label(const lanex_completion *completion)
{
    return lx_job_label(lx_job_of_completion(completion));
}

void *lanex_completion_arg(const lanex_completion *completion)
{
    return lx_job_of_completion(completion)->arg;
}

void *lanex_completion_data(const lanex_completion *completion)
{
    const struct lanex_job *job = lx_job_of_completion(completion);

    return job->entry.status == LANEX_STATUS_OK ? (void *)(uintptr_t)job->entry.response[0] : NULL;
}

void *lanex_completion_take_data(lanex_completion *completion)
{
    struct lanex_job *job = lx_job_of_completion(completion);
    void *data = lanex_completion_data(completion);

    if (job->entry.status == LANEX_STATUS_OK) {
        job->entry.response[0] = 0;
        job->entry.response[1] = 0;
    }
    return data;
}

int lanex_completion_refusal(const lanex_completion *completion, lanex_refusal *ret_refusal)
{
    const struct lanex_job *job = lx_job_of_completion(completion);

    if (job == NULL || ret_refusal == NULL)
        return -EINVAL;
    if (job->entry.status != LANEX_STATUS_MAINTENANCE_BACKPRESSURE &&
        job->entry.status != LANEX_STATUS_EXECUTOR_BACKPRESSURE)
        return -ENODATA;
    ret_refusal->queue_class = job->entry.job_class;
    ret_refusal->scope = job->entry.coalesce_key; /* events.c: refuse_full */
    ret_refusal->depth = job->entry.response[0];
    ret_refusal->cap = job->entry.response[1];
    return 0;
}

void lanex_completion_release(lanex_completion *completion)
{
    struct lanex_job *job;

    if (completion == NULL)
        return;
    job = lx_job_of_completion(completion);
    if (lx_executor_forked(lx_job_executor(job)))
        return;
    lx_job_clear_response(job);
    lx_job_release(job, LX_WORD_HOLD);
}

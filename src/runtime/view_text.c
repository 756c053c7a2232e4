#include "runtime/view_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/names.h"

#define NS_PER_MS    UINT64_C(1000000)
#define LIST_MAX     4u /* jobs that a sentence names */
#define SENTENCE_MAX 4u /* kinds of sentences */

static uint64_t age_ms(const struct lx_view *view, uint64_t since_ns)
{
    return view->now_ns > since_ns ? (view->now_ns - since_ns) / NS_PER_MS : 0;
}

/* ---- orders ---- */

static int by_since(const void *a, const void *b, void *names)
{
    const struct lx_seen_job *x = a, *y = b;

    (void)names;
    if (x->since_ns != y->since_ns)
        return x->since_ns < y->since_ns ? -1 : 1;
    return 0;
}

static int by_request_id(const void *a, const void *b, void *arg)
{
    const struct lx_view_names *names = arg;
    const struct lx_seen_job *x = a, *y = b;
    int order = strcmp(names->request_id(x->job), names->request_id(y->job));

    return order != 0 ? order : by_since(a, b, arg);
}

static int by_key(const void *a, const void *b, void *arg)
{
    const struct lx_seen_job *x = a, *y = b;
    int order =
        memcmp(x->key, y->key, x->key_length < y->key_length ? x->key_length : y->key_length);

    if (order == 0 && x->key_length != y->key_length)
        order = x->key_length < y->key_length ? -1 : 1;
    return order != 0 ? order : by_since(a, b, arg);
}

static void sort(struct lx_view *view, int (*order)(const void *, const void *, void *))
{
    if (view->count > 1)
        qsort_r(view->jobs, view->count, sizeof view->jobs[0], order,
                (void *)(uintptr_t)view->names);
}

/* ---- running jobs ---- */

static lanex_running_job describe(void *root, const struct lx_view *view,
                                  const struct lx_seen_job *seen)
{
    const struct lx_job_entry *job = seen->job;
    const char *id = view->names->request_id(job), *label = view->names->label(job);

    return (lanex_running_job){
        .job = view->names->number(job),
        .key = lx_arena_text(root, seen->key, seen->key_length),
        .key_length = seen->key_length,
        .request_id = lx_arena_text(root, id, strlen(id)),
        .label = lx_arena_text(root, label, strlen(label)),
        .job_class = job->job_class,
        .lane = job->lane,
        .age_ms = age_ms(view, seen->since_ns),
    };
}

static bool runs_mutating(const struct lx_seen_job *seen)
{
    return seen->begun && seen->registered && seen->job->lane == LANEX_LANE_MUTATING;
}

static bool any(const struct lx_seen_job *seen)
{
    (void)seen;
    return true;
}

static int list_jobs(const struct lx_view *view, bool (*listed)(const struct lx_seen_job *),
                     lanex_running_jobs **ret_jobs)
{
    lanex_running_jobs *out = lx_arena_create(sizeof *out);
    lanex_running_job *jobs;

    if (out == NULL)
        return -ENOMEM;
    jobs = lx_arena_alloc(out, view->count * sizeof *jobs);
    for (uint32_t i = 0; jobs != NULL && i < view->count; i++) {
        if (listed(&view->jobs[i]))
            jobs[out->count++] = describe(out, view, &view->jobs[i]);
    }
    out->jobs = jobs;
    if (lx_arena_failed(out)) {
        lx_arena_free(out);
        return -ENOMEM;
    }
    *ret_jobs = out;
    return 0;
}

int lx_view_mutating(struct lx_view *view, lanex_running_jobs **ret_jobs)
{
    sort(view, by_key);
    return list_jobs(view, runs_mutating, ret_jobs);
}

int lx_view_jobs(struct lx_view *view, lanex_running_jobs **ret_jobs)
{
    sort(view, by_since);
    return list_jobs(view, any, ret_jobs);
}

/* ---- blockers ---- */

static bool is_reader_of(const struct lx_seen_job *seen, const struct lx_actor_entry *actor)
{
    return seen->begun && seen->registered && seen->job->actor == actor &&
           (seen->job->lane == LANEX_LANE_PURE_READ || seen->job->lane == LANEX_LANE_SERIAL_STATUS);
}

static bool started_before_writer(const struct lx_seen_job *seen, const struct lx_seen_actor *about)
{
    return about->oldest_writer_ns != LANEX_TIME_NEVER && seen->since_ns <= about->oldest_writer_ns;
}

static void add_word(struct lx_line *line, const char *word)
{
    lx_line_add(line, word, strlen(word));
}

static void add_job(struct lx_line *line, const struct lx_view *view,
                    const struct lx_seen_job *seen, bool with_root)
{
    const char *id = view->names->request_id(seen->job), *label = view->names->label(seen->job);

    add_word(line, line->length > 0 && line->text[line->length - 1] == '(' ? "job=" : "; job=");
    lx_line_add_bytes(line, id, strlen(id));
    add_word(line, " command=");
    lx_line_add_bytes(line, label, strlen(label));
    lx_line_format(line, " lane=%s", lx_lane_word(seen->job->lane));
    if (with_root) {
        add_word(line, " root=");
        lx_line_add_bytes(line, seen->key, seen->key_length);
    }
    lx_line_format(line, " age_ms=%llu", (unsigned long long)age_ms(view, seen->since_ns));
}

/* A sentence is being made in `line`. */
static void end_sentence(lanex_blockers *out, struct lx_line *line)
{
    const char **sentences = (const char **)(uintptr_t)out->sentences;

    if (!line->failed)
        sentences[out->sentence_count++] = lx_arena_text(out, line->text, line->length);
    line->length = 0;
}

static void say_readers(const struct lx_view *view, const struct lx_actor_entry *actor,
                        const struct lx_seen_actor *about, lanex_blockers *out,
                        struct lx_line *line)
{
    bool stuck = false;

    if (out->reader_count == 0)
        return;
    add_word(line, "waiting_on_readers_stuck(");
    for (uint32_t i = 0; i < view->count; i++) {
        const struct lx_seen_job *seen = &view->jobs[i];
        if (!is_reader_of(seen, actor) || age_ms(view, seen->since_ns) < LANEX_STUCK_READER_MS)
            continue;
        add_job(line, view, seen, false);
        lx_line_format(line, " started_before_oldest_writer=%s",
                       started_before_writer(seen, about) ? "true" : "false");
        stuck = true;
    }
    add_word(line, ")");
    if (!stuck) {
        line->length = 0;
        add_word(line, "waiting_on_readers");
    }
    end_sentence(out, line);
}

/* The first LIST_MAX running jobs, of one class or of any. */
static void say_list(const struct lx_view *view, const char *word, bool maintenance_only,
                     bool even_if_empty, lanex_blockers *out, struct lx_line *line)
{
    unsigned named = 0;

    add_word(line, word);
    add_word(line, "(");
    for (uint32_t i = 0; i < view->count && named < LIST_MAX; i++) {
        const struct lx_seen_job *seen = &view->jobs[i];
        if (!seen->begun || (maintenance_only && seen->job->job_class != LANEX_CLASS_MAINTENANCE))
            continue;
        add_job(line, view, seen, true);
        named++;
    }
    add_word(line, ")");
    if (named > 0 || even_if_empty)
        end_sentence(out, line);
    line->length = 0;
}

static void say_all(const struct lx_view *view, const struct lx_actor_entry *actor,
                    const struct lx_seen_actor *about, lanex_blockers *out, struct lx_line *line)
{
    if (out->state == LANEX_STATE_QUEUED) {
        if (about->configures > 0) {
            lx_line_format(line, "queued_behind_configure(%u)", about->configures);
            end_sentence(out, line);
        }
        say_readers(view, actor, about, out, line);
        say_list(view, "queued_behind_maintenance", true, false, out, line);
    }
    if (about->idle_workers == 0)
        say_list(view, "idle_workers==0", false, true, out, line);
}

static void list_readers(const struct lx_view *view, const struct lx_actor_entry *actor,
                         const struct lx_seen_actor *about, lanex_blockers *out)
{
    lanex_reader *readers = lx_arena_alloc(out, view->count * sizeof *readers);

    for (uint32_t i = 0; readers != NULL && i < view->count; i++) {
        const struct lx_seen_job *seen = &view->jobs[i];
        if (!is_reader_of(seen, actor))
            continue;
        readers[out->reader_count++] = (lanex_reader){
            .job = describe(out, view, seen),
            .started_before_oldest_writer = started_before_writer(seen, about),
        };
    }
    out->readers = readers;
}

int lx_view_blockers(struct lx_view *view, const struct lx_actor_entry *actor,
                     const struct lx_seen_actor *about, int state, lanex_blockers **ret_blockers)
{
    lanex_blockers *out = lx_arena_create(sizeof *out);
    struct lx_line line = {.text = NULL};

    if (out == NULL)
        return -ENOMEM;
    sort(view, by_request_id);
    out->state = state;
    out->phase = about->registered ? "" : NULL;
    out->oldest_queued_writer_age_ms = about->oldest_writer_ns != LANEX_TIME_NEVER
                                           ? age_ms(view, about->oldest_writer_ns)
                                           : LANEX_AGE_NONE;
    out->reader_admissions_while_promoted_writer_waited = about->reads_past_promoted;
    out->sentences = lx_arena_alloc(out, SENTENCE_MAX * sizeof out->sentences[0]);
    if (about->registered)
        list_readers(view, actor, about, out);
    if (!lx_arena_failed(out))
        say_all(view, actor, about, out, &line);
    if (line.failed || lx_arena_failed(out)) {
        lx_line_fini(&line);
        lx_arena_free(out);
        return -ENOMEM;
    }
    lx_line_fini(&line);
    *ret_blockers = out;
    return 0;
}

int lx_view_add_phase(void (*phase)(void *context, char *text, size_t size), void *context,
                      lanex_blockers *blockers)
{
    char *text = lx_arena_alloc(blockers, LANEX_PHASE_MAX);

    if (text == NULL)
        return -ENOMEM;
    phase(context, text, LANEX_PHASE_MAX);
    text[LANEX_PHASE_MAX - 1] = '\0';
    blockers->phase = text;
    return 0;
}

/* ---- explain ---- */

static void say_wait(struct lx_line *line, const lanex_wait *wait)
{
    lx_line_format(line, "job %llu (", (unsigned long long)wait->job.job);
    lx_line_add_bytes(line, wait->job.request_id, strlen(wait->job.request_id));
    add_word(line, " ");
    lx_line_add_bytes(line, wait->job.label, strlen(wait->job.label));
    lx_line_format(line, ", lane %s, actor ", lx_lane_word(wait->job.lane));
    lx_line_add_bytes(line, wait->job.key, wait->job.key_length);
    lx_line_format(line, ") %s %llu ms", wait->on_worker ? "on a worker for" : "queued for",
                   (unsigned long long)wait->job.age_ms);
    if (wait->reason == LANEX_WAIT_NONE) {
        add_word(line, ": runs\n");
        return;
    }
    add_word(line, ": waits for ");
    add_word(line, lanex_wait_reason_text((int)wait->reason));
    add_word(line, "\n");
}

int lx_view_explanation(const struct lx_view *view, const struct lx_seen_chain *chain,
                        lanex_explanation **ret_explanation)
{
    lanex_explanation *out = lx_arena_create(sizeof *out);
    struct lx_line line = {.text = NULL};
    lanex_wait *waits;

    if (out == NULL)
        return -ENOMEM;
    waits = lx_arena_alloc(out, chain->count * sizeof *waits);
    for (uint32_t i = 0; waits != NULL && i < chain->count; i++) {
        const struct lx_seen_wait *seen = &chain->waits[i];
        waits[i] = (lanex_wait){
            .job = describe(out, view, &seen->seen),
            .on_worker = seen->on_worker,
            .reason = seen->reason,
        };
        if (lx_arena_failed(out))
            break; /* the key may be an empty text of some length */
        say_wait(&line, &waits[i]);
    }
    if (chain->circle)
        add_word(&line, "and that one waits for a job above: a circle\n");
    out->chain = waits;
    out->count = chain->count;
    out->circle = chain->circle;
    out->text = lx_arena_text(out, line.length > 0 ? line.text : "", line.length);
    if (line.failed || lx_arena_failed(out)) {
        lx_line_fini(&line);
        lx_arena_free(out);
        return -ENOMEM;
    }
    lx_line_fini(&line);
    *ret_explanation = out;
    return 0;
}

/* ---- freeing ---- */

void lanex_running_jobs_free(lanex_running_jobs *jobs)
{
    lx_arena_free(jobs);
}

void lanex_blockers_free(lanex_blockers *blockers)
{
    lx_arena_free(blockers);
}

void lanex_explanation_free(lanex_explanation *explanation)
{
    lx_arena_free(explanation);
}

/*
 * The views of SPEC 11, made of the same state and by the same code as the library's own, against
 * what the trace has recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "admission/views.h"
#include "replay.h"
#include "runtime/names.h"
#include "runtime/view_text.h"
#include "trace.h"

#define NS_PER_MS UINT64_C(1000000)

static const char *const lane_words[] = {"pure_read", "serial_status", "heavy_init", "mutating",
                                         "maintenance_commit"};

/* ---- names ---- */

static const struct world_job *job_of(const struct lx_job_entry *entry)
{
    return (const struct world_job *)(const void *)entry;
}

static uint64_t number_of(const struct lx_job_entry *entry)
{
    (void)entry;
    return 0;
}

static const char *id_of(const struct lx_job_entry *entry)
{
    return job_of(entry)->id;
}

static const char *label_of(const struct lx_job_entry *entry)
{
    return job_of(entry)->label;
}

static bool has_id(const struct lx_job_entry *entry, const void *id)
{
    return strcmp(id_of(entry), id) == 0;
}

static const struct lx_view_names names = {
    .number = number_of, .request_id = id_of, .label = label_of};

static struct lx_view look(struct world *world)
{
    static struct lx_seen_job seen[LANEX_POOL_MAX_MANY_CORE];
    struct lx_view view = {
        .names = &names,
        .now_ns = world->adm.now_ns,
        .jobs = seen,
        .count = lx_view_on_workers(&world->adm, seen),
    };

    for (uint32_t i = 0; i < view.count; i++) {
        seen[i].key = ((const struct world_actor *)(const void *)seen[i].job->actor)->key;
        seen[i].key_length = strlen(seen[i].key);
    }
    return view;
}

/* ---- as JSON ---- */

static json_t *number_or_null(uint64_t value, uint64_t none)
{
    return value == none ? json_null() : json_integer((json_int_t)value);
}

static json_t *class_of_liveness(struct world *world, unsigned job_class)
{
    uint64_t since_ns, age_ms = LANEX_AGE_NONE;

    while (!lx_oldest_since(&world->adm, job_class, &since_ns))
        ;
    if (since_ns != LANEX_TIME_NEVER)
        age_ms = (world->adm.now_ns - since_ns) / NS_PER_MS;
    return json_pack("{s:I, s:o}", "queued", (json_int_t)world->adm.queued[job_class],
                     "oldest_age_ms", number_or_null(age_ms, LANEX_AGE_NONE));
}

static json_t *liveness(struct world *world)
{
    const struct lx_admission *adm = &world->adm;
    struct lx_phantoms phantoms;

    lx_view_phantoms(adm, &phantoms);
    if (phantoms.workers != 0 || phantoms.slots[0] != 0 || phantoms.slots[1] != 0 ||
        phantoms.permits != 0)
        trace_bad("a worker, slot or permit is in flight and nobody has it");
    return json_pack("{s:o, s:o, s:{s:I, s:I}, s:I, s:I}", "interactive",
                     class_of_liveness(world, LANEX_CLASS_INTERACTIVE), "maintenance",
                     class_of_liveness(world, LANEX_CLASS_MAINTENANCE), "running", "interactive",
                     (json_int_t)adm->running[0], "maintenance", (json_int_t)adm->running[1],
                     "interactive_reserve", (json_int_t)adm->config.interactive_reserve,
                     "maintenance_cap", (json_int_t)adm->config.maintenance_cap);
}

static json_t *mutating(struct world *world)
{
    struct lx_view view = look(world);
    lanex_running_jobs *jobs;
    json_t *list = json_array();

    if (lx_view_mutating(&view, &jobs) != 0)
        trace_bad("out of memory");
    for (size_t i = 0; i < jobs->count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I}", "root_id", (const char *)jobs->jobs[i].key,
                            "request_id", jobs->jobs[i].request_id, "command", jobs->jobs[i].label,
                            "started_age_ms", (json_int_t)jobs->jobs[i].age_ms));
    lanex_running_jobs_free(jobs);
    return list;
}

static struct lx_actor_entry *actor_of(struct world *world, const json_t *step)
{
    struct world_actor *actor = world_actor(world, trace_string(step, "actor"));

    return actor != NULL ? &actor->entry : NULL;
}

static int state_of(struct world *world, const json_t *step)
{
    struct lx_state_search search = {
        .actor = actor_of(world, step),
        .wanted = {.is = has_id, .id = trace_string(step, "id")},
    };

    while (!lx_view_job_state(&world->adm, &search))
        ;
    return search.state;
}

static json_t *reader(const lanex_reader *reader)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:b}", "request_id", reader->job.request_id, "command",
                     reader->job.label, "lane", lane_words[reader->job.lane], "started_age_ms",
                     (json_int_t)reader->job.age_ms, "started_before_oldest_writer",
                     (int)reader->started_before_oldest_writer);
}

static json_t *blockers(struct world *world, const json_t *step)
{
    struct lx_view view = look(world);
    struct lx_seen_actor about;
    json_t *readers = json_array(), *sentences = json_array(), *view_json;
    lanex_blockers *out;

    lx_view_actor(&world->adm, actor_of(world, step), &about);
    if (lx_view_blockers(&view, actor_of(world, step), &about, state_of(world, step), &out) != 0)
        trace_bad("out of memory");
    for (size_t i = 0; i < out->reader_count; i++)
        json_array_append_new(readers, reader(&out->readers[i]));
    for (size_t i = 0; i < out->sentence_count; i++)
        json_array_append_new(sentences, json_string(out->sentences[i]));
    view_json =
        json_pack("{s:s, s:o, s:o, s:o, s:I}", "configure_state", lanex_job_state_text(out->state),
                  "blockers", sentences, "oldest_queued_writer_age_ms",
                  number_or_null(out->oldest_queued_writer_age_ms, LANEX_AGE_NONE),
                  "in_flight_readers", readers, "reader_admissions_while_promoted_writer_waited",
                  (json_int_t)out->reader_admissions_while_promoted_writer_waited);
    lanex_blockers_free(out);
    return view_json;
}

/* ---- what was recorded ---- */

/* The text with the traces' word for serial_status replaced by ours; to be freed. */
static char *with_our_words(const char *text)
{
    static const char *const pairs[][2] = {{"serial_lsp_status", "serial_status"},
                                           {"SerialLspStatus", "SerialStatus"}};
    char *copy = malloc(strlen(text) + 1), *to = copy;

    if (copy == NULL)
        trace_bad("out of memory");
    while (*text != '\0') {
        bool replaced = false;
        for (unsigned i = 0; i < 2 && !replaced; i++) {
            size_t length = strlen(pairs[i][0]);
            if (strncmp(text, pairs[i][0], length) != 0)
                continue;
            to += strlen(strcpy(to, pairs[i][1]));
            text += length;
            replaced = true;
        }
        if (!replaced)
            *to++ = *text++;
    }
    *to = '\0';
    return copy;
}

static json_t *translated(const json_t *value)
{
    json_t *copy, *item;
    const char *name;
    size_t i;

    if (json_is_string(value)) {
        char *text = with_our_words(json_string_value(value));
        copy = json_string(text);
        free(text);
        return copy;
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach((json_t *)(uintptr_t)value, i, item)
            json_array_append_new(copy, translated(item));
        return copy;
    }
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach((json_t *)(uintptr_t)value, name, item)
            json_object_set_new(copy, name, translated(item));
        return copy;
    }
    return json_deep_copy(value);
}

static json_t *wanted(const json_t *step)
{
    json_t *want = translated(json_object_get(trace_object(step, "expect"), "snapshot"));

    if (json_is_object(want)) {
        json_object_del(want, "configure_phase_timings");
        /* Readers of a removed actor are not listed. */
        if (trace_has(step, "quirk", "stale_reader_listed"))
            json_object_set_new(want, "in_flight_readers", json_array());
    }
    return want;
}

static const char *const kind_words[] = {"liveness", "mutating", "bind_blocker", "job_state", NULL};

bool same_snapshot(struct world *world, const json_t *step, json_t **ret_want, json_t **ret_got)
{
    json_t *want = wanted(step), *got;

    switch (trace_word(step, "kind", kind_words)) {
    case 0:
        got = liveness(world);
        break;
    case 1:
        got = mutating(world);
        break;
    case 2:
        got = blockers(world, step);
        break;
    default:
        got = json_string(lanex_job_state_text(state_of(world, step)));
        break;
    }
    if (json_equal(want, got) != 1) {
        *ret_want = want;
        *ret_got = got;
        return false;
    }
    json_decref(want);
    json_decref(got);
    return true;
}

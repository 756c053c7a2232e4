#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission/config.h"
#include "trace.h"

#define SCENARIO_FLAGS                                                                             \
    (LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP | LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION |            \
     LANEX_EXECUTOR_NO_AGED_LANES | LANEX_EXECUTOR_NO_PERMIT_STEP_OVER |                           \
     LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT)
#define SCENARIO_PROMOTION_MS 6000u
#define SCENARIO_QUEUE_CAP    512u

/* In the order of the enums. */
static const char *const policy_words[] = {"reads_first", "arrival", NULL};
static const char *const class_words[] = {"interactive", "maintenance", NULL};
static const char *const lane_words[] = {"pure_read", "serial_lsp_status",  "heavy_init",
                                         "mutating",  "maintenance_commit", NULL};
static const char *const coalesce_words[] = {"", "watcher_drain", "lsp_drain", "standing_pass",
                                             NULL};
static const char *const outcome_words[] = {
    "", "queued_removed", "running_signalled", "running_committed", "not_found", NULL};

static const char *code_of(unsigned status)
{
    switch (status) {
    case LANEX_STATUS_ACTOR_FATAL:
        return "actor_fatal";
    case LANEX_STATUS_ACTOR_NOT_REGISTERED:
        return "actor_not_registered";
    case LANEX_STATUS_REQUEST_CANCELLED:
        return "request_cancelled";
    case LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED:
        return "request_deadline_exceeded";
    case LANEX_STATUS_MAINTENANCE_CANCELLED:
        return "maintenance_cancelled";
    case LANEX_STATUS_MAINTENANCE_BACKPRESSURE:
        return "maintenance_backpressure";
    case LANEX_STATUS_EXECUTOR_BACKPRESSURE:
        return "executor_backpressure";
    case LANEX_STATUS_EXECUTOR_SHUTDOWN:
        return "executor_shutdown";
    default:
        return "no code of a job that never ran";
    }
}

/* ---- configuration ---- */

struct size_member {
    const char *name;
    size_t offset;
};
#define SIZE_MEMBER(name)                                                                          \
    {                                                                                              \
#name, offsetof(lanex_config, name)                                                        \
    }
static const struct size_member sizes[] = {
    SIZE_MEMBER(pool_size),           SIZE_MEMBER(read_cap),        SIZE_MEMBER(actor_cap),
    SIZE_MEMBER(heavy_permits),       SIZE_MEMBER(drr_quantum),     SIZE_MEMBER(deficit_cap),
    SIZE_MEMBER(interactive_reserve), SIZE_MEMBER(maintenance_cap),
};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint32_t *size_in(lanex_config *config, size_t i)
{
    return (uint32_t *)(void *)((char *)config + sizes[i].offset);
}

/* The rules bring what is below 1 up to 1, but our options take 0 as "the default". */
static uint32_t asked(const json_t *config, const char *name)
{
    int64_t value = trace_integer(config, name);

    return value < 1 ? 1 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* What the sizing rules make of the asked values, and then the values that the trace was made with.
 */
static void resolve(const json_t *scenario, lanex_config *ret_asked, lanex_config *ret_effective)
{
    const json_t *config = trace_object(scenario, "config");
    const json_t *effective = trace_object(scenario, "effective");
    lanex_executor_options options = {
        .size = sizeof options,
        .policy = trace_word(scenario, "policy", policy_words),
        .flags = SCENARIO_FLAGS,
        .pool_size = asked(config, "pool_size"),
        .actor_cap = asked(config, "actor_cap"),
        .read_cap = asked(config, "read_cap"),
        .heavy_permits = asked(config, "heavy_permits"),
        .drr_quantum = asked(config, "drr_quantum"),
        .promotion_age_ms = SCENARIO_PROMOTION_MS,
        .maintenance_queue_cap = SCENARIO_QUEUE_CAP,
    };

    if (lx_config_resolve(&options, 1, ret_asked) != 0)
        trace_bad("its configuration is refused");
    *ret_effective = *ret_asked;
    for (size_t i = 0; i < SIZES; i++) {
        int64_t value = trace_integer(effective, sizes[i].name);
        if (value < 1 || value > LANEX_POOL_MAX_MANY_CORE * 4)
            trace_bad("effective \"%s\" is out of range", sizes[i].name);
        *size_in(ret_effective, i) = (uint32_t)value;
    }
    if (ret_effective->pool_size > LANEX_POOL_MAX_MANY_CORE)
        trace_bad("effective \"pool_size\" is out of range");
}

static json_t *sizes_as_json(lanex_config *config)
{
    json_t *object = json_object();

    for (size_t i = 0; i < SIZES; i++)
        json_object_set_new(object, sizes[i].name, json_integer(*size_in(config, i)));
    return object;
}

/* ---- one step ---- */

static void play_submit(struct world *world, const json_t *step)
{
    struct world_submission submission = {
        .actor = trace_string(step, "actor"),
        .id = trace_string(step, "id"),
        .job_class = (uint8_t)trace_word(step, "class", class_words),
        .lane = (uint8_t)trace_word(step, "lane", lane_words),
        .cancellable = trace_bool(step, "cancellable"),
    };

    if (!json_is_null(json_object_get(step, "coalesce")))
        submission.coalesce_key = (uint8_t)trace_word(step, "coalesce", coalesce_words);
    submission.configure = strncmp(submission.id, "subc-bind-", strlen("subc-bind-")) == 0;
    if (world_job(world, submission.id) != NULL)
        trace_bad("id \"%s\" is used twice", submission.id);
    world_submit(world, &submission);
}

static void play_complete(struct world *world, const json_t *step)
{
    struct world_job *job = world_job(world, trace_string(step, "id"));

    if (job == NULL || !world_job_runs(job))
        trace_bad("job \"%s\" completes but does not run", trace_string(step, "id"));
    world_complete(world, job, trace_bool(step, "panicked"));
}

static void play_advance(struct world *world, const json_t *step)
{
    int64_t ms = trace_integer(step, "ms");

    if (ms < 0)
        trace_bad("time goes back");
    world_advance(world, (uint64_t)ms);
}

enum operation {
    OP_REGISTER,
    OP_SUBMIT,
    OP_COMPLETE,
    OP_ADVANCE,
    OP_CANCEL,
    OP_SEAL,
    OP_CANCEL_MAINTENANCE,
    OP_REMOVE,
    OP_SNAPSHOT,
};
static const char *const operation_words[] = {
    "register", "submit",   "complete", "advance", "cancel", "seal", "cancel_queued_maintenance",
    "remove",   "snapshot", NULL,
};

/* Plays the step; what it returned is put into `got`. */
static void play(struct world *world, enum operation operation, const json_t *step, json_t *got)
{
    switch (operation) {
    case OP_REGISTER:
        json_object_set_new(got, "registered",
                            json_boolean(world_register(world, trace_string(step, "actor"))));
        break;
    case OP_SUBMIT:
        play_submit(world, step);
        break;
    case OP_COMPLETE:
        play_complete(world, step);
        break;
    case OP_ADVANCE:
        play_advance(world, step);
        break;
    case OP_CANCEL:
        json_object_set_new(
            got, "cancel_outcome",
            json_string(outcome_words[world_cancel(world, trace_string(step, "id"))]));
        break;
    case OP_SEAL:
        json_object_set_new(got, "sealed",
                            json_boolean(world_seal(world, trace_string(step, "id"))));
        break;
    case OP_CANCEL_MAINTENANCE:
        json_object_set_new(
            got, "cancelled",
            json_integer(world_cancel_maintenance(world, trace_string(step, "actor"))));
        break;
    case OP_REMOVE:
        world_remove(world, trace_string(step, "actor"));
        break;
    case OP_SNAPSHOT:
        world_pass(world);
        break;
    }
}

static json_t *settled_entry(const char *id, const char *code)
{
    return json_pack("{s:s, s:s}", "id", id, "code", code);
}

static void add_lists(struct world *world, json_t *got)
{
    json_t *dispatched = json_array(), *settled = json_array();

    for (struct lx_job_entry *job = world->dispatched.head; job != NULL; job = job->next)
        json_array_append_new(dispatched, json_string(world_job_of(job)->id));
    for (struct lx_job_entry *job = world->settled.head; job != NULL; job = job->next)
        json_array_append_new(settled, settled_entry(world_job_of(job)->id, code_of(job->status)));
    json_object_set_new(got, "dispatched", dispatched);
    json_object_set_new(got, "settled", settled);
}

/* What lanex is to do: the record, corrected where a quirk says so. */
static json_t *wanted(enum operation operation, const json_t *step)
{
    const json_t *expect = trace_object(step, "expect");
    json_t *want = json_deep_copy(expect);

    trace_array(want, "dispatched");
    trace_array(want, "settled");
    json_object_del(want, "snapshot");
    switch (operation) {
    case OP_REGISTER:
        trace_bool(want, "registered");
        break;
    case OP_SEAL:
        trace_bool(want, "sealed");
        break;
    case OP_CANCEL_MAINTENANCE:
        trace_integer(want, "cancelled");
        break;
    case OP_CANCEL:
        trace_string(want, "cancel_outcome");
        if (trace_has(step, "quirk", "cancel_of_finished"))
            json_object_set_new(want, "cancel_outcome", json_string("not_found"));
        if (trace_has(step, "quirk", "recancel_running"))
            json_object_set_new(want, "cancel_outcome", json_string("running_signalled"));
        break;
    case OP_REMOVE: {
        json_t *settled = json_array(), *id;
        size_t i;
        json_array_foreach(trace_array(want, "dropped"), i, id)
        {
            if (!json_is_string(id))
                trace_bad("\"dropped\" is to hold ids");
            json_array_append_new(settled, settled_entry(json_string_value(id), "actor_fatal"));
        }
        json_object_set_new(want, "settled", settled);
        json_object_del(want, "dropped");
        break;
    }
    default:
        break;
    }
    return want;
}

static int compare_entries(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return strcmp(trace_string(x, "id"), trace_string(y, "id"));
}

/* In the order of the ids, for lists that are compared as sets. */
static void sort_settled(json_t *step)
{
    json_t *settled = json_object_get(step, "settled");
    size_t count = json_array_size(settled);
    json_t **entries = malloc((count + 1) * sizeof *entries);
    json_t *sorted = json_array();

    if (entries == NULL)
        trace_bad("out of memory");
    for (size_t i = 0; i < count; i++)
        entries[i] = json_array_get(settled, i);
    qsort(entries, count, sizeof *entries, compare_entries);
    for (size_t i = 0; i < count; i++)
        json_array_append(sorted, entries[i]);
    free(entries);
    json_object_set_new(step, "settled", sorted);
}

static void print_json(const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_SORT_KEYS | JSON_ENCODE_ANY);

    printf("  %-9s %s\n", name, text != NULL ? text : "?");
    free(text);
}

static void mismatch(struct replay_totals *totals, const json_t *step, const json_t *want,
                     const json_t *got)
{
    totals->mismatches++;
    if (totals->quiet)
        return;
    totals->quiet = true;
    printf("%s:%u: scenario %s", trace_position.file, trace_position.line, trace_position.scenario);
    if (step == NULL)
        printf(", sizes\n");
    else
        printf(", step %zu\n", trace_position.step);
    if (step != NULL)
        print_json("step", step);
    print_json("expected", want);
    print_json("got", got);
}

/* True if the step agrees. */
static bool check_step(struct world *world, const json_t *step, struct replay_totals *totals)
{
    enum operation operation = (enum operation)trace_word(step, "do", operation_words);
    json_t *want = wanted(operation, step);
    json_t *got = json_object();
    bool same;

    play(world, operation, step, got);
    add_lists(world, got);
    if ((operation == OP_COMPLETE && trace_bool(step, "panicked")) ||
        operation == OP_CANCEL_MAINTENANCE) {
        sort_settled(want);
        sort_settled(got);
    }
    same = json_equal(want, got) == 1;
    if (!same)
        mismatch(totals, step, want, got);
    if (same && operation == OP_SNAPSHOT) {
        json_t *view_want, *view;
        totals->snapshots++;
        same = same_snapshot(world, step, &view_want, &view);
        if (!same) {
            mismatch(totals, step, view_want, view);
            json_decref(view_want);
            json_decref(view);
        }
    }
    json_decref(want);
    json_decref(got);
    return same;
}

void replay_scenario(const json_t *scenario, struct replay_totals *totals)
{
    static struct world world;
    lanex_config by_rules, effective;
    const json_t *steps, *step;
    size_t i, count;

    trace_position.step = 0;
    trace_position.scenario = trace_string(scenario, "name");
    resolve(scenario, &by_rules, &effective);
    totals->scenarios++;
    /* `arrival` scenarios stem from an older rule for heavy_permits. */
    if (by_rules.policy == LANEX_POLICY_READS_FIRST) {
        json_t *got = sizes_as_json(&by_rules), *want = sizes_as_json(&effective);
        if (!json_equal(want, got))
            mismatch(totals, NULL, want, got);
        json_decref(want);
        json_decref(got);
    }

    world_init(&world, &effective);
    steps = trace_array(scenario, "steps");
    count = json_array_size(steps);
    json_array_foreach(steps, i, step)
    {
        trace_position.step = i;
        if (trace_has(step, "quirk", "stale_completion")) {
            totals->steps_left_out += count - i;
            break;
        }
        totals->steps++;
        if (!check_step(&world, step, totals))
            break;
        if (trace_has(step, "quirk", "shifted_cursor")) {
            totals->steps_left_out += count - i - 1;
            break;
        }
    }
    world_fini(&world);
}

/*
 * Views on the admission state (SPEC 11), with jobs and a clock of the test's own.
 */
#include "tests/support/lx_test.h"

#include "admission/views.h"
#include "admission_rig.h"
#include "runtime/arena.h"
#include "runtime/view_text.h"

#define NAMES 2048u /* jobs and actors that can have names */

/* By the rig's numbers. NULL: "j<number>", and "a<number>". */
static const char *ids[NAMES], *keys[NAMES];
static char made[NAMES][16];

static unsigned job_number(const struct lx_job_entry *entry)
{
    unsigned id = ((const struct rig_job *)(const void *)entry)->id;

    LX_REQUIRE(id < NAMES);
    return id;
}

static const char *id_of(const struct lx_job_entry *entry)
{
    unsigned id = job_number(entry);

    if (ids[id] != NULL)
        return ids[id];
    snprintf(made[id], sizeof made[id], "j%03u", id);
    return made[id];
}

static uint64_t number_of(const struct lx_job_entry *entry)
{
    return job_number(entry);
}

static const char *label_of(const struct lx_job_entry *entry)
{
    return entry->lane == LANEX_LANE_MUTATING ? "write" : "read";
}

static bool has_id(const struct lx_job_entry *entry, const void *id)
{
    return strcmp(id_of(entry), id) == 0;
}

static const struct lx_view_names names = {
    .number = number_of, .request_id = id_of, .label = label_of};

static struct lx_view look(struct rig *rig)
{
    static struct lx_seen_job seen[LANEX_POOL_MAX_MANY_CORE];
    static char key_made[NAMES][16];
    struct lx_view view = {
        .names = &names,
        .now_ns = rig->now_ns,
        .jobs = seen,
        .count = lx_view_on_workers(&rig->adm, seen),
    };

    for (unsigned i = 0; i < view.count; i++) {
        unsigned id = ((struct rig_actor *)seen[i].job->actor)->id;
        snprintf(key_made[id], sizeof key_made[id], "a%u", id);
        seen[i].key = keys[id] != NULL ? keys[id] : key_made[id];
        seen[i].key_length = strlen(seen[i].key);
    }
    return view;
}

static int state_of(struct rig *rig, struct rig_actor *actor, const char *id)
{
    struct lx_state_search search = {
        .actor = actor != NULL ? &actor->entry : NULL,
        .wanted = {.is = has_id, .id = id},
    };

    while (!lx_view_job_state(&rig->adm, &search))
        ;
    return search.state;
}

static lanex_blockers *blockers_of(struct rig *rig, struct rig_actor *actor, const char *id)
{
    struct lx_actor_entry *entry = actor != NULL ? &actor->entry : NULL;
    struct lx_view view = look(rig);
    struct lx_seen_actor about;
    lanex_blockers *blockers = NULL;

    lx_view_actor(&rig->adm, entry, &about);
    cr_assert_eq(lx_view_blockers(&view, entry, &about, state_of(rig, actor, id), &blockers), 0);
    return blockers;
}

/* A job that runs at once, with its body begun. */
static struct rig_job *run(struct rig *rig, struct rig_actor *actor, unsigned job_class,
                           unsigned lane)
{
    struct rig_job *job = rig_submit_lane(rig, actor, job_class, lane);

    cr_assert_eq(rig_dispatched_one(rig), job);
    lx_job_begin(&job->entry);
    return job;
}

static struct rig_job *queue(struct rig *rig, struct rig_actor *actor, unsigned lane)
{
    struct rig_job *job = rig_submit_lane(rig, actor, LANEX_CLASS_INTERACTIVE, lane);

    cr_assert_eq(rig_state(job), LX_JOB_QUEUED);
    return job;
}

static struct rig *make(unsigned pool)
{
    static struct rig rig;
    lanex_executor_options options = {.size = sizeof options, .pool_size = pool};

    rig_init(&rig, &options);
    return &rig;
}

#define READ  LANEX_LANE_PURE_READ
#define WRITE LANEX_LANE_MUTATING

/* ---- the oldest ---- */

static uint64_t oldest(struct rig *rig, unsigned job_class)
{
    uint64_t since_ns;

    cr_assert(lx_oldest_since(&rig->adm, job_class, &since_ns));
    return since_ns;
}

Test(views, the_oldest_is_found_among_actors_lanes_and_classes)
{
    struct rig *rig = make(2);
    struct rig_actor *a = rig_register(rig, 1), *b = rig_register(rig, 1);
    struct rig_job *writer = run(rig, a, LANEX_CLASS_INTERACTIVE, WRITE);
    struct rig_job *other = run(rig, b, LANEX_CLASS_INTERACTIVE, WRITE);
    struct rig_job *first, *second;

    cr_assert_eq(oldest(rig, 0), LANEX_TIME_NEVER);
    rig_advance(rig, RIG_MS);
    first = queue(rig, a, READ);
    rig_advance(rig, RIG_MS);
    second = queue(rig, b, WRITE);
    rig_advance(rig, RIG_MS);
    queue(rig, a, LANEX_LANE_SERIAL_STATUS);
    cr_assert_eq(oldest(rig, 0), first->entry.since_ns);
    cr_assert_eq(oldest(rig, 1), LANEX_TIME_NEVER);
    rig_cancel(rig, first);
    cr_assert_eq(oldest(rig, 0), second->entry.since_ns);
    rig_remove(rig, b);
    cr_assert_eq(oldest(rig, 0), rig->now_ns);
    rig_end(rig, writer);
    rig_end(rig, other);
    cr_assert_eq(oldest(rig, 0), LANEX_TIME_NEVER);
    rig_fini(rig);
}

Test(views, many_stale_actors_are_brought_up_to_date_in_slices)
{
    enum { ACTORS = 300 };
    struct rig *rig = make(2);
    struct rig_actor *actors[ACTORS];
    struct rig_job *jobs[ACTORS], *first, *last;
    uint64_t since_ns;
    unsigned slices = 1;

    for (unsigned i = 0; i < ACTORS; i++)
        actors[i] = rig_register(rig, 1);
    run(rig, actors[0], LANEX_CLASS_INTERACTIVE, WRITE);
    run(rig, actors[1], LANEX_CLASS_INTERACTIVE, WRITE);
    first = queue(rig, actors[0], READ);
    for (unsigned i = 2; i < ACTORS; i++) {
        rig_advance(rig, RIG_MS);
        jobs[i] = queue(rig, actors[i], READ);
    }
    rig_advance(rig, RIG_MS);
    last = queue(rig, actors[1], READ);
    for (unsigned i = 2; i < ACTORS; i++)
        rig_cancel(rig, jobs[i]);
    cr_assert_eq(oldest(rig, 0), first->entry.since_ns);
    rig_cancel(rig, first);
    for (; !lx_oldest_since(&rig->adm, 0, &since_ns); slices++)
        cr_assert_lt(since_ns, last->entry.since_ns);
    cr_assert_eq(since_ns, last->entry.since_ns);
    cr_assert_geq(slices, (ACTORS - 2) / LX_OLDEST_SLICE);
    rig_fini(rig);
}

/* ---- running mutating jobs ---- */

Test(views, running_writers_are_sorted_by_key_and_only_of_registered_actors)
{
    static const char *const unsorted[] = {"b", "\xff", "ab", "a", "gone"};
    struct rig *rig = make(8);
    struct rig_actor *actors[5];
    lanex_running_jobs *jobs = NULL;
    struct lx_view view;

    for (unsigned i = 0; i < 5; i++) {
        actors[i] = rig_register(rig, 1);
        keys[actors[i]->id] = unsorted[i];
        run(rig, actors[i], i == 2 ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE, WRITE);
    }
    run(rig, rig_register(rig, 1), LANEX_CLASS_INTERACTIVE, READ);
    rig_submit_lane(rig, rig_register(rig, 1), LANEX_CLASS_INTERACTIVE, WRITE); /* not begun */
    rig_remove(rig, actors[4]);
    keys[rig_register(rig, 1)->id] = "gone"; /* anew: nothing of the old one runs under it */
    rig_advance(rig, 7 * RIG_MS);
    view = look(rig);
    cr_assert_eq(lx_view_mutating(&view, &jobs), 0);
    cr_assert_eq(jobs->count, 4);
    cr_assert_str_eq(jobs->jobs[0].key, "a");
    cr_assert_str_eq(jobs->jobs[1].key, "ab");
    cr_assert_eq(jobs->jobs[1].job_class, LANEX_CLASS_MAINTENANCE);
    cr_assert_str_eq(jobs->jobs[2].key, "b");
    cr_assert_str_eq(jobs->jobs[3].key, "\xff");
    cr_assert_eq(jobs->jobs[3].key_length, 1);
    cr_assert_eq(jobs->jobs[0].age_ms, 7);
    cr_assert_str_eq(jobs->jobs[0].label, "write");
    lanex_running_jobs_free(jobs);
    rig_fini(rig);
}

/* ---- state label ---- */

Test(views, the_state_label_is_the_first_that_holds)
{
    struct rig *rig = make(4);
    struct rig_actor *a = rig_register(rig, 1), *b = rig_register(rig, 1);
    struct rig_job *writer = run(rig, a, LANEX_CLASS_MAINTENANCE, WRITE);
    struct rig_job *queued = queue(rig, a, WRITE);
    struct rig_spec timed = {.lane = WRITE, .deadline_ns = rig->now_ns + 3600000 * RIG_MS};
    struct rig_job *late = rig_submit(rig, a, &timed), *read = queue(rig, a, READ);

    cr_assert_eq(state_of(rig, a, id_of(&writer->entry)), LANEX_STATE_RUNNING);
    cr_assert_eq(state_of(rig, a, id_of(&queued->entry)), LANEX_STATE_QUEUED);
    cr_assert_eq(state_of(rig, a, id_of(&late->entry)), LANEX_STATE_QUEUED);
    /* Only mutating jobs have a state of their own. */
    cr_assert_eq(state_of(rig, a, id_of(&read->entry)), LANEX_STATE_BLOCKED_BY_OTHER_MUTATING);
    cr_assert_eq(state_of(rig, a, "no such"), LANEX_STATE_BLOCKED_BY_OTHER_MUTATING);
    cr_assert_eq(state_of(rig, b, id_of(&writer->entry)), LANEX_STATE_NOT_FOUND);
    cr_assert_eq(state_of(rig, NULL, "any"), LANEX_STATE_ACTOR_MISSING);
    /* The same id runs and is queued: it runs. */
    ids[queued->id] = id_of(&writer->entry);
    cr_assert_eq(state_of(rig, a, id_of(&writer->entry)), LANEX_STATE_RUNNING);
    rig_remove(rig, a);
    cr_assert_eq(state_of(rig, a, id_of(&writer->entry)), LANEX_STATE_ACTOR_MISSING);
    rig_fini(rig);
}

Test(views, a_job_in_the_gate_counts_as_queued)
{
    struct rig *rig = make(4);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *writer = rig_submit_lane(rig, a, LANEX_CLASS_INTERACTIVE, WRITE);
    lanex_blockers *blockers;

    cr_assert_eq(rig_state(writer), LX_JOB_ADMITTED);
    cr_assert_eq(state_of(rig, a, "j000"), LANEX_STATE_QUEUED);
    cr_assert_eq(state_of(rig, a, "other"), LANEX_STATE_NOT_FOUND);
    lx_job_begin(&writer->entry);
    cr_assert_eq(state_of(rig, a, "j000"), LANEX_STATE_RUNNING);
    rig_end(rig, writer);
    rig_submit_lane(rig, a, LANEX_CLASS_INTERACTIVE, READ);
    blockers = blockers_of(rig, a, "j000");
    cr_assert_eq(blockers->reader_count, 0);
    lanex_blockers_free(blockers);
    rig_fini(rig);
}

Test(views, a_long_queue_is_searched_in_slices_that_survive_changes)
{
    enum { JOBS = 3 * LX_VIEW_SLICE };
    struct rig *rig = make(2);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *jobs[JOBS];
    struct lx_state_search search = {.actor = &a->entry, .wanted = {.is = has_id, .id = "last"}};
    unsigned steps = 1;

    run(rig, a, LANEX_CLASS_INTERACTIVE, WRITE);
    for (unsigned i = 0; i < JOBS; i++)
        jobs[i] = queue(rig, a, WRITE);
    ids[jobs[JOBS - 1]->id] = "last";
    cr_assert(!lx_view_job_state(&rig->adm, &search));
    cr_assert_eq(search.at, &jobs[LX_VIEW_SLICE]->entry);
    /* The job to go on with is cancelled meanwhile: the search begins again. */
    rig_cancel(rig, jobs[LX_VIEW_SLICE]);
    for (; !lx_view_job_state(&rig->adm, &search); steps++)
        cr_assert_lt(steps, 10);
    cr_assert_eq(search.state, LANEX_STATE_QUEUED);
    cr_assert_geq(steps, 2);
    cr_assert_eq(state_of(rig, a, "none"), LANEX_STATE_BLOCKED_BY_OTHER_MUTATING);
    rig_fini(rig);
}

/* ---- blockers ---- */

Test(views, readers_are_stuck_from_60_s_on_and_only_those_are_named)
{
    struct rig *rig = make(8);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *old = run(rig, a, LANEX_CLASS_INTERACTIVE, READ), *young, *writer;
    lanex_blockers *blockers;

    rig_advance(rig, RIG_MS);
    young = run(rig, a, LANEX_CLASS_MAINTENANCE, LANEX_LANE_SERIAL_STATUS);
    run(rig, a, LANEX_CLASS_INTERACTIVE, LANEX_LANE_MAINTENANCE_COMMIT);
    writer = queue(rig, a, WRITE);
    rig_advance(rig, 59999 * RIG_MS - 1);
    blockers = blockers_of(rig, a, id_of(&writer->entry));
    cr_assert_eq(blockers->state, LANEX_STATE_QUEUED);
    cr_assert_eq(blockers->oldest_queued_writer_age_ms, 59998);
    cr_assert_eq(blockers->reader_count, 2, "a maintenance_commit is no reader here");
    cr_assert_str_eq(blockers->sentences[0], "waiting_on_readers");
    cr_assert_str_eq(blockers->sentences[1],
                     "queued_behind_maintenance(job=j001 command=read lane=SerialStatus root=a0 "
                     "age_ms=59998)");
    cr_assert_eq(blockers->sentence_count, 2);
    lanex_blockers_free(blockers);
    rig_advance(rig, 1);
    blockers = blockers_of(rig, a, id_of(&writer->entry));
    cr_assert_str_eq(blockers->sentences[0],
                     "waiting_on_readers_stuck(job=j000 command=read lane=PureRead age_ms=60000 "
                     "started_before_oldest_writer=true)");
    /* Started in the very moment in which the writer was queued: before it. */
    cr_assert_eq(blockers->readers[1].job.job, young->id);
    cr_assert(blockers->readers[1].started_before_oldest_writer);
    lanex_blockers_free(blockers);
    rig_cancel(rig, writer);
    blockers = blockers_of(rig, a, id_of(&writer->entry));
    cr_assert_eq(blockers->state, LANEX_STATE_NOT_FOUND);
    cr_assert_eq(blockers->sentence_count, 0);
    cr_assert_eq(blockers->oldest_queued_writer_age_ms, LANEX_AGE_NONE);
    cr_assert(!blockers->readers[0].started_before_oldest_writer);
    lanex_blockers_free(blockers);
    rig_end(rig, old);
    rig_fini(rig);
}

Test(views, lists_are_sorted_bytewise_and_cut_to_four)
{
    static const char *const unsorted[] = {"b", "\xc3\xa9", "B", "a\n2", "a"};
    struct rig *rig = make(5);
    struct rig_actor *last = NULL;
    lanex_blockers *blockers;

    for (unsigned i = 0; i < 5; i++) {
        struct rig_job *job;
        last = rig_register(rig, 1);
        job = run(rig, last, LANEX_CLASS_INTERACTIVE, READ);
        ids[job->id] = unsorted[i];
    }
    rig_remove(rig, last); /* its job keeps its worker, and is named */
    blockers = blockers_of(rig, NULL, "any");
    cr_assert_eq(blockers->state, LANEX_STATE_ACTOR_MISSING);
    cr_assert_null(blockers->phase);
    cr_assert_eq(blockers->reader_count, 0);
    cr_assert_eq(blockers->reader_admissions_while_promoted_writer_waited, 0);
    cr_assert_eq(blockers->sentence_count, 1);
    cr_assert_str_eq(blockers->sentences[0],
                     "idle_workers==0(job=B command=read lane=PureRead root=a2 age_ms=0; "
                     "job=a command=read lane=PureRead root=a4 age_ms=0; "
                     "job=a\\x0a2 command=read lane=PureRead root=a3 age_ms=0; "
                     "job=b command=read lane=PureRead root=a0 age_ms=0)");
    lanex_blockers_free(blockers);
    blockers = blockers_of(rig, last, "a");
    cr_assert_eq(blockers->reader_count, 0, "a removed actor has no readers");
    lanex_blockers_free(blockers);
    rig_fini(rig);
}

static struct rig_job *submit_configure(struct rig *rig, struct rig_actor *actor,
                                        unsigned job_class, unsigned lane)
{
    struct rig_spec spec = {.job_class = (uint8_t)job_class, .lane = (uint8_t)lane};
    struct rig_job *job = rig_new_job(rig, actor, &spec);

    job->entry.flags |= LX_JOB_FLAG_CONFIGURE;
    rig_begin(rig);
    lx_admission_submit(&rig->adm, &job->entry);
    rig_finish(rig);
    return job;
}

static void expect_first(struct rig *rig, struct rig_actor *actor, const struct rig_job *job,
                         const char *sentence)
{
    lanex_blockers *blockers = blockers_of(rig, actor, id_of(&job->entry));

    cr_assert_gt(blockers->sentence_count, 0);
    cr_assert_str_eq(blockers->sentences[0], sentence);
    lanex_blockers_free(blockers);
}

Test(views, configure_jobs_are_counted_running_and_queued_in_both_classes)
{
    struct rig *rig = make(4);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *running = submit_configure(rig, a, LANEX_CLASS_INTERACTIVE, WRITE);
    struct rig_job *second, *third, *writer;

    lx_job_begin(&running->entry);
    second = submit_configure(rig, a, LANEX_CLASS_MAINTENANCE, READ);
    third = submit_configure(rig, a, LANEX_CLASS_INTERACTIVE, WRITE);
    expect_first(rig, a, third, "queued_behind_configure(3)");
    rig_cancel(rig, second);
    expect_first(rig, a, third, "queued_behind_configure(2)");
    writer = queue(rig, a, WRITE); /* no configure job itself */
    rig_cancel(rig, third);
    expect_first(rig, a, writer, "queued_behind_configure(1)");
    rig_end(rig, running);
    cr_assert_eq(a->entry.queue->configures, 0);
    rig_fini(rig);
}

Test(views, reads_admitted_past_an_old_writer_are_counted)
{
    struct rig *rig = make(8);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *reader = run(rig, a, LANEX_CLASS_INTERACTIVE, READ), *writer, *more;

    writer = queue(rig, a, WRITE);
    rig_advance(rig, 5999 * RIG_MS);
    rig_end(rig, run(rig, a, LANEX_CLASS_INTERACTIVE, READ));
    cr_assert_eq(a->entry.reads_past_promoted, 0);
    rig_advance(rig, RIG_MS);
    more = queue(rig, a, READ);
    cr_assert_eq(a->entry.reads_past_promoted, 0, "nothing passes a promoted writer");
    rig_advance(rig, 54000 * RIG_MS); /* the reader is stuck: promotion is suspended */
    cr_assert_eq(rig_dispatched_one(rig), more);
    cr_assert_eq(a->entry.reads_past_promoted, 1);
    rig_end(rig, more);
    rig_end(rig, reader);
    cr_assert_eq(rig_dispatched_one(rig), writer);
    rig_fini(rig);
}

/* ---- census ---- */

Test(views, the_census_names_each_interactive_job_once)
{
    struct rig *rig = make(8);
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_spec heavy = {.lane = LANEX_LANE_HEAVY_INIT, .has_install = true};
    struct lx_seen_job seen[8];
    struct rig_job *build = rig_submit(rig, a, &heavy), *gate;

    lx_job_begin(&build->entry);
    run(rig, a, LANEX_CLASS_MAINTENANCE, READ);
    rig_advance(rig, 1000 * RIG_MS);
    run(rig, a, LANEX_CLASS_INTERACTIVE, READ);
    gate = rig_submit_lane(rig, rig_register(rig, 1), LANEX_CLASS_INTERACTIVE, READ);
    cr_assert_eq(lx_view_census(&rig->adm, 1000 * RIG_MS + 1, seen), 0);
    cr_assert_eq(lx_view_census(&rig->adm, 1000 * RIG_MS, seen), 1);
    cr_assert_eq(seen[0].job, &build->entry);
    cr_assert_eq(lx_view_census(&rig->adm, 1000 * RIG_MS, seen), 0);
    cr_assert_eq(lx_view_census(&rig->adm, 0, seen), 1, "the read, not the job in the gate");
    lx_job_begin(&gate->entry);
    cr_assert_eq(lx_view_census(&rig->adm, 0, seen), 1);
    /* Its second step is the same job. */
    cr_assert(rig_built(rig, build));
    for (struct rig_job *job = rig->jobs; job != NULL; job = job->older) {
        if (job != build && job != gate && rig_runs(job))
            rig_end(rig, job);
    }
    cr_assert_eq(rig_state(build), LX_JOB_INSTALLING);
    lx_job_begin(&build->entry);
    cr_assert_eq(lx_view_census(&rig->adm, 0, seen), 0);
    rig_fini(rig);
}

/* ---- phantoms ---- */

Test(views, a_lost_worker_slot_or_permit_shows)
{
    struct rig *rig = make(4);
    struct rig_actor *a = rig_register(rig, 1);
    struct lx_phantoms phantoms;

    run(rig, a, LANEX_CLASS_INTERACTIVE, LANEX_LANE_HEAVY_INIT);
    lx_view_phantoms(&rig->adm, &phantoms);
    cr_assert(phantoms.workers == 0 && phantoms.slots[0] == 0 && phantoms.permits == 0);
    rig->adm.idle_workers--;
    rig->adm.running[LANEX_CLASS_MAINTENANCE]++;
    rig->adm.free_permits--;
    lx_view_phantoms(&rig->adm, &phantoms);
    cr_assert_eq(phantoms.workers, 1);
    cr_assert_eq(phantoms.slots[0], 0);
    cr_assert_eq(phantoms.slots[1], 1);
    cr_assert_eq(phantoms.permits, 1);
    rig_fini(rig);
}

/* ---- arena ---- */

Test(views, an_arena_keeps_what_was_allocated_apart)
{
    char *root = lx_arena_create(10);
    const char *texts[200];

    cr_assert_not_null(root);
    for (unsigned i = 0; i < 200; i++) {
        char text[300];
        memset(text, 'a' + (int)(i % 26), sizeof text);
        texts[i] = lx_arena_text(root, text, i);
    }
    memset(root, 1, 10);
    for (unsigned i = 0; i < 200; i++) {
        cr_assert_eq(strlen(texts[i]), i);
        cr_assert(i == 0 || texts[i][i - 1] == 'a' + (int)(i % 26));
    }
    cr_assert(!lx_arena_failed(root));
    lx_arena_free(root);
    lx_arena_free(NULL);
}

/* Which job of an actor may start, and when time alone changes that: SPEC 3 and 4. */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_rules, .timeout = 60);

#define INTERACTIVE LANEX_CLASS_INTERACTIVE
#define MAINTENANCE LANEX_CLASS_MAINTENANCE
#define READ        LANEX_LANE_PURE_READ
#define SERIAL      LANEX_LANE_SERIAL_STATUS
#define HEAVY       LANEX_LANE_HEAVY_INIT
#define WRITE       LANEX_LANE_MUTATING
#define COMMIT      LANEX_LANE_MAINTENANCE_COMMIT

static struct rig rig;
static struct rig_actor *actor;

static void fini(void)
{
    rig_fini(&rig);
}

/* Six workers unless asked otherwise, one actor. */
static void set_up(lanex_executor_options options)
{
    if (options.pool_size == 0)
        options.pool_size = 6;
    rig_init(&rig, &options);
    actor = rig_register(&rig, 1);
}

static struct rig_job *submit(unsigned job_class, unsigned lane)
{
    return rig_submit_lane(&rig, actor, job_class, lane);
}

static struct rig_job *submit_install(void)
{
    struct rig_spec spec = {.job_class = INTERACTIVE, .lane = HEAVY, .has_install = true};

    return rig_submit(&rig, actor, &spec);
}

static bool waits(const struct rig_job *job)
{
    return rig_state(job) == LX_JOB_QUEUED;
}

Test(admission_rules, an_install_step_goes_before_waiting_reads_and_keeps_its_permit, .fini = fini)
{
    struct rig_job *heavy, *first_read, *late_read, *drain;

    set_up((lanex_executor_options){.heavy_permits = 1});
    heavy = submit_install();
    first_read = submit(INTERACTIVE, READ);
    cr_assert(rig_runs(first_read), "readers run beside the build");
    cr_assert(rig_built(&rig, heavy));
    cr_assert_eq(rig_state(heavy), LX_JOB_BUILT);
    cr_assert_eq(rig.adm.idle_workers, 5, "no worker waits for the gate");
    cr_assert_eq(rig.adm.free_permits, 0);
    late_read = submit(INTERACTIVE, READ);
    drain = submit(MAINTENANCE, READ);
    cr_assert(waits(late_read) && waits(drain), "the step goes first");
    rig_end(&rig, first_read);
    cr_assert_eq(rig_dispatched_one(&rig), heavy);
    cr_assert_eq(rig_state(heavy), LX_JOB_INSTALLING);
    cr_assert_eq(rig.adm.free_permits, 0);
    cr_assert(waits(late_read));
    rig_end(&rig, heavy);
    cr_assert_eq(rig.dispatched.count, 2);
    cr_assert_eq(rig.dispatched.head, &late_read->entry);
    cr_assert_eq(rig.adm.free_permits, 1);
    cr_assert_eq(actor->entry.heavies, 0);
}

Test(admission_rules, an_install_step_waits_for_the_writer_too, .fini = fini)
{
    struct rig_job *heavy, *writer;

    set_up((lanex_executor_options){0});
    heavy = submit_install();
    writer = submit(INTERACTIVE, WRITE);
    cr_assert(rig_runs(writer), "a writer starts beside the build");
    cr_assert(rig_built(&rig, heavy));
    cr_assert_null(rig_dispatched_one(&rig));
    rig_end(&rig, writer);
    cr_assert_eq(rig_dispatched_one(&rig), heavy);
    rig_panic(&rig, heavy);
    cr_assert(actor->entry.flags & LX_ACTOR_FATAL, "an install step that panics did write");
}

Test(admission_rules, a_build_of_a_removed_actor_gets_no_install_step, .fini = fini)
{
    struct rig_job *waiting, *building;

    set_up((lanex_executor_options){0});
    waiting = submit_install();
    building = submit_install();
    submit(INTERACTIVE, READ);
    cr_assert(rig_built(&rig, waiting));
    rig_remove(&rig, actor);
    cr_assert_eq(rig_settled_one(&rig), waiting);
    cr_assert_eq(waiting->entry.status, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_not(rig_built(&rig, building));
    cr_assert_eq(building->entry.status, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_eq(rig.adm.free_permits, rig.adm.config.heavy_permits);
}

Test(admission_rules, a_commit_takes_no_slot_of_the_actor_unless_asked, .fini = fini)
{
    for (unsigned counts = 0; counts < 2; counts++) {
        struct rig_job *commit, *read;
        set_up((lanex_executor_options){
            .actor_cap = 1, .flags = counts ? LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP : 0});
        commit = submit(MAINTENANCE, COMMIT);
        read = submit(INTERACTIVE, READ);
        cr_assert(rig_runs(commit));
        cr_assert_eq(waits(read), counts == 1);
        cr_assert(waits(submit(MAINTENANCE, COMMIT)), "one at a time");
        if (counts == 0)
            rig_fini(&rig);
    }
}

/* r <= max(a, P), at the nanosecond. */
Test(admission_rules, a_writer_with_a_deadline_is_urgent_by_the_formula, .fini = fini)
{
    static const struct {
        uint64_t deadline_ns, urgent_ns; /* since it was queued */
    } rows[] = {
        {6000 * RIG_MS, 0},             /* r = P at once */
        {6000 * RIG_MS + 1, 1},         /* r = P one later */
        {9000 * RIG_MS, 3000 * RIG_MS}, /* by P: a is still below it */
        {12000 * RIG_MS, 6000 * RIG_MS},
        {13000 * RIG_MS, 6500 * RIG_MS},         /* by a: half of the time has passed */
        {13000 * RIG_MS + 1, 6500 * RIG_MS + 1}, /* odd: rounded up */
        {100000 * RIG_MS, 50000 * RIG_MS},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rig_spec writer = {.lane = WRITE};
        struct rig_job *holder, *read;
        set_up((lanex_executor_options){0});
        holder = submit(INTERACTIVE, READ);
        writer.deadline_ns = rig.now_ns + rows[i].deadline_ns;
        rig_submit(&rig, actor, &writer);
        if (rows[i].urgent_ns > 0) {
            rig_advance(&rig, rows[i].urgent_ns - 1);
            read = submit(INTERACTIVE, READ);
            cr_assert(rig_runs(read), "row %zu: not yet", i);
            rig_end(&rig, read);
            rig_advance(&rig, 1);
        }
        cr_assert(waits(submit(INTERACTIVE, READ)), "row %zu: now", i);
        cr_assert(rig_runs(holder));
        rig_fini(&rig);
    }
    set_up((lanex_executor_options){0});
}

Test(admission_rules, an_old_writer_stops_reads_and_goes_next, .fini = fini)
{
    struct rig_job *reads[2], *writer, *late;

    set_up((lanex_executor_options){0});
    reads[0] = submit(INTERACTIVE, READ);
    writer = submit(INTERACTIVE, WRITE);
    rig_advance(&rig, 6000 * RIG_MS - 1);
    reads[1] = submit(INTERACTIVE, READ);
    cr_assert(rig_runs(reads[1]));
    rig_advance(&rig, 1);
    late = submit(INTERACTIVE, READ);
    cr_assert(waits(late));
    rig_end(&rig, reads[0]);
    cr_assert_null(rig_dispatched_one(&rig));
    rig_end(&rig, reads[1]);
    cr_assert_eq(rig_dispatched_one(&rig), writer);
    rig_end(&rig, writer);
    cr_assert_eq(rig_dispatched_one(&rig), late);
}

/* A reader that started before the writer and runs for ever; reads come back after 60 s, by time
 * alone. */
Test(admission_rules, promotion_is_suspended_for_stuck_readers, .fini = fini)
{
    for (unsigned off = 0; off < 2; off++) {
        struct rig_job *stuck, *late, *later;
        set_up((lanex_executor_options){.flags = off ? LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION : 0});
        stuck = submit(INTERACTIVE, READ);
        rig_advance(&rig, 1000 * RIG_MS);
        submit(INTERACTIVE, WRITE);
        rig_advance(&rig, 10000 * RIG_MS);
        late = submit(INTERACTIVE, READ);
        later = submit(INTERACTIVE, READ);
        cr_assert(waits(late));
        rig_advance(&rig, 49000 * RIG_MS - 1);
        cr_assert(waits(late));
        if (off == 0)
            cr_assert_eq(lx_admission_next_timer(&rig.adm), rig.now_ns + 1);
        rig_advance(&rig, 1);
        cr_assert_eq(waits(late), off == 1);
        /* Now the writer also waits for a reader that came after it. */
        cr_assert(waits(later));
        cr_assert(rig_runs(stuck));
        if (off == 0) {
            rig_end(&rig, late);
            cr_assert_eq(rig_dispatched_one(&rig), later);
            rig_fini(&rig);
        }
    }
}

Test(admission_rules, aged_jobs_of_other_lanes_go_before_reads, .fini = fini)
{
    for (unsigned off = 0; off < 2; off++) {
        struct rig_job *read, *serial, *queued_read;
        set_up((lanex_executor_options){.actor_cap = 1,
                                        .flags = off ? LANEX_EXECUTOR_NO_AGED_LANES : 0});
        read = submit(INTERACTIVE, READ);
        serial = submit(INTERACTIVE, SERIAL);
        rig_advance(&rig, 6000 * RIG_MS);
        queued_read = submit(INTERACTIVE, READ);
        rig_end(&rig, read);
        cr_assert_eq(rig_dispatched_one(&rig), off ? queued_read : serial);
        if (off == 0)
            rig_fini(&rig);
    }
}

/* An aged serial_status behind a running one is not starved by reads, so reads go on. */
Test(admission_rules, an_aged_job_that_waits_for_its_own_lane_holds_no_reads, .fini = fini)
{
    set_up((lanex_executor_options){0});
    submit(INTERACTIVE, SERIAL);
    cr_assert(waits(submit(INTERACTIVE, SERIAL)));
    rig_advance(&rig, 7000 * RIG_MS);
    cr_assert(rig_runs(submit(INTERACTIVE, READ)));
}

Test(admission_rules, a_heavy_without_a_permit_is_stepped_over, .fini = fini)
{
    for (unsigned off = 0; off < 2; off++) {
        struct rig_actor *other;
        struct rig_job *holder, *heavy, *serial, *drain, *heavy_drain;
        set_up((lanex_executor_options){.heavy_permits = 1,
                                        .flags = off ? LANEX_EXECUTOR_NO_PERMIT_STEP_OVER : 0});
        other = rig_register(&rig, 1);
        holder = rig_submit_lane(&rig, other, INTERACTIVE, HEAVY);
        heavy = submit(INTERACTIVE, HEAVY);
        serial = submit(INTERACTIVE, SERIAL);
        heavy_drain = submit(MAINTENANCE, HEAVY);
        drain = submit(MAINTENANCE, READ);
        cr_assert(waits(heavy) && waits(heavy_drain));
        cr_assert_eq(waits(serial), off == 1);
        cr_assert_eq(waits(drain), off == 1);
        rig_end(&rig, holder);
        cr_assert_eq(rig.dispatched.head, &heavy->entry, "the freed permit is not lost");
        if (off == 0)
            rig_fini(&rig);
    }
}

/* An aged heavy_init whose actor's reads are all blocked starts when a permit becomes free
 * elsewhere. */
Test(admission_rules, an_aged_heavy_beside_blocked_reads_sees_a_freed_permit, .fini = fini)
{
    struct rig_actor *other;
    struct rig_job *holder, *heavy;

    set_up((lanex_executor_options){.heavy_permits = 1, .read_cap = 1});
    other = rig_register(&rig, 1);
    holder = rig_submit_lane(&rig, other, INTERACTIVE, HEAVY);
    heavy = submit(INTERACTIVE, HEAVY);
    submit(INTERACTIVE, READ);
    cr_assert(waits(submit(INTERACTIVE, READ)));
    rig_advance(&rig, 6000 * RIG_MS);
    cr_assert(waits(heavy));
    rig_end(&rig, holder);
    cr_assert_eq(rig_dispatched_one(&rig), heavy);
}

static struct rig_actor *others[3];

/* Four workers, two of them in use by endless maintenance: no more may start by the reserve. */
static void set_up_flood(uint32_t flags)
{
    set_up((lanex_executor_options){.pool_size = 4, .flags = flags});
    for (unsigned i = 0; i < 3; i++) {
        others[i] = rig_register(&rig, 1);
        if (i < 2)
            rig_submit_lane(&rig, others[i], MAINTENANCE, READ);
    }
    cr_assert_eq(rig.adm.running[MAINTENANCE], 2);
}

Test(admission_rules, overdue_maintenance_uses_the_reserve_one_at_a_time, .fini = fini)
{
    struct rig_job *drain, *second, *third;

    set_up_flood(0);
    drain = submit(MAINTENANCE, READ);
    second = submit(MAINTENANCE, READ);
    third = rig_submit_lane(&rig, others[2], MAINTENANCE, READ);
    rig_advance(&rig, 60000 * RIG_MS - 1);
    cr_assert(waits(drain));
    cr_assert_eq(lx_admission_next_timer(&rig.adm), rig.now_ns + 1);
    rig_advance(&rig, 1);
    cr_assert_eq(rig_dispatched_one(&rig), drain);
    cr_assert_eq(rig.adm.overdue_running, 1);
    rig_advance(&rig, 90000 * RIG_MS);
    cr_assert(waits(second) && waits(third), "one at a time");
    rig_end(&rig, drain);
    cr_assert_eq(rig_dispatched_one(&rig), third, "the next actor's turn");
    rig_end(&rig, third);
    cr_assert_eq(rig_dispatched_one(&rig), second);
    rig_end(&rig, second);
    cr_assert_eq(rig.adm.overdue_running, 0);
    cr_assert_eq(rig.adm.running[MAINTENANCE], 2);
}

Test(admission_rules, overdue_maintenance_can_be_switched_off, .fini = fini)
{
    struct rig_job *drain;

    set_up_flood(LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT);
    drain = submit(MAINTENANCE, READ);
    rig_advance(&rig, 600000 * RIG_MS);
    cr_assert(waits(drain));
    cr_assert_eq(lx_admission_next_timer(&rig.adm), LANEX_TIME_NEVER);
}

/* The second job of a queue becomes overdue with no event in between but the first one's start. */
Test(admission_rules, each_head_of_a_maintenance_queue_is_watched, .fini = fini)
{
    struct rig_job *first, *second;

    set_up_flood(0);
    first = submit(MAINTENANCE, READ);
    rig_advance(&rig, 30000 * RIG_MS);
    second = submit(MAINTENANCE, READ);
    rig_advance(&rig, 30000 * RIG_MS);
    cr_assert_eq(rig_dispatched_one(&rig), first);
    rig_end(&rig, first);
    cr_assert(waits(second));
    cr_assert_eq(lx_admission_next_timer(&rig.adm), rig.now_ns + 30000 * RIG_MS);
    rig_advance(&rig, 30000 * RIG_MS);
    cr_assert_eq(rig_dispatched_one(&rig), second);
}

Test(admission_rules, a_queued_writer_holds_its_actors_maintenance_up, .fini = fini)
{
    struct rig_job *read, *writer, *drain;

    set_up((lanex_executor_options){0});
    read = submit(INTERACTIVE, READ);
    writer = submit(INTERACTIVE, WRITE);
    drain = submit(MAINTENANCE, READ);
    cr_assert(waits(writer) && waits(drain));
    rig_cancel(&rig, writer);
    cr_assert_eq(rig_dispatched_one(&rig), drain);
    cr_assert(rig_runs(read));
}

Test(admission_rules, a_writer_that_expires_lets_maintenance_go, .fini = fini)
{
    struct rig_spec writer = {.lane = WRITE, .deadline_ns = 500 * RIG_MS};
    struct rig_job *drain;

    set_up((lanex_executor_options){0});
    submit(INTERACTIVE, READ);
    rig_submit(&rig, actor, &writer);
    drain = submit(MAINTENANCE, READ);
    cr_assert(waits(drain));
    rig_advance(&rig, 500 * RIG_MS);
    cr_assert_eq(rig_dispatched_one(&rig), drain);
}

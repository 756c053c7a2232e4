#include "scenario.h"

bool scenario_call(struct scenario *s, int result, const char *text)
{
    if (errno != SCENARIO_ERRNO)
        lx_test_die(__FILE__, __LINE__, "%s touched errno: %d", text, errno);
    if (result >= 0)
        return true;
    if (s->error == 0 || result != -s->error)
        lx_test_die(__FILE__, __LINE__, "%s gave %d for %d", text, result, s->error);
    atomic_fetch_add(&s->failed, 1);
    return false;
}

bool scenario_try(struct scenario *s, int result, const char *text)
{
    return scenario_call(s, result == -EBUSY ? 0 : result, text) && result != -EBUSY;
}

static void count_answer(lanex_completion *completion, void *arg)
{
    struct scenario_job *job = arg;

    LX_REQUIRE(lanex_completion_arg(completion) == job);
    atomic_fetch_add(&job->answers, 1);
}

struct scenario_job *scenario_next(struct scenario *s, enum lanex_lane lane, lanex_job_fn run,
                                   lanex_job_options *ret_options)
{
    struct scenario_job *job = &s->jobs[s->used++];

    LX_REQUIRE(s->used <= SCENARIO_JOBS);
    job->scenario = s;
    *ret_options = lx_test_callback_job(lane, run, job, count_answer, job);
    return job;
}

bool scenario_submit(struct scenario *s, lanex_actor *actor, struct scenario_job *job,
                     const lanex_job_options *options, uint64_t *ret_number)
{
    uint64_t number = 4711;

    job->accepted = SCENARIO_CALL(s, lanex_submit(actor, options, &number));
    LX_REQUIRE(job->accepted == (number != 4711));
    if (ret_number != NULL)
        *ret_number = number;
    return job->accepted;
}

void scenario_count_run(lanex_job *job, void *context, void *arg)
{
    struct scenario_job *mine = arg;

    (void)context;
    LX_REQUIRE(lanex_current_job() == job);
    atomic_fetch_add(&mine->ran, 1);
}

static void hold(lanex_job *job, void *context, void *arg)
{
    struct scenario_job *mine = arg;

    scenario_count_run(job, context, arg);
    latch_arrive(&mine->scenario->holding);
    latch_wait(&mine->scenario->go_on, latch_count(&mine->scenario->holding));
}

bool scenario_hold(struct scenario *s, lanex_actor *actor)
{
    lanex_job_options options;
    struct scenario_job *job = scenario_next(s, LANEX_LANE_MUTATING, hold, &options);
    unsigned before = latch_count(&s->holding);

    options.request_id = "holds the actor";
    if (!scenario_submit(s, actor, job, &options, NULL))
        return false;
    latch_wait(&s->holding, before + 1);
    return true;
}

void scenario_let_go(struct scenario *s, bool held)
{
    if (held)
        latch_arrive(&s->go_on);
}

void scenario_await(const struct scenario_job *job)
{
    LX_EVENTUALLY(!job->accepted || atomic_load(&job->answers) == 1);
}

/* ---- the whole ---- */

static void on_register(lanex_actor *actor, const void *key, size_t key_length, void *context,
                        void *arg)
{
    struct scenario *s = arg;

    LX_REQUIRE(actor != NULL && key != NULL && key_length > 0 && context == s);
    atomic_fetch_add(&s->registered, 1);
}

static void on_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                          void *arg)
{
    struct scenario *s = arg;

    LX_REQUIRE(actor != NULL && key != NULL && key_length > 0 && context == s);
    atomic_fetch_add(&s->unregistered, 1);
}

static void release_context(void *context)
{
    atomic_fetch_add(&((struct scenario *)context)->released, 1);
}

static void tear_down(void *context)
{
    atomic_fetch_add(&((struct scenario *)context)->torn_down, 1);
}

static bool register_actor(struct scenario *s, const char *key, lanex_actor **ret_actor)
{
    lanex_actor_options options = {.size = sizeof options,
                                   .context = s,
                                   .context_teardown = tear_down,
                                   .context_release = release_context};
    lanex_actor *untouched = *ret_actor;

    if (SCENARIO_CALL(s, lanex_actor_register(s->executor, key, 1, &options, ret_actor)))
        return true;
    LX_REQUIRE(*ret_actor == untouched);
    return false;
}

void scenario_actors(struct scenario *s)
{
    lanex_job_options options;
    lanex_actor *actor = NULL;

    if (register_actor(s, "r", &actor)) {
        struct scenario_job *job =
            scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
        scenario_submit(s, actor, job, &options, NULL);
        scenario_await(job);
        LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_retire(s->executor, "r", 1)));
        lanex_actor_unref(actor);
    }
    if (register_actor(s, "m", &actor)) {
        bool held = scenario_hold(s, actor);
        struct scenario_job *job =
            scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);

        job->may_not_run = held;
        scenario_submit(s, actor, job, &options, NULL);
        LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_remove(s->executor, "m", 1)));
        if (held)
            scenario_await(job);
        scenario_let_go(s, held);
        lanex_actor_unref(actor);
    }
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_hooks_wait(s->executor)));
}

static void check_jobs(const struct scenario *s, struct scenario_outcome *outcome)
{
    for (unsigned i = 0; i < s->used; i++) {
        const struct scenario_job *job = &s->jobs[i];
        unsigned answers = atomic_load(&job->answers), ran = atomic_load(&job->ran);

        if (answers != (job->accepted && !job->silent) ||
            (!job->may_not_run && ran != job->accepted) || ran > job->accepted)
            lx_test_die(__FILE__, __LINE__, "job %u, %saccepted, ran %u times and got %u answers",
                        i, job->accepted ? "" : "not ", ran, answers);
        outcome->answered += answers;
    }
}

static void live(struct scenario *s)
{
    lanex_actor_hooks hooks = {
        .size = sizeof hooks, .on_register = on_register, .on_unregister = on_unregister, .arg = s};
    unsigned actors = 0;

    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_set_hooks(s->executor, &hooks)));
    for (const char *key = "01"; *key != '\0'; key++)
        actors += register_actor(s, key, &s->actors[actors]);
    if (actors == 2) {
        scenario_sinks(s);
        scenario_detach(s);
        scenario_defer(s);
        scenario_end_early(s);
        scenario_gate(s);
        scenario_look(s);
    }
    scenario_flight(s);
    scenario_actors(s);
    LX_REQUIRE(SCENARIO_CALL(s, lanex_executor_drain(s->executor, LANEX_TIME_NEVER, NULL)));
    lx_test_at_rest(s->executor);
    for (unsigned i = 0; i < actors; i++)
        lanex_actor_unref(s->actors[i]);
}

struct scenario_outcome scenario_run(int error, bool contain)
{
    static struct scenario scenario;
    struct scenario *s = &scenario;
    struct scenario_outcome outcome = {.created = false};
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_config config = {.size = sizeof config};

    memset(s, 0, sizeof *s);
    s->error = error;
    s->executor = (lanex_executor *)(uintptr_t)8;
    if (contain)
        options.flags = LANEX_EXECUTOR_CONTAIN_SIGNALS;
    options.affinity = LANEX_AFFINITY_PER_CPU;
    if (!SCENARIO_CALL(s, lanex_executor_create(&options, &s->executor))) {
        LX_REQUIRE(s->executor == (lanex_executor *)(uintptr_t)8);
        return outcome;
    }
    outcome.created = true;
    LX_REQUIRE(lanex_executor_config(s->executor, &config) == 0);
    outcome.rings = config.backend == LANEX_BACKEND_RING;
    live(s);
    LX_REQUIRE(SCENARIO_CALL(s, lanex_executor_destroy(s->executor)));
    LX_REQUIRE(atomic_load(&s->registered) == atomic_load(&s->unregistered));
    LX_REQUIRE(atomic_load(&s->registered) == atomic_load(&s->released));
    LX_REQUIRE(atomic_load(&s->torn_down) <= 1);
    check_jobs(s, &outcome);
    outcome.failed = atomic_load(&s->failed);
    return outcome;
}

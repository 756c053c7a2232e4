/*
 * The contract of the API: what each call says to bad input, that outputs stay unset then, and that
 * errno is nobody's business.
 */
#include "runtime_rig.h"

#define UNSET UINT64_C(0x5e75e75e75e75e75)

static int magic_errno = 4711;

#define REFUSES(call, error)                                                                       \
    do {                                                                                           \
        errno = magic_errno;                                                                       \
        int rc_ = (call);                                                                          \
        cr_assert_eq(errno, magic_errno, "%s touched errno", #call);                               \
        cr_assert_eq(rc_, (error), "%s gave %d", #call, rc_);                                      \
    } while (0)

Test(contract, submit_names_each_bad_option)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    const lanex_job_options good = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    static char long_text[LANEX_LABEL_MAX + 2];
    uint64_t number = UNSET;
    lanex_ticket *ticket = (lanex_ticket *)&number;
    lanex_job_options bad[21];
    size_t count = 0;

    memset(long_text, 'x', sizeof long_text - 1);
#define BAD(member, value)                                                                         \
    do {                                                                                           \
        bad[count] = good;                                                                         \
        bad[count++].member = (value);                                                             \
    } while (0)
    BAD(size, 0);
    BAD(size, sizeof good - 1);
    BAD(size, sizeof good + 8);
    BAD(run, NULL);
    BAD(job_class, 2);
    BAD(lane, 5);
    BAD(lane, UINT32_MAX);
    BAD(cost, LANEX_COST_MAX + 1);
    BAD(coalesce_key, LANEX_COALESCE_KEY_MAX + 1);
    BAD(flags, 1u << 31);
    BAD(reserved, 1);
    BAD(sink.reserved, 1);
    BAD(install, rig_nothing); /* not heavy_init */
    BAD(request_id_length, 3); /* of nothing */
    BAD(request_id, long_text);
    BAD(label, long_text);
    BAD(sink.kind, 5);
    BAD(sink.kind, LANEX_SINK_PORT);
    BAD(sink.kind, LANEX_SINK_RING);
    BAD(sink.kind, LANEX_SINK_CALLBACK);
    for (size_t i = 0; i < count; i++) {
        lanex_submission batch[2] = {{actor, &good}, {actor, &bad[i]}};
        uint64_t numbers[2] = {UNSET, UNSET};
        REFUSES(lanex_submit(actor, &bad[i], &number), -EINVAL);
        REFUSES(lanex_submit_ticket(actor, &bad[i], &ticket), -EINVAL);
        REFUSES(lanex_submit_by_key(executor, "a", 1, &bad[i], &number), -EINVAL);
        REFUSES(lanex_submit_by_key(executor, "other", 5, &bad[i], &number), -EINVAL);
        REFUSES(lanex_submit_batch(batch, 2, numbers), -EINVAL);
        cr_assert(numbers[0] == UNSET && numbers[1] == UNSET);
    }
    lanex_job_options ticketed = good;
    ticketed.sink.kind = LANEX_SINK_TICKET;
    REFUSES(lanex_submit(actor, &ticketed, &number), -EINVAL);
    lanex_job_options called = good;
    called.sink.kind = LANEX_SINK_CALLBACK;
    called.sink.callback = (lanex_completion_fn)(void (*)(void))rig_nothing; /* never called */
    REFUSES(lanex_submit_ticket(actor, &called, &ticket), -EINVAL);
    REFUSES(lanex_submit(NULL, &good, &number), -EINVAL);
    REFUSES(lanex_submit(actor, NULL, &number), -EINVAL);
    REFUSES(lanex_submit_ticket(actor, &good, NULL), -EINVAL);
    REFUSES(lanex_submit_by_key(NULL, "a", 1, &good, &number), -EINVAL);
    cr_assert_eq(number, UNSET);
    cr_assert_eq((void *)ticket, (void *)&number);
    lanex_counters counters = {.size = sizeof counters};
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    cr_assert_eq(counters.completed[0] + counters.refused[0], 0, "a refused call made a job");
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(contract, batches_are_whole_or_nothing)
{
    lanex_executor *executor = rig_executor(), *other = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a"), *stranger = rig_actor(other, "a");
    struct latch ran = LATCH_INIT;
    lanex_cancellation *token;
    lanex_job_options plain = rig_job(LANEX_LANE_PURE_READ, rig_count, &ran);
    lanex_job_options bound = plain;
    uint64_t numbers[3] = {UNSET, UNSET, UNSET};

    cr_assert_eq(lanex_cancellation_create(&token), 0);
    bound.cancellation = token;
    lanex_submission twice[3] = {{actor, &plain}, {actor, &bound}, {actor, &bound}};
    lanex_submission mixed[2] = {{actor, &plain}, {stranger, &plain}};
    lanex_submission hole[2] = {{actor, &plain}, {NULL, &plain}};
    REFUSES(lanex_submit_batch(twice, 3, numbers), -EBUSY);
    REFUSES(lanex_submit_batch(mixed, 2, numbers), -EINVAL);
    REFUSES(lanex_submit_batch(hole, 2, numbers), -EINVAL);
    REFUSES(lanex_submit_batch(NULL, 2, numbers), -EINVAL);
    REFUSES(lanex_submit_batch(mixed, LANEX_BATCH_MAX + 1, numbers), -E2BIG);
    cr_assert(numbers[0] == UNSET && numbers[1] == UNSET && numbers[2] == UNSET);
    REFUSES(lanex_submit_batch(NULL, 0, NULL), 0);
    /* The failed one kept nothing: the token is free for this. */
    REFUSES(lanex_submit_batch(twice, 2, numbers), 0);
    cr_assert(numbers[0] != UNSET && numbers[1] != UNSET && numbers[0] != numbers[1] &&
              numbers[2] == UNSET);
    latch_wait(&ran, 2);
    lanex_cancellation_unref(token);
    lanex_actor_unref(actor);
    lanex_actor_unref(stranger);
    rig_destroy_executor(executor);
    rig_destroy_executor(other);
    cr_assert_eq(latch_count(&ran), 2);
}

Test(contract, a_token_belongs_to_one_job)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_job_options options = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    uint64_t number = UNSET;

    cr_assert_eq(lanex_cancellation_create(&options.cancellation), 0);
    rig_run(actor, &options, LANEX_STATUS_OK);
    REFUSES(lanex_submit(actor, &options, &number), -EBUSY);
    cr_assert_eq(number, UNSET);
    lanex_cancellation_unref(options.cancellation);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(contract, actors_name_each_bad_key_and_option)
{
    lanex_executor *executor = rig_executor();
    static char key[LANEX_KEY_MAX + 1];
    lanex_actor *actor = (lanex_actor *)key;
    const lanex_actor_options good = {.size = sizeof good};
    lanex_actor_options bad = good;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    uint64_t number = UNSET;

    memset(key, 'k', sizeof key);
    const struct {
        const void *key;
        size_t length;
    } bad_keys[] = {{NULL, 3}, {key, 0}, {key, LANEX_KEY_MAX + 1}, {key, SIZE_MAX}};
    for (size_t i = 0; i < sizeof bad_keys / sizeof bad_keys[0]; i++) {
        const void *k = bad_keys[i].key;
        size_t n = bad_keys[i].length;
        REFUSES(lanex_actor_register(executor, k, n, &good, &actor), -EINVAL);
        REFUSES(lanex_actor_lookup(executor, k, n, &actor), -EINVAL);
        REFUSES(lanex_actor_remove(executor, k, n), -EINVAL);
        REFUSES(lanex_actor_retire(executor, k, n), -EINVAL);
        REFUSES(lanex_actor_cancel_queued_maintenance(executor, k, n), -EINVAL);
        REFUSES(lanex_submit_by_key(executor, k, n, &job, &number), -EINVAL);
    }
    bad.size = 8;
    REFUSES(lanex_actor_register(executor, "a", 1, &bad, &actor), -EINVAL);
    bad = good;
    bad.weight = LANEX_WEIGHT_MAX + 1;
    REFUSES(lanex_actor_register(executor, "a", 1, &bad, &actor), -EINVAL);
    bad = good;
    bad.reserved = 1;
    REFUSES(lanex_actor_register(executor, "a", 1, &bad, &actor), -EINVAL);
    REFUSES(lanex_actor_register(NULL, "a", 1, &good, &actor), -EINVAL);
    REFUSES(lanex_actor_lookup(executor, "a", 1, NULL), -EINVAL);
    REFUSES(lanex_actor_lookup(executor, "a", 1, &actor), -ENOENT);
    REFUSES(lanex_actor_remove(executor, "a", 1), -ENOENT);
    REFUSES(lanex_actor_retire(executor, "a", 1), -ENOENT);
    REFUSES(lanex_actor_cancel_queued_maintenance(executor, "a", 1), -ENOENT);
    cr_assert_eq((void *)actor, (void *)key);
    cr_assert_eq(number, UNSET);
    /* The longest key, and none of the optional arguments. */
    REFUSES(lanex_actor_register(executor, key, LANEX_KEY_MAX, NULL, NULL), 1);
    REFUSES(lanex_actor_register(executor, key, LANEX_KEY_MAX, NULL, NULL), 0);
    REFUSES(lanex_actor_retire(executor, key, LANEX_KEY_MAX), 0);
    rig_destroy_executor(executor);
}

Test(contract, other_calls_say_einval_to_nothing)
{
    lanex_executor *executor = rig_executor();
    lanex_executor_options options = rig_options();
    lanex_executor *made = (lanex_executor *)&options;
    lanex_liveness liveness = {.size = 1};
    lanex_counters counters = {.size = 1};
    lanex_config config = {.size = 1};
    lanex_port_options port_options = {.size = sizeof port_options, .doorbell = 2};
    lanex_port *port = (lanex_port *)&options;
    lanex_ring *ring = (lanex_ring *)&options;
    lanex_completion *one;
    size_t left = UNSET;

    REFUSES(lanex_executor_create(&options, NULL), -EINVAL);
    options.size--;
    REFUSES(lanex_executor_create(&options, &made), -EINVAL);
    options.size++;
    options.dispatch = 3;
    REFUSES(lanex_executor_create(&options, &made), -EINVAL);
    cr_assert_eq((void *)made, (void *)&options);
    REFUSES(lanex_executor_liveness(executor, &liveness), -EINVAL);
    REFUSES(lanex_executor_liveness(NULL, &liveness), -EINVAL);
    REFUSES(lanex_executor_counters(executor, &counters), -EINVAL);
    REFUSES(lanex_executor_config(executor, &config), -EINVAL);
    REFUSES(lanex_executor_config(executor, NULL), -EINVAL);
    REFUSES(lanex_executor_drain(NULL, 0, &left), -EINVAL);
    REFUSES(lanex_executor_destroy(NULL), 0);
    REFUSES(lanex_cancel(NULL, 1), -EINVAL);
    REFUSES(lanex_port_create(NULL, NULL, &port), -EINVAL);
    REFUSES(lanex_port_create(executor, NULL, NULL), -EINVAL);
    REFUSES(lanex_port_create(executor, &port_options, &port), -EINVAL);
    port_options.doorbell = LANEX_DOORBELL_RING; /* without a ring */
    REFUSES(lanex_port_create(executor, &port_options, &port), -EINVAL);
    REFUSES(lanex_port_drain(NULL, &one, 1), -EINVAL);
    REFUSES(lanex_port_detach(NULL), -EINVAL);
    REFUSES(lanex_port_fd(NULL), -EINVAL);
    REFUSES(lanex_ring_attach(NULL, 0, &ring), -EINVAL);
    if (rig_has_rings(executor)) {
        REFUSES(lanex_ring_attach(executor, -1, &ring), -EBADF);
        REFUSES(lanex_ring_attach(executor, 2 /* no ring */, &ring), -EINVAL);
    } else {
        REFUSES(lanex_ring_attach(executor, 2 /* no ring */, &ring), -EOPNOTSUPP);
    }
    cr_assert_eq((void *)port, (void *)&options);
    cr_assert_eq((void *)ring, (void *)&options);
    REFUSES(lanex_ticket_wait(NULL, 0), -EINVAL);
    REFUSES(lanex_ticket_poll(NULL), -EINVAL);
    cr_assert_null(lanex_ticket_completion(NULL));
    REFUSES(lanex_job_defer(NULL, NULL), -EINVAL);
    REFUSES(lanex_deferred_respond(NULL, NULL, NULL), -EINVAL);
    REFUSES(lanex_deferred_respond_error(NULL, "c", NULL, false), -EINVAL);
    REFUSES(lanex_job_respond_error(NULL, "c", NULL, false), -EINVAL);
    REFUSES(lanex_completion_refusal(NULL, NULL), -EINVAL);
    cr_assert_null(lanex_current_job());
    lanex_executor_unref(NULL);
    lanex_actor_unref(NULL);
    lanex_port_unref(NULL);
    lanex_ring_unref(NULL);
    lanex_ticket_drop(NULL);
    lanex_deferred_drop(NULL);
    lanex_completion_release(NULL);
    cr_assert(lanex_executor_ref(NULL) == NULL && lanex_actor_ref(NULL) == NULL &&
              lanex_port_ref(NULL) == NULL && lanex_ring_ref(NULL) == NULL);
    rig_destroy_executor(executor);
}

Test(contract, after_destroy_every_call_says_eshutdown)
{
    lanex_executor *executor = lanex_executor_ref(rig_executor());
    lanex_actor *actor = rig_actor(executor, "a"), *found = actor;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    lanex_submission one = {actor, &job};
    lanex_ticket *ticket = (lanex_ticket *)&job;
    lanex_port *port = (lanex_port *)&job;
    lanex_ring *ring = (lanex_ring *)&job;
    uint64_t number = UNSET;

    cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
    REFUSES(lanex_executor_destroy(executor), 0);
    REFUSES(lanex_submit(actor, &job, &number), -ESHUTDOWN);
    REFUSES(lanex_submit_ticket(actor, &job, &ticket), -ESHUTDOWN);
    REFUSES(lanex_submit_by_key(executor, "a", 1, &job, &number), -ESHUTDOWN);
    REFUSES(lanex_submit_batch(&one, 1, &number), -ESHUTDOWN);
    REFUSES(lanex_cancel(executor, 1), -ESHUTDOWN);
    REFUSES(lanex_actor_register(executor, "b", 1, NULL, &found), -ESHUTDOWN);
    REFUSES(lanex_actor_lookup(executor, "a", 1, &found), -ESHUTDOWN);
    REFUSES(lanex_actor_remove(executor, "a", 1), -ESHUTDOWN);
    REFUSES(lanex_actor_retire(executor, "a", 1), -ESHUTDOWN);
    REFUSES(lanex_actor_cancel_queued_maintenance(executor, "a", 1), -ESHUTDOWN);
    REFUSES(lanex_executor_drain(executor, 0, NULL), -ESHUTDOWN);
    REFUSES(lanex_port_create(executor, NULL, &port), -ESHUTDOWN);
    REFUSES(lanex_ring_attach(executor, 0, &ring), -ESHUTDOWN);
    cr_assert(number == UNSET && found == actor && (void *)ticket == (void *)&job &&
              (void *)port == (void *)&job && (void *)ring == (void *)&job);
    /* Nothing was kept: the token serves a job elsewhere. */
    lanex_executor *second = rig_executor();
    lanex_actor *other = rig_actor(second, "a");
    rig_run(other, &job, LANEX_STATUS_OK);
    lanex_actor_unref(other);
    rig_destroy_executor(second);
    lanex_cancellation_unref(job.cancellation);
    lanex_actor_unref(actor);
    lanex_executor_unref(executor);
}

struct inside {
    lanex_executor *executor;
    int destroy, drain;
    struct latch done;
};

static void destroy_inside(struct inside *inside)
{
    inside->destroy = lanex_executor_destroy(inside->executor);
    inside->drain = lanex_executor_drain(inside->executor, LANEX_TIME_NEVER, NULL);
    latch_arrive(&inside->done);
}

static void body_that_destroys(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    destroy_inside(arg);
}

static void callback_that_destroys(lanex_completion *completion, void *arg)
{
    (void)completion;
    destroy_inside(arg);
}

Test(contract, destroy_and_drain_from_ones_own_threads_are_edeadlk)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct inside in_body = {.executor = executor}, on_worker = in_body, on_reaper = in_body;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, body_that_destroys, &in_body);

    rig_run(actor, &job, LANEX_STATUS_OK);
    cr_assert(in_body.destroy == -EDEADLK && in_body.drain == -EDEADLK);
    job.run = rig_nothing;
    job.sink = (lanex_sink){.kind = LANEX_SINK_CALLBACK,
                            .callback = callback_that_destroys,
                            .callback_arg = &on_worker};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&on_worker.done, 1);
    cr_assert(on_worker.destroy == -EDEADLK && on_worker.drain == -EDEADLK);
    job.sink.callback_arg = &on_reaper;
    cr_assert_eq(lanex_submit_by_key(executor, "other", 5, &job, NULL), 0);
    latch_wait(&on_reaper.done, 1);
    cr_assert(on_reaper.destroy == -EDEADLK && on_reaper.drain == -EDEADLK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

static void body_that_drops_the_last_reference(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    lanex_executor_unref(arg);
}

static void released(void *context)
{
    latch_arrive(context);
}

Test(contract, a_last_reference_dropped_inside_a_job_never_joins_itself)
{
    lanex_executor *executor = rig_executor();
    struct latch gone = LATCH_INIT;
    lanex_actor *actor = rig_actor_with(executor, "a", &gone, released);
    lanex_job_options job =
        rig_job(LANEX_LANE_PURE_READ, body_that_drops_the_last_reference, executor);
    lanex_ticket *ticket = rig_submit(actor, &job);

    lanex_actor_unref(actor);
    rig_expect(ticket, LANEX_STATUS_OK);
    latch_wait(&gone, 1); /* the executor has ended: its actors are released */
}

/* ---- texts ---- */

static void texts_of_job(lanex_job *job, void *context, void *arg)
{
    const char **expected = arg;

    (void)context;
    LX_REQUIRE(lanex_current_job() == job);
    LX_REQUIRE(strcmp(lanex_job_request_id(job), expected[0]) == 0);
    LX_REQUIRE(strcmp(lanex_job_label(job), expected[1]) == 0);
}

Test(contract, ids_and_labels_are_copied)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    static char longest[LANEX_REQUEST_ID_MAX + 1];
    static const size_t lengths[] = {1, 24, 29, 30, 31, 32, 100, LANEX_REQUEST_ID_MAX};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char *id = malloc(lengths[i]); /* no final zero */
        const char *expected[2] = {longest, longest};
        cr_assert_not_null(id);
        memset(longest, 0, sizeof longest);
        memset(longest, 'i', lengths[i]);
        memset(id, 'i', lengths[i]);
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, texts_of_job, expected);
        job.request_id = id;
        job.request_id_length = lengths[i];
        job.label = id;
        job.label_length = lengths[i];
        lanex_ticket *ticket = rig_submit(actor, &job);
        free(id);
        lanex_completion *completion = rig_wait(ticket);
        cr_assert_str_eq(lanex_completion_request_id(completion), longest);
        cr_assert_str_eq(lanex_completion_label(completion), longest);
        cr_assert_eq(lanex_completion_job(completion), lanex_ticket_job(ticket));
        cr_assert_eq(lanex_completion_arg(completion), (void *)expected);
        cr_assert_str_eq(lanex_completion_code(completion), "ok");
        cr_assert_str_eq(lanex_completion_message(completion), "");
        cr_assert_not(lanex_completion_retryable(completion));
        lanex_ticket_drop(ticket);
    }
    const char *defaults[2] = {"", "executor::Maintenance::MaintenanceCommit"};
    lanex_job_options job = rig_job(LANEX_LANE_MAINTENANCE_COMMIT, texts_of_job, defaults);
    job.job_class = LANEX_CLASS_MAINTENANCE;
    rig_run(actor, &job, LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

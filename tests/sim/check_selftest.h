/*
 * What the sequences of check_selftest.c are written in: short forms of a user's events, told to
 * one checker of two actors, 0 and 1, under keys of the same numbers.
 */
#ifndef LX_TESTS_SIM_CHECK_SELFTEST_H
#define LX_TESTS_SIM_CHECK_SELFTEST_H

#include "check.h"

#define MS UINT64_C(1000000)

extern struct check *c;
extern uint64_t clock_ns; /* its clock, moved by hand */

/* A sequence of events that breaks one rule and nothing else. */
struct wrong {
    enum check_rule rule;
    const char *name;
    void (*sequence)(void);
};

#define WRONG(rule, sequence)                                                                      \
    {                                                                                              \
        rule, #sequence, sequence                                                                  \
    }

extern const struct wrong wrong_runs[]; /* they end with CHECK_NONE */
extern const struct wrong wrong_lives[];

static inline struct check_facts facts(uint32_t actor, uint32_t lane)
{
    return (struct check_facts){
        .actor = actor, .key = actor, .lane = lane, .cost = 1, .told = true, .prompt = true};
}

static inline void submit_facts(uint32_t job, struct check_facts f)
{
    check_submit_begin(c, job, &f);
    check_submit_end(c, job, 0);
}

static inline void submit(uint32_t job, uint32_t actor, uint32_t lane)
{
    submit_facts(job, facts(actor, lane));
}

static inline void submit_class(uint32_t job, uint32_t actor, uint32_t lane, uint32_t job_class)
{
    struct check_facts f = facts(actor, lane);

    f.job_class = job_class;
    submit_facts(job, f);
}

static inline void submit_token(uint32_t job, uint32_t actor, uint32_t lane)
{
    struct check_facts f = facts(actor, lane);

    f.token = true;
    submit_facts(job, f);
}

static inline void run(uint32_t job, uint32_t actor)
{
    check_body_begin(c, job, actor, false);
}

static inline void end(uint32_t job)
{
    check_body_end(c, job, false, CHECK_END_OK);
}

static inline void whole(uint32_t job, uint32_t actor)
{
    run(job, actor);
    end(job);
    check_completed(c, job, LANEX_STATUS_OK);
}

static inline void cancel(uint32_t job, int outcome)
{
    check_cancel_begin(c, job);
    check_cancel_end(c, job, outcome);
}

static inline void give_contexts_back(void)
{
    check_destroy_begin(c);
    check_context_release(c, 0);
    check_context_release(c, 1);
    check_destroy_end(c, 0);
}

static inline lanex_liveness view(void)
{
    return (lanex_liveness){.size = sizeof(lanex_liveness),
                            .idle_workers = 4,
                            .interactive_reserve = c->config.interactive_reserve,
                            .maintenance_cap = c->config.maintenance_cap};
}

#endif

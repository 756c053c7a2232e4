/*
 * check.h - SPEC, asked of what users see: an independent checker.
 *
 * What it is. It is told each event at lanex's outside - a call begins, a call returns, a body
 * begins, a body ends, a completion is taken - and says which rule was broken. It was written from
 * SPEC and the public headers, shares no code with src/, and calls nothing of lanex's.
 *
 * Why it may be used with real threads. Each rule is about intervals: what is recorded inside a
 * body lies within the time in which the body holds its gate and its worker, so that recorded
 * overlaps are real ones; and "earlier" always means that one call had returned before the other
 * began. So an order of the records that differs a little from that of the things themselves never
 * makes a right run look wrong. Where a rule needs time, its slack is in struct check_limits.
 *
 * Pattern: check_init; events, one at a time (`lock` and `unlock` are called around each, if
 * given); check_finish. `error` is "" until a rule was broken; the first one stays.
 */
#ifndef LX_SIM_CHECK_H
#define LX_SIM_CHECK_H

#include <lanex/lanex.h>

#define CHECK_JOBS_MAX   4096u
#define CHECK_ACTORS_MAX 512u /* incarnations */
#define CHECK_KEYS_MAX   16u
#define CHECK_NO_ACTOR   UINT32_MAX

/* One rule a line; each has a wrong sequence of events in check_selftest.c that it rejects. */
enum check_rule {
    CHECK_NONE,
    CHECK_POOL,            /* more bodies than workers */
    CHECK_EXCLUSION,       /* a writer beside a reader or a writer of its actor */
    CHECK_SERIAL,          /* two serial_status jobs of an actor */
    CHECK_COMMIT,          /* two maintenance_commit jobs of an actor */
    CHECK_READ_CAP,        /* more pure_reads of an actor than read_cap */
    CHECK_ACTOR_CAP,       /* more jobs of an actor than actor_cap */
    CHECK_PERMITS,         /* more heavy_inits than permits */
    CHECK_MAINTENANCE_CAP, /* more maintenance than maintenance_cap */
    CHECK_RESERVE,         /* maintenance took a worker of the interactive reserve */
    CHECK_ORDER,           /* overtaken where nothing may overtake */
    CHECK_PROMOTION,       /* an interactive job started after a writer had become urgent */
    CHECK_WRITER_FIRST,    /* maintenance started while an interactive writer was queued */
    CHECK_TWICE,           /* two completions, or two runs */
    CHECK_NEVER,           /* no completion */
    CHECK_NOT_ACCEPTED,    /* a completion or a run of what was refused by an errno */
    CHECK_STATUS,          /* a completion that does not fit what happened */
    CHECK_DETAILS,         /* a refusal's details or retryable are wrong */
    CHECK_RAN_AFTER,       /* it ran although it had been answered, cancelled or expired */
    CHECK_LATE_ANSWER,     /* an end that nobody was told of in time */
    CHECK_DEADLINE,        /* not answered in time, too early, or begun too late */
    CHECK_CANCEL,          /* an outcome of a cancel that does not fit */
    CHECK_SEAL,            /* both sides won */
    CHECK_DEFERRED,        /* a deferred answer went wrong */
    CHECK_FATAL,           /* a job of a fatal actor ran */
    CHECK_REMOVED,         /* a job of a removed actor was started */
    CHECK_INCARNATION,     /* a job ran under another actor's context */
    CHECK_CONTEXT,         /* a context was released twice, too early or never, or torn down so */
    CHECK_RETIRE,          /* a busy actor was retired, or an idle one called busy */
    CHECK_HOOK,            /* hooks out of turn */
    CHECK_DATA,            /* response data lost or destroyed twice */
    CHECK_DRAIN,           /* drain's contract */
    CHECK_DESTROY,         /* destroy's contract */
    CHECK_PROGRESS,        /* work could start, and did not */
    CHECK_COUNTERS,        /* views that differ from a recount */
    CHECK_PHANTOM,         /* in flight minus owned is not 0 */
    CHECK_RULES
};

const char *check_rule_name(enum check_rule rule);

/* How much later than at once may be, in nanoseconds. */
struct check_limits {
    uint64_t clock_ns;    /* between the clocks of the executor and of the checker */
    uint64_t deadline_ns; /* SPEC 9: an answer after its deadline */
    uint64_t progress_ns; /* a start, once it is possible; an answer, once the body has ended */
};

/* What is known of a job before it is submitted. */
struct check_facts {
    uint32_t actor; /* incarnation that the handle names; CHECK_NO_ACTOR: submitted by key */
    uint32_t key;
    uint32_t job_class, lane, cost, coalesce_key;
    uint64_t deadline_ns; /* 0: none */
    bool install, token;
    bool told;   /* somebody will take its completion */
    bool prompt; /* and at once: a callback */
};

/* How a body ended. */
enum check_end { CHECK_END_OK, CHECK_END_ERROR, CHECK_END_PANIC, CHECK_END_DEFERRED };

enum check_answer { CHECK_ANSWER_OK, CHECK_ANSWER_ERROR, CHECK_ANSWER_DROP };

struct check_job {
    struct check_facts facts;
    uint32_t actor; /* incarnation, once it is known */
    uint64_t call_seq, return_seq, call_ns, return_ns;
    uint64_t begin_seq, begin_ns, end_ns, answer_ns, cancel_ns;
    unsigned heavy_peak; /* heavy bodies seen between build and install */
    enum check_end end;
    enum check_answer answer;
    int status, answer_rc;
    bool used, returned, accepted, untold;
    bool begun, ended, running, install_begun, install_ended, completed;
    bool deferred, panicked, answer_begun, answer_ended;
    bool must_not_run; /* a reason is known */
    bool after_fatal, after_removal;
    bool cancel_begun, cancel_early, removed, met_pending, signalled, committed,
        gone; /* outcomes of cancels */
    bool sealing, sealed, seal_failed;
    bool overdue;
};

struct check_actor {
    uint32_t key, weight;
    void *context;
    bool used, live, may_live, retiring, removing, gone, retired, fatal, fatal_told;
    bool torn_down, released, hooked, unhooked;
    unsigned lists; /* that hold its context */
    unsigned running, reads, serials, commits, writers, heavies, counted, starts_after_removal,
        starts_allowed;
    bool busy_before; /* when a retire began, as far as can be known */
    /* The latest call among those that have begun, by class: what came before must not begin after.
     */
    uint64_t begun_writer[2], begun_plain_writer[2], begun_gated[2], begun_status[2];
    uint64_t begun_lane[2][5], begun_maintenance;
    uint64_t begun_interactive_ns;
    bool stuck; /* a body took as long as makes a reader count as stuck */
};

struct check {
    lanex_config config;
    struct check_limits limits;
    uint64_t (*now)(void);
    void (*lock)(void), (*unlock)(void);
    void (*on_fail)(struct check *check);
    enum check_rule rule;
    char error[256];
    uint64_t seq, now_ns, events, recounts;
    struct check_job jobs[CHECK_JOBS_MAX];
    struct check_actor actors[CHECK_ACTORS_MAX];
    uint32_t current[CHECK_KEYS_MAX];             /* incarnation, or CHECK_NO_ACTOR */
    bool deadline_writers[CHECK_KEYS_MAX];        /* writers that may be urgent at any age */
    uint64_t maintenance_cancels[CHECK_KEYS_MAX]; /* the latest call */
    unsigned maintenance_cancelling[CHECK_KEYS_MAX];
    uint32_t open[CHECK_JOBS_MAX]; /* submitted and perhaps not over */
    uint32_t open_count, actor_count;
    unsigned running[2], heavies;
    uint64_t ready_since_ns[CHECK_KEYS_MAX]; /* a job of the key could start; UINT64_MAX */
    unsigned calls;                          /* submissions and registry calls under way */
    uint64_t drain_seq;                      /* of the first drain */
    unsigned drain_open;                     /* open when drains began, and submitted since */
    bool drain_begun, drain_done, drained, destroy_begun, destroyed;
    int64_t live_data;
    uint64_t ran[2], refused[2], panics, untold_refusals[2];
};

void check_init(struct check *check, const lanex_config *config, const struct check_limits *limits,
                uint64_t (*now)(void));
/* Nothing is left: every promise was kept. After destroy has returned and all was given back. */
void check_finish(struct check *check);

/* ---- actors: one call at a time for each key; `number`: an incarnation's, given by the caller
 * ---- */
void check_register_begin(struct check *check, uint32_t number, uint32_t key, uint32_t weight);
void check_register_end(struct check *check, uint32_t number, int rc);
void check_remove_begin(struct check *check, uint32_t key, bool retire);
void check_remove_end(struct check *check, uint32_t key, bool retire, int rc);
void check_cancel_maintenance_begin(struct check *check, uint32_t key);
void check_cancel_maintenance_end(struct check *check, uint32_t key);
void check_context_teardown(struct check *check, uint32_t number);
void check_context_release(struct check *check, uint32_t number);
void check_hook(struct check *check, uint32_t number, bool registered);

/* ---- jobs; `number`: given by the caller ---- */
void check_submit_begin(struct check *check, uint32_t number, const struct check_facts *facts);
void check_submit_end(struct check *check, uint32_t number, int rc);
void check_body_begin(struct check *check, uint32_t number, uint32_t context, bool install);
void check_body_end(struct check *check, uint32_t number, bool install, enum check_end end);
void check_completed(struct check *check, uint32_t number, int status);
/* What its completion said beside its status. */
void check_completed_with(struct check *check, uint32_t number, int status, bool retryable,
                          const lanex_refusal *refusal);
/* Nobody will take it: its ticket was dropped, its port or ring closed. */
void check_untold(struct check *check, uint32_t number);
void check_data_made(struct check *check);
void check_data_gone(struct check *check);

/* ---- cancelling ---- */
void check_cancel_begin(struct check *check, uint32_t number);
void check_cancel_end(struct check *check, uint32_t number, int outcome);
/* `met`: what lanex_cancellation_cancel returned. */
void check_token_cancel_end(struct check *check, uint32_t number, int met);
void check_seal_begin(struct check *check, uint32_t number);
void check_seal_end(struct check *check, uint32_t number, bool won);

/* ---- deferred answers ---- */
void check_answer_begin(struct check *check, uint32_t number, enum check_answer answer);
void check_answer_end(struct check *check, uint32_t number, int rc);

/* ---- the executor ---- */
void check_drain_begin(struct check *check);
void check_drain_end(struct check *check, int rc, size_t left, uint64_t began_ns,
                     uint64_t timeout_ns);
void check_destroy_begin(struct check *check);
void check_destroy_end(struct check *check, int rc);
/* A call that began after destroy had returned: `began` is check_ended() before it. */
bool check_ended(struct check *check);
void check_call_result(struct check *check, bool began_ended, int rc);

/* ---- looks ---- */
/* Time has gone on: what should have happened by now? */
void check_tick(struct check *check);
/* At any moment: what a liveness view must not say. */
void check_liveness(struct check *check, const lanex_liveness *live);
/* Nothing moves but time: all threads sleep. Exact recounts, and nothing that could start. */
void check_still(struct check *check, const lanex_liveness *live);
/* All is over and every call has returned: counters equal recounts. */
void check_quiet(struct check *check, const lanex_liveness *live, const lanex_counters *counters);
/* True if every submission is known to be over and no call is under way. */
bool check_is_quiet(struct check *check);

#endif

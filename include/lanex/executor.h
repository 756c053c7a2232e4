/*
 * lanex/executor.h - the executor: a pool of workers, a scheduler, and their shared admission
 * state.
 *
 * A server makes one executor, registers its actors (actor.h), submits jobs to them (job.h) and
 * receives one completion per job (completion.h).
 *
 *     lanex_executor_options options = {.size = sizeof options};
 *     lanex_executor *executor;
 *     int rc = lanex_executor_create(&options, &executor);
 *     if (rc < 0)
 *         ...                                   // -errno; nothing was left behind
 *     ...
 *     lanex_executor_drain(executor, 5000000000u);   // 5 s: let everything finish
 *     lanex_executor_destroy(executor);
 *
 * Threads made by create, all of them before it returns: `lanex-w0`..`lanex-w<N-1>` (workers),
 * `lanex-sched` (timers, and turns that nobody else runs), `lanex-reap` (completions of jobs that
 * never ran, and teardown). They block every signal but the synchronous ones, so that a signal sent
 * to the process never runs on them. An idle executor uses no CPU.
 *
 * Cost: about two descriptors per thread; no allocation and no system call per job once it is warm
 * and its workers are busy.
 */
#ifndef LANEX_EXECUTOR_H
#define LANEX_EXECUTOR_H

#include <lanex/base.h>

LANEX_BEGIN_DECLS

typedef struct lanex_executor lanex_executor;

/* Which job of an actor is next. */
enum lanex_policy {
    /* Reads overtake waiting writers, until a writer reaches the promotion age. */
    LANEX_POLICY_READS_FIRST = 0,
    /* Strict arrival order; a mutating job at the head is a barrier. */
    LANEX_POLICY_ARRIVAL = 1,
};

/* How far the sizes may go. */
enum lanex_profile {
    /* At most 8 workers, 4 reads per actor, 3 heavy permits. */
    LANEX_PROFILE_STANDARD = 0,
    /* At most 1024 workers (default: every usable CPU); caps grow with the pool. */
    LANEX_PROFILE_MANY_CORE = 1,
};

/* Who runs scheduler turns. */
enum lanex_dispatch {
    LANEX_DISPATCH_DEFAULT = 0, /* the faster one: LANEX_DISPATCH_SEAT */
    /* Whoever has an event: a submitter or a finishing worker takes the seat and runs the turn. */
    LANEX_DISPATCH_SEAT = 1,
    /* Always the scheduler thread; a finishing worker tells it by ring message. */
    LANEX_DISPATCH_SCHEDULER = 2,
};

/*
 * What the threads sleep on. Under valgrind (3.19) ask for poll: it takes a wait in io_uring_enter
 * for a call that does not block, and lets no other thread run meanwhile.
 */
enum lanex_backend {
    LANEX_BACKEND_AUTO = 0, /* io_uring where it really works, else poll(2) */
    LANEX_BACKEND_RING = 1, /* io_uring, or create fails with the kernel's error */
    LANEX_BACKEND_POLL = 2, /* eventfd and poll(2) alone; ring sinks give -EOPNOTSUPP */
};

/*
 * Where the workers run. Default is wherever the kernel puts them, which is right unless a measure
 * says otherwise: a bound worker cannot be moved away from a CPU that something else keeps busy,
 * and a job that is ready then waits for that CPU although others are idle.
 */
enum lanex_affinity {
    LANEX_AFFINITY_NONE = 0, /* the mask of the thread that calls create */
    /* Worker i on the i-th CPU of that mask, and from the last CPU again to the first. */
    LANEX_AFFINITY_PER_CPU = 1,
    /* Worker i on affinity_cpus[i % affinity_count]. */
    LANEX_AFFINITY_LIST = 2,
};

#define LANEX_AFFINITY_LIST_MAX 65536u /* CPUs in a list */

/* Switches of lanex_executor_options.flags. Each turns a default off or an extra on. */
enum {
    /* A running maintenance_commit takes one of the actor's actor_cap slots. */
    LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP = 1u << 0,
    /* A promoted writer stops new reads even while the readers it waits for are stuck (60 s). */
    LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION = 1u << 1,
    /* Reads may pass aged jobs of serial_status, heavy_init and maintenance_commit for ever. */
    LANEX_EXECUTOR_NO_AGED_LANES = 1u << 2,
    /* A heavy_init without a permit holds up the jobs of its actor behind it. */
    LANEX_EXECUTOR_NO_PERMIT_STEP_OVER = 1u << 3,
    /* Maintenance never uses the interactive reserve, however long it has waited. */
    LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT = 1u << 4,
    /*
     * SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT raised inside a job count as a panic of that job.
     * For answering the client and leaving in order, NOT for carrying on: locks that the job held,
     * malloc's own among them, stay held. Installs process-wide handlers for these signals while
     * any such executor lives; a signal raised elsewhere goes on to the handler that was there.
     */
    LANEX_EXECUTOR_CONTAIN_SIGNALS = 1u << 5,
    /* Leave SIGPROF unblocked on lanex's threads, for sampling profilers. */
    LANEX_EXECUTOR_ALLOW_SIGPROF = 1u << 6,
};

#define LANEX_PROMOTION_AGE_MS_DEFAULT    6000u
#define LANEX_MAINTENANCE_WAIT_MS_DEFAULT 60000u
#define LANEX_MAINTENANCE_QUEUE_DEFAULT   512u
#define LANEX_STUCK_READER_MS             60000u
#define LANEX_PHASE_MAX                   256u /* bytes of a phase text, with the NUL */
#define LANEX_POOL_MAX_STANDARD           8u
#define LANEX_POOL_MAX_MANY_CORE          1024u
#define LANEX_SPIN_MAX_US                 1000u /* microseconds */

typedef struct lanex_executor_options {
    size_t size;      /* sizeof(lanex_executor_options) */
    uint32_t profile; /* enum lanex_profile */
    uint32_t policy;  /* enum lanex_policy */
    uint32_t dispatch;
    uint32_t backend;
    uint32_t flags; /* LANEX_EXECUTOR_* */

    /* Sizes: 0 = default; anything else is brought into range. lanex_executor_config tells. */
    uint32_t pool_size;     /* workers */
    uint32_t actor_cap;     /* jobs of one actor in flight */
    uint32_t read_cap;      /* pure_read jobs of one actor in flight */
    uint32_t heavy_permits; /* heavy_init jobs in flight in the whole executor */
    uint32_t drr_quantum;   /* what a visit adds to an actor's deficit, times its weight */

    uint32_t promotion_age_ms;        /* age at which a queued writer stops new reads; 0 = 6000 */
    uint32_t maintenance_max_wait_ms; /* 0 = 60000 */
    uint32_t maintenance_queue_cap;   /* queued maintenance jobs per actor; 0 = 512 */

    /* Queued jobs at most; 0 = no limit. */
    uint32_t interactive_actor_queue_cap;
    uint32_t interactive_queue_cap;
    uint32_t maintenance_total_queue_cap;

    uint32_t affinity; /* enum lanex_affinity, of workers alone: scheduler and reaper stay free */
    /*
     * With LANEX_AFFINITY_LIST: CPU numbers, in the order of the workers; each must be in the mask
     * of the thread that calls create. Read during create only. Else 0 and NULL.
     */
    uint32_t affinity_count;
    const uint32_t *affinity_cpus;

    /*
     * Microseconds, at most LANEX_SPIN_MAX_US, that a thread with nothing to do looks on for more
     * before it sleeps; 0 = none. For answers in a microsecond or two where sleeping and waking
     * cost ten: one caller that waits for each answer before it asks again, or jobs that come a few
     * microseconds apart. Who spins is found without a system call by whoever has work for it.
     *
     * Cost: up to that much CPU per worker each time it runs out of jobs, and per thread in
     * lanex_ticket_wait each time it has to wait. At most half of the usable CPUs, and at least
     * one, are spun on by workers at once, and as many by waiting threads; the rest sleep at once.
     * Who keeps spinning in vain spins for less, down to a tenth on average. An idle executor still
     * uses no CPU. A few microseconds more than the usual gap between jobs is enough: 20 to 50.
     *
     * It is off, and reads as 0 in lanex_config, where fewer than two CPUs are usable or a control
     * group's quota allows less than two: there it would take the time of those who have the work.
     */
    uint32_t spin_us;

    /*
     * Writes what an actor is doing, for lanex_job_blockers (inspect.h), as a string of at most
     * `size` (LANEX_PHASE_MAX) bytes with the NUL. Runs on the thread that asks, beside whatever
     * job runs: with no gate held and nothing of lanex's either. The context is not released before
     * it has returned. May be NULL.
     */
    void (*context_phase)(void *context, char *text, size_t size);
} lanex_executor_options;

/* The effective values: what the rules made of what was asked. */
typedef struct lanex_config {
    size_t size; /* sizeof(lanex_config), set by the caller */
    uint32_t profile, policy, dispatch, backend;
    uint32_t flags;
    uint32_t pool_size, actor_cap, read_cap, heavy_permits, drr_quantum;
    uint32_t deficit_cap;         /* 4 * actor_cap */
    uint32_t interactive_reserve; /* workers that maintenance leaves idle */
    uint32_t maintenance_cap;     /* maintenance jobs running at once */
    uint32_t promotion_age_ms, maintenance_max_wait_ms, maintenance_queue_cap;
    uint32_t interactive_actor_queue_cap, interactive_queue_cap, maintenance_total_queue_cap;
    uint32_t affinity;    /* enum lanex_affinity; lanex_executor_worker_cpu tells the CPUs */
    uint32_t usable_cpus; /* by affinity mask and cgroup quota: what the defaults came from */
    uint32_t spin_us;     /* 0: not asked for, or not on so few CPUs */
} lanex_config;

/*
 * Applies the sizing rules without making anything: what an executor with these options would use
 * on `usable_cpus` CPUs (0 = ask the system). Errors: -EINVAL (NULL, unknown size or enum value, or
 * what create refuses by the options alone).
 */
LANEX_API int lanex_config_resolve(const lanex_executor_options *options, uint32_t usable_cpus,
                                   lanex_config *ret_config);

/* CPUs this process may use: affinity mask and cgroup CPU quota (v1 and v2, rounded up), at
 * least 1. */
LANEX_API uint32_t lanex_usable_cpus(void);

/*
 * Makes an executor and starts its threads. options NULL = all defaults.
 * Errors: -EINVAL (unknown size, enum value or flag; a CPU that the calling thread may not use; a
 * spin_us above its maximum),
 * -ENOMEM, -EAGAIN (threads), -EMFILE/-ENFILE (descriptors), whatever the kernel says to a thread
 * that binds itself, with LANEX_BACKEND_RING whatever io_uring_setup answered. After an error no
 * thread, descriptor or memory of it is left.
 */
LANEX_API int lanex_executor_create(const lanex_executor_options *options,
                                    lanex_executor **ret_executor);

/* One more reference, for another thread that calls into the executor. Returns its argument. */
LANEX_API lanex_executor *lanex_executor_ref(lanex_executor *executor);

/*
 * Drops a reference. Memory goes with the last one; if the executor still runs then, it is shut
 * down first. On one of its own threads, and in a callback, nothing is waited for: the call returns
 * at once and lanex-reap shuts it down, running what is then left of the user's code (callbacks,
 * releases of contexts) and ending as the last of its threads. Neither way asks for anything that
 * could be refused.
 */
LANEX_API void lanex_executor_unref(lanex_executor *executor);

/*
 * Refuses new submissions (they complete `executor_shutdown`) and waits until everything queued and
 * running has ended, or for timeout_ns (LANEX_TIME_NEVER: no limit). Deferred answers are not
 * waited for. Returns 0 when nothing is left, -ETIMEDOUT otherwise with *ret_left (may be NULL) set
 * to the queued plus running jobs. They are counted once the time is up, so that *ret_left may be
 * 0: when the last one ended meanwhile, and when what is left are the answers to the queued jobs of
 * an actor that was removed or became fatal, which count as queued no more. Nor does a heavy_init
 * count that waits for its install step. Errors: -EDEADLK from inside a job or callback, -ESHUTDOWN
 * after destroy.
 */
LANEX_API int lanex_executor_drain(lanex_executor *executor, uint64_t timeout_ns, size_t *ret_left);

/*
 * Shuts down and drops the caller's reference: running jobs finish, queued ones are answered
 * `executor_shutdown`, outstanding deferred answers too, threads are joined and descriptors closed
 * before it returns. Calls by holders of other references give -ESHUTDOWN from then on. A second
 * destroy by another holder waits for the first one's end and drops that holder's reference.
 * Returns 0. Errors: -EDEADLK from one of its own threads (a job, a callback): the reference is NOT
 * dropped. -ECHILD in a forked child (nothing is freed). NULL: 0.
 */
LANEX_API int lanex_executor_destroy(lanex_executor *executor);

/* The effective configuration. Errors: -EINVAL (NULL or unknown size), -ECHILD. */
LANEX_API int lanex_executor_config(const lanex_executor *executor, lanex_config *ret_config);

/*
 * The CPU that worker `worker` (0 to pool_size - 1) was bound to by create. Errors: -ENOENT (it is
 * not bound), -EINVAL (NULL, no such worker), -ECHILD.
 */
LANEX_API int lanex_executor_worker_cpu(const lanex_executor *executor, uint32_t worker,
                                        uint32_t *ret_cpu);

/*
 * One line that says what the threads sleep on and, if rings were refused, why: the errno, and the
 * knobs that commonly cause it. Owned by the executor, constant for its life.
 */
LANEX_API const char *lanex_executor_backend_text(const lanex_executor *executor);

LANEX_END_DECLS

#endif

/*
 * W5 deep: one actor is held by a writer while 1,000 to 1,000,000 jobs queue (9 reads : 1 write),
 * then the writer ends and they drain. What it shows: whether a job's price grows with the depth of
 * its queue, at submission and at its end.
 */
#include "blocked.h"
#include "meter.h"
#include "report.h"
#include "stream.h"
#include "ticks.h"
#include "workloads.h"

#define DEPTHS 4

/*
 * Returns the seconds that it took. The first time at a depth is `cold`: the memory of a system
 * that copies jobs is made, which is the kernel's time mostly, and told by itself.
 */
static double drain(long depth, bool cold)
{
    struct bench_actor *actor = bench_traits.actor_new(BENCH_NORMAL);
    struct bench_jobs jobs = bench_jobs_new(depth + 1);
    uint64_t base = bench_meter_sum(0), begin, queued, end;
    struct bench_usage usage;

    bench_block(actor, bench_jobs_at(&jobs, depth));
    usage = bench_usage_begin();
    begin = bench_now();
    for (long i = 0; i < depth; i++) {
        struct bench_job *job = bench_jobs_at(&jobs, i);
        job->body = bench_body_empty;
        job->done = bench_done_count;
        job->actor = actor;
        job->kind = i % BENCH_WRITE_EACH == BENCH_WRITE_EACH - 1 ? BENCH_WRITE : BENCH_READ;
        bench_submit(job);
    }
    queued = bench_now();
    bench_unblock();
    bench_meter_wait_all(0, base + 1 + (uint64_t)depth);
    end = bench_now();
    bench_usage_end(&usage);
    bench_report_begin("deep");
    bench_param_int("queued", depth);
    bench_param_int("threads", bench_threads());
    bench_param_real("other_cpus", usage.busy_s);
    bench_report(cold ? "cold_submit_ns_per_job" : "submit_ns_per_job",
                 (double)(queued - begin) / (double)depth, "ns");
    if (!cold)
        bench_report("drain_ns_per_job", (double)(end - queued) / (double)depth, "ns");
    bench_jobs_free(&jobs);
    bench_traits.actor_free(actor);
    return (double)(end - begin) / 1e9;
}

void bench_deep(void)
{
    static const long depths[DEPTHS] = {1000, 10000, 100000, 1000000};
    double took = 0;

    for (unsigned i = 0; i < DEPTHS; i++) {
        if (bench_options.jobs != 0 && bench_options.jobs != depths[i])
            continue;
        /* A system whose cost is quadratic would need hours for the next depth. */
        if (took > 0.2 && took * 10 > bench_options.limit_s) {
            bench_report_begin("deep");
            bench_param_int("queued", depths[i]);
            bench_param_real("left_out_as_the_last_depth_took_s", took);
            bench_report("drain_ns_per_job", -1, "ns");
            break;
        }
        took = drain(depths[i], true);
        for (unsigned rep = 0; rep < bench_options.reps; rep++)
            took = drain(depths[i], false);
    }
}

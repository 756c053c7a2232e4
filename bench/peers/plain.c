/*
 * The plain hand-written pool: one queue, and a pthread_rwlock per actor that the worker takes
 * around the job. No order per actor, and a worker that meets a held lock sleeps in it. The link is
 * in the caller's job; with --variant malloc there is a node from malloc for each job instead.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "pool.h"

struct bench_actor {
    pthread_rwlock_t lock;
};

static bool with_nodes;

static void run_locked(struct bench_actor *actor, enum bench_kind kind, struct bench_job *job)
{
    if (kind == BENCH_WRITE)
        pthread_rwlock_wrlock(&actor->lock);
    else
        pthread_rwlock_rdlock(&actor->lock);
    job->body(job);
    pthread_rwlock_unlock(&actor->lock);
    job->done(job);
}

static void run(struct bench_job *job)
{
    run_locked(job->actor, job->kind, job);
}

/* A node is a job of its own, which only stands for the caller's. */
struct node {
    struct bench_job job;
    struct bench_job *callers;
};

static void run_node(struct bench_job *job)
{
    struct node *node = (struct node *)(void *)job;
    struct bench_job *callers = node->callers;
    struct bench_actor *actor = job->actor;
    enum bench_kind kind = job->kind;

    free(node);
    run_locked(actor, kind, callers);
}

void bench_submit(struct bench_job *job)
{
    if (with_nodes) {
        struct node *node = aligned_alloc(BENCH_LINE, sizeof *node);
        if (node == NULL)
            bench_die("node", ENOMEM);
        node->job.actor = job->actor;
        node->job.kind = job->kind;
        node->callers = job;
        pool_push(&node->job, &node->job, 1, job->job_class);
        return;
    }
    pool_push(job, job, 1, job->job_class);
}

static void start(void)
{
    with_nodes = strcmp(bench_options.variant, "malloc") == 0;
    if (with_nodes)
        bench_name = "plain_pool_malloc";
    pool_start(with_nodes ? run_node : run);
    snprintf(bench_idiom, sizeof bench_idiom,
             "mutex+condvar queue (%s), pthread_rwlock per actor in the job; no order per actor; "
             "3 priority lists",
             with_nodes ? "node from malloc per job" : "intrusive");
}

static struct bench_actor *actor_new(enum bench_class job_class)
{
    struct bench_actor *actor = malloc(sizeof *actor);

    (void)job_class;
    if (actor == NULL)
        bench_die("actor", ENOMEM);
    pthread_rwlock_init(&actor->lock, NULL);
    return actor;
}

static void actor_free(struct bench_actor *actor)
{
    pthread_rwlock_destroy(&actor->lock);
    free(actor);
}

const struct bench_traits bench_traits = {
    .name = "plain_pool",
    .intrusive = true,
    .start = start,
    .stop = pool_stop,
    .actor_new = actor_new,
    .actor_free = actor_free,
};

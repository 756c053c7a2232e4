/*
 * The careful hand-written pool, with the full semantics: per actor a FIFO of shared and exclusive
 * jobs, and no worker ever sleeps on an actor. A mutex per actor guards {readers running, writer
 * running, FIFO of waiting jobs}; only runnable jobs go to the pool's queue under a mutex and a
 * condition variable, in three priority lists. Links are in the jobs, nothing is allocated per job.
 * About what a competent C programmer writes in an afternoon when the order matters.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "pool.h"

struct bench_actor {
    pthread_mutex_t mutex;
    struct bench_job *head, **tail;
    unsigned readers, writers;
};

void bench_submit(struct bench_job *job)
{
    struct bench_actor *actor = job->actor;

    job->next = NULL;
    pthread_mutex_lock(&actor->mutex);
    if (actor->head != NULL || actor->writers != 0 ||
        (job->kind == BENCH_WRITE && actor->readers != 0)) {
        *actor->tail = job;
        actor->tail = &job->next;
        pthread_mutex_unlock(&actor->mutex);
        return;
    }
    if (job->kind == BENCH_WRITE)
        actor->writers = 1;
    else
        actor->readers++;
    pthread_mutex_unlock(&actor->mutex);
    pool_push(job, job, 1, job->job_class);
}

/* Takes those that may run now from the actor's queue. */
static unsigned take_runnable(struct bench_actor *actor, struct bench_job **first,
                              struct bench_job **last)
{
    unsigned count = 0;

    while (actor->head != NULL && actor->writers == 0) {
        struct bench_job *job = actor->head;
        if (job->kind == BENCH_WRITE) {
            if (actor->readers != 0)
                break;
            actor->writers = 1;
        } else {
            actor->readers++;
        }
        actor->head = job->next;
        if (actor->head == NULL)
            actor->tail = &actor->head;
        if (*last != NULL)
            (*last)->next = job;
        else
            *first = job;
        *last = job;
        count++;
    }
    return count;
}

static void finish(struct bench_actor *actor, enum bench_kind kind, enum bench_class job_class)
{
    struct bench_job *first = NULL, *last = NULL;
    unsigned count;

    pthread_mutex_lock(&actor->mutex);
    if (kind == BENCH_WRITE)
        actor->writers = 0;
    else
        actor->readers--;
    count = take_runnable(actor, &first, &last);
    pthread_mutex_unlock(&actor->mutex);
    if (first != NULL)
        pool_push(first, last, count, job_class);
}

static void run(struct bench_job *job)
{
    struct bench_actor *actor = job->actor;
    enum bench_kind kind = job->kind;
    enum bench_class job_class = job->job_class;

    job->body(job);
    finish(actor, kind, job_class);
    job->done(job);
}

static void start(void)
{
    pool_start(run);
    snprintf(bench_idiom, sizeof bench_idiom,
             "mutex+condvar pool, per-actor mutex + FIFO of shared/exclusive jobs (full order, "
             "workers never block), intrusive; 3 priority lists");
}

static struct bench_actor *actor_new(enum bench_class job_class)
{
    struct bench_actor *actor = calloc(1, sizeof *actor);

    (void)job_class;
    pthread_mutex_init(&actor->mutex, NULL);
    actor->tail = &actor->head;
    return actor;
}

static void actor_free(struct bench_actor *actor)
{
    /* A worker may still be inside finish(): take the lock once before the memory goes. */
    pthread_mutex_lock(&actor->mutex);
    pthread_mutex_unlock(&actor->mutex);
    pthread_mutex_destroy(&actor->mutex);
    free(actor);
}

const struct bench_traits bench_traits = {
    .name = "ordered_pool",
    .intrusive = true,
    .start = start,
    .stop = pool_stop,
    .actor_new = actor_new,
    .actor_free = actor_free,
};

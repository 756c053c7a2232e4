#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static const unsigned rank_of[BENCH_CLASSES] = {
    [BENCH_INTERACTIVE] = 0,
    [BENCH_NORMAL] = 1,
    [BENCH_BACKGROUND] = 2,
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t ready;
    struct bench_job *head[BENCH_CLASSES], **tail[BENCH_CLASSES];
    void (*run)(struct bench_job *job);
    pthread_t *threads;
    unsigned count;
    bool stop;
} pool;

static struct bench_job *take(void)
{
    for (unsigned rank = 0; rank < BENCH_CLASSES; rank++) {
        struct bench_job *job = pool.head[rank];
        if (job == NULL)
            continue;
        pool.head[rank] = job->next;
        if (pool.head[rank] == NULL)
            pool.tail[rank] = &pool.head[rank];
        return job;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct bench_job *job;

    (void)arg;
    do {
        pthread_mutex_lock(&pool.mutex);
        while ((job = take()) == NULL && !pool.stop)
            pthread_cond_wait(&pool.ready, &pool.mutex);
        pthread_mutex_unlock(&pool.mutex);
        if (job != NULL)
            pool.run(job);
    } while (job != NULL);
    return NULL;
}

void pool_push(struct bench_job *first, struct bench_job *last, unsigned count,
               enum bench_class job_class)
{
    unsigned rank = rank_of[job_class];

    last->next = NULL;
    pthread_mutex_lock(&pool.mutex);
    *pool.tail[rank] = first;
    pool.tail[rank] = &last->next;
    pthread_mutex_unlock(&pool.mutex);
    if (count > 1)
        pthread_cond_broadcast(&pool.ready);
    else
        pthread_cond_signal(&pool.ready);
}

void pool_start(void (*run)(struct bench_job *job))
{
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_cond_init(&pool.ready, NULL);
    for (unsigned rank = 0; rank < BENCH_CLASSES; rank++) {
        pool.head[rank] = NULL;
        pool.tail[rank] = &pool.head[rank];
    }
    pool.run = run;
    pool.stop = false;
    pool.count = bench_options.workers;
    pool.threads = calloc(pool.count, sizeof *pool.threads);
    for (unsigned i = 0; i < pool.count; i++)
        if (pthread_create(&pool.threads[i], NULL, work, NULL) != 0)
            bench_die("threads", EAGAIN);
}

void pool_stop(void)
{
    pthread_mutex_lock(&pool.mutex);
    pool.stop = true;
    pthread_cond_broadcast(&pool.ready);
    pthread_mutex_unlock(&pool.mutex);
    for (unsigned i = 0; i < pool.count; i++)
        pthread_join(pool.threads[i], NULL);
    free(pool.threads);
}

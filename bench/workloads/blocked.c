#include "blocked.h"

#include "futex.h"
#include "stream.h"

static _Atomic uint32_t begun, let_go;

static void body_hold(struct bench_job *job)
{
    (void)job;
    bench_flag_set(&begun);
    bench_flag_wait(&let_go);
}

void bench_block(struct bench_actor *actor, struct bench_job *job)
{
    atomic_store(&begun, 0);
    atomic_store(&let_go, 0);
    job->body = body_hold;
    job->done = bench_done_count;
    job->actor = actor;
    job->kind = BENCH_WRITE;
    bench_submit(job);
    bench_flag_wait(&begun);
}

void bench_unblock(void)
{
    bench_flag_set(&let_go);
}

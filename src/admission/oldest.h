/*
 * The oldest queued job of each class, executor-wide: what liveness shows as an age.
 *
 * A heap a class of the actors that have, or had, queued jobs of it, ordered by a lower bound of
 * when the actor's oldest was queued. An actor joins with the present time as its bound, which is
 * the greatest of all, so that joining costs a store; when its oldest leaves, the bound stays
 * behind. Only the top is ever brought up to date, and only when a job of it that old has left and
 * somebody is to be told: a queue that fills and empties within a turn costs a comparison a job.
 * Bounds are times, not arrival numbers: jobs queued in one tick of the clock are the same to an
 * age, and in a flood most are.
 */
#ifndef LX_ADMISSION_OLDEST_H
#define LX_ADMISSION_OLDEST_H

#include <stdbool.h>
#include <stdint.h>

struct lx_admission;
struct lx_actor_entry;

struct lx_oldest_item {
    uint64_t bound_ns; /* none of the actor's queued jobs of the class is older */
    struct lx_actor_entry *actor;
};

/* Actors that one look brings up to date at most: keeps a turn short. */
#define LX_OLDEST_SLICE 64u

/* The actor has a queued job of the class, the newest of all, since since_ns. */
void lx_oldest_join(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class,
                    uint64_t since_ns);
/* The actor's queue is detached: it leaves both heaps. */
void lx_oldest_leave(struct lx_admission *adm, struct lx_actor_entry *actor);
/*
 * lx_oldest_since (admission.h): when the oldest queued job of the class was queued;
 * LANEX_TIME_NEVER if none is. False: more than LX_OLDEST_SLICE actors were out of date, and
 * *ret_since_ns is a lower bound; asking again goes on. This is the part of it that has to look.
 */
bool lx_oldest_look(struct lx_admission *adm, unsigned job_class, uint64_t *ret_since_ns);

#endif

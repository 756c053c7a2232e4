/* The inbox: every push is taken or fails, and each producer's nodes come in their order. */
#include "tests/support/lx_test.h"

#include "sync/inbox.h"

#include <pthread.h>
#include <sched.h>

TestSuite(inbox, .timeout = 60);

#define PRODUCERS 4u

struct numbered {
    struct lx_inbox_node node;
    uint32_t producer;
    uint32_t number;
};

Test(inbox, oldest_first_with_kinds)
{
    struct lx_inbox inbox = {0};
    struct numbered nodes[LX_INBOX_KINDS];
    uintptr_t link;

    cr_assert_not(lx_inbox_has(&inbox));
    for (unsigned i = 0; i < LX_INBOX_KINDS; i++) {
        nodes[i].number = i;
        cr_assert(lx_inbox_push(&inbox, &nodes[i].node, i));
    }
    cr_assert(lx_inbox_has(&inbox));
    link = lx_inbox_take(&inbox, LX_INBOX_EMPTY);
    for (unsigned i = 0; i < LX_INBOX_KINDS; i++) {
        cr_assert_eq(lx_inbox_node_of(link), &nodes[i].node);
        cr_assert_eq(lx_inbox_kind_of(link), i);
        link = nodes[i].node.next;
    }
    cr_assert_eq(link, LX_INBOX_EMPTY);
    cr_assert_not(lx_inbox_has(&inbox));
}

Test(inbox, a_chain_goes_in_whole)
{
    struct lx_inbox inbox = {0};
    struct numbered nodes[4];
    bool was_empty = false;

    cr_assert(lx_inbox_push(&inbox, &nodes[0].node, 0));
    nodes[3].node.next = lx_inbox_link(&nodes[2].node, 2);
    nodes[2].node.next = lx_inbox_link(&nodes[1].node, 1);
    cr_assert(
        lx_inbox_push_chain(&inbox, lx_inbox_link(&nodes[3].node, 3), &nodes[1].node, &was_empty));
    cr_assert_not(was_empty);
    uintptr_t link = lx_inbox_take(&inbox, LX_INBOX_EMPTY);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(lx_inbox_node_of(link), &nodes[i].node);
        cr_assert_eq(lx_inbox_kind_of(link), i);
        link = nodes[i].node.next;
    }
    cr_assert_eq(link, LX_INBOX_EMPTY);
}

Test(inbox, closed_it_takes_nothing_and_says_so)
{
    struct lx_inbox inbox = {0};
    struct numbered before, after;
    bool was_empty;

    cr_assert(lx_inbox_push(&inbox, &before.node, 0));
    cr_assert_eq(lx_inbox_node_of(lx_inbox_take(&inbox, LX_INBOX_CLOSED)), &before.node);
    cr_assert_not(lx_inbox_push(&inbox, &after.node, 0));
    cr_assert_not(
        lx_inbox_push_chain(&inbox, lx_inbox_link(&after.node, 0), &after.node, &was_empty));
    cr_assert_not(lx_inbox_has(&inbox));
    cr_assert_eq(lx_inbox_take(&inbox, LX_INBOX_CLOSED), LX_INBOX_EMPTY);
}

struct shared {
    struct lx_inbox inbox;
    uint32_t each; /* nodes a producer has */
    struct latch go;
    struct numbered *nodes;
};

struct producer {
    struct shared *shared;
    uint32_t index;
    uint32_t pushed; /* before the inbox was closed */
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    struct shared *shared = producer->shared;
    struct numbered *nodes = shared->nodes + (size_t)producer->index * shared->each;

    latch_arrive(&shared->go);
    latch_wait(&shared->go, PRODUCERS + 1);
    for (uint32_t i = 0; i < shared->each; i++) {
        nodes[i].producer = producer->index;
        nodes[i].number = i;
        if (!lx_inbox_push(&shared->inbox, &nodes[i].node, i % LX_INBOX_KINDS))
            break;
        producer->pushed++;
    }
    return NULL;
}

/* Checks the order of each producer; returns how many were taken. */
static uint64_t count_taken(uintptr_t link, uint32_t *next)
{
    uint64_t count = 0;

    for (; link != LX_INBOX_EMPTY; count++) {
        struct numbered *node = (struct numbered *)lx_inbox_node_of(link);
        cr_assert_eq(node->number, next[node->producer]);
        cr_assert_eq(lx_inbox_kind_of(link), node->number % LX_INBOX_KINDS);
        next[node->producer]++;
        link = node->node.next;
    }
    return count;
}

/* Closed somewhere in the middle, or at the end where close_after is more than there is. */
static void race(uint32_t each, uint64_t close_after)
{
    struct shared shared = {.each = each};
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint32_t next[PRODUCERS] = {0};
    uint64_t taken = 0, pushed = 0;

    shared.nodes = calloc((size_t)PRODUCERS * each, sizeof *shared.nodes);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){&shared, i, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    latch_arrive(&shared.go);
    while (taken < close_after && taken < (uint64_t)PRODUCERS * each)
        taken += count_taken(lx_inbox_take(&shared.inbox, LX_INBOX_EMPTY), next);
    taken += count_taken(lx_inbox_take(&shared.inbox, LX_INBOX_CLOSED), next);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(producers[i].pushed, next[i], "pushed and taken differ");
        pushed += producers[i].pushed;
    }
    cr_assert_eq(pushed, taken);
    free(shared.nodes);
}

Test(inbox, each_push_is_taken_once_in_order)
{
    race((uint32_t)lx_test_scaled(200000), UINT64_MAX);
}

Test(inbox, a_push_races_with_close_and_is_taken_or_fails)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());

    for (unsigned i = 0; i < 200; i++)
        race(500, lx_rng_below(&rng, PRODUCERS * 500));
}

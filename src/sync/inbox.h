/*
 * The inbox: a list that many threads push to and one takes whole. A push is one compare-exchange,
 * a take one exchange; there is no ABA, since nothing is ever popped singly.
 *
 * Nodes are aligned to LX_INBOX_KINDS bytes; the low bits of the links carry what kind of event a
 * node stands for, so that a job can be pushed as "submitted" and later as "ended" without a place
 * of its own for that.
 *
 * Closing: the head becomes LX_INBOX_CLOSED in the exchange that takes the last nodes, so that each
 * push either is among them or fails.
 *
 * Pairs with the seat (runtime/seat.h): a push is followed by a look at the seat, leaving the seat
 * by a look at the inbox, with a full fence between store and load on both sides. tests/model has
 * the proof.
 */
#ifndef LX_INBOX_H
#define LX_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LX_INBOX_KINDS 8u /* kinds of events: what the three low bits of a link can say */

struct lx_inbox_node {
    uintptr_t next; /* a tagged link */
};

struct lx_inbox {
    _Atomic uintptr_t head;
};

#define LX_INBOX_EMPTY  ((uintptr_t)0)
#define LX_INBOX_CLOSED ((uintptr_t)LX_INBOX_KINDS) /* no node is there */

static inline uintptr_t lx_inbox_link(struct lx_inbox_node *node, unsigned kind)
{
    return (uintptr_t)node | kind;
}

static inline struct lx_inbox_node *lx_inbox_node_of(uintptr_t link)
{
    return (struct lx_inbox_node *)(link & ~(uintptr_t)(LX_INBOX_KINDS - 1));
}

static inline unsigned lx_inbox_kind_of(uintptr_t link)
{
    return (unsigned)(link & (LX_INBOX_KINDS - 1));
}

/*
 * Pushes a chain that is linked from the newest node (`newest` is its tagged link) to `oldest`.
 * False if the inbox is closed; then nothing was pushed. *ret_was_empty: whether it was empty
 * before.
 */
static inline bool lx_inbox_push_chain(struct lx_inbox *inbox, uintptr_t newest,
                                       struct lx_inbox_node *oldest, bool *ret_was_empty)
{
    uintptr_t head = atomic_load_explicit(&inbox->head, memory_order_relaxed);

    do {
        if (head == LX_INBOX_CLOSED)
            return false;
        oldest->next = head;
        /* release: what the pusher wrote to the nodes; partner is the acquire in lx_inbox_take.
         * seq_cst, since the look at the seat (or at the consumer's sleep) must not move before it.
         */
    } while (!atomic_compare_exchange_weak_explicit(&inbox->head, &head, newest,
                                                    memory_order_seq_cst, memory_order_relaxed));
    *ret_was_empty = head == LX_INBOX_EMPTY;
    return true;
}

static inline bool lx_inbox_push(struct lx_inbox *inbox, struct lx_inbox_node *node, unsigned kind)
{
    bool was_empty;

    return lx_inbox_push_chain(inbox, lx_inbox_link(node, kind), node, &was_empty);
}

/* True if something may be in it. */
static inline bool lx_inbox_has(const struct lx_inbox *inbox)
{
    uintptr_t head = atomic_load_explicit(&inbox->head, memory_order_seq_cst);

    return head != LX_INBOX_EMPTY && head != LX_INBOX_CLOSED;
}

/*
 * Takes everything and leaves `instead` (EMPTY or CLOSED). Returns the tagged link of the oldest
 * node; the chain goes on to the newest and ends with LX_INBOX_EMPTY.
 */
static inline uintptr_t lx_inbox_take(struct lx_inbox *inbox, uintptr_t instead)
{
    /* acquire: partner is the release in lx_inbox_push_chain. */
    uintptr_t link = atomic_exchange_explicit(&inbox->head, instead, memory_order_acq_rel);
    uintptr_t reversed = LX_INBOX_EMPTY;

    while (link != LX_INBOX_EMPTY && link != LX_INBOX_CLOSED) {
        struct lx_inbox_node *node = lx_inbox_node_of(link);
        uintptr_t older = node->next;
        node->next = reversed;
        reversed = link;
        link = older;
    }
    return reversed;
}

#endif

#include "runtime/signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

/* Bytes of an alternate stack for handlers, beside what the kernel itself pushes. */
#define LX_SIGNAL_STACK_SIZE ((size_t)64 << 10)
/* Since glibc 2.34; the entry of the auxiliary vector that tells the size of a signal's frame. */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Bytes of the kernel's set of signals: all that it writes of a ucontext's. */
#define LX_KERNEL_SIGSET_SIZE ((size_t)_NSIG / 8)

static const int contained_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define LX_CONTAINED_SIGNALS (sizeof contained_signals / sizeof *contained_signals)

/* What is known of one contained signal. */
struct contained {
    /*
     * The action before ours. Written before our handler is installed (the kernel orders that
     * before the handler's first run) and kept after the release, for handlers that pass on to ours
     * still.
     */
    struct sigaction previous;
    /* `previous` was one-shot (SA_RESETHAND) and has had its shot: the default counts from then on.
     */
    atomic_bool spent;
    /* Released while somebody's handler lay on top of ours. Under `containment_lock`. */
    bool buried;
};
static struct contained contained_table[LX_CONTAINED_SIGNALS];

/* Counts and installs. Taken in create and destroy only, never in the handler. */
static struct lx_mutex containment_lock;
static unsigned containment_users; /* under containment_lock */

/*
 * NULL without users. Stored with release by acquire and release, loaded with acquire by the
 * handler: what was there before `contained` was handed over is seen by it.
 */
static _Atomic(lx_contained_fn) contained_hook;
_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2, "the handler must not meet a lock");

/* Lies at the upper end of an alternate stack's map, above the guard page and the stack. */
struct signal_stack {
    stack_t previous;
    void *map;
    size_t map_size;
    size_t size; /* of the stack */
    void *base;  /* of the stack */
};

/* ---- The mask ---- */

void lx_signals_block(sigset_t *ret_old, bool allow_sigprof)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t mask;
    /* Without the C library's own two, which it needs for setuid and pthread_cancel. */
    (void)sigfillset(&mask);
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        (void)sigdelset(&mask, synchronous[i]);
    if (allow_sigprof)
        (void)sigdelset(&mask, SIGPROF);
    int rc = pthread_sigmask(SIG_SETMASK, &mask, ret_old);
    LX_ASSERT(rc == 0);
}

void lx_signals_restore(const sigset_t *old)
{
    int rc = pthread_sigmask(SIG_SETMASK, old, NULL);
    LX_ASSERT(rc == 0);
}

/* ---- Passing a signal on ---- */

/* Not one of the kernel's two own actions. */
static bool is_function(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/*
 * Ends the process as the default action would have: the action is reset and the same siginfo is
 * queued for this thread, blocked until the handler returns. It is then delivered before the
 * interrupted instruction runs again, so a core shows that one, not this function. Where the queue
 * is refused, a fault happens anew by itself when the instruction runs again.
 */
static void pass_to_default(int signo, siginfo_t *info)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t mask;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(signo, &action, NULL);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, signo);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);

    long pid = syscall(SYS_getpid);
    long tid = syscall(SYS_gettid);
    if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, signo, info) != 0)
        (void)syscall(SYS_tgkill, pid, tid, signo);
}

/* Calls the handler with the mask it asked for; returning from ours restores the old mask. */
static void pass_to_handler(const struct sigaction *action, int signo, siginfo_t *info,
                            void *ucontext)
{
    sigset_t mask = action->sa_mask;
    if ((action->sa_flags & SA_NODEFER) == 0)
        (void)sigaddset(&mask, signo);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if ((action->sa_flags & SA_SIGINFO) != 0)
        action->sa_sigaction(signo, info, ucontext);
    else
        action->sa_handler(signo);
}

static void pass_on(struct contained *contained, int signo, siginfo_t *info, void *ucontext)
{
    struct sigaction action = contained->previous;
    if (is_function(&action)) {
        /* Relaxed: the flag alone is shared, by threads that are hit at once. */
        bool spent = (action.sa_flags & (int)SA_RESETHAND) != 0 &&
                     atomic_exchange_explicit(&contained->spent, true, memory_order_relaxed);
        if (!spent) {
            pass_to_handler(&action, signo, info, ucontext);
            return;
        }
        action.sa_handler = SIG_DFL;
    }
    /* The kernel heeds SIG_IGN only for what was sent: an ignored fault would repeat for ever. */
    if (action.sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    pass_to_default(signo, info);
}

static struct contained *contained_of(int signo)
{
    for (size_t i = 0; i < LX_CONTAINED_SIGNALS; i++)
        if (contained_signals[i] == signo)
            return &contained_table[i];
    return NULL;
}

static void on_contained(int signo, siginfo_t *info, void *ucontext)
{
    int saved_errno = errno;
    /*
     * With SA_NODEFER and an empty mask this changes nothing, unless somebody stands between the
     * kernel and this handler: ThreadSanitizer blocks everything, which would last after a jump.
     */
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &((ucontext_t *)ucontext)->uc_sigmask, NULL,
                  LX_KERNEL_SIGSET_SIZE);
    /* Acquire: partner of the stores in lx_containment_acquire. */
    lx_contained_fn hook = atomic_load_explicit(&contained_hook, memory_order_acquire);
    struct contained *contained = contained_of(signo);
    if ((hook == NULL || !hook(signo, info, ucontext)) && contained != NULL)
        pass_on(contained, signo, info, ucontext);
    errno = saved_errno;
}

/* ---- Installing ---- */

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_contained;
}

static int install(size_t index)
{
    struct contained *contained = &contained_table[index];
    int signo = contained_signals[index];
    struct sigaction now;
    if (sigaction(signo, NULL, &now) != 0)
        return -errno;
    /*
     * Ours is below it already, or on top again. To lie on top as well would make the two pass a
     * signal to each other for ever, so what is there is trusted to pass on.
     */
    if (contained->buried && is_function(&now)) {
        contained->buried = !is_ours(&now);
        return 0;
    }
    contained->buried = false;
    contained->previous = now;
    atomic_store_explicit(&contained->spent, false, memory_order_relaxed);

    struct sigaction ours = {.sa_sigaction = on_contained};
    (void)sigemptyset(&ours.sa_mask);
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    /* A system call that such a signal interrupts goes on, or not, as it did before. */
    if (!is_function(&now))
        ours.sa_flags |= now.sa_handler == SIG_IGN ? SA_RESTART : 0;
    else
        ours.sa_flags |= now.sa_flags & SA_RESTART;
    return sigaction(signo, &ours, NULL) == 0 ? 0 : -errno;
}

static void uninstall(size_t index)
{
    struct contained *contained = &contained_table[index];
    int signo = contained_signals[index];
    struct sigaction now;
    if (sigaction(signo, NULL, &now) != 0)
        return;
    if (!is_ours(&now)) {
        /* A default there was set by somebody who wanted neither us nor what was before. */
        contained->buried = is_function(&now);
        return;
    }
    contained->buried = false;
    struct sigaction previous = contained->previous;
    if (atomic_load_explicit(&contained->spent, memory_order_relaxed)) {
        previous.sa_flags &= ~SA_SIGINFO;
        previous.sa_handler = SIG_DFL;
    }
    (void)sigaction(signo, &previous, NULL);
}

int lx_containment_acquire(lx_contained_fn contained)
{
    int saved_errno = errno;
    int rc = 0;
    lx_mutex_lock(&containment_lock);
    if (containment_users == 0) {
        size_t done = 0;
        /* Release: partner of the load in on_contained. Before the handlers, so that the first
           signal they get is asked about. */
        atomic_store_explicit(&contained_hook, contained, memory_order_release);
        while (rc == 0 && done < LX_CONTAINED_SIGNALS) {
            rc = install(done);
            done += rc == 0;
        }
        if (rc != 0) {
            while (done > 0)
                uninstall(--done);
            atomic_store_explicit(&contained_hook, NULL, memory_order_release);
        }
    }
    if (rc == 0)
        containment_users++;
    lx_mutex_unlock(&containment_lock);
    errno = saved_errno;
    return rc;
}

void lx_containment_release(void)
{
    int saved_errno = errno;
    lx_mutex_lock(&containment_lock);
    LX_ASSERT(containment_users > 0);
    if (--containment_users == 0) {
        for (size_t i = 0; i < LX_CONTAINED_SIGNALS; i++)
            uninstall(i);
        /* Release: as in acquire. A handler below somebody else's asks nobody from now on. */
        atomic_store_explicit(&contained_hook, NULL, memory_order_release);
    }
    lx_mutex_unlock(&containment_lock);
    errno = saved_errno;
}

/* ---- Alternate stacks ---- */

/* What the kernel may push at once: more than MINSIGSTKSZ where registers are wide (AMX, SVE). */
static size_t frame_size(void)
{
    size_t size = (size_t)getauxval(AT_MINSIGSTKSZ);
    return size > (size_t)MINSIGSTKSZ ? size : (size_t)MINSIGSTKSZ;
}

int lx_containment_enter_thread(void **ret_stack)
{
    int saved_errno = errno;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t wanted = LX_SIGNAL_STACK_SIZE + frame_size() + sizeof(struct signal_stack);
    size_t map_size = page;
    int rc = 0;

    /* The seam maps powers of two; what the stack never reaches costs no memory. */
    while (map_size < page + wanted)
        map_size *= 2;
    char *map = lx_seams.map(map_size);
    if (map == NULL)
        return -ENOMEM;
    struct signal_stack *stack = (void *)(map + map_size - sizeof *stack);
    stack->map = map;
    stack->map_size = map_size;
    stack->base = map + page;
    stack->size = map_size - page - sizeof *stack;
    stack_t alternate = {.ss_sp = stack->base, .ss_size = stack->size};
    /* Stacks grow down: below the base, a handler's overflow faults instead of writing on. */
    if (mprotect(map, page, PROT_NONE) != 0 || sigaltstack(&alternate, &stack->previous) != 0) {
        rc = -errno;
        lx_seams.unmap(map, map_size);
    } else {
        *ret_stack = stack;
    }
    errno = saved_errno;
    return rc;
}

void lx_containment_leave_thread(void *stack)
{
    if (stack == NULL)
        return;
    int saved_errno = errno;
    struct signal_stack *mine = stack;
    stack_t now;
    /* A job may have set one of its own: then what was before ours is no longer there to be put
       back over it. */
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == mine->base &&
        sigaltstack(&mine->previous, NULL) != 0) {
        stack_t none = {.ss_flags = SS_DISABLE};
        (void)sigaltstack(&none, NULL);
    }
    lx_seams.unmap(mine->map, mine->map_size);
    errno = saved_errno;
}

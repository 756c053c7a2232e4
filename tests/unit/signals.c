/*
 * Signals and lanex's threads: the mask they are born with, and the containment of faults: what is
 * contained, what goes on to whom, and what is put back.
 */
#include "lx_test.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/signals.h"

static const int contained[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define LX_CONTAINED (sizeof contained / sizeof *contained)

/* ---- Real faults ---- */

static void fault_on(int protection, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    volatile char *page = mmap(NULL, 4096, protection, flags, fd, 0);
    LX_REQUIRE(page != MAP_FAILED);
    page[8] = 1;
}

/* Makes the machine raise the signal; where that is not known how, the process sends it to itself.
 */
static void raise_fault(int signo)
{
    switch (signo) {
    case SIGSEGV:
        fault_on(PROT_NONE, -1);
        break;
    case SIGBUS: {
        int fd = memfd_create("empty", MFD_CLOEXEC);
        LX_REQUIRE(fd >= 0);
        fault_on(PROT_READ | PROT_WRITE, fd);
        break;
    }
#if defined(__x86_64__)
    case SIGFPE:
        __asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; mov $1, %%eax; div %%ecx" ::
                             : "eax", "ecx", "edx", "cc");
        break;
    case SIGILL:
        __asm__ volatile("ud2");
        break;
#endif
    case SIGABRT:
        abort();
    default:
        (void)raise(signo);
    }
}

/* ---- Hooks and handlers ---- */

static _Thread_local sigjmp_buf *way_out;
static _Thread_local volatile sig_atomic_t on_alternate_stack;
static atomic_uint asked;    /* calls of a hook */
static atomic_uint reported; /* calls of a handler that was there before or lies on top */

static bool jump_out(int signo, siginfo_t *info, void *ucontext)
{
    (void)info;
    (void)ucontext;
    stack_t now;
    atomic_fetch_add(&asked, 1);
    if (way_out == NULL)
        return false;
    on_alternate_stack = sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
    siglongjmp(*way_out, signo);
}

static bool deal_with_it(int signo, siginfo_t *info, void *ucontext)
{
    (void)signo;
    (void)info;
    (void)ucontext;
    atomic_fetch_add(&asked, 1);
    errno = EXDEV;
    return true;
}

static int hook_signo;
static siginfo_t *hook_info;
static void *hook_ucontext;

static bool let_pass(int signo, siginfo_t *info, void *ucontext)
{
    atomic_fetch_add(&asked, 1);
    hook_signo = signo;
    hook_info = info;
    hook_ucontext = ucontext;
    errno = EXDEV;
    return false;
}

static bool same_arguments;
static sigset_t handler_mask;

static void report_info(int signo, siginfo_t *info, void *ucontext)
{
    same_arguments = signo == hook_signo && info == hook_info && ucontext == hook_ucontext &&
                     info->si_signo == signo;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &handler_mask);
    atomic_fetch_add(&reported, 1);
    errno = ENOTTY;
}

static void report(int signo)
{
    (void)signo;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &handler_mask);
    atomic_fetch_add(&reported, 1);
}

static void set_action(int signo, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    LX_REQUIRE(sigaction(signo, &action, NULL) == 0);
}

/* Sanitizers have handlers of their own; these tests are about what they set themselves. */
static void set_all(void (*handler)(int))
{
    for (size_t i = 0; i < LX_CONTAINED; i++)
        set_action(contained[i], handler, 0);
}

/* Runs body(signo) in a child and returns how that ended. */
static int in_child(void (*body)(int), int signo)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        body(signo);
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_killed(int status, int signo)
{
    cr_assert(WIFSIGNALED(status), "status %x, signal %d", (unsigned)status, signo);
    cr_assert_eq(WTERMSIG(status), signo, "by %d, not %d", WTERMSIG(status), signo);
}

static void expect_survived(int status)
{
    cr_assert(WIFEXITED(status), "status %x", (unsigned)status);
    cr_assert_eq(WEXITSTATUS(status), 0);
}

/* ---- The mask ---- */

static void *read_mask(void *ret_mask)
{
    LX_REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, ret_mask) == 0);
    return NULL;
}

static bool is_synchronous(int signo)
{
    static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == signo)
            return true;
    return false;
}

/* The mask of a thread that is made as lanex makes its own. */
static void make_thread(bool allow_sigprof, sigset_t *ret_mask)
{
    sigset_t old;
    pthread_t thread;
    errno = EXDEV;
    lx_signals_block(&old, allow_sigprof);
    LX_REQUIRE(pthread_create(&thread, NULL, read_mask, ret_mask) == 0);
    lx_signals_restore(&old);
    LX_REQUIRE(errno == EXDEV);
    LX_REQUIRE(pthread_join(thread, NULL) == 0);
}

static void check_born_mask(bool allow_sigprof)
{
    sigset_t before;
    sigset_t born;
    sigset_t after;
    /* Blocked by the caller: both its own again afterwards, and no matter for the thread. */
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    sigaddset(&before, SIGTRAP);
    LX_REQUIRE(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    make_thread(allow_sigprof, &born);
    read_mask(&after);
    for (int signo = 1; signo <= SIGRTMAX; signo++) {
        if (signo == SIGKILL || signo == SIGSTOP || (signo > SIGSYS && signo < SIGRTMIN))
            continue;
        bool open = is_synchronous(signo) || (allow_sigprof && signo == SIGPROF);
        if (sigismember(&born, signo) != !open ||
            sigismember(&after, signo) != sigismember(&before, signo))
            lx_test_die(__FILE__, __LINE__, "signal %d", signo);
    }
}

Test(signals, threads_are_born_with_all_but_synchronous_signals_blocked)
{
    check_born_mask(false);
}

Test(signals, threads_leave_sigprof_open_if_asked)
{
    check_born_mask(true);
}

/* ---- Contained ---- */

Test(signals, fault_is_contained_again_and_again)
{
    sigjmp_buf out;
    sigset_t mask;
    volatile size_t i;
    volatile int round;
    cr_assert_eq(lx_containment_acquire(jump_out), 0);
    for (i = 0; i < LX_CONTAINED; i++) {
        for (round = 0; round < 3; round++) {
            int signo = sigsetjmp(out, 0);
            if (signo == 0) {
                way_out = &out;
                raise_fault(contained[i]);
                cr_assert_fail("came back from signal %d", contained[i]);
            }
            cr_assert_eq(signo, contained[i]);
            read_mask(&mask);
            cr_assert_not(sigismember(&mask, signo), "not blocked after the jump");
        }
    }
    way_out = NULL;
    cr_assert_eq(atomic_load(&asked), 3 * LX_CONTAINED);
    lx_containment_release();
}

Test(signals, hook_may_deal_with_a_signal_and_errno_is_untouched)
{
    cr_assert_eq(lx_containment_acquire(deal_with_it), 0);
    for (size_t i = 0; i < LX_CONTAINED; i++) {
        errno = ENOTEMPTY;
        (void)raise(contained[i]);
        cr_assert_eq(errno, ENOTEMPTY);
    }
    cr_assert_eq(atomic_load(&asked), LX_CONTAINED);
    lx_containment_release();
}

enum { LX_FAULTERS = 4, LX_FAULTS = 200 };

static void *fault_often(void *arg)
{
    sigjmp_buf out;
    void *stack;
    volatile unsigned done = 0;
    (void)arg;
    LX_REQUIRE(lx_containment_enter_thread(&stack) == 0);
    while (done < LX_FAULTS) {
        if (sigsetjmp(out, 0) == 0) {
            way_out = &out;
            raise_fault(done % 2 == 0 ? SIGSEGV : SIGFPE);
        }
        LX_REQUIRE(on_alternate_stack);
        done++;
    }
    way_out = NULL;
    lx_containment_leave_thread(stack);
    return NULL;
}

Test(signals, faults_of_several_threads_are_each_its_own)
{
    pthread_t threads[LX_FAULTERS];
    cr_assert_eq(lx_containment_acquire(jump_out), 0);
    for (size_t i = 0; i < LX_FAULTERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, fault_often, NULL), 0);
    for (size_t i = 0; i < LX_FAULTERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(atomic_load(&asked), LX_FAULTERS * LX_FAULTS);
    lx_containment_release();
}

/* ---- Passed on ---- */

Test(signals, handler_before_gets_the_same_arguments_and_its_mask)
{
    for (size_t i = 0; i < LX_CONTAINED; i++) {
        struct sigaction action = {.sa_sigaction = report_info, .sa_flags = SA_SIGINFO};
        sigset_t after;
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR2);
        cr_assert_eq(sigaction(contained[i], &action, NULL), 0);
        cr_assert_eq(lx_containment_acquire(let_pass), 0);

        same_arguments = false;
        errno = ENOTEMPTY;
        (void)raise(contained[i]);
        cr_assert_eq(errno, ENOTEMPTY);
        cr_assert_eq(atomic_load(&asked), i + 1);
        cr_assert_eq(atomic_load(&reported), i + 1);
        cr_assert(same_arguments);
        cr_assert(sigismember(&handler_mask, SIGUSR2));
        cr_assert(sigismember(&handler_mask, contained[i]));
        read_mask(&after);
        cr_assert_not(sigismember(&after, SIGUSR2));
        cr_assert_not(sigismember(&after, contained[i]));
        lx_containment_release();
    }
}

Test(signals, handler_before_of_the_old_form_is_called)
{
    set_action(SIGFPE, report, SA_NODEFER);
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    (void)raise(SIGFPE);
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&reported), 2);
    cr_assert_not(sigismember(&handler_mask, SIGFPE), "SA_NODEFER is heeded");
    lx_containment_release();
}

static void fault_with_default(int signo)
{
    set_all(SIG_DFL);
    if (lx_containment_acquire(let_pass) == 0)
        raise_fault(signo);
}

static void send_with_default(int signo)
{
    set_all(SIG_DFL);
    if (lx_containment_acquire(let_pass) == 0)
        (void)raise(signo);
}

Test(signals, default_action_kills_with_the_signal)
{
    for (size_t i = 0; i < LX_CONTAINED; i++) {
        expect_killed(in_child(fault_with_default, contained[i]), contained[i]);
        expect_killed(in_child(send_with_default, contained[i]), contained[i]);
    }
}

static void fault_with_ignored(int signo)
{
    set_all(SIG_IGN);
    if (lx_containment_acquire(let_pass) == 0)
        raise_fault(signo);
}

static void send_with_ignored(int signo)
{
    set_all(SIG_IGN);
    if (lx_containment_acquire(let_pass) == 0)
        (void)raise(signo);
    if (atomic_load(&asked) != 1)
        _exit(1);
}

Test(signals, ignored_is_dropped_if_sent_and_fatal_if_raised_by_the_machine)
{
    for (size_t i = 0; i < LX_CONTAINED; i++)
        expect_survived(in_child(send_with_ignored, contained[i]));
    expect_killed(in_child(fault_with_ignored, SIGSEGV), SIGSEGV);
    expect_killed(in_child(fault_with_ignored, SIGBUS), SIGBUS);
    /* abort ends the process even so: by the C library. */
    expect_killed(in_child(fault_with_ignored, SIGABRT), SIGABRT);
}

static void one_shot(int signo)
{
    set_action(signo, report, (int)SA_RESETHAND);
    if (lx_containment_acquire(let_pass) != 0)
        _exit(1);
    (void)raise(signo);
    if (atomic_load(&reported) != 1)
        _exit(2);
    (void)raise(signo);
}

static void one_shot_then_release(int signo)
{
    set_action(signo, report, (int)SA_RESETHAND);
    if (lx_containment_acquire(let_pass) != 0)
        _exit(1);
    (void)raise(signo);
    lx_containment_release();
    struct sigaction now;
    if (sigaction(signo, NULL, &now) != 0 || now.sa_handler != SIG_DFL)
        _exit(2);
}

Test(signals, one_shot_handler_has_one_shot)
{
    expect_killed(in_child(one_shot, SIGFPE), SIGFPE);
    expect_survived(in_child(one_shot_then_release, SIGFPE));
}

#if defined(__x86_64__)
static void traced_fault(int signo)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    fault_with_default(signo);
}

/* Lets the child go on until the signal is about to be delivered; false if it ended instead. */
static bool next_delivery(pid_t pid, int signo, siginfo_t *ret_info, long *ret_place)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != signo)
        return false;
    *ret_place = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rip), NULL);
    return ptrace(PTRACE_GETSIGINFO, pid, NULL, ret_info) == 0;
}

Test(signals, default_action_ends_the_process_at_the_instruction_with_the_first_siginfo)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0)
            traced_fault(faults[i]);
        siginfo_t first;
        siginfo_t last;
        long first_place;
        long last_place;
        int status;
        bool traced = next_delivery(pid, faults[i], &first, &first_place);
        if (!traced)
            cr_skip_test("no ptrace here");
        cr_assert_eq(ptrace(PTRACE_CONT, pid, NULL, faults[i]), 0);
        cr_assert(next_delivery(pid, faults[i], &last, &last_place), "delivered a second time");
        cr_assert_eq(last_place, first_place);
        cr_assert_eq(last.si_code, first.si_code);
        cr_assert_eq(last.si_addr, first.si_addr);
        cr_assert_gt(last.si_code, 0);
        cr_assert_eq(ptrace(PTRACE_CONT, pid, NULL, faults[i]), 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        expect_killed(status, faults[i]);
    }
}
#endif

/* ---- Installed and put back ---- */

static bool action_is(int signo, void (*handler)(int))
{
    struct sigaction now;
    LX_REQUIRE(sigaction(signo, NULL, &now) == 0);
    return now.sa_handler == handler;
}

Test(signals, last_release_puts_back_what_was_there)
{
    struct sigaction before = {.sa_sigaction = report_info,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    struct sigaction after;
    sigemptyset(&before.sa_mask);
    sigaddset(&before.sa_mask, SIGHUP);
    set_all(SIG_DFL);
    set_action(SIGILL, SIG_IGN, 0);
    cr_assert_eq(sigaction(SIGBUS, &before, NULL), 0);

    errno = EXDEV;
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    for (size_t i = 0; i < LX_CONTAINED; i++) {
        cr_assert_not(action_is(contained[i], SIG_DFL));
        cr_assert_not(action_is(contained[i], SIG_IGN));
    }
    lx_containment_release();
    cr_assert_not(action_is(SIGSEGV, SIG_DFL), "one user is left");
    (void)raise(SIGBUS);
    cr_assert_eq(atomic_load(&asked), 1);
    cr_assert_eq(atomic_load(&reported), 1);
    errno = EXDEV; /* a sanitizer's raise may have changed it */
    lx_containment_release();
    cr_assert_eq(errno, EXDEV);

    cr_assert(action_is(SIGSEGV, SIG_DFL));
    cr_assert(action_is(SIGFPE, SIG_DFL));
    cr_assert(action_is(SIGABRT, SIG_DFL));
    cr_assert(action_is(SIGILL, SIG_IGN));
    cr_assert_eq(sigaction(SIGBUS, NULL, &after), 0);
    cr_assert_eq(after.sa_sigaction, report_info);
    cr_assert_eq(after.sa_flags & (SA_SIGINFO | SA_RESTART | SA_NODEFER),
                 SA_SIGINFO | SA_RESTART | SA_NODEFER);
    cr_assert(sigismember(&after.sa_mask, SIGHUP));
    (void)raise(SIGBUS);
    cr_assert_eq(atomic_load(&asked), 1, "the hook is asked no more");
    cr_assert_eq(atomic_load(&reported), 2);
}

/* A handler on top of lanex's, as a crash reporter loaded later would put there. */
static struct sigaction below_top;
static atomic_uint topped;

static void on_top(int signo, siginfo_t *info, void *ucontext)
{
    LX_REQUIRE(atomic_fetch_add(&topped, 1) < 100); /* no circle */
    below_top.sa_sigaction(signo, info, ucontext);
}

static void put_on_top(int signo)
{
    struct sigaction action = {.sa_sigaction = on_top, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    cr_assert_eq(sigaction(signo, &action, &below_top), 0);
}

static bool is_on_top(int signo)
{
    struct sigaction now;
    LX_REQUIRE(sigaction(signo, NULL, &now) == 0);
    return now.sa_sigaction == on_top;
}

Test(signals, handler_on_top_is_left_and_still_reaches_what_was_before)
{
    set_action(SIGFPE, report, 0);
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    put_on_top(SIGFPE);
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&topped), 1);
    cr_assert_eq(atomic_load(&asked), 1);
    cr_assert_eq(atomic_load(&reported), 1);

    lx_containment_release();
    cr_assert(is_on_top(SIGFPE));
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&topped), 2);
    cr_assert_eq(atomic_load(&asked), 1, "nobody to ask");
    cr_assert_eq(atomic_load(&reported), 2);
}

Test(signals, containment_comes_back_below_a_handler_on_top)
{
    set_action(SIGFPE, report, 0);
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    put_on_top(SIGFPE);
    lx_containment_release();

    for (unsigned round = 1; round <= 3; round++) {
        cr_assert_eq(lx_containment_acquire(let_pass), 0);
        cr_assert(is_on_top(SIGFPE));
        (void)raise(SIGFPE);
        cr_assert_eq(atomic_load(&topped), round);
        cr_assert_eq(atomic_load(&asked), round);
        cr_assert_eq(atomic_load(&reported), round);
        lx_containment_release();
    }
    /* It goes while nobody uses containment, putting lanex's back: that passes on, and the next
       release takes it off. */
    cr_assert_eq(sigaction(SIGFPE, &below_top, NULL), 0);
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&asked), 3);
    cr_assert_eq(atomic_load(&reported), 4);
    cr_assert_eq(lx_containment_acquire(let_pass), 0);
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&asked), 4);
    cr_assert_eq(atomic_load(&reported), 5);
    lx_containment_release();
    cr_assert(action_is(SIGFPE, report));
}

Test(signals, containment_is_installed_anew_over_a_default_that_replaced_it)
{
    set_action(SIGFPE, report, 0);
    cr_assert_eq(lx_containment_acquire(deal_with_it), 0);
    put_on_top(SIGFPE);
    lx_containment_release();
    set_action(SIGFPE, SIG_DFL, 0);

    cr_assert_eq(lx_containment_acquire(deal_with_it), 0);
    (void)raise(SIGFPE);
    cr_assert_eq(atomic_load(&asked), 1);
    lx_containment_release();
    cr_assert(action_is(SIGFPE, SIG_DFL));
}

static void *acquire_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 500; i++) {
        LX_REQUIRE(lx_containment_acquire(deal_with_it) == 0);
        (void)raise(SIGILL); /* fatal if it is not contained */
        lx_containment_release();
    }
    return NULL;
}

Test(signals, containment_may_be_acquired_by_several_threads)
{
    pthread_t threads[4];
    set_all(SIG_DFL);
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, acquire_often, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(atomic_load(&asked), 4 * 500);
    for (size_t i = 0; i < LX_CONTAINED; i++)
        cr_assert(action_is(contained[i], SIG_DFL));
}

/* ---- Alternate stacks ---- */

/* Frames so large that few of them fill the stack: ThreadSanitizer counts them. */
__attribute__((noinline)) static unsigned char overflow_stack(unsigned depth)
{
    volatile unsigned char frame[4096];
    frame[0] = (unsigned char)depth;
    frame[sizeof frame - 1] = depth == 0 ? 0 : overflow_stack(depth + 1);
    return (unsigned char)(frame[0] + frame[sizeof frame - 1]);
}

static void *overflow_twice(void *arg)
{
    sigjmp_buf out;
    void *stack;
    volatile int seen = 0;
    (void)arg;
    LX_REQUIRE(lx_containment_enter_thread(&stack) == 0);
    while (seen < 2) {
        if (sigsetjmp(out, 0) == 0) {
            way_out = &out;
            (void)overflow_stack(1);
        }
        LX_REQUIRE(on_alternate_stack);
        seen++;
    }
    way_out = NULL;
    lx_containment_leave_thread(stack);
    return NULL;
}

Test(signals, stack_overflow_is_contained)
{
    pthread_t thread;
    pthread_attr_t small;
    cr_assert_eq(lx_containment_acquire(jump_out), 0);
    cr_assert_eq(pthread_attr_init(&small), 0);
    cr_assert_eq(pthread_attr_setstacksize(&small, (size_t)1 << 20), 0);
    cr_assert_eq(pthread_create(&thread, &small, overflow_twice, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(pthread_attr_destroy(&small), 0);
    cr_assert_eq(atomic_load(&asked), 2);
    lx_containment_release();
}

Test(signals, alternate_stack_has_a_guard_page_and_room)
{
    sigjmp_buf out;
    void *stack;
    stack_t now;
    cr_assert_eq(lx_containment_acquire(jump_out), 0);
    errno = EXDEV;
    cr_assert_eq(lx_containment_enter_thread(&stack), 0);
    cr_assert_eq(errno, EXDEV);
    cr_assert_eq(sigaltstack(NULL, &now), 0);
    cr_assert_eq(now.ss_flags, 0);
    cr_assert_geq(now.ss_size, (size_t)64 << 10);
    cr_assert_gt((long)now.ss_size, sysconf(_SC_MINSIGSTKSZ));
    memset(now.ss_sp, 0xa5, now.ss_size); /* all of it may be written, and nothing else is there */
    if (sigsetjmp(out, 0) == 0) {
        way_out = &out;
        ((volatile char *)now.ss_sp)[-1] = 1;
        cr_assert_fail("no guard below the stack");
    }
    way_out = NULL;
    errno = EXDEV;
    lx_containment_leave_thread(stack);
    lx_containment_leave_thread(NULL);
    cr_assert_eq(errno, EXDEV);
    lx_containment_release();
}

Test(signals, alternate_stack_of_before_is_put_back)
{
    static char own[256 << 10];
    static char jobs[256 << 10];
    stack_t mine = {.ss_sp = own, .ss_size = sizeof own};
    stack_t other = {.ss_sp = jobs, .ss_size = sizeof jobs};
    stack_t now;
    void *stack;
    stack_t original;
    cr_assert_eq(sigaltstack(&mine, &original), 0);
    cr_assert_eq(lx_containment_enter_thread(&stack), 0);
    cr_assert_eq(sigaltstack(NULL, &now), 0);
    cr_assert_neq(now.ss_sp, (void *)own);
    lx_containment_leave_thread(stack);
    cr_assert_eq(sigaltstack(NULL, &now), 0);
    cr_assert_eq(now.ss_sp, (void *)own);
    cr_assert_eq(now.ss_size, sizeof own);

    /* One that a job put in place of lanex's stays. */
    cr_assert_eq(lx_containment_enter_thread(&stack), 0);
    cr_assert_eq(sigaltstack(&other, NULL), 0);
    lx_containment_leave_thread(stack);
    cr_assert_eq(sigaltstack(NULL, &now), 0);
    cr_assert_eq(now.ss_sp, (void *)jobs);
    cr_assert_eq(sigaltstack(&original, NULL), 0);
}

Test(signals, thread_without_an_alternate_stack_has_none_afterwards)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;
    stack_t original;
    void *stack;
    cr_assert_eq(sigaltstack(&none, &original), 0);
    cr_assert_eq(lx_containment_enter_thread(&stack), 0);
    lx_containment_leave_thread(stack);
    cr_assert_eq(sigaltstack(NULL, &now), 0);
    cr_assert_eq(now.ss_flags, SS_DISABLE);
    cr_assert_eq(sigaltstack(&original, NULL), 0);
}

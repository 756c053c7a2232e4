/*
 * Runs a program to which io_uring is refused, as containers, sysctls and old kernels refuse it.
 *
 *   refuse-ring WHAT ERRNO -- PROGRAM [ARGUMENT...]
 *
 * WHAT   setup | enter | register | enter+register: the system calls that fail
 *        send-register: of io_uring_register only IORING_REGISTER_SEND_MSG_RING (a kernel
 * before 6.13) ERRNO  a name (EPERM, ENOSYS, EOPNOTSUPP, ENOMEM, EINVAL) or a number
 *
 * The program finds both words in LANEX_REFUSED_WHAT and LANEX_REFUSED_ERRNO (the number), so that
 * a test knows what to expect. Exits 77, meson's "skipped", where seccomp itself is refused.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE        2
#define EXIT_SKIPPED      77
#define EXIT_CANNOT_EXEC  127
#define SEND_MSG_RING     31 /* IORING_REGISTER_SEND_MSG_RING */
#define REGISTER_ARG_CODE 1  /* which argument of io_uring_register is the operation */

static int parse_errno(const char *word)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {
        {"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EOPNOTSUPP", EOPNOTSUPP},
        {"ENOMEM", ENOMEM}, {"EINVAL", EINVAL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i].name) == 0)
            return known[i].number;
    char *end;
    long number = strtol(word, &end, 10);
    return *word && !*end && number > 0 && number < 4096 ? (int)number : -1;
}

static int add_rules(scmp_filter_ctx filter, const char *what, uint32_t action)
{
    if (strcmp(what, "setup") == 0)
        return seccomp_rule_add(filter, action, SCMP_SYS(io_uring_setup), 0);
    if (strcmp(what, "enter") == 0)
        return seccomp_rule_add(filter, action, SCMP_SYS(io_uring_enter), 0);
    if (strcmp(what, "register") == 0)
        return seccomp_rule_add(filter, action, SCMP_SYS(io_uring_register), 0);
    if (strcmp(what, "enter+register") == 0) {
        int rc = seccomp_rule_add(filter, action, SCMP_SYS(io_uring_enter), 0);
        return rc < 0 ? rc : seccomp_rule_add(filter, action, SCMP_SYS(io_uring_register), 0);
    }
    if (strcmp(what, "send-register") == 0) {
        const struct scmp_arg_cmp is_send = {
            .arg = REGISTER_ARG_CODE, .op = SCMP_CMP_EQ, .datum_a = SEND_MSG_RING, .datum_b = 0};
        return seccomp_rule_add_array(filter, action, SCMP_SYS(io_uring_register), 1, &is_send);
    }
    return -EDOM;
}

int main(int argc, char **argv)
{
    int error = argc >= 3 ? parse_errno(argv[2]) : -1;
    if (argc < 5 || error < 0 || strcmp(argv[3], "--") != 0) {
        fprintf(stderr,
                "usage: %s setup|enter|register|enter+register|send-register ERRNO "
                "-- PROGRAM [ARGUMENT...]\n",
                argc > 0 ? argv[0] : "refuse-ring");
        return EXIT_USAGE;
    }
    if (getenv("LANEX_REFUSED_WHAT")) {
        fprintf(stderr, "refuse-ring: skipped, already under another one\n");
        return EXIT_SKIPPED;
    }
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return EXIT_SKIPPED;
    int rc = add_rules(filter, argv[1], SCMP_ACT_ERRNO((uint32_t)error));
    if (rc == -EDOM) {
        fprintf(stderr, "refuse-ring: unknown word: %s\n", argv[1]);
        seccomp_release(filter);
        return EXIT_USAGE;
    }
    if (rc == 0)
        rc = seccomp_load(filter);
    seccomp_release(filter);
    if (rc < 0) {
        fprintf(stderr, "refuse-ring: seccomp: %s\n", strerror(-rc));
        return EXIT_SKIPPED;
    }
    char number[16];
    snprintf(number, sizeof number, "%d", error);
    if (setenv("LANEX_REFUSED_WHAT", argv[1], 1) || setenv("LANEX_REFUSED_ERRNO", number, 1))
        return EXIT_CANNOT_EXEC;
    execvp(argv[4], argv + 4);
    fprintf(stderr, "refuse-ring: %s: %s\n", argv[4], strerror(errno));
    return EXIT_CANNOT_EXEC;
}

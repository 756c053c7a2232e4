/*
 * The network thread's ring: sockets, the executor's doorbell, the timer and signals all arrive as
 * completions of one io_uring. Accept and receive are multishot; received bytes come in buffers
 * that the kernel picks from a shared ring of them and that go back as soon as they were copied.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"

#define SQ_ENTRIES 1024u
#define CQ_ENTRIES 8192u
/* Shared receive buffers: a power of two of them, and the bytes of each. */
#define BUFFERS      256u
#define BUFFER_BYTES (16u * 1024u)
#define BUFFER_GROUP 0
#define BACKLOG      511
#define TICK_NS      100000000L
/* Unanswered questions of TCP's keep-alive before the peer counts as gone. */
#define KEEPALIVE_PROBES 3
/* How long answers under way may take when the server is asked to end. */
#define STOP_NS UINT64_C(2000000000)

/* user_data of operations that belong to no connection; KV_DOORBELL_DATA is 1. */
enum {
    DATA_ACCEPT = 2,
    DATA_SIGNAL = 3,
    DATA_TICK = 4,
    DATA_IGNORED = 5,
    DATA_PORT = 6,
    DATA_LAST = 15,
};
/* Those that do carry its address, and one of these in the bits that alignment leaves free. */
enum {
    TAG_RECEIVE = 1,
    TAG_SEND = 2,
    TAG_WATCH = 3,
    TAG_MASK = 15,
};

struct kv_net {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    char *memory; /* of the buffers */
    int listen_fd;
    int signal_fd;
    struct signalfd_siginfo signal;
    struct __kernel_timespec tick;
    bool ticking;
    bool accepting;
    bool doorbell;
    bool stop_begun;
};

static struct io_uring_sqe *get_sqe(struct kv_net *net)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&net->ring);
    while (!sqe) {
        io_uring_submit(&net->ring);
        sqe = io_uring_get_sqe(&net->ring);
    }
    return sqe;
}

/* ---- set-up ---- */

static int create_ring(struct kv_net *net)
{
    /* The best the kernel knows; older ones refuse flags that they do not know. */
    static const unsigned tries[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        IORING_SETUP_COOP_TASKRUN,
        0,
    };
    int rc = -EINVAL;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && rc == -EINVAL; i++) {
        struct io_uring_params params = {.flags = tries[i] | IORING_SETUP_CQSIZE,
                                         .cq_entries = CQ_ENTRIES};
        rc = io_uring_queue_init_params(SQ_ENTRIES, &net->ring, &params);
    }
    return rc;
}

static void give_buffer(struct kv_net *net, unsigned id)
{
    io_uring_buf_ring_add(net->buffers, net->memory + (size_t)id * BUFFER_BYTES, BUFFER_BYTES,
                          (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(net->buffers, 1);
}

static int create_buffers(struct kv_net *net)
{
    size_t ring_bytes = BUFFERS * sizeof(struct io_uring_buf);
    void *ring = mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    net->memory = malloc((size_t)BUFFERS * BUFFER_BYTES);
    if (ring == MAP_FAILED || !net->memory)
        return -ENOMEM;
    net->buffers = ring;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)ring,
        .ring_entries = BUFFERS,
        .bgid = BUFFER_GROUP,
    };
    int rc = io_uring_register_buf_ring(&net->ring, &registration, 0);
    if (rc < 0)
        return rc;
    io_uring_buf_ring_init(net->buffers);
    for (unsigned id = 0; id < BUFFERS; id++)
        give_buffer(net, id);
    return 0;
}

/* A ring that exists may still be refused entry: one operation there and back tells. */
static int try_ring(struct kv_net *net)
{
    struct io_uring_cqe *cqe;
    io_uring_prep_nop(get_sqe(net));
    int rc = io_uring_submit_and_wait(&net->ring, 1);
    if (rc >= 0)
        rc = io_uring_wait_cqe(&net->ring, &cqe);
    if (rc < 0)
        return rc;
    io_uring_cqe_seen(&net->ring, cqe);
    return 0;
}

int kv_net_create(struct kv_server *server)
{
    struct kv_net *net = calloc(1, sizeof *net);
    if (!net)
        return -ENOMEM;
    server->net = net;
    net->ring.ring_fd = -1;
    net->listen_fd = net->signal_fd = -1;
    net->tick.tv_nsec = TICK_NS;
    int rc = create_ring(net);
    if (rc == 0)
        rc = create_buffers(net);
    if (rc == 0)
        rc = try_ring(net);
    if (rc < 0) {
        fprintf(stderr,
                "lanex-kv: its network thread needs io_uring with provided buffers (Linux 6.0), "
                "which was refused: %s (kernel.io_uring_disabled, a container's seccomp filter, "
                "RLIMIT_MEMLOCK, or an old kernel)\n",
                strerror(-rc));
        return rc;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    net->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return net->signal_fd < 0 ? -errno : 0;
}

int kv_net_ring_fd(const struct kv_server *server)
{
    return server->net->ring.ring_fd;
}

void kv_net_destroy(struct kv_server *server)
{
    struct kv_net *net = server->net;
    if (!net)
        return;
    if (net->listen_fd >= 0)
        close(net->listen_fd);
    if (net->signal_fd >= 0)
        close(net->signal_fd);
    if (net->ring.ring_fd >= 0)
        io_uring_queue_exit(&net->ring);
    if (net->buffers)
        munmap(net->buffers, BUFFERS * sizeof(struct io_uring_buf));
    free(net->memory);
    free(net);
    server->net = NULL;
}

static int bind_and_listen(const char *address, uint16_t port)
{
    char service[8];
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    int one = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : 0;
    if (rc == 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
                    bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0))
        rc = -errno;
    freeaddrinfo(found);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } own = {0};
    socklen_t length = sizeof own;
    if (getsockname(fd, &own.any, &length) < 0)
        return 0;
    return ntohs(own.any.sa_family == AF_INET6 ? own.in6.sin6_port : own.in.sin_port);
}

/* ---- operations ---- */

static uint64_t data_of(const struct kv_conn *conn, unsigned tag)
{
    return (uint64_t)(uintptr_t)conn | tag;
}

static void arm_accept(struct kv_net *net)
{
    struct io_uring_sqe *sqe = get_sqe(net);
    io_uring_prep_multishot_accept(sqe, net->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    sqe->user_data = DATA_ACCEPT;
    net->accepting = true;
}

void kv_net_watch_port(struct kv_server *server)
{
    struct io_uring_sqe *sqe = get_sqe(server->net);
    io_uring_prep_poll_multishot(sqe, lanex_port_fd(server->port), POLLIN);
    sqe->user_data = DATA_PORT;
}

static void arm_signal(struct kv_net *net)
{
    struct io_uring_sqe *sqe = get_sqe(net);
    io_uring_prep_read(sqe, net->signal_fd, &net->signal, sizeof net->signal, 0);
    sqe->user_data = DATA_SIGNAL;
}

void kv_net_want_tick(struct kv_server *server)
{
    struct kv_net *net = server->net;
    if (net->ticking)
        return;
    struct io_uring_sqe *sqe = get_sqe(net);
    io_uring_prep_timeout(sqe, &net->tick, 0, 0);
    sqe->user_data = DATA_TICK;
    net->ticking = true;
}

void kv_net_receive(struct kv_server *server, struct kv_conn *conn)
{
    struct io_uring_sqe *sqe = get_sqe(server->net);
    io_uring_prep_recv_multishot(sqe, conn->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    sqe->user_data = data_of(conn, TAG_RECEIVE);
    conn->receiving = true;
    conn->cancelling = false;
    conn->operations++;
}

/*
 * A multishot receive may miss the end of its connection: where a reset comes in while the bytes
 * before it are being received, the kernel takes both wake-ups for one (seen on Linux 6.18, once in
 * ten to a hundred thousand connections; for a plain end Linux 7.0 has it mended). So each
 * connection's end is also watched by a poll of its own, which fires once.
 */
void kv_net_watch(struct kv_server *server, struct kv_conn *conn)
{
    struct io_uring_sqe *sqe = get_sqe(server->net);
    io_uring_prep_poll_add(sqe, conn->fd, POLLRDHUP);
    sqe->user_data = data_of(conn, TAG_WATCH);
    conn->operations++;
}

void kv_net_cancel_receive(struct kv_server *server, struct kv_conn *conn)
{
    struct io_uring_sqe *sqe = get_sqe(server->net);
    io_uring_prep_cancel64(sqe, data_of(conn, TAG_RECEIVE), 0);
    sqe->user_data = DATA_IGNORED;
    conn->cancelling = true;
}

void kv_net_send(struct kv_server *server, struct kv_conn *conn, const void *bytes, size_t length)
{
    struct io_uring_sqe *sqe = get_sqe(server->net);
    io_uring_prep_send(sqe, conn->fd, bytes, length, MSG_NOSIGNAL);
    sqe->user_data = data_of(conn, TAG_SEND);
    conn->sending = true;
    conn->operations++;
}

int kv_net_listen(struct kv_server *server, uint16_t *ret_port)
{
    struct kv_net *net = server->net;
    int fd = bind_and_listen(server->options.bind, server->options.port);
    if (fd < 0)
        return fd;
    net->listen_fd = fd;
    *ret_port = port_of(fd);
    arm_accept(net);
    arm_signal(net);
    return 0;
}

/* ---- events ---- */

/* Each is for the better only: a socket that refuses one does without. */
static void set_socket_options(const struct kv_server *server, int fd)
{
    int one = 1, idle = (int)server->options.keepalive_s;
    int interval = idle / KEEPALIVE_PROBES > 0 ? idle / KEEPALIVE_PROBES : 1;
    int probes = KEEPALIVE_PROBES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (idle == 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

static void on_accept(struct kv_server *server, const struct io_uring_cqe *cqe)
{
    if (!(cqe->flags & IORING_CQE_F_MORE))
        server->net->accepting = false;
    if (cqe->res >= 0) {
        set_socket_options(server, cqe->res);
        kv_conn_open(server, cqe->res);
    }
    if (server->net->accepting || server->stopping)
        return;
    if (cqe->res >= 0)
        arm_accept(server->net);
    else
        kv_net_want_tick(server); /* no descriptors, say: try again, but not at once */
}

static void on_receive(struct kv_server *server, struct kv_conn *conn,
                       const struct io_uring_cqe *cqe)
{
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        conn->receiving = conn->cancelling = false;
        conn->operations--;
    }
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        if (cqe->res > 0)
            kv_conn_received(conn, server->net->memory + (size_t)id * BUFFER_BYTES,
                             (size_t)cqe->res);
        give_buffer(server->net, id);
    }
    if (cqe->res == 0)
        kv_conn_end_of_input(conn);
    else if (cqe->res < 0 && cqe->res != -ENOBUFS && cqe->res != -ECANCELED)
        kv_conn_broken(conn);
    kv_conn_advance(conn); /* receives on, if the conn still wants to */
}

/* The client has ended its side, or the connection broke. A receive that was armed before may not
   know; one that is armed from now on begins with a look. */
static void on_watch(struct kv_server *server, struct kv_conn *conn)
{
    conn->operations--;
    if (conn->receiving && !conn->cancelling && conn->state != KV_CONN_CLOSED)
        kv_net_cancel_receive(server, conn);
    kv_conn_advance(conn);
}

static void on_tick(struct kv_server *server)
{
    server->net->ticking = false;
    if (!server->net->accepting && !server->stopping)
        arm_accept(server->net);
    kv_limits_tick(server);
    kv_chores_tick(server);
}

static void on_event(struct kv_server *server, const struct io_uring_cqe *cqe)
{
    switch (cqe->user_data) {
    case KV_DOORBELL_DATA:
        server->net->doorbell = true;
        return;
    case DATA_PORT:
        server->net->doorbell = true; /* draining empties the eventfd */
        if (!(cqe->flags & IORING_CQE_F_MORE))
            kv_net_watch_port(server);
        return;
    case DATA_ACCEPT:
        on_accept(server, cqe);
        return;
    case DATA_SIGNAL:
        kv_server_stop(server);
        return;
    case DATA_TICK:
        on_tick(server);
        return;
    case DATA_IGNORED:
        return;
    default:
        break;
    }
    struct kv_conn *conn = (struct kv_conn *)(uintptr_t)(cqe->user_data & ~(uint64_t)TAG_MASK);
    if ((cqe->user_data & TAG_MASK) == TAG_RECEIVE) {
        on_receive(server, conn, cqe);
        return;
    }
    if ((cqe->user_data & TAG_MASK) == TAG_WATCH) {
        on_watch(server, conn);
        return;
    }
    conn->sending = false;
    conn->operations--;
    kv_conn_sent(conn, cqe->res);
    kv_conn_advance(conn);
}

/* ---- the end ---- */

void kv_server_stop(struct kv_server *server)
{
    if (server->stopping)
        return;
    server->stopping = true;
    server->stop_by_ns = kv_now_ns() + STOP_NS;
}

static bool jobs_in_flight(const struct kv_server *server)
{
    uint64_t in_flight = 0;
    for (unsigned i = 0; i < KV_STATS; i++)
        in_flight += server->stats[i].in_flight;
    return in_flight > 0;
}

/* One step towards the end: no new clients, answers under way go out, then all is over. */
static void go_on_stopping(struct kv_server *server)
{
    struct kv_net *net = server->net;
    bool late = kv_now_ns() >= server->stop_by_ns;
    if (!net->stop_begun && net->accepting) {
        struct io_uring_sqe *sqe = get_sqe(net);
        io_uring_prep_cancel64(sqe, DATA_ACCEPT, 0);
        sqe->user_data = DATA_IGNORED;
    }
    struct kv_conn *next;
    for (struct kv_conn *conn = server->conns; conn && (late || !net->stop_begun); conn = next) {
        next = conn->next;
        if (late)
            kv_conn_close(conn);
        else
            kv_conn_finish(conn);
        kv_conn_advance(conn);
    }
    net->stop_begun = true;
    server->stopped = !server->conns && !jobs_in_flight(server);
    kv_net_want_tick(server);
}

void kv_net_run(struct kv_server *server)
{
    struct kv_net *net = server->net;
    while (!server->stopped) {
        kv_refused_finish(server);
        kv_batch_flush(server);
        int rc = io_uring_submit_and_wait(&net->ring, server->refused ? 0 : 1);
        if (rc < 0 && rc != -EINTR && rc != -EBUSY && rc != -EAGAIN) {
            fprintf(stderr, "lanex-kv: io_uring_enter: %s\n", strerror(-rc));
            abort();
        }
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&net->ring, head, cqe)
        {
            on_event(server, cqe);
            seen++;
        }
        io_uring_cq_advance(&net->ring, seen);
        if (net->doorbell) {
            net->doorbell = false;
            kv_completions_drain(server);
        }
        kv_limits_evict(server);
        if (server->stopping)
            go_on_stopping(server);
    }
}

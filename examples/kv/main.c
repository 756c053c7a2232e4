/* lanex-kv: a server that speaks the Redis protocol. README.md says what it shows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "conn.h"
#include "hash.h"

/* Connections are descriptors: as many as the hard limit allows. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int fail(const char *what, int rc)
{
    fprintf(stderr, "lanex-kv: %s: %s\n", what, strerror(-rc));
    return rc;
}

static int create_executor(struct kv_server *server)
{
    uint32_t workers = server->options.workers;
    if (workers == 0) {
        workers = lanex_usable_cpus();
        if (workers < KV_WORKERS_MIN)
            workers = KV_WORKERS_MIN;
    }
    lanex_executor_options options = {
        .size = sizeof options,
        .profile =
            workers > LANEX_POOL_MAX_STANDARD ? LANEX_PROFILE_MANY_CORE : LANEX_PROFILE_STANDARD,
        .policy = server->options.policy,
        .dispatch = server->options.dispatch,
        .backend = server->options.backend,
        .pool_size = workers,
        .promotion_age_ms = server->options.promotion_ms,
    };
    int rc = lanex_executor_create(&options, &server->executor);
    return rc < 0 ? fail("executor", rc) : 0;
}

/*
 * The executor's completions arrive in the network thread's ring: as ring messages, or where the
 * executor itself runs without rings, by an eventfd that the ring polls.
 */
static int create_port(struct kv_server *server)
{
    lanex_port_options options = {.size = sizeof options};
    int rc = lanex_ring_attach(server->executor, kv_net_ring_fd(server), &server->ring_target);
    if (rc == 0) {
        options.doorbell = LANEX_DOORBELL_RING;
        options.ring = server->ring_target;
        options.ring_user_data = KV_DOORBELL_DATA;
    } else if (rc != -EOPNOTSUPP) {
        return fail("the executor cannot send to the network thread's ring", rc);
    }
    rc = lanex_port_create(server->executor, &options, &server->port);
    if (rc < 0)
        return fail("port", rc);
    if (options.doorbell == LANEX_DOORBELL_EVENTFD)
        kv_net_watch_port(server);
    return 0;
}

static int create_databases(struct kv_server *server)
{
    for (unsigned i = 0; i < KV_DATABASES; i++) {
        struct kv_db *db = &server->databases[i];
        char key[16];
        int length = snprintf(key, sizeof key, "db%u", i);
        db->server = server;
        db->index = i;
        kv_chores_init(db);
        int rc = kv_store_create(&db->store);
        lanex_actor_options options = {.size = sizeof options, .context = db};
        if (rc == 0)
            rc = lanex_actor_register(server->executor, key, (size_t)length, &options, &db->actor);
        if (rc < 0)
            return fail("database", rc);
    }
    return 0;
}

static int start(struct kv_server *server)
{
    uint16_t port = 0;
    if (kv_hash_init() < 0) {
        fprintf(stderr, "lanex-kv: no random numbers for the hash\n");
        return -EIO;
    }
    kv_reply_init(&server->scratch, server->options.output_max);
    if (kv_net_create(server) < 0 || create_executor(server) < 0 || create_port(server) < 0 ||
        create_databases(server) < 0)
        return -EIO;
    if (server->options.snapshot && kv_load(server) < 0)
        return -EIO;
    int rc = kv_net_listen(server, &port);
    if (rc < 0) {
        fprintf(stderr, "lanex-kv: %s port %u: %s\n", server->options.bind, server->options.port,
                strerror(-rc));
        return rc;
    }
    server->options.port = port;
    server->started_ms = kv_now_ms();
    lanex_config config = {.size = sizeof config};
    (void)lanex_executor_config(server->executor, &config);
    printf("lanex-kv: ready on %s:%u with %u workers\n", server->options.bind, port,
           config.pool_size);
    fflush(stdout);
    return 0;
}

static void leave(struct kv_server *server)
{
    if (server->executor)
        (void)lanex_executor_drain(server->executor, LANEX_TIME_NEVER, NULL);
    for (unsigned i = 0; i < KV_DATABASES; i++)
        lanex_actor_unref(server->databases[i].actor);
    lanex_port_unref(server->port);
    lanex_ring_unref(server->ring_target);
    (void)lanex_executor_destroy(server->executor);
    kv_net_destroy(server);
    for (unsigned i = 0; i < KV_DATABASES; i++)
        kv_store_destroy(server->databases[i].store);
    kv_reply_free(&server->scratch);
}

int main(int argc, char **argv)
{
    struct kv_server *server = aligned_alloc(_Alignof(struct kv_server), sizeof *server);
    if (!server)
        return EXIT_FAILURE;
    memset(server, 0, sizeof *server);
    server->conns_due_ns = KV_NEVER_NS;
    kv_options_parse(argc, argv, &server->options);
    raise_descriptor_limit();
    int rc = start(server);
    if (rc == 0)
        kv_net_run(server);
    leave(server);
    free(server);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

"""What ./dev bench runs: which programs, in which workloads, how often.

A round runs each step once; within a step the systems take turns, each round beginning with another
one, so that whatever disturbs the machine disturbs all of them alike. Ratios are of figures of the
same step and round.
"""

# Name in the results -> (program under build/release/bench, arguments, what to install).
SYSTEMS = {
    "lanex": ("lanex-bench", [], None),
    "ordered_pool": ("peers/bench-ordered", [], None),
    "plain_pool": ("peers/bench-plain", [], None),
    "plain_pool_malloc": ("peers/bench-plain", ["--variant", "malloc"], None),
    "libuv": ("peers/bench-libuv", [], "libuv1-dev"),
    "asio": ("peers/bench-asio", [], "libasio-dev"),
    "caf": ("peers/bench-caf", [], "libcaf-dev"),
    "onetbb": ("peers/bench-tbb", [], "libtbb-dev"),
    "onetbb_taskgroup": ("peers/bench-tbb", ["--variant", "taskgroup"], "libtbb-dev"),
    "floor": ("floor/bench-floor", [], None),
}
LOCKS = "locks/bench-locks"
PEERS = ["ordered_pool", "plain_pool", "libuv", "asio", "caf", "onetbb"]
ALL = ["lanex"] + PEERS
POOLS = ["lanex", "ordered_pool", "plain_pool"]
LOCK_NAMES = ["floor_cas_cas", "floor_xadd_store", "pthread_rwlock", "ck_rwlock", "ck_pflock",
              "ck_bytelock", "tbb_spin_rw_mutex"]


class Step:
    """One workload with its arguments, for some systems.

    every: the step is part of each round; else of the first alone (figures that hardly vary, or
    that take long and have no bound).
    """

    def __init__(self, name, workload, systems, arguments=(), every=True, quick=True):
        self.name, self.workload = name, workload
        self.systems, self.arguments = systems, list(arguments)
        self.every, self.quick = every, quick


STEPS = [
    Step("W1", "flood", ALL),
    Step("W1-more", "flood", ["plain_pool_malloc", "onetbb_taskgroup"], every=False, quick=False),
    Step("W1-scheduler", "flood", ["lanex"], ["--dispatch", "scheduler", "--limit", "5"],
         every=False, quick=False),
    Step("W2", "mixed", ALL),
    Step("W3", "roundtrip", ALL),
    Step("W3-pinned", "roundtrip", POOLS, ["--pin"]),
    Step("W3-floor", "pingpong", ["floor"], ["--variant", "eventfd_uring_poll"]),
    Step("W3-spin-floor", "pingpong", ["floor"], ["--variant", "cache_line"]),
    Step("W3-spin", "roundtrip", ["lanex"], ["--pin", "--spin", "50"]),
    Step("W4", "actors", ["lanex"]),
    Step("W4-peers", "actors", ["ordered_pool", "plain_pool"], every=False, quick=False),
    Step("W5", "deep", ["lanex", "ordered_pool"]),
    Step("W5-peers", "deep", ["plain_pool", "libuv", "asio", "caf", "onetbb"], every=False,
         quick=False),
    Step("W6", "memory", ["lanex"], every=False),
    Step("W6-id", "memory", ["lanex"], ["--id-size", "24"], every=False),
    Step("W6-peers", "memory", PEERS, every=False, quick=False),
    Step("W7", "isolation", ["lanex"]),
    Step("W7-peers", "isolation", PEERS, every=False, quick=False),
    Step("W8", "rwlock", ["lanex"]),
    Step("W9", "submitters", ["lanex"]),
    Step("W9-peers", "submitters", ["ordered_pool", "plain_pool", "asio", "caf", "onetbb"],
         every=False, quick=False),
    Step("W10", "sinks", ["lanex"]),
    Step("semantics", "semantics", ALL, every=False),
]

ROUNDS = 5
ROUNDS_QUICK = 3
RUN_LIMIT_S = 300  # of one run of one program


def workers_for(cpus):
    """Workers and one submitting thread on each CPU, and two workers at least."""
    return max(2, cpus - 1)


def scaling(cpus):
    """Numbers of workers for the scaling plot; one alone is no plot."""
    counts, count = [], 2
    while count < cpus:
        counts.append(count)
        count *= 2
    return counts + [max(2, cpus)]


# W7, from SPEC: what maintenance may use of the pool, and what it could do with that.
def maintenance_cap(workers):
    return max(workers - (2 if workers >= 4 else 1), 1)


BACKGROUND_BODY_S = 100e-6

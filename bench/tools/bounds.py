"""The bounds that lanex has to keep, and whether it does.

A ratio is of figures of the same round, turned so that more is better for lanex; what counts is its
lower quartile over the rounds: three quarters of them were at least so good. Bounds that name an
absolute figure use the median.
"""

import statistics

import plan
from results import lower_quartile


class Bound:
    def __init__(self, workload, text, value, limit, at_least, unit="x"):
        self.workload, self.text, self.value = workload, text, value
        self.limit, self.at_least, self.unit = limit, at_least, unit

    @property
    def state(self):
        if self.value is None:
            return "not measured"
        held = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "holds" if held else "FAILS"


def paired(ours, theirs):
    """Ratios ours / theirs of the rounds that have both."""
    return [ours[i] / theirs[i] for i in ours if i in theirs and theirs[i]]


def quartile_at_least(ours, theirs):
    """For figures of which more is better: ours by theirs."""
    ratios = paired(ours, theirs)
    return lower_quartile(ratios) if ratios else None


def quartile_at_most(ours, theirs):
    """For figures of which less is better: ours by theirs, of the same conservative quarter."""
    ratios = paired(theirs, ours)
    return 1 / lower_quartile(ratios) if ratios else None


def best_of(series, better):
    """By round, the best figure of several series."""
    best = {}
    for rounds in series:
        for i, value in rounds.items():
            best[i] = better(best[i], value) if i in best else value
    return best


def flood(r):
    ours, cpu = r.rounds("W1", "jobs_per_s", "lanex"), r.rounds("W1", "cpu_s_per_mjob", "lanex")
    peer = r.rounds
    yield Bound("W1", "jobs/s by the ordered pool's",
                quartile_at_least(ours, peer("W1", "jobs_per_s", "ordered_pool")), 4, True)
    yield Bound("W1", "jobs/s by the plain pool's",
                quartile_at_least(ours, peer("W1", "jobs_per_s", "plain_pool")), 2, True)
    yield Bound("W1", "CPU per job by the plain pool's",
                quartile_at_most(cpu, peer("W1", "cpu_s_per_mjob", "plain_pool")), 0.55, False)
    yield Bound("W1", "system calls per job",
                r.median("W1-calls", "system_calls_per_job", "lanex"), 0.05, False, "")
    yield Bound("W1", "wakes in vain, of all wakes", r.median("W1", "wakes_in_vain", "lanex"),
                0.05, False, "")


def mixed(r):
    ours = r.rounds("W2", "jobs_per_s", "lanex")
    yield Bound("W2", "jobs/s by the ordered pool's",
                quartile_at_least(ours, r.rounds("W2", "jobs_per_s", "ordered_pool")), 1.25, True)
    ratios = [quartile_at_least(ours, rounds)
              for who, _, rounds in r.find("W2", "jobs_per_s") if who != "lanex"]
    ratios = [ratio for ratio in ratios if ratio is not None]
    yield Bound("W2", "jobs/s by the fastest peer's", min(ratios, default=None), 0.8, True)


def roundtrip(r):
    floor = best_of([rounds for _, _, rounds in r.find("W3-floor", "p50", placement="cross")], min)
    yield Bound("W3", "p50 on two CPUs by the floor's (eventfd polled by io_uring)",
                quartile_at_most(r.rounds("W3-pinned", "p50", "lanex", gap_us=0), floor), 1.25,
                False)
    pools = best_of([r.rounds("W3", "p50", pool, gap_us=200)
                     for pool in ("ordered_pool", "plain_pool")], min)
    yield Bound("W3", "p50 with gaps by the faster hand-written pool's",
                quartile_at_most(r.rounds("W3", "p50", "lanex", gap_us=200), pools), 1, False)
    spin = r.rounds("W3-spin-floor", "p50", "floor", placement="cross")
    yield Bound("W3", "p50 with spinning by the floor's (a cache line)",
                quartile_at_most(r.rounds("W3-spin", "p50", "lanex", gap_us=0), spin), 3, False)


def actors(r):
    def at(busy, registered):
        return r.rounds("W4", "ns_per_job", "lanex", actors=busy, registered=registered)

    yield Bound("W4", "ns per job, 100,000 busy actors by 64",
                quartile_at_most(at(100000, 100000), at(64, 64)), 2, False)
    yield Bound("W4", "ns per job, 64 busy among 100,000 registered by 64",
                quartile_at_most(at(64, 100000), at(64, 64)), 1.2, False)


def deep(r):
    def drain(system, queued):
        return r.rounds("W5", "drain_ns_per_job", system, queued=queued)

    yield Bound("W5", "drain, 1,000,000 queued by 1,000",
                quartile_at_most(drain("lanex", 1000000), drain("lanex", 1000)), 1.3, False)
    yield Bound("W5", "drain of 1,000,000 by the ordered pool's",
                quartile_at_most(drain("lanex", 1000000), drain("ordered_pool", 1000000)), 1,
                False)
    yield Bound("W5", "submit, 1,000,000 queued",
                r.median("W5", "submit_ns_per_job", "lanex", queued=1000000), 80, False, "ns")


def memory(r):
    yield Bound("W6", "idle actor", r.median("W6", "bytes_per_actor", "lanex"), 256, False, "B")
    yield Bound("W6", "queued job", r.median("W6", "bytes_per_job", "lanex"), 128, False, "B")
    yield Bound("W6", "queued job with a 24-byte id",
                r.median("W6-id", "bytes_per_job", "lanex"), 160, False, "B")


def isolation(r):
    yield Bound("W7", "interactive p99", r.median("W7", "latency_p99", "lanex"), 60, False, "us")
    yield Bound("W7", "interactive p99.9", r.median("W7", "latency_p99.9", "lanex"), 1000, False,
                "us")
    done = r.median("W7", "background_jobs_per_s", "lanex")
    could = plan.maintenance_cap(r.about["workers"]) / plan.BACKGROUND_BODY_S
    yield Bound("W7", "maintenance by what its workers could do", done and done / could, 0.95, True)


def rwlock(r):
    def of(metric, name):
        return r.rounds("W8", metric, name)

    for metric, text in (("read_pair", "read pair"), ("write_pair", "write pair")):
        yield Bound("W8", f"{text} by CAS + CAS",
                    quartile_at_most(of(metric, "lanex_epoch"), of(metric, "floor_cas_cas")), 1.25,
                    False)
    yield Bound("W8", "two readers by ck_rwlock's",
                quartile_at_least(of("two_threads_read", "lanex_epoch"),
                                  of("two_threads_read", "ck_rwlock")), 1, True)
    yield Bound("W8", "90/10 by ck_pflock's",
                quartile_at_least(of("two_threads_90_10", "lanex_epoch"),
                                  of("two_threads_90_10", "ck_pflock")), 1, True)


def submitters(r):
    def by(count):
        return r.rounds("W9", "jobs_per_s", "lanex", submitters=count)

    yield Bound("W9", "jobs/s, 16 submitters by one", quartile_at_least(by(16), by(1)), 0.7, True)


def sinks(r):
    def by(sink):
        return r.rounds("W10", "jobs_per_s", "lanex", sink=sink)

    yield Bound("W10", "jobs/s, port by ring message by the callback's",
                quartile_at_least(by("port-ring"), by("callback")), 0.75, True)


def all_bounds(results):
    found = []
    for part in (flood, mixed, roundtrip, actors, deep, memory, isolation, rwlock, submitters,
                 sinks):
        found += list(part(results))
    return found


def spread(values):
    """Half the distance between the quartiles, by the median."""
    if len(values) < 2:
        return 0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle if middle else 0

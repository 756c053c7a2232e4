"""Plots of the results, as SVG, by matplotlib."""

import os
import statistics

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:  # told by write
    pyplot = None

import plan

OURS, THEIRS = "#c0392b", "#7f8c8d"


def colour(system):
    return OURS if system == "lanex" else THEIRS


def save(figure, folder, name):
    figure.tight_layout()
    # No date, and identifiers that do not change: the same results give the same file.
    figure.savefig(os.path.join(folder, name), metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return name


def bars(axes, results, step, metric, title, scale=1.0):
    """A bar for each system, with the range of its rounds."""
    rows = [(who, [value / scale for value in rounds.values()])
            for who, _, rounds in results.find(step, metric)]
    rows.sort(key=lambda row: statistics.median(row[1]))
    for at, (who, values) in enumerate(rows):
        middle = statistics.median(values)
        axes.barh(at, middle, color=colour(who),
                  xerr=[[middle - min(values)], [max(values) - middle]])
    axes.set_yticks(range(len(rows)), [who for who, _ in rows])
    axes.set_title(title, fontsize=10)


def throughput(results, folder):
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.2))
    bars(axes[0], results, "W1", "jobs_per_s", "W1: empty jobs, M/s", 1e6)
    bars(axes[1], results, "W1", "cpu_s_per_mjob", "W1: CPU seconds per million jobs")
    bars(axes[2], results, "W2", "jobs_per_s", "W2: 1 us, 10% writers, M/s", 1e6)
    return save(figure, folder, "throughput.svg")


def latency(results, folder):
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for at, (gap, title) in enumerate(((0, "W3: round trip p50, us"),
                                       (200, "W3: the same after 200 us of sleep"))):
        rows = [(who, [value / 1e3 for value in rounds.values()])
                for who, _, rounds in results.find("W3", "p50", gap_us=gap)]
        rows.sort(key=lambda row: -statistics.median(row[1]))
        for place, (who, values) in enumerate(rows):
            axes[at].barh(place, statistics.median(values), color=colour(who))
        axes[at].set_yticks(range(len(rows)), [who for who, _ in rows])
        axes[at].set_title(title, fontsize=10)
    return save(figure, folder, "latency.svg")


def lines(axes, results, steps, metric, by, title, scale=1.0, only=None):
    """A line for each system: medians by a parameter."""
    points = {}
    for step in steps:
        for who, keys, rounds in results.find(step, metric):
            if only is None or only(keys):
                points.setdefault(who, {})[keys[by]] = statistics.median(rounds.values()) / scale
    for who, by_key in sorted(points.items()):
        xs = sorted(by_key)
        axes.plot(xs, [by_key[x] for x in xs], marker="o", markersize=3, label=who,
                  color=OURS if who == "lanex" else None, linewidth=2 if who == "lanex" else 1)
    axes.set_title(title, fontsize=10)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)


def growth(results, folder):
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.4))
    lines(axes[0], results, ["W4", "W4-peers"], "ns_per_job", "actors",
          "W4: ns per job by busy actors", only=lambda keys: keys["actors"] == keys["registered"])
    lines(axes[1], results, ["W5", "W5-peers"], "drain_ns_per_job", "queued",
          "W5: drain, ns per job by depth", only=lambda keys: keys["queued"] >= 1000)
    lines(axes[2], results, ["W9", "W9-peers"], "jobs_per_s", "submitters",
          "W9: M/s by submitters", 1e6)
    for each in axes[:2]:
        each.set_xscale("log")
    axes[2].set_xscale("log", base=2)
    return save(figure, folder, "growth.svg")


def scaling(results, folder):
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4))
    lines(axes[0], results, ["scaling-W1"], "jobs_per_s", "workers", "W1: M/s by workers", 1e6)
    lines(axes[1], results, ["scaling-W2"], "jobs_per_s", "workers", "W2: M/s by workers", 1e6)
    return save(figure, folder, "scaling.svg")


def write(results, folder):
    """Writes what there are results for; returns the names."""
    if pyplot is None:
        print("bench: no plots: python3-matplotlib is missing", flush=True)
        return []
    matplotlib.rcParams["svg.hashsalt"] = "lanex"
    matplotlib.rcParams["svg.fonttype"] = "none"
    names = []
    for plot, needed in ((throughput, ("W1", "jobs_per_s")), (latency, ("W3", "p50")),
                         (growth, ("W4", "ns_per_job")), (scaling, ("scaling-W1", "jobs_per_s"))):
        if results.find(*needed):
            names.append(plot(results, folder))
    return names

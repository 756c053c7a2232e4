"""results.md: the bounds, and a table of each workload."""

import os
import statistics

import bounds
import plan
import plots


def figure(value):
    """Three digits, in units that can be read."""
    if value is None:
        return "-"
    if value != 0 and abs(value) < 0.01:
        return f"{value:.2g}"
    for scale, suffix in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= scale * (1 if suffix == " M" else 10):
            return f"{value / scale:.3g}{suffix}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def bounds_table(results):
    rows = []
    for each in bounds.all_bounds(results):
        sign = "at least" if each.at_least else "at most"
        unit = f" {each.unit}" if each.unit not in ("", "x") else each.unit
        measured = "-" if each.value is None else f"{figure(each.value)}{unit}"
        rows.append([each.workload, each.text, f"{sign} {each.limit}{unit}", measured, each.state])
    return table(["", "what", "bound", "measured", ""], rows)


def systems_of(results, steps, metric):
    seen = []
    for step in steps:
        for who, _, _ in results.find(step, metric):
            if who not in seen:
                seen.append(who)
    return sorted(seen, key=lambda who: (who != "lanex", who))


def median_of(results, steps, metric, system, **wanted):
    for step in steps:
        value = results.median(step, metric, system, **wanted)
        if value is not None:
            return value
    return None


def columns_table(results, steps, columns):
    """A row for each system; columns are (head, metric, parameters)."""
    rows = []
    for system in systems_of(results, steps, columns[0][1]):
        rows.append([system] + [figure(median_of(results, steps, metric, system, **wanted))
                                for _, metric, wanted in columns])
    return table(["system"] + [head for head, _, _ in columns], rows)


def sections(results):
    r = results
    yield "W1 flood", columns_table(r, ["W1", "W1-more"], [
        ("jobs/s", "jobs_per_s", {}), ("CPU s per million", "cpu_s_per_mjob", {})])
    yield "W1 flood, what the kernel was asked", columns_table(r, ["W1-calls"], [
        ("system calls per job", "system_calls_per_job", {})])
    yield "W1 flood, lanex's own counters", columns_table(r, ["W1"], [
        ("wakes per job", "wakes_per_job", {}), ("wakes in vain", "wakes_in_vain", {}),
        ("turns per job", "turns_per_job", {}), ("messages per job", "messages_per_job", {})])
    yield "W1 flood, dispatch=scheduler", columns_table(r, ["W1-scheduler"], [
        ("jobs/s", "jobs_per_s", {}), ("CPU s per million", "cpu_s_per_mjob", {})])
    yield "W2 mixed", columns_table(r, ["W2"], [
        ("jobs/s", "jobs_per_s", {}), ("CPU s per million", "cpu_s_per_mjob", {}),
        ("p50 ns", "latency_p50", {}), ("p99 ns", "latency_p99", {})])
    trips = [("p50 ns", "p50", {"gap_us": 0}), ("p99 ns", "p99", {"gap_us": 0}),
             ("gap p50 ns", "p50", {"gap_us": 200}), ("gap p99 ns", "p99", {"gap_us": 200})]
    yield "W3 roundtrip", columns_table(r, ["W3"], trips)
    yield "W3 roundtrip, the submitter on one CPU and the system on the other", columns_table(
        r, ["W3-pinned"], trips)
    yield "W3 roundtrip, the same, threads spinning for 50 us before they sleep", columns_table(
        r, ["W3-spin"], trips)
    floor = [[keys["method"], keys["ring_flags"], keys["placement"],
              figure(statistics.median(rounds.values()))]
             for step in ("W3-floor", "W3-spin-floor")
             for _, keys, rounds in r.find(step, "p50", "floor")]
    yield "W3, the floor: ping-pong of two threads", table(
        ["method", "ring", "placement", "p50 ns"], floor)
    yield "W4 actors, ns per job", columns_table(r, ["W4", "W4-peers"], [
        (f"{busy} of {registered}", "ns_per_job", {"actors": busy, "registered": registered})
        for busy, registered in ((1, 1), (64, 64), (1024, 1024), (16384, 16384),
                                 (100000, 100000), (64, 100000))])
    for metric, text in (("submit_ns_per_job", "submit"),
                         ("cold_submit_ns_per_job", "submit, the first time at that depth"),
                         ("drain_ns_per_job", "drain")):
        yield f"W5 deep, {text}, ns per job", columns_table(r, ["W5", "W5-peers"], [
            (f"{queued}", metric, {"queued": queued}) for queued in (1000, 10000, 100000, 1000000)])
    yield "W6 memory", columns_table(r, ["W6", "W6-peers"], [
        ("bytes per idle actor", "bytes_per_actor", {}),
        ("bytes per queued job", "bytes_per_job", {"id_bytes": 0})])
    yield "W7 isolation", columns_table(r, ["W7", "W7-peers"], [
        ("p50 us", "latency_p50", {}), ("p99 us", "latency_p99", {}),
        ("p99.9 us", "latency_p99.9", {}), ("max us", "latency_max", {}),
        ("background jobs/s", "background_jobs_per_s", {})])
    yield "W8 rwlock", columns_table(r, ["W8"], [
        ("read pair ns", "read_pair", {}), ("write pair ns", "write_pair", {}),
        ("two readers/s", "two_threads_read", {}), ("90/10 per s", "two_threads_90_10", {})])
    yield "W9 submitters, jobs/s", columns_table(r, ["W9", "W9-peers"], [
        (f"{count}", "jobs_per_s", {"submitters": count}) for count in (1, 2, 4, 16, 64)])
    rows = [[sink] + [figure(r.median("W10", metric, "lanex", sink=sink))
                      for metric in ("jobs_per_s", "cpu_s_per_mjob", "p50", "p99")]
            for sink in ("callback", "ticket", "port", "port-ring", "cqe")]
    yield "W10 sinks", table(["sink", "jobs/s", "CPU s per million", "W3 p50 ns", "W3 p99 ns"], rows)
    yield "semantics", columns_table(r, ["semantics"], [
        ("exclusion broken", "exclusion_violations", {}), ("order broken", "order_violations", {}),
        ("reads side by side", "overlapping_reads", {})])


def idioms_table(results):
    rows = []
    for system in sorted(results.idioms, key=lambda who: (who != "lanex", who)):
        text = results.idioms[system].get("flood")
        if text:
            rows.append([system, text])
    return table(["system", "how a job is mapped to it"], rows)


def write(results, folder):
    """Writes results.md and the plots; returns the table of bounds."""
    about = results.about
    names = plots.write(results, folder)
    held = bounds_table(results)
    parts = [
        "# Measured",
        f"{about['date']}, Linux {about['kernel']}, {about['cpus']} CPUs ({about['cpu']}, "
        f"{about['machine']}), {about['compiler']}, {about['workers']} workers and one submitting "
        f"thread, {about['rounds']} rounds" + (", `--quick`" if about["quick"] else "") + ". "
        "Figures are medians of the rounds. Other processes kept "
        f"{about.get('other_cpus_median', 0)} CPUs busy (median of the runs)"
        + (": the machine was not quiet, and these figures are not to be quoted."
           if about.get("other_cpus_median", 0) > 0.1 else "."),
        "## Bounds",
        "Ratios are of the same round; what is shown is the lower quartile of the rounds, turned so "
        "that it is the worse side for lanex. Absolute figures are medians.",
        held,
    ]
    if about["left_out"]:
        parts.append("Left out, as they were not built: " + ", ".join(about["left_out"]) + ".")
    for failure in results.failures:
        parts.append(f"FAILED: {failure['step']} of {failure['system']}: {failure['why']}")
    for title, text in sections(results):
        if text.count("\n") > 1:  # more than a head
            parts += [f"## {title}", text]
    parts += ["## Plots"] + [f"![{name}]({name})" for name in names]
    parts += ["## Idioms", idioms_table(results)]
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as file:
        file.write("\n\n".join(parts) + "\n")
    return held

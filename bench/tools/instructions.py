"""Instructions per job and per public call, counted by callgrind, beside the committed baseline.

bench-instructions lets one thread work at a time, so most counts are the same to the instruction
from run to run; what differs (keys of hash tables are random, a wait is met asleep or not) is about
one percent. The least of RUNS runs counts. The baseline, bench/instructions.json, has the counts of
each compiler and, from the runs that made it, how far each count strayed; a count that is more than
3% and that much over the baseline is a failure, and the functions that grew are named.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BASELINE = os.path.join(BENCH, "instructions.json")
RUNS = 3
RUNS_WRITE = 5
LIMIT = 0.03  # over the baseline
FUNCTIONS = 5  # named per failure
FUNCTIONS_KEPT = 30  # per case, in the baseline
LEAST = 0.5  # instructions per job or call that a function must have grown by to be named
WARM_UP = "warm-up"


def say(text):
    print(f"bench: {text}", flush=True)


def compiler_of(program):
    """As the compiler names itself in what it made: "GCC 12.2.0" without the distribution's."""
    done = subprocess.run(["readelf", "-p", ".comment", program], capture_output=True, text=True,
                          check=True)
    found = re.findall(r"(GCC|clang)[^\n]*?(\d+\.\d+\.\d+)", done.stdout)
    return " ".join(found[0]) if found else "unknown"


def functions_of(path):
    """{function: instructions} of one callgrind file, by valgrind's own reader."""
    done = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", path],
                          capture_output=True, text=True, check=True)
    functions = {}
    for line in done.stdout.splitlines():
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+[^:]*:(\S.*?)(?: \[.*\])?$", line)
        if found:
            # The compiler's copies of a function count as that function.
            name = re.sub(r"\.(constprop|isra|part|cold)\b.*", "", found.group(2))
            functions[name] = functions.get(name, 0) + int(found.group(1).replace(",", ""))
    return functions


def count_once(program, folder):
    """{case: (per unit, file)} of one run."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--instr-atstart=no",
         f"--callgrind-out-file={folder}/out", program],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise SystemExit("bench: bench-instructions failed under valgrind")
    units = {}
    for line in done.stdout.splitlines():
        case = json.loads(line)
        units[case["case"]] = case["count"]
    counts = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        case = re.search(r"^desc: Trigger: Client Request: (\S+)", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
        if case and total and case.group(1) != WARM_UP:
            counts[case.group(1)] = (int(total.group(1)) / units[case.group(1)], path)
    if set(counts) != set(units) - {WARM_UP}:
        raise SystemExit("bench: callgrind did not report every case")
    return counts, units


def count(program, runs):
    """{case: {per_unit, spread, functions}}: of each case the least of the runs."""
    found, all_counts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            below = os.path.join(folder, str(run))
            os.mkdir(below)
            counts, units = count_once(program, below)
            for case, (per_unit, path) in counts.items():
                all_counts.setdefault(case, []).append((per_unit, path))
        for case, values in all_counts.items():
            least, path = min(values)
            most = max(values)[0]
            functions = {name: round(value / units[case], 2)
                         for name, value in functions_of(path).items()}
            found[case] = {"per_unit": round(least, 1), "spread": round(most / least - 1, 4),
                           "functions": functions}
    return found


def load():
    try:
        with open(BASELINE, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def write(baseline, compiler, counts):
    for case in counts.values():
        kept = sorted(case["functions"].items(), key=lambda each: -each[1])[:FUNCTIONS_KEPT]
        case["functions"] = dict(kept)
    baseline[compiler] = counts
    with open(BASELINE, "w", encoding="utf-8") as file:
        file.write("{\n")
        parts = []
        for name in sorted(baseline):
            lines = [f"  {json.dumps(case)}: {json.dumps(baseline[name][case])}"
                     for case in sorted(baseline[name])]
            parts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
        file.write(",\n".join(parts) + "\n}\n")


def grown(before, now):
    """The functions that grew most, as text."""
    growth = [(count - before["functions"].get(name, 0), name)
              for name, count in now["functions"].items()
              if count - before["functions"].get(name, 0) >= LEAST]
    return [f"{name} +{more:.1f} ({before['functions'].get(name, 0):.1f} before)"
            for more, name in sorted(growth, reverse=True)[:FUNCTIONS]]


def compare(before, now):
    """Prints the table; returns the number of failures."""
    failures = 0
    print(f"{'':26} {'baseline':>10} {'now':>10} {'':>8}  strays by")
    for case in sorted(set(before) | set(now)):
        if case not in now or case not in before:
            failures += 1
            there = "the baseline" if case in before else "this run"
            print(f"{case:26} only in {there}: make a new baseline with --write")
            continue
        ratio = now[case]["per_unit"] / before[case]["per_unit"]
        strays = max(before[case]["spread"], now[case]["spread"])
        failed = ratio > 1 + LIMIT + before[case]["spread"]
        failures += failed
        print(f"{case:26} {before[case]['per_unit']:10.1f} {now[case]['per_unit']:10.1f} "
              f"{100 * (ratio - 1):+7.1f}%  {100 * strays:.1f}%{'  WORSE' if failed else ''}")
        if failed:
            for line in grown(before[case], now[case]):
                print(f"{'':30}{line}")
    return failures


def main(build, make_baseline):
    program = os.path.join(build, "bench", "instructions", "bench-instructions")
    if not os.path.exists(program):
        raise SystemExit("bench: bench-instructions was not built (valgrind is missing?)")
    compiler = compiler_of(program)
    baseline = load()
    counts = count(program, RUNS_WRITE if make_baseline else RUNS)
    if make_baseline:
        write(baseline, compiler, counts)
        say(f"{len(counts)} counts are now the baseline of {compiler}")
        return 0
    if compiler not in baseline:
        say(f"there is no baseline of {compiler}: --write makes one")
        return 2
    failures = compare(baseline[compiler], counts)
    say(f"instructions with {compiler}: {len(counts)} counts, {failures} failed")
    return 1 if failures else 0

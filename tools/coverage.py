#!/usr/bin/env python3
"""What of src/ the tests run: lines and branches, by folder and file.

Builds build/coverage, runs the tests that take part in it in a few cells of the matrix (tools/
matrix.py) and the simulated world's fixed seeds, and reads gcov's own figures. The simulated world
counts for lines alone: its atomics are other macros, with branches of their own. A line that no
test reaches is explained in tests/coverage/explained.txt, by file and source text. Fails on a line
that was not run and is not explained, on an explanation of what was run or is not there, so that
the list stays true, and below the limits.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys

from builds import ROOT, build, folder_of, indented, logged, say
from matrix import run_cell

BUILD = "coverage"
SUITES = ["unit", "stress", "fault", "replay"]
CELLS = [
    (BUILD, "ring", "seat"),
    (BUILD, "ring", "scheduler"),
    (BUILD, "poll", "scheduler"),
    (BUILD, "poll", "seat"),
    (BUILD, "setup:EPERM", "seat"),
]
# Seeds of each set of the simulated world's users.
SIM_RUNS = 500
SIM_FOLDER = os.path.join("tests", "sim")
# Least share of lines, by folder of src/.
LIMITS = {"admission": 95.0, "sync": 95.0, "ring": 90.0, "runtime": 90.0}
# How the reason of an explanation begins whose lines a race of threads reaches at times.
BY_CHANCE = "by chance"
EXPLAINED = os.path.join(ROOT, "tests", "coverage", "explained.txt")


class Source:
    """The counts of one source file, over all objects that it is part of."""

    def __init__(self):
        self.lines = collections.defaultdict(int)
        self.branches = {}
        self.simulated = []

    def add(self, lines):
        for line in lines:
            number = line["line_number"]
            self.lines[number] += max(line["count"], 0)
            counts = [max(branch["count"], 0) for branch in line["branches"]]
            known = self.branches.get(number)
            if known is None or len(known) < len(counts):
                self.branches[number] = counts
            elif len(known) == len(counts):
                self.branches[number] = [a + b for a, b in zip(known, counts)]

    def add_simulated(self):
        """To lines that plain objects have: the simulated world is optimised, and its objects have
        lines that stand for others."""
        for lines in self.simulated:
            for line in lines:
                if line["line_number"] in self.lines:
                    self.lines[line["line_number"]] += max(line["count"], 0)

    def missed(self):
        return sorted(number for number, count in self.lines.items() if count == 0)

    def line_figures(self):
        return len(self.lines) - len(self.missed()), len(self.lines)

    def branch_figures(self):
        counts = [count for line in self.branches.values() for count in line]
        return sum(1 for count in counts if count), len(counts)


def count_files():
    """Not by glob, which leaves out names that begin with a dot: meson makes some from `../`."""
    return [os.path.join(here, name) for here, _, names in os.walk(folder_of(BUILD))
            for name in names if name.endswith(".gcda")]


def forget_counts():
    for path in count_files():
        os.remove(path)


def read_counts():
    """Source files of src/ by their path below it."""
    sources = collections.defaultdict(Source)
    prefix = os.path.join(ROOT, "src") + os.sep
    for path in count_files():
        simulated = SIM_FOLDER in os.path.relpath(path, folder_of(BUILD))
        command = ["gcov", "--branch-probabilities", "--json-format", "--stdout", path]
        text = subprocess.run(command, cwd=folder_of(BUILD), check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout
        for record in text.decode().splitlines():
            data = json.loads(record)
            for file in data["files"]:
                full = os.path.normpath(
                    os.path.join(data["current_working_directory"], file["file"]))
                if full.startswith(prefix):
                    source = sources[full[len(prefix):]]
                    if simulated:
                        source.simulated.append(file["lines"])
                    else:
                        source.add(file["lines"])
    for source in sources.values():
        source.add_simulated()
    return sources


def text_of(path):
    with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def read_explanations():
    """Lines "path | text of a line | reason"; several lines of the same text are all meant, and with
    each the lines that follow it in its block and were not run either."""
    explained = {}
    with open(EXPLAINED, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            # A C line may hold " | ", so the path is cut off in front, the reason behind.
            path, rest = line.rstrip("\n").split(" | ", 1)
            text, reason = rest.rsplit(" | ", 1)
            if not reason.strip():
                sys.exit(f"{EXPLAINED}:{number}: no reason")
            explained[(path, text.strip())] = reason.strip()
    return explained


def indentation(line):
    return len(line) - len(line.lstrip())


def blocks_of(source, text):
    """The missed lines in runs: each begins with its first line; those that follow without a line
    between that was run, no less indented, are of the same block."""
    blocks = []
    last_counted = None
    missed = set(source.missed())
    for number in sorted(source.lines):
        if number not in missed:
            last_counted = None
            continue
        if last_counted is None or indentation(text[number - 1]) < indentation(text[blocks[-1][0] - 1]):
            blocks.append([])
        blocks[-1].append(number)
        last_counted = number
    return blocks


def explain(sources, explained):
    """Splits what was missed in explained and not; complains of explanations that are not true."""
    unexplained, complaints, used = [], [], set()
    texts = {}
    for path in sorted(sources):
        text = texts[path] = text_of(path)
        for block in blocks_of(sources[path], text):
            covered = False
            for number in block:
                key = (path, text[number - 1].strip())
                if key in explained:
                    used.add(key)
                    covered = True
                if not covered:
                    unexplained.append((path, number, key[1]))
    for key in sorted(set(explained) - used):
        path, line = key
        there = path in texts and line in (text.strip() for text in texts[path])
        if not there or not explained[key].startswith(BY_CHANCE):
            complaints.append(f"explained, but {'run' if there else 'not there'}: {path}: {line}")
    return unexplained, complaints


def run_simulation():
    """Fixed seeds of each set of users; returns how many sets failed."""
    program = os.path.join(folder_of(BUILD), SIM_FOLDER, "lanex-sim")
    if not os.path.exists(program):
        say("no simulated world in this build")
        return 1
    users = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    failed = 0
    for name in users.stdout.split():
        good, text = logged(f"coverage-sim-{name}",
                            [program, "--users", name, "--runs", str(SIM_RUNS)])
        if not good:
            say(indented(text))
        failed += not good
    # The one in which a caller's ring refuses its message to the end (tests/sim/meson.build).
    failed += not logged("coverage-sim-seed",
                         [program, "--users", "full", "--seed", "1796100253298994"])[0]
    say(f"simulated world, {SIM_RUNS} seeds each: {users.stdout.split()}, {failed} failed")
    return failed


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def show_table(sources):
    """Prints the table; returns the folders below their limits."""
    below = []
    say(f"{'':<34}{'lines':>18}{'branches':>20}")
    for folder in sorted(LIMITS):
        files = [path for path in sorted(sources) if path.startswith(folder + "/")]
        total = [0, 0, 0, 0]
        for path in files:
            figures = sources[path].line_figures() + sources[path].branch_figures()
            total = [a + b for a, b in zip(total, figures)]
            show_row("  " + path, figures)
        show_row(f"{folder}, at least {LIMITS[folder]:.0f} %", total)
        if share(total[0], total[1]) < LIMITS[folder] or not files:
            below.append(folder)
    return below


def show_row(name, figures):
    lines, all_lines, branches, all_branches = figures
    say(f"{name:<34}{lines:>6}/{all_lines:<5}{share(lines, all_lines):>5.1f} %"
        f"{branches:>8}/{all_branches:<5}{share(branches, all_branches):>5.1f} %")


def main():
    parser = argparse.ArgumentParser(prog="./dev coverage")
    parser.add_argument("--report", action="store_true", help="of the last run; run nothing")
    arguments = parser.parse_args()
    if not shutil.which("gcov"):
        sys.exit("gcov is not there (package gcc)")
    failed = 0
    if not arguments.report:
        if not build(BUILD):
            return 1
        forget_counts()
        for cell in CELLS:
            failed += run_cell(cell, SUITES)[1]
        failed += run_simulation()
    sources = read_counts()
    below = show_table(sources)
    unexplained, complaints = explain(sources, read_explanations())
    say("")
    say(f"{len(unexplained)} lines were not run and are not explained:")
    for path, number, text in unexplained:
        say(f"  {path}:{number}: {text}")
    for complaint in complaints:
        say(complaint)
    for folder in below:
        say(f"{folder} is below its limit")
    return 1 if failed or below or unexplained or complaints else 0


if __name__ == "__main__":
    sys.exit(main())

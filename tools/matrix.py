#!/usr/bin/env python3
"""The test matrix: what ./dev test and ./dev soak run.

A cell is a build, a way for threads to sleep and a way to run scheduler turns. gcc without
sanitizer meets every combination; clang and each sanitizer meet two cells that between them hold
both ring settings, both dispatch modes and, taken together, each pair of the two. valgrind runs the
unit tests once, without rings, of which Debian 12's knows too little.
Prints a line per cell and, last, "N passed, N failed"; a cell in which no test ran has failed.
"""

import argparse
import ctypes
import errno
import fnmatch
import json
import os
import re
import subprocess
import sys
import time

from builds import ROOT, JOBS, build, folder_of, indented, logged, logged_code, say

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import check_contract  # pylint: disable=wrong-import-position
from run_test import REPORT  # pylint: disable=wrong-import-position

NO_BASELINE = 2  # how bench/tools/instructions.py ends for a compiler that it knows nothing of

# What every cell runs, and what does not depend on rings or dispatch and so runs once per build.
EVERYWHERE = ["unit", "stress", "fault", "example"]
ONCE = {
    "gcc": ["replay", "model", "fuzz-smoke", "sim"],
    "clang": [],
    "address+undefined": ["replay", "fuzz-smoke"],
    "thread": [],
    "valgrind": [],
}

# Unit tests that valgrind leaves out, by pattern. It runs one thread at a time and knows the calls
# of a kernel of 2022: io_uring_enter counts as one that does not block, so a thread that sleeps in
# it keeps all others from running. The other suites are left out too: stress is about threads that
# run at once, fault and sim replace what valgrind watches, and all of them run under
# AddressSanitizer.
VALGRIND_LEFT_OUT = {
    "ring*": "they ask for rings whatever the cell is",
    "nap": "workers that run at once and want the same thing",
    "signals": "it asks where in the code a signal came and jumps out of handlers, which is inexact",
    "contract-page": "no program of ours",
    "install": "no program of ours",
}
VALGRIND_ENV = {"LANEX_TEST_VALGRIND": "1", "LANEX_TEST_LIVENESS_S": "120"}

# (build, rings, dispatch). Rings: used, not asked for, or CALLS:ERRNO: refused, in that these system
# calls fail with this errno, as containers, sysctls, limits and old kernels have it.
CELLS = [
    ("gcc", "ring", "seat"),
    ("gcc", "ring", "scheduler"),
    ("gcc", "poll", "seat"),
    ("gcc", "poll", "scheduler"),
    ("gcc", "setup:EPERM", "seat"),
    ("gcc", "setup:ENOSYS", "scheduler"),
    ("gcc", "setup:EOPNOTSUPP", "seat"),
    ("gcc", "setup:ENOMEM", "scheduler"),
    ("gcc", "enter+register:EPERM", "seat"),
    ("clang", "ring", "scheduler"),
    ("clang", "poll", "seat"),
    ("address+undefined", "ring", "seat"),
    ("address+undefined", "poll", "scheduler"),
    ("thread", "ring", "scheduler"),
    ("thread", "poll", "seat"),
    ("valgrind", "poll", "seat"),
]
QUICK = [("gcc", "ring", "seat")]
SOAK = [("gcc", "ring", "seat"), ("gcc", "ring", "scheduler")]

RESULT = re.compile(r"^lanex-result: tested=(\d+) failed=(\d+) skipped=(\d+)$", re.MULTILINE)
GOOD = ("OK", "EXPECTEDFAIL")
IO_URING_SETUP = 425
SANITIZER_RANDOM_BITS = 28


def name_of(cell):
    return "-".join(cell)


def rings_refused():
    """None where the kernel sets a ring up, else the errno's name."""
    libc = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(120)  # struct io_uring_params
    descriptor = libc.syscall(IO_URING_SETUP, 2, params)
    if descriptor < 0:
        number = ctypes.get_errno()
        return errno.errorcode.get(number, str(number))
    os.close(descriptor)
    return None


def is_refusal(rings):
    return ":" in rings


def fixed_addresses(build_name):
    """clang 14's sanitizers cannot map their shadow where a kernel spreads addresses widely."""
    if build_name in ("gcc", "clang", "valgrind"):
        return []
    try:
        with open("/proc/sys/vm/mmap_rnd_bits", encoding="ascii") as file:
            return ["setarch", "-R"] if int(file.read()) > SANITIZER_RANDOM_BITS else []
    except OSError:
        return []


def refuse_launcher(build_name):
    return os.path.join(folder_of(build_name), "tests", "support", "refuse-ring")


def valgrind_tests():
    """The unit tests that valgrind runs; what is left out must exist."""
    listed = subprocess.run(["meson", "test", "-C", folder_of("valgrind"), "--list"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    names = [name.split(" / ")[1] for name in listed.splitlines() if name.startswith("lanex:unit / ")]
    left_out = {pattern: fnmatch.filter(names, pattern) for pattern in VALGRIND_LEFT_OUT}
    unknown = [pattern for pattern, found in left_out.items() if not found]
    if unknown:
        sys.exit(f"left out of valgrind's tests, but not there: {', '.join(unknown)}")
    return [name for name in names if not any(name in found for found in left_out.values())]


def meson_test(cell, suites, extra_env, extra_arguments):
    """Runs a cell's tests; returns meson's records, one per test."""
    build_name, rings, dispatch = cell
    name = name_of(cell)
    env = dict(os.environ, LANEX_TEST_DISPATCH=dispatch, **extra_env)
    env["LANEX_TEST_BACKEND"] = "auto" if is_refusal(rings) else rings
    command = fixed_addresses(build_name) + ["meson", "test", "-C", folder_of(build_name)]
    command += ["--no-rebuild", "--logbase", name]
    command += ["--num-processes", str(JOBS)] + extra_arguments
    if is_refusal(rings):
        calls, errno_name = rings.split(":")
        command += ["--wrapper", f"{refuse_launcher(build_name)} {calls} {errno_name} --"]
    for suite in suites:
        command += ["--suite", suite]
    if build_name == "valgrind":
        env.update(VALGRIND_ENV)
        command += valgrind_tests()
    # meson adds the wrapper's name.
    base = name + ("-refuse-ring" if is_refusal(rings) else "")
    records_path = os.path.join(folder_of(build_name), "meson-logs", base + ".json")
    if os.path.exists(records_path):
        os.remove(records_path)
    good, text = logged(name, command, env)
    records = []
    if os.path.exists(records_path):
        with open(records_path, encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines if line.strip()]
    return good, records, text


def count(record):
    """(tested, failed, skipped) of one meson test: by its own count, if it gives one."""
    good = record["result"] in GOOD
    found = RESULT.findall(record.get("stdout") or "")
    if found and record["result"] != "EXPECTEDFAIL":
        tested, failed, skipped = (int(number) for number in found[-1])
        if not good and record["result"] != "SKIP":
            failed = max(failed, 1)  # it ended badly after its count, say by a time-out
            tested = max(tested, failed)
        return tested, failed, skipped
    if record["result"] == "SKIP":
        return 0, 0, 1
    # Not run through run_test.py, so nobody looked yet for a report that left the exit code at 0.
    reported = REPORT.search((record.get("stdout") or "") + (record.get("stderr") or ""))
    return 1, 0 if good and not reported else 1, 0


def run_cell(cell, suites, extra_env=None, extra_arguments=(), passed=None):
    """Runs one cell and prints its line; returns (passed, failed, skipped). The names of tests that
    passed are added to `passed`."""
    label = " ".join(cell)
    if is_refusal(cell[1]) and not os.path.exists(refuse_launcher(cell[0])):
        say(f"{label:<36} FAILED: there is no refuse-ring launcher in this build")
        return 0, 1, 0
    started = time.monotonic()
    good, records, text = meson_test(cell, suites, extra_env or {}, list(extra_arguments))
    seconds = time.monotonic() - started
    counts = [count(record) for record in records]
    if passed is not None:
        passed.update(*(check_contract.passed_names(record) for record in records))
    tested, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    complaint = ""
    if tested == 0:
        complaint = "  NO TEST RAN"
        failed += 1
        tested += 1
    elif not good and failed == 0:
        complaint = "  meson test failed"
        failed += 1
        tested += 1
    skips = f", {skipped} skipped" if skipped else ""
    say(f"{label:<36} {tested} run, {failed} failed{skips}, {seconds:.1f} s{complaint}")
    for record, (_, bad, _) in zip(records, counts):
        if bad:
            say(f"  {record['name']}: {record['result']} (build/log/{name_of(cell)}.log)")
            say(indented((record.get("stdout") or "") + (record.get("stderr") or "")))
    if complaint:
        say(indented(text))
    return tested - failed, failed, skipped


def check_format():
    """One check outside the cells: the sources are formatted as ./dev fmt leaves them."""
    started = time.monotonic()
    good, text = logged("format", [sys.executable, os.path.join(ROOT, "tools", "lint.py"), "--format"])
    say(f"{'format':<36} {'ok' if good else 'FAILED'}, {time.monotonic() - started:.1f} s")
    if not good:
        say(indented(text))
    return (1, 0, 0) if good else (0, 1, 0)


def check_instructions():
    """One check outside the cells: no job and no call costs more than the baseline allows."""
    started = time.monotonic()
    program = "bench/instructions/bench-instructions"
    if not build("release", [program]):
        return (0, 1, 0)
    code, text = logged_code(
        "instructions",
        [sys.executable, os.path.join(ROOT, "bench", "tools", "run.py"), "--instructions",
         "--build", folder_of("release")])
    outcome = {0: "ok", NO_BASELINE: "left out: this compiler has no baseline"}.get(code, "FAILED")
    say(f"{'instructions per job and call':<36} {outcome}, {time.monotonic() - started:.1f} s")
    if outcome == "FAILED":
        say(indented(text))
    return {0: (1, 0, 0), NO_BASELINE: (0, 0, 1)}.get(code, (0, 1, 0))


def check_page(passed, whole, build_name):
    """One check outside the cells: what lanex-contract(7) names has passed, or at least exists."""
    page = check_contract.read(check_contract.PAGE)
    if whole:
        lines = check_contract.complaints(page, passed, "did not run and pass")
        how = "each test it names has passed"
    else:
        listed = subprocess.run(["meson", "test", "-C", folder_of(build_name), "--list"], check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
        known = check_contract.known_names(listed.splitlines())
        # Some suites are part of some builds only, as the simulated world is of gcc's.
        suites = {name.split("/")[0] for name in known}
        known |= {name for name in check_contract.named(page) if name.split("/")[0] not in suites}
        lines = check_contract.complaints(page, known, "is not there")
        how = "each test it names exists; whether all pass only the whole matrix tells"
    say(f"{'lanex-contract(7)':<36} {'FAILED' if lines else how}")
    for line in lines:
        say("  " + line)
    return (0, 1, 0) if lines else (1, 0, 0)


def run_matrix(cells, suites_of, extra_env=None, extra_arguments=(), passed=None):
    """Runs cells, building each configuration when its first cell comes."""
    totals = []
    built = {}
    seen = set()
    for cell in cells:
        name = cell[0]
        if name not in built:
            built[name] = build(name)
        if not built[name]:
            say(f"{' '.join(cell):<36} FAILED: not built")
            totals.append((0, 1, 0))
            continue
        suites = suites_of(name, name not in seen)
        seen.add(name)
        totals.append(run_cell(cell, suites, extra_env, extra_arguments, passed))
    return totals


def soak_simulation(seconds):
    """Seeds that nobody has seen for so long, for each set of users; then every planted bug."""
    folder = os.path.join(folder_of("gcc"), "tests", "sim")
    program = os.path.join(folder, "lanex-sim")
    if not os.path.exists(program):
        say("simulation: left out, it is built for x86-64 only")
        return (0, 0, 1)
    if not build("gcc", ["tests/sim/lanex-sim"]):
        return (0, 1, 0)
    passed = failed = 0
    users = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    commands = [(f"sim-{name}", [program, "--users", name, "--fresh", "--seconds", str(seconds)])
                for name in users.stdout.split()]
    plant = os.path.join(ROOT, "tests", "sim", "plant.py")
    commands.append(("sim-plant", [sys.executable, plant, folder_of("gcc")]))
    for name, command in commands:
        good, text = logged(name, command)
        passed, failed = passed + good, failed + (not good)
        say(f"{name:<36} {'ok' if good else 'FAILED'}")
        say(indented(text))
    return (passed, failed, 0)


def cell_named(name):
    """The cell of a name; any combination may be asked for, also one outside the matrix."""
    cell = tuple(name.rsplit("-", 2))
    builds = {known[0] for known in CELLS}
    if (len(cell) != 3 or cell[0] not in builds
            or not (cell[1] in ("ring", "poll") or is_refusal(cell[1]))
            or cell[2] not in ("seat", "scheduler")):
        sys.exit(f"no such cell: {name}; the matrix: {' '.join(name_of(cell) for cell in CELLS)}")
    return cell


def matrix_suites(build_name, first):
    if build_name == "valgrind":
        return ["unit"]
    return EVERYWHERE + (ONCE[build_name] if first else [])


def chosen_cells(arguments):
    cells = QUICK if arguments.quick else CELLS
    if arguments.cell:
        cells = [cell_named(name) for name in arguments.cell]
    refused = rings_refused()
    if refused:
        left_out = [name_of(cell) for cell in cells if cell[1] == "ring"]
        if left_out:
            say(f"io_uring_setup says {refused} here: left out: {', '.join(left_out)}")
        cells = [cell for cell in cells if cell[1] != "ring"]
    return cells


def main():
    parser = argparse.ArgumentParser(prog="./dev")
    parser.add_argument("mode", choices=["test", "soak"])
    parser.add_argument("--quick", action="store_true", help="only gcc, rings, seat")
    parser.add_argument("--cell", action="append", help="only this cell; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the cells and stop")
    parser.add_argument("--seconds", type=int, default=60, help="soak: per stress test")
    arguments = parser.parse_args()
    if arguments.list:
        for cell in CELLS:
            say(name_of(cell))
        return 0

    started = time.monotonic()
    if arguments.mode == "soak":
        say(f"soak: each stress test that can go on does so for {arguments.seconds} s")
        totals = run_matrix(
            SOAK, lambda build_name, first: ["stress"],
            {"LANEX_SOAK_SECONDS": str(arguments.seconds)},
            ["--timeout-multiplier", "0"],
        )
        totals.append(soak_simulation(arguments.seconds))
    else:
        cells = chosen_cells(arguments)
        say(f"matrix of {len(cells)} cells (build, rings, dispatch); logs are in build/log")
        totals = [] if arguments.cell else [check_format(), check_instructions()]
        ran = set()
        totals += run_matrix(cells, matrix_suites, passed=ran)
        if cells:
            totals.append(check_page(ran, cells == CELLS, cells[0][0]))
    passed, failed, skipped = (sum(column) for column in zip(*totals)) if totals else (0, 0, 0)
    say(f"all took {time.monotonic() - started:.0f} s; {skipped} tests were skipped for a reason given")
    say(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)

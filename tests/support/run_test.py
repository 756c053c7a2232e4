#!/usr/bin/env python3
"""Runs one test executable and believes its success only with proof.

A run fails if the executable fails, if no test ran, if fewer tests ran than --list shows, or if a
sanitizer wrote a report anywhere (a leak under AddressSanitizer is printed but exits 0, and
Criterion's children may write where nobody looks). With LANEX_TEST_VALGRIND set the executable, which
must be built with the shim, runs under valgrind, whose reports count likewise. Usage: run_test.py EXECUTABLE [ARGUMENT...]

The last line is for the summary: "lanex-result: tested=N failed=N skipped=N".
"""

import os
import re
import subprocess
import sys
import tempfile

SKIPPED_EXIT = 77  # meson's code for a skipped test
REPORT = re.compile(
    r"ERROR: AddressSanitizer|ERROR: LeakSanitizer|WARNING: ThreadSanitizer"
    r"|ThreadSanitizer: (?:CHECK failed|nested bug|data race|starting new threads)"
    r"|SUMMARY: (?:Address|Leak|Thread|UndefinedBehavior|Memory)Sanitizer"
    r"|:\d+:\d+: runtime error: |(?:Address|Thread|UndefinedBehavior|Leak)Sanitizer:DEADLYSIGNAL"
    r"|LeakSanitizer has encountered a fatal error"
)
# Possibly lost is what threads that are still there at exit have: their thread-local storage.
# fair-sched: else a thread that spins may keep valgrind's one lock from all others.
VALGRIND = ["valgrind", "-q", "--fair-sched=yes", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--error-exitcode=99"]
VALGRIND_NOTE = re.compile(r"^--\d+-- ")  # of system calls that it does not know, say
SYNTHESIS = re.compile(
    r"^\[====\] Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)",
    re.MULTILINE,
)
SKIP_LINE = re.compile(r"^\[SKIP\] (\S+?): (.*)$", re.MULTILINE)
LISTED = re.compile(r"^(?:├──|└──|\|--|`--) (\S+)( \(skipped\))?$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def environment(log_folder):
    """The caller's environment, with each sanitizer's reports going to files of its own."""
    env = dict(os.environ)
    settings = {
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
        "LSAN_OPTIONS": "",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1:history_size=4",
    }
    for name, value in settings.items():
        kind = name.split("_")[0].lower()
        path = os.path.join(log_folder, kind)
        parts = [value, env.get(name, ""), "log_path=" + path]
        env[name] = ":".join(part for part in parts if part)
    return env


def listed_tests(executable, env):
    """How many tests the executable says it has."""
    shown = subprocess.run(
        [executable, "--list"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, check=False,
    ).stdout.decode("utf-8", "replace")
    return sum(1 for line in shown.splitlines() if LISTED.match(COLOUR.sub("", line)))


def run_shown(command, env):
    """Runs a command and passes its output on line by line, so that a hang shows where it was."""
    kept = []
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for raw in process.stdout:
            line = COLOUR.sub("", raw.decode("utf-8", "replace"))
            sys.stdout.write(line)
            sys.stdout.flush()
            kept.append(line)
    return process.returncode, "".join(kept)


def sanitizer_reports(log_folder, output):
    """Every report: those in files in full, those in the output as the lines that show them."""
    reports = []
    for name in sorted(os.listdir(log_folder)):
        with open(os.path.join(log_folder, name), encoding="utf-8", errors="replace") as log:
            text = log.read()
        if name.startswith("valgrind"):
            text = "".join(line for line in text.splitlines(True) if not VALGRIND_NOTE.match(line))
        if text.strip():
            reports.append(text)
    reports += [line for line in output.splitlines() if REPORT.search(line)]
    return reports


def main(arguments):
    if not arguments:
        sys.stderr.write(__doc__)
        return 2
    executable = arguments[0]
    filtered = any(word.startswith("--filter") for word in arguments[1:])
    with tempfile.TemporaryDirectory(prefix="lanex-test-") as log_folder:
        env = environment(log_folder)
        expected = listed_tests(executable, env)
        # One test at a time: meson runs executables beside each other, and tests that load every
        # core, or wait with a bound, shall not also meet their own siblings.
        command = [executable, "--verbose", "-j1"] + arguments[1:]
        if env.get("LANEX_TEST_VALGRIND"):
            command = VALGRIND + [f"--log-file={log_folder}/valgrind.%p"] + command
        code, output = run_shown(command, env)
        reports = sanitizer_reports(log_folder, output)

    found = SYNTHESIS.findall(output)
    tested, failing = (int(found[-1][0]), int(found[-1][2])) if found else (0, 0)
    # With a filter, Criterion calls what it left out disabled.
    skips = [
        skip for skip in SKIP_LINE.findall(output) if not (filtered and skip[1] == "Test is disabled")
    ]

    complaints = []
    if not found:
        complaints.append("no closing line: the runner did not come to its end")
    if expected == 0:
        complaints.append("--list shows no test")
    if not filtered and tested + len(skips) < expected:
        complaints.append(f"{tested} tests ran and {len(skips)} skipped, --list shows {expected}")
    if filtered and tested + len(skips) == 0:
        complaints.append("the filter chose no test")
    if code < 0:
        complaints.append(f"ended by signal {-code}")
    elif code != 0:
        complaints.append(f"exit code {code}")
    if failing and code == 0:
        complaints.append(f"{failing} tests failed, yet the exit code is 0")
    if reports:
        complaints.append(f"{len(reports)} sanitizer reports")

    for report in reports:
        sys.stdout.write(report.rstrip("\n") + "\n")
    for complaint in complaints:
        print(f"run_test: {os.path.basename(executable)}: {complaint}")
    # A report or a lost test is a failure even when no test counts as failed.
    failed = max(failing, 1) if complaints else 0
    print(f"lanex-result: tested={max(tested, failed)} failed={failed} skipped={len(skips)}")
    if complaints:
        return 1
    return 0 if tested else SKIPPED_EXIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

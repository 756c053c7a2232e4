#!/usr/bin/env python3
"""Checks that run_test.py fails what must fail: check_verdicts.py RUN_TEST BAD_TESTS SANITIZERS.

A test tool that cannot fail proves nothing. SANITIZERS is meson's b_sanitize.
"""

import os
import re
import subprocess
import sys

ALWAYS = [
    "assertion", "assertion_with_text", "expectation", "crash", "no_signal", "hang", "required",
    "latch", "eventually",
]
BY_SANITIZER = {"address": "leak", "undefined": "overflow", "thread": "race"}
RESULT = re.compile(r"^lanex-result: tested=(\d+) failed=(\d+) skipped=(\d+)$", re.MULTILINE)


def verdict(command):
    """Exit code, (tested, failed, skipped) and the output of one run."""
    run = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    output = run.stdout.decode("utf-8", "replace")
    found = RESULT.findall(output)
    return run.returncode, tuple(int(n) for n in found[-1]) if found else None, output


def main(run_test, bad_tests, sanitizers):
    cases = [("bad/" + name, 1, (1, 1, 0)) for name in ALWAYS]
    cases += [
        ("bad/" + name, 1, (1, 1, 0)) for kind, name in BY_SANITIZER.items() if kind in sanitizers
    ]
    if os.environ.get("LANEX_TEST_VALGRIND"):
        cases += [("bad/leak", 1, (1, 1, 0)), ("bad/stale", 1, (1, 1, 0))]
    cases += [
        ("good/passes", 0, (1, 0, 0)),
        ("good/skips", 77, (0, 0, 1)),
        ("good/*", 0, (1, 0, 1)),
        ("no/such", 1, (1, 1, 0)),
    ]
    wrong = 0
    for pattern, code, counts in cases:
        got_code, got_counts, output = verdict([run_test, bad_tests, "--filter=" + pattern])
        if (got_code, got_counts) == (code, counts):
            print(f"ok {pattern}: exit {code}, {counts}")
            continue
        wrong += 1
        print(f"WRONG {pattern}: exit {got_code}, {got_counts}; expected exit {code}, {counts}")
        print(output)
    got_code, _, output = verdict([run_test, "/bin/true"])
    if got_code != 1:
        wrong += 1
        print(f"WRONG a program without tests: exit {got_code}\n{output}")
    failed = 1 if wrong else 0
    print(f"lanex-result: tested={len(cases) + 1} failed={wrong} skipped=0")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3]))

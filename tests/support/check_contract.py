#!/usr/bin/env python3
"""Holds man/lanex-contract.7 against the tests: each test that it names has run and passed.

Used by tools/matrix.py, which knows what ran: passed_names() reads that from meson's records, and
complaints() compares. Where only a part of the matrix ran, known_names() says what exists at all.
As a program it tests itself: what must be noticed is noticed.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "man", "lanex-contract.7")

# In the page's source; `\\:` is where a line may break.
NAMED = re.compile(r"\[([a-z0-9_-]+/[^\[\]]+)\]")
PASSED_TEST = re.compile(r"^\[PASS\] (\w+)::(\w+):", re.MULTILINE)
PASSED_MODEL = re.compile(r"^(?:verified|fails, as it must): (\S+)([^:]*):", re.MULTILINE)
PASSED_EXAMPLE = re.compile(r"^(test_\w+) \(.*\bok$", re.MULTILINE)
DEFINED_TEST = re.compile(r"^Test\((\w+),\s*(\w+)", re.MULTILINE)
DEFINED_EXAMPLE = re.compile(r"^    def (test_\w+)\(", re.MULTILINE)
DEFINED_MUTATION = re.compile(r"^#ifn?def (MUT_\w+)", re.MULTILINE)


def named(page):
    """The tests that the page names, each once, in order."""
    return list(dict.fromkeys(name.replace("\\:", "") for name in NAMED.findall(page)))


def passed_names(record):
    """What of one meson test has passed: itself, and the tests that its output tells of."""
    good = record["result"] == "OK"
    output = record.get("stdout") or ""
    names = {f"{suite}/{name}" for suite, name in PASSED_TEST.findall(output)}
    names |= {f"example/{name}" for name in PASSED_EXAMPLE.findall(output)}
    for model, rest in PASSED_MODEL.findall(output):
        mutation = re.search(r"MUT_\w+", rest)
        names.add(f"model/{model}.pml" + (f" {mutation.group()}" if mutation else ""))
    if good:
        # "project:suite / name", or only the name where it has no suite.
        suite, _, name = record["name"].rpartition(" / ")
        names.add(f"{suite.split(':')[-1]}/{name}")
    return names


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def known_names(meson_names):
    """What the sources define, and what meson lists ("project:suite / name")."""
    names = set()
    for name in meson_names:
        suite, _, test = name.rpartition(" / ")
        names.add(f"{suite.split(':')[-1]}/{test}")
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for file in files:
            path = os.path.join(folder, file)
            if file.endswith(".c"):
                names |= {f"{suite}/{name}" for suite, name in DEFINED_TEST.findall(read(path))}
            elif file.endswith(".py"):
                names |= {f"example/{name}" for name in DEFINED_EXAMPLE.findall(read(path))}
            elif file.endswith(".pml"):
                names.add(f"model/{file}")
                names |= {f"model/{file} {name}" for name in DEFINED_MUTATION.findall(read(path))}
    return names


def complaints(page, good, how):
    """One line for each name that is not good, and one if there is no name at all."""
    wanted = named(page)
    lines = [f"lanex-contract(7) names {name}, which {how}" for name in wanted if name not in good]
    return lines if wanted else ["lanex-contract(7) names no test"]


def self_test():
    page = "Held by [a/one],\n[b/\\:two], [model/m.pml \\:MUT_X], [example/test_e], [sim/s]."
    records = [
        {"name": "lanex:unit / u", "result": "OK", "stdout": "[PASS] a::one: (0.01s)\n"},
        {"name": "lanex:unit / v", "result": "FAIL",
         "stdout": "[PASS] b::two: (0.01s)\n[FAIL] b::three: (0.01s)\n[SKIP] b::four: no\n"},
        {"name": "lanex:model / models", "result": "OK",
         "stdout": "fails, as it must: m -DN=2 MUT_X: 5 states\nWRONG: m MUT_Y: 5 states\n"},
        {"name": "lanex:example / e", "result": "OK",
         "stdout": "test_e (__main__.Plain.test_e) ... ok\ntest_f (__main__.Plain.test_f) ... FAIL\n"},
        {"name": "lanex:sim / s", "result": "OK"},
        {"name": "lanex:sim / t", "result": "SKIP"},
    ]
    good = set().union(*(passed_names(record) for record in records))
    assert complaints(page, good, "did not pass") == [], complaints(page, good, "did not pass")
    for wrong in ("a/none", "b/three", "b/four", "model/m.pml MUT_Y", "example/test_f", "sim/t",
                  "unit/v"):
        found = complaints(page + f" [{wrong}]", good, "did not pass")
        assert len(found) == 1 and wrong in found[0], (wrong, found)
    assert complaints("nothing", good, "did not pass")
    # And of this tree: the page names tests, of which all but meson's own are in the sources.
    names = named(read(PAGE))
    assert len(names) > 50
    own = ("sim/", "replay/", "fuzz-smoke/")
    known = known_names([])
    missing = [name for name in names if name not in known and not name.startswith(own)]
    assert not missing, missing
    print(f"{len(names)} tests are named in lanex-contract(7)")


if __name__ == "__main__":
    self_test()
    sys.exit(0)

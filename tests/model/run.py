#!/usr/bin/env python3
"""Checks the models: each as it stands must verify, each with one mutation must fail.

What is not covered: machines weaker than x86. Models with a protocol of plain stores and loads have
store buffers (tso.pml), and a fence taken out of them must be missed; the others see every store at
once, as their words change by read-modify-write alone, or under a protocol that another model covers.
On ARM and POWER two loads, two stores, or a load and a later store may change places: there the
acquire and release orders of the C code matter, and nothing here checks those; nor is the compiler
checked.

A mutation is any `MUT_...` that a model tests with #ifdef; one is added to a model by writing it
there, and there is no way to list one without running it. A model verifies if the whole state space
was searched, to its full depth, without an error; a mutation fails if an assertion or a deadlock
was found, and nothing else counts. Needs spin and a C compiler; without them the test is skipped
(exit code 77).

    run.py           what the test suite runs, one or two minutes on two processors
    run.py --long    larger configurations too, some minutes
    run.py seat      one model only
"""

import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DEPTH = 1_000_000  # steps; reaching it is an error
MEMORY_MB = 3500  # of one search; reaching it is an error
SECONDS = 600  # of one step of one search
JOBS = 2

# The configurations in which each model must verify; mutations run in the first that finds them.
CONFIGS = {
    "seat": ["", "-DPUSHERS=3 -DEVENTS=2", "-DPUSH_BY_STORE"],
    "lying": ["", "-DWORKERS=2 -DEACH=1", "-DWORKERS=2 -DSUBMITTERS=1 -DEACH=3"],
    "port": ["", "-DPRODUCERS=3", "-DMAX=2"],
    "single_flight": ["", "-DDISTINCT", "-DCALLERS=2 -DFORGETS=1"],
    "cancel": ["", "-DINSTALL"],
    "destroy": [
        "",
        "-DBY_SCHEDULER",
        "-DSUBMITTERS=1 -DREQUESTER",
        "-DSUBMITTERS=1 -DBY_SCHEDULER -DCALLBACK",
    ],
    "doors": ["", "-DRINGERS=1 -DRINGS=4"],
    "recycle": ["", "-DSUBMITTERS=1 -DLIVES=3 -DOBJECTS=2", "-DLIVES=2"],
    "ring_sink": ["", "-DENDS -DJOBS=2", "-DOWNER_GOES -DENDS -DJOBS=2"],
    "slab": ["-DWARM", "-DCOUNTS -DWARM -DROUNDS=1", "-DUSERS=3 -DROUNDS=1"],
    "orphans": ["", "-DSHARED", "-DHOLDERS=3 -DSUBMITTERS=0"],
    "port_life": ["", "-DRING -DJOBS=2", "-DRING -DDELIVERIES=1"],
    "park": ["", "-DFIRST=3"],
    "wake": ["", "-DFIRST=2"],
    "watch": ["", "-DONE_PUSHER"],
    "epoch": [
        "",
        "-DNR=2 -DNW=1 -DROUNDS=2",
        "-DNR=1 -DNW=2 -DROUNDS=2 -DQUIT_R=0",
        "-DNR=1 -DNW=3 -DQUIT_R=0",
    ],
}
LONG = {
    "wake": ["-DWORKERS=3 -DFIRST=1", "-DWORKERS=3 -DFIRST=2", "-DWORKERS=3 -DFIRST=3"],
    "seat": ["-DPUSHERS=4 -DEVENTS=2"],
    "port": ["-DPRODUCERS=3 -DITEMS=3"],
    "recycle": ["-DOBJECTS=2"],
    "ring_sink": ["-DENDS", "-DOWNER_GOES"],
    "destroy": ["-DSUBMITTERS=3"],
    "single_flight": ["-DFORGETS=1"],
    "epoch": [
        "-DQUIT_W=2 -DQUIT_R=2",
        "-DNR=1 -DNW=3 -DQUIT_W=2",
        "-DNR=1 -DNW=2 -DROUNDS=3 -DQUIT_R=0",
        "-DNR=2 -DNW=1 -DROUNDS=5 -DQUIT_W=0 -DQUIT_R=0",
        "-DNR=3 -DNW=1 -DQUIT_R=2",
    ],
}
# Mutations that need a configuration of their own.
MUTATION_CONFIG = {
    ("destroy", "MUT_SCHEDULER_ENDS_WITH_THE_WORKERS"): "-DSUBMITTERS=1 -DBY_SCHEDULER -DCALLBACK",
    ("ring_sink", "MUT_REAPER_ENDS_BEFORE_THE_DELIVERIES"): "-DENDS -DJOBS=2",
    ("ring_sink", "MUT_NOTHING_DROPPED_AT_THE_END"): "-DENDS -DJOBS=2",
    ("slab", "MUT_COUNTED_ONE_AFTER_THE_OTHER"): "-DCOUNTS -DWARM -DROUNDS=1",
    ("slab", "MUT_LOOSE_NOT_COUNTED"): "-DCOUNTS -DWARM -DROUNDS=1",
    ("port_life", "MUT_BELL_FOR_LATER_COUNTED_TWICE"): "-DRING -DJOBS=2",
    ("port_life", "MUT_BELL_FOR_THE_REST_NOT_COUNTED"): "-DRING -DJOBS=2",
    ("cancel", "MUT_INSTALL_STARTS_CANCELLED"): "-DINSTALL",
    ("port", "MUT_CLEAR_AFTER_TAKE"): "-DMAX=4",
    ("wake", "MUT_NO_LOOK_AFTER_FAILED_CLAIM"): "-DWORKERS=3 -DFIRST=2",
    ("epoch", "MUT_HEIR_NOT_WOKEN"): "-DNR=1 -DNW=3 -DQUIT_R=0",
    ("seat", "MUT_NO_FENCE_IN_PUSHER"): "-DPUSH_BY_STORE",
    ("single_flight", "MUT_FORGET_SPARES_ABSENT"): "-DFORGETS=1 -DONE_FAILS",
}


def limit_memory():
    limit = (MEMORY_MB + 500) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def step(command, cwd):
    return subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        preexec_fn=limit_memory,
        check=False,
    )


def search(model, flags, compiler, level):
    """Runs one search; returns (text of the verifier, or None and why not)."""
    with tempfile.TemporaryDirectory(prefix="lanex-model-") as directory:
        for source in HERE.glob("*.pml"):
            shutil.copy(source, directory)
        made = step(["spin", "-a", *flags, model + ".pml"], directory)
        if made.returncode != 0 or not os.path.exists(os.path.join(directory, "pan.c")):
            return None, made.stdout.strip()
        made = step(
            [compiler, level, "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MB}", "-o", "pan", "pan.c"],
            directory,
        )
        if made.returncode != 0:
            return None, made.stdout.strip()
        return step(["./pan", f"-m{DEPTH}", "-w22"], directory).stdout, ""


def judge(text, must_fail):
    """(does it hold, states, what was found)"""
    states = re.search(r"^\s*(\d+) states, stored", text, re.M)
    errors = re.search(r"errors: (\d+)", text)
    found = re.search(r"^pan:\d+: (assertion violated|invalid end state).*$", text, re.M)
    count = int(states.group(1)) if states else 0
    if not states or not errors:
        return False, count, "no verdict: " + text.strip()[:300]
    if must_fail:
        return found is not None, count, found.group(0) if found else "found nothing"
    if found or errors.group(1) != "0" or count == 0:
        return False, count, found.group(0) if found else "errors"
    for bad in ("Search not completed", "depth too small", "reached -DMEMLIM", "Bit statespace"):
        if bad in text:
            return False, count, "search not whole: " + bad
    return True, count, "whole state space, no error"


def plan(models, long):
    for model in models:
        text = (HERE / (model + ".pml")).read_text(encoding="utf-8")
        mutations = sorted(set(re.findall(r"^#ifn?def (MUT_\w+)", text, re.M)))
        if not mutations:
            raise SystemExit(f"{model}: no mutation: a model that cannot fail shows nothing")
        for config in CONFIGS[model] + (LONG.get(model, []) if long else []):
            yield model, config, None
        for mutation in mutations:
            yield model, MUTATION_CONFIG.get((model, mutation), CONFIGS[model][0]), mutation


def run(item, compiler):
    model, config, mutation = item
    flags = config.split() + (["-D" + mutation] if mutation else [])
    start = time.monotonic()
    try:
        # Mutations are found soon, so that compiling takes longer than searching.
        text, why = search(model, flags, compiler, "-O0" if mutation else "-O1")
    except subprocess.TimeoutExpired:
        text, why = None, "took too long"
    good, states, found = (False, 0, why) if text is None else judge(text, mutation is not None)
    name = " ".join([model, *config.split(), *([mutation] if mutation else [])])
    verdict = ("fails, as it must" if mutation else "verified") if good else "WRONG"
    seconds = time.monotonic() - start
    print(f"{verdict}: {name}: {states} states, {seconds:.1f} s: {found}", flush=True)
    return good, states


def main():
    arguments = sys.argv[1:]
    long = "--long" in arguments
    models = [a for a in arguments if not a.startswith("-")] or sorted(CONFIGS)
    compiler = next((c for c in ("gcc", "cc", "clang") if shutil.which(c)), None)
    if not shutil.which("spin") or not compiler:
        print("skipped: spin and a C compiler are needed")
        return 77
    items = list(plan(models, long))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda item: run(item, compiler), items))
    passed = sum(1 for good, _ in results if good)
    failed = len(results) - passed
    print(f"{sum(states for _, states in results)} states in all")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())

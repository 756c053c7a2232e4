#!/usr/bin/env python3
"""The build configurations, one place for all: builds.py NAME [TARGET...] builds build/NAME.

Output goes to build/log and is shown only if a step fails.
"""

import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "log")
JOBS = os.cpu_count() or 2

# Name -> compiler and meson options. b_lundef: sanitizers leave symbols to the program.
SANITIZED = ["-Db_lundef=false", "-Dbench=false"]
BUILDS = {
    "gcc": ("gcc", []),
    "clang": ("clang", ["-Dbench=false"]),
    "address+undefined": ("clang", ["-Db_sanitize=address,undefined"] + SANITIZED),
    "thread": ("clang", ["-Db_sanitize=thread"] + SANITIZED),
    # Criterion starts each test by exec, which valgrind does not follow.
    "valgrind": ("gcc", ["-Dtest_shim=true", "-Dbench=false"]),
    "release": ("gcc", ["--buildtype=release", "-Dtests=false"]),
    # Counters that threads share; no bench, which would take the time for nothing. Not optimised:
    # else lines that were run count as missed.
    "coverage": ("gcc", ["-Db_coverage=true", "-Doptimization=0",
                         "-Dc_args=-fprofile-update=atomic", "-Dbench=false"]),
    "fuzz": ("clang", ["-Dfuzz=true", "-Db_sanitize=address,undefined"] + SANITIZED),
    "fuzz-coverage": (
        "clang",
        [
            "-Dfuzz=true",
            "-Dbench=false",
            "-Dc_args=-fprofile-instr-generate -fcoverage-mapping",
            "-Dc_link_args=-fprofile-instr-generate",
        ],
    ),
}

# Lines shown of a failing step or test; its log has all.
SHOWN_LINES = 80


def say(text):
    print(text, flush=True)


def folder_of(name):
    return os.path.join(ROOT, "build", name)


def indented(text, lines=SHOWN_LINES):
    """The end of a text, set off so that no line of it reads like one of ours."""
    kept = text.rstrip("\n").splitlines()[-lines:]
    return "\n".join("    | " + line for line in kept)


def logged(name, command, env=None):
    """Runs a command with its output in a log; returns success and the log's text."""
    code, text = logged_code(name, command, env)
    return code == 0, text


def logged_code(name, command, env=None):
    """The same, with the exit code."""
    os.makedirs(LOGS, exist_ok=True)
    path = os.path.join(LOGS, name + ".log")
    with open(path, "wb") as log:
        code = subprocess.call(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    with open(path, encoding="utf-8", errors="replace") as log:
        return code, log.read()


def set_up(name):
    """Configures a build folder, anew if it was made with other options; returns success."""
    compiler, options = BUILDS[name]
    folder = folder_of(name)
    stamp_path = os.path.join(folder, "lanex-options")
    stamp = " ".join([compiler] + options)
    if os.path.exists(os.path.join(folder, "build.ninja")):
        if os.path.exists(stamp_path):
            with open(stamp_path, encoding="utf-8") as file:
                if file.read() == stamp:
                    return True
        options = options + ["--wipe"]
    env = dict(os.environ, CC=compiler)
    good, text = logged(f"{name}-setup", ["meson", "setup", folder, ROOT] + options, env)
    if not good:
        say(f"build {name}: meson setup failed (build/log/{name}-setup.log)")
        say(indented(text))
        return False
    with open(stamp_path, "w", encoding="utf-8") as file:
        file.write(stamp)
    return True


def build(name, targets=()):
    """Builds one configuration and says how long it took; returns success."""
    started = time.monotonic()
    if not set_up(name):
        return False
    command = ["ninja", "-C", folder_of(name), "-j", str(JOBS)] + list(targets)
    good, text = logged(f"{name}-build", command)
    seconds = time.monotonic() - started
    if not good:
        say(f"build {name}: failed after {seconds:.0f} s (build/log/{name}-build.log)")
        say(indented(text))
        return False
    say(f"build {name}: done in {seconds:.0f} s")
    return True


if __name__ == "__main__":
    sys.exit(0 if build(sys.argv[1], sys.argv[2:]) else 1)

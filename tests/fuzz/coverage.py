#!/usr/bin/env python3
"""Lines and branches that the fuzz targets' corpora reach, of the files that each target is about.

Usage: coverage.py [TARGET...]

Runs what is in tests/fuzz/corpus and build/fuzz/corpus once through each target in build/fuzz-coverage
(tools/builds.py makes it), without fuzzing anew. A figure under its floor fails: a corpus that lost its
files, or a parser that grew a part that no input reaches.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "fuzz-coverage")

# Target -> files that it is about (folders end with a slash), and the least share of lines in percent.
# What is left of src/admission are the views, which look at the state from outside, and shutdown; of the
# snapshot's writer, disks that fail. Those have tests of their own (unit, sim, fault).
KV = "examples/kv/"
TARGETS = {
    "admission": (["src/admission/"], 80),
    "commands": ([KV + name for name in (
        "command_set.c", "command_table.c", "commands_read.c", "commands_write.c", "glob.c", "image.c",
        "reply.c")], 92),
    "resp": ([KV + "inline.c", KV + "resp.c"], 92),
    "snapshot": ([KV + "snapshot_read.c", KV + "snapshot_write.c"], 82),
}


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
    if done.returncode != 0:
        sys.exit("%s failed:\n%s" % (" ".join(command), done.stderr.decode("utf-8", "replace")[-2000:]))
    return done.stdout


def corpora(name):
    """The folders of inputs that there are, and how many inputs."""
    folders = [os.path.join(HERE, "corpus", name), os.path.join(ROOT, "build", "fuzz", "corpus", name)]
    folders = [folder for folder in folders if os.path.isdir(folder)]
    return folders, sum(len(os.listdir(folder)) for folder in folders)


def measure(name):
    """llvm-cov's figures, by file."""
    program = os.path.join(BUILD, "tests", "fuzz", "fuzz-" + name)
    raw, data = program + ".profraw", program + ".profdata"
    folders, count = corpora(name)
    if count == 0:
        sys.exit("fuzz target %s has no corpus" % name)
    run([program, "-runs=0", "-timeout=60"] + folders, env=dict(os.environ, LLVM_PROFILE_FILE=raw))
    run(["llvm-profdata", "merge", "-sparse", raw, "-o", data])
    report = json.loads(run(["llvm-cov", "export", "-summary-only", "-instr-profile", data, program]))
    files = {}
    for entry in report["data"][0]["files"]:
        path = os.path.relpath(os.path.realpath(os.path.join(BUILD, entry["filename"])), ROOT)
        if any(path.startswith(about) for about in TARGETS[name][0]):
            files[path] = entry["summary"]
    return files, count


def share(files, what):
    reached = sum(summary[what]["covered"] for summary in files.values())
    there = sum(summary[what]["count"] for summary in files.values())
    return 100.0 * reached / there if there else 0.0


def main(names):
    failed = False
    print("%-10s %6s %7s %8s %9s  %s" % ("target", "inputs", "lines", "regions", "branches", "of"))
    for name in names or sorted(TARGETS):
        if name not in TARGETS:
            sys.exit("no fuzz target named %s" % name)
        files, count = measure(name)
        about, floor = TARGETS[name]
        lines = share(files, "lines")
        print("%-10s %6d %6.1f%% %7.1f%% %8.1f%%  %s" % (
            name, count, lines, share(files, "regions"), share(files, "branches"), " ".join(about)))
        for path, summary in sorted(files.items()):
            print("    %-36s %6.1f%% %7.1f%% %8.1f%%" % (path, *(
                summary[what]["percent"] for what in ("lines", "regions", "branches"))))
        if lines < floor:
            failed = True
            print("    fewer lines than the %d%% that are to be reached" % floor)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

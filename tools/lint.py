#!/usr/bin/env python3
"""Static checks on the sources: what ./dev lint and ./dev fmt run.

lint.py            all checks (needs build/gcc and build/clang)
lint.py --format   only the format check
lint.py --fix      format the sources
lint.py CHECK...   only the named checks
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter

from builds import JOBS, ROOT, folder_of, indented, logged, say

SOURCE_FOLDERS = ("src", "include", "examples", "tests", "bench")
TEXT_SUFFIXES = (".c", ".h", ".py", ".sh", ".md", ".build", ".txt", ".map", ".pml", ".yml")
TEXT_NAMES = ("dev", "run", ".clang-format", ".clang-tidy")
LONG_LINES = 800  # a file of more lines is warned of,
TOO_LONG_LINES = 900  # and one of more than this fails
COLUMNS = 100  # what .clang-format says; it leaves some long lines alone
# The shared library's own dependencies; SPEC's embedding programs get nothing else.
ALLOWED_NEEDED = {"liburing.so.2", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def files(folders=None, suffixes=None):
    """The tree's files, without what was built or is git's."""
    found = []
    for folder in folders or [""]:
        for here, below, names in os.walk(os.path.join(ROOT, folder)):
            below[:] = sorted(name for name in below if name not in ("build", ".git", "__pycache__"))
            found += [os.path.join(here, name) for name in sorted(names)]
    if suffixes:
        found = [path for path in found if path.endswith(suffixes)]
    return found


def relative(path):
    return os.path.relpath(path, ROOT)


def run(command):
    """Success and output of a command."""
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )
    return done.returncode == 0, done.stdout.decode("utf-8", "replace")


def check_format():
    sources = files(SOURCE_FOLDERS, (".c", ".h"))
    good, text = run(["clang-format", "--dry-run", "-Werror"] + sources)
    if good:
        return True, ""
    places = Counter(re.findall(r"^(\S+?):\d+:\d+: error: ", text, re.MULTILINE))
    notes = [f"{relative(path)}: {count} places" for path, count in sorted(places.items())]
    return False, "\n".join((notes or [text]) + ["./dev fmt puts it right"])


def check_whitespace():
    wrong = []
    for path in files():
        if not (path.endswith(TEXT_SUFFIXES) or os.path.basename(path) in TEXT_NAMES):
            continue
        with open(path, "rb") as file:
            text = file.read()
        if text and not text.endswith(b"\n"):
            wrong.append(f"{relative(path)}: no newline at the end")
        for number, line in enumerate(text.split(b"\n"), 1):
            if line != line.rstrip():
                wrong.append(f"{relative(path)}:{number}: white space at the end of the line")
            if b"\t" in line:
                wrong.append(f"{relative(path)}:{number}: a tab")
    return not wrong, "\n".join(wrong)


def check_lengths():
    notes, good = [], True
    for path in files(suffixes=(".c", ".h", ".py")):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        if len(lines) > LONG_LINES:
            notes.append(f"{relative(path)}: {len(lines)} lines")
            good = good and len(lines) <= TOO_LONG_LINES
        if path.endswith((".c", ".h")):
            wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
            notes += [f"{relative(path)}:{number}: over {COLUMNS} columns" for number in wide]
            good = good and not wide
    return good, "\n".join(notes)


def check_headers():
    """Each public header alone, and all together, in each language that the headers promise."""
    headers = files(["include"], (".h",))
    wrong = [] if headers else ["no public header found"]
    languages = [
        ("gcc", "c", "c99"), ("gcc", "c", "c11"), ("g++", "c++", "c++17"),
        ("clang", "c", "c99"), ("clang", "c", "c11"), ("clang++", "c++", "c++17"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for header in headers:
            name = os.path.relpath(header, os.path.join(ROOT, "include"))
            for compiler, language, standard in languages:
                unit = os.path.join(folder, "alone.c" if language == "c" else "alone.cc")
                with open(unit, "w", encoding="utf-8") as file:
                    # Twice: the include guard holds. The declaration: no unit may be empty.
                    file.write(f"#include <{name}>\n#include <{name}>\nextern int lanex_alone;\n")
                good, text = run(
                    [compiler, f"-std={standard}", "-fsyntax-only"] + WARNINGS
                    + ["-I", os.path.join(ROOT, "include"), unit]
                )
                if not good:
                    errors = [line for line in text.splitlines() if "error" in line]
                    wrong.append(f"{name}, {compiler} -std={standard}: {(errors or [text])[0]}")
    return not wrong, "\n".join(wrong)


def check_symbols():
    """The shared library exports lanex_* alone, needs nothing unasked, and runs nothing at load."""
    folder = os.path.join(folder_of("gcc"), "src")
    library = os.path.join(folder, "liblanex.so")
    good, text = run(["nm", "-D", "--defined-only", library])
    if not good:
        return False, text
    names = [line.split()[-1].split("@")[0] for line in text.splitlines() if " A " not in line]
    wrong = [f"exported: {name}" for name in names if not name.startswith("lanex_")]
    if not any(name.startswith("lanex_") for name in names):
        wrong.append("no lanex_ symbol is exported")
    _, text = run(["readelf", "-d", library])
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    wrong += [f"needed: {name}" for name in needed if name not in ALLOWED_NEEDED]
    _, text = run(["readelf", "-SW", os.path.join(folder, "liblanex.a")])
    wrong += [f"constructor section: {name}" for name in re.findall(r"\.(?:init_array|ctors)\S*", text)]
    return not wrong, "\n".join(wrong)


def check_shell():
    return run(["shellcheck", "dev", ".ci/run"])


def check_cppcheck():
    folders = [name for name in SOURCE_FOLDERS if os.path.isdir(os.path.join(ROOT, name))]
    return run(
        # The filter: peers in bench are C++.
        ["cppcheck", "-q", f"-j{JOBS}", "--std=c11", "--language=c", "--inline-suppr",
         "--file-filter=*.c",
         "--enable=warning,performance,portability", "--error-exitcode=1",
         "--suppressions-list=tools/cppcheck-suppressions.txt",
         # The shim's macros are plain C; Criterion's are not to be had without its headers.
         "-DLX_TEST_SHIM", "-D_GNU_SOURCE", "-D__linux__", "-D__x86_64__",
         # Macros of headers that cppcheck is not given.
         "-DRB_PROTOTYPE(a,b,c,d)=", "-DRB_GENERATE(a,b,c,d)=",
         "-DRB_PROTOTYPE_STATIC(a,b,c,d)=", "-DRB_GENERATE_STATIC(a,b,c,d)=",
         "-DBENCH_LOCK(a,b,c,d,e,f,g)=",
         "-Djson_array_foreach(a,i,v)=while (next_item(a, &i, &v))",
         "-Djson_object_foreach(o,k,v)=while (next_member(o, &k, &v))",
         "-I.", "-Iinclude", "-Isrc", "-Itests/support"] + folders
    )


def check_tidy():
    """clang-tidy over what build/clang compiles; .clang-tidy says which checks and why."""
    good, text = logged(
        "tidy",
        ["run-clang-tidy", "-quiet", f"-j{JOBS}", "-p", folder_of("clang"),
         f"^{re.escape(ROOT)}/(src|examples|tests|bench)/"]
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = text.replace("build/clang/../../", "").replace(ROOT + "/", "").replace("../../", "")
    # A header's findings come once per file that includes it.
    found = sorted(set(re.findall(r"^\S+:\d+:\d+: (?:error|warning): .*", text, re.MULTILINE)))
    if not good and not found:
        return False, text
    return good, "\n".join(found + ["build/log/tidy.log has the paths that lead there"])


def analyze(path):
    """What gcc -fanalyzer says of one file: (file, line, text, option)."""
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fanalyzer", "-Iinclude", "-Isrc",
               "-Iexamples/kv", "-c", "-o", os.devnull, path]
    _, text = run(command)
    found = re.findall(r"^(\S+?):(\d+):\d+: warning: (.*) \[-W(analyzer-[a-z-]+)\]$", text, re.MULTILINE)
    return {(file, int(line), what, option) for file, line, what, option in found}


def check_analyzer():
    """gcc -fanalyzer; what it gets wrong is explained in tools/analyzer-exceptions.txt by the text
    of the line, and an explanation that nothing needs any more is an error."""
    explained = {}
    with open(os.path.join(ROOT, "tools", "analyzer-exceptions.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                file, option, text = (part.strip() for part in line.split(" | ", 2))
                explained[(file, option, text)] = False
    sources = [relative(path) for path in files(["src", "examples"], (".c",))]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        found = set().union(*pool.map(analyze, sources))
    complaints = []
    for file, number, what, option in sorted(found):
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            text = source.read().splitlines()[number - 1].strip()
        if (file, option, text) in explained:
            explained[(file, option, text)] = True
        else:
            complaints.append(f"{file}:{number}: {what} [{option}]")
    complaints += [f"explained, but not found: {' | '.join(key)}" for key, met in explained.items() if not met]
    return not complaints, "\n".join(complaints)


def check_manual():
    """The manual's pages give no warning."""
    complaints = ""
    for path in files(["man"], (".7",)):
        complaints += run(["groff", "-man", "-ww", "-z", "-Tutf8", path])[1]
    return not complaints.strip(), complaints


CHECKS = {
    "format": check_format,
    "whitespace": check_whitespace,
    "lengths": check_lengths,
    "headers": check_headers,
    "symbols": check_symbols,
    "shell": check_shell,
    "manual": check_manual,
    "cppcheck": check_cppcheck,
    "analyzer": check_analyzer,
    "tidy": check_tidy,
}


def main(arguments):
    if "--fix" in arguments:
        good, text = run(["clang-format", "-i"] + files(SOURCE_FOLDERS, (".c", ".h")))
        sys.stdout.write(text)
        return 0 if good else 1
    chosen = ["format"] if "--format" in arguments else arguments or list(CHECKS)
    unknown = [name for name in chosen if name not in CHECKS]
    if unknown:
        sys.exit(f"no such check: {', '.join(unknown)}; checks: {', '.join(CHECKS)}")
    failed = 0
    for name in chosen:
        started = time.monotonic()
        good, text = CHECKS[name]()
        failed += not good
        say(f"{name:<12} {'ok' if good else 'FAILED'}, {time.monotonic() - started:.1f} s")
        if text.strip() and (not good or name == "lengths"):
            say(indented(text, 200))
    say(f"lint: {len(chosen) - failed} checks passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

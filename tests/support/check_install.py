#!/usr/bin/env python3
"""Installs the build into a scratch folder and builds a program against what was installed, as a user would.

    check_install.py BUILD_FOLDER SOURCE_FOLDER CC
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """
#include <lanex/lanex.h>
#include <stdio.h>

static void body(lanex_job *job, void *context, void *arg)
{
    (void)context;
    lanex_job_respond(job, arg, NULL);
}

int main(void)
{
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ticket *ticket;
    lanex_job_options options = {.size = sizeof options, .run = body, .arg = &executor};

    if (lanex_executor_create(NULL, &executor) < 0 ||
        lanex_actor_register(executor, "key", 3, NULL, &actor) != 1 ||
        lanex_submit_ticket(actor, &options, &ticket) < 0 ||
        lanex_ticket_wait(ticket, LANEX_TIME_NEVER) < 0 ||
        lanex_completion_data(lanex_ticket_completion(ticket)) != &executor)
        return 1;
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    puts(lanex_version());
    return lanex_executor_destroy(executor) == 0 ? 0 : 2;
}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout.strip()


def main():
    build, source, compiler = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="lanex-install-") as scratch:
        run("meson", "install", "--no-rebuild", "-C", build, "--destdir", scratch)
        pc = next(pathlib.Path(scratch).rglob("lanex.pc"))
        headers = {h.name for h in (pathlib.Path(source) / "include/lanex").glob("*.h")}
        installed = {h.name for h in pathlib.Path(scratch).rglob("include/lanex/*.h")}
        if headers != installed:
            print("not installed:", sorted(headers - installed), "unknown:", sorted(installed - headers))
            return 1
        env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=scratch)
        flags = run("pkg-config", "--cflags", "--libs", "lanex", env=env).split()
        program = os.path.join(scratch, "program.c")
        pathlib.Path(program).write_text(PROGRAM, encoding="utf-8")
        run(compiler, "-std=c11", "-D_GNU_SOURCE", program, "-o", program + ".out", *flags)
        library = next(pathlib.Path(scratch).rglob("liblanex.so.0")).parent
        print("ran against the installed library, version", run(program + ".out", env=dict(os.environ, LD_LIBRARY_PATH=str(library))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

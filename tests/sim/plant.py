#!/usr/bin/env python3
"""Plants bugs in copies of lanex's sources, one at a time, and lets the simulated world find each.

A bug is a list of substitutions (file under src/, old text, new text); each old text must occur
exactly once, so that a bug does not silently stop being one when the source changes. The mutated
file is compiled with the options of the build, linked in place of its object, and seeds run until
one fails. A bug that no seed finds is a failure of the simulator.

    plant.py BUILD [--seconds S] [NAME ...]     BUILD: a gcc build folder with lanex-sim in it

Prints a table: bug, seed that found it, step, what was said. The program itself, without a bug,
must first pass some seeds. planted.txt has the table of one such run.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIRST_SEED = 1
RUNS = 60000
CLEAN_RUNS = 300

BUGS = {
    "seat-fence": [
        ("runtime/seat.c",
         "    atomic_store_explicit(&ex->seat, 0, memory_order_release);\n"
         "    /* Between leaving and the looks at inbox and armed_ns that follow. Partners: the push, and the\n"
         "     * fence in lx_scheduler_main. */\n"
         "    atomic_thread_fence(memory_order_seq_cst);\n",
         "    atomic_store_explicit(&ex->seat, 0, memory_order_release);\n"),
    ],
    "timer-fence": [
        ("runtime/scheduler.c",
         "        atomic_store_explicit(&ex->armed_ns, until, memory_order_relaxed);\n"
         "        atomic_thread_fence(memory_order_seq_cst);\n",
         "        atomic_store_explicit(&ex->armed_ns, until, memory_order_relaxed);\n"),
    ],
    "no-rearm": [
        ("ring/door.c", "    if (!d->armed) {\n", "    if (!d->armed && d->stalls > 5) {\n"),
    ],
    "untold-message": [
        ("ring/door.c",
         "    case LX_UD_MESSAGE:\n        d->told = true;\n",
         "    case LX_UD_MESSAGE:\n"),
    ],
    "permit-lost-in-panic": [
        ("admission/events.c",
         "    give_worker_back(adm, job);\n    give_lane_back(adm, job);\n"
         "    atomic_store_explicit(&job->state, LX_JOB_OVER, memory_order_relaxed);\n",
         "    give_worker_back(adm, job);\n    give_lane_back(adm, job);\n"
         "    if (panicked && job->lane == LANEX_LANE_HEAVY_INIT)\n        adm->free_permits--;\n"
         "    atomic_store_explicit(&job->state, LX_JOB_OVER, memory_order_relaxed);\n"),
    ],
    "reserve-off-by-one": [
        ("admission/rounds.c",
         "           adm->idle_workers > adm->config.interactive_reserve;",
         "           adm->idle_workers >= adm->config.interactive_reserve;"),
    ],
    "next-worker-not-woken": [
        ("runtime/worker.c",
         "        lx_wake_one(ex); /* the next one wakes the next */\n", "        (void)0;\n"),
    ],
    "told-cleared-late": [
        ("runtime/scheduler.c",
         "        told = atomic_exchange_explicit(&ex->scheduler_told, 0, memory_order_seq_cst) != 0;\n",
         "        told = atomic_load_explicit(&ex->scheduler_told, memory_order_seq_cst) != 0;\n"),
        ("runtime/scheduler.c",
         "            lx_seat_visit(ex, LX_SEAT_SCHEDULER);\n",
         "            lx_seat_visit(ex, LX_SEAT_SCHEDULER);\n"
         "        atomic_exchange_explicit(&ex->scheduler_told, 0, memory_order_seq_cst);\n"),
    ],
    "reaper-told-cleared-late": [
        ("runtime/reaper.c",
         "        atomic_exchange_explicit(&ex->reaper_told, 0, memory_order_seq_cst);\n", ""),
        ("runtime/reaper.c",
         "        if (atomic_load_explicit(&ex->reaper_told, memory_order_seq_cst) == 0)\n"
         "            lx_door_wait(&ex->reaper_door, until);\n",
         "        atomic_exchange_explicit(&ex->reaper_told, 0, memory_order_seq_cst);\n"
         "        lx_door_wait(&ex->reaper_door, until);\n"),
    ],
    "deferred-delivered-twice": [
        ("runtime/worker.c",
         "    if (deferred == NULL || lx_deferred_leave(deferred))\n",
         "    if (deferred == NULL || lx_deferred_leave(deferred) || !panicked)\n"),
    ],
    "context-released-early": [
        ("runtime/actor.c",
         "    if (actor->stage != LX_ACTOR_REMOVED || !lx_actor_is_idle(&actor->entry))\n",
         "    if (actor->stage != LX_ACTOR_REMOVED)\n"),
    ],
    "no-promotion": [
        ("admission/lane_rules.c",
         "           (plain != NULL && adm->now_ns - plain->since_ns >= promotion_ns(adm));",
         "           (plain != NULL && adm->now_ns - plain->since_ns >= 1000 * promotion_ns(adm));"),
    ],
    "youngest-list": [
        ("admission/queue.c",
         "        if (head != NULL && (oldest == NULL || head->arrival < oldest->arrival))\n",
         "        if (head != NULL && (oldest == NULL || head->arrival > oldest->arrival))\n"),
    ],
    "read-beside-writer": [
        ("admission/lane_rules.c",
         "    if (lx_actor_writes(actor))\n        return OBSTACLE_WRITER;\n",
         "    if (lx_actor_writes(actor) && lane != LANEX_LANE_PURE_READ)\n        return OBSTACLE_WRITER;\n"),
    ],
    "earlier-timer-untold": [
        ("runtime/seat.c",
         "        atomic_load_explicit(&ex->armed_ns, memory_order_relaxed))\n"
         "        lx_scheduler_tell(ex);\n",
         "        atomic_load_explicit(&ex->armed_ns, memory_order_relaxed))\n"
         "        (void)0;\n"),
    ],
    "watcher-leaves-the-queue": [
        ("runtime/spin.c",
         "    if (!lx_run_queue_empty(&ex->run_queue))\n        lx_wake_one(ex);\n",
         ""),
    ],
    "drainer-not-told": [
        ("runtime/seat.c",
         "        lx_futex_wake(&ex->quiet_word, LX_FUTEX_ALL);\n", ""),
    ],
    "reader-lines-up-silently": [
        ("sync/epoch.c",
         "            if (!held && !(n & LX_EPOCH_READERS))\n                wake_writer(e, n);\n",
         ""),
    ],
    "one-joiner-woken": [
        ("sync/single_flight.c",
         "        (void)lx_futex_wake(&e->event, LX_FUTEX_ALL);\n",
         "        (void)lx_futex_wake(&e->event, 1);\n"),
    ],
    "port-freed-while-told": [
        ("runtime/port.c",
         "        (int64_t)(atomic_load_explicit(&port->expected, memory_order_relaxed) - port->taken) -\n"
         "        LX_PORT_OPEN;\n",
         "        (int64_t)(atomic_load_explicit(&port->expected, memory_order_relaxed) - port->taken) -\n"
         "        LX_PORT_OPEN;\n"
         "    if (outstanding + LX_PORT_OPEN > 1)\n        outstanding--;\n"),
    ],
    "stranger-rung": [
        ("ring/send.c",
         "    int fd = lx_k_dup_cloexec(ring_fd);\n    if (fd < 0)\n",
         "    int fd = lx_k_dup_cloexec(ring_fd);\n    if (fd >= 0) {\n        lx_k_close(fd);\n"
         "        fd = ring_fd;\n    }\n    if (fd < 0)\n"),
        ("ring/send.c", "    lx_k_close(r->fd);\n", ""),
    ],
    "refused-message-dropped": [
        ("runtime/ring_sink.c", "    case -EOVERFLOW:\n", ""),
    ],
    "cqe-before-ticket": [
        ("runtime/ring_sink.c",
         "    lx_ticket_complete(job);\n"
         "    rc = lx_ring_post(ring, job->sink.user_data, -(int32_t)job->entry.status);\n",
         "    rc = lx_ring_post(ring, job->sink.user_data, -(int32_t)job->entry.status);\n"
         "    lx_ticket_complete(job);\n"),
    ],
    "retry-list-overwritten": [
        ("runtime/ring_sink.c",
         "    *last = take_waiting(ring);\n", "    ring->unposted = take_waiting(ring);\n"),
    ],
    "retry-flag-cleared-late": [
        ("runtime/ring_sink.c",
         "    atomic_store_explicit(&retry->flag, 0, memory_order_seq_cst);\n"
         "    rc = retry->post(retry);\n",
         "    rc = retry->post(retry);\n"
         "    atomic_store_explicit(&retry->flag, 0, memory_order_seq_cst);\n"),
    ],
    "full-drain-rings-nobody": [
        ("runtime/port.c",
         "        if (!ring_bell(port))\n            atomic_fetch_sub",
         "        if (true)\n            atomic_fetch_sub"),
    ],
    "detached-answer-kept": [
        ("runtime/port.c", "            lx_job_clear_response(job);\n", ""),
    ],
    "dropped-port-keeps-answers": [
        ("runtime/port.c", "        lanex_completion_release(lx_completion_of(job));\n", ""),
    ],
    "cancelled-job-kept": [
        ("runtime/request.c",
         "        lx_admission_cancel(&ex->admission, &job->entry);\n", ""),
    ],
}

# Which users find it, if not the basic ones.
USERS_OF = {
    "reader-lines-up-silently": "sync",
    "watcher-leaves-the-queue": "full",
    "one-joiner-woken": "sync",
    "port-freed-while-told": "edges",
    "stranger-rung": "rings",
    "refused-message-dropped": "rings",
    "cqe-before-ticket": "rings",
    "retry-list-overwritten": "rings",
    "retry-flag-cleared-late": "rings",
    "full-drain-rings-nobody": "rings",
    "detached-answer-kept": "rings",
    "dropped-port-keeps-answers": "rings",
}


def compile_commands(build):
    """Object path -> arguments, of what lanex-sim is made of."""
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    return {
        entry["output"]: (shlex.split(entry["command"]), build / entry["file"])
        for entry in entries
        if "liblanex-sim.a.p/" in entry["output"] or "lanex-sim.p/" in entry["output"]
    }


def mutate(texts, substitutions, name):
    """The changed text of each file."""
    changed = {}
    for path, old, new in substitutions:
        text = changed.get(path, texts(path))
        if text.count(old) != 1:
            sys.exit(f"plant.py: {name}: {text.count(old)} places in src/{path}, not one:\n{old}")
        changed[path] = text.replace(old, new)
    return changed


def link(build, commands, replaced, program):
    objects = [replaced.get(output, str(build / output)) for output in commands]
    # As the build links it, and nothing else: other programs wrap what this one must not.
    text = (build / "build.ninja").read_text(encoding="utf-8")
    rule = re.search(r"^build tests/sim/lanex-sim: .*\n(?: .*\n)*", text, re.MULTILINE)
    wraps = sorted(set(re.findall(r"-Wl,--wrap=\w+", rule.group(0))))
    command = ["gcc", "-o", program] + objects + wraps
    subprocess.run(command, check=True)


def plant(build, commands, substitutions, name, folder):
    """A lanex-sim with the bug."""
    def texts(path):
        return (ROOT / "src" / path).read_text(encoding="utf-8")

    replaced = {}
    for path, text in mutate(texts, substitutions, name).items():
        source = folder / path.replace("/", "-")
        source.write_text(text, encoding="utf-8")
        output = [o for o, (_, file) in commands.items()
                  if file.resolve() == (ROOT / "src" / path).resolve()]
        if len(output) != 1:
            sys.exit(f"plant.py: {path} is compiled {len(output)} times")
        arguments = list(commands[output[0]][0])
        target = str(folder / (source.name + ".o"))
        arguments[arguments.index("-o") + 1] = target
        arguments[arguments.index("-c") + 1] = str(source)
        # Includes beside the source, and what a change leaves unused.
        arguments += [f"-I{(ROOT / 'src' / path).parent}", "-Wno-error"]
        subprocess.run(arguments, check=True, cwd=build, stderr=subprocess.DEVNULL)
        replaced[output[0]] = target
    program = str(folder / "lanex-sim")
    link(build, commands, replaced, program)
    return program


FAILED = re.compile(r"seed (\d+) FAILED at step (\d+): (.*)")


def hunt(program, users, runs, seconds):
    """(seed, step, text) of the first failing seed, or None; and the program's last words."""
    command = [program, "--users", users, "--seed", str(FIRST_SEED), "--runs", str(runs),
               "--seconds", str(seconds), "--no-shrink"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = FAILED.search(done.stdout)
    if not found and done.returncode != 0:
        sys.exit(f"plant.py: {program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return found.groups() if found else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("bugs", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60, help="of one hunt, at most")
    parser.add_argument("--users", help="instead of those who are known to find it")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    unknown = set(arguments.bugs) - set(BUGS)
    if unknown:
        sys.exit(f"plant.py: no such bug: {' '.join(sorted(unknown))}")
    commands = compile_commands(build)
    for users in sorted({"basic", *USERS_OF.values()}):
        if hunt(str(build / "tests/sim/lanex-sim"), users, CLEAN_RUNS, 0):
            sys.exit("plant.py: a seed fails without any bug planted")
    missed = 0
    for name in arguments.bugs or BUGS:
        with tempfile.TemporaryDirectory(dir=build, prefix="plant-") as folder:
            program = plant(build, commands, BUGS[name], name, pathlib.Path(folder))
            users = arguments.users or USERS_OF.get(name, "basic")
            found = hunt(program, users, RUNS, arguments.seconds)
        if found:
            seed, step, text = found
            print(f"{name:<28} {users:<5} seed {seed:>6}  step {step:>8}  {text}", flush=True)
        else:
            missed += 1
            print(f"{name:<28} {users:<5} NOT FOUND", flush=True)
    count = len(arguments.bugs or BUGS)
    print(f"lanex-result: tested={count} failed={missed} skipped=0")
    return 1 if missed else 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main())

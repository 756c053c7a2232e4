#!/usr/bin/env python3
"""What must make lanex-replay fail does. Usage: check_replay.py LANEX_REPLAY GOOD_TRACE.gz

Every damaged copy of a good trace must give the exit code that belongs to it: a comparison that cannot
fail would be worth nothing.
"""

import copy
import gzip
import json
import os
import subprocess
import sys
import tempfile

DIFFERS, UNREADABLE = 1, 2


def first_step(scenario, found):
    """The first step for which found(step) holds."""
    return next((step for step in scenario["steps"] if found(step)), None)


def damaged(scenarios):
    """(name, exit code, scenarios) of each copy with one thing changed."""
    changes = {
        "a dispatch forgotten": (
            lambda s: s["expect"]["dispatched"],
            lambda s: s["expect"].update(dispatched=[]),
        ),
        "an order turned round": (
            lambda s: len(s["expect"]["dispatched"]) > 1,
            lambda s: s["expect"]["dispatched"].reverse(),
        ),
        "another code": (
            lambda s: s["do"] == "submit" and s["expect"]["settled"],
            lambda s: s["expect"]["settled"][0].update(code="ok"),
        ),
        "a drop forgotten": (
            lambda s: s["do"] == "remove" and s["expect"]["dropped"],
            lambda s: s["expect"]["dropped"].pop(),
        ),
        "another outcome": (
            lambda s: s["do"] == "cancel" and "quirk" not in s,
            lambda s: s["expect"].update(cancel_outcome="?"),
        ),
        "a seal turned round": (
            lambda s: s["do"] == "seal",
            lambda s: s["expect"].update(sealed=not s["expect"]["sealed"]),
        ),
        "another count": (
            lambda s: s["do"] == "cancel_queued_maintenance",
            lambda s: s["expect"].update(cancelled=99),
        ),
        "known actor": (
            lambda s: s["do"] == "register",
            lambda s: s["expect"].update(registered=False),
        ),
        "a panic answered less": (
            lambda s: s["do"] == "complete" and s["panicked"] and s["expect"]["settled"],
            lambda s: s["expect"]["settled"].pop(),
        ),
    }
    def snapshot(kind, found=lambda view: True):
        """Matches a snapshot step of the kind for whose view found(view) holds."""
        return lambda s: (
            s["do"] == "snapshot" and s["kind"] == kind and found(s["expect"]["snapshot"])
        )

    def in_view(change):
        """Changes the recorded view of a snapshot step."""
        return lambda s: change(s["expect"]["snapshot"])

    changes.update(
        {
            "an age off by one": (
                snapshot("liveness", lambda v: v["maintenance"]["oldest_age_ms"] is not None),
                in_view(lambda v: v["maintenance"].update(oldest_age_ms=-1)),
            ),
            "a count off": (
                snapshot("liveness"),
                in_view(lambda v: v["running"].update(interactive=9)),
            ),
            # The good trace compares no list of writers; a made-up one is as good.
            "writers made up": (
                snapshot("job_state"),
                lambda s: (s.update(kind="mutating"), s["expect"].update(snapshot=[{}])),
            ),
            "another label": (
                snapshot("job_state"),
                lambda s: s["expect"].update(snapshot="?"),
            ),
            "a reader forgotten": (
                snapshot("bind_blocker", lambda v: v["in_flight_readers"]),
                in_view(lambda v: v["in_flight_readers"].pop()),
            ),
            "a sentence cut": (
                snapshot("bind_blocker", lambda v: v["blockers"]),
                in_view(lambda v: v["blockers"].append(v["blockers"].pop()[:-1])),
            ),
        }
    )
    for name, (found, change) in changes.items():
        trace = copy.deepcopy(scenarios)
        step = next(filter(None, (first_step(scenario, found) for scenario in trace)))
        change(step)
        yield name, DIFFERS, trace
    trace = copy.deepcopy(scenarios)
    trace[0]["config"]["pool_size"] = 3
    yield "another size", DIFFERS, trace
    for name, part in [("a lane nobody knows", "lane"), ("a member missing", "id")]:
        trace = copy.deepcopy(scenarios)
        step = first_step(trace[0], lambda s: s["do"] == "submit")
        if part == "lane":
            step["lane"] = "fast"
        else:
            del step["id"]
        yield name, UNREADABLE, trace


def main(arguments):
    replay, good = arguments
    with gzip.open(good, "rt", encoding="utf-8") as file:
        scenarios = [json.loads(line) for line in file]
    with open(good, "rb") as file:
        packed = file.read()
    cases = [
        (name, code, "".join(json.dumps(scenario) + "\n" for scenario in trace).encode())
        for name, code, trace in damaged(scenarios)
    ]
    cases += [
        ("as it was", 0, packed),
        ("cut off", UNREADABLE, packed[:-100]),
        ("nothing in it", UNREADABLE, b""),
        ("blank lines", UNREADABLE, b"\n  \n"),
        ("no JSON", UNREADABLE, b"{\"name\": \n"),
        ("no scenario", UNREADABLE, b"[]\n"),
    ]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="lanex-replay-") as folder:
        path = os.path.join(folder, "trace")
        for name, code, content in cases:
            with open(path, "wb") as file:
                file.write(content)
            run = subprocess.run(
                [replay, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
            )
            said = (run.stdout + run.stderr).decode("utf-8", "replace")
            good_run = run.returncode == code and ("\n  expected " in said) == (code == DIFFERS)
            print(f"{'ok' if good_run else 'WRONG'}: {name}: exit code {run.returncode}")
            if not good_run:
                wrong += 1
                print(said)
        run = subprocess.run([replay, path + ".none"], stderr=subprocess.PIPE, check=False)
        wrong += run.returncode != UNREADABLE
    print(f"{len(cases) + 1} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

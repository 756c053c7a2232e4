#!/usr/bin/env python3
"""Measures lanex beside its peers: what ./dev bench runs.

run.py [--quick] [--rounds N] [--workers N] [--only STEP,..] [--out FOLDER] [--build FOLDER]
run.py --instructions [--write]     instructions per job and call (instructions.py)
run.py --render FOLDER              tables and plots anew, from the results in a folder

Writes results.json, results.md and plots into the folder: bench/results, or bench/results/quick
with --quick.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

import instructions
import plan
import report
from results import Results

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)


def say(text):
    print(f"bench: {text}", flush=True)


class Runner:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = os.path.join(arguments.build, "bench")
        self.cpus = len(os.sched_getaffinity(0))
        self.workers = arguments.workers or plan.workers_for(self.cpus)
        self.results = Results()
        self.missing = set()

    def program(self, system):
        path, more, package = plan.SYSTEMS[system]
        path = os.path.join(self.folder, path)
        if not os.path.exists(path):
            if system not in self.missing:
                self.missing.add(system)
                say(f"{system} is left out: it was not built"
                    + (f" ({package} is missing?)" if package else ""))
            return None
        return [path], more

    def run(self, step, system, round_number, command):
        """Runs a program and files its lines; a failure is told, and filed as one."""
        command = command + ["--json", "--reps", "1", "--workers", str(self.workers)]
        if self.arguments.quick:
            command.append("--quick")
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=plan.RUN_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            self.failed(step, system, f"no end within {plan.RUN_LIMIT_S} s")
            return
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["?"])[-1]
            self.failed(step, system, f"exit {done.returncode}: {last}")
            return
        for line in done.stdout.splitlines():
            self.results.add(step, round_number, json.loads(line))

    def failed(self, step, system, why):
        say(f"{step}: {system} failed: {why}")
        self.results.failures.append({"step": step, "system": system, "why": why})

    def step(self, step, round_number):
        systems = step.systems
        shift = round_number % len(systems)
        for system in systems[shift:] + systems[:shift]:
            found = self.program(system)
            if found is None:
                continue
            program, more = found
            self.run(step.name, system, round_number,
                     program + [step.workload] + more + step.arguments)
        if step.name == "W8":
            locks = os.path.join(self.folder, plan.LOCKS)
            for name in self.locks(round_number):
                self.run(step.name, name, round_number, [locks, "rwlock", "--variant", name])

    def locks(self, round_number):
        """Those that bounds name in each round, the others in the first."""
        if round_number == 0 and not self.arguments.quick:
            return plan.LOCK_NAMES
        return ["floor_cas_cas", "ck_rwlock", "ck_pflock"]

    def rounds(self):
        only = self.arguments.only.split(",") if self.arguments.only else None
        for round_number in range(self.arguments.rounds):
            started = time.monotonic()
            for step in plan.STEPS:
                if only and step.name not in only and step.name.split("-")[0] not in only:
                    continue
                if round_number > 0 and not step.every:
                    continue
                if self.arguments.quick and not step.quick:
                    continue
                self.step(step, round_number)
            say(f"round {round_number + 1} of {self.arguments.rounds}: "
                f"{time.monotonic() - started:.0f} s")

    def system_calls(self):
        """Counts the whole process's system calls of W1, in runs of their own."""
        jobs = 400000 if self.arguments.quick else 2000000
        for system in ["lanex", "ordered_pool", "plain_pool"]:
            found = self.program(system)
            if found is None:
                continue
            program, more = found
            command = program + ["flood", "--json", "--reps", "1", "--jobs", str(jobs),
                                 "--workers", str(self.workers)] + more
            counted = count_calls(command)
            if counted is None:
                say("system calls are not counted: neither perf nor strace can")
                return
            calls, how = counted
            self.results.add("W1-calls", 0, {
                "system": system, "workload": "flood", "metric": "system_calls_per_job",
                "value": calls / jobs, "unit": "1", "params": {"counted_by": how}})

    def scaling(self):
        counts = plan.scaling(self.cpus)
        if len(counts) < 2:
            say(f"{self.cpus} CPUs: no scaling by workers to show")
            return
        mine = self.workers
        for self.workers in counts:
            for step in [plan.Step("scaling-W1", "flood", plan.ALL),
                         plan.Step("scaling-W2", "mixed", plan.ALL)]:
                for round_number in range(3):
                    self.step(step, round_number)
        self.workers = mine

    def about(self):
        cpu = "unknown"
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
            if found:
                cpu = found.group(1)
        return {
            "date": datetime.date.today().isoformat(),
            "kernel": platform.release(), "machine": platform.machine(),
            "cpu": cpu, "cpus": self.cpus, "workers": self.workers,
            "rounds": self.arguments.rounds, "quick": self.arguments.quick,
            "compiler": compiler(self.arguments.build),
            "left_out": sorted(self.missing),
        }


def compiler(build):
    """The first line of what the compiler says of itself."""
    try:
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            command = json.load(file)[0]["command"].split()[0]
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0]
    except (OSError, ValueError, LookupError, subprocess.CalledProcessError):
        return "unknown compiler"


def count_calls(command):
    """(system calls of the process and its threads, by what) or None. perf counts at a tracepoint
    and costs each call little; strace stops the thread at each."""
    if shutil.which("perf"):
        done = subprocess.run(
            ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "--"] + command,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        found = re.search(r"^(\d+),[^\n]*raw_syscalls:sys_enter", done.stderr, re.MULTILINE)
        if done.returncode == 0 and found:
            return int(found.group(1)), "perf"
    if shutil.which("strace"):
        done = subprocess.run(["strace", "-f", "-c", "-U", "calls,name", "-o", "/dev/stderr"]
                              + command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        found = re.search(r"^\s*(\d+)\s+total", done.stderr, re.MULTILINE)
        if done.returncode == 0 and found:
            return int(found.group(1)), "strace"
    return None


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench", description="lanex beside its peers")
    parser.add_argument("--quick", action="store_true", help="less of everything: 3 minutes")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--workers", type=int, help="of each system (by the number of CPUs)")
    parser.add_argument("--only", help="steps, separated by commas: W1,W8")
    parser.add_argument("--out", help="where results go (bench/results)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="the build folder")
    parser.add_argument("--instructions", action="store_true",
                        help="instructions per job and call, by callgrind, beside the baseline")
    parser.add_argument("--write", action="store_true",
                        help="with --instructions: make this the baseline")
    parser.add_argument("--render", metavar="FOLDER", help="tables and plots of earlier results")
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = plan.ROUNDS_QUICK if arguments.quick else plan.ROUNDS
    if arguments.out is None:
        arguments.out = os.path.join(BENCH, "results", "quick" if arguments.quick else "")
    return arguments


def main():
    arguments = parse()
    if arguments.instructions:
        return instructions.main(arguments.build, arguments.write)
    if arguments.render:
        report.write(Results.load(arguments.render), arguments.render)
        return 0
    runner = Runner(arguments)
    say(f"{runner.cpus} CPUs, {runner.workers} workers, {arguments.rounds} rounds")
    runner.rounds()
    if not arguments.only or "W1" in arguments.only.split(","):
        runner.system_calls()
    if not arguments.quick and not arguments.only:
        runner.scaling()
    runner.results.about = runner.about()
    os.makedirs(arguments.out, exist_ok=True)
    runner.results.save(arguments.out)
    print(report.write(runner.results, arguments.out))
    say(f"results are in {os.path.relpath(arguments.out)}")
    return 1 if runner.results.failures else 0


if __name__ == "__main__":
    sys.exit(main())

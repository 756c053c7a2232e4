#!/usr/bin/env python3
"""Shows what lanes are for: reads go on while another client walks a million keys.

Starts lanex-kv, then redis-server, each on a free loopback port; loads the same keys; drives each
with redis-benchmark while another client runs KEYS * in a loop; and prints both side by side. What
it started it ends, also on Ctrl-C.
"""

import argparse
import csv
import ctypes
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KEYS = 1_000_000
PHASE_S = 5.0  # how long a measured run is meant to last
GROWTH_MAX = 20  # from one run to the next, longer one
LOOK_S = 0.5  # between two looks at a server
PLAIN_S = 2.0  # between two lines where there is no terminal
CONNECTIONS = 50
PIPELINE = 16
START_S = 30.0
PDEATHSIG = 1  # prctl option
GET_FACTOR, SET_MS, THROUGHPUT = 20, 10.0, 0.5  # what is meant to hold


class DemoError(Exception):
    """Said to the user without a traceback."""


def die_with_parent():
    """In a child: a parent that is killed takes it along."""
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)


class Children:
    """The processes that were started, to be ended whatever happens."""

    def __init__(self):
        self.running = []

    def start(self, command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=die_with_parent, **options)
        self.running.append(process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.running:
            self.running.remove(process)

    def end_all(self):
        for process in list(reversed(self.running)):
            self.end(process)


class Connection:
    """Just enough of the protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def line(self):
        while b"\r\n" not in self.buffer:
            data = self.socket.recv(1 << 16)
            if not data:
                raise DemoError("the server closed the connection")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def call(self, line):
        """An inline command with a plain or bulk answer."""
        self.socket.sendall(line.encode() + b"\r\n")
        answer = self.line()
        if answer[:1] == b"-":
            raise DemoError(answer.decode())
        if answer[:1] != b"$":
            return answer[1:].decode()
        length = int(answer[1:]) + 2
        while len(self.buffer) < length:
            self.buffer += self.socket.recv(1 << 16)
        data, self.buffer = self.buffer[: length - 2], self.buffer[length:]
        return data.decode()

    def info(self, section):
        facts = {}
        for line in self.call("INFO " + section).splitlines():
            name, colon, value = line.partition(":")
            if colon:
                facts[name] = value
        return facts


class KeysLoop(threading.Thread):
    """A client that asks for all keys, again and again."""

    def __init__(self, port, keys):
        super().__init__(daemon=True)
        self.connection = Connection(port)
        self.keys = keys
        self.seconds = []
        self.ending = False
        self.problem = None

    def run(self):
        try:
            while not self.ending:
                begin = time.monotonic()
                self.once()
                self.seconds.append(time.monotonic() - begin)
        except (OSError, DemoError) as error:
            if not self.ending:
                self.problem = error

    def once(self):
        # The answer to PING tells where the one to KEYS ends, without a look at each key.
        self.connection.socket.sendall(b"KEYS *\r\nPING\r\n")
        head, tail = b"", b""
        while not tail.endswith(b"+PONG\r\n"):
            data = self.connection.socket.recv(1 << 20)
            if not data:
                raise DemoError("the server closed the connection of KEYS")
            if not head:
                head = data[:32]
            tail = (tail + data[-16:])[-16:]
        count = int(head[1 : head.index(b"\r\n")])
        if count != self.keys:
            raise DemoError("KEYS * gave %d keys of %d" % (count, self.keys))

    def stop(self):
        self.ending = True
        self.join(20)
        self.connection.close()
        if self.problem:
            raise DemoError("KEYS loop: %s" % self.problem)


class Screen:
    """A live table on a terminal; now and then a line elsewhere."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.drawn = 0
        self.last_plain = 0.0

    def say(self, text):
        self.clear()
        print(text, flush=True)

    def clear(self):
        if self.drawn:
            sys.stdout.write("\x1b[%dA\x1b[J" % self.drawn)
            sys.stdout.flush()
            self.drawn = 0

    def show(self, title, rows, plain):
        if self.live:
            self.clear()
            lines = ["  " + title] + ["  " + row for row in rows]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            self.drawn = len(lines)
        elif time.monotonic() - self.last_plain >= PLAIN_S:
            self.last_plain = time.monotonic()
            print("  %s: %s" % (title, plain), flush=True)


def milliseconds(ns):
    return "%.2f" % (int(ns) / 1e6)


class Watch:
    """Looks at a server every so often and shows what it does."""

    LANES = ("pure_read", "mutating", "serial_status", "heavy_init", "maintenance")

    def __init__(self, port, name, screen, has_lanes):
        self.connection = Connection(port)
        self.name = name
        self.screen = screen
        self.has_lanes = has_lanes
        self.before = None
        self.at = 0.0
        self.next_look = 0.0

    def look(self, phase, loop):
        now = time.monotonic()
        if now < self.next_look:
            return
        title = "%s, %s" % (self.name, phase)
        keys = "KEYS * done %d times" % len(loop.seconds) if loop else "no KEYS *"
        if self.has_lanes:
            self.look_at_lanes(title, keys)
        else:
            self.look_at_commands(title, keys)
        # Not `now`: a server that is slow to answer is not asked the more for it.
        self.next_look = time.monotonic() + LOOK_S

    def look_at_lanes(self, title, keys):
        facts = self.connection.info("lanex")
        self.connection.call("CONFIG RESETSTAT")
        self.connection.call("INFO server")  # for the lane of INFO itself: the first was reset too
        now = time.monotonic()
        lanes = {}
        for lane in self.LANES:
            fields = dict(part.split("=") for part in facts["lane_" + lane].split(","))
            lanes[lane] = {name: int(value) for name, value in fields.items()}
        if self.before:
            self.show_lanes(title, keys, lanes, now - self.at)
        self.before, self.at = lanes, now

    def show_lanes(self, title, keys, lanes, passed):
        rows = ["%-14s %11s %9s %9s %9s %7s %7s" %
                ("lane", "commands/s", "jobs/s", "p50 ms", "p99 ms", "queued", "running")]
        plain = []
        for lane, now in lanes.items():
            before = self.before[lane]
            rate = (now["commands"] - before["commands"]) / passed
            jobs = (now["jobs"] - before["jobs"]) / passed
            rows.append("%-14s %11.0f %9.0f %9s %9s %7d %7d" %
                        (lane, rate, jobs, milliseconds(now["p50_ns"]),
                         milliseconds(now["p99_ns"]), now["queued"], now["running"]))
            if jobs:
                plain.append("%s %.0f/s p50 %s p99 %s ms queued %d running %d" %
                             (lane, rate, milliseconds(now["p50_ns"]),
                              milliseconds(now["p99_ns"]), now["queued"], now["running"]))
        rows.append(keys)
        self.screen.show(title, rows, "; ".join(plain + [keys]))

    def look_at_commands(self, title, keys):
        facts = self.connection.info("stats")
        now, done = time.monotonic(), int(facts["total_commands_processed"])
        if self.before is not None:
            text = "%.0f commands/s, %s" % ((done - self.before) / (now - self.at), keys)
            self.screen.show(title, [text], text)
        self.before, self.at = done, now

    def close(self):
        self.screen.clear()
        self.connection.close()


class Run:
    """One server from start to end, and its figures."""

    def __init__(self, name, command, has_lanes, children, screen, keys):
        self.name = name
        self.children = children
        self.screen = screen
        self.keys = keys
        self.figures = {}
        self.port = free_port()
        self.output = tempfile.TemporaryFile()
        screen.say("%s: starting on 127.0.0.1:%d" % (name, self.port))
        self.process = children.start(command(self.port), stdout=self.output,
                                      stderr=subprocess.STDOUT)
        self.wait_until_ready()
        self.watch = Watch(self.port, name, screen, has_lanes)

    def wait_until_ready(self):
        until = time.monotonic() + START_S
        while True:
            try:
                connection = Connection(self.port)
                connection.call("PING")
                connection.close()
                return
            except (OSError, DemoError):
                if self.process.poll() is not None or time.monotonic() > until:
                    self.output.seek(0)
                    raise DemoError("%s does not start:\n%s" % (
                        self.name, self.output.read().decode("utf-8", "replace")))
                time.sleep(0.02)

    def load(self):
        begin = time.monotonic()
        connection = Connection(self.port)
        step = 1000
        value = b"$3\r\nxxx\r\n"
        head = b"*%d\r\n$4\r\nMSET\r\n" % (2 * step + 1)
        waiting = 0
        for first in range(0, self.keys, step):
            count = min(step, self.keys - first)
            if count != step:
                head = b"*%d\r\n$4\r\nMSET\r\n" % (2 * count + 1)
            connection.socket.sendall(head + b"".join(
                b"$16\r\nkey:%012d\r\n%s" % (number, value)
                for number in range(first, first + count)))
            waiting += 1
            if waiting > 32:
                connection.line()
                waiting -= 1
        for _ in range(waiting):
            connection.line()
        found = int(connection.call("DBSIZE"))
        connection.close()
        if found != self.keys:
            raise DemoError("%s holds %d keys, not %d" % (self.name, found, self.keys))
        self.screen.say("%s: %d keys loaded in %.1f s" %
                        (self.name, found, time.monotonic() - begin))

    def benchmark(self, phase, loop, *options, requests=None):
        """redis-benchmark to its end; its figures by name."""
        command = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "--csv", "-r",
                   str(self.keys), *options, "-n", str(requests)]
        process = self.children.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            self.watch.look(phase, loop)
            self.check(loop)
            time.sleep(0.02)
        text = process.stdout.read().decode()
        process.stdout.close()
        self.children.end(process)
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        if process.returncode != 0 or len(rows) < 2:
            raise DemoError("redis-benchmark failed: %s" % text)
        return dict(zip(rows[0], rows[-1]))

    def check(self, loop):
        if self.process.poll() is not None:
            raise DemoError("%s ended" % self.name)
        if loop and loop.problem:
            raise DemoError("KEYS loop: %s" % loop.problem)

    def timed(self, phase, loop, *options, sample):
        """
        A benchmark that lasts about PHASE_S. How many requests that are, shorter runs before it
        tell: a server may do thousands a second, or a few.
        """
        requests = sample
        while True:
            begin = time.monotonic()
            figures = self.benchmark(phase, loop, *options, requests=requests)
            passed = max(time.monotonic() - begin, 0.05)
            if passed >= PHASE_S / 2:
                return figures
            requests = int(requests * min(PHASE_S / passed, GROWTH_MAX)) + 1

    def measure(self):
        clients = ["-c", str(CONNECTIONS)]
        quiet = self.timed("GET, pipeline %d" % PIPELINE, None, "-t", "get", *clients, "-P",
                           str(PIPELINE), sample=100_000)
        self.figures["throughput"] = float(quiet["rps"])
        loop = KeysLoop(self.port, self.keys)
        loop.start()
        try:
            while not loop.seconds and loop.is_alive():
                time.sleep(0.01)
            busy = self.timed("GET beside KEYS *", loop, "-t", "get", *clients, sample=500)
            self.figures["get"] = busy
            readers = self.children.start(
                ["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", "get", "-r",
                 str(self.keys), "-q", "-l", *clients],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for_rate()
            self.figures["set"] = self.timed("SET beside KEYS * and %d GET" % CONNECTIONS, loop,
                                             "-t", "set", "-c", "1", sample=20)
            self.children.end(readers)
        finally:
            loop.stop()
        self.figures["keys"] = sorted(loop.seconds)

    def wait_for_rate(self):
        """Until the readers in the background are under way."""
        probe = Connection(self.port)
        start = int(probe.info("stats")["total_commands_processed"])
        while int(probe.info("stats")["total_commands_processed"]) < start + CONNECTIONS * 4:
            time.sleep(0.01)
        probe.close()

    def end(self):
        self.watch.close()
        self.children.end(self.process)
        self.output.close()
        self.screen.say("%s: measured" % self.name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_path():
    build = os.environ.get("LANEX_BUILD")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(build or os.path.join(root, "build", "release"), "examples", "kv",
                        "lanex-kv")
    if not os.access(path, os.X_OK):
        raise DemoError("%s is not built" % path)
    return path


def commands():
    def ours(port):
        return [server_path(), "--port", str(port)]

    def theirs(port):
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no"]

    return {"lanex-kv": (ours, True), "redis-server": (theirs, False)}


def summary(figures):
    names = list(figures)
    rows = [
        ("GET/s, pipeline 16, quiet", lambda f: "%.0f" % f["throughput"]),
        ("beside KEYS * in a loop:", lambda f: ""),
        ("  GET/s, %d connections" % CONNECTIONS, lambda f: "%.0f" % float(f["get"]["rps"])),
        ("  GET p50 ms", lambda f: f["get"]["p50_latency_ms"]),
        ("  GET p99 ms", lambda f: f["get"]["p99_latency_ms"]),
        ("  SET p50 ms, beside the GETs", lambda f: f["set"]["p50_latency_ms"]),
        ("  SET p99 ms, beside the GETs", lambda f: f["set"]["p99_latency_ms"]),
        ("  KEYS * median s", lambda f: "%.2f" % f["keys"][len(f["keys"]) // 2]),
        ("  KEYS * times", lambda f: "%d" % len(f["keys"])),
    ]
    print("\n%-34s" % "" + "".join("%14s" % name for name in names))
    for title, value in rows:
        print("%-34s" % title + "".join("%14s" % value(figures[name]) for name in names))


def verdicts(ours, theirs):
    get_ours, get_theirs = (float(f["get"]["p99_latency_ms"]) for f in (ours, theirs))
    set_ours = float(ours["set"]["p99_latency_ms"])
    share = ours["throughput"] / theirs["throughput"]
    held = [
        (get_ours * GET_FACTOR <= get_theirs, "GET p99 beside KEYS * is 1/%.0f of redis-server's "
         "(meant: at most 1/%d)" % (get_theirs / max(get_ours, 0.001), GET_FACTOR)),
        (set_ours <= SET_MS, "SET p99 is %.2f ms (meant: at most %.0f)" % (set_ours, SET_MS)),
        (share >= THROUGHPUT, "GET throughput is %.2f of redis-server's (meant: at least %.1f)" %
         (share, THROUGHPUT)),
    ]
    print()
    for holds, text in held:
        print("%s  %s" % ("holds     " if holds else "DOES NOT  ", text))


def interrupted(number, frame):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=KEYS, help="keys to load (%d)" % KEYS)
    parser.add_argument("--only", choices=("lanex-kv", "redis-server"), help="measure one alone")
    options = parser.parse_args()
    for tool in ("redis-benchmark", "redis-server"):
        if not shutil.which(tool) and not (tool == "redis-server" and options.only == "lanex-kv"):
            raise DemoError("%s is missing (Debian's redis-tools)" % tool)
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    children, screen, figures = Children(), Screen(), {}
    try:
        for name, (command, has_lanes) in commands().items():
            if options.only not in (None, name):
                continue
            run = Run(name, command, has_lanes, children, screen, options.keys)
            run.load()
            run.measure()
            run.end()
            figures[name] = run.figures
    finally:
        screen.clear()
        children.end_all()
    summary(figures)
    if len(figures) == 2:
        verdicts(figures["lanex-kv"], figures["redis-server"])


if __name__ == "__main__":
    try:
        main()
    except DemoError as problem:
        sys.exit("demo: %s" % problem)
    except KeyboardInterrupt:
        sys.exit("demo: interrupted; what it had started is ended")

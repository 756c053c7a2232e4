"""What the tests of the example server share: a client of the protocol, and the server's life."""

import ctypes
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from run_test import REPORT  # pylint: disable=wrong-import-position

IO_URING_SETUP = 425  # the system call
TCP_REPAIR = 19  # linux/tcp.h
LIVENESS_S = 60  # a bound on hangs, no measure of speed
READY = re.compile(r"ready on (\S+):(\d+) with (\d+) workers")


def cell_options():
    """What the matrix cell asks of the executor."""
    return ["--backend", os.environ.get("LANEX_TEST_BACKEND") or "auto",
            "--dispatch", os.environ.get("LANEX_TEST_DISPATCH") or "seat"]


class ServerError(Exception):
    """An error answer."""


class Closed(Exception):
    """The server ended the connection."""


def encode(*words):
    """A request as a multibulk."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Client:
    """One connection."""

    def __init__(self, port, timeout=LIVENESS_S, receive_buffer=0):
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""  # buffer[at:] is not used up
        self.at = 0

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Breaks off: not an end of what is sent, after which answers may still be waited for."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def vanish(self):
        """As if its machine had gone: the server is told nothing. Raises PermissionError."""
        self.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        self.close()

    def end_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError as error:
            raise Closed("reset") from error
        if not data:
            raise Closed("end")
        self.buffer = self.buffer[self.at :] + data
        self.at = 0

    def line(self):
        while True:
            end = self.buffer.find(b"\r\n", self.at)
            if end >= 0:
                line = self.buffer[self.at : end]
                self.at = end + 2
                return line
            self._more()

    def exactly(self, count):
        parts, have = [], 0
        while True:
            part = self.buffer[self.at : self.at + count - have]
            self.at += len(part)
            have += len(part)
            parts.append(part)
            if have == count:
                return b"".join(parts)
            self._more()

    def answer(self):
        """One answer; errors come as ServerError objects, so that pipelines can hold them."""
        line = self.line()
        mark, rest = line[:1], line[1:]
        if mark == b"+":
            return rest.decode()
        if mark == b"-":
            return ServerError(rest.decode())
        if mark == b":":
            return int(rest)
        if mark == b"$":
            length = int(rest)
            if length < 0:
                return None
            data = self.exactly(length + 2)
            assert data.endswith(b"\r\n"), data[-10:]
            return data[:-2]
        assert mark == b"*", line
        return [self.answer() for _ in range(int(rest))]

    def call(self, *words):
        self.send(encode(*words))
        answer = self.answer()
        if isinstance(answer, ServerError):
            raise answer
        return answer

    def refused(self, *words):
        """The text of the error that the request gives."""
        self.send(encode(*words))
        answer = self.answer()
        assert isinstance(answer, ServerError), answer
        return str(answer)

    def at_end(self):
        """True if the server has closed, and nothing is left to read."""
        try:
            self._more()
        except Closed:
            return True
        return False

    def info(self, section="all"):
        """INFO as a dictionary; lanes as dictionaries of numbers."""
        facts = {}
        for line in self.call("INFO", section).decode().splitlines():
            if ":" not in line:
                continue
            name, value = line.split(":", 1)
            if "=" in value:
                facts[name] = dict(part.split("=") for part in value.split(","))
            else:
                facts[name] = value
        return facts


class Server:
    """A server on a free port; ends it when left, and shows what it said if that fails."""

    def __init__(self, program, *options, descriptors=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "--port", "0", *cell_options(), *options],
            stdout=subprocess.PIPE, stderr=self.output, stdin=subprocess.DEVNULL,
            preexec_fn=limit if descriptors else None,
        )
        line = self._ready_line()
        match = READY.search(line)
        if not match:
            self.process.wait(LIVENESS_S)
            raise RuntimeError("no ready line: %r %s" % (line, self.said()))
        self.port = int(match.group(2))
        self.workers = int(match.group(3))

    def _ready_line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], LIVENESS_S)
        if not ready:
            self.process.kill()
            raise RuntimeError("the server does not get ready")
        return self.process.stdout.readline().decode()

    def said(self):
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace")

    def client(self, **options):
        return Client(self.port, **options)

    def alive(self):
        return self.process.poll() is None

    def wait(self):
        return self.process.wait(LIVENESS_S)

    def stop(self, number=signal.SIGTERM):
        """Asks it to end; its exit code."""
        if self.alive():
            self.process.send_signal(number)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            code = self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "killed: it did not end"
        said = self.said()
        self.process.stdout.close()
        self.output.close()
        if said:
            print(said)
        if REPORT.search(said):
            raise AssertionError("a sanitizer has found something")
        if kind is None and code != 0:
            raise AssertionError("the server ended with %s\n%s" % (code, said))


def memory_kib(pid):
    """Resident memory of a process."""
    with open("/proc/%d/status" % pid, encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def descriptors_of(pid):
    """How many descriptors a process has open."""
    return len(os.listdir("/proc/%d/fd" % pid))


def eventually(condition, what):
    """Looks until it holds; a hang is an error."""
    until = time.monotonic() + LIVENESS_S
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("still not so: " + what)
        time.sleep(0.002)


def seed():
    number = int(os.environ.get("LANEX_TEST_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
    print("seed %d (again with LANEX_TEST_SEED=%d)" % (number, number), flush=True)
    return number


def first_start(program):
    """A start that ends at once: by an address that is nobody's, or before that."""
    return subprocess.run([program, "--bind", "192.0.2.1", *cell_options()], timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def rings_are_refused(program):
    """
    As the server says; but where the cell is not about refusals and the kernel makes a ring, that
    is not believed.
    """
    libc = ctypes.CDLL(None)
    descriptor = libc.syscall(IO_URING_SETUP, 2, ctypes.create_string_buffer(120))
    if descriptor >= 0:
        os.close(descriptor)
        if os.environ.get("LANEX_TEST_BACKEND") in ("ring", "poll"):
            return False
    return b"needs io_uring" in first_start(program).stderr

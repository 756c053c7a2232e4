#!/usr/bin/env python3
"""The example server from outside: what clients see, and what they cannot break.

Usage: test_kv.py PROGRAM [CLASS.TEST...]
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from kv_client import (
    LIVENESS_S, Server, ServerError, cell_options, descriptors_of, encode, eventually, first_start,
    memory_kib, rings_are_refused, seed)

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""


class Plain(unittest.TestCase):
    """Against one server with default options."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.client = self.server.client()
        self.client.call("FLUSHDB")

    def tearDown(self):
        self.client.close()
        self.assertTrue(self.server.alive())

    def test_commands_of_the_connection(self):
        call, refused = self.client.call, self.client.refused
        self.assertEqual(call("PING"), "PONG")
        self.assertEqual(call("ping", "hello"), b"hello")
        self.assertEqual(call("ECHO", b"a\r\nb\0"), b"a\r\nb\0")
        self.assertIn("NOPROTO", refused("HELLO", "3"))
        self.assertEqual(call("HELLO", "2")[4:6], [b"proto", 2])
        self.assertEqual(call("HELLO")[0], b"server")
        self.assertIsNone(call("CLIENT", "GETNAME"))
        self.assertEqual(call("CLIENT", "SETNAME", "me"), "OK")
        self.assertEqual(call("CLIENT", "GETNAME"), b"me")
        self.assertIn("ERR", refused("CLIENT", "SETNAME", "a b"))
        self.assertEqual(call("CLIENT", "SETINFO", "LIB-NAME", "x"), "OK")
        own = b"id=%d " % call("CLIENT", "ID")
        self.assertIn(own, call("CLIENT", "LIST"))
        self.assertEqual(call("COMMAND"), [])
        self.assertEqual(call("COMMAND", "DOCS"), [])
        self.assertGreater(call("COMMAND", "COUNT"), 20)
        self.assertEqual(call("CONFIG", "GET", "save"), [b"save", b""])
        self.assertEqual(call("CONFIG", "GET", "append*"), [b"appendonly", b"no"])
        self.assertEqual(call("CONFIG", "GET", "nothing"), [])
        self.assertIn("unknown subcommand", refused("CONFIG", "SET", "save", ""))
        self.assertIn("unknown command 'frob'", refused("frob"))
        self.assertIn("wrong number of arguments for 'get'", refused("GET"))
        self.assertIn("without --snapshot", refused("SAVE"))

    def test_quit_answers_and_closes(self):
        self.client.send(encode("SET", "k", "v") + encode("QUIT") + encode("GET", "k"))
        self.assertEqual(self.client.answer(), "OK")
        self.assertEqual(self.client.answer(), "OK")
        self.assertTrue(self.client.at_end())

    def test_databases_are_apart(self):
        call = self.client.call
        for index in range(16):
            call("SELECT", index)
            call("FLUSHDB")
            call("SET", "k", index)
        for index in range(16):
            call("SELECT", index)
            self.assertEqual(call("GET", "k"), b"%d" % index)
            self.assertEqual(call("DBSIZE"), 1)
            call("FLUSHDB")
        self.assertIn("out of range", self.client.refused("SELECT", 16))
        self.assertIn("out of range", self.client.refused("SELECT", -1))
        self.assertIn("not an integer", self.client.refused("SELECT", "x"))

    def test_pipelines_keep_the_order_of_answers_and_effects(self):
        chooser = random.Random(seed())
        for _ in range(20):
            requests, want, model = [], [], {}
            for step in range(500):
                key = "k%d" % chooser.randrange(8)
                kind = chooser.randrange(8)
                if kind < 2:
                    requests.append(encode("SET", key, step))
                    model[key] = b"%d" % step
                    want.append("OK")
                elif kind == 2:
                    requests.append(encode("DEL", key))
                    want.append(1 if model.pop(key, None) is not None else 0)
                elif kind == 3:
                    requests.append(encode("PING"))
                    want.append("PONG")
                elif kind == 4:
                    requests.append(encode("INCR", "n"))
                    model["n"] = b"%d" % (int(model.get("n", 0)) + 1)
                    want.append(int(model["n"]))
                elif kind == 5:
                    requests.append(encode("KEYS", "*"))
                    want.append(sorted(key.encode() for key in model))
                else:
                    requests.append(encode("GET", key))
                    want.append(model.get(key))
            self.client.send(b"".join(requests))
            for step, expected in enumerate(want):
                answer = self.client.answer()
                if isinstance(answer, list):
                    answer.sort()
                self.assertEqual(answer, expected, step)
            self.client.call("FLUSHDB")

    def test_a_pipeline_over_databases(self):
        self.client.send(b"".join(
            encode("SELECT", step % 16) + encode("SET", "p", step) + encode("GET", "p")
            for step in range(300)))
        for step in range(300):
            self.assertEqual([self.client.answer() for _ in range(3)],
                             ["OK", "OK", b"%d" % step])
        for index in range(16):
            self.client.call("SELECT", index)
            self.client.call("FLUSHDB")

    def test_inline_commands(self):
        self.client.send(b'set a "x y\\x41"\r\n\r\nget a\nPING\r\n')
        self.assertEqual([self.client.answer() for _ in range(3)], ["OK", b"x yA", "PONG"])

    def test_requests_in_single_bytes(self):
        for byte in encode("SET", "slow", "v") + encode("GET", "slow"):
            self.client.send(bytes([byte]))
        self.assertEqual(self.client.answer(), "OK")
        self.assertEqual(self.client.answer(), b"v")

    def test_malformed_input_gets_the_error_and_the_end(self):
        cases = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
            (b"*1\r\n$-5\r\n", "invalid bulk length"),
            (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
            (b"*1\r\n$4\r\nPINGPONG", "invalid bulk length"),
            (b'get "a\r\n', "unbalanced quotes"),
            (b"x" * 70000, "too big inline request"),
        ]
        for data, message in cases:
            with self.server.client() as client:
                client.send(encode("SET", "before", "1") + data)
                self.assertEqual(client.answer(), "OK")
                answer = client.answer()
                self.assertIsInstance(answer, ServerError, data[:20])
                self.assertTrue(str(answer).startswith("ERR Protocol error: "), answer)
                self.assertIn(message, str(answer))
                self.assertTrue(client.at_end())

    def test_the_error_arrives_though_more_is_sent(self):
        with self.server.client() as client:
            client.send(b"*1\r\n!" + b"garbage\r\n" * 20000)
            self.assertIn("Protocol error", str(client.answer()))
            self.assertTrue(client.at_end())

    def test_huge_headers_take_no_memory(self):
        self.client.call("PING")
        before = memory_kib(self.server.process.pid)
        clients = [self.server.client() for _ in range(100)]
        for client in clients:
            client.send(b"*1048576\r\n$67108864\r\nabc")
        eventually(lambda: int(self.client.info("clients")["connected_clients"]) > 100, "arrived")
        grown = memory_kib(self.server.process.pid) - before
        for client in clients:
            client.close()
        self.assertLess(grown, 100 * 1024, "100 headers of 64 MiB took %d KiB" % grown)

    def test_large_values(self):
        value = os.urandom(1 << 20) * 20
        self.assertEqual(self.client.call("SET", "large", value), "OK")
        self.assertEqual(self.client.call("STRLEN", "large"), len(value))
        self.client.send(encode("GET", "large") * 3)
        for _ in range(3):
            self.assertEqual(self.client.answer(), value)
        self.assertIn("invalid bulk length",
                      self.client.refused("SET", "large", b"x" * (64 * 1024 * 1024 + 1)))

    def test_a_million_arguments(self):
        keys = [b"%x" % number for number in range(200000)]
        self.assertEqual(self.client.call("MSET", *[w for key in keys for w in (key, key)]), "OK")
        self.assertEqual(self.client.call("MGET", *keys), keys)
        self.assertEqual(self.client.call("EXISTS", *keys), len(keys))
        self.assertEqual(sorted(self.client.call("KEYS", "*")), sorted(keys))
        self.assertEqual(self.client.call("DEL", *keys), len(keys))

    def test_scan_meets_what_stays_while_others_come_and_go(self):
        stay = {b"stay:%d" % number for number in range(2000)}
        self.client.call("MSET", *[w for key in stay for w in (key, "v")])
        with self.server.client() as other:
            cursor, met, step = b"0", [], 0
            while True:
                cursor, keys = self.client.call("SCAN", cursor, "COUNT", 50, "MATCH", "stay:*")
                met += keys
                for number in range(200):
                    other.send(encode("SET" if step % 2 == 0 else "DEL", "go:%d" % number,
                                      *(["v"] if step % 2 == 0 else [])))
                for _ in range(200):
                    other.answer()
                step += 1
                if cursor == b"0":
                    break
        self.assertEqual(len(met), len(stay))
        self.assertEqual(set(met), stay)

    def test_expired_keys_go_by_themselves(self):
        self.client.send(b"".join(encode("SET", "e%d" % n, "v", "PX", 50) for n in range(3000)))
        for _ in range(3000):
            self.client.answer()
        self.client.call("SET", "stays", "v", "EX", 1000)
        eventually(lambda: self.client.call("DBSIZE") == 1, "expired keys are removed")
        self.assertEqual(self.client.info("keyspace")["db0"]["keys"], "1")
        self.assertTrue(990 < self.client.call("TTL", "stays") <= 1000)

    def test_a_client_that_does_not_read_is_not_read_from(self):
        self.client.call("SET", "big", b"x" * (1 << 20))
        with self.server.client() as slow:
            slow.socket.setblocking(False)
            request, sent = encode("GET", "big") * 100, 0
            until = time.monotonic() + 2
            while time.monotonic() < until and sent < 64 << 20:
                try:
                    sent += slow.socket.send(request)
                except BlockingIOError:
                    if sent > 8 << 20:
                        break
                    time.sleep(0.01)
            self.assertLess(memory_kib(self.server.process.pid), 400 * 1024)
        eventually(lambda: int(self.client.info("clients")["connected_clients"]) == 1, "it is gone")

    def test_clients_that_vanish_leave_nothing(self):
        chooser = random.Random(seed())
        before = descriptors_of(self.server.process.pid)
        for _ in range(300):
            client = self.server.client()
            client.send(b"".join(
                encode(*chooser.choice((("GET", "k"), ("SET", "k", "v"), ("KEYS", "*"),
                                        ("INFO",), ("INCR", "n"), ("SET", "k"))))
                for _ in range(chooser.randrange(40))) + b"*2\r\n$3\r\nGE"[: chooser.randrange(11)])
            if chooser.random() < 0.5:
                client.reset()
            else:
                client.close()
        eventually(lambda: int(self.client.info("clients")["connected_clients"]) == 1, "all gone")
        self.assertLessEqual(descriptors_of(self.server.process.pid), before)

        def at_rest():
            info = self.client.info("lanex")
            return all(info["lane_" + lane][what] == "0" for what in ("queued", "running")
                       for lane in ("pure_read", "mutating", "heavy_init", "maintenance"))

        # Maintenance comes by itself, say after the flush before this test.
        eventually(at_rest, "nothing is queued or running")

    def test_a_client_that_breaks_off_has_its_queued_job_cancelled(self):
        """A long write holds the database up; of the writes behind it, some clients break off."""
        keys = [b"%d" % number for number in range(50000)]
        long_write = encode("MSET", *[word for key in keys for word in (key, b"v")])

        def refused():
            return int(self.client.info("lanex")["lanex_refused_interactive"])

        before = refused()
        until = time.monotonic() + LIVENESS_S
        while refused() == before:
            self.assertLess(time.monotonic(), until, "no job was cancelled")
            with self.server.client() as busy:
                leaving = [self.server.client() for _ in range(20)]
                busy.send(long_write)
                for client in leaving:
                    client.send(encode("INCR", "left"))
                for client in leaving:
                    client.reset()
                self.assertEqual(busy.answer(), "OK")
        eventually(lambda: int(self.client.info("clients")["connected_clients"]) == 1, "all gone")
        self.assertEqual(self.client.info("lanex")["lane_mutating"]["queued"], "0")

    def test_reads_see_their_own_connections_writes_among_50_readers(self):
        ending = threading.Event()
        problems = []

        def read_on():
            try:
                with self.server.client() as reader:
                    while not ending.is_set():
                        reader.send(encode("GET", "shared") * 4 + encode("DBSIZE"))
                        for _ in range(5):
                            reader.answer()
            except Exception as error:  # pylint: disable=broad-except
                problems.append(error)

        readers = [threading.Thread(target=read_on) for _ in range(50)]
        for reader in readers:
            reader.start()
        try:
            for step in range(100):
                self.client.send(encode("SET", "mine", step) + encode("GET", "mine") +
                                 encode("DEL", "mine") + encode("EXISTS", "mine") +
                                 encode("SET", "mine", step))
                answers = [self.client.answer() for _ in range(5)]
                self.assertEqual(answers, ["OK", b"%d" % step, 1, 0, "OK"])
                self.assertEqual(self.client.call("GET", "mine"), b"%d" % step)
        finally:
            ending.set()
            for reader in readers:
                reader.join()
        self.assertEqual(problems, [])

    def test_increments_of_many_clients_add_up(self):
        def count():
            with self.server.client() as client:
                client.send(encode("INCR", "sum") * 200)
                for _ in range(200):
                    client.answer()

        threads = [threading.Thread(target=count) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.client.call("GET", "sum"), b"2000")

    def test_flushed_memory_comes_back(self):
        self.client.send(b"".join(encode("SET", "f%d" % n, "v" * 100) for n in range(20000)))
        for _ in range(20000):
            self.client.answer()
        full = int(self.client.info("memory")["used_memory_dataset"])
        self.assertGreater(full, 20000 * 100)
        self.assertEqual(self.client.call("FLUSHDB"), "OK")
        self.assertEqual(self.client.call("DBSIZE"), 0)
        self.assertEqual(self.client.info("memory")["used_memory_dataset"], "0")
        before = int(self.client.info("lanex")["lane_maintenance"]["jobs"])
        eventually(lambda: int(self.client.info("lanex")["lane_maintenance"]["jobs"]) > before or
                   before > 0, "the memory is freed by maintenance")

    def test_info_has_its_sections(self):
        info = self.client.info()
        for name in ("redis_version", "connected_clients", "total_commands_processed",
                     "lanex_policy", "lane_pure_read", "used_memory_dataset"):
            self.assertIn(name, info)
        self.assertNotIn("lanex_policy", self.client.info("server"))


class Options(unittest.TestCase):
    """Servers of their own."""

    def test_limits(self):
        with Server(PROGRAM, "--max-bulk", "1000", "--max-request", "4000", "--max-output",
                    "2000", "--max-clients", "2") as server:
            with server.client() as client:
                self.assertEqual(client.call("SET", "k", "x" * 1000), "OK")
                self.assertIn("output limit", client.refused("MGET", "k", "k", "k"))
                self.assertEqual(client.call("GET", "k"), b"x" * 1000)
                client.call("MSET", *["%050d" % (n // 2) for n in range(60)])
                client.call("MSET", *["%050d" % (n // 2 + 30) for n in range(60)])
                self.assertIn("output limit", client.refused("KEYS", "*"))
                self.assertEqual(client.call("PING"), "PONG")
                with server.client() as second, server.client() as third:
                    self.assertEqual(second.call("PING"), "PONG")
                    self.assertIn("max number of clients", str(third.answer()))
                    self.assertTrue(third.at_end())
                client.send(b"*5\r\n" + b"$900\r\n" + b"x" * 900 + b"\r\n" + b"$900\r\n" +
                            b"x" * 900 + b"\r\n" + (b"$900\r\n" + b"x" * 900 + b"\r\n") * 3)
                self.assertIn("request too big", str(client.answer()))
                self.assertTrue(client.at_end())

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dump")
            with Server(PROGRAM, "--snapshot", path) as server, server.client() as client:
                client.send(b"".join(encode("SET", "k%d" % n, n) for n in range(20000)))
                for _ in range(20000):
                    client.answer()
                client.call("SET", "soon", "v", "PX", 30)
                client.call("SET", "later", "v", "EX", 1000)
                client.call("SELECT", 15)
                client.call("SET", b"\0\r\n", b"\xff\0")
                eventually(lambda: client.call("SELECT", 0) and not client.call("EXISTS", "soon"),
                           "it expires")
                self.assertEqual(client.call("SAVE"), "OK")
                self.assertEqual(os.listdir(folder), ["dump"])
                client.call("SET", "k0", "after")
            with Server(PROGRAM, "--snapshot", path) as server, server.client() as client:
                self.assertEqual(client.call("DBSIZE"), 20001)
                self.assertEqual(client.call("GET", "k0"), b"0")
                self.assertEqual(client.call("GET", "k19999"), b"19999")
                self.assertTrue(900 < client.call("TTL", "later") <= 1000)
                client.call("SELECT", 15)
                self.assertEqual(client.call("GET", b"\0\r\n"), b"\xff\0")
                self.assertEqual(client.call("SAVE"), "OK")

    def test_a_save_beside_writes_is_one_instant(self):
        """Two databases take turns: the file never has the second's step without the first's."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dump")
            with Server(PROGRAM, "--snapshot", path) as server:
                ending = threading.Event()
                with server.client() as client:
                    for index in (0, 1):
                        client.call("SELECT", index)
                        client.send(b"".join(encode("SET", "k%d" % n, 0) for n in range(20000)))
                        for _ in range(20000):
                            client.answer()

                def write_on():
                    with server.client() as writer:
                        step = 0
                        while not ending.is_set():
                            step += 1
                            for index in (0, 1):
                                writer.call("SELECT", index)
                                writer.call("SET", "k%d" % (step % 20000), step)
                                writer.call("SET", "step", step)

                writer = threading.Thread(target=write_on)
                writer.start()
                try:
                    with server.client() as client:
                        for _ in range(5):
                            self.assertEqual(client.call("SAVE"), "OK")
                            with Server(PROGRAM, "--snapshot", path) as copy, \
                                    copy.client() as reader:
                                first = int(reader.call("GET", "step") or 0)
                                changed = reader.call("GET", "k%d" % (first % 20000))
                                reader.call("SELECT", 1)
                                second = int(reader.call("GET", "step") or 0)
                                self.assertIn(first - second, (0, 1))
                                # The key is written before the step that names it.
                                self.assertGreaterEqual(int(changed), first)
                                self.assertEqual(reader.call("DBSIZE"), 20000 + (second > 0))
                finally:
                    ending.set()
                    writer.join()

    def test_a_snapshot_that_lies_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dump")
            with Server(PROGRAM, "--snapshot", path) as server, server.client() as client:
                client.call("SET", "k", "v")
                self.assertEqual(client.call("SAVE"), "OK")
            with open(path, "rb") as file:
                good = file.read()
            for bad in (good[:-1], good + b"x", good[:600] + b"\xff\xff" + good[602:], b"", b"x"):
                with open(path, "wb") as file:
                    file.write(bad)
                run = subprocess.run([PROGRAM, "--port", "0", "--snapshot", path], timeout=60,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                self.assertEqual(run.returncode, 1)
                self.assertIn(b"is refused", run.stderr)
                self.assertNotIn(b"ready", run.stdout)

    def test_it_leaves_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server(PROGRAM) as server:
                clients = [server.client() for _ in range(20)]
                for client in clients:
                    client.call("SET", "k", "v")
                    client.send(encode("KEYS", "*") * 3)
                self.assertEqual(server.stop(number), 0)
                for client in clients:
                    client.close()

    def test_out_of_descriptors_is_no_end(self):
        with Server(PROGRAM, descriptors=60) as server:
            clients = [server.client() for _ in range(60)]  # the kernel takes them, at least
            self.assertEqual(clients[0].call("PING"), "PONG")
            for client in clients[:-1]:
                client.close()
            self.assertEqual(clients[-1].call("PING"), "PONG")
            clients[-1].close()

    def test_many_workers(self):
        with Server(PROGRAM, "--workers", "12") as server, server.client() as client:
            self.assertEqual(server.workers, 12)
            client.send(encode("INCR", "n") * 100 + encode("KEYS", "*"))
            self.assertEqual([client.answer() for _ in range(100)], list(range(1, 101)))
            self.assertEqual(client.answer(), [b"n"])

    def test_shutdown(self):
        with Server(PROGRAM) as server, server.client() as client, server.client() as other:
            self.assertEqual(other.call("SET", "k", "v"), "OK")
            client.send(encode("SHUTDOWN", "NOSAVE"))
            self.assertTrue(client.at_end())
            self.assertEqual(server.wait(), 0)

    def test_arrival_policy(self):
        with Server(PROGRAM, "--policy", "arrival", "--workers", "6") as server:
            self.assertEqual(server.workers, 6)
            with server.client() as client:
                client.send((encode("INCR", "n") + encode("GET", "n")) * 100)
                for step in range(1, 101):
                    self.assertEqual(client.answer(), step)
                    self.assertEqual(client.answer(), b"%d" % step)

    def test_wrong_options_are_refused(self):
        for options in (["--port", "x"], ["--port", "65536"], ["--workers", "0"],
                        ["--policy", "none"], ["--bind", "no.such.host.invalid"], ["extra"]):
            run = subprocess.run([PROGRAM, *options], timeout=60, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertNotEqual(run.returncode, 0, options)
            self.assertNotEqual(run.stderr, b"", options)


class Refused(unittest.TestCase):
    """Where io_uring is refused there is no server, and it says so."""

    def test_it_says_that_it_needs_io_uring(self):
        run = first_start(PROGRAM)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout, b"")
        self.assertIn(b"its network thread needs io_uring", run.stderr)


def main():
    refused = rings_are_refused(PROGRAM)
    groups = [Refused] if refused else [Plain, Options]
    load = unittest.defaultTestLoader
    if sys.argv[1:]:
        suite = load.loadTestsFromNames(sys.argv[1:], sys.modules[__name__])
    else:
        suite = unittest.TestSuite(load.loadTestsFromTestCase(group) for group in groups)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print("lanex-result: tested=%d failed=%d skipped=%d" %
          (result.testsRun, failed, len(result.skipped)))
    return 0 if result.testsRun and result.wasSuccessful() else 1


if __name__ == "__main__":
    if not PROGRAM:
        sys.exit(__doc__)
    sys.exit(main())

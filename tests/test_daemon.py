"""Section 11: a real daemon in a process of its own, spoken to by real sockets; killed, restarted, and lied to."""
import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import threading
import time

import pytest
from support import ROOT, tb

MEGABYTE = 1 << 20
MAIN = "import sys; sys.path[:1] = [sys.argv.pop(1)]; import trailboss; sys.exit(trailboss.main())"


def until(condition, seconds=5.0):
    """What a condition gives once it is true; it has some time for that."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > deadline:
            assert answer, "it did not come true within %s s" % seconds
            return answer
        time.sleep(0.01)


class Daemon:
    """A state folder with a config folder and a home, and the daemon that serves it."""

    def __init__(self, folder):
        self.home, self.config = folder / "state", folder / "config"
        self.program = [sys.executable, "-S", "-c", MAIN, str(ROOT)]  # as a module it has its .pyc: quicker than a script
        for path in (folder, self.config, folder / "tmux"):
            path.mkdir(exist_ok=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TRAILBOSS_HOME": str(self.home),
                    "TMUX_TMPDIR": str(folder / "tmux"), "CLAUDE_CONFIG_DIR": str(self.config)}
        self.log, self.process = folder / "output", None

    def run(self, *argv, **more):
        """A command of the program, to its end: (exit code, output, errors)."""
        done = subprocess.run([*self.program, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env=self.env, timeout=20, **more)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def spawn(self, port=0):
        argv = [*self.program, "serve"] + ([] if port is None else ["--port", str(port)])
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

    def start(self, port=0):
        """Start it and wait until it answers."""
        self.spawn(port)
        until(lambda: self.address().get("pid") == self.process.pid or self.process.poll() is not None, 15)
        assert self.process.poll() is None, self.said()
        self.port = self.address()["port"]
        self.token = (self.home / "token").read_text()
        return self

    def address(self):
        try:
            return json.loads((self.home / "daemon.json").read_text())
        except (OSError, ValueError):
            return {}

    def end(self, signum=signal.SIGTERM):
        """End it by its pid; its exit code."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signum)
        return self.process.wait(10) if self.process else None

    def restart(self, signum=signal.SIGKILL):
        self.end(signum)
        return self.start()

    def said(self):
        return self.log.read_text()

    def ask(self, method, path, body=None, **headers):
        """(status, answer, headers) of one request; headers are named like If_None_Match."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            body = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
            connection.request(method, path, body, {"Authorization": "Bearer " + self.token,
                                                    **{key.replace("_", "-"): value for key, value in headers.items()}})
            response = connection.getresponse()
            data = response.read()
            return response.status, json.loads(data) if data else None, response.headers
        finally:
            connection.close()

    def hear(self, name, session_id="s1", **fields):
        """Send an event; the keys that look like headers are. The status."""
        headers = {key: str(fields.pop(key)) for key in list(fields) if key.startswith("X_")}
        payload = {"hook_event_name": name, "session_id": session_id, "cwd": "/w/" + session_id, **fields}
        return self.ask("POST", "/event", payload, **headers)[0]

    def queue(self):
        return self.ask("GET", "/queue")[1]["items"]

    def waiting(self):
        return [row["session_id"] for row in self.queue()]

    def raw(self, data, wait=True):
        """Bytes on a connection of their own; what comes back until the daemon hangs up, or the socket itself."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        if not wait:
            sock.sendall(data)
            return sock
        answer = b""
        with sock, contextlib.suppress(ConnectionError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            for part in iter(lambda: sock.recv(65536), b""):
                answer += part
        return answer

    def head(self, line, *headers):
        """The head of a request with our Host and token."""
        return "\r\n".join([line + " HTTP/1.1", "Host: 127.0.0.1:%d" % self.port, "Authorization: Bearer " + self.token,
                            *headers, "", ""]).encode("latin-1")


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.fixture
def daemon(tmp_path):
    """A daemon that does not run yet; it is ended, and must have said nothing that looks like a crash."""
    made = Daemon(tmp_path)
    yield made
    made.end()
    assert not made.log.exists() or "Traceback" not in made.said(), made.said()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A running daemon for tests that leave nothing behind in it."""
    made = Daemon(tmp_path_factory.mktemp("shared")).start()
    assert made.hear("Stop", "shared1", X_Event_Time=100) == 200
    yield made
    assert made.end() == 0
    assert "Traceback" not in made.said(), made.said()


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    made = Daemon(tmp_path_factory.mktemp("one")).start()
    yield made
    assert made.end() == 0
    assert "Traceback" not in made.said(), made.said()


@pytest.fixture
def empty(one):
    """A running daemon with nothing in its queue."""
    yield one
    for session in one.ask("GET", "/queue?all=1")[1]["sessions"]:
        assert session["state"] == "gone" or one.hear("SessionEnd", session["session_id"]) == 200
    assert one.queue() == []


# ---- who is let in -----------------------------------------------------------------------------------------------------


def test_endpoints_answer(shared):
    assert shared.ask("GET", "/health")[:2] == (200, {"trailboss": tb.VERSION, "pid": shared.process.pid})
    status, queue, headers = shared.ask("GET", "/queue")
    assert status == 200 and "shared1" in [row["session_id"] for row in queue["items"]] and "sessions" not in queue
    assert headers["Content-Type"] == "application/json" and headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "trailboss/" + tb.VERSION
    assert shared.ask("GET", "/queue?all=1")[1]["sessions"]
    assert shared.ask("GET", "/sessions/shared")[1]["session"]["session_id"] == "shared1"
    assert shared.ask("GET", "/sessions/")[0] == 200
    for path, body in (("/sessions/nobody", None), ("/sessions/%251", None), ("/jump", {"id": "shared"})):
        status, answer, _ = shared.ask("POST" if body else "GET", path, body)
        assert status == 409 and answer["code"] == 1 and answer["error"], path


@pytest.mark.parametrize("token", [None, "", "Bearer", "Bearer ", "Bearer nonsense", "Bearer \xe9", "Basic {}", "bearer {}",
                                   "Bearer {}0", "{}"])
@pytest.mark.parametrize("method, path", [("GET", "/queue"), ("GET", "/sessions/"), ("POST", "/event"), ("POST", "/jump"),
                                          ("POST", "/skip"), ("GET", "/nowhere"), ("GET", "/health/")])
def test_without_the_token_there_is_no_answer(shared, token, method, path):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: 127.0.0.1:%d" % shared.port, "Content-Length: 2"]
    lines += [] if token is None else ["Authorization: " + token.format(shared.token)]
    answer = shared.raw("\r\n".join(lines + ["", "{}"]).encode("latin-1"))
    assert status_of(answer) == 401 and b"token" in answer


def test_health_needs_no_token_and_tells_little(shared):
    answer = shared.raw(b"GET /health HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % shared.port)
    assert status_of(answer) == 200 and set(json.loads(answer.split(b"\r\n\r\n")[1])) == {"trailboss", "pid"}


@pytest.mark.parametrize("host", [None, "", "evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{}.evil.example",
                                  "127.0.0.2:{}", "0.0.0.0:{}", "[::1]:{}", "127.0.0.1:{},evil.example"])
@pytest.mark.parametrize("path", ["/health", "/queue"])
def test_foreign_host_is_refused(shared, host, path):
    lines = ["GET %s HTTP/1.1" % path, "Authorization: Bearer " + shared.token]
    lines += [] if host is None else ["Host: " + host.format(shared.port)]
    answer = shared.raw("\r\n".join(lines + ["", ""]).encode())
    assert status_of(answer) == 403 and b"Host" in answer


def test_origin_must_be_our_own(shared):
    for origin in ("null", "", "http://evil.example", "https://127.0.0.1:%d" % shared.port, "http://127.0.0.1",
                   "http://127.0.0.1:1", "http://127.0.0.1:%d/" % shared.port):
        status, answer, _ = shared.ask("GET", "/queue", Origin=origin)
        assert status == 403 and "origin" in answer["error"], origin
    for host in ("127.0.0.1", "localhost"):
        assert shared.ask("GET", "/queue", Origin="http://%s:%d" % (host, shared.port))[0] == 200


def test_it_listens_on_the_loopback_only(shared):
    with socket.socket() as probe, pytest.raises(OSError):
        probe.settimeout(2)
        probe.connect(("127.0.0.2", shared.port))  # there, if it listened on 0.0.0.0


# ---- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers, status", [
    (["Content-Length: -1"], 400), (["Content-Length: abc"], 400), (["Content-Length: +5"], 400),
    (["Content-Length: 5, 5"], 400), (["Content-Length: 0x5"], 400), (["Content-Length: \xb2"], 400),
    (["Content-Length: 99999999999"], 413), (["Content-Length: %d" % (16 * MEGABYTE + 1)], 413),
    (["Content-Length: " + "9" * 100], 413), ([], 411), (["Content-Length:"], 411), (["Transfer-Encoding: chunked"], 411),
    (["Content-Length: 2", "Transfer-Encoding: chunked"], 411)])
@pytest.mark.parametrize("path", ["/event", "/jump"])
def test_bad_length_is_refused_at_once(shared, headers, status, path):
    began = time.monotonic()
    with shared.raw(shared.head("POST " + path, *headers) + b"{}", wait=False) as sock:
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert (status_of(answer), time.monotonic() - began < 1) == (status, True), answer
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]
    assert shared.ask("GET", "/health")[0] == 200


def test_body_that_ends_early_is_refused(shared):
    answer = shared.raw(shared.head("POST /event", "Content-Length: 100") + b'{"hook_event_name": "Stop"')
    assert status_of(answer) == 400


def event_of(size):
    """An event of just that many bytes."""
    start = b'{"hook_event_name": "SessionStart", "session_id": "big", "source": "startup", "x": "'
    return start + b"x" * (size - len(start) - 2) + b'"}'


def test_body_may_have_16_mebibytes(shared):
    assert shared.ask("POST", "/event", event_of(16 * MEGABYTE))[0] == 200
    assert "big" in [row["session_id"] for row in shared.ask("GET", "/queue?all=1")[1]["sessions"]]
    with contextlib.suppress(ConnectionError):  # it may hang up while we still send
        assert shared.ask("POST", "/event", event_of(16 * MEGABYTE + 1))[0] == 413


def test_refusal_arrives_although_the_body_is_not_wanted(shared):
    for _ in range(20):
        status, answer, _ = shared.ask("POST", "/event", event_of(MEGABYTE), Authorization="Bearer wrong")
        assert status == 401


def test_expected_100_comes_at_once(shared):
    body = event_of(2 * MEGABYTE)
    began = time.monotonic()
    with shared.raw(shared.head("POST /event", "Expect: 100-continue", "Content-Length: %d" % len(body)), wait=False) as sock:
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        assert status_of(sock.recv(65536)) == 200
    assert time.monotonic() - began < 0.8


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_curl_with_two_megabytes_is_quick(shared, tmp_path):
    (tmp_path / "body").write_bytes(event_of(2 * MEGABYTE))
    began = time.monotonic()
    done = subprocess.run(["curl", "-q", "-s", "--noproxy", "*", "-w", "%{http_code}", "-o", os.devnull,
                           "-H", "Authorization: Bearer " + shared.token, "--data-binary", "@" + str(tmp_path / "body"),
                           "http://127.0.0.1:%d/event" % shared.port], stdout=subprocess.PIPE)
    assert done.stdout == b"200" and time.monotonic() - began < 0.8


ODD_JSON = [b"", b"null", b"[]", b"5", b'"x"', b"{", b"{}}", b"\xff\xfe", b"\0", b"[" * 100_000, b'{"a":' * 100_000,
            b"9" * 5000, b"NaN", b"{'a': 1}"]


@pytest.mark.parametrize("body", ODD_JSON, ids=range(len(ODD_JSON)))
@pytest.mark.parametrize("path", ["/event", "/jump", "/skip", "/snooze"])
def test_body_that_is_no_json_object_is_refused(shared, path, body):
    status, answer, _ = shared.ask("POST", path, body)
    assert status == 400 and "JSON" in answer["error"]


@pytest.mark.parametrize("event", [
    {}, {"session_id": "s1"}, {"hook_event_name": "Stop"}, {"session_id": 5, "hook_event_name": "Stop"},
    {"session_id": "../x", "hook_event_name": "Stop"}, {"session_id": "s\n1", "hook_event_name": "Stop"},
    {"session_id": "x" * 129, "hook_event_name": "Stop"}, {"session_id": "s1", "hook_event_name": ["Stop"]},
    {"session_id": "\u0661", "hook_event_name": "Stop"}, {"session_id": "s1", "hook_event_name": ""}])
def test_event_that_is_none_is_refused(shared, event):
    status, answer, _ = shared.ask("POST", "/event", event)
    assert status == 400 and "event" in answer["error"]


@pytest.mark.parametrize("field", sorted(tb.KEPT) + ["agent_id"])
def test_odd_values_in_an_event_are_no_error(shared, field):
    odd = [None, 5, -1e308, True, [], {}, [[]], "\ud800 \0 \x1b[31m \u2028", {"a": {"b": [None, "\ud800"]}},
           [{"status": "running", "type": 5, "id": []}, 5], {"questions": [5, {"question": 5}], "command": ["x"], "edits": [5]}]
    for name in ("PermissionRequest", "Stop", "UserPromptSubmit", "Notification", "PostToolUse"):
        for value in odd:
            assert shared.hear(name, "odd", **{field: value}) == 200
    assert shared.ask("GET", "/sessions/odd")[0] == 200
    assert shared.ask("GET", "/queue?all=1")[0] == 200
    assert shared.hear("SessionEnd", "odd") == 200


def test_odd_values_in_headers_are_no_error(shared):
    body = b'{"hook_event_name": "Stop", "session_id": "odd"}'
    for header in ("X-Event-Id", "X-Event-Time", "X-Tmux-Pane: %1\r\nX-Tmux", "X-Tmux-Pane", "X-Claude-Pid",
                   "X-Claude-Entrypoint", "X-Claude-Config", "X-Claude-Project-Dir", "X-Claude-Job-Dir"):
        for value in (b"", b"\xff\xfe", b"/\xff", b"/a\0b", b"-1", b"nan", b"inf", b"1e999", b"9" * 5000, b"%1; touch x",
                      b"/,1,1", b"/no/where,1,1", b"/a\0b,1,1", b"/\xff,1,1", b"/" + b"x" * 200 + b",1,1", "/hôme/Å…".encode()):
            data = shared.head("POST /event", "Content-Length: %d" % len(body), "Connection: close", header + ": ")[:-4]
            assert status_of(shared.raw(data + value + b"\r\n\r\n" + body)) == 200, (header, value)
        time.sleep(0.1)
    time.sleep(0.6)  # for ticks and looks at tmux with all that on the board
    assert "Traceback" not in shared.said()
    assert shared.hear("SessionEnd", "odd") == 200


def test_bytes_of_a_header_arrive_as_they_are(empty):
    body = b'{"hook_event_name": "Stop", "session_id": "s1", "cwd": "/x"}'
    for path in ("/hôme/Å…", "/日本"):
        head = empty.head("POST /event", "Content-Length: %d" % len(body), "Connection: close", "X-Claude-Project-Dir: ")[:-4]
        assert status_of(empty.raw(head + path.encode() + b"\r\n\r\n" + body)) == 200
        assert empty.queue()[0]["project"] == path[1:].rpartition("/")[2]


@pytest.mark.parametrize("request_line", ["GET /", "GET /events", "GET /queue/", "GET /event", "POST /queue", "POST /",
                                          "GET /sessions", "GET /sessions/a/b", "GET /sessions/..", "GET http://127.0.0.1/queue", "GET *"])
def test_unknown_path_is_404(shared, request_line):
    answer = shared.raw(shared.head(request_line, "Content-Length: 2") + b"{}")
    assert status_of(answer) == 404 and request_line.split()[0].encode() in answer


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "NONSENSE"])
def test_other_methods_are_refused(shared, method):
    answer = shared.raw(shared.head(method + " /queue", "Content-Length: 2") + b"{}")
    assert status_of(answer) in (405, 501) and b"shared1" not in answer


@pytest.mark.parametrize("garbage", [b"", b"\r\n", b"\0" * 1000, b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03", b"GET\r\n\r\n",
                                     b"GET /queue\r\n\r\n", b"GET /queue HTTP/9.9\r\n\r\n", b"GET /queue FTP/1.0\r\n\r\n",
                                     b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
                                     b"GET /queue HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
                                     b"GET /queue HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", b"\xff\xfe \xff \xff\r\n\r\n"],
                         ids=range(12))
def test_what_is_no_http_does_no_harm(shared, garbage):
    answer = shared.raw(garbage)
    assert b"shared1" not in answer and not answer.startswith(b"HTTP/1.1 200")
    assert shared.ask("GET", "/health")[0] == 200


def test_body_of_a_get_is_not_the_next_request(shared):
    inner = shared.head("POST /skip", "Content-Length: 2") + b"{}"
    answer = shared.raw(shared.head("GET /health", "Content-Length: %d" % len(inner)) + inner)
    assert answer.count(b"HTTP/1.1") == 1
    assert [row["skipped"] for row in shared.queue() if row["session_id"] == "shared1"] == [False]


def test_one_connection_serves_many_requests(shared):
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=5)
    connection.connect()
    sock = connection.sock
    for _ in range(3):
        connection.request("GET", "/queue", headers={"Authorization": "Bearer " + shared.token})
        assert connection.getresponse().read()
        assert connection.sock is sock
    connection.close()


# ---- the ETag ----------------------------------------------------------------------------------------------------------


def test_unchanged_queue_is_304(empty):
    empty.hear("Stop", "a", X_Event_Time=100)
    tag = empty.ask("GET", "/queue")[2]["ETag"]
    time.sleep(0.05)
    assert empty.ask("GET", "/queue")[2]["ETag"] == tag
    status, body, headers = empty.ask("GET", "/queue", If_None_Match=tag)
    assert (status, body, headers["ETag"]) == (304, None, tag)
    assert empty.ask("GET", "/queue", If_None_Match='"other"')[0] == 200
    empty.hear("Stop", "b", X_Event_Time=101)
    status, answer, headers = empty.ask("GET", "/queue", If_None_Match=tag)
    assert status == 200 and len(answer["items"]) == 2 and headers["ETag"] != tag
    tag = headers["ETag"]
    empty.ask("POST", "/skip", {"id": "a"})
    assert empty.ask("GET", "/queue", If_None_Match=tag)[0] == 200


# ---- many at once, and rude ones ---------------------------------------------------------------------------------------


def test_two_hundred_events_at_once_are_all_heard(daemon):
    daemon.start()
    gate, statuses = threading.Event(), []

    def send(n):
        gate.wait()
        statuses.append(daemon.hear("Stop", "s%03d" % n, X_Event_Id="e%d" % n, X_Event_Time=1000 + n))
    threads = [threading.Thread(target=send, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(20)
    assert statuses == [200] * 200
    assert daemon.waiting() == ["s%03d" % n for n in range(200)]
    daemon.restart()
    assert daemon.waiting() == ["s%03d" % n for n in range(200)]


def test_client_that_says_nothing_stalls_nobody(shared):
    silent = [shared.raw(start, wait=False) for start in (b"", b"GET", b"POST /event HTTP/1.1\r\n") for _ in range(8)]
    silent.append(shared.raw(shared.head("POST /event", "Content-Length: 10000000") + b"{", wait=False))
    began = time.monotonic()
    for _ in range(5):
        assert shared.ask("GET", "/queue")[0] == 200
    assert time.monotonic() - began < 1
    for sock in silent:
        sock.close()


def test_more_silent_clients_than_there_are_places_are_got_rid_of(daemon):
    daemon.start()
    half = daemon.raw(daemon.head("POST /event", "Content-Length: 100") + b"{", wait=False)
    silent = [daemon.raw(b"", wait=False) for _ in range(tb.CONNECTIONS + 3)]

    def answers():
        try:
            return daemon.ask("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False
    until(answers, 15)
    assert status_of(half.recv(65536)) == 408
    for sock in (half, *silent):
        sock.close()


def reset(sock):
    """Close a connection so that the other side gets a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_client_that_goes_leaves_no_traceback(shared):
    body = b'{"hook_event_name": "SessionStart", "session_id": "gone", "source": "startup"}'
    whole = shared.head("POST /event", "Content-Length: %d" % len(body)) + body
    for cut in (0, 5, 60, len(whole) - 10, len(whole)):
        for close in (reset, socket.socket.close):
            for pause in (0, 0.02):
                sock = shared.raw(whole[:cut], wait=False)
                time.sleep(pause)
                close(sock)
    for path in ("GET /queue?all=1", "GET /nowhere", "POST /event"):
        for _ in range(5):
            reset(shared.raw(shared.head(path), wait=False))
    until(lambda: shared.ask("GET", "/health")[0] == 200)
    assert "Traceback" not in shared.said() and "Exception" not in shared.said()


# ---- one daemon, its port, its end -------------------------------------------------------------------------------------


def test_second_daemon_refuses_and_says_who_runs(empty):
    code, out, err = empty.run("serve", "--port", "0")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert str(empty.process.pid) in err and str(empty.port) in err and "Traceback" not in err
    assert empty.ask("GET", "/health")[0] == 200 and empty.address()["pid"] == empty.process.pid


def test_of_two_that_start_at_once_one_serves(daemon, tmp_path):
    other = Daemon(tmp_path)
    other.log = tmp_path / "other output"
    daemon.spawn()
    other.spawn()
    until(lambda: (daemon.process.poll() is None) != (other.process.poll() is None))
    winner, loser = (daemon, other) if daemon.process.poll() is None else (other, daemon)
    assert loser.process.poll() == 1 and "Traceback" not in loser.said() and loser.said().count("\n") == 1
    until(lambda: winner.address().get("pid") == winner.process.pid)
    assert other.end() == (0 if winner is other else 1)


def test_state_of_a_dead_daemon_keeps_nobody_out(daemon):
    daemon.start()
    daemon.end(signal.SIGKILL)
    assert daemon.address() and (daemon.home / "curl.conf").exists()
    assert daemon.run("list")[0] == 3
    daemon.start()
    assert daemon.ask("GET", "/health")[0] == 200


@contextlib.contextmanager
def stranger():
    """Somebody else's server; its port, and what it was told."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield listener.getsockname()[1], listener


def test_port_that_is_taken_means_a_free_one(daemon):
    with stranger() as (port, listener):
        daemon.env["TRAILBOSS_PORT"] = str(port)
        daemon.start(port=None)
        assert daemon.port != port and daemon.hear("Stop") == 200 and daemon.waiting() == ["s1"]
        code, out, err = daemon.run("list")
        assert code == 0 and "s1" in out
        listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                assert listener.accept()[0].recv(1) == b"", "it was looked for, and told nothing"


def test_default_port_is_the_environments(daemon):
    with stranger() as (port, _):
        pass
    daemon.env["TRAILBOSS_PORT"] = str(port)
    daemon.start(port=None)
    assert daemon.port == port


def test_port_that_was_asked_for_and_is_taken_is_an_error(daemon):
    with stranger() as (port, _):
        code, out, err = daemon.run("serve", "--port", str(port))
    assert (code, out, err.count("\n")) == (1, "", 1) and str(port) in err and "--port" in err
    assert not (daemon.home / "daemon.json").exists()


@pytest.mark.parametrize("argv, port, code", [(["--port", "70000"], "", 1), (["--port", "-1"], "", 1), (["--port", "x"], "", 2),
                                              ([], "many", 1), ([], "-5", 1)])
def test_port_that_is_none_is_an_error(daemon, argv, port, code, capsys):
    try:
        assert tb.main(["serve", *argv], {**daemon.env, "TRAILBOSS_PORT": port}) == code
    except SystemExit as usage:
        assert usage.code == code
    out, err = capsys.readouterr()
    assert out == "" and "port" in err.lower()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_and_cleans_up(daemon, signum):
    daemon.start()
    daemon.hear("Stop")
    with daemon.raw(b"", wait=False), daemon.raw(daemon.head("POST /event", "Content-Length: 9"), wait=False):
        began = time.monotonic()
        assert daemon.end(signum) == 0
        assert time.monotonic() - began < 1
    assert not (daemon.home / "daemon.json").exists() and not (daemon.home / "curl.conf").exists()
    daemon.start()
    assert daemon.waiting() == ["s1"]


def test_it_ends_at_once_under_load(daemon):
    daemon.start()
    stop = threading.Event()

    def load(n):
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                daemon.hear("Stop", "s%d" % n)
    threads = [threading.Thread(target=load, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    began = time.monotonic()
    try:
        assert daemon.end() == 0
        assert time.monotonic() - began < 1
    finally:
        stop.set()
        for thread in threads:
            thread.join(15)


def test_state_is_private(empty):
    empty.hear("Stop")
    assert stat.S_IMODE(empty.home.stat().st_mode) == 0o700
    for name in ("token", "daemon.json", "curl.conf"):
        assert stat.S_IMODE((empty.home / name).stat().st_mode) == 0o600
    assert empty.token not in empty.said()


@contextlib.contextmanager
def serving_here(folder):
    """The HTTP server of a daemon in this process, whose loops do not run; and a connection to it."""
    server = tb.make_server(tb.Daemon(str(folder), {"HOME": str(folder)}), 0, "t0ken")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    try:
        yield server, connection
    finally:
        connection.close()
        server.shutdown()
        thread.join()
        server.server_close()
        server.daemon.stop()


def test_name_server_is_not_asked_who_we_are(tmp_path, monkeypatch):
    def stall(*_):
        raise AssertionError("getfqdn may wait for a name server")
    monkeypatch.setattr(socket, "getfqdn", stall)
    monkeypatch.setattr(socket, "gethostbyaddr", stall)
    with serving_here(tmp_path) as (_, connection):
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200


@pytest.mark.parametrize("ending, status", [(True, 503), (False, 500)])
def test_event_that_can_not_be_saved_is_no_2xx(tmp_path, capfd, ending, status):
    """While it ends that is no fault of anybody's; else its log tells."""
    with serving_here(tmp_path) as (server, connection):
        server.daemon.store.db.close()
        if ending:
            server.daemon.stopping.set()
        connection.request("POST", "/event", b'{"hook_event_name": "Stop", "session_id": "s1"}',
                           {"Authorization": "Bearer t0ken"})
        response = connection.getresponse()
        assert response.status == status and json.loads(response.read())["error"]
    assert ("Traceback" in capfd.readouterr().err) != ending


# ---- nothing that was answered is lost ---------------------------------------------------------------------------------


def keys(rows):
    return [(row["session_id"], row["since"], row["reason"], row["ask"], row["skipped"], row["snoozed"],
             row["snoozed_until"]) for row in rows]


def test_queue_comes_back_as_it_was(daemon):
    daemon.start()
    daemon.hear("Stop", "a", X_Event_Time=100.25, last_assistant_message="Shall I?")
    daemon.hear("PermissionRequest", "b", X_Event_Time=50.5, tool_name="Bash", tool_input={"command": "ls \ud800"})
    daemon.hear("StopFailure", "c", X_Event_Time=75, error="overloaded")
    for n in range(3):
        daemon.hear("Stop", "d%d" % n, X_Event_Time=60)
    assert daemon.ask("POST", "/skip", {"id": "b"})[0] == 200
    assert daemon.ask("POST", "/snooze", {"id": "c", "seconds": 3600})[0] == 200
    assert daemon.ask("POST", "/snooze", {"id": "d1", "seconds": None})[0] == 200
    before = keys(daemon.queue())
    assert [row[0] for row in before] == ["d0", "d2", "a", "b", "d1", "c"]
    for signum in (signal.SIGKILL, signal.SIGTERM):
        daemon.restart(signum)
        assert keys(daemon.queue()) == before


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.2])
def test_kill_at_any_moment_loses_nothing_that_was_answered(daemon, moment):
    daemon.start()
    answered, stop = {}, threading.Event()

    def send(thread):
        for n in range(10_000):
            key, at = "t%dn%d" % (thread, n), 1000 + n + thread / 10
            try:
                if stop.is_set() or daemon.hear("Stop", key, X_Event_Id=key, X_Event_Time=at) != 200:
                    return
            except (OSError, http.client.HTTPException):
                return
            answered[key] = at
    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(answered) > 3)
    time.sleep(moment)
    daemon.end(signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join(15)
    daemon.start()
    found = {row["session_id"]: row["since"] for row in daemon.queue()}
    assert {key: found.get(key) for key in answered} == answered
    assert len(found) <= len(answered) + len(threads)
    assert [row["since"] for row in daemon.queue()] == sorted(found.values())


def test_same_event_counts_once(daemon):
    """Hooks in two places, a try that timed out: whatever comes twice is one event. A later one of its kind is not."""
    daemon.start()
    at = time.time() - 100
    ask = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert daemon.hear("Stop", X_Event_Id="1", X_Event_Time=at) == 200
    assert daemon.hear("UserPromptSubmit", X_Event_Id="2", X_Event_Time=at + 10) == 200
    assert daemon.waiting() == []
    assert daemon.hear("Stop", X_Event_Id="1", X_Event_Time=at + 20) == 200
    assert daemon.waiting() == [], "the same Stop, told again"
    daemon.restart()
    assert daemon.hear("Stop", X_Event_Id="1", X_Event_Time=at + 30) == 200
    assert daemon.waiting() == [], "and again, after a restart"
    spool(daemon, "1", at + 40, "Stop")
    until(lambda: not list((daemon.home / "spool").glob("*.event")))
    assert daemon.waiting() == [], "and once more by the spool"
    assert daemon.hear("PermissionRequest", X_Event_Id="3", X_Event_Time=at + 50, **ask) == 200
    assert [(row["reason"], row["since"]) for row in daemon.queue()] == [("permission", at + 50)]


def spool(daemon, event_id, at, name, session_id="s1", content=None):
    """An event in the spool, as the emitter leaves it."""
    folder = daemon.home / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    payload = json.dumps({"hook_event_name": name, "session_id": session_id}).encode()
    head = "X-Event-Id: %s\nX-Event-Time: %s\n\n" % (event_id, at)
    (folder / ("%s.tmp" % event_id)).write_bytes(head.encode() + payload if content is None else content)
    os.rename(str(folder / ("%s.tmp" % event_id)), str(folder / ("%s.event" % event_id)))


def test_spool_is_taken_in_at_start_and_while_it_runs(daemon):
    spool(daemon, "30.0-1", 30, "Stop", "late")
    spool(daemon, "10.0-1", 10, "Stop", "early")
    spool(daemon, "11.0-1", 11, "UserPromptSubmit", "answered")
    spool(daemon, "12.0-2", 10.5, "Stop", "answered")  # its name is younger than its time
    daemon.start()
    assert daemon.waiting() == ["early", "late"], "at the first answer already"
    spool(daemon, "20.0-1", 20, "Stop", "middle")
    began = time.monotonic()
    until(lambda: daemon.waiting() == ["early", "middle", "late"])
    assert time.monotonic() - began < 1
    assert [row["since"] for row in daemon.queue()] == [10, 20, 30]
    until(lambda: list((daemon.home / "spool").iterdir()) == [])
    daemon.restart()
    assert daemon.waiting() == ["early", "middle", "late"]


def test_odd_files_in_the_spool_hold_nothing_up(daemon):
    spool(daemon, "1.0-1", 1, "", content=b"")
    spool(daemon, "2.0-1", 2, "", content=b"X-Event-Id: half")
    spool(daemon, "3.0-1", 3, "", content=b"\xff\0" * 5000)
    spool(daemon, "4.0-1", "never", "Stop", "fine")
    spool(daemon, "5\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), 5, "Stop", "odd")
    spool(daemon, "6.0-1", 6, "", content=b"X-Event-Id: \xff\nX-Claude-Config: /a\0b\nX-Tmux: /a\0b,1,1\nX-Tmux-Pane: %1\n\n"
          b'{"hook_event_name": "Stop", "session_id": "bytes", "transcript_path": "/a\\u0000b\\ud800"}')
    os.mkfifo(str(daemon.home / "spool" / "7.0-1.event"))
    (daemon.home / "spool" / "8.0-1.event").mkdir()
    daemon.start()
    spool(daemon, "9.0-1", 9, "Stop", "last")
    until(lambda: "last" in daemon.waiting())
    assert set(daemon.waiting()) == {"fine", "odd", "bytes", "last"}
    assert sorted(path.name for path in (daemon.home / "spool").iterdir()) == ["7.0-1.event", "8.0-1.event"]
    said = daemon.said()
    assert said.count("dropped") == 3
    time.sleep(0.5)
    assert daemon.said() == said, "it says so once"


def test_times_decide_not_the_order_of_arrival(daemon):
    daemon.start()
    at = time.time() - 50
    daemon.hear("Stop", "a", X_Event_Time=at + 5)
    daemon.hear("UserPromptSubmit", "a", X_Event_Time=at)
    assert [(row["session_id"], row["since"]) for row in daemon.queue()] == [("a", at + 5)]
    daemon.hear("UserPromptSubmit", "b", X_Event_Time=at + 5)
    daemon.hear("Stop", "b", X_Event_Time=at)
    assert daemon.waiting() == ["a"]
    daemon.hear("Stop", "c", X_Event_Time=at + 1)
    assert daemon.waiting() == ["c", "a"]


def test_time_that_can_not_be_means_now(daemon):
    daemon.start()
    for claimed in (time.time() + 3600, "99999999999999", "1e300", "inf", "nan", "-5", "0", "soon", ""):
        before = time.time()
        assert daemon.hear("Stop", X_Event_Time=claimed) == 200
        assert before <= daemon.queue()[0]["since"] <= time.time(), claimed
        assert daemon.hear("UserPromptSubmit") == 200
        assert daemon.waiting() == [], "an event from the future must not outweigh all that follow"


# ---- the file it runs from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_pyz_may_go_while_it_serves(daemon, tmp_path, change):
    pyz = tmp_path / "trailboss.pyz"
    tb.build(str(pyz))
    daemon.program = [sys.executable, str(pyz)]
    daemon.start()
    if change == "delete":
        pyz.unlink()
    else:
        pyz.write_bytes(b"this is no program")
    spool(daemon, "1.0-1", 1, "Stop", "spooled")
    for name, fields in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": "go"}),
                         ("PermissionRequest", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
                         ("Elicitation", {}), ("Stop", {"background_tasks": []})):
        assert daemon.hear(name, transcript_path=str(daemon.config / "projects" / "x.jsonl"), **fields) == 200
    until(lambda: daemon.waiting() == ["spooled", "s1"])
    for method, path, body, status in (
            ("GET", "/health", None, 200), ("GET", "/queue?all=1", None, 200), ("GET", "/sessions/s1", None, 200),
            ("GET", "/sessions/s1?screen=1", None, 409), ("POST", "/skip", {"id": "s1"}, 200),
            ("POST", "/snooze", {"id": "s1", "seconds": 60}, 200), ("POST", "/jump", {}, 409), ("POST", "/jump", b"{", 400),
            ("GET", "/nowhere", None, 404), ("PUT", "/queue", None, 501), ("POST", "/event", b"[", 400)):
        assert daemon.ask(method, path, body)[0] == status, path
    assert daemon.end() == 0


# ---- trouble at the start ----------------------------------------------------------------------------------------------


def test_detached_daemon_answers_and_logs(daemon):
    code, out, err = daemon.run("serve", "--detach", "--port", "0")
    assert (code, err) == (0, "")
    pid = daemon.address()["pid"]
    try:
        log = daemon.home / "daemon.log"
        assert str(pid) in out and str(daemon.address()["port"]) in out and str(log) in out
        assert "listens" in log.read_text()
        assert os.getsid(pid) == pid != os.getsid(0), "in a session of its own: it outlives the terminal"
        code, out, err = daemon.run("list")
        assert code == 0 and "Nothing" in out
        code, out, err = daemon.run("serve", "--detach")
        assert (code, err) == (0, "") and str(pid) in out and "runs already" in out
        code, out, err = daemon.run("serve", "--detach", "--port", "0")
        assert (code, out, err.count("\n")) == (1, "", 1) and "kill %d" % pid in err, "not where it was asked for"
        assert daemon.address()["pid"] == pid
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not daemon.address())
    until(lambda: tb.process_of(pid) is None)
    assert "Traceback" not in log.read_text()


def test_detached_daemon_from_the_pyz(daemon, tmp_path):
    pyz = tmp_path / "with space" / "tb"
    pyz.parent.mkdir()
    tb.build(str(pyz))
    daemon.program = [sys.executable, str(pyz)]
    code, out, err = daemon.run("serve", "--detach", "--port", "0")
    assert (code, err) == (0, ""), err
    pid = daemon.address()["pid"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: tb.process_of(pid) is None)


def another_version(tmp_path):
    """The program with another content: [python, path]."""
    path = tmp_path / "older" / "trailboss.py"
    path.parent.mkdir()
    path.write_text((ROOT / "trailboss.py").read_text() + "# older\n")
    return [sys.executable, str(path)]


@pytest.mark.parametrize("how", ["behind", "in the foreground"])
def test_another_version_takes_over_with_the_queue_as_it_was(daemon, tmp_path, how):
    """The older one is told to end, ends cleanly, and the newer one goes on where it was."""
    newer, daemon.program = daemon.program, another_version(tmp_path)
    if how == "behind":
        assert daemon.run("serve", "--detach", "--port", "0")[0] == 0
        daemon.port, daemon.token = daemon.address()["port"], (daemon.home / "token").read_text()
    else:
        daemon.start()
    old = daemon.address()["pid"]
    for n in range(3):
        assert daemon.hear("Stop", "s%d" % n, X_Event_Time=100 + n) == 200
    before, daemon.program = keys(daemon.queue()), newer
    code, out, err = daemon.run("serve", "--detach")
    new = daemon.address()
    try:
        assert (code, err) == (0, "") and str(new["pid"]) in out and new["pid"] != old
        assert tb.process_of(old) is None or daemon.process and daemon.process.wait(5) == 0
        daemon.port = new["port"]
        assert keys(daemon.queue()) == before
    finally:
        os.kill(new["pid"], signal.SIGTERM)
        until(lambda: tb.process_of(new["pid"]) is None)


def test_two_that_start_one_at_the_same_time_have_one(daemon):
    """Two tmux servers that come up after a reboot, say."""
    starters = [subprocess.Popen([*daemon.program, "serve", "--detach"], env=daemon.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT) for _ in range(3)]
    said = [starter.communicate(timeout=30)[0].decode() for starter in starters]
    pid = daemon.address()["pid"]
    try:
        assert [starter.returncode for starter in starters] == [0] * 3, said
        assert all("pid %d," % pid in text for text in said)
    finally:
        os.kill(pid, signal.SIGTERM)
        until(lambda: tb.process_of(pid) is None)
    time.sleep(0.5)
    assert not daemon.address(), "the others do not take its place when it ends"


def test_database_of_a_newer_version_is_put_aside_whole(daemon):
    daemon.start()
    assert daemon.hear("Stop") == 200 and daemon.end() == 0
    path = daemon.home / "trailboss.db"
    with contextlib.closing(sqlite3.connect(str(path))) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (tb.Store.FORM,)
        db.execute("PRAGMA user_version=%d" % (tb.Store.FORM + 1))
    before = path.read_bytes()
    daemon.start()
    assert daemon.waiting() == [] and daemon.hear("Stop") == 200 and daemon.waiting() == ["s1"]
    aside, = [p for p in daemon.home.iterdir() if re.search(r"\.newer-\d+\Z", p.name)]
    said = daemon.log.read_text()
    assert aside.read_bytes() == before and str(aside) in said and said.count("put aside") == 1


@pytest.mark.parametrize("form", [0, 1])
def test_database_of_an_older_version_is_taken_over(daemon, form):
    daemon.start()
    assert daemon.hear("Stop") == 200 and daemon.end() == 0
    with contextlib.closing(sqlite3.connect(str(daemon.home / "trailboss.db"))) as db:
        for table, column in (("events", "session_id"), ("events", "name"), ("history", "against")):
            names = [row[1] for row in db.execute("PRAGMA table_info(%s)" % table) if row[1] != column]
            db.execute("DROP INDEX IF EXISTS events_by_session")
            db.execute("CREATE TABLE former AS SELECT %s FROM %s" % (", ".join(names), table))
            db.execute("DROP TABLE %s" % table)  # Python 3.8's SQLite may not know DROP COLUMN
            db.execute("ALTER TABLE former RENAME TO %s" % table)
        db.execute("PRAGMA user_version=%d" % form)
        db.commit()
    assert daemon.start().waiting() == ["s1"] and "aside" not in daemon.log.read_text()
    with contextlib.closing(sqlite3.connect(str(daemon.home / "trailboss.db"))) as db:
        assert db.execute("SELECT COUNT(*), MAX(against) FROM history").fetchone() in [(1, None), (1, "")]
        assert db.execute("PRAGMA user_version").fetchone() == (tb.Store.FORM,)


def test_database_with_other_tables_is_put_aside(daemon):
    daemon.home.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(str(daemon.home / "trailboss.db"))) as db:
        db.execute("CREATE TABLE sessions (name TEXT)")
        db.commit()
    daemon.start()
    assert daemon.hear("Stop") == 200 and daemon.waiting() == ["s1"]
    assert [p for p in daemon.home.iterdir() if ".broken-" in p.name] and "has no session_id" in daemon.log.read_text()


def test_detached_daemon_that_can_not_start_says_why(daemon):
    with stranger() as (port, _):
        code, out, err = daemon.run("serve", "--detach", "--port", str(port))
    assert (code, out, err.count("\n")) == (1, "", 1) and str(port) in err and "--port" in err


def test_corrupt_database_is_put_aside_and_said(daemon):
    daemon.home.mkdir()
    (daemon.home / "trailboss.db").write_bytes(b"no database at all" * 500)
    daemon.start()
    assert daemon.hear("Stop") == 200
    daemon.restart()
    assert daemon.waiting() == ["s1"]
    aside = [path for path in daemon.home.iterdir() if ".broken-" in path.name]
    assert len(aside) == 1 and daemon.said().count(str(aside[0])) == 1


def blocked_state(home, kind):
    """A state folder that can't be used."""
    if kind == "file":
        home.write_text("")
        return
    home.mkdir()
    (home / kind).mkdir()
    (home / kind / "full").write_text("")


@pytest.mark.parametrize("kind", ["file", "trailboss.db", "lock", "token"])
def test_state_that_can_not_be_used_is_one_sentence(daemon, kind, capsys):
    blocked_state(daemon.home, kind)
    code = tb.main(["serve", "--port", "0"], daemon.env)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (1, 1) and err.startswith("trailboss: ") and str(daemon.home) in err


@pytest.mark.parametrize("kind, argv", [("trailboss.db", ["--detach"]), ("daemon.json", []), ("curl.conf", [])])
def test_so_it_is_of_a_process(daemon, kind, argv):
    blocked_state(daemon.home, kind)
    code, out, err = daemon.run("serve", "--port", "0", *argv)
    assert (code, out, err.count("\n")) == (1, "", 1) and err.startswith("trailboss: ") and str(daemon.home) in err


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no prlimit here")
def test_disk_that_is_full_is_a_500_and_loses_nothing(daemon):
    """The emitter spools what was not answered with a 2xx; so an event that can't be saved must not be."""
    daemon.start()
    for n in range(10):
        assert daemon.hear("SessionStart", "s%d" % n, title="x" * 5000) == 200
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    assert daemon.hear("Stop", "meanwhile", X_Event_Id="1") == 500
    answer = daemon.ask("GET", "/queue")[1]  # right all the same, and it says what is the matter
    assert [row["session_id"] for row in answer["items"]] == ["meanwhile"] and "can't be saved" in answer["trouble"]
    assert "can't be saved" in daemon.run("list")[1]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
    assert daemon.hear("Stop", "after") == 200 and set(daemon.waiting()) == {"after", "meanwhile"}
    assert daemon.ask("GET", "/queue")[1]["trouble"] == ""
    assert daemon.hear("Stop", "meanwhile", X_Event_Id="1") == 200 and set(daemon.waiting()) == {"after", "meanwhile"}
    daemon.end()
    _, *lines = daemon.said().splitlines()  # if a look failed too: a sentence for a person, once for each cause
    assert all("can't be saved" in line for line in lines) and len(lines) < 6, lines


def test_look_that_can_not_be_saved_is_one_line_for_a_person(tmp_path, capfd):
    """A full disk is no fault of the program: no traceback, and not the same line five times a second."""
    made = tb.Daemon(str(tmp_path), {"HOME": str(tmp_path)})
    made.store.db.execute("PRAGMA query_only = 1")
    for _ in range(3):
        made.guard(lambda: made.turn(tb.Board({"s1": tb.Session("s1")})))
    made.stop()
    err = capfd.readouterr().err
    assert err.count("\n") == 1 and err.startswith("trailboss: the state can't be saved in ") and str(tmp_path) in err
    assert "can't be saved" in made.trouble and list(made.board.sessions) == ["s1"]


def test_it_ends_when_its_state_folder_is_taken_away(daemon):
    """`rm -r` of the state folder must leave no daemon behind that nobody can find."""
    assert daemon.start().queue() == []
    shutil.rmtree(str(daemon.home))
    assert daemon.process.wait(5) == 0


def test_a_request_while_it_starts_is_answered_when_it_has_started(daemon):
    """Where it listens is written first: a command that comes in between waits a moment, and does not fail."""
    daemon.spawn()
    until(lambda: daemon.address(), 15)
    assert daemon.run("list", "--json")[0] == 0


def test_a_spool_that_can_not_be_taken_in_stops_no_look_and_is_told_once(tmp_path, capfd, monkeypatch):
    home = tmp_path / "state"
    (home / "spool").mkdir(parents=True)
    (home / "spool" / "1.event").write_bytes(b'X-Event-Time: 1\n\n{"session_id": "s1", "hook_event_name": "Stop"}')
    made = tb.Daemon(str(home), {"HOME": str(tmp_path)})
    looks = []
    monkeypatch.setattr(made.records, "look", lambda configs: looks.append(1) or [])
    monkeypatch.setattr(made, "hear", lambda events: 1 / 0)
    for _ in range(3):
        made.tick()
    assert len(looks) == 3 and capfd.readouterr().err.count("Traceback") == 1
    monkeypatch.undo()
    made.tick()
    assert list(made.board.sessions) == ["s1"] and not list((home / "spool").iterdir())
    made.stop()

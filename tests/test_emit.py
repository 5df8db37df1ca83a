"""hooks/trailboss-emit.sh, run as Claude Code runs it: a real shell, a real curl, a real server in the daemon's place.

Each test runs under each shell that is here. `Emitter.emit` itself holds the promise that every test is about: exit 0,
not one byte of output, done within two seconds.
"""

import contextlib
import http.server
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "hooks" / "trailboss-emit.sh"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
TOOLS = "awk cat date head ls mkdir mv rm xargs".split()
EVENT = b'{"hook_event_name": "Stop", "session_id": "s1"}'
MEGABYTE = 1 << 20
HAS_PROC = os.path.exists("/proc/self/stat")


# The emitter, and what it leaves behind

class Emitter:
    """One copy of the script with its own shell, state folder and environment."""

    def __init__(self, shell, folder):
        self.shell = [shutil.which(shell[0]), *shell[1:]]
        self.folder = folder
        self.home = folder / "state home"
        self.home.mkdir(parents=True)
        self.script = folder / "trailboss-emit.sh"
        shutil.copy(str(SCRIPT), str(self.script))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TRAILBOSS_HOME": str(self.home)}

    def edit(self, old, new):
        """Replace `old`, which the script has exactly once."""
        before, after = self.script.read_text().split(old)
        self.script.write_text(before + new + after)

    def install(self, **values):
        """Fill in lines of the script as `trailboss install` does."""
        for name, value in values.items():
            self.edit("\n%s=\n" % name, "\n%s=%s\n" % (name, shlex.quote(str(value))))

    def only(self, *tools):
        """Let the script find these tools and no others."""
        folder = self.folder / "bin"
        folder.mkdir()
        for tool in tools:
            if not shutil.which(tool):
                pytest.skip("no %s here" % tool)
            (folder / tool).symlink_to(shutil.which(tool))
        line = re.search(r"(?m)^PATH=.*$", self.script.read_text()).group()
        self.edit(line, "PATH=" + shlex.quote(str(folder)))

    def start(self, stdin=subprocess.PIPE, options=(), **popen):
        """Start the script; in a process group of its own, so that a test can kill all of it."""
        command = [*self.shell, *options, str(self.script)]
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env,
                                start_new_session=True, **popen)

    def emit(self, payload=EVENT, stdin=subprocess.PIPE, stderr=b"", **popen):
        """Run the script to its end, check its promise, return the seconds it took."""
        began = time.monotonic()
        finish(self.start(stdin, **popen), payload if stdin == subprocess.PIPE else None, stderr)
        seconds = time.monotonic() - began
        assert seconds < 2
        return seconds

    def write_conf(self, port, pid=None, start=None):
        """Write curl.conf as the daemon does."""
        pid = os.getpid() if pid is None else pid
        lines = ["# %s %s" % (pid, start_of(pid) if start is None else start),
                 'url = "http://127.0.0.1:%d/event"' % port, 'header = "Authorization: Bearer t0ken"', ""]
        (self.home / "curl.conf").write_text("\n".join(lines))

    def spooled(self, home=None):
        """The events in the spool, oldest first, as (headers, body)."""
        return [read_event(path) for path in sorted(((home or self.home) / "spool").glob("*.event"))]

    def leftovers(self):
        """Names in the spool that are not events."""
        return [path.name for path in (self.home / "spool").glob("*") if path.suffix != ".event"]


def finish(process, payload=None, stderr=b""):
    """Wait for a script that was started: it must be silent and exit 0."""
    try:
        output = process.communicate(payload, timeout=20)
    finally:
        kill_group(process)
    assert (process.returncode, *output) == (0, b"", stderr)


def kill_group(process):
    """Kill what is left of a script that was started, and reap it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_event(path):
    """A spool file as (headers, body)."""
    head, body = path.read_bytes().split(b"\n\n", 1)
    pairs = [line.split(b": ", 1) for line in head.split(b"\n")]
    headers = {name.decode(): value for name, value in pairs}
    assert len(headers) == len(pairs)
    return headers, body


def start_of(pid):
    """When a process started, as curl.conf has it."""
    if HAS_PROC:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[19]
    return ps_start_of(pid)


def ps_start_of(pid):
    """When a process started, as `ps` has it."""
    env = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    return subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], env=env, stdout=subprocess.PIPE).stdout.decode()


@pytest.fixture(params=sorted(SHELLS))
def emitter(request, tmp_path):
    """An emitter that knows of no daemon."""
    if not shutil.which(SHELLS[request.param][0]):
        pytest.skip("no %s here" % request.param)
    yield Emitter(SHELLS[request.param], tmp_path)
    shutil.rmtree(str(tmp_path), ignore_errors=True)  # else pytest keeps some hundred megabytes of spools


# The daemon's place, and who else may be in it

class Server(socketserver.ThreadingTCPServer):
    """A server on a free port of 127.0.0.1 that counts its connections."""
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.port = self.server_address[1]
        self.status, self.reply = 204, b""
        self.got, self.connections = [], 0

    def verify_request(self, request, client_address):
        self.connections += 1
        return True

    def handle_error(self, request, client_address):
        """A client that went away is no news."""

    def met_nobody(self):
        """Has nobody connected yet? Connections are taken in order, so all before our own are counted by its end."""
        with socket.create_connection(("127.0.0.1", self.port)) as mine:
            mine.shutdown(socket.SHUT_WR)
            mine.settimeout(5)
            mine.recv(1)
        return self.connections == 1


class Handler(http.server.BaseHTTPRequestHandler):
    """Keeps each event, headers as bytes, and answers with the server's `status`."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        headers = {name: value.encode("latin-1") for name, value in self.headers.items()}
        assert len(headers) == len(self.headers.items())
        self.server.got.append((headers, self.rfile.read(int(headers["Content-Length"]))))
        body = b"" if self.server.status == 204 else b"204"
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Be quiet."""


class Rude(socketserver.BaseRequestHandler):
    """Says `reply`, whatever it is asked, and hangs up."""

    def handle(self):
        self.request.sendall(self.server.reply)


@contextlib.contextmanager
def serving(handler=Handler):
    """A running server."""
    with Server(handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def daemon(emitter):
    """A daemon that the emitter's curl.conf names."""
    with serving() as server:
        emitter.write_conf(server.port)
        yield server


@pytest.fixture
def stranger():
    """A server that has nothing to do with us."""
    with serving() as server:
        yield server


@contextlib.contextmanager
def child(code):
    """A Python process with this code; yields it and its first line."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            yield process, process.stdout.readline().decode().strip()
        finally:
            process.kill()


@contextlib.contextmanager
def mounted(path, options):
    """A small file system of its own at `path`, which only root can make."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    may = sys.platform.startswith("linux") and os.geteuid() == 0
    if not may or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


# The good path

def test_daemon_gets_the_event_with_all_headers(emitter, daemon):
    emitter.env.update(TMUX="/tmp/tmux-0/default,12,0", TMUX_PANE="%7", CLAUDE_PID="4242", CLAUDE_CODE_ENTRYPOINT="cli",
                       CLAUDE_CONFIG_DIR="/home/me/.claude", CLAUDE_PROJECT_DIR="/src/p", CLAUDE_JOB_DIR="/jobs/1")
    before = time.time()
    emitter.emit()
    (headers, body), = daemon.got
    assert body == EVENT
    event_id, at = headers.pop("X-Event-Id"), headers.pop("X-Event-Time", b"")
    assert re.fullmatch(rb"[0-9.]+-[0-9]+", event_id)
    assert not at or before - 0.001 <= float(at) <= time.time()
    for name in "Host", "User-Agent", "Accept":
        headers.pop(name)
    assert headers == {
        "Authorization": b"Bearer t0ken", "Content-Type": b"application/json", "Content-Length": b"%d" % len(EVENT),
        "X-Tmux": b"/tmp/tmux-0/default,12,0", "X-Tmux-Pane": b"%7", "X-Claude-Pid": b"4242",
        "X-Claude-Entrypoint": b"cli", "X-Claude-Config": b"/home/me/.claude", "X-Claude-Project-Dir": b"/src/p",
        "X-Claude-Job-Dir": b"/jobs/1"}
    assert not (emitter.home / "spool").exists()


PAYLOADS = {
    "text": '{"a": "naïve 😀 Å…", "b": "\\n \\\\ \\u0000 %s %% %d $HOME `id` \'*\'"}'.encode(),
    "dash": b"-n -e text", "at": b"@/etc/hostname", "percent": b"%s%n%d", "lines": b"\n one\r\n\n\ttwo \\c",
    "bytes": bytes(range(1, 256))}


@pytest.mark.parametrize("name", PAYLOADS)
def test_payload_arrives_and_is_spooled_byte_for_byte(emitter, daemon, name):
    daemon.status = 500
    emitter.emit(PAYLOADS[name])
    assert daemon.got[0][1] == PAYLOADS[name]
    assert emitter.spooled()[0][1] == PAYLOADS[name]


def test_only_the_last_newlines_are_cut(emitter, daemon):
    emitter.emit(b"{\n}\n")
    assert daemon.got[0][1] == b"{\n}"


def test_ten_megabytes_arrive_whole_and_are_spooled_whole(emitter, daemon):
    daemon.status = 500
    payload = os.urandom(5 * MEGABYTE).hex().encode()
    emitter.emit(payload)
    (headers, body), = daemon.got
    assert body == payload and "Expect" not in headers
    assert emitter.spooled()[0][1] == payload


def test_more_than_the_daemon_takes_is_dropped(emitter, daemon):
    emitter.env["LC_ALL"] = "C.UTF-8"  # the limit is in bytes all the same
    emitter.emit("é".encode() * (8 * MEGABYTE + 1))
    assert not daemon.got and not emitter.spooled()


def test_fifty_at_once_lose_nothing(emitter, daemon):
    payloads = [b'{"n": %d}' % n for n in range(50)]
    processes = [emitter.start() for _ in payloads]
    for process, payload in zip(processes, payloads):
        process.stdin.write(payload)
        process.stdin.flush()
    for process in processes:
        finish(process)
    seen = daemon.got + emitter.spooled()
    assert sorted({body for _, body in seen}) == sorted(payloads)
    assert len({headers["X-Event-Id"] for headers, _ in seen}) == 50


# No daemon, or not the one that should be there

def test_without_a_daemon_the_event_is_spooled(emitter):
    emitter.env.update(TMUX="/tmp/s,1,0", TMUX_PANE="%7", CLAUDE_PID="4242")
    before = time.time()
    emitter.emit()
    (headers, body), = emitter.spooled()
    assert body == EVENT
    event_id, at = headers.pop("X-Event-Id"), headers.pop("X-Event-Time", b"")
    assert [path.name for path in (emitter.home / "spool").iterdir()] == [event_id.decode() + ".event"]
    assert not at or before - 0.001 <= float(at) <= time.time()
    assert headers == {"X-Tmux": b"/tmp/s,1,0", "X-Tmux-Pane": b"%7", "X-Claude-Pid": b"4242"}


def test_spool_is_private(emitter):
    emitter.env["TRAILBOSS_HOME"] = str(emitter.folder / "new" / "state")
    emitter.emit(preexec_fn=lambda: os.umask(0))
    for path in emitter.folder / "new" / "state", emitter.folder / "new" / "state" / "spool":
        assert path.stat().st_mode & 0o777 == 0o700
    assert next(path.glob("*.event")).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("status", [200, 204, 400, 413])
def test_answer_that_settles_it_is_not_spooled(emitter, daemon, status):
    daemon.status = status
    emitter.emit()
    assert len(daemon.got) == 1 and not emitter.spooled()


@pytest.mark.parametrize("status", [302, 401, 500])
def test_other_answer_is_spooled_with_the_same_id(emitter, daemon, status):
    daemon.status = status
    emitter.emit()
    (sent, _), = daemon.got
    (kept, body), = emitter.spooled()
    assert kept["X-Event-Id"] == sent["X-Event-Id"]
    assert kept.get("X-Event-Time") == sent.get("X-Event-Time")
    assert body == EVENT


@pytest.mark.parametrize("reply", [b"", b"hello\r\n", b"HTTP/1.1 2", b"\x00" * 100])
def test_garbage_answer_is_spooled(emitter, reply):
    with serving(Rude) as server:
        server.reply = reply
        emitter.write_conf(server.port)
        emitter.emit()
    assert [body for _, body in emitter.spooled()] == [EVENT]


def test_refused_connection_is_spooled(emitter):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        emitter.write_conf(taken.getsockname()[1])
        emitter.emit()
    assert len(emitter.spooled()) == 1


def test_daemon_that_never_answers_holds_nobody_up(emitter):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        emitter.write_conf(listener.getsockname()[1])
        assert emitter.emit() < 1
        connection, _ = listener.accept()
        with connection:
            request = connection.makefile("rb").read()
    sent = re.search(rb"X-Event-Id: ([^\r]*)\r", request).group(1)
    (kept, body), = emitter.spooled()
    assert (kept["X-Event-Id"], body) == (sent, EVENT)


def test_stopped_daemon_holds_nobody_up(emitter):
    with child("import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
               "print(s.server_port, flush=True); s.serve_forever()") as (process, port):
        os.kill(process.pid, signal.SIGSTOP)
        emitter.write_conf(int(port), process.pid)
        assert emitter.emit() < 1
    assert len(emitter.spooled()) == 1


def test_stranger_on_a_dead_daemons_port_gets_nothing(emitter, stranger):
    with child("print()") as (process, _):
        start = start_of(process.pid)
        process.wait()
    emitter.write_conf(stranger.port, process.pid, start)
    emitter.emit()
    assert stranger.met_nobody()
    assert len(emitter.spooled()) == 1


def test_stranger_with_a_dead_daemons_pid_gets_nothing(emitter, stranger):
    start = int(start_of(os.getpid())) - 1 if HAS_PROC else "Thu Jan  1 00:00:00 1970"
    emitter.write_conf(stranger.port, start=start)
    emitter.emit()
    assert stranger.met_nobody()
    assert len(emitter.spooled()) == 1


@pytest.mark.skipif(not HAS_PROC, reason="ps shows no zombies here")
def test_stranger_on_a_zombies_port_gets_nothing(emitter, stranger):
    with child("print()") as (process, _):
        start = start_of(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        emitter.write_conf(stranger.port, process.pid, start)
        emitter.emit()
    assert stranger.met_nobody()
    assert len(emitter.spooled()) == 1


@pytest.mark.skipif(not HAS_PROC, reason="ps shows no process name here")
def test_process_name_does_not_pass_for_a_start(emitter, stranger):
    with child("import signal; open('/proc/self/comm', 'w').write(') S' + ' 7' * 6); print(flush=True);"
               "signal.pause()") as (process, _):
        emitter.write_conf(stranger.port, process.pid, "7")
        emitter.emit()
        assert stranger.met_nobody()
        emitter.write_conf(stranger.port, process.pid)
        emitter.emit()
    assert len(stranger.got) == 1


def test_broken_first_line_is_no_daemon(emitter, stranger):
    emitter.write_conf(stranger.port)
    right, rest = (emitter.home / "curl.conf").read_text().split("\n", 1)
    broken = ["", "#", "# ", "# 1", "# one 1", "# -1 1", "# 0 0", "# */self 1", "# \x01\xff 1", right[:-1], right + " 1"]
    for first in broken:
        (emitter.home / "curl.conf").write_text(first + "\n" + rest)
        emitter.emit()
    assert stranger.met_nobody()
    assert len(emitter.spooled()) == len(broken)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("/nowhere/at/all")])
def test_unreadable_conf_is_no_daemon(emitter, make):
    make(emitter.home / "curl.conf")
    emitter.emit()
    assert len(emitter.spooled()) == 1


@pytest.mark.skipif(not shutil.which("ps"), reason="no ps here")
def test_without_proc_ps_tells_whether_the_daemon_lives(emitter, daemon):
    emitter.edit("/proc/self/stat", "/nowhere/stat")
    emitter.env["TZ"] = "Pacific/Kiritimati"
    start = ps_start_of(os.getpid()).strip()
    emitter.write_conf(daemon.port, start=start.replace(" ", "  ") + "  ")
    emitter.emit(b"right")
    emitter.write_conf(daemon.port, start=start[:-1] + "x")
    emitter.emit(b"wrong")
    emitter.write_conf(daemon.port, pid=2 ** 22 + 1, start="")
    emitter.emit(b"dead")
    assert [body for _, body in daemon.got] == [b"right"]
    assert [body for _, body in emitter.spooled()] == [b"wrong", b"dead"]


# Standard input

def test_empty_input_is_no_event(emitter, daemon):
    emitter.emit(b"")
    emitter.emit(b"\n\n")
    assert not daemon.got and not (emitter.home / "spool").exists()


def test_closed_input_is_no_event(emitter, daemon):
    emitter.emit(stdin=None, preexec_fn=lambda: os.close(0))
    assert not daemon.got and not (emitter.home / "spool").exists()


def test_nul_bytes_do_no_harm(emitter, daemon):
    emitter.emit(b"\x00a\x00\xff\xfe\x00b\x00")
    assert daemon.got[0][1] == b"a\xff\xfeb"


@contextlib.contextmanager
def left_open(payload):
    """An input that brings this and then does not end."""
    reader, writer = os.pipe()
    try:
        os.write(writer, payload)
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def test_input_left_open_is_waited_for_and_what_came_counts(emitter, daemon):
    began, processes = time.monotonic(), []
    ignore_alarm = {"preexec_fn": lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN)}
    limiters = [limiter for limiter in ("timeout", "perl", "busybox") if shutil.which(limiter)]
    with left_open(b"") as silence, contextlib.ExitStack() as stack:
        for limiter in limiters:
            limited = Emitter(emitter.shell, emitter.folder / limiter)
            limited.install(home=emitter.home)
            limited.only("curl", limiter, *TOOLS)
            if limiter == "busybox":  # its timeout leaves ignored signals ignored
                (limited.folder / "bin" / limiter).rename(limited.folder / "bin" / "timeout")
            limited.env["PERL5OPT"] = "-MNo::Such"
            event = stack.enter_context(left_open(EVENT))
            processes += [limited.start(event), limited.start(silence), limited.start(silence, **ignore_alarm)]
        for process in processes:
            finish(process)
    assert time.monotonic() - began < 2
    assert [body for _, body in daemon.got] == [EVENT] * len(limiters) and not emitter.spooled()


def test_without_a_time_limit_the_event_arrives(emitter, daemon):
    emitter.only("curl", *TOOLS)
    emitter.emit()
    assert daemon.got[0][1] == EVENT


def test_flood_of_zeros_is_no_event(emitter, daemon):
    with open("/dev/zero", "rb") as zeros:
        emitter.emit(stdin=zeros)
    assert not daemon.got and not emitter.spooled()


def test_flood_of_text_is_no_event(emitter, daemon):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as flood:
        try:
            emitter.emit(stdin=flood.stdout)
        finally:
            flood.kill()
    assert not daemon.got and not emitter.spooled()


# The environment

def test_unset_variables_send_no_header(emitter, daemon):
    emitter.emit()
    assert [name for name in daemon.got[0][0] if name.startswith(("X-Tmux", "X-Claude"))] == []


def test_empty_environment_is_enough_once_installed(emitter, daemon):
    emitter.install(home=emitter.home)
    emitter.env.clear()
    emitter.emit()
    assert daemon.got[0][1] == EVENT


def test_empty_environment_without_a_home_is_no_error(emitter):
    emitter.env.clear()
    emitter.emit()


def test_installed_home_beats_the_environment(emitter):
    odd = emitter.folder / "it's \"a\" $HOME * `home` é"
    emitter.install(home=odd)
    emitter.emit()
    assert len(emitter.spooled(odd)) == 1 and not emitter.spooled()


@pytest.mark.parametrize("unset, home", [
    ([], "trailboss"), (["TRAILBOSS_HOME"], "xdg/trailboss"),
    (["TRAILBOSS_HOME", "XDG_STATE_HOME"], ".local/state/trailboss")])
def test_home_is_found_in_the_environment(emitter, unset, home):
    emitter.env.update(TRAILBOSS_HOME=str(emitter.folder / "trailboss"), XDG_STATE_HOME=str(emitter.folder / "xdg"))
    for name in unset:
        del emitter.env[name]
    emitter.emit()
    assert len(emitter.spooled(emitter.folder / home)) == 1


def test_relative_home_makes_no_folder_in_the_project(emitter):
    project = emitter.folder / "project"
    project.mkdir()
    emitter.env["TRAILBOSS_HOME"] = "state"
    emitter.emit(cwd=str(project))
    assert not list(project.iterdir())


@pytest.mark.parametrize("option", ["-u", "-e", "-a", "-C"])
def test_shell_options_change_nothing(emitter, daemon, option):
    payload = b"x" * 200_000
    emitter.only("curl", "timeout", *set(TOOLS) - {"xargs"})  # so that one step fails
    emitter.emit(payload, options=[option])
    daemon.status = 500
    emitter.emit(payload, options=[option])
    assert [len(body) for _, body in daemon.got] == [200_000, 200_000]
    assert [body for _, body in emitter.spooled()] == [payload]


def test_exported_names_of_the_script_change_nothing(emitter, daemon):
    names = re.findall(r"(?m)^ *(?:read -r )?([a-z]+)=", SCRIPT.read_text()) + ["_", "pid", "start", "stat", "line"]
    emitter.env.update(dict.fromkeys(names, "0x"), IFS="0123456789./", CDPATH="/", EPOCHREALTIME="1.5")
    emitter.env.update(TMUX="a b/c.0")
    payload = b"x" * 200_000
    emitter.emit(payload)
    daemon.status = 500
    emitter.emit(payload)
    assert [body for _, body in daemon.got] == [payload] * 2
    assert daemon.got[0][0]["X-Tmux"] == b"a b/c.0"
    assert [body for _, body in emitter.spooled()] == [payload]


VARIABLES = {
    "TMUX": "X-Tmux", "TMUX_PANE": "X-Tmux-Pane", "CLAUDE_PID": "X-Claude-Pid",
    "CLAUDE_CODE_ENTRYPOINT": "X-Claude-Entrypoint", "CLAUDE_CONFIG_DIR": "X-Claude-Config",
    "CLAUDE_PROJECT_DIR": "X-Claude-Project-Dir", "CLAUDE_JOB_DIR": "X-Claude-Job-Dir"}


@pytest.mark.parametrize("values", [
    ["a  b", "* ", "'\"", "$(id) `id` $HOME", "\\n\\c%s%d", "-x", "@x"],
    ["é Å … 😀", "x;", "a: b", "#", "?[a-z]*", "*", "/*"]])
def test_odd_values_arrive_as_they_are(emitter, daemon, values):
    daemon.status = 500
    emitter.env.update(zip(VARIABLES, values))
    for name in VARIABLES.values():
        (emitter.folder / (name + ": a file")).touch()  # what an unquoted * would find
    emitter.emit(cwd=str(emitter.folder))
    expected = {name: value.encode() for name, value in zip(VARIABLES.values(), values)}
    for headers, _ in daemon.got + emitter.spooled():
        assert {name: headers.get(name) for name in expected} == expected
    assert emitter.spooled()


def test_control_characters_forge_no_header(emitter, daemon):
    daemon.status = 500
    values = ["a\nX-Event-Id: forged", "a\r\nX-Forged: 1", "\n\nbody", "a\rb", "a\tb", "a\x1bb", "a\x7fb"]
    emitter.env.update(zip(VARIABLES, values))
    emitter.emit()
    for headers, body in daemon.got + emitter.spooled():
        assert {name for name in headers if name.startswith("X-")} <= {"X-Event-Id", "X-Event-Time"}
        assert headers["X-Event-Id"] != b"forged" and body == EVENT
    assert emitter.spooled()


def test_bytes_that_are_no_text_arrive_as_they_are(emitter, daemon):
    emitter.env.update(LC_ALL="C.UTF-8", LANG="C.UTF-8", CLAUDE_PROJECT_DIR=os.fsdecode(b"/a\xff\xc3"))
    emitter.emit(b"\xff\xc3")
    assert daemon.got[0][0]["X-Claude-Project-Dir"] == b"/a\xff\xc3"
    assert daemon.got[0][1] == b"\xff\xc3"


@pytest.mark.parametrize("path", [None, "", "/nowhere:."])
def test_path_is_no_matter(emitter, daemon, path):
    del emitter.env["PATH"]
    if path is not None:
        emitter.env["PATH"] = path
    emitter.emit()
    assert daemon.got[0][1] == EVENT


def test_tools_of_the_project_are_not_run(emitter, daemon):
    project = emitter.folder / "project"
    project.mkdir()
    for tool in ["curl", "timeout", *TOOLS]:
        (project / tool).write_text("#!/bin/sh\n>%s\n" % shlex.quote(str(project / "ran")))
        (project / tool).chmod(0o755)
    emitter.env["PATH"] = ".:%s:%s" % (project, emitter.env["PATH"])
    emitter.emit(cwd=str(project))
    daemon.status = 500
    emitter.emit(cwd=str(project))
    assert len(daemon.got) == 2 and len(emitter.spooled()) == 1
    assert not (project / "ran").exists()


def test_no_curlrc_is_read(emitter, daemon, stranger):
    rc = 'proxy = "http://127.0.0.1:%d"\nurl = "http://127.0.0.1:%d/"\nfail\n' % (stranger.port, stranger.port)
    for path in ".curlrc", "_curlrc", "curlrc", ".config/curlrc":
        (emitter.folder / path).parent.mkdir(exist_ok=True)
        (emitter.folder / path).write_text(rc)
    emitter.env.update(CURL_HOME=str(emitter.folder), XDG_CONFIG_HOME=str(emitter.folder))
    emitter.emit()
    assert stranger.met_nobody()
    assert daemon.got[0][1] == EVENT


def test_no_proxy_is_asked(emitter, daemon, stranger):
    for name in "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY":
        emitter.env[name] = "http://127.0.0.1:%d" % stranger.port
    emitter.env["NO_PROXY"] = emitter.env["no_proxy"] = "example.org"
    emitter.emit()
    assert stranger.met_nobody()
    assert daemon.got[0][1] == EVENT


def test_deleted_folder_is_no_matter(emitter, daemon):
    def vanish():
        os.mkdir(str(emitter.folder / "gone"))
        os.chdir(str(emitter.folder / "gone"))
        os.rmdir(str(emitter.folder / "gone"))
    # dash and bash complain of the folder before they read the first line of any script.
    empty = subprocess.run([*emitter.shell, os.devnull], preexec_fn=vanish, stderr=subprocess.PIPE)
    emitter.emit(preexec_fn=vanish, stderr=empty.stderr)
    daemon.status = 500
    emitter.emit(preexec_fn=vanish, stderr=empty.stderr)
    assert len(daemon.got) == 2 and len(emitter.spooled()) == 1


def test_end_of_the_session_does_not_end_the_emitter(emitter):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        emitter.write_conf(listener.getsockname()[1])
        process = emitter.start()
        process.stdin.write(EVENT)
        process.stdin.close()
        process.stdin = None
        connection, _ = listener.accept()
        with connection:
            for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
                os.killpg(process.pid, number)
            finish(process)
    assert len(emitter.spooled()) == 1


def test_script_cut_off_in_the_middle_is_silent(emitter):
    lines = emitter.script.read_text().splitlines(True)
    for end in range(lines.index("exec >/dev/null 2>&1\n") + 1, len(lines), 4):
        emitter.script.write_text("".join(lines[:end]))
        emitter.emit()


# Without curl

PROGRAM = """import os, sys
with open(os.environ["TRAILBOSS_HOME"] + "/got", "wb") as file:
    file.write(repr((sys.argv[1:], sys.flags.isolated)).encode() + sys.stdin.buffer.read())
print("noise"); print("noise", file=sys.stderr)
"""


def install_python(emitter, program):
    """Take curl away, and give the emitter a home, Python and this program."""
    path = emitter.folder / "it's trailboss.py"
    path.write_text(program)
    emitter.only("timeout", *TOOLS)
    emitter.install(home=emitter.home, python=sys.executable, program=path)
    emitter.env["TRAILBOSS_HOME"] = str(emitter.folder / "another")
    return path


def test_without_curl_python_sends_it(emitter):
    install_python(emitter, PROGRAM)
    emitter.emit(PAYLOADS["text"])
    assert (emitter.home / "got").read_bytes() == b"(['emit'], 1)" + PAYLOADS["text"]
    assert not emitter.spooled()


def test_without_curl_and_program_it_is_spooled(emitter):
    install_python(emitter, PROGRAM).unlink()
    emitter.emit()
    assert len(emitter.spooled()) == 1


@pytest.mark.parametrize("program", ["raise SystemExit(2)", "syntax error"])
def test_without_curl_a_failing_program_does_not_lose_it(emitter, program):
    install_python(emitter, program)
    emitter.emit()
    assert len(emitter.spooled()) == 1


def test_without_curl_and_python_it_is_spooled(emitter):
    emitter.only("timeout", *TOOLS)
    emitter.install(python="/nowhere/python3", program=emitter.script)
    emitter.emit()
    assert len(emitter.spooled()) == 1


def test_without_curl_and_installation_it_is_spooled(emitter):
    emitter.only("timeout", *TOOLS)
    emitter.emit()
    assert len(emitter.spooled()) == 1


def test_without_any_tool_it_is_silent(emitter):
    emitter.only()
    emitter.emit()


def test_date_without_nanoseconds_gives_no_time(emitter):
    for output in "1700000000.N", "1700000000.%N", "1700000000.":
        emitter.only("curl", "timeout", *TOOLS)
        date = emitter.folder / "bin" / "date"
        date.unlink()
        date.write_text("#!%s\necho %s\n" % (shutil.which("sh"), output))
        date.chmod(0o755)
        emitter.emit()
        shutil.rmtree(str(emitter.folder / "bin"))
    for headers, _ in emitter.spooled():
        assert re.fullmatch(rb"1700000000-[0-9]+", headers["X-Event-Id"]) and "X-Event-Time" not in headers
    assert len(emitter.spooled()) == 3


# The disk

@pytest.mark.parametrize("name", ["state home", "state home/spool"])
def test_file_in_the_place_of_a_folder_is_left_alone(emitter, name):
    emitter.home.rmdir()
    (emitter.folder / name).parent.mkdir(exist_ok=True)
    (emitter.folder / name).write_text("mine")
    emitter.emit()
    assert (emitter.folder / name).read_text() == "mine"


def test_unwritable_folder_is_no_error(emitter):
    with contextlib.ExitStack() as stack:
        if os.geteuid():
            emitter.home.chmod(0o555)
        else:
            stack.enter_context(mounted(emitter.home, "ro"))
        emitter.emit()
        assert not list(emitter.home.iterdir())


def test_full_disk_leaves_no_half_event(emitter):
    with mounted(emitter.home, "size=64k"):
        emitter.emit()
        emitter.emit(b"x" * 100_000)
        assert [body for _, body in emitter.spooled()] == [EVENT]
        assert not emitter.leftovers()


def test_full_disk_does_not_keep_it_from_the_daemon(emitter, daemon):
    with mounted(emitter.home, "size=64k"):
        emitter.write_conf(daemon.port)
        with contextlib.suppress(OSError), open(str(emitter.home / "ballast"), "wb") as ballast:
            ballast.write(b"x" * 100_000)
        emitter.emit(b"x" * 100_000)
    assert len(daemon.got[0][1]) == 100_000


def test_file_size_limit_leaves_no_half_event(emitter):
    emitter.emit(b"x" * 100_000, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert not emitter.spooled() and not emitter.leftovers()


def test_kill_in_the_middle_leaves_no_half_event(emitter):
    payload = b"x" * 8 * MEGABYTE
    spool = str(emitter.home / "spool")
    os.mkdir(spool)
    (emitter.folder / "payload").write_bytes(payload)
    for _ in range(2):
        before = os.listdir(spool)
        with open(str(emitter.folder / "payload"), "rb") as stdin, emitter.start(stdin) as process:
            while os.listdir(spool) == before and process.poll() is None:
                pass
            kill_group(process)
    assert all(body == payload for _, body in emitter.spooled())
    assert emitter.spooled() or emitter.leftovers()


def fill(spool, names, size=10):
    """Put files into the spool."""
    spool.mkdir()
    for name in names:
        (spool / name).write_bytes(b"X-Event-Id: 1\n\n" + b"x" * size)


def test_five_hundred_and_first_event_evicts_the_oldest(emitter):
    spool = emitter.home / "spool"
    fill(spool, ["17000%05d.123456789-%d.event" % (n, 7 * n % 1000) for n in range(500)])
    emitter.emit()
    names = sorted(os.listdir(str(spool)))
    assert len(names) == 500
    assert names[0].startswith("1700000001.")
    assert emitter.spooled()[-1][1] == EVENT


def test_spool_has_a_size(emitter):
    fill(emitter.home / "spool", ["170000000%d.5-1.event" % n for n in range(9)], 14 * MEGABYTE)
    emitter.emit()
    names = sorted(os.listdir(str(emitter.home / "spool")))
    assert [name[:10] for name in names[:-1]] == ["170000000%d" % n for n in range(5, 9)]
    assert emitter.spooled()[-1][1] == EVENT


def test_many_small_events_make_room_quickly(emitter):
    fill(emitter.home / "spool", ["1700000%03d.5-1.event" % n for n in range(490)])
    for n in range(5):
        (emitter.home / "spool" / ("1800000%03d.5-1.event" % n)).write_bytes(b"x" * 15 * MEGABYTE)
    assert emitter.emit() < 1
    assert len(os.listdir(str(emitter.home / "spool"))) == 5


def test_half_written_files_do_not_pile_up(emitter):
    spool = emitter.home / "spool"
    endings = "event", "tmp", "event.77.tmp"  # the last is how `trailboss emit` names it
    fill(spool, ["17000%05d.5-1.%s" % (n, endings[n % 3]) for n in range(510)])
    emitter.emit()
    assert len(os.listdir(str(spool))) == 500
    assert emitter.spooled()[-1][1] == EVENT


def test_files_of_others_in_the_spool_are_left_alone(emitter):
    spool = emitter.home / "spool"
    fill(spool, ["17000%05d.5-1.event" % n for n in range(510)])
    others = ["1 2.event", "-rf", "notes", "1.txt", "a.event"]
    for name in others:
        (spool / name).write_text("mine")
    emitter.env.update(QUOTING_STYLE="c", LS_BLOCK_SIZE="1", BLOCK_SIZE="1", BLOCKSIZE="512", POSIXLY_CORRECT="1")
    emitter.emit()
    assert set(others) <= set(os.listdir(str(spool)))
    assert len(os.listdir(str(spool))) == 500 + len(others)

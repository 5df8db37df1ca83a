"""Section 9 and the jump of section 11, on real tmux: servers on sockets of their own, clients on real terminals.

A Town is one person's machine under one temporary folder. In place of Claude Code each pane runs a copy of `sleep` that
is called claude; hook events with that process's real pid, $TMUX and $TMUX_PANE make the session. The daemon is in this
process; what types `trailboss` is a real shell in a pane, or a real key on a real terminal. Only tmux 3.3a was there when
this was written: on no other version was any of it tried.
"""
import fcntl
import http.client
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import namedtuple

import pytest
from support import ROOT, tb

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux here")

PROGRAM = [sys.executable, str(ROOT / "trailboss.py")]
SOON = 1.2        # s: so long the queue may take to follow
LABEL = 2.5       # s: and so long a window's label
Spot = namedtuple("Spot", "pane_id pid")


def within(seconds, predicate, why=""):
    """Wait until predicate() is true; what it gave."""
    end = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        assert time.monotonic() < end, "not within %s s: %s" % (seconds, why() if callable(why) else why)
        time.sleep(0.02)


def clean_env(folder, **more):
    return dict({"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "screen-256color",
                 "SHELL": "/bin/sh", "PS1": "$ "}, **more)


class Server:
    """A tmux server of the test's own."""

    def __init__(self, town, name):
        self.town, self.socket = town, str(town.folder / name)
        self.session("main", "exec sleep 3600")
        self.pid = int(self.tmux("display-message", "-p", "#{pid}"))

    def tmux(self, *argv, check=True):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, "-f", os.devnull, *argv], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_env(self.town.folder))
        out = done.stdout.decode("utf-8", "replace").rstrip("\n")
        assert not check or done.returncode == 0, "tmux %s: %s" % (argv, out)
        return out

    def rows(self, *argv):
        return [tuple(line.split("\t")) for line in self.tmux(*argv).split("\n")]

    def make(self, *argv):
        pane_id, pid = self.tmux(*argv[:1], "-P", "-F", "#{pane_id} #{pane_pid}", *argv[1:]).split()
        return Spot(pane_id, int(pid))

    def session(self, name, command=None, *options):
        return self.make("new-session", "-d", "-s", name, "-x", "80", "-y", "24", *options, command or self.town.claude)

    def window(self, target, command=None):
        return self.make("new-window", "-d", "-t", target, command or self.town.claude)

    def split(self, target, command=None):
        return self.make("split-window", "-d", "-t", target, command or self.town.claude)

    def attach(self, target, *options):
        return Terminal(self, "tmux", "-u", "-S", self.socket, "attach-session", *options, "-t", target)

    def clients(self):
        """{name: (session, pane)} of what each client looks at."""
        rows = self.rows("list-clients", "-F", "#{client_name}\t#{session_name}\t#{pane_id}")
        return {row[0]: row[1:] for row in rows if len(row) == 3}

    def kill(self):
        self.tmux("kill-server", check=False)
        within(5, lambda: not tb.process_of(self.pid), "the tmux server has not ended")


class Terminal:
    """A program, most often a tmux client, on a terminal of its own."""

    def __init__(self, server, *argv, env=None):
        self.server, self.output = server, b""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.tty = os.ttyname(slave)
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env=env or clean_env(server.town.folder),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        threading.Thread(target=self.drain, daemon=True).start()
        server.town.terminals.append(self)
        if argv[0] == "tmux":
            within(5, lambda: self.at(), lambda: self.output)

    def drain(self):
        try:
            while True:
                self.output += os.read(self.master, 65536)
        except OSError:
            pass

    def press(self, keys):
        os.write(self.master, keys)

    def at(self, server=None):
        """(session, pane) that it looks at, or None."""
        return (server or self.server).clients().get(self.tty)

    @property
    def pane(self):
        return self.at()[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


class Town:
    def __init__(self, folder):
        self.folder, self.home, self.config = folder, folder / "state", folder / "config"
        self.claude = str(folder / "claude") + " 3600"
        shutil.copy(shutil.which("sleep"), str(folder / "claude"))
        (self.config / "sessions").mkdir(parents=True)
        (folder / "no sockets").mkdir()
        self.home.mkdir()
        self.servers, self.terminals, self.http, self.count = [], [], None, 0
        self.env = clean_env(folder, TRAILBOSS_HOME=str(self.home), CLAUDE_CONFIG_DIR=str(self.config),
                             TMUX_TMPDIR=str(folder / "no sockets"))
        self.daemon = tb.Daemon(str(self.home), self.env)

    def server(self, name="a"):
        self.servers.append(Server(self, name))
        return self.servers[-1]

    def serve(self):
        """Let commands reach the daemon of this process, as `serve` does."""
        token = tb.token_of(str(self.home))
        self.http = tb.make_server(self.daemon, 0, token)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        tb.publish(str(self.home), self.http.server_port, token)

    def boss(self, *argv, **more):
        """`trailboss ...` as a process: (exit code, what it printed)."""
        done = subprocess.run([*PROGRAM, *argv], env=dict(self.env, **more), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
        return done.returncode, done.stdout.decode()

    def line(self, *argv):
        """The same as a line of shell for a pane or a key binding."""
        env = ["env", "TRAILBOSS_HOME=%s" % self.home, "HOME=%s" % self.folder]
        return " ".join(map(shlex.quote, [*env, *PROGRAM, *argv]))

    def event(self, server, spot, name, session_id, headers=(), **payload):
        """A hook event of the process in a pane."""
        told = {"x-tmux": "%s,%d,0" % (server.socket, server.pid), "x-tmux-pane": spot.pane_id,
                "x-claude-pid": str(spot.pid or ""), "x-claude-entrypoint": "cli", "x-claude-config": str(self.config)}
        told.update(headers)
        body = json.dumps({"session_id": session_id, "hook_event_name": name, "cwd": str(self.folder), **payload})
        self.daemon.hear([tb.parse_event(body.encode(), told, time.time())])

    def stuck(self, server, *spots, names="abcdefghij", **more):
        """A session that waits in each pane, oldest first; their ids are aaaaaaaa, bbbbbbbb..."""
        for spot in spots:
            self.event(server, spot, "Stop", names[self.count] * 8, last_assistant_message="done", **more)
            self.count += 1
        self.daemon.look_at_tmux()

    def jump(self, wanted="", client="", here="", pane="", **more):
        """`jump`; with a client, as the key binding of README.md does it."""
        if isinstance(client, Terminal):
            here = "%s,%d,0" % (client.server.socket, client.server.pid)
        ask = {"id": wanted, "client": client and client.tty, "tmux": here, "pane": pane}
        return self.daemon.jump(dict(ask, **more))["notes"]

    def refusal(self, *argv, **more):
        with pytest.raises(tb.Fault) as caught:
            self.jump(*argv, **more)
        return str(caught.value)

    def queue(self):
        """[(session id's first letter, pane)] of those that wait."""
        return [(item["session_id"][0], item["pane"]) for item in self.daemon.queue(False)["items"]]

    def row(self, session_id):
        return next(row for row in self.daemon.queue(True)["sessions"] if row["session_id"] == session_id)

    def windows(self):
        return [item["window"] for item in self.daemon.queue(False)["items"]]

    def close(self):
        if self.http:
            self.http.shutdown()
            self.http.server_close()
        self.daemon.stop()
        for terminal in self.terminals:
            terminal.close()
        for server in self.servers:
            server.kill()


@pytest.fixture
def town(tmp_path):
    town = Town(tmp_path)
    try:
        yield town
    finally:
        town.close()


def command_in(message):
    """The command that a message tells the person to type."""
    return message.split("`")[1]


# ---- the next one, one by its ID, and back ---------------------------------------------------------------------------


def test_next_goes_round_and_removes_nothing(town):
    a = town.server()
    spots = [a.session("one"), a.session("two"), a.window("two")]
    town.stuck(a, *spots)
    client = a.attach("main")
    for spot in spots + spots[:2]:
        assert town.jump() == []
        assert client.pane == spot.pane_id
        assert town.queue() == [("a", spots[0].pane_id), ("b", spots[1].pane_id), ("c", spots[2].pane_id)]


def test_the_only_one_stays_the_next(town):
    a = town.server()
    spot = a.session("one")
    town.stuck(a, spot)
    client = a.attach("main")
    assert [town.jump(), client.pane, town.jump(), client.pane] == [[], spot.pane_id, [], spot.pane_id]


def test_from_the_middle_it_goes_on_to_the_one_after(town):
    a = town.server()
    spots = [a.session("one"), a.session("two"), a.session("three")]
    town.stuck(a, *spots)
    client = a.attach("two")
    town.jump()
    assert client.pane == spots[2].pane_id


def test_nothing_waits(town):
    a = town.server()
    a.attach("main")
    with pytest.raises(tb.Fault) as caught:
        town.jump()
    assert (caught.value.code, str(caught.value)) == (4, "nothing is waiting")


def test_by_id(town):
    a = town.server()
    spots = [a.session("one"), a.session("two"), a.session("three")]
    town.stuck(a, *spots)
    town.event(a, spots[1], "UserPromptSubmit", "bbbbbbbb", prompt="go on")
    client = a.attach("main")
    town.jump(spots[2].pane_id)
    assert client.pane == spots[2].pane_id
    town.jump("bb")
    assert client.pane == spots[1].pane_id  # it works, and is reached all the same
    assert town.refusal("x") == "no session has the ID 'x'; `trailboss list --all` shows them all"
    assert "no session is known in the pane %999" in town.refusal("%999")
    assert "no session is known in the pane %0" in town.refusal("%0")  # a pane, but nobody's
    for hostile in ("%1; kill-server", "-t", "$1", "=one", "%", "#(touch x)", "\x00"):
        assert "no session has the ID" in town.refusal(hostile)
    assert client.pane == spots[1].pane_id


def test_an_ambiguous_id_names_those_it_could_be(town):
    a = town.server()
    spots = [a.session("one"), a.session("two")]
    for spot, session_id in zip(spots, ("same-1", "same-2")):
        town.event(a, spot, "Stop", session_id)
    town.daemon.look_at_tmux()
    client = a.attach("main")
    said = town.refusal("same")
    assert "same-1 in %s" % spots[0].pane_id in said and "same-2 in %s" % spots[1].pane_id in said
    town.jump("same-2")
    assert client.pane == spots[1].pane_id


def test_back_over_several_jumps_and_over_a_pane_that_is_gone(town):
    a = town.server()
    spots = [a.session("one"), a.session("two"), a.session("three")]
    town.stuck(a, *spots)
    client = a.attach("main")
    start = client.pane
    for _ in range(3):
        town.jump()
    a.tmux("kill-pane", "-t", spots[1].pane_id)
    notes = town.jump(back=True)
    assert client.pane == spots[0].pane_id and notes == ["the pane %s is gone" % spots[1].pane_id]
    assert town.jump(back=True) == [] and client.pane == start
    assert town.refusal(back=True) == "the client %s has no jump to go back from" % client.tty
    assert client.pane == start
    town.jump()
    a.tmux("switch-client", "-c", client.tty, "-t", spots[2].pane_id)
    town.jump(back=True)
    assert client.pane == start
    a.tmux("switch-client", "-c", client.tty, "-t", spots[2].pane_id)
    assert "no jump to go back from" in town.refusal(back=True)  # a way back is no way forth
    a.tmux("set-option", "-g", "remain-on-exit", "on")
    doomed = a.window("main", "exec sleep 3600")
    a.tmux("switch-client", "-c", client.tty, "-t", doomed.pane_id)
    town.jump(spots[0].pane_id)
    os.kill(doomed.pid, signal.SIGKILL)
    within(5, lambda: ("1",) in a.rows("list-panes", "-t", doomed.pane_id, "-F", "#{pane_dead}"))
    assert town.refusal(back=True).startswith("the pane %s is gone; the client" % doomed.pane_id)


def test_each_client_has_its_own_way_back(town):
    a = town.server()
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, *spots)
    left, right = a.attach("main"), a.attach("main")
    a.session("other", "exec sleep 3600")
    start = left.pane
    town.jump(client=left)
    assert "no jump to go back from" in town.refusal(client=right, back=True)
    town.jump(spots[1].pane_id, client=right)
    town.jump(client=left, back=True)
    assert (left.pane, right.pane) == (start, spots[1].pane_id)


def test_a_way_back_that_can_not_be_gone_is_not_lost(town):
    a, b = town.server("a"), town.server("b")
    spot = b.session("one")
    town.stuck(b, spot)
    client = a.attach("main")
    start = client.pane
    town.jump(client=client, attach=True)
    within(5, lambda: client.at(b), "the client is on the other server")
    for _ in range(2):
        assert "is on another tmux server" in town.refusal(client=client, back=True)
    town.jump(client=client, back=True, attach=True)
    within(5, lambda: client.at(a), "the client is back")
    assert client.at(a) == ("main", start)

    lost = a.window("main", "exec sleep 3600")
    for end in ("kill-pane", "kill-server"):
        a.tmux("select-window", "-t", "main:1" if end == "kill-pane" else "main:0")
        town.jump(client=client, attach=True)
        within(5, lambda: client.at(b), "the client is on the other server")
        a.tmux(end, *["-t", lost.pane_id] if end == "kill-pane" else [])
        if end == "kill-server":
            within(5, lambda: not tb.process_of(a.pid))
            town.servers.append(Server(town, "a"))  # another one, with the same socket and pane ids
        here = "%s,%d,0" % (b.socket, b.pid)
        said = town.refusal(client=namedtuple("Here", "tty")(client.tty), here=here, back=True, attach=True)
        assert said.startswith("the pane %s is gone; the client" % (lost.pane_id if end == "kill-pane" else start))
        assert client.at(b) == ("one", spot.pane_id)
        if end == "kill-pane":
            b.tmux("detach-client", "-t", client.tty, "-E", "exec tmux -S %s attach-session -t main" % a.socket)
            within(5, lambda: client.at(a))


# ---- which client ----------------------------------------------------------------------------------------------------


def test_the_named_client_moves_and_the_other_does_not(town):
    a = town.server()
    spot = a.session("one")
    a.session("two", "exec sleep 3600")
    town.stuck(a, spot)
    left, right = a.attach("main"), a.attach("two")
    before = right.at()
    town.jump(client=left)
    assert (left.at(), right.at()) == (("one", spot.pane_id), before)
    assert "no tmux client is called 'nobody'" in town.refusal(client=namedtuple("No", "tty")("nobody"))


def latest(town, client):
    """Make a client the latest active one; tmux counts in whole seconds."""
    def newest():
        client.press(b" ")
        rows = client.server.rows("list-clients", "-F", "#{client_activity}\t#{client_name}")
        return max(rows)[1] == client.tty and len({row[0] for row in rows}) > 1
    within(4, newest, "another client stays the latest")


def shell_in(server, session):
    """A session with a plain shell in it, ready."""
    spot = server.session(session, "exec sh")
    within(5, lambda: "$" in server.tmux("capture-pane", "-p", "-t", spot.pane_id), "no prompt")
    return spot


def typed(server, spot, line):
    server.tmux("send-keys", "-t", spot.pane_id, "-l", line)
    server.tmux("send-keys", "-t", spot.pane_id, "Enter")


def test_typed_in_a_pane_it_moves_the_client_there_and_not_the_latest(town):
    a = town.server()
    goal, shell = a.session("one"), shell_in(a, "shell")
    town.stuck(a, goal)
    town.serve()
    mine, other = a.attach("shell"), a.attach("main")
    latest(town, other)
    before = other.at()
    typed(a, shell, town.line("jump"))
    within(5, lambda: mine.pane == goal.pane_id, lambda: a.tmux("capture-pane", "-p", "-t", shell.pane_id))
    assert other.at() == before


def test_typed_in_a_grouped_session_it_moves_the_client_that_sees_it(town):
    """$TMUX keeps the session in which the pane was made; the client that sees it may be in another of the group."""
    a = town.server()
    goal, shell = a.session("one"), shell_in(a, "base")
    a.tmux("new-session", "-d", "-t", "base", "-s", "base-b")
    a.window("base", "exec sleep 3600")
    town.stuck(a, goal)
    town.serve()
    other, mine = a.attach("base"), a.attach("base-b")
    a.tmux("select-window", "-t", "base:1")
    latest(town, other)
    before = other.at()
    assert before[1] != shell.pane_id == mine.pane
    typed(a, shell, town.line("jump"))
    within(5, lambda: mine.pane == goal.pane_id, lambda: a.tmux("capture-pane", "-p", "-t", shell.pane_id))
    assert other.at() == before


def test_a_key_moves_the_client_that_it_was_pressed_in(town):
    """run-shell has no client of its own to go by: the binding names it. Meanwhile the other one is used."""
    a = town.server()
    goal = a.session("one")
    town.stuck(a, goal)
    town.serve()
    mine, other = a.attach("main"), a.attach("main")
    a.tmux("bind-key", "g", "run-shell", "sleep 1.2; " + town.line("jump", "--client") + " '#{client_name}'")
    before = other.at()
    mine.press(b"\x02g")
    time.sleep(0.1)
    latest(town, other)
    within(5, lambda: mine.pane == goal.pane_id)
    assert other.at() == before


class Keys:
    """A person's home with a tmux of theirs in its usual place, and `install --tmux`."""

    def __init__(self, town, name="home"):
        self.town, self.folder = town, town.folder / name
        self.folder.mkdir()
        (self.folder / ("tmux-%d" % os.getuid())).mkdir(mode=0o700)
        self.socket = str(self.folder / ("tmux-%d" % os.getuid()) / "default")
        self.env = clean_env(self.folder, TMUX_TMPDIR=str(self.folder))
        self.conf = self.folder / ".tmux.conf"
        self.before = None

    def tmux(self, *argv):
        done = subprocess.run(["tmux", "-u", *argv], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def start(self, *options):
        """The server, as a person would start it: it loads what it loads."""
        server = Server.__new__(Server)
        server.town, server.socket, server.tmux = self.town, self.socket, lambda *argv, check=True: self.tmux(*argv)
        self.tmux(*options, "new-session", "-d", "-s", "main", "-x", "80", "-y", "24", "exec sleep 3600")
        server.pid = int(self.tmux("display-message", "-p", "#{pid}"))
        self.town.servers.append(server)
        self.before = self.before or self.state()
        return server

    def state(self):
        """All that a configuration could have changed."""
        return [self.tmux(*argv) for argv in (("list-keys",), ("show", "-s"), ("show", "-g"), ("show", "-gw"))]

    def boss(self, *argv):
        done = subprocess.run([*PROGRAM, *argv], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30)
        return done.returncode, done.stdout.decode()

    def install(self):
        """What it said; the daemon that the keys file starts is there."""
        code, out = self.boss("install", "--tmux")
        assert code == 0, out
        self.daemon()
        return out

    def bound(self, key):
        return re.findall(r"-T prefix +%s +(.*)" % re.escape(key), self.tmux("list-keys"))

    @property
    def home(self):
        return str(self.folder / ".local" / "state" / "trailboss")

    def daemon(self):
        return within(10, lambda: tb.running_daemon(self.home), "no daemon was started")


@pytest.fixture
def keys(town):
    made = Keys(town)
    try:
        yield made
    finally:
        tb.end_daemon(made.home)


def press(client, key, wanted):
    """A key after the prefix; what it has to say comes on the status line, over no pane."""
    client.output = b""
    client.press(b"\x02" + key)
    within(5, lambda: wanted in client.output, lambda: client.output)
    assert set(client.server.tmux("list-panes", "-a", "-F", "#{pane_in_mode}").split()) == {"0"}


def send_stop(keys, server, spot, session_id):
    """A finished turn of the process in a pane, told to the daemon that runs."""
    told = {"X-Tmux": "%s,%d,0" % (server.socket, server.pid), "X-Tmux-Pane": spot.pane_id, "X-Claude-Pid": str(spot.pid),
            "X-Claude-Entrypoint": "cli"}
    assert tb.post_event(keys.home, told, json.dumps(
        {"session_id": session_id, "hook_event_name": "Stop", "cwd": "/w", "last_assistant_message": "done"}).encode())
    within(5, lambda: any(row["pane"] for row in json.loads(keys.boss("list", "--json")[1])["items"]
                          if row["session_id"] == session_id), "its pane was not proved")


def test_keys_work_at_once_and_after_a_reboot_and_are_gone_after_uninstall(keys):
    """README's way, from `install --tmux` into a server that runs, to nothing again."""
    keys.conf.write_text("set -g history-limit 5000")
    server = keys.start()
    goal, client = server.session("one"), server.attach("main")
    code, out = keys.boss("install", "--tmux")
    assert code == 0 and "keys:     next: prefix b, back: prefix B, skip: prefix A, snooze: prefix Z; by a line in" in out, out
    assert keys.conf.read_text() == "set -g history-limit 5000\nsource-file -q ~/.claude/trailboss.tmux.conf\n"
    first = keys.daemon()
    within(5, lambda: keys.bound("Z"))
    press(client, b"b", b"nothing is waiting")
    press(client, b"B", b"no jump to go back from")
    send_stop(keys, server, goal, "aaaaaaaa")
    client.press(b"\x02b")
    within(5, lambda: client.pane == goal.pane_id)
    press(client, b"A", b"skipped " + goal.pane_id.encode())
    press(client, b"Z", b"snoozed")
    client.press(b"\x02B")
    within(5, lambda: client.at()[0] == "main")
    once = keys.state()
    keys.tmux("source-file", str(keys.conf))
    time.sleep(0.5)
    assert keys.state() == once, "a second time changes nothing"
    tb.end_daemon(keys.home)
    server.kill()
    keys.town.servers.remove(server)
    keys.start()
    assert keys.daemon()["pid"] != first["pid"], "it is there after a reboot"
    within(5, lambda: keys.state() == once)
    code, out = keys.boss("uninstall")
    assert code == 0 and keys.conf.read_text() == "set -g history-limit 5000", out
    assert keys.state() == keys.before and not tb.running_daemon(keys.home)
    assert {path.name for path in keys.folder.iterdir()} == {".tmux.conf", "tmux-%d" % os.getuid()}


def test_update_renews_the_keys_without_being_told(keys):
    keys.start()
    keys.install()
    keys.tmux("set", "-g", "@trailboss_run", "an older one")
    code, out = keys.boss("install")
    assert code == 0 and "keys:     next: prefix b" in out and "trailboss.pyz" in keys.tmux("show", "-gqv", "@trailboss_run")


def test_keys_are_the_persons(keys):
    """What they have bound stays theirs, what they name is taken, and none of the stock keys is touched."""
    keys.before = ["stock"]
    keys.conf.write_text("bind b display-message mine\nset -g @trailboss_key_back '-n M-j'\n"
                         "set -g @trailboss_key_skip none\n")
    keys.start()
    stock = keys.tmux("list-keys").splitlines()
    out = keys.install()
    assert "back: M-j, snooze: prefix Z; by a line in" in out and "; next and skip have none," in out and "set -g @trailboss_key_next KEY" in out, out
    within(5, lambda: keys.bound("Z"))
    assert keys.bound("b") == ["display-message mine"] and not keys.bound("A") and not keys.bound("B")
    added = [line for line in keys.tmux("list-keys").splitlines() if line not in stock]
    assert len(added) == 2 and any("-T root" in line and " M-j " in line and "--back" in line for line in added)
    keys.boss("uninstall")
    assert keys.tmux("list-keys").splitlines() == stock


def test_none_of_the_keys_is_a_stock_one(keys):
    keys.start("-f", os.devnull)
    table = keys.tmux("list-keys", "-T", "prefix")
    for key in "bBAZ":
        assert not re.search(r"-T prefix +%s " % key, table)


def test_commands_can_be_bound_and_typed(keys):
    keys.start()
    keys.install()
    within(5, lambda: keys.bound("Z"))
    keys.tmux("bind-key", "-n", "M-g", "trailboss-next")
    assert "jump" in re.findall(r"-T root +M-g +(.*)", keys.tmux("list-keys"))[0]
    client = keys.town.servers[-1].attach("main")
    client.press(b"\x02:")
    time.sleep(0.3)  # typed faster than any hand, tmux takes it for a paste
    client.press(b"trailboss-back\r")
    within(5, lambda: b"no jump to go back from" in client.output, lambda: client.output)


@pytest.mark.parametrize("trouble", ["program", "python"])
def test_keys_say_so_when_the_program_has_gone(keys, trouble):
    server = keys.start()
    client = server.attach("main")
    keys.install()
    within(5, lambda: keys.bound("Z"))
    if trouble == "program":
        (keys.folder / ".claude" / "trailboss.pyz").unlink()
    else:
        keys.tmux("set", "-g", "@trailboss_run", "/no/such/python -I x")
    press(client, b"b", b"run its install again")


@pytest.mark.parametrize("name", ["it's \"$HOME\" `id` ü", "#{pid} #(touch x) %H ~ \\", "[a]*b;{c}"])
def test_keys_reach_any_folder(town, name):
    keys = Keys(town, name)
    try:
        server = keys.start()
        client = server.attach("main")
        keys.install()
        keys.daemon()
        within(5, lambda: keys.bound("Z"))
        press(client, b"b", b"nothing is waiting")
        server.kill()
        town.servers.remove(server)
        tb.end_daemon(keys.home)
        keys.start()
        keys.daemon()
        assert not (keys.folder / "x").exists()
        assert keys.boss("uninstall")[0] == 0 and not keys.conf.exists()
    finally:
        tb.end_daemon(keys.home)


@pytest.mark.parametrize("files, loaded, chosen", [
    ([], "", ".tmux.conf"), ([".tmux.conf"], "", ".tmux.conf"), ([".config/tmux/tmux.conf"], "", ".config/tmux/tmux.conf"),
    ([".tmux.conf", ".config/tmux/tmux.conf"], "", ".tmux.conf"), ([".tmux.conf", "mine.conf"], "mine.conf", "mine.conf"),
    ([".tmux.conf", ".tmux.conf.local"], "", ".tmux.conf.local"), ([".config/tmux/tmux.conf"], None, ".config/tmux/tmux.conf")])
def test_line_goes_into_the_file_that_tmux_reads(keys, files, loaded, chosen):
    for name in files:
        (keys.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (keys.folder / name).write_text("# source .tmux.conf.local, says oh-my-tmux\n" if name == ".tmux.conf" else "#\n")
    if loaded is not None:
        keys.start(*(["-f", str(keys.folder / loaded)] if loaded else []))
    assert tb.tmux_conf(keys.env) == str(keys.folder / chosen)


def test_stray_server_has_no_say_in_it(keys):
    """One with another configuration: a demo, a test, a program that uses tmux."""
    (keys.folder / "stray.conf").write_text("#\n")
    keys.before = ["stock"]
    keys.tmux("-L", "aa", "-f", str(keys.folder / "stray.conf"), "new-session", "-d", "exec sleep 60")
    try:
        assert tb.tmux_conf(keys.env) == str(keys.folder / "stray.conf"), "there is no other"
        keys.conf.write_text("#\n")
        assert tb.tmux_conf(keys.env) == str(keys.conf)
        keys.env["TMUX"] = keys.folder.joinpath("tmux-%d" % os.getuid(), "aa").as_posix() + ",1,0"
        assert tb.tmux_conf(keys.env) == str(keys.folder / "stray.conf"), "but where one types in it"
    finally:
        del keys.env["TMUX"]
        keys.tmux("-L", "aa", "kill-server")


def test_uninstall_of_another_home_leaves_the_keys(keys):
    keys.start()
    keys.install()
    within(5, lambda: keys.bound("Z"))
    (keys.folder / "other").mkdir()
    keys.env["HOME"] = str(keys.folder / "other")
    keys.boss("uninstall")
    assert keys.bound("Z")


def test_tmux_conf_that_can_not_be_written_is_told_of(keys, monkeypatch):
    keys.conf.write_text("# of Nix\n")
    monkeypatch.setattr(tb, "SETTLE", 0.01)
    monkeypatch.setattr(tb.os, "replace", lambda source, target, replace=os.replace: (_ for _ in ()).throw(
        OSError(30, "Read-only file system")) if target == str(keys.conf) else replace(source, target))
    said = "\n".join(tb.install(keys.env, keys=True))
    assert "left: " in said and "Read-only file system" in said and "source-file -q ~/.claude/trailboss.tmux.conf" in said
    assert keys.conf.read_text() == "# of Nix\n"


def test_a_popup_moves_the_client_that_it_is_on(town):
    a = town.server()
    if tb.version_of(a.tmux("-V")) < (3, 2):
        pytest.skip("popups came with tmux 3.2")
    goal = a.session("one")
    a.session("two", "exec sleep 3600")
    town.stuck(a, goal)
    town.serve()
    mine, other = a.attach("main"), a.attach("two")
    a.tmux("bind-key", "g", "display-popup", "-E", "sleep 1.2; " + town.line("jump"))
    before = other.at()
    mine.press(b"\x02g")
    time.sleep(0.1)
    latest(town, other)
    within(5, lambda: mine.pane == goal.pane_id)
    assert other.at() == before


def test_a_read_only_client_never_moves(town):
    a = town.server()
    goal = a.session("one")
    town.stuck(a, goal)
    watcher = a.attach("main", "-r")
    before = watcher.at()
    assert town.refusal().startswith("no tmux client is attached that may be moved")
    assert "is attached read-only" in town.refusal(client=watcher)
    mine = a.attach("main")
    latest(town, mine)
    town.jump()
    assert (mine.pane, watcher.at()) == (goal.pane_id, before)


class ControlClient:
    """A client in control mode, as iTerm2 has: no terminal, a protocol on its input and output."""

    def __init__(self, server, *argv):
        before = set(server.clients())
        self.server = server
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        env=clean_env(server.town.folder))
        self.tty = within(5, lambda: set(server.clients()) - before).pop()
        server.town.terminals.append(self)

    def at(self):
        return self.server.clients().get(self.tty)

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def test_a_control_mode_client_moves_only_if_it_is_alone_and_within_its_session(town):
    a = town.server()
    goal, elsewhere = a.window("main"), a.session("two")
    town.stuck(a, goal, elsewhere)
    mine = a.attach("main")
    control = ControlClient(a, "tmux", "-u", "-S", a.socket, "-C", "attach-session", "-t", "two")
    before = control.at()
    time.sleep(1.1)
    control.process.stdin.write(b"display-message x\n")
    control.process.stdin.flush()
    town.jump()
    assert (mine.at(), control.at()) == (("main", goal.pane_id), before)

    mine.close()
    town.terminals.remove(mine)
    within(5, lambda: mine.tty not in a.clients())
    said = town.refusal(goal.pane_id)
    assert "a control-mode client stays in its own" in said and control.at() == before
    newcomer = a.split("two")
    a.tmux("resize-pane", "-Z", "-t", elsewhere.pane_id)
    town.stuck(a, newcomer)
    town.jump(newcomer.pane_id)
    assert control.at() == ("two", newcomer.pane_id)
    other = a.window("two")
    town.stuck(a, other)
    town.jump(other.pane_id)
    assert control.at() == ("two", other.pane_id)
    assert command_in(said).split()[:4] == ["tmux", "-S", a.socket, "-CC"]
    new = ControlClient(a, *shlex.split(command_in(said.replace("-CC", "-C"))))
    assert new.at()[0] == "main"


def test_nobody_is_attached(town):
    a = town.server()
    spots = [a.session("o'ne $(x)"), a.split("o'ne $(x)"), a.window("o'ne $(x)")]
    town.stuck(a, spots[1], spots[2])
    town.serve()
    code, said = town.boss("jump")
    assert code == 1 and said.startswith("trailboss: no tmux client is attached: attach one with `")
    code, other = town.boss("jump", spots[2].pane_id)
    assert code == 1 and command_in(other) != command_in(said)
    for command, spot in ((command_in(said), spots[1]), (command_in(other), spots[2])):
        client = Terminal(a, "sh", "-c", command)
        within(5, client.at, lambda: client.output)
        assert client.pane == spot.pane_id
        client.close()
        town.terminals.remove(client)
        within(5, lambda: not a.clients())
    said = town.boss("jump", "--client", "x")[1]
    assert "no tmux client is called 'x'" in said and "attach" not in said


# ---- where a pane is seen --------------------------------------------------------------------------------------------


def test_in_a_group_the_client_stays_in_its_own_session(town):
    """scenarios.md 65: a bare pane id takes the client into the other session of the group, the other client along."""
    a = town.server()
    a.session("base", "exec sleep 3600")
    goal = a.window("base")
    a.tmux("new-session", "-d", "-t", "base", "-s", "base-b")
    town.stuck(a, goal)
    for mine, other in (("base", "base-b"), ("base-b", "base")):
        a.tmux("select-window", "-t", "base:0")
        a.tmux("select-window", "-t", "base-b:0")
        clients = a.attach(mine), a.attach(other)
        before = clients[1].at()
        town.jump(client=clients[0])
        assert (clients[0].at(), clients[1].at()) == ((mine, goal.pane_id), before)
    assert town.windows() == ["base:1.0"]


def test_a_linked_window_is_seen_in_the_clients_own_session(town):
    a = town.server()
    a.session("one", "exec sleep 3600")
    goal = a.window("one")
    a.session("two", "exec sleep 3600")
    a.tmux("link-window", "-s", "one:1", "-t", "two:7")
    town.stuck(a, goal)
    for session in ("two", "one"):
        client = a.attach(session)
        town.jump(client=client)
        assert client.at() == (session, goal.pane_id)


def test_zoom_is_kept(town):
    a = town.server()
    first, second = a.session("one"), a.split("one")
    town.stuck(a, first, second)
    a.tmux("resize-pane", "-Z", "-t", first.pane_id)
    client = a.attach("main")
    for spot in (first, second):
        town.jump()
        assert client.pane == spot.pane_id
        assert a.tmux("display-message", "-p", "-t", spot.pane_id, "#{window_zoomed_flag}") == "1"
        sizes = dict(a.rows("list-panes", "-t", "one", "-F", "#{pane_id}\t#{pane_height}"))
        assert int(sizes[spot.pane_id]) > 20


def test_panes_of_one_window(town):
    a = town.server()
    spots = [a.session("one"), a.split("one"), a.split("one")]
    town.stuck(a, *spots)
    client = a.attach("one")
    seen = []
    for _ in spots:
        town.jump()
        seen.append(client.pane)
    assert sorted(seen) == sorted(spot.pane_id for spot in spots)
    assert town.windows() == ["one:0.0", "one:0.2", "one:0.1"]


def test_many_panes(town):
    """scenarios.md 69: on some builds of 3.3a ids that begin with 2 were not found."""
    a = town.server()
    spots = [a.session("one")] + [a.window("one") for _ in range(31)]
    for n, spot in enumerate(spots):
        town.event(a, spot, "Stop", "session-%02d" % n)
    client = a.attach("main")
    assert {"%2", *("%%%d" % n for n in range(20, 30))} < {spot.pane_id for spot in spots}
    for spot in spots[1:3] + spots[18:31]:
        town.jump(spot.pane_id)
        assert client.pane == spot.pane_id
    assert len(town.queue()) == 32


NAMES = ("two words", "dot.ted:x", "ünï 漢字 🐎", "p|i|p|e", "=lead", "-dash", "$1", "@1", "%1", "tab\there",
         "##(touch pwned)", "quo'te\"", "semi\\;")


@pytest.mark.parametrize("locale", ({"LC_ALL": "C.UTF-8"}, {"LANG": "C"}, {}))
def test_odd_names_in_every_locale(town, monkeypatch, locale):
    a = town.server()
    spots = [a.session(name, town.claude) for name in NAMES]
    names = dict(a.rows("list-panes", "-a", "-F", "#{pane_id}\t#{session_name}"))
    for n, spot in enumerate(spots):
        town.event(a, spot, "Stop", "session-%02d" % n)
    client = a.attach("main")
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    for spot in spots:
        town.jump(spot.pane_id)
        assert client.pane == spot.pane_id
    assert town.windows() == ["%s:0.0" % names[spot.pane_id] for spot in spots]
    assert "ünï 漢字 🐎:0.0" in town.windows() and "two words:0.0" in town.windows() and "=lead:0.0" in town.windows()
    client.close()
    town.terminals.remove(client)
    within(5, lambda: not a.clients())
    for spot in spots[-3:]:  # the quoted names' attach command works in a shell
        client = Terminal(a, "sh", "-c", command_in(town.refusal(spot.pane_id)))
        within(5, client.at, lambda: client.output)
        assert client.pane == spot.pane_id
        client.close()
        town.terminals.remove(client)
        within(5, lambda: not a.clients())


def test_panes_that_move_keep_their_session_and_get_a_new_label(town):
    a = town.server()
    spots = [a.session("one"), a.split("one"), a.window("one"), a.session("two")]
    town.stuck(a, *spots)
    town.daemon.start()
    client = a.attach("main")
    ids = [spot.pane_id for spot in spots]
    a.tmux("rename-session", "-t", "two", "dos")
    within(LABEL, lambda: town.windows()[-1] == "dos:0.0", town.windows)
    a.tmux("rename-session", "-t", "dos", "two")
    for command, labels in (("rename-session -t one uno", "uno:0.0 uno:0.1 uno:1.0 two:0.0"),
                            ("break-pane -d -s %s -t uno:" % ids[1], "uno:0.0 uno:2.0 uno:1.0 two:0.0"),
                            ("move-window -d -s uno:1 -t two:5", "uno:0.0 uno:2.0 two:5.0 two:0.0"),
                            ("swap-pane -d -s %s -t %s" % (ids[0], ids[3]), "two:0.0 uno:2.0 two:5.0 uno:0.0"),
                            ("join-pane -d -s %s -t %s" % (ids[1], ids[2]), "two:0.0 two:5.1 two:5.0 uno:0.0")):
        a.tmux(*command.split())
        for pane_id in ids:
            town.jump(pane_id)
            assert client.pane == pane_id
        assert (town.windows(), [pane for _, pane in town.queue()]) == (labels.split(), ids)


# ---- several servers -------------------------------------------------------------------------------------------------


def test_two_servers_with_the_same_pane_ids(town):
    a, b = town.server("a"), town.server("it's b")
    here, there = a.session("one"), b.session("one")
    assert here.pane_id == there.pane_id
    town.stuck(b, there)
    town.stuck(a, here)
    assert [(item["pane"], item["server"]) for item in town.daemon.queue(False)["items"]] == [
        (there.pane_id, b.socket), (here.pane_id, a.socket)]
    town.serve()
    client = a.attach("main")
    env = {"TMUX": "%s,%d,0" % (a.socket, a.pid)}
    code, said = town.boss("jump", **env)  # what it can't reach does not stop the round
    assert (code, client.at(a)) == (0, ("one", here.pane_id)) and "waits longer, on another tmux server" in said
    code, said = town.boss("jump", "aaaa", **env)  # by its session id, though a pane here has its pane's id
    assert code == 1 and "is on another tmux server" in said and client.at(a) == ("one", here.pane_id)
    assert town.boss("jump", here.pane_id, **env)[0] == 0 and client.at(a) == ("one", here.pane_id)
    shell = Terminal(a, "sh", "-c", command_in(said), env=clean_env(town.folder, **env))  # typed inside tmux
    within(5, lambda: shell.at(b), lambda: shell.output)
    assert shell.at(b) == ("one", there.pane_id)
    shell.close()
    town.terminals.remove(shell)
    within(5, lambda: not b.clients())

    assert town.boss("jump", "aaaa", "--attach", **env)[0] == 0
    within(5, lambda: client.at(b), lambda: client.output)
    assert client.at(b) == ("one", there.pane_id) and client.at(a) is None
    assert b.tmux("list-clients", "-F", "#{client_pid}") == str(client.process.pid)


def test_outside_tmux_the_client_of_the_heads_server_moves(town):
    a, b = town.server("a"), town.server("b")
    spot = b.session("one")
    town.stuck(b, spot)
    there, here = b.attach("main"), a.attach("main")
    time.sleep(1.1)
    here.press(b" ")  # the latest, but on the other server
    town.jump()
    assert (there.pane, here.at()[0]) == (spot.pane_id, "main")


def test_two_paths_to_one_server_are_one_server(town):
    """On macOS $TMUX names /private/tmp where the usual place is /tmp."""
    (town.folder / ("tmux-%d" % os.getuid())).mkdir(mode=0o700)
    (town.folder / "no sockets").rmdir()
    (town.folder / "no sockets").symlink_to(town.folder)
    a = town.server("tmux-%d/default" % os.getuid())
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, *spots)
    client = a.attach("main")
    for spot in spots:
        town.jump()
        assert client.pane == spot.pane_id
    assert {item["server"] for item in town.daemon.queue(False)["items"]} == {a.socket}


class Nested:
    """tmux inside tmux: the pane `seat` of the outer server runs a client of the inner one, whose prefix is C-a."""

    def __init__(self, town):
        self.outer, self.inner = town.server("outer"), town.server("inner")
        self.inner.tmux("set-option", "-g", "prefix", "C-a")
        attach = "exec env -u TMUX tmux -u -S %s attach-session -t main" % self.inner.socket
        self.seat = self.outer.session("seat", attach)
        self.name = within(5, self.inner.clients).popitem()[0]
        for server in (self.outer, self.inner):
            server.tmux("bind-key", "g", "run-shell", town.line("jump", "--client") + " '#{client_name}'")
        town.serve()

    def inside(self):
        return self.inner.clients()[self.name]


def test_tmux_inside_tmux_a_key_pressed_inside(town):
    nest = Nested(town)
    inside, outside = nest.inner.session("one"), nest.outer.session("two")
    town.stuck(nest.inner, inside)
    town.stuck(nest.outer, outside)
    client = nest.outer.attach("seat")
    client.press(b"\x01g")
    within(5, lambda: nest.inside() == ("one", inside.pane_id), nest.inside)
    assert client.at() == ("seat", nest.seat.pane_id)
    client.press(b"\x01g")  # the next one is on the outer server, where the person's terminal is
    within(5, lambda: client.pane == outside.pane_id)
    assert nest.inside() == ("one", inside.pane_id)
    town.jump(client=client, back=True)
    assert client.at() == ("seat", nest.seat.pane_id)


def test_tmux_inside_tmux_a_key_pressed_outside(town):
    nest = Nested(town)
    inside = nest.inner.session("one")
    town.stuck(nest.inner, inside)
    client, other = nest.outer.attach("main"), nest.outer.attach("main")
    watcher = nest.outer.attach("main", "-r")
    nest.outer.session("two", "exec sleep 3600")
    before, start = other.at(), client.pane
    client.press(b"\x02g")
    within(5, lambda: client.pane == nest.seat.pane_id)
    latest(town, other)
    town.jump(client=client)
    assert nest.inside() == ("one", inside.pane_id)
    assert (other.at(), watcher.at()) == (before, before)
    town.jump(client=client, back=True)
    assert client.pane == start
    nest.outer.tmux("switch-client", "-c", other.tty, "-t", "seat")
    town.jump(client=client)
    assert (client.pane, other.pane, watcher.at()) == (nest.seat.pane_id, nest.seat.pane_id, before)
    town.stuck(nest.inner, nest.inner.session("two"))
    town.jump(client=client)
    assert nest.inside()[0] == "two"
    town.jump(client=client, back=True)  # what it saw was the inner pane
    assert (nest.inside(), client.pane) == (("one", inside.pane_id), nest.seat.pane_id)


def test_tmux_inside_tmux_with_nobody_outside_who_may_move(town):
    nest = Nested(town)
    inside = nest.inner.session("one")
    town.stuck(nest.inner, inside)
    watcher = nest.outer.attach("main", "-r")
    before = watcher.at()
    assert town.jump(client=namedtuple("Inner", "tty")(nest.name)) == []
    assert (nest.inside(), watcher.at()) == (("one", inside.pane_id), before)


# ---- what is gone ----------------------------------------------------------------------------------------------------


def test_a_pane_that_is_gone_since_is_dropped_and_the_next_one_taken(town):
    a = town.server()
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, *spots)
    client = a.attach("main")
    a.tmux("kill-pane", "-t", spots[0].pane_id)
    assert town.jump() == ["session aaaaaaaa in %s is gone" % spots[0].pane_id]
    assert client.pane == spots[1].pane_id
    town.daemon.tick()
    assert town.queue() == [("b", spots[1].pane_id)]
    a.tmux("kill-pane", "-t", spots[1].pane_id)
    assert town.refusal() == "session bbbbbbbb in %s is gone" % spots[1].pane_id


def test_a_new_pane_that_got_the_terminal_is_not_taken_for_the_one_that_is_gone(town):
    a = town.server()
    spot = a.session("one")
    town.stuck(a, spot)
    client = a.attach("main")
    before = client.at()
    tty = a.tmux("display-message", "-p", "-t", spot.pane_id, "#{pane_tty}")
    a.tmux("kill-pane", "-t", spot.pane_id)
    within(5, lambda: not tb.process_of(spot.pid))
    for _ in range(8):
        heir = a.session("vim%s" % time.monotonic(), "exec sleep 3600")
        if a.tmux("display-message", "-p", "-t", heir.pane_id, "#{pane_tty}") == tty:
            break
    else:
        pytest.skip("no pane got the terminal")
    assert town.refusal() in ["session aaaaaaaa in %s is gone" % pane_id for pane_id in (heir.pane_id, spot.pane_id)]
    assert client.at() == before


def test_a_pane_that_is_killed_ends_its_session_at_once(town):
    a = town.server()
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, *spots)
    nobody = Spot(a.session("three").pane_id, 0)  # no pid was told: only the pane shows that it lives
    town.stuck(a, nobody)
    town.daemon.start()
    a.tmux("kill-pane", "-t", spots[0].pane_id)
    within(SOON, lambda: [key for key, _ in town.queue()] == ["b", "c"], town.queue)
    a.tmux("kill-pane", "-t", nobody.pane_id)
    within(SOON, lambda: [key for key, _ in town.queue()] == ["b"], town.queue)
    os.kill(spots[1].pid, signal.SIGKILL)
    within(SOON, lambda: town.queue() == [], town.queue)


def test_a_server_that_is_killed_ends_all_its_sessions_and_the_next_one_is_another(town):
    a, b = town.server("a"), town.server("b")
    spots = [a.session("one"), Spot(a.session("two").pane_id, 0)]
    other = b.session("one")
    town.stuck(a, *spots)
    town.stuck(b, other)
    town.daemon.start()
    a.kill()
    again = Server(town, "a")
    town.servers.append(again)
    impostor = [again.session("vim"), again.session("vi")]
    assert [spot.pane_id for spot in impostor] == [spot.pane_id for spot in spots]
    client = again.attach("main")
    assert "another tmux server" in town.refusal(client=client)  # at once, noticed or not
    assert client.at()[0] == "main"
    within(SOON, lambda: town.queue() == [("c", other.pane_id)], town.queue)
    assert "no session is known" in town.refusal(impostor[1].pane_id, client=client)
    town.stuck(again, impostor[0])
    assert town.jump(impostor[0].pane_id, client=client) == [] and client.pane == impostor[0].pane_id


def test_a_dead_pane_that_remains_is_gone(town):
    a = town.server()
    a.tmux("set-option", "-g", "remain-on-exit", "on")
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, spots[0], Spot(spots[1].pane_id, 0))
    client = a.attach("main")
    before = client.at()
    for spot in spots:
        os.kill(spot.pid, signal.SIGKILL)
        within(5, lambda: ("1",) in a.rows("list-panes", "-t", spot.pane_id, "-F", "#{pane_dead}"))
    assert "is gone" in town.refusal(spots[0].pane_id) and client.at() == before
    town.daemon.tick()
    town.daemon.look_at_tmux()
    assert town.queue() == []


def test_a_terminal_that_was_a_dead_panes_is_not_taken_for_it(town):
    """A dead pane still names its terminal, which by now may be anybody's."""
    a, b = town.server("a"), town.server("b")
    bystander = a.attach("main")
    before = bystander.at()
    spot = b.session("one")
    town.stuck(a, a.session("one"))
    town.stuck(b, spot)
    a.tmux("set-option", "-g", "remain-on-exit", "on")
    corpse = a.session("corpse", "exec true")
    within(5, lambda: ("1",) in a.rows("list-panes", "-t", corpse.pane_id, "-F", "#{pane_dead}"))
    name = a.tmux("display-message", "-p", "-t", corpse.pane_id, "#{pane_tty}")
    for _ in range(8):  # until one gets the free terminal
        client = b.attach("main")
        if client.tty == name:
            break
    else:
        pytest.skip("nobody got the dead pane's terminal")
    town.jump(spot.pane_id, client=client)
    assert (client.pane, bystander.at()) == (spot.pane_id, before)


# ---- whose pane ------------------------------------------------------------------------------------------------------


def outsider(town):
    """A live claude that has no terminal."""
    process = subprocess.Popen(town.claude.split(), stdin=subprocess.DEVNULL, start_new_session=True)
    town.terminals.append(namedtuple("Process", "close")(lambda: (process.kill(), process.wait())))
    return process.pid


def test_two_that_claim_one_pane_without_proof_are_both_listed_as_uncertain(town):
    a = town.server()
    shell, third = a.session("one", "exec sleep 3600"), a.session("two")
    town.stuck(a, Spot(shell.pane_id, outsider(town)), Spot(shell.pane_id, outsider(town)), third)
    assert town.queue() == [("a", shell.pane_id), ("b", shell.pane_id), ("c", third.pane_id)]
    assert [item["uncertain"] for item in town.daemon.queue(False)["items"]] == [True, True, False]
    client = a.attach("main")
    seen = []
    for _ in range(4):
        town.jump()
        seen.append(client.pane)
    assert seen == [shell.pane_id, third.pane_id] * 2  # the key does not hang on the one pane
    town.jump("bb")
    assert client.pane == shell.pane_id
    town.event(a, shell, "Stop", "dddddddd")  # and one that is proved to be there
    assert town.queue()[:2] == [("a", None), ("b", None)] and town.row("dddddddd")["pane"] == shell.pane_id


@pytest.mark.parametrize("age", [0, 60])
def test_a_session_that_only_its_record_tells_of_is_found_in_its_pane(town, age):
    """No hook: no $TMUX, no $TMUX_PANE. Its terminal is that of a pane of a server in the usual place. One that has run for
    long is there with its pane when the daemon answers for the first time."""
    folder = town.folder / "no sockets" / ("tmux-%d" % os.getuid())
    folder.mkdir(mode=0o700)
    a = town.server("no sockets/%s/other" % folder.name)
    spot = a.session("one")
    entry = {"pid": spot.pid, "sessionId": "recorded", "procStart": tb.process_of(spot.pid).start, "status": "waiting",
             "waitingFor": "permission prompt", "statusUpdatedAt": time.time() * 1000,
             "startedAt": (time.time() - age) * 1000}
    (town.config / "sessions" / ("%d.json" % spot.pid)).write_text(json.dumps(entry))
    town.daemon.start()
    within(0.05 if age else tb.HELD + tb.TMUX_EVERY, lambda: town.queue() == [("r", spot.pane_id)], town.queue)
    client = a.attach("main")
    assert (town.jump("rec"), client.at()) == ([], ("one", spot.pane_id))


def test_claude_p_never_owns_the_pane(town):
    a = town.server()
    spot = a.session("one")
    town.stuck(a, spot)
    for name in ("SessionStart", "UserPromptSubmit", "Stop"):
        town.event(a, spot, name, "print-it", headers={"x-claude-entrypoint": "sdk-cli"}, source="startup", prompt="x")
        assert town.queue() == [("a", spot.pane_id)] and town.row("print-it")["pane"] is None
    inner = Spot(spot.pane_id, outsider(town))
    town.event(a, inner, "Stop", "print-too", headers={"x-claude-entrypoint": "sdk-cli"})
    assert town.queue() == [("a", spot.pane_id)] and town.row("print-too")["pane"] is None


def test_a_background_session_is_passed_over_and_says_how_to_reach_it(town):
    a = town.server()
    spot, other = a.session("one"), a.session("two")
    town.stuck(a, Spot(spot.pane_id, outsider(town)), headers={"x-claude-job-dir": "/x/jobs/1"})
    assert town.queue() == [("a", None)]
    said = "session aaaaaaaa has no pane: `claude attach aaaaaaaa`"
    assert town.refusal() == said  # nobody is attached either, but that would not help
    client = a.attach("main")
    before = client.at()
    assert (town.refusal(), town.refusal("aaaa"), client.at()) == (said, said, before)
    town.stuck(a, spot, other)
    assert (town.jump(), client.pane) == ([said], spot.pane_id)
    assert (town.jump(), client.pane) == ([], other.pane_id)


# ---- tmux that misbehaves --------------------------------------------------------------------------------------------


FAKES = {
    "hangs": ("exec sleep 60", "did not answer within 0.5 s"),
    "garbage": ("printf 'open terminal failed: not a terminal\\n\\377\\000\\t\\t\\t\\n'; %s\n" % "; ".join(
        "printf '%s\\n'" % "\\t".join(["x"] * n) for n in range(1, 14)), "tmux list-panes -a on"),
    "fails": ("echo 'lost server' >&2; exit 1", "lost server"),
    "silent": ("exit 0", "lists no panes"),
    "dies": ("kill -9 $$", "tmux list-panes -a on"),
    "pretends": ("case \"$*\" in *switch-client*) exit 0;; *) exec %s \"$@\";; esac" % shutil.which("tmux"),
                 "not to %1"),
    "missing": (None, "tmux is not installed, or not on the PATH of the daemon"),
    "no program": ("", "tmux can't be run"),
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_tmux_that_misbehaves_costs_nothing_but_the_jump(town, monkeypatch, fake):
    script, message = FAKES[fake]
    a = town.server()
    spots = [a.session("one"), a.session("two")]
    town.stuck(a, spots[0], Spot(spots[1].pane_id, 0))
    client = a.attach("main")
    before, queue = client.at(), town.queue()
    town.daemon.start()
    bin_folder = town.folder / "bin"
    bin_folder.mkdir()
    if script is not None:
        (bin_folder / "tmux").write_text("#!/bin/sh\n" + script if script else "#!/no such interpreter\n")
        (bin_folder / "tmux").chmod(0o755)
    monkeypatch.setattr(tb.Tmux, "PLACES", "")
    monkeypatch.setattr(tb.Tmux, "PATIENCE", 0.5 if fake == "hangs" else 5)
    monkeypatch.setenv("PATH", str(bin_folder) if fake == "missing" else "%s:/bin:/usr/bin" % bin_folder)
    if fake == "no program":
        monkeypatch.setenv("PATH", str(bin_folder))
        (bin_folder / "tmux").chmod(0o644)
    said = town.refusal()
    assert message in said and "\n" not in said and len(said) < 300
    town.event(a, spots[1], "Notification", "bbbbbbbb")
    town.daemon.tick()
    assert town.queue() == queue
    monkeypatch.undo()
    assert (town.jump(), client.pane) == ([], spots[0].pane_id)
    assert town.queue() == queue and before[1] != client.pane


def test_a_frozen_server_does_not_keep_the_other_from_jumping(town, monkeypatch):
    a, b = town.server("a"), town.server("b")
    here, there = a.session("one"), b.session("one")
    town.stuck(b, there)
    town.stuck(a, here)
    client = a.attach("main")
    asked, run = [], town.daemon.tmux.run
    monkeypatch.setattr(town.daemon.tmux, "run", lambda *argv: asked.append(argv[0]) or run(*argv))
    monkeypatch.setattr(tb.Tmux, "PATIENCE", 1)
    os.kill(b.pid, signal.SIGSTOP)
    try:
        town.jump("bbbb")
        assert client.pane == here.pane_id and asked.count(b.socket) == 1  # it is waited for once
        said = town.refusal("aaaa", client=client, attach=True)  # who goes there now would hang
        assert said == "tmux on %s did not answer within 1 s" % b.socket and client.pane == here.pane_id
        assert town.queue() == [("a", there.pane_id), ("b", here.pane_id)]
    finally:
        os.kill(b.pid, signal.SIGCONT)


# ---- all of it -------------------------------------------------------------------------------------------------------


def test_two_presses_at_once(town):
    a = town.server()
    spots = [a.session("one"), a.session("two"), a.session("three")]
    town.stuck(a, *spots)
    client = a.attach("main")
    start, panes = client.pane, [spot.pane_id for spot in spots]

    def at_once(*asks):
        answers = []
        ask = lambda more: answers.append(town.daemon.jump(dict({"client": client.tty}, **more))["notes"])
        threads = [threading.Thread(target=ask, args=(more,)) for more in asks]
        [thread.start() for thread in threads]
        [thread.join(20) for thread in threads]
        assert answers == [[]] * len(asks)

    for n in range(1, 4):
        at_once({}, {})
        assert client.pane == panes[(2 * n - 1) % 3]  # each press counts
    at_once(*[{"back": True}] * 6)
    assert client.pane == start


def test_nothing_that_programs_write_is_run(town, monkeypatch):
    """#() in names, titles, folders and prompts: tmux runs it where it is handed a text to expand (facts.md C6)."""
    monkeypatch.chdir(town.folder)
    a = town.server()
    bait = town.folder / "#(touch pwned-f)"
    bait.mkdir()
    a.tmux("set-option", "-g", "allow-rename", "on")
    writer = "printf '\\033k#(touch pwned-w)\\033\\\\\\033]2;#(touch pwned-t)\\033\\\\'; exec " + town.claude
    spot = a.make("new-session", "-d", "-s", "##(touch pwned-s)", "-c", str(bait).replace("#", "##"), writer)
    other = a.session("##(touch pwned-o)", writer)
    within(5, lambda: ("#(touch pwned-w)",) in a.rows("list-windows", "-t", spot.pane_id, "-F", "#{window_name}"))
    for session_id, here in (("first", spot), ("second", other)):
        written = {"cwd": str(bait), "session_title": "#(touch pwned-e)"}
        town.event(a, here, "UserPromptSubmit", session_id, prompt="#(touch pwned-p)", **written)
        town.event(a, here, "PermissionRequest", session_id, tool_name="Bash",
                   tool_input={"command": "#(touch pwned-c); $(touch pwned-d)"}, **written)
    client = a.attach("main")
    town.jump()
    assert client.at() == ("#(touch pwned-s)", spot.pane_id)
    town.daemon.detail("first", None, True)
    client.close()
    town.terminals.remove(client)
    within(5, lambda: not a.clients())
    shown = Terminal(a, "sh", "-c", command_in(town.refusal()))
    within(5, shown.at, lambda: shown.output)
    assert town.windows()[0] == "#(touch pwned-s):0.0"
    assert a.tmux("display-message", "-p", "-t", spot.pane_id, "#{pane_current_path}") == str(bait)
    canary = a.session("canary#(touch pwned-canary)")  # tmux does run it where it is asked to
    within(5, lambda: [path.name for path in town.folder.rglob("pwned*")], canary)
    assert [path.name for path in town.folder.rglob("pwned*")] == ["pwned-canary"]


def test_the_whole_way_from_a_hook_to_a_key(town):
    """A daemon of its own, events as the hook hands them over, a key in a real client."""
    a = town.server()
    spot, other = a.session("one"), a.session("two")
    client = a.attach("main")
    env = dict(town.env, TRAILBOSS_HOME=str(town.folder / "own state"))
    daemon = subprocess.Popen([*PROGRAM, "serve", "--port", "0"], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert b"listens on" in daemon.stdout.readline()
        for here, session_id in ((spot, "first"), (other, "second")):
            payload = {"session_id": session_id, "hook_event_name": "PermissionRequest", "tool_name": "Bash",
                       "tool_input": {"command": "ls"}, "cwd": "/"}
            subprocess.run([*PROGRAM, "emit"], input=json.dumps(payload).encode(), check=True, env=dict(
                env, TMUX="%s,%d,0" % (a.socket, a.pid), TMUX_PANE=here.pane_id, CLAUDE_PID=str(here.pid),
                CLAUDE_CODE_ENTRYPOINT="cli"))
        key = "env TRAILBOSS_HOME=%s %s jump --client '#{client_name}'" % (
            shlex.quote(env["TRAILBOSS_HOME"]), " ".join(map(shlex.quote, PROGRAM)))
        a.tmux("bind-key", "j", "run-shell", key)
        a.tmux("bind-key", "k", "run-shell", key + " --back")
        for press, pane_id in ((b"\x02j", spot.pane_id), (b"\x02j", other.pane_id), (b"\x02k", spot.pane_id)):
            client.press(press)
            within(5, lambda: client.pane == pane_id)
        assert daemon.poll() is None
    finally:
        daemon.terminate()
        daemon.wait(5)
        daemon.stdout.close()


def test_over_http(town):
    a = town.server()
    spot = a.session("one")
    town.serve()
    connection = http.client.HTTPConnection("127.0.0.1", town.http.server_port, timeout=5)
    headers = {"Authorization": "Bearer " + tb.token_of(str(town.home)), "X-Tmux": "%s,%d,0" % (a.socket, a.pid),
               "X-Tmux-Pane": spot.pane_id, "X-Claude-Pid": str(spot.pid), "X-Claude-Entrypoint": "cli"}
    client = a.attach("main")

    def ask(path, body):
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    assert ask("/jump", {}) == (409, {"error": "nothing is waiting", "code": 4})
    assert ask("/event", {"session_id": "s1", "hook_event_name": "Stop"}) == (200, {})
    for odd in ({"id": 5, "client": [], "tmux": {}, "pane": 1}, {"tmux": "a,b"}, {"tmux": ",,", "pane": "%x"}):
        status, answer = ask("/jump", odd)
        assert (status, answer["session"]["pane"], answer["client"]) == (200, spot.pane_id, client.tty)
    assert client.pane == spot.pane_id

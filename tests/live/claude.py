"""The real Claude Code in a real tmux, driven as a person would, with a scripted model and with Trail Boss beside it.

A World is one person's machine under one temporary folder: HOME, Claude Code's config, the tmux socket, Trail Boss's
state. Nothing of the machine that runs the tests comes in, and nothing is left behind: no default tmux server, no real
~/.claude, and only processes that were started here are ended, each by its id.
"""
import fcntl
import http.client
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import fake_model

REPOSITORY = Path(__file__).resolve().parents[2]
KEY = "sk-ant-api03-the-script-asks-for-no-key"
COLUMNS, LINES = 120, 45
# How long the queue may take to follow what happened, and how long it is watched after that.
SOON, STEADY = 1.2, 1.0
OWN = 0.2  # s: what Claude Code itself needs from a keypress to its record; only a machine under load makes it more


def within(seconds, predicate, world=None, since=None):
    """Wait until predicate() is true and return the seconds that took, since `since` (time.monotonic()) or since now."""
    start = time.monotonic() if since is None else since
    while True:
        true = predicate()
        took = time.monotonic() - start
        if true and took <= seconds:
            return took
        if took > seconds:
            raise AssertionError("%s %.2f s\n%s" % ("only after" if true else "not within", took,
                                                     world.scene() if world else ""))
        time.sleep(0.02)


def steady(predicate, world=None, seconds=STEADY):
    """predicate() is true now and stays so."""
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        assert predicate(), "no longer after %.2f s\n%s" % (time.monotonic() - start, world.scene() if world else "")
        time.sleep(0.02)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class World:
    def __init__(self, claude):
        self.claude = claude
        self.root = Path(tempfile.mkdtemp(prefix="tb-live-")).resolve()
        self.home = self.root / "home"
        self.config = self.home / ".claude"
        self.state = self.root / "state"
        # Where tmux itself would have it: that is where Trail Boss looks for panes when no hook has told it of a server.
        (self.root / ("tmux-%d" % os.getuid())).mkdir(mode=0o700)
        self.socket = str(self.root / ("tmux-%d" % os.getuid()) / "default")
        self.daemon = None
        self.clients, self.sessions = [], []
        self.seen = ""  # all that stood on the screens of sessions that are closed by now
        self.config.mkdir(parents=True)
        (self.root / "tmp").mkdir()
        # One question about trust for all: Claude Code rewrites this file while it runs, so it can't be added to later.
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        (self.home / ".claude.json").write_text(json.dumps({
            "hasCompletedOnboarding": True, "theme": "dark", "projects": {str(self.home): trusted},
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}}))
        self.model = fake_model.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stop_daemon()
        self.close_sessions()
        self.tmux("kill-server", check=False)
        self.model.shutdown()
        self.model.server_close()
        shutil.rmtree(str(self.root), ignore_errors=True)

    # -- what a person's shell would have ------------------------------------------------------------------------------

    def env(self, **more):
        """An environment made from nothing. Claude Code gets no TRAILBOSS_HOME: what `install` wrote down must do."""
        tools = {os.path.dirname(shutil.which(tool) or "/usr/bin/") for tool in ("tmux", "curl")}
        return dict({
            "HOME": str(self.home), "TMUX_TMPDIR": str(self.root), "TMPDIR": str(self.root / "tmp"),
            "PATH": ":".join(sorted(tools) + ["/usr/local/bin", "/usr/bin", "/bin"]),
            "LANG": "C.UTF-8", "TERM": "screen-256color", "SHELL": "/bin/sh",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:%d" % self.model.server_port, "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}, **more)

    def run(self, *argv, **more):
        return subprocess.run(argv, env=more.pop("env", self.env()), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60, **more)

    def tmux(self, *argv, check=True):
        done = self.run("tmux", "-u", "-S", self.socket, "-f", os.devnull, *argv)
        assert not check or done.returncode == 0, "tmux %s: %s" % (" ".join(argv), done.stderr.strip())
        return done.stdout.rstrip("\n")

    def open_pane(self, name, *argv):
        """A new tmux session with this program in its one pane; returns the pane's id."""
        (self.home / name).mkdir(exist_ok=True)
        return self.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", name, "-x", str(COLUMNS), "-y", str(LINES),
                         "-c", str(self.home / name), "--", *argv)

    # -- Claude Code ---------------------------------------------------------------------------------------------------

    def start(self, name, *claude_args, wait=True, under_shell=False):
        """Claude Code in a new tmux session called name; asks for everything, unless the arguments say otherwise."""
        if "--permission-mode" not in claude_args:
            claude_args += ("--permission-mode", "default")
        shell = ("sh", "-c", '"$@"; exec sh', "sh") if under_shell else ()
        session = Session(self, name, *shell, self.claude, *claude_args)
        if wait:
            session.until_ready()
        return session

    def start_all(self, *names):
        """Several at once: most of the time of a start is waiting."""
        sessions = [self.start(name, wait=False) for name in names]
        for session in sessions:
            session.until_ready()
        return sessions

    def close_sessions(self):
        for client in list(self.clients):
            client.close()
        for session in self.sessions:
            session.close_pane()
        for session in list(self.sessions):
            session.end()  # of all at once: Claude Code takes a second to go

    def hook_trouble(self):
        """What Claude Code showed or wrote down of a hook that failed or said something; else it does neither."""
        screens = self.seen + "".join(session.history() for session in self.sessions)
        trouble = [line for line in screens.splitlines() if re.search(r"hook (failed|error|problem)", line, re.I)]
        for transcript in self.config.glob("projects/**/*.jsonl"):
            for line in transcript.read_text().splitlines():
                if "hook_" not in line:  # most lines, and the long ones
                    continue
                entry = json.loads(line)
                talked = "hook_" in (entry.get("attachment") or {}).get("type", "")
                summary = entry.get("subtype") == "stop_hook_summary"
                if talked or summary and (entry.get("hookErrors") or entry.get("hasOutput")):
                    trouble.append(line)
        return trouble

    # -- Trail Boss ----------------------------------------------------------------------------------------------------

    def boss_argv(self, *argv):
        return [sys.executable, str(REPOSITORY / "trailboss.py"), *argv]

    def boss_env(self):
        return self.env(TRAILBOSS_HOME=str(self.state))

    def boss(self, *argv, code=0):
        """Run the product and return what it prints; it must exit with this code."""
        done = self.run(*self.boss_argv(*argv), env=self.boss_env())
        assert done.returncode == code, "trailboss %s: exit %d, not %d\n%s%s\n%s" % (
            " ".join(argv), done.returncode, code, done.stdout, done.stderr, self.scene())
        return done.stdout

    def serve(self):
        """Start the daemon and wait until it answers."""
        log = open(str(self.root / "daemon.log"), "ab")
        self.daemon = subprocess.Popen(self.boss_argv("serve", "--port", "0"), env=self.boss_env(),
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        within(5, lambda: self.run(*self.boss_argv("list", "--json"), env=self.boss_env()).returncode == 0, self)

    def stop_daemon(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)  # a test may have frozen it
            self.daemon.terminate()
            try:
                self.daemon.wait(5)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.daemon = None

    def spool(self):
        """The events that wait for the daemon."""
        return list((self.state / "spool").glob("*.event"))

    def queue(self):
        """The queue as GET /queue has it. `list --json` prints the same, but a Python's start would blur the times."""
        words = re.findall(r'"(.*)"', (self.state / "curl.conf").read_text())  # the address of POST /event, the token
        connection = http.client.HTTPConnection(words[0].split("/")[2], timeout=10)
        try:
            connection.request("GET", "/queue", headers=dict([words[1].split(": ")]))
            return json.loads(connection.getresponse().read().decode())["items"]
        finally:
            connection.close()

    def rows(self):
        """The queue as [(pane, reason)]."""
        return [(item["pane"], item["reason"]) for item in self.queue()]

    def queue_is(self, *rows, since=None):
        """The queue is exactly this soon after `since` (or now), and stays so; returns the seconds it took."""
        def right():
            return self.rows() == [(session.pane, reason) for session, reason in rows]
        took = within(SOON, right, self, since)
        steady(right, self)
        print("%.2f s: %s" % (took, [(session.name, reason) for session, reason in rows]))
        return took

    # -- people at terminals -------------------------------------------------------------------------------------------

    def attach(self, name):
        """A real tmux client, looking at this tmux session."""
        client = Client(self, name)
        within(5, lambda: client.pane(), self)
        return client

    # -- for the message of a failed test --------------------------------------------------------------------------------

    def scene(self):
        """Everything a person would look at: the queue, the daemon's words, the screens."""
        parts = ["--- load of the machine: %.1f on %d processors" % (os.getloadavg()[0], os.cpu_count())]
        try:
            shown = self.run(*self.boss_argv("list", "--all"), env=self.boss_env())
            parts += ["--- list --all: exit %d\n%s%s" % (shown.returncode, shown.stdout, shown.stderr)]
        except subprocess.TimeoutExpired:
            parts += ["--- list --all: no answer"]
        log = self.root / "daemon.log"
        if log.exists():
            parts.append("--- daemon\n" + log.read_text(errors="replace")[-3000:])
        for session in self.sessions:
            if session.screen():
                parts.append("--- %s %s %s\n%s" % (session.name, session.pane, session.record(), session.screen()))
        return "\n".join(parts)


class Session:
    """One Claude Code in one tmux pane."""

    def __init__(self, world, name, *argv):
        self.world, self.name = world, name
        self.folder = world.home / name
        self.pane = world.open_pane(name, *argv)
        self.pid = None
        world.sessions.append(self)

    def until_ready(self):
        within(30, self.find_pid, self.world)
        within(30, lambda: self.status() == "idle" and "❯" in self.screen(), self.world)
        time.sleep(0.5)  # the first keys after the prompt appears can still get lost

    def key(self, *keys):
        """Press keys; returns the moment (time.monotonic()) just before."""
        before = time.monotonic()
        self.world.tmux("send-keys", "-t", self.pane, *keys)
        return before

    def say(self, prompt):
        """Type a prompt and press Enter; returns the moment just before Enter."""
        self.world.tmux("send-keys", "-t", self.pane, "-l", prompt)
        time.sleep(0.3)  # all in one go would be a paste, and its Enter a new line
        return self.key("Enter")

    def turn(self, prompt, ends="idle"):
        """Say it and wait until that has led here, by Claude Code's own record; returns the seconds from Enter."""
        return self.leads_to(ends, lambda: self.say(prompt))

    def leads_to(self, status, press):
        before = self.record().get("statusUpdatedAt")
        pressed = press()
        return within(20, lambda: self.status() == status and self.record().get("statusUpdatedAt") != before,
                      self.world, pressed)

    def answer(self, status, press):
        """Press what leads to this status; returns the moment of the keypress, or OWN before the record changed if that
        is later: Claude Code's own slowness is not the queue's."""
        took = self.leads_to(status, press)
        return time.monotonic() - min(took, OWN)

    def screen(self, *more):
        return self.world.tmux("capture-pane", "-p", "-t", self.pane, *more, check=False)

    def history(self):
        """The screen and all that has scrolled off it."""
        return self.screen("-S", "-")

    def find_pid(self):
        """Claude Code's process: by its record, for there may be a shell around it."""
        for path in (self.world.config / "sessions").glob("*.json"):
            self.pid = int(path.stem)
            if alive(self.pid) and self.record().get("cwd") == str(self.folder):
                return self.pid
        self.pid = None

    def record(self):
        """Claude Code's own record of this session; {} where there is none."""
        try:
            return json.loads((self.world.config / "sessions" / ("%s.json" % self.pid)).read_text())
        except (OSError, ValueError):
            return {}

    def status(self):
        return self.record().get("status")

    def id(self):
        return self.record()["sessionId"]

    def leave_dialog(self, key):
        """Press this key until the dialog is gone: one that has just come up takes no keys yet."""
        for _ in range(5):
            self.key(key)
            try:
                return within(1.5, lambda: self.status() != "waiting", self.world)
            except AssertionError:
                pass
        raise AssertionError("the dialog stays\n" + self.world.scene())

    def choose(self, label):
        """Press the number of an answer in a dialog; the numbers move from version to version."""
        number = re.search(r"(\d)\. %s" % re.escape(label), self.screen())
        assert number, "no such answer: %s\n%s" % (label, self.screen())
        return self.key(number.group(1))

    def close_pane(self):
        self.world.seen += self.history()
        self.world.tmux("kill-pane", "-t", self.pane, check=False)

    def end(self):
        """Close the pane and wait until Claude Code is gone."""
        self.close_pane()
        deadline = time.monotonic() + 5
        while self.pid and alive(self.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.pid and alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        self.world.sessions.remove(self)


class Client:
    """A terminal with a tmux client in it."""

    def __init__(self, world, name):
        self.world = world
        self.terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", LINES + 1, COLUMNS, 0, 0))
        self.name = os.ttyname(inside)
        self.process = subprocess.Popen(["tmux", "-u", "-S", world.socket, "attach-session", "-t", "=" + name],
                                        env=world.env(), stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
        os.close(inside)
        self.reader = threading.Thread(target=self.drain, daemon=True)
        self.reader.start()
        world.clients.append(self)

    def drain(self):
        """Read what tmux draws, and forget it: a terminal that nobody reads stops tmux."""
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass  # the client is gone

    def type(self, text):
        """Keys of this very terminal, as tmux gets them."""
        os.write(self.terminal, text.encode())

    def pane(self):
        """The pane this client looks at; None when it is not attached."""
        for line in self.world.tmux("list-clients", "-F", "#{client_name} #{pane_id}", check=False).splitlines():
            name, pane = line.split()
            if name == self.name:
                return pane
        return None

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(5)
        self.reader.join(5)
        os.close(self.terminal)
        self.world.clients.remove(self)

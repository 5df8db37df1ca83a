#!/usr/bin/env python3
"""How often is the queue right? Each recording of the real Claude Code is played against the whole product.

  python3 tests/accuracy.py [--jobs N] [CAPTURE...]        all of tests/captures, in each of MODES: some minutes

A recording is played in real time in a World of its own: a HOME, a tmux server whose panes run a process named claude, Trail
Boss installed there, and its daemon. What Claude Code did is done again: it ran the hooks that stand in the settings, and
wrote session records and transcripts. What the person at the screen saw (expect.jsonl) is what the queue has to be: within
SOON after the last thing that happened, and from then on until the person looked.

Nothing of the product is imported. The output is a table, and each check that was wrong; the exit code is 1 if one was.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import List, NamedTuple

HERE = Path(__file__).resolve().parent
TREE = Path(os.environ.get("TRAILBOSS_TREE") or HERE.parent)  # or a copy that nobody edits meanwhile
CAPTURES = [path.parent for path in sorted(HERE.glob("captures/*/meta.json")) if (path.parent / "expect.jsonl").exists()]
# (Claude Code keeps session records, the daemon is killed in the middle and started again)
MODES = {"plain": (True, False), "no session records": (False, False),
         "daemon killed (-9), restarted": (True, True), "both": (False, True)}
SOON = 1.2  # s: what the queue has to follow what happened
OFTEN = 0.04  # s: from one look at the queue to the next
BEFORE, AFTER = 0.2, 0.8  # s: the daemon is down from before to after a hook event, which then has to wait for it
SETTLED = 2.0  # s: what a restarted daemon is given until it is asked
BUSY = 0.1  # s: a player that does things so much too late measures the machine


class Played(NamedTuple):
    """What came of one recording in one mode."""
    capture: str
    version: str
    mode: str
    checks: int
    took: List[float]  # the seconds from the last change to the right answer, for each check that was right
    wrong: List[str]
    late: float  # by how much the player did something too late, at worst


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class World:
    """The machine that one recording is played on."""

    def __init__(self, capture, mode):
        self.capture, self.mode = capture, mode
        self.use_records, self.restart = MODES[mode]
        self.meta = json.loads((capture / "meta.json").read_text())
        self.records, self.events = rows(capture / "records.jsonl"), rows(capture / "events.jsonl")
        self.root = Path(tempfile.mkdtemp(prefix="tb-accuracy-")).resolve()
        self.home, self.state, self.said = self.root / "home", self.root / "state", self.root / "hooks.out"
        self.config = self.home / ".claude"
        (self.config / "sessions").mkdir(parents=True)
        self.said.touch()
        self.socket = self.root / ("tmux-%d" % os.getuid()) / "default"  # where this world's tmux has it by itself
        self.socket.parent.mkdir(mode=0o700)
        self.claude, self.nested = (shutil.copy(shutil.which(tool), str(folder / "claude")) for tool, folder in
                                    (("sh", self.root), ("sleep", self.socket.parent)))
        self.env = {"HOME": str(self.home), "TMUX_TMPDIR": str(self.root), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
                    "TERM": "screen-256color", "SHELL": "/bin/sh"}
        self.boss_env = {**self.env, "TRAILBOSS_HOME": str(self.state)}  # Claude Code doesn't have it, nor do its hooks
        self.processes, self.panes = {}, {}  # what stands for a recorded process: (pane, pid), and for a recorded pane
        self.living = set()  # the recorded processes that are there now
        self.pid_of = {row["record"]["sessionId"]: row["pid"] for row in self.records if row["record"]}
        self.place = {self.recorded(row): row["env"]["TMUX_PANE"] for row in self.events}
        self.hooks, self.looks = [], []  # a look: (asked, answered, the queue; None if there was no answer)
        self.daemon, self.starting, self.over = None, True, threading.Event()
        self.took, self.wrong = [], []

    # -- its programs --------------------------------------------------------------------------------------------------

    def run(self, *argv, **more):
        """A program's output; or an error with it."""
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              universal_newlines=True, env=more.get("env", self.env))
        if done.returncode:
            raise RuntimeError("%s: exit %d: %s" % (" ".join(argv), done.returncode, done.stdout[-500:]))
        return done.stdout

    def tmux(self, *argv):
        return self.run("tmux", "-S", str(self.socket), "-f", os.devnull, *argv)

    def install(self):
        self.run(sys.executable, str(TREE / "trailboss.py"), "install", env=self.boss_env)
        hooks = json.loads((self.config / "settings.json").read_text())["hooks"]
        self.commands = {name: [hook["command"] for group in hooks[name] for hook in group["hooks"]] for name in hooks}

    def serve(self, _=None):
        """Start the daemon that was installed; watch() sees when it answers."""
        self.starting = True
        with (self.root / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen([sys.executable, str(self.config / "trailboss.pyz"), "serve", "--port", "0"],
                                           env=self.boss_env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill_daemon(self, _=None):
        self.daemon.kill()
        self.daemon.wait()

    def queue(self):
        """GET /queue, with the address and token of the hooks' curl: the start of a `list` would blur the times."""
        url, token = re.findall(r'"(.*)"', (self.state / "curl.conf").read_text())
        with contextlib.closing(http.client.HTTPConnection(url.split("/")[2], timeout=5)) as connection:
            connection.request("GET", "/queue", headers=dict([token.split(": ")]))
            answer = json.loads(connection.getresponse().read().decode())
        return sorted((str(item["pane"]), item["reason"]) for item in answer["items"])

    def watch(self):
        """Look at the queue again and again. That a daemon answers after its start is a change too."""
        while not self.over.wait(OFTEN):
            asked = time.monotonic()
            try:
                queue = self.queue()
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                queue = None
            if queue is not None and self.starting:
                self.starting, self.changed = False, time.monotonic()
            self.looks.append((asked, time.monotonic(), queue))

    def close(self):
        self.over.set()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(5)
            except subprocess.TimeoutExpired:
                self.kill_daemon()
                self.wrong.append("the daemon went on for 5 s after SIGTERM")
        with contextlib.suppress(RuntimeError):  # tmux ends by itself with its last pane
            self.tmux("kill-server")
        shutil.rmtree(str(self.root), ignore_errors=True)

    # -- what happened, in this world and now ----------------------------------------------------------------------------

    def here(self, text):
        """A text with this world's home in it, also where Claude Code makes a folder's name of it."""
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(self.home))
        return text.replace("/home/dev", str(self.home)).replace("-home-dev", slug)

    def now(self, stamp):
        then = datetime.datetime.fromisoformat(stamp.group(1)) + datetime.timedelta(seconds=self.shift)
        return then.isoformat(timespec="milliseconds") + "Z"

    def recorded(self, event):
        """The pid that the hook of a recorded event had. An old Claude Code didn't tell its hooks."""
        return int(event["env"]["CLAUDE_PID"] or self.pid_of.get(event["payload"]["session_id"], 0))

    def claude_of(self, recorded):
        """The (pane, pid) of what stands for a recorded process, and begins when it is first asked for."""
        if recorded not in self.processes:
            place = self.place.setdefault(recorded, recorded)  # one without hooks has a pane of its own
            if any(self.place[other] == place for other in self.living):
                self.processes[recorded] = (self.panes[place], self.open_nested(self.panes[place]))
            else:
                self.panes[place], pid = self.open_pane()
                self.processes[recorded] = (self.panes[place], pid)
            self.living.add(recorded)
        return self.processes[recorded]

    def open_pane(self):
        """A pane with a process named claude: a shell, for it runs one in itself (open_nested) if it is told to."""
        # In the recording with a kill -9 the pane stayed, dead. Else it goes with its process, as is usual in tmux.
        stays = "on" if any(step["action"] == "kill -9 claude" for step in self.meta["steps"]) else "off"
        pane, pid, self.server = self.tmux(
            "new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid} #{pid}", "-x", "120", "-y", "45", "--", self.claude,
            "-c", 'while read -r file; do "$0" 3600 & echo $! >"$file"; wait; done', self.nested, ";",
            "set-option", "-g", "remain-on-exit", stays).split()
        return pane, int(pid)

    def open_nested(self, pane):
        """A claude that the one in this pane has started; its pid."""
        file = self.root / "nested.pid"
        self.tmux("send-keys", "-t", pane, "-l", str(file), ";", "send-keys", "-t", pane, "Enter")
        while not (file.exists() and file.read_text().endswith("\n")):
            time.sleep(0.005)
        return int(file.read_text())

    def on_record(self, row):
        """A session record, written as Claude Code does it: aside and renamed. Its times are milliseconds."""
        record, (_, pid) = row["record"], self.claude_of(row["pid"])
        path = self.config / "sessions" / ("%d.json" % pid)
        if record is None:
            self.living.discard(row["pid"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            return path.unlink() if path.exists() else None
        if self.use_records:
            record = {key: int(value + self.shift * 1000) if type(value) is int and value > 1e12 else value
                      for key, value in record.items()}
            started = Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[19]
            aside = path.with_suffix(".tmp")
            aside.write_text(self.here(json.dumps({**record, "pid": pid, "procStart": started})))
            aside.replace(path)

    def on_growth(self, row):
        """A transcript, also a subagent's, has so many lines now."""
        lines = (self.capture / "transcripts" / row["file"]).read_text().split("\n")[:row["lines"]]
        path = self.config / self.here(row["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as file:
            file.seek(0)
            for line in lines[file.read().count("\n"):]:
                file.write(self.here(re.sub(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z", self.now, line)) + "\n")

    def on_event(self, row):
        """Run the hooks of this event beside all else, as Claude Code runs async ones."""
        payload, env = row["payload"], {key: value for key, value in row["env"].items() if value}
        pane, pid = self.claude_of(self.recorded(row))
        env.update(self.env, CLAUDECODE="1", TMUX="%s,%s,0" % (self.socket, self.server), TMUX_PANE=pane)
        env.update({"CLAUDE_PID": str(pid)} if "CLAUDE_PID" in env else {})
        folder = Path(self.here(payload["cwd"]))
        folder.mkdir(parents=True, exist_ok=True)
        for command in self.commands[payload["hook_event_name"]]:
            with self.said.open("ab") as out:
                hook = subprocess.Popen(["sh", "-c", command], env=env, cwd=str(folder), stdin=subprocess.PIPE, stdout=out,
                                        stderr=out)
            self.hooks.append(hook)
            with contextlib.suppress(BrokenPipeError), hook.stdin:
                hook.stdin.write(self.here(json.dumps(payload)).encode())

    def on_kill(self, step):
        pane, pid = next(iter(self.processes.values()))
        if step["action"] == "kill -9 claude":
            os.kill(pid, signal.SIGKILL)
        else:
            self.tmux("kill-pane", "-t", pane)

    # -- the answer ------------------------------------------------------------------------------------------------------

    def on_check(self, check):
        """Was the queue right soon after the last change, and from then on until now?"""
        right = [(self.panes.get(check["pane"], check["pane"]), check["stuck"])] if check["stuck"] else []
        looks = [look for look in self.looks if look[0] >= self.changed]
        wrong = [n for n, (_, _, queue) in enumerate(looks) if queue != right]
        since = wrong[-1] + 1 if wrong else 0  # the first look from which on all is right
        took = looks[since][1] - self.changed if since < len(looks) else None
        if took is not None and took <= SOON:
            return self.took.append(took)
        found = looks[wrong[-1]][2] if wrong else "nothing, for nobody looked"
        self.wrong.append("at %.1f s: %s: expected %s, found %s%s" % (
            check["t"], check["why"], right, found, "" if took is None else "; right only after %.2f s" % took))

    def checks(self, up):
        """What is asked, but for what only a session record can tell where there is none. Nothing happens after the last
        check: where that one would come too early for the restarted daemon, it is asked later."""
        found = rows(self.capture / "expect.jsonl")
        found[-1]["t"] = max(found[-1]["t"], up + SETTLED)
        return [row for row in found if self.use_records or row.get("needs") != "record"]

    def plan(self):
        """(t, order, function, row, is it a change that the queue has to follow?) of all that happens."""
        todo = [(row["t"], 4, self.on_event, row, True) for row in self.events
                if row["payload"]["hook_event_name"] in self.commands]
        down = up = -SETTLED
        if self.restart:
            middle = todo[len(todo) // 2][0]
            down, up = middle - BEFORE, middle + AFTER
            todo += [(down, 1, self.kill_daemon, None, True), (up, 1, self.serve, None, False)]
        todo += [(row["t"], 2, self.on_record, row, self.use_records or row["record"] is None) for row in self.records]
        todo += [(row["t"], 3, self.on_growth, row, not self.use_records) for row in rows(self.capture / "growth.jsonl")]
        todo += [(step["t"], 1, self.on_kill, step, True) for step in self.meta["steps"]
                 if step["action"] in ("kill -9 claude", "tmux kill-pane")]
        todo += [(row["t"], 0, self.on_check, row, False) for row in self.checks(up) if not down <= row["t"] < up + SETTLED]
        return sorted(todo, key=lambda row: row[:2])

    def act(self, todo):
        """Do it all at its time; returns by how much the latest was late."""
        began, self.shift, late = time.monotonic(), time.time() - self.meta["t0"], 0.0
        for t, _, action, row, change in todo:
            time.sleep(max(0.0, began + t - time.monotonic()))
            late = max(late, time.monotonic() - began - t)
            if change:
                self.changed = time.monotonic()
            action(row)
        return late

    def play(self):
        checks, late = 0, 0.0
        try:
            self.install()
            todo = self.plan()
            checks = sum(row[2] == self.on_check for row in todo)
            self.serve()
            threading.Thread(target=self.watch, daemon=True).start()
            deadline = time.monotonic() + 15
            while self.starting and time.monotonic() < deadline:
                time.sleep(0.01)
            late = self.act(todo)
            if any(hook.wait(5) for hook in self.hooks) or self.said.read_text():
                self.wrong.append("a hook failed, or said something: " + self.said.read_text()[-500:])
        except Exception as error:  # whatever it is: the other recordings go on
            self.wrong.append("it could not be played: %r" % error)
        finally:
            self.close()
        return Played(self.capture.name, self.meta["claude_code"], self.mode, checks, self.took, self.wrong, late)


def play_all(captures=CAPTURES, modes=tuple(MODES), jobs=4):
    """A Played for each of these recordings in each of these modes; so many at once, the longest first."""
    todo = sorted(((max(row["t"] for row in rows(capture / "expect.jsonl")), capture, mode)
                   for capture in captures for mode in modes), reverse=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(lambda capture, mode: World(capture, mode).play(), *what[1:]) for what in todo]
        try:
            return [future.result() for future in futures]
        finally:  # after a Ctrl-C, what has begun is played to its end, so that nothing of it is left behind
            for future in futures:
                future.cancel()


def report(results):
    """The table, what was wrong, and what one has to know to believe it."""
    lines = ["%-31s %10s %7s %7s %9s" % ("mode", "recordings", "checks", "right", "slowest")]
    for mode in [mode for mode in MODES if any(played.mode == mode for played in results)]:
        these = [played for played in results if played.mode == mode]
        took = [seconds for played in these for seconds in played.took]
        lines.append("%-31s %10d %7d %7d %7.2f s" % (
            mode, len(these), sum(played.checks for played in these), len(took), max(took, default=0)))
    lines += ["wrong: %s, %s: %s" % (p.capture, p.mode, wrong) for p in sorted(results) for wrong in p.wrong]
    versions = [version for version, _ in sorted({(played.version, played.capture) for played in results})]
    lines.append("recorded on Claude Code " + ", ".join(
        "%s (%d)" % (version, versions.count(version)) for version in sorted(set(versions))))
    late = max((played.late for played in results), default=0)
    return "\n".join(lines + ["the player was %.2f s late at worst%s" % (
        late, ": the machine was busy; what is slow or wrong may be its fault. Try fewer --jobs" if late > BUSY else "")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=4, help="so many recordings at once (4)")
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE", help="the folder of a recording")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as with Ctrl-C, nothing is left running
    results = play_all(args.captures or CAPTURES, jobs=args.jobs)
    print(report(results))
    return int(not results or any(played.wrong for played in results))


if __name__ == "__main__":
    sys.exit(main())

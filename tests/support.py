"""What several test files share: events, records and worlds as values, and the recordings played with a made-up clock."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import trailboss as tb  # noqa: E402

CAPTURES = sorted(path.parent for path in (ROOT / "tests" / "captures").glob("*/meta.json"))


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def event(name, session_id="s1", at=100.0, pid=10, pane="%0", agent_id="", entrypoint="cli", event_id="", **data):
    """A hook event as section 2 makes it."""
    return tb.Event(event_id, at, name, session_id, data, agent_id=agent_id,
                    claim=tb.Pane("/tmp/sock", 1, pane) if pane else None,
                    process=tb.Process(pid, "1", "/dev/pts/%d" % pid) if pid else None, entrypoint=entrypoint)


def record(session_id="s1", status="idle", at=100.0, pid=10, started_at=1.0, waiting_for="", **more):
    """A session record as section 2 makes it."""
    return tb.Record(pid, session_id, status, waiting_for, at, started_at, **more)


def world(*records, pids=(10,), dead=(), servers=()):
    """A look around in which these records and processes are."""
    processes = {pid: tb.Process(pid, "1", "/dev/pts/%d" % pid) for pid in pids}
    processes.update({pid: None for pid in dead})
    return tb.World({r.pid: r for r in records}, processes, {server.socket: server for server in servers})


KILLS = ("kill -9 claude", "tmux kill-pane")


def thread_of(file):
    """(session id, agent id or "") of a transcript's path below the config folder."""
    parts = Path(file).parts
    if "subagents" in parts:
        return parts[parts.index("subagents") - 1], Path(file).stem[len("agent-"):]
    return Path(file).stem, ""


class Recording:
    """A recording of the real Claude Code, played against the pure half with a made-up clock.

    Looks come every `tick` seconds, as the daemon's do; hook events arrive `late` seconds after they were made.
    """

    def __init__(self, folder, use_records=True, tick=0.2, late=0.0):
        self.folder, self.use_records, self.tick, self.late = folder, use_records, tick, late
        self.t0 = json.loads((folder / "meta.json").read_text())["t0"]
        self.steps = json.loads((folder / "meta.json").read_text())["steps"]
        self.records, self.alive, self.board = {}, {}, tb.Board()
        self.calls, self.done = {}, {}

    def actions(self):
        """(t, order, function, row) of everything that happens, and of every look and check."""
        todo = [(row["t"], 0, self.on_record, row) for row in rows(self.folder / "records.jsonl")]
        todo += [(row["t"] + self.late, 1, self.on_event, row) for row in rows(self.folder / "events.jsonl")
                 if row["payload"]["hook_event_name"] in tb.HOOKED]
        todo += [(row["t"], 0, self.on_growth, row) for row in rows(self.folder / "growth.jsonl")]
        todo += [(step["t"], 0, self.on_kill, step) for step in self.steps if step["action"] in KILLS]
        todo += [(row["t"] - 0.02, 3, self.on_check, row) for row in rows(self.folder / "expect.jsonl")
                 if self.use_records or row.get("needs") != "record"]
        end = max(t for t, *_ in todo) + 1
        todo += [(n * self.tick, 2, self.on_look, None) for n in range(int(end / self.tick))]
        return sorted(todo, key=lambda row: row[:2])

    def play(self):
        """What was not as the person at the screen saw it: a list of (why, expected, found)."""
        self.wrong = []
        for t, _, action, row in self.actions():
            self.now = self.t0 + t
            action(row)
        return self.wrong

    def process(self, pid):
        return self.alive.get(pid)

    def on_record(self, row):
        if row["record"] is None:
            self.records.pop(row["pid"], None)
            self.alive[row["pid"]] = None
            return
        self.alive.setdefault(row["pid"], tb.Process(row["pid"], str(row["record"]["procStart"]), f"/dev/pts/{row['pid']}"))
        self.records[row["pid"]] = tb.parse_record(json.dumps(row["record"]))

    def on_event(self, row):
        env = row["env"]
        pid = int(env.get("CLAUDE_PID") or 0)
        headers = {"x-event-time": repr(self.now - self.late), "x-tmux": env["TMUX"], "x-tmux-pane": env["TMUX_PANE"],
                   "x-claude-pid": str(pid) if pid else "", "x-claude-entrypoint": env["CLAUDE_CODE_ENTRYPOINT"]}
        e = tb.parse_event(json.dumps(row["payload"]).encode(), headers, self.now)
        if pid:
            self.alive.setdefault(pid, tb.Process(pid, "1", f"/dev/pts/{pid}"))
            e = e._replace(process=self.alive[pid] or e.process)
        self.board = tb.take_event(self.board, e)
        self.on_look(None)

    def on_growth(self, row):
        """A transcript grew: what it says goes onto the board, if its session is there by then (the daemon reads it anew)."""
        path = self.folder / "transcripts" / row["file"]
        lines = path.read_bytes().split(b"\n")[self.done.get(row["file"], 0):row["lines"]]
        session_id, agent_id = thread_of(row["file"])
        said = tb.parse_transcript(lines, session_id, self.calls.setdefault(row["file"], {}), agent_id)
        if session_id in self.board.sessions:
            self.done[row["file"]] = row["lines"]
            self.board = tb.take_lines(self.board, session_id, said, self.now)
            self.on_look(None)

    def on_kill(self, _):
        for pid in self.alive:
            self.alive[pid] = None

    def on_look(self, _):
        live = {pid: r for pid, r in self.records.items() if self.use_records and self.alive.get(pid)}
        seen = tb.World(live, dict(self.alive), {})
        for stranger in tb.strangers(self.board, live, self.now):
            self.board = tb.take_stranger(self.board, stranger, self.alive[stranger.pid], "")
        self.board = tb.observe(self.board, seen, self.now)

    def on_check(self, row):
        found = sorted((s.pane.pane_id if s.pane else None, s.wait.reason) for s in tb.waiting(self.board, self.now))
        expected = [(row["pane"], row["stuck"])] if row["stuck"] else []
        if found != expected:
            self.wrong.append((f"{row['t']} s: {row['why']}", expected, found))

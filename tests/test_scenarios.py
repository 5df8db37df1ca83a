"""Groups A to D of scenarios.md, which are public fault reports: what must the queue show? Each test has its scenario's
number, and is on the level where that is decided: a Tale (values and a made-up clock), a House (a daemon of its own, with
real records, transcripts and processes), or a Town (real tmux). At the end: a daemon that finds everything anew, and sleep.
"""
import contextlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest
from support import ROOT, record, tb, world
from test_board import ASK
from test_daemon import Daemon, spool, until
from test_tmux import Nested, Spot, Town, outsider, within
from test_truth import MARK, Told, line

SCRIPT = ROOT / "hooks" / "trailboss-emit.sh"
OTHER = {"tool_name": "Bash", "tool_input": {"command": "touch other"}}
NOTE = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>"
AGENTS = [{"id": "a%d" % n, "type": "subagent", "status": "running"} for n in (1, 2, 3)]
SHELL = {"id": "b1", "type": "shell", "status": "running", "command": "npm run dev"}
NEEDS_TMUX = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux here")


class Tale(Told):
    """A story of a Claude Code that tells its pid to its hooks, or not, and keeps a record, or not. Each look also finds the
    sessions that only a record tells of, as the daemon's does."""

    def __init__(self, pid=10, kept=False):
        self.pid, self.kept = pid, kept
        super().__init__(pids=(10, 11, 12))

    def hear(self, name, at, late=0.0, **more):
        return super().hear(name, at, late, **(more if self.pid else {**more, "pid": 0}))

    def shows(self, status, at, session_id="s1", pid=10, **more):
        """The record changes, if there is one."""
        if self.kept:
            self.world.records[pid] = record(session_id, status, at, pid, **more)
        return self.look(at + 0.05)

    def look(self, now):
        for r in tb.strangers(self.board, self.world.records, max(now, self.now)):
            self.board = tb.take_stranger(self.board, r, self.world.processes.get(r.pid), "")
        return super().look(now)

    def lives_on(self, now):
        """Looks five times a second until then."""
        while self.now < now:
            self.look(min(now, self.now + 0.2))
        return self

    def skip(self, session_id="s1", **more):
        self.board = tb.put_off(self.board, session_id, **more)
        return self

    @property
    def order(self):
        return [(s.session_id, s.wait.reason) for s in tb.waiting(self.board, self.now)]

    def row(self, session_id="s1"):
        """Its row in `list --all --json`, and the remarks in `list`."""
        answer = tb.listing(self.board, {}, self.now, True)
        row = next(row for row in answer["items"] + answer["sessions"] if row["session_id"] == session_id)
        return {**row, "notes": tb.notes_of(row, self.now)}


KNOWN = {"pid-record": (10, True), "pid": (10, False), "record": (0, True), "neither": (0, False)}
everywhere = pytest.mark.parametrize("known", list(KNOWN.values()), ids=list(KNOWN))
unrecorded = pytest.mark.parametrize("known", [(10, False), (0, False)], ids=["pid", "neither"])


def begun(known):
    """A turn that began at 1."""
    return Tale(*known).shows("idle", 0.5).hear("UserPromptSubmit", 1, prompt="go").shows("busy", 1.05).look(2)


def dialog(known, **more):
    """Its main thread asks since 5."""
    tale = begun(known).hear("PermissionRequest", 5, **{**ASK, **more})
    return tale.shows("waiting", 5.05, waiting_for="permission prompt")


def stopped(known):
    """It waits since 5."""
    return begun(known).hear("Stop", 5).shows("idle", 5.05).look(7)


# ---- the world of files and processes --------------------------------------------------------------------------------


def stamp(at):
    whole, ms = divmod(round(at * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + ".%03dZ" % ms


class House(Daemon):
    """A daemon with live sessions around it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.claudes = []
        (self.config / "sessions").mkdir()

    def claude(self, **more):
        self.claudes.append(Claude(self, **more))
        return self.claudes[-1]

    def rows(self, *claudes):
        """{session id: (reason, since in ms)} of those that wait, of these sessions or of all."""
        wanted = [claude.id for claude in claudes]
        return {row["session_id"]: (row["reason"], round(row["since"], 3)) for row in self.queue()
                if not wanted or row["session_id"] in wanted}

    def states(self):
        """{session id: (reason, since) if it waits, else its state}."""
        answer = self.ask("GET", "/queue?all=1")[1]
        return {**{row["session_id"]: row["state"] for row in answer["sessions"]},
                **{row["session_id"]: (row["reason"], row["since"]) for row in answer["items"]}}

    def differ(self, rows):
        """Those of {session: row} that are not so: {its id: (how it is, how it should be)}. A row of None may be any."""
        now = self.states()
        return {claude.id: (now.get(claude.id, "unknown"), row) for claude, row in rows.items()
                if row is not None and not alike(now.get(claude.id, "unknown"), row)}

    def settles(self, rows, seconds=1.5, steady=0.5):
        """All of them become so in that time, and remain so for some looks."""
        end = time.monotonic() + seconds
        while self.differ(rows):
            assert time.monotonic() < end, self.differ(rows)
            time.sleep(0.02)
        end = time.monotonic() + steady
        while time.monotonic() < end:
            assert self.differ(rows) == {}
            time.sleep(0.05)

    def close(self):
        self.end()
        for claude in self.claudes:
            claude.die()


def alike(now, row):
    """The same row? Records and transcripts have times in milliseconds."""
    return now == row or isinstance(now, tuple) and now[0] == row[0] and abs(now[1] - row[1]) < 0.002


class Claude:
    """One session: a live process (`sleep`, in Claude Code's place), its record, its transcript, its hooks."""

    numbers = itertools.count(1)

    def __init__(self, house, began=60.0, project="-w"):
        self.house, self.id, self.t0 = house, "c%04d" % next(self.numbers), round(time.time(), 3)
        self.process = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, start_new_session=True)
        self.began, self.written = self.t0 - began, {}
        self.path = house.config / "projects" / project / (self.id + ".jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.card = house.config / "sessions" / ("%d.json" % self.process.pid)

    def die(self):
        self.process.kill()
        self.process.wait()

    def record(self, status, at, **more):
        """Its record now; `at` is when the status changed."""
        entry = {"pid": self.process.pid, "sessionId": self.id, "cwd": "/w/" + self.id, "startedAt": self.began * 1000,
                 "procStart": tb.process_of(self.process.pid).start, "kind": "interactive", "entrypoint": "cli",
                 "status": status, "statusUpdatedAt": at * 1000, "updatedAt": at * 1000, **more}
        new = self.card.with_suffix(".new")
        new.write_text(json.dumps(entry))
        os.replace(str(new), str(self.card))
        return self

    def hear(self, name, at=None, pid=False, **fields):
        """A hook event; most builds tell no pid, and what was made before its process began could be no event of it."""
        headers = {"X_Event_Time": time.time() if at is None else at, "X_Claude_Config": self.house.config,
                   "X_Claude_Entrypoint": "cli", **({"X_Claude_Pid": self.process.pid} if pid else {})}
        fields.setdefault("transcript_path", str(self.path))
        assert self.house.hear(name, self.id, **headers, **fields) == 200
        return self

    def write(self, *lines, path=None, end=b"\n"):
        with (path or self.path).open("ab") as file:
            for text in lines:
                file.write(text + end)
        return self

    def entry(self, kind, at, content=None, **more):
        message = {} if content is None else {"message": {"role": kind, "content": content, **more.pop("message", {})}}
        entry = {"parentUuid": None, "isSidechain": False, "type": kind, **message, "uuid": "u%.3f" % at,
                 "timestamp": stamp(at), "sessionId": self.id, "userType": "external", "version": "2.1.332", **more}
        return json.dumps(entry, separators=(",", ":")).encode()

    def prompt(self, at, text="go", **more):
        return self.entry("user", at, text, **{"promptSource": "typed", "origin": {"kind": "human"}, **more})

    def says(self, at, text="Done.", stop="end_turn", **more):
        return self.entry("assistant", at, [{"type": "text", "text": text}],
                          message={"id": "m%.3f" % at, "stop_reason": stop},
                          **more)

    def call(self, at, name="Bash", tool_input=None, call="t1", **more):
        block = {"type": "tool_use", "id": call, "name": name,
                 "input": ASK["tool_input"] if tool_input is None else tool_input}
        return self.entry("assistant", at, [block], message={"id": "m%.3f" % at, "stop_reason": "tool_use"}, **more)

    def result(self, at, content="ok", call="t1", error=False, **more):
        return self.entry("user", at, [{"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}],
                          **more)

    def refused(self, at, call="t1"):
        return self.result(at, tb.REFUSAL + ". STOP.", call, True, toolDenialKind="user-rejected", toolDenialBeforeRun=True)

    def mark(self, at):
        return self.entry("user", at, [{"type": "text", "text": MARK}])

    def ended(self, at, **more):
        return self.entry("system", at, subtype="turn_duration", durationMs=5, isMeta=False, **more)

    def meta(self, at):
        """What Claude Code writes for itself around a turn's end."""
        own = [{"type": "last-prompt", "lastPrompt": "go"}, {"type": "mode", "mode": "normal"},
               {"type": "ai-title", "aiTitle": "x"},
               {"type": "agent-name", "agentName": "x"}, {"type": "custom-title", "customTitle": "x"},
               {"type": "summary", "summary": "x"},
               {"type": "permission-mode", "permissionMode": "default"}, {"type": "tools-used", "tools": ["Bash"]},
               {"type": "file-history-snapshot", "snapshot": {"timestamp": stamp(at)}},
               {"type": "pr-link", "timestamp": stamp(at)},
               {"type": "api-request", "timestamp": stamp(at)}, {"type": "cost-state", "timestamp": stamp(at)},
               {"type": "api-request-blob", "message": {"role": "user", "content": "go"}, "timestamp": stamp(at)}]
        systems = [self.entry("system", at, subtype=name) for name in
                   ("stop_hook_summary", "away_summary", "bridge_status", "informational", "memory_saved")]
        return [json.dumps({**entry, "sessionId": self.id}).encode() for entry in own] + systems

    @property
    def row(self):
        """(reason, since) if it waits, else its state."""
        now = self.house.states().get(self.id, "unknown")
        return now if isinstance(now, str) else (now[0], round(now[1], 3))

    def becomes(self, row, seconds=1.5):
        self.house.settles({self: row}, seconds, 0)
        return self

    def stays(self, row, steady=0.5):
        """So it is soon, and so it remains for some looks."""
        self.house.settles({self: row}, 0.5, steady)
        return self


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A daemon that runs all the while; each test has sessions of its own in it."""
    made = House(tmp_path_factory.mktemp("house"))
    try:
        yield made.start()
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.close()


@pytest.fixture
def lone(tmp_path):
    """A daemon that does not run yet."""
    made = House(tmp_path)
    try:
        yield made
        assert not made.log.exists() or "Traceback" not in made.said(), made.said()
    finally:
        made.close()


@pytest.fixture
def town(tmp_path):
    made = Town(tmp_path)
    try:
        yield made
    finally:
        made.close()


# ---- A: is this session really stuck? --------------------------------------------------------------------------------


@everywhere
def test_01_a_fan_out_to_three_subagents_is_one_finished_turn(known):
    tale = begun(known)
    for n, at in enumerate((10, 20, 30)):
        tale.hear("Stop", at, background_tasks=AGENTS[n:]).lives_on(at + 8)
        assert (tale.queue, tale.state) == ([], "working")
        tale.hear("UserPromptSubmit", at + 8, prompt=NOTE)
    tale.hear("Stop", 40, background_tasks=[]).shows("idle", 40.05)
    assert tale.lives_on(45).queue == [("stopped", 40)]


@everywhere
@pytest.mark.parametrize("tasks", [
    None, {}, "running", 5, True, [], ["subagent"], [None], [[[]]], [{}], [{"type": "subagent"}], [{"status": "running"}],
    [{"type": "subagent", "status": "unheard-of"}], [{"type": "subagent", "status": ["running"]}],
    [{"type": ["subagent"], "status": "running"}], [{"type": "unheard-of", "status": "running"}],
    [{"type": "cloud session", "status": "running"}], {"type": "subagent", "status": "running"}], ids=str)
def test_01_a_shape_that_is_not_known_hides_nothing(known, tasks):
    assert begun(known).hear("Stop", 5, background_tasks=tasks).shows("idle", 5.05).lives_on(9).queue == [("stopped", 5)]


@everywhere
def test_01_an_old_claude_code_lists_no_background_work(known):
    assert begun(known).hear("Stop", 5).queue == [("stopped", 5)]


@everywhere
def test_02_a_held_back_stop_that_no_clean_one_follows(known):
    """TaskStop killed the subagent, and nothing tells."""
    tale = begun(known).hear("Stop", 5, background_tasks=AGENTS[:1]).lives_on(6)
    assert (tale.queue, tale.row()["notes"]) == ([], "[1 in background] ")
    if known[1]:
        assert tale.shows("idle", 60).lives_on(62).queue == [("stopped", 60)]
    assert [reason for reason, _ in tale.look(5 + tb.PARKED + 1).queue] == ["stopped"]


@everywhere
def test_02_a_held_back_stop_and_a_next_one_with_fewer_tasks(known):
    tale = begun(known).hear("Stop", 5, background_tasks=AGENTS[:1]).lives_on(9)
    assert tale.hear("Stop", 20, background_tasks=[]).shows("idle", 20.05).lives_on(25).queue == [("stopped", 20)]


@unrecorded
def test_02_a_subagent_that_was_killed_after_it_wrote_something(known):
    tale = begun(known).hear("Stop", 5, background_tasks=AGENTS[:1]).read(line("said", 100, "on", agent_id="a1"))
    assert tale.look(100 + tb.PARKED - 1).queue == []
    assert tale.look(100 + tb.PARKED + 1).queue == [("stopped", 5)]


@everywhere
@pytest.mark.parametrize("tasks", [
    [SHELL], [SHELL, SHELL], [{**SHELL, "type": "monitor"}], [{**SHELL, "type": "MCP task"}], [{**SHELL, "type": 5}],
    [SHELL, {**AGENTS[0], "status": "completed"}], [{k: v for k, v in SHELL.items() if k != "id"}]], ids=range(7))
@pytest.mark.parametrize("crons", [None, [{"id": "1", "schedule": "* * * * *", "recurring": True}], "x"],
                         ids=["", "cron", "odd"])
def test_03_a_dev_server_and_crons_hide_no_finished_turn(known, tasks, crons):
    tale = begun(known).hear("Stop", 5, background_tasks=tasks, session_crons=crons).shows("shell", 5.05).lives_on(9)
    assert tale.queue == [("stopped", 5)] and "in background" in tale.row()["notes"]
    assert tale.look(5000).queue == [("stopped", 5)]


@everywhere
@pytest.mark.parametrize("name", ["PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "StopFailure"])
def test_05_a_dialog_that_another_tools_hook_answered(known, name):
    """With a record it never leaves busy."""
    tale = begun(known).hear("PermissionRequest", 5, **ASK)
    assert tale.queue == [("permission", 5)]
    tale.hear(name, 5.3, **ASK).lives_on(5.4)
    assert [reason for reason, _ in tale.queue] == {"Stop": ["stopped"], "StopFailure": ["error"]}.get(name, [])
    assert tale.session().asks == ()


def test_05_a_dialog_that_another_tools_hook_answered_with_a_record_and_no_further_hook():
    assert begun((10, True)).hear("PermissionRequest", 5, **ASK).lives_on(6).queue == []


def emitted(house, claude, name, **fields):
    """The hook as Claude Code runs it: (seconds, exit code, output)."""
    env = {**house.env, "CLAUDE_PID": str(claude.process.pid), "CLAUDE_CODE_ENTRYPOINT": "cli"}
    payload = json.dumps({"session_id": claude.id, "hook_event_name": name, "cwd": "/w", **fields}).encode()
    began = time.monotonic()
    done = subprocess.run(["sh", str(SCRIPT)], input=payload, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return time.monotonic() - began, done.returncode, done.stdout


def test_05_our_hook_never_decides_and_is_done_at_once(house):
    claude = house.claude()
    seconds, code, output = emitted(house, claude, "PermissionRequest", **ASK)
    assert (code, output) == (0, b"") and seconds < 1
    assert claude.row[0] == "permission"


@everywhere
def test_06_auto_mode_has_no_dialogs(known):
    auto = {"permission_mode": "auto"}
    tale = Tale(*known).shows("idle", 0.5).hear("UserPromptSubmit", 1, prompt="go", **auto).shows("busy", 1.05)
    for n, name in enumerate(("PreToolUse", "PostToolUse", "PostToolBatch", "PreToolUse", "PermissionDenied",
                              "PostToolBatch")):
        tale.hear(name, 2 + n, tool_name="Bash", tool_input={"command": "x"}, **auto).lives_on(2.9 + n)
        assert (tale.queue, tale.state) == ([], "working"), name
    tale.hear("Stop", 9, **auto).shows("idle", 9.05).lives_on(12)
    assert tale.queue == [("stopped", 9)] and tale.row()["permission_mode"] == "auto"


@everywhere
@pytest.mark.parametrize("tool", ["Read", "Grep", "Skill", "mcp__x__y", "Unheard", "", "Nö\ud800", None, 5, ["Bash"], {}],
                         ids=repr)
def test_07_a_dialog_of_any_tool_counts(known, tool):
    tale = begun(known).hear("PermissionRequest", 5, tool_name=tool, tool_input={"file_path": "/x"})
    assert tale.shows("waiting", 5.05, waiting_for="permission prompt").lives_on(8).queue == [("permission", 5)]


def test_07_the_installed_hooks_match_every_tool():
    assert "PermissionRequest" in tb.HOOKED
    assert tb.hook_entry("/c", "/h").get("matcher", "") in ("", "*")


ANSWERS = {"hook": lambda tale: tale.hear("PostToolUse", 4, **ASK), "batch": lambda tale: tale.hear("PostToolBatch", 4),
           "record": lambda tale: tale.shows("busy", 4), "line": lambda tale: tale.read(line("result", 4, "ok", ASK))}


@pytest.mark.parametrize("kind", ["permission_prompt", "worker_permission_prompt", "elicitation_dialog", "idle_prompt"])
@pytest.mark.parametrize("known, answer", [(known, answer) for known in KNOWN.values() for answer in ANSWERS
                                           if answer != "record" or known[1]], ids=str)
def test_09_the_notification_of_an_answered_dialog_comes_six_seconds_late(known, answer, kind):
    tale = begun(known).hear("PermissionRequest", 2, **ASK).shows("waiting", 2.05, waiting_for="permission prompt")
    ANSWERS[answer](tale.look(3))
    if known[1]:
        tale.shows("busy", 4.05)
    assert tale.queue == []
    assert tale.hear("Notification", 8.5, notification_type=kind, message="Claude needs your permission").queue == []
    assert tale.lives_on(12).queue == []


@everywhere
def test_09_the_notification_of_an_open_dialog_changes_nothing(known):
    tale = dialog(known).hear("Notification", 11.5, notification_type="permission_prompt").lives_on(15)
    assert tale.queue == [("permission", 5)] and tale.row()["tool_name"] == "Bash"


NOT_A_BLOCK = ["idle_prompt", "auth_success", "agent_completed", "elicitation_complete", "elicitation_response",
               "quota_auto_resume_fired", "quota_auto_resume_stale", "unheard-of", "", None, 5, ["permission_prompt"], {}]


@everywhere
@pytest.mark.parametrize("kind", NOT_A_BLOCK, ids=repr)
def test_10_a_notification_that_is_no_block_moves_nothing(known, kind):
    tale = stopped(known).hear("Stop", 8, session_id="s2", pid=11, pane="%1").skip(skipped_at=9)
    assert tale.look(10).order == [("s2", "stopped"), ("s1", "stopped")]
    tale.hear("Notification", 65, notification_type=kind, message="Claude is waiting for your input")
    assert tale.lives_on(67).order == [("s2", "stopped"), ("s1", "stopped")]
    assert (tale.session().wait.since, tale.session().wait.skipped_at) == (5, 9)
    tale.skip(snoozed_until=tb.FOREVER).hear("Notification", 130, notification_type=kind)
    assert tale.lives_on(131).session().wait.snoozed_until == tb.FOREVER


@everywhere
@pytest.mark.parametrize("kind", NOT_A_BLOCK, ids=repr)
def test_10_a_notification_that_is_no_block_stops_no_work(known, kind):
    assert begun(known).hear("Notification", 65, notification_type=kind).lives_on(67).state == "working"
    tale = begun(known).hear("Stop", 5, background_tasks=AGENTS).hear("Notification", 65, notification_type=kind)
    assert tale.lives_on(67).state == "working", "it fires with subagents alive, too"


ERRORS = ["rate_limit", "overloaded", "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "billing_error",
          "verification_required", "invalid_request", "model_not_found", "server_error", "max_output_tokens",
          "cloud_credential_error", "unknown", "unheard-of", "", None, 5, {}, ["x"]]


@everywhere
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_11_a_turn_that_ends_in_an_error_waits_until_a_retry(known, error):
    tale = begun(known).hear("StopFailure", 5, error=error).shows("idle", 5.05).lives_on(7)
    assert tale.queue == [("error", 5)]
    assert tale.row()["ask"] == (error if isinstance(error, str) else "")
    tale.hear("UserPromptSubmit", 10, prompt="again").shows("busy", 10.05).lives_on(12)
    assert tale.queue == []
    tale.hear("Stop", 15).shows("idle", 15.05).lives_on(17)
    assert tale.queue == [("stopped", 15)]


@everywhere
def test_11_a_retry_that_no_prompt_begins_resets_the_reason(known):
    tale = begun(known).hear("StopFailure", 5, error="rate_limit", last_assistant_message="API Error: 429").lives_on(5.5)
    assert tale.queue == [("error", 5)] and tale.row()["ask"] == "API Error: 429"
    assert tale.hear("Stop", 15).shows("idle", 15.05).lives_on(17).queue == [("stopped", 15)]
    assert tale.hear("StopFailure", 14, late=4, error="rate_limit").queue == [("stopped", 15)], "a late one does not"


@unrecorded
def test_11_an_error_that_no_hook_tells_of(known):
    tale = begun(known).read(line("failed", 5, "API Error: 500")).lives_on(9)
    assert tale.queue == [("error", 5)] and tale.row()["ask"] == "API Error: 500"


def test_13_a_turn_that_ends_in_silence_is_ended_by_the_transcript(house):
    """A tool's result, no further word, and none of Stop, StopFailure or idle_prompt."""
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 50, prompt="go")
    claude.write(claude.prompt(t - 50), claude.call(t - 40), claude.result(t - 30)).becomes("working").stays("working")
    claude.write(claude.ended(t - 29.5), *claude.meta(t - 29.4)).becomes(("stopped", t - 29.5)).stays(("stopped", t - 29.5))
    assert next(row for row in house.queue() if row["session_id"] == claude.id)["evidence"]["witness"] == "transcript"


def test_13_a_turn_of_which_nothing_is_known_any_more_is_said_to_be_quiet(house):
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 900, prompt="go")
    claude.write(claude.prompt(t - 900), claude.call(t - 800), claude.result(t - 700))
    until(lambda: "[quiet 11m]" in next(row for row in house.run("list", "--all")[1].splitlines() if claude.id in row))
    assert claude.row == "working"


def test_13_with_a_record_a_turn_that_ends_in_silence_waits_at_once(house):
    claude = house.claude()
    t = claude.t0
    claude.record("busy", t - 50).hear("UserPromptSubmit", t - 50, prompt="go")
    claude.write(claude.prompt(t - 50), claude.call(t - 40), claude.result(t - 30),
                 claude.ended(t - 29.5)).becomes("working")
    claude.record("idle", t - 29.4).becomes(("stopped", t - 29.5)).stays(("stopped", t - 29.5))


@pytest.mark.parametrize("kept", [True, False], ids=["record", "no-record"])
@pytest.mark.parametrize("end", [True, False], ids=["turn_duration", ""])
def test_14_a_stop_that_never_comes(house, kept, end):
    rows = {}
    for stop in ("end_turn", "stop_sequence", "max_tokens", "refusal"):
        claude = house.claude()
        t = claude.t0
        claude.hear("UserPromptSubmit", t - 50, prompt="go")
        claude.write(claude.prompt(t - 50), claude.says(t - 30, "All done.", stop))
        claude.write(*[claude.ended(t - 29.5)] * end, *claude.meta(t - 29))
        if kept:
            claude.record("idle", t - 29.4)
        rows[claude] = ("stopped", t - 29.5 if end else t - 30)
    house.settles(rows)
    assert {row["ask"] for row in house.queue() if row["session_id"] in [claude.id for claude in rows]} == {"All done."}


def test_14_last_words_that_have_just_been_said_may_be_followed_by_a_stop():
    tale = begun((10, False)).read(line("final", 9, "All done."))
    assert tale.look(9 + tb.QUIET - 0.1).queue == []
    assert tale.look(9 + tb.QUIET + 0.1).queue == [("stopped", 9)]
    assert tale.hear("Stop", 9.1, late=6).queue == [("stopped", 9)], "the same wait"


@everywhere
@pytest.mark.parametrize("flag", [True, False, None])
def test_15_five_stops_of_one_turn_are_one_row(known, flag):
    tale = begun(known)
    for at in range(10, 20, 2):
        tale.hear("Stop", at, stop_hook_active=flag).lives_on(at + 0.5)
        assert tale.queue == [("stopped", 10)]
    assert tale.shows("idle", 18.5).lives_on(25).queue == [("stopped", 10)]


@everywhere
def test_15_five_stops_with_words_in_between_are_one_row(known):
    """Another tool's hook makes it go on: that is progress, so that the last one counts."""
    tale = begun(known)
    for at in range(10, 30, 4):
        tale.hear("Stop", at).look(at + 0.1)
        assert [reason for reason, _ in tale.queue] == ["stopped"]
        if at < 26:
            tale.read(line("said", at + 1, "on it", fresh=True))
            assert tale.queue == []
    assert tale.shows("idle", 26.1).lives_on(40).queue == [("stopped", 26)]


@everywhere
@pytest.mark.parametrize("sign", ["PreToolUse", "line", "record"])
def test_15_a_stop_that_another_hook_blocked_is_out_as_soon_as_it_goes_on(known, sign):
    tale = begun(known).hear("Stop", 5)
    assert tale.queue == [("stopped", 5)]
    if sign == "PreToolUse":
        assert tale.hear("PreToolUse", 5.4, **ASK).queue == []
    elif sign == "line":
        assert tale.read(line("call", 5.4, tool=ASK, open=("Bash",), fresh=True)).queue == []
    elif known[1]:
        assert tale.lives_on(6).queue == [], "its record is busy as before"


@everywhere
def test_17_a_subagents_dialog_is_its_sessions_and_labelled(known):
    tale = dialog(known, agent_id="a1", agent_type="Explore")
    assert tale.order == [("s1", "permission")] and tale.row()["agent"] == "Explore"
    assert tale.row()["notes"].startswith("[Explore asks]")
    for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "SubagentStart", "SubagentStop"):
        tale.hear(name, 6, agent_id="a2", agent_type="Plan", **ASK)
    tale.hear("PreToolUse", 6.5, agent_id="a1", agent_type="Explore", **ASK)
    tale.hear("UserPromptSubmit", 7, prompt=NOTE)
    for kind in ("call", "result", "said", "final", "ended"):
        tale.read(line(kind, 7.5, "x", ASK if kind in ("call", "result") else None, agent_id="a2", fresh=True))
    assert tale.lives_on(9).order == [("s1", "permission")] and set(tale.board.sessions) == {"s1"}
    tale.hear("PostToolUse", 12, agent_id="a1", **ASK).shows("busy", 12.05)
    assert tale.lives_on(14).queue == []


@pytest.mark.parametrize("agent_id", [None, "", 5, [], {"a": 1}])
def test_17_an_agent_id_that_is_none_means_the_main_thread(agent_id):
    body = json.dumps({"hook_event_name": "PermissionRequest", "session_id": "s1", "agent_id": agent_id, **ASK})
    e = tb.parse_event(body.encode(), {}, 5.0)
    assert e.agent_id == "" and tb.take_event(tb.Board(), e).sessions["s1"].asks[0].agent_id == ""


@everywhere
@pytest.mark.parametrize("names",
                         [("UserPromptSubmit",), ("PreToolUse",), ("UserPromptSubmit", "PreToolUse", "PostToolUse")])
def test_18_a_subagent_that_an_old_build_gave_a_session_of_its_own(known, names):
    """Its hooks come from the same process and pane, and none tells that it ends."""
    tale = begun(known)
    for n, name in enumerate(names):
        tale.hear(name, 3 + n / 10, session_id="s2", prompt="look for it", **OTHER)
    assert tale.lives_on(6).state == "working" and tale.queue == []
    assert tale.session().pane.pane_id == "%0"
    tale.hear("Stop", 10).shows("idle", 10.05)
    assert tale.lives_on(12).order == [("s1", "stopped")] and tale.session().wait.since == 10


@everywhere
def test_18_the_subagents_session_does_not_live_for_ever(known):
    tale = begun(known).hear("UserPromptSubmit", 3, session_id="s2", prompt="look for it")
    tale.hear("Stop", 10).shows("idle", 10.05).lives_on(12)
    tale.hear("UserPromptSubmit", 20, prompt="on").shows("busy", 20.05).lives_on(22).hear("Stop", 30).shows("idle", 30.05)
    assert tale.lives_on(32).order == [("s1", "stopped")]
    assert "s2" not in tale.board.sessions or tale.session("s2").state == "gone"


@unrecorded
def test_18_a_dialog_of_the_subagents_session_is_a_row_of_its_own(known):
    tale = begun(known).hear("PermissionRequest", 3, session_id="s2", **ASK).lives_on(5)
    assert (tale.order, tale.state) == ([("s2", "permission")], "working")
    assert tale.hear("Stop", 10).lives_on(12).order == [("s1", "stopped")]


@everywhere
@pytest.mark.parametrize("kind, reason", [("permission_prompt", "permission"), ("worker_permission_prompt", "permission"),
                                          ("elicitation_dialog", "question")])
@pytest.mark.parametrize("parked", [False, True], ids=["working", "parked"])
def test_19_a_dialog_that_only_a_notification_tells_of(known, kind, reason, parked):
    """A subagent's or a teammate's, of builds that fire no PermissionRequest for those. install registers no Notification;
    it is understood if it comes."""
    tale = begun(known)
    if parked:
        tale.hear("Stop", 5, background_tasks=AGENTS[:1])
    tale.hear("Notification", 30, notification_type=kind, message="Claude needs your permission to use Bash")
    tale.shows("waiting", 30.05, waiting_for="permission prompt")
    assert tale.lives_on(33).queue == [(reason, 30)] and "permission to use Bash" in tale.row()["ask"]
    tale.hear("PostToolBatch", 40).shows("busy", 40.05)
    assert tale.lives_on(43).queue == []


@unrecorded
def test_19_a_subagents_dialog_that_only_a_notification_tells_of_outlives_the_main_turn(known):
    tale = begun(known).hear("Stop", 5, background_tasks=AGENTS[:2])
    tale.hear("Notification", 15, notification_type="permission_prompt")
    assert tale.queue == [("permission", 15)]
    tale.hear("UserPromptSubmit", 20, prompt=NOTE).hear("Stop", 25, background_tasks=AGENTS[:1])
    assert tale.lives_on(30).queue == [("permission", 15)]


def test_19_a_dialog_that_no_hook_tells_of_is_seen_in_the_record():
    tale = begun((10, True)).shows("waiting", 30, waiting_for="worker request")
    assert tale.queue == [("permission", 30)] and tale.shows("busy", 40).queue == []


@everywhere
@pytest.mark.parametrize("before", ["Stop", "StopFailure", "PermissionRequest", "Elicitation", "SessionStart", ""])
def test_21_a_prompt_alone_means_working_at_once_and_for_as_long_as_it_thinks(known, before):
    tale = Tale(*known).shows("idle", 0.5)
    if before:
        tale.hear(before, 5, **ASK).shows("waiting" if before in ("PermissionRequest", "Elicitation") else "idle", 5.05)
    tale.hear("UserPromptSubmit", 20, prompt="think")
    assert (tale.queue, tale.state) == ([], "working")
    assert tale.lives_on(60).state == "working"


# ---- B: when does an entry leave the queue? --------------------------------------------------------------------------


@pytest.mark.parametrize("known", [KNOWN["pid-record"], KNOWN["record"]], ids=["pid-record", "record"])
@pytest.mark.parametrize("tool", ["Bash", "AskUserQuestion", "ExitPlanMode"])
def test_22_with_a_record_an_approval_is_seen_within_a_look(known, tool):
    tale = dialog(known, tool_name=tool).look(9)
    assert len(tale.queue) == 1
    assert (tale.shows("busy", 10).queue, tale.lives_on(610).queue) == ([], [])
    assert tale.hear("PostToolUse", 611, **ASK).lives_on(613).state == "working"


CLEARED_BY = {name: (lambda tale, name=name: tale.hear(name, 700, **ASK)) for name in
              ("PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "StopFailure", "UserPromptSubmit")}
CLEARED_BY["line"] = lambda tale: tale.read(line("result", 700, "ok", ASK))
CLEARED_BY["next message"] = lambda tale: tale.read(line("said", 700, "and now", fresh=True))


@unrecorded
@pytest.mark.parametrize("sign", sorted(CLEARED_BY))
def test_22_without_a_record_an_approved_command_stays_and_says_that_it_may_be_answered(known, sign):
    tale = dialog(known).look(5 + tb.DOUBTFUL - 1)
    assert (tale.queue, tale.row()["notes"]) == ([("permission", 5)], "")
    tale.lives_on(5 + tb.DOUBTFUL + 1)
    assert (tale.queue, tale.row()["notes"]) == ([("permission", 5)], "[may be answered] ")
    assert tale.look(604).queue == [("permission", 5)]
    CLEARED_BY[sign](tale)
    assert [reason for reason, _ in tale.look(701).queue] == {"Stop": ["stopped"], "StopFailure": ["error"]}.get(sign, [])


def test_22_an_approved_command_in_files(house):
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 800, prompt="go").write(claude.prompt(t - 800), claude.call(t - 701))
    claude.hear("PermissionRequest", t - 700, **ASK).stays(("permission", t - 700))
    assert "[may be answered] Bash: touch x" in house.run("list")[1]
    claude.write(claude.result(t - 100)).becomes("working").stays("working")
    other = house.claude()
    other.hear("UserPromptSubmit", t - 800, prompt="go").hear("PermissionRequest", t - 700, **ASK).record("waiting", t - 699)
    other.stays(("permission", t - 700), 0.4)
    assert "may be answered" not in house.run("list")[1], "its record would tell"
    other.record("busy", t - 1).becomes("working", 0.6).stays("working")


@everywhere
@pytest.mark.parametrize("lines", [
    [line("refused", 9, "no", ASK), line("interrupted", 9.002, MARK)], [line("interrupted", 9.002, MARK)],
    [line("refused", 9.002, "no", ASK)], [line("interrupted", 9.002, MARK), line("refused", 9, "no", ASK)],
    [line("refused", 9, "no", ASK), line("interrupted", 9.002, MARK), line("ended", 9.01)]], ids=range(5))
@pytest.mark.parametrize("late", [0.1, 1.5])
def test_23_a_denied_dialog_is_an_interrupted_turn(known, lines, late):
    tale = dialog(known).shows("idle", 9.05).lives_on(9 + late).read(*lines, now=9 + late)
    assert [reason for reason, _ in tale.lives_on(20).queue] == ["interrupted"]
    assert 9 <= tale.session().wait.since <= 9.1 and tale.row()["ask"] == "go"


def test_23_a_denied_dialog_of_which_only_the_record_tells():
    assert dialog((10, True)).shows("idle", 9).lives_on(12).queue == [("interrupted", 9)]


@pytest.mark.parametrize("shape", ["new", "old", "esc", "mark only"])
@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_23_a_denied_dialog_in_files(house, shape, pid):
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 1, pid, prompt="go").write(claude.prompt(t - 1), claude.call(t - 0.8))
    claude.hear("PermissionRequest", t - 0.7, pid, **ASK).stays(("permission", t - 0.7), 0.3)
    old = claude.result(t - 0.3, tb.REFUSAL + ". STOP.", error=True, toolUseResult="User rejected tool use")
    esc = claude.result(t - 0.3, tb.REFUSAL, error=True, toolDenialKind="interrupted")
    claude.write(*{"new": [claude.refused(t - 0.3)], "old": [old], "esc": [esc], "mark only": []}[shape],
                 claude.mark(t - 0.298))
    claude.becomes(("interrupted", round(t - 0.298, 3))).stays(("interrupted", round(t - 0.298, 3)))


TRIO = {"pre": ("PreToolUse", 5.0, {**ASK, "tool_use_id": "id1"}), "ask": ("PermissionRequest", 5.1, ASK),
        "post": ("PostToolUse", 8.0, {**ASK, "tool_use_id": "id1"}), "batch": ("PostToolBatch", 8.1, {"tool_calls": []})}


@unrecorded
@pytest.mark.parametrize("order", list(itertools.permutations(("pre", "ask", "post"))), ids="-".join)
def test_25_a_tool_calls_three_events_in_every_order(known, order):
    tale = begun(known)
    for n, key in enumerate(order):
        name, at, more = TRIO[key]
        tale.hear(name, at, late=max(0.0, 9 + n / 10 - at), **more)
    assert tale.lives_on(12).queue == []


@pytest.mark.parametrize("known", [KNOWN["pid-record"], KNOWN["record"]], ids=["pid-record", "record"])
@pytest.mark.parametrize("order", list(itertools.permutations(("pre", "ask", "post"))), ids="-".join)
def test_25_a_record_puts_every_order_right(known, order):
    tale = begun(known).shows("waiting", 5.15, waiting_for="permission prompt").shows("busy", 7.9)
    for n, key in enumerate(order):
        name, at, more = TRIO[key]
        tale.hear(name, at, late=max(0.0, 9 + n / 10 - at), **more)
    assert tale.lives_on(12).queue == []


@unrecorded
@pytest.mark.parametrize("order", list(itertools.permutations(("pre", "ask"))), ids="-".join)
@pytest.mark.parametrize("late", [0.0, 0.5, 3.0])
def test_25_an_open_dialog_stays_whenever_the_call_is_told_of(known, order, late):
    tale = begun(known)
    for key in order:
        name, at, more = TRIO[key]
        tale.hear(name, at, late=late, **more)
    assert tale.lives_on(20).queue == [("permission", 5.1)]
    tale.hear("PostToolUse", 21, tool_use_id="id2", **OTHER)
    assert tale.queue == [("permission", 5.1)], "another call of the same tool"
    assert tale.hear("PostToolUse", 22, tool_use_id="id1", **ASK).queue == []


INJECTED = [NOTE, "<system-reminder>\nx", "[SYSTEM NOTIFICATION] x", "<cross-session-message from=x>",
            "\n  <task-notification>",
            'Background agent "x" completed']


@everywhere
@pytest.mark.parametrize("prompt", INJECTED)
def test_26_an_injected_prompt_is_a_turn_but_no_answer(known, prompt):
    tale = stopped(known).hear("UserPromptSubmit", 20, prompt=prompt).shows("busy", 20.05).lives_on(22)
    assert (tale.queue, tale.state) == ([], "working")
    assert tale.session().prompt == "go", "it is not what the person asked for"
    tale.hear("Stop", 30).shows("idle", 30.05)
    assert tale.lives_on(33).queue == [("stopped", 30)]


@everywhere
@pytest.mark.parametrize("prompt", INJECTED)
@pytest.mark.parametrize("agent_id", ["a1", ""], ids=["subagent", "main"])
def test_26_an_injected_prompt_answers_no_dialog(known, prompt, agent_id):
    tale = dialog(known, agent_id=agent_id, agent_type="Explore").lives_on(7)
    tale.hear("UserPromptSubmit", 8, prompt=prompt)
    assert tale.lives_on(12).queue == [("permission", 5)]


@unrecorded
def test_26_an_injected_prompt_in_the_transcript_is_a_turn_but_no_answer(known):
    tale = stopped(known).read(line("woken", 20, NOTE))
    assert (tale.queue, tale.state, tale.session().prompt) == ([], "working", "go")
    tale = dialog(known, agent_id="a1").read(line("woken", 8, NOTE))
    assert tale.queue == [("permission", 5)]


@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_27_lines_of_the_prompt_queue_are_no_turn(house, pid):
    rows = {}
    for operation in ("enqueue", "dequeue", "remove", "popAll", "unheard-of", None, 5):
        for more in ({"content": "and then"}, {}, {"content": ["x"]}):
            claude = house.claude()
            t = claude.t0
            claude.hear("UserPromptSubmit", t - 1, pid, prompt="go").hear("Stop", t - 0.5, pid)
            claude.write(claude.prompt(t - 1), claude.says(t - 0.6))
            entry = {"type": "queue-operation", "operation": operation, "timestamp": stamp(t), "sessionId": claude.id,
                     **more}
            claude.write(json.dumps(entry).encode())
            rows[claude] = ("stopped", t - 0.5)
    house.settles(rows)


@pytest.mark.parametrize("after", [-0.05, 0.7, 1.2], ids="{}".format)
def test_27_a_queued_prompt_that_is_taken_up_is_a_turn(house, after):
    """Also if its line is dated a moment before the Stop."""
    claude = house.claude()
    t = claude.t0 - 5
    claude.hear("UserPromptSubmit", t - 9, prompt="go").write(claude.prompt(t - 9), claude.says(t - 0.1))
    claude.hear("Stop", t).becomes(("stopped", t))
    for operation in ("enqueue", "dequeue"):
        entry = {"type": "queue-operation", "operation": operation, "timestamp": stamp(t), "sessionId": claude.id}
        claude.write(json.dumps(entry).encode())
    claude.write(claude.prompt(t + after, "and then", promptSource="queued")).becomes("working").stays("working")
    claude.write(claude.says(t + 4), claude.ended(t + 4.1)).becomes(("stopped", t + 4.1))


@pytest.mark.parametrize("state", ["up", "frozen", "down"])
def test_29_the_end_of_a_session_is_told_in_time(lone, state):
    """SessionEnd's hooks share 1.5 s."""
    lone.start()
    claude = lone.claude().hear("Stop", pid=True)
    assert claude.row[0] == "stopped"
    if state == "frozen":
        lone.process.send_signal(signal.SIGSTOP)
    elif state == "down":
        lone.end(signal.SIGKILL)
    tries = [emitted(lone, claude, "SessionEnd", reason="other") for _ in range(3 if state == "up" else 1)]
    assert {(code, output) for _, code, output in tries} == {(0, b"")}
    assert min(seconds for seconds, _, _ in tries) < (0.3 if state == "up" else 1.0)
    if state == "frozen":
        lone.process.send_signal(signal.SIGCONT)
    elif state == "down":
        lone.start()
    claude.becomes("gone").stays("gone", 0.4)


def test_29_an_emitter_that_is_killed_leaves_nothing_half_written(lone):
    payload = json.dumps({"session_id": "s1", "hook_event_name": "SessionEnd", "x": "y" * 300_000}).encode()
    for n in range(12):
        hook = subprocess.Popen(["sh", str(SCRIPT)], stdin=subprocess.PIPE, env=lone.env, start_new_session=True)
        with contextlib.suppress(BrokenPipeError):
            hook.stdin.write(payload)
            hook.stdin.close()
        time.sleep(0.004 * n)
        os.killpg(hook.pid, signal.SIGKILL)
        hook.wait()
    lone.start()
    until(lambda: not list((lone.home / "spool").glob("*.event")))
    assert "dropped" not in lone.said()


LATE = [("Stop", {}), ("PermissionRequest", ASK), ("UserPromptSubmit", {"prompt": "x"}), ("SessionEnd", {"reason": "other"}),
        ("PostToolUse", ASK), ("Notification", {"notification_type": "permission_prompt"}), ("Elicitation", {})]


@pytest.mark.parametrize("pids", [(10, 11), (10, 10), (0, 0)], ids=["another process", "the same process", "no pid"])
@pytest.mark.parametrize("late, more", LATE, ids=[name for name, _ in LATE])
@pytest.mark.parametrize("source", ["startup", "resume", "clear"])
def test_30_the_next_agent_in_the_pane_replaces_the_one_that_went_silently(pids, late, more, source):
    old, new = pids
    tale = Tale(old).hear("Stop", 5, pid=old)
    assert tale.order == [("s1", "stopped")]
    if old != new:
        tale.see(pids=(11,), dead=(10,)).look(7)
    tale.hear("SessionStart", 8, session_id="s2", pid=new, source=source).lives_on(8.4)
    assert tale.queue == [] and tale.state == "gone" and tale.session("s2").pane.pane_id == "%0"
    tale.hear(late, 7.5, late=1, pid=old, **more).lives_on(10)
    assert tale.queue == [] and tale.state == "gone" and tale.session("s2").state == "idle"
    assert tale.hear("Stop", 20, session_id="s2", pid=new).order == [("s2", "stopped")]


def panes(**ttys):
    """A tmux server in which each of these panes has a process's terminal."""
    views = {"%" + key[1:]: tb.PaneView("%" + key[1:], tty, 0, False, "@0", "0", (("$0", "main", "0"),))
             for key, tty in ttys.items()}
    return tb.Server("/tmp/sock", 1, 1.0, views, "3.3a")


def test_30_the_next_agent_is_of_a_newer_build_that_tells_its_pid():
    tale = Tale(10).see(pids=(11,), servers=[panes(p0="/dev/pts/11")]).hear("Stop", 5, pid=0)
    assert tale.order == [("s1", "stopped")]
    tale.hear("SessionStart", 8, session_id="s2", pid=11, source="startup").lives_on(12)
    assert tale.queue == []


@everywhere
@pytest.mark.parametrize("end", ["before", "after", "never"])
@pytest.mark.parametrize("source", ["clear", "startup", "resume"])
def test_31_a_plan_accepted_with_a_cleared_context_has_a_new_id(known, end, source):
    tale = dialog(known, tool_name="ExitPlanMode", tool_input={"plan": "# Plan"}).look(7)
    assert tale.queue == [("plan", 5)]
    told = [("SessionStart", 9.1, {"session_id": "s2", "source": source}), ("SessionEnd", 9.0, {"reason": "clear"})]
    for name, at, more in {"before": told[::-1], "after": told, "never": told[:1]}[end]:
        tale.hear(name, at, late=0.2, **more)
    assert known == KNOWN["record"] or tale.queue == [] and tale.state == "gone"
    tale.shows("busy", 9.3, session_id="s2").lives_on(10.2)
    assert tale.queue == [] and tale.state == "gone" and tale.session("s2").state == ("working" if known[1] else "idle")
    tale.hear("Stop", 20, session_id="s2").shows("idle", 20.05, session_id="s2")
    assert tale.lives_on(23).order == [("s2", "stopped")]


@pytest.mark.parametrize("known", [KNOWN["pid-record"], KNOWN["record"]], ids=["pid-record", "record"])
def test_33_an_overlay_that_is_closed_with_esc_is_no_interruption(known):
    tale = begun(known).shows("waiting", 5, waiting_for="dialog open").lives_on(8)
    assert tale.state == "working"
    assert tale.shows("busy", 9).lives_on(12).state == "working"
    tale = stopped(known).shows("waiting", 20, waiting_for="dialog open").lives_on(23)
    assert tale.shows("idle", 24).lives_on(27).queue == [("stopped", 5)]


def test_33_no_key_is_read_and_a_screen_only_where_it_is_asked_for():
    source = (ROOT / "trailboss.py").read_text()
    assert "pipe-pane" not in source and "send-keys" not in source and source.count('"capture-pane"') == 1


def test_34_permissions_of_yesterday_are_gone_when_the_daemon_starts(lone):
    """It was down while they were answered: what their transcripts show is right within two seconds."""
    lone.start()
    fates = ["stopped", "working", "interrupted", "error", "open", "stopped behind a megabyte", "dead", "no transcript"]
    claudes = [lone.claude(project="-p%d" % (n % 3)) for n in range(26)]
    for n, claude in enumerate(claudes):
        at = claude.t0 - (1 if fates[n % 8] == "dead" else 40_000)
        claude.hear("UserPromptSubmit", at, fates[n % 8] == "dead", prompt="go")
        claude.hear("PermissionRequest", at + 0.5, fates[n % 8] == "dead", **ASK)
        assert claude.row == ("permission", round(at + 0.5, 3))
    lone.end(signal.SIGKILL)
    expected = {}
    for n, claude in enumerate(claudes):
        fate, t = fates[n % 8], claude.t0 - 40_000
        end = round(claude.t0 - 3000 + n, 3)
        tail = {"working": [claude.prompt(end, "more")], "interrupted": [claude.prompt(end - 9, "more"), claude.mark(end)],
                "error": [claude.prompt(end - 9, "more"), claude.says(end, "API Error: 500", isApiErrorMessage=True)],
                "stopped": [claude.prompt(end - 9, "more"), claude.says(end - 1), claude.ended(end)],
                "stopped behind a megabyte": [claude.prompt(end - 9, "more"), claude.says(end - 1), claude.ended(end),
                                              json.dumps({"type": "api-request-blob", "x": "y" * 1_500_000}).encode()]}
        if fate != "no transcript":
            claude.write(claude.prompt(t), claude.call(t + 0.4))
        if fate in tail:
            claude.write(claude.result(t + 100), claude.says(t + 101), claude.ended(t + 102), *tail[fate])
            expected[claude.id] = (fate.split()[0], end)
        if fate == "dead":
            claude.die()
        elif fate in ("open", "no transcript"):
            expected[claude.id] = ("permission", round(t + 0.5, 3))
    expected = {key: row for key, row in expected.items() if row[0] != "working"}
    began = time.monotonic()
    lone.start()
    until(lambda: lone.rows() == expected, 2)
    assert time.monotonic() - began < 2 + 1  # the start of Python itself, on a machine with much to do
    assert lone.rows() == expected


@everywhere
@pytest.mark.parametrize("name, at, more", [
    ("PostToolUse", 4.9, ASK), ("PreToolUse", 4.9, ASK), ("PostToolBatch", 4.9, {}), ("PermissionRequest", 4.5, ASK),
    ("UserPromptSubmit", 3, {"prompt": "x"}), ("Notification", 4.9, {"notification_type": "permission_prompt"}),
    ("Stop", 3, {}), ("StopFailure", 4.9, {"error": "x"}), ("Elicitation", 4.9, {}),
    ("SubagentStop", 4.9, {"agent_id": "a1"}),
    ("PostToolUse", 4.9, {**ASK, "agent_id": "a1"})])
@pytest.mark.parametrize("late", [0.01, 0.6, 5])
def test_35_an_event_that_was_made_before_the_end_and_comes_after_it(known, name, at, more, late):
    tale = begun(known).hear("Stop", 5).shows("idle", 5.05)
    tale.hear(name, at, late=5.05 + late - at, **more)
    assert tale.lives_on(13).queue == [("stopped", 5)]


def test_35_the_emitters_time_counts_not_the_arrival(house):
    claude = house.claude()
    claude.hear("Stop", claude.t0 + 0, True).hear("PostToolUse", claude.t0 - 0.1, True, **ASK)
    claude.hear("PermissionRequest", claude.t0 - 0.2, True, **ASK).stays(("stopped", claude.t0), 0.4)


# ---- C: which pane? --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["no variables", "empty", "unset pane", "job", "record"])
@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
@NEEDS_TMUX
def test_37_a_background_session_is_listed_and_takes_no_pane(town, how, pid):
    """The launcher waits in the pane that a stale TMUX_PANE names."""
    a = town.server()
    launcher, other = a.session("one"), a.session("two")
    town.stuck(a, launcher)
    background = Spot(launcher.pane_id, outsider(town))
    headers = {"no variables": {"x-tmux": "", "x-tmux-pane": ""}, "empty": {"x-tmux-pane": ""}, "record": {},
               "unset pane": {"x-tmux-pane": ""}, "job": {"x-claude-job-dir": str(town.config / "jobs" / "1")}}[how]
    entry = {"pid": background.pid, "sessionId": "bg-session", "procStart": tb.process_of(background.pid).start,
             "kind": "bg",
             "status": "waiting", "waitingFor": "permission prompt", "statusUpdatedAt": time.time() * 1000,
             "startedAt": (time.time() - 60) * 1000, "entrypoint": "cli"}
    if how == "record":
        (town.config / "sessions" / ("%d.json" % background.pid)).write_text(json.dumps(entry))
        town.daemon.tick()
    headers = {**headers, **({} if pid else {"x-claude-pid": ""})}
    for name in ("SessionStart", "UserPromptSubmit", "PermissionRequest"):
        town.event(a, background, name, "bg-session", headers, source="startup", prompt="x", **ASK)
    town.daemon.tick()
    town.daemon.look_at_tmux()
    assert town.queue() == [("a", launcher.pane_id), ("b", None)]
    client = a.attach("main")
    assert town.jump() == [] and client.pane == launcher.pane_id
    notes = town.jump()
    assert client.pane == launcher.pane_id and len(notes) == 1 and "bg-sessi has no pane" in notes[0], "the round says so"
    said = town.refusal("bg-session")
    assert "has no pane" in said and ("claude attach bg-sessi" in said) == (how in ("job", "record"))
    assert client.pane == launcher.pane_id and other.pane_id != client.pane


SDK = {"entrypoint": "sdk-cli"}


@everywhere
@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear"])
@pytest.mark.parametrize("state", ["working", "permission", "stopped"])
@pytest.mark.parametrize("ends", [True, False], ids=["SessionEnd", ""])
def test_38_a_claude_p_inside_a_session_takes_neither_its_pane_nor_its_state(known, source, state, ends):
    tale = {"working": begun, "permission": dialog, "stopped": stopped}[state](known).look(7)
    before = tale.queue
    if known[1]:
        tale.world.records[11] = record("s2", "busy", 8, 11, entrypoint="sdk-cli")
    told = [("SessionStart", 8), ("UserPromptSubmit", 8.1), ("PreToolUse", 8.5), ("Stop", 12), ("SessionEnd", 12.1)]
    for name, at in told if ends else told[:-1]:
        tale.hear(name, at, session_id="s2", pid=11, source=source, prompt="x", **SDK).lives_on(at + 0.05)
        assert (tale.queue, tale.session().pane.pane_id, tale.session().uncertain) == (before, "%0", False), name
    assert tale.lives_on(15).queue == before and tale.session("s2").pane is None
    assert tale.state == ("working" if state == "working" else "stuck")


RESUMED = [("SessionStart", 8, {"source": "resume"}), ("UserPromptSubmit", 8.1, {"prompt": "sum up"}), ("Stop", 12, {}),
           ("SessionEnd", 12.1, {"reason": "other"})]


@everywhere
@pytest.mark.parametrize("state", ["permission", "stopped"])
def test_38_a_claude_p_that_resumes_an_open_session_takes_its_row_not_away(known, state):
    tale = {"permission": dialog, "stopped": stopped}[state](known).look(7)
    if known[1]:
        tale.world.records[11] = record("s1", "busy", 8, 11, entrypoint="sdk-cli")
    for name, at, more in RESUMED:
        tale.hear(name, at, pid=11, **SDK, **more).lives_on(at + 0.05)
        assert tale.order == [("s1", state)], name
    tale.world.records.pop(11, None)
    tale.world.processes[11] = None
    assert tale.lives_on(15).order == [("s1", state)] and tale.session().pane.pane_id == "%0"


def test_38_a_session_that_claude_p_has_open_and_a_person_goes_on_with():
    tale = Tale(11).hear("UserPromptSubmit", 1, pid=11, prompt="x", **SDK).lives_on(3)
    for name, at in (("SessionStart", 5), ("UserPromptSubmit", 6), ("Stop", 9)):
        tale.hear(name, at, source="resume", pid=10, prompt="y")
    assert tale.lives_on(12).order == [("s1", "stopped")]


def two_records(order, hooked, **more):
    """A daemon that finds one session in two processes: in 10 it asks since 50, in 11 it is as told."""
    tale = Tale(0, True)
    cards = {10: record("s1", "waiting", 50, 10, waiting_for="permission prompt"), 11: record("s1", pid=11, **more)}
    tale.world = world(*[cards[pid] for pid in order], pids=(10, 11))
    tale.now = 100
    if hooked:
        tale.hear("PermissionRequest", 50, late=50, **ASK)
    return tale.look(100).lives_on(103)


@pytest.mark.parametrize("hooked", [True, False], ids=["a hook without a pid", "no-hooks"])
@pytest.mark.parametrize("order", [(10, 11), (11, 10)])
def test_38_a_daemon_that_starts_while_claude_p_has_an_open_session_too(order, hooked):
    tale = two_records(order, hooked, status="busy", at=60, entrypoint="sdk-cli")
    assert tale.order == [("s1", "permission")]


@NEEDS_TMUX
@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
@pytest.mark.parametrize("shell", ["bash -lc", "sh -c"])
def test_39_a_claude_below_the_panes_shell_is_the_panes(town, pid, shell):
    a = town.server()
    at = town.folder / "pid of claude"
    script = "%s & echo $! > '%s'; wait; true" % (town.claude, at)
    spot = a.session("one", "exec env HOME=%s %s \"%s\"" % (town.folder, shell, script.replace("$", "\\$")))
    number = int(within(5, lambda: at.exists() and at.read_text().strip()))
    assert number != spot.pid
    town.stuck(a, Spot(spot.pane_id, number if pid else 0))
    assert town.queue() == [("a", spot.pane_id)] and not town.row("aaaaaaaa")["uncertain"]
    inner = Spot(spot.pane_id, outsider(town))
    town.event(a, inner, "Stop", "bbbbbbbb", headers={"x-claude-entrypoint": "sdk-cli"})
    assert town.queue() == [("a", spot.pane_id)]
    client = a.attach("main")
    assert (town.jump(), client.pane) == ([], spot.pane_id)


@pytest.mark.parametrize("known, apart, order", itertools.product(
    KNOWN.values(), (0, 0.001, -0.001), ((0, 1), (1, 0))))
def test_41_one_resume_and_two_starts(known, apart, order):
    """{resume, S1} and {startup, S9} at once; S9 is never heard of again."""
    tale = Tale(*known)
    told = [("s1", 5, "resume"), ("s9", 5 + apart, "startup")]
    for n in order:
        session_id, at, source = told[n]
        tale.hear("SessionStart", at, late=0.05, session_id=session_id, source=source)
    tale.shows("idle", 5.2).lives_on(8)
    assert tale.queue == []
    tale.hear("UserPromptSubmit", 10, prompt="go").shows("busy", 10.05).lives_on(12)
    assert tale.state == "working" and tale.session().pane.pane_id == "%0" and not tale.session().uncertain
    assert tale.session("s9").state == "gone"
    assert tale.hear("Stop", 20).shows("idle", 20.05).lives_on(22).order == [("s1", "stopped")]


def test_42_hooks_rule_where_they_go_on_to_name_the_former_transcript(house):
    claude, other = house.claude(), house.claude()
    t = claude.t0
    claude.write(claude.prompt(t - 5000), claude.says(t - 4990), claude.ended(t - 4989))
    claude.hear("UserPromptSubmit", t - 1.5, True, prompt="go")
    for n in range(3):
        other.write(other.prompt(t - 1.4 + n / 10), other.call(t - 1.3 + n / 10, call="t%d" % n),
                    other.result(t - 1.2 + n / 10))
    claude.stays("working", 0.4)
    claude.hear("PermissionRequest", t - 1, True, **ASK).stays(("permission", round(t - 1, 3)), 0.4)
    claude.hear("UserPromptSubmit", t - 0.5, True, prompt="x").stays("working", 0.3)
    claude.hear("Stop", t, True).stays(("stopped", t), 0.4)


@pytest.mark.parametrize("pid", [10, 0])
def test_42_hooks_of_the_former_id_and_a_record_of_the_new_one_are_one_row(pid):
    """Where no pid ties the two, the terminal does."""
    tale = Tale(pid, True)
    tale.world = tale.world._replace(servers={"/tmp/sock": panes(p0="/dev/pts/10")})
    tale.hear("UserPromptSubmit", 1, prompt="go")
    tale.shows("busy", 1.05, session_id="s2", started_at=0.5).lives_on(4)
    tale.hear("Stop", 10).shows("idle", 10.05, session_id="s2", started_at=0.5)
    assert [reason for _, reason in tale.lives_on(14).order] == ["stopped"]


@everywhere
@pytest.mark.parametrize("state", ["stopped", "permission", "idle"])
def test_43_a_prompt_of_a_new_session_in_the_process_replaces_the_one_that_waits(known, state):
    """/clear without SessionEnd and SessionStart."""
    tale = Tale(*known).hear("SessionStart", 0.5, source="startup").shows("idle", 0.6)
    tale = {"stopped": stopped, "permission": dialog}[state](known) if state != "idle" else tale
    tale.look(7).hear("UserPromptSubmit", 9, session_id="s2", prompt="x").shows("busy", 9.05, session_id="s2").lives_on(11)
    assert tale.queue == [] and tale.state == "gone" and tale.session("s2").state == "working"
    tale.hear("Stop", 20, session_id="s2").shows("idle", 20.05, session_id="s2")
    assert tale.lives_on(22).order == [("s2", "stopped")] and tale.session("s2").pane.pane_id == "%0"


@everywhere
@pytest.mark.parametrize("name, more", [("Stop", {}), ("PermissionRequest", ASK), ("StopFailure", {"error": "x"})])
def test_43_the_first_that_is_heard_of_the_new_session_may_be_its_wait(known, name, more):
    tale = stopped(known).hear(name, 20, session_id="s2", **more).shows("idle", 20.05, session_id="s2").lives_on(20.5)
    assert [session_id for session_id, _ in tale.lives_on(22).order] == ["s2"]


@everywhere
@pytest.mark.parametrize("late", [0.05, 0.5, 3])
def test_43_the_end_of_the_former_session_may_come_after_the_start_of_the_new_one(known, late):
    tale = stopped(known).hear("SessionStart", 9, session_id="s2", source="clear").shows("idle", 9.05, session_id="s2")
    tale.hear("SessionEnd", 8.95, late=late, reason="clear").hear("UserPromptSubmit", 20, session_id="s2", prompt="x")
    tale.shows("busy", 20.05, session_id="s2").hear("Stop", 30, session_id="s2").shows("idle", 30.05, session_id="s2")
    assert tale.lives_on(33).order == [("s2", "stopped")]


@pytest.mark.parametrize("known", [KNOWN["pid-record"], KNOWN["record"]], ids=["pid-record", "record"])
def test_43_a_record_alone_tells_of_the_new_session(known):
    tale = stopped(known).shows("idle", 9, session_id="s2").lives_on(11)
    assert tale.queue == [] and tale.state == "gone"
    tale.shows("busy", 20, session_id="s2").lives_on(22).shows("idle", 30, session_id="s2")
    assert tale.lives_on(33).order == [("s2", "stopped")]


def test_43_and_18_while_the_first_one_works_only_a_record_can_tell():
    tale = begun((10, False)).hear("UserPromptSubmit", 9, session_id="s2", prompt="x")
    assert tale.lives_on(12).state == "working"
    tale = begun((10, True)).hear("UserPromptSubmit", 9, session_id="s2", prompt="x").shows("busy", 9.05, session_id="s2")
    assert tale.lives_on(12).state == "gone" and tale.session("s2").state == "working"


@pytest.mark.parametrize("kept", [True, False], ids=["record", "no-record"])
def test_45_a_session_that_is_open_in_two_panes_is_where_its_person_was_last(kept):
    tale = Tale(10, kept).see(pids=(10, 11), servers=[panes(p1="/dev/pts/10", p2="/dev/pts/11")])
    tale.shows("idle", 0.1).shows("idle", 0.2, pid=11)

    def where():
        return tale.session().pane.pane_id, len(tale.board.sessions)
    tale.hear("UserPromptSubmit", 1, prompt="x", pane="%1").shows("busy", 1.05).lives_on(2)
    assert where() == ("%1", 1)
    for n in range(6):
        for name in ("PreToolUse", "PostToolUse", "PostToolBatch", "SessionStart", "CwdChanged", "Notification"):
            tale.hear(name, 3 + n, pid=11, pane="%2", source="resume", notification_type="idle_prompt", **OTHER)
            assert where() == ("%1", 1), name
    tale.hear("UserPromptSubmit", 20, prompt="y", pid=11, pane="%2").shows("busy", 20.05, pid=11).lives_on(22)
    assert where() == ("%2", 1)
    tale.hear("Stop", 30, pid=10, pane="%1").lives_on(30.2)
    assert where() == ("%2", 1)
    tale.hear("Stop", 31, pid=11, pane="%2").shows("idle", 31.05, pid=11).lives_on(33)
    assert where() == ("%2", 1) and [reason for reason, _ in tale.queue] == ["stopped"]
    tale.hear("PermissionRequest", 40, pid=10, pane="%1", **ASK).shows("waiting", 40.05).lives_on(42)
    assert where() == ("%1", 1) and tale.queue == [("permission", 40)], "its dialog is there"


def test_45_so_it_is_of_builds_that_tell_no_pid():
    tale = Tale(0).hear("UserPromptSubmit", 1, prompt="x", pane="%1").hear("UserPromptSubmit", 5, prompt="y", pane="%2")
    for n, name in enumerate(("PreToolUse", "PostToolUse", "Stop")):
        tale.hear(name, 6 + n, pane="%1", **OTHER)
        assert tale.session().pane.pane_id == "%2", name


@pytest.mark.parametrize("order", [(10, 11), (11, 10)])
@pytest.mark.parametrize("status", ["idle", "busy"])
def test_45_where_no_hook_was_heard_the_newer_of_two_records_counts(order, status):
    assert two_records(order, False, status=status, at=20).order == [("s1", "permission")]


def test_45_where_no_hook_was_heard_a_dialog_is_seen_in_either_pane():
    tale = Tale(10, True).shows("idle", 50).shows("idle", 40, pid=11).lives_on(100)
    for n, pid in enumerate((10, 11)):
        tale.shows("busy", 120 + 20 * n, pid=pid).shows("waiting", 122 + 20 * n, pid=pid, waiting_for="permission prompt")
        assert [reason for _, reason in tale.lives_on(124 + 20 * n).order] == ["permission"], pid
        tale.shows("busy", 126 + 20 * n, pid=pid).shows("idle", 128 + 20 * n, pid=pid).lives_on(130 + 20 * n)


@NEEDS_TMUX
def test_45_in_two_real_panes_it_is_one_row_that_does_not_flap(town):
    a = town.server()
    one, two = a.session("one"), a.session("two")
    town.stuck(a, one)
    for spot in (two, one, two):
        town.event(a, spot, "UserPromptSubmit", "aaaaaaaa", prompt="x")
        for other in (one, two, one):
            town.event(a, other, "PostToolUse", "aaaaaaaa", **OTHER)
        town.event(a, one, "Stop", "aaaaaaaa")
        assert town.queue() == [("a", spot.pane_id)]
    client = a.attach("main")
    assert (town.jump(), client.pane) == ([], two.pane_id)


@NEEDS_TMUX
@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_46_the_pane_of_a_former_tmux_server_is_not_the_one_with_its_id(town, pid):
    """The state outlives the server; %1 is vim by then."""
    a = town.server()
    spot = a.session("one")
    town.stuck(a, Spot(spot.pane_id, spot.pid if pid else 0))
    town.daemon.stop()
    a.kill()
    again = town.server("a")
    vim = again.session("one", "exec sleep 3600")
    assert (vim.pane_id, again.socket) == (spot.pane_id, a.socket) and again.pid != a.pid
    town.daemon = tb.Daemon(str(town.home), town.env)
    assert town.queue() == [("a", spot.pane_id)], "as it was saved"
    client = again.attach("main")
    before = client.at()
    assert "is gone" in town.refusal(client=client) or town.queue() == []
    assert client.at() == before
    town.daemon.start()
    within(1.2, lambda: town.queue() == [])
    assert "no session is known" in town.refusal(vim.pane_id, client=client) and client.at() == before


@NEEDS_TMUX
def test_46_two_servers_with_the_same_pane_ids_are_two_places(town):
    a, b = town.server("a"), town.server("b")
    here, there = a.session("one"), b.session("one")
    assert here.pane_id == there.pane_id
    town.stuck(a, Spot(here.pane_id, 0))
    town.stuck(b, Spot(there.pane_id, 0))
    assert [(row["pane"], row["server"], row["uncertain"]) for row in town.daemon.queue(False)["items"]] == [
        (here.pane_id, a.socket, False), (there.pane_id, b.socket, False)]
    a.tmux("kill-pane", "-t", here.pane_id)
    town.daemon.look_at_tmux()
    assert town.queue() == [("b", there.pane_id)]


@NEEDS_TMUX
@pytest.mark.parametrize("name", ["with,comma", "with,12,0", "with space", "ünï"])
def test_46_a_socket_may_have_a_comma_in_its_name(town, name):
    a = town.server(name)
    spot = a.session("one")
    town.stuck(a, Spot(spot.pane_id, 0))
    assert town.daemon.queue(False)["items"][0]["server"] == a.socket
    client = a.attach("main")
    assert (town.jump(), client.pane) == ([], spot.pane_id)


@NEEDS_TMUX
@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_47_a_hook_in_a_window_that_nobody_sees_tells_its_own_pane(town, pid):
    town.serve()
    a = town.server()
    client = a.attach("main")
    payload = town.folder / "payload"
    payload.write_text(json.dumps({"session_id": "s1", "hook_event_name": "Stop", "cwd": "/"}))
    script = town.folder / "agent"
    script.write_text("#!/bin/sh\n%s CLAUDE_CODE_ENTRYPOINT=cli TRAILBOSS_HOME='%s' sh '%s' < '%s'\nexec %s\n" % (
        "CLAUDE_PID=$$" if pid else "CLAUDE_PID=", town.home, SCRIPT, payload, town.claude))
    spots = [a.window("main", "exec sh '%s'" % script), a.split("main", "exec sleep 3600")]
    within(5, lambda: town.queue())
    town.daemon.look_at_tmux()
    assert town.queue() == [("s", spots[0].pane_id)] and client.pane != spots[0].pane_id
    assert (town.jump(), client.pane) == ([], spots[0].pane_id)


@NEEDS_TMUX
def test_49_a_teammate_on_a_hidden_server_is_listed_and_a_jump_says_how_to_get_there(town):
    a, hidden = town.server("a"), town.server("claude-swarm-123")
    lead, mate = a.session("lead"), hidden.session("hidden")
    client = a.attach("main")
    town.event(a, lead, "UserPromptSubmit", "lead", prompt="x")
    town.event(hidden, mate, "PermissionRequest", "mate", **ASK)
    town.daemon.look_at_tmux()
    assert town.queue() == [("m", mate.pane_id)] and town.daemon.queue(False)["items"][0]["server"] == hidden.socket
    before = client.at()
    said = town.refusal(client=client)
    assert "is on another tmux server" in said and hidden.socket in said and client.at() == before
    hidden.kill()
    assert "is gone" in town.refusal(client=client) or town.queue() == []
    town.daemon.tick()
    assert town.queue() == [] and town.row("lead")["state"] == "working"


@NEEDS_TMUX
def test_49_a_teammate_in_a_session_that_no_client_shows_is_reached(town):
    a = town.server()
    mate = a.window("main", "exec sleep 3600") and a.session("claude-hidden")
    client = a.attach("main")
    town.stuck(a, mate)
    assert (town.jump(), client.at()) == ([], ("claude-hidden", mate.pane_id))


def test_49_a_session_at_the_trust_question_tells_nobody_and_the_readme_says_so():
    assert "at Claude Code's trust question tells nobody that it waits" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_50_titles_and_names_that_are_written_into_a_settled_session_are_no_progress(house, pid):
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 1.5, pid, prompt="go").write(claude.prompt(t - 1.5), claude.says(t - 0.9))
    claude.hear("Stop", t - 0.5, pid, session_title="mine").becomes(("stopped", round(t - 0.5, 3)))
    for n in range(4):
        claude.write(*claude.meta(t + n / 10)).stays(("stopped", round(t - 0.5, 3)), 0.25)


# ---- C, more: the tmux that a session is in ----------------------------------------------------------------------------


@NEEDS_TMUX
@pytest.mark.parametrize("first", ["record", "event"])
@pytest.mark.parametrize("local", ["free", "taken"], ids="pid {} here".format)
def test_c_a_session_in_a_container_is_listed_without_a_pane(town, first, local):
    """Its $TMUX names a socket that is not here, and its pid means nothing here, or somebody else."""
    a = town.server()
    spot = a.session("one")
    number = spot.pid if local == "taken" else 4_000_000
    inside = {"x-tmux": "/run/container/tmux.sock,7,0", "x-tmux-pane": spot.pane_id, "x-claude-pid": str(number)}
    entry = {"pid": number, "sessionId": "boxed", "procStart": "5", "pidDomain": "pid:[1]", "kind": "interactive",
             "status": "waiting", "waitingFor": "permission prompt", "statusUpdatedAt": time.time() * 1000,
             "startedAt": (time.time() - 60) * 1000, "entrypoint": "cli"}
    card = town.config / "sessions" / ("%d.json" % number)
    town.daemon.start()
    if first == "record":
        card.write_text(json.dumps(entry))
        within(1.5, lambda: town.queue())
    town.event(a, spot, "PermissionRequest", "boxed", inside, **ASK)
    card.write_text(json.dumps(entry))
    within(2, lambda: town.queue() == [("b", None)], town.queue)
    for _ in range(15):
        assert town.queue() == [("b", None)]
        time.sleep(0.1)
    client = a.attach("main")
    before = client.at()
    assert "has no pane" in town.refusal("boxed", client=client) and client.at() == before
    card.write_text(json.dumps({**entry, "status": "busy", "waitingFor": "", "statusUpdatedAt": time.time() * 1000}))
    within(1.2, lambda: town.queue() == [], town.queue)
    card.write_text(json.dumps({**entry, "status": "idle", "waitingFor": "", "statusUpdatedAt": time.time() * 1000}))
    town.event(a, spot, "Stop", "boxed", inside)
    within(1.2, lambda: town.queue() == [("b", None)], town.queue)


@NEEDS_TMUX
@pytest.mark.parametrize("pid", ["4000000", ""], ids=["pid", "no-pid"])
def test_c_a_session_in_a_container_without_a_record_is_not_taken_for_dead(town, pid):
    a = town.server()
    inside = {"x-tmux": "/run/container/tmux.sock,7,0", "x-tmux-pane": "%0", "x-claude-pid": pid}
    town.event(a, Spot("%0", 0), "PermissionRequest", "boxed", inside, **ASK)
    town.daemon.tick()
    town.daemon.look_at_tmux()
    assert town.queue() == [("b", None)]


@NEEDS_TMUX
@pytest.mark.parametrize("end", ["SessionEnd", "kill"])
@pytest.mark.parametrize("kept", [True, False], ids=["record", "no-record"])
def test_c_a_background_session_that_is_resumed_in_a_pane_is_there(town, end, kept):
    a = town.server()
    spot, background = a.session("one"), Spot("%0", outsider(town))
    town.event(a, background, "Stop", "aaaaaaaa", {"x-claude-job-dir": "/x/jobs/1"})
    assert town.queue() == [("a", None)]
    if end == "SessionEnd":
        town.event(a, background, "SessionEnd", "aaaaaaaa", {"x-claude-job-dir": "/x/jobs/1"}, reason="other")
    else:
        os.kill(background.pid, signal.SIGKILL)
        town.terminals[-1].close()
    town.daemon.tick()
    assert town.queue() == []
    if kept:
        entry = {"pid": spot.pid, "sessionId": "aaaaaaaa", "procStart": tb.process_of(spot.pid).start, "kind": "interactive",
                 "status": "idle", "statusUpdatedAt": time.time() * 1000, "startedAt": time.time() * 1000,
                 "entrypoint": "cli"}
        (town.config / "sessions" / ("%d.json" % spot.pid)).write_text(json.dumps(entry))
    for name in ("SessionStart", "UserPromptSubmit", "Stop"):
        town.event(a, spot, name, "aaaaaaaa", source="resume", prompt="x")
    town.daemon.tick()
    town.daemon.look_at_tmux()
    assert town.queue() == [("a", spot.pane_id)]


@NEEDS_TMUX
def test_c_a_session_of_claude_p_that_is_resumed_in_a_pane_is_there(town):
    a = town.server()
    spot, print_it = a.session("one"), Spot("%0", outsider(town))
    for name in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        town.event(a, print_it, name, "aaaaaaaa", {"x-claude-entrypoint": "sdk-cli"}, prompt="x")
        assert town.queue() == []
    for name in ("SessionStart", "UserPromptSubmit", "Stop"):
        town.event(a, spot, name, "aaaaaaaa", source="resume", prompt="x")
    town.daemon.look_at_tmux()
    assert town.queue() == [("a", spot.pane_id)]


@NEEDS_TMUX
def test_c_a_session_in_tmux_inside_tmux_is_in_the_inner_pane(town):
    nest = Nested(town)
    spot = nest.inner.session("one")
    town.event(nest.inner, spot, "Stop", "aaaaaaaa")
    town.event(nest.inner, Spot(spot.pane_id, 0), "UserPromptSubmit", "aaaaaaaa", prompt="x")
    town.event(nest.inner, spot, "Stop", "aaaaaaaa")
    town.daemon.look_at_tmux()
    assert [(row["pane"], row["server"]) for row in town.daemon.queue(False)["items"]] == [(spot.pane_id, nest.inner.socket)]
    client = nest.outer.attach("main")
    town.jump(client=client)
    assert client.at() == ("seat", nest.seat.pane_id) and nest.inside() == ("one", spot.pane_id)


@NEEDS_TMUX
@pytest.mark.parametrize("end", ["SessionEnd", "kill", "open"])
def test_c_a_session_that_is_resumed_in_another_pane_waits_there(town, end):
    a = town.server()
    one, two = a.session("one"), a.session("two")
    town.stuck(a, one)
    if end == "SessionEnd":
        town.event(a, one, "SessionEnd", "aaaaaaaa", reason="prompt_input_exit")
    elif end == "kill":
        os.kill(one.pid, signal.SIGKILL)
        within(5, lambda: not tb.process_of(one.pid))
    town.daemon.tick()
    town.event(a, two, "SessionStart", "aaaaaaaa", source="resume")
    assert town.queue() == ([("a", one.pane_id)] if end == "open" else [])
    town.event(a, two, "UserPromptSubmit", "aaaaaaaa", prompt="x")
    assert town.queue() == []
    town.event(a, two, "Stop", "aaaaaaaa")
    assert town.queue() == [("a", two.pane_id)]


@NEEDS_TMUX
def test_c_a_fork_is_a_session_of_its_own_and_its_parent_stays(town):
    a = town.server()
    one, two = a.session("one"), a.session("two")
    town.stuck(a, one)
    town.event(a, two, "SessionStart", "aaaaaaaa", source="fork")  # it reports its parent's id
    assert town.queue() == [("a", one.pane_id)]
    town.event(a, two, "UserPromptSubmit", "forked", prompt="x")
    town.event(a, two, "Stop", "forked")
    assert town.queue() == [("a", one.pane_id), ("f", two.pane_id)]


# ---- D: the transcript, without lying --------------------------------------------------------------------------------

last_lines = [line("result", 4.7, "ok", ASK), line("said", 4.8, "so"), line("final", 4.9, "All done."), line("ended", 5.03)]


@everywhere
@pytest.mark.parametrize("late", [0.0, 0.13, 1.5, 30])
@pytest.mark.parametrize("order", [last_lines, last_lines[::-1], last_lines[:3], last_lines[3:], last_lines * 8],
                         ids=["all", "backwards", "no end", "end", "many"])
def test_51_the_last_lines_of_a_turn_come_after_its_stop(known, late, order):
    tale = begun(known).hear("Stop", 5, last_assistant_message="Shall I open it?").shows("idle", 5.05).look(5.1 + late)
    tale.read(*order, now=5.1 + late).lives_on(40)
    assert tale.queue == [("stopped", 5)] and tale.row()["ask"] == "Shall I open it?"


def test_51_in_files_what_the_stop_said_is_what_it_asks(house):
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 1.9, True, prompt="go").write(claude.prompt(t - 1.9))
    claude.hear("Stop", t - 0.5, True, last_assistant_message="Shall I open it?").becomes(("stopped", t - 0.5))
    for n in range(30):
        claude.write(claude.call(t - 1.8 + n / 50, call="t%d" % n), claude.result(t - 1.79 + n / 50, call="t%d" % n))
    claude.write(claude.says(t - 0.6, "Another text"), claude.ended(t - 0.45),
                 *claude.meta(t - 0.4)).stays(("stopped", t - 0.5))
    assert next(row for row in house.queue() if row["session_id"] == claude.id)["ask"] == "Shall I open it?"


@pytest.mark.parametrize("kept", [True, False], ids=["record", "no-record"])
def test_53_without_a_transcript_the_hooks_do_and_its_old_lines_at_exit_change_nothing(house, kept):
    paths = ["missing", "", None, 5, ["x"], {}, "relative/x.jsonl", "/no/such/x.jsonl", "\ud800", "/a\0b"]
    told, before = {house.claude(): path for path in paths}, house.said()
    story = [("SessionStart", "idle", "idle", -1.9), ("UserPromptSubmit", "busy", "working", -1.8),
             ("PermissionRequest", "waiting", "permission", -1.3), ("UserPromptSubmit", "busy", "working", -0.9),
             ("Stop", "idle", "stopped", -0.4)]
    for name, status, state, at in story:
        for claude, path in told.items():
            claude.hear(name, claude.t0 + at, True, **ASK, prompt=name, source="startup",
                        transcript_path=str(claude.path) if path == "missing" else path)
            if kept:
                claude.record(status, claude.t0 + at + 0.05, waitingFor="permission prompt" if status == "waiting" else "")
        waits = state in ("permission", "stopped")
        rows = {claude: (state, claude.t0 + at) if waits else state for claude in told}
        house.settles(rows, 1.5, 0.4)
    for claude in told:
        h = claude.t0 - 7200
        claude.write(claude.prompt(h), claude.call(h + 1), claude.result(h + 2), claude.prompt(h + 60, "no"))
        claude.write(claude.mark(h + 61), claude.prompt(h + 90), claude.says(h + 100), claude.ended(h + 101))
        claude.write(claude.prompt(h + 200), claude.call(h + 201))
    house.settles(rows, 0.1, 1)
    assert house.said() == before


def test_53_a_transcript_that_is_never_there_costs_nothing(lone):
    lone.start()
    claudes = [lone.claude() for _ in range(10)]
    for claude in claudes:
        claude.hear("UserPromptSubmit", prompt="go", transcript_path="/no/such/%s.jsonl" % claude.id)
    time.sleep(1)

    def used():
        fields = open("/proc/%d/stat" % lone.process.pid).read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    before = used()
    time.sleep(2)
    assert used() - before < 0.5 and lone.said().count("\n") <= 1


@pytest.mark.parametrize("pid", [True, False], ids=["pid", "no-pid"])
def test_54_a_path_that_is_told_of_before_the_file_is_there(house, pid):
    claude = house.claude()
    t = claude.t0
    claude.hear("SessionStart", t - 1.9, pid, source="startup").stays("idle", 0.3)
    claude.hear("UserPromptSubmit", t - 1.5, pid, prompt="go").stays("working", 0.3)
    claude.write(claude.prompt(t - 1.5), claude.call(t - 1.3)).stays("working", 0.3)
    claude.write(claude.result(t - 1, error=True, content=tb.REFUSAL, toolDenialKind="interrupted"), claude.mark(t - 0.998))
    claude.becomes(("interrupted", t - 0.998)).stays(("interrupted", t - 0.998), 0.3)
    never = house.claude()
    never.hear("SessionStart", never.t0, pid, source="startup", transcript_path=str(never.path.parent / "gone" / "x.jsonl"))
    never.stays("idle", 0.4)


def many_parts(claude):
    """What is long is most likely to be torn: an entry with many blocks."""
    return claude.entry("assistant", time.time() - 48, [{"type": "text", "text": "part %d" % n} for n in range(60)])


TORN = {
    "a half line and the next": lambda claude, a, b: [a[:len(a) // 2] + b],
    "a few bytes and the next": lambda claude, a, b: [a[:7] + b],
    "half a line of many parts and the next": lambda claude, a, b: [many_parts(claude)[:-9] + b],
    "two on a line": lambda claude, a, b: [a + b],
    "a line of its own and one on a line": lambda claude, a, b: [a, claude.meta(claude.t0)[0] + b],
    "one and a line of its own on a line": lambda claude, a, b: [a, b + claude.meta(claude.t0)[0]],
    "a half one behind": lambda claude, a, b: [a + b + a[:90]],
    "NULs before": lambda claude, a, b: [a, b"\0" * 4096 + b],
    "NULs behind": lambda claude, a, b: [a, b + b"\0" * 4096],
    "a line of NULs": lambda claude, a, b: [a, b"\0" * 100, b],
    "NULs between two": lambda claude, a, b: [a + b"\0" * 16 + b],
    "bad lines before and after": lambda claude, a, b: [b'{"type":"user",', b"}", a, b"garbage", b, b'{"type":"x"', b""],
    "half of one that says so itself": lambda claude, a, b: [a[:-40], b]}


@pytest.mark.parametrize("shape", sorted(TORN))
@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "in bits"])
def test_55_a_torn_line_costs_only_itself_and_the_tail_goes_on(house, shape, bytewise):
    claude, t = house.claude(), time.time() - 50
    claude.hear("UserPromptSubmit", t, prompt="go").hear("PermissionRequest", t + 5, **ASK)
    claude.write(claude.prompt(t), claude.call(t + 4.9)).stays(("permission", t + 5), 0.25)
    data = b"\n".join(TORN[shape](claude, claude.says(t + 2, "so", "tool_use"), claude.mark(t + 9))) + b"\n"
    for n in range(0, len(data), 700 if bytewise else len(data)):
        claude.write(data[n:n + (700 if bytewise else len(data))], end=b"")
        time.sleep(0.02 if bytewise else 0)
    claude.becomes(("interrupted", t + 9))
    claude.write(claude.prompt(t + 20, "again")).becomes("working")
    claude.write(claude.says(t + 30), claude.ended(t + 30.1)).becomes(("stopped", t + 30.1))


def test_55_of_two_on_a_line_with_nuls_between_them_both_count():
    claude = Claude.__new__(Claude)
    claude.id, claude.t0 = "c1", 100.0
    data = claude.prompt(100.0) + b"\0" * 16 + claude.says(105.0)
    assert [told.kind for told in tb.parse_transcript([data], "c1", {})] == ["prompt", "final"]


@everywhere
def test_57_a_burst_of_lines_that_are_dated_hours_earlier_changes_nothing(known):
    tale = Tale(*known).shows("idle", 0.5).hear("UserPromptSubmit", 9_000, prompt="go").shows("busy", 9_000.05)
    tale.hear("Stop", 10_000).shows("idle", 10_000.05).lives_on(10_002)
    kinds = "prompt call result said refused interrupted final ended failed woken parked prompt".split()
    old = [line(kind, 400 + n, "x", ASK if kind in ("call", "result", "refused") else None, fresh=True)
           for n, kind in enumerate(kinds)]
    assert tale.read(*old, now=10_003).lives_on(10_020).queue == [("stopped", 10_000)]
    assert tale.session().prompt == "go"


@everywhere
@pytest.mark.parametrize("skew", [0.01, 0.3, 1.5])
def test_57_a_new_prompt_that_is_dated_slightly_before_the_stop_is_a_turn(known, skew):
    tale = begun(known).hear("Stop", 50)
    if not known[1]:
        assert tale.look(51).read(line("prompt", 50 - skew, "on"), now=51).queue == []
        assert tale.lives_on(60).state == "working"
        assert tale.read(line("final", 70, "x"), line("ended", 70.1)).queue == [("stopped", 70.1)]
    else:
        tale.shows("busy", 50.1).read(line("prompt", 50 - skew, "on"), now=51)
        assert tale.lives_on(60).state == "working"
        assert tale.hear("Stop", 70).shows("idle", 70.05).lives_on(75).queue == [("stopped", 70)]


@pytest.mark.parametrize("trigger", ["manual", "auto"])
@pytest.mark.parametrize("state", ["stopped", "permission", "working"])
def test_57_a_compaction_in_files(house, trigger, state):
    """Its summary looks like a prompt, and the lines around it are dated hours before."""
    claude = house.claude()
    t = claude.t0
    claude.hear("UserPromptSubmit", t - 60, prompt="go").write(claude.prompt(t - 60))
    if state == "stopped":
        claude.write(claude.says(t - 51), claude.ended(t - 50)).hear("Stop", t - 50)
    elif state == "permission":
        claude.write(claude.call(t - 50.1)).hear("PermissionRequest", t - 50, **ASK)
    row = "working" if state == "working" else (state, t - 50)
    claude.becomes(row)
    boundary = claude.entry("system", t - 3, subtype="compact_boundary",
                            compactMetadata={"trigger": trigger, "preTokens": 5})
    claude.write(boundary, claude.prompt(t - 3, "This session is being continued", isCompactSummary=True,
                                         isVisibleInTranscriptOnly=True))
    h = t - 9000
    claude.write(claude.prompt(h), claude.call(h + 1), claude.refused(h + 2), claude.mark(h + 2.1), claude.ended(h + 3),
                 claude.says(h + 4), claude.prompt(h + 5, "old"), claude.result(h + 6))
    claude.hear("SessionStart", t - 2, source="compact").stays(row)


SURROGATE = "half \ud83d \udc00 \ud800"


def test_58_a_lone_surrogate_in_any_text_breaks_nothing(lone):
    lone.start()
    claude, other = lone.claude(), lone.claude()
    t = claude.t0
    for field in ("prompt", "session_title", "cwd", "last_assistant_message", "error", "tool_name", "message", "reason"):
        for name in ("SessionStart", "UserPromptSubmit", "PermissionRequest", "Elicitation", "StopFailure", "Stop"):
            claude.hear(name, **{field: SURROGATE})
    claude.hear("PermissionRequest", session_title=SURROGATE, tool_name=SURROGATE, agent_id=SURROGATE, agent_type=SURROGATE,
                tool_input={SURROGATE: SURROGATE, "command": SURROGATE})
    other.write(other.prompt(t - 5, SURROGATE), other.call(t - 4, SURROGATE, {"command": SURROGATE}),
                other.says(t - 3, SURROGATE))
    other.record("waiting", t - 2, name=SURROGATE, waitingFor=SURROGATE, cwd=SURROGATE)
    until(lambda: len(lone.queue()) == 2)
    for session in (claude, other):
        for argv in (["list"], ["list", "--all"], ["list", "--all", "--json"], ["show", session.id],
                     ["explain", session.id]):
            code, out, err = lone.run(*argv)
            assert (code, err) == (0, "") and out, argv
    before = lone.rows()
    assert len(before) == 2
    lone.restart()
    until(lambda: lone.rows() == before)


def test_59_an_odd_line_break_inside_a_line_splits_nothing(house):
    ends, ons, t = {}, {}, time.time() - 50
    for odd in ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\ufeff", "\U0001f600"]:
        claude = house.claude().hear("UserPromptSubmit", t, prompt="go")
        for text in (claude.prompt(t, "a%sb" % odd), claude.says(t + 9, "All%sdone" % odd)):
            claude.write(json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode())
        claude.write(claude.ended(t + 9.1))
        ends[claude], ons[claude] = ("stopped", t + 9.1), "working"
    house.settles(ends)
    for claude in ons:
        claude.write(claude.prompt(t + 20, "on"))
    house.settles(ons)


@pytest.mark.parametrize("shape", ["CRLF", "lone CR before", "BOM", "invalid byte", "blank lines", "no newline at the end"])
def test_59_lines_may_have_odd_ends_and_bytes(house, shape):
    claude, t = house.claude(), time.time() - 50
    claude.hear("UserPromptSubmit", t, prompt="go")
    lines = [claude.prompt(t), claude.says(t + 9, "All done"), claude.ended(t + 9.1)]
    if shape == "no newline at the end":
        claude.write(lines[0]).write(lines[1], end=b"").stays("working", 0.4)  # it may be half of it
        claude.write(b"", lines[2])
    elif shape == "CRLF":
        claude.write(*lines, end=b"\r\n")
    else:
        start = {"lone CR before": b"\r", "BOM": b"\xef\xbb\xbf", "blank lines": b"\n\n  \n"}.get(shape, b"")
        claude.write(*[start + text.replace(b"All done", b"All \xff\xfe done" if shape == "invalid byte" else b"All done")
                       for text in lines])
    claude.becomes(("stopped", t + 9.1))


@pytest.mark.parametrize("how", ["next hook", "unsaid", "unsaid and nowhere at first"])
def test_61_a_transcript_that_moves_to_another_projects_folder_is_followed(house, how):
    """EnterWorktree, /cd: with the next hook, or with none."""
    claude, t = house.claude(), time.time() - 50
    claude.hear("UserPromptSubmit", t, prompt="go").write(claude.prompt(t), claude.call(t + 1), claude.result(t + 2))
    claude.stays("working", 0.3)
    new = house.config / "projects" / "-w-worktree" / claude.path.name
    new.parent.mkdir(exist_ok=True)
    if how == "unsaid and nowhere at first":
        claude.path.rename(new.with_suffix(".aside"))
        claude.stays("working", 0.5)
        new.with_suffix(".aside").rename(new)
    else:
        claude.path.rename(new)
    if how == "next hook":
        claude.hear("CwdChanged", transcript_path=str(new))
    claude.write(claude.says(t + 9), claude.ended(t + 9.1), path=new).becomes(("stopped", t + 9.1), 4)
    claude.write(claude.prompt(t + 20, "on"), path=new).becomes("working")


@pytest.mark.parametrize("state", ["stopped", "working"])
def test_61_a_file_that_is_not_what_it_was_is_begun_anew_at_its_end(house, state):
    rows, t = {}, time.time() - 50
    changes = {house.claude(): change for change in
               ("cut", "emptied", "replaced", "replaced by a shorter one", "removed", "removed and back")}
    for claude in changes:
        claude.history = [claude.prompt(t - 100), claude.says(t - 90), claude.ended(t - 89), claude.prompt(t - 60, "no"),
                          claude.mark(t - 59)]
        claude.write(*claude.history, claude.prompt(t)).hear("UserPromptSubmit", t, prompt="go")
        if state == "stopped":
            claude.write(claude.says(t + 9), claude.ended(t + 9.1)).hear("Stop", t + 9.05)
        rows[claude] = "working" if state == "working" else ("stopped", t + 9.05)
    house.settles(rows)
    texts = {claude: claude.path.read_bytes() for claude in changes}
    for claude, change in changes.items():
        if change in ("cut", "emptied"):
            os.truncate(str(claude.path), len(b"\n".join(claude.history[:2])) + 1 if change == "cut" else 0)
        elif change.startswith("removed"):
            claude.path.unlink()
    house.settles(rows)
    for claude, change in changes.items():
        if change == "removed and back" or change.startswith("replaced"):
            new = claude.path.with_suffix(".new")
            new.write_bytes(texts[claude] if "shorter" not in change else b"\n".join(claude.history[:3]) + b"\n")
            os.replace(str(new), str(claude.path))
    house.settles(rows)
    for claude in changes:
        claude.write(claude.prompt(t + 20, "on"))
    house.settles({claude: "working" for claude in changes})
    for claude in changes:
        claude.write(claude.says(t + 30), claude.ended(t + 30.1))
    house.settles({claude: ("stopped", t + 30.1) for claude in changes})


@pytest.mark.parametrize("kind", ["file inside", "file outside", "folder inside", "folder outside", "projects"])
def test_61_links_on_the_way_are_followed_and_a_linked_file_is_not(house, tmp_path, kind):
    """Someone's dotfile manager links folders; a link in a file's place leads anywhere."""
    claude, t = house.claude(), time.time() - 50
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    told, followed = claude.path, kind == "folder inside"
    lines = [claude.prompt(t), claude.says(t + 9), claude.ended(t + 9.1)]
    if kind.startswith("file"):
        claude.path = (outside if "outside" in kind else told.parent) / ("real-%s.jsonl" % claude.id)
        told.symlink_to(claude.path)
    elif kind.startswith("folder"):
        real = (outside if "outside" in kind else house.config / "projects") / ("real-" + claude.id)
        real.mkdir()
        link = house.config / "projects" / ("link-" + claude.id)
        link.symlink_to(real)
        claude.path = told = link / told.name
    else:
        config = tmp_path / "config"
        (outside / "-w").mkdir()
        config.mkdir()
        (config / "projects").symlink_to(outside)
        claude.path, followed = config / "projects" / "-w" / told.name, True
        assert house.hear("UserPromptSubmit", claude.id, X_Event_Time=t, X_Claude_Config=config,
                          transcript_path=str(claude.path)) == 200
    claude.write(*lines)
    if kind != "projects":
        claude.hear("UserPromptSubmit", t, prompt="go", transcript_path=str(told))
    if followed:
        claude.becomes(("stopped", t + 9.1))
    else:
        claude.stays("working")
        claude.hear("Stop", t + 9.2).stays(("stopped", t + 9.2), 0.3)


FOREIGN = {"another session's": {"sessionId": "another"}, "a sidechain": {"isSidechain": True},
           "a subagent's": {"isSidechain": True, "agentId": "a1"}, "meta": {"isMeta": True},
           "a compaction's summary": {"isCompactSummary": True},
           "for the transcript only": {"isVisibleInTranscriptOnly": True},
           "of no known type": {"type": "progress"}, "an attachment": {"type": "attachment"}}


@pytest.mark.parametrize("state", ["stopped", "permission"])
def test_62_foreign_lines_are_no_progress_and_no_context(house, state):
    rows, told = {}, {}
    for foreign, more in FOREIGN.items():
        claude = house.claude()
        t, told[claude] = claude.t0, foreign
        claude.hear("UserPromptSubmit", t - 9, prompt="go").write(claude.prompt(t - 9, "my own words"))
        if state == "stopped":
            claude.write(claude.says(t - 6, "Done."), claude.ended(t - 5)).hear("Stop", t - 5)
        else:
            claude.write(claude.call(t - 5.1)).hear("PermissionRequest", t - 5, **ASK)
        rows[claude] = (state, t - 5)
    house.settles(rows)
    for claude, foreign in told.items():
        t, more = claude.t0, FOREIGN[foreign]
        claude.write(claude.prompt(t - 2, "FOREIGN", **more), claude.call(t - 1.9, "FOREIGN", call="t9", **more),
                     claude.result(t - 1.8, "FOREIGN", "t9", **more), claude.says(t - 1.7, "FOREIGN", **more),
                     claude.entry("user", t - 1.6, MARK, **more))
    house.settles(rows, 0.1, 0.7)
    for claude, foreign in told.items():
        shown = house.run("show", claude.id)[1]
        assert "my own words" in shown and "FOREIGN" not in shown, foreign


def test_62_a_fork_brings_the_lines_of_its_parent_along(house):
    parent, fork = house.claude(), house.claude()
    t = parent.t0
    lines = [parent.prompt(t - 1.5), parent.says(t - 1.2), parent.ended(t - 1.1)]
    parent.write(*lines).hear("UserPromptSubmit", t - 1.5, True, prompt="x").hear("Stop", t - 1.05, True)
    fork.hear("SessionStart", t - 0.5, True, source="fork")
    fork.write(*lines, fork.mark(t - 1.04)).stays("idle", 0.4)
    fork.hear("UserPromptSubmit", t - 0.2, True, prompt="y").write(fork.prompt(t - 0.2, "y"), *lines).stays("working", 0.4)
    parent.stays(("stopped", t - 1.05), 0.3)


ODD = [b"null", b"[]", b'"x"', b"5", b"true", b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"NaN", b"-",
       b'{"type":"user","x":' + b"9" * 5000 + b"}", b'{"type":"user","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
       b'{"type":"user","message":null}', b'{"type":"user","message":[]}', b'{"type":"assistant","message":"x"}',
       b'{"type":"assistant","message":{"content":null}}',
       b'{"type":"assistant","message":{"content":[null,5,"x",{"type":5}]}}',
       b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":5,"content":[null]}]},"origin":[]}',
       b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":[],"name":{},"input":5}],"id":{}}}',
       b'{"type":"user","timestamp":5,"message":{"content":"x"}}', b'{"type":"system","subtype":null,"timestamp":"x"}',
       b'{"type":["user"]}', b'{"type":"user","sessionId":5}', b'{"type":"user","origin":5,"message":{"content":5}}',
       b'{"type":"system","subtype":"turn_duration","pendingBackgroundAgentCount":"x","pendingWorkflowCount":1e999}']


@pytest.mark.parametrize("own", [False, True], ids=["plain", "with a time and an id"])
def test_63_no_odd_json_stops_the_tail(house, own):
    claude, t = house.claude(), time.time() - 50
    claude.hear("UserPromptSubmit", t, prompt="go").write(claude.prompt(t), claude.call(t + 1))
    claude.stays("working", 0.3)
    before = house.said()
    for odd in ODD:
        if own and odd.startswith(b'{"type"') and b'"timestamp"' not in odd:
            odd = odd[:-1] + (',"timestamp":"%s","sessionId":"%s"}' % (stamp(t + 2), claude.id)).encode()
        claude.write(odd)
        if len(odd) > 1000:
            time.sleep(0.3)
    time.sleep(0.3)
    claude.write(claude.refused(t + 9), claude.mark(t + 9.01)).becomes(("interrupted", t + 9.01))
    claude.write(claude.prompt(t + 20, [{"type": "text", "text": "in blocks"}])).becomes("working")
    assert house.said() == before


# ---- found anew: a daemon that knows little or nothing ------------------------------------------------------------------


def street(house):
    """Sessions that live, with records and transcripts: {session: its row}."""
    rows, t = {}, time.time() - 300

    def add(row, status, *lines, waiting_for="", at=20.0, **more):
        claude = house.claude(began=3600)
        claude.write(*[line(claude) for line in lines])
        claude.record(status, t + at, **({"waitingFor": waiting_for} if waiting_for else {}), **more)
        rows[claude] = (row[0], t + row[1]) if row and isinstance(row, tuple) else row
        return claude

    def had(claude):
        return b"\n".join([claude.prompt(t - 60), claude.says(t - 50), claude.ended(t - 49.9)])

    def goes(claude):
        return claude.prompt(t, "go")
    question = {"questions": [{"question": "Which?", "options": [{"label": "a"}]}]}
    add(("permission", 20), "waiting", had, goes, lambda c: c.call(t + 19), waiting_for="permission prompt")
    add(("permission", 20), "waiting", goes, waiting_for="permission prompt")
    add(("question", 20), "waiting", goes, lambda c: c.call(t + 19, "AskUserQuestion", question), waiting_for="input needed")
    add(("plan", 20), "waiting", goes, lambda c: c.call(t + 19, "ExitPlanMode", {"plan": "# P"}),
        waiting_for="permission prompt")
    add(("stopped", 19.9), "idle", goes, lambda c: c.says(t + 19.8), lambda c: c.ended(t + 19.9))
    add(("stopped", 19.9), "shell", goes, lambda c: c.says(t + 19.8), lambda c: c.ended(t + 19.9))
    add(("stopped", 19.9), "idle", goes, lambda c: c.says(t + 19.8), lambda c: c.ended(t + 19.9), at=100)  # /compact
    add(("stopped", 19.9), "waiting", goes, lambda c: c.says(t + 19.8), lambda c: c.ended(t + 19.9),
        waiting_for="dialog open")
    add(("interrupted", 19.9), "idle", had, goes, lambda c: c.call(t + 10), lambda c: c.refused(t + 19.9),
        lambda c: c.mark(t + 19.9))
    add(("interrupted", 19.9), "idle", goes, lambda c: c.says(t + 19, "half", None), lambda c: c.mark(t + 19.9))
    add(("error", 19.9), "idle", goes, lambda c: c.says(t + 19.9, "API Error: 500", isApiErrorMessage=True),
        lambda c: c.ended(t + 19.95))
    add("working", "busy", had, goes, lambda c: c.call(t + 19))
    add("idle", "idle")
    add("unknown", "waiting", goes, waiting_for="permission prompt", procStart="1").die()
    add("unknown", "waiting", goes, waiting_for="permission prompt", procStart="1")  # of an earlier process with this pid
    add(None, "waiting", goes, entrypoint="sdk-cli", kind="print")  # known or not: never in the queue
    add(("permission", 20), "waiting", goes, lambda c: c.call(t + 19), waiting_for="permission prompt", kind="bg", jobId="1")
    return rows


def database(house, kind):
    """A state folder as it may be found."""
    path = house.home / "trailboss.db"
    if kind in ("nothing", "spool"):
        return
    house.start()
    assert house.hear("Stop", "former", X_Event_Time=time.time() - 900) == 200 and house.end() == 0
    if kind == "corrupt":
        path.write_bytes(path.read_bytes()[:5000] + b"\xff" * 9000)
    elif kind == "torn":
        os.truncate(str(path), 700)
    elif kind in ("newer", "older"):
        with contextlib.closing(sqlite3.connect(str(path))) as db:
            if kind == "older":
                db.execute("DROP INDEX IF EXISTS events_by_session")
                db.execute("CREATE TABLE former AS SELECT event_id, at FROM events")
                db.execute("DROP TABLE events")
                db.execute("ALTER TABLE former RENAME TO events")
            db.execute("PRAGMA user_version=%d" % (tb.Store.FORM + 1 if kind == "newer" else 0))
            db.commit()


@pytest.mark.parametrize("state", ["nothing", "spool", "corrupt", "torn", "newer", "older", "kept"])
def test_anew_the_queue_is_right_two_seconds_after_the_start_whatever_the_state_folder_holds(lone, state):
    database(lone, state)
    rows = street(lone)
    if state == "spool":
        t = time.time()
        claudes = [lone.claude() for _ in range(3)]
        for claude, name, at in zip(claudes, ("Stop", "PermissionRequest", "UserPromptSubmit"), (t - 400, t - 350, t - 300)):
            spool(lone, "%.9f-1" % at, at, name, claude.id)
        rows.update({claudes[0]: ("stopped", t - 400), claudes[1]: ("permission", t - 350), claudes[2]: "working"})
    began = time.monotonic()
    lone.start()
    lone.settles(rows, 2 - (time.monotonic() - began) + 0.5, steady=1.5)
    assert ("former" in lone.waiting()) == (state in ("older", "kept"))
    waiting = [row for row in rows.values() if isinstance(row, tuple)]
    others = [key for key in lone.waiting() if key not in [claude.id for claude in rows] + ["former"]]
    assert len(lone.waiting()) == len(waiting) + ("former" in lone.waiting()) and others == []
    assert [row["since"] for row in lone.queue()] == sorted(row["since"] for row in lone.queue())
    asks = {claude.id: "Bash: touch x" for claude in list(rows)[:1]}
    asks.update(zip([claude.id for claude in list(rows)[2:5]], ("Which?", "P", "Done.")))
    assert {row["session_id"]: row["ask"] for row in lone.queue() if row["session_id"] in asks} == asks
    lone.restart()
    lone.settles(rows)


@pytest.mark.parametrize("down", [True, False], ids=["down", "killed and at once back"])
def test_anew_what_went_on_while_it_was_down_is_seen(lone, down):
    """The state says what the hooks said last; records and transcripts went on."""
    lone.start()
    rows, t = {}, time.time()
    claudes = [lone.claude() for _ in range(7)]
    for claude in claudes:
        claude.write(claude.prompt(t - 9), claude.call(t - 5.1)).record("waiting", t - 4.9, waitingFor="permission prompt")
        claude.hear("UserPromptSubmit", t - 9, prompt="go").hear("PermissionRequest", t - 5, **ASK)
    lone.settles({claude: ("permission", t - 5) for claude in claudes})
    lone.end(signal.SIGKILL)
    allowed, finished, denied, dead, cleared, lost, same = claudes
    if down:
        allowed.record("busy", t - 2)
        rows[allowed] = "working"
        finished.record("idle", t - 1)
        finished.write(finished.result(t - 2), finished.says(t - 1.2), finished.ended(t - 1.1))
        rows[finished] = ("stopped", t - 1.1)
        denied.record("idle", t - 2)
        denied.write(denied.refused(t - 2.1), denied.mark(t - 2.09))
        rows[denied] = ("interrupted", t - 2.09)
        dead.die()
        rows[dead] = "gone"
        cleared.record("idle", t - 1, sessionId="cleared")
        rows[cleared] = "gone"
        lost.card.unlink()
        lost.write(lost.result(t - 2))
        rows[lost] = "working"
    rows = {**{claude: ("permission", t - 5) for claude in claudes}, **rows}
    assert rows[same] == ("permission", t - 5)
    lone.start()
    lone.settles(rows, 2, steady=1)
    assert down is False or lone.states()["cleared"] == "idle"


@pytest.mark.parametrize("kept", [True, False], ids=["record", "no-record"])
def test_anew_a_daemon_that_is_killed_in_any_state_comes_back_as_it_was(lone, kept):
    lone.start()
    t, rows = time.time(), {}

    def add(row, *told, status=""):
        claude = lone.claude()
        for at, name, more in told:
            claude.hear(name, t + at, **more)
        if kept and status:
            claude.record(status, t - 4.9, waitingFor="permission prompt" if status == "waiting" else "")
        rows[claude] = row
    go = (-9, "UserPromptSubmit", {"prompt": "go"})
    add("idle", (-9, "SessionStart", {"source": "startup"}), status="idle")
    add("working", go, status="busy")
    add(("permission", t - 5), go, (-5, "PermissionRequest", ASK), status="waiting")
    add(("plan", t - 5), go, (-5, "PermissionRequest", {"tool_name": "ExitPlanMode"}), status="waiting")
    add(("permission", t - 5), go, (-7, "Stop", {"background_tasks": AGENTS}),
        (-5, "PermissionRequest", {**ASK, "agent_id": "a1"}),
        status="waiting")
    add(("question", t - 5), go, (-5, "Elicitation", {"message": "Which?"}), status="waiting")
    add(("stopped", t - 5), go, (-5, "Stop", {}), status="idle")
    add(("error", t - 5), go, (-5, "StopFailure", {"error": "x"}), status="idle")
    add("working", go, (-5, "Stop", {"background_tasks": AGENTS}), status="busy")
    add("gone", go, (-5, "SessionEnd", {"reason": "other"}))
    add("working", go, (-7, "Stop", {}), (-5, "UserPromptSubmit", {"prompt": NOTE}), status="busy")
    lone.settles(rows)
    for signum in (signal.SIGKILL, signal.SIGTERM):
        asks = [(row["session_id"], row["ask"], row["agent"], row["background_tasks"]) for row in lone.queue()]
        lone.restart(signum)
        assert lone.differ(rows) == {}, "at the first answer already"
        lone.settles(rows)
        assert [(row["session_id"], row["ask"], row["agent"], row["background_tasks"]) for row in lone.queue()] == asks


# ---- sleep -------------------------------------------------------------------------------------------------------------

NIGHT = 9 * 3600


@everywhere
@pytest.mark.parametrize("state", ["stopped", "permission", "working", "interrupted", "parked", "fresh", "error"])
def test_sleep_all_clocks_jump_by_nine_hours_between_two_looks(known, state):
    tale = {"stopped": stopped, "permission": dialog, "working": begun, "parked": begun, "error": begun,
            "interrupted": begun}.get(state, lambda known: Tale(*known).hear("SessionStart", 1, source="startup"))(known)
    if state == "interrupted":
        tale.shows("idle", 4).read(line("interrupted", 4, MARK)).look(5)
    elif state == "parked":
        tale.hear("Stop", 5, background_tasks=AGENTS)
    elif state == "error":
        tale.hear("StopFailure", 5, error="overloaded").shows("idle", 5.05)
    elif state == "fresh":
        tale.shows("idle", 1.05)
    before, was = tale.lives_on(8).queue, tale.state
    assert [reason for reason, _ in before] == ([state] if state not in ("working", "parked", "fresh") else [])
    tale.look(8 + NIGHT)
    late = state == "parked" and not known[1]  # nobody can tell any more that its subagents live: it must not be hidden
    assert tale.queue == ([("stopped", 5)] if late else before)
    after = tale.queue
    assert late or tale.state == was
    assert ("quiet 9h00m" in tale.row()["notes"]) == (state == "working" and not known[1])
    assert tale.lives_on(8 + NIGHT + 3).queue == after
    tale.hear("UserPromptSubmit", NIGHT + 20, prompt="good morning").shows("busy", NIGHT + 20.05).lives_on(NIGHT + 22)
    assert (tale.queue, tale.state) == ([], "working")
    tale.hear("Stop", NIGHT + 30).shows("idle", NIGHT + 30.05)
    assert tale.lives_on(NIGHT + 33).queue == [("stopped", NIGHT + 30)]


@everywhere
def test_sleep_what_was_snoozed_for_ten_minutes_is_offered_in_the_morning(known):
    tale = stopped(known).skip(snoozed_until=8 + 600.0).look(9)
    assert tb.offered(tb.waiting(tale.board, tale.now), tale.now) == []
    tale.look(NIGHT)
    assert [s.session_id for s in tb.offered(tb.waiting(tale.board, tale.now), tale.now)] == ["s1"]
    assert tale.skip(snoozed_until=tb.FOREVER).look(2 * NIGHT).session().wait.snoozed_until == tb.FOREVER


@pytest.mark.parametrize("hooks", [True, False], ids=["hooks", "no-hooks"])
def test_sleep_a_daemon_that_was_stopped_is_right_soon_after_it_goes_on(lone, hooks):
    """SIGSTOP while records and transcripts change and hooks are fired; right within 1.2 s of SIGCONT, and steady."""
    lone.start()
    t = time.time()
    names = ["allowed", "finished", "denied", "dead", "ended", "asks", "cleared", "same", "woken"]
    claudes = {name: lone.claude() for name in names}
    waits = {name: name not in ("asks", "finished") for name in names}
    for name, claude in claudes.items():
        claude.write(claude.prompt(t - 9))
        if hooks:
            claude.hear("UserPromptSubmit", t - 9, prompt="go")
        if waits[name]:
            claude.write(claude.call(t - 5.1)).record("waiting", t - 4.9, waitingFor="permission prompt")
            if hooks:
                claude.hear("PermissionRequest", t - 5, **ASK)
        else:
            claude.record("busy", t - 8.9)
    since = t - 5 if hooks else t - 4.9
    rows = {claude: ("permission", since) if waits[name] else "working" for name, claude in claudes.items()}
    lone.settles(rows, 3)
    lone.process.send_signal(signal.SIGSTOP)
    try:
        c, n = claudes, time.time()
        c["allowed"].record("busy", n)
        c["finished"].record("idle", n).write(c["finished"].says(n - 0.02), c["finished"].ended(n - 0.01))
        c["denied"].record("idle", n).write(c["denied"].refused(n - 0.02), c["denied"].mark(n - 0.01))
        c["dead"].die()
        c["asks"].record("waiting", n, waitingFor="input needed")
        c["asks"].write(c["asks"].call(n - 0.1, "AskUserQuestion", {"questions": []}))
        c["cleared"].record("idle", n, sessionId="cleared-%s" % hooks)
        c["ended"].card.unlink()
        c["ended"].die()
        c["woken"].record("busy", n - 0.5)
        c["woken"].write(c["woken"].result(n - 0.4), c["woken"].says(n - 0.3), c["woken"].ended(n - 0.2))
        c["woken"].record("idle", n)
        rows.update({c["allowed"]: "working", c["finished"]: ("stopped", n - 0.01), c["denied"]: ("interrupted", n - 0.01),
                     c["dead"]: "gone", c["asks"]: ("question", n), c["cleared"]: "gone", c["ended"]: "gone",
                     c["woken"]: ("stopped", n - 0.2)})
        if hooks:
            for name, event_name in (("finished", "Stop"), ("asks", "PermissionRequest"), ("ended", "SessionEnd"),
                                     ("woken", "Stop")):
                seconds, code, output = emitted(lone, c[name], event_name, tool_name="AskUserQuestion",
                                                tool_input={"questions": []})
                assert (code, output) == (0, b"") and seconds < 2
            rows.update({c[name]: None for name in ("finished", "asks", "woken")})  # their `since` is the hook's
        time.sleep(0.5)
    finally:
        lone.process.send_signal(signal.SIGCONT)
    lone.settles(rows, 1.2, steady=2)
    if hooks:
        now = lone.states()
        assert [now[c[name].id][0] for name in ("finished", "asks", "woken")] == ["stopped", "question", "stopped"]
    assert len(lone.queue()) == len(set(lone.waiting())) == 5

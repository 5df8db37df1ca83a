#!/usr/bin/env python3
"""Trail Boss finds the Claude Code session that waits for you, and takes you to its tmux pane.

      hook event ─ emit ─► POST /event ─┐                     ┌─► list / show
      session record, transcript, ──────┴─► Event ─► Board ───┼─► jump ─► tmux argv
      process and pane liveness             (what came) (who is stuck) └─► history ─► explain

The file reads in that order. Each section has a banner that says why it is as it is:

  above the line, values in and values out; `now` and text are handed in
     1 TYPES     the values that the rest is about: Event, Record, Session, Board, World
     2 EVENTS    a hook's payload, a session record or a transcript line, as it came, to a value
     3 BOARD     the state machine: what each witness says, and which one is believed
     4 QUEUE     who waits, in which order; skip, snooze, the next one
     5 NAVIGATE  which tmux client moves, and the tmux commands that move it
     6 VIEW      the text and the JSON that people and programs read
     7 SETTINGS  the texts of what is installed: our hooks in settings.json, our line in tmux.conf, a service
  below the line, the world
     8 DISK      the state folder, the database, the spool, Claude Code's records and transcripts
     9 SYSTEM    processes and tmux
    10 EMIT      the hook's side, where there is no curl
    11 DAEMON    the one Board, its tick, and HTTP on the loopback
    12 INSTALL   what goes onto a person's machine, and leaves it again
    13 COMMANDS  what a person types

The rule of the whole (section 3): every witness has its own time, and the newest is believed. A session that can't go on
without the person is in the queue; when in doubt it stays there.

Exit codes: 0 done; 1 could not, and says what to do; 2 usage; 3 no daemon answers; 4 nothing is waiting.
"""
from __future__ import annotations

# What is missing here (http.client, http.server, sqlite3, argparse, difflib...) is imported where it is used: each of those
# takes long to load, and most commands use few of them.
import contextlib
import datetime
import errno
import fcntl
import glob
import io
import json
import os
import posixpath
import pwd
import re
import select
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import traceback
import unicodedata
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

VERSION = "0.1"

# ======================================================================================================================
# 1 TYPES
# Values only: a NamedTuple is changed by _replace, compared by ==, and printed whole when a test fails. Times are seconds
# since the epoch, as floats. The names are Claude Code's and tmux's own.


class Fault(Exception):
    """Something could not be done: one sentence for a person that says what, where, and what to do about it."""

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code


class Pane(NamedTuple):
    """Which pane. Pane ids start at %0 again in each tmux server, so the id alone names nothing (facts.md C3)."""
    socket: str
    server_pid: int
    pane_id: str


class Process(NamedTuple):
    """A process; `start` (as the system prints it) tells it from a later one with the same pid. "" if it was not found."""
    pid: int
    start: str
    tty: str = ""


class Event(NamedTuple):
    """One hook event. `data` has the payload's fields that we use, long texts cut; `at` is when it was made."""
    event_id: str
    at: float
    name: str
    session_id: str
    data: Dict[str, Any]
    agent_id: str = ""
    claim: Optional[Pane] = None
    process: Optional[Process] = None
    entrypoint: str = ""
    config: str = ""
    project_dir: str = ""
    job: bool = False


class Record(NamedTuple):
    """Claude Code's own record of a live process: <config>/sessions/<pid>.json. `at` is when `status` last changed."""
    pid: int
    session_id: str
    status: str = ""
    waiting_for: str = ""
    at: float = 0.0
    started_at: float = 0.0
    proc_start: str = ""
    cwd: str = ""
    kind: str = ""
    entrypoint: str = "cli"
    name: str = ""
    config: str = ""
    foreign: bool = False


class Context(NamedTuple):
    """What the end of a transcript shows: what was said last, a tool call with no result, and the last lines."""
    message: str = ""
    tool_name: str = ""
    tool_input: Dict[str, Any] = {}
    lines: Tuple[Tuple[str, str], ...] = ()


class Line(NamedTuple):
    """What one line of a transcript says, at its own time. kind: prompt; woken (a prompt that a machine made); said, final
    (the last words of a turn) and call, by Claude; result, refused (by the person, without a word); interrupted; ended,
    parked (ended while subagents run); failed. open: the tools whose calls have no result yet. fresh: a message that came
    after the ones with those calls. decision: who allowed the call."""
    kind: str
    at: float
    text: str = ""
    agent_id: str = ""
    tool_name: str = ""
    tool_input: Dict[str, Any] = {}
    open: Tuple[str, ...] = ()
    fresh: bool = False
    decision: str = ""


class Ask(NamedTuple):
    """A dialog that a hook told of. The main thread's agent_id is ""."""
    agent_id: str
    agent_type: str
    reason: str
    tool_name: str
    tool_input: Dict[str, Any]
    at: float


class End(NamedTuple):
    """How the last turn ended, from Stop or StopFailure. parked: subagents still ran, so that it will wake itself."""
    reason: str
    at: float
    text: str
    parked: bool = False


class Wait(NamedTuple):
    """One stretch of waiting: an item of the queue."""
    reason: str
    since: float
    text: str = ""
    tool_name: str = ""
    tool_input: Dict[str, Any] = {}
    agent: str = ""
    witness: str = ""
    fact: str = ""
    at: float = 0.0
    skipped_at: float = 0.0
    snoozed_until: float = 0.0


class Verdict(NamedTuple):
    """What the witnesses say of a session now. state: working, stuck, idle (no turn yet) or gone."""
    state: str
    witness: str
    fact: str
    at: float
    reason: str = ""
    since: float = 0.0
    text: str = ""
    ask: Optional[Ask] = None


class Session(NamedTuple):
    """All that is known of one session: who and where it is, what each witness said last, and what follows from it."""
    session_id: str
    first_at: float = 0.0
    # who and where
    entrypoint: str = "cli"
    kind: str = ""
    config: str = ""
    cwd: str = ""
    project_dir: str = ""
    transcript_path: str = ""
    title: str = ""
    permission_mode: str = ""
    process: Optional[Process] = None
    claim: Optional[Pane] = None
    claimed_at: float = 0.0
    pane: Optional[Pane] = None
    uncertain: bool = False
    # what the hooks said
    heard: str = ""
    heard_at: float = 0.0
    says: str = "idle"
    fact: str = ""
    turn_at: float = 0.0
    turn_open: bool = False
    had_turn: bool = False
    queued: bool = False
    prompt_id: str = ""
    prompt: str = ""
    last_message: str = ""
    background: int = 0
    agents: Tuple[str, ...] = ()
    asks: Tuple[Ask, ...] = ()
    results: Tuple[Tuple[float, str, str, Dict[str, Any]], ...] = ()
    asked_at: float = 0.0
    end: Optional[End] = None
    # what the transcript said
    told_at: float = 0.0
    tells: str = ""
    told: str = ""
    told_text: str = ""
    turn_told: bool = False
    prompt_at: float = 0.0
    prompt_told: str = ""
    by_machine: bool = False
    stop_due: bool = False
    agents_at: float = 0.0
    decision: str = ""
    decided_at: float = 0.0
    # what the record said
    record: Optional[Record] = None
    before: Optional[Record] = None
    silent: bool = False
    answered_at: float = 0.0
    # what follows
    state: str = "idle"
    witness: str = ""
    why: str = ""
    state_at: float = 0.0
    wait: Optional[Wait] = None
    last_wait: Optional[Wait] = None
    ended_at: float = 0.0


class PaneView(NamedTuple):
    """A live pane as list-panes shows it. places: each (session id, session name, window index) that links its window."""
    pane_id: str
    tty: str
    pid: int
    dead: bool
    window_id: str
    pane_index: str
    places: Tuple[Tuple[str, str, str], ...]


class Server(NamedTuple):
    """A tmux server as it answered at `at`. pid 0: nobody listens on that socket any more."""
    socket: str
    pid: int
    at: float
    panes: Dict[str, PaneView]
    version: str = ""


class Client(NamedTuple):
    """An attached tmux client, and the session, window and pane that it looks at."""
    socket: str
    name: str
    tty: str
    activity: int
    control: bool
    readonly: bool
    session_id: str
    window_id: str
    pane_id: str


class World(NamedTuple):
    """One look around: the live session records by pid, each process that was looked for (None: it is gone), the tmux
    servers by socket."""
    records: Dict[int, Record] = {}
    processes: Dict[int, Optional[Process]] = {}
    servers: Dict[str, Server] = {}


class Board(NamedTuple):
    """Every session by id; and which session id each record has named since when, until it is believed."""
    sessions: Dict[str, Session] = {}
    sightings: Dict[int, Tuple[str, float]] = {}


# ======================================================================================================================
# 2 EVENTS
# What comes from outside is untrusted in form: Claude Code's fields come and go, and a transcript may hold anything. Here
# it becomes a value of section 1, or a Fault that says why not. Nothing is decided yet.

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
PANE_ID = re.compile(r"%[0-9]{1,9}\Z")
EVENT_ID = re.compile(r"[!-~]{1,200}\Z")  # another one is none: cut or mended, two events could have the same
STATUSES = ("busy", "waiting", "idle", "shell")
KEPT = ("prompt", "source", "reason", "tool_name", "tool_input", "message", "error", "last_assistant_message",
        "background_tasks", "session_title", "agent_type", "notification_type", "mcp_server_name", "url",
        "requested_schema", "cwd", "transcript_path", "permission_mode", "prompt_id")
LONGEST = 200_000  # characters of one text; a longer one is cut, and says so


def clip(value: Any, depth: int = 8) -> Any:
    """A JSON value within bounds: long texts cut, long lists shortened, what is nested too deep left out."""
    if isinstance(value, str):
        text = encodable(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters]"
    if isinstance(value, (list, dict)) and depth == 0:
        return None
    if isinstance(value, list):
        return [clip(item, depth - 1) for item in value[:500]]
    if isinstance(value, dict):
        return {encodable(str(key)[:500]): clip(item, depth - 1) for key, item in list(value.items())[:500]}
    return value if isinstance(value, (bool, int, float)) else None


def encodable(text: str) -> str:
    """Text with U+FFFD for each lone surrogate: a JSON escape can bring one in, and no file or socket takes it."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


FORGIVING: Dict[str, Any] = {
    "parse_constant": lambda name: None, "parse_int": lambda digits: int(digits) if len(digits) < 300 else None,
    "parse_float": lambda digits: float(digits) if abs(float(digits)) < 1e300 else None}
JSON = json.JSONDecoder(**FORGIVING)


def read_json(text: Any) -> Any:
    """JSON from outside. ValueError for whatever is wrong with it, also for nesting without end. A number that is none
    in strict JSON (NaN, 1e400), or has hundreds of digits, is null: the rest still counts."""
    try:
        return json.loads(text, **FORGIVING)
    except RecursionError:
        raise ValueError("nested too deep") from None


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float:
    """A finite number, else 0."""
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if fine else 0.0


def parse_claim(tmux: str, pane_id: str) -> Optional[Pane]:
    """The pane that $TMUX ("socket,server pid,session"; the path may have commas) and $TMUX_PANE name, if they name one."""
    found = re.match(r"(/[^\x00-\x1f\x7f]*),([1-9][0-9]{0,8}),[^,]*\Z", tmux)
    return Pane(found.group(1), int(found.group(2)), pane_id) if found and PANE_ID.match(pane_id) else None


def parse_event(body: bytes, headers: Mapping[str, str], now: float) -> Event:
    """A hook event from its payload and its X- headers (names in lower case). Fault if it can't be one.

    The payload has no time (facts.md A2): X-Event-Time is the emitter's; without one, or with one from the future, it
    happened now.
    """
    try:
        payload = read_json(body.decode("utf-8", "replace"))
    except ValueError as error:
        raise Fault(f"the event is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Fault("the event is not a JSON object")
    session_id, name = text_of(payload.get("session_id")), text_of(clip(payload.get("hook_event_name")))[:100]
    if not SESSION_ID.match(session_id):
        raise Fault("the event has no usable session_id")
    if not name:
        raise Fault("the event has no hook_event_name")
    try:
        at = min(float(headers.get("x-event-time") or now), now)
    except ValueError:
        at = now
    pid, event_id = headers.get("x-claude-pid", ""), headers.get("x-event-id", "")
    return Event(
        event_id=event_id if EVENT_ID.match(event_id) else "", at=at if at > 0 else now, name=name,
        session_id=session_id,
        data={key: clip(payload[key]) for key in KEPT if key in payload},
        agent_id=text_of(clip(payload.get("agent_id")))[:200],
        claim=parse_claim(headers.get("x-tmux", ""), headers.get("x-tmux-pane", "")),
        process=Process(int(pid), "") if re.match(r"[1-9][0-9]{0,8}\Z", pid) else None,
        entrypoint=headers.get("x-claude-entrypoint", ""), config=headers.get("x-claude-config", ""),
        project_dir=encodable(headers.get("x-claude-project-dir", "")), job=bool(headers.get("x-claude-job-dir")))


def parse_record(text: str, config: str = "", pid_domain: str = "") -> Optional[Record]:
    """Claude Code's session record, or None for anything odd: it is internal to Claude Code and may change (facts.md A12).

    Times in it are milliseconds. Before 2.1.2xx there is `updatedAt` and no `statusUpdatedAt`. A status that we do not
    know is none. pid_domain is our own pid namespace ("pid:[4026531836]"); a record from another one has a pid that
    means nothing here.
    """
    try:
        entry = clip(read_json(text))
    except ValueError:
        return None
    if not isinstance(entry, dict) or not SESSION_ID.match(text_of(entry.get("sessionId"))):
        return None
    pid = entry.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
        return None
    theirs = re.search(r"pid:\[[0-9]+\]", text_of(entry.get("pidDomain")))
    name = "" if entry.get("nameSource") == "derived" else text_of(entry.get("name"))
    times = [number_of(entry.get(key)) / 1000 for key in ("statusUpdatedAt", "updatedAt", "startedAt")]
    start = entry.get("procStart")
    return Record(
        pid=pid, session_id=entry["sessionId"], status=entry["status"] if entry.get("status") in STATUSES else "",
        waiting_for=text_of(entry.get("waitingFor")), at=next((at for at in times if at > 0), 0.0), started_at=times[2],
        proc_start=str(start) if isinstance(start, (str, int)) and not isinstance(start, bool) else "",
        cwd=text_of(entry.get("cwd")), kind=text_of(entry.get("kind")),
        entrypoint=text_of(entry.get("entrypoint")) or "cli", name=name[:500], config=config,
        foreign=bool(theirs and pid_domain and theirs.group() != pid_domain))


MACHINE_PROMPTS = ("<task-notification>", "<system-reminder>", "[SYSTEM NOTIFICATION", "<cross-session-message",
                   'Background agent "')


def is_machine_prompt(prompt: str) -> bool:
    """A prompt that Claude Code made itself, when a background task ended and the like (facts.md A9)."""
    return prompt.lstrip().startswith(MACHINE_PROMPTS)


def running_tasks(tasks: Any) -> List[Dict[str, Any]]:
    """Stop's background_tasks that still run; whatever has another form is not one."""
    return [task for task in tasks if isinstance(task, dict) and task.get("status") == "running"] \
        if isinstance(tasks, list) else []


def parse_time(text: Any) -> float:
    """A transcript's timestamp ("2026-11-30T12:37:57.597Z", always UTC) in epoch seconds; 0 for anything else."""
    found = re.match(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?Z\Z", text_of(text))
    if not found:
        return 0.0
    try:
        return datetime.datetime.fromisoformat(found.group(1) + "+00:00").timestamp() + float(found.group(2) or 0)
    except ValueError:
        return 0.0


ENTRY = '{"parentUuid":'
TORN = 20  # places of a torn line at which an entry is looked for in vain
LOCAL_COMMAND = ("<local-command", "<command-name>", "<command-message>", "<bash-input>", "<bash-stdout>")


def is_talk(entry: Any, session_id: str, agent_id: str = "") -> bool:
    """Is this transcript entry the main thread's (or this subagent's) own talk? Not what Claude Code writes for itself, nor
    a copy from another session (a fork brings the old lines along), nor another thread's."""
    return (isinstance(entry, dict) and entry.get("type") in ("user", "assistant", "system")
            and bool(entry.get("isSidechain")) == bool(agent_id) and entry.get("sessionId", session_id) == session_id
            and (not agent_id or entry.get("agentId", agent_id) == agent_id)
            and not any(entry.get(key) for key in ("isCompactSummary", "isVisibleInTranscriptOnly"))
            and (not entry.get("isMeta") or entry.get("promptSource") == "system"))  # a scheduled prompt is both


def blocks_of(entry: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The content of an entry's message, which is a text or a list of blocks."""
    message = entry.get("message") if isinstance(entry.get("message"), dict) else {}
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def said_in(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(filter(None, (text_of(block.get("text")).strip() for block in blocks if block.get("type") == "text")))


WORTH = re.compile(rb'"type"\s*:\s*"(?:user|assistant|system)"')  # most bytes of a transcript are in other lines
MARKER = "[Request interrupted by user"
REFUSAL = "The user doesn't want to proceed with this tool use"
WORDS = "the user said:"
FINAL = ("end_turn", "stop_sequence", "max_tokens", "refusal")
SPEAKERS = {"prompt": "you", "woken": "you", "interrupted": "you", "result": "result", "refused": "result"}
Calls = Dict[str, Tuple[str, Dict[str, Any], str]]
MOST_CALLS = 200


def parse_transcript(lines: Sequence[bytes], session_id: str, calls: Calls, agent_id: str = "",
                     headless: bool = False) -> List[Line]:
    """What whole transcript lines say, in their order in the file; one that can't be read is passed over (facts.md B).

    calls: the tool calls without a result, {id: (name, input, the id of their message)}; it is kept up to date, for the
    lines that come next. agent_id: it is the transcript of this subagent. A line without a time has 0. headless: also what
    `claude -p --resume` wrote into the transcript of a session that is open in a pane.
    """
    found: List[Line] = []
    for entry in (entry for line in lines if WORTH.search(line) for entry in entries_of(line)):
        if is_talk(entry, session_id, agent_id) and (headless or not text_of(entry.get("entrypoint")).startswith("sdk")):
            kinds = {"user": lines_of_user, "assistant": lines_of_assistant, "system": lines_of_system}[entry["type"]]
            at = parse_time(entry.get("timestamp"))
            found += [line._replace(at=at, agent_id=agent_id) for line in kinds(entry, calls)]
            while len(calls) > MOST_CALLS:
                calls.pop(next(iter(calls)))
    return found


def lines_of_user(entry: Mapping[str, Any], calls: Calls) -> List[Line]:
    """The results of tool calls, the mark of an interruption, or a prompt. A person's prompt leaves no call open: one that
    has no result by then never gets one (Claude Code was killed)."""
    found, blocks = [], blocks_of(entry)
    text = said_in(blocks)
    pictures = [block for block in blocks if block.get("type") in ("image", "document")]
    for block in (block for block in blocks if block.get("type") == "tool_result"):
        name, tool_input, _ = calls.pop(text_of(block.get("tool_use_id")), ("", {}, ""))
        found.append(Line("refused" if was_refused(entry, block) else "result", 0.0, result_text(block.get("content")), "",
                          name, tool_input, open_tools(calls), False, decision_of(entry)))
    if text.startswith(MARKER):
        calls.clear()
        found.append(Line("interrupted", 0.0, text))
    elif not found and not text.startswith(LOCAL_COMMAND) and (text or pictures):
        origin = entry.get("origin") if isinstance(entry.get("origin"), dict) else {}
        machine = origin.get("kind", "human") != "human" or entry.get("promptSource") == "system" or is_machine_prompt(text)
        if not machine:
            calls.clear()
        found.append(Line("woken" if machine else "prompt", 0.0, text))
    elif found and text:
        found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{text}")  # the comment with which it was allowed
    return found


def was_refused(entry: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Did the person refuse or stop this call, and say nothing? With a comment the turn goes on. Before 2.1.204 only the
    text tells."""
    kind, text = entry.get("toolDenialKind"), result_text(block.get("content"))
    denied = kind in ("user-rejected", "interrupted") if kind else bool(block.get("is_error")) and text.startswith(REFUSAL)
    return denied and not entry.get("holdsPersonsWords") and WORDS not in text


def decision_of(entry: Mapping[str, Any]) -> str:
    """Who decided on the call that this result is of, as Claude Code 2.1.332 writes it down; "" before."""
    decided = entry.get("permissionDecision")
    if not isinstance(decided, dict):
        return ""
    source = text_of(decided.get("source"))
    who = "the person" if source.startswith("user") else source or "somebody"
    return f"{'refused' if decided.get('decision') == 'reject' else 'allowed'} by {who}"


def open_tools(calls: Calls) -> Tuple[str, ...]:
    return tuple(sorted({name for name, _, _ in calls.values()}))


def lines_of_assistant(entry: Mapping[str, Any], calls: Calls) -> List[Line]:
    """Claude's words and tool calls; an API error (facts.md B2). What Claude Code makes up in its place says nothing."""
    message = entry.get("message") if isinstance(entry.get("message"), dict) else {}
    blocks, message_id = blocks_of(entry), text_of(message.get("id"))
    text = said_in(blocks)
    fresh = message_id not in [call[2] for call in calls.values()]
    if entry.get("isApiErrorMessage"):
        return [Line("failed", 0.0, text, fresh=fresh)]
    if message.get("model") == "<synthetic>":
        return []
    found = []
    for block in (block for block in blocks if block.get("type") == "tool_use"):
        name, tool_input = text_of(block.get("name")), block.get("input")
        tool_input = tool_input if isinstance(tool_input, dict) else {}
        calls[text_of(block.get("id"))] = (name, tool_input, message_id)
        found.append(Line("call", 0.0, "" if found else text, "", name, tool_input, open_tools(calls), fresh))
    if found:
        return found
    return [Line("final" if message.get("stop_reason") in FINAL else "said", 0.0, text, open=open_tools(calls), fresh=fresh)]


def lines_of_system(entry: Mapping[str, Any], _: Calls) -> List[Line]:
    """The end of a turn. With subagents or workflows running it will wake itself; Claude Code says how many there are."""
    if entry.get("subtype") != "turn_duration":
        return []
    pending = [number_of(entry.get(key)) for key in ("pendingBackgroundAgentCount", "pendingWorkflowCount")]
    return [Line("parked" if any(n > 0 for n in pending) else "ended", 0.0)]


def context_of(lines: Sequence[Line], calls: Calls) -> Context:
    """The context that these lines leave, with the calls that are open after them."""
    shown: List[Tuple[str, str]] = []
    for line in lines:
        if line.text or line.kind in ("result", "refused"):
            shown.append((SPEAKERS.get(line.kind, "claude"), line.text))
        if line.kind == "call":
            shown.append(("tool", f"{line.tool_name}: {one_line_input(line.tool_name, line.tool_input)}"))
    name, tool_input, _ = next(iter(calls.values()), ("", {}, ""))  # their dialogs come one at a time, in this order
    message = next((text for who, text in reversed(shown) if who == "claude"), "")
    return Context(message, name, tool_input, tuple((who, text[:2000]) for who, text in shown[-40:]))


def entries_of(line: bytes) -> List[Any]:
    """What a transcript line holds: one entry. Where a write was torn, NULs stand before it, or a second entry begins
    inside the line (scenarios.md 55): then whatever can be read. No text can fake that, since its quotes are escaped."""
    text, found, at = line.decode("utf-8", "replace").strip("\0\ufeff \r"), [], 0
    try:
        return [clip(read_json(text), depth=12)]  # the input of a call, four deeper, is cut as a hook's is: for closes()
    except ValueError:
        pass
    vain = 0
    while at >= 0 and vain < TORN:
        try:
            entry, at = JSON.raw_decode(text, at)
            found.append(clip(entry, depth=12))
        except (ValueError, RecursionError):
            at, vain = at + 1, vain + 1
        at = text.find(ENTRY, at)
    return found


def result_text(content: Any) -> str:
    """The text of a tool_result, which is a string or a list of blocks."""
    if isinstance(content, list):
        content = "\n".join(text_of(block.get("text")) for block in content if isinstance(block, dict))
    return text_of(content).strip()


TELLING = ("command", "file_path", "notebook_path", "plan", "question", "url", "query", "pattern", "path", "skill",
           "description")


def one_line_input(tool_name: str, tool_input: Any) -> str:
    """What a tool call is about, in a few words: the command, the file, the question, the plan's title. … if a command
    or a text goes on; the comments that a command begins with are not the command."""
    if not isinstance(tool_input, dict):
        return ""
    questions = tool_input.get("questions")
    if tool_name == "AskUserQuestion" and isinstance(questions, list):
        asked = [text_of(q.get("question")).strip() for q in questions if isinstance(q, dict)]
        if any(asked):
            return " / ".join(filter(None, asked))
    for key in TELLING:
        lines = [line.strip("# \t" if key == "plan" else None) for line in text_of(tool_input.get(key)).splitlines()]
        lines = [line for line in lines if line]
        if key == "command":
            lines = [line for line in lines if not line.startswith("#")] or lines
        if lines:
            return lines[0] + (" …" if len(lines) > 1 and key != "plan" else "")
    return json.dumps(tool_input, ensure_ascii=False) if tool_input else ""


# ======================================================================================================================
# 3 BOARD
# Three steps, each a plain function. hear(), note_line() and note_record() only note what a witness said, with its time;
# judge() decides from the notes which one is believed; settle() turns the verdict into a wait with its `since`. So what
# comes late, twice or in the wrong order can't undo a later truth: it is noted under its own time, and judged like the rest.

DOUBT = 0.7            # s: for so long after a hook event, an older record may just not be written yet
LEAD = 1.0             # s: a record may turn busy this long before the prompt's hook gets to look at its clock
STOP_GRACE = 0.3       # s: a record turns idle at a turn's end up to this long before the Stop event is here
AHEAD = 5.0            # s: a time that is further in the future than this was told by another clock
HELD = 0.6             # s: a resumed session's record first shows a provisional id (facts.md A0)
ENDING = 5.0           # s: a process may live on for so long after its SessionEnd
BEGUN = 10.0           # s: and so long after its process began, no more
FLASH = 2.0            # s: a command of Claude Code's own (/model) makes a session busy for no longer than this
QUEUE_START = 2.0      # s: a prompt that was typed while it worked begins its turn this soon after the Stop
PARKED = 600.0         # s: subagents that run on for longer than this, without a record and a line of theirs, may be dead
SKEW = 2.0             # s: a hook's time may be this late: its process starts after what it tells of
LATE = 3.0             # s: and a prompt's hook, on a machine under load, so late that its whole turn was over before
QUIET = 5.0            # s: last words of Claude that nothing follows for so long, no Stop either, were the turn's end
SAME_ASK = 2.0         # s: the same dialog told again within this time is an echo (hooks installed in two places)
WAITING_FOR = {"permission prompt": "permission", "input needed": "question", "sandbox request": "permission",
               "worker request": "permission"}
TOOL_REASONS = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
AGENT_TYPES = ("subagent", "workflow", "teammate")


def hear(s: Session, e: Event) -> Session:
    """Note a hook event, if it counts. Of a session that is open in two panes only the person's prompt, or a dialog, moves
    the row to its own: there the person was last, or is asked."""
    if not counts(s, e):
        return s
    if s.ended_at:
        s = s._replace(ended_at=0.0, process=None, claim=None, kind="")  # it may be anywhere by now
    elif is_headless(s.entrypoint) and not is_headless(e.entrypoint):
        s = s._replace(process=None)  # a person goes on with what `claude -p` began
    apart = is_elsewhere(s, e) or not (s.process and e.process) and e.claim and s.claim not in (None, e.claim)
    if apart and e.name not in ("SessionStart", "UserPromptSubmit", "PermissionRequest", "Elicitation"):
        e = e._replace(process=None, claim=None)
    s = learn(s, e)
    note = NOTES.get(e.name)
    return note(s, e) if note else s


def counts(s: Session, e: Event) -> bool:
    """Does an event say anything of a session? Not what is older than its end, or of a process that is dead; nor what
    `claude -p --resume` does with a session that is open in a pane; nor the start or end of another process that had it open
    (a fork reports its parent's id); nor a start that is told of after the first turn."""
    if e.at <= s.ended_at:
        return False
    if s.ended_at:
        lives = e.process and e.process.start and not s.fact.startswith("SessionEnd")
        return bool(lives) or e.name in ("SessionStart", "UserPromptSubmit")
    same_kind = is_headless(e.entrypoint) == is_headless(s.entrypoint)
    if s.first_at and not same_kind and is_headless(e.entrypoint):
        return False
    if same_kind and e.name in ("SessionStart", "SessionEnd") and is_elsewhere(s, e):
        return False
    return not (e.name == "SessionStart" and e.data.get("source") in ("startup", "clear") and s.had_turn and s.heard)


def is_headless(entrypoint: str) -> bool:
    """`claude -p`, or an SDK's; what tells none is taken for a person's."""
    return entrypoint not in ("", "cli")


def is_elsewhere(s: Session, e: Event) -> bool:
    """Does it come from another process than the session is known to be in; or, of one that tells no pid, another pane?"""
    if s.process and e.process:
        return s.process.pid != e.process.pid
    return bool(s.process and e.claim and s.claim not in (None, e.claim))


def learn(s: Session, e: Event) -> Session:
    """Who and where, from any event; the newest event's word counts."""
    s = s._replace(
        first_at=s.first_at or e.at, entrypoint=e.entrypoint or s.entrypoint, config=e.config or s.config,
        project_dir=e.project_dir or s.project_dir, kind="bg" if e.job else s.kind,
        title=text_of(e.data.get("session_title")) or s.title)
    if e.at < max(s.claimed_at, s.heard_at):
        return s
    if e.claim and not e.job:
        s = s._replace(claim=e.claim, claimed_at=e.at)
    if e.name in NOTES and e.data.get("source") != "compact":
        s = s._replace(heard=e.name)
    return s._replace(process=e.process or s.process, cwd=text_of(e.data.get("cwd")) or s.cwd,
                      transcript_path=text_of(e.data.get("transcript_path")) or s.transcript_path,
                      permission_mode=text_of(e.data.get("permission_mode")) or s.permission_mode)


def note_start(s: Session, e: Event) -> Session:
    """SessionStart: no turn yet. After compaction (source compact) it changes nothing."""
    if e.data.get("source") == "compact" or e.at < max(s.heard_at, s.turn_at):
        return s
    return s._replace(heard_at=e.at, says="idle", fact=f"SessionStart ({text_of(e.data.get('source'))})", turn_at=e.at,
                      turn_open=False, had_turn=False, queued=False, background=0, agents=(), asks=(), end=None,
                      turn_told=False, stop_due=False)


def note_prompt(s: Session, e: Event) -> Session:
    """UserPromptSubmit: working. Typed while it works, it is for after the next Stop, whose start no hook tells
    (captures/queued). A machine's prompt answers no dialog that a subagent has open."""
    prompt = text_of(e.data.get("prompt"))
    machine = is_machine_prompt(prompt)
    s = s._replace(had_turn=True, prompt=s.prompt if machine or e.at < s.turn_at else prompt[:2000])
    told = bool(s.prompt_at) and abs(e.at - s.prompt_at) < LATE and same_text(prompt, s.prompt_told)
    named = bool(s.prompt_id) and e.data.get("prompt_id") == s.prompt_id
    if (told or named) and (s.asks or s.end and s.end.at > (s.prompt_at if told else s.turn_at)):
        return s  # its turn has asked or ended already: this one comes late, or looked at its clock late
    if told:  # the transcript told of it first; and it goes on telling, if a later hook was here before this one
        return s._replace(heard_at=max(s.heard_at, e.at), fact="UserPromptSubmit", turn_told=s.heard_at > e.at)
    if e.at < s.heard_at:
        return s._replace(turn_at=max(s.turn_at, e.at))
    if s.turn_open and s.state == "working" and not machine:
        return s._replace(heard_at=e.at, queued=True)
    return s._replace(heard_at=e.at, says="working", fact="UserPromptSubmit", turn_at=e.at, turn_open=True, queued=False,
                      asks=s.asks if machine else (), by_machine=machine, turn_told=False, stop_due=False)


def same_text(a: str, b: str) -> bool:
    return a.strip()[:200].rstrip() == b.strip()[:200].rstrip()


def note_ask(s: Session, e: Event) -> Session:
    """PermissionRequest or Elicitation: a dialog is up, of the main thread or of a subagent. No id ties it to a tool call
    (facts.md A3); the same ask again within SAME_ASK is an echo."""
    tool_name, tool_input = text_of(e.data.get("tool_name")), e.data.get("tool_input")
    if e.name == "Elicitation":
        tool_name, tool_input = "", {"question": e.data.get("message"), "server": e.data.get("mcp_server_name"),
                                     "url": e.data.get("url"), "wanted": e.data.get("requested_schema")}
        tool_input = {key: value for key, value in tool_input.items() if value}
    reason = "question" if e.name == "Elicitation" else TOOL_REASONS.get(tool_name, "permission")
    ask = Ask(e.agent_id, text_of(e.data.get("agent_type")), reason, tool_name,
              tool_input if isinstance(tool_input, dict) else {}, e.at)
    ended = bool(s.end and s.end.at > e.at)
    if ended and e.agent_id not in s.agents or not e.agent_id and s.turn_at > e.at:
        return s  # the turn that asked is over
    mine = [a for a in s.asks if a.agent_id == e.agent_id]
    if any(a.at > e.at or a._replace(at=0.0) == ask._replace(at=0.0) and e.at - a.at < SAME_ASK for a in mine):
        return s
    if any(at > e.at and tuple(call) == (e.agent_id, ask.tool_name, ask.tool_input) for at, *call in s.results):
        return s  # it was answered before this was here
    asks = tuple(sorted([a for a in s.asks if a not in mine] + [ask], key=lambda a: a.at))
    s = s if e.agent_id else s._replace(prompt_id=text_of(e.data.get("prompt_id")))
    s = s._replace(heard_at=max(s.heard_at, e.at), asked_at=max(s.asked_at, e.at), asks=asks, had_turn=True)
    return s if e.agent_id and s.says != "idle" else s._replace(says="working", fact=e.name, turn_open=not e.agent_id)


def note_notification(s: Session, e: Event) -> Session:
    """Notification repeats a dialog some 6 s later (facts.md A8). It counts only where nothing else told of the dialog."""
    reason = {"permission_prompt": "permission", "worker_permission_prompt": "permission",
              "elicitation_dialog": "question"}.get(text_of(e.data.get("notification_type")))
    if not reason or s.asks or e.at - s.asked_at < 10 or e.at < s.heard_at:
        return s
    ask = Ask(e.agent_id, "", reason, "", {"description": text_of(e.data.get("message"))}, e.at)
    return s._replace(heard_at=e.at, asked_at=e.at, asks=(ask,), had_turn=True)


def note_stop(s: Session, e: Event) -> Session:
    """Stop and StopFailure: the main turn's end, well or in an API error. It ends the main ask, and those of agents that no
    longer run. With subagents running the session will wake itself; shells, monitors and crons hide nothing."""
    if s.end and e.at <= s.end.at or e.at < s.turn_at:
        return s
    if s.stop_due and e.at < s.turn_at + SKEW:  # of the turn before: the transcript told of this one first
        return s._replace(stop_due=False)
    tasks = running_tasks(e.data.get("background_tasks"))
    agents = tuple(text_of(task.get("id")) for task in tasks if task.get("type") in AGENT_TYPES)
    text = text_of(e.data.get("last_assistant_message")) or text_of(e.data.get("error"))
    asks = tuple(a for a in s.asks if a.at > e.at or a.agent_id and a.agent_id in agents
                 or agents and set(a.tool_input) == {"description"})  # whose a Notification's is, nobody knows
    going_on = any(not a.agent_id for a in asks)  # the next turn's ask was here first
    return s._replace(heard_at=max(s.heard_at, e.at), says="working" if going_on else "stuck", fact=e.name,
                      prompt_id=text_of(e.data.get("prompt_id")),
                      turn_open=going_on, had_turn=True, asks=asks, agents=agents, background=len(tasks), turn_told=False,
                      end=End("stopped" if e.name == "Stop" else "error", e.at, text, bool(agents)),
                      last_message=text or s.last_message)


def note_end(s: Session, e: Event) -> Session:
    """SessionEnd: gone, if nothing newer was heard."""
    if e.at < s.heard_at:
        return s
    return s._replace(heard_at=e.at, ended_at=e.at, fact=f"SessionEnd ({text_of(e.data.get('reason'))})", asks=())


def note_result(s: Session, e: Event) -> Session:
    """A tool call that began or ended, where somebody hooks those: its dialog was answered, and the main thread is at work.
    PermissionRequest has no tool_use_id, so that the call's name and input must tell which dialog it was."""
    one = e.name in ("PreToolUse", "PostToolUse", "PostToolUseFailure")
    call = (text_of(e.data.get("tool_name")), e.data.get("tool_input"))
    asks = tuple(a for a in s.asks if a.agent_id != e.agent_id or a.at >= e.at
                 or one and ((a.tool_name, a.tool_input) != call or e.name == "PreToolUse"))
    if len(asks) < len(s.asks):
        s = s._replace(heard_at=max(s.heard_at, e.at), asks=asks)
    elif one and e.name != "PreToolUse":  # its PermissionRequest may come yet
        s = s._replace(results=(*s.results[-3:], (e.at, e.agent_id, *call)))
    if one and not e.agent_id and s.says == "stuck" and e.at > s.heard_at:
        s = s._replace(heard_at=e.at, says="working", fact=e.name, turn_open=True)
    return s


NOTES = {"SessionStart": note_start, "UserPromptSubmit": note_prompt, "PermissionRequest": note_ask,
         "Elicitation": note_ask, "Stop": note_stop, "StopFailure": note_stop, "SessionEnd": note_end,
         "Notification": note_notification, "PreToolUse": note_result, "PostToolUse": note_result,
         "PostToolUseFailure": note_result, "PostToolBatch": note_result, "ElicitationResult": note_result,
         "SubagentStop": note_result}


def take_event(board: Board, e: Event) -> Board:
    """Note an event on the board; its session is registered if it was not. One process has one session: a new id in it
    (/clear, a plan accepted with cleared context) replaces the old."""
    sessions = dict(board.sessions)
    sessions[e.session_id] = now_s = hear(sessions.get(e.session_id) or Session(e.session_id), e)
    if not now_s.ended_at and now_s.process == e.process and is_interactive(now_s):
        for other in board.sessions.values():
            midway = other.state == "working" and e.name != "SessionStart" and other.first_at < now_s.first_at
            # (then this is an old Claude Code's subagent: scenarios.md 18)
            if other.session_id != e.session_id and not other.ended_at and e.at > other.heard_at and not midway and (
                    same_process(other.process, e.process)
                    or not other.process and e.claim and other.claim == e.claim):
                sessions[other.session_id] = other._replace(
                    ended_at=e.at, fact=f"session {e.session_id[:8]} took its place")
    return board._replace(sessions=sessions)


def same_process(a: Optional[Process], b: Optional[Process]) -> bool:
    return bool(a and b and (a.pid, a.start) == (b.pid, b.start))


def note_line(s: Session, line: Line) -> Session:
    """Note a line of the transcript: it may end a dialog, begin a turn, and tell how the turn goes. It counts by its own
    time, for lines come late and not in order; noted twice it says the same, so that a file can be read again."""
    asks = tuple(a for a in s.asks if not closes(line, a))
    s = s._replace(asks=asks) if len(asks) < len(s.asks) else s
    if line.agent_id:
        return s._replace(agents_at=max(s.agents_at, line.at))
    if line.at < s.turn_at:
        return s
    lead = 0.0 if s.says == "idle" else LEAD  # within it, it is the prompt that a hook told of
    if line.kind in ("prompt", "woken") and line.at > s.turn_at + lead and not (s.end and s.end.at > line.at + SKEW):
        s = told_turn(s, line)
    over = line.kind in ("ended", "parked") and TELLS[s.tells] in ("interrupted", "error")  # says no more than that it is
    if line.at < s.told_at or over and s.told_at >= s.turn_at:
        return s
    words = line.text if line.kind in ("said", "final", "call") else ""
    if line.decision.endswith("the person"):
        s = s._replace(decision=f"{line.tool_name or 'a call'} {line.decision}", decided_at=line.at)
    return s._replace(told_at=line.at, tells=line.kind, told=told_fact(line), last_message=words or s.last_message,
                      told_text=line.text[:2000] if line.kind == "failed" else "",
                      had_turn=s.had_turn or line.kind not in ("refused", "interrupted"))  # a fork makes such marks up


def closes(line: Line, ask: Ask) -> bool:
    """Does a line of the same thread show that a dialog is over? A result does if it is this call's, or if no call of this
    tool is open after it; so does a message after the one with the call. A sibling's result or further call does not, nor
    does a machine's prompt."""
    if line.at <= ask.at or line.agent_id != ask.agent_id or line.kind == "woken":
        return False
    if line.kind in ("result", "refused"):
        over = ask.tool_name not in line.open if ask.tool_name else not line.open  # an Elicitation names no tool
        return over or (line.tool_name, line.tool_input) == (ask.tool_name, ask.tool_input)
    return line.fresh if line.kind in ("said", "final", "call", "failed") else True


def told_turn(s: Session, line: Line) -> Session:
    """The turn that a prompt in the transcript begins: of its start, no hook has told (yet). The Stop of the turn before it
    may still be on its way."""
    late = s.turn_open and s.tells in ("ended", "parked", "final") and not (s.end and s.end.at >= s.turn_at)
    return s._replace(says="working", fact="a prompt", turn_at=line.at, turn_open=True, had_turn=True, queued=False,
                      prompt=line.text[:2000] if line.kind == "prompt" else s.prompt, by_machine=line.kind == "woken",
                      prompt_at=line.at, prompt_told=line.text[:200], turn_told=True, stop_due=late)


def told_fact(line: Line) -> str:
    """A line in a few words, for the history."""
    call = line.tool_name or "a call"
    return {"prompt": "a prompt", "woken": "a prompt of a machine", "said": "Claude's words", "final": "Claude's last words",
            "call": f"a call of {call}", "result": f"the result of {call}", "refused": f"{call} refused",
            "interrupted": "the mark of an interruption", "ended": "the turn's end",
            "parked": "the turn's end, with subagents running", "failed": "an API error"}[line.kind]


def take_lines(board: Board, session_id: str, lines: Sequence[Line], now: float) -> Board:
    """The board with lines of a session's transcript noted. Those without a time, or from the future, say nothing."""
    s = board.sessions[session_id]
    for line in lines:
        if not s.ended_at and 0 < line.at <= now + AHEAD:
            s = note_line(s, line)
    return board._replace(sessions={**board.sessions, session_id: s})


def note_record(s: Session, record: Optional[Record]) -> Session:
    """Note what the session's record says now. `dialog open` is a menu of the person's own, and a record without a status
    says nothing: the last word stands, but for the moment of busy in which a menu opens. A record that leaves `waiting`, or
    waits anew, means that the dialog on the screen was answered."""
    if record and (not record.status or record.waiting_for == "dialog open"):
        flash = s.record and s.record.status == "busy" and s.heard_at < s.record.at and record.at < s.record.at + FLASH
        return s._replace(silent=True, record=s.before if flash and record.status else s.record)
    s = s._replace(silent=False)
    if record == s.record:
        return s
    was = s.record or Record(0, "")
    if record and (record.status != "waiting" or was.status == "waiting" and record.at > was.at):
        on_screen = shown_ask(s, record.at if record.status != "waiting" else was.at + STOP_GRACE)
        s = s._replace(asks=tuple(a for a in s.asks if a is not on_screen),
                       answered_at=record.at if on_screen and record.status != "waiting" else s.answered_at)
    if record and record.at > s.turn_at and (record.status == "waiting" or was.status == "busy" and was.at > s.turn_at
                                             and (not s.heard_at or record.at > was.at + FLASH)):
        s = s._replace(had_turn=True)
    if record and record.status == "busy" and s.queued and s.end and s.end.at < record.at < s.end.at + QUEUE_START:
        s = s._replace(turn_open=True, queued=False)
    return s._replace(record=record, before=s.record)


def shown_ask(s: Session, before: float) -> Optional[Ask]:
    """The ask whose dialog is on the screen. Dialogs come one at a time: the oldest since one was answered last."""
    asks = [a for a in s.asks if a.at < before]
    return next((a for a in asks if a.at > s.answered_at), asks[0] if asks else None)


def judge(s: Session, now: float) -> Optional[Verdict]:
    """The rule: the newest witness is believed, at once. A record older than the last hook event is believed again DOUBT
    after that event, and only if it belongs to this turn and still says so; not where hook and transcript agree against it.
    Without a record, the hooks are believed until the transcript contradicts them. None: too early to say, so nothing
    changes."""
    if s.ended_at:
        return Verdict("gone", "hook" if s.fact.startswith("SessionEnd") else "process", s.fact, s.ended_at)
    r = s.record
    if r and not outvoted(s, r) and (r.at > s.heard_at or now - s.heard_at >= DOUBT and not s.silent
                                      and in_turn(s, r, now)):
        return judge_record(s, r, now)
    return judge_hooks(s, now)


def in_turn(s: Session, r: Record, now: float) -> bool:
    """Is a record about this turn? A dialog outlives the prompts of machines. And where a prompt does not make it busy, in a
    second, the prompt was told late: the record is about its turn."""
    late = s.before and s.before.status == "busy" and r.at >= s.turn_at - LATE and now - s.heard_at >= LEAD
    return r.at >= s.turn_at - (LEAD if r.status == "busy" else 0) or bool(late) or r.status == "waiting" and s.by_machine


def outvoted(s: Session, r: Record) -> bool:
    """Does the transcript know better than a record of before? Where a hook said too that the turn ended, the record is not
    written yet; where a menu of the person's own hides what it would say, it is of long ago."""
    ended = s.says == "stuck" and not (s.end and s.end.parked) and s.tells == "ended" and r.status == "busy"
    return s.told_at > r.at and (ended or s.silent)


def judge_hooks(s: Session, now: float) -> Verdict:
    """What the hooks say: an open dialog first, else what the last event said; or what the transcript says against it."""
    asks = [a for a in s.asks if a.at > s.answered_at]  # an older one is known only to say what a record's dialog is about
    if asks:
        ask = asks[0]
        told_by = "PermissionRequest" if ask.tool_name else "Notification" if set(ask.tool_input) == {"description"} else \
            "Elicitation"
        return stuck(ask.reason, ask.at, "hook", told_by, ask.at, ask=ask)
    against = s.says == "working" or s.says == "idle" and s.had_turn or \
        s.says == "stuck" and TELLS[s.tells] not in ("stopped", "parked")
    if s.turn_told or s.told_at > s.heard_at and against and s.tells:
        return judge_told(s, now)
    if s.says == "stuck" and s.end:
        if s.end.parked and now < max(s.end.at, s.agents_at) + PARKED:
            return Verdict("working", "hook", "Stop, with subagents still running", s.end.at)
        return stuck(s.end.reason, s.end.at, "hook", s.fact, s.end.at, s.end.text)
    return Verdict(s.says, "hook", s.fact, s.heard_at)


TELLS = {"": "", "prompt": "working", "woken": "working", "said": "working", "call": "working", "result": "working",
         "final": "stopped", "ended": "stopped", "parked": "parked", "refused": "interrupted", "interrupted": "interrupted",
         "failed": "error"}  # what a transcript's last line means


def judge_told(s: Session, now: float) -> Verdict:
    """What the transcript says. (A call without its result says nothing: running and asking look alike.)"""
    means, quiet = TELLS[s.tells], QUIET if s.tells == "final" else 0.0
    if means == "parked":
        means, quiet = "stopped", max(s.told_at, s.agents_at) + PARKED - s.told_at
    if means == "working" or now < s.told_at + quiet:
        return Verdict("working", "transcript", s.told, s.told_at)
    return stuck(means, s.told_at, "transcript", s.told, s.told_at, told_words(s))


def told_words(s: Session) -> str:
    """What a wait is about, by the transcript."""
    return {"error": s.told_text, "interrupted": s.prompt}.get(TELLS[s.tells], s.last_message)


def judge_record(s: Session, r: Record, now: float) -> Optional[Verdict]:
    """What the record says: it decides whether a session is stuck, the hooks and the transcript say why."""
    fact = r.status + (f", {r.waiting_for}" if r.waiting_for else "")
    if r.status == "waiting":
        ask = shown_ask(s, now + 1)
        if ask:
            return stuck(ask.reason, ask.at, "record", fact, r.at, ask=ask)
        return stuck(WAITING_FOR.get(r.waiting_for, "question"), r.at, "record", fact, r.at)
    if r.status not in ("idle", "shell"):
        return Verdict("working", "record", fact, r.at)
    if not s.had_turn:
        return Verdict("idle", "record", fact, r.at)
    late = r.at < s.turn_at  # the prompt's hook is: in_turn()
    turn_open, turn_at = s.turn_open and not late, s.before.at if late and s.before else s.turn_at
    told = TELLS[s.tells] if s.told_at >= turn_at and s.told_at > (s.end.at if s.end and not turn_open else 0) else ""
    if told in ("interrupted", "error") or told in ("stopped", "parked") and turn_open:
        told = "stopped" if told == "parked" else told
        return stuck(told, min(s.told_at, r.at), "record", f"{fact}; {s.told}", r.at, told_words(s))  # /compact moves r.at
    if turn_open and now < r.at + STOP_GRACE:
        return None  # the Stop may be on its way
    if turn_open:  # no Stop: it was denied or interrupted. Without hooks that is for the transcript to say
        how = ("stopped", s.last_message) if s.turn_told else ("interrupted", s.prompt)
        return stuck(how[0], r.at, "record", fact, r.at, how[1])
    if s.end and s.end.parked and now < r.at + STOP_GRACE:
        return None  # it is idle for a moment before the subagent's end wakes it
    if s.end:
        return stuck(s.end.reason, r.at if s.end.parked else s.end.at, "record", fact, r.at, s.end.text)
    return stuck("stopped", r.at, "record", fact, r.at, s.last_message)


def stuck(reason: str, since: float, witness: str, fact: str, at: float, text: str = "",
          ask: Optional[Ask] = None) -> Verdict:
    return Verdict("stuck", witness, fact, at, reason, since, text, ask)


def settle(s: Session, v: Optional[Verdict]) -> Session:
    """The session as the verdict leaves it. A wait keeps its `since` through repeats; progress or a new ask begins a new
    one; one that comes back with no progress in between (/compact) is the old one, with its skip and snooze."""
    if v is None:
        return s
    wait = None
    if v.state == "stuck":
        wait = Wait(v.reason, v.since, v.text)
        if v.ask:
            wait = wait._replace(text=one_line_input(v.ask.tool_name, v.ask.tool_input), tool_name=v.ask.tool_name,
                                 tool_input=v.ask.tool_input, agent=v.ask.agent_id and (v.ask.agent_type or v.ask.agent_id))
        for old in (s.wait, s.last_wait if not s.wait else None):
            if old and same_wait(s, old, v):
                wait = wait._replace(since=old.since, skipped_at=old.skipped_at, snoozed_until=old.snoozed_until)
                if not wait.text:  # what the transcript told of it
                    wait = wait._replace(reason=old.reason if old.tool_name and not v.ask else wait.reason, text=old.text,
                                         tool_name=old.tool_name or wait.tool_name,
                                         tool_input=old.tool_input or wait.tool_input)
                break
        wait = wait._replace(witness=v.witness, fact=v.fact, at=v.at)
    changed = v.state != s.state or wait and s.wait and wait.since != s.wait.since
    return s._replace(state=v.state, wait=wait, last_wait=s.wait or s.last_wait, witness=v.witness, why=v.fact,
                      state_at=v.at if changed else s.state_at)


def same_wait(s: Session, old: Wait, v: Verdict) -> bool:
    """Is this verdict about the wait that the session is, or was last, in?"""
    if v.ask:  # the same dialog; or one that a record showed before its hook event was here
        return old.since == v.since or bool(s.wait) and not old.tool_name and abs(old.since - v.since) < SAME_ASK \
            and old.reason in WAITING_FOR.values()
    turn_between = old.since < s.turn_at <= v.since
    if s.wait:
        return old.since == v.since or old.reason == v.reason and not turn_between
    near = abs(old.since - v.since) < SAME_ASK and not (s.end and s.end.at == v.since)  # a record's time of the same end
    parked = bool(s.end and s.end.parked)  # it ended when its subagents did, and /compact moves the record's time of that
    return old.reason == v.reason and (old.since == v.since or near or parked) and not turn_between


def strangers(board: Board, records: Mapping[int, Record], now: float) -> List[Record]:
    """Records of sessions that are not on the board, or that ended there and live all the same, once their id has held."""
    found = []
    for r in by_weight(records.values()):
        s, (session_id, since) = board.sessions.get(r.session_id), board.sightings.get(r.pid, ("", now))
        ending = s and s.fact.startswith("SessionEnd") and r.at < s.ended_at  # Claude Code waits for its hooks
        if session_id == r.session_id and (not s or s.ended_at) and \
                now - max(since, s.ended_at if s else 0) >= (ENDING if ending else HELD):
            found.append(r)
    return found


def take_stranger(board: Board, r: Record, process: Optional[Process], path: str) -> Board:
    """Register a session by its record. Only what its transcript says since the process has it can have been a turn: an idle
    session at its first prompt waits for nobody."""
    old = board.sessions.get(r.session_id) or Session(r.session_id, first_at=r.started_at)
    since = board.sightings.get(r.pid, ("", 0.0))[1]
    if same_process(old.process, process) and (since <= old.ended_at or not old.had_turn):
        s = old._replace(ended_at=0.0)  # it was never gone; else it was resumed there
    else:
        s = Session(r.session_id, first_at=old.first_at, config=r.config, process=process,
                    transcript_path=path or old.transcript_path, had_turn=r.status == "busy" or is_dialog(r),
                    turn_at=since if since > r.started_at + BEGUN else r.started_at)
    return board._replace(sessions={**board.sessions, r.session_id: s})


def observe(board: Board, world: World, now: float) -> Board:
    """The board after a look around: records noted, the dead retired, panes found, and every session judged."""
    sightings = {r.pid: sighting(board.sightings.get(r.pid), r, now) for r in world.records.values()}
    by_id = {r.session_id: r for r in by_weight(world.records.values())}
    sessions = {}
    for s in board.sessions.values():
        if max(getattr(s, key) for key in TIMES) > now + AHEAD:
            s = rewound(s, now)
        if not s.ended_at:
            s = attend(s, world, by_id, sightings, now)
        sessions[s.session_id] = s
    sessions = locate(without_ghosts(sessions, world, now), world)
    return Board({key: s if s.ended_at and s.state == "gone" else settle(s, judge(s, now)) for key, s in sessions.items()},
                 sightings)


def by_weight(records: Iterable[Record]) -> List[Record]:
    """Of several records of one session (it is open twice) the last one counts: a person's, one that asks, the newest."""
    return sorted(records, key=lambda r: (r.entrypoint == "cli", is_dialog(r), r.at))


def is_dialog(r: Record) -> bool:
    return r.status == "waiting" and r.waiting_for != "dialog open"


def sighting(before: Optional[Tuple[str, float]], r: Record, now: float) -> Tuple[str, float]:
    """The session that a process has, and since when: since it was first seen. Where the process itself is new to us, but
    has long begun, it has had this session since then, as far as can be known."""
    if before and before[0] == r.session_id:
        return before[0], min(before[1], now)
    return r.session_id, r.started_at if not before and 0 < r.started_at <= now - BEGUN else now


TIMES = ("heard_at", "turn_at", "asked_at", "claimed_at", "answered_at", "ended_at", "told_at", "agents_at", "prompt_at")


def rewound(s: Session, now: float) -> Session:
    """A session whose times are ahead of the clock, which was set back: they are now, or all that comes would be late."""
    def back(value: Any) -> Any:
        return value and value._replace(**{key: min(getattr(value, key), now) for key in ("at", "since", "skipped_at")
                                           if hasattr(value, key)})
    parts = {key: back(getattr(s, key)) for key in ("end", "record", "before", "wait", "last_wait")}
    return s._replace(asks=tuple(map(back, s.asks)), results=(), **parts,
                      **{key: min(getattr(s, key), now) for key in TIMES})


def attend(s: Session, world: World, by_id: Mapping[str, Record], sightings: Mapping[int, Tuple[str, float]],
           now: float) -> Session:
    """One live session after a look at its process and its record."""
    own, other = world.records.get(s.process.pid) if s.process else None, by_id.get(s.session_id)
    record = own if own and own.session_id == s.session_id else other
    if record != other and is_dialog(other) and not is_dialog(record) and other.at > max(record.at, s.heard_at):
        s, record = s._replace(process=world.processes.get(other.pid)), other  # it is open twice, and asks there
    if record and record.at > now + AHEAD:  # the clock was set back: it is right, and since when is known only from before
        same = s.record and s.record._replace(at=0.0) == record._replace(at=0.0)
        record = record._replace(at=s.record.at if same else 0.0 if s.heard_at else now)
    if record and s.process and s.process.pid != record.pid and not record.foreign:
        record = None  # the same session is open in another process too; the one that the hooks told of last counts
    if record and not record.foreign and not s.process:
        s = s._replace(process=world.processes.get(record.pid))
    alive = world.processes.get(s.process.pid) if s.process else None
    if s.process and s.process.pid in world.processes and not (record and record.foreign) \
            and not same_process(s.process, alive):
        return s._replace(ended_at=max(s.heard_at, s.record.at if s.record else 0, s.first_at, 1.0),
                          fact=f"process {s.process.pid} is gone")
    if s.process and s.process.pid in sightings and sightings[s.process.pid][0] != s.session_id \
            and now - max(sightings[s.process.pid][1], s.heard_at) >= HELD:
        return s._replace(ended_at=now, fact=f"session {sightings[s.process.pid][0][:8]} took its place")
    if record:
        s = s._replace(cwd=s.cwd or record.cwd, kind=record.kind or s.kind, config=record.config or s.config,
                       entrypoint=record.entrypoint, title=s.title or record.name, process=alive or s.process)
    elif alive:
        s = s._replace(process=alive)
    return note_record(s, record)


def panes_by_tty(world: World) -> Dict[str, Pane]:
    """Each live pane by its terminal."""
    return {view.tty: Pane(server.socket, server.pid, view.pane_id)
            for server in world.servers.values() for view in server.panes.values() if not view.dead}


def locate(sessions: Dict[str, Session], world: World) -> Dict[str, Session]:
    """Each live session's pane. The proof is that its process has the pane's terminal; $TMUX_PANE is a claim. Proof beats
    claim; two live sessions that claim one pane without proof both keep it, marked uncertain."""
    by_tty = panes_by_tty(world)
    live = {key: s for key, s in sessions.items() if not s.ended_at and is_interactive(s)}
    proof = {key: by_tty[s.process.tty] for key, s in live.items() if s.process and s.process.tty in by_tty}
    claims = {key: s.claim for key, s in live.items() if key not in proof and s.claim and stands(s, world.servers)}
    held = list(proof.values())
    found = {}
    for key, s in sessions.items():
        if s.ended_at and s.state == "gone":
            found[key] = s
            continue
        pane, uncertain = proof.get(key), False
        if not pane and key in claims and claims[key] not in held:
            pane, uncertain = claims[key], list(claims.values()).count(claims[key]) > 1
        elif not pane and key in claims:
            uncertain = True  # another session is proved to be there
        found[key] = s._replace(pane=pane, uncertain=uncertain)
        if key in live and s.claim and not pane and not s.process and not stands(s, world.servers):
            found[key] = found[key]._replace(ended_at=max(s.heard_at, 1.0), fact=f"pane {s.claim.pane_id} is gone")
    return found


def without_ghosts(sessions: Dict[str, Session], world: World, now: float) -> Dict[str, Session]:
    """Of a session whose hooks tell no pid (before 2.1.214), and that no record names, only its pane is known. Where another
    one's process and record are there, it is no more; or it never was one: an old subagent's id, or a second start."""
    ttys = panes_by_tty(world)
    held = {ttys.get(s.process.tty) or s.claim: s for s in sessions.values()
            if not s.ended_at and s.record and s.process and is_interactive(s)}
    ghosts = [s for s in sessions.values() if not s.ended_at and not s.process and not s.record and s.claim
              and s.claim in held and now - s.heard_at >= HELD]
    return {**sessions, **{s.session_id: s._replace(
        ended_at=now, fact=f"session {held[s.claim].session_id[:8]} is in its pane") for s in ghosts}}


def is_interactive(s: Session) -> bool:
    """Not `claude -p` or an SDK's, and not in the background: the ones that have a pane."""
    return s.entrypoint == "cli" and s.kind != "bg" and not (s.record and s.record.foreign)


def stands(s: Session, servers: Mapping[str, Server]) -> bool:
    """Can the session's claim still be true? Only a server that answers without the pane, or that is gone, denies it."""
    server = servers.get(s.claim.socket)
    if server is None or server.at <= s.claimed_at:
        return True
    view = server.panes.get(s.claim.pane_id)
    return server.pid == s.claim.server_pid and view is not None and not view.dead


KEEP_GONE = 86400.0    # s that a session which has ended is known;
KEEP_HEADLESS = 60.0   # s: and one of `claude -p`, of which a script may start thousands;
MOST_GONE = 500        # and not more than so many


def forget(board: Board, now: float) -> Board:
    """The board without the sessions that ended long ago."""
    gone = sorted((s for s in board.sessions.values() if s.ended_at), key=lambda s: s.ended_at)
    old = {s.session_id for s in gone[:-MOST_GONE]}
    old.update(s.session_id for s in gone if now - s.ended_at > (KEEP_GONE if s.entrypoint == "cli" else KEEP_HEADLESS))
    return board._replace(sessions={key: s for key, s in board.sessions.items() if key not in old}) if old else board


class Change(NamedTuple):
    """One line of the history: what a session's state became, and why."""
    session_id: str
    at: float
    state: str
    reason: str
    since: float
    witness: str
    fact: str
    text: str
    against: str = ""


def changes(old: Board, new: Board, now: float) -> List[Change]:
    """What differs between two boards, as history."""
    found = []
    for key, s in new.sessions.items():
        before = old.sessions.get(key)
        if before is s:
            continue
        known = before and (before.state, before.wait and (before.wait.reason, before.wait.since))
        if known != (s.state, s.wait and (s.wait.reason, s.wait.since)):
            wait = s.wait or Wait("", 0.0)
            at = now if s.state == "gone" else (s.wait.at if s.wait else s.state_at) or s.first_at or now
            found.append(Change(key, at, s.state, wait.reason, wait.since, s.witness, s.why, wait.text[:500], overruled(s)))
        if s.decided_at and s.decided_at != (before.decided_at if before else 0.0):
            found.append(Change(key, s.decided_at, "", "", 0.0, "transcript", s.decision, ""))
    return found


def overruled(s: Session) -> str:
    """The last hook event, where another witness was believed against what it meant."""
    means = {"SessionStart": "idle", "UserPromptSubmit": "working", "PermissionRequest": "stuck", "Elicitation": "stuck",
             "Stop": "working" if s.end and s.end.parked else "stuck", "StopFailure": "stuck"}.get(s.heard, s.state)
    return s.heard if s.witness in ("record", "transcript") and means != s.state else ""


# ======================================================================================================================
# 4 QUEUE
# First in, first out, whatever the reason. Nothing here changes a session's state: skip and snooze only say when a wait is
# offered. They belong to the wait, so that a new ask is offered again.

FOREVER = 1e15


def waiting(board: Board, now: float) -> List[Session]:
    """The queue: what is offered now, oldest first, then what is snoozed. A skipped one stands where it would if it had
    got stuck when it was skipped."""
    stuck_now = [s for s in board.sessions.values() if s.state == "stuck" and s.wait and s.entrypoint == "cli"]
    return sorted(stuck_now, key=lambda s: (s.wait.snoozed_until > now, s.wait.skipped_at or s.wait.since, s.session_id))


def offered(queue: Sequence[Session], now: float) -> List[Session]:
    return [s for s in queue if s.wait.snoozed_until <= now]


def next_after(queue: Sequence[Session], looked_at: Optional[Pane]) -> List[Session]:
    """The queue as a round: from the one after the pane that is looked at, if that is a member; else from the head.
    A pane that two sessions claim comes once, or the round would turn on the spot."""
    panes = [s.pane for s in queue]
    round_ = [s for i, s in enumerate(queue) if not s.pane or s.pane not in panes[:i]]
    at = next((i for i, s in enumerate(round_) if looked_at and s.pane == looked_at), -1)
    return round_[at + 1:] + round_[:at + 1]


def find(sessions: Sequence[Session], wanted: str) -> Session:
    """The session that an ID of a person's means: a pane id, or the start of a session id. Fault if none or several do."""
    found = [s for s in sessions if wanted and (
        s.pane and s.pane.pane_id == wanted if wanted.startswith("%") else s.session_id.startswith(wanted))]
    exact = [s for s in found if s.session_id == wanted]
    found = exact or [s for s in found if not s.ended_at] or found
    if not found:
        what = f"no session is known in the pane {wanted}" if PANE_ID.match(wanted) else f"no session has the ID {wanted!r}"
        raise Fault(f"{what}; `trailboss list --all` shows them all")
    if len(found) > 1:
        long = max(8, len(wanted) + 4)
        names = [f"{s.session_id[:long]} in {s.pane.pane_id if s.pane else 'no pane'}" for s in found]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise Fault(f"{wanted!r} could be {', '.join(names[:5])}{more}: give more of the session id")
    return found[0]


def put_off(board: Board, session_id: str, skipped_at: Optional[float] = None,
            snoozed_until: Optional[float] = None) -> Board:
    """The board with one wait skipped or snoozed."""
    s = board.sessions[session_id]
    wait = s.wait._replace(skipped_at=s.wait.skipped_at if skipped_at is None else skipped_at,
                           snoozed_until=s.wait.snoozed_until if snoozed_until is None else snoozed_until)
    return board._replace(sessions={**board.sessions, session_id: s._replace(wait=wait)})


def parse_span(text: str) -> Optional[float]:
    """A time like 90s, 10m, 1h30m or 2d in seconds; None if it is not one."""
    parts = re.findall(r"([0-9]{1,6})([smhd])", text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        return None
    return float(sum(int(n) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for n, unit in parts))


# ======================================================================================================================
# 5 NAVIGATE
# Which client moves, and by which tmux commands. A command is a list of arguments after `tmux -S SOCKET`; section 9 runs
# it. Ids are compared with what tmux lists, never judged by an exit code: display-message is content with a pane that is
# not there (facts.md C3).


def choose_client(clients: Sequence[Client], name: str = "", here: Optional[Tuple[str, str, str]] = None,
                  prefer: str = "") -> Client:
    """The client that moves: the one named; else the latest active of those that look at the pane `here` (socket,
    session id, pane id) in which the command was typed, of those in that session, on that server, on the server `prefer`;
    else of all. The pane comes first: the session is the one it was made in, and it may be shown elsewhere by now.
    Read-only clients never move, a control-mode client (iTerm2) only if it is the only one. Fault if there is none."""
    if name:
        named = [c for c in clients if name in (c.name, c.tty)]
        if not named:
            raise Fault(f"no tmux client is called {name!r}; `tmux list-clients` shows them")
        if named[0].readonly:
            raise Fault(f"the tmux client {name} is attached read-only: it can't be moved")
        return named[0]
    able = [c for c in clients if not c.readonly]
    able = [c for c in able if not c.control] or able
    for near in (lambda c: here and (c.socket, c.pane_id) == (here[0], here[2]),
                 lambda c: here and (c.socket, c.session_id) == here[:2],
                 lambda c: here and c.socket == here[0], lambda c: c.socket == prefer, lambda c: True):
        close = [c for c in able if near(c)]
        if close:
            return max(close, key=lambda c: c.activity)
    raise Fault("no tmux client is attached" + (" that may be moved" if clients else ""))


def place_for(view: PaneView, client: Optional[Client]) -> Tuple[str, str, str]:
    """The session in which a client should see a pane: its own if the window is linked there, else the first made. A bare
    pane id may pick another session of a group (facts.md C1)."""
    own = [place for place in view.places if client and place[0] == client.session_id]
    return own[0] if own else min(view.places, key=lambda place: int(place[0].lstrip("$") or 0))


def target_of(view: PaneView, client: Optional[Client]) -> str:
    """The exact target of a pane: $SESSION:@WINDOW.%PANE."""
    return f"{place_for(view, client)[0]}:{view.window_id}.{view.pane_id}"


def steps(view: PaneView, client: Client, version: str) -> List[List[str]]:
    """The tmux commands that show a pane to a client of the same server, its window's zoom kept (-Z is in tmux 3.1)."""
    target = target_of(view, client)
    zoom = ["-Z"] if version_of(version) >= (3, 1) else []
    if not client.control:
        return [["switch-client", *zoom, "-c", client.name, "-t", target]]
    if client.session_id not in [place[0] for place in view.places]:
        session_id, name, _ = place_for(view, None)
        command = f"tmux -S {shlex.quote(client.socket)} -CC attach-session -t {shlex.quote(session_id)}"
        raise Fault(f"the pane {view.pane_id} is in the session {name}, and a control-mode client stays in its own: "
                    f"attach there with `{command}`")
    return [["select-window", "-t", target.rsplit(".", 1)[0]], ["select-pane", *zoom, "-t", target]]


def version_of(text: str) -> Tuple[int, int]:
    """tmux's version ("3.3a", "next-3.8") as two numbers; (0, 0) if it has none."""
    found = re.search(r"([0-9]+)\.([0-9]+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def attach_command(socket: str, view: PaneView) -> str:
    """What a person types to see a pane of a server that no client of theirs is on; inside another tmux too."""
    return f"env -u TMUX tmux -S {shlex.quote(socket)} attach-session -t {shlex.quote(target_of(view, None))}"


def client_terminal(client: Client, servers: Mapping[str, Server]) -> Optional[Tuple[Server, PaneView]]:
    """The outer pane that a client runs in, where tmux runs inside tmux. (A dead pane's terminal may be anybody's.)"""
    return next(((server, view) for server in servers.values() for view in server.panes.values()
                 if client.tty and view.tty == client.tty and not view.dead), None)


def inner_client(socket: str, outer: Client, clients: Sequence[Client],
                 servers: Mapping[str, Server]) -> Optional[Client]:
    """A client of the server `socket` that runs in a pane of the outer client's server: by it the pane can be shown. One
    in the pane that the outer client looks at comes first."""
    found = []
    for client in clients:
        seat = client_terminal(client, servers)
        if client.socket == socket and not client.readonly and seat and seat[0].socket == outer.socket:
            found.append((seat[1].pane_id == outer.pane_id, client.activity, client))
    return max(found, key=lambda row: row[:2])[2] if found else None


def outer_client(inner: Client, clients: Sequence[Client], servers: Mapping[str, Server],
                 prefer: Optional[Client] = None) -> Optional[Client]:
    """The client through which an inner one is seen: `prefer` if it is of that server, else one that looks at the inner
    one's pane, else the latest active; None if there is none that may move."""
    seat = client_terminal(inner, servers)
    around = [c for c in clients if seat and c.socket == seat[0].socket and not c.readonly]
    if not around:
        return None
    return choose_client(around, here=(seat[0].socket, "", seat[1].pane_id)) if prefer not in around else prefer


# ======================================================================================================================
# 6 VIEW
# Text for people and JSON for programs, from the same items. What a model or a person wrote is made harmless before it
# meets a terminal: no escape sequence, no line break, no turned writing direction gets through. A table has one line for
# a session; the lines of a text that `show` prints are indented, so that none of them looks like a heading of ours.

COLOURS = {"permission": "33", "question": "36", "plan": "35", "stopped": "32", "error": "31", "interrupted": "34"}
JOINERS = "\u200c\u200d"  # some scripts and emoji are not written without them
VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def harmless(text: str, breaks: bool = False) -> str:
    """Text without control characters, lone surrogates and invisible or direction-turning ones; each becomes U+FFFD.
    Variation selectors go: terminals disagree on how wide they make a character. Tabs become spaces, and so do line
    breaks unless `breaks` keeps them."""
    def safe(found: Any) -> str:
        char = found.group()
        if char in "\n\t":
            return "\n" if breaks and char == "\n" else " "
        bad = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in JOINERS
        return "\ufffd" if bad else char
    return re.sub("[^ -~]", safe, VARIATIONS.sub("", text.replace("\r\n", "\n")))


def widths_of(text: str) -> List[int]:
    """The columns that each character of harmless text takes on a terminal, as tmux has it: a wide one two; a mark that
    combines none, nor a Korean letter within its syllable, nor an emoji that is joined to the one before."""
    widths, before = [], ""
    for char in text:
        kind = unicodedata.category(char)
        nothing = kind in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff" or kind == "So" and before == "\u200d"
        widths.append(0 if nothing else 2 if unicodedata.east_asian_width(char) in "WF" else 1)
        before = char
    return widths


def width_of(text: str) -> int:
    return len(text) if text.isascii() else sum(widths_of(text))


def fit(text: str, width: int) -> str:
    """Text cut to a width in columns, with … where something is missing."""
    if len(text) <= 20 * width and width_of(text) <= width:
        return text
    end, used = 0, 1
    for columns in widths_of(text[:max(0, width) * 20]):
        used += columns
        if used > width:
            break
        end += 1
    return text[:end] + "…" if width > 0 else ""


def span(seconds: float) -> str:
    """How long, as people say it: 45s, 12m, 3h05m, 2d04h."""
    s = max(0, int(seconds))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m"
    return f"{s // 3600}h{s // 60 % 60:02}m" if s < 86400 else f"{s // 86400}d{s // 3600 % 24:02}h"


def gist(text: str) -> str:
    """The one line of a message that a person needs: its last question, if it ends with one, else its first line that
    has words."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    asked = [line for line in lines[-3:] if line.rstrip("*_`\"')”’» ").endswith(("?", "？", "؟"))]
    return (asked[-1:] or lines[:1] or [" ".join(text.split())])[0]


def ask_line(wait: Wait) -> str:
    """What a session waits for, in one line."""
    if wait.reason in ("question", "plan"):
        return wait.text or wait.tool_name
    if wait.tool_name:
        return f"{wait.tool_name}: {wait.text}" if wait.text else wait.tool_name
    return gist(wait.text)


def item(s: Session, servers: Mapping[str, Server], now: float) -> Dict[str, Any]:
    """An item of the queue, as `list --json` gives it."""
    wait = s.wait
    return {
        **session_row(s, servers), "reason": wait.reason, "since": wait.since,
        "waited_s": round(max(0.0, now - wait.since), 3),
        "snoozed_until": wait.snoozed_until if wait.snoozed_until > now and wait.snoozed_until != FOREVER else None,
        "snoozed": wait.snoozed_until > now, "skipped": bool(wait.skipped_at),
        "ask": harmless(" ".join(ask_line(wait).split())),
        "tool_name": wait.tool_name or None, "agent": harmless(wait.agent) or None,
        "evidence": {"witness": wait.witness, "at": wait.at, "fact": wait.fact}}


def session_row(s: Session, servers: Mapping[str, Server]) -> Dict[str, Any]:
    """A session, as `list --all --json` gives it: who and where."""
    server = servers.get(s.pane.socket) if s.pane else None
    view = server.panes.get(s.pane.pane_id) if server and server.pid == s.pane.server_pid else None
    place = place_for(view, None) if view else None
    return {
        "session_id": s.session_id, "pane": s.pane.pane_id if s.pane else None, "server": s.pane.socket if s.pane else "",
        "window": f"{place[1]}:{place[2]}.{view.pane_index}" if place else "", "state": s.state,
        "state_since": s.state_at or s.first_at, "cwd": s.cwd, "title": harmless(s.title),
        "project": harmless(posixpath.basename((s.project_dir or s.cwd).rstrip("/"))),
        "background_tasks": s.background, "permission_mode": s.permission_mode or None, "uncertain": s.uncertain,
        "background": s.kind == "bg", "pid": s.process.pid if s.process else None, "record": bool(s.record),
        "last_sign": max(s.heard_at, s.told_at, s.record.at if s.record else 0.0)}


def listing(board: Board, servers: Mapping[str, Server], now: float, everything: bool = False) -> Dict[str, Any]:
    """The whole of `list --json`."""
    answer: Dict[str, Any] = {"version": VERSION, "now": now,
                              "items": [item(s, servers, now) for s in waiting(board, now)]}
    if everything:
        known = sorted(board.sessions.values(), key=lambda s: (s.state == "gone", s.first_at))
        answer["sessions"] = [{**session_row(s, servers), "entrypoint": s.entrypoint,
                               "evidence": {"witness": s.witness, "at": s.state_at, "fact": s.why}} for s in known]
    return answer


DOUBTFUL = 300.0  # s without a record and any sign


def notes_of(row: Mapping[str, Any], now: float) -> str:
    """The remarks that stand before what it asks: who asks, what else is up. Short, since they take its room."""
    notes = [f"{row['agent']} asks"] if row.get("agent") else []
    if row.get("snoozed"):
        until = row.get("snoozed_until")
        notes.append(f"snoozed {span(until - now)}" if until else "snoozed")
    elif row.get("skipped"):
        notes.append("skipped")
    if row.get("background_tasks"):
        notes.append(f"{row['background_tasks']} in background")
    if row.get("uncertain"):
        notes.append(f"perhaps in {row['pane']}" if row.get("pane") else "pane uncertain")
    if not row.get("record"):  # then nobody tells of an approval, nor that Claude Code hangs
        if row.get("reason") in ("permission", "question", "plan") and row["waited_s"] > DOUBTFUL:
            notes.append("may be answered")
        elif row.get("state") == "working" and 0 < row["last_sign"] < now - DOUBTFUL:
            notes.append(f"quiet {span(now - row['last_sign'])}")
    if row.get("background"):
        notes.append("bg")
    if row.get("entrypoint", "cli") != "cli":
        notes.append(row["entrypoint"])
    return "".join(f"[{note}] " for note in notes)


ROOM = 24  # columns that the last one of a table has at least, on a terminal


def table(rows: Sequence[Sequence[str]], width: Optional[int], colour: bool) -> str:
    """Aligned columns: ID, window, reason or state, how long, project, and the rest. On a terminal the last one is cut
    to the width, long names are shortened, and the window, then the project, left out where they leave no ROOM."""
    columns = [[harmless(cell) for cell in column] for column in zip(*rows)]
    reasons, kept = columns[2], columns[:-1]
    if width is not None:
        most = max(8, width // 5)
        columns[1][:] = [fit_place(cell, most) for cell in columns[1]]
        columns[4][:] = [fit(cell, most) for cell in columns[4]]
        for spare in (columns[1], columns[4]):
            if sum(max(map(width_of, column)) + 2 for column in kept) > width - ROOM:
                kept = [column for column in kept if column is not spare]
    padded = [pad(column) for column in kept]
    lines = []
    for cells, reason, last in zip(zip(*padded), reasons, columns[-1]):
        line = "  ".join([*cells, last]).rstrip()
        line = line if width is None else fit(line, width)
        at = sum(len(cell) + 2 for cell in cells[:kept.index(reasons)])
        if colour and reason in COLOURS and line.startswith(reason, at):
            line = f"{line[:at]}\x1b[{COLOURS[reason]}m{reason}\x1b[0m{line[at + len(reason):]}"
        lines.append(line + "\n")
    return "".join(lines)


def pad(column: Sequence[str]) -> List[str]:
    widths = [width_of(cell) for cell in column]
    return [cell + " " * (max(widths) - width) for cell, width in zip(column, widths)]


def fit_place(place: str, width: int) -> str:
    """A "name:index.pane" cut to a width in its name."""
    name, _, numbers = place.rpartition(":")
    return place if fit(place, width) == place else f"{fit(name, width - len(numbers) - 1)}:{numbers}"


def ids_of(rows: Sequence[Mapping[str, Any]]) -> List[str]:
    """What to type for each: its pane's id; where it has none, or another one has the same, the start of its own."""
    panes = [row["pane"] for row in rows]
    return [pane if pane and panes.count(pane) == 1 else row["session_id"][:8] for pane, row in zip(panes, rows)]


def queue_text(answer: Mapping[str, Any], width: Optional[int], colour: bool) -> str:
    """`list` for people."""
    now, items, sessions = answer["now"], answer["items"], answer.get("sessions", ())
    text = "Nothing is waiting.\n" if not items else table(
        [("ID", "WINDOW", "REASON", "WAITS", "PROJECT", "ASKS")] + [
            (name, row["window"] or "-", row["reason"], span(row["waited_s"]), row["project"] or "-",
             notes_of(row, now) + row["ask"]) for name, row in zip(ids_of(items), items)], width, colour)
    if answer.get("trouble"):
        text += f"\n{harmless(answer['trouble'])}\n"
    if "sessions" in answer and not sessions:
        text += "\nNo session is known.\n"
    return text + ("\n" + table(
        [("ID", "WINDOW", "STATE", "SINCE", "PROJECT", "WHY")] + [
            (name, row["window"] or "-", row["state"], span(now - row["state_since"]), row["project"] or "-",
             f"{notes_of(row, now)}{row['evidence']['witness']}: {row['evidence']['fact']}")
            for name, row in zip(ids_of(sessions), sessions)], width, False) if sessions else "")


def ask_text(tool_name: str, tool_input: Mapping[str, Any]) -> str:
    """A tool call in full, in the form that fits it: a command, a diff, a text, questions with their options, a plan."""
    questions, edits = tool_input.get("questions"), tool_input.get("edits", [tool_input])
    if tool_name == "AskUserQuestion" and is_list_of(questions, "question"):
        return "\n".join(map(question_text, questions))
    if tool_name in ("Edit", "MultiEdit") and is_list_of(edits, "old_string", "new_string"):
        path = text_of(tool_input.get("file_path"))
        return "\n".join(diff_text(path, edit) for edit in edits)
    parts = []
    for key, value in tool_input.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        plain_text = text is value and key in ("command", "content", "question", "plan")
        parts.append(text if plain_text else f"{key}: {text}")
    return "\n".join(parts)


def is_list_of(value: Any, *keys: str) -> bool:
    """Is it a list of objects that have these texts?"""
    return isinstance(value, list) and bool(value) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in keys) for entry in value)


def question_text(question: Mapping[str, Any]) -> str:
    """One question of AskUserQuestion with its options, numbered as in the pane."""
    options = question.get("options") if isinstance(question.get("options"), list) else []
    lines = [question["question"] + (" (several may be chosen)" if question.get("multiSelect") else "")]
    for n, option in enumerate(options, 1):
        option = option if isinstance(option, dict) else {"label": option}
        label, about = (option.get(key) for key in ("label", "description"))
        label = label if isinstance(label, str) else json.dumps(label, ensure_ascii=False)
        lines.append(indented(f"{n}. {label}" + (f": {about}" if text_of(about) else "")))
        if text_of(option.get("preview")):
            lines.append(indented(option["preview"], "     "))
    return "\n".join(lines)


def diff_text(path: str, edit: Mapping[str, Any]) -> str:
    """An edit's old and new text as a unified diff."""
    import difflib
    old, new, name = edit["old_string"].split("\n"), edit["new_string"].split("\n"), harmless(path)
    lines = list(difflib.unified_diff(old, new, name, name, lineterm="")) or [f"--- {name}", f"+++ {name}"]
    return "\n".join((["every occurrence:"] if edit.get("replace_all") is True else []) + lines)


def indented(text: str, by: str = "  ") -> str:
    return "\n".join(by + line if line else "" for line in text.split("\n"))


def place_of(row: Mapping[str, Any]) -> str:
    parts = (row["pane"] or "no pane", row["window"], row["project"], row["title"])
    return " ".join(harmless(part) for part in parts if part)


def show_text(answer: Mapping[str, Any], width: Optional[int], colour: bool) -> str:
    """`show`: the whole ask, the last message, the end of the transcript; or the pane's screen. On a terminal the
    transcript is shortened, so that it does not push the ask off the screen."""
    row = answer["session"]
    if "screen" in answer:
        return harmless(answer["screen"], breaks=True)
    bold = (lambda text: f"\x1b[1m{text}\x1b[0m") if colour else (lambda text: text)
    state = f"{row['reason']}, waits {span(row['waited_s'])}" if "reason" in row else row["state"]
    state += f"; `claude attach {row['session_id'][:8]}` goes there" if row["background"] else ""
    lines = [bold(f"{row['session_id']}  {place_of(row)}"), f"{harmless(notes_of(row, answer['now']))}{state}", ""]
    asks, heading = ask_text(answer["tool_name"], answer["tool_input"]), answer["tool_name"] or "asks"
    if not asks and row.get("reason") in ("question", "permission", "plan", "interrupted"):
        asks = row["ask"] if row["ask"] != heading else ""
        heading = "your prompt" if row["reason"] == "interrupted" else heading
    for title, text in ((heading, asks), ("last message", answer["last_message"])):
        if text:
            lines += [bold(harmless(title)), indented(harmless(text, breaks=True)), ""]
    if answer["lines"]:
        lines.append(bold("transcript"))
    for who, text in answer["lines"][-12 if width is not None else 0:]:
        said = harmless(text, breaks=True).split("\n")
        if width is not None:
            said = [fit(line, width - 8) for line in said[:3]] + ["…"] * (len(said) > 3)
        lines += [f"{who:>6}  {said[0]}".rstrip(), *(indented(line, " " * 8) for line in said[1:])]
    return "\n".join(lines).rstrip("\n") + "\n"


def explain_text(answer: Mapping[str, Any], clock: Callable[[float], str], width: Optional[int]) -> str:
    """`explain`: how a session came to be where it is: each change, when, which witness decided it by which fact, and what a
    hook had said against it. clock gives a time as people write it."""
    row, changes_ = answer["session"], answer["history"]
    state = f"{row['reason']}, waits {span(row['waited_s'])}: {row['ask']}" if "reason" in row else row["state"]
    text = f"{row['session_id']}  {place_of(row)}\n{fit(state, width) if width else state}\n\n"
    rows = [("TIME", "STATE", "WITNESS", "WHY")]
    for c in changes_:
        why = " ".join(f"{c['fact']}{': ' if c['text'] else ''}{c['text']}".split())
        against = f" (the hooks' last word: {c['against']})" if c["against"] else ""
        rows.append((clock(c["at"]), c["reason"] or c["state"] or "-", c["witness"], harmless(why + against)))
    if not changes_:
        return text + "Nothing of it is in the history yet.\n"
    columns = [pad(column) for column in list(zip(*rows))[:3]]
    for *cells, (_, _, _, why) in zip(*columns, rows):
        line = "  ".join([*cells, why]).rstrip()
        text += (line if width is None else fit(line, width)) + "\n"
    return text


def witness_lines(seen: Mapping[str, Any]) -> List[Tuple[bool, str, str]]:
    """`doctor`: of each witness whether it is at work, its name, and what is to be said of it. seen is what the daemon
    answers to GET /witnesses."""
    now, deaf, unread = seen["now"], seen["never_heard"], seen["unread"]
    last = f"the last was {seen['last_event']}, {span(now - seen['last_event_at'])} ago" if seen["last_event"] else ""
    heard = f"{seen['events']} events today" + (f", {last}" if last else "")
    live, proved = seen["live"], seen["proved"]
    lines = [(not deaf, "heard", heard + (
        f"; no hook of {', '.join(deaf[:5])} was ever heard: it may have begun before they were installed, or they are "
        "switched off there (`/hooks` in that session shows them)" if deaf else ""))]
    lines.append((live == 0 or seen["records"] > 0, "records", f"of {seen['records']} of {live} live sessions" + (
        "" if seen["records"] or not live else ": Claude Code keeps none that can be read; an answer is seen later")))
    lines.append((not unread, "transcripts", f"of {seen['transcripts']} sessions are read" + (
        f"; not that of {', '.join(unread[:5])}" if unread else "")))
    servers = [f"{path} ({row['version'] or 'tmux'}, {row['panes']} panes)" for path, row in seen["servers"].items()]
    lines.append((not seen["silent"], "tmux", "; ".join(
        (servers or ["no server is known"]) + [f"{path}: {why}" for path, why in seen["silent"].items()])))
    lines.append((True, "panes", f"of {proved} of {live} live sessions are proved by their terminal"))
    decided = seen["decided"]
    by = ", ".join(f"{decided[who]} by {who}" for who in sorted(decided)) or "nothing yet"
    lines.append((True, "decided", f"today {by}; {seen['against']} times what no hook told: an answer, Esc, a death"))
    return lines


# ======================================================================================================================
# 7 SETTINGS
# The texts that install makes. settings.json is the person's, to the byte: the standard library's decoder tells where each
# entry of it begins and ends; ours are put in and cut out as text, and nothing else moves. What Claude Code itself would
# not take is refused. Our hooks are known by what they run: Claude Code drops marks that it does not know.

HOOKED = ("SessionStart", "SessionEnd", "Stop", "StopFailure", "PermissionRequest", "UserPromptSubmit", "Elicitation")
EMITTER = "trailboss-emit.sh"
SPACE = re.compile("\ufeff?[ \t\r\n]*")


class Entry(NamedTuple):
    """An entry of an object or array in a JSON text: `start` is where its key begins, or in an array its value."""
    key: str
    start: int
    value: int
    end: int


def past_space(text: str, at: int) -> int:
    return SPACE.match(text, at).end()  # type: ignore[union-attr]


def entries_at(text: str, at: int) -> Tuple[List[Entry], int]:
    """The entries of the object or array that opens at a place of a valid JSON text, and the place where it closes."""
    decode = json.JSONDecoder(parse_int=float).raw_decode
    found: List[Entry] = []
    spot = past_space(text, at + 1)
    while text[spot] not in "]}":
        start, key = past_space(text, spot + 1) if found else spot, ""  # past the comma
        value = start
        if text[at] == "{":
            key, colon = decode(text, start)
            value = past_space(text, past_space(text, colon) + 1)
        found.append(Entry(key, start, value, decode(text, value)[1]))
        spot = past_space(text, found[-1].end)
    return found, spot


def entry_at(text: str, at: int, key: str) -> Optional[Entry]:
    return next((e for e in entries_at(text, at)[0] if e.key == key), None)


def odd_part(text: str) -> Optional[Tuple[str, int]]:
    """What of a valid JSON text Claude Code would not take as hooks, or what is there twice, and its place."""
    top = past_space(text, 0)
    if text[top] != "{":
        return "the file", top
    parts = entries_at(text, top)[0]
    hooks = [e for e in parts if e.key == "hooks"]
    if len(hooks) > 1:
        return "the second hooks", hooks[1].start
    if hooks and text[hooks[0].value] != "{":
        return "hooks", hooks[0].start
    events = entries_at(text, hooks[0].value)[0] if hooks else []
    for event in events:
        if text[event.value] != "[":
            return f"hooks.{event.key}", event.start
        if [e.key for e in events].count(event.key) > 1:
            return f"hooks.{event.key}, which is there twice,", event.start
        for group in entries_at(text, event.value)[0]:
            lists = [e for e in entries_at(text, group.value)[0] if e.key == "hooks"] if text[group.value] == "{" else None
            if lists is None or len(lists) > 1 or any(text[e.value] != "[" for e in lists):
                return f"a group of hooks.{event.key}", group.start
    return None


def parse_settings(path: str, text: str) -> Dict[str, Any]:
    """The value of a settings file; {} for one without any text. Fault with the place of what Claude Code would not take:
    invalid JSON, or hooks of another form."""
    def no_number(text: str) -> Any:
        raise ValueError(f"{text} is no JSON")

    body = text[1:] if text.startswith("\ufeff") else text
    if not body.strip(" \t\r\n"):
        return {}
    stray = re.search("[\ud800-\udfff]", text)
    if stray:
        raise Fault(f"{path} is not UTF-8 (character {stray.start()}): nothing was changed")
    try:
        settings = json.loads(body, parse_constant=no_number, parse_int=float)  # as JavaScript does, of any length
    except json.JSONDecodeError as error:
        raise Fault(f"{path}, line {error.lineno}, column {error.colno}: {error.msg}. It is not valid JSON, so nothing was "
                    "changed; mend it and do it again") from None
    except (ValueError, RecursionError) as error:
        raise Fault(f"{path} can't be taken as it is ({error}): nothing was changed") from None
    odd = odd_part(body)
    if odd:
        name, at = odd
        line, column = body.count("\n", 0, at) + 1, at - body.rfind("\n", 0, at)
        raise Fault(f"{path}, line {line}, column {column}: {name} has a form that Claude Code would not take: nothing was "
                    "changed; mend it and do it again")
    return settings


def is_ours(hook: Any) -> bool:
    """A handler that runs our emitter and does nothing else: with words of the person's own around it, it is theirs."""
    try:
        words = shlex.split(text_of(hook.get("command")) if isinstance(hook, dict) else "")
    except ValueError:
        return False
    others = {word.rstrip(";") for word in words if not word.rstrip(";").endswith("/" + EMITTER)}
    return len(others) < len(words) and others <= {"[", "-r", "]", "&&", "sh", ">/dev/null", "2>&1", "exit", "0"}


def our_hooks(settings: Mapping[str, Any]) -> Dict[str, List[Any]]:
    """{event: our hooks on it}."""
    found = {event: [hook for group in groups for hook in group.get("hooks", ()) if is_ours(hook)]
             for event, groups in settings.get("hooks", {}).items()}
    return {event: hooks for event, hooks in found.items() if hooks}


def cuts(entries: Sequence[Entry], gone: Sequence[Entry], opening: int, closing: int) -> List[Tuple[int, int, str]]:
    """The spans without which these entries are gone from their object or array, each with its comma and white space."""
    if len(gone) == len(entries):
        return [(opening + 1, closing, "")] if gone else []
    found, last = [], None  # the last one that stays
    for n, entry in enumerate(entries):
        if entry not in gone:
            last = entry
        elif last:
            found.append((entries[n - 1].end, entry.end, ""))
        else:
            found.append((entry.start, entries[n + 1].start, ""))
    return found


def without_ours(text: str, before: Optional[Mapping[str, Any]] = None) -> str:
    """A settings text without our hooks, and without the groups, events and `hooks` that are empty for that; but what was
    there `before` (the settings without ours, if they are known) stays, though empty."""
    had = (before or {}).get("hooks")
    top = past_space(text, 0)
    hooks = entry_at(text, top, "hooks") if text[top:] else None
    if not hooks:
        return text
    events, close = entries_at(text, hooks.value)
    edits: List[Tuple[int, int, str]] = []
    empty = []
    for event in events:
        groups, end = entries_at(text, event.value)
        gone = []
        for group in groups:
            part = entry_at(text, group.value, "hooks")
            handlers, last = entries_at(text, part.value) if part else ([], 0)
            ours = [e for e in handlers if is_ours(json.loads(text[e.value:e.end], parse_int=float))]
            if ours and len(ours) == len(handlers):
                gone.append(group)
            elif part:
                edits += cuts(handlers, ours, part.value, last)
        if gone and len(gone) == len(groups) and event.key not in (had or {}):
            empty.append(event)
        else:
            edits += cuts(groups, gone, event.value, end)
    if empty and len(empty) == len(events) and had is None:
        parts, end = entries_at(text, top)
        return spliced(text, cuts(parts, [hooks], top, end))
    return spliced(text, edits + cuts(events, empty, hooks.value, close))


def with_ours(text: str, hook: Mapping[str, Any]) -> str:
    """A settings text with our hook once on each event, after whatever is there, in the form of what is around it."""
    if our_hooks(parse_settings("", text)) == {event: [hook] for event in HOOKED}:
        return text
    text = without_ours(text, {"hooks": dict.fromkeys(HOOKED)})  # where ours were, they will be again
    if not text.strip("\ufeff \t\r\n"):
        text = text.rstrip(" \t\r\n") + "{}\n"
    top, groups = past_space(text, 0), [{"hooks": [hook]}]
    hooks = entry_at(text, top, "hooks")
    if not hooks:
        return with_entry(text, top, "hooks", {event: groups for event in HOOKED})
    for event in HOOKED:
        found = entry_at(text, hooks.value, event)
        text = with_entry(text, found.value, "", groups[0]) if found else with_entry(text, hooks.value, event, groups)
    return text


def with_entry(text: str, at: int, key: str, value: Any) -> str:
    """The text with one more entry at the end of the object or array that opens there. It stands on lines of its own where
    its neighbours do; where it has none, if the file has several lines, or nothing yet."""
    entries, close = entries_at(text, at)
    newline, unit = next(iter(re.findall(r"(\r?\n)([ \t]+)\S", text)), ("\r\n" if "\r\n" in text else "\n", "  "))
    outer = text[text.rfind("\n", 0, at) + 1:at]
    outer = outer[:len(outer) - len(outer.lstrip(" \t"))]  # the indentation of the line on which it opens
    if entries:
        space = re.findall(r"\s*\Z", text[at + 1:entries[-1].start])[0]
        lead = newline + space.rpartition("\n")[2] if "\n" in space else ""
    else:
        lead = newline + outer + unit if "\n" in text.strip() or len(text.strip("\ufeff \t\r\n")) == 2 else ""
    if lead:
        comma, colon = ",", ": "
        new = json.dumps(value, ensure_ascii=False, indent=unit, separators=(comma, colon)).replace("\n", lead)
    else:
        tight = '":' in text and not re.search(r'"[ \t]*:[ \t]', text)
        comma, colon = (",", ":") if tight else (", ", ": ")
        new = json.dumps(value, ensure_ascii=False, separators=(comma, colon))
    if key:
        new = json.dumps(key) + colon + new
    if entries:
        return spliced(text, [(entries[-1].end, entries[-1].end, comma + lead + new)])
    return spliced(text, [(at + 1, close, lead + new + (newline + outer if lead else ""))])


def spliced(text: str, edits: Sequence[Tuple[int, int, str]]) -> str:
    """The text with each span (start, end) replaced; the spans do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# ---- tmux.conf ---------------------------------------------------------------------------------------------------------

KEYS = "trailboss.tmux.conf"


def tmux_word(text: str) -> str:
    """A text as one word of a tmux configuration file (tmux 3.0). It would end the file at a byte of 0xFF."""
    escaped = text.replace("'", "'\"'\"'").replace("\n", "'\"\\n\"'").replace("\r", "'\"\\r\"'")
    return "'" + escaped.replace("\udcff", "'\"\\377\"'") + "'"


def no_pattern(path: str) -> str:
    """A path for tmux's source-file, to which it is a glob pattern."""
    return re.sub(r"([][*?\\])", r"\\\1", path)


def keys_line(path: str, home: str) -> str:
    """The line of a tmux.conf that loads our keys; silent (-q) where there is no such file: on another machine, say."""
    if path == posixpath.join(home, ".claude", KEYS) and no_pattern(home) == home:
        return f"source-file -q ~/.claude/{KEYS}"
    return "source-file -q " + tmux_word(no_pattern(path))


def with_keys(text: str, line: str) -> str:
    """A tmux.conf with our line, at its end: what is set above it has a say."""
    if line in text.split("\n"):
        return text
    text += "\n" if text and not text.endswith("\n") else ""
    return text + ("\n" if text.endswith("\\\n") else "") + line + "\n"  # a last line that goes on would swallow ours


def without_keys(text: str, lines: Sequence[str]) -> str:
    """A tmux.conf without our line, just as it was written for one of the config folders. Lines of the person's own stay."""
    return "".join(line for line in text.splitlines(True) if line.rstrip("\r\n") not in lines)


def with_run(conf: str, command: str) -> str:
    """hooks/trailboss.tmux.conf with the shell command that runs the program."""
    return re.sub(r"(?m)^(set -gq @trailboss_run ).*$", lambda found: found.group(1) + tmux_word(command), conf)


def our_keys(listing: str) -> List[Tuple[str, str, str]]:
    """The keys in a server's list-keys that are bound to our commands (written out there): (table, key in tmux's own quotes,
    what the key does)."""
    found = re.findall(r'^bind-key +(?:-r +)?-T +(\S+) +(\S+) +run-shell -b '
                       r'"#\{@trailboss_run\} ([^;\n]*)#\{E:@trailboss_end\}"$', listing, re.M)
    return [(table, key, "back" if "--back" in what else what.split(" ")[0].replace("jump", "next"))
            for table, key, what in found]


def undo_keys(listing: str) -> str:
    """The tmux commands that take out of a server what hooks/trailboss.tmux.conf put into it."""
    lines = [f"unbind-key -T {table} {key}" for table, key, _ in our_keys(listing)]
    lines += ["set -gqu @trailboss_run", "set -gqu @trailboss_end"]
    return "\n".join(lines + [f"set -squ 'command-alias[{n}]'" for n in range(9001, 9005)]) + "\n"


# ---- a service ---------------------------------------------------------------------------------------------------------

LABEL = "dev.trailboss"


def check_words(words: Sequence[str]) -> None:
    """No service file can hold control characters or what is not UTF-8; systemd would leave the line out."""
    for word in words:
        if re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", word):
            raise Fault(f"a service can't be given {word!r}: it has characters that its file can't hold")


def systemd_quote(text: str) -> str:
    """A word of a unit file (systemd.syntax): % would be a specifier."""
    return '"' + re.sub(r'(["\\])', r"\\\1", text).replace("%", "%%") + '"'


def systemd_unit(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """The unit. sh is between because systemd takes no quote or backslash in the path of a program; $ is a variable to it in
    ExecStart alone. After five failed starts it stays down: what makes the daemon exit 1 is for the person to mend."""
    check_words([*argv, *environment.values()])
    command = " ".join(systemd_quote(word).replace("$", "$$") for word in ("/bin/sh", "-c", 'exec "$0" "$@"', *argv))
    variables = "".join(f"Environment={systemd_quote(f'{name}={value}')}\n" for name, value in sorted(environment.items()))
    return ("[Unit]\nDescription=Trail Boss: the queue of the Claude Code sessions that wait\n"
            "StartLimitIntervalSec=120\nStartLimitBurst=5\n\n"
            f"[Service]\nExecStart={command}\n{variables}Restart=on-failure\nRestartSec=5\nTimeoutStopSec=10\n\n"
            "[Install]\nWantedBy=default.target\n")


def launchd_agent(argv: Sequence[str], environment: Mapping[str, str], log: str) -> str:
    """The agent (launchd.plist(5)). Interactive, because launchd may hold back the processor from other kinds, and a key
    press waits for us."""
    import plistlib
    check_words([*argv, *environment.values(), log])
    return plistlib.dumps({
        "Label": LABEL, "ProgramArguments": list(argv), "EnvironmentVariables": dict(environment), "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False}, "ThrottleInterval": 30, "ProcessType": "Interactive",
        "StandardOutPath": log, "StandardErrorPath": log}).decode()


# ======================================================================================================================
# ======== below this line the code touches the world ==================================================================
# 8 DISK
# The state folder is ours alone (0700). What must survive is in SQLite; small files that others read (the token, where the
# daemon listens, the spool) are written aside and renamed, so that nobody ever reads a half. Claude Code's own files are
# only read, bounded, and only where they are what they should be.

DEFAULT_PORT = 4000
TAIL_BYTES = (512 * 1024, 4 * 1024 * 1024)  # of a transcript, the first time
PIECE, PIECES = 4 * 1024 * 1024, 8  # bytes of it that are read at a time after that, and how many times at one look
LINE_LIMIT = 8 * 1024 * 1024  # bytes: a longer line of a transcript is passed over
MTIME_STEP = 2.0       # s: two changes within one step of a file system's clock look like one
SPOOL_LIMIT = 16 * 1024 * 1024  # of one event
SPOOL_FILES, SPOOL_BYTES = 500, 64 * 1024 * 1024


def state_home(env: Mapping[str, str]) -> str:
    """The state folder: $TRAILBOSS_HOME, else $XDG_STATE_HOME/trailboss, else ~/.local/state/trailboss; there or not."""
    if env.get("TRAILBOSS_HOME"):
        return os.path.abspath(env["TRAILBOSS_HOME"])
    base = env.get("XDG_STATE_HOME") or os.path.join(person_home(env), ".local", "state")
    return os.path.join(os.path.abspath(base), "trailboss")


def person_home(env: Mapping[str, str]) -> str:
    """$HOME, or where there is none what the password database has."""
    try:
        home = env.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = ""
    if not os.path.isabs(home):
        raise Fault("HOME is not set to a full path: set it, or TRAILBOSS_HOME and CLAUDE_CONFIG_DIR")
    return home


def config_folder(env: Mapping[str, str]) -> str:
    """Claude Code's config folder: $CLAUDE_CONFIG_DIR, else ~/.claude."""
    return os.path.abspath(env.get("CLAUDE_CONFIG_DIR") or os.path.join(person_home(env), ".claude"))


def own_path() -> str:
    """The file that this program is: trailboss.py, or the .pyz around it (whose main module may run what was unpacked)."""
    archive = os.path.dirname(os.path.realpath(getattr(sys.modules["__main__"], "__file__", None) or ""))
    return archive if os.path.isfile(archive) else os.path.realpath(__file__)


def own_command() -> str:
    """How a person starts this program: as short as it can be, for a status line is."""
    path, home = own_path(), os.path.expanduser("~")
    if path.startswith(home + os.sep) and shlex.quote(path) == path:
        return f"python3 ~{path[len(home):]}"
    return f"python3 {shlex.quote(path)}"


def own_data(name: str) -> bytes:
    """A file that belongs to the program: out of the .pyz, or from the source tree."""
    if own_path().endswith(".py"):
        folder = os.path.dirname(own_path())
        with open(os.path.join(folder, name if name.endswith(".py") else os.path.join("hooks", name)), "rb") as file:
            return file.read()
    import zipfile
    with zipfile.ZipFile(own_path()) as archive:
        return archive.read(name)


def digest_of(data: bytes) -> str:
    """Which content it is: of trailboss.py, for a daemon of another version than was installed is replaced."""
    import hashlib
    return hashlib.sha256(data).hexdigest()[:16]


def make_private(folder: str) -> str:
    """The state folder, made if it is not there, readable by its owner only. Fault if that can't be, or if it is an open
    folder of the person's own, whose mode is theirs."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        there = os.listdir(folder)
        ours = not there or {"trailboss.db", "installed.json", "spool", "lock", "daemon.log"}.intersection(there)
        if os.stat(folder).st_mode & 0o077 and not ours:
            raise Fault(f"can't use {folder} for the state: it holds other things, and others can look into it; set "
                        "TRAILBOSS_HOME to a folder of its own")
        os.chmod(folder, 0o700)
    except OSError as error:
        raise Fault(f"can't use the state folder {folder}: {error.strerror}; set TRAILBOSS_HOME to one that can be "
                    "written") from None
    return folder


def write_aside(path: str, data: bytes, mode: int) -> str:
    """A file's new content whole, in a file beside it, ready to be renamed to it: its path. OSError if it can't be."""
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
            out.write(data)
        os.chmod(aside, mode)
    except BaseException:
        remove_file(aside)
        raise
    return aside


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole: aside, then by rename. OSError if it can't be; then nothing is left behind."""
    aside = write_aside(path, data, mode)
    try:
        os.replace(aside, path)
    except BaseException:
        remove_file(aside)
        raise


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def open_file(path: str, flags: int = 0) -> Any:
    """A regular file, open for reading. OSError or ValueError for whatever else is there, also for a FIFO or a device: it
    waits for neither."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | flags)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    raise OSError(f"{path} is not a regular file")


def read_file(path: str, limit: int = SPOOL_LIMIT + 65536) -> Optional[bytes]:
    """A regular file's content up to a limit; None if it can't be read."""
    try:
        with open_file(path) as file:
            return file.read(limit)
    except (OSError, ValueError):
        return None


def token_of(home: str) -> str:
    """The token that every request must carry, made the first time."""
    path = os.path.join(home, "token")
    token = (read_file(path) or b"").decode("ascii", "replace").strip()
    if not re.match(r"[0-9a-f]{64}\Z", token):
        token = os.urandom(32).hex()
        replace_file(path, token.encode())
    return token


def plain(value: Any) -> Any:
    """A value of section 1 as JSON has it."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def revive(kind: Any, entry: Mapping[str, Any]) -> Any:
    """The value of section 1 from plain(); fields that this version does not know are dropped, missing ones defaulted.
    TypeError if a field has another form, as a later version may have written it."""
    nested = {"process": Process, "claim": Pane, "pane": Pane, "end": End, "record": Record, "before": Record, "wait": Wait,
              "last_wait": Wait}
    values = {key: entry[key] for key in kind._fields if key in entry}
    for key, of in nested.items():
        if values.get(key) is not None:
            values[key] = revive(of, values[key])
    if kind is Session:
        values["asks"] = tuple(revive(Ask, ask) for ask in values.get("asks", ()))
        values["agents"] = tuple(values.get("agents", ()))
        values["results"] = tuple(map(tuple, values.get("results", ())))
    for key, default in kind._field_defaults.items():
        form = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(values.get(key, default), form):
            raise TypeError(f"{key} is {values[key]!r:.40}")
    return kind(**values)


class Unsaved(Fault):
    """What was heard is on the board, but not on the disk: whoever told of it must keep it."""


class Store:
    """The database: sessions (each as JSON), the ids of the events that were taken, the history of every change. Used under
    the daemon's lock. What save() has returned from survives a kill -9 (SQLite's write-ahead log)."""

    FORM = 2  # of the tables; it is in the file (PRAGMA user_version), so that an older program leaves a newer one's alone
    TABLES = {
        "sessions": {"session_id": "TEXT PRIMARY KEY", "value": "TEXT NOT NULL"},
        "events": {"event_id": "TEXT PRIMARY KEY", "at": "REAL NOT NULL", "session_id": "TEXT", "name": "TEXT"},
        "history": {"session_id": "TEXT", "at": "REAL", "state": "TEXT", "reason": "TEXT", "since": "REAL",
                    "witness": "TEXT", "fact": "TEXT", "text": "TEXT", "against": "TEXT"}}
    INDEXES = """
        CREATE INDEX IF NOT EXISTS history_by_session ON history (session_id, at);
        CREATE INDEX IF NOT EXISTS events_by_session ON events (session_id, at);
    """

    def __init__(self, path: str):
        import sqlite3
        self.path = path
        try:
            try:
                self.db = self.open()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not self.is_broken(error):
                    raise
                self.put_aside("broken", f"was broken ({error})")
                self.db = self.open()
        except (sqlite3.Error, OSError) as error:
            raise Fault(f"can't use the database {path}: {error}; mend that, or move the file away") from None

    def is_broken(self, error: Exception) -> bool:
        """Is the content to blame? Not where it is locked, the disk full, or the file not ours to write."""
        places = (self.path, os.path.dirname(self.path))
        writable = os.path.isfile(self.path) and all(os.access(path, os.W_OK) for path in places)
        return writable and not re.search("locked|full|unable to open|disk I/O|closed", str(error))

    def open(self) -> Any:
        """The database, whole and with its tables, which an older program may have made. One of a newer program is put
        aside, for that one to find."""
        import sqlite3
        import urllib.parse
        if os.path.exists(self.path):
            reader = sqlite3.connect(f"file:{urllib.parse.quote(self.path)}?mode=ro", uri=True, timeout=1)
            with contextlib.closing(reader):
                form = reader.execute("PRAGMA user_version").fetchone()[0]
            if form > self.FORM:
                self.put_aside("newer", f"is of a newer Trail Boss (form {form}, where this one knows {self.FORM})")
        db = sqlite3.connect(self.path, check_same_thread=False, timeout=1)
        try:
            db.text_factory = lambda data: data.decode("utf-8", "replace")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
            self.make_tables(db)
        except BaseException:
            db.close()
            raise
        return db

    def make_tables(self, db: Any) -> None:
        """The tables, where they are not there; and the columns that came with a later form. sqlite3.DatabaseError if
        something else is there under their names."""
        import sqlite3
        for table, columns in self.TABLES.items():
            form = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({form})")
            there = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            for name in [name for name in columns if name not in there]:
                if "NULL" in columns[name] or "KEY" in columns[name]:
                    raise sqlite3.DatabaseError(f"its table {table} has no {name}")
                db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")
        db.executescript(self.INDEXES)
        db.execute(f"PRAGMA user_version={self.FORM}")

    def put_aside(self, name: str, why: str) -> None:
        """A database that can't be used out of the way, whole. The live sessions are found again without it."""
        aside = f"{self.path}.{name}-{time.time():.0f}"
        for end in ("", "-wal", "-shm"):
            if os.path.exists(self.path + end):
                os.replace(self.path + end, aside + end)
        print(f"trailboss: the database {self.path} {why}: it is put aside as {aside}, and the sessions that live are found "
              "anew", file=sys.stderr, flush=True)

    def load(self) -> Board:
        """The board as it was saved last. A row that can't be read is passed over: the witnesses tell of it again."""
        sessions = {}
        for session_id, value in self.db.execute("SELECT session_id, value FROM sessions"):
            try:
                s = revive(Session, read_json(value))
                if s.session_id != session_id:
                    raise ValueError(f"it is {s.session_id!r:.40}'s")
                sessions[session_id] = s
            except (ValueError, TypeError, AttributeError) as error:
                print(f"trailboss: session {session_id} in {self.path} can't be read, passed over: {error}", file=sys.stderr)
        return Board(sessions)

    def knows(self, event_id: str) -> bool:
        return bool(self.db.execute("SELECT 1 FROM events WHERE event_id = ?", storable([event_id])).fetchone())

    def save(self, old: Board, new: Board, events: Sequence[Event], now: float) -> None:
        """What differs between two boards, in one transaction. Unsaved if SQLite can't: a full disk, a lock. A database that
        breaks meanwhile is put aside, and all is saved in a new one."""
        import sqlite3
        try:
            self.write(old, new, events, now)
        except sqlite3.OperationalError as error:
            raise Unsaved(f"the state can't be saved in {self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            if not self.is_broken(error):
                raise
            self.put_aside("broken", f"was broken ({error})")
            former, self.db = self.db, self.open()
            former.close()
            self.write(Board(), new, events, now)

    def write(self, old: Board, new: Board, events: Sequence[Event], now: float) -> None:
        with self.db:
            self.db.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?)", [
                (key, json.dumps(plain(s))) for key, s in new.sessions.items() if old.sessions.get(key) != s])
            self.db.executemany("DELETE FROM sessions WHERE session_id = ?",
                                [(key,) for key in old.sessions if key not in new.sessions])
            self.db.executemany("INSERT OR IGNORE INTO events (event_id, at, session_id, name) VALUES (?, ?, ?, ?)",
                                [storable((e.event_id, e.at, e.session_id, e.name)) for e in events if e.event_id])
            self.db.executemany(f"INSERT INTO history ({', '.join(Change._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                [storable(change) for change in changes(old, new, now)])

    def history(self, session_id: str, most: int = 500) -> List[Change]:
        """The last changes of a session, oldest first."""
        rows = self.db.execute(f"SELECT {', '.join(Change._fields)} FROM history WHERE session_id = ? "
                               "ORDER BY rowid DESC LIMIT ?", (*storable([session_id]), most)).fetchall()
        return [Change(*(value if value is not None else "" for value in row)) for row in reversed(rows)]

    def tally(self, since: float) -> Dict[str, Any]:
        """From a time on: how many changes each witness decided, how many of those against a hook that did not tell within
        two seconds, how many hook events came; and the last of those."""
        decided = self.db.execute("SELECT witness, COUNT(*) FROM history WHERE at >= ? AND state != '' GROUP BY witness",
                                  (since,)).fetchall()
        against = self.db.execute(
            "SELECT COUNT(*) FROM history AS h WHERE at >= ? AND against != '' AND NOT EXISTS (SELECT 1 FROM events AS e "
            "WHERE e.session_id = h.session_id AND e.at BETWEEN h.at - 2 AND h.at + 2)", (since,)).fetchone()[0]
        events = self.db.execute("SELECT COUNT(*) FROM events WHERE at >= ?", (since,)).fetchone()[0]
        last = self.db.execute("SELECT name, at FROM events ORDER BY at DESC LIMIT 1").fetchone()
        return {"decided": dict(decided), "against": against, "events": events, "last_event": last and last[0],
                "last_event_at": last and last[1]}

    def prune(self, now: float) -> None:
        """Let go of old events and history."""
        with self.db:
            self.db.execute("DELETE FROM events WHERE at < ?", (now - 7 * 86400,))
            self.db.execute("DELETE FROM history WHERE at < ?", (now - 90 * 86400,))


def storable(row: Sequence[Any]) -> List[Any]:
    """A row that SQLite takes: it refuses lone surrogates, which a JSON escape or an odd byte can bring in."""
    return [value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value for value in row]


def take_spool(home: str) -> List[Tuple[str, Dict[str, str], bytes]]:
    """The events that came while no daemon answered: (path, headers, payload) each, oldest first."""
    folder, found = os.path.join(home, "spool"), []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in (name for name in names if name.endswith(".event")):
        path = os.path.join(folder, name)
        content = read_file(path)
        if content is None:
            continue
        head, _, body = content.partition(b"\n\n")
        lines = [line.split(": ", 1) for line in head.decode("utf-8", "surrogateescape").split("\n") if ": " in line]
        headers = {key.lower(): value for key, value in lines}
        headers.setdefault("x-event-id", name[:-len(".event")])
        try:
            headers.setdefault("x-event-time", repr(os.stat(path).st_mtime))
        except OSError:
            continue
        found.append((path, headers, body))
    return found


def write_spool(home: str, headers: Mapping[str, str], body: bytes) -> None:
    """One event into the spool, as hooks/trailboss-emit.sh does it; of the others the newest stay, as far as there is
    room."""
    folder, room = os.path.join(home, "spool"), SPOOL_BYTES - len(body)
    for path in (home, folder):
        os.makedirs(path, mode=0o700, exist_ok=True)
    ours = [entry for entry in os.scandir(folder) if re.match(r"[0-9][-.0-9]*\.(event|tmp)\b", entry.name)]
    for n, entry in enumerate(sorted(ours, key=lambda entry: entry.name, reverse=True), 2):
        room -= entry.stat(follow_symlinks=False).st_size
        if n > SPOOL_FILES or room < 0:
            remove_file(entry.path)
    head = "".join(f"{key}: {value}\n" for key, value in headers.items())
    replace_file(os.path.join(folder, headers["X-Event-Id"] + ".event"),
                 head.encode("utf-8", "surrogateescape") + b"\n" + body)


class Records:
    """Claude Code's session records in every known config folder; a file is read again when it has changed."""

    def __init__(self) -> None:
        self.seen: Dict[str, Tuple[Any, Optional[Record]]] = {}
        self.pid_domain = ""
        try:
            self.pid_domain = os.readlink("/proc/self/ns/pid")
        except OSError:
            pass

    def look(self, configs: Sequence[str]) -> List[Record]:
        """Every record that is there, dead processes' too. The .key files beside them are never opened."""
        now_there = {}
        for config in configs:
            folder = os.path.join(config, "sessions")
            try:
                entries = [entry for entry in os.scandir(folder) if re.match(r"[0-9]+\.json\Z", entry.name)]
            except (OSError, ValueError):
                continue
            for entry in entries:
                try:
                    st = entry.stat()
                except OSError:
                    continue
                mark = (st.st_mtime_ns, st.st_size, st.st_ino)
                known = self.seen.get(entry.path)
                if not known or known[0] != mark or time.time() < st.st_mtime + MTIME_STEP:
                    text = (read_file(entry.path, 1 << 20) or b"").decode("utf-8", "replace")
                    record = parse_record(text, config, self.pid_domain)
                    if not record and known and time.time() < st.st_mtime + MTIME_STEP:
                        record = known[1]  # it is being written
                    known = (mark, record)
                now_there[entry.path] = known
        self.seen = now_there
        return [record for _, record in now_there.values() if record]


def find_transcript(configs: Sequence[str], session_id: str) -> str:
    """The transcript of a session in one of these config folders, the newest if there are several; or ""."""
    try:
        found = [path for config in configs
                 for path in glob.glob(os.path.join(glob.escape(config), "projects", "*", session_id + ".jsonl"))]
        return max(found, key=os.path.getmtime) if found else ""
    except (OSError, ValueError):
        return ""


def open_transcript(path: str, configs: Sequence[str]) -> Any:
    """A transcript, open for reading. OSError unless it is a regular file, and no link, inside the projects folder of a
    known config folder: the path comes from outside. (The folders on the way may be links.)"""
    folder, name = os.path.split(path)
    real = os.path.join(os.path.realpath(folder), name)
    if not os.path.isabs(path) or not any(real.startswith(os.path.realpath(os.path.join(config, "projects")) + os.sep)
                                          for config in configs):
        raise OSError(f"{path} is not among the transcripts of Claude Code")
    return open_file(real, os.O_NOFOLLOW)


def read_tail(file: Any, session_id: str, calls: Calls, agent_id: str = "",
              headless: bool = False) -> Tuple[List[Line], int, bytes]:
    """What the end of a transcript says, how far it was read, and the line that is not whole yet. A file may be huge, so
    only its last bytes are read, and more of them where those say nothing: Claude Code copies whole requests into it."""
    size = os.fstat(file.fileno()).st_size
    for tail in TAIL_BYTES:
        start = max(0, size - tail)
        file.seek(max(0, start - 1))
        data = file.read(size - file.tell())
        *lines, part = data.split(b"\n")
        calls.clear()
        said = parse_transcript(lines[1 if start else 0:], session_id, calls, agent_id, headless)
        if said or not start:
            break
    return said, size, part


def read_context(path: str, session_id: str, configs: Sequence[str]) -> Context:
    """The context from the end of a transcript; empty if it can't be read."""
    calls: Calls = {}
    try:
        with open_transcript(path, configs) as file:
            return context_of(read_tail(file, session_id, calls, headless=True)[0], calls)
    except (OSError, ValueError):
        return Context()


class Tail:
    """How far a transcript was read: the file (device, inode, size and mtime), the place, the bytes of a line that is not
    whole yet, whether the rest of a line that is too long is passed over, and the calls without a result."""

    def __init__(self) -> None:
        self.mark: Any = None
        self.place = 0
        self.part = b""
        self.skipping = False
        self.calls: Calls = {}

    def read_on(self, file: Any) -> Iterator[bytes]:
        """What is new in the file, piece by piece; the rest of a huge growth at the next look."""
        file.seek(self.place)
        for _ in range(PIECES):
            data = file.read(PIECE)
            self.place += len(data)
            if not data:
                break
            yield data

    def lines(self, data: bytes) -> List[bytes]:
        """The lines that are whole with these bytes. Split at b"\\n" alone: a text may hold every other line break."""
        if self.skipping:
            _, newline, data = data.partition(b"\n")
            self.skipping = not newline
        *lines, self.part = (self.part + data).split(b"\n")
        if len(self.part) > LINE_LIMIT:
            self.part, self.skipping = b"", True
        return lines


class Transcripts:
    """The transcripts, each read on from where it was left. One that is another file now, or shorter than it was, is begun
    anew at its end."""

    def __init__(self) -> None:
        self.tails: Dict[str, Tail] = {}
        self.found: Dict[str, Tuple[str, float, float]] = {}  # session id: path, when to look for it again, how long until
        self.again: Set[str] = set()

    def look(self, wanted: Mapping[Tuple[str, str], str], configs: Sequence[str]) -> Dict[Tuple[str, str], List[Line]]:
        """What is new in these transcripts: {(session id, agent id or ""): path} in, lines out."""
        for path in list(self.again):  # a hook that is heard meanwhile may add one
            self.again.discard(path)
            self.tails.pop(path, None)
        self.tails = {path: self.tails.get(path) or Tail() for path in wanted.values()}
        return {key: self.read(path, *key, configs) for key, path in wanted.items()}

    def read(self, path: str, session_id: str, agent_id: str, configs: Sequence[str]) -> List[Line]:
        tail = self.tails[path]
        try:
            st = os.lstat(path)
            mark = (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns)
            if mark == tail.mark:
                return []
            with open_transcript(path, configs) as file:
                if not tail.mark or mark[:2] != tail.mark[:2] or st.st_size < tail.place:
                    self.tails[path] = tail = Tail()
                    said, tail.place, tail.part = read_tail(file, session_id, tail.calls, agent_id)
                else:
                    said = [line for data in tail.read_on(file)
                            for line in parse_transcript(tail.lines(data), session_id, tail.calls, agent_id)]
            tail.mark = mark if tail.place >= st.st_size else mark[:2] + (-1, 0)
            return said
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                self.tails[path] = Tail()  # the next one there may have its inode
            return []

    def where(self, told: str, configs: Sequence[str], session_id: str, cwd: str = "") -> str:
        """The path of a session's transcript: what its hooks told, or where it is by the folder that it was started in
        (facts.md B1), if it is there; else it is looked for, ever more rarely. "" if there is none."""
        slug = re.sub("[^A-Za-z0-9]", "-", cwd)
        usual = [os.path.join(config, "projects", slug, session_id + ".jsonl") for config in configs if cwd]
        for path in [told, *usual]:
            if path and os.path.lexists(path):
                return path
        now = time.monotonic()
        path, due, pause = self.found.get(session_id, ("", 0.0, 0.5))
        if now >= due and not (path and os.path.lexists(path)):
            path, pause = find_transcript(configs, session_id), min(pause * 2, 20.0)
            self.found[session_id] = (path, now + pause, pause)
        return path or told

    def is_read(self, path: str) -> bool:
        tail = self.tails.get(path)
        return bool(tail and tail.mark)

    def keep(self, session_ids: Sequence[str]) -> None:
        """Let go of what was found of other sessions than these."""
        for session_id in [session_id for session_id in list(self.found) if session_id not in session_ids]:
            self.found.pop(session_id, None)

    def forget(self, path: str) -> None:
        """Read this one from its end again the next time."""
        self.again.add(path)


# ======================================================================================================================
# 9 SYSTEM
# Processes and tmux as they are now. Neither may hang the daemon: /proc is read, tmux has a time limit and is asked only
# where something listens on its socket.


def processes_of(pids: Sequence[int]) -> Dict[int, Optional[Process]]:
    """Each of these processes, None for one that is gone. start is /proc/PID/stat's field 22 (clock ticks since boot, as in
    Claude Code's procStart), or what ps prints where there is no /proc: one ps for all."""
    if os.path.exists("/proc/self/stat"):
        return {pid: parse_stat(pid, read_file(f"/proc/{pid}/stat", 4096) or b"") for pid in pids}
    if not pids:
        return {}
    done = subprocess.run(["ps", "-o", "pid=,stat=,tty=,lstart=", "-p", ",".join(map(str, pids))], timeout=5,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    found = dict(filter(None, map(parse_ps, done.stdout.decode("utf-8", "replace").split("\n"))))
    return {pid: found.get(pid) for pid in pids}


def parse_stat(pid: int, line: bytes) -> Optional[Process]:
    """A process from /proc/PID/stat; None for a zombie, or if there is no such line. The name in it may hold anything."""
    fields = line.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    device = int(fields[4])
    major, minor = device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00
    return Process(pid, fields[19].decode(), f"/dev/pts/{minor}" if major == 136 else "")


def parse_ps(line: str) -> Optional[Tuple[int, Process]]:
    """(pid, process) from a line of ps; None for a zombie."""
    pid, state, tty, start = (line.split(None, 3) + [""] * 4)[:4]
    if not start or state.startswith("Z"):
        return None
    return int(pid), Process(int(pid), start.strip(), f"/dev/{tty}" if tty.startswith("tty") else "")


def process_of(pid: int) -> Optional[Process]:
    return processes_of([pid])[pid]


def began_at(process: Process) -> float:
    """When a process began, epoch seconds; 0 if that can't be read."""
    try:
        if process.start.isdigit():
            boot = re.search(rb"^btime ([0-9]+)", read_file("/proc/stat") or b"", re.M)
            return int(boot.group(1)) + int(process.start) / os.sysconf("SC_CLK_TCK") if boot else 0.0
        return time.mktime(time.strptime(process.start))
    except (ValueError, OverflowError, OSError):
        return 0.0


def belongs(record: Record, process: Optional[Process]) -> bool:
    """Is a record about this live process? By its procStart; where that has another form, by when the process began."""
    if record.foreign:
        return True
    if not process:
        return False
    if record.proc_start and record.proc_start.isdigit() == process.start.isdigit():
        return record.proc_start == process.start
    return began_at(process) <= record.started_at + 2


def listens(path: str) -> bool:
    """Does somebody listen on a Unix socket?"""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(path)
        return True
    except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # too busy, not ours to open: no proof that it is gone


class Tmux:
    """Every call of the tmux program. Rows are asked for with ids first and free text last, separated by tabs; -u keeps
    tabs and other letters whole whatever the locale is."""

    PANES = ("#{pane_id}\t#{pane_tty}\t#{pane_pid}\t#{pane_dead}\t#{window_id}\t#{pane_index}\t#{session_id}\t"
             "#{window_index}\t#{pid}\t#{version}\t#{session_name}")
    CLIENTS = ("#{client_name}\t#{client_tty}\t#{client_activity}\t#{client_control_mode}\t#{client_readonly}\t"
               "#{session_id}\t#{window_id}\t#{pane_id}")

    PLACES = ":/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin"  # a service's PATH may be short
    PATIENCE = 2.0  # s

    def __init__(self, clock: Any = time.time):
        self.clock = clock

    def run(self, socket_path: str, *argv: str) -> Tuple[int, str]:
        """tmux's exit code and output; a Fault if there is no tmux or it does not answer in time."""
        env = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
        env["PATH"] = env.get("PATH", "") + self.PLACES
        try:
            done = subprocess.run(["tmux", "-u", "-S", socket_path, *argv], stdin=subprocess.DEVNULL, env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.PATIENCE)
        except FileNotFoundError:
            raise Fault("tmux is not installed, or not on the PATH of the daemon") from None
        except subprocess.TimeoutExpired:
            raise Fault(f"tmux on {socket_path} did not answer within {self.PATIENCE:g} s") from None
        except OSError as error:
            raise Fault(f"tmux can't be run: {error.strerror}") from None
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def rows(self, socket_path: str, command: str, form: str) -> List[List[str]]:
        """The rows of a list command, without lines that are none. Fault if tmux did not answer, or not like tmux."""
        code, out = self.run(socket_path, *command.split(), "-F", form)
        width = form.count("\t")
        rows = [line.split("\t", width) for line in out.split("\n")]
        pane_id = form.split("\t").index("#{pane_id}")
        rows = [row for row in rows if len(row) == width + 1 and PANE_ID.match(row[pane_id])]
        if code or out.strip() and not rows:
            raise Fault(f"tmux {command} on {socket_path} failed: {' '.join(out[:200].split()) or f'exit code {code}'}")
        return rows

    def look(self, socket_path: str) -> Server:
        """The server behind a socket with its panes; pid 0 if it is gone. Fault if it did not answer, which proves
        nothing."""
        at = self.clock()
        if not listens(socket_path):
            return Server(socket_path, 0, at, {})
        try:
            rows = self.rows(socket_path, "list-panes -a", self.PANES)
            if not rows:
                raise Fault(f"tmux on {socket_path} lists no panes")
        except Fault:
            if listens(socket_path):
                raise
            return Server(socket_path, 0, at, {})
        panes: Dict[str, PaneView] = {}
        for pane_id, tty, pid, dead, window_id, pane_index, session_id, window_index, _, _, name in rows:
            places = panes[pane_id].places if pane_id in panes else ()
            panes[pane_id] = PaneView(pane_id, tty, int(pid or 0), dead == "1", window_id, pane_index,
                                      places + ((session_id, name, window_index),))
        return Server(socket_path, int(rows[0][8]), at, panes, rows[0][9])

    def clients(self, socket_path: str) -> List[Client]:
        """The attached clients of a server. Fault if it does not answer."""
        rows = self.rows(socket_path, "list-clients", self.CLIENTS)
        return [Client(socket_path, name, tty, int(activity or 0), control == "1", readonly == "1", *ids)
                for name, tty, activity, control, readonly, *ids in rows]

    def screen(self, pane: Pane) -> str:
        """The pane's visible text. Fault if it has none."""
        code, out = self.run(pane.socket, "capture-pane", "-p", "-t", pane.pane_id)
        if code:
            raise Fault(f"tmux could not show the pane {pane.pane_id}: {out.strip()}")
        return out

    @staticmethod
    def sockets(env: Mapping[str, str]) -> List[str]:
        """The sockets of this person's servers that have the usual place (tmux -L NAME)."""
        folder = os.path.join(os.path.realpath(env.get("TMUX_TMPDIR") or "/tmp"), f"tmux-{os.getuid()}")
        try:
            return [entry.path for entry in os.scandir(folder) if stat.S_ISSOCK(entry.stat().st_mode)]
        except OSError:
            return []


# ======================================================================================================================
# 10 EMIT
# What hooks/trailboss-emit.sh does with curl, for a machine without it. It may print nothing, must exit 0, and must be done
# in under two seconds: so alarms bound it all, and whatever goes wrong ends in silence.

HEADERS = {"X-Tmux": "TMUX", "X-Tmux-Pane": "TMUX_PANE", "X-Claude-Pid": "CLAUDE_PID",
           "X-Claude-Entrypoint": "CLAUDE_CODE_ENTRYPOINT", "X-Claude-Config": "CLAUDE_CONFIG_DIR",
           "X-Claude-Project-Dir": "CLAUDE_PROJECT_DIR", "X-Claude-Job-Dir": "CLAUDE_JOB_DIR"}


def emit(env: Mapping[str, str], stdin: int = 0) -> int:
    """Hand one hook event from standard input to the daemon, or to the spool. Always 0."""
    def give_up(*_: Any) -> None:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        raise TimeoutError("the daemon takes too long: there is time left for the spool")

    try:
        now = time.time()
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, 1.5, 0.4)
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)  # a session that ends takes its hooks along; its event counts
        body = read_input(stdin, now + 1.0)
        headers = {"X-Event-Id": f"{now:.9f}-{os.getpid()}", "X-Event-Time": f"{now:.6f}"}
        headers.update({key: env[name] for key, name in HEADERS.items()
                        if env.get(name) and not re.search(r"[\x00-\x1f\x7f]", env[name])})
        folder = env.get("TRAILBOSS_HOME") or env.get("XDG_STATE_HOME") or "/"
        home = state_home(env)
        if body and os.path.isabs(folder) and not post_event(home, headers, body):  # a relative one is in the project
            write_spool(home, headers, body)
    except BaseException:  # a hook that fails shows in the person's session
        pass
    return 0


def read_input(fd: int, until: float) -> bytes:
    """Standard input to its end, or as much as has come by a time. Nothing if it is more than the daemon would take."""
    parts, size = [], 0
    while size <= SPOOL_LIMIT and time.time() < until and select.select([fd], [], [], max(0.0, until - time.time()))[0]:
        part = os.read(fd, 1 << 20)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts) if size <= SPOOL_LIMIT else b""


def sent(headers: Mapping[str, str]) -> Dict[str, str]:
    """Headers as http.client takes them: their bytes as Latin-1. A value that would break the line is left out."""
    return {key: value.encode("utf-8", "surrogateescape").decode("latin-1") for key, value in headers.items()
            if value and not re.search(r"[\x00-\x1f\x7f]", value)}


def post_event(home: str, headers: Mapping[str, str], body: bytes) -> bool:
    """POST an event. True if the daemon has it for good, or no later try can do better."""
    import http.client
    try:
        daemon = daemon_address(home)
        connection = http.client.HTTPConnection("127.0.0.1", daemon["port"], timeout=0.6)
        connection.request("POST", "/event", body, {
            "Authorization": f"Bearer {token_of(home)}", "Content-Type": "application/json", **sent(headers)})
        with connection.getresponse() as response:
            status = response.status
        connection.close()
    except Exception:  # whatever it is, there is still the spool
        return False
    return 200 <= status < 300 or status in (400, 413)


def daemon_address(home: str) -> Dict[str, Any]:
    """Where our daemon listens: {pid, start, port}. Fault 3 unless the very process that wrote it lives: whoever else has
    its port by now must get neither an event nor the token."""
    try:
        daemon = read_json(read_file(os.path.join(home, "daemon.json")) or b"null")
        alive = process_of(daemon["pid"]) if daemon else None
        if alive and alive.start == daemon["start"] and isinstance(daemon["port"], int):
            return daemon
    except (ValueError, KeyError, TypeError):
        pass
    raise Fault(f"no daemon: `{own_command()} serve --detach` starts one for {home}", 3)


# ======================================================================================================================
# 11 DAEMON
# One Board under one lock. Events come in by HTTP, a thread per connection; a tick reads the records, the processes and the
# spool and the transcripts; a second, slower loop asks tmux, which may hang. Each of them makes a new board and saves what
# differs; an event is acknowledged after that, so that none is lost.

TICK = 0.2             # s
TMUX_EVERY = 2.0       # s between looks at tmux; 0.5 while some session's pane is not proved
SWEEP = 60.0           # s
CONNECTIONS = 64
BODY_LIMIT = 16 * 1024 * 1024
LOADED_LATER = ("hashlib", "hmac", "http.server", "sqlite3")


class Daemon:
    """Owns the board, the world as it was seen last, and the database."""

    def __init__(self, home: str, env: Mapping[str, str], clock: Any = time.time):
        self.home, self.env, self.clock = home, env, clock
        self.lock = threading.RLock()
        self.store = Store(os.path.join(home, "trailboss.db"))
        self.board, self.world = self.store.load(), World()
        self.saved, self.trouble = self.board, ""
        self.records, self.transcripts, self.tmux = Records(), Transcripts(), Tmux(clock)
        self.default_configs = configs_of(home, env)
        self.told_of = {path for path in [env.get("TMUX", "").rsplit(",", 2)[0]] if path.startswith("/")}
        self.jumping = threading.Lock()
        self.trails: Dict[str, List[Pane]] = {}
        self.failures: Dict[str, str] = {}
        self.tries: Dict[Tuple[str, float], Tuple[int, float]] = {}
        self.stopping, self.look_now, self.looked = threading.Event(), threading.Event(), threading.Event()

    # -- what comes in ---------------------------------------------------------------------------------------------

    def hear(self, events: Sequence[Event]) -> None:
        """Take events in, in the order of their times. When this returns, they are saved."""
        events = [from_here(e, self.clock()) for e in sorted(events, key=lambda e: e.at)]
        with self.lock:
            board, world, fresh = self.board, self.world, []
            for e in events:
                if e.event_id and self.store.knows(e.event_id):
                    continue
                fresh.append(e)
                board = take_event(board, e)
                now_s = board.sessions[e.session_id]
                if now_s.asks and e.at < max(now_s.told_at, now_s.agents_at):  # told of late: a transcript may know its end
                    for path in self.transcripts_of([now_s]).values():
                        self.transcripts.forget(path)
                if e.process:
                    world = world._replace(processes={**world.processes, e.process.pid:
                                                      e.process if e.process.start else None})
                if e.claim and e.claim.socket not in world.servers:
                    self.look_now.set()
            self.world = world
            self.turn(observe(board, world, self.clock()), fresh)

    def turn(self, board: Board, events: Sequence[Event] = ()) -> None:
        """Make this the board, and save what differs from what was saved last. Where that fails (a full disk), the queue is
        right all the same and says so; an event that could not be saved is not acknowledged."""
        self.board = board
        if board.sessions != self.saved.sessions or events:
            try:
                self.store.save(self.saved, board, events, self.clock())
            except Exception as error:
                trouble = str(error) if isinstance(error, Unsaved) else f"the state can't be saved: {error!r}"
                if trouble != self.trouble and not self.stopping.is_set():
                    print(f"trailboss: {trouble}", file=sys.stderr, flush=True)
                self.trouble = trouble
                if events or not isinstance(error, Unsaved):
                    raise
            else:
                self.saved, self.trouble = board, ""

    def tick(self) -> None:
        """Look at the spool, the records, the processes and the transcripts."""
        self.guard(self.take_in_spool)
        records = self.records.look(self.configs())
        with self.lock:
            pids = {s.process.pid for s in self.board.sessions.values() if s.process and not s.ended_at}
        processes = processes_of(sorted(pids.union(r.pid for r in records if not r.foreign)))
        live = {r.pid: r for r in records if belongs(r, processes.get(r.pid))}
        with self.lock:
            self.world = self.world._replace(records=live, processes=processes)
            newcomers = strangers(self.board, live, self.clock())
            sessions = [s for s in self.board.sessions.values() if not s.ended_at and s.entrypoint == "cli"]
        paths = {r.session_id: self.transcripts.where("", [r.config], r.session_id, r.cwd) for r in newcomers}
        wanted = {**self.transcripts_of(sessions), **{(key, ""): path for key, path in paths.items()}}
        said: Dict[Tuple[str, str], List[Line]] = {}
        self.guard(lambda: said.update(self.transcripts.look(wanted, self.configs())))  # the records tell without it too
        with self.lock:
            board = self.board
            for r in (r for r in newcomers if r in strangers(board, live, self.clock())):  # a hook may have been heard since
                board = take_stranger(board, r, processes.get(r.pid), paths[r.session_id])
            for (session_id, _), lines in said.items():
                board = take_lines(board, session_id, lines, self.clock()) if lines else board
            self.turn(self.fill_in(observe(board, self.world, self.clock())))

    def transcripts_of(self, sessions: Sequence[Session]) -> Dict[Tuple[str, str], str]:
        """Where the transcripts of these sessions are, and of those of their subagents that ask or are waited for."""
        wanted = {}
        for s in sessions:
            wanted[s.session_id, ""] = path = self.transcript_of(s)
            agents = {a.agent_id for a in s.asks if a.agent_id}.union(s.agents if s.end and s.end.parked else ())
            for agent_id in (agent_id for agent_id in agents if SESSION_ID.match(agent_id)):
                wanted[s.session_id, agent_id] = os.path.join(os.path.dirname(path), s.session_id, "subagents",
                                                              f"agent-{agent_id}.jsonl")
        return {key: path for key, path in wanted.items() if path}

    def transcript_of(self, s: Session) -> str:
        configs = [s.config] if s.config else self.default_configs
        return self.transcripts.where(s.transcript_path, configs, s.session_id, s.cwd)

    def fill_in(self, board: Board) -> Board:
        """Fill in from the transcript what a wait is about where no hook told. Lines come late: six tries within ten
        seconds, the first ones close together."""
        now = self.clock()
        bare = {(s.session_id, s.wait.since): s for s in board.sessions.values()
                if s.wait and (not s.wait.text or (s.session_id, s.wait.since) in self.tries)}
        self.tries = {key: self.tries.get(key, (0, now)) for key in bare}
        due_now = [(key, s) for key, s in bare.items() if self.tries[key][0] < 6 and now >= self.tries[key][1]]
        for key, s in due_now[:3]:  # a file each, under the lock: the rest at the next tick
            tried = self.tries[key][0]
            self.tries[key] = (tried + 1, now + 0.3 * 2 ** tried)
            context = read_context(self.transcript_of(s), s.session_id, self.configs())
            board = board._replace(sessions={**board.sessions, s.session_id: tell(s, context)})
        return board

    def take_in_spool(self) -> None:
        """Events that came while nobody answered; a file goes once its event is saved, or if it holds none."""
        told = []
        for path, headers, body in take_spool(self.home):
            try:
                told.append((path, parse_event(body, headers, self.clock())))
            except Fault as fault:
                print(f"trailboss: {path} dropped: {fault}", file=sys.stderr, flush=True)
                remove_file(path)
        if told:
            self.hear([e for _, e in told])
        for path, _ in told:
            remove_file(path)

    def configs(self) -> List[str]:
        """Every config folder that was told of."""
        with self.lock:
            told = {s.config for s in self.board.sessions.values() if s.config.startswith("/")}
        return sorted(told.union(self.default_configs))

    # -- tmux --------------------------------------------------------------------------------------------------------

    def look_at_tmux(self, also: Optional[Sequence[str]] = None) -> Dict[str, Fault]:
        """Look at every server that a session may be in, that was seen before, or that `also` names: a client may be on
        one without any session. One that does not answer stays as it was, and comes back with the reason."""
        with self.lock:
            live = [s for s in self.board.sessions.values() if not s.ended_at]
            known = {path for path, server in self.world.servers.items() if server.pid}
        silent: Dict[str, Fault] = {}
        if not live and also is None:
            return silent
        claimed = {s.claim.socket for s in live if s.claim}
        for path in known.union(claimed, self.tmux.sockets(self.env), self.told_of, also or ()):
            try:
                server = self.tmux.look(path)
            except Fault as fault:
                silent[path] = fault
                continue
            with self.lock:
                self.world = self.world._replace(servers={**self.world.servers, path: server})
        with self.lock:
            self.turn(observe(self.board, self.world, self.clock()))
        return silent

    def typed_at(self, here: Optional[Tuple[str, str, str]]) -> None:
        """A command came from a tmux server: one with a socket of its own is found only if somebody tells of it."""
        if here and here[0].startswith("/") and here[0] not in self.told_of:
            self.told_of = self.told_of.union([here[0]])
            self.look_now.set()

    def servers(self) -> Dict[str, Server]:
        with self.lock:
            return dict(self.world.servers)

    # -- the loops ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first look, before anybody is answered (tmux may hang: it is not waited for long); then the loops."""
        self.guard(self.sweep)
        self.guard(self.tick)
        self.guard(self.tick)  # who was seen by the first one is on the board by the second
        self.look_now.set()
        for loop in (self.tick_loop, self.tmux_loop):
            threading.Thread(target=loop, daemon=True).start()
        self.looked.wait(0.3)

    def tick_loop(self) -> None:
        swept = self.clock()
        while not self.stopping.wait(TICK):
            self.guard(self.tick)
            if abs(self.clock() - swept) > SWEEP:
                swept = self.clock()
                self.guard(self.sweep)
            if not os.path.isdir(self.home):
                os.kill(os.getpid(), signal.SIGTERM)  # nobody can find us any more: the state folder was taken away

    def sweep(self) -> None:
        """Let go of what is of no use any more."""
        with self.lock:
            self.store.prune(self.clock())
            self.turn(forget(self.board, self.clock()))
            self.transcripts.keep(list(self.board.sessions))

    def tmux_loop(self) -> None:
        while not self.stopping.is_set():
            with self.lock:
                unproved = any(not s.ended_at and is_interactive(s) and not (s.pane and s.process)
                               for s in self.board.sessions.values())
            self.look_now.wait(0.5 if unproved else TMUX_EVERY)
            self.look_now.clear()
            self.guard(self.look_at_tmux)
            self.looked.set()

    def guard(self, action: Any) -> None:
        """A loop outlives any one failure, and tells of it once, for as long as it lasts."""
        name = getattr(action, "__name__", "")
        try:
            action()
            self.failures.pop(name, None)
        except Exception as error:
            if repr(error) != self.failures.get(name) and not self.stopping.is_set():
                if isinstance(error, Fault):
                    print(f"trailboss: {error}", file=sys.stderr, flush=True)
                else:
                    traceback.print_exc()
            self.failures[name] = repr(error)

    def stop(self) -> None:
        self.stopping.set()
        self.look_now.set()
        with self.lock:
            self.store.db.close()

    # -- what is asked -----------------------------------------------------------------------------------------------

    def queue(self, everything: bool) -> Dict[str, Any]:
        with self.lock:
            answer = listing(self.board, self.world.servers, self.clock(), everything)
            return {**answer, "trouble": self.trouble}

    def named(self, wanted: str, here: Optional[Tuple[str, str, str]]) -> Tuple[Session, Dict[str, Any]]:
        """The session of an ID, or the one that waits longest, with the beginning of an answer about it."""
        with self.lock:
            now, servers = self.clock(), self.world.servers
            queue = waiting(self.board, now)
            if not wanted and not queue:
                raise Fault("nothing is waiting", 4)
            s = meant(list(self.board.sessions.values()), wanted, here) if wanted else queue[0]
        return s, {"now": now, "session": item(s, servers, now) if s.wait else session_row(s, servers)}

    def explain(self, wanted: str, here: Optional[Tuple[str, str, str]]) -> Dict[str, Any]:
        """A session with its history."""
        s, answer = self.named(wanted, here)
        with self.lock:
            return {**answer, "history": [change._asdict() for change in self.store.history(s.session_id)]}

    def witnesses(self) -> Dict[str, Any]:
        """What each witness tells at present, for `doctor`; "today" is the last 24 hours."""
        silent = {path: str(fault) for path, fault in self.look_at_tmux([]).items()}
        with self.lock:
            now, servers = self.clock(), self.world.servers
            live = [s for s in self.board.sessions.values() if not s.ended_at and is_interactive(s)]
            paths = {s.session_id: self.transcript_of(s) for s in live if s.had_turn}
            read = [key for key, path in paths.items() if self.transcripts.is_read(path)]
            return {
                "now": now, **self.store.tally(now - 86400), "live": len(live),
                "never_heard": [s.session_id[:8] for s in live if not s.heard_at],
                "records": sum(1 for s in live if s.record), "transcripts": len(read),
                "unread": [key[:8] for key in paths if key not in read],
                "proved": sum(1 for s in live if s.pane and s.process and s.process.tty), "silent": silent,
                "servers": {path: {"version": server.version, "panes": len(server.panes)}
                            for path, server in servers.items() if server.pid and path not in silent}}

    def detail(self, wanted: str, here: Optional[Tuple[str, str, str]], screen: bool) -> Dict[str, Any]:
        """A session in full, for `show`."""
        s, answer = self.named(wanted, here)
        if screen:
            if not s.pane:
                raise Fault(f"session {s.session_id[:8]} has no pane to show" + attach_hint(s))
            return {**answer, "screen": self.tmux.screen(s.pane)}
        context = read_context(self.transcript_of(s), s.session_id, self.configs())
        wait = s.wait or Wait("", 0.0)
        return {**answer, "tool_name": wait.tool_name, "tool_input": wait.tool_input, "lines": context.lines,
                "last_message": wait.text if wait.reason == "error" else s.last_message or context.message}

    def put_off(self, ask: Mapping[str, Any]) -> Dict[str, Any]:
        """skip and snooze: a wait is offered later. Without an ID: the one that is looked at, else the longest."""
        here, action, wanted = here_of(ask), text_of(ask.get("action")), text_of(ask.get("id"))
        looked_at = self.looked_at(here, text_of(ask.get("client")))
        with self.lock:
            now = self.clock()
            queue = waiting(self.board, now)
            if wanted:
                s = meant(list(self.board.sessions.values()), wanted, here)
                if s not in queue:
                    raise Fault(f"session {s.session_id[:8]} does not wait: there is nothing to {action}")
            else:
                seen = [s for s in queue if looked_at and s.pane == looked_at]
                if not seen and not offered(queue, now):
                    raise Fault("nothing is waiting", 4)
                s = (seen or queue)[0]
            if action == "skip":
                self.turn(put_off(self.board, s.session_id, skipped_at=now))
            else:
                seconds = ask.get("seconds")
                until = FOREVER if seconds is None else now + number_of(seconds) if number_of(seconds) else 0.0
                self.turn(put_off(self.board, s.session_id, snoozed_until=until))
            return {"session": item(self.board.sessions[s.session_id], self.world.servers, now), "now": now}

    def looked_at(self, here: Optional[Tuple[str, str, str]], name: str) -> Optional[Pane]:
        """The pane that the client which would move looks at."""
        try:
            clients = self.clients()
            return self.seen_by(choose_client(clients, name, here), clients)
        except Fault:
            return None

    def clients(self, silent: Optional[Dict[str, Fault]] = None) -> List[Client]:
        """Every attached client of the servers that are not silent. Fault if one that is may be why there is none."""
        found: List[Client] = []
        silent = {} if silent is None else silent
        for path, server in self.servers().items():
            try:
                found += self.tmux.clients(path) if server.pid and path not in silent else []
            except Fault as fault:
                silent[path] = fault
        if silent and not found:
            raise next(iter(silent.values()))
        return found

    # -- jump --------------------------------------------------------------------------------------------------------

    def jump(self, ask: Mapping[str, Any]) -> Dict[str, Any]:
        """Take a client to the next waiting pane, to the one of an ID, or back. Answers with the notes that a person
        should read; Fault if nobody moved. One at a time: a second press goes on from where the first one led."""
        here, wanted, name = here_of(ask), text_of(ask.get("id")), text_of(ask.get("client"))
        back, attach = bool(ask.get("back")), bool(ask.get("attach"))
        with self.jumping:
            with self.lock:
                board, now = self.board, self.clock()  # as the person saw it; what is gone since is said
            goals = offered(waiting(board, now), now)
            if wanted:
                goals = [meant(list(board.sessions.values()), wanted, here)]
            if not goals and not back:
                raise Fault("nothing is waiting", 4)
            clients = self.clients(self.look_at_tmux([here[0]] if here and here[0].startswith("/") else []))
            if back:
                return self.back(choose_client(clients, name, here), clients, attach)
            try:
                client = choose_client(clients, name, here, next((s.pane.socket for s in goals if s.pane), ""))
            except Fault as fault:
                if name:
                    raise
                _, s, view = self.first_there(goals)
                raise Fault(f"{fault}: attach one with `{attach_command(s.pane.socket, view)}`") from None
            if not wanted:
                goals = next_after(goals, self.seen_by(client, clients))
            far = [s for s in goals if s.pane and not self.mover(s.pane, client, clients)]
            if not wanted and not attach:  # what this client can't reach must not stop the round
                goals = [s for s in goals if s not in far] + far
            notes, s, view = self.first_there(goals)
            if far and s.wait and not wanted and not attach and far[0].wait.since < s.wait.since:
                notes.append(f"session {far[0].session_id[:8]} waits longer, on another tmux server: jump to it with its ID")
            self.go(s.pane, view, client, clients, attach)
            return {"notes": notes, "session": session_row(s, self.servers()), "client": client.name}

    def first_there(self, goals: Sequence[Session]) -> Tuple[List[str], Session, PaneView]:
        """The first of them that is in a pane now, and which were passed over. Fault if none is. A process that ended
        since the last tick proves no pane: its terminal may be another pane's by now."""
        notes: List[str] = []
        for old in goals:
            with self.lock:
                s = self.board.sessions.get(old.session_id, old)
            alive = not s.process or same_process(s.process, process_of(s.process.pid))
            view = self.view_of(s.pane) if s.pane and alive else None
            if view:
                return notes, s, view
            where = s.pane or old.pane
            notes.append(f"session {s.session_id[:8]} in {where.pane_id} is gone" if where else
                         f"session {s.session_id[:8]} has no pane" + attach_hint(s))
        raise Fault("; ".join(notes))

    def mover(self, pane: Pane, client: Client, clients: Sequence[Client]) -> Optional[Client]:
        """The client of the pane's server by which this client can see it: itself, the one around it, or one inside."""
        if client.socket == pane.socket:
            return client
        around = outer_client(client, clients, self.servers())
        return around if around and around.socket == pane.socket else \
            inner_client(pane.socket, client, clients, self.servers())

    def go(self, pane: Pane, view: PaneView, client: Client, clients: Sequence[Client], attach: bool) -> None:
        """Bring a pane to a client of its server; where tmux runs inside tmux, by the client around this one or inside.
        Another server: Fault with the command that attaches there, or with `attach` that is what the client does."""
        seen, mover = self.seen_by(client, clients), self.mover(pane, client, clients)
        if mover:
            self.move(pane, view, mover)
            self.show_outer(mover, client, clients)
        elif attach and not client.control:
            self.tmux.look(pane.socket)  # it must answer now: the person would hang there
            code, out = self.tmux.run(client.socket, "detach-client", "-t", client.name, "-E",
                                      "exec " + attach_command(pane.socket, view))
            if code:
                raise Fault(f"tmux did not let go of the client {client.name}: {out.strip()}")
        else:
            raise Fault(f"the pane {pane.pane_id} is on another tmux server: `{attach_command(pane.socket, view)}`, or "
                        "the same jump with --attach takes this client there")
        if mover != client and seen != pane:
            self.remember(client, seen)

    def move(self, pane: Pane, view: PaneView, client: Client) -> None:
        """Run the commands, then see whether the client is there: tmux's exit code alone says little."""
        for argv in steps(view, client, self.servers()[pane.socket].version):
            code, out = self.tmux.run(pane.socket, *argv)
            if code:
                raise Fault(f"tmux {argv[0]} to {pane.pane_id} failed: {out.strip()}")
        now_at = [c.pane_id for c in self.tmux.clients(pane.socket) if c.name == client.name]
        if now_at != [pane.pane_id]:
            raise Fault(f"tmux took the client {client.name} to {' '.join(now_at) or 'nowhere'}, not to {pane.pane_id}")
        if self.seat(client) != pane:
            self.remember(client, self.seat(client))

    def show_outer(self, client: Client, asker: Client, clients: Sequence[Client]) -> None:
        """Where the client runs in a pane of another tmux, bring that pane up there: to the one who asked, if it is
        theirs. At most three deep."""
        servers = self.servers()
        for _ in range(3):
            outer = outer_client(client, clients, servers, asker)
            if not outer:
                return
            server, view = client_terminal(client, servers)
            self.move(Pane(server.socket, server.pid, view.pane_id), view, outer)
            client = outer

    def remember(self, client: Client, pane: Optional[Pane]) -> None:
        """One step of a client's way back. It goes by the client's name, its terminal: that stays on another server."""
        trail = self.trails.setdefault(client.name, [])
        trail += [pane] if pane else []
        del trail[:-50]

    def back(self, client: Client, clients: Sequence[Client], attach: bool) -> Dict[str, Any]:
        """Where this client was before its last jump; panes that are gone since are passed over."""
        trail, notes = self.trails.get(client.name, []), []
        while trail:
            pane, view = trail[-1], self.view_of(trail[-1])
            if view and pane not in (self.seat(client), self.seen_by(client, clients)):
                length = len(trail)
                self.go(pane, view, client, clients, attach)
                del trail[length - 1:]  # the way back is not a way
                return {"notes": notes, "session": {"pane": pane.pane_id, "server": pane.socket}, "client": client.name}
            trail.pop()
            notes += [] if view else [f"the pane {pane.pane_id} is gone"]
        raise Fault("; ".join([*notes, f"the client {client.name} has no jump to go back from"]))

    def seen_by(self, client: Client, clients: Sequence[Client]) -> Optional[Pane]:
        """What a client shows: its pane, or the one inside where another tmux runs in that."""
        servers, seat = self.servers(), self.seat(client)
        for inner in clients:
            around = client_terminal(inner, servers)
            if around and seat == Pane(around[0].socket, around[0].pid, around[1].pane_id):
                return self.seat(inner)
        return seat

    def seat(self, client: Client) -> Optional[Pane]:
        """The pane that a client looks at."""
        server = self.servers().get(client.socket)
        return Pane(client.socket, server.pid, client.pane_id) if server else None

    def view_of(self, pane: Pane) -> Optional[PaneView]:
        """A pane as it was seen last, if it is still there."""
        server = self.servers().get(pane.socket)
        view = server.panes.get(pane.pane_id) if server and server.pid == pane.server_pid else None
        return view if view and not view.dead else None


def from_here(e: Event, now: float) -> Event:
    """The event with its process as it is now. What was made just now, in a process and by a tmux that are not here, comes
    out of a container: its pid and pane mean nothing."""
    e = e._replace(process=known_process(e))
    elsewhere = e.claim and not os.path.exists(e.claim.socket) and not (e.process and e.process.start)
    return e._replace(process=None, claim=None) if elsewhere and e.name != "SessionEnd" and now - e.at < SKEW else e


def known_process(e: Event) -> Optional[Process]:
    """The event's process as it is now; without a start where it is gone, or where a later one has its pid."""
    process = process_of(e.process.pid) if e.process else None
    return process if process and began_at(process) <= e.at + 2 else e.process


def tell(s: Session, context: Context) -> Session:
    """A wait filled in from the transcript: the tool call with no result, or the last message. (A hook's tool_input may be
    empty where the transcript's is not: ExitPlanMode.)"""
    wait = s.wait
    if wait.reason not in ("permission", "question", "plan"):
        wait = wait._replace(text=wait.text or context.message)
    elif context.tool_name and (wait.tool_name in ("", context.tool_name) or not s.asks) and not wait.agent:
        wait = wait._replace(tool_name=context.tool_name, tool_input=context.tool_input,
                             reason=TOOL_REASONS.get(context.tool_name, wait.reason),
                             text=one_line_input(context.tool_name, context.tool_input))
    return s._replace(wait=wait, last_message=s.last_message or context.message)


def here_of(ask: Mapping[str, Any]) -> Optional[Tuple[str, str, str]]:
    """(socket, session id, pane id) of where a command was typed: its $TMUX and $TMUX_PANE. A key or a popup has no
    pane."""
    parts = text_of(ask.get("tmux")).rsplit(",", 2)
    return (parts[0], "$" + parts[2], text_of(ask.get("pane"))) if len(parts) == 3 else None


def meant(sessions: Sequence[Session], wanted: str, here: Optional[Tuple[str, str, str]]) -> Session:
    """The session that an ID typed here means: pane ids repeat from server to server, so this one's come first."""
    mine = [s for s in sessions if here and s.pane and (s.pane.socket, s.pane.pane_id) == (here[0], wanted)]
    return find(mine or sessions, wanted)


def attach_hint(s: Session) -> str:
    return f": `claude attach {s.session_id[:8]}`" if s.kind == "bg" else ""


def configs_of(home: str, env: Mapping[str, str]) -> List[str]:
    """The config folders to look into from the start: this environment's, and each one that `install` was told of."""
    told = (read_file(os.path.join(home, "configs")) or b"").decode("utf-8", "surrogateescape").split("\n")
    return sorted({config_folder(env), *(path for path in told if path.startswith("/"))})


# ---- HTTP ------------------------------------------------------------------------------------------------------------


class Requests:
    """One connection: http.server's BaseHTTPRequestHandler does HTTP, this answers. (Mixed with it in make_server, so that
    a command need not load http.server.)"""
    protocol_version = "HTTP/1.1"
    timeout = 5  # s: a client that says nothing

    def do_GET(self) -> None:
        self.respond()

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass

    def version_string(self) -> str:
        return f"trailboss/{VERSION}"

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """What http.server itself refuses: no HTTP, or a method that we do not have."""
        self.close_connection = True
        self.reply(code, {"error": message or "this is no request"})

    def respond(self) -> None:
        try:
            self.check()
            body = self.body()
            answer = route(self.server.daemon, self.command, self.path, self.headers, body)
            self.reply(200, answer)
        except Refusal as refusal:
            self.close_connection = True  # its body, if any, was not read
            self.reply(refusal.status, {"error": str(refusal)})
        except Unsaved as fault:
            self.reply(500, {"error": str(fault)})
        except Fault as fault:
            self.reply(409, {"error": str(fault), "code": fault.code})
        except ConnectionError:
            self.close_connection = True
        except Exception as error:
            self.close_connection = True
            if self.server.daemon.stopping.is_set():  # with its database closed
                return self.reply(503, {"error": "the daemon is ending"})
            traceback.print_exc()
            self.reply(500, {"error": f"the daemon failed: {error!r}; its log has more"})

    def check(self) -> None:
        """Only our own callers: no page in a browser (Host, Origin), no other user (token)."""
        import hmac
        port = self.server.server_address[1]
        own = (f"127.0.0.1:{port}", f"localhost:{port}")
        if self.headers.get("Host") not in own:
            raise Refusal(403, f"Host must be one of {own}")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in own]:
            raise Refusal(403, "requests from other origins are refused")
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if self.path != "/health" and not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            raise Refusal(401, "the token is missing or wrong")

    def body(self) -> bytes:
        length, chunked = self.headers.get("Content-Length", ""), "Transfer-Encoding" in self.headers
        if self.command != "POST" and not length and not chunked:
            return b""
        if chunked or not length:
            raise Refusal(411, "a Content-Length is needed")
        if not re.match(r"[0-9]+\Z", length):
            raise Refusal(400, "the Content-Length is no number")
        if len(length) > 12 or int(length) > BODY_LIMIT:
            raise Refusal(413, f"a body may have {BODY_LIMIT} bytes at most")
        try:
            body = self.rfile.read(int(length))
        except socket.timeout:
            raise Refusal(408, "the body did not come in time") from None
        if len(body) < int(length):
            raise Refusal(400, "the body is shorter than its Content-Length")
        return body

    def reply(self, status: int, answer: Any) -> None:
        import hashlib
        data = json.dumps(answer).encode()
        tag = '"' + hashlib.sha256(repr(steady(answer)).encode("utf-8", "replace")).hexdigest()[:16] + '"'
        if status == 200 and self.command == "GET" and self.headers.get("If-None-Match") == tag:
            status, data = 304, b""
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            if status in (200, 304):
                self.send_header("ETag", tag)
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data if self.command != "HEAD" else b"")
            if status >= 400 and self.close_connection:
                self.drain()
        except OSError:  # the client has gone
            self.close_connection = True

    def drain(self) -> None:
        """Take what the client still sends, for a while: closed over it, the connection is reset and the reply lost."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(0.5)
        until = time.monotonic() + 2
        while time.monotonic() < until and self.connection.recv(1 << 16):
            pass


class Connections:
    """A thread per connection, but not more than CONNECTIONS; mixed with http.server's HTTPServer."""
    daemon_threads = True
    request_queue_size = 512  # 200 hooks at once must not be reset (scenarios.md 78)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)  # HTTPServer's way asks a name server who we are, and may wait for it
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.places.acquire(timeout=0.5):
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def make_server(daemon: Optional[Daemon], port: int, token: str) -> Any:
    """The HTTP server on 127.0.0.1, bound but not yet serving; `daemon` may be set until it does. OSError if the port is
    taken."""
    import http.server
    handler = type("Handler", (Requests, http.server.BaseHTTPRequestHandler), {})
    listener = type("Listener", (Connections, http.server.ThreadingHTTPServer), {
        "daemon": daemon, "token": token, "places": threading.BoundedSemaphore(CONNECTIONS)})
    return listener(("127.0.0.1", port), handler)


class Refusal(Exception):
    """A request that is not ours to answer: an HTTP status and why."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def steady(answer: Any) -> Any:
    """An answer without what changes by the clock alone, for its ETag."""
    if isinstance(answer, dict):
        return {key: steady(value) for key, value in answer.items() if key not in ("now", "waited_s")}
    return [steady(value) for value in answer] if isinstance(answer, list) else answer


def route(daemon: Daemon, method: str, target: str, headers: Any, body: bytes) -> Any:
    """The answer to a request that was let in."""
    path, _, query = target.partition("?")
    options = query.split("&")
    session = re.match(r"/sessions/([%A-Za-z0-9_-]*)\Z", path)
    told = {key.lower(): value.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
            for key, value in headers.items()}
    typed_in = {"tmux": told.get("x-tmux"), "pane": told.get("x-tmux-pane")}
    if path not in ("/event", "/health"):
        daemon.typed_at(here_of(typed_in))
    if method == "POST" and path == "/event":
        try:
            event = parse_event(body, told, daemon.clock())
        except Fault as fault:
            raise Refusal(400, str(fault)) from None
        daemon.hear([event])
        return {}
    if method == "GET" and path == "/health":
        return {"trailboss": VERSION, "pid": os.getpid()}
    if method == "GET" and path == "/queue":
        return daemon.queue("all=1" in options)
    if method == "GET" and path == "/witnesses":
        return daemon.witnesses()
    if method == "GET" and session:
        wanted, here = session.group(1).replace("%25", "%"), here_of(typed_in)
        return daemon.explain(wanted, here) if "history=1" in options else daemon.detail(wanted, here, "screen=1" in options)
    if method == "POST" and path in ("/jump", "/skip", "/snooze"):
        try:
            ask = read_json(body)
        except ValueError:
            ask = None
        if not isinstance(ask, dict):
            raise Refusal(400, "the body must be a JSON object")
        ask = {**typed_in, **ask, "action": path[1:]}
        return daemon.jump(ask) if path == "/jump" else daemon.put_off(ask)
    raise Refusal(404, f"there is no {method} {path}")


# ---- serve -----------------------------------------------------------------------------------------------------------


def take_lock(home: str) -> Any:
    """The lock of the state folder, held until this process ends. Fault if another daemon has it."""
    path = os.path.join(home, "lock")
    lock = open(path, "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        try:
            daemon = daemon_address(home)
            raise Fault(f"a daemon for {home} runs already: pid {daemon['pid']}, on 127.0.0.1:{daemon['port']}; "
                        f"`kill {daemon['pid']}` ends it") from None
        except Fault as fault:
            raise fault if fault.code == 1 else Fault(f"a daemon for {home} is just starting") from None
    return lock


def answers(port: int) -> bool:
    """Does anybody take connections on a port of this machine?"""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def bind(port: Optional[int], env: Mapping[str, str], token: str) -> Any:
    """The HTTP server on the port that was asked for; without one on $TRAILBOSS_PORT, or on a free one if that is taken."""
    text = env.get("TRAILBOSS_PORT") or str(DEFAULT_PORT)
    if port is None and not (re.match(r"[0-9]{1,5}\Z", text) and int(text) < 65536):
        raise Fault(f"TRAILBOSS_PORT is {text!r}: it must be a port number")
    if port is not None and not 0 <= port < 65536:
        raise Fault(f"--port {port}: it must be a port number")
    for choice in [port] if port is not None else [int(text), 0]:
        try:
            if choice and answers(choice):  # on *:PORT; a Mac would let us in before it, and take its callers from it
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            return make_server(None, choice, token)
        except OSError as error:
            why = error
    raise Fault(f"can't listen on 127.0.0.1:{choice}: {getattr(why, 'strerror', None) or why}; choose another --port")


def publish(home: str, port: int, token: str) -> List[str]:
    """Write where we listen, for the commands (daemon.json) and for the hooks' curl (curl.conf). The paths written."""
    me = process_of(os.getpid())
    if not me:
        raise Fault("it can't be told which processes run here: /proc is not mounted, and there is no ps")
    paths = [os.path.join(home, name) for name in ("curl.conf", "daemon.json")]
    replace_file(paths[0], f'# {me.pid} {me.start}\nurl = "http://127.0.0.1:{port}/event"\n'
                           f'header = "Authorization: Bearer {token}"\n'.encode())
    replace_file(paths[1], json.dumps({"pid": me.pid, "start": me.start, "port": port, "version": VERSION,
                                       "program": digest_of(own_data("trailboss.py"))}).encode())
    return paths


def serve(env: Mapping[str, str], port: Optional[int]) -> int:
    """The daemon, in the foreground, until SIGTERM or SIGINT. Who asks while it starts is answered when it has started."""
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(line_buffering=True)  # into a log, Python 3.8 would write it late
    home = make_private(state_home(env))
    lock = take_lock(home)
    token = token_of(home)
    server = bind(port, env, token)
    quit_now = lambda *_: threading.Thread(target=server.shutdown, daemon=True).start()
    signal.signal(signal.SIGTERM, quit_now)
    signal.signal(signal.SIGINT, quit_now)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if not sys.stdin or not sys.stdin.isatty() else quit_now)
    published = publish(home, server.server_port, token)
    try:
        for name in LOADED_LATER:
            __import__(name)  # now: Python itself may be replaced under a daemon that runs for weeks
        server.daemon = Daemon(home, env)
        server.daemon.start()
        print(f"trailboss {VERSION} listens on 127.0.0.1:{server.server_port}, its state is in {home}", flush=True)
        server.serve_forever(poll_interval=0.1)
        server.daemon.stop()
    finally:
        for path in published:
            remove_file(path)
        server.server_close()
        lock.close()
    return 0


# ---- from outside ------------------------------------------------------------------------------------------------------


def request(env: Mapping[str, str], method: str, path: str, body: Any = None) -> Dict[str, Any]:
    """The daemon's answer. Fault with its reason, or 3 if none answers. It is told where the command was typed: which
    client moves, and which server a pane id is of, goes by that."""
    import http.client
    home = state_home(env)
    daemon = daemon_address(home)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", daemon["port"], timeout=10)
        typed_in = {"X-Tmux": env.get("TMUX", ""), "X-Tmux-Pane": env.get("TMUX_PANE", "")}
        connection.request(method, path, None if body is None else json.dumps(body), {
            "Authorization": f"Bearer {token_of(home)}", "Content-Type": "application/json", **sent(typed_in)})
        response = connection.getresponse()
        answer = read_json(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Fault(f"the daemon (pid {daemon['pid']}, 127.0.0.1:{daemon['port']}) does not answer: {error}", 3) from None
    if response.status != 200:
        raise Fault(text_of(answer.get("error")) or f"the daemon answered {response.status}", answer.get("code", 1))
    return answer


def running_daemon(home: str) -> Dict[str, Any]:
    """daemon_address(), or {} where no daemon runs."""
    try:
        return daemon_address(home)
    except Fault:
        return {}


def end_daemon(home: str) -> int:
    """End the daemon, cleanly, and wait until it has ended. Its pid; 0 if none runs."""
    daemon = running_daemon(home)
    if not daemon:
        return 0
    try:
        os.kill(daemon["pid"], signal.SIGTERM)
    except ProcessLookupError:
        return daemon["pid"]
    except PermissionError:
        raise Fault(f"the daemon (pid {daemon['pid']}) is another user's: end it as that one") from None
    until = time.time() + 10
    while time.time() < until:
        if not process_of(daemon["pid"]) or running_daemon(home).get("pid") != daemon["pid"]:
            return daemon["pid"]
        time.sleep(0.02)
    raise Fault(f"the daemon (pid {daemon['pid']}) does not end: `kill -9 {daemon['pid']}` loses nothing; then do it again")


def start_daemon(env: Mapping[str, str], argv: Sequence[str]) -> Dict[str, Any]:
    """Start a daemon behind, its output in <state>/daemon.log, and wait until it answers: its daemon.json. Fault with what
    it said last if it does not start."""
    home = make_private(state_home(env))
    log = os.path.join(home, "daemon.log")
    if os.path.exists(log) and os.path.getsize(log) > 1 << 20:
        os.replace(log, log + ".1")
    with open(log, "ab") as sink:
        at = sink.tell()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd="/",
                                 env={**env, "TRAILBOSS_HOME": home})
    until = time.time() + 10
    while time.time() < until:
        with contextlib.suppress(Fault):
            daemon = daemon_address(home)
            if request({**env, "TRAILBOSS_HOME": home}, "GET", "/health"):
                if daemon["pid"] != child.pid:  # somebody was quicker, and must not be followed when it ends
                    child.terminate()
                    child.wait()
                return daemon
        if child.poll() is not None:
            until = min(until, time.time() + 1)
        time.sleep(0.05)
    said = (read_file(log) or b"")[at:].decode("utf-8", "replace").strip().split("\n")[-1]
    raise Fault(said.replace("trailboss: ", "", 1) or f"the daemon did not start; its log is {log}")


# ======================================================================================================================
# 12 INSTALL
# What goes onto a person's machine leaves it again by one command. Their own files (settings.json, tmux.conf) are changed
# whole, aside, by rename, and as they were are kept; what is ours has a name of its own beside them. A ledger in the state
# folder has all of it, but uninstall does without where that is gone.

PROGRAM = "trailboss.pyz"
UNPACKED = "trailboss.d"
HOOK_FILES = (EMITTER, KEYS)
MANAGED = ("/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json")
WHOLE = 1 << 28        # bytes: a file of a person's that is longer is left alone
SETTLE = 1.0           # s after which a file that Claude Code writes too is looked at again


MAIN_PY = b'''"""Runs trailboss.py: what `install` unpacked beside this archive, which stays compiled; else what is in it."""
import os
import sys

if sys.version_info < (3, 8):
    sys.exit("trailboss: this is Python %d.%d, and it needs 3.8 or newer: start it with another" % sys.version_info[:2])
archive = os.path.dirname(os.path.realpath(__file__))
sys.path[:1] = [os.path.join(os.path.dirname(archive), "trailboss.d", "DIGEST"), archive]
import trailboss
sys.exit(trailboss.main())
'''


def build(target: str) -> None:
    """Make trailboss.pyz: the same bytes from the same sources, whatever the machine, the umask, the time zone and the
    Python. So fixed dates, modes and order, stored and not deflated, and no .pyc inside."""
    import zipfile
    whole = io.BytesIO(b"#!/usr/bin/env python3\n")
    whole.seek(0, os.SEEK_END)
    program = own_data("trailboss.py")
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as out:
        for name in ("__main__.py", "trailboss.py", *HOOK_FILES):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            out.writestr(info, {"__main__.py": MAIN_PY.replace(b"DIGEST", digest_of(program).encode()),
                                "trailboss.py": program}.get(name) or own_data(name))
    replace_file(target, whole.getvalue(), 0o755)


def lasting_python() -> str:
    """A path of this Python that outlives its upgrade: one without a version in it, if there is one that leads to the same
    file. Not one in a virtual environment, which goes with its project; a version manager's shim is another file."""
    own = os.path.realpath(sys.executable) if sys.prefix != sys.base_prefix else sys.executable
    found = [own]
    for folder in (os.path.dirname(own), *os.get_exec_path(), "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"):
        for path in (os.path.join(folder, "python3"), os.path.join(folder, "python")):
            with contextlib.suppress(OSError):
                if os.path.isabs(path) and os.path.samefile(path, own) and not os.path.exists(
                        os.path.join(folder, "..", "pyvenv.cfg")):
                    found.append(path)
    return min(found, key=lambda path: len(re.findall(r"[0-9]\.[0-9]", path)))


class Ledger:
    """What install did to the machine: <state>/installed.json. `files` are the person's that were changed: {path: {"before":
    the digest of what it was, None where there was no file, "after": the digest of what was written, "" where that can't be
    taken back whole}}; `folders` are those that were made. What a file was is kept beside the ledger."""

    def __init__(self, home: str):
        self.home = home
        self.files: Dict[str, Dict[str, Any]] = {}
        self.folders: List[str] = []
        try:
            kept = read_json(read_file(os.path.join(home, "installed.json")) or b"{}")
            self.files = {path: {key: known[key] for key in ("before", "after")} for path, known in kept["files"].items()}
            self.folders = [path for path in kept["folders"] if os.path.isabs(path)]
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # none yet, or nobody's

    def save(self) -> None:
        replace_file(os.path.join(self.home, "installed.json"),
                     json.dumps({"files": self.files, "folders": self.folders}, indent=1).encode())

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        """The folder with those above it that are not there; noted by the next save."""
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder, mode)
            self.folders.append(folder)

    def note(self, path: str, old: Optional[str], new: str, clean: bool) -> None:
        """A file of the person's is about to go from old to new. Where nothing of ours is in it (clean) it is kept, and can
        be given back whole for as long as nobody else changes it; so it can when ours was put in by the last note."""
        known = self.files.get(path)
        if clean:
            if old is not None:
                replace_file(self.backup(path), bytes_of(old))
            self.files[path] = {"before": text_digest(old) if old is not None else None, "after": text_digest(new)}
        elif known and known["after"] == text_digest(old):
            known["after"] = text_digest(new)
        else:
            self.files[path] = {**(known or {"before": None}), "after": ""}
        self.save()

    def backup(self, path: str) -> str:
        return os.path.join(self.home, f"before-{text_digest(path)}-{os.path.basename(path)}")

    def first(self, path: str) -> Optional[str]:
        """The person's file as it was before anything of ours was in it; None if there was none, or it is not known."""
        data = read_file(self.backup(path), WHOLE)
        sound = data is not None and digest_of(data) == self.files.get(path, {}).get("before")
        return data.decode("utf-8", "surrogateescape") if data is not None and sound else None

    def forget(self, path: str) -> None:
        """Nothing of ours is in the file any more."""
        if self.files.pop(path, None):
            remove_file(self.backup(path))
            with contextlib.suppress(OSError):  # a full disk; then it says too much, which does no harm
                self.save()

    def is_whole(self, path: str, text: Optional[str]) -> bool:
        """Has nobody changed the file since it was written here, and is it known what it was?"""
        known = self.files.get(path, {"before": None, "after": ""})
        return text is not None and known["after"] == text_digest(text) and (
            known["before"] is None or self.first(path) is not None)


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def text_digest(text: Optional[str]) -> str:
    return digest_of(bytes_of(text or ""))


def read_text(path: str) -> Optional[str]:
    """A file of the person's, to the byte: what is no UTF-8 comes through as it is. None where there is none, or a link that
    leads nowhere. Fault if it can't be read, or not whole."""
    data = read_file(path, WHOLE)
    if data is None and os.path.lexists(path) and (os.path.exists(path) or not os.path.islink(path)):
        raise Fault(f"{path} can't be read")
    if data is not None and len(data) == WHOLE:
        raise Fault(f"{path} has more than {WHOLE >> 20} MiB")
    return None if data is None else data.decode("utf-8", "surrogateescape")


def read_settings(path: str) -> str:
    """A settings file's text, "" where there is none. Fault if Claude Code would not take it."""
    try:
        text = read_text(path) or ""
    except Fault as fault:
        raise Fault(f"{fault}: nothing was changed") from None
    parse_settings(path, text)
    return text


class Unwritable(Fault):
    """A file of the person's that can't be written: a read-only one, or one that is made by other means (Nix, say)."""


@contextlib.contextmanager
def file_lock(path: str) -> Iterator[None]:
    """Claude Code's own lock of its settings, a folder beside the file: made, then the file is read and renamed, then taken
    away, all in 30 to 90 ms. It waits for another's for half a second, and takes one older than 10 s for left behind (seen
    in 2.1.332). Where none can be had, the file can't be written either, and that is told; or somebody has left behind what
    can't be taken away, and it is done without."""
    lock, until, mine = path + ".lock", time.time() + 12, False
    while not mine and time.time() < until:
        try:
            os.mkdir(lock)
            mine = True
        except FileExistsError:
            with contextlib.suppress(OSError):
                if not -10 < time.time() - os.stat(lock).st_mtime < 10:
                    os.rmdir(lock)
            time.sleep(0.01)
        except OSError:
            break
    try:
        yield
    finally:
        if mine:
            with contextlib.suppress(OSError):
                os.rmdir(lock)


def swap_file(path: str, old: Optional[str], new: Optional[str]) -> bool:
    """Write a file of the person's whole, aside and by rename, through a link, with its owner and mode; None removes it.
    False, and nothing is done, if it is no longer as old was."""
    real = os.path.realpath(path)
    try:
        st = os.stat(real) if old is not None else None
        if st:
            os.close(os.open(real, os.O_WRONLY))  # a rename would not mind that it is read-only
        aside = write_aside(real, bytes_of(new), stat.S_IMODE(st.st_mode) if st else 0o600) if new is not None else None
        try:
            if aside and st and os.geteuid() == 0:
                os.chown(aside, st.st_uid, st.st_gid)
            if read_text(path) != old:
                return False
            if aside:
                os.replace(aside, real)
            else:
                os.unlink(real)
            return True
        finally:
            remove_file(aside or "")
    except OSError as error:
        raise Unwritable(f"{path} can't be written ({error.strerror})") from None


def change_file(path: str, change: Callable[[Optional[str]], Optional[str]], note: Callable[..., None]) -> bool:
    """Make a file of the person's be as change() says; True if it was not. Somebody who knows no lock may write it at the
    same time, from what it read a moment before: so it is looked at again, until it stays as it should."""
    changed = False
    for _ in range(10):
        with file_lock(path):
            old = read_text(path)
            new = change(old)
            if new == old:
                return changed
            note(old, new)
            swapped = swap_file(path, old, new)
        if swapped:
            changed = True
            time.sleep(SETTLE)
    raise Fault(f"{path} is changed by something else again and again: end that, and do it again")


def put_into(path: str, put: Callable[[str], str], take: Callable[..., str], ledger: Ledger) -> bool:
    """Have ours in a file of the person's: put() puts it into a text, take() takes it out."""
    known = path in ledger.files
    try:
        return change_file(path, lambda text: put(text or ""),
                           lambda old, new: ledger.note(path, old, new, take(old or "") == (old or "")))
    except Unwritable:
        if not known:
            ledger.forget(path)
        raise


def take_out_of(path: str, take: Callable[..., str], ledger: Ledger) -> bool:
    """Have ours no longer in a file of the person's: as it was, to the byte, if nobody has changed it since; else without
    ours. What a killed install was writing beside it goes as well."""
    first = ledger.first(path)
    changed = change_file(
        path, lambda text: None if text is None else first if ledger.is_whole(path, text) else take(text, first),
        lambda old, new: None)
    ledger.forget(path)
    sweep(os.path.realpath(path))
    return changed


def sweep(path: str) -> None:
    """Take away what write_aside() left beside a file, where it was killed."""
    for aside in glob.glob(glob.escape(path) + ".[0-9]*.tmp"):
        if re.match(r"[0-9]+\.tmp\Z", aside[len(path) + 1:]):
            remove_file(aside)


# ---- the hooks ---------------------------------------------------------------------------------------------------------


def hook_entry(config: str, home: str) -> Dict[str, Any]:
    """The hook as settings.json names it. It ends well even when the emitter is gone or broken: a hook that exits 2 would
    stop the session. `async`, so that Claude Code does not wait; `timeout` in seconds."""
    path = shlex.quote(os.path.join(config, EMITTER))
    if config == os.path.join(home, ".claude"):
        path = f"~/.claude/{EMITTER}"  # the same on every machine that shares these settings
    command = f"[ -r {path} ] && sh {path} >/dev/null 2>&1; exit 0"
    if command.encode("utf-8", "replace").decode() != command:
        raise Fault(f"{config} has a name that settings.json can't hold: nothing was changed; choose another "
                    "CLAUDE_CONFIG_DIR")
    return {"type": "command", "command": command, "async": True, "timeout": 5}


def put_hooks(path: str, hook: Mapping[str, Any], ledger: Ledger) -> bool:
    def put(text: str) -> str:
        parse_settings(path, text)
        return with_ours(text, hook)
    return put_into(path, put, without_ours, ledger)


def take_hooks(path: str, ledger: Ledger) -> bool:
    def take(text: str, first: Optional[str]) -> str:
        parse_settings(path, text)
        return without_ours(text, parse_settings(path, first or ""))
    return take_out_of(path, take, ledger)


# ---- our own files -----------------------------------------------------------------------------------------------------


def place_files(env: Mapping[str, str], config: str, ledger: Ledger, python: str) -> str:
    """The program, unpacked and compiled too, the emitter and the keys into the config folder, and the state folder made
    ready. The program's path."""
    home, program = ledger.home, os.path.join(config, PROGRAM)
    fresh = not os.path.exists(os.path.join(home, "installed.json"))
    try:
        ledger.make_folder(home, 0o700)
        make_private(home)
        ledger.save()
        ledger.make_folder(config, 0o700)
        ledger.save()
        if own_path().endswith(".py"):
            build(program)
        elif os.path.realpath(own_path()) != os.path.realpath(program):
            replace_file(program, read_file(own_path(), 1 << 26) or b"", 0o755)
        values = {"home": home, "python": python, "program": program}
        replace_file(os.path.join(config, EMITTER), filled_in(own_data(EMITTER), values), 0o755)
        run = f"TRAILBOSS_HOME={shlex.quote(home)} {shlex.quote(python)} -I {shlex.quote(program)}"
        conf = with_run(own_data(KEYS).decode(), run)
        replace_file(os.path.join(config, KEYS), conf.encode("utf-8", "surrogateescape"), 0o644)
        unpack(config, program, python)
        token_of(home)
        told = "".join(path + "\n" for path in sorted({*configs_of(home, env), config}))
        replace_file(os.path.join(home, "configs"), told.encode("utf-8", "surrogateescape"))
    except OSError as error:
        if fresh:
            remove_files(config)
            remove_state(ledger)
        where = re.sub(r"\.[0-9]+\.tmp\Z", "", error.filename or config)
        raise Fault(f"{where} can't be written ({error.strerror}): nothing was changed") from None
    return program


def filled_in(script: bytes, values: Mapping[str, str]) -> bytes:
    """The emitter with what it must know: a hook may see another environment than the daemon."""
    text = script.decode()
    for name, value in values.items():
        text = re.sub(rf"(?m)^{name}=$", lambda _: f"{name}={shlex.quote(value)}", text)
    return text.encode("utf-8", "surrogateescape")


def installed_home(config: str) -> str:
    """The state folder that an installed emitter names: this environment may be another than that of `install`."""
    script = (read_file(os.path.join(config, EMITTER)) or b"").decode("utf-8", "surrogateescape")
    found = re.search(r"(?m)^home=(/.*|'.*)$", script)
    with contextlib.suppress(ValueError):
        return "".join(shlex.split(found.group(1))) if found else ""
    return ""


def unpack(config: str, program: str, python: str) -> None:
    """trailboss.py beside the archive, where just this version of it is looked for, compiled by the Python that will run it:
    out of the archive, each start would compile it anew."""
    import shutil
    source = own_data("trailboss.py")
    digest, folder = digest_of(source), os.path.join(config, UNPACKED)
    target = os.path.join(folder, digest, "trailboss.py")
    if os.path.islink(folder):
        os.unlink(folder)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.chmod(folder, 0o700)  # whatever the umask is: what is in it is run
    if read_file(target) != source:
        replace_file(target, source, 0o644)
    for name in os.listdir(folder):
        if name != digest and re.match(r"[0-9a-f]{16}\Z", name):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    compile_with(python, program)


def compile_with(python: str, program: str) -> None:
    """One start, which leaves the byte code behind."""
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):  # then the first command does it
        subprocess.run([python, "-I", program, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=30)


def remove_files(config: str) -> bool:
    """Our files out of a config folder; False if there were none."""
    import shutil
    paths = [os.path.join(config, name) for name in (*HOOK_FILES, PROGRAM, UNPACKED)]
    if not os.path.lexists(paths[-2]) and not installed_home(config):
        return False  # what has such a name is not what was installed: our own sources, say
    for path in paths:
        remove_file(path)
        sweep(path)
    shutil.rmtree(paths[-1], ignore_errors=True)
    return True


def remove_state(ledger: Ledger) -> None:
    """The state folder, and each folder that install made: what is ours in it by name, and the folder if it is empty then.
    $TRAILBOSS_HOME may lead anywhere."""
    spool = os.path.join(ledger.home, "spool")
    for folder, ours in ((spool, r"[0-9][-.0-9]*\.(event|tmp)\b"),
                         (ledger.home, r"(trailboss\.db.*|lock|daemon\.log(\.1)?|before-[0-9a-f]{16}-.*|"
                                       r"(token|configs|curl\.conf|daemon\.json|installed\.json)(\.[0-9]+\.tmp)?)\Z")):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if re.match(ours, name):
                remove_file(os.path.join(folder, name))
    usual = [ledger.home] if os.path.basename(ledger.home) == "trailboss" else []  # the daemon may have made it
    for folder in [spool, *usual, *sorted(ledger.folders, key=len, reverse=True)]:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


# ---- what may be in the way ----------------------------------------------------------------------------------------------


def obstacles(env: Mapping[str, str], settings: str) -> List[str]:
    """What keeps the hooks from running, or makes them slow: a sentence each, with what to do."""
    import shutil
    found = []
    managed = [path for main in MANAGED for path in (main, *glob.glob(os.path.splitext(main)[0] + ".d/*.json"))]
    for path in (settings, *managed):
        try:
            value = json.loads((read_text(path) or "{}").lstrip("\ufeff"))
        except (ValueError, Fault):
            continue
        for key in ("disableAllHooks", "allowManagedHooksOnly") if isinstance(value, dict) else ():
            if value.get(key) is True and (path in managed or key == "disableAllHooks"):
                found.append(f"{path} has {key}: Claude Code runs no hook of ours, and the queue goes by its session "
                             "records alone, until that is taken out")
    where = env.get("PATH", os.defpath)
    if not shutil.which("curl", path=where + Tmux.PLACES):
        found.append("there is no curl: each hook starts Python instead, which is slower; install curl")
    if not shutil.which("tmux", path=where + Tmux.PLACES):
        found.append("there is no tmux: sessions are listed, but there is no jump to them; install tmux, 3.0 or newer")
    return found


def running_sessions(configs: Sequence[str]) -> int:
    """How many Claude Code sessions, with a person before them, run by now."""
    records = Records().look(configs)
    processes = processes_of(sorted({r.pid for r in records}))
    return sum(r.entrypoint == "cli" and r.kind != "bg" and not r.foreign and belongs(r, processes.get(r.pid))
               for r in records)


# ---- tmux --------------------------------------------------------------------------------------------------------------


def tmux_conf(env: Mapping[str, str]) -> str:
    """The tmux.conf that a line of ours belongs into: the person's own that their server has loaded (#{config_files}, tmux
    3.2): the one they type in, or the usual one; else the first that tmux would load, else what another server has loaded,
    else ~/.tmux.conf. One that hands on to a .local beside it is somebody else's work (oh-my-tmux); that is the person's."""
    home, tmux = person_home(env), Tmux()
    base = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    usual = [os.path.join(home, ".tmux.conf"), os.path.join(base, "tmux", "tmux.conf"),
             os.path.join(home, ".config", "tmux", "tmux.conf")]
    first, others = [], []
    for server in servers_here(env):
        with contextlib.suppress(Fault):
            code, out = tmux.run(server, "display-message", "-p", "#{config_files}")
            mine = server == env.get("TMUX", "").rsplit(",", 2)[0] or os.path.basename(server) == "default"
            (first if mine else others).extend(
                path for path in out.strip().split(",") if not code and (path in usual or path.startswith(home + os.sep)))
    path = next(filter(os.path.isfile, [*first, *usual, *others]), usual[0])
    local = path + ".local"
    text = (read_file(path) or b"").decode("utf-8", "replace")
    return local if os.path.isfile(local) and os.path.basename(local) in text else path


def servers_here(env: Mapping[str, str]) -> List[str]:
    """The sockets of the tmux servers that run and can be found from here."""
    inside = env.get("TMUX", "").rsplit(",", 2)[0]
    return sorted(path for path in {*Tmux.sockets(env), *([inside] if inside.startswith("/") else [])} if listens(path))


def load_keys(env: Mapping[str, str], path: str) -> Optional[List[Tuple[str, str, str]]]:
    """Load our keys into every server that runs now. Those that one of them has then, as our_keys() tells of them (the file
    binds them behind); None if no server runs."""
    tmux, bound = Tmux(), None
    for server in servers_here(env):
        with contextlib.suppress(Fault):
            tmux.run(server, "source-file", no_pattern(path))
            until = time.time() + 1
            while time.time() < until and len(bound or ()) < 4:
                bound = our_keys(tmux.run(server, "list-keys")[1])
                time.sleep(0.05)
    return bound


def unload_keys(env: Mapping[str, str], configs: Sequence[str]) -> None:
    """Take our keys, commands and options out of every server that runs now; another installation's are not ours."""
    import tempfile
    tmux, programs = Tmux(), [shlex.quote(os.path.join(config, PROGRAM)) for config in configs]
    for server in servers_here(env):
        with contextlib.suppress(Fault), tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            run = tmux.run(server, "show-options", "-gqv", "@trailboss_run")[1]
            if any(program in run for program in programs):
                file.write(undo_keys(tmux.run(server, "list-keys")[1]))
                file.flush()
                tmux.run(server, "source-file", file.name)


# ---- a service ---------------------------------------------------------------------------------------------------------

UNIT = "trailboss.service"
PASSED_ON = ("PATH", "TMUX_TMPDIR", "TRAILBOSS_PORT", "CLAUDE_CONFIG_DIR")
MAC = sys.platform == "darwin"


def service_file(env: Mapping[str, str]) -> str:
    if MAC:
        return os.path.join(person_home(env), "Library", "LaunchAgents", LABEL + ".plist")
    config = env.get("XDG_CONFIG_HOME", "")
    base = config if os.path.isabs(config) else os.path.join(person_home(env), ".config")
    return os.path.join(base, "systemd", "user", UNIT)


def has_service(env: Mapping[str, str]) -> bool:
    """Is there a service of ours? A file of that name may be the person's own."""
    return PROGRAM.encode() in (read_file(service_file(env)) or b"")


def service_text(env: Mapping[str, str], argv: Sequence[str], home: str) -> str:
    """The service's file, with what the daemon needs of the environment of who installs: a service manager's own is
    short."""
    environment = {"TRAILBOSS_HOME": home, **{name: env[name] for name in PASSED_ON if env.get(name)}}
    return launchd_agent(argv, environment, os.path.join(home, "daemon.log")) if MAC else systemd_unit(argv, environment)


def manager(env: Mapping[str, str], *argv: str) -> Tuple[int, str]:
    """What systemctl or launchctl answers. su and sudo leave XDG_RUNTIME_DIR out, or leave another person's: then the usual
    place is tried."""
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(runtime) or os.stat(runtime).st_uid != os.getuid():
        runtime = f"/run/user/{os.getuid()}"
    try:
        done = subprocess.run(argv, env={**env, "XDG_RUNTIME_DIR": runtime, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
    except subprocess.TimeoutExpired:
        return 124, "no answer within 30 s"
    except OSError as error:
        return 127, f"{argv[0]}: {error.strerror}"
    return done.returncode, " ".join(done.stdout.decode("utf-8", "replace").split())


def insist(env: Mapping[str, str], *argv: str) -> None:
    """The same, and a Fault with its words if it failed."""
    code, said = manager(env, *argv)
    if code:
        raise Fault(f"`{' '.join(argv)}` failed: {said or f'exit code {code}'}")


def why_no_manager(env: Mapping[str, str]) -> str:
    """Why no service can be had here, and what to do; "" if it can. It changes nothing."""
    if MAC:
        code, said = manager(env, "launchctl", "print", f"gui/{os.getuid()}")
        why = "you are not logged in at the screen of this Mac, and only there agents run"
    else:
        code, said = manager(env, "systemctl", "--user", "show-environment")
        why = (f"no service manager of yours answers ({said}); one is there after a login by ssh or at the screen, not by "
               "su or sudo, or after `loginctl enable-linger`")
        if code == 127 or not os.path.isdir("/run/systemd/system"):
            why = "this machine was not started by systemd"
    return why if code else ""


def start_service(env: Mapping[str, str], argv: Sequence[str], home: str) -> str:
    """Write the service's file and start it, now and at each login, and wait until the daemon answers."""
    path, text, domain = service_file(env), service_text(env, argv, home), f"gui/{os.getuid()}"
    replace_file(path, text.encode(), 0o644)
    if MAC:
        stop_agent(env)
        manager(env, "launchctl", "enable", f"{domain}/{LABEL}")  # a `disable` of old would outlive it all
        for patience in (0.5, 1, 2):  # error 5 for a while after a bootout, even when `print` knows it no more
            if manager(env, "launchctl", "bootstrap", domain, path)[0] == 0:
                break
            time.sleep(patience)
        else:
            insist(env, "launchctl", "bootstrap", domain, path)
    else:
        insist(env, "systemctl", "--user", "daemon-reload")
        insist(env, "systemctl", "--user", "enable", path)  # by its path: the manager may not know our XDG_CONFIG_HOME
        manager(env, "systemctl", "--user", "reset-failed", UNIT)
        insist(env, "systemctl", "--user", "restart", UNIT)
    until = time.time() + 10
    while not running_daemon(home):
        if time.time() > until:
            raise Fault(f"the service was started, but no daemon answers: {service_log(home)} tells why")
        time.sleep(0.05)
    return (f"service:  {path}, pid {running_daemon(home)['pid']}; its log: {service_log(home)}" + (
        "" if MAC else "; it ends with your last login, unless you run `loginctl enable-linger`"))


def service_log(home: str) -> str:
    return os.path.join(home, "daemon.log") if MAC else f"`journalctl --user -u {UNIT}`"


def stop_agent(env: Mapping[str, str]) -> None:
    """Take the agent out of launchd, and wait until it is out: bootout may return before, and then bootstrap fails."""
    name, until = f"gui/{os.getuid()}/{LABEL}", time.time() + 10
    code, said = manager(env, "launchctl", "bootout", name)
    while manager(env, "launchctl", "print", name)[0] == 0:
        if time.time() > until:
            raise Fault(f"`launchctl bootout {name}` did not end the service: {said or f'exit code {code}'}")
        time.sleep(0.2)


def stop_service(env: Mapping[str, str]) -> str:
    """Stop the service and remove its file; "" if there is none. Without a manager the file goes all the same."""
    path = service_file(env)
    if not has_service(env):
        return ""
    why = why_no_manager(env)
    if not why and MAC:
        stop_agent(env)
    elif not why:
        insist(env, "systemctl", "--user", "disable", "--now", UNIT)
    remove_file(path)
    if not MAC:
        wants = os.path.join(os.path.dirname(path), "default.target.wants")
        remove_file(os.path.join(wants, UNIT))
        with contextlib.suppress(OSError):
            os.rmdir(wants)  # systemd made it for us; it stays if anything else is in it
        if not why:
            manager(env, "systemctl", "--user", "daemon-reload")
            manager(env, "systemctl", "--user", "reset-failed", UNIT)
    return f"service:  {path} removed" + (f", though it could not be stopped from here: {why}" if why else ", and stopped")


# ---- all of it -----------------------------------------------------------------------------------------------------------


def install(env: Mapping[str, str], project: bool = False, keys: bool = False, service: bool = False) -> List[str]:
    """Put Trail Boss onto this machine: what was done and what is next, a line each. A second time changes nothing; a newer
    one takes the place of an older one, the daemon's too."""
    config, python = config_folder(env), lasting_python()
    settings = os.path.join(os.path.join(os.getcwd(), ".claude") if project else config, "settings.json")
    hook = hook_entry(config, env.get("HOME", ""))
    owner = os.stat(person_home(env)).st_uid if os.path.isdir(person_home(env)) else os.geteuid()
    if os.geteuid() == 0 != owner:
        raise Fault(f"{person_home(env)} is not root's: its owner could not use what root installs there; do it without "
                    "sudo")
    read_settings(settings)
    ledger = Ledger(state_home(env))
    program = place_files(env, config, ledger, python)
    if project:
        ledger.make_folder(os.path.dirname(settings))
    try:
        added = put_hooks(settings, hook, ledger)
        kept = added and os.path.exists(ledger.backup(settings))
        lines = [f"hooks:    {settings}" + ("" if added else " (as it was)")
                 + (f"; as it was before, it is kept as {ledger.backup(settings)}" if kept else "")]
    except Unwritable as fault:
        lines = [f"left:     {fault}: put into it what `python3 {shlex.quote(program)} install --print` shows"]
    lines += [f"program:  {program}, run by {python}; beside it {EMITTER}, {KEYS}, {UNPACKED}", f"state:    {ledger.home}"]
    try:
        last = renew_daemon(env, python, program, service, ledger)
    except Fault as fault:
        last = [f"left:     {fault}"]
    if keys or any(not path.endswith(".json") for path in ledger.files):  # they are there: renewed
        lines.append(put_keys(env, config, ledger))  # after the daemon: its keys start one where none runs
    found = running_sessions(configs_of(ledger.home, env))
    lines.append(f"sessions: {found or 'none'} of Claude Code {'runs' if found < 2 else 'run'} now"
                 + (f"; {'it is' if found == 1 else 'they are'} listed without a restart" if found else ""))
    return [*lines, *last, *(f"warning:  {sentence}" for sentence in obstacles(env, settings))]


def put_keys(env: Mapping[str, str], config: str, ledger: Ledger) -> str:
    path, conf = os.path.join(config, KEYS), tmux_conf(env)
    line = keys_line(path, env.get("HOME", ""))
    try:
        put_into(conf, lambda text: with_keys(text, line), lambda text: without_keys(text, [line]), ledger)
    except Fault as fault:
        return f"left:     {fault}: put this line into it yourself: {line}"
    bound = load_keys(env, path)
    if bound is None:
        return f"keys:     prefix b, B, A and Z, but for those that you have bound; by a line in {conf}"
    keys = {what: key if table == "root" else f"{table} {key}" for table, key, what in bound}
    usual = ("next", "back", "skip", "snooze")
    missing = [what for what in usual if what not in keys]
    return f"keys:     {', '.join(f'{what}: {keys[what]}' for what in usual if what in keys)}; by a line in {conf}" + (
        f"; {' and '.join(missing)} have none, for you have bound the usual one: to name another, put `set -g "
        f"@trailboss_key_{missing[0]} KEY` above that line" if missing else "")


def renew_daemon(env: Mapping[str, str], python: str, program: str, service: bool, ledger: Ledger) -> List[str]:
    """See to it that no older daemon goes on: its service is written anew, or it is replaced. Or how to start one."""
    daemon, lines = running_daemon(ledger.home), []
    argv = [python, "-I", program, "serve"]
    if service or has_service(env):
        why = "" if has_service(env) or not os.path.lexists(service_file(env)) else f"{service_file(env)} is not ours"
        why = why or why_no_manager(env)
        try:
            if not why:
                ledger.make_folder(os.path.dirname(service_file(env)))
                ledger.save()
                end_daemon(ledger.home)
                return [start_service(env, argv, ledger.home)]
        except (Fault, OSError) as error:
            why = str(error)
            stop_service(env)
        lines += [f"left:     the service could not be {'renewed' if has_service(env) else 'made'}: {why}; the daemon runs "
                  "without one until the next reboot"]
    if not daemon:
        return [*lines, f"next:     {' '.join(map(shlex.quote, [*argv, '--detach']))}"]
    if running_daemon(ledger.home).get("program") == digest_of(own_data("trailboss.py")):
        request({**env, "TRAILBOSS_HOME": ledger.home}, "GET", "/health")
        return [*lines, f"daemon:   pid {daemon['pid']} on 127.0.0.1:{daemon['port']} runs, and is of this version"]
    end_daemon(ledger.home)
    new = start_daemon({**env, "TRAILBOSS_HOME": ledger.home}, argv)
    return [*lines, f"daemon:   pid {new['pid']} on 127.0.0.1:{new['port']}, in the place of pid {daemon['pid']}; the queue "
            "stays"]


def preview(env: Mapping[str, str], keys: bool, service: bool) -> str:
    """What install would put into the person's files, for those who write them another way: JSON, a line of tmux.conf, the
    service's file."""
    config, home = config_folder(env), state_home(env)
    hook = hook_entry(config, env.get("HOME", ""))
    parts = [json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in HOOKED}}, indent=2, ensure_ascii=False)]
    if keys:
        parts.append(keys_line(os.path.join(config, KEYS), env.get("HOME", "")))
    if service:
        parts.append(service_text(env, [lasting_python(), "-I", os.path.join(config, PROGRAM), "serve"], home))
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def uninstall(env: Mapping[str, str]) -> List[str]:
    """Take all of it out of this machine again, wherever install has put it: what was done, a line each; "left:" in front of
    what the person has to do. Fault, and nothing was done, if a settings file can't be understood."""
    home = installed_home(config_folder(env))
    home = home if os.path.isdir(home) else state_home(env)  # it may be another machine's
    ledger, configs = Ledger(home), configs_of(home, env)
    settings = {os.path.join(config, "settings.json") for config in configs}
    settings.update(path for path in ledger.files if path.endswith(".json"))
    for path in settings:
        read_settings(path)
    lines = []
    for path in sorted(settings):
        lines += taken_out(f"hooks:    taken out of {path}", f"what names {EMITTER}", lambda: take_hooks(path, ledger))
    ours = [keys_line(os.path.join(config, KEYS), env.get("HOME", "")) for config in configs]
    for path in sorted({path for path in ledger.files if not path.endswith(".json")}.union([tmux_conf(env)])):
        lines += taken_out(f"keys:     taken out of {path}", f"the line that names {KEYS}",
                           lambda: take_out_of(path, lambda text, first: without_keys(text, ours), ledger))
    unload_keys(env, configs)
    try:
        lines += filter(None, [stop_service(env)])
        pid = end_daemon(home)
        lines += [f"daemon:   pid {pid} ended"] if pid else []
    except Fault as fault:
        lines.append(f"left:     {fault}")
    lines += [f"files:    removed from {config}" for config in configs if remove_files(config)]
    if os.path.isdir(home):
        remove_state(ledger)
        lines.append(f"state:    {home} " + ("has files that are not ours: left" if os.path.isdir(home) else "removed"))
    return lines or ["nothing of Trail Boss was found"]


def hooks_line(config: str, home: str) -> Tuple[bool, str, str]:
    """For `doctor`: are our hooks in a config folder's settings, each once and all, and is what they run there?"""
    path = os.path.join(config, "settings.json")
    how = f"`{own_command()} install` puts them in"
    try:
        settings = parse_settings(path, read_settings(path))
    except Fault as fault:
        return False, "hooks", str(fault)
    ours = our_hooks(settings)
    if settings.get("disableAllHooks") is True:
        return False, "hooks", f"disableAllHooks is set in {path}: Claude Code runs none"
    missing = [event for event in HOOKED if event not in ours]
    if missing:
        return False, "hooks", f"{path} lacks ours on {', '.join(missing)} (unless they are in the projects' own); {how}"
    if any(text_of(hook.get("command")) != hook_entry(config, home)["command"] for hooks in ours.values() for hook in hooks):
        return False, "hooks", f"{path} has hooks of another installation; {how}"
    if not os.access(os.path.join(config, EMITTER), os.R_OK):
        return False, "hooks", f"{os.path.join(config, EMITTER)}, which the hooks run, is not there; {how}"
    return True, "hooks", f"all {len(HOOKED)} are in {path}"


def taken_out(done: str, what: str, take: Callable[[], bool]) -> List[str]:
    try:
        return [done] if take() else []
    except Fault as fault:
        return [f"left:     {fault}: take out of it yourself {what}, if it is there"]


# ======================================================================================================================
# 13 COMMANDS
# One row of COMMANDS each. A command asks the daemon and prints; it decides nothing. Only here an exit code is chosen and a
# Fault becomes a sentence on standard error.


def terminal(out: Any, env: Mapping[str, str]) -> Tuple[Optional[int], bool]:
    """How wide and whether in colour: a pipe gets whole lines and plain text."""
    import shutil
    if not out.isatty():
        return None, False
    return shutil.get_terminal_size().columns, not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"


def cmd_serve(args: Any, env: Mapping[str, str], out: Any) -> int:
    return detach(env, args.port, out) if args.detach else serve(env, args.port)


def detach(env: Mapping[str, str], port: Optional[int], out: Any) -> int:
    """See to it that a daemon of this version runs behind: one of another version is ended first, its queue stays."""
    home = make_private(state_home(env))
    daemon = running_daemon(home)
    if daemon and port not in (None, daemon["port"]):
        raise Fault(f"a daemon for {home} runs already: pid {daemon['pid']}, on 127.0.0.1:{daemon['port']}; `kill "
                    f"{daemon['pid']}` ends it")
    already = daemon.get("program") == digest_of(own_data("trailboss.py"))
    if already:
        request({**env, "TRAILBOSS_HOME": home}, "GET", "/health")
    else:
        end_daemon(home)
        ask = [] if port is None else ["--port", str(port)]
        daemon = start_daemon(env, [sys.executable, "-I", own_path(), "serve", *ask])
    moved = port is None and str(daemon["port"]) != (env.get("TRAILBOSS_PORT") or str(DEFAULT_PORT))
    print(f"trailboss {VERSION} runs{' already' if already else ''}: it listens on 127.0.0.1:{daemon['port']}"
          f"{' (the usual port could not be had)' if moved else ''}, pid {daemon['pid']}, its log is "
          + (service_log(home) if has_service(env) else os.path.join(home, "daemon.log")), file=out)
    return 0


def cmd_list(args: Any, env: Mapping[str, str], out: Any) -> int:
    answer = request(env, "GET", "/queue" + ("?all=1" if args.all else ""))
    out.write(json.dumps(answer, indent=1) + "\n" if args.json else queue_text(answer, *terminal(out, env)))
    return 0


def cmd_show(args: Any, env: Mapping[str, str], out: Any) -> int:
    answer = request(env, "GET", session_target(args.id) + ("?screen=1" if args.screen else ""))
    out.write(show_text(answer, *terminal(out, env)))
    return 0


def session_target(wanted: str) -> str:
    """Where the daemon tells of the session that an ID means."""
    target = wanted.replace("%", "%25")
    if not re.match(r"[%A-Za-z0-9_-]*\Z", target):
        raise Fault(f"no session has the ID {wanted!r}; `trailboss list --all` shows them all")
    return f"/sessions/{target}"


def cmd_explain(args: Any, env: Mapping[str, str], out: Any) -> int:
    answer = request(env, "GET", session_target(args.id) + "?history=1")
    today = time.strftime("%Y-%m-%d", time.localtime(answer["now"]))
    clock = lambda at: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)).replace(today + " ", "")
    out.write(explain_text(answer, clock, terminal(out, env)[0]))
    return 0


def cmd_doctor(args: Any, env: Mapping[str, str], out: Any) -> int:
    """The hooks are looked at from here, for the daemon may be what is missing."""
    home = state_home(env)
    lines = [hooks_line(config, env.get("HOME", "")) for config in configs_of(home, env)]
    code = 0
    try:
        daemon, seen = daemon_address(home), request(env, "GET", "/witnesses")
        lines += [(True, "daemon", f"pid {daemon['pid']} on 127.0.0.1:{daemon['port']}"), *witness_lines(seen)]
    except Fault as fault:
        lines.append((False, "daemon", str(fault)))
        code = fault.code
    for well, name, text in lines:
        print(harmless(f"{'ok' if well else '!!'}  {name:<11}  {text}"), file=out)
    return code or int(not all(well for well, _, _ in lines))


def cmd_jump(args: Any, env: Mapping[str, str], out: Any) -> int:
    answer = request(env, "POST", "/jump", {"id": args.id, "back": args.back, "client": args.client, "attach": args.attach})
    for note in answer["notes"]:
        print(f"trailboss: {harmless(note)}", file=out)
    return 0


def cmd_skip(args: Any, env: Mapping[str, str], out: Any) -> int:
    answer = request(env, "POST", "/skip", {"id": args.id, "client": args.client})
    print(f"skipped {name_of(answer['session'])}", file=out)
    return 0


def cmd_snooze(args: Any, env: Mapping[str, str], out: Any) -> int:
    """snooze [ID] [TIME]: one word alone is a time if it looks like one."""
    words = list(args.words)
    seconds = parse_span(words[-1]) if words else None
    if seconds is not None:
        words.pop()
    if len(words) > 1:
        raise Fault(f"`{' '.join(args.words)}` is not [ID] [TIME]; a time is like 90s, 10m, 1h30m or 2d", 2)
    try:
        answer = request(env, "POST", "/snooze", {"id": "".join(words), "seconds": seconds, "client": args.client})
    except Fault as fault:
        raise Fault(f"{fault}; a time is like 90s, 10m, 1h30m or 2d" if words else str(fault), fault.code) from None
    how = "until it asks anew" if seconds is None else f"for {span(seconds)}" if seconds else "no longer"
    print(f"snoozed {how}: {name_of(answer['session'])}", file=out)
    return 0


def name_of(row: Mapping[str, Any]) -> str:
    """A session in a few words."""
    return harmless(" ".join(filter(None, (row["pane"], row["session_id"][:8], row["window"], row["project"]))))


def cmd_install(args: Any, env: Mapping[str, str], out: Any) -> int:
    if args.print:
        out.write(preview(env, args.tmux, args.service))
        return 0
    return report(install(env, args.project, args.tmux, args.service), out)


def report(lines: Sequence[str], out: Any) -> int:
    """Print what was done; 1 if something is left for the person to do."""
    for line in lines:
        print(harmless(line), file=out)
    return int(any(line.startswith("left:") for line in lines))


def cmd_uninstall(args: Any, env: Mapping[str, str], out: Any) -> int:
    return report(uninstall(env), out)


def tell_client(env: Mapping[str, str], client: str, text: str) -> None:
    """Show a sentence on a client's status line. display-message expands # and, as strftime, % (facts.md C6)."""
    path = env.get("TMUX", "").rsplit(",", 2)[0]
    text = harmless(" ".join(text.split())).replace("#", "##").replace("%", "%%")
    try:
        if path and text:
            Tmux().run(path, "display-message", "-c", client, "--", text)
    except Fault:
        pass  # it was about to say what is wrong


CLIENT = ("--client", {"default": "", "metavar": "NAME", "help": "in a key binding: '#{client_name}', the client whose key "
                       "was pressed; it gets the answer on its status line"})
ID = ("id", {"nargs": "?", "default": "", "metavar": "ID", "help": "a pane id, or the start of a session id"})
COMMANDS = (
    ("serve", cmd_serve, "run the daemon, in the foreground", (
        ("--port", {"type": int, "metavar": "N", "help": "the port; 0 takes a free one (default: $TRAILBOSS_PORT, 4000)"}),
        ("--detach", {"action": "store_true", "help": "put it behind"}))),
    ("list", cmd_list, "the sessions that wait, oldest first", (
        ("--json", {"action": "store_true", "help": "for programs"}),
        ("--all", {"action": "store_true", "help": "add every known session and its state"}))),
    ("jump", cmd_jump, "take your tmux client to the next one", (
        ID, ("--back", {"action": "store_true", "help": "back to where the client was before"}),
        CLIENT,
        ("--attach", {"action": "store_true", "help": "also to a pane of another tmux server"}))),
    ("skip", cmd_skip, "put one behind all that wait now", (ID, CLIENT)),
    ("snooze", cmd_snooze, "do not offer one for a time, or until it asks anew", (
        ("words", {"nargs": "*", "metavar": "[ID] [TIME]", "help": "a time is like 90s, 10m, 1h30m or 2d; 0s wakes it"}),
        CLIENT)),
    ("show", cmd_show, "what one asks, in full, and what went before", (
        ID, ("--screen", {"action": "store_true", "help": "the pane as it is"}))),
    ("explain", cmd_explain, "why one is where it is: each change, when, and which witness said so", (ID,)),
    ("doctor", cmd_doctor, "which witnesses are at work, and how often they disagreed", ()),
    ("install", cmd_install, "add the hooks to Claude Code's settings, and the program beside them", (
        ("--project", {"action": "store_true", "help": "the hooks into this folder's .claude/settings.json instead"}),
        ("--tmux", {"action": "store_true", "help": "the keys too: one line in your tmux.conf"}),
        ("--service", {"action": "store_true", "help": "the daemon as a service of yours (systemd, launchd)"}),
        ("--print", {"action": "store_true", "help": "only show what would be put into your files"}))),
    ("uninstall", cmd_uninstall, "take all of it out again, and end the daemon", ()),
)


def build_parser() -> Any:
    import argparse
    parser = argparse.ArgumentParser(prog="trailboss", description=__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=f"trailboss {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, run, about, arguments in COMMANDS:
        command = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        command.set_defaults(run=run)
        for argument, options in arguments:
            command.add_argument(argument, **options)
    hook = commands.add_parser("emit", help="hand a hook event on standard input to the daemon; silent, always exits 0")
    hook.set_defaults(run=lambda args, env, out: emit(env))
    return parser


def drop_output(out: Any) -> None:
    """What could not be written goes nowhere: else Python tries again at its end, and complains."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    except (OSError, ValueError):
        pass


def run(args: Any, env: Mapping[str, str], out: Any) -> int:
    """Run a command. With --client its answer is for that client's status line: a key binding has no terminal, and what it
    prints tmux would put over the pane that the person types into."""
    client = getattr(args, "client", "")
    said = io.StringIO() if client else out
    try:
        code = args.run(args, env, said)
        out.flush()
        return code
    except Fault as fault:
        said.write(f"trailboss: {fault}" if client else "")
        raise
    finally:
        if client:
            tell_client(env, client, said.getvalue())


def speak_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding: Claude Code and tmux speak UTF-8 whatever
    the locale, and every path comes through it whole."""
    if sys.getfilesystemencoding().lower().replace("-", "") != "utf8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-I", "-X", "utf8", own_path(), *sys.argv[1:]])


def main(argv: Optional[Sequence[str]] = None, env: Optional[Mapping[str, str]] = None, out: Any = None) -> int:
    """The program: its arguments, environment and output in, its exit code out."""
    if argv is None:
        speak_utf8()
    argv, env = sys.argv[1:] if argv is None else argv, os.environ if env is None else env
    out = out or sys.stdout or open(os.devnull, "w")
    if argv[:1] == ["emit"]:
        return emit(env)
    args = build_parser().parse_args(argv)
    try:
        if hasattr(out, "reconfigure"):
            out.reconfigure(errors="replace")  # a terminal that can't show a letter still shows the rest
        return run(args, env, out)
    except Fault as fault:
        print(f"trailboss: {harmless(str(fault))}", file=sys.stderr)
        return fault.code
    except BrokenPipeError:  # `list | head -1`: the reader has what it wanted
        drop_output(out)
        return 0
    except OSError as error:
        drop_output(out)
        where = error.filename2 or error.filename
        why = f"can't use {where}: {error.strerror}" if where else str(error)
        print(f"trailboss: {harmless(why)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

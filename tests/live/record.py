"""Record what the real Claude Code writes and tells while a person works with it, for tests/captures.

    CLAUDE_BIN=/path/to/claude python3 tests/live/record.py NAME... [--to FOLDER]

Each NAME is a scenario, a function below; without any, their names are listed. A recording is a folder, called as the
scenario is, after the version if it is not the NEWEST. Times `t` are seconds since its start:

    meta.json      what it is, Claude Code's version, t0 (epoch seconds), what the person did and when
    events.jsonl   each hook event: t, env (what its hook found there), payload
    records.jsonl  each change of a session record: t, pid, record (null when it went)
    transcripts/   what was in the config folder at the end; growth.jsonl: t, file, how many lines it had from then on
    expect.jsonl   the right answer just before t: pane, stuck (the reason, or null), why; `needs` is "record" where nothing
                   else can prove it

Nothing of the machine is in it, and little of Claude Code's own texts: its home is /home/dev, every key is kept, and long
strings are emptied. The screen is printed at each expectation: look at it, it is what makes the answer right.
"""
import argparse
import json
import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path

import fake_model
from claude import KEY, World, within
from fake_model import MOMENT

NEWEST = "2.1.332"
EVENTS = """SessionStart SessionEnd UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PostToolBatch PermissionRequest
Notification Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact Elicitation""".split()
ENV = "TMUX_PANE TMUX CLAUDE_PID CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION_ATTENDED CLAUDE_CODE_SESSION_ID".split()
# The moment is taken first and is the file's name: hooks run beside Claude Code and overtake each other.
HOOK = """#!/bin/sh
at=$(date +%%s.%%N)
{ printf '%%s\\n' %s; cat; } > "%s/.$at-$$" && mv "%s/.$at-$$" "%s/$at-$$"
"""
POLL = 0.03
SETTLED = 1.6  # s: a queue that follows within 1.2 s is right by then
LONG = 400  # characters: a string of more is one of Claude Code's own texts
HOUSEKEEPING = """requestRef requestId requestedModel promptCacheRequested effort perTurnEffort serverClassifierRequest hookInfos
snapshot session_id peerFeatures""".split()  # session_id: sessionId says the same


class Recording:
    """One scenario in a World of its own, and what a bystander sees of it meanwhile."""

    def __init__(self, claude, scenario):
        self.scenario, self.world = scenario, World(claude)
        self.steps, self.events, self.records, self.growth, self.expected = [], [], [], [], []
        self.texts, self.known = {}, {}  # file -> its lines so far; pid -> its record as last seen
        self.session = None
        self.inbox = self.world.root / "events"
        self.inbox.mkdir()
        hook = self.world.root / "hook.sh"
        hook.write_text(HOOK % ((" ".join('"$%s"' % name for name in ENV),) + (self.inbox,) * 3))
        hook.chmod(0o755)
        entry = [{"hooks": [{"type": "command", "command": str(hook), "async": True}]}]
        self.settings(hooks={name: entry for name in EVENTS})
        self.t0 = time.time()
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.world.close()

    def settings(self, **more):
        """Put these into the settings; before the session starts."""
        path = self.world.config / "settings.json"
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **more}))

    def now(self):
        return round(time.time() - self.t0, 3)

    # -- the bystander -------------------------------------------------------------------------------------------------

    def watch(self):
        while not self.ended.wait(POLL):
            self.look()

    def stop(self):
        fake_model.MOMENT = MOMENT
        self.ended.set()
        self.watcher.join()
        self.look()

    def look(self):
        found = {}
        for path in (self.world.config / "sessions").glob("*.json"):
            try:
                found[int(path.stem)] = json.loads(path.read_text())
            except FileNotFoundError:
                pass
            except ValueError:  # half written
                found[int(path.stem)] = self.known.get(int(path.stem))
        for pid in set(found) | set(self.known):
            if found.get(pid) != self.known.get(pid):
                self.records.append({"t": self.now(), "pid": pid, "record": found.get(pid) and housekept(found[pid])})
        self.known = found
        for path in sorted((self.world.config / "projects").glob("**/*.jsonl")):
            name = str(path.relative_to(self.world.config))
            text = path.read_bytes()
            whole = text[:text.rfind(b"\n") + 1].decode()
            if whole != self.texts.get(name, ""):
                self.texts[name] = whole
                self.growth.append({"t": self.now(), "file": name, "lines": whole.count("\n")})

    def take_events(self):
        for path in sorted(self.inbox.glob("[0-9]*")):
            *values, payload = path.read_text().split("\n", len(ENV))
            if not payload.strip():  # Claude Code was gone before it had written it; 2.1.150 does that at /exit
                print("a hook without payload at %s" % path.name)
                continue
            self.events.append({"t": round(float(path.name.split("-")[0]) - self.t0, 3), "env": dict(zip(ENV, values)),
                                "payload": json.loads(payload)})

    # -- the person ----------------------------------------------------------------------------------------------------

    def did(self, action):
        self.steps.append({"t": self.now(), "action": action})

    def start(self, *claude_args, name="a", under_shell=False):
        self.did("start claude%s in pane %s" % ("".join(" " + arg for arg in claude_args), name))
        self.session = self.world.start(name, *claude_args, under_shell=under_shell)

    def say(self, prompt):
        self.did("type %r and Enter" % prompt)
        self.session.say(prompt)

    def key(self, *keys):
        self.did("press " + " ".join(keys))
        self.session.key(*keys)

    def type(self, words):
        self.did("type %r" % words)
        self.world.tmux("send-keys", "-t", self.session.pane, "-l", words)
        time.sleep(0.3)

    def choose(self, label):
        self.did("choose %r" % label)
        self.session.choose(label)

    def kill(self):
        self.did("kill -9 claude")
        os.kill(self.session.pid, signal.SIGKILL)

    def close_pane(self):
        self.did("tmux kill-pane")
        self.session.close_pane()

    def until(self, *statuses, seconds=20):
        within(seconds, lambda: self.session.status() in statuses, self.world)

    def until_seen(self, words, seconds=20):
        within(seconds, lambda: words in self.session.screen(), self.world)

    def expect(self, stuck, why, after=SETTLED, needs=None):
        """The right answer at this moment: `after` seconds from now, when what has just happened had its time."""
        time.sleep(after)
        row = {"t": self.now(), "pane": self.session.pane, "stuck": stuck, "why": why}
        self.expected.append({**row, "needs": needs} if needs else row)
        shown = [line.rstrip() for line in self.session.screen().splitlines() if line.strip()]
        print("\n--- %s, %.1f s: %s (%s); record: %s" % (self.scenario.__name__, row["t"], stuck, why, self.session.status()))
        print("\n".join(shown[-22:]), flush=True)

    # -- the folder ----------------------------------------------------------------------------------------------------

    def save(self, to):
        """Write the folder of this recording, which must have ended, and return it."""
        self.take_events()
        version = next(row["record"]["version"] for row in self.records if row["record"])
        name = self.scenario.__name__
        folder = to / (name if version == NEWEST else version + "-" + name)
        shutil.rmtree(str(folder), ignore_errors=True)
        meta = {"scenario": name, "what": self.scenario.__doc__, "claude_code": version, "t0": self.t0, "steps": self.steps}
        files = {"meta.json": json.dumps(meta, indent=1, ensure_ascii=False) + "\n"}
        for part, rows in (("events", self.events), ("records", self.records), ("growth", self.growth),
                           ("expect", self.expected)):
            files[part + ".jsonl"] = lines(slim(row) for row in rows)
        for path, text in self.texts.items():
            files["transcripts/" + path] = lines(slim(bare(json.loads(line))) for line in text.splitlines())
        for path, text in files.items():
            target = folder / self.anonymous(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.anonymous(text))
        return folder

    def anonymous(self, text):
        """The same on no particular machine."""
        root, home = str(self.world.root), str(self.world.home)
        for mine, theirs in ((self.world.socket, "/run/rig/tmux.sock"), (self.world.claude, "/usr/local/bin/claude"),
                             (home, "/home/dev"), (slug(home), "-home-dev"), (root + "/tmp", "/run/user/1000"),
                             (slug(root + "/tmp"), "-run-user-1000"), (root, "/run/rig"), (slug(root), "-run-rig")):
            text = text.replace(mine, theirs)
        text = re.sub(r"linux:[0-9a-f]{32}:pid:\[\d+\]", "linux:%s:pid:[4026531836]" % ("0" * 32), text)
        text = re.sub(r"/(?:tmp|run/user/\d+)/(claude|cc-socks)(?:-\d+)?/", r"/run/user/1000/\1/", text)
        left = re.search(r".{0,60}(?:%s|%s|/root\b|/tmp/).{0,60}" % (re.escape(KEY), re.escape(self.world.root.name)), text)
        assert not left, "the machine shows: " + left.group()
        return text


def slug(path):
    return re.sub("[^A-Za-z0-9]", "-", path)


def lines(rows):
    """Without spaces, as Claude Code writes its own files."""
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def slim(value):
    """The same without long texts; a task's notification to the model stays, but for what is always the same in it."""
    if isinstance(value, dict):
        return {key: slim(item) for key, item in value.items()}
    if isinstance(value, list):
        return [slim(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"(?s)<note>.*?</note>", "<note></note>", value)
        return value if len(value) <= LONG or value.startswith("<task-notification>") else ""
    return value


def bare(entry):
    """A transcript's line without what Claude Code writes down for itself: the keys stay, their values are emptied."""
    kind, attached = entry["type"], entry.get("attachment") or {}
    if kind == "attachment":
        kept = {key: value for key, value in attached.items() if key == "type" or attached["type"] == "queued_command"}
        return {**only(entry, "parentUuid", "uuid"), "attachment": kept}
    if kind.startswith("api-request") or kind == "cost-state":
        return only(entry)
    if isinstance(entry.get("message"), dict) and "usage" in entry["message"]:
        entry = {**entry, "message": {**entry["message"], "usage": {}}}
    return housekept(entry)


def housekept(entry):
    """The same without what tells nobody anything."""
    return {key: empty(value) if key in HOUSEKEEPING else value for key, value in entry.items()}


def only(entry, *more):
    """The keys, and few of the values."""
    kept = ("type", "sessionId", "agentId", "timestamp", *more)
    return {key: value if key in kept else empty(value) for key, value in entry.items()}


def empty(value):
    return type(value)() if isinstance(value, (str, list, dict)) else value


# -- the scenarios: what a person does, and what is right then -------------------------------------------------------------

def nested(r):
    """claude -p, run by the session's own Bash tool"""
    r.start()
    r.say('RUN: %s -p "SLOW: 4"' % r.world.claude)
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("Yes")
    r.expect(None, "approved: the command, a headless Claude Code, runs", needs="record")
    r.until("idle")
    r.expect("stopped", "the session's own turn finished")


def esc_tool(r):
    """Esc while an approved command runs"""
    r.start()
    r.say("RUN: touch x; sleep 20")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("Yes")
    r.expect(None, "approved, the command runs", after=2.5, needs="record")
    r.key("Escape")
    r.expect("interrupted", "Esc while the command ran: waits for the next instruction", after=2.5)


def deny_comment(r):
    """permission denied with a comment"""
    r.start()
    r.say("RUN: touch x THEN: 4")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.key("Up")
    r.key("Tab")
    r.type("rather not")
    r.expect("permission", "a comment is typed at No, the dialog is still there")
    r.key("Enter")
    r.expect(None, "denied with a comment: it goes on working")
    r.until("idle")
    r.expect("stopped", "turn finished")


def esc_question(r):
    """Esc at AskUserQuestion"""
    r.start()
    r.say("ASK")
    r.until("waiting")
    r.expect("question", "asks a multiple-choice question")
    r.key("Escape")
    r.expect("interrupted", "Esc at the question: waits for the next instruction")


def plan_accept(r):
    """a plan, accepted"""
    r.start("--permission-mode", "plan")
    r.say("PLAN THEN: 4")
    r.until("waiting")
    r.expect("plan", "asks whether to carry the plan out")
    r.choose("Yes, manually")
    r.expect(None, "accepted: it works")
    r.until("idle")
    r.expect("stopped", "turn finished")


def plan_clear(r):
    """a plan, accepted with a cleared context"""
    r.settings(showClearContextOnPlanAccept=True)
    r.start("--permission-mode", "plan")
    r.say("PLAN")
    r.until("waiting")
    r.expect("plan", "asks whether to carry the plan out")
    fake_model.MOMENT = 5  # the new session's first prompt is Claude Code's own
    r.choose("Yes, clear context")
    r.expect(None, "accepted: it works in a new session", after=2.5)
    r.until("idle")
    r.expect("stopped", "turn finished")


def plan_reject(r):
    """a plan, Esc"""
    r.start("--permission-mode", "plan")
    r.say("PLAN")
    r.until("waiting")
    r.expect("plan", "asks whether to carry the plan out")
    r.key("Escape")
    r.expect("interrupted", "Esc at the plan: waits for the next instruction")


def two_calls(r):
    """two calls in one message: their dialogs, and the first one's command runs a while"""
    r.start()
    r.say("TWO: sleep 3; touch one ;; sleep 3; touch two")
    r.until("waiting")
    r.expect("permission", "asks for the first")
    r.choose("Yes")
    r.expect(None, "the first runs", needs="record")
    r.until("waiting")
    r.expect("permission", "asks for the second")
    r.choose("Yes")
    r.expect(None, "the second runs", needs="record")
    r.until("idle")
    r.expect("stopped", "turn finished")


def two_subagents(r):
    """two subagents, each asks for a permission"""
    r.start()
    r.say("TWOSUB: RUN: sleep 2; touch one ;; RUN: sleep 2; touch two")
    r.until("waiting")
    r.expect("permission", "a subagent asks", after=2.5)
    r.choose("Yes")
    r.expect("permission", "the other one asks", after=1.2)
    r.expect("permission", "the first one has ended, the other one still asks", after=4)
    r.choose("Yes")
    r.expect(None, "the other one runs", after=1.2, needs="record")
    r.until("idle")
    r.expect("stopped", "both have ended, so has the turn that this woke", after=3)


def subagent_deny(r):
    """Esc at a subagent's dialog"""
    r.start()
    r.say("SUB: RUN: touch by-subagent")
    r.until("waiting")
    r.expect("permission", "the subagent asks for permission", after=2.5)
    r.key("Escape")
    r.until("idle")
    r.expect("stopped", "the subagent's end woke the session for a turn, which finished", after=3)


def queued_esc(r):
    """a message typed while it works, then Esc"""
    r.start()
    r.say("SLOW: 20")
    r.until("busy")
    time.sleep(1)
    r.say("SLOW: 4")
    r.expect(None, "working, a message is queued")
    r.key("Escape")
    r.expect(None, "Esc ended the first turn: works on the queued message")
    r.until("idle")
    r.expect("stopped", "the queued message's turn finished")


def resume_inside(r):
    """/resume: another session of the same folder, in the same pane"""
    r.start()
    r.say("the first session")
    r.until("idle")
    r.expect("stopped", "turn finished")
    r.say("/clear")
    r.expect(None, "cleared: a new, empty session")
    r.say("the second session")
    r.until("idle")
    r.expect("stopped", "turn finished in the second session")
    r.say("/resume")
    r.expect("stopped", "the person looks at the list of sessions", after=3)
    r.key("Enter")
    r.expect(None, "resumed the first session, no turn in it yet", after=3)
    r.say("RUN: touch x")
    r.until("waiting")
    r.expect("permission", "asks in the resumed session")


def bash_mode(r):
    """a command of the person's own, by !"""
    r.start()
    r.say("hello")
    r.until("idle")
    r.expect("stopped", "turn finished")
    r.say("!sleep 3; ls")
    r.expect(None, "the person's own command runs", after=1.8, needs="record")
    r.until("idle")
    r.expect("stopped", "the command and the turn about it have ended")


def closed(r):
    """the pane is closed while it waits"""
    r.start()
    other = r.world.open_pane("other", "sh")  # so that the tmux server lives on
    assert other != r.session.pane
    r.say("RUN: touch x")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.close_pane()
    r.expect(None, "the pane is gone", after=3)


def bg_end(r):
    """a background command ends while a dialog is open"""
    r.start()
    r.say("BG: sleep 9; touch done")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("Yes")
    r.until("shell")
    r.expect("stopped", "turn finished while a background command runs")
    r.say("RUN: touch x")
    r.until("waiting")
    r.expect("permission", "asks for permission, the background command still runs", after=1.3)
    r.expect("permission", "the background command has ended, the dialog is still there", after=7)
    r.choose("Yes")
    r.until("idle")
    r.expect("stopped", "turn finished; the background command's end was told to it on the way", after=3)


def agents_stopped(r):
    """a background subagent, stopped by the person"""
    r.start()
    r.say("SUB: SLOW: 30")
    r.expect(None, "a subagent works", after=4)
    for key in ("C-x", "C-k", "C-x", "C-k"):
        r.key(key)
        time.sleep(0.2)
    r.expect("stopped", "the subagent was stopped, nothing works any more", after=4)


def monitor(r):
    """a Monitor that outlives the turn, says something, and ends"""
    r.start()
    r.say('CALL: Monitor {"description": "the barn", "command": "sleep 6; echo open; sleep 6; echo shut", '
          '"timeout_ms": 60000, "persistent": false}')
    r.expect("stopped", "turn finished, the monitor runs", after=4)
    r.expect("stopped", "the monitor's word woke it for a turn, which finished", after=6)
    r.expect("stopped", "the monitor's last word and its end did so too", after=8)


def cron(r):
    """a scheduled prompt wakes the session"""
    r.start()
    r.say('CALL: CronCreate {"cron": "* * * * *", "prompt": "SLOW: 6", "recurring": false}')
    r.expect("stopped", "turn finished, a prompt is scheduled", after=4)
    r.until("busy", seconds=130)
    r.expect(None, "the scheduled prompt works", after=2)
    r.until("idle", "shell")
    r.expect("stopped", "the scheduled prompt's turn finished")


def write(r):
    """a file named without its folder: the hooks' tool_input is not quite the transcript's; denied, then approved"""
    r.start()
    r.say("WRITE: barn red THEN: 4")
    r.until("waiting")
    r.expect("permission", "asks for permission to write")
    r.choose("No")
    r.expect("interrupted", "denied: waits for the next instruction")
    r.say("WRITE: barn white THEN: 4")
    r.until("waiting")
    r.expect("permission", "asks for permission to write")
    r.choose("Yes")
    r.expect(None, "approved: it works")
    r.until("idle")
    r.expect("stopped", "turn finished")


def two_deny(r):
    """two calls in one message, Esc at the first one's dialog"""
    r.start()
    r.say("TWO: touch one ;; touch two")
    r.until("waiting")
    r.expect("permission", "asks for the first")
    r.key("Escape")
    r.expect("interrupted", "Esc at the first: the second is not asked for", after=2.5)


def plan_comment(r):
    """a plan, answered with what to change"""
    r.start("--permission-mode", "plan")
    r.say("PLAN THEN: 4")
    r.until("waiting")
    r.expect("plan", "asks whether to carry the plan out")
    r.choose("Tell Claude what to change")
    r.type("paint it first")
    r.expect("plan", "a comment is typed, the dialog is still there")
    r.key("Enter")
    r.expect(None, "answered with a comment: it goes on working")
    r.until("idle")
    r.expect("stopped", "turn finished")


def both_ask(r):
    """the person works on beside a background subagent, and both ask"""
    r.start()
    r.say("SUB: TWO: sleep 6 ;; touch by-subagent")
    r.expect(None, "a subagent works", after=2.5)
    r.say("RUN: touch by-main")
    r.until("waiting")
    r.expect("permission", "the main session asks")
    r.expect("permission", "the subagent asks too, its dialog is behind the first one", after=5)
    r.choose("Yes")
    r.expect("permission", "the main session's turn is over, the subagent still asks", after=2.5)
    r.choose("Yes")
    r.until("idle")
    r.expect("stopped", "the subagent has ended, so has the turn that this woke", after=3)


def bg_exit(r):
    """/exit while a background command runs"""
    r.start()
    r.say("BG: sleep 60; touch done")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("Yes")
    r.until("shell")
    r.expect("stopped", "turn finished while a background command runs")
    r.say("/exit")
    r.expect("stopped", "asks the person what is to become of the command", after=2)
    r.key("Enter")
    r.expect(None, "session ended", after=3)


def retry(r):
    """the model's server fails; Esc while Claude Code tries again and again"""
    r.start()
    r.say("FAIL: 500")
    r.expect(None, "it tries again", after=6)
    r.key("Escape")
    r.expect("interrupted", "Esc: the prompt is in the input line again", after=2.5, needs="record")


# Also of older versions, as what they tell differs.

def turn(r):
    """two turns, then /exit"""
    r.start()
    r.expect(None, "started, nothing asked yet", after=0.5)
    r.say("SLOW: 3")
    r.expect(None, "working", after=2)
    r.until("idle")
    r.expect("stopped", "turn finished")
    r.say("SLOW: 3")
    r.expect(None, "working on the second prompt", after=2)
    r.until("idle")
    r.expect("stopped", "second turn finished")
    r.say("/exit")
    r.expect(None, "session ended", after=3)


def approve(r):
    """permission asked, approved; the approved command runs for 5 s"""
    r.start()
    r.say("RUN: touch done; sleep 5")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("Yes")
    r.expect(None, "approved, the command runs for 5 s", after=2, needs="record")
    r.until("idle")
    r.expect("stopped", "turn finished")


def deny(r):
    """permission asked, denied"""
    r.start()
    r.say("RUN: touch done")
    r.until("waiting")
    r.expect("permission", "asks for permission")
    r.choose("No")
    r.expect("interrupted", "denied: waits for the next instruction", after=2.5)


def interrupt(r):
    """Esc in the middle of a turn"""
    r.start()
    r.say("SLOW: 20")
    r.expect(None, "working", after=3)
    r.key("Escape")
    r.expect("interrupted", "Esc in mid-turn: waits for the next instruction", after=2.5)


def question(r):
    """AskUserQuestion, answered"""
    r.start()
    r.say("ASK THEN: 3")
    r.until("waiting")
    r.expect("question", "asks a multiple-choice question")
    r.key("Enter")
    r.expect(None, "answered: it works")
    r.until("idle")
    r.expect("stopped", "turn finished")


def queued(r):
    """a message typed while it works"""
    r.start()
    r.say("SLOW: 5")
    time.sleep(1.5)
    r.say("SLOW: 4")
    r.expect(None, "working, a message is queued", after=1.5)
    r.expect(None, "works on the queued message", after=4)
    r.until("idle")
    r.expect("stopped", "both done")


def subagent_permission(r):
    """a subagent asks for permission"""
    r.start()
    r.say("SUB: RUN: touch by-subagent; sleep 3")
    r.until("waiting")
    r.expect("permission", "the subagent asks for permission", after=2.5)
    r.choose("Yes")
    r.expect(None, "the subagent's command runs", needs="record")
    r.until("idle")
    r.expect("stopped", "turn finished", after=3)


SCENARIOS = {scenario.__name__: scenario for scenario in (
    nested, esc_tool, deny_comment, esc_question, plan_accept, plan_clear, plan_reject, two_calls, two_subagents,
    subagent_deny, queued_esc, resume_inside, bash_mode, closed, bg_end, agents_stopped, monitor, cron,
    write, two_deny, plan_comment, both_ask, bg_exit, retry,
    turn, approve, deny, interrupt, question, queued, subagent_permission)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=Path, default=Path(__file__).resolve().parents[1] / "captures", metavar="FOLDER")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(SCENARIOS))
    if unknown or not arguments.names:
        parser.error("%s\n%s" % ("no such scenario: " + unknown[0] if unknown else "which one?", "\n".join(
            "  %-20s %s" % (name, scenario.__doc__) for name, scenario in SCENARIOS.items())))
    for name in arguments.names:
        with Recording(os.environ["CLAUDE_BIN"], SCENARIOS[name]) as recording:
            SCENARIOS[name](recording)
            recording.stop()
            print("\n%s" % recording.save(arguments.to))


if __name__ == "__main__":
    main()

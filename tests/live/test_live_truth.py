"""The real Claude Code, by every way in which a session starts, stops, is answered, dies or moves: the queue follows within
SOON and stays right. Once with hooks, and once with none at all: then only records, transcripts and processes can tell."""
import json
import os
import shutil
import signal
import time

import pytest

from claude import World, within

CLAUDE = os.environ.get("CLAUDE_BIN")
pytestmark = [
    pytest.mark.skipif(not CLAUDE, reason="no Claude Code: .ci/run fetches it; or set CLAUDE_BIN to a claude"),
    pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")]
FOUND = 1.5  # s: a session that no hook told of is on the board by then


@pytest.fixture(scope="module", params=["hooks", "no hooks"])
def machine(request):
    with World(CLAUDE) as world:
        if request.param == "hooks":
            world.boss("install")
        settings = world.config / "settings.json"
        given = json.loads(settings.read_text()) if settings.exists() else {}
        settings.write_text(json.dumps({**given, "showClearContextOnPlanAccept": True}))
        world.serve()
        yield world


@pytest.fixture
def world(machine):
    within(3, lambda: machine.queue() == [], machine)
    yield machine
    machine.close_sessions()


def start(world, name, *arguments, **more):
    session = world.start(name, *arguments, **more)
    time.sleep(FOUND)
    return session


def test_answers(world):
    session = start(world, "answers")

    def asks(prompt, reason):
        session.turn(prompt, "waiting")
        world.queue_is((session, reason))
        return world.queue()[0]

    escape, enter = lambda: session.key("Escape"), lambda: session.key("Enter")
    first = asks("RUN: touch barn; sleep 4", "permission")
    world.queue_is(since=session.answer("busy", enter))  # while the approved command still runs
    within(10, lambda: session.status() == "idle", world)
    world.queue_is((session, "stopped"))
    world.queue_is((session, "stopped"), since=session.key("Escape"))  # at the prompt: it still waits

    second = asks("RUN: touch barn", "permission")
    assert second["since"] > first["since"] + 4 and "touch barn" in second["ask"]
    world.queue_is((session, "interrupted"), since=session.answer("idle", lambda: session.choose("No")))
    asks("RUN: touch barn", "permission")
    world.queue_is((session, "interrupted"), since=session.answer("idle", escape))
    asks("ASK", "question")
    world.queue_is((session, "interrupted"), since=session.answer("idle", escape))

    asks("RUN: touch barn THEN: 4", "permission")
    session.key("Up")
    session.key("Tab")
    session.key("rather not")
    world.queue_is((session, "permission"))
    world.queue_is(since=session.answer("busy", enter))
    within(10, lambda: session.status() == "idle", world)
    world.queue_is((session, "stopped"))

    session.turn("SLOW: 9", "busy")
    time.sleep(1)
    world.queue_is((session, "interrupted"), since=session.answer("idle", escape))

    hooks = (world.config / "trailboss-emit.sh").exists()
    story = world.boss("explain", session.pane)
    assert "allowed by the person" in story and "refused" in story, story
    told = [line.split()[2] for line in story.splitlines() if line.split()[1:2] == ["permission"]]
    assert len(told) == 4 and set(told) == {"hook" if hooks else "record"}, story
    assert ("(the hooks' last word: PermissionRequest)" in story) == hooks, story
    lines = {line.split()[1]: line for line in world.boss("doctor", code=0 if hooks else 1).splitlines()}
    well = {name for name, line in lines.items() if line.startswith("ok")}
    assert set(lines) - well == (set() if hooks else {"hooks", "heard"}), lines
    assert "of 1 of 1 live sessions" in lines["records"] and "of 1 of 1" in lines["panes"], lines


def test_a_message_that_is_queued(world):
    session = start(world, "queued")
    session.turn("SLOW: 4", "busy")
    time.sleep(1)
    session.say("SLOW: 5")
    within(8, lambda: "You said: SLOW: 4" in session.screen(), world)
    world.queue_is()  # the first turn has ended, the second one runs
    within(10, lambda: session.status() == "idle", world)
    world.queue_is((session, "stopped"))


def test_subagents(world):
    session = start(world, "agents")
    session.turn("TWOSUB: RUN: touch barn; sleep 5 ;; RUN: touch shed; sleep 5", "waiting")
    world.queue_is((session, "permission"))
    time.sleep(1.5)
    session.key("Enter")
    world.queue_is((session, "permission"))  # the other one's dialog is up now, or the same one's for a moment longer
    time.sleep(1)
    world.queue_is(since=session.answer("busy", lambda: session.key("Enter")))
    within(15, lambda: session.status() == "idle", world)
    within(3, lambda: world.rows() == [(session.pane, "stopped")], world)
    world.queue_is((session, "stopped"))


def test_other_sessions_in_the_same_process(world):
    session = start(world, "moves")
    session.turn("the first session")
    world.queue_is((session, "stopped"))
    before, first = world.queue()[0], session.id()
    session.say("/compact")
    within(15, lambda: "Compacted" in session.screen(), world)
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["since"] == before["since"]

    pressed = session.say("/clear")
    within(3, lambda: session.id() != first, world)
    world.queue_is(since=pressed)
    session.turn("the second session")
    world.queue_is((session, "stopped"))

    session.say("/resume")
    within(5, lambda: session.status() == "waiting", world)
    world.queue_is((session, "stopped"))  # a list of the person's own is no news
    time.sleep(1)
    pressed = session.key("Enter")
    within(5, lambda: session.id() == first, world)
    world.queue_is(since=max(pressed, time.monotonic() - 0.2))
    session.turn("RUN: touch barn", "waiting")
    world.queue_is((session, "permission"))
    assert world.queue()[0]["session_id"] == first


def test_a_plan_that_is_accepted_with_a_cleared_context(world):
    session = start(world, "plan", "--permission-mode", "plan")
    session.turn("PLAN", "waiting")
    old = session.id()
    within(3, lambda: world.rows() == [(session.pane, "plan")], world)  # what the dialog is about, a transcript tells late
    world.queue_is((session, "plan"))
    pressed = session.choose("Yes, clear context")
    within(5, lambda: session.id() != old, world)
    time.sleep(1)
    within(10, lambda: session.status() == "idle", world, pressed)
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["session_id"] == session.id()


def test_ends(world):
    left, closed, ended = world.start_all("left", "closed", "ended")
    killed = start(world, "killed", under_shell=True)
    left.turn("hello")
    killed.turn("RUN: touch barn", "waiting")
    closed.turn("hello")
    ended.turn("RUN: touch shed", "waiting")
    world.queue_is((left, "stopped"), (killed, "permission"), (closed, "stopped"), (ended, "permission"))
    world.queue_is((killed, "permission"), (closed, "stopped"), (ended, "permission"), since=left.say("/exit"))
    os.kill(killed.pid, signal.SIGKILL)
    world.queue_is((closed, "stopped"), (ended, "permission"))
    world.tmux("kill-pane", "-t", closed.pane)
    world.queue_is((ended, "permission"))
    world.tmux("kill-server")
    world.queue_is()

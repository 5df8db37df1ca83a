"""Trail Boss beside the real Claude Code: what a person sees and does, from the keypress to the queue.

Every time limit is SOON (1.2 s) from the keypress, and what is right then is watched for STEADY (1 s) more. `pytest -rP`
shows the times.
"""
import json
import os
import shlex
import shutil
import signal
import time

import pytest

from claude import SOON, World, steady, within
from fake_model import PLAN, QUESTION

CLAUDE = os.environ.get("CLAUDE_BIN")
pytestmark = [
    pytest.mark.skipif(not CLAUDE, reason="no Claude Code: run .ci/run, which fetches it, or install the npm package "
                                          "@anthropic-ai/claude-code and set CLAUDE_BIN to its claude"),
    pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")]


@pytest.fixture(scope="module")
def machine():
    """One machine for all tests: hooks installed, the daemon up."""
    with World(CLAUDE) as world:
        world.boss("install")
        yield world


@pytest.fixture
def world(machine):
    begin(machine)
    yield machine
    finish(machine)


@pytest.fixture(scope="class")
def three(machine):
    """One finished, one at a permission, one at a question, stuck in this order."""
    begin(machine)
    done, permission, question = machine.start_all("done", "permission", "question")
    done.turn("hello")
    permission.turn("RUN: touch barn; sleep 8", "waiting")
    question.turn("ASK THEN: 6", "waiting")
    machine.queue_is((done, "stopped"), (permission, "permission"), (question, "question"))
    yield done, permission, question
    finish(machine)


def begin(machine):
    """The daemon is up and nothing is in the queue."""
    if not machine.daemon:
        machine.serve()
    within(3, lambda: machine.queue() == [], machine)


def finish(machine):
    """Close all sessions; no hook may have failed meanwhile."""
    trouble = machine.hook_trouble()
    machine.close_sessions()
    assert trouble == []


# -- the queue and the way to it ---------------------------------------------------------------------------------------

class TestThreeStuckSessions:
    """In this order: the last test gives the answers."""

    def test_list_shows_them_oldest_first_with_what_they_ask(self, machine, three):
        asks = ["You said: hello", "touch barn; sleep 8", QUESTION["question"]]
        items = json.loads(machine.boss("list", "--json"))["items"]
        for item, session, ask, tool in zip(items, three, asks, (None, "Bash", "AskUserQuestion")):
            assert item["session_id"] == session.id()
            assert (item["pane"], item["window"], item["server"]) == (session.pane, session.name + ":0.0", machine.socket)
            assert (item["tool_name"], item["agent"], item["background_tasks"]) == (tool, None, 0)
            assert ask in item["ask"]
            assert item["cwd"] == str(session.folder) and session.name in item["project"]
            assert (item["permission_mode"], item["uncertain"], item["skipped"]) == ("default", False, False)
            assert abs(time.time() - item["since"] - item["waited_s"]) < 1
            assert item["evidence"]["witness"] and item["evidence"]["at"] <= time.time()
        sinces = [item["since"] for item in items]
        assert len(items) == 3 and sinces == sorted(sinces)

        rows = [line for line in machine.boss("list").splitlines() if any(ask in line for ask in asks)]
        assert len(rows) == 3
        for row, session, ask in zip(rows, three, asks):
            assert ask in row and session.name in row

    def test_a_client_goes_round_the_queue_and_back(self, machine, three):
        done, permission, question = three
        bystander = machine.attach("done")
        time.sleep(1.1)  # tmux counts a client's activity in whole seconds
        client = machine.attach("permission")

        def lands_on(session):  # no more than a Python's start later, which a machine under load takes its time for
            within(3, lambda: client.pane() == session.pane, machine)

        assert "next: prefix b" in machine.boss("install", "--tmux")  # into the server that runs
        for session in (question, done, permission):
            client.type("\x02b")  # the key itself: the prefix, then b
            lands_on(session)
        for session in (done, question):
            client.type("\x02B")
            lands_on(session)
        client.type("\x02b")
        lands_on(done)
        client.type("\x02b")
        lands_on(permission)
        for session in (question, done, permission):
            machine.boss("jump", "--client", client.name)
            lands_on(session)
        for session in (question, done, permission):
            machine.boss("jump")  # the one that was used last
            lands_on(session)
        for session in (done, question, permission, done, question, permission, done, question, permission):
            machine.boss("jump", "--back", "--client", client.name)
            lands_on(session)
        machine.boss("jump", question.pane, "--client", client.name)
        lands_on(question)
        assert bystander.pane() == done.pane
        assert machine.rows() == [(done.pane, "stopped"), (permission.pane, "permission"), (question.pane, "question")]

    def test_an_answer_takes_its_row_out_at_once(self, machine, three):
        done, permission, question = three
        pressed = permission.answer("busy", lambda: permission.key("Enter"))
        machine.queue_is((done, "stopped"), (question, "question"), since=pressed)
        pressed = question.answer("busy", lambda: question.key("Enter"))
        machine.queue_is((done, "stopped"), since=pressed)
        pressed = done.answer("busy", lambda: done.say("SLOW: 4"))
        machine.queue_is(since=pressed)
        assert permission.status() == question.status() == done.status() == "busy"  # the approved command still runs
        within(10, lambda: len(machine.queue()) == 3, machine)
        assert {item["reason"] for item in machine.queue()} == {"stopped"}


def test_nothing_waits(world):
    assert world.queue() == []
    world.boss("list")
    world.boss("jump", code=4)


# -- what makes a session stuck, and what frees it ------------------------------------------------------------------------

def test_a_refusal_is_interrupted_with_a_new_since(world):
    session = world.start("refused")
    for prompt, reason, refuse in (("RUN: touch barn", "permission", lambda: session.choose("No")),
                                   ("RUN: touch barn", "permission", lambda: session.key("Escape")),
                                   ("ASK", "question", lambda: session.key("Escape"))):
        session.turn(prompt, "waiting")
        world.queue_is((session, reason))
        before = time.time()
        world.queue_is((session, "interrupted"), since=session.answer("idle", refuse))
        assert world.queue()[0]["since"] >= before - 0.01


def test_esc_while_it_works_is_interrupted(world):
    session = world.start("escaped")
    escape = lambda: session.key("Escape")
    session.turn("SLOW: 9", "busy")
    time.sleep(1)
    world.queue_is((session, "interrupted"), since=session.answer("idle", escape))

    session.turn("RUN: touch barn; sleep 9", "waiting")
    session.leave_dialog("Enter")
    time.sleep(1)
    assert (session.status(), world.queue()) == ("busy", [])
    world.queue_is((session, "interrupted"), since=session.answer("idle", escape))


def test_two_calls_ask_one_after_the_other(world):
    session = world.start("two")
    session.turn("TWO: touch barn ;; touch shed", "waiting")
    world.queue_is((session, "permission"))
    first = world.queue()[0]
    session.leads_to("waiting", lambda: session.key("Enter"))
    world.queue_is((session, "permission"))
    second = world.queue()[0]
    assert "touch barn" in first["ask"] and "touch shed" in second["ask"]
    assert first["since"] < second["since"]


def test_a_plan(world):
    session = world.start("plan", "--permission-mode", "plan")
    session.turn("PLAN THEN: 4", "waiting")
    world.queue_is((session, "plan"))
    item = world.queue()[0]
    assert (item["tool_name"], item["permission_mode"]) == ("ExitPlanMode", "plan")
    assert "Mend the fence" in item["ask"]
    assert all(line in world.boss("show", session.pane) for line in PLAN.splitlines())
    world.queue_is(since=session.answer("busy", lambda: session.choose("Yes, manually")))


def test_an_api_error(world):
    session = world.start("error")
    session.say("FAIL: 400")
    within(10, lambda: "the script says no" in session.screen(), world)
    world.queue_is((session, "error"))
    assert "the script says no" in world.queue()[0]["ask"]
    world.queue_is(since=session.answer("busy", lambda: session.say("SLOW: 3")))


def test_a_subagent_asks_after_the_main_turn_has_ended(world):
    session = world.start("subagent")
    session.turn("SUB: RUN: touch barn; sleep 4", "waiting")
    world.queue_is((session, "permission"))
    item = world.queue()[0]
    assert item["agent"] == "general-purpose" and "touch barn" in item["ask"]
    # The agent works, so the session is not stuck though its turn is over.
    world.queue_is(since=session.answer("busy", lambda: session.choose("Yes")))
    within(10, lambda: world.rows() == [(session.pane, "stopped")], world)


def test_a_background_shell_hides_nothing(world):
    session = world.start("background")
    session.turn("BG: sleep 30", "shell")
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["background_tasks"] == 1


def test_clear_takes_the_row_out(world):
    session = world.start("clear")
    session.turn("hello")
    world.queue_is((session, "stopped"))
    old = session.id()
    world.queue_is(since=session.say("/clear"))
    assert session.id() != old
    session.turn("hello")
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["session_id"] == session.id()


def test_compact_keeps_reason_and_since(world):
    session = world.start("compact")
    session.turn("hello")
    world.queue_is((session, "stopped"))
    before = world.queue()[0]
    session.say("/compact")
    within(15, lambda: "Compacted" in session.screen(), world)
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["since"] == before["since"]


def test_the_end_of_a_session_takes_its_row_out(world):
    left, closed = world.start_all("left", "closed")
    killed = world.start("killed", under_shell=True)
    left.turn("hello")
    killed.turn("RUN: touch barn", "waiting")
    closed.turn("hello")
    world.queue_is((left, "stopped"), (killed, "permission"), (closed, "stopped"))
    world.queue_is((killed, "permission"), (closed, "stopped"), since=left.say("/exit"))
    os.kill(killed.pid, signal.SIGKILL)
    world.queue_is((closed, "stopped"))
    assert killed.record()["status"] == "waiting"  # what it left behind still says so,
    assert killed.screen()                         # and its pane lives on, with a shell in it
    world.tmux("kill-pane", "-t", closed.pane)
    world.queue_is()


def test_print_mode_never_enters_the_queue(world):
    pane = world.open_pane("print", "sh")
    command = [CLAUDE, "-p", "SLOW: 3"]
    world.tmux("send-keys", "-t", pane, "-l", " ".join(map(shlex.quote, command)) + "; echo it ended")
    world.tmux("send-keys", "-t", pane, "Enter")
    lived = within(20, lambda: world.queue() or "\nit ended" in world.tmux("capture-pane", "-p", "-t", pane), world)
    assert lived > 3 and "You said: SLOW: 3" in world.tmux("capture-pane", "-p", "-t", pane)
    steady(lambda: world.queue() == [], world)
    sessions = json.loads(world.boss("list", "--all", "--json"))["sessions"]
    assert pane not in [session["pane"] for session in sessions]


# -- a daemon that is not there, hooks that are not there ---------------------------------------------------------------

def test_what_happened_while_the_daemon_was_down(world):
    done, permission = world.start_all("down", "down-too")
    world.stop_daemon()
    done.turn("hello")
    within(SOON, lambda: len(world.spool()) >= 2, world)
    ended = time.time()
    permission.turn("RUN: touch barn", "waiting")
    time.sleep(2)
    world.serve()
    world.queue_is((done, "stopped"), (permission, "permission"))
    first, second = world.queue()
    assert "hello" in first["ask"] and "touch barn" in second["ask"]
    assert first["since"] < ended
    assert world.spool() == []


def test_without_hooks_sessions_are_found_by_their_record():
    with World(CLAUDE) as world:
        world.serve()
        done, permission = world.start_all("done", "permission")
        time.sleep(1.5)
        done.turn("hello")
        world.queue_is((done, "stopped"))
        permission.turn("RUN: touch barn; sleep 8", "waiting")
        world.queue_is((done, "stopped"), (permission, "permission"))
        assert "touch barn" in world.queue()[1]["ask"]
        pressed = permission.answer("busy", lambda: permission.key("Enter"))
        world.queue_is((done, "stopped"), since=pressed)
        # Only a hook, or the transcript, could tell `interrupted` from `stopped`: what counts is that the row is there.
        pressed = permission.answer("idle", lambda: permission.key("Escape"))
        within(SOON, lambda: [pane for pane, _ in world.rows()] == [done.pane, permission.pane], world, pressed)


def test_no_state_of_the_daemon_holds_up_a_turn(world):
    """Up, frozen, down: a turn takes as long in each, and no hook is heard of (the fixture looks)."""
    session = world.start("turn")

    def fastest_turn():
        return min(session.turn("hello") for _ in range(3))

    up = fastest_turn()
    world.daemon.send_signal(signal.SIGSTOP)
    frozen = fastest_turn()
    ended = time.time()
    time.sleep(2)  # longer than a hook waits for the daemon: what it had to tell is in the spool
    world.daemon.send_signal(signal.SIGCONT)
    world.queue_is((session, "stopped"))
    assert world.queue()[0]["since"] < ended
    world.stop_daemon()
    down = fastest_turn()
    print("a turn takes %.2f s; with a frozen daemon %.2f s, without one %.2f s" % (up, frozen, down))
    assert max(frozen, down) < up + 0.6  # hooks that are waited for would cost twice that


# -- show ----------------------------------------------------------------------------------------------------------------

def test_show_prints_the_whole_ask(world):
    session = world.start("show")
    (session.folder / "fence.txt").write_text("oak\nrotten\noak\n")

    def shown(prompt, *more):
        session.turn(prompt, "waiting")
        within(SOON, lambda: session.pane in [pane for pane, reason in world.rows() if reason != "interrupted"], world)
        text = world.boss("show", session.pane)
        for words in more:
            assert words in text, "no %r in\n%s" % (words, text)
        session.leave_dialog("Escape")
        return text

    long = "touch " + " ".join("post%d" % n for n in range(60))
    shown("RUN: " + long, "Bash", long)
    shown(r"WRITE: poem.txt roses are red\nfences are white\nand so are you", "Write", "poem.txt", "roses are red",
          "fences are white", "and so are you")
    edit = shown("EDIT: fence.txt rotten => new", "Edit", "fence.txt").splitlines()
    assert [line for line in edit if line.strip().startswith("-") and "rotten" in line]
    assert [line for line in edit if line.strip().startswith("+") and "new" in line]
    options = [word for option in QUESTION["options"] for word in option.values()]
    shown("ASK", QUESTION["question"], *options)

    session.turn("RUN: touch barn", "waiting")
    within(SOON, lambda: world.rows() == [(session.pane, "permission")], world)
    for which in ([], [session.id()[:8]]):
        assert "touch barn" in world.boss("show", *which)
    screen = world.boss("show", session.pane, "--screen")
    assert "Do you want to proceed?" in screen and "4. No" in screen

"""install and uninstall beside the real Claude Code, which changes the same settings.json at the same moment."""
import json
import random
import re
import sys
import threading
import time

from claude import REPOSITORY, World, within
from test_live import CLAUDE, pytestmark  # noqa: F401  (the same conditions)

sys.path.insert(0, str(REPOSITORY / "tests"))
from support import tb  # noqa: E402

ROUNDS = 20
# What Claude Code 2.1.332 shows of a settings file that it does not take, at its start and while it runs.
TROUBLE = re.compile(r"Settings (Error|Warning)|has an error and didn't load|Couldn't set|Invalid JSON|Invalid settings|malformed")


def settings(world):
    return json.loads((world.config / "settings.json").read_text())


def rules(world):
    try:
        return settings(world).get("permissions", {}).get("allow", [])
    except FileNotFoundError:
        return []


def step(session, key, shown):
    """One key of a dialog, when it has had time to take it; wait for what comes next."""
    time.sleep(0.2)
    session.key(*key)
    within(5, lambda: shown in session.screen(), session.world)


def ask_for_rule(session, rule):
    """/permissions up to its last question: the key 3 (user settings) then writes."""
    session.say("/permissions")
    within(5, lambda: "Add a new rule" in session.screen(), session.world)
    time.sleep(0.2)
    session.key("Down")  # from the row of tabs
    step(session, ["Enter"], "Add allow permission rule")
    session.world.tmux("send-keys", "-t", session.pane, "-l", rule)
    time.sleep(0.1)
    step(session, ["Enter"], "User settings")
    time.sleep(0.2)


def back_to_the_prompt(session):
    def closed():
        if "to close" not in session.screen() and "to cancel" not in session.screen():
            return True
        session.key("Escape")
        time.sleep(0.4)
    within(10, closed, session.world)


def test_no_change_of_either_side_is_lost(monkeypatch):
    """The person adds a permission rule while install or uninstall runs, twenty times. From the key, Claude Code needs some 50
    to 100 ms until its file is there; ours comes before, in the middle of that, and after."""
    monkeypatch.setattr(tb, "compile_with", lambda python, program: None)  # it takes longer than all else, and not the same
    rng = random.Random(3)
    with World(CLAUDE) as world:
        env = {**world.boss_env(), "TMUX_TMPDIR": str(world.root)}
        session = world.start("a")
        added, failed = [], []

        def run(action, delay):
            time.sleep(delay)
            try:
                action(env)
            except BaseException as error:
                failed.append(error)
        for n in range(ROUNDS):
            added.append("Bash(tool%d:*)" % n)
            ask_for_rule(session, added[-1])
            action, delay = (tb.uninstall, rng.uniform(-0.02, 0.1)) if n % 2 else (tb.install, rng.uniform(-0.08, 0.06))
            thread = threading.Thread(target=run, args=(action, max(0.0, delay)))
            thread.start()
            time.sleep(max(0.0, -delay))
            pressed = session.key("3")
            within(5, lambda: added[-1] in rules(world), world, pressed)
            thread.join(30)
            assert not thread.is_alive() and failed == []
            time.sleep(0.2)
            assert rules(world) == added, "a change of Claude Code's was lost in round %d" % n
            assert set(tb.our_hooks(settings(world))) == (set() if n % 2 else set(tb.HOOKED)), "round %d" % n
            back_to_the_prompt(session)
            assert not TROUBLE.search(session.history())
        tb.install(env)
        session.turn("hello")
        assert world.spool(), "the hooks run"
        tb.uninstall(env)
        assert rules(world) == added and not tb.our_hooks(settings(world))
        doctor = world.run(CLAUDE, "doctor")
        assert not TROUBLE.search(session.history() + doctor.stdout + doctor.stderr) and doctor.stdout
        assert {path.name for path in world.config.glob("*trailboss*")} == set() and not world.state.exists()

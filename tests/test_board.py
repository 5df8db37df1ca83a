"""Section 3: which witness is believed. First the recordings of the real Claude Code, then each rule by itself."""
import pytest
from support import CAPTURES, Recording, event, record, tb, world

ASK = {"tool_name": "Bash", "tool_input": {"command": "touch x"}}


class Story:
    """One board, told step by step; `at` is the clock."""

    def __init__(self, *records, **seen):
        self.board, self.now = tb.Board(), 0.0
        self.see(*records, **seen)

    def see(self, *records, **seen):
        self.world = world(*records, **seen)
        return self

    def hear(self, name, at, late=0.0, **more):
        self.board = tb.take_event(self.board, event(name, at=at, **more))
        return self.look(at + late)

    def look(self, now):
        self.now = max(self.now, now)
        self.board = tb.observe(self.board, self.world, self.now)
        return self

    def session(self, session_id="s1"):
        return self.board.sessions[session_id]

    @property
    def state(self):
        return self.session().state

    @property
    def queue(self):
        return [(s.wait.reason, s.wait.since) for s in tb.waiting(self.board, self.now)]


# ---- the recordings ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("late", [0.0, 0.05, 0.4], ids="late{}".format)
@pytest.mark.parametrize("tick", [0.2, 0.5], ids="tick{}".format)
@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: folder.name)
def test_recording(folder, tick, late):
    assert Recording(folder, tick=tick, late=late).play() == []


@pytest.mark.parametrize("late", [0.0, 0.05, 0.4], ids="late{}".format)
@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: folder.name)
def test_recording_without_records(folder, late):
    assert Recording(folder, use_records=False, late=late).play() == []


def test_there_are_recordings():
    assert len(CAPTURES) >= 18


def test_compaction_keeps_reason_and_since():
    recording = Recording(next(c for c in CAPTURES if c.name == "compact"))
    waits = []
    look = recording.on_look

    def watch(row):
        look(row)
        waits.extend((s.wait.reason, s.wait.since) for s in tb.waiting(recording.board, recording.now))
    recording.on_look = watch
    recording.play()
    after = [wait for n, wait in enumerate(waits) if n == 0 or waits[n - 1] != wait]
    assert len(after) == 3 and after[-1] == waits[-1], after  # three turns; compaction brings no fourth wait


# ---- hook events -------------------------------------------------------------------------------------------------------

def test_a_session_that_has_had_no_turn_does_not_wait():
    assert Story(record(at=1)).hear("SessionStart", 2, source="startup").look(9).state == "idle"


@pytest.mark.parametrize("name, more, reason", [
    ("Stop", {}, "stopped"),
    ("StopFailure", {"error": "rate_limit"}, "error"),
    ("PermissionRequest", ASK, "permission"),
    ("PermissionRequest", {"tool_name": "mcp__x__y", "tool_input": None}, "permission"),
    ("PermissionRequest", {"tool_name": "AskUserQuestion", "tool_input": {}}, "question"),
    ("PermissionRequest", {"tool_name": "ExitPlanMode", "tool_input": {}}, "plan"),
    ("Elicitation", {"message": "Which?"}, "question")])
def test_the_first_event_of_a_session_is_enough(name, more, reason):
    """A daemon that was started in the middle of a session hears whatever comes next."""
    assert Story().hear(name, 5, **more).queue == [(reason, 5)]


def test_a_prompt_ends_the_wait():
    assert Story().hear("Stop", 5).hear("UserPromptSubmit", 6, prompt="go on").queue == []


def test_an_unknown_event_registers_and_says_nothing():
    story = Story().hear("CwdChanged", 5)
    assert story.state == "idle" and story.session().pane.pane_id == "%0"


def test_an_event_twice_is_once():
    once = Story().hear("UserPromptSubmit", 1, prompt="x").hear("PermissionRequest", 5, **ASK)
    twice = Story().hear("UserPromptSubmit", 1, prompt="x").hear("PermissionRequest", 5, **ASK)
    twice.hear("PermissionRequest", 5.01, **ASK)
    assert once.queue == twice.queue == [("permission", 5)]
    assert once.hear("Stop", 8).queue == twice.hear("Stop", 8).hear("Stop", 8.02).queue == [("stopped", 8)]


def test_the_same_command_asked_again_later_is_a_new_wait():
    story = Story().hear("PermissionRequest", 5, **ASK).hear("PermissionRequest", 60, **ASK)
    assert story.queue == [("permission", 60)]


def test_a_stop_that_another_hook_blocks_again_and_again_is_one_wait():
    story = Story().hear("UserPromptSubmit", 1, prompt="x")
    for at in range(5, 10):
        story.hear("Stop", at)
    assert story.queue == [("stopped", 5)]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_order_of_arrival_does_not_matter(order):
    told = [("UserPromptSubmit", 5.0, {"prompt": "x"}), ("PermissionRequest", 5.1, ASK), ("Stop", 5.2, {})]
    story = Story()
    for n in order:
        name, at, more = told[n]
        story.hear(name, at, **more)
    assert story.look(6).queue == [("stopped", 5.2)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_main_stop_and_a_subagents_ask_in_either_order(order):
    """captures/subagent_permission: 2 ms apart."""
    running = [{"id": "a1", "type": "subagent", "status": "running"}]
    told = [("PermissionRequest", 5.001, {**ASK, "agent_id": "a1", "agent_type": "Explore"}),
            ("Stop", 5.003, {"background_tasks": running})]
    story = Story().hear("UserPromptSubmit", 1, prompt="x")
    for n in order:
        name, at, more = told[n]
        story.hear(name, at, **more)
    assert story.queue == [("permission", 5.001)]
    assert story.session().wait.agent == "Explore"


def test_a_stop_ends_the_ask_of_an_agent_that_no_longer_runs():
    story = Story().hear("PermissionRequest", 5, agent_id="a1", **ASK).hear("Stop", 6, background_tasks=[])
    assert story.queue == [("stopped", 6)]


def test_a_machine_prompt_answers_no_subagents_dialog():
    running = [{"id": "a1", "type": "subagent", "status": "running"}, {"id": "b", "type": "shell", "status": "running"}]
    story = Story().hear("PermissionRequest", 5, agent_id="a1", **ASK).hear("Stop", 6, background_tasks=running)
    story.hear("UserPromptSubmit", 7, prompt="<task-notification>\n<task-id>b</task-id>")
    assert story.queue == [("permission", 5)]


@pytest.mark.parametrize("tasks, state", [
    ([{"id": "a", "type": "subagent", "status": "running"}], "working"),
    ([{"id": "a", "type": "workflow", "status": "running"}], "working"),
    ([{"id": "a", "type": "teammate", "status": "running"}], "working"),
    ([{"id": "a", "type": "subagent", "status": "completed"}], "stuck"),
    ([{"id": "a", "type": "shell", "status": "running"}], "stuck"),
    ([{"id": "a", "type": "monitor", "status": "running"}], "stuck"),
    ([], "stuck"), (None, "stuck"), ({}, "stuck"), (["subagent"], "stuck"), ("running", "stuck"), ([[], 5, None], "stuck")])
def test_a_stop_with_background_work(tasks, state):
    assert Story().hear("Stop", 5, background_tasks=tasks).look(9).state == state


def test_subagents_that_never_end_hide_a_finished_turn_for_ten_minutes_at_most():
    story = Story().hear("Stop", 5, background_tasks=[{"id": "a", "type": "subagent", "status": "running"}])
    assert story.look(5 + tb.PARKED - 1).queue == []
    assert story.look(5 + tb.PARKED + 1).queue == [("stopped", 5)]


def test_background_work_is_counted():
    tasks = [{"id": "a", "type": "shell", "status": "running"}, {"id": "b", "type": "shell", "status": "completed"}]
    assert Story().hear("Stop", 5, background_tasks=tasks).session().background == 1


def test_a_notification_alone_tells_of_a_dialog():
    story = Story().hear("UserPromptSubmit", 1, prompt="x")
    assert story.hear("Notification", 30, notification_type="permission_prompt").queue == [("permission", 30)]


@pytest.mark.parametrize("kind", ["permission_prompt", "idle_prompt", "auth_success", "quota_auto_resume_fired", 5, None])
def test_a_late_notification_brings_nothing_back(kind):
    """scenarios.md 9: asked at 0, answered at 3, and the notification of it comes at 6."""
    story = Story().hear("UserPromptSubmit", 1, prompt="x").hear("PermissionRequest", 2, **ASK)
    story.hear("PostToolUse", 5, **ASK).hear("Notification", 8, notification_type=kind)
    assert story.queue == []


def test_an_idle_notification_leaves_the_wait_as_it_is():
    story = Story().hear("Stop", 5).hear("Notification", 65, notification_type="idle_prompt")
    assert story.queue == [("stopped", 5)]


def test_a_tool_result_answers_its_own_dialog_only():
    story = Story().hear("PermissionRequest", 5, **ASK)
    story.hear("PostToolUse", 6, tool_name="Bash", tool_input={"command": "another"})
    assert story.queue == [("permission", 5)]
    story.hear("PostToolUse", 7, agent_id="a2", **ASK)
    assert story.queue == [("permission", 5)]
    assert story.hear("PostToolUse", 8, **ASK).queue == []


def test_a_tool_call_after_a_stop_means_that_it_goes_on():
    story = Story().hear("Stop", 5).hear("PreToolUse", 6, **ASK)
    assert story.queue == []


def test_a_late_tool_result_does_not_undo_a_stop():
    """scenarios.md 35: made at 9.9, here at 10.5."""
    story = Story().hear("Stop", 10).hear("PostToolUse", 9.9, late=0.6, **ASK)
    assert story.queue == [("stopped", 10)]


# ---- the record --------------------------------------------------------------------------------------------------------

def working(at=5.0):
    return Story(record(status="busy", at=at)).hear("UserPromptSubmit", at, prompt="do it")


def test_the_record_takes_out_what_was_approved():
    story = working().hear("PermissionRequest", 6, **ASK).see(record(status="busy", at=9)).look(9.1)
    assert story.queue == []


def test_a_denial_is_interrupted_with_a_new_since():
    story = working().hear("PermissionRequest", 6, **ASK).see(record(status="idle", at=9))
    assert story.look(9.1).queue == [("permission", 6)]  # a Stop may be on its way
    assert story.look(9.6).queue == [("interrupted", 9)]
    assert story.session().wait.text == "do it"


def test_esc_in_the_middle_of_a_turn():
    assert working().see(record(status="idle", at=9)).look(9.1).queue == []
    assert working().see(record(status="idle", at=9)).look(9.6).queue == [("interrupted", 9)]


def test_a_stop_on_its_way_is_waited_for():
    story = working().see(record(status="idle", at=9)).look(9.1).hear("Stop", 9.2)
    assert story.look(20).queue == [("stopped", 9.2)]


def test_an_older_record_is_not_believed_at_once():
    story = working().hear("Stop", 9)
    assert story.queue == [("stopped", 9)]
    assert story.look(9 + tb.DOUBT - 0.1).queue == [("stopped", 9)]


def test_an_older_record_of_this_turn_is_believed_after_a_while():
    """Another tool's hook blocked the Stop: no new record is written, and it goes on."""
    assert working().hear("Stop", 9).look(9 + tb.DOUBT + 0.1).queue == []


def test_an_older_record_of_another_turn_is_not_believed():
    story = Story(record(status="idle", at=5)).hear("Stop", 4.9).hear("UserPromptSubmit", 30, prompt="x")
    assert story.look(40).queue == []


def test_a_dialog_that_another_hook_answered():
    """PermissionRequest, but the record stays busy: no dialog came up."""
    story = working().hear("PermissionRequest", 6, **ASK)
    assert story.queue == [("permission", 6)] and story.look(7).queue == []


def test_the_second_of_two_dialogs_is_a_wait_of_its_own():
    story = working().hear("PermissionRequest", 6, **ASK).see(record(status="waiting", at=6.1)).look(6.2)
    story.see(record(status="busy", at=8)).look(8.1)
    story.hear("PermissionRequest", 8.2, tool_name="Bash", tool_input={"command": "touch two"})
    story.see(record(status="waiting", at=8.3)).look(8.4)
    assert story.queue == [("permission", 8.2)] and story.session().wait.text == "touch two"


def test_two_subagents_dialogs_come_one_after_the_other():
    running = [{"id": name, "type": "subagent", "status": "running"} for name in "ab"]
    story = working().hear("Stop", 6, background_tasks=running)
    story.hear("PermissionRequest", 7, agent_id="a", tool_name="Bash", tool_input={"command": "one"})
    story.hear("PermissionRequest", 7.1, agent_id="b", tool_name="Bash", tool_input={"command": "two"})
    story.see(record(status="waiting", at=7.05)).look(9)
    assert story.session().wait.text == "one"
    story.see(record(status="busy", at=9.5)).look(9.6).see(record(status="waiting", at=9.7)).look(10.5)
    assert story.session().wait.text == "two" and len(story.queue) == 1


def test_two_dialogs_that_were_answered_leave_no_ghost():
    """Between queued dialogs the record of 2.1.332 stays `waiting`: when it leaves that, both were answered."""
    running = [{"id": name, "type": "subagent", "status": "running"} for name in "ab"]
    story = working().hear("Stop", 6, background_tasks=running)
    story.hear("PermissionRequest", 7, agent_id="a", tool_name="Bash", tool_input={"command": "one"})
    story.hear("PermissionRequest", 7.1, agent_id="b", tool_name="Bash", tool_input={"command": "two"})
    story.see(record(status="waiting", at=7.05)).look(9).see(record(status="busy", at=12)).look(12.1)
    story.hear("UserPromptSubmit", 15, prompt="<task-notification>\n<task-id>a</task-id>")
    assert story.look(15.1).queue == [] and story.look(20).queue == []


def test_another_dialog_without_its_hook_is_a_wait_of_its_own():
    story = working().hear("PermissionRequest", 6, **ASK).see(record(status="waiting", at=6.1)).look(8)
    story.see(record(status="waiting", waiting_for="input needed", at=50)).look(51)
    assert story.queue == [("question", 50)]


def test_the_busy_flash_of_a_menu_that_opens_is_no_news():
    story = working().hear("Stop", 6).see(record(status="idle", at=6.1)).look(7)
    story.see(record(status="busy", at=9)).look(9.1)
    story.see(record(status="waiting", waiting_for="dialog open", at=9.15)).look(9.3)
    assert story.queue == [("stopped", 6)] and story.look(60).queue == [("stopped", 6)]
    assert story.see(record(status="idle", at=61)).look(62).queue == [("stopped", 6)]


def test_a_menu_does_not_make_a_turn_of_a_session_that_had_none():
    story = Story(record(status="idle", at=3)).hear("SessionStart", 2).look(4)
    story.see(record(status="busy", at=9)).look(9.1).see(record(status="idle", at=9.3)).look(9.4)
    assert story.look(20).queue == []
    story.see(record(status="busy", at=30)).look(31).see(record(status="idle", at=40)).look(41)
    assert story.queue == [("stopped", 40)]  # a turn that no hook told of


def test_a_parked_session_that_is_idle_for_a_moment():
    story = working().hear("Stop", 9, background_tasks=[{"id": "a", "type": "subagent", "status": "running"}])
    story.see(record(status="idle", at=20)).look(20.1)
    assert story.queue == []
    assert story.see(record(status="busy", at=20.04)).look(20.3).queue == []


def test_a_menu_of_the_persons_own_is_no_news():
    story = working().hear("Stop", 6).see(record(status="idle", at=6.1)).look(7)
    story.see(record(status="waiting", waiting_for="dialog open", at=9)).look(12)
    assert story.queue == [("stopped", 6)]
    assert story.see(record(status="idle", at=15)).look(16).queue == [("stopped", 6)]


def test_a_menu_in_a_session_without_a_turn_is_no_news_either():
    story = Story(record(status="idle", at=3)).hear("SessionStart", 2).look(4)
    assert story.see(record(status="waiting", waiting_for="dialog open", at=9)).look(12).queue == []


def test_a_queued_prompt_goes_on_after_the_stop():
    story = working().hear("UserPromptSubmit", 6, prompt="and then").hear("Stop", 9)
    story.see(record(status="busy", at=9.1)).look(9.2)
    assert story.queue == []
    assert story.see(record(status="idle", at=12)).look(13).queue == [("interrupted", 12)]


def test_a_queued_prompt_that_was_taken_back():
    story = working().hear("UserPromptSubmit", 6, prompt="and then").hear("Stop", 9)
    assert story.see(record(status="idle", at=9.1)).look(20).queue == [("stopped", 9)]
    story.see(record(status="busy", at=30)).look(30.1)  # /compact
    assert story.see(record(status="idle", at=33)).look(40).queue == [("stopped", 9)]


def test_a_prompt_after_an_interruption_begins_a_new_turn():
    story = working().see(record(status="idle", at=8)).look(9).hear("UserPromptSubmit", 20, prompt="again")
    story.see(record(status="busy", at=20)).look(20.2).hear("Stop", 25)
    assert story.see(record(status="idle", at=25.1)).look(30).queue == [("stopped", 25)]


def test_skip_and_snooze_survive_a_compaction():
    story = working().hear("Stop", 9).see(record(status="idle", at=9.1)).look(10)
    story.board = tb.put_off(story.board, "s1", skipped_at=11, snoozed_until=5000)
    story.see(record(status="busy", at=20)).look(20.1)
    assert story.queue == []
    wait = story.see(record(status="idle", at=30)).look(31).session().wait
    assert (wait.since, wait.skipped_at, wait.snoozed_until) == (9, 11, 5000)


def test_a_new_ask_is_offered_again():
    story = working().hear("Stop", 9)
    story.board = tb.put_off(story.board, "s1", skipped_at=9.1, snoozed_until=tb.FOREVER)
    story.hear("UserPromptSubmit", 20, prompt="x").hear("PermissionRequest", 21, **ASK)
    wait = story.session().wait
    assert (wait.skipped_at, wait.snoozed_until) == (0, 0)


def test_subagents_at_work_after_the_main_turn():
    story = working().hear("Stop", 9, background_tasks=[{"id": "a", "type": "subagent", "status": "running"}])
    assert story.look(9 + tb.PARKED * 2).queue == []  # the record says busy, for as long as it says so
    assert story.see(record(status="idle", at=700)).look(701).queue == [("stopped", 700)]


@pytest.mark.parametrize("more", [{"status": ""}, {"status": "waiting", "waiting_for": "dialog open"}])
def test_a_record_that_stopped_telling_is_not_believed_again(more):
    story = working(10).see(record(at=15, **more)).look(15.1).hear("Stop", 20)
    assert story.look(60).queue == [("stopped", 20)]
    assert story.see(record(status="busy", at=61)).look(61.1).queue == []


def test_a_record_from_the_future_does_not_overrule_the_hooks():
    story = Story(record(status="busy", at=1e9)).hear("UserPromptSubmit", 10, prompt="x").hear("Stop", 20)
    assert story.look(60).queue == [("stopped", 20)]


def test_a_clock_that_was_set_back():
    story = Story().hear("UserPromptSubmit", 9000, prompt="x").hear("Stop", 9010)
    story.now = 100
    story.look(100).hear("UserPromptSubmit", 101, prompt="y")
    assert story.queue == []
    assert story.hear("Stop", 105).queue == [("stopped", 105)]


def test_the_main_thread_of_an_agent_session_is_no_subagent():
    story = Story().hear("PermissionRequest", 5, agent_type="reviewer", **ASK)
    assert story.session().wait.agent == ""


def test_without_a_record_the_last_hook_stands():
    story = working().see().hear("PermissionRequest", 6, **ASK)
    assert story.look(600).queue == [("permission", 6)]


def test_a_record_that_vanishes_takes_nothing_away():
    story = working().hear("Stop", 9).see(record(status="idle", at=9.1)).look(10).see().look(11)
    assert story.queue == [("stopped", 9)]


# ---- found by its record ----------------------------------------------------------------------------------------------

def found(r, *lines, seconds=1.1):
    story = Story(r).look(100)
    for stranger in tb.strangers(story.board, story.world.records, 100 + seconds):
        story.board = tb.take_stranger(story.board, stranger, story.world.processes.get(stranger.pid), "/t")
        story.board = tb.take_lines(story.board, stranger.session_id, lines, story.now)
    return story.look(100 + seconds)


def test_a_session_is_found_by_its_record_once_its_id_has_held():
    """A process that has just begun may show a provisional one; one that is new to us but has long begun does not."""
    for begun in (100, 99.5, 91, 0, 200):
        assert found(record(started_at=begun), seconds=0.5).board.sessions == {}
        assert list(found(record(started_at=begun)).board.sessions) == ["s1"]
    for begun in (90, 1):
        assert list(found(record(started_at=begun), seconds=0).board.sessions) == ["s1"]
    story = Story(record("s0")).look(100).see(record()).look(101)
    assert tb.strangers(story.board, story.world.records, 101.5) == [], "this process had another one a moment ago"
    assert found(record(status="waiting", waiting_for="permission prompt", at=50)).queue == [("permission", 50)]
    assert found(record(status="waiting", waiting_for="input needed", at=50)).queue == [("question", 50)]
    assert found(record(status="busy", at=50)).state == "working"


def test_what_the_transcript_tells_of_a_dialog_stays():
    story = found(record(status="waiting", waiting_for="permission prompt", at=50))
    context = tb.Context(tool_name="ExitPlanMode", tool_input={"plan": "# Plan"})
    told = tb.tell(story.session(), context)
    story.board = story.board._replace(sessions={"s1": told})
    story.look(103)
    assert story.queue == [("plan", 50)] and story.session().wait.text == "Plan"
    story.see(record(status="busy", at=110)).look(111).see(record(status="idle", at=120)).look(121)
    assert story.queue == [("stopped", 120)] and story.session().wait.tool_name == ""


def test_an_idle_record_waits_only_if_a_turn_was_had():
    assert found(record(at=50)).queue == []
    assert found(record(at=50), tb.Line("ended", 40)).queue == [("stopped", 50)]
    assert found(record(at=50, started_at=45), tb.Line("ended", 40)).queue == []  # resumed, nothing asked since


def test_its_turn_ends_stopped_where_no_hook_is_heard():
    story = found(record(at=50)).see(record(status="busy", at=110)).look(111)
    assert story.see(record(status="idle", at=120)).look(121).queue == [("stopped", 120)]


def test_a_headless_session_never_waits():
    assert found(record(status="waiting", at=50, entrypoint="sdk-cli")).queue == []
    assert Story().hear("Stop", 5, entrypoint="sdk-cli").queue == []


# ---- identity: process, pane, end -------------------------------------------------------------------------------------

def test_a_new_session_in_the_process_replaces_the_old():
    story = Story().hear("Stop", 5).hear("SessionStart", 8, session_id="s2", source="clear")
    assert story.queue == [] and story.state == "gone" and story.session("s2").state == "idle"
    assert story.hear("SessionEnd", 7.9, late=1, reason="clear").session("s2").state == "idle"
    assert story.hear("Stop", 12, session_id="s2").queue == [("stopped", 12)]


def test_a_cleared_session_is_found_by_the_record_alone():
    story = Story(record(at=4)).hear("Stop", 5).look(6)
    story.see(record(session_id="s2", status="idle", at=8)).look(8.1)
    assert story.look(9.2).queue == [] and story.state == "gone"


def test_a_late_word_does_not_bring_a_session_back():
    story = Story().hear("Stop", 5).hear("SessionEnd", 9)
    assert story.hear("Stop", 8.9, late=0.5).queue == []
    story.see(dead=[10]).look(10)
    story.board = tb.take_event(story.board, event("Stop", at=9.5)._replace(process=tb.Process(10, "")))
    assert story.look(11).queue == []


def test_a_resumed_session_comes_back():
    story = Story(pids=(10, 11)).hear("Stop", 5).hear("SessionEnd", 9)
    assert story.hear("SessionStart", 20, source="resume", pid=11).state == "idle"
    assert story.hear("Stop", 30, pid=11).queue == [("stopped", 30)]


def test_a_fork_that_reports_its_parents_id_moves_nothing():
    story = Story(pids=(10, 11)).hear("Stop", 5).hear("SessionStart", 9, source="fork", pid=11, pane="%7")
    assert story.queue == [("stopped", 5)] and story.session().process.pid == 10
    assert story.session().pane.pane_id == "%0"


@pytest.mark.parametrize("pid", [9, 11])
def test_a_session_that_is_open_in_another_process_too_has_its_own_record(pid):
    """Whichever of the two records is looked at last."""
    story = Story(record(status="waiting", at=6), record(status="busy", at=7, pid=pid), pids=(10, pid))
    story.world = story.world._replace(records=dict(sorted(story.world.records.items())))
    assert story.hear("PermissionRequest", 5.9, **ASK).look(9).queue == [("permission", 5.9)]


def test_a_dead_process_ends_its_session():
    story = Story().hear("PermissionRequest", 5, **ASK).see(dead=[10]).look(6)
    assert story.queue == [] and story.state == "gone"


def test_a_reused_pid_is_another_process():
    story = Story().hear("Stop", 5)
    story.world = story.world._replace(processes={10: tb.Process(10, "2", "/dev/pts/9")})
    assert story.look(6).queue == []


def test_a_process_that_was_not_looked_for_proves_nothing():
    story = Story().hear("Stop", 5)
    story.world = tb.World()
    assert story.look(6).queue == [("stopped", 5)]


def test_a_session_proved_wrongly_gone_comes_back_by_its_record():
    story = Story(record(at=4)).hear("Stop", 5).hear("SessionStart", 6, session_id="s9", source="startup").look(6.1)
    assert story.state == "gone"
    for now in (7.0, 7.2, 7.4):
        story.look(now)
        for r in tb.strangers(story.board, story.world.records, now):
            story.board = tb.take_stranger(story.board, r, story.world.processes[10], "")
    assert story.look(8).queue == [("stopped", 5)] and story.session("s9").state == "gone"


def server(*panes, at=50.0, pid=1, sock="/tmp/sock"):
    views = {p: tb.PaneView(p, tty, 0, False, "@0", "0", (("$0", "main", "0"),)) for p, tty in panes}
    return tb.Server(sock, pid, at, views, "3.3a")


def test_the_terminal_proves_the_pane_against_the_claim():
    story = Story(servers=[server(("%0", "/dev/pts/1"), ("%5", "/dev/pts/10"))]).hear("Stop", 5)
    assert story.session().pane.pane_id == "%5" and not story.session().uncertain


def test_a_claim_on_a_proved_pane_is_not_believed():
    story = Story(pids=(10, 11), servers=[server(("%0", "/dev/pts/10"))])
    story.hear("Stop", 5).hear("Stop", 6, session_id="s2", pid=11)
    assert story.session("s2").pane is None and story.session("s2").uncertain and len(story.queue) == 2


def test_two_claims_without_proof_are_both_kept_and_uncertain():
    story = Story(pids=(10, 11)).hear("Stop", 5).hear("Stop", 6, session_id="s2", pid=11)
    assert [story.session(s).uncertain for s in ("s1", "s2")] == [True, True]
    assert len(story.queue) == 2


def test_a_headless_run_inside_a_session_never_owns_its_pane():
    story = Story(pids=(10, 11)).hear("UserPromptSubmit", 5, prompt="x")
    story.hear("SessionStart", 6, session_id="s2", pid=11, entrypoint="sdk-cli").hear(
        "Stop", 7, session_id="s2", pid=11, entrypoint="sdk-cli")
    assert story.state == "working" and story.session().pane.pane_id == "%0" and not story.session().uncertain
    assert story.queue == []


def test_without_a_pid_the_pane_is_the_life():
    story = Story().hear("Stop", 5, pid=0).see(servers=[server(("%0", "/dev/pts/1"))]).look(51)
    assert story.queue == [("stopped", 5)]
    assert story.see(servers=[server(("%1", "/dev/pts/1"))]).look(52).queue == []


def test_a_server_looked_at_before_the_event_denies_nothing():
    story = Story(servers=[server(("%1", "/dev/pts/1"), at=4)]).hear("Stop", 5, pid=0)
    assert story.queue == [("stopped", 5)]


def test_a_new_server_with_the_same_pane_id_is_another_place():
    story = Story().hear("Stop", 5, pid=0).see(servers=[server(("%0", "/dev/pts/1"), pid=2)]).look(51)
    assert story.state == "gone"


def test_a_background_session_has_no_pane():
    story = Story(record(kind="bg", at=4, status="waiting")).hear("PermissionRequest", 5, **ASK)
    assert story.queue == [("permission", 5)] and story.session().pane is None


def test_a_foreign_process_is_not_looked_for():
    story = Story(record(foreign=True, status="waiting", at=6)).hear("PermissionRequest", 5, **ASK)
    story.see(record(foreign=True, status="waiting", at=6), dead=[10]).look(7)
    assert len(story.queue) == 1 and story.session().pane is None


# ---- history -----------------------------------------------------------------------------------------------------------

def test_history_has_each_change_once():
    boards = [tb.Board()]
    story = Story()
    for name, at, more in [("UserPromptSubmit", 1, {"prompt": "x"}), ("PermissionRequest", 5, ASK),
                           ("PermissionRequest", 5.1, ASK), ("Stop", 9, {})]:
        boards.append(story.hear(name, at, **more).board)
        boards.append(story.look(at + 0.05).board)
    told = [(c.at, c.state, c.reason, c.witness) for old, new in zip(boards, boards[1:]) for c in tb.changes(old, new, 9)]
    assert told == [(1, "working", "", "hook"), (5, "stuck", "permission", "hook"), (9, "stuck", "stopped", "hook")]


def test_what_ended_is_forgotten():
    story = Story().hear("Stop", 5).hear("SessionEnd", 9)
    assert "s1" in tb.forget(story.board, 9 + 80_000).sessions and tb.forget(story.board, 9 + 90_000).sessions == {}


def test_of_those_that_ended_not_too_many_are_kept():
    ended = {"s%d" % n: tb.Session("s%d" % n, ended_at=100.0 + n, state="gone") for n in range(tb.MOST_GONE + 50)}
    kept = tb.forget(tb.Board({**ended, "live": tb.Session("live")}), 200.0 + tb.MOST_GONE).sessions
    assert len(kept) == tb.MOST_GONE + 1 and "live" in kept and "s49" not in kept and "s50" in kept
    headless = tb.Board({"p": tb.Session("p", entrypoint="sdk-cli", ended_at=100.0, state="gone")})
    assert "p" in tb.forget(headless, 150).sessions and tb.forget(headless, 170).sessions == {}

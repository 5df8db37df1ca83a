"""Section 3 again: what a transcript says, against hooks and records. Rule by rule; then the recordings with their hooks
lost, doubled and late, their lines late, and their records missed: in the end the queue is right all the same."""
import functools
import json
import random

import pytest
from support import CAPTURES, KILLS, Recording, event, record, rows, tb, thread_of
from test_board import ASK, Story

OTHER = {"tool_name": "Bash", "tool_input": {"command": "touch y"}}


def line(kind, at, text="", tool=None, **more):
    """A line of a transcript as section 2 makes it; tool: what PermissionRequest has for the same call."""
    return tb.Line(kind, at, text, **{**(tool or {}), **more})


class Told(Story):
    """A story that a transcript takes part in."""

    def read(self, *lines, now=None):
        """These lines are read, by default as soon as they are written."""
        self.now = max(self.now, now or max(told.at for told in lines))
        self.board = tb.take_lines(self.board, "s1", lines, self.now)
        return self.look(self.now)


def asked(*records, **more):
    """A session whose main thread asks since 5, without a record if none is given."""
    return Told(*records).hear("UserPromptSubmit", 1, prompt="go").hear("PermissionRequest", 5, **{**ASK, **more})


def worked(*records):
    return Told(*records).hear("UserPromptSubmit", 1, prompt="go")


# ---- a dialog ends -----------------------------------------------------------------------------------------------------

CALL = line("call", 4.9, tool=ASK, open=("Bash",), fresh=True)


def test_the_calls_own_result_ends_its_dialog():
    assert asked().read(CALL).queue == [("permission", 5)]
    story = asked().read(CALL, line("result", 7, "ok", ASK))
    assert (story.queue, story.state, story.session().witness) == ([], "working", "transcript")


def test_a_siblings_result_does_not_while_a_call_of_that_tool_is_open():
    """captures/two_calls: two calls of one message, of which one asks."""
    assert asked().read(line("result", 7, "ok", OTHER, open=("Bash",))).queue == [("permission", 5)]
    assert asked().read(line("result", 7, "ok", {"tool_name": "Read"}, open=("Bash",))).queue == [("permission", 5)]


def test_the_result_after_which_no_call_of_that_tool_is_open_does():
    """The hook's input may be another than the transcript's: ExitPlanMode, or one that a hook has changed."""
    changed = {"tool_name": "Bash", "tool_input": {"command": "touch changed"}}
    assert asked().read(line("result", 7, "ok", changed)).queue == []


def test_a_block_of_the_same_message_does_not_end_a_dialog_but_the_next_message_does():
    for kind in ("said", "final", "call"):
        assert asked().read(line(kind, 7, "and", OTHER, open=("Bash",))).queue == [("permission", 5)], kind
    for kind in ("said", "call", "failed"):
        assert ("permission", 5) not in asked().read(line(kind, 7, "and", OTHER, fresh=True)).queue, kind


@pytest.mark.parametrize("kind, over", [("prompt", True), ("interrupted", True), ("ended", True), ("refused", True),
                                        ("woken", False)])
def test_what_a_person_does_ends_a_dialog_and_a_machines_prompt_does_not(kind, over):
    story = asked().read(line(kind, 7, "x", ASK if kind == "refused" else None))
    assert (("permission", 5) not in story.queue) is over


def test_a_line_from_before_the_dialog_does_not_end_it():
    before = [line(kind, 5, "x", fresh=True) for kind in ("result", "refused", "said", "prompt", "interrupted", "ended")]
    for told in before:
        assert asked().read(told).queue == [("permission", 5)], told.kind


def test_a_subagents_dialog_is_ended_by_that_subagents_lines_only():
    def story():
        return asked(agent_id="a1", agent_type="Explore").read(CALL._replace(at=4, tool_name="Agent"))
    mine = line("result", 7, "ok", ASK, agent_id="a1")
    for told in (mine._replace(agent_id=""), mine._replace(agent_id="a2"), line("final", 7, "done", fresh=True),
                 line("ended", 7), line("said", 7, fresh=True, agent_id="a2")):
        assert story().read(told).queue == [("permission", 5)], told
    for told in (mine, mine._replace(kind="refused"), line("said", 7, fresh=True, agent_id="a1")):
        assert story().read(told).queue == [], told


def test_the_main_threads_dialog_is_not_ended_by_a_subagent():
    assert asked().read(line("result", 7, "ok", ASK, agent_id="a1")).queue == [("permission", 5)]


def test_of_two_dialogs_one_ends_and_the_other_one_waits():
    story = asked(agent_id="a1", agent_type="Explore").hear("PermissionRequest", 6, agent_id="a2", **OTHER)
    story.read(line("result", 8, "ok", ASK, agent_id="a1"))
    assert story.queue == [("permission", 6)]
    assert story.read(line("refused", 9, "", OTHER, agent_id="a2")).queue == []


# ---- how a turn goes ---------------------------------------------------------------------------------------------------

MARK = "[Request interrupted by user for tool use]"


def test_a_denial_is_an_interruption_with_a_since_of_its_own():
    story = asked().read(CALL, line("refused", 9, "no", ASK), line("interrupted", 9.002, MARK))
    assert story.queue == [("interrupted", 9.002)] and story.session().wait.text == "go"


def test_the_turns_end_after_an_interruption_leaves_it_one():
    """captures/2.1.214-deny: that version writes turn_duration after it."""
    story = asked().read(line("refused", 9, "no", ASK), line("interrupted", 9.002, MARK), line("ended", 9.01))
    assert story.queue == [("interrupted", 9.002)]
    assert worked().read(line("failed", 4, "Overloaded"), line("ended", 4.1)).queue == [("error", 4)]


def test_the_turns_end_after_an_earlier_turns_interruption_is_an_end():
    story = worked().read(line("interrupted", 4, MARK))
    story.read(line("prompt", 9, "again"), line("final", 12, "done"), line("ended", 12.1))
    assert story.queue == [("stopped", 12.1)]


def test_a_denial_with_words_goes_on():
    story = asked().read(CALL, line("result", 9, "the user said: rather y", ASK))
    assert (story.queue, story.state) == ([], "working")


def test_esc_in_the_middle_of_a_turn():
    story = worked().read(line("said", 3, "I will"), line("interrupted", 3.01, "[Request interrupted by user]"))
    assert story.queue == [("interrupted", 3.01)] and story.look(60).queue == [("interrupted", 3.01)]
    assert story.hear("UserPromptSubmit", 61, prompt="on").read(line("prompt", 61.01, "on")).queue == []


def test_last_words_without_a_stop_are_the_end_once_it_is_quiet():
    story = worked().read(line("final", 4, "It is done."))
    assert story.state == "working" and story.look(4 + tb.QUIET - 0.1).state == "working"
    assert story.look(4 + tb.QUIET).queue == [("stopped", 4)] and story.session().wait.text == "It is done."


def test_a_stop_soon_after_the_last_words_counts_by_its_own_time():
    story = worked().read(line("final", 4, "It is done.")).hear("Stop", 4.03)
    assert story.queue == [("stopped", 4.03)] and story.look(30).queue == [("stopped", 4.03)]


def test_the_turns_end_without_a_stop_is_the_end_at_once():
    """scenarios.md 13: a result, no word, no hook, and turn_duration."""
    assert worked().read(line("result", 4, "ok", ASK), line("ended", 4.1)).queue == [("stopped", 4.1)]
    story = worked().read(line("final", 4, "done"), line("ended", 4.1))  # 14
    assert story.queue == [("stopped", 4.1)] and story.look(4000).queue == [("stopped", 4.1)]


def test_a_result_alone_is_no_end():
    assert worked().read(line("result", 4, "ok", ASK)).look(4000).state == "working"


def test_an_error_without_a_hook():
    story = worked().read(line("failed", 4, "API Error: 500"))
    assert story.queue == [("error", 4)] and story.session().wait.text == "API Error: 500"
    assert story.read(line("prompt", 9, "again")).state == "working"


def test_the_final_record_after_the_stop_changes_nothing():
    """scenarios.md 51: it has an earlier time, or a slightly later one."""
    for at in (3.9, 4.0, 4.2):
        story = worked().hear("Stop", 4, last_assistant_message="done").read(line("final", at, "done", fresh=True), now=5.5)
        assert story.queue == [("stopped", 4)] and story.look(60).queue == [("stopped", 4)], at
        assert story.read(line("ended", at + 0.02), now=61).queue == [("stopped", 4)], at


def test_a_call_after_the_stop_is_progress():
    """Another hook has blocked the stop, or a machine woke it."""
    assert worked().hear("Stop", 4).read(line("call", 5, tool=ASK, open=("Bash",), fresh=True)).state == "working"


def test_several_stops_of_one_turn_are_one_wait():
    """scenarios.md 15: another hook blocks the stop again and again; Claude's words are between them."""
    story = worked()
    for at in range(4, 9):
        story.hear("Stop", at).read(line("final", at - 0.1, "done", fresh=True))
        assert [reason for reason, _ in story.queue] == ["stopped"]
        assert story.read(line("said", at + 0.5, "on", fresh=True)).state == "working"
    (reason, since), = story.hear("Stop", 9).look(60).queue
    assert reason == "stopped" and 9 - tb.SAME_ASK < since <= 9


def test_lines_of_claude_codes_own_say_nothing():
    """scenarios.md 50: ai-title, agent-name; 62: another session's lines, and a subagent's."""
    calls = {}
    say = {"type": "assistant", "timestamp": "2033-05-18T03:33:30Z", "message": {"content": "x"}}
    lines = tb.parse_transcript([json.dumps(entry).encode() for entry in (
        {"type": "ai-title", "aiTitle": "x", "sessionId": "s1"}, {"type": "agent-name", "agentName": "x", "sessionId": "s1"},
        {**say, "sessionId": "s0"}, {**say, "sessionId": "s1", "isSidechain": True})], "s1", calls)
    assert lines == []
    told = tb.parse_transcript([json.dumps({**say, "sessionId": "s1"}).encode()], "s1", calls)
    assert [(one.kind, one.at) for one in told] == [("said", 2000000010.0)]  # such a line would be heard


def test_a_back_dated_burst_changes_nothing():
    """scenarios.md 57: compaction writes lines that are hours old."""
    burst = [line(kind, 4000 + n, "old", ASK if kind in ("call", "result") else None, fresh=True)
             for n, kind in enumerate(("prompt", "said", "call", "result", "interrupted", "prompt", "failed", "woken"))]
    story = Told().hear("UserPromptSubmit", 9000, prompt="go").hear("Stop", 9700).look(9701)
    before = story.session()
    assert story.read(*burst, now=9702).queue == [("stopped", 9700)] and story.session() == before
    story.read(line("prompt", 9699.5, "next"), now=9703)  # typed at once; its Stop's hook was slow
    assert story.state == "working"


def test_lines_from_before_the_start_say_nothing():
    story = Told(record(at=1)).hear("SessionStart", 100, source="resume", late=1)
    story.read(*[line(kind, 50 + n, "old") for n, kind in enumerate(("prompt", "final", "ended", "prompt", "interrupted"))])
    assert (story.look(200).state, story.session().had_turn) == ("idle", False)


def test_a_line_without_a_time_or_from_another_clock_says_nothing():
    story = worked()
    assert story.read(line("ended", 0.0), line("ended", -5.0), line("ended", 5000.0), now=6).state == "working"
    assert story.session().told_at == 0


def test_lines_noted_twice_say_the_same():
    told = [line("prompt", 1.0, "go"), CALL, line("refused", 9, "no", ASK), line("interrupted", 9.1, MARK),
            line("prompt", 20, "again"), line("final", 22, "done"), line("ended", 22.1), line("woken", 30),
            line("said", 31, "x")]
    for end in range(1, len(told) + 1):
        once = asked().read(*told[:end]).look(0)
        twice = asked().read(*told[:end]).read(*told[:end])
        assert twice.session() == once.session(), told[end - 1]


# ---- whose turn is it --------------------------------------------------------------------------------------------------

def queued():
    """captures/queued: the second prompt is typed while it works on the first; the hook tells of it then."""
    return Told().hear("UserPromptSubmit", 1, prompt="one").hear("UserPromptSubmit", 3, prompt="two")


END = [line("final", 5.9, "done"), line("ended", 5.95)]
NEXT = line("prompt", 6.1, "two")


@pytest.mark.parametrize("stamp", [5.94, 6.05, 6.5, 7.5])
def test_a_queued_prompts_turn_is_not_ended_by_the_stop_before_it(stamp):
    """The Stop's hook may look at its clock late; its event may come before the line is read, or after."""
    before = queued().read(*END).hear("Stop", stamp).read(NEXT, now=8)
    after = queued().read(*END).read(NEXT).hear("Stop", stamp, late=0.5)
    for story in (before, after):
        assert story.look(9).state == "working"
        story.read(line("final", 12, "done too"), line("ended", 12.05)).hear("Stop", 12.04)
        assert [reason for reason, _ in story.look(30).queue] == ["stopped"] and story.queue[0][1] > 11


def test_a_prompts_event_after_its_line_is_not_taken_for_a_queued_one():
    story = Told().hear("Stop", 1).read(line("prompt", 5, "go")).hear("UserPromptSubmit", 5.2, prompt="go", late=1)
    assert story.state == "working" and not story.session().queued
    assert story.hear("Stop", 8).queue == [("stopped", 8)]


def test_a_prompts_event_after_its_whole_turn_was_told_leaves_it_ended():
    """The Stop was heard first, then the lines were read, then the prompt's event came."""
    told = [line("prompt", 5, "go"), line("final", 6, "done"), line("ended", 6.1)]
    for stop in (6.05, 6.15):
        story = Told().hear("SessionStart", 1, source="startup").hear("Stop", stop).read(*told, now=7)
        assert [reason for reason, _ in story.queue] == ["stopped"]
        story.hear("UserPromptSubmit", 5.1, prompt="go", late=3)
        assert [reason for reason, _ in story.look(60).queue] == ["stopped"], stop


def test_a_stop_and_a_prompts_event_before_the_turns_last_lines_are_read():
    """captures/subagent_deny: Stop, the prompt's line, its event, and then the rest of the lines."""
    story = Told().hear("Stop", 2).hear("Stop", 6.05).read(line("prompt", 5, "go"), now=6.2)
    story.hear("UserPromptSubmit", 5.1, prompt="go", late=1.3).read(line("final", 6, "done"), line("ended", 6.04), now=7)
    assert [reason for reason, _ in story.look(60).queue] == ["stopped"]


def test_a_sessions_start_that_comes_late_does_not_undo_a_turn_that_was_told():
    story = Told().hear("SessionStart", 1, source="startup").read(line("prompt", 5, "go"))
    assert story.hear("SessionStart", 1.02, source="startup", late=4).look(6).state == "working"
    assert story.read(line("interrupted", 7, MARK)).queue == [("interrupted", 7)]


@pytest.mark.parametrize("prompt", [0.9, 1.5, 3.0])
def test_a_first_turn_that_only_the_transcript_tells_of(prompt):
    """Its line may be from just before SessionStart's hook (a plan accepted with cleared context), or from just after."""
    def story():
        return Told().hear("SessionStart", 1, source="clear").read(line("prompt", prompt, "go"), now=3.5)
    assert story().read(line("final", 5, "done"), line("ended", 5.1)).queue == [("stopped", 5.1)]
    assert story().read(line("call", 5, tool=ASK, open=("Bash",), fresh=True)).state == "working"


def test_a_mark_that_a_fork_makes_up_is_no_turn():
    story = Told(record(at=2)).hear("SessionStart", 1, source="resume").read(line("interrupted", 3, MARK))
    assert story.look(9).state == "idle"


# ---- with a record -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("told, reason", [("interrupted", "interrupted"), ("refused", "interrupted"), ("ended", "stopped"),
                                          ("final", "stopped"), ("failed", "error"), ("parked", "stopped")])
def test_the_record_says_that_it_waits_and_the_transcript_why(told, reason):
    """Without any hook, or with the prompt's only."""
    story = Told(record(status="busy", at=1)).hear("UserPromptSubmit", 1, prompt="go")
    story.read(line(told, 8.9, "x")).see(record(at=9)).look(9.01)
    (found, since), = story.queue
    assert found == reason and 8.9 <= since <= 9
    story = Told(record(status="busy", at=1))
    story.board = tb.take_stranger(story.board, record(status="busy", at=1), tb.Process(10, "1", "/dev/pts/10"), "")
    story.look(2).read(line("prompt", 3, "go"), line(told, 8.9, "x")).see(record(at=9)).look(9.01)
    (found, since), = story.queue
    assert found == reason and 8.9 <= since <= 9


def test_without_a_stop_a_turn_that_only_the_transcript_began_has_stopped():
    story = Told(record(status="busy", at=5)).hear("SessionStart", 1, source="startup")
    story.read(line("prompt", 5, "go")).see(record(at=9)).look(9.5)
    assert [reason for reason, _ in story.queue] == ["stopped"]  # its last lines may be on their way
    assert [reason for reason, _ in story.read(line("interrupted", 8.99, MARK), now=10).queue] == ["interrupted"]


def test_a_stale_busy_record_is_outvoted_by_stop_and_the_turns_end():
    story = worked(record(status="busy", at=1.1)).hear("Stop", 6)
    assert story.look(8).state == "working"  # the record stands against the hook alone
    assert story.read(line("ended", 6.01), now=8.2).queue == [("stopped", 6)]
    assert story.see(record(status="busy", at=9)).look(9.1).state == "working"  # a newer one does not lose


def test_a_stop_with_subagents_running_does_not_outvote_a_busy_record():
    running = [{"id": "a1", "type": "subagent", "status": "running"}]
    story = worked(record(status="busy", at=1.1)).hear("Stop", 6, background_tasks=running)
    assert story.read(line("ended", 6.01), now=8).state == "working"


def test_a_record_that_left_waiting_ends_a_dialog_before_any_line_is_there():
    story = asked(record(status="waiting", at=5.1, waiting_for="permission prompt")).look(7)
    assert story.queue == [("permission", 5)]
    assert story.see(record(status="busy", at=8)).look(8.01).state == "working"
    assert story.read(line("result", 9, "ok", ASK)).state == "working"


# ---- subagents ---------------------------------------------------------------------------------------------------------

RUNNING = [{"id": "a1", "type": "subagent", "status": "running"}]


def test_a_parked_turn_works_until_its_subagents_are_silent_for_long():
    for story, at in ((worked().hear("Stop", 6, background_tasks=RUNNING), 6), (worked().read(line("parked", 7)), 7)):
        assert story.look(at + tb.PARKED - 1).state == "working"
        assert story.look(at + tb.PARKED).queue == [("stopped", at)]


def test_a_compaction_after_a_parked_turn_keeps_the_wait_with_its_snooze():
    story = worked(record(status="busy", at=1.1)).hear("Stop", 9, background_tasks=RUNNING)
    story.see(record(status="idle", at=20)).look(21)
    story.board = tb.put_off(story.board, "s1", snoozed_until=5000)
    story.see(record(status="busy", at=60)).look(60.1)
    assert story.queue == []
    wait = story.see(record(status="idle", at=70)).look(71).session().wait
    assert (wait.since, wait.snoozed_until) == (20, 5000)


def test_each_line_of_a_subagent_keeps_a_parked_turn_at_work():
    for story, at in ((worked().hear("Stop", 6, background_tasks=RUNNING), 6), (worked().read(line("parked", 6)), 6)):
        story.read(line("said", 500, "on", agent_id="a1"))
        assert story.session().agents_at == 500 and story.look(500 + tb.PARKED - 1).state == "working"
        assert story.look(500 + tb.PARKED).queue == [("stopped", at)]


def test_a_subagents_line_says_nothing_of_the_main_thread():
    story = worked().hear("Stop", 6)
    for kind in ("prompt", "said", "call", "result", "final", "interrupted", "failed"):
        story.read(line(kind, 10, "x", agent_id="a1"))
        assert story.queue == [("stopped", 6)], kind


def test_a_machines_prompt_wakes_a_parked_turn_and_the_next_end_counts():
    story = worked().hear("Stop", 6, background_tasks=RUNNING).read(line("woken", 60, "<task-notification>"))
    assert story.state == "working" and story.session().prompt == "go"
    assert story.read(line("final", 62, "done"), line("ended", 62.1)).queue == [("stopped", 62.1)]
    assert story.hear("Stop", 62.12).look(100).queue == [("stopped", 62.1)]


# ---- what looked at its clock late ---------------------------------------------------------------------------------------

def finished(*records):
    """A turn that began at 5 and ended at 6."""
    return Told(*records).hear("Stop", 6, prompt_id="p1")


@pytest.mark.parametrize("prompt_id", ["p1", None])
def test_a_prompt_that_is_stamped_after_its_turns_end_does_not_hide_it(prompt_id):
    """Its hook's process was slow to start. The record turned idle and stays so: it is believed again, a second later."""
    story = Told(record(status="busy", at=5.1)).look(5.2).hear("Stop", 6, prompt_id="p1")
    story.see(record(status="idle", at=6.05)).look(6.1).hear("UserPromptSubmit", 7.5, prompt="hello", prompt_id=prompt_id)
    for now in (8.6, 9.9, 60):
        assert [reason for reason, _ in story.look(now).queue] == ["stopped"], now


def test_so_it_is_without_a_record_by_the_prompts_id_or_by_its_line():
    story = finished().hear("UserPromptSubmit", 7.5, prompt="hello", prompt_id="p1")
    assert story.queue == [("stopped", 6)]
    story = Told().hear("SessionStart", 1).read(line("prompt", 5, "hello"), line("ended", 5.9)).hear("Stop", 6)
    assert [reason for reason, _ in story.hear("UserPromptSubmit", 7.5, prompt="hello").queue] == ["stopped"]
    assert finished().hear("UserPromptSubmit", 7.5, prompt="hello", prompt_id="p2").queue == []


def test_a_late_prompt_ends_no_dialog():
    story = Told(record(status="busy", at=5.1)).look(5.2).hear("PermissionRequest", 5.5, **ASK)
    story.see(record(status="waiting", at=5.5, waiting_for="permission prompt")).look(5.6)
    assert [reason for reason, _ in story.hear("UserPromptSubmit", 7.9, prompt="go").look(9).queue] == ["permission"]
    story = Told().hear("PermissionRequest", 5.5, prompt_id="p1", **ASK).hear("UserPromptSubmit", 7.9, prompt_id="p1")
    assert story.queue == [("permission", 5.5)]


def test_a_prompt_that_is_typed_while_it_works_has_the_running_turns_id():
    """captures/queued; the id is known from a dialog that was answered."""
    story = Told().hear("UserPromptSubmit", 1, prompt="go", prompt_id="p1").hear("PermissionRequest", 2, prompt_id="p1", **ASK)
    story.read(line("result", 3, "ok", ASK)).hear("UserPromptSubmit", 4, prompt="and then", prompt_id="p1")
    assert story.state == "working" and story.session().queued


@pytest.mark.parametrize("source", ["startup", "clear"])
def test_a_sessions_start_that_looked_at_its_clock_late_undoes_nothing(source):
    assert asked().hear("SessionStart", 8, source=source).queue == [("permission", 5)]
    assert finished().hear("SessionStart", 8, source=source).queue == [("stopped", 6)]
    assert finished().hear("SessionStart", 8, source="resume").queue == []


# ---- a session that is open twice ----------------------------------------------------------------------------------------

def test_the_end_of_one_of_two_processes_is_not_the_sessions_end():
    story = Told(pids=(10, 11)).hear("Stop", 5).hear("SessionEnd", 9, pid=11, pane="%1")
    assert story.queue == [("stopped", 5)]
    story.hear("UserPromptSubmit", 12, pid=11, pane="%1", prompt="x").hear("PermissionRequest", 13, pid=11, pane="%1", **ASK)
    assert story.hear("SessionEnd", 15, pid=10).queue == [("permission", 13)] and story.session().pane.pane_id == "%1"


def test_a_dead_session_that_is_heard_of_again_is_where_it_is_heard_of():
    """Resumed in another pane, and of its start and prompt nobody told."""
    story = Told(pids=(10, 11)).hear("Stop", 5).see(dead=[10], pids=(11,)).look(6)
    assert story.state == "gone"
    story.hear("Stop", 9, pid=11, pane="%1")
    assert story.queue == [("stopped", 9)] and story.session().process.pid == 11 and story.session().pane.pane_id == "%1"


def test_what_claude_p_writes_into_an_open_sessions_transcript_says_nothing_of_the_pane():
    entry = {"type": "user", "sessionId": "s1", "timestamp": "2027-01-15T08:00:00Z", "message": {"content": "x"}}
    data = [json.dumps({**entry, "entrypoint": where}).encode() for where in ("sdk-cli", "sdk-ts", "cli")]
    assert len(tb.parse_transcript(data, "s1", {})) == 1 and len(tb.parse_transcript(data, "s1", {}, headless=True)) == 3


def test_an_ended_session_is_not_brought_back_by_what_was_stamped_late():
    """/clear: the Stop of the session before."""
    story = Told().hear("Stop", 5).hear("SessionEnd", 9, reason="clear").hear("SessionStart", 9.1, session_id="s2", source="clear")
    assert story.hear("Stop", 9.5).queue == [] and story.session("s2").state == "idle" and story.state == "gone"


# ---- the clock, and what is found by a record ----------------------------------------------------------------------------

@pytest.mark.parametrize("hooked", [True, False])
def test_a_clock_that_was_set_back_under_an_open_dialog(hooked):
    story = Told(record(status="busy", at=8999)).look(9000)
    for now in (9000, 9001):
        for r in tb.strangers(story.board, story.world.records, now):
            story.board = tb.take_stranger(story.board, r, story.world.processes[10], "")
    story.look(9001)
    if hooked:
        story.hear("UserPromptSubmit", 9001, prompt="go").hear("PermissionRequest", 9010, **ASK)
    story.see(record(status="waiting", at=9010, waiting_for="permission prompt")).look(9011)
    story.read(line("call", 9009.9, tool=ASK, open=("Bash",), fresh=True))
    assert [reason for reason, _ in story.queue] == ["permission"]
    story.now = 100
    for now in (100, 101, 105):
        assert [reason for reason, _ in story.look(now).queue] == ["permission"], now
    assert story.session().wait.since <= 105
    story.see(record(status="busy", at=110)).look(110.1)
    assert story.queue == []


def test_a_menu_that_is_open_when_a_session_is_found_is_no_turn():
    story = Told(record(status="waiting", at=50, waiting_for="dialog open")).look(100)
    for r in tb.strangers(story.board, story.world.records, 101):
        story.board = tb.take_stranger(story.board, r, story.world.processes[10], "")
    assert story.look(101).queue == []
    assert story.see(record(status="idle", at=110)).look(111).queue == []


def test_of_several_open_calls_the_first_one_asks():
    calls = {"1": ("Bash", {"command": "touch x"}, "m"), "2": ("Bash", {"command": "touch y"}, "m")}
    assert tb.context_of([], calls).tool_input == {"command": "touch x"}


def test_an_elicitation_is_not_ended_by_the_result_of_another_call():
    story = Told().hear("UserPromptSubmit", 1, prompt="go").hear("Elicitation", 5, message="Which account?")
    assert story.read(line("result", 7, "ok", OTHER, open=("mcp__x__y",))).queue == [("question", 5)]
    assert story.read(line("result", 9, "ok", {"tool_name": "mcp__x__y"})).queue == []


@pytest.mark.parametrize("prompt", ["x" * 199 + " " + "y" * 50, "x" * 260, " hello "])
def test_a_prompt_is_known_again_whatever_is_where_it_is_cut(prompt):
    story = Told().hear("SessionStart", 1).read(line("prompt", 5, prompt.strip()), line("ended", 5.9)).hear("Stop", 6)
    assert [reason for reason, _ in story.hear("UserPromptSubmit", 7.5, prompt=prompt).queue] == ["stopped"]


def test_a_late_prompts_text_does_not_stand_for_the_newer_one():
    story = Told().hear("UserPromptSubmit", 100, prompt="new").hear("UserPromptSubmit", 90, prompt="old")
    assert story.session().prompt == "new"


# ---- the history -----------------------------------------------------------------------------------------------------------

def told_changes(story, *boards):
    return [(c.at, c.state or "-", c.reason, c.witness, c.fact, c.against)
            for old, new in zip((tb.Board(), *boards), boards) for c in tb.changes(old, new, story.now)]


def test_the_history_tells_who_was_believed_against_whom():
    story, boards = Told(), []
    for step in (lambda: story.hear("SessionStart", 0.5, source="startup"),
                 lambda: story.hear("UserPromptSubmit", 1, prompt="go"),
                 lambda: story.see(record(status="busy", at=1.1)).look(1.2),
                 lambda: story.hear("PermissionRequest", 5, **ASK),
                 lambda: story.see(record(status="busy", at=9)).look(9.1),
                 lambda: story.read(line("result", 12, "ok", ASK, decision="allowed by the person"))):
        step()
        boards.append(story.board)
    assert told_changes(story, *boards) == [
        (0.5, "idle", "", "hook", "SessionStart (startup)", ""), (1, "working", "", "hook", "UserPromptSubmit", ""),
        (5, "stuck", "permission", "hook", "PermissionRequest", ""), (9, "working", "", "record", "busy", "PermissionRequest"),
        (12, "-", "", "transcript", "Bash allowed by the person", "")]


def test_a_wait_that_comes_back_is_told_of_when_it_came_back():
    story = Told(record(status="busy", at=1.1)).hear("UserPromptSubmit", 1, prompt="go").hear("Stop", 5)
    before = story.see(record(status="busy", at=20)).look(20.1).board  # /compact
    story.see(record(status="idle", at=23)).look(23.1)
    assert story.queue == [("stopped", 5)]
    assert [c.at for c in tb.changes(before, story.board, 24)] == [23]


# ---- the daemon reads again ----------------------------------------------------------------------------------------------

class Here:
    """A daemon in this process, with a clock of ours and a transcript that its session's hooks tell of."""

    def __init__(self, folder, told="projects/w/s1.jsonl", config=True):
        self.now, self.config, self.path = 100.0, folder / "config", folder / "config" / "projects" / "w" / "s1.jsonl"
        (self.path.parent / "s1" / "subagents").mkdir(parents=True)
        (folder / "state").mkdir(mode=0o700)
        self.told, self.said = str(self.config / told), str(self.config) if config else ""
        self.daemon = tb.Daemon(str(folder / "state"), {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(self.config),
                                                        "TMUX_TMPDIR": str(folder)}, lambda: self.now)

    def hear(self, name, at, **more):
        self.daemon.hear([event(name, at=at, pid=0, transcript_path=self.told, **more)._replace(config=self.said)])
        return self

    def write(self, kind, content, at, agent_id="", **more):
        entry = {"type": kind, "message": {"content": content, "id": "m%s" % at}, "sessionId": "s1", **more,
                 "timestamp": "1970-01-01T00:01:%06.3fZ" % (at - 60)}
        if agent_id:
            entry = {**entry, "isSidechain": True, "agentId": agent_id}
        path = self.path.parent / "s1" / "subagents" / ("agent-%s.jsonl" % agent_id) if agent_id else self.path
        with path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
        return self

    def call_and_result(self, at, **more):
        self.write("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": ASK["tool_input"]}], at, **more)
        return self.write("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}], at + 4, **more)

    def tick(self):
        self.daemon.tick()
        return self

    def queue(self):
        return [(s.wait.reason, s.wait.since) for s in tb.waiting(self.daemon.board, self.now)]


@pytest.fixture
def here(tmp_path):
    made = []

    def make(**more):
        made.append(Here(tmp_path, **more))
        return made[-1]
    yield make
    for one in made:
        one.daemon.stop()


def test_a_hook_that_is_heard_while_a_stranger_is_taken_in_is_not_lost(here, monkeypatch):
    """The transcripts are read between the look at the records and the board's change."""
    one = here()
    one.daemon.records.look = lambda configs: [record(status="busy", at=90, foreign=True)]
    look = one.daemon.transcripts.look

    def meanwhile(wanted, configs):
        one.hear("PermissionRequest", 100, **ASK)
        return look(wanted, configs)
    one.tick()
    one.now = 100.2
    monkeypatch.setattr(one.daemon.transcripts, "look", meanwhile)
    assert one.tick().queue() == [("permission", 100)]


def test_a_full_disk_does_not_keep_anybody_from_going_there(here, monkeypatch):
    one = here().hear("Stop", 100)

    def full(*_):
        raise tb.Unsaved("the disk is full")
    monkeypatch.setattr(one.daemon.store, "save", full)
    with pytest.raises(tb.Unsaved):
        one.hear("PermissionRequest", 100.5, **ASK)  # is not acknowledged
    one.tick()
    one.daemon.look_at_tmux([])
    assert one.queue() == [("permission", 100.5)] and one.daemon.queue(False)["trouble"] == "the disk is full"


def test_one_that_has_no_transcript_is_not_looked_for_at_every_tick(here, monkeypatch):
    one, looked = here(told="gone.jsonl").hear("Stop", 100), []
    monkeypatch.setattr(tb, "find_transcript", lambda *_: looked.append(1) or "")
    for _ in range(20):
        one.tick()
    assert len(looked) == 1


def test_a_dialog_that_is_told_of_after_its_result_was_read_is_over(here):
    it = here().hear("UserPromptSubmit", 80, prompt="go").call_and_result(85).tick()
    assert it.daemon.board.sessions["s1"].tells == "result"
    assert it.hear("PermissionRequest", 86, **ASK).tick().queue() == []


def test_so_it_is_where_the_transcript_had_to_be_looked_for(here):
    it = here(told="projects/gone/s1.jsonl").hear("UserPromptSubmit", 80, prompt="go").call_and_result(85).tick()
    assert it.daemon.board.sessions["s1"].tells == "result"
    assert it.hear("PermissionRequest", 86, **ASK).tick().queue() == []


def test_a_session_that_names_no_config_folder_has_the_usual_one(here):
    """Most people have no CLAUDE_CONFIG_DIR: a transcript that moved to another project's folder is found all the same."""
    it = here(told="projects/gone/s1.jsonl", config=False).hear("UserPromptSubmit", 80, prompt="go")
    it.call_and_result(85).tick()
    assert it.daemon.board.sessions["s1"].tells == "result"


def test_so_it_is_with_a_subagents(here):
    it = here().hear("UserPromptSubmit", 70, prompt="go").hear("Stop", 80, background_tasks=RUNNING)
    it.call_and_result(85, agent_id="a1").tick()
    assert it.daemon.board.sessions["s1"].agents_at == 89
    assert it.hear("PermissionRequest", 86, agent_id="a1", **ASK).tick().queue() == []


def test_a_dialog_whose_result_is_not_there_stays(here):
    it = here().hear("UserPromptSubmit", 80, prompt="go")
    it.write("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": ASK["tool_input"]}], 85).tick()
    assert it.hear("PermissionRequest", 86, **ASK).tick().tick().queue() == [("permission", 86)]


# ---- the recordings, out of order ----------------------------------------------------------------------------------------
# Hook events are lost, doubled, late and so in another order; a record's changes are missed, but for the last; lines come
# late and in batches; looks are at any time. A recording is cut at one of its checks, and what was lost is lost for good.
# Some seconds later the queue must be what the person saw then.

LOST_WITHOUT_RECORDS = ("Stop", "StopFailure", "UserPromptSubmit")  # a line of the transcript tells the same
KEPT = {  # (recording, time of a check): the events without which nobody can know
    ("retry", 10.692): "UserPromptSubmit",  # Esc while it tries again leaves no line: it could have stopped
    ("2.1.150-turn", 15.226): "records",  # no hook at the end, and none told its pid: its record must be seen
    ("resume_inside", 14.088): "records",  # that the process had another session in between must be seen
    ("branch", 6.959): "SessionStart",  # of a record's new session within BEGUN nobody knows when the process took it
}
SEEDS = 8  # for each check of each recording
DAY = [(folder, row["t"]) for folder in CAPTURES for row in rows(folder / "expect.jsonl")]


class Chaos(Recording):
    """A recording up to one of its checks, of which only the end is as it was."""

    def __init__(self, folder, seed, use_records, check):
        super().__init__(folder, use_records=use_records)
        self.random, self.until = random.Random(seed), check - 0.02
        self.kept = KEPT.get((folder.name, check), "")
        self.there, self.happened, self.most_asks = {}, [], 0

    def rows(self, name):
        return [row for row in rows_of(self.folder / name) if row["t"] <= self.until]

    def actions(self):
        chance, todo = self.random.random, []
        lost, missed = self.random.choice((0, 0.1, 0.3, 0.6, 1)), self.random.choice((0, 0.3, 0.8))
        missed = 0 if self.kept == "records" else missed
        for row in self.rows("events.jsonl"):
            name = row["payload"]["hook_event_name"]
            may_go = name != self.kept and (self.use_records or name in LOST_WITHOUT_RECORDS)
            if name in tb.HOOKED and not (may_go and chance() < lost):
                todo += [(row["t"] + self.delay(), self.on_event, {**row, "t": row["t"] + n * 0.02})
                         for n in range(1 + (chance() < 0.2))]
        records = self.rows("records.jsonl")
        for n, row in enumerate(records):
            later = [other["record"] or {} for other in records[n + 1:] if other["pid"] == row["pid"]]
            if not later or chance() >= missed:
                todo.append((row["t"], self.on_record, row))
        todo += [(row["t"] + self.delay(), self.on_growth, row) for row in self.rows("growth.jsonl")]
        todo += [(step["t"], self.on_kill, step) for step in self.steps if step["action"] in KILLS
                 and step["t"] <= self.until]
        t, end, pace = 0.0, max([self.until] + [t for t, *_ in todo]), self.random.choice((0.2, 0.5, 1.0))
        while t < end + 8:
            t += self.random.uniform(0.05, 2 * pace) if t < end else 0.5
            todo.append((t, self.on_look, None))
        return sorted(todo, key=lambda one: one[0])

    def delay(self):
        return self.random.choice((0.0, 0.05, self.random.random() * 0.5, self.random.random() * 2))

    def play(self):
        """The queue at the end."""
        for t, action, row in self.actions():
            self.now = self.t0 + t
            action(row)
            if row:
                what = row["payload"]["hook_event_name"] if "payload" in row else row.get("action", row.get("lines"))
                what = (row["record"] or {}).get("status", "gone") if "record" in row else what
                self.happened.append("%7.3f %-9s %s, of %.3f" % (t, action.__name__[3:], what, row["t"]))
            self.most_asks = max([self.most_asks] + [len(s.asks) for s in self.board.sessions.values()])
        self.fill_in()
        return sorted(s.wait.reason for s in tb.waiting(self.board, self.now))

    def story(self):
        """What happened, for a failure's message."""
        return "\n".join(self.happened + [str(s._replace(record=None, before=None)) for s in self.board.sessions.values()])

    def event_of(self, row):
        """As Recording has it, but made at its own time."""
        late, self.late = self.late, self.now - self.t0 - row["t"]
        try:
            super().on_event(row)
        finally:
            self.late = late

    def on_event(self, row):
        self.event_of(row)
        s = self.board.sessions[row["payload"]["session_id"]]
        if s.asks and row["t"] + self.t0 < s.told_at:  # as Daemon.hear: the transcript is read again
            self.done = {file: n for file, n in self.done.items() if thread_of(file)[0] != s.session_id}

    def on_growth(self, row):
        self.there[row["file"]] = max(row["lines"], self.there.get(row["file"], 0))

    def on_look(self, _):
        """As Daemon.tick: the transcripts of the sessions and of the subagents that ask or are waited for are read on."""
        wanted = {(s.session_id, agent_id) for s in self.board.sessions.values() if not s.ended_at and s.entrypoint == "cli"
                  for agent_id in {"", *(a.agent_id for a in s.asks), *(s.agents if s.end and s.end.parked else ())}}
        self.done = {file: n for file, n in self.done.items() if thread_of(file) in wanted}
        for file, n in self.there.items():
            session_id, agent_id = thread_of(file)
            if (session_id, agent_id) in wanted and n > self.done.get(file, 0):
                calls = self.calls[file] = self.calls[file] if file in self.done else {}
                lines = lines_of(self.folder / "transcripts" / file)[self.done.get(file, 0):n]
                self.done[file] = n
                self.board = tb.take_lines(self.board, session_id, tb.parse_transcript(lines, session_id, calls, agent_id),
                                           self.now)
        super().on_look(None)

    def fill_in(self):
        """As Daemon.fill_in."""
        for file in self.done:
            s = self.board.sessions[thread_of(file)[0]]
            if s.wait and not s.wait.text and not thread_of(file)[1]:
                self.board.sessions[s.session_id] = tb.tell(s, tb.context_of([], self.calls[file]))


rows_of = functools.lru_cache(maxsize=None)(rows)
lines_of = functools.lru_cache(maxsize=None)(lambda path: path.read_bytes().split(b"\n"))


@pytest.fixture(scope="module", autouse=True)
def entries_once():
    """The same lines are read thousands of times."""
    entries_of, tb.entries_of = tb.entries_of, functools.lru_cache(maxsize=None)(tb.entries_of)
    yield
    tb.entries_of = entries_of


@pytest.mark.parametrize("use_records", [True, False], ids=["records", "no-records"])
@pytest.mark.parametrize("folder, check", DAY, ids=lambda value: getattr(value, "name", value))
def test_recording_out_of_order(folder, check, use_records):
    row, = [row for row in rows_of(folder / "expect.jsonl") if row["t"] == check]
    if not use_records and row.get("needs") == "record":
        pytest.skip("only a record tells")
    for seed in range(SEEDS):
        chaos = Chaos(folder, "%s %s %s" % (folder.name, check, seed), use_records, check)
        queue = chaos.play()
        why = "Chaos(CAPTURES / %r, '%s %s %s', %s, %s), %s:\n%s" % (
            folder.name, folder.name, check, seed, use_records, check, row["why"], chaos.story())
        assert queue == ([row["stuck"]] if row["stuck"] else []), why
        assert chaos.most_asks <= 4 and len(chaos.board.sessions) <= 3, why
        assert all(len(json.dumps(tb.plain(s))) < 20_000 for s in chaos.board.sessions.values()), why

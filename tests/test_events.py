"""Section 2: payloads, session records and transcript lines, as they came, become values; what is odd does no harm."""
import json

import pytest

from support import tb

NOW = 1_800_000_000.0
UUID = "62e46ee1-5f51-49f1-8655-7c7156d2a9a6"

# JSON texts, not values: some of them no JSON writer makes
ODD = ["null", "true", "false", "0", "-1", "1.5", "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 30,
       "9" * 5000, "1" + "0" * 400 + ".5", '""', '" "', '"\\ud83d"', '"\\u0000"', '"\\u001b[31m"', "[]", "[null]",
       '["x"]', "{}",
       '{"a": {"b": [1e400]}}', '{"\\ud83d": "\\ud83d"}', "[" * 30 + "]" * 30]


def strict(value):
    """A value as strict JSON text that every reader takes: no NaN, no lone surrogate."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    return text


def parse(headers=(), now=NOW, body=None, **payload):
    payload = {"session_id": UUID, "hook_event_name": "Stop", **payload}
    return tb.parse_event(json.dumps(payload).encode() if body is None else body, dict(headers), now)


# -- hook events -------------------------------------------------------------------------------------------------------

def test_an_event_with_all_it_can_have():
    e = parse({"x-event-id": "17-42", "x-event-time": "1799999999.5", "x-tmux": "/tmp/tmux-0/default,77,3",
               "x-tmux-pane": "%12", "x-claude-pid": "4242", "x-claude-entrypoint": "cli", "x-claude-config": "/c",
               "x-claude-project-dir": "/home/dev/a"},
              hook_event_name="PermissionRequest", agent_id="a1", agent_type="Explore", cwd="/home/dev/a",
              tool_name="Bash", tool_input={"command": "ls"}, tool_response="dropped")
    assert e == tb.Event(
        "17-42", 1799999999.5, "PermissionRequest", UUID,
        {"tool_name": "Bash", "tool_input": {"command": "ls"}, "agent_type": "Explore", "cwd": "/home/dev/a"},
        "a1", tb.Pane("/tmp/tmux-0/default", 77, "%12"), tb.Process(4242, ""), "cli", "/c", "/home/dev/a", False)


def test_an_event_with_the_least_it_can_have():
    assert parse() == tb.Event("", NOW, "Stop", UUID, {})


def test_names_are_short_and_mended():
    e = parse(hook_event_name="N" * 200, agent_id="a" * 300)
    assert (e.name, e.agent_id) == ("N" * 100, "a" * 200)
    assert parse(hook_event_name="\ud83d", agent_id="\ud83d")[2:] == tb.Event("", NOW, "\ufffd", UUID, {}, "\ufffd")[2:]


@pytest.mark.parametrize("body, why", [
    (b"", "not JSON"), (b"{", "not JSON"), (b"\xff\xfe", "not JSON"), (b"[" * 100_000, "nested too deep"),
    (b'{"a":' * 100_000, "nested too deep"), (b"null", "not a JSON object"), (b"[]", "not a JSON object"),
    (b'"x"', "not a JSON object"), (b"5", "not a JSON object"), (b"NaN", "not a JSON object"), (b"{}", "session_id"),
    (b'{"session_id": "a"}', "hook_event_name"), (b'{"session_id": "a", "hook_event_name": ""}', "hook_event_name"),
    (b'{"session_id": "a", "hook_event_name": ["Stop"]}', "hook_event_name"),
    (b'{"session_id": "a", "hook_event_name": null}', "hook_event_name"),
], ids=lambda value: str(value[:24]))
def test_what_is_no_event_is_refused_with_the_reason(body, why):
    with pytest.raises(tb.Fault, match=why) as refused:
        parse(body=body)
    assert refused.value.code == 1 and len(str(refused.value)) < 200


@pytest.mark.parametrize("session_id", [
    "", None, 5, True, ["a"], {"a": 1}, "../../etc/passwd", "a/b", "/", ".", "..", "a.jsonl", "a b", "a\n", "a\0", "~",
    "%5", "*", "a" * 129, "é", "\u0661", "a;b", "$(x)", "\ud83d"])
def test_a_session_id_that_could_be_a_path_or_a_pattern_is_refused(session_id):
    with pytest.raises(tb.Fault, match="session_id"):
        parse(session_id=session_id)
    assert tb.parse_record(json.dumps({"pid": 7, "sessionId": session_id, "status": "idle"})) is None


@pytest.mark.parametrize("session_id", [UUID, "a", "a" * 128, "S_1-x"])
def test_a_session_id_may_have_these_forms(session_id):
    assert parse(session_id=session_id).session_id == session_id


@pytest.mark.parametrize("field", sorted({*tb.KEPT, "agent_id", "permission_suggestions", "stop_hook_active",
                                          "effort"}))
@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PermissionRequest", "Elicitation",
                                  "Notification", "Stop", "StopFailure", "PostToolUse"])
def test_no_value_of_any_field_stops_an_event(field, name):
    """Down to the last screen: the event is taken, its session judged, and what programs and people read is fine."""
    board = tb.Board()
    for n, odd in enumerate(ODD):
        e = parse({"x-claude-entrypoint": "cli"}, body=b'{"session_id": "s%d", "hook_event_name": "%s", "%s": %s}' % (
            n, name.encode(), field.encode(), odd.encode()))
        assert (e.name, e.session_id) == (name, "s%d" % n) and isinstance(e.agent_id, str)
        strict(e.data)
        board = tb.take_event(board, e)
    board = tb.observe(board, tb.World(), NOW + 1)
    answer = tb.listing(board, {}, NOW + 1, True)
    stuck = len(ODD) if name in ("PermissionRequest", "Elicitation", "Stop", "StopFailure") else 0
    assert (len(answer["items"]), len(answer["sessions"])) == (stuck, len(ODD)) and strict(answer)
    tb.queue_text(answer, 80, True).encode("utf-8")
    for row in answer["items"]:
        s = board.sessions[row["session_id"]]
        tb.show_text({"now": NOW, "session": row, "tool_name": s.wait.tool_name, "lines": (),
                      "tool_input": s.wait.tool_input, "last_message": s.last_message}, None, False).encode("utf-8")


@pytest.mark.parametrize("told, at", [
    (None, NOW), ("", NOW), ("1799999000.25", 1799999000.25), ("1799999000", 1799999000.0), (repr(NOW), NOW),
    (repr(NOW + 0.001), NOW), ("9e99", NOW), ("inf", NOW), ("-inf", NOW), ("nan", NOW), ("-nan", NOW), ("-5", NOW),
    ("0", NOW), ("-0", NOW), ("1e400", NOW), ("yesterday", NOW), ("2026-11-30", NOW), ("0x10", NOW), ("1,5", NOW),
    ("9" * 5000, NOW)])
def test_an_event_was_made_when_it_says_but_not_after_now_nor_at_no_time(told, at):
    assert parse({} if told is None else {"x-event-time": told}).at == at


@pytest.mark.parametrize("tmux, pane_id, claim", [
    ("/tmp/tmux-0/default,77,3", "%0", tb.Pane("/tmp/tmux-0/default", 77, "%0")),
    ("/tmp/a,b,c,77,3", "%0", tb.Pane("/tmp/a,b,c", 77, "%0")),
    ("/tmp/a b'\"$(x)é,77,3", "%20", tb.Pane("/tmp/a b'\"$(x)é", 77, "%20")),
    ("/tmp/\udcff,77,3", "%0", tb.Pane("/tmp/\udcff", 77, "%0")),  # a path that is not UTF-8
    ("/,7,", "%0", tb.Pane("/", 7, "%0")),
    ("", "%0", None), ("/tmp/x", "%0", None), ("/tmp/x,77", "%0", None), ("/tmp/a,b", "%0", None),
    (",77,3", "%0", None), ("tmp/x,77,3", "%0", None), ("/tmp/x,,3", "%0", None), ("/tmp/x,0,3", "%0", None),
    ("/tmp/x,-1,3", "%0", None), ("/tmp/x,7.5,3", "%0", None), ("/tmp/x,\u0667,3", "%0", None),
    ("/tmp/x,1234567890,3", "%0", None), ("/tmp/x\0,77,3", "%0", None), ("/tmp/x\n,77,3", "%0", None),
    ("/tmp/x\x1b,77,3", "%0", None), ("/tmp/x,77,3", "", None), ("/tmp/x,77,3", "%", None), ("/tmp/x,77,3", "5", None),
    ("/tmp/x,77,3", "@5", None), ("/tmp/x,77,3", "%5\n", None), ("/tmp/x,77,3", "%5;kill-server", None),
    ("/tmp/x,77,3", "%\u0665", None), ("/tmp/x,77,3", "%-1", None), ("/tmp/x,77,3", "%1234567890", None),
    ("/tmp/x,77,3", "s:1.%5", None)])
def test_a_claim_is_a_socket_a_server_and_a_pane_or_nothing(tmux, pane_id, claim):
    assert parse({"x-tmux": tmux, "x-tmux-pane": pane_id}).claim == claim


@pytest.mark.parametrize("told, pid", [
    ("1", 1), ("4242", 4242), ("999999999", 999999999), ("", None), ("0", None), ("-1", None), ("+1", None),
    ("007", None), ("1.0", None), ("1e3", None), ("12 ", None), ("12\n", None), ("\u0664", None), ("9" * 5000, None),
    ("garbage", None)])
def test_a_process_is_a_plain_number_or_nothing(told, pid):
    assert parse({"x-claude-pid": told}).process == (tb.Process(pid, "") if pid else None)


@pytest.mark.parametrize("told, kept", [
    ("1799999999.5-42", True), ("~" * 200, True), ("", False), ("a b", False), ("a\n", False), ("é", False),
    ("\udcff", False), ("x" * 201, False)])
def test_an_event_id_is_kept_whole_or_not_at_all(told, kept):
    """Shortened or mended, two events could get the same id, and the second be taken for a repetition."""
    assert parse({"x-event-id": told}).event_id == (told if kept else "")


@pytest.mark.parametrize("headers, job", [
    ({}, False), ({"x-claude-job-dir": ""}, False), ({"x-claude-job-dir": "/home/dev/.claude/jobs/1"}, True)])
def test_a_background_job(headers, job):
    assert parse(headers).job is job


def test_a_folder_whose_name_is_not_utf8_stays_usable_for_files_and_is_mended_for_display():
    e = parse({"x-claude-config": "/c\udcff", "x-claude-project-dir": "/p\udcff"})
    assert (e.config, e.project_dir) == ("/c\udcff", "/p\ufffd")


def test_invalid_utf8_in_the_payload_is_replaced():
    e = parse(body=b'{"session_id": "s1", "hook_event_name": "Stop", "last_assistant_message": "a\xff\xc3"}')
    assert e.data == {"last_assistant_message": "a\ufffd\ufffd"}


# -- what is kept of a value -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("value, kept", [
    (None, None), (True, True), (5, 5), (1.5, 1.5), ("x", "x"), ([1, [2]], [1, [2]]),
    ({"a": {"b": None}}, {"a": {"b": None}}), ("\ud83d\ude00x\ud83d", "\ufffd\ufffdx\ufffd"), ("😀", "😀"),
    ({"\udc00": 1}, {"\ufffd": 1}), ([0] * 501, [0] * 500),
    ({n: n for n in range(501)}, {str(n): n for n in range(500)}),
    ({"k" * 501: 1}, {"k" * 500: 1})], ids=lambda value: repr(value)[:20])
def test_clip(value, kept):
    assert tb.clip(value) == kept


def test_a_text_that_is_cut_says_so():
    whole, cut = tb.clip("x" * tb.LONGEST), tb.clip("x" * tb.LONGEST + "yz")
    assert len(whole) == tb.LONGEST and cut[:tb.LONGEST] == whole and cut[tb.LONGEST:] == "\n[2 more characters]"


def test_clip_leaves_out_what_is_nested_too_deep():
    assert tb.clip([[["x", 5, True, []]]], depth=3) == [[["x", 5, True, None]]]
    assert tb.clip([[["x", {}]], {"a": {}}], depth=2) == [[None], {"a": None}]


@pytest.mark.parametrize("text, value", [
    ("NaN", None), ("Infinity", None), ("-Infinity", None), ("1e400", None), ("-1e400", None), ("1e-400", 0.0),
    ("1e299", 1e299), ("9" * 299, int("9" * 299)), ("9" * 300, None), ("9" * 5000, None), ("-" + "9" * 5000, None),
    ("-7", -7), ("[1, 2.5]", [1, 2.5]), ('{"a": NaN, "b": 1}', {"a": None, "b": 1})],
    ids=lambda value: repr(value)[:20])
def test_a_number_that_is_none_takes_nothing_else_with_it(text, value):
    assert tb.read_json(text) == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nope", "[" * 100_000, '{"a":' * 100_000, b"\xff"],
                         ids=lambda text: repr(text[:9]))
def test_whatever_is_wrong_with_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        tb.read_json(text)


@pytest.mark.parametrize("value, number", [
    (5, 5.0), (1.5, 1.5), (-2, -2.0), (10 ** 15 - 1, 1e15 - 1), (10 ** 15, 0.0), (10 ** 400, 0.0), (float("inf"), 0.0),
    (float("nan"), 0.0), (True, 0.0), ("5", 0.0), (None, 0.0), ([5], 0.0)])
def test_number_of(value, number):
    assert tb.number_of(value) == number


@pytest.mark.parametrize("prompt, machine", [
    ("<task-notification>\n<task-id>1</task-id>", True), ("  \n<system-reminder>x", True),
    ("[SYSTEM NOTIFICATION - x]", True), ("<cross-session-message from=a>", True), ("", False), ("fix it", False),
    ("what is <task-notification>?", False), ("<task", False)])
def test_machine_prompts(prompt, machine):
    assert tb.is_machine_prompt(prompt) is machine


@pytest.mark.parametrize("tasks, running", [
    (None, 0), ([], 0), ({}, 0), ({"status": "running"}, 0), ("running", 0), (5, 0), ([None, "running", 7, []], 0),
    ([{}], 0), ([{"status": None}], 0), ([{"status": ["running"]}], 0), ([{"status": "completed"}], 0),
    ([{"status": "running"}, {"status": "killed"}, {"status": "running", "type": 5}], 2)])
def test_running_tasks(tasks, running):
    assert len(tb.running_tasks(tasks)) == running


# -- session records ---------------------------------------------------------------------------------------------------

RECORD = {"pid": 812, "sessionId": UUID, "cwd": "/home/dev/a", "startedAt": 1799990000000, "procStart": "134593",
          "version": "2.1.332", "kind": "interactive", "entrypoint": "cli",
          "pidDomain": "linux:3d1219c7c4c5404aaa1f6d2a48adfda4:pid:[4026531836]", "tmux": "work:@1.%1",
          "status": "waiting", "waitingFor": "permission prompt", "statusUpdatedAt": 1799999999500,
          "updatedAt": 1799999999900, "name": "barn"}


def record(pid_domain="pid:[4026531836]", **change):
    entry = {key: value for key, value in {**RECORD, **change}.items() if value is not ...}
    return tb.parse_record(json.dumps(entry), "/c", pid_domain)


def test_a_record():
    assert record() == tb.Record(812, UUID, "waiting", "permission prompt", 1799999999.5, 1799990000.0, "134593",
                                 "/home/dev/a", "interactive", "cli", "barn", "/c", False)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '"x"', "5", "NaN", "{}", "[" * 100_000, '{"pid": 1}',
                                  '{"sessionId": "a"}'], ids=lambda text: text[:9])
def test_what_is_no_record(text):
    assert tb.parse_record(text) is None


@pytest.mark.parametrize("pid", [..., None, True, "812", 812.0, 0, -1, 1 << 31, 10 ** 400, [812], {}, float("nan")])
def test_a_record_without_a_pid_is_none(pid):
    assert record(pid=pid) is None


@pytest.mark.parametrize("status", [..., None, "", "BUSY", "running", "gremlin", 5, True, [], ["busy"], {"busy": 1},
                                    "busy\n", "\ud83d"])
def test_a_status_that_is_not_known_is_none(status):
    """It is not `busy`: that would hide a session that waits."""
    assert record(status=status).status == ""


@pytest.mark.parametrize("status", ["busy", "waiting", "idle", "shell"])
def test_a_status_that_is_known(status):
    assert record(status=status).status == status


@pytest.mark.parametrize("change, at", [
    ({"statusUpdatedAt": ...}, 1799999999.9), ({"statusUpdatedAt": None}, 1799999999.9),
    ({"statusUpdatedAt": "x"}, 1799999999.9), ({"statusUpdatedAt": True}, 1799999999.9),
    ({"statusUpdatedAt": 0}, 1799999999.9), ({"statusUpdatedAt": -5}, 1799999999.9),
    ({"statusUpdatedAt": float("inf")}, 1799999999.9), ({"statusUpdatedAt": 10 ** 400}, 1799999999.9),
    ({"statusUpdatedAt": [1]}, 1799999999.9), ({"statusUpdatedAt": 1799999999000.5}, 1799999999.0005),
    ({"statusUpdatedAt": ..., "updatedAt": ...}, 1799990000.0),
    ({"statusUpdatedAt": "a", "updatedAt": {}}, 1799990000.0),
    ({"statusUpdatedAt": ..., "updatedAt": ..., "startedAt": ...}, 0.0)])
def test_a_record_has_the_best_time_that_it_tells(change, at):
    assert record(**change).at == at


@pytest.mark.parametrize("start, kept", [
    ("134593", "134593"), ("Mon Nov 30 15:07:01 2026", "Mon Nov 30 15:07:01 2026"), (134593, "134593"), (..., ""),
    (None, ""), ("", ""), (True, ""), (1.5, ""), ([], ""), ({"a": 1}, ""), (float("nan"), "")])
def test_the_forms_of_proc_start(start, kept):
    assert record(procStart=start).proc_start == kept


@pytest.mark.parametrize("theirs, ours, foreign", [
    ("linux:3d12:pid:[4026531836]", "pid:[4026531836]", False), ("pid:[4026531836]", "pid:[4026531836]", False),
    ("linux:3d12:pid:[4026532999]", "pid:[4026531836]", True), ("linux:3d12:pid:[4026532999]", "", False),
    ("darwin:ABCD", "pid:[4026531836]", False), ("pid:[]", "pid:[4026531836]", False), ("", "pid:[4026531836]", False),
    (..., "pid:[4026531836]", False), (None, "pid:[4026531836]", False), (5, "pid:[4026531836]", False),
    (["pid:[1]"], "pid:[4026531836]", False)])
def test_a_record_from_another_pid_namespace_is_foreign(theirs, ours, foreign):
    assert record(ours, pidDomain=theirs).foreign is foreign


@pytest.mark.parametrize("change, name", [
    ({}, "barn"), ({"nameSource": "user"}, "barn"), ({"nameSource": "derived"}, ""), ({"name": None}, ""),
    ({"name": ["x"]}, ""), ({"name": "n" * 501}, "n" * 500), ({"name": "\ud83d"}, "\ufffd")], ids=repr)
def test_a_record_has_the_name_that_a_person_gave(change, name):
    assert record(**change).name == name


@pytest.mark.parametrize("entrypoint, kept", [("cli", "cli"), ("sdk-cli", "sdk-cli"), (..., "cli"), (None, "cli"),
                                              ("", "cli"), (5, "cli")])
def test_a_record_without_an_entrypoint_is_a_persons(entrypoint, kept):
    assert record(entrypoint=entrypoint).entrypoint == kept


@pytest.mark.parametrize("field", sorted(RECORD))
def test_no_value_of_any_field_of_a_record_raises(field):
    others = json.dumps({key: value for key, value in RECORD.items() if key != field})[:-1]
    for odd in ODD:
        text = '%s, "%s": %s}' % (others, field, odd)
        r = tb.parse_record(text, "/c", "pid:[1]")
        if r is None:
            assert field in ("pid", "sessionId"), odd
            continue
        assert [type(value) for value in r] == [type(value) for value in record()], odd
        strict(r._asdict())


# -- transcript lines --------------------------------------------------------------------------------------------------

def line(kind, content, at="2027-01-15T08:00:00.000Z", **more):
    return {"parentUuid": None, "isSidechain": False, "type": kind, "message": {"role": kind, "content": content},
            "timestamp": at, "sessionId": "s1", **more}


def said(text, **more):
    return line("assistant", [{"type": "text", "text": text}], **more)


def call(name, tool_input, call_id="t1", **more):
    return line("assistant", [{"type": "tool_use", "id": call_id, "name": name, "input": tool_input}], **more)


def result(content, call_id="t1", **more):
    return line("user", [{"type": "tool_result", "tool_use_id": call_id, "content": content}], **more)


def encode(entry):
    return entry if isinstance(entry, bytes) else json.dumps(entry).encode()


def lines(*entries):
    calls = {}
    return tb.context_of(tb.parse_transcript([encode(entry) for entry in entries], "s1", calls), calls)


def test_a_turn():
    context = lines(line("user", "paint the barn"), said("I will."), call("Bash", {"command": "paint barn"}),
                    result([{"type": "text", "text": "red"}], at="2027-01-15T08:00:01.500Z"),
                    said("It is **red**.", at="2027-01-15T08:00:02Z"))
    assert context == tb.Context("It is **red**.", "", {}, (
        ("you", "paint the barn"), ("claude", "I will."), ("tool", "Bash: paint barn"), ("result", "red"),
        ("claude", "It is **red**.")))


def test_a_call_without_a_result_is_what_it_asks():
    context = lines(call("Bash", {"command": "one"}, "t1"), call("Bash", {"command": "two"}, "t2"),
                    result("done", "t2"))
    assert (context.tool_name, context.tool_input) == ("Bash", {"command": "one"})


def test_a_call_that_the_next_prompt_found_unanswered_asks_nothing():
    assert lines(call("Bash", {"command": "old"}), line("user", "start again"), said("Yes?")).tool_name == ""
    assert lines(call("Bash", {"command": "old"}), line("user", "start again"),
                 call("Edit", {}, "t2")).tool_name == "Edit"


def test_a_result_with_a_persons_words_leaves_the_other_calls_open():
    context = lines(call("Bash", {"command": "one"}, "t1"), call("Bash", {"command": "two"}, "t2"), line("user", [
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, {"type": "text", "text": "but quicker"}]))
    assert context.tool_input == {"command": "two"}


def test_a_local_command_leaves_a_call_open():
    assert lines(call("Bash", {}), line("user", "<command-name>/status</command-name>")).tool_name == "Bash"


def test_a_result_that_comes_before_its_call_in_the_file():
    assert lines(result("red"), call("Bash", {"command": "paint"})).tool_name == "Bash"  # kept when in doubt


SILENT = [
    said("x", isSidechain=True), line("user", "x", isMeta=True), line("user", "x", isCompactSummary=True),
    said("x", sessionId="s0"), said("x", sessionId=None), line("system", "x", subtype="turn_duration"),
    line("system", "x", subtype="away_summary"), line("attachment", "x"), line("summary", "x"), line("progress", "x"),
    line("api-request-blob", "x"), {"type": "ai-title", "title": "x"}, {"type": "last-prompt", "lastPrompt": "x"},
    {"type": "queue-operation", "operation": "enqueue", "content": "x", "sessionId": "s1"},
    {"type": "file-history-snapshot"}, {"type": ["user"], "message": {"content": "x"}}, {"type": {}}, {"type": None},
    {}, line("user", "<local-command-stdout>x</local-command-stdout>"),
    line("user", " <command-name>/clear</command-name>"),
    line("user", "<bash-input>ls</bash-input>"), line("user", "<bash-stdout>x</bash-stdout>"), line("user", ""),
    line("user", " \n "), line("user", None), line("user", 5), line("user", {"type": "text", "text": "x"}),
    line("user", []), line("user", [None, "x", 5, [], {}]),
    line("user", [{"type": "text"}, {"type": "text", "text": None}, {"text": "x"}]),
    line("assistant", [{"type": "thinking", "thinking": "x"}]), line("user", [{"type": "image", "source": {}}]),
    {"type": "user", "message": None}, {"type": "user", "message": "x"}, {"type": "user", "message": [1]},
    {"type": "user"}, b"", b" ", b"\0\0\0", b"null", b"[]", b'"x"', b"5", b"true", b"NaN", b"{", b"}", b"not json",
    b"\xff\xfe\xfd", b"[" * 100_000, b'{"a":' * 100_000, b"\xef\xbb\xbf",
    b'{"type": "user", "message": {"content": "x"',
]


@pytest.mark.parametrize("entry", SILENT, ids=lambda entry: encode(entry)[:60].decode("utf-8", "replace"))
def test_a_line_that_says_nothing_says_nothing(entry):
    assert lines(entry) == tb.Context()
    before, after = said("before"), said("after", at="2027-01-15T08:00:01Z")
    assert lines(before, entry, after) == lines(before, after)


@pytest.mark.parametrize("spliced", [
    b'{"parentUuid":"1","type":"assistant","message":{"content":[{"type":"text","text":"tru' + b"%s",
    b'{"parentUuid":"1","type":"summary"}' + b"%s", b"\0" * 300 + b"%s", b"\xef\xbb\xbf%s", b"%s\r", b" %s ", b"\0%s\0",
    b'{"parentUuid":"1","message":{"a":"' + b"%s", b'nonsense{"parentUuid":' + b"%s"], ids=repr)
def test_of_a_torn_line_the_entry_at_its_end_is_read(spliced):
    whole = json.dumps(said("after"), separators=(",", ":")).encode()
    assert lines(spliced.replace(b"%s", whole)) == lines(said("after"))


def test_two_entries_on_a_line_are_both_read():
    one, two, three = (json.dumps(said(text), separators=(",", ":")).encode() for text in ("one", "two", "three"))
    assert lines(one + two + three) == lines(said("one"), said("two"), said("three"))
    other = encode({"type": "assistant", "message": {"content": "one"}})  # one that begins in another way
    assert [text for _, text in lines(other + two).lines] == ["one", "two"]


def test_a_text_that_holds_an_entry_is_a_text():
    inside = json.dumps(said("fake"), separators=(",", ":"))
    assert lines(said(inside)).message == inside
    torn = json.dumps(said(inside), separators=(",", ":"))[:-3]
    assert lines(torn.encode()) == tb.Context()


def test_an_entry_inside_an_entry_is_not_a_second_one():
    assert lines({"type": "progress", "data": {"message": said("a subagent's")}, "sessionId": "s1"}) == tb.Context()


def test_lines_end_only_where_the_file_has_a_newline():
    text = "one\u2028two\u0085three\x0bfour\rfive"
    assert lines(said(text)).message == text
    assert lines(encode(said("x")) + b"\r").message == "x"


def test_odd_letters():
    assert lines(said("a\ud83d\udc00b\ud83d")).message == "a\U0001f400b\ufffd"  # a pair is a letter, a half is none
    assert lines(b'{"type":"assistant","message":{"content":"a\xffb"}}').message == "a\ufffdb"
    strict(lines(b'x{"parentUuid":' + encode(said("\ud83d"))[len('{"parentUuid": '):])._asdict())
    strict(lines(said("\ud83d"), call("B\ud83d", {"\ud83d": ["\ud83d"]}), result("\ud83d", "t9"))._asdict())


@pytest.mark.parametrize("tool_input", [None, [], "x", 5, True, [{"command": "x"}]])
def test_a_call_with_an_odd_input(tool_input):
    assert lines(call("Bash", tool_input)) == tb.Context("", "Bash", {}, (("tool", "Bash: "),))


@pytest.mark.parametrize("block", [
    {"type": "tool_use"}, {"type": "tool_use", "id": [1], "name": {"a": 1}, "input": {}},
    {"type": "tool_use", "name": None}])
def test_a_call_with_odd_names(block):
    context = lines(line("assistant", [block]))
    assert (context.tool_name, context.tool_input, context.lines) == ("", {}, (("tool", ": "),))


@pytest.mark.parametrize("content, text", [
    ("done\n", "done"), ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\n\nb"),
    ([], ""), (None, ""), (5, ""), ({"text": "x"}, ""), (["x", None, {"text": 5}], "")])
def test_a_result_in_any_form(content, text):
    assert lines(result(content)).lines == (("result", text),)


@pytest.mark.parametrize("call_id", [[1], {}, None, 5])
def test_a_result_of_no_call(call_id):
    assert lines(call("Bash", {}), result("x", call_id)).tool_name == "Bash"


def test_the_input_of_a_call_is_kept_down_to_the_options_of_a_question():
    asked = {"questions": [{"question": "Which?", "options": [{"label": "a", "description": "b"}],
                            "multiSelect": True}]}
    assert lines(call("AskUserQuestion", asked)).tool_input == asked


def test_the_tail_is_bounded():
    context = lines(*[said("%d " % n + "x" * 3000) for n in range(50)])
    assert [text.split()[0] for _, text in context.lines] == [str(n) for n in range(10, 50)]
    assert {len(text) for _, text in context.lines} == {2000} and len(context.message) == 3003


def test_times_out_of_order():
    told = [encode(said("a", at=at)) for at in ("2027-01-15T08:00:02Z", "2027-01-15T05:18:00Z", None, "x")]
    assert [line.at for line in tb.parse_transcript(told, "s1", {})] == [1800000002.0, 1799990280.0, 0.0, 0.0]


@pytest.mark.parametrize("text, at", [
    ("2027-01-15T08:00:00Z", 1800000000.0), ("2027-01-15T08:00:00.5Z", 1800000000.5),
    ("2027-01-15T08:00:00.597Z", 1800000000.597), ("2027-01-15T08:00:00.123456789Z", 1800000000.123456789),
    ("1970-01-01T00:00:00Z", 0.0), ("2024-02-29T00:00:00Z", 1709164800.0),
    ("2027-01-15T08:00:00", 0.0),  # whose time? Python would take the machine's zone
    ("2027-01-15", 0.0), ("20270115T080000Z", 0.0), ("2027-W03-5T08:00:00Z", 0.0), ("2027-02-29T00:00:00Z", 0.0),
    ("2027-01-15T24:00:01Z", 0.0), ("0000-01-01T00:00:00Z", 0.0), ("2027-01-15T08:00:00Z\n", 0.0),
    ("٢٠٢٧-01-15T08:00:00Z", 0.0), ("", 0.0), ("now", 0.0), ("nan", 0.0), (None, 0.0), (1800000000000, 0.0),
    (True, 0.0), ([], 0.0)])
def test_parse_time(text, at):
    assert tb.parse_time(text) == pytest.approx(at, abs=1e-6)


# -- what a transcript line says ---------------------------------------------------------------------------------------

def told(*entries, calls=None, agent_id=""):
    return tb.parse_transcript([encode(entry) for entry in entries], "s1", {} if calls is None else calls, agent_id)


def kinds(*entries, **more):
    return [line.kind for line in told(*entries, **more)]


def assistant(*blocks, message_id="m1", stop=None, model="claude", **more):
    entry = line("assistant", list(blocks), **more)
    return {**entry, "message": {**entry["message"], "id": message_id, "stop_reason": stop, "model": model}}


TEXT = {"type": "text", "text": "x"}
BASH = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
READ = {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "/a"}}
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def denied(text=REFUSED, call_id="t1", is_error=True, **more):
    return line("user", [{"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}], **more)


@pytest.mark.parametrize("entry, kind", [
    (line("user", "paint"), "prompt"), (line("user", [TEXT]), "prompt"),
    (line("user", "paint", promptSource="typed", origin={"kind": "human"}), "prompt"),
    (line("user", "paint", promptSource="queued"), "prompt"),
    (line("user", "paint", promptSource="sdk"), "prompt"), (line("user", "paint", origin="human"), "prompt"),
    (line("user", "paint", origin={}), "prompt"), (line("user", "paint", origin=None), "prompt"),
    (line("user", "what is <task-notification>?"), "prompt"),
    (line("user", [{"type": "image", "source": {}}]), "prompt"),
    (line("user", [{"type": "document", "source": {}}]), "prompt"),
    (line("user", "paint", origin={"kind": "task-notification"}), "woken"),
    (line("user", "paint", origin={"kind": "peer"}), "woken"),
    (line("user", "paint", origin={"kind": "auto-continuation"}), "woken"),
    (line("user", "paint", promptSource="system"), "woken"),
    (line("user", "paint", promptSource="system", origin={"kind": "human"}), "woken"),
    (line("user", "<task-notification>\n<task-id>a1</task-id>"), "woken"),
    (line("user", " <system-reminder>x</system-reminder>"), "woken"),
    (line("user", "[SYSTEM NOTIFICATION - NOT USER INPUT]"), "woken"),
    (line("user", "<cross-session-message from=x>"), "woken")], ids=lambda value: str(value)[-60:])
def test_a_prompt_is_a_persons_or_a_machines(entry, kind):
    assert kinds(entry) == [kind]


def test_a_prompt_has_its_text_and_its_time():
    assert told(line("user", [TEXT, {"type": "image"}, {"type": "text", "text": "y"}], at="2027-01-15T08:00:00.250Z")) == [
        tb.Line("prompt", 1800000000.25, "x\ny")]
    assert told(line("user", [{"type": "image", "source": {}}])) == [tb.Line("prompt", NOW, "")]


@pytest.mark.parametrize("stop, kind", [
    ("end_turn", "final"), ("stop_sequence", "final"), ("max_tokens", "final"), ("refusal", "final"), (None, "said"),
    ("tool_use", "said"), ("pause_turn", "said"), ("", "said"), (["end_turn"], "said"), (5, "said")])
def test_claudes_words_are_the_last_ones_if_it_says_so(stop, kind):
    assert told(assistant(TEXT, stop=stop)) == [tb.Line(kind, NOW, "x", fresh=True)]


def test_a_message_with_a_call_is_no_end_whatever_it_says():
    assert kinds(assistant(TEXT, BASH, stop="end_turn")) == ["call"]


def test_a_call_says_which_tools_are_open_and_whether_it_is_a_further_message():
    bash = ("", "Bash", {"command": "ls"})
    assert [one[2:8] for one in told(assistant(TEXT), assistant(BASH), assistant(READ), assistant(TEXT),
                                     assistant(TEXT, message_id="m2"))] == [
        ("x", "", "", {}, (), True), ("", *bash, ("Bash",), True),
        ("", "", "Read", {"file_path": "/a"}, ("Bash", "Read"), False), ("x", "", "", {}, ("Bash", "Read"), False),
        ("x", "", "", {}, ("Bash", "Read"), True)]
    both = told(assistant(TEXT, BASH, READ))
    assert [(one.text, one.tool_name, one.open, one.fresh) for one in both] == [
        ("x", "Bash", ("Bash",), True), ("", "Read", ("Bash", "Read"), True)]


def test_a_result_is_its_calls_and_says_what_is_open_after_it():
    calls = {}
    told(assistant(BASH), assistant(READ), calls=calls)
    one, = told(result("red"), calls=calls)
    assert one == tb.Line("result", NOW, "red", "", "Bash", {"command": "ls"}, ("Read",))
    assert told(result("blue", "t2"), calls=calls) == [tb.Line("result", NOW, "blue", "", "Read", {"file_path": "/a"})]
    assert told(result("blue", "t2"), calls=calls) == [tb.Line("result", NOW, "blue")] and calls == {}


def test_two_calls_of_one_tool_leave_it_open_until_both_have_a_result():
    calls = {}
    told(assistant(BASH, {**BASH, "id": "t2"}), calls=calls)
    assert [told(result("x", call_id), calls=calls)[0].open for call_id in ("t1", "t2")] == [("Bash",), ()]


@pytest.mark.parametrize("entry, kind", [
    (denied(toolDenialKind="user-rejected"), "refused"), (denied("whatever", toolDenialKind="user-rejected"), "refused"),
    (denied("whatever", toolDenialKind="interrupted"), "refused"),
    (denied(toolDenialKind="user-rejected", holdsPersonsWords=True), "result"),
    (denied(REFUSED + " To tell you how to proceed, the user said:\nrather blue"), "result"),
    (denied(REFUSED + " the user said:\nrather blue", toolDenialKind="user-rejected"), "result"),
    (denied(toolDenialKind="automode-blocked"), "result"), (denied(toolDenialKind="cancelled"), "result"),
    (denied(), "refused"), (denied([{"type": "text", "text": REFUSED}]), "refused"),  # 2.1.150 writes no toolDenialKind
    (denied(is_error=False), "result"), (denied("Error: no such file"), "result"),
    (denied(toolDenialKind=["user-rejected"]), "result"), (denied(toolDenialKind=""), "refused")],
    ids=lambda value: str(value)[100:260])
def test_a_refusal_without_a_word_is_one(entry, kind):
    one, = told(assistant(BASH), entry)[1:]
    assert (one.kind, one.tool_name) == (kind, "Bash")


def test_the_comment_with_which_a_call_was_allowed_is_no_prompt():
    entry = line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
                          {"type": "text", "text": "but quick"}])
    assert told(entry) == [tb.Line("result", NOW, "ok\nbut quick")]


@pytest.mark.parametrize("mark", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
@pytest.mark.parametrize("blocks", [False, True])
def test_the_mark_of_an_interruption_leaves_no_call_open(mark, blocks):
    calls = {}
    told(assistant(BASH), assistant(READ), calls=calls)
    assert told(line("user", [{"type": "text", "text": mark}] if blocks else mark), calls=calls) == [
        tb.Line("interrupted", NOW, mark)]
    assert calls == {}


def test_a_refusal_and_the_mark_in_one_entry():
    entry = denied(toolDenialKind="user-rejected")
    entry["message"]["content"].append({"type": "text", "text": "[Request interrupted by user for tool use]"})
    assert kinds(assistant(BASH), entry) == ["call", "refused", "interrupted"]


@pytest.mark.parametrize("pending, kind", [
    ({}, "ended"), ({"pendingBackgroundAgentCount": 0, "pendingWorkflowCount": 0}, "ended"),
    ({"pendingBackgroundAgentCount": 1}, "parked"), ({"pendingWorkflowCount": 2}, "parked"),
    ({"pendingBackgroundAgentCount": "1"}, "ended"), ({"pendingBackgroundAgentCount": None}, "ended"),
    ({"pendingBackgroundAgentCount": [1]}, "ended"), ({"pendingBackgroundAgentCount": -1}, "ended")])
def test_the_turns_end_and_whether_something_will_wake_it(pending, kind):
    assert told(line("system", "x", subtype="turn_duration", durationMs=5, **pending)) == [tb.Line(kind, NOW)]


@pytest.mark.parametrize("subtype", ["stop_hook_summary", "away_summary", "compact_boundary", "api_error", "local_command",
                                     "informational", "bridge_status", "agents_killed", None, ["turn_duration"]])
def test_another_line_of_the_system_says_nothing(subtype):
    assert told(line("system", "x", subtype=subtype)) == []


def test_an_api_error_is_one_and_what_claude_code_makes_up_else_is_nothing():
    made_up = assistant(TEXT, model="<synthetic>", stop="stop_sequence")
    assert told(made_up) == []  # "No response requested."
    assert told({**made_up, "isApiErrorMessage": True, "error": "rate_limit"}) == [tb.Line("failed", NOW, "x", fresh=True)]
    assert told({**made_up, "isApiErrorMessage": False}) == []


@pytest.mark.parametrize("more", [
    {"isSidechain": True}, {"sessionId": "s0"}, {"sessionId": None}, {"sessionId": ["s1"]}, {"isMeta": True},
    {"isCompactSummary": True}, {"isVisibleInTranscriptOnly": True}, {"type": "summary"}, {"type": "attachment"},
    {"type": "progress"}, {"type": "api-request-blob"}, {"type": "queue-operation"}], ids=str)
def test_what_is_not_the_main_threads_own_talk_says_nothing(more):
    for entry in (line("user", "x"), assistant(TEXT), assistant(BASH), result("x"), denied(),
                  line("user", "[Request interrupted by user]"), line("system", "x", subtype="turn_duration")):
        assert len(told(entry)) == 1
        calls = {}
        assert told({**entry, **more}, calls=calls) == [] and calls == {}, entry


@pytest.mark.parametrize("text", [
    "<local-command-stdout>x</local-command-stdout>", "<local-command-caveat>x", "<command-name>/model</command-name>",
    "<command-message>init</command-message>", "<bash-input>ls</bash-input>", "<bash-stdout>x</bash-stdout>"])
def test_a_local_command_says_nothing_and_leaves_the_calls_open(text):
    calls = {}
    assert kinds(assistant(BASH), line("user", text), calls=calls) == ["call"] and list(calls) == ["t1"]


def test_a_subagents_own_file():
    own = {"isSidechain": True, "agentId": "a1"}
    entries = (line("user", "look", **own), assistant(BASH, **own), result("x", **own),
               assistant(TEXT, stop="end_turn", **own))
    assert [(one.kind, one.agent_id) for one in told(*entries, agent_id="a1")] == [
        (kind, "a1") for kind in ("prompt", "call", "result", "final")]
    assert told(*entries) == told(*entries, agent_id="a2") == []
    assert kinds(line("user", "x", isSidechain=True), agent_id="a1") == ["prompt"]  # it names no agent
    assert told(line("user", "x"), line("user", "x", agentId="a1"), agent_id="a1") == []  # the main thread's


@pytest.mark.parametrize("decided, words", [
    ({"decision": "accept", "source": "user_temporary"}, "allowed by the person"),
    ({"decision": "accept", "source": "user_permanent"}, "allowed by the person"),
    ({"decision": "accept", "source": "config"}, "allowed by config"),
    ({"decision": "accept", "source": "hook"}, "allowed by hook"),
    ({"decision": "reject", "source": "user_reject"}, "refused by the person"),
    ({"decision": "reject", "source": "config"}, "refused by config"), ({"decision": "reject"}, "refused by somebody"),
    ({"source": ["user"]}, "allowed by somebody"), ({}, "allowed by somebody"), (None, ""), ("accept", ""), ([], "")])
def test_who_decided_on_a_call(decided, words):
    assert tb.decision_of({"permissionDecision": decided}) == words
    assert told(result("x", permissionDecision=decided))[0].decision == words
    assert told(result("x"))[0].decision == tb.decision_of({}) == ""


def test_calls_are_kept_from_one_reading_to_the_next_until_a_person_goes_on():
    calls = {}
    told(assistant(BASH), calls=calls)
    assert calls == {"t1": ("Bash", {"command": "ls"}, "m1")}
    assert told(assistant(TEXT), line("user", "<task-notification>"), calls=calls)[0].open == ("Bash",)
    assert list(calls) == ["t1"]
    told(line("user", "never mind"), calls=calls)
    assert calls == {}


def test_calls_are_bounded_and_the_newest_stay():
    calls = {}
    for n in range(tb.MOST_CALLS + 50):
        told(assistant({**BASH, "id": "t%d" % n}), calls=calls)
        assert len(calls) <= tb.MOST_CALLS
    assert list(calls)[0] == "t50" and list(calls)[-1] == "t%d" % (tb.MOST_CALLS + 49)
    told(assistant(*({**BASH, "id": "u%d" % n} for n in range(tb.MOST_CALLS + 50))), calls=calls)
    assert len(calls) == tb.MOST_CALLS and list(calls)[0] == "u50"


# -- a tool call in a few words ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("tool_name, tool_input, words", [
    ("Bash", {"command": "ls -l", "description": "List"}, "ls -l"),
    ("Bash", {"command": "\n  cd barn\n  rm -rf hay\n"}, "cd barn …"),
    ("Bash", {"command": "# list the files\n#and\nls"}, "ls"),
    ("Bash", {"command": "#!/bin/sh\n# only this"}, "#!/bin/sh …"),
    ("Bash", {"command": "ls\u2028rm"}, "ls …"),
    ("Bash", {"command": " \n"}, '{"command": " \\n"}'),
    ("Edit", {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, "/a/b.py"),
    ("MultiEdit", {"file_path": "/a/b.py", "edits": []}, "/a/b.py"),
    ("Write", {"content": "x", "file_path": "/a/#b.py"}, "/a/#b.py"),
    ("Read", {"file_path": "#notes#"}, "#notes#"),
    ("NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "x"}, "/a.ipynb"),
    ("WebFetch", {"url": "https://example.org/#top", "prompt": "sum up"}, "https://example.org/#top"),
    ("WebSearch", {"query": "barn"}, "barn"),
    ("Grep", {"pattern": "^#", "path": "src"}, "^#"),
    ("Skill", {"skill": "paint"}, "paint"),
    ("Agent", {"description": "Look", "prompt": "Look around", "subagent_type": "Explore"}, "Look"),
    ("mcp__x__y", {"depth": 3, "tags": ["ü"]}, '{"depth": 3, "tags": ["ü"]}'),
    ("mcp__x__y", {}, ""),
    ("ExitPlanMode", {"plan": "\n## Mend the fence\n1. wood\n"}, "Mend the fence"),
    ("ExitPlanMode", {"plan": "###\n\nMend it"}, "Mend it"),
    ("ExitPlanMode", {"plan": ""}, '{"plan": ""}'),
    ("ExitPlanMode", {}, ""),
    ("AskUserQuestion", {"questions": [{"question": "Red?"}, {"question": "Or blue?"}]}, "Red? / Or blue?"),
    ("AskUserQuestion", {"questions": [None, 5, {"question": " "}, {"question": None}, {"question": "Red?"}]}, "Red?"),
    ("AskUserQuestion", {"questions": []}, '{"questions": []}'),
    ("AskUserQuestion", {"questions": {"question": "Red?"}}, '{"questions": {"question": "Red?"}}'),
    ("AskUserQuestion", {}, ""),
    ("mcp__x__y", {"questions": [{"question": "Red?"}]}, '{"questions": [{"question": "Red?"}]}'),
    ("mcp__x__y", {"query": "# a\nb"}, "# a …"),
    ("", {"question": "Which account?", "server": "bank"}, "Which account?"),
    ("Bash", {"command": None, "description": "List"}, "List"), ("Bash", {"command": ["ls"]}, '{"command": ["ls"]}'),
    ("Bash", None, ""), ("Bash", [], ""), ("Bash", "ls", ""), ("Bash", 5, ""),
])
def test_one_line_input(tool_name, tool_input, words):
    assert tb.one_line_input(tool_name, tool_input) == words

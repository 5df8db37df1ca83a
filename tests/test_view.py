"""Section 6: what people and programs read, whatever the model, the person or the file system wrote into it."""
import json
import random
import re

import pytest

from support import tb

NOW = 1_800_000_000.0
OURS = re.compile("\x1b\\[(?:[0-9]{1,2})?m")  # the escape codes that are ours
NASTY = {
    "OSC 52": "a\x1b]52;c;cm0gLXJm\x07b", "OSC 0": "\x1b]0;title\x1b\\x", "CSI": "\x1b[2J\x1b[31mred",
    "C1": "a\x9b31mb\x9d0;t\x9c", "CR": "fine\roverwritten", "CRLF": "one\r\ntwo",
    "LF": "one\n%9  permission  1s  a fake row", "BEL": "\x07\x07", "NUL": "a\0b",
    "DEL": "a\x7fb", "backspace": "rm -rf /\x08\x08\x08", "tab": "a\tb\tc", "VT FF": "a\x0bb\x0cc", "NEL": "a\x85b",
    "U+2028": "a\u2028b\u2029c", "bidi": "a\u202etxt.exe\u202cb\u2066x\u2069\u200f\u061c",
    "zero-width": "a\u200bb\u2060c\ufeffd\xade", "tags": "x\U000e0041\U000e0042\U000e007f",
    "lone surrogate": "a\ud83db\udc00", "long": "x" * 10_000, "wide": "漢" * 2_000,
    "zalgo": "e" + "\u0301" * 500, "CJK": "日本語のプロジェクト", "emoji": "🐄🐂", "ZWJ": "👨\u200d👩\u200d👧\u200d👦", "flags": "🇩🇪🇫🇷",
    "variation": "❤\ufe0f☀\ufe0e漢\U000e0100", "skin": "👍🏽", "combining": "e\u0301a\u0308\u20dd",
    "NFD Korean": "\u1112\u1161\u11ab", "Persian": "می\u200cخواهم", "Hindi": "हिन्दी", "spaces": "  a   b  ",
    "empty": "", "blank": " ", "brackets": "[skipped] ask",
    "format": "#(touch x)#[bg=red]#{pid}%H", "reason": "permission", "header": "ID  WINDOW  REASON", "colon": ":::",
    "dash": "-",
}


def strict(value):
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    return text


# -- harmless, and how wide --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, shown", [
    ("", ""), ("plain text, ~!", "plain text, ~!"), ("é…漢🐄", "é…漢🐄"), ("a\tb", "a b"), ("a\nb", "a b"),
    ("a\r\nb", "a b"), ("a\rb", "a\ufffdb"), ("\x1b]52;c;eA==\x07", "\ufffd]52;c;eA==\ufffd"),
    ("\x1b[31m", "\ufffd[31m"), ("\x9b31m", "\ufffd31m"),
    ("\0\x01\x08\x0b\x0c\x7f\x80\x85\x9f", "\ufffd" * 9), ("a\u2028b\u2029", "a\ufffdb\ufffd"), ("\ud83d", "\ufffd"),
    ("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c", "\ufffd" * 12),
    ("\u200b\u2060\ufeff\xad\u180e\U000e0001\U000e0041", "\ufffd" * 7), ("❤\ufe0f", "❤"), ("漢\U000e0100", "漢"),
    ("⌚\ufe0e", "⌚"), ("👨\u200d👩", "👨\u200d👩"), ("می\u200cخواهم", "می\u200cخواهم"), ("e\u0301", "e\u0301"),
    ("\xa0\u3000", "\xa0\u3000"), ("\ue0b0", "\ue0b0"),
])
def test_harmless(text, shown):
    assert tb.harmless(text) == shown
    assert tb.harmless(shown) == shown


def test_harmless_keeps_line_breaks_only_where_they_are_wanted():
    assert tb.harmless("a\nb\r\nc\td\re\n", breaks=True) == "a\nb\nc d\ufffde\n"


def test_nothing_below_space_nor_any_c1_gets_through():
    for char in tb.harmless("".join(map(chr, range(0x10000)))):
        assert char >= " " and not "\x7f" <= char <= "\x9f" and not "\ud800" <= char <= "\udfff"
    assert "\n" in tb.harmless("\n", breaks=True)


@pytest.mark.parametrize("text, columns", [  # as the cursor of tmux 3.3a goes
    ("", 0), ("abc", 3), ("漢字", 4), ("Ａ", 2), ("ｱ", 1), ("한", 2), ("\u1112\u1161\u11ab", 2), ("が", 2), ("か\u3099", 2),
    ("é…·", 3), ("e\u0301", 1), ("a\u20dd", 1), ("नि", 2), ("กำ\u0e31", 2), ("مرحبا", 5), ("a\u200cb", 2), ("─│✻⏵", 4),
    ("\ufffd", 1), ("\xa0", 1), ("\ue0b0", 1), ("🐄", 2), ("🇩🇪", 2), ("👨\u200d👩\u200d👧", 2), ("🏳\u200d🌈", 1), ("👍🏽", 4),
    ("🏽", 2), ("❤", 1), ("a\u200db", 2), ("漢\u200d字", 4)])
def test_width_of(text, columns):
    assert tb.width_of(text) == columns


@pytest.mark.parametrize("text, width, cut", [
    ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abc", 2, "a…"), ("abc", 1, "…"), ("abc", 0, ""), ("abc", -5, ""),
    ("", 0, ""), ("漢字", 4, "漢字"), ("漢字", 3, "漢…"), ("漢字", 2, "…"), ("a漢字", 4, "a漢…"), ("e\u0301x", 2, "e\u0301x"),
    ("e\u0301xy", 2, "e\u0301…"), ("xe\u0301yz", 3, "xe\u0301…"), ("👨\u200d👩x", 3, "👨\u200d👩x"),
    ("👨\u200d👩xy", 3, "👨\u200d👩…"), ("👨\u200d👩xy", 2, "…"), ("ab", 80, "ab")])
def test_fit(text, width, cut):
    assert tb.fit(text, width) == cut


def test_fit_never_takes_more_than_it_may():
    for text in map(tb.harmless, NASTY.values()):
        for width in range(-1, 30):
            cut = tb.fit(text, width)
            assert tb.width_of(cut) <= max(0, width) and len(cut) <= 20 * max(0, width) + 1
            assert cut == text or width < 1 or cut.endswith("…") and text.startswith(cut[:-1])


# -- few words ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seconds, said", [
    (-5, "0s"), (0, "0s"), (0.99, "0s"), (45, "45s"), (59.99, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h00m"),
    (11100, "3h05m"), (86399, "23h59m"), (86400, "1d00h"), (187200, "2d04h"), (86400 * 400, "400d00h")])
def test_span(seconds, said):
    assert tb.span(seconds) == said


@pytest.mark.parametrize("text, line", [
    ("", ""), (" \n ", ""), ("Done.", "Done."), ("\n\n  Done.  \nMore.", "Done."),
    ("I did it.\n\nShall I push?", "Shall I push?"),
    ("Why? Because.\nIt is done.", "Why? Because."), ("A?\nb\nc\nd", "A?"), ("x\nA?\nb\nc\nd", "x"),
    ("x\nA?\nb\nc", "A?"), ("x\nA?\nB?\nc", "B?"),
    ("Done.\n**Shall I push?**", "**Shall I push?**"), ('Done.\n"Really?"', '"Really?"'),
    ("済んだ。\n押しますか？", "押しますか？"), ("```\ncode\n```", "code"), ("---\n# Title", "# Title"), ("---\n***", "--- ***"),
    ("…", "…")])
def test_gist(text, line):
    assert tb.gist(text) == line


@pytest.mark.parametrize("wait, line", [
    (tb.Wait("permission", 1, "ls", "Bash"), "Bash: ls"), (tb.Wait("permission", 1, "", "mcp__x__y"), "mcp__x__y"),
    (tb.Wait("permission", 1, "Claude needs your permission"), "Claude needs your permission"),
    (tb.Wait("permission", 1), ""), (tb.Wait("question", 1, "Red?", "AskUserQuestion"), "Red?"),
    (tb.Wait("question", 1, "", "AskUserQuestion"), "AskUserQuestion"),
    (tb.Wait("question", 1, "Which account?"), "Which account?"),
    (tb.Wait("plan", 1, "Mend it", "ExitPlanMode"), "Mend it"),
    (tb.Wait("plan", 1, "", "ExitPlanMode"), "ExitPlanMode"), (tb.Wait("stopped", 1, "Done.\nNext?"), "Next?"),
    (tb.Wait("error", 1, "API Error: 529\n{...}"), "API Error: 529"), (tb.Wait("interrupted", 1, "paint"), "paint")])
def test_ask_line(wait, line):
    assert tb.ask_line(wait) == line


# -- items for programs ------------------------------------------------------------------------------------------------

def server(places, socket="/tmp/s"):
    """A server on which each pane id is at (session name, window index)."""
    return {socket: tb.Server(socket, 1, NOW, {
        pane_id: tb.PaneView(pane_id, "/dev/pts/1", 1, False, "@1", "0", (("$1", name, index),))
        for pane_id, (name, index) in places.items()})}


def session(session_id="5f51aaaa-0001", pane_id="%1", ago=60.0, reason="permission", text="ls", tool_name="Bash",
            agent="", skipped_at=0.0, snoozed_until=0.0, socket="/tmp/s", cwd="/home/dev/barn", **more):
    wait = tb.Wait(reason, NOW - ago, text, tool_name, {}, agent, "hook", "PermissionRequest", NOW - ago, skipped_at,
                   snoozed_until)
    pane = tb.Pane(socket, 1, pane_id) if pane_id else None
    return tb.Session(session_id, **{"state": "stuck", "state_at": NOW - ago, "wait": wait, "cwd": cwd, "pane": pane,
                                     "record": tb.Record(9, session_id, "waiting", at=NOW - ago),
                                     "witness": "hook", "why": "PermissionRequest", **more})


def listing(*sessions, places=(), everything=False, servers=None):
    board = tb.Board({s.session_id: s for s in sessions})
    return tb.listing(board, servers or server({"%1": ("work", "2"), **dict(places)}), NOW, everything)


def test_an_item_has_what_is_documented_and_a_little_more():
    s = session(permission_mode="plan", background=2, title="Barn", project_dir="/home/dev/mill/", uncertain=True,
                agent="Explore", process=tb.Process(812, "1"))
    assert listing(s) == {"version": tb.VERSION, "now": NOW, "items": [{
        "session_id": "5f51aaaa-0001", "pane": "%1", "server": "/tmp/s", "window": "work:2.0", "reason": "permission",
        "since": NOW - 60, "waited_s": 60.0, "snoozed_until": None, "skipped": False, "cwd": "/home/dev/barn",
        "project": "mill", "title": "Barn", "ask": "Bash: ls", "tool_name": "Bash", "agent": "Explore",
        "background_tasks": 2, "permission_mode": "plan", "uncertain": True,
        "evidence": {"witness": "hook", "at": NOW - 60, "fact": "PermissionRequest"},
        # ours
        "state": "stuck", "state_since": NOW - 60, "snoozed": False, "background": False, "pid": 812, "record": True,
        "last_sign": NOW - 60}]}


def test_an_item_of_a_session_of_which_little_is_known():
    s = session(pane_id="", text="", tool_name="", reason="stopped", cwd="", kind="bg", record=None)
    assert listing(s)["items"] == [{
        "session_id": "5f51aaaa-0001", "pane": None, "server": "", "window": "", "reason": "stopped", "since": NOW - 60,
        "waited_s": 60.0, "snoozed_until": None, "skipped": False, "cwd": "", "project": "", "title": "", "ask": "",
        "tool_name": None, "agent": None, "background_tasks": 0, "permission_mode": None, "uncertain": False,
        "evidence": {"witness": "hook", "at": NOW - 60, "fact": "PermissionRequest"}, "state": "stuck",
        "state_since": NOW - 60, "snoozed": False, "background": True, "pid": None, "record": False, "last_sign": 0.0}]


def test_without_a_record_a_row_says_what_cannot_be_known():
    notes = [tb.notes_of(row, NOW) for row in listing(
        session(ago=600, record=None), session("b", ago=60, record=None), session("c", ago=600),
        session("d", reason="stopped", ago=600, record=None))["items"]]
    assert notes == ["[may be answered] ", "", "", ""]
    working = [session(state="working", wait=None, heard_at=NOW - 900, told_at=NOW - ago, record=record, session_id=str(ago))
               for ago, record in ((720, None), (60, None), (800, tb.Record(9, "x", "busy", at=NOW - 900)))]
    rows = listing(*working, everything=True)["sessions"]
    assert sorted(tb.notes_of(row, NOW) for row in rows) == ["", "", "[quiet 12m] "]


@pytest.mark.parametrize("snoozed_until, told, snoozed", [
    (0.0, None, False), (NOW, None, False), (NOW - 1, None, False), (NOW + 1, NOW + 1, True), (tb.FOREVER, None, True)])
def test_snoozed_until_a_time_or_until_it_asks_anew(snoozed_until, told, snoozed):
    row = listing(session(snoozed_until=snoozed_until))["items"][0]
    assert (row["snoozed_until"], row["snoozed"]) == (told, snoozed)


@pytest.mark.parametrize("project_dir, cwd, project", [
    ("", "/home/dev/barn", "barn"), ("/farm", "/home/dev/barn", "farm"), ("", "/", ""), ("", "", ""),
    ("", "/a/b//", "b"), ("x", "/b", "x"), ("", "/a/..", ".."), ("", "/a/\u202eb\n", "\ufffdb ")])
def test_the_project(project_dir, cwd, project):
    row = listing(session(cwd=cwd, project_dir=project_dir))["items"][0]
    assert (row["project"], row["cwd"]) == (project, cwd)


@pytest.mark.parametrize("servers, window", [
    (server({"%1": ("my:work", "10")}), "my:work:10.0"), (server({"%9": ("x", "1")}), ""),
    (server({"%1": ("x", "1")}, "/tmp/other"), ""), ({"/tmp/s": tb.Server("/tmp/s", 0, NOW, {})}, ""),
    (server({"%1": ("", "0")}), ":0.0")], ids=str)
def test_the_window_is_as_tmux_told_last(servers, window):
    assert listing(session(), servers=servers)["items"][0]["window"] == window
    other_server = session(pane=tb.Pane("/tmp/s", 2, "%1"))
    assert listing(other_server, servers=servers)["items"][0]["window"] == ""


def test_a_wait_of_the_future_has_not_begun():
    assert listing(session(ago=-100))["items"][0]["waited_s"] == 0.0


def test_list_all_has_every_session_the_ended_last():
    a = session("a", first_at=3.0)
    b = tb.Session("b", first_at=2.0, state="gone", ended_at=9.0, state_at=9.0, witness="process",
                   why="process 5 is gone")
    c = tb.Session("c", first_at=1.0, entrypoint="sdk-cli")
    answer = listing(a, b, c, everything=True)
    assert [row["session_id"] for row in answer["items"]] == ["a"]
    assert [(row["session_id"], row["state"], row["entrypoint"]) for row in answer["sessions"]] == [
        ("c", "idle", "sdk-cli"), ("a", "stuck", "cli"), ("b", "gone", "cli")]
    assert answer["sessions"][0]["state_since"] == 1.0  # nothing happened since it began
    assert answer["sessions"][2]["evidence"] == {"witness": "process", "at": 9.0, "fact": "process 5 is gone"}
    assert set(answer["items"][0]) - set(answer["sessions"][0]) == {
        "reason", "since", "waited_s", "snoozed_until", "snoozed", "skipped", "ask", "tool_name", "agent"}
    assert "sessions" not in listing(a)


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_an_item_is_strict_json_and_what_it_asks_is_one_harmless_line(text):
    clean = tb.encodable(text)  # section 2 lets nothing else in
    answer = listing(session(text=text, agent=clean, title=text, cwd="/" + clean, tool_name=clean), everything=True)
    row = json.loads(strict(answer))["items"][0]
    assert row["ask"] == tb.harmless(row["ask"]) and "\n" not in row["ask"] and row["title"] == tb.harmless(text)
    assert (row["agent"] or "") == tb.harmless(clean) and row["project"] == tb.harmless(row["project"])
    assert len(row["ask"]) >= len("".join(text.split())) - 10  # whole, but for space


# -- tables for people -------------------------------------------------------------------------------------------------

TEN = [
    session("0a000001-x", "%1", 90000, "stopped",
            "All 214 tests pass now. I moved the retry logic out.", "", cwd="/d/payments-api"),
    session("0a000002-x", "%2", 7400, "permission", "npm run build && npm run deploy -- --env staging",
            cwd="/d/storefront"),
    session("0a000003-x", "%3", 3000, "question", "Which database should the service use?", "AskUserQuestion",
            cwd="/d/backend"),
    session("0a000004-x", "%12", 1200, "plan", "Mend the fence", "ExitPlanMode", cwd="/d/backend"),
    session("0a000005-x", "%14", 600, "error", "API Error: 529 overloaded", "", cwd="/d/infra"),
    session("0a000006-x", "%22", 300, "interrupted", "refactor the parser", "", cwd="/d/parser"),
    session("0a000007-x", "%23", 200, "permission", "src/barn.py", "Edit", agent="Explore", cwd="/d/farm"),
    session("0a000008-x", "%24", 100, "stopped", "Done.\n\nShould I also update the changelog?", "", background=2,
            cwd="/d/日本語"),
    session("0a000009-x", "", 50, "stopped", "Finished.", "", kind="bg", cwd="/d/docs"),
    session("0a000010-x", "%26", 45, "stopped", "I have finished.", "", skipped_at=NOW - 3, cwd="/d/docs"),
    session("0a000011-x", "%27", 44, "permission", "https://example.org", "WebFetch", snoozed_until=NOW + 400, cwd="/"),
]
PLACES = {s.pane.pane_id: ("work", s.pane.pane_id[1:]) for s in TEN if s.pane}

WIDE = """\
ID        WINDOW     REASON       WAITS  PROJECT       ASKS
%1        work:1.0   stopped      1d01h  payments-api  All 214 tests pass now. I moved the retry logic out.
%2        work:2.0   permission   2h03m  storefront    Bash: npm run build && npm run deploy -- --env staging
%3        work:3.0   question     50m    backend       Which database should the service use?
%12       work:12.0  plan         20m    backend       Mend the fence
%14       work:14.0  error        10m    infra         API Error: 529 overloaded
%22       work:22.0  interrupted  5m     parser        refactor the parser
%23       work:23.0  permission   3m     farm          [Explore asks] Edit: src/barn.py
%24       work:24.0  stopped      1m     日本語        [2 in background] Should I also update the changelog?
0a000009  -          stopped      50s    docs          [bg] Finished.
%26       work:26.0  stopped      45s    docs          [skipped] I have finished.
%27       work:27.0  permission   44s    -             [snoozed 6m] WebFetch: https://example.org
"""
EIGHTY = """\
ID        WINDOW     REASON       WAITS  PROJECT       ASKS
%1        work:1.0   stopped      1d01h  payments-api  All 214 tests pass now. …
%2        work:2.0   permission   2h03m  storefront    Bash: npm run build && n…
%3        work:3.0   question     50m    backend       Which database should th…
%12       work:12.0  plan         20m    backend       Mend the fence
%14       work:14.0  error        10m    infra         API Error: 529 overloaded
%22       work:22.0  interrupted  5m     parser        refactor the parser
%23       work:23.0  permission   3m     farm          [Explore asks] Edit: src…
%24       work:24.0  stopped      1m     日本語        [2 in background] Should…
0a000009  -          stopped      50s    docs          [bg] Finished.
%26       work:26.0  stopped      45s    docs          [skipped] I have finishe…
%27       work:27.0  permission   44s    -             [snoozed 6m] WebFetch: h…
"""
SEVENTY = """\
ID        REASON       WAITS  PROJECT       ASKS
%1        stopped      1d01h  payments-api  All 214 tests pass now. I…
%2        permission   2h03m  storefront    Bash: npm run build && np…
%3        question     50m    backend       Which database should the…
%12       plan         20m    backend       Mend the fence
%14       error        10m    infra         API Error: 529 overloaded
%22       interrupted  5m     parser        refactor the parser
%23       permission   3m     farm          [Explore asks] Edit: src/…
%24       stopped      1m     日本語        [2 in background] Should …
0a000009  stopped      50s    docs          [bg] Finished.
%26       stopped      45s    docs          [skipped] I have finished.
%27       permission   44s    -             [snoozed 6m] WebFetch: ht…
"""
FORTY = """\
ID  REASON       WAITS  ASKS
%2  permission   2h03m  Bash: npm run b…
%3  question     50m    Which database …
%4  interrupted  5m     paint
"""


def test_ten_sessions_in_a_pipe():
    assert tb.queue_text(listing(*TEN, places=PLACES), None, False) == WIDE


def test_ten_sessions_on_a_wide_terminal():
    assert tb.queue_text(listing(*TEN, places=PLACES), 200, False) == WIDE


def test_on_80_columns_what_it_asks_is_cut():
    assert tb.queue_text(listing(*TEN, places=PLACES), 80, False) == EIGHTY


def test_where_that_leaves_no_room_the_window_goes_first():
    assert tb.queue_text(listing(*TEN, places=PLACES), 70, False) == SEVENTY


def test_in_a_popup_of_40_columns_only_what_matters_is_left():
    few = [TEN[1], TEN[2], session("s4", "%4", 300, "interrupted", "paint", "")]
    assert tb.queue_text(listing(*few), 40, False) == FORTY


def test_names_are_shortened_on_a_terminal_and_keep_the_numbers_of_the_window():
    one = session(cwd="/d/a-project-with-a-very-long-name")
    text = tb.queue_text(listing(one, places={"%1": ("a-session-with-a-very-long-name", "12")}), 90, False)
    assert text.splitlines()[1] == "%1  a-session-wi…:12.0  permission  1m     a-project-with-a-…  Bash: ls"
    assert "a-session-with-a-very-long-name:12.0  permission  1m     a-project-with-a-very-long-name" in \
        tb.queue_text(listing(one, places={"%1": ("a-session-with-a-very-long-name", "12")}), None, False)


def test_nothing_waits():
    assert tb.queue_text(listing(), 80, True) == tb.queue_text(listing(), None, False) == "Nothing is waiting.\n"


def test_what_is_not_known_is_a_dash():
    """A pipe's columns are always there, so that a person can compare two rows."""
    rows = [session("aaaaaaaa-1", "", cwd="/"), session("bbbbbbbb-1", "%1", ago=30.0, cwd="/d/barn")]
    assert tb.queue_text(listing(*rows, everything=True), None, False) == """\
ID        WINDOW    REASON      WAITS  PROJECT  ASKS
aaaaaaaa  -         permission  1m     -        Bash: ls
%1        work:2.0  permission  30s    barn     Bash: ls

ID        WINDOW    STATE  SINCE  PROJECT  WHY
aaaaaaaa  -         stuck  1m     -        hook: PermissionRequest
%1        work:2.0  stuck  30s    barn     hook: PermissionRequest
"""


def test_list_all():
    gone = tb.Session("0c000001-x", first_at=2.0, state="gone", ended_at=NOW - 90, state_at=NOW - 90, witness="process",
                      why="process 5 is gone", cwd="/d/barn")
    headless = tb.Session("0c000002-x", first_at=NOW - 30, entrypoint="sdk-cli", state="working", state_at=NOW - 20,
                          witness="hook", why="UserPromptSubmit", cwd="/d/barn")
    assert tb.queue_text(listing(gone, headless, everything=True), 80, True) == """\
Nothing is waiting.

ID        WINDOW  STATE    SINCE  PROJECT  WHY
0c000002  -       working  20s    barn     [sdk-cli] hook: UserPromptSubmit
0c000001  -       gone     1m     barn     process: process 5 is gone
"""
    assert tb.queue_text(listing(everything=True), 80, True) == "Nothing is waiting.\n\nNo session is known.\n"
    both = tb.queue_text(listing(session(first_at=1.0), gone, everything=True), None, False)
    assert [line.split()[0] for line in both.split("\n") if line] == ["ID", "%1", "ID", "%1", "0c000001"]


def test_an_id_in_a_row_means_that_row():
    """A pane id that two rows have would be refused; so these show the start of their session's id."""
    rows = [session("aaaaaaaa-1", "%1"), session("bbbbbbbb-1", "%1", socket="/tmp/other"), session("cccccccc-1", "%2"),
            session("dddddddd-1", "")]
    ids = tb.ids_of(listing(*rows)["items"])
    assert ids == ["aaaaaaaa", "bbbbbbbb", "%2", "dddddddd"]
    assert [tb.find(rows, one) for one in ids] == rows


@pytest.mark.parametrize("change, ask", [
    ({}, "Bash: ls"), ({"agent": "Explore"}, "[Explore asks] Bash: ls"), ({"skipped_at": 5.0}, "[skipped] Bash: ls"),
    ({"snoozed_until": NOW + 600}, "[snoozed 10m] Bash: ls"), ({"snoozed_until": tb.FOREVER}, "[snoozed] Bash: ls"),
    ({"snoozed_until": NOW + 5400, "skipped_at": 5.0}, "[snoozed 1h30m] Bash: ls"),
    ({"snoozed_until": NOW}, "Bash: ls"), ({"background": 3}, "[3 in background] Bash: ls"),
    ({"uncertain": True}, "[perhaps in %1] Bash: ls"),
    ({"uncertain": True, "pane": None}, "[pane uncertain] Bash: ls"), ({"kind": "bg", "pane": None}, "[bg] Bash: ls"),
    ({"agent": "a", "skipped_at": 5.0, "background": 1, "uncertain": True},
     "[a asks] [skipped] [1 in background] [perhaps in %1] Bash: ls"),
], ids=str)
def test_remarks_stand_before_what_it_asks(change, ask):
    assert tb.queue_text(listing(session(**change)), None, False).splitlines()[1].endswith("  " + ask)


def screen_of(text, width=None, colour=False):
    """The table when every text that came from outside is this one, between rows with plain texts."""
    rows = [session("0b00000%d-x" % n, "%%%d" % n, ago, reason, "plain", cwd="/plain") for n, ago, reason in (
        (1, 500, "stopped"), (3, 100, "plan"))]
    odd = session("0b000002-x", "%2", 300, "question", text, tb.encodable(text), agent=text, cwd="/" + text, title=text)
    places = {"%1": ("w", "1"), "%2": (text, "2"), "%3": ("w", "3")}
    return tb.queue_text(listing(*rows, odd, places=places), width, colour)


@pytest.mark.parametrize("width", [None, 0, 1, 20, 40, 80])
@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_whatever_a_text_holds_a_session_is_one_line_and_the_columns_stand(text, width):
    plain = screen_of(text, width)
    lines = plain.split("\n")
    assert len(lines) == 5 and lines.pop() == ""
    assert all(tb.harmless(line) == line for line in lines)
    plain.encode("utf-8")
    assert width is None or all(tb.width_of(line) <= width for line in lines)
    if width is None or width >= 40:
        for words in (["REASON", "stopped", "question", "plan"], ["WAITS", "8m", "5m", "1m"]):
            starts = [{tb.width_of(line[:found.start()]) for found in re.finditer("(?<=  )%s(?=  |$)" % word, line)}
                      for line, word in zip(lines, words)]
            assert set.intersection(*starts), "%s does not stand in one column: %s" % (words[0], starts)
    assert [line.split(" ")[0] for line in lines] == ["ID", "%1", "%2", "%3"] or width in (0, 1)


@pytest.mark.parametrize("width", [None, 1, 20, 40, 80])
@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_colour_adds_our_codes_and_nothing_else(text, width):
    coloured = screen_of(text, width, True)
    assert OURS.sub("", coloured) == screen_of(text, width) and "\x1b" not in screen_of(text, width)
    whole = width is None or width >= 40
    if whole:
        assert OURS.findall(coloured) == ["\x1b[32m", "\x1b[0m", "\x1b[36m", "\x1b[0m", "\x1b[35m", "\x1b[0m"]
        assert "  \x1b[36mquestion\x1b[0m  " in coloured
    assert "\x1b" not in coloured.split("\n")[0]


def test_every_reason_has_a_colour():
    for reason in ("permission", "question", "plan", "stopped", "error", "interrupted"):
        assert re.search("\x1b\\[[0-9]+m%s\x1b\\[0m" % reason, tb.queue_text(listing(session(reason=reason)), 80, True))
    assert "\x1b" not in tb.queue_text(listing(session(reason="unheard-of")), 80, True)


def test_a_pipe_gets_everything():
    ask = " ".join("word%d" % n for n in range(5000))
    name = "n" * 300
    text = tb.queue_text(listing(session(text=ask, cwd="/" + name), places={"%1": (name, "2")}), None, False)
    assert text.splitlines()[1] == "%%1  %s:2.0  permission  1m     %s  Bash: %s" % (name, name, ask)


# -- an ask in full ----------------------------------------------------------------------------------------------------

def option(label, description="", **more):
    return {"label": label, "description": description, **more}


@pytest.mark.parametrize("tool_name, tool_input, text", [
    ("Bash", {"command": "cd barn\nrm hay", "description": "Clean"}, "cd barn\nrm hay\ndescription: Clean"),
    ("Bash", {"command": ["ls"], "timeout": 5, "run_in_background": True},
     'command: [\n "ls"\n]\ntimeout: 5\nrun_in_background: true'),
    ("Write", {"file_path": "/a.txt", "content": "one\ntwo\n"}, "file_path: /a.txt\none\ntwo\n"),
    ("Read", {"file_path": "/a.txt", "limit": 5}, "file_path: /a.txt\nlimit: 5"),
    ("NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "x = 1\n"},
     "notebook_path: /a.ipynb\nnew_source: x = 1\n"),
    ("WebFetch", {"url": "https://example.org", "prompt": "sum up"}, "url: https://example.org\nprompt: sum up"),
    ("mcp__x__y", {"a": {"b": [1, None]}, "ü": "ü"}, 'a: {\n "b": [\n  1,\n  null\n ]\n}\nü: ü'),
    ("mcp__fs__edit", {"path": "/a", "edits": [{"oldText": "x", "newText": "y"}]},
     'path: /a\nedits: [\n {\n  "oldText": "x",\n  "newText": "y"\n }\n]'),
    ("mcp__x__plan", {"plan": "p", "budget": 5}, "p\nbudget: 5"),
    ("mcp__fs__edit", {"path": "/a", "old_string": "x", "new_string": "y"}, "path: /a\nold_string: x\nnew_string: y"),
    ("Edit", {"file_path": "/a", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree"},
     "--- /a\n+++ /a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"),
    ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y", "replace_all": True},
     "every occurrence:\n--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n+y"),
    ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "x", "replace_all": False}, "--- /a\n+++ /a"),
    ("Edit", {"file_path": "/a\n+evil", "old_string": "x", "new_string": "y"},
     "--- /a +evil\n+++ /a +evil\n@@ -1 +1 @@\n-x\n+y"),
    ("Edit", {"old_string": "x", "new_string": ""}, "--- \n+++ \n@@ -1 +1 @@\n-x\n+"),
    ("Edit", {"file_path": "/a", "old_string": "x", "new_string": None},
     "file_path: /a\nold_string: x\nnew_string: null"),
    ("Edit", {"file_path": "/a", "old_string": ["x"]}, 'file_path: /a\nold_string: [\n "x"\n]'),
    ("MultiEdit", {"file_path": "/a", "edits": [{"old_string": "x", "new_string": "y"},
                                                {"old_string": "", "new_string": "z"}]},
     "--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n+y\n--- /a\n+++ /a\n@@ -1 +1 @@\n-\n+z"),
    ("MultiEdit", {"file_path": "/a", "edits": [5]}, "file_path: /a\nedits: [\n 5\n]"),
    ("MultiEdit", {"file_path": "/a", "edits": []}, "file_path: /a\nedits: []"),
    ("MultiEdit", {"edits": "x"}, "edits: x"),
    ("ExitPlanMode", {"plan": "# Mend\n1. wood"}, "# Mend\n1. wood"),
    ("ExitPlanMode", {"plan": "mend", "allowedPrompts": []}, "mend\nallowedPrompts: []"),
    ("ExitPlanMode", {"plan": None}, "plan: null"), ("ExitPlanMode", {"plan": ["x"]}, 'plan: [\n "x"\n]'),
    ("ExitPlanMode", {}, ""),
    ("AskUserQuestion", {"questions": [
        {"question": "Red?", "header": "Colour", "options": [option("Yes", "bright"), option("No")],
         "multiSelect": False},
        {"question": "Where?", "options": [option("Barn"), option("Fence")], "multiSelect": True}]},
     "Red?\n  1. Yes: bright\n  2. No\nWhere? (several may be chosen)\n  1. Barn\n  2. Fence"),
    ("AskUserQuestion", {"questions": [{"question": "Odd?", "options": [
        "text", None, 5, option("Dict"), option(None, 5), {}, option("a\nb", "c\nd"), option("P", preview="x\ny")]}]},
     "Odd?\n  1. text\n  2. null\n  3. 5\n  4. Dict\n  5. null\n  6. null\n  7. a\n  b: c\n  d\n  8. P\n"
     "     x\n     y"),
    ("AskUserQuestion", {"questions": [{"question": "Open?"}]}, "Open?"),
    ("AskUserQuestion", {"questions": [{"question": "Odd?", "options": {"label": "x"}}]}, "Odd?"),
    ("AskUserQuestion", {"questions": ["Red?"]}, 'questions: [\n "Red?"\n]'),
    ("AskUserQuestion", {"questions": [{"question": None}]}, 'questions: [\n {\n  "question": null\n }\n]'),
    ("AskUserQuestion", {"questions": []}, "questions: []"),
    ("AskUserQuestion", {"questions": "Red?"}, "questions: Red?"),
    ("", {"question": "Which account?", "server": "bank"}, "Which account?\nserver: bank"), ("Unheard", {}, ""),
], ids=lambda value: value if isinstance(value, str) and " " not in value and "\n" not in value else "")
def test_ask_text(tool_name, tool_input, text):
    assert tb.ask_text(tool_name, tool_input) == text


def patched(old, diff):
    """What `patch` makes of a text."""
    lines, out, at = old.split("\n"), [], 0
    rows = diff.split("\n")
    assert rows[:2] == ["--- /a", "+++ /a"]
    for row in rows[2:]:
        hunk = re.match(r"@@ -([0-9]+)(?:,([0-9]+))? \+[0-9]+(?:,[0-9]+)? @@\Z", row)
        if hunk:
            start = int(hunk.group(1)) - (hunk.group(2) != "0")
            out += lines[at:start]
            at = start
        elif row[:1] in (" ", "-"):
            assert lines[at] == row[1:], row
            out += [row[1:]] if row[0] == " " else []
            at += 1
        else:
            assert row[0] == "+", row
            out.append(row[1:])
    return "\n".join(out + lines[at:])


@pytest.mark.parametrize("old, new", [
    ("a", "b"), ("", "a"), ("a", ""), ("a", "a\n"), ("a\n", "a"), ("\n\n", "\n"), ("a\n\n\nb", "a\n\nb"),
    ("a\r\nb", "a\nb"), ("a\x0cb", "a\x0cc"), ("a\u2028b", "a\u2028c"), ("-- a", "++ b"), ("@@ -1 +1 @@", "+"),
    ("same", "same")], ids=repr)
def test_an_edit_is_a_true_diff(old, new):
    assert patched(old, tb.ask_text("Edit", {"file_path": "/a", "old_string": old, "new_string": new})) == new


def test_any_edit_is_a_true_diff():
    rand = random.Random(11)
    some = ["", "a", "b", " c", "-d", "+e"]
    for _ in range(300):
        old, new = ("\n".join(rand.choice(some) for _ in range(rand.randrange(30))) for _ in range(2))
        assert patched(old, tb.ask_text("Edit", {"file_path": "/a", "old_string": old, "new_string": new})) == new


# -- show --------------------------------------------------------------------------------------------------------------

def answer_of(s, tool_name="", tool_input=None, last_message="", lines=(), places=(), **more):
    rows = listing(s, places=places, everything=True)
    return {"now": NOW, "session": (rows["items"] or rows["sessions"])[0], "tool_name": tool_name,
            "tool_input": tool_input or {}, "last_message": last_message, "lines": list(lines), **more}


SHOWN = """\
5f51aaaa-0001  %1 work:2.0 barn Paint it
[Explore asks] [2 in background] permission, waits 1m

Bash
  cd barn

  rm hay
  description: Clean

last message
  I will clean.
  Then rest.

transcript
   you  clean
claude  I will.
        Now.
  tool  Bash: cd barn …
result
"""


def test_show():
    answer = answer_of(session(agent="Explore", background=2, title="Paint it"), "Bash",
                       {"command": "cd barn\n\nrm hay", "description": "Clean"},
                       "I will clean.\nThen rest.", [("you", "clean"), ("claude", "I will.\nNow."),
                                                     ("tool", "Bash: cd barn …"), ("result", "")])
    assert tb.show_text(answer, None, False) == tb.show_text(answer, 80, False) == SHOWN
    coloured = tb.show_text(answer, 80, True)
    assert OURS.sub("", coloured) == SHOWN
    bold = re.findall("\x1b\\[1m(.*?)\x1b\\[0m", coloured)
    assert bold == [SHOWN.split("\n")[0], "Bash", "last message", "transcript"]


def test_show_a_session_that_does_not_wait():
    s = tb.Session("s1", state="working", state_at=NOW - 5, cwd="/d/barn", first_at=5.0)
    assert tb.show_text(answer_of(s), None, False) == "s1  no pane barn\nworking\n"


@pytest.mark.parametrize("change, tool_name, tool_input, last_message, expected", [
    ({"reason": "stopped", "tool_name": "", "text": "Done."}, "", {}, "Done.",
     "\nstopped, waits 1m\n\nlast message\n  Done.\n"),
    ({"reason": "interrupted", "tool_name": "", "text": "paint it"}, "", {}, "",
     "\ninterrupted, waits 1m\n\nyour prompt\n  paint it\n"),
    ({"reason": "question", "tool_name": "", "text": ""}, "", {}, "", "\nquestion, waits 1m\n"),
    ({"reason": "question", "tool_name": "", "text": "Which?"}, "", {"question": "Which?", "server": "bank"}, "",
     "\nquestion, waits 1m\n\nasks\n  Which?\n  server: bank\n"),
    ({"reason": "plan", "tool_name": "ExitPlanMode", "text": ""}, "ExitPlanMode", {}, "", "\nplan, waits 1m\n"),
    ({"kind": "bg", "pane": None, "reason": "stopped", "text": ""}, "", {}, "x",
     "  no pane barn\n[bg] stopped, waits 1m; `claude attach 5f51aaaa` goes there\n\nlast message\n  x\n"),
], ids=lambda value: value if isinstance(value, str) and "\n" not in value else "")
def test_show_what_there_is(change, tool_name, tool_input, last_message, expected):
    text = tb.show_text(answer_of(session(**change), tool_name, tool_input, last_message), None, False)
    assert text.endswith(expected)


def test_a_terminal_gets_the_end_of_the_transcript_and_a_pipe_all_of_it():
    answer = answer_of(session(), lines=[("claude", "%d %s\nb\nc\nd" % (n, "x" * 100)) for n in range(40)])
    shown = tb.show_text(answer, 40, False).split("transcript\n")[1].split("\n")[:-1]
    assert shown[:4] == ["claude  28 " + "x" * 28 + "…", "        b", "        c", "        …"]
    assert len(shown) == 12 * 4
    piped = tb.show_text(answer, None, False).split("transcript\n")[1].split("\n")[:-1]
    assert len(piped) == 40 * 4 and piped[-4:] == ["claude  39 " + "x" * 100, "        b", "        c", "        d"]


def test_a_terminal_gets_the_whole_ask():
    command = "\n".join("echo " + "x" * 500 for _ in range(300))
    shown = tb.show_text(answer_of(session(), "Bash", {"command": command}, "m" * 5000), 40, False)
    assert shown.count("  echo " + "x" * 500 + "\n") == 300 and "m" * 5000 in shown


FAKE = "fine\n\nlast message\n  yes\ntranscript\n   you  go on\n5f51aaaa-0001  %1\nBash\n  ls"


def test_no_text_looks_like_a_heading():
    answer = answer_of(session(title=FAKE, agent=FAKE), "Bash", {FAKE: FAKE, "command": FAKE, "description": FAKE},
                       FAKE,
                       [("you", FAKE), ("result", FAKE)], places={"%1": (FAKE, "1")})
    lines = tb.show_text(answer, None, False).split("\n")
    headings = [line for line in lines if line[:1].strip()]
    assert [line[:12] for line in headings] == ["5f51aaaa-000", "[fine  last ", "Bash", "last message", "transcript",
                                                "result  fine"]
    said = lines[lines.index("transcript") + 1:]
    assert [line for line in said if line and not line.startswith(" " * 8)] == ["   you  fine", "result  fine"]
    assert all(tb.harmless(line) == line for line in lines)


@pytest.mark.parametrize("width, colour", [(None, False), (1, False), (80, True)])
@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_show_is_harmless(text, width, colour):
    s = session(text=text, title=text, agent=text, cwd="/" + text)
    for tool_name, tool_input in (
            ("Bash", {"command": text, text: text}), ("Edit",
                                                      {"file_path": text, "old_string": text,
                                                       "new_string": text + "x"}),
            ("AskUserQuestion", {"questions": [{"question": text,
                                                "options": [option(text, text, preview=text), text]}]}),
            ("ExitPlanMode", {"plan": text}), (text, {"a": [text, {text: text}]})):
        shown = tb.show_text(answer_of(s, tool_name, tool_input, text, [("you", text), ("tool", text)],
                                       places={"%1": (text, "1")}), width, colour)
        shown.encode("utf-8")
        plain = OURS.sub("", shown) if colour else shown
        assert tb.harmless(plain, breaks=True) == plain and plain.endswith("\n")


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_a_screen_is_harmless_and_else_as_it_is(text):
    screen = "╭──╮\n│ ❯ 1. Yes │\n" + text + "\n\n"
    shown = tb.show_text(answer_of(session(), screen=screen), 20, True)
    assert shown == "╭──╮\n│ ❯ 1. Yes │\n" + tb.harmless(text, breaks=True) + "\n\n"
    assert "\x1b" not in shown

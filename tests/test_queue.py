"""Section 4: who waits, in which order; skip, snooze, the next one, and what an ID means."""
import itertools
import random

import pytest

from support import tb

NOW = 1000.0


def pane(pane_id, socket="/tmp/s"):
    return tb.Pane(socket, 1, pane_id) if pane_id else None


def session(session_id, since=100.0, pane_id="", skipped_at=0.0, snoozed_until=0.0, **more):
    wait = tb.Wait("stopped", since, skipped_at=skipped_at, snoozed_until=snoozed_until)
    return tb.Session(session_id, **{"state": "stuck", "wait": wait, "pane": pane(pane_id), **more})


def board(*sessions):
    return tb.Board({s.session_id: s for s in sessions})


def order(*sessions, now=NOW):
    return " ".join(s.session_id for s in tb.waiting(board(*sessions), now))


# -- the order ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("sessions, expected", [
    ([], ""),
    ([session("b", 2), session("a", 3), session("c", 1)], "c b a"),
    ([session("b", 1), session("c", 1), session("a", 1)], "a b c"),  # a tie is the same at every look
    ([session("a", 1.0000001), session("b", 1.0)], "b a"),
    ([session("a", 1, skipped_at=5), session("b", 2), session("c", 7)], "b a c"),
    # as if it got stuck when it was skipped
    ([session("a", 1, skipped_at=9), session("b", 2, skipped_at=8)], "b a"),  # only skipped ones are left
    ([session("a", 1, snoozed_until=NOW + 1), session("b", 900)], "b a"),
    ([session("a", 1, snoozed_until=NOW), session("b", 2)], "a b"),  # its time has come
    ([session("a", 1, snoozed_until=NOW - 1, skipped_at=5), session("b", 2)], "b a"),
    ([session("a", 1, snoozed_until=tb.FOREVER), session("b", 2, snoozed_until=NOW + 1), session("c", 3)], "c a b"),
    ([session("a", 0.0), session("b", -5.0)], "b a"),
    ([session("a", 5000.0), session("b", 1)], "b a"),  # a clock that was set back
], ids=lambda value: value if isinstance(value, str) else "")
def test_first_in_first_out(sessions, expected):
    assert {order(*some) for some in itertools.permutations(sessions)} == {expected}


def test_a_reason_is_no_priority():
    reasons = ["error", "stopped", "permission", "interrupted", "plan", "question"]
    sessions = [session("s%d" % n, n)._replace(wait=tb.Wait(reason, n)) for n, reason in enumerate(reasons)]
    random.Random(7).shuffle(sessions)
    assert order(*sessions) == "s0 s1 s2 s3 s4 s5"


@pytest.mark.parametrize("change", [
    {"state": "working"}, {"state": "idle"}, {"state": "gone"}, {"wait": None}, {"entrypoint": "sdk-cli"},
    {"entrypoint": "mcp"}], ids=str)
def test_who_does_not_wait(change):
    assert order(session("a"), session("b", **change)) == "a"


@pytest.mark.parametrize("change", [{"pane": None}, {"kind": "bg"}, {"uncertain": True}], ids=str)
def test_who_waits_all_the_same(change):
    assert order(session("b", 1, **change), session("a", 2)) == "b a"


def test_what_is_snoozed_is_not_offered():
    queue = tb.waiting(board(session("a"), session("b", snoozed_until=NOW + 1), session("c", snoozed_until=tb.FOREVER),
                             session("d", snoozed_until=NOW), session("e", skipped_at=NOW)), NOW)
    assert [s.session_id for s in tb.offered(queue, NOW)] == ["a", "d", "e"]
    assert tb.offered([], NOW) == []


# -- the next one ------------------------------------------------------------------------------------------------------

A, B, C, D = session("a", 1, "%1"), session("b", 2, "%2"), session("c", 3, "%3"), session("d", 4)


def round_from(looked_at, *queue):
    return "".join(s.session_id for s in tb.next_after(queue, looked_at))


@pytest.mark.parametrize("looked_at, expected", [
    (None, "abcd"), (pane("%1"), "bcda"), (pane("%2"), "cdab"), (pane("%3"), "dabc"), (pane("%9"), "abcd"),
    (pane("%1", "/tmp/other"), "abcd"), (tb.Pane("/tmp/s", 2, "%1"), "abcd")], ids=str)
def test_the_queue_as_a_round(looked_at, expected):
    assert round_from(looked_at, A, B, C, D) == expected


@pytest.mark.parametrize("looked_at, queue, expected", [
    (None, [], ""), (pane("%1"), [], ""), (pane("%1"), [A], "a"), (None, [D], "d"), (pane("%1"), [D], "d"),
    (None, [D, session("e", 5)], "de"),  # two without a pane are two
], ids=str)
def test_short_rounds(looked_at, queue, expected):
    assert round_from(looked_at, *queue) == expected


@pytest.mark.parametrize("queue", list(itertools.permutations([A, B, C, A._replace(session_id="z", uncertain=True)])),
                         ids=lambda queue: "".join(s.session_id for s in queue))
def test_every_pane_gets_its_turn_where_two_sessions_claim_one(queue):
    at, seen = None, []
    for _ in range(6):
        at = tb.next_after(queue, at)[0].pane
        seen.append(at.pane_id)
    assert seen[:3] == seen[3:] and sorted(seen[:3]) == ["%1", "%2", "%3"]


# -- skip and snooze ---------------------------------------------------------------------------------------------------

def test_put_off_changes_one_wait_and_nothing_else():
    before = board(A, B)
    after = tb.put_off(before, "a", skipped_at=50.0)
    assert after == board(A._replace(wait=A.wait._replace(skipped_at=50.0)), B)
    assert after.sessions["a"].wait.since == A.wait.since and before == board(A, B)


@pytest.mark.parametrize("change, skipped_at, snoozed_until", [
    ({"skipped_at": 50.0}, 50.0, 900.0), ({"snoozed_until": 2000.0}, 20.0, 2000.0), ({"snoozed_until": 0.0}, 20.0, 0.0),
    ({"skipped_at": 0.0}, 0.0, 900.0), ({"skipped_at": 5.0, "snoozed_until": 6.0}, 5.0, 6.0), ({}, 20.0, 900.0)],
    ids=str)
def test_skip_and_snooze_leave_each_other_alone(change, skipped_at, snoozed_until):
    s = session("a", 1, skipped_at=20.0, snoozed_until=900.0)
    wait = tb.put_off(board(s), "a", **change).sessions["a"].wait
    assert (wait.skipped_at, wait.snoozed_until) == (skipped_at, snoozed_until)


def test_skip_goes_round():
    b = board(A, B, C)
    heads = []
    for n in range(6):
        head = tb.waiting(b, NOW)[0]
        heads.append(head.session_id)
        b = tb.put_off(b, head.session_id, skipped_at=NOW + n)
    assert "".join(heads) == "abcabc"


# -- what an ID means --------------------------------------------------------------------------------------------------

LONG = "62e46ee1-5f51-49f1-8655-7c7156d2a9a6"
KNOWN = [session(LONG, pane_id="%1"), session("62e4ffff-0000", pane_id="%2"), session("abc", pane_id="%11"),
         session("abcdef", pane_id="%3"), session("gone-1", state="gone", ended_at=5.0),
         session("gone-2", state="gone", ended_at=5.0), session("go", pane_id="%4"),
         session("-rf", state="gone", ended_at=5.0)]


@pytest.mark.parametrize("wanted, found", [
    (LONG, LONG), (LONG[:8], LONG), ("62e46", LONG), ("62e4f", "62e4ffff-0000"), ("abc", "abc"), ("abcd", "abcdef"),
    ("%1", LONG), ("%11", "abc"), ("%4", "go"), ("gone-1", "gone-1"), ("go", "go"), ("g", "go"), ("-", "-rf")])
def test_find(wanted, found):
    assert tb.find(KNOWN, wanted).session_id == found


@pytest.mark.parametrize("wanted", ["", "%", "%9", "%01", "%1 ", "x", LONG + "0", LONG.upper(),
                                    "62e46ee1-5f51-49f1-8655-7c7156d2a9a7",
                                    "2e46", ".", "*", "a.c", "\x1b[31m", "%é", "\ud83d"])
def test_nothing_has_that_id(wanted):
    with pytest.raises(tb.Fault, match="no session (has the ID|is known in the pane %[0-9]+;)") as fault:
        tb.find(KNOWN, wanted)
    assert "list --all" in str(fault.value) and fault.value.code == 1 and "\x1b" not in str(fault.value)
    with pytest.raises(tb.Fault, match="no session"):
        tb.find([], wanted)


@pytest.mark.parametrize("wanted, named", [
    ("62e4", ["62e46ee1 in %1", "62e4ffff in %2"]), ("ab", ["abc in %11", "abcdef in %3"]),
    ("gone", ["gone-1 in no pane", "gone-2 in no pane"])])
def test_an_id_that_several_have(wanted, named):
    with pytest.raises(tb.Fault) as fault:
        tb.find(KNOWN, wanted)
    assert str(fault.value) == "%r could be %s: give more of the session id" % (wanted, ", ".join(named))


def test_a_pane_id_that_two_servers_have():
    with pytest.raises(tb.Fault, match="'%0' could be a in %0, b in %0: give more of the session id"):
        tb.find([session("a", pane=pane("%0")), session("b", pane=pane("%0", "/tmp/other"))], "%0")


def test_ids_that_differ_late_are_told_apart():
    with pytest.raises(tb.Fault, match="62e46ee1-5f51-1x.* in no pane, 62e46ee1-5f51-2x"):
        tb.find([session("62e46ee1-5f51-1xyz"), session("62e46ee1-5f51-2xyz")], "62e46ee1-5f51-")


def test_many_candidates_are_not_all_named():
    with pytest.raises(tb.Fault, match="s0 in no pane, .*s4 in no pane and 195 more: give more"):
        tb.find([session("s%d" % n) for n in range(200)], "s")
    with pytest.raises(tb.Fault, match="s4 in no pane: give more"):
        tb.find([session("s%d" % n) for n in range(5)], "s")


# -- a span of time ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, seconds", [
    ("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("2d", 172800.0), ("1d1h1m1s", 90061.0), ("0s", 0.0),
    ("007m", 420.0), ("999999d", 86399913600.0),
    ("", None), ("10", None), ("m", None), ("10 m", None), (" 10m", None), ("10m ", None), ("10m\n", None),
    ("1.5h", None), ("-5m", None), ("+5m", None), ("10M", None), ("10w", None), ("10ms", None), ("1h30", None),
    ("h30m", None), ("1e3s", None), ("1234567s", None), ("١٠m", None), ("%5", None), ("10min", None),
    ("9" * 5000 + "s", None), ("soon", None)])
def test_parse_span(text, seconds):
    assert tb.parse_span(text) == seconds

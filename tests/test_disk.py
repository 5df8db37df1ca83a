"""Section 8: what is written survives, and what is read may be anything. Real files throughout."""
import contextlib
import json
import os
import pwd
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from support import event, record, tb

PANE = tb.Pane("/tmp/tmux-0/default", 4242, "%7")
RICH = tb.Session(
    "0a1b", first_at=1.25, entrypoint="cli", kind="bg", config="/home/Å/.claude", cwd="/w/ü\udcff", project_dir="/w",
    transcript_path="/home/Å/.claude/projects/w/0a1b.jsonl", title="tïtle\u2028\x1b[31m", permission_mode="plan",
    process=tb.Process(77, "123456", "/dev/pts/3"), claim=PANE, claimed_at=2.5, pane=PANE, uncertain=True, heard_at=3.5,
    says="stuck", fact="Stop", turn_at=3.0, turn_open=True, had_turn=True, queued=True, prompt="\ud800 half a letter",
    last_message="done\x00", background=2, agents=("a1", "a2"),
    asks=(tb.Ask("", "", "permission", "Bash", {"command": "ls", "deep": {"n": [1, 2.5, None, True, 10 ** 30]}}, 4.0),
          tb.Ask("a1", "Explore", "question", "AskUserQuestion", {"questions": [{"question": "?"}]}, 4.5)),
    asked_at=4.5, end=tb.End("stopped", 5.0, "text", True),
    results=((4.0, "", "Bash", {"command": "ls"}),), heard="Stop", decision="allowed by the person", decided_at=5.4, prompt_id="p1", prompt_at=2.75, prompt_told="paint",
    told_at=5.5, tells="failed", told="an API error", told_text="Overloaded", turn_told=True, by_machine=True,
    stop_due=True, agents_at=5.25,
    record=record("0a1b", "waiting", at=6.0, pid=77, waiting_for="permission prompt", foreign=True), silent=True, answered_at=1.0,
    before=record("0a1b", "busy", at=5.0),
    state="stuck", witness="record", why="record: waiting", state_at=6.0,
    wait=tb.Wait("permission", 4.0, "ls", "Bash", {"command": "ls"}, "Explore", "hook", "PermissionRequest", 4.0, 4.1, 9e9),
    last_wait=tb.Wait("error", 1.0, "overloaded"), ended_at=0.0)


@contextlib.contextmanager
def as_nobody():
    """A folder whose owner we are for the while, without root's rights: root may write anywhere."""
    folder = Path(tempfile.mkdtemp())
    uid = os.geteuid()
    try:
        if uid == 0:
            os.chown(str(folder), 65534, -1)
            os.seteuid(65534)
        yield folder
    finally:
        os.seteuid(uid)
        shutil.rmtree(str(folder))


def open_files():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def within(seconds, action):
    """What an action gives, which must end by itself: a FIFO that is waited for would never."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(action()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert answers, "it did not return within %s s" % seconds
    return answers[0]


# ---- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env, home", [
    ({"TRAILBOSS_HOME": "/a/b/", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/a/b"),
    ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/trailboss"),
    ({"TRAILBOSS_HOME": "", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/trailboss"),
    ({"HOME": "/h and s/"}, "/h and s/.local/state/trailboss")])
def test_state_home(env, home):
    assert tb.state_home(env) == home


@pytest.mark.parametrize("env", [{}, {"HOME": ""}])
def test_without_a_usable_home_the_password_database_has_one(env, monkeypatch):
    monkeypatch.setenv("HOME", "/not/this/one")  # `env` is what counts, not what this process has
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert tb.state_home(env) == os.path.join(home, ".local/state/trailboss")
    assert tb.config_folder(env) == os.path.join(home, ".claude")


def test_person_without_any_home(monkeypatch):
    def unknown(uid):
        raise KeyError(uid)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for env in ({}, {"HOME": "relative"}):
        with pytest.raises(tb.Fault, match="HOME"):
            tb.state_home(env)
    assert tb.state_home({"TRAILBOSS_HOME": "/s"}) == "/s"


def test_make_private_closes_a_folder_to_others(tmp_path):
    old = os.umask(0)
    try:
        for folder in (tmp_path / "new" / "state", tmp_path / "open"):
            if folder.name == "open":
                folder.mkdir(mode=0o777)
            assert tb.make_private(str(folder)) == str(folder)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_make_private_says_what_to_do_where_it_can_not(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(tb.Fault, match="TRAILBOSS_HOME") as raised:
            tb.make_private(str(folder))
        assert str(folder) in str(raised.value) and raised.value.code == 1
    with as_nobody() as folder:
        folder.chmod(0o500)
        with pytest.raises(tb.Fault, match="TRAILBOSS_HOME"):
            tb.make_private(str(folder / "state"))


# ---- files -------------------------------------------------------------------------------------------------------------


def test_replace_file_replaces_content_and_mode(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old and longer")
    path.chmod(0o644)
    tb.replace_file(str(path), b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    old = os.umask(0o077)
    try:
        tb.replace_file(str(path), b"newer", 0o755)
    finally:
        os.umask(old)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"newer", 0o755)
    assert os.listdir(str(tmp_path)) == ["f"]


@pytest.mark.parametrize("broken", ["write", "chmod", "replace"])
def test_replace_file_that_fails_leaves_all_as_it_was(tmp_path, monkeypatch, broken):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    class FullDisk:
        def __init__(self, fd, mode):
            os.close(fd)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, data):
            raise OSError(28, "No space left on device")

    def fail(*_):
        raise OSError(5, "Input/output error")
    with monkeypatch.context() as patch:
        patch.setattr(tb.os, "fdopen" if broken == "write" else broken, FullDisk if broken == "write" else fail)
        with pytest.raises(OSError):
            tb.replace_file(str(path), b"new")
    assert path.read_bytes() == b"old" and os.listdir(str(tmp_path)) == ["f"]


def test_replace_file_where_nothing_can_be_written(tmp_path):
    with pytest.raises(OSError):
        tb.replace_file(str(tmp_path / "no such folder" / "f"), b"new")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        tb.replace_file(str(tmp_path / "folder"), b"new")
    assert os.listdir(str(tmp_path)) == ["folder"]


def odd_files(folder):
    """Whatever may lie where a file is looked for, and is none."""
    folder.mkdir(exist_ok=True)
    os.mkfifo(str(folder / "fifo"))
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "tty").symlink_to("/dev/tty")
    return [str(path) for path in sorted(folder.iterdir())] + [str(folder / "absent"), str(folder / "fifo" / "below")]


def test_read_file_gives_regular_files_only(tmp_path):
    paths = odd_files(tmp_path / "odd")
    before = open_files()
    for path in paths:
        assert within(5, lambda: [tb.read_file(path)]) == [None], path
    assert open_files() == before, "files are left open"
    (tmp_path / "f").write_bytes(b"0123456789")
    assert tb.read_file(str(tmp_path / "f")) == b"0123456789"
    assert tb.read_file(str(tmp_path / "f"), 4) == b"0123"
    assert tb.read_file("odd\0name") is None and tb.read_file("odd\ud800name") is None


def test_token_is_made_once_and_private(tmp_path):
    token = tb.token_of(str(tmp_path))
    assert len(token) == 64 and tb.token_of(str(tmp_path)) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    (tmp_path / "token").write_text(token + "\n")
    assert tb.token_of(str(tmp_path)) == token


@pytest.mark.parametrize("broken", [b"", b"short", b"\xff\xfe", b"0" * 63, b"0" * 65, b"0" * 64 + b"\nurl = x"])
def test_broken_token_is_made_anew(tmp_path, broken):
    (tmp_path / "token").write_bytes(broken)
    token = tb.token_of(str(tmp_path))
    assert len(token) == 64 and set(token) <= set("0123456789abcdef") and token.encode() != broken


# ---- the database ------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    made = tb.Store(str(tmp_path / "trailboss.db"))
    yield made
    made.db.close()


def reopened(store):
    store.db.close()
    store.__init__(store.path)
    return store.load()


def test_every_field_of_a_session_comes_back(store):
    plain = tb.Session("1")
    assert [name for name in tb.Session._fields if getattr(RICH, name) == getattr(plain, name) and name != "ended_at"] \
        == ["entrypoint"], "RICH must differ from a new session in every field"
    board = tb.Board({RICH.session_id: RICH, "1": plain})
    store.save(tb.Board(), board, [event("Stop", event_id="e1"), event("Stop")], 10.0)
    assert reopened(store).sessions == board.sessions
    assert store.knows("e1") and not store.knows("") and not store.knows("e2")
    history = store.db.execute("SELECT session_id, state, reason, since FROM history ORDER BY session_id").fetchall()
    assert ("0a1b", "stuck", "permission", 4.0) in history


def test_saved_board_follows_changes_and_forgets(store):
    first = tb.Board({"a": tb.Session("a"), "b": tb.Session("b")})
    store.save(tb.Board(), first, [], 1.0)
    second = tb.Board({"a": tb.Session("a", title="new")})
    store.save(first, second, [], 2.0)
    assert reopened(store).sessions == second.sessions


def test_odd_text_does_not_stop_a_save(store):
    odd = RICH._replace(wait=RICH.wait._replace(text="\ud800", fact="\udcff"), why="\ud800 \x00")
    store.save(tb.Board(), tb.Board({odd.session_id: odd}), [event("Stop", event_id="e\udcff")], 1.0)
    assert store.knows("e\udcff") and not store.knows("e\udcfe")
    assert reopened(store).sessions == {odd.session_id: odd}


def test_save_is_whole_or_nothing(store):
    store.save(tb.Board(), tb.Board({"a": tb.Session("a")}), [], 1.0)
    bad = tb.Session("b", title=object())
    with pytest.raises(TypeError):
        store.save(tb.Board({"a": tb.Session("a")}), tb.Board({"b": bad}), [event("Stop", event_id="e")], 2.0)
    assert set(reopened(store).sessions) == {"a"} and not store.knows("e")


def test_unknown_and_missing_fields_are_no_matter(store):
    value = tb.plain(RICH)
    value["of a later version"] = {"x": 1}
    value["wait"]["later"] = value["process"]["later"] = value["asks"][0]["later"] = 1
    for gone in ("title", "agents", "had_turn", "last_wait"):
        del value[gone]
    del value["wait"]["snoozed_until"]
    put(store, "0a1b", json.dumps(value))
    assert reopened(store).sessions["0a1b"] == RICH._replace(
        title="", agents=(), had_turn=False, last_wait=None, wait=RICH.wait._replace(snoozed_until=0.0))


def put(store, session_id, value):
    with store.db:
        store.db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (session_id, value))


@pytest.mark.parametrize("value", [
    "", "{", "null", "[]", "5", '"text"', "{}", "[" * 100_000, b"\xff\xfe", '{"session_id": "bad", "asks": 5}',
    '{"session_id": "bad", "asks": [5]}', '{"session_id": "bad", "asks": [{}]}', '{"session_id": "bad", "agents": null}',
    '{"session_id": "bad", "wait": {"since": 1}}', '{"session_id": "bad", "wait": "long"}',
    '{"session_id": "bad", "process": [1, 2]}', '{"session_id": "bad", "record": true}',
    '{"session_id": "bad", "heard_at": "soon"}', '{"session_id": "other"}', '{"session_id": 5}'])
def test_unreadable_row_is_passed_over(store, value, capfd):
    put(store, "good", json.dumps(tb.plain(tb.Session("good"))))
    put(store, "bad", value)
    assert set(reopened(store).sessions) == {"good"}
    assert "session bad" in capfd.readouterr().err
    tb.observe(store.load(), tb.World(), 10.0)


def test_row_that_is_no_text_is_passed_over(store):
    put(store, "good", json.dumps(tb.plain(tb.Session("good"))))
    with store.db:
        store.db.execute("INSERT INTO sessions VALUES ('bad', CAST(x'ff7b' AS TEXT))")
    assert set(reopened(store).sessions) == {"good"}


def test_prune_keeps_what_is_young(store):
    day = 86400.0
    boards = [tb.Board(), *(tb.Board({"a": RICH._replace(session_id="a", wait=RICH.wait._replace(since=at, at=at))})
                            for at in (1.0, 80 * day))]
    store.save(boards[0], boards[1], [event("Stop", event_id="old", at=1.0)], 1.0)
    store.save(boards[1], boards[2], [event("Stop", event_id="new", at=99 * day)], 80 * day)
    store.prune(100 * day)
    assert not store.knows("old") and store.knows("new")
    assert store.db.execute("SELECT since FROM history").fetchall() == [(80 * day,)]


@pytest.mark.parametrize("content", [b"this is no database" * 1000, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8000])
def test_corrupt_database_is_put_aside(tmp_path, content, capfd):
    path = tmp_path / "trailboss.db"
    path.write_bytes(content)
    store = tb.Store(str(path))
    store.save(tb.Board(), tb.Board({"a": tb.Session("a")}), [], 1.0)
    assert set(reopened(store).sessions) == {"a"}
    store.db.close()
    aside = [p for p in tmp_path.iterdir() if p.read_bytes() == content]
    said = capfd.readouterr().err
    assert len(aside) == 1 and str(aside[0]) in said and said.count("\n") == 1


def filled(path):
    """A database as it is in use, as bytes."""
    store = tb.Store(str(path))
    for n in range(60):
        sessions = {"s%d" % n: tb.Session("s%d" % n, state="stuck", wait=tb.Wait("stopped", 9.0, "x" * 500))}
        store.save(tb.Board(), tb.Board(sessions), [event("Stop", "s%d" % n, event_id="e%d" % n)], 10.0)
    store.db.close()
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("where", ["index", "schema", "write version", "schema format"])
def test_database_with_one_bad_byte_is_put_aside(tmp_path, where, capfd):
    path = tmp_path / "trailboss.db"
    data = filled(path)
    with contextlib.closing(sqlite3.connect(str(path))) as db:
        root, = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_session'").fetchone()
        size, = db.execute("PRAGMA page_size").fetchone()
    spot = {"index": root * size - 12, "schema": data.index(b"CREATE INDEX events_by") + 3, "write version": 18,
            "schema format": 47}[where]
    data[spot] = 0xff
    path.write_bytes(bytes(data))
    store = tb.Store(str(path))
    assert reopened(store).sessions == {} and "put aside" in capfd.readouterr().err
    store.prune(1e12)
    store.db.close()


def test_database_that_breaks_under_the_daemon_is_put_aside_and_all_is_saved_anew(store, capfd):
    board = tb.Board({"a": tb.Session("a")})
    store.save(tb.Board(), board, [], 1.0)
    write, broken = store.write, [sqlite3.DatabaseError("database disk image is malformed")]

    def fail_once(*given):
        if broken:
            raise broken.pop()
        return write(*given)
    store.write = fail_once
    both = tb.Board({**board.sessions, "b": tb.Session("b")})
    store.save(board, both, [event("Stop", event_id="e1")], 2.0)
    said = capfd.readouterr().err
    assert "put aside" in said and "malformed" in said and store.knows("e1")
    assert reopened(store).sessions == both.sessions


def test_database_with_a_broken_page_is_put_aside(tmp_path, capfd):
    path = tmp_path / "trailboss.db"
    store = tb.Store(str(path))
    board = tb.Board({"s%d" % n: tb.Session("s%d" % n, title="x" * 2000) for n in range(50)})
    store.save(tb.Board(), board, [], 1.0)
    store.db.close()
    data = bytearray(path.read_bytes())
    data[-8192:] = os.urandom(8192)
    data[20000:28000] = os.urandom(8000)
    path.write_bytes(bytes(data))
    tb.Store(str(path)).db.close()
    assert "put aside" in capfd.readouterr().err
    assert any(p.read_bytes() == bytes(data) for p in tmp_path.iterdir())


def test_database_that_can_not_be_opened_is_a_fault(tmp_path):
    (tmp_path / "trailboss.db").mkdir()
    with pytest.raises(tb.Fault, match="trailboss.db"):
        tb.Store(str(tmp_path / "trailboss.db"))
    assert (tmp_path / "trailboss.db").is_dir()
    with as_nobody() as folder:
        tb.Store(str(folder / "trailboss.db")).db.close()
        (folder / "trailboss.db").chmod(0o400)
        folder.chmod(0o500)
        with pytest.raises(tb.Fault, match="trailboss.db"):
            tb.Store(str(folder / "trailboss.db"))


def test_locked_database_is_a_fault_and_stays(tmp_path, monkeypatch):
    path = tmp_path / "trailboss.db"
    tb.Store(str(path)).db.close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "timeout": 0.1}))
    holder = connect(str(path), isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(tb.Fault, match="locked"):
        tb.Store(str(path))
    holder.close()
    assert sorted(p.name for p in tmp_path.iterdir() if "aside" in p.name or "corrupt" in p.name) == []


# ---- the spool ---------------------------------------------------------------------------------------------------------


def spool(home, name, content):
    (home / "spool").mkdir(exist_ok=True)
    (home / "spool" / name).write_bytes(content)
    return home / "spool" / name


def test_spool_is_read_by_name_with_headers_and_payload(tmp_path):
    assert tb.take_spool(str(tmp_path)) == []
    spool(tmp_path, "20.5-7.event", b"X-Event-Id: 20.5-7\nX-Event-Time: 20.5\n\n{\"b\": 1}\n\nmore")
    spool(tmp_path, "10.5-7.event", b"X-Event-Id: 10.5-7\nX-Claude-Config: /c: \xff\n\n{}")
    spool(tmp_path, "15.5-7.tmp", b"X-Event-Id: half")
    spool(tmp_path, "readme.txt", b"X: y\n\n{}")
    first, second = tb.take_spool(str(tmp_path))
    assert first[0].endswith("10.5-7.event") and second[0].endswith("20.5-7.event")
    assert first[1]["x-claude-config"] == "/c: \udcff", "a path that is no text arrives as it does by HTTP"
    assert second[1:] == ({"x-event-id": "20.5-7", "x-event-time": "20.5"}, b'{"b": 1}\n\nmore')


def test_event_without_a_time_has_its_files(tmp_path):
    path = spool(tmp_path, "a.event", b"X-Event-Id: 1\n\n{}")
    os.utime(str(path), (1000.5, 1000.5))
    assert float(tb.take_spool(str(tmp_path))[0][1]["x-event-time"]) == 1000.5


def test_event_without_an_id_has_its_files_name(tmp_path):
    """It may be read twice: kill -9 can come between saving and deleting."""
    spool(tmp_path, "12-3.event", b"X-Event-Time: 5\n\n{}")
    assert tb.take_spool(str(tmp_path))[0][1]["x-event-id"] == "12-3"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no header", b"X-Event-Id: 1", b"X-Event-Id: 1\n\n", b"\0" * 5000,
                                     b"\xff\xfe\n\n{", b": : :\n\n[]", b"X-Event-Time: never\n\n{\"hook_event_name\": 5}"])
def test_half_and_odd_spool_files_are_no_events(tmp_path, content):
    spool(tmp_path, "1.event", content)
    (_, headers, body), = tb.take_spool(str(tmp_path))
    with pytest.raises(tb.Fault):
        tb.parse_event(body, headers, 1.0)


def test_spool_passes_over_what_is_no_file(tmp_path):
    before = open_files()
    for path in odd_files(tmp_path / "spool")[:-2]:
        os.rename(path, path + ".event")
    spool(tmp_path, "1.event", b"\n\n{}")
    found = within(5, lambda: tb.take_spool(str(tmp_path)))
    assert [os.path.basename(path) for path, _, _ in found] == ["1.event"]
    assert open_files() == before


def written(home):
    return sorted(path.name for path in (home / "spool").iterdir())


def test_written_event_reads_back(tmp_path):
    old = os.umask(0)
    try:
        tb.write_spool(str(tmp_path / "state"), {"X-Event-Id": "10.5-7", "X-Claude-Config": "/\udcff: é"}, b"{}\n\n\xff")
    finally:
        os.umask(old)
    (_, headers, body), = tb.take_spool(str(tmp_path / "state"))
    assert (headers["x-event-id"], headers["x-claude-config"], body) == ("10.5-7", "/\udcff: é", b"{}\n\n\xff")
    for path in (tmp_path / "state", tmp_path / "state" / "spool"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / "spool" / "10.5-7.event").stat().st_mode) == 0o600


def test_written_spool_keeps_the_newest_500(tmp_path):
    for n in range(520):
        spool(tmp_path, "%04d-1.event" % n, b"\n\n{}")
    spool(tmp_path, "not ours.txt", b"")
    tb.write_spool(str(tmp_path), {"X-Event-Id": "0520-1"}, b"{}")
    assert written(tmp_path) == ["%04d-1.event" % n for n in range(21, 521)] + ["not ours.txt"]


def test_written_spool_has_a_size(tmp_path):
    for n in range(10):
        path = spool(tmp_path, "%04d-1.event" % n, b"\n\n")
        os.truncate(str(path), 12 * 1024 * 1024)
    tb.write_spool(str(tmp_path), {"X-Event-Id": "0010-1"}, b"{}")
    assert written(tmp_path) == ["%04d-1.event" % n for n in range(5, 11)]


def test_event_too_big_for_the_disk_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(tb.os, "replace", fail)
    with pytest.raises(OSError):
        tb.write_spool(str(tmp_path), {"X-Event-Id": "1-1"}, b"{}")
    assert written(tmp_path) == []


# ---- Claude Code's records ---------------------------------------------------------------------------------------------

GOOD = {"pid": 77, "sessionId": "s1", "status": "idle", "statusUpdatedAt": 5000}


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config" / "sessions").mkdir(parents=True)
    return tmp_path / "config"


def put_record(config, file="77.json", content=None, **fields):
    data = json.dumps({**GOOD, **fields}).encode() if content is None else content
    (config / "sessions" / file).write_bytes(data)


def look(config, records=None):
    return within(5, lambda: (records or tb.Records()).look([str(config)]))


def test_record_is_read_and_read_again_when_it_changed(config):
    records = tb.Records()
    assert look(config, records) == []
    put_record(config)
    assert [(r.pid, r.session_id, r.status, r.at, r.config) for r in look(config, records)] \
        == [(77, "s1", "idle", 5.0, str(config))]
    put_record(config, status="busy")  # as long as before, and maybe within one tick of the file system's clock
    assert [r.status for r in look(config, records)] == ["busy"]
    (config / "sessions" / "77.json").unlink()
    assert look(config, records) == []


def test_change_that_the_file_system_does_not_show_is_seen(config):
    """Two writes within one tick of a file system's clock look like one (a few milliseconds; on some a second)."""
    records = tb.Records()
    put_record(config, status="idle")
    st = os.stat(str(config / "sessions" / "77.json"))
    look(config, records)
    put_record(config, status="busy")
    os.utime(str(config / "sessions" / "77.json"), ns=(st.st_atime_ns, st.st_mtime_ns))
    assert [r.status for r in look(config, records)] == ["busy"]


def test_unchanged_record_is_not_read_again(config, monkeypatch):
    records = tb.Records()
    put_record(config)
    os.utime(str(config / "sessions" / "77.json"), (1000, 1000))
    assert len(look(config, records)) == 1
    monkeypatch.setattr(tb, "read_file", None)
    assert len(look(config, records)) == 1


@pytest.mark.parametrize("content", [
    b"", b"{", b"null", b"[]", b"5", b'"x"', b"\xff\xfe\x00", b"\0" * 4096, b"[" * 100_000, b'{"pid": 77}',
    b'{"sessionId": "s1"}', b'{"pid": "77", "sessionId": "s1"}', b'{"pid": true, "sessionId": "s1"}',
    b'{"pid": -1, "sessionId": "s1"}', b'{"pid": ' + b"9" * 5000 + b', "sessionId": "s1"}',
    b'{"pid": 77, "sessionId": ["s1"]}', b'{"pid": 77, "sessionId": "../../etc/passwd"}', b'{"pid": 77, "sessionId": ""}'])
def test_odd_record_is_no_record(config, content):
    put_record(config, "1.json", content)
    put_record(config)
    assert [r.pid for r in look(config)] == [77]


@pytest.mark.parametrize("field", sorted(GOOD) + ["updatedAt", "startedAt", "procStart", "cwd", "kind", "name", "waitingFor",
                                                  "entrypoint", "pidDomain", "nameSource"])
@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 1e308, True, "\ud800\0"])
def test_odd_value_in_a_record_is_no_error(config, field, value):
    put_record(config, **{field: value})
    for r in look(config):
        board = tb.take_stranger(tb.Board(), r, tb.Process(77, "1"), "")
        board = tb.observe(board, tb.World({77: r}, {77: tb.Process(77, "1")}), 100.0)
        json.dumps(tb.plain(board.sessions[r.session_id]))


def test_what_is_no_record_file_is_never_opened(config, monkeypatch):
    for n, path in enumerate(odd_files(config / "sessions")[:-2]):
        os.rename(path, str(config / "sessions" / ("%d.json" % n)))
    put_record(config)
    put_record(config, "77.0a1b2c.key", b"secret")
    put_record(config, "77.json.key")
    put_record(config, "77.json.tmp", b"half")
    opened = []
    real = os.open

    def watch(path, *more, **options):
        opened.append(str(path))
        return real(path, *more, **options)
    monkeypatch.setattr(tb.os, "open", watch)
    before = open_files()
    assert [r.pid for r in look(config)] == [77]
    assert open_files() == before
    assert opened and [path for path in opened if not path.endswith(".json")] == []


@pytest.mark.parametrize("folder", ["nowhere", "fi\0fo", "\ud800", "file"])
def test_folder_that_is_not_there_has_no_records(config, folder):
    records = tb.Records()
    put_record(config)
    (config / "file").write_text("")
    assert [r.pid for r in records.look([str(config / folder), str(config)])] == [77]
    shutil.rmtree(str(config))
    assert records.look([str(config / folder), str(config)]) == []


def test_record_that_vanishes_meanwhile_is_no_error(config, monkeypatch):
    put_record(config)
    monkeypatch.setattr(tb, "read_file", lambda *_: None)
    assert look(config) == []


# ---- Claude Code's transcripts -----------------------------------------------------------------------------------------

NOW = "2026-11-30T12:00:00.000Z"


def said(text, **more):
    return json.dumps({"type": "assistant", "sessionId": "s1", "timestamp": NOW,
                       "message": {"content": [{"type": "text", "text": text}]}, **more}, ensure_ascii=False).encode(
                           "utf-8", "surrogatepass")


def transcript(config, content, name="s1.jsonl"):
    path = config / "projects" / "-w" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def read(config, path):
    return within(5, lambda: tb.read_context(str(path), "s1", [str(config), str(config / "other")]))


def test_context_is_read_from_a_projects_folder(config):
    path = transcript(config, said("one") + b"\n" + said("two") + b"\n")
    context = read(config, path)
    assert context.message == "two" and [text for _, text in context.lines] == ["one", "two"]
    (config.parent / "elsewhere").symlink_to(config / "projects", target_is_directory=True)
    assert read(config, config.parent / "elsewhere" / "-w" / "s1.jsonl").message == "two"


def test_linked_projects_folder_is_followed(config, tmp_path):
    path = transcript(config, said("mine") + b"\n")
    (config / "projects").rename(tmp_path / "dotfiles")
    (config / "projects").symlink_to(tmp_path / "dotfiles", target_is_directory=True)
    assert read(config, path).message == "mine"


def test_path_that_leads_elsewhere_is_not_read(config, tmp_path):
    path = Path(transcript(config, said("mine") + b"\n"))
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(said("secret") + b"\n")
    evil = tmp_path / "config-evil" / "projects" / "-w" / "s1.jsonl"
    evil.parent.mkdir(parents=True)
    beside = config / "projects-evil" / "s1.jsonl"
    beside.parent.mkdir()
    for copy in (evil, beside, config / "s1.jsonl"):
        shutil.copy(str(secret), str(copy))
    (path.parent / "link.jsonl").symlink_to(secret)
    (path.parent / "folder").symlink_to(tmp_path, target_is_directory=True)
    for odd in (secret, evil, beside, config / "s1.jsonl", path.parent / "link.jsonl", path.parent / "folder" / "secret.jsonl",
                path.parent / ".." / ".." / ".." / "secret.jsonl", "/etc/passwd", "", "relative.jsonl", config / "projects"):
        assert read(config, odd) == tb.Context(), odd


def test_path_that_is_no_file_is_not_read(config):
    odd = odd_files(config / "projects")
    before = open_files()
    for path in odd + [str(config / "projects" / name) for name in ("a\0b", "a\ud800b", "x" * 5000)]:
        assert read(config, path) == tb.Context(), path
    assert open_files() == before


def test_line_that_is_not_whole_yet_is_not_read(config):
    path = transcript(config, said("whole") + b"\n" + said("half")[:-4])
    assert read(config, path).message == "whole"
    assert read(config, transcript(config, said("no end yet"))) == tb.Context()
    assert read(config, transcript(config, b"")) == tb.Context()


def test_only_the_end_of_a_huge_file_is_read(config):
    path = transcript(config, said("first") + b"\n")
    with open(path, "r+b") as file:
        file.truncate(8 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"\n".join(said("line %d" % n) for n in range(20_000)) + b"\n")
    context = read(config, path)
    assert context.message == "line 19999" and len(context.lines) == 40
    os.truncate(path, 0)


def test_end_without_a_whole_line_is_no_context(config):
    assert read(config, transcript(config, said("x" * (5 << 20)) + b"\n")) == tb.Context()


def test_file_that_shrinks_meanwhile_is_no_error(config, monkeypatch):
    path = transcript(config, said("whole") + b"\n")
    real = os.fstat

    def longer(fd):
        st = real(fd)
        return os.stat_result(st[:6] + (st.st_size + (1 << 30),) + st[7:])
    monkeypatch.setattr(tb.os, "fstat", longer)
    assert read(config, path) == tb.Context()


@pytest.mark.parametrize("odd", [
    b"\xff\xfe\x80", b"\0" * 4096, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"null", b"5", b"[]", b"",
    b'{"type": "assistant", "message": {"content": ' + b"9" * 5000 + b"}}", b'{"type": "assistant", "message": 5}',
    b'{"type": "assistant", "message": {"content": {"type": "text"}}}', b'{"type": ["assistant"]}',
    b'{"type": "assistant", "message": {"content": [5, null, {"type": "text", "text": 5}, {"type": []}]}}',
    b'{"type": "assistant", "message": {"content": [{"type": "tool_use", "id": 5, "name": [], "input": "x"}]}}',
    b'{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": {}, "content": [5, {"text": 5}]}]}}',
    b'{"type": "assistant", "timestamp": 5, "message": {"content": "\\ud800 half"}}',
    b'{"type": "assistant", "timestamp": "9999-99-99T", "message": {"content": "x"}}'])
def test_odd_line_costs_only_itself(config, odd):
    path = transcript(config, said("before") + b"\n" + odd + b"\n" + said("after") + b"\n")
    context = read(config, path)
    assert context.message == "after" and ("claude", "before") in context.lines
    json.dumps(tb.plain(context))


def test_odd_text_stays_within_its_line(config):
    for text in ("a\u2028b\u2029c\x85d", "tab\tand \x1b[31m", "\x0b\x0c\x1c\x1d\x1e"):
        path = transcript(config, said("before " + text) + b"\n" + said(text + " after") + b"\n")
        assert read(config, path).message == (text + " after").strip()
    path = transcript(config, said("\ud800 lone") + b"\n" + said("\x00nul") + b"\n")
    assert read(config, path).message == "\x00nul"


def test_newest_transcript_of_a_session_is_found(config):
    transcript(config, b"")
    other = config / "projects" / "[odd] *?" / "s1.jsonl"
    other.parent.mkdir()
    other.write_bytes(b"")
    os.utime(str(other), (5e9, 5e9))
    assert tb.find_transcript([str(config)], "s1") == str(other)
    assert tb.find_transcript([str(config)], "s2") == ""
    assert tb.find_transcript(["/no\0where"], "s1") == "" and tb.find_transcript([], "s1") == ""


def test_transcript_that_vanishes_while_it_is_looked_for(config, monkeypatch):
    transcript(config, b"")

    def gone(path):
        raise FileNotFoundError(path)
    monkeypatch.setattr(tb.os.path, "getmtime", gone)
    assert tb.find_transcript([str(config)], "s1") == ""


def test_context_behind_a_long_line_of_claude_codes_own(tmp_path):
    """Claude Code 2.1.332 writes copies of whole requests: the last lines that say something may be far from the end."""
    path = tmp_path / "projects" / "p" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "Shall I go on?"}]}}
    blob = {"type": "api-request-blob", "message": {"content": "x" * 600_000}}
    path.write_text("{}\n" * 10 + json.dumps(said) + "\n" + json.dumps(blob) + "\n")
    assert tb.read_context(str(path), "s1", [str(tmp_path)]).message == "Shall I go on?"


# ---- transcripts that grow ---------------------------------------------------------------------------------------------

class Watched:
    """One transcript in a projects folder, and what is told of it look by look."""

    def __init__(self, config, content=b""):
        self.config, self.transcripts = config, tb.Transcripts()
        self.path = Path(transcript(config, content))

    def grow(self, data):
        with self.path.open("ab") as file:
            file.write(data)
        return self

    def new(self, path=None):
        """The texts of the lines that are new."""
        wanted = {("s1", ""): str(path or self.path)}
        told = within(20, lambda: self.transcripts.look(wanted, [str(self.config)]))
        return [line.text for line in told["s1", ""]]


def test_each_line_is_told_once_and_when_it_is_whole(config):
    watched = Watched(config, said("old") + b"\n")
    assert watched.new() == ["old"] and watched.new() == []
    assert watched.grow(said("one") + b"\n").new() == ["one"]
    whole = said("two")
    assert watched.grow(whole[:20]).new() == [] and watched.grow(whole[20:-1]).new() == []
    assert watched.grow(whole[-1:]).new() == []
    assert watched.grow(b"\n" + said("three")).new() == ["two"]
    assert watched.grow(b"\n").new() == ["three"] and watched.new() == []


def test_byte_by_byte_is_line_by_line(config):
    watched, told = Watched(config), []
    for byte in said("ä\u2028🐄") + b"\r\n" + b"\xef\xbb\xbf" + said("b") + b"\n":
        told += watched.grow(bytes([byte])).new()
    assert told == ["ä\u2028🐄", "b"]


@pytest.mark.parametrize("data, told", [
    (said("a") + b"\r\n" + said("b") + b"\r\n", ["a", "b"]), (said("a") + b"\r" + b"\n" + said("b") + b"\n", ["a", "b"]),
    (said("a\u2028b\u0085c\x0bd\re") + b"\n", ["a\u2028b\u0085c\x0bd\re"]),
    (said("a").replace(b'"a"', b'"a\xff"') + b"\n", ["a\ufffd"]),
    (b"\0" * 5000 + said("a") + b"\n", ["a"]), (b"\0" * 5000 + b"\n" + said("a") + b"\n", ["a"]),
    (said("x")[:30] + b"\n" + said("a") + b"\n", ["a"]), (b"\n\n \n" + said("a") + b"\n", ["a"]),
    (b"\xef\xbb\xbf" + said("a") + b"\n", ["a"])], ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("first", [True, False], ids=["first-look", "later"])
def test_what_lines_may_look_like(config, first, data, told):
    watched = Watched(config, b"" if not first else data)
    if not first:
        assert watched.new() == []
        watched.grow(data)
    assert watched.new() == told and watched.grow(said("next") + b"\n").new() == ["next"]


def test_two_entries_on_one_line_are_two(config):
    def entry(text):
        return b'{"parentUuid":null,' + said(text)[1:]
    assert Watched(config, entry("a") + entry("b") + b"\n").new() == ["a", "b"]
    assert Watched(config).grow(entry("a")[:-9] + entry("b") + b"\n").new() == ["b"]


def test_a_file_that_was_cut_off_is_begun_anew(config):
    watched = Watched(config, said("one") + b"\n" + said("two") + b"\n" + said("hal")[:30])
    assert watched.new() == ["one", "two"]
    watched.path.write_bytes(said("three") + b"\n")
    assert watched.new() == ["three"]
    watched.path.write_bytes(b"")
    assert watched.new() == [] and watched.grow(said("four") + b"\n").new() == ["four"]


def test_another_file_in_its_place_is_begun_anew(config):
    """Its old place is nothing in the new one, however long that is; nor is the half of a line."""
    watched = Watched(config, said("one") + b"\n" + said("half")[:40])
    assert watched.new() == ["one"]
    other = watched.path.with_name("aside")
    other.write_bytes(said("a" * 100) + b"\n" + said("b") + b"\n")
    other.rename(watched.path)
    assert watched.new() == ["a" * 100, "b"] and watched.grow(said("c") + b"\n").new() == ["c"]


def test_a_file_that_was_removed_and_is_back(config):
    watched = Watched(config, said("one") + b"\n")
    assert watched.new() == ["one"]
    watched.path.unlink()
    assert watched.new() == [] and watched.new() == []
    watched.path.write_bytes(said("two") + b"\n")  # the new file may get the old one's inode
    assert watched.new() == ["two"]
    assert watched.grow(said("three") + b"\n").new() == ["three"]


def test_forgotten_it_is_read_again(config):
    watched = Watched(config, said("one") + b"\n")
    assert watched.new() == ["one"] and watched.new() == []
    watched.transcripts.forget(str(watched.path))
    watched.transcripts.forget("/another")
    assert watched.new() == ["one"] and watched.new() == []


def test_one_that_is_not_wanted_any_more_is_begun_anew_later(config):
    watched = Watched(config, said("one") + b"\n")
    assert watched.new() == ["one"]
    assert watched.transcripts.look({}, [str(config)]) == {} and watched.transcripts.tails == {}
    assert watched.new() == ["one"]


def test_the_calls_are_known_from_one_look_to_the_next(config):
    def entry(kind, block):
        return json.dumps({"type": kind, "timestamp": NOW, "message": {"content": [block]}}).encode() + b"\n"
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    watched = Watched(config, entry("assistant", call))
    assert watched.new() == [""]
    watched.grow(entry("user", {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}))
    line, = watched.transcripts.look({("s1", ""): str(watched.path)}, [str(config)])["s1", ""]
    assert (line.kind, line.tool_name, line.tool_input) == ("result", "Bash", {"command": "ls"})


def test_where_a_transcript_is(config, tmp_path):
    transcripts, told = tb.Transcripts(), Path(transcript(config, b""))
    assert transcripts.where(str(told), [str(config)], "s1") == str(told)
    moved = told.parent.with_name("-moved") / told.name
    moved.parent.mkdir()
    told.rename(moved)
    assert transcripts.where(str(told), [str(config)], "s1") == str(moved)
    told.write_bytes(b"")
    assert transcripts.where(str(told), [str(config)], "s1") == str(told)
    assert transcripts.where("", [str(config)], "s1") in (str(told), str(moved))  # only its record tells of it
    for odd in ("/no\0where", "x" * 5000, str(tmp_path / "gone"), "relative"):
        assert transcripts.where(odd, [str(config)], "s2") == odd
    assert transcripts.where("", [], "s3") == ""


def test_a_transcript_that_is_not_there_is_looked_for_ever_more_rarely(config, monkeypatch):
    looked, clock = [], [1000.0]
    monkeypatch.setattr(tb, "find_transcript", lambda *_: looked.append(clock[0]) or "")
    monkeypatch.setattr(tb.time, "monotonic", lambda: clock[0])
    transcripts = tb.Transcripts()
    for _ in range(3000):  # ten minutes of ticks
        assert transcripts.where(str(config / "gone"), [str(config)], "s1") == str(config / "gone")
        clock[0] += 0.2
    pauses = [b - a for a, b in zip(looked, looked[1:])]
    assert 5 < len(looked) < 40 and pauses[0] < 2 and max(pauses) < 21 and pauses == sorted(pauses), looked


def test_a_transcript_is_found_at_once_where_its_folder_says(config, monkeypatch):
    transcripts = tb.Transcripts()
    path = config / "projects" / "-home-d-v--x-y" / "s1.jsonl"
    assert transcripts.where("", [str(config)], "s1", "/home/dév/.x y") == ""
    monkeypatch.setattr(tb, "find_transcript", lambda *_: 1 / 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert transcripts.where("", [str(config)], "s1", "/home/dév/.x y") == str(path)


def test_paths_that_lead_elsewhere_are_not_watched(config, tmp_path):
    watched = Watched(config, said("mine") + b"\n")
    before = open_files()
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(said("secret") + b"\n")
    evil = tmp_path / "config-evil" / "projects" / "w" / "s1.jsonl"
    evil.parent.mkdir(parents=True)
    shutil.copy(str(secret), str(evil))
    (config / "projects" / "link.jsonl").symlink_to(secret)
    (config / "projects" / "away").symlink_to(tmp_path, target_is_directory=True)
    inside = str(config / "projects")
    for path in [str(secret), str(evil), inside + "/link.jsonl", inside + "/away/secret.jsonl",
                 inside + "/../../secret.jsonl", "/dev/zero", "/dev/tty", "/etc/passwd", "relative", inside,
                 inside + "/a\0b", inside + "/a\ud800"]:
        assert watched.new(path) == [] and watched.new(path) == [], path
    for path in odd_files(config / "projects"):
        assert watched.new(path) == [] and watched.new(path) == [], path
    assert watched.new() == ["mine"] and open_files() == before


def test_one_that_can_not_be_read_is_told_once_it_can_be():
    with as_nobody() as folder:
        (folder / "config").mkdir()
        watched = Watched(folder / "config", said("one") + b"\n")
        watched.path.chmod(0)
        assert watched.new() == [] and watched.new() == []
        watched.path.chmod(0o600)
        assert watched.new() == ["one"]


def test_where_nothing_is_new_nothing_is_opened(config, monkeypatch):
    watched, opened, open_file = Watched(config, said("one") + b"\n" + said("ha")[:9]), [], tb.open_file
    monkeypatch.setattr(tb, "open_file", lambda *given: opened.append(given) or open_file(*given))
    assert watched.new() == ["one"] and len(opened) == 1
    for _ in range(20):
        assert watched.new() == []
    assert len(opened) == 1
    watched.grow(b"more").new()
    assert len(opened) == 2


def test_no_descriptor_is_left_open(config):
    watched, before = Watched(config, b""), open_files()
    for n in range(50):
        watched.grow(said("x") + b"\n").new()
        watched.new(config / "projects")
        watched.new("/dev/null")
    assert open_files() == before


HUGE = """
import json, os, resource, sys
sys.path.insert(0, sys.argv[1])
import trailboss as tb
config, kind = sys.argv[2:]
path = os.path.join(config, "projects", "-w", "s1.jsonl")
transcripts = tb.Transcripts()

def look():
    return [line.text[:20] for line in transcripts.look({("s1", ""): path}, [config])["s1", ""]]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform != "darwin" else 1 << 20)

def said(text):
    return json.dumps({"type": "assistant", "message": {"content": text}}).encode() + b"\\n"

with open(path, "wb") as file:
    file.write(said("first"))
    if kind == "sparse":
        file.seek(8 << 30)
        file.write(b"\\n" + said("end"))
told, before = look(), peak()
block = b"x" * (1 << 20)
with open(path, "ab") as file:
    if kind == "line":
        file.write(b'{"type": "assistant", "message": {"content": "')
        for _ in range(40):
            file.write(block)
        file.write(b'"}}\\n')
    elif kind == "growth":
        for _ in range(100):
            file.write(b'{"type": "api-request-blob", "x": "' + block[:1 << 19] + b'"}\\n' + said("y" * (1 << 19)))
    file.write(said("after"))
looks = 0
while looks < 50 and "after" not in told:
    told += look()
    looks += 1
at_end = transcripts.tails[path].place == os.stat(path).st_size
print(json.dumps([told[0], told[-1], len(told), looks, at_end, peak() - before]))
"""


@pytest.mark.parametrize("kind, told, most_looks", [("line", 2, 3), ("growth", 102, 5), ("sparse", 2, 1)])
def test_what_is_huge_costs_little_memory(config, kind, told, most_looks):
    """A line of 40 MB is passed over, 100 MB are read bit by bit, and of 8 GB only the end."""
    Watched(config)
    root = str(Path(tb.__file__).parent)
    done = subprocess.run([sys.executable, "-c", HUGE, root, str(config), kind], stdout=subprocess.PIPE, timeout=60,
                          check=True)
    first, last, count, looks, at_end, megabytes = json.loads(done.stdout.decode())
    assert (first, last, count, at_end) == ("end" if kind == "sparse" else "first", "after", told, True)
    assert looks <= most_looks and megabytes < 60, (looks, megabytes)


# ---- what no transcript should be ----------------------------------------------------------------------------------------

def real_lines():
    """Lines of the recordings' transcripts that are worth parsing, not too long."""
    files = sorted((Path(__file__).parent / "captures").glob("*/transcripts/**/*.jsonl"))
    found = [line for file in files for line in file.read_bytes().split(b"\n") if tb.WORTH.search(line) and len(line) < 4000]
    assert len(found) > 200
    return found


def mutated(line, others, chance):
    """A line with something wrong with it: bytes, or values in places where others are expected."""
    how = chance.randrange(7)
    if how == 0:
        n = chance.randrange(len(line))
        return line[:n] + bytes(chance.randrange(256) for _ in range(chance.randrange(5))) + line[n + chance.randrange(4):]
    if how == 1:
        return line[:chance.randrange(len(line))] + chance.choice(others)
    if how == 2:
        return chance.choice((b"\0" * 9, b"\xef\xbb\xbf", b"[", b"{", b'{"parentUuid":')) + line
    entry = json.loads(line.decode())
    places = []

    def walk(value):
        for key in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
            places.append((value, key))
            walk(value[key])
    walk(entry)
    for _ in range(chance.randrange(1, 4)):
        holder, key = chance.choice(places)
        holder[key] = chance.choice((None, True, 0, -1, 1e300, "", "\ud83d", "x" * 3000, [], {}, [None], {"a": [1]}, [["x"]],
                                     entry.get("message"), entry.get("type"), "user", "assistant", "2027-01-15T08:00:00Z"))
        try:
            places = [(a, b) for a, b in places if a[b] is not None]
        except (KeyError, IndexError):
            break
    try:
        return json.dumps(entry).encode()
    except ValueError:  # it holds itself
        return line


def test_no_line_is_an_exception():
    chance, lines, calls, board = random.Random(57), real_lines(), {}, tb.take_event(tb.Board(), event("Stop", at=100.0))
    kinds = set()
    for n in range(3000):
        whole = chance.choice(lines)
        odd = mutated(whole, lines, chance)
        session_id = tb.text_of(json.loads(whole.decode()).get("sessionId")) or "s1"
        told = tb.parse_transcript([odd, whole], session_id, calls, chance.choice(("", "", "a1")))
        kinds.update(line.kind for line in told)
        told = [line._replace(at=100.0 + n) for line in told]
        board = tb.observe(tb.take_lines(board, "s1", told, 100.0 + n), tb.World(), 100.0 + n)
        json.dumps(tb.plain(board.sessions["s1"]), ensure_ascii=False).encode("utf-8")
        json.dumps(tb.context_of(told, calls)._asdict(), ensure_ascii=False).encode("utf-8")
        assert len(calls) <= tb.MOST_CALLS, odd
    assert len(kinds) >= 9, kinds

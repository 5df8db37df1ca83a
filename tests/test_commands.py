"""Sections 12 and 9: what a person types, and what a hook runs. Where no process is needed, main() itself."""
import contextlib
import io
import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest
from support import ROOT, tb
from test_daemon import MAIN, Daemon, until
from test_emit import serving

EVENT = b'{"hook_event_name": "Stop", "session_id": "s1"}'


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A daemon with a queue; the tests leave it as it is."""
    made = Daemon(tmp_path_factory.mktemp("full")).start()
    at = time.time() - 300
    made.hear("PermissionRequest", "aaaa-1111", X_Event_Time=at, tool_name="Bash", tool_input={"command": "rm -r x\x1b[31m"},
              cwd="/home/me/prøject")
    made.hear("Stop", "bbbb-2222", X_Event_Time=at + 100, last_assistant_message="All done. Shall I push?" + " 日本" * 50 + "?",
              cwd="/w/日本")
    made.hear("UserPromptSubmit", "cccc-3333", X_Event_Time=at + 200, prompt="work")
    yield made
    made.end()


def call(daemon, *argv, **env):
    """main() in this process: (exit code, what it printed)."""
    out = io.StringIO()
    return tb.main(list(argv), {**daemon.env, **env}, out), out.getvalue()


def pretend(daemon, port):
    """Let a server that runs in this process stand in the daemon's place."""
    daemon.home.mkdir(exist_ok=True)
    me = tb.process_of(os.getpid())
    (daemon.home / "daemon.json").write_text(json.dumps({"pid": me.pid, "start": me.start, "port": port}))


@contextlib.contextmanager
def listening():
    """A socket that listens, and says nothing by itself."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        listener.settimeout(10)
        yield listener


# ---- usage -------------------------------------------------------------------------------------------------------------


def usage(argv, capsys):
    """(exit code, output, errors) of a command line that argparse answers."""
    with pytest.raises(SystemExit) as raised:
        tb.main(argv, {})
    return (raised.value.code, *capsys.readouterr())


@pytest.mark.parametrize("argv", [[], ["nothing"], ["list", "--nothing"], ["jump", "a", "b"], ["serve", "--port"],
                                  ["serve", "--port", "x"], ["--nothing"], ["install", "x"]])
def test_wrong_usage_is_2(argv, capsys):
    code, out, err = usage(argv, capsys)
    assert (code, out) == (2, "") and "usage: trailboss" in err


def test_wrong_snooze_is_2(daemon, capsys):
    for words in (["a", "b"], ["a", "5"], ["a", "5x"], ["5m", "5m", "5m"], ["a", "b", "5m"]):
        assert call(daemon, "snooze", *words)[0] == 2, words
        assert "90s" in capsys.readouterr().err


def test_help_tells_of_every_command(capsys):
    code, out, err = usage(["--help"], capsys)
    assert (code, err) == (0, "")
    for name, run, about, arguments in tb.COMMANDS:
        assert about and name in out and " ".join(about.split()[:3]) in " ".join(out.split()), name
        code, text, err = usage([name, "--help"], capsys)
        assert (code, err) == (0, "") and about[1:] in " ".join(text.split())
        for argument, options in arguments:
            assert options["help"] and (argument if argument[0] == "-" else options.get("metavar", argument)) in text
    assert "emit" in out
    assert usage(["--version"], capsys)[1] == "trailboss %s\n" % tb.VERSION


# ---- exit codes --------------------------------------------------------------------------------------------------------

COMMANDS = [["list"], ["list", "--json"], ["show"], ["show", "a"], ["jump"], ["jump", "--back"], ["skip"], ["snooze"],
            ["snooze", "5m"]]


def test_without_a_daemon_it_is_3(daemon, capsys):
    for argv in COMMANDS:
        assert call(daemon, *argv) == (3, ""), argv
        err = capsys.readouterr().err
        assert err.startswith("trailboss: ") and err.count("\n") == 1 and "serve --detach" in err
    assert not daemon.home.exists(), "asking makes nothing"


def test_daemon_json_that_is_not_to_be_believed_is_3(daemon, capsys):
    """A dead daemon's, a later process with its pid, or garbage: nobody gets a token by it."""
    daemon.home.mkdir()
    me = tb.process_of(os.getpid())
    with serving() as stranger:
        good = {"pid": me.pid, "start": me.start, "port": stranger.port}
        for odd in ("", "{", "null", "5", "[]", {}, {**good, "start": "1"}, {**good, "pid": 2 ** 30}, {**good, "pid": "x"},
                    {**good, "pid": None}, {**good, "pid": [1]}, {**good, "port": "x"}, {**good, "port": None},
                    {"pid": me.pid, "start": me.start}, "\xff", "[" * 10_000):
            (daemon.home / "daemon.json").write_text(odd if isinstance(odd, str) else json.dumps(odd))
            assert call(daemon, "list") == (3, ""), odd
        assert stranger.met_nobody()
        (daemon.home / "daemon.json").write_text(json.dumps({**good, "port": 99999}))
        assert call(daemon, "list") == (3, "")
        (daemon.home / "daemon.json").write_text(json.dumps(good))
        assert call(daemon, "list")[0] == 3, "a daemon that answers nonsense"
        assert "does not answer" in capsys.readouterr().err


def test_nothing_waiting_is_4_but_an_empty_list_is_0(daemon, capsys):
    daemon.start()
    assert call(daemon, "list") == (0, "Nothing is waiting.\n")
    assert json.loads(call(daemon, "list", "--json")[1])["items"] == []
    for argv in (["jump"], ["skip"], ["snooze"], ["snooze", "5m"], ["show"]):
        assert call(daemon, *argv) == (4, ""), argv
        assert capsys.readouterr().err == "trailboss: nothing is waiting\n"


def test_what_can_not_be_is_1_and_says_so(full, capsys):
    for argv in (["show", "nobody"], ["show", "%99"], ["show", "../x"], ["show", "a b"], ["show", "é"], ["skip", "nobody"],
                 ["snooze", "nobody", "5m"], ["jump", "nobody"], ["jump", "%99"], ["jump", "--back"], ["jump"], ["jump", "aaaa"],
                 ["jump", "--client", "/dev/pts/nobody"], ["skip", "cccc"], ["show", "aaaa", "--screen"]):
        assert call(full, *argv) == (1, ""), argv
        err = capsys.readouterr().err
        assert err.startswith("trailboss: ") and err.count("\n") == 1 and len(err) > 20, argv


def test_frozen_daemon_is_3(daemon, capsys, monkeypatch):
    daemon.start()
    daemon.process.send_signal(signal.SIGSTOP)
    import http.client
    connection = http.client.HTTPConnection
    monkeypatch.setattr(http.client, "HTTPConnection", lambda *args, timeout: connection(*args, timeout=timeout / 100))
    try:
        assert call(daemon, "list") == (3, "")
        assert str(daemon.process.pid) in capsys.readouterr().err
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_keyboard_interrupt_is_130(full, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(tb, "request", interrupt)
    assert call(full, "list") == (130, "")
    assert capsys.readouterr().err == ""


def test_keyboard_interrupt_of_a_process(daemon):
    with listening() as listener:
        pretend(daemon, listener.getsockname()[1])
        command = subprocess.Popen([*daemon.program, "list"], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        with listener.accept()[0] as connection:
            assert connection.recv(1000)
            command.send_signal(signal.SIGINT)
            assert command.communicate(timeout=5) == (b"", b"") and command.returncode == 130


# ---- what is printed ---------------------------------------------------------------------------------------------------


def test_list_for_people_and_for_programs(full):
    code, text = call(full, "list")
    lines = text.splitlines()
    assert code == 0 and len(lines) == 3
    assert "aaaa-111" in lines[1] and "permission" in lines[1] and "prøject" in lines[1] and "rm -r x" in lines[1]
    assert "bbbb-222" in lines[2] and "stopped" in lines[2] and "Shall I push?" in lines[2]
    assert "\x1b" not in text and "cccc" not in text
    answer = json.loads(call(full, "list", "--json")[1])
    assert [row["session_id"] for row in answer["items"]] == ["aaaa-1111", "bbbb-2222"] and "sessions" not in answer
    everything = json.loads(call(full, "list", "--all", "--json")[1])
    assert {row["session_id"]: row["state"] for row in everything["sessions"]} \
        == {"aaaa-1111": "stuck", "bbbb-2222": "stuck", "cccc-3333": "working"}
    assert "cccc-333" in call(full, "list", "--all")[1]


def test_show(full):
    assert "rm -r x" in call(full, "show")[1] and "\x1b" not in call(full, "show")[1]
    code, text = call(full, "show", "bbbb")
    assert code == 0 and "All done. Shall I push?" in text and "bbbb-2222" in text
    assert "cccc-3333" in call(full, "show", "cccc")[1]


def test_skip_and_snooze_say_what_they_did(daemon):
    daemon.start()
    daemon.hear("Stop", "aaaa", X_Event_Time=100)
    daemon.hear("Stop", "bbbb", X_Event_Time=101)
    code, text = call(daemon, "skip")
    assert code == 0 and "aaaa" in text and daemon.waiting() == ["bbbb", "aaaa"]
    for words, said, snoozed in ((["10m"], "10m", "bbbb"), (["aaaa", "1h30m"], "1h30m", "aaaa"),
                                 (["aaaa", "0s"], "no longer", None), (["aaaa"], "until", "aaaa"), (["aaaa", "0s"], "", None)):
        code, text = call(daemon, "snooze", *words)
        assert code == 0 and said in text and (snoozed or "aaaa") in text
        rows = {row["session_id"]: row["snoozed"] for row in daemon.queue()}
        assert rows[snoozed or "aaaa"] == bool(snoozed)


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
                                    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_any_locale_is_enough(full, locale):
    done = subprocess.run([*full.program, "list", "--all"], env={**full.env, **locale}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"aaaa-111" in done.stdout and done.stdout.count(b"\n") == 8
    if "PYTHONUTF8" in locale:
        done = subprocess.run([*full.program, "show", "é"], env={**full.env, **locale}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        assert done.returncode == 1 and done.stderr.startswith(b"trailboss: no session") and done.stderr.count(b"\n") == 1


def test_terminal_gets_colour_and_its_own_width(full):
    def on_terminal(**env):
        ours, theirs = pty.openpty()
        subprocess.run(["stty", "cols", "60", "rows", "20"], stdin=theirs, check=True)
        done = subprocess.Popen([*full.program, "list"], env={**full.env, "TERM": "xterm", **env}, stdin=theirs, stdout=theirs,
                                stderr=theirs)
        os.close(theirs)
        text = b""
        try:
            for part in iter(lambda: os.read(ours, 65536), b""):
                text += part
        except OSError:
            pass  # Linux says so when the other side has closed
        os.close(ours)
        assert done.wait(10) == 0
        return text.decode()
    text = on_terminal()
    assert "\x1b[33mpermission\x1b[0m" in text
    plain = on_terminal(NO_COLOR="1")
    widths = [tb.width_of(line) for line in plain.split("\r\n")]
    assert "\x1b" not in plain and max(widths) in (59, 60) and "…" in plain, "a wide letter may just not fit"
    assert "\x1b" not in on_terminal(TERM="dumb")


def test_reader_that_goes_is_no_error(daemon):
    daemon.start()
    for n in range(50):
        daemon.hear("Stop", "s%d" % n, last_assistant_message="x" * 5000)
    for argv in (["list"], ["list", "--json"]):
        command = subprocess.Popen([*daemon.program, *argv], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert command.stdout.readline()
        command.stdout.close()
        assert (command.stderr.read(), command.wait(10)) == (b"", 0)
        command.stderr.close()


def test_output_that_can_not_be_written_is_an_error(full):
    command = " ".join("'%s'" % word for word in [*full.program, "list"])
    done = subprocess.run(["sh", "-c", command + " >&-"], env=full.env, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b""), "nobody wants it"
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as disk:
            done = subprocess.run([*full.program, "list"], env=full.env, stdout=disk, stderr=subprocess.PIPE)
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


def test_it_uses_the_environment_that_it_is_given(daemon, monkeypatch):
    daemon.start()
    monkeypatch.setenv("TRAILBOSS_HOME", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")
    assert call(daemon, "list")[0] == 0
    assert call(daemon, "list", TRAILBOSS_HOME="", XDG_STATE_HOME=str(daemon.home.parent))[0] == 3


# ---- emit --------------------------------------------------------------------------------------------------------------


def start_emit(daemon, stdin=subprocess.PIPE, code=MAIN, **env):
    """A hook, as Claude Code runs it."""
    return subprocess.Popen([sys.executable, "-S", "-c", code, str(ROOT), "emit"], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**daemon.env, **env})


def emit(daemon, payload=EVENT, process=None, **options):
    """Run a hook to its end, check its promise, return the seconds it took."""
    began = time.monotonic()
    process = process or start_emit(daemon, **options)
    output = process.communicate(payload if process.stdin else None, timeout=10)
    assert (process.returncode, *output) == (0, b"", b"")
    seconds = time.monotonic() - began
    assert seconds < 2.5, "1.9 s, and Python's own start on a busy machine"
    return seconds


def spooled(daemon):
    return tb.take_spool(str(daemon.home))


def test_emitted_event_is_in_the_queue(daemon):
    daemon.start()
    before = time.time()
    emit(daemon, CLAUDE_PROJECT_DIR="/w/prøject")
    (row,) = daemon.queue()
    assert row["session_id"] == "s1" and row["project"] == "prøject" and before <= row["since"] <= time.time()
    assert spooled(daemon) == []


def test_emit_sends_what_the_environment_tells(daemon):
    env = {"TMUX": "/tmp/ü/default,12,0", "TMUX_PANE": "%7", "CLAUDE_PID": "77", "CLAUDE_CODE_ENTRYPOINT": "cli",
           "CLAUDE_CONFIG_DIR": "/c/\udcff", "CLAUDE_PROJECT_DIR": "/p\nX-Event-Id: forged", "CLAUDE_JOB_DIR": ""}
    with serving() as server:
        pretend(daemon, server.port)
        emit(daemon, EVENT + b"\n\n\xff", **env)
        ((headers, body),) = server.got
        assert body == EVENT + b"\n\n\xff"
    assert headers["Authorization"] == b"Bearer " + (daemon.home / "token").read_bytes()
    assert headers["X-Tmux"] == "/tmp/ü/default,12,0".encode() and headers["X-Claude-Config"] == b"/c/\xff"
    assert (headers["X-Tmux-Pane"], headers["X-Claude-Pid"], headers["X-Claude-Entrypoint"]) == (b"%7", b"77", b"cli")
    assert "X-Claude-Project-Dir" not in headers and "X-Claude-Job-Dir" not in headers
    assert abs(float(headers["X-Event-Time"]) - time.time()) < 10 and headers["X-Event-Id"].startswith(headers["X-Event-Time"][:10])
    for name, value in tb.HEADERS.items():
        assert "header %s \"$%s\"\n" % (name, value) in (ROOT / "hooks" / "trailboss-emit.sh").read_text(), "both send the same"


def test_without_a_daemon_the_event_is_spooled_and_taken_in_later(daemon):
    emit(daemon, X="y", CLAUDE_PROJECT_DIR="/w/p\udcff")
    ((path, headers, body),) = spooled(daemon)
    assert body == EVENT and headers["x-claude-project-dir"] == "/w/p\udcff"
    assert oct(daemon.home.stat().st_mode)[-3:] == "700"
    at = float(headers["x-event-time"])
    daemon.start()
    assert [(row["session_id"], row["since"]) for row in daemon.queue()] == [("s1", at)]


@pytest.mark.parametrize("status, kept", [(204, 0), (400, 0), (413, 0), (401, 1), (500, 1)])
def test_answer_decides_about_the_spool(daemon, status, kept):
    with serving() as server:
        pretend(daemon, server.port)
        server.status = status
        emit(daemon, PYTHONDEVMODE="1", PYTHONWARNINGS="default")
        assert len(server.got) == 1 and len(spooled(daemon)) == kept


def test_stranger_in_the_daemons_place_gets_nothing(daemon):
    daemon.home.mkdir()
    with serving() as stranger:
        for start, port in (("1", stranger.port), (tb.process_of(os.getpid()).start, 99999)):
            (daemon.home / "daemon.json").write_text(json.dumps({"pid": os.getpid(), "start": start, "port": port}))
            emit(daemon)
        assert stranger.met_nobody()
    assert len(spooled(daemon)) == 2


def test_frozen_daemon_holds_nobody_up_and_counts_it_once(daemon):
    daemon.start()
    daemon.hear("Stop", "s0", X_Event_Time=100)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        emit(daemon, json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s0"}).encode())
        emit(daemon, b'{"hook_event_name": "Stop", "session_id": "big", "x": "' + b"x" * 8_000_000 + b'"}')
        assert len(spooled(daemon)) == 2
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    until(lambda: not spooled(daemon))
    assert daemon.waiting() == ["big"], "s0 was answered"
    history = tb.Store(str(daemon.home / "trailboss.db")).db
    assert history.execute("SELECT count(*) FROM events").fetchone() == (2,)
    history.close()


def test_slow_daemon_leaves_time_for_the_spool(daemon):
    """Input that ends late and an answer that comes a byte at a time: no single wait is too long, all together are."""
    with listening() as listener:
        pretend(daemon, listener.getsockname()[1])
        process = start_emit(daemon)
        process.stdin.write(EVENT)  # and does not end
        process.stdin.flush()
        with listener.accept()[0] as connection, contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.send(b"H")
                time.sleep(0.05)
    emit(daemon, None, process=process)
    assert [body for _, _, body in spooled(daemon)] == [EVENT]


def test_input_without_an_end_holds_nobody_up(daemon):
    """At once, so that the test need wait only once."""
    daemon.start()
    ours, theirs = os.pipe()
    os.write(theirs, EVENT)
    with open("/dev/zero", "rb") as zeros, subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        running = [start_emit(daemon, ours), start_emit(daemon, zeros), start_emit(daemon, yes.stdout)]
        for process in running:
            emit(daemon, process=process)
        yes.kill()
    os.close(ours)
    os.close(theirs)
    assert daemon.waiting() == ["s1"], "what came of it counts"
    assert spooled(daemon) == []


def test_session_that_ends_does_not_take_its_event_along(daemon):
    ours, theirs = os.pipe()
    process = start_emit(daemon, ours)
    os.write(theirs, EVENT)
    until(lambda: "SigIgn" in (status := open("/proc/%d/status" % process.pid).read())
          and int(status.split("SigIgn:")[1].split()[0], 16) >> signal.SIGTERM - 1 & 1)  # the last of the three
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process.send_signal(signum)
    os.close(theirs)
    emit(daemon, process=process)
    os.close(ours)
    assert [body for _, _, body in spooled(daemon)] == [EVENT]


def test_garbage_is_no_event(daemon):
    garbage = [b"garbage", b"\xff\xfe\0", b"null", b"[" * 100_000]
    for payload in [b"", *garbage]:
        emit(daemon, payload)
    assert [body for _, _, body in spooled(daemon)] == garbage
    daemon.start()
    assert daemon.waiting() == [] and spooled(daemon) == []
    for payload in [b"", *garbage]:
        emit(daemon, payload)
    assert spooled(daemon) == [] and "Traceback" not in daemon.said()


def test_too_much_input_is_no_event(daemon):
    emit(daemon, b" " * (tb.SPOOL_LIMIT + 1))
    assert spooled(daemon) == []
    emit(daemon, b" " * tb.SPOOL_LIMIT)
    assert len(spooled(daemon)) == 1


def test_streams_may_be_closed(daemon):
    command = "'%s' -c '%s' '%s' emit" % (sys.executable, MAIN, ROOT)
    for streams, counted in (("<&-", 0), (">&- 2>&-", 1), ("<&- >&- 2>&-", 1)):
        done = subprocess.run(["sh", "-c", command + " " + streams], env=daemon.env, input=EVENT, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), streams
        assert len(spooled(daemon)) == counted, streams


def test_state_folder_that_can_not_be_written(daemon):
    daemon.home.write_text("a file")
    emit(daemon)
    emit(daemon, TRAILBOSS_HOME="/proc/nowhere")
    emit(daemon, TRAILBOSS_HOME="/dev/null/x")
    assert daemon.home.read_text() == "a file"


def test_full_disk_is_silent(daemon):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d)); sys.dont_write_bytecode = True; " + MAIN
    emit(daemon, EVENT + b" " * 5000, code=limited % (1000, resource.RLIM_INFINITY))
    assert not daemon.home.exists() or [path for path in daemon.home.rglob("*") if path.is_file()] == []


def test_home_that_is_not_set_is_the_password_databases(daemon, tmp_path):
    patched = "import pwd, types; pwd.getpwuid = lambda uid: types.SimpleNamespace(pw_dir=%r); " % str(tmp_path / "home") + MAIN
    for env in ({}, {"HOME": ""}):
        daemon.env = {"PATH": os.environ["PATH"], **env}
        emit(daemon, code=patched)
    assert len(tb.take_spool(str(tmp_path / "home" / ".local" / "state" / "trailboss"))) == 2


def test_relative_home_makes_no_folder_in_the_project(daemon, tmp_path):
    (tmp_path / "project").mkdir()
    moved = "import os; os.chdir(%r); " % str(tmp_path / "project") + MAIN
    for env in ({"TRAILBOSS_HOME": "state"}, {"TRAILBOSS_HOME": "", "XDG_STATE_HOME": "state"},
                {"TRAILBOSS_HOME": "", "HOME": "state"}):
        emit(daemon, code=moved, **env)
    assert os.listdir(str(tmp_path / "project")) == []


def test_emit_is_never_a_usage_error(daemon, capsys):
    done = subprocess.run([*daemon.program, "emit", "--nothing", "x"], env=daemon.env, input=EVENT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"") and len(spooled(daemon)) == 1


# ---- explain and doctor ------------------------------------------------------------------------------------------------

def test_explain_tells_each_change_with_its_witness(daemon):
    daemon.start()
    at = time.time() - 100
    daemon.hear("UserPromptSubmit", X_Event_Time=at, prompt="paint it")
    daemon.hear("PermissionRequest", X_Event_Time=at + 5, tool_name="Bash", tool_input={"command": "rm -r x\x1b[31m"})
    code, text = call(daemon, "explain")
    assert code == 0 and "\x1b" not in text
    head, state, _, *table = text.splitlines()
    assert head.startswith("s1 ") and state.startswith("permission, waits 1m: Bash: rm -r x")
    assert [line.split()[1:5] for line in table] == [
        ["STATE", "WITNESS", "WHY"], ["working", "hook", "UserPromptSubmit"],
        ["permission", "hook", "PermissionRequest:", "rm"]]
    daemon.hear("Stop", X_Event_Time=at + 20)
    assert call(daemon, "explain", "s1")[1].count("\n") == text.count("\n") + 1
    for argv, wanted in ((["explain", "nobody"], 1), (["explain", "a b"], 1)):
        with pytest.raises(tb.Fault):
            tb.cmd_explain(tb.build_parser().parse_args(argv), daemon.env, io.StringIO())
        assert call(daemon, *argv)[0] == wanted


def test_explain_without_anybody_who_waits(daemon):
    daemon.start()
    assert call(daemon, "explain")[0] == 4
    daemon.end()
    assert call(daemon, "explain")[0] == 3


def test_doctor_tells_what_is_missing(daemon, monkeypatch):
    config = daemon.home.parent / "claude"
    config.mkdir()
    env = {"CLAUDE_CONFIG_DIR": str(config)}
    code, text = call(daemon, "doctor", **env)
    assert code == 3 and "!!  hooks" in text and "SessionStart" in text and "!!  daemon" in text and "install" in text
    hook = tb.hook_entry(str(config), "/home/me")
    (config / "settings.json").write_text(tb.with_ours("", hook))
    assert "is not there" in call(daemon, "doctor", **env)[1]
    (config / tb.EMITTER).write_text("")
    daemon.start()
    daemon.hear("Stop", X_Event_Id="e1")
    code, text = call(daemon, "doctor", **env)
    lines = {line.split()[1]: line for line in text.splitlines()}
    assert list(lines) == ["hooks", "daemon", "heard", "records", "transcripts", "tmux", "panes", "decided"]
    assert "1 events today, the last was Stop" in lines["heard"] and "today 1 by hook; 0 times what no hook told" in lines["decided"]
    assert lines["records"].startswith("!!") and "none that can be read" in lines["records"] and code == 1
    (config / "settings.json").write_text('{"disableAllHooks": true}')
    assert "disableAllHooks" in call(daemon, "doctor", **env)[1]
    (config / "settings.json").write_text("{")
    assert "line 1" in call(daemon, "doctor", **env)[1]

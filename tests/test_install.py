"""Section 12: what goes onto a person's machine leaves it again, and nothing else of theirs changes. The texts of their files
are test_settings.py's; here are the files, and the world around them."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from support import ROOT, tb
from test_disk import as_nobody
from test_settings import LONG, SHAPES, value_of

OTHERS = {
    "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "notify-send done", "timeout": 1}]}],
    "PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "fmt"},
                                                        {"type": "http", "url": "http://127.0.0.1:1/"}]}],
    "PermissionRequest": [{"hooks": []}, {"matcher": "*"}]}
PERSONS = {"zeta": 1, "model": "opus", "hooks": OTHERS, "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
           "later": {"b": None, "a": [1, 2.5, True, "ü\u2028\"\\ \u00e9"]}, "alpha": ""}
SHELLS = [[shutil.which(shell), *more] for shell, *more in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(shell)]


class Machine:
    """A person's home with their config folder."""

    def __init__(self, home):
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.config = home, home / ".claude"
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "TMUX_TMPDIR": str(home)}

    @property
    def settings(self):
        return self.config / "settings.json"

    def write(self, content, mode=0o644):
        self.config.mkdir(exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode() if isinstance(content, str) \
            else json.dumps(content, indent=2).encode()
        self.settings.write_bytes(data)
        self.settings.chmod(mode)
        return data

    def read(self):
        return json.loads(self.settings.read_bytes().decode("utf-8-sig"), parse_constant=pytest.fail)

    def install(self, **how):
        return tb.install(self.env, **how)

    def uninstall(self):
        return tb.uninstall(self.env)

    def state(self):
        return Path(tb.state_home(self.env))

    def ours(self):
        """{event: our hooks on it}."""
        found = {}
        for event, groups in self.read().get("hooks", {}).items():
            for group in groups:
                found.setdefault(event, []).extend(filter(tb.is_ours, group.get("hooks", ())))
        return {event: hooks for event, hooks in found.items() if hooks}

    def others(self):
        """The settings without our groups, which must then be the person's again."""
        settings = self.read()
        for event, groups in list(settings.get("hooks", {}).items()):
            left = [g for g in groups if not any(map(tb.is_ours, g.get("hooks", ())))]
            settings["hooks"][event] = left
            if groups and not left:
                del settings["hooks"][event]
        return settings


def tree(folder):
    """{path: content, link or mode} of all that is in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        what = os.readlink(str(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
        found[str(path.relative_to(folder))] = (what, stat.S_IMODE(path.lstat().st_mode), path.is_file() and path.stat().st_ino)
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The second look comes soon, and nothing is compiled: both for the time that they take."""
    monkeypatch.setattr(tb, "SETTLE", 0.01)
    monkeypatch.setattr(tb, "compile_with", lambda python, program: None)
    monkeypatch.setattr(tb, "MANAGED", ())


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "home")


def refused(machine, *words):
    """Install and uninstall refuse, with these words, and leave the settings as they are."""
    before, inode = machine.settings.read_bytes(), machine.settings.stat().st_ino
    for action in (machine.install, machine.uninstall):
        with pytest.raises(tb.Fault) as raised:
            action()
        message = str(raised.value)
        assert raised.value.code == 1 and str(machine.settings) in message and "nothing was changed" in message
        assert all(word in message for word in words), message
    assert machine.settings.read_bytes() == before and machine.settings.stat().st_ino == inode
    assert {path.name for path in machine.config.iterdir()} == {"settings.json"}


# ---- what it writes ----------------------------------------------------------------------------------------------------


OURS = {"settings.json", "trailboss-emit.sh", "trailboss.pyz", "trailboss.tmux.conf", "trailboss.d"}


def test_fresh_install(machine):
    said = machine.install()
    assert set(machine.ours()) == set(tb.HOOKED) == set(machine.read()["hooks"])
    for hooks in machine.ours().values():
        (hook,) = hooks
        assert hook["type"] == "command" and hook["async"] is True and 1 <= hook["timeout"] <= 10
        assert set(hook) == {"type", "command", "async", "timeout"}
    assert "matcher" not in json.dumps(machine.read())
    assert len(said) == 5 and all(re.match("(hooks|program|state|sessions|next): +", line) for line in said)
    for path in (machine.settings, machine.config / "trailboss-emit.sh", machine.config / "trailboss.pyz", machine.state()):
        assert path.exists() and (str(path) in "\n".join(said) or path.name in "\n".join(said))
    for name in ("trailboss-emit.sh", "trailboss.pyz"):
        assert stat.S_IMODE((machine.config / name).stat().st_mode) == 0o755
    assert stat.S_IMODE(machine.settings.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.state().stat().st_mode) == 0o700
    assert {path.name for path in machine.config.iterdir()} == OURS
    assert {path.name for path in machine.state().iterdir()} == {"token", "configs", "installed.json"}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_comes_back_to_the_byte(machine, name):
    """In, in again, and out: with its mode, and with nothing else of the home changed or left behind."""
    before = machine.write(SHAPES[name].encode("utf-8", "surrogatepass"), 0o640)
    (machine.home / ".local").mkdir()
    home = {path: entry[:2] for path, entry in tree(machine.home).items()}
    machine.install()
    once = machine.settings.read_bytes()
    assert once != before and set(machine.ours()) == set(tb.HOOKED)
    machine.install()
    assert machine.settings.read_bytes() == once
    machine.uninstall()
    assert machine.settings.read_bytes() == before
    assert {path: entry[:2] for path, entry in tree(machine.home).items()} == home


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xef\xbb\xbf"])
def test_home_without_settings_is_empty_again(machine, content):
    if content is not None:
        machine.write(content)
    home = {path: entry[:2] for path, entry in tree(machine.home).items()}
    machine.install()
    machine.install()
    assert set(machine.ours()) == set(tb.HOOKED)
    machine.uninstall()
    assert {path: entry[:2] for path, entry in tree(machine.home).items()} == home


@pytest.mark.parametrize("name", ["by two", "by tabs", "hooks without events, with space", "one line", "an object"])
def test_what_was_changed_since_is_kept(machine, name):
    """By hand, or by Claude Code, which writes the file anew in a form of its own: just ours goes."""
    machine.write(SHAPES[name])
    machine.install()
    changed = {**machine.read(), "theme": "light", "added": [1]}
    machine.write(json.dumps(changed, indent=2, ensure_ascii=False) + "\n")
    machine.install()  # it is as it should be
    assert machine.read() == changed
    machine.uninstall()
    want = {**value_of(SHAPES[name]), "theme": "light", "added": [1]}
    assert machine.read() == want and {path.name for path in machine.config.iterdir()} == {"settings.json"}


def test_first_one_is_kept_until_the_end(machine):
    """Also when a newer version has other hooks, and when ours were taken out by hand in between."""
    before = machine.write(LONG)
    said = machine.install()
    backup = Path(re.search(r"kept as (\S+)", said[0]).group(1))
    assert backup.read_bytes() == before and stat.S_IMODE(backup.stat().st_mode) == 0o600
    older = machine.read()
    for hook in [hook for hooks in machine.ours().values() for hook in hooks]:
        assert hook["timeout"] == 5
    text = machine.settings.read_text().replace('"timeout": 5', '"timeout": 9')
    machine.settings.write_text(text)
    machine.install()
    assert machine.read() == older and backup.read_bytes() == before
    other = machine.write({"model": "by hand"})
    machine.install()
    assert backup.read_bytes() == other
    machine.uninstall()
    assert machine.settings.read_bytes() == other and not backup.exists()


def test_state_folder_that_is_gone_is_not_needed(machine):
    before = machine.write(LONG)
    machine.install(keys=True)
    shutil.rmtree(str(machine.state()))
    machine.uninstall()
    assert machine.settings.read_bytes() == before and {path.name for path in machine.config.iterdir()} == {"settings.json"}
    assert (machine.home / ".tmux.conf").read_text() == ""


def test_other_hooks_order_and_unknown_keys_are_kept(machine):
    machine.write(PERSONS)
    machine.install()
    assert machine.others() == PERSONS
    assert list(machine.read()) == list(PERSONS)
    assert list(machine.read()["hooks"])[:3] == list(OTHERS)
    assert list(machine.read()["permissions"]) == ["allow", "deny"]
    assert set(machine.ours()) == set(tb.HOOKED)
    for event in ("Stop", "PermissionRequest"):
        assert machine.read()["hooks"][event][:-1] == OTHERS[event], "theirs first"


@pytest.mark.parametrize("content", [None, b"", b"\n", {}, {"hooks": {}}, PERSONS])
def test_second_install_changes_no_byte(machine, content):
    if content is not None:
        machine.write(content)
    machine.install(keys=True)
    before = tree(machine.home)
    said = machine.install(keys=True)
    after = tree(machine.home)
    assert {path: entry[:2] for path, entry in after.items()} == {path: entry[:2] for path, entry in before.items()}
    for path in (".claude/settings.json", ".tmux.conf"):
        assert after[path] == before[path], "not even written again"
    assert "as it was" in said[0]


@pytest.mark.parametrize("content", [{}, {"model": "x"}, PERSONS, {"hooks": {"PreToolUse": OTHERS["Stop"]}, "z": 1}])
def test_uninstall_takes_out_just_ours(machine, content):
    before = machine.write(content)
    machine.install()
    assert machine.read() != content
    machine.uninstall()
    assert machine.settings.read_bytes() == before
    assert {path.name for path in machine.config.iterdir()} == {"settings.json"}
    assert machine.uninstall() == ["nothing of Trail Boss was found"]
    assert machine.settings.read_bytes() == before


def test_uninstall_where_nothing_is(machine):
    assert machine.uninstall() == ["nothing of Trail Boss was found"]
    assert not list(machine.home.iterdir())


def test_uninstall_takes_out_only_our_hook_of_a_shared_group(machine):
    machine.install()
    settings = machine.read()
    settings["hooks"]["Stop"][0]["hooks"].insert(0, {"type": "command", "command": "mine"})
    settings["hooks"]["Stop"][0]["matcher"] = "x"
    machine.write(settings)
    machine.uninstall()
    assert machine.read() == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}], "matcher": "x"}]}}


@pytest.mark.parametrize("change", [
    lambda hook: hook.pop("async"), lambda hook: hook.pop("timeout"), lambda hook: hook.update(timeout=60),
    lambda hook: hook.update(command="sh ~/.claude/trailboss-emit.sh"), lambda hook: hook.update(mark="trailboss"),
    lambda hook: hook.update(command="/elsewhere/trailboss-emit.sh")])
def test_old_or_stripped_form_becomes_one_entry(machine, change):
    """Claude Code drops keys that it does not know when it writes settings: ours are known by their command alone."""
    machine.write(PERSONS)
    machine.install()
    good = machine.read()
    settings = json.loads(json.dumps(good))
    for event in tb.HOOKED:
        change(settings["hooks"][event][-1]["hooks"][0])
    machine.write(settings)
    machine.install()
    assert machine.read() == good
    machine.write(settings)
    machine.uninstall()
    assert machine.read() == PERSONS


def test_too_many_of_ours_become_one(machine):
    machine.write(PERSONS)
    machine.install()
    good = machine.read()
    settings = json.loads(json.dumps(good))
    (ours,) = settings["hooks"]["Stop"][-1]["hooks"]
    settings["hooks"]["Stop"].append({"hooks": [ours, ours]})
    settings["hooks"]["Stop"].insert(0, {"matcher": "*", "hooks": [ours]})
    settings["hooks"]["PreToolUse"] = [{"hooks": [ours]}]  # an event that we once had
    machine.write(settings)
    machine.install()
    assert machine.ours() == {event: [ours] for event in tb.HOOKED}
    assert machine.others() == PERSONS


# ---- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content, words", [
    ('{\n  "a": 1, // mine\n  "b": 2\n}', ["line 2, column 11"]), ('{"hooks": []}', ["line 1, column 2", "hooks"]),
    (b"\xff\xfe{}", ["UTF-8"]), (b'{"a": "\xe9"}', ["UTF-8"]), (b"\0" * 100, ["line 1"]), (b"[" * 100_000, []),
    ('{"hooks": {}, "hooks": {}}', ["second hooks"]), ("null", ["the file"])])
def test_what_can_not_be_understood_is_refused(machine, content, words):
    machine.write(content)
    refused(machine, *words)
    assert not machine.state().exists()


@pytest.mark.parametrize("make", ["folder", "fifo", "device"])
def test_settings_that_are_no_file_are_refused(machine, make):
    machine.config.mkdir()
    if make == "folder":
        machine.settings.mkdir()
    elif make == "fifo":
        os.mkfifo(str(machine.settings))
    else:
        machine.settings.symlink_to("/dev/zero")
    for action in (machine.install, machine.uninstall):
        with pytest.raises(tb.Fault, match="nothing was changed"):
            action()
    assert [path.name for path in machine.config.iterdir()] == ["settings.json"]


def test_link_that_leads_nowhere_leads_there_again(machine):
    """Claude Code takes it for a file that is not there yet, and writes it where it leads."""
    machine.config.mkdir()
    machine.settings.symlink_to(machine.home / "nowhere")
    machine.install()
    assert set(machine.ours()) == set(tb.HOOKED) and (machine.home / "nowhere").is_file() and machine.settings.is_symlink()
    machine.uninstall()
    assert machine.settings.is_symlink() and not (machine.home / "nowhere").exists()
    machine.settings.unlink()
    machine.settings.symlink_to(machine.home / "no folder" / "nowhere")
    assert machine.install()[0].startswith("left: ")
    machine.uninstall()
    assert [path.name for path in machine.config.iterdir()] == ["settings.json"]


def test_change_by_somebody_else_at_the_last_moment_is_kept(machine, monkeypatch):
    """It is read again just before the rename: what came in between is the person's file now."""
    machine.write(PERSONS)
    theirs, write_aside = b'{"model": "just chosen"}', tb.write_aside

    def meanwhile(path, *args):
        aside = write_aside(path, *args)
        if path.endswith("settings.json") and b"just chosen" not in machine.settings.read_bytes():
            machine.settings.write_bytes(theirs)
        return aside
    monkeypatch.setattr(tb, "write_aside", meanwhile)
    machine.install()
    assert machine.others() == {"model": "just chosen", "hooks": {}} and set(machine.ours()) == set(tb.HOOKED)
    machine.uninstall()
    assert machine.settings.read_bytes() == theirs


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_change_from_what_was_read_before_is_made_good(machine, monkeypatch, action):
    """Somebody who read the file before we wrote it writes it a moment after: our change is made again, and theirs stays."""
    machine.write(PERSONS)
    if action == "uninstall":
        machine.install()
    stale = machine.read()
    sleeps = []

    def meanwhile(seconds):
        if not sleeps:
            machine.settings.write_text(json.dumps({**stale, "theme": "light"}))
        sleeps.append(seconds)
    monkeypatch.setattr(tb.time, "sleep", meanwhile)
    getattr(machine, action)()
    assert sleeps == [tb.SETTLE] * 2 and machine.others() == {**PERSONS, "theme": "light"}
    assert set(machine.ours() if "hooks" in machine.read() else ()) == (set(tb.HOOKED) if action == "install" else set())


def test_somebody_who_never_ends_is_told_of(machine, monkeypatch):
    machine.write({})
    monkeypatch.setattr(tb.time, "sleep", lambda seconds: machine.write({"now": os.urandom(4).hex()}))
    with pytest.raises(tb.Fault, match="again and again"):
        machine.install()


def test_lock_of_claude_code_is_respected(machine):
    """Nothing is read while it is there; one that was left behind is taken away."""
    machine.write(PERSONS)
    lock = Path(str(machine.settings) + ".lock")
    lock.mkdir()
    running = subprocess.Popen([sys.executable, str(ROOT / "trailboss.py"), "install"], env=machine.env, stdout=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(2)
    assert running.poll() is None and machine.settings.read_bytes() == json.dumps(PERSONS, indent=2).encode()
    machine.write({"theme": "changed under the lock"})
    lock.rmdir()
    assert running.wait(10) == 0 and not lock.exists()
    assert machine.others()["theme"] == "changed under the lock" and set(machine.ours()) == set(tb.HOOKED)
    lock.mkdir()
    os.utime(str(lock), (1, 1))
    machine.uninstall()
    assert not lock.exists() and machine.read() == {"theme": "changed under the lock"}


@pytest.mark.parametrize("what", ["file", "full folder"])
def test_lock_that_can_not_be_taken_away_does_not_hold_for_ever(machine, monkeypatch, what):
    machine.write(PERSONS)
    lock = Path(str(machine.settings) + ".lock")
    if what == "file":
        lock.write_text("")
    else:
        (lock / "x").mkdir(parents=True)
    os.utime(str(lock), (1, 1))
    clock, slept = time.time(), []
    monkeypatch.setattr(tb.time, "sleep", slept.append)
    monkeypatch.setattr(tb.time, "time", lambda: clock + sum(slept))
    machine.install()
    assert sum(slept) < 30 and lock.exists() and set(machine.ours()) == set(tb.HOOKED)


@pytest.mark.parametrize("content", ["[]", "5", "{", '{"files": 5, "folders": {"a": 1}}', '{"files": {"x": 1, "y": {}}, "folders": [1]}'])
def test_ledger_that_is_broken_is_done_without(machine, content):
    before = machine.write(LONG)
    machine.install()
    (machine.state() / "installed.json").write_text(content)
    machine.uninstall()
    assert machine.settings.read_bytes() == before and not machine.state().exists()


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "POSIX"}, {}])
@pytest.mark.parametrize("name", ["Jörg der Große", "j\udcf6rg"])
def test_locale_changes_nothing(tmp_path, locale, name):
    """Paths are bytes, and everything of ours reads them as UTF-8."""
    machine = Machine(tmp_path / name)
    machine.env.update(locale)
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install", "--tmux")
    assert (code, err) == (0, "")
    assert run_hook(machine) == (0, b"", b"") and len(spooled(machine)) == 1
    machine.env = {**{key: machine.env[key] for key in ("HOME", "PATH")}, "LC_ALL": "C.UTF-8", "TMUX_TMPDIR": str(machine.home)}
    assert run_program(machine.config / "trailboss.pyz", machine, "uninstall")[0] == 0
    assert not list(machine.home.iterdir())


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077, 0o777])
def test_what_is_run_can_be_written_by_its_owner_alone(machine, umask):
    (machine.config / "x").mkdir(parents=True)
    done = subprocess.run([sys.executable, str(ROOT / "trailboss.py"), "install"], env=machine.env, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.umask(umask if os.geteuid() == 0 else umask & 0o077))
    assert done.returncode == 0
    assert stat.S_IMODE((machine.config / "trailboss.d").stat().st_mode) == 0o700
    for name in ("trailboss.pyz", "trailboss-emit.sh", "trailboss.tmux.conf"):
        assert not (machine.config / name).stat().st_mode & 0o022


def test_older_python_gets_a_sentence(tmp_path):
    tb.build(str(tmp_path / "tb.pyz"))
    with zipfile.ZipFile(str(tmp_path / "tb.pyz")) as archive:
        main = archive.read("__main__.py").decode()
    code = main.replace("sys.version_info", "(3, 6, 15)")
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (1, b"") and done.stderr.startswith(b"trailboss: this is Python 3.6, and it needs 3.8")


def test_state_folder_is_found_by_what_was_installed(machine):
    """A shell without the XDG_STATE_HOME that was there at install."""
    machine.env["XDG_STATE_HOME"] = str(machine.home / "it's elsewhere")
    machine.install()
    assert machine.state().exists()
    del machine.env["XDG_STATE_HOME"]
    machine.uninstall()
    assert not list(machine.home.iterdir())


def test_failing_write_leaves_all_as_it_was(machine, monkeypatch):
    before = machine.write(PERSONS)
    replace = os.replace

    def fail(source, target):
        if target.endswith("settings.json") and str(machine.config) in target:
            raise OSError(28, "No space left on device", source, None, target)
        replace(source, target)
    monkeypatch.setattr(tb.os, "replace", fail)
    said = machine.install(keys=True)
    assert re.match("left: .*settings.json can't be written .No space left.*trailboss.pyz install --print` shows", said[0])
    assert machine.settings.read_bytes() == before and (machine.home / ".tmux.conf").exists(), "all else is done"
    assert {path.name for path in machine.config.iterdir()} == OURS and len(list(machine.state().glob("before-*"))) == 0


def test_read_only_settings_are_left_alone():
    """All else is done; what the person has to do is said."""
    with as_nobody() as folder:
        machine = Machine(folder / "home")
        before = machine.write(PERSONS, 0o444)
        said = machine.install()
        assert "left: " in said[0] and "can't be written" in said[0] and "install --print" in said[0]
        assert machine.settings.read_bytes() == before and {path.name for path in machine.config.iterdir()} == OURS
        shown = json.loads(tb.preview(machine.env, False, False))
        machine.settings.unlink()
        before = machine.write({**PERSONS, **shown}, 0o444)
        assert "as it was" in machine.install()[0], "put in by other means, it is installed"
        assert any(line.startswith("left: ") and "trailboss-emit.sh" in line for line in machine.uninstall())
        assert not machine.state().exists()
        assert machine.settings.read_bytes() == before and {path.name for path in machine.config.iterdir()} == {"settings.json"}
        machine.settings.unlink()
        before = machine.write(PERSONS)
        machine.config.chmod(0o555)
        with pytest.raises(tb.Fault, match="trailboss.pyz can't be written .Permission denied.: nothing was changed"):
            machine.install()
        assert machine.settings.read_bytes() == before and len(list(machine.config.iterdir())) == 1
        assert [path.name for path in machine.home.iterdir()] == [".claude"], "nothing is left of what it began"
        machine.config.chmod(0o755)
        machine.settings.chmod(0o000)
        with pytest.raises(tb.Fault, match="can't be read"):
            machine.install()
        machine.settings.chmod(0o644)
        machine.install()
        assert machine.others() == PERSONS


# ---- the form of the file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["absolute", "relative", "chain"])
def test_link_stays_a_link(machine, target):
    real = machine.home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text(json.dumps(PERSONS, indent=2))
    real.chmod(0o640)
    machine.config.mkdir()
    first = machine.settings
    if target == "chain":
        first = machine.home / "first"
        machine.settings.symlink_to(first)
    first.symlink_to(os.path.join("..", "dotfiles", "claude.json") if target == "relative" else real)
    link = os.readlink(str(machine.settings))
    machine.install()
    assert machine.settings.is_symlink() and os.readlink(str(machine.settings)) == link
    assert not real.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert set(machine.ours()) == set(tb.HOOKED) and json.loads(real.read_text()) == machine.read()
    assert [path.name for path in real.parent.iterdir()] == ["claude.json"]
    machine.uninstall()
    assert machine.settings.is_symlink() and machine.read() == PERSONS


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o640])
def test_mode_is_kept(machine, mode):
    machine.write(PERSONS, mode)
    old = os.umask(0o027)
    try:
        machine.install()
    finally:
        os.umask(old)
    assert stat.S_IMODE(machine.settings.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_owner_is_kept(machine):
    machine.write(PERSONS)
    os.chown(str(machine.settings), 65534, 65533)
    machine.install()
    assert (machine.settings.stat().st_uid, machine.settings.stat().st_gid) == (65534, 65533)


@pytest.mark.parametrize("indent", [1, 2, 3, 4, 8, "\t", "\t\t"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_indentation_and_end_are_kept(machine, indent, end):
    before = machine.write(json.dumps(PERSONS, indent=indent, ensure_ascii=False) + end)
    machine.install()
    assert machine.settings.read_bytes() == (json.dumps(machine.read(), indent=indent, ensure_ascii=False) + end).encode()
    machine.uninstall()
    assert machine.settings.read_bytes() == before


def test_odd_text_comes_through(machine):
    machine.write(rb'{"half": "\ud800", "whole": "\ud83d\ude00", "nul": "\u0000", "text": "' + "é\u2028😀".encode() + b'"}')
    before = machine.read()
    machine.install()
    after = machine.read()
    del after["hooks"]
    assert after == before
    machine.install()


# ---- where -------------------------------------------------------------------------------------------------------------

ODD_FOLDERS = ["plain", "with space", "qu'ote", 'double"quote', "$HOME `id` $(id)", "back\\slash", "semi;colon & more", "ümläut",
               "-n", "*?[a]", "~", "#x", "{a,b}", "tab\there"]


@pytest.mark.parametrize("place", ["home", "config"])
@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_folder_may_have_any_name(tmp_path, place, name):
    """The hook that is written finds its emitter, and the emitter its state folder."""
    if place == "home":
        machine = Machine(tmp_path / name)
    else:
        machine = Machine(tmp_path / "home")
        machine.config = tmp_path / name
        machine.env["CLAUDE_CONFIG_DIR"] = str(machine.config)
    machine.install()
    assert set(machine.ours()) == set(tb.HOOKED)
    for n, shell in enumerate(SHELLS[:2]):
        assert run_hook(machine, shell) == (0, b"", b"")
        assert len(spooled(machine)) == n + 1, shell
    machine.install()
    assert {len(hooks) for hooks in machine.ours().values()} == {1}
    machine.uninstall()
    assert not machine.settings.exists() and machine.config.exists() == (machine.config == machine.home)


def test_folder_whose_name_is_no_text(tmp_path):
    """JSON can't hold it. With HOME named like that the hook needs no name: it says ~."""
    machine = Machine(tmp_path / "home\udcff")
    machine.install()
    assert run_hook(machine) == (0, b"", b"") and len(spooled(machine)) == 1
    machine.config = tmp_path / "conf\udcff"
    machine.env["CLAUDE_CONFIG_DIR"] = str(machine.config)
    with pytest.raises(tb.Fault, match="CLAUDE_CONFIG_DIR"):
        machine.install()
    assert not machine.config.exists()


def run_hook(machine, shell=("sh",), payload=b'{"hook_event_name": "Stop", "session_id": "s1"}', env=None, cwd=None):
    """Run the hook as Claude Code does: (exit code, output, errors)."""
    (hook,) = machine.ours()["Stop"]
    done = subprocess.run([*shell, "-c", hook["command"]], input=payload, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=machine.env if env is None else env, cwd=cwd and str(cwd), timeout=hook["timeout"])
    return done.returncode, done.stdout, done.stderr


def spooled(machine):
    return sorted((machine.state() / "spool").glob("*.event"))


def test_home_and_config_are_the_environments(tmp_path):
    machine = Machine(tmp_path / "home")
    machine.env.update(CLAUDE_CONFIG_DIR=str(tmp_path / "conf") + "/", XDG_STATE_HOME=str(tmp_path / "state"))
    machine.install()
    machine.config = tmp_path / "conf"
    assert set(machine.ours()) == set(tb.HOOKED) and not (machine.home / ".claude").exists()
    assert (tmp_path / "state" / "trailboss" / "configs").read_text() == str(tmp_path / "conf") + "\n"
    del machine.env["CLAUDE_CONFIG_DIR"]
    machine.install()
    assert (tmp_path / "state" / "trailboss" / "configs").read_text().split() == sorted(
        [str(tmp_path / "conf"), str(machine.home / ".claude")])
    assert set(tb.configs_of(str(tmp_path / "state" / "trailboss"), {"HOME": "/h"})) == {
        "/h/.claude", str(tmp_path / "conf"), str(machine.home / ".claude")}


def test_same_settings_serve_on_another_machine(machine, tmp_path):
    """A home that is copied, or shared by links, has another path there."""
    machine.install()
    elsewhere = Machine(tmp_path / "moved")
    shutil.copytree(str(machine.config), str(elsewhere.config))
    shutil.rmtree(str(machine.config))
    assert run_hook(elsewhere, cwd=tmp_path) == (0, b"", b"")
    assert spooled(machine), "the emitter ran"


def test_emitter_knows_home_python_and_program(machine):
    machine.env["TRAILBOSS_HOME"] = str(machine.home / "it's state")
    machine.install()
    script = (machine.config / "trailboss-emit.sh").read_text()
    source = (ROOT / "hooks" / "trailboss-emit.sh").read_text()
    values = {"home": str(machine.home / "it's state"), "python": tb.lasting_python(), "program": str(machine.config / "trailboss.pyz")}
    for name, value in values.items():
        assert source.count("\n%s=\n" % name) == 1
        source = source.replace("\n%s=\n" % name, "\n%s=%s\n" % (name, shlex.quote(value)))
    assert script == source
    assert run_hook(machine, env={"PATH": os.environ["PATH"], "HOME": str(machine.home)}) == (0, b"", b"")
    assert len(spooled(machine)) == 1, "whatever environment the hook sees"


@pytest.mark.parametrize("trouble", ["missing", "garbage", "exits 2", "folder", "unreadable", "empty", "cut"])
@pytest.mark.parametrize("shell", SHELLS, ids=lambda argv: os.path.basename(argv[0]) + "".join(argv[1:]))
def test_hook_ends_well_whatever_has_become_of_the_emitter(machine, shell, trouble):
    machine.install()
    emitter = machine.config / "trailboss-emit.sh"
    script = emitter.read_bytes()
    emitter.unlink()
    if trouble == "folder":
        emitter.mkdir()
    elif trouble != "missing":
        emitter.write_bytes({"garbage": b"\x7fELF\0((( ' \" `\n", "exits 2": b"echo out; echo err >&2; exit 2\n", "empty": b"",
                             "cut": script[:len(script) // 2], "unreadable": script}[trouble])
        emitter.chmod(0o000 if trouble == "unreadable" else 0o755)
    assert run_hook(machine, shell) == (0, b"", b"")
    assert run_hook(machine, shell, env={}, cwd="/") == (0, b"", b"")


def test_hook_without_a_home_is_quiet(machine):
    machine.install()
    for shell in SHELLS:
        assert run_hook(machine, shell, env={"PATH": os.environ["PATH"]}) == (0, b"", b"")
        assert run_hook(machine, shell, env={"PATH": "/nowhere", "HOME": "/nowhere"}) == (0, b"", b"")


def test_hook_in_a_hostile_folder(machine, tmp_path):
    """The project's own Python modules and tools are no business of the hook's."""
    machine.install()
    for name in ("json.py", "os.py", "sitecustomize.py", "trailboss.py", "sh", "curl", "date", ".python-version"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch '%s/pwned'\n" % tmp_path)
        (tmp_path / name).chmod(0o755)
    env = {**machine.env, "PYTHONPATH": str(tmp_path), "ENV": str(tmp_path / "sh"), "BASH_ENV": ""}
    assert run_hook(machine, env=env, cwd=tmp_path) == (0, b"", b"")
    assert not (tmp_path / "pwned").exists() and spooled(machine)


# ---- from which form of the program ------------------------------------------------------------------------------------


def run_program(program, machine, *argv):
    done = subprocess.run([sys.executable, str(program), *argv], env=machine.env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, cwd="/", timeout=20)
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode()


def files_of(machine):
    return {path: entry[0] for path, entry in tree(machine.config).items() if "__pycache__" not in path}


def test_source_and_pyz_install_the_same(tmp_path):
    """From the source, through a link to it, from the .pyz, and from the installed .pyz again."""
    pyz = tmp_path / "some where" / "tb"
    pyz.parent.mkdir()
    tb.build(str(pyz))
    (tmp_path / "linked").symlink_to(ROOT / "trailboss.py")
    (tmp_path / "linked pyz").symlink_to(pyz)
    results = []
    for program in (ROOT / "trailboss.py", tmp_path / "linked", pyz, tmp_path / "linked pyz"):
        machine = Machine(tmp_path / ("home%d" % len(results)))
        code, out, err = run_program(program, machine, "install")
        assert (code, err) == (0, ""), program
        installed = machine.config / "trailboss.pyz"
        assert installed.read_bytes() == pyz.read_bytes() and not installed.is_symlink()
        files = files_of(machine)
        results.append({path: content.replace(str(machine.home).encode(), b"~") if path in ("trailboss-emit.sh", "trailboss.tmux.conf")
                        else content for path, content in files.items()})
    assert all(result == results[0] for result in results)
    code, out, err = run_program(installed, machine, "install")
    assert (code, err) == (0, "") and "as it was" in out and files_of(machine) == files
    code, out, err = run_program(installed, machine, "uninstall")
    assert (code, err) == (0, "") and not list(machine.home.iterdir()), out
    assert str(machine.state()) in out


def test_installed_program_runs_what_was_unpacked_and_else_itself(machine):
    """Compiled once by the Python that will run it. What is there of another version is not looked at, and goes."""
    (machine.config / "trailboss.d" / "0123456789abcdef").mkdir(parents=True)
    (machine.config / "trailboss.d" / "0123456789abcdef" / "trailboss.py").write_text("raise SystemExit('an older one')")
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install")
    assert (code, err) == (0, "")
    (folder,) = (machine.config / "trailboss.d").iterdir()
    assert folder.name == tb.digest_of((ROOT / "trailboss.py").read_bytes())
    assert len(list(folder.glob("__pycache__/trailboss.*.pyc"))) == 1
    program = machine.config / "trailboss.pyz"
    (folder / "trailboss.py").write_text("import sys\ndef main():\n    print(sys.modules['__main__'].__file__)\n    return 7\n")
    code, out, err = run_program(program, machine, "list")
    assert (code, out, err) == (7, "%s\n" % (program / "__main__.py"), "")
    shutil.rmtree(str(folder))
    assert run_program(program, machine, "list")[0] == 3, "out of the archive"
    code, out, err = run_program(program, machine, "install")
    assert (code, err) == (0, "") and len(list(folder.glob("__pycache__/*.pyc"))) == 1


def test_refusal_is_one_sentence_and_exit_1(machine):
    machine.write('{"a": 1,}')
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install")
    assert (code, out, err.count("\n")) == (1, "", 1) and "line 1" in err and "Traceback" not in err


def test_folder_that_can_not_be_made_is_one_sentence(machine):
    machine.config.write_text("")
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install")
    assert (code, out, err.count("\n")) == (1, "", 1) and str(machine.config) in err and "Traceback" not in err


# ---- what may be in the way ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content, word", [({"disableAllHooks": True}, "disableAllHooks"), ({"disableAllHooks": False}, None),
                                           ({"allowManagedHooksOnly": True}, None), ({}, None)])
def test_hooks_that_are_switched_off_are_told_of(machine, content, word):
    machine.write(content)
    warnings = [line for line in machine.install() if line.startswith("warning:")]
    assert [word in line and str(machine.settings) in line for line in warnings] == ([True] if word else [])


@pytest.mark.parametrize("content, word", [('{"allowManagedHooksOnly": true}', "allowManagedHooksOnly"), ("[1]", None), ("{,", None),
                                           ('\ufeff{"disableAllHooks": true}', "disableAllHooks"), ('{"disableAllHooks": 1}', None)])
@pytest.mark.parametrize("name", ["managed-settings.json", "managed-settings.d/20-hooks.json"])
def test_managed_settings_in_the_way_are_told_of(machine, monkeypatch, tmp_path, content, word, name):
    managed = tmp_path / name
    managed.parent.mkdir(exist_ok=True)
    managed.write_text(content)
    monkeypatch.setattr(tb, "MANAGED", (str(tmp_path / "managed-settings.json"), str(tmp_path / "no such")))
    warnings = [line for line in machine.install() if line.startswith("warning:")]
    assert [word in line and str(managed) in line for line in warnings] == ([True] if word else [])


@pytest.mark.parametrize("missing", ["curl", "tmux"])
def test_missing_tool_is_told_of(machine, monkeypatch, missing):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **how: None if name == missing else which(name, **how))
    assert [line for line in machine.install() if line.startswith("warning:") and "no " + missing in line]


def test_running_sessions_are_counted(machine):
    """Live ones before a person, by Claude Code's own records."""
    folder = machine.config / "sessions"
    folder.mkdir(parents=True)
    me = tb.process_of(os.getpid())
    for pid, more in ((me.pid, {}), (1, {"kind": "bg"}), (os.getppid(), {"entrypoint": "sdk-cli"}), (4194301, {})):
        process = tb.process_of(pid)
        (folder / ("%d.json" % pid)).write_text(json.dumps({
            "pid": pid, "sessionId": "s%d" % pid, "status": "idle", "procStart": process.start if process else "1",
            "startedAt": 1000, "statusUpdatedAt": 1000, "entrypoint": "cli", "kind": "interactive", **more}))
    assert "sessions: 1 of Claude Code runs now; it is listed without a restart" in machine.install()


# ---- for one project, and only to look --------------------------------------------------------------------------------


def test_hooks_for_one_project(machine, monkeypatch, tmp_path):
    """In its own settings, with the same command: files of ours are in the config folder as ever."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    machine.write(PERSONS)
    machine.install(project=True)
    assert machine.read() == PERSONS and not machine.ours()
    theirs = json.loads((project / ".claude" / "settings.json").read_text())
    assert theirs == json.loads(tb.preview(machine.env, False, False))
    assert [path.name for path in (project / ".claude").iterdir()] == ["settings.json"]
    monkeypatch.chdir("/")
    machine.uninstall()
    assert not list(project.iterdir()) and machine.read() == PERSONS


def test_preview_changes_nothing(machine):
    machine.write(PERSONS)
    before = tree(machine.home)
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install", "--print")
    assert (code, err) == (0, "") and tree(machine.home) == before
    machine.install()
    assert json.loads(out)["hooks"] == {event: [{"hooks": hooks}] for event, hooks in machine.ours().items()}
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install", "--print", "--tmux", "--service")
    assert "source-file -q ~/.claude/trailboss.tmux.conf" in out and "ExecStart=" in out


def test_several_config_folders_go_by_one_command(machine, tmp_path):
    other = Machine(tmp_path / "home")
    other.config = machine.home / "work"
    other.env["CLAUDE_CONFIG_DIR"] = str(other.config)
    before = machine.write(LONG), other.write(PERSONS)
    machine.install()
    other.install()
    assert set(machine.ours()) == set(other.ours()) == set(tb.HOOKED)
    machine.uninstall()
    assert (machine.settings.read_bytes(), other.settings.read_bytes()) == before
    assert all({path.name for path in each.config.iterdir()} == {"settings.json"} for each in (machine, other))


def test_state_folder_of_the_persons_own_is_refused(machine):
    """$TRAILBOSS_HOME may name any folder: one that holds other things is not used, and its mode stays."""
    machine.env["TRAILBOSS_HOME"] = str(machine.home)
    machine.home.chmod(0o755)
    (machine.home / "notes.txt").write_text("mine")
    with pytest.raises(tb.Fault, match="holds other things.*set TRAILBOSS_HOME to a folder of its own"):
        machine.install()
    code, out, err = run_program(ROOT / "trailboss.py", machine, "serve", "--port", "0")
    assert code == 1 and "holds other things" in err
    assert "others can look into it" in err
    assert [path.name for path in machine.home.iterdir()] == ["notes.txt"] and stat.S_IMODE(machine.home.stat().st_mode) == 0o755


def test_what_was_put_beside_the_state_stays(machine):
    machine.install()
    for path in (machine.state() / "notes.txt", machine.state() / "spool" / "letter"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (machine.state() / "token").write_text("0" * 64)
    assert "has files that are not ours: left" in machine.uninstall()[-1]
    assert {path.name for path in machine.state().iterdir()} == {"notes.txt", "spool"}
    assert [path.name for path in (machine.state() / "spool").iterdir()] == ["letter"]


def test_folder_that_was_there_for_the_state_stays(machine, tmp_path):
    (tmp_path / "given").mkdir()
    machine.env["TRAILBOSS_HOME"] = str(tmp_path / "given")
    machine.install()
    machine.uninstall()
    assert (tmp_path / "given").is_dir() and not list((tmp_path / "given").iterdir())


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b""),
                                    lambda path: path.write_bytes(b"\xff" + path.read_bytes())])
def test_backup_that_is_damaged_is_not_given_back(machine, damage):
    """Then just ours is taken out, as when somebody had changed the file."""
    before = machine.write(LONG)
    (machine.home / ".tmux.conf").write_text("set -g mouse on\n")
    machine.install(keys=True)
    backups = list(machine.state().glob("before-*"))
    assert len(backups) == 2
    for path in backups:
        damage(path)
    machine.uninstall()
    assert machine.settings.read_bytes() == before and (machine.home / ".tmux.conf").read_text() == "set -g mouse on\n"
    assert not machine.state().exists()


@pytest.mark.parametrize("content", [b"# gr\xfc\xdfe\nset -g mouse on", b"\xff\xfe\0", b""])
def test_tmux_conf_is_bytes(machine, content):
    conf = machine.home / ".tmux.conf"
    conf.write_bytes(content)
    machine.install(keys=True)
    assert conf.read_bytes().startswith(content) and b"source-file -q" in conf.read_bytes()
    conf.write_bytes(conf.read_bytes() + b"# \xe9\n")
    machine.uninstall()
    assert conf.read_bytes() in (content + b"# \xe9\n", content + b"\n# \xe9\n")


def test_tmux_conf_that_can_not_be_read_stops_nothing(machine):
    (machine.home / ".tmux.conf").mkdir()
    assert any(line.startswith("left: ") and ".tmux.conf can't be read" in line for line in machine.install(keys=True))
    assert set(machine.ours()) == set(tb.HOOKED)
    said = machine.uninstall()
    assert any(line.startswith("left: ") for line in said) and not machine.config.exists() and not machine.state().exists()


def test_service_of_the_persons_own_stays(machine, manager):
    unit = machine.home / ".config" / "systemd" / "user" / "trailboss.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("# mine\n")
    assert any(line.startswith("left: ") and "is not ours" in line for line in machine.install(service=True))
    machine.uninstall()
    assert unit.read_text() == "# mine\n" and [call for call in told(manager) if "show" not in call] == []


def test_unpacked_folder_that_leads_elsewhere_is_not_followed(machine, tmp_path):
    (tmp_path / "stuff" / "x").mkdir(parents=True)
    machine.config.mkdir()
    (machine.config / "trailboss.d").symlink_to(tmp_path / "stuff")
    machine.install()
    machine.uninstall()
    assert [path.name for path in (tmp_path / "stuff").iterdir()] == ["x"] and not machine.config.joinpath("trailboss.d").exists()


def test_sources_are_not_taken_for_what_was_installed(machine, tmp_path):
    """CLAUDE_CONFIG_DIR may be a checkout's own folder of hooks."""
    folder = tmp_path / "hooks"
    shutil.copytree(str(ROOT / "hooks"), str(folder))
    machine.env["CLAUDE_CONFIG_DIR"] = str(folder)
    machine.uninstall()
    assert {path.name for path in folder.iterdir()} == {"trailboss-emit.sh", "trailboss.tmux.conf"}


def test_what_a_killed_install_was_writing_goes(machine):
    machine.install(keys=True)
    for name in (".claude/settings.json.123.tmp", ".claude/trailboss.pyz.4.tmp", ".tmux.conf.99.tmp"):
        (machine.home / name).write_text("half")
    (machine.home / ".claude" / "settings.json.mine.tmp").write_text("mine")
    machine.uninstall()
    assert [str(path.relative_to(machine.home)) for path in machine.home.rglob("*.tmp")] == [".claude/settings.json.mine.tmp"]


@pytest.mark.parametrize("home", ["/another/machine's", "'unbalanced"])
def test_emitter_of_another_machine_misleads_nobody(machine, home):
    machine.install()
    emitter = machine.config / "trailboss-emit.sh"
    emitter.write_text(re.sub("(?m)^home=.*$", lambda _: "home=" + (shlex.quote(home) if "a" == home[1] else home), emitter.read_text()))
    machine.uninstall()
    assert not list(machine.home.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_does_not_install_into_another_ones_home(machine):
    os.chown(str(machine.home), 65534, 65534)
    with pytest.raises(tb.Fault, match="is not root's.*without sudo"):
        machine.install()
    assert not list(machine.home.iterdir())


def test_daemon_that_does_not_answer_is_told_of_and_all_else_is_done(machine, monkeypatch):
    machine.install()
    daemon = tb.start_daemon(machine.env, [sys.executable, str(ROOT / "trailboss.py"), "serve", "--port", "0"])
    os.kill(daemon["pid"], signal.SIGSTOP)
    try:
        sleep, slept = time.sleep, []
        monkeypatch.setattr(tb.time, "sleep", lambda seconds: (slept.append(seconds), sleep(0.001)))
        clock = time.time
        monkeypatch.setattr(tb.time, "time", lambda: clock() + sum(slept))
        said = machine.uninstall()
        assert any(line.startswith("left: ") and "kill -9 %d" % daemon["pid"] in line for line in said)
        assert not machine.config.exists()
    finally:
        os.kill(daemon["pid"], signal.SIGKILL)


def test_newer_daemon_that_can_not_start_is_told_of(machine):
    """What is wrong with it stands in the report; all else is done."""
    machine.install()
    older = machine.home / "older" / "trailboss.py"
    older.parent.mkdir()
    older.write_text((ROOT / "trailboss.py").read_text() + "# older\n")
    tb.start_daemon(machine.env, [sys.executable, str(older), "serve", "--port", "0"])
    machine.env["TRAILBOSS_PORT"] = "abc"
    said = machine.install()
    assert any(line.startswith("left: ") and "TRAILBOSS_PORT is 'abc'" in line for line in said), said


# ---- the Python that lasts ---------------------------------------------------------------------------------------------


def test_path_without_a_version_is_taken(monkeypatch, tmp_path):
    def python(name, target=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target) if target else path.write_text(name)
        return str(path)
    own = python("opt/python-3.12.1/bin/python3.12")
    python("shims/python3")
    monkeypatch.setattr(sys, "executable", own)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("PATH", "%s:relative:%s" % (tmp_path / "shims", tmp_path / "bin"))
    assert tb.lasting_python() == own, "a shim is another file"
    shorter = python("opt/python-3.12.1/bin/python3", own)
    assert tb.lasting_python() == shorter, "at least the file has no version"
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyvenv.cfg").write_text("")
    python("project/bin/python3", own)
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "project" / "bin", tmp_path / "bin"))
    assert tb.lasting_python() == shorter, "not one that goes with a project"
    best = python("bin/python3", own)
    assert tb.lasting_python() == best
    monkeypatch.setattr(sys, "executable", str(tmp_path / "project" / "bin" / "python3"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "project"))
    assert tb.lasting_python() == best


# ---- a service ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def manager(machine, tmp_path, monkeypatch):
    """systemctl and launchctl that write down what they were told, fail as a file tells them to, and start what they are to
    start; as on a machine that systemd has started."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("systemctl", "launchctl"):
        (tools / name).write_text('''#!/bin/sh
cd "${0%%/*}"
echo "${0##*/} $*" >>calls
while read -r code what; do case "$*" in *"$what"*) echo "said $what" >&2; exit $code;; esac; done <fails
case "$*" in *restart*|*bootstrap*) '%s' -I '%s/trailboss.pyz' serve --port 0 >/dev/null 2>&1 & ;; esac
''' % (sys.executable, machine.config))
        (tools / name).chmod(0o755)
    (tools / "fails").write_text("")
    (tools / "calls").write_text("")
    isdir = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/run/systemd/system" or isdir(path))
    machine.env["PATH"] = "%s:/usr/bin:/bin" % tools
    yield tools
    (tools / "fails").write_text("")
    tb.end_daemon(str(machine.state()))


def told(tools):
    said = [line.split(" ", 1)[1].replace("--user ", "") for line in (tools / "calls").read_text().splitlines()]
    (tools / "calls").write_text("")
    return said


def test_service_is_made_started_renewed_and_removed(machine, manager):
    machine.install()
    assert told(manager) == []
    first = tb.start_daemon(machine.env, [sys.executable, str(ROOT / "trailboss.py"), "serve", "--port", "0"])
    said = machine.install(service=True)
    unit = machine.home / ".config" / "systemd" / "user" / "trailboss.service"
    second = tb.running_daemon(str(machine.state()))
    assert second["pid"] != first["pid"] and "pid %d" % second["pid"] in said[-1] and str(unit) in said[-1]
    assert "enable-linger" in said[-1]
    assert "TRAILBOSS_HOME=%s" % machine.state() in unit.read_text() and "PATH=%s" % machine.env["PATH"] in unit.read_text()
    assert told(manager) == ["show-environment", "daemon-reload", "enable %s" % unit, "reset-failed trailboss.service",
                             "restart trailboss.service"]
    machine.install()  # a newer version, say: what runs is replaced
    assert tb.running_daemon(str(machine.state()))["pid"] != second["pid"] and "restart trailboss.service" in told(manager)
    said = machine.uninstall()
    assert told(manager)[:2] == ["show-environment", "disable --now trailboss.service"]
    assert not unit.exists() and not (machine.home / ".config").exists() and not tb.running_daemon(str(machine.state()))


@pytest.mark.parametrize("fails, words", [("1 show-environment\n", "no service manager of yours answers (said show-environment)"),
                                          ("5 restart\n", "restart trailboss.service` failed: said restart")])
def test_service_that_can_not_be_had_is_told_of(machine, manager, fails, words):
    (manager / "fails").write_text(fails)
    said = machine.install(service=True)
    assert [line for line in said if line.startswith("left:") and words in line] and "serve --detach" in said[-1]
    assert set(machine.ours()) == set(tb.HOOKED) and not Path(tb.service_file(machine.env)).exists(), "all else is done"
    first = tb.start_daemon(machine.env, [sys.executable, str(ROOT / "trailboss.py"), "serve", "--port", "0"])
    said = machine.install(service=True)
    daemon = tb.running_daemon(str(machine.state()))
    assert daemon and "pid %d " % daemon["pid"] in said[-1], "one that ran is not lost"
    assert daemon == first or "restart" in words
    machine.uninstall()
    assert not list(machine.home.iterdir())


def test_machine_without_systemd_is_told_of(machine, manager, monkeypatch):
    monkeypatch.setitem(machine.env, "PATH", "/nowhere")
    said = machine.install(service=True)
    assert ("left:     the service could not be made: this machine was not started by systemd; the daemon runs without "
            "one until the next reboot") in said
    assert not (machine.home / ".config" / "systemd" / "user" / "trailboss.service").exists()


def test_service_that_can_not_be_stopped_from_here_is_removed(machine, manager):
    machine.install(service=True)
    (manager / "fails").write_text("1 --user\n")
    said = "\n".join(machine.uninstall())
    assert "could not be stopped from here" in said and not (machine.home / ".config").exists()
    assert "daemon:   pid" in said and not tb.running_daemon(str(machine.state()))


def test_agent_of_launchd(machine, manager, monkeypatch):
    """Written from launchd's documentation: no Mac was here to try it on."""
    monkeypatch.setattr(tb, "MAC", True)
    domain = "gui/%d" % os.getuid()
    (manager / "fails").write_text("113 print %s/\n3 bootout\n" % domain)  # not loaded
    machine.install(service=True)
    agent = machine.home / "Library" / "LaunchAgents" / "dev.trailboss.plist"
    assert told(manager) == ["print %s" % domain, "bootout %s/dev.trailboss" % domain, "print %s/dev.trailboss" % domain,
                             "enable %s/dev.trailboss" % domain, "bootstrap %s %s" % (domain, agent)]
    machine.uninstall()
    assert not (machine.home / "Library").exists()
    (manager / "fails").write_text("113 print\n")
    assert any("at the screen of this Mac" in line for line in machine.install(service=True) if line.startswith("left:"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path):
    hard = ["two words", "é", "100%h %n %%", "$HOME ${HOME} $$", "it's \"so\"", "back\\slash\\", "", ";", "a=b", "#", "@!+:-"]
    path = tmp_path / "trailboss.service"
    path.write_text(tb.systemd_unit(["/bin/sh", *hard], {"V%d" % n: word for n, word in enumerate(hard)}))
    done = subprocess.run(["systemd-analyze", "--user", "--man=no", "verify", str(path)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, b"")

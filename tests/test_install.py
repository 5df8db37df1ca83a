"""Section 11: our hooks go into the person's settings and out again, and nothing else of theirs changes."""
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, tb
from test_disk import as_nobody

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
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"]}

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
        return json.loads(self.settings.read_bytes().decode("utf-8"), parse_constant=pytest.fail)

    def install(self):
        return tb.install(self.env)

    def uninstall(self):
        return tb.uninstall(self.env)

    def state(self):
        return Path(tb.state_home(self.env))

    def ours(self):
        """{event: our hooks on it}."""
        found = {}
        for event, groups in self.read().get("hooks", {}).items():
            for group in groups:
                found.setdefault(event, []).extend(h for h in group.get("hooks", ()) if "trailboss-emit.sh" in h.get("command", ""))
        return {event: hooks for event, hooks in found.items() if hooks}

    def others(self):
        """The settings without our groups, which must then be the person's again."""
        settings = self.read()
        for event, groups in list(settings.get("hooks", {}).items()):
            left = [g for g in groups if not any("trailboss-emit.sh" in h.get("command", "") for h in g.get("hooks", ()))]
            settings["hooks"][event] = left
            if groups and not left:
                del settings["hooks"][event]
        return settings


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


def test_fresh_install(machine):
    said = "\n".join(machine.install())
    assert set(machine.ours()) == set(tb.HOOKED) == set(machine.read()["hooks"])
    for hooks in machine.ours().values():
        (hook,) = hooks
        assert hook["type"] == "command" and hook["async"] is True and 1 <= hook["timeout"] <= 10
        assert set(hook) == {"type", "command", "async", "timeout"}
    assert "matcher" not in json.dumps(machine.read())
    for path in (machine.settings, machine.config / "trailboss-emit.sh", machine.config / "trailboss.pyz", machine.state()):
        assert path.exists() and str(path) in said
    for name in ("trailboss-emit.sh", "trailboss.pyz"):
        assert stat.S_IMODE((machine.config / name).stat().st_mode) == 0o755
    assert stat.S_IMODE(machine.settings.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.state().stat().st_mode) == 0o700
    assert {path.name for path in machine.config.iterdir()} == {"settings.json", "trailboss-emit.sh", "trailboss.pyz"}


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
    machine.install()
    files = {path: (path.read_bytes(), path.stat().st_mode) for folder in (machine.config, machine.state())
             for path in folder.iterdir()}
    inode = machine.settings.stat().st_ino
    said = machine.install()
    assert {path: (path.read_bytes(), path.stat().st_mode) for folder in (machine.config, machine.state())
            for path in folder.iterdir()} == files
    assert machine.settings.stat().st_ino == inode and "as it was" in said[0]


@pytest.mark.parametrize("content", [{}, {"model": "x"}, PERSONS, {"hooks": {"PreToolUse": OTHERS["Stop"]}, "z": 1}])
def test_uninstall_takes_out_just_ours(machine, content):
    machine.write(content)
    machine.install()
    assert machine.read() != content
    machine.uninstall()
    assert machine.read() == content and list(machine.read()) == list(content)
    assert {path.name for path in machine.config.iterdir()} == {"settings.json"}
    before = machine.settings.read_bytes()
    assert "none of ours" in machine.uninstall()[0]
    assert machine.settings.read_bytes() == before


def test_uninstall_where_nothing_is(machine):
    assert machine.uninstall()
    assert not machine.config.exists()


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


@pytest.mark.parametrize("content, line, column", [
    ('{\n  "a": 1, // mine\n  "b": 2\n}', 2, 11), ('{\n  "a": 1,\n}', 3, 1), ('{"a": 1', 1, 8), ("{'a': 1}", 1, 2),
    ('{"a": 1}}', 1, 9), ('{"a": [1,\n 2,\n ]}', 3, 2), ('/* x */ {}', 1, 1), ('{"a": "\n"}', 1, 8), ("not json", 1, 1),
    ('\ufeff{}', 1, 1)])
def test_invalid_json_is_refused_with_its_place(machine, content, line, column):
    machine.write(content)
    refused(machine, "line ", "column ")
    with pytest.raises(tb.Fault) as raised:
        machine.install()
    found = [int(n) for n in re.search(r"line ([0-9]+), column ([0-9]+)", str(raised.value)).groups()]
    assert found[0] in (line, line - 1) and (found == [line, column] or sys.version_info >= (3, 13)), found


@pytest.mark.parametrize("content", [
    b"\xff\xfe{}", b'{"a": "\xe9"}', b"\0" * 100, b"[" * 100_000, b'{"a":' * 100_000, b'{"a": NaN}', b'{"a": -Infinity}',
    b'{"a": 1e999}', b'{"hooks": {}, "a": 1, "hooks": {"Stop": []}}', b'{"a": {"b": 1, "b": 2}}'], ids=range(10))
def test_what_would_not_come_through_whole_is_refused(machine, content):
    machine.write(content)
    refused(machine)


@pytest.mark.parametrize("content, place", [
    ("[]", "the file"), ("null", "the file"), ("5", "the file"), ('"x"', "the file"), ({"hooks": []}, "hooks"),
    ({"hooks": None}, "hooks"), ({"hooks": "x"}, "hooks"), ({"hooks": 0}, "hooks"), ({"hooks": False}, "hooks"),
    ({"hooks": {"Stop": {}}}, "hooks.Stop"), ({"hooks": {"Stop": None}}, "hooks.Stop"), ({"hooks": {"Stop": "x"}}, "hooks.Stop"),
    ({"hooks": {"Stop": ["x"]}}, "hooks.Stop"), ({"hooks": {"Stop": [None]}}, "hooks.Stop"),
    ({"hooks": {"Mine": [{"hooks": {}}]}}, "hooks.Mine"), ({"hooks": {"Mine": [{"hooks": None}]}}, "hooks.Mine"),
    ({"hooks": {"Mine": [[]]}}, "hooks.Mine")])
def test_form_that_claude_code_would_not_take_is_refused(machine, content, place):
    machine.write(content)
    refused(machine, place)


@pytest.mark.parametrize("hook", [None, "x", 5, [], {}, {"command": None}, {"command": 5}, {"type": "http"}])
def test_odd_hooks_of_others_are_kept(machine, hook):
    content = {"hooks": {"Stop": [{"hooks": [hook]}], "Mine": [{"hooks": [hook, hook]}]}}
    machine.write(content)
    machine.install()
    machine.uninstall()
    assert machine.read() == content


@pytest.mark.parametrize("make", ["folder", "fifo", "dangling", "device"])
def test_settings_that_are_no_file_are_refused(machine, make):
    machine.config.mkdir()
    if make == "folder":
        machine.settings.mkdir()
    elif make == "fifo":
        os.mkfifo(str(machine.settings))
    else:
        machine.settings.symlink_to("/dev/zero" if make == "device" else machine.home / "nowhere")
    for action in (machine.install, machine.uninstall):
        with pytest.raises(tb.Fault, match="nothing was changed"):
            action()
    assert [path.name for path in machine.config.iterdir()] == ["settings.json"] and not (machine.home / "nowhere").exists()


def test_change_by_somebody_else_meanwhile_is_not_overwritten(machine, monkeypatch):
    machine.write(PERSONS)
    theirs = b'{"model": "just chosen"}'
    with_ours = tb.with_ours

    def meanwhile(*args):
        machine.settings.write_bytes(theirs)
        return with_ours(*args)
    monkeypatch.setattr(tb, "with_ours", meanwhile)
    with pytest.raises(tb.Fault, match="somebody else.*again"):
        machine.install()
    assert machine.settings.read_bytes() == theirs


def test_failing_write_leaves_all_as_it_was(machine, monkeypatch):
    before = machine.write(PERSONS)
    replace = os.replace

    def fail(source, target):
        if target.endswith("settings.json"):
            raise OSError(28, "No space left on device", source, None, target)
        replace(source, target)
    monkeypatch.setattr(tb.os, "replace", fail)
    with pytest.raises(tb.Fault, match="No space left.*not changed"):
        machine.install()
    assert machine.settings.read_bytes() == before
    assert not [path for path in machine.config.iterdir() if path.suffix == ".tmp"]


def test_read_only_settings_are_left_alone():
    with as_nobody() as folder:
        machine = Machine(folder / "home")
        for action in (machine.install, machine.uninstall):
            before = machine.write(PERSONS if action == machine.install else tb.with_ours(PERSONS, tb.hook_entry("/c", "/h")))
            machine.settings.chmod(0o444)
            with pytest.raises(tb.Fault, match="can't be written.*not changed"):
                action()
            assert machine.settings.read_bytes() == before
            shutil.rmtree(str(machine.config))
        before = machine.write(PERSONS)
        machine.config.chmod(0o555)
        with pytest.raises(tb.Fault, match="can't be written"):
            machine.install()
        assert machine.settings.read_bytes() == before and len(list(machine.config.iterdir())) == 1
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
    assert machine.read() == {}


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
    values = {"home": str(machine.home / "it's state"), "python": sys.executable, "program": str(machine.config / "trailboss.pyz")}
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
        results.append((machine.read(), (machine.config / "trailboss-emit.sh").read_text().replace(str(machine.home), "~")))
        files = {path.name: path.read_bytes() for path in machine.config.iterdir()}
    assert all(result == results[0] for result in results)
    code, out, err = run_program(installed, machine, "install")
    assert (code, err) == (0, "") and "as it was" in out
    assert {path.name: path.read_bytes() for path in machine.config.iterdir()} == files
    code, out, err = run_program(installed, machine, "uninstall")
    assert (code, err) == (0, "") and [path.name for path in machine.config.iterdir()] == ["settings.json"]
    assert str(machine.state()) in out


def test_refusal_is_one_sentence_and_exit_1(machine):
    machine.write('{"a": 1,}')
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install")
    assert (code, out, err.count("\n")) == (1, "", 1) and "line 1" in err and "Traceback" not in err


def test_folder_that_can_not_be_made_is_one_sentence(machine):
    machine.config.write_text("")
    code, out, err = run_program(ROOT / "trailboss.py", machine, "install")
    assert (code, out, err.count("\n")) == (1, "", 1) and str(machine.config) in err and "Traceback" not in err

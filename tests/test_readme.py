"""README.md is true: what it tells a person to type is typed here, in a home of their own, and its tables are the program's."""
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from support import ROOT, tb
from test_build import checkout

README = (ROOT / "README.md").read_text()


def block(after, kind="sh"):
    """The first fenced block after some words."""
    return re.search(r"```%s\n(.*?)```" % kind, README[README.index(after):], re.S).group(1)


def table(heading):
    """The rows of the first table after a heading, as lists of cells."""
    lines = README[README.index(heading):].split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


class Home:
    """A fresh machine: an empty home, and a checkout."""
    become = None  # whom its commands run as

    def __init__(self, folder):
        self.folder = folder / "home"
        self.folder.mkdir()
        self.checkout = checkout(folder / "checkout")
        self.env = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "TMUX_TMPDIR": str(self.folder)}
        self.state = str(self.folder / ".local" / "state" / "trailboss")

    def type(self, command):
        done = subprocess.run(["sh", "-c", command], env=self.env, cwd=str(self.checkout), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, preexec_fn=self.become)
        return done.returncode, done.stdout.decode()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = Home(tmp_path_factory.mktemp("readme"))
    try:
        yield made
    finally:
        tb.end_daemon(made.state)


def test_from_nothing_to_a_running_trail_boss_and_back(home):
    code, out = home.type(block("one command"))
    assert code == 0, out
    assert re.match(r"trailboss %s runs: it listens on 127\.0\.0\.1:[0-9]+( .the usual port could not be had.)?, pid [0-9]+, " % re.escape(tb.VERSION),
                    out.splitlines()[-1])
    trailboss = re.match(r"alias trailboss='(.*)'", block("`~/.bashrc`")).group(1)
    assert home.type(trailboss + " list") == (0, "Nothing is waiting.\n")
    script = block("Your own scripts")
    assert home.type(script) == (0, "")
    code, out = home.type(trailboss + " list")
    assert "the build is done" in out and home.type(trailboss + " jump")[0] == 1, "it has no pane"
    assert home.type(script.replace('"Stop"', '"SessionEnd"')) == (0, "")
    assert home.type(trailboss + " list") == (0, "Nothing is waiting.\n")
    daemon = tb.running_daemon(home.state)
    code, out = home.type(block("one command"))
    assert code == 0 and "pid %d on" % daemon["pid"] in out and "next:" not in out and tb.running_daemon(home.state) == daemon
    (home.checkout / "trailboss.py").write_text((ROOT / "trailboss.py").read_text() + "# newer\n")
    code, out = home.type(block("one command"))
    newer = tb.running_daemon(home.state)
    assert code == 0 and newer["pid"] != daemon["pid"] and newer["program"] != daemon["program"], out
    assert "pid %d" % newer["pid"] in out and "in the place of pid %d" % daemon["pid"] in out
    remove = re.search(r"To remove it\*\*: `(.*?)`", README).group(1)
    code, out = home.type(remove)
    assert code == 0 and not list(home.folder.iterdir()) and not tb.process_of(newer["pid"]), out


def test_what_is_written_is_what_the_table_says(home):
    listed = [re.findall(r"`(.*?)`", cell) for row in table("## What is written where") for cell in row]
    assert home.type("./build_pyz.sh --install --tmux")[0] == 0
    time.sleep(0.2)
    names = {name.rstrip("/") for cell in listed for name in cell}
    names = {name if name.startswith("~") else "~/.claude/" + name for name in names if name.startswith(("~", "trailboss"))}
    names.discard("~/.claude")
    written = {"~/" + str(path.relative_to(home.folder)) for path in home.folder.rglob("*") if not path.is_dir()}
    assert {name for name in names if "service" in name or "plist" in name} == names - {
        name for name in names for path in written if (path + "/").startswith(name + "/")}
    assert all(any((path + "/").startswith(name + "/") for name in names) for path in written), written
    home.type("python3 ~/.claude/trailboss.pyz uninstall")
    assert not list(home.folder.iterdir())


def test_wrong_word_after_build_is_a_usage_error(home):
    code, out = home.type("./build_pyz.sh --instal")
    assert code == 2 and out.startswith("usage:") and not list(home.folder.iterdir())


def test_install_that_fails_starts_nothing(home):
    (home.folder / ".claude").mkdir()
    (home.folder / ".claude" / "settings.json").write_text("{,}")
    code, out = home.type("./build_pyz.sh --install")
    assert code == 1 and "line 1, column 2" in out and not tb.running_daemon(home.state)
    shutil.rmtree(str(home.folder / ".claude"))
    assert not list(home.folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/usr/bin/python3"), reason="only root can be two people")
def test_two_people_on_one_host(tmp_path):
    """Each has a daemon and a queue of their own, and neither can look into the other's."""
    folder = Path(tempfile.mkdtemp(prefix="two-people-"))
    folder.chmod(0o755)
    people = []
    try:
        for uid, name in ((0, "root"), (65534, "nobody")):
            (folder / name).mkdir()
            made = Home(folder / name)
            made.env["PATH"] = "/usr/bin:/bin"
            made.become = lambda uid=uid: uid and (os.setgroups([]), os.setgid(uid), os.setuid(uid))
            for path in [folder / name, *(folder / name).rglob("*")]:
                os.chown(str(path), uid, uid)
            people.append(made)
            code, out = made.type(block("one command"))
            assert code == 0 and " runs: " in out.splitlines()[-1], out
        one, other = people
        ports = [tb.running_daemon(made.state)["port"] for made in people]
        assert ports[0] != ports[1]
        for made in people:
            assert made.type(block("Your own scripts").replace("build-1", "s%d" % ports[people.index(made)])) == (0, "")
        for made, port in zip(people, ports):
            code, out = made.type("python3 ~/.claude/trailboss.pyz list")
            assert "s%d" % port in out and out.count("the build is done") == 1
        for name in ("token", "curl.conf", "daemon.json", "trailboss.db"):
            assert other.type("cat '%s/%s'" % (one.state, name))[0] == 1
        token = (Path(other.state) / "token").read_text()
        code, out = other.type("curl -q -s http://127.0.0.1:%d/queue -H 'Authorization: Bearer %s'" % (ports[0], token))
        assert "token" in out and "the build is done" not in out
        code, out = other.type("python3 ~/.claude/trailboss.pyz uninstall")
        assert code == 0 and not list(other.folder.iterdir()), out
        assert tb.running_daemon(one.state)["port"] == ports[0]
    finally:
        for made in people:
            tb.end_daemon(made.state)
        shutil.rmtree(str(folder))


def test_every_command_and_option_is_in_its_table():
    listed = {row[0].strip("`").split(" ")[0]: set(re.findall(r"--[a-z]+", row[0])) for row in table("## Commands")}
    known = {name: {argument for argument, _ in arguments if argument.startswith("--")} for name, _, _, arguments in tb.COMMANDS}
    assert listed == {**known, "emit": set()}


def test_keys_and_options_are_those_of_the_keys_file():
    conf = (ROOT / "hooks" / "trailboss.tmux.conf").read_text()
    keys = {option: key for key, option in re.findall(r"key \w+ (\w) #\{q:(@\w+)\}", conf)}
    assert keys == {row[2].strip("`"): row[0].strip("`") for row in table("keys are pressed")} and len(keys) == 4
    for option, key in keys.items():
        name = option.replace("@trailboss_key_", "trailboss-")
        assert re.search(r"prefix %s .*%s\n" % (key, name), conf) and "'%s=run-shell" % name in conf


def test_ci_finds_the_test_command():
    """.ci/run runs what README says, and finds it by these words."""
    script = (ROOT / ".ci" / "run").read_text()
    done = subprocess.run(["bash", "-c", re.search(r"(?s)\ntest_command\(\) \{\n.*?\n\}\n", script).group() + "test_command"],
                          cwd=str(ROOT), stdout=subprocess.PIPE)
    assert done.stdout.decode() == block("To run the tests") == "tests/run\n"


def test_limits_name_the_versions_that_the_tests_are_run_with():
    version = re.search(r"^version=([0-9.]+)", (ROOT / ".ci" / "run").read_text(), re.M).group(1)
    assert "Claude Code %s" % version in README

"""build_pyz.sh: the same sources make the same bytes, wherever and by whomever, and what it makes works."""
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT, tb
from test_daemon import Daemon

VERSIONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]


def pyenv_python(version):
    """A pyenv Python of this version, or None."""
    root = Path(os.environ.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv"))
    return next((str(path) for path in sorted(root.glob("versions/%s.*/bin/python3" % version))), None)


def checkout(folder):
    """A clean checkout: just the sources."""
    (folder / "hooks").mkdir(parents=True)
    for name in ("trailboss.py", "build_pyz.sh", "hooks/trailboss-emit.sh", "hooks/trailboss.tmux.conf"):
        shutil.copy(str(ROOT / name), str(folder / name))
    return folder


def quick_checkout(folder):
    """The script with a trailboss.py that any Python compiles at once: for what is about the script alone."""
    checkout(folder)
    (folder / "trailboss.py").write_text("def build(target):\n    open(target, 'w').write('built')\n")
    return folder


def build(folder, cwd=None, umask=0o022, command=None, **env):
    """Run build_pyz.sh: (exit code, output, errors)."""
    done = subprocess.run(command or [str(folder / "build_pyz.sh")], cwd=str(cwd or folder), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, **env},
                          preexec_fn=lambda: os.umask(umask))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The .pyz of a plain build."""
    folder = checkout(tmp_path_factory.mktemp("built") / "plain")
    code, out, err = build(folder)
    assert (code, err) == (0, "")
    pyz = folder / "trailboss.pyz"
    assert out == "built:    %s, SHA-256 %s\n" % (pyz, hashlib.sha256(pyz.read_bytes()).hexdigest())
    return pyz


def test_build_leaves_nothing_else_behind(made):
    assert {path.name for path in made.parent.iterdir()} == {"trailboss.py", "build_pyz.sh", "hooks", "trailboss.pyz"}
    assert {path.name for path in (made.parent / "hooks").iterdir()} == {"trailboss-emit.sh", "trailboss.tmux.conf"}


def test_it_has_four_members_and_a_first_line(made):
    assert made.read_bytes().startswith(b"#!/usr/bin/env python3\nPK")
    assert stat.S_IMODE(made.stat().st_mode) == 0o755
    with zipfile.ZipFile(str(made)) as archive:
        assert archive.namelist() == ["__main__.py", "trailboss.py", "trailboss-emit.sh", "trailboss.tmux.conf"]
        assert archive.testzip() is None
        assert archive.infolist()[0].header_offset == len(b"#!/usr/bin/env python3\n"), "offsets as other tools want them"
        assert {(info.date_time, info.external_attr >> 16, info.compress_type, info.extra) for info in archive.infolist()} \
            == {((1980, 1, 1, 0, 0, 0), 0o100644, zipfile.ZIP_STORED, b"")}
        for source in ("trailboss.py", "hooks/trailboss-emit.sh", "hooks/trailboss.tmux.conf"):
            assert archive.read(os.path.basename(source)) == (ROOT / source).read_bytes()
        assert tb.digest_of((ROOT / "trailboss.py").read_bytes()).encode() in archive.read("__main__.py")


def test_other_circumstances_make_the_same_bytes(made, tmp_path):
    folder = checkout(tmp_path / "with 'quote' and $space")
    for path in (folder / "trailboss.py", folder / "hooks" / "trailboss-emit.sh"):
        path.chmod(0o600)
        os.utime(str(path), (5e8, 5e8))
    (folder / "trailboss.pyz").write_text("an older one")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("zipfile.py", "trailboss.py", "sitecustomize.py", "json.py"):
        (hostile / name).write_text("raise SystemExit('not this one')")
    code, out, err = build(folder, cwd=hostile, umask=0o077, TZ="Asia/Kathmandu", LC_ALL="tr_TR.UTF-8", PYTHONPATH=str(hostile),
                           PYTHONHASHSEED="7", SOURCE_DATE_EPOCH="1700000000", CDPATH=str(hostile), PYTHONOPTIMIZE="2")
    assert (code, err) == (0, "")
    assert (folder / "trailboss.pyz").read_bytes() == made.read_bytes()
    assert stat.S_IMODE((folder / "trailboss.pyz").stat().st_mode) == 0o755


@pytest.mark.parametrize("how", ["by sh", "by a link to its folder", "dash in front"])
def test_it_may_be_called_anyhow(tmp_path, how):
    folder = quick_checkout(tmp_path / ("-dash" if how == "dash in front" else "checkout"))
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    cwd, command = {"by sh": (folder, ["sh", "build_pyz.sh"]), "by a link to its folder": (tmp_path, ["link/build_pyz.sh"]),
                    "dash in front": (tmp_path, ["sh", "--", "-dash/build_pyz.sh"])}[how]
    code, out, err = build(folder, cwd=cwd, command=command)
    assert (code, err) == (0, "") and (folder / "trailboss.pyz").read_text() == "built"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_makes_the_same_bytes_and_runs_them(made, tmp_path, version):
    python = pyenv_python(version)
    if not python:
        pytest.skip("no Python %s of pyenv's here" % version)
    folder = checkout(tmp_path / "checkout")
    code, out, err = build(folder, PYTHON=python)
    assert (code, err) == (0, "") and (folder / "trailboss.pyz").read_bytes() == made.read_bytes()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMUX_TMPDIR": str(tmp_path)}
    pyz = tmp_path / ".claude" / "trailboss.pyz"
    for program, command, want in ((made, "--version", "trailboss %s\n" % tb.VERSION), (made, "install", None),
                                   (pyz, "--version", "trailboss %s\n" % tb.VERSION), (pyz, "uninstall", None)):
        done = subprocess.run([python, "-I", str(program), command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        assert done.returncode == 0 and want in (None, done.stdout.decode()), done.stdout
        if command == "install":
            (code,) = (tmp_path / ".claude").glob("trailboss.d/*/__pycache__/*.pyc")
            assert code.name == "trailboss.cpython-%s.pyc" % version.replace(".", "")
    assert not (tmp_path / ".claude").exists()


def fake_python(folder, name, code):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + code)
    (folder / name).chmod(0o755)


def test_first_python_that_fits_is_taken(tmp_path):
    folder, bin_folder = quick_checkout(tmp_path / "checkout"), tmp_path / "bin"
    fake_python(bin_folder, "python3", "exit 1\n")  # too old, as its check would say
    fake_python(bin_folder, "python3.12", "echo broken >&2; exit 127\n")
    fake_python(bin_folder, "python3.9", 'exec "%s" "$@"\n' % sys.executable)
    path = "%s:/usr/bin:/bin" % bin_folder
    for name in ("python3.13", "python3.11", "python3.10", "python3.8"):
        fake_python(bin_folder, name, "exit 1\n")
    code, out, err = build(folder, PYTHON=str(tmp_path / "no such"), PATH=path)
    assert (code, err) == (0, "") and (folder / "trailboss.pyz").read_text() == "built"
    (bin_folder / "python3.9").unlink()
    fake_python(bin_folder, "python3.9", "exit 1\n")
    code, out, err = build(folder, PYTHON="", PATH=path)
    assert (code, out) == (1, "") and "3.8 or newer" in err and "PYTHON=" in err and err.count("\n") == 1


def test_build_that_fails_says_so_and_leaves_the_old_one(tmp_path):
    folder = checkout(tmp_path / "checkout")
    (folder / "trailboss.pyz").mkdir()
    (folder / "trailboss.pyz" / "x").write_text("")
    code, out, err = build(folder)
    assert (code, out) == (1, "") and "trailboss.pyz" in err and "Traceback" not in err and err.count("\n") == 1
    assert {path.name for path in folder.iterdir()} == {"trailboss.py", "build_pyz.sh", "hooks", "trailboss.pyz"}
    (folder / "hooks" / "trailboss-emit.sh").unlink()
    shutil.rmtree(str(folder / "trailboss.pyz"))
    (folder / "trailboss.pyz").write_text("the old one")
    code, out, err = build(folder)
    assert code == 1 and "trailboss-emit.sh" in err and (folder / "trailboss.pyz").read_text() == "the old one"


def test_exit_codes_come_through(made, tmp_path):
    daemon = Daemon(tmp_path)
    daemon.program = [sys.executable, str(made)]
    code, out, err = daemon.run("nothing")
    assert (code, out) == (2, "") and err.startswith("usage: trailboss")
    done = subprocess.run([str(made), "jump"], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 3, "it is a program by itself"
    try:
        daemon.start()
        assert daemon.run("jump")[0] == 4
        assert daemon.hear("Stop") == 200
        assert daemon.run("jump")[0] == 1, "it has no pane"
    finally:
        assert daemon.end() == 0
    assert daemon.said().count("\n") == 1

"""The shape of the one file: its map, its two halves, its reading order. These rules are what keeps it readable."""
import ast
import builtins
import re
import subprocess
import sys

import pytest
from support import ROOT

SOURCE = (ROOT / "trailboss.py").read_text(encoding="utf-8")
LINES = SOURCE.split("\n")
TREE = ast.parse(SOURCE)
BANNER = re.compile(r"^# ([0-9]+) ([A-Z]+)$")
LINE = next(n for n, text in enumerate(LINES, 1) if text.startswith("# ======== below this line"))
PURE_MODULES = {"annotations", "datetime", "difflib", "json", "plistlib", "posixpath", "re", "shlex", "unicodedata"}
LONGEST_FUNCTION = 55


def sections():
    """[(number, name, first line)] of the banners, in the order of the file."""
    found = [(n, BANNER.match(text)) for n, text in enumerate(LINES, 1)]
    return [(int(match.group(1)), match.group(2), n) for n, match in found if match]


def section_at(line):
    return max([number for number, _, first in sections() if first <= line], default=0)


def definitions():
    """{name: line} of everything that the file defines at its top level."""
    found = {}
    for node in TREE.body:
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        found.update((name, node.lineno) for name in names)
    return found


def names_used(node):
    """{(name, line)} of what a top-level statement takes from outside: read there, and neither bound nor a parameter."""
    names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
    own = {name.id for name in names if not isinstance(name.ctx, ast.Load)} if isinstance(node, ast.FunctionDef) else set()
    own |= {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
    return {(name.id, name.lineno) for name in names if isinstance(name.ctx, ast.Load) and name.id not in own}


def test_the_map_lists_the_sections_in_their_order():
    listed = re.findall(r"^ +([0-9]+) ([A-Z]+) ", ast.get_docstring(TREE, clean=False), re.M)
    assert [(int(n), name) for n, name in listed] == [(n, name) for n, name, _ in sections()]
    assert [n for n, _, _ in sections()] == list(range(1, len(sections()) + 1))


@pytest.mark.parametrize("number, name, line", sections())
def test_a_banner_says_why_and_has_code_under_it(number, name, line):
    why = [text for text in LINES[line:line + 8]]
    length = next(n for n, text in enumerate(why) if not text.startswith("#"))
    assert 2 <= length <= 5, f"{name}: {length} lines of design under its banner"
    assert any(section_at(at) == number for at in definitions().values()), f"{name} is empty"


def test_the_upper_half_touches_nothing():
    imported = {alias.asname or alias.name.split(".")[0] for node in TREE.body
                if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
    typing_names = {alias.name for node in TREE.body if isinstance(node, ast.ImportFrom) and node.module == "typing"
                    for alias in node.names}
    forbidden = (imported - PURE_MODULES - typing_names) | {"open", "print", "input", "exec", "eval", "globals", "__import__"}
    assert {"os", "sys", "time", "socket", "subprocess"} <= forbidden
    upper = [node for node in TREE.body if node.lineno < LINE and not isinstance(node, (ast.Import, ast.ImportFrom))]
    used = {name for node in upper for name in names_used(node)}
    assert sorted((line, name) for name, line in used if name in forbidden) == []
    inner = {alias.name for top in upper for node in ast.walk(top) if isinstance(node, (ast.Import, ast.ImportFrom))
             for alias in node.names}
    assert inner <= PURE_MODULES, "an import in the upper half"
    clocks = [node.lineno for top in upper for node in ast.walk(top)
              if isinstance(node, ast.Attribute) and node.attr in ("now", "today", "utcnow")
              and isinstance(node.value, (ast.Name, ast.Attribute))
              and ast.unparse(node.value).startswith("datetime")] if sys.version_info >= (3, 9) else []
    assert clocks == [], "the clock is read in the upper half"


def test_data_flows_one_way():
    """Nothing is used before its section: a reader who goes from top to bottom meets everything before its use."""
    where = definitions()
    backward = sorted((line, name) for node in TREE.body for name, line in names_used(node)
                      if name in where and section_at(where[name]) > section_at(line))
    assert backward == []


def test_every_name_has_a_user():
    """No fossils: what the top level defines is used in the file, beyond its own definition."""
    used = {}
    for node in TREE.body:
        own = getattr(node, "name", None)
        for name, _ in names_used(node):
            if name != own:
                used[name] = True
    words = set(re.findall(r"\b\w+\b", SOURCE.split('"""', 2)[2]))
    assert words and [name for name in definitions() if name not in used] == []


def test_functions_fit_on_a_screen_and_say_what_they_do():
    for node in ast.walk(TREE):
        if isinstance(node, ast.FunctionDef):
            length = (node.body[-1].end_lineno or 0) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"
            if node.lineno < LINE and length > 6:
                assert ast.get_docstring(node), f"{node.name} (line {node.lineno}) has no docstring"


def test_no_global_no_bare_except_no_long_line():
    for node in ast.walk(TREE):
        assert not isinstance(node, ast.Global), f"line {node.lineno}: global"
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None), f"line {node.lineno}: bare except"
    assert [n for n, text in enumerate(LINES, 1) if len(text.encode("ascii", "replace")) > 125] == []


def test_only_the_standard_library_is_imported():
    names = {alias.name for node in ast.walk(TREE) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom)}
    for name in sorted(names):
        assert hasattr(builtins, "__import__") and __import__(name), name
    if hasattr(sys, "stdlib_module_names"):
        assert {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) == set()


def test_importing_it_is_silent_and_loads_nothing_heavy():
    heavy = ["http.server", "http.client", "sqlite3", "argparse", "zipfile", "ssl", "difflib", "shutil", "hashlib"]
    code = f"import sys, trailboss; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.stdout.decode().strip(), done.stderr) == ("[]", b"")


def test_the_top_level_of_the_repository():
    listed = subprocess.run(["git", "ls-files"], cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in listed.stdout.decode().split("\n") if name and not name.startswith(".")}
    assert top <= {"trailboss.py", "build_pyz.sh", "hooks", "tests", "README.md"}

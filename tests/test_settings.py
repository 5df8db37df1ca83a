"""Section 7: our hooks into the text of a person's settings and out again, to the byte. Text in, text out."""
import json
import random
import re
import shlex

import pytest
from support import tb

HOOK = {"type": "command", "command": "[ -r ~/.claude/trailboss-emit.sh ] && sh ~/.claude/trailboss-emit.sh; exit 0",
        "async": True, "timeout": 5}
NOTIFY = {"type": "command", "command": "notify-send done", "timeout": 1}
EVENTS = ("PreToolUse", "PostToolUse", "Notification", "SubagentStop", "PreCompact", *tb.HOOKED)


def spaced(value, indent=2, end="\n", **how):
    return json.dumps(value, indent=indent, ensure_ascii=False, **how) + end


EVERY_EVENT = {"hooks": {event: [{"matcher": "", "hooks": [NOTIFY, {"type": "http", "url": "http://127.0.0.1:1/"}]}]
                         for event in EVENTS}}
LONG = {"$schema": "https://json.schemastore.org/claude-code-settings.json", "model": "opus", "cleanupPeriodDays": 30,
        "env": {"EDITOR": "nvim", "GREETING": "grüß dich 😀", "EMPTY": ""},
        "permissions": {"defaultMode": "acceptEdits", "allow": ["Bash(npm run %d:*)" % n for n in range(300)],
                        "deny": ["Read(./.env)", "Read(./secrets/**)"], "additionalDirectories": ["../docs/"]},
        **EVERY_EVENT, "statusLine": {"type": "command", "command": "~/.claude/line.sh", "padding": 0},
        "enabledPlugins": {"formatter@tools": True, "deployer@tools": False},
        "extraKnownMarketplaces": {"tools": {"source": {"source": "github", "repo": "acme/plugins"}}},
        "spinnerTipsEnabled": False, "alwaysThinkingEnabled": True, "feedbackSurveyState": {"lastShownTime": 1754000000000}}
ONE_LINE_GROUPS = """{
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    "Notification": [
      { "matcher": "*", "hooks": [ { "type": "command", "command": "bell" } ] }
    ]
  },
  "theme": "dark"
}
"""
COMMAS_IN_FRONT = """{ "model" : "opus"
, "hooks" :
  { "Stop" :
    [ { "hooks" : [ { "type" : "command" , "command" : "x" } ] }
    , { "matcher" : "y" }
    ]
  , "Mine" : [ ]
  }
}"""
SHAPES = {
    "an object": "{}",
    "an object and a line": "{}\n",
    "an object with space in it": "{ }",
    "an object over lines": "{\n}\n",
    "one line": '{"model": "opus", "permissions": {"allow": []}}',
    "one line, tight": '{"model":"opus","permissions":{"allow":["a","b"]},"x":[1,2]}',
    "one line with hooks": json.dumps({"hooks": {"Stop": [{"hooks": [NOTIFY]}]}, "z": 1}),
    "one line with hooks, tight": json.dumps({"a": 1, "hooks": {"Stop": [{"hooks": [NOTIFY]}]}}, separators=(",", ":")),
    "by one": spaced(LONG, 1), "by two": spaced(LONG), "by three": spaced(LONG, 3), "by four": spaced(LONG, 4),
    "by tabs": spaced(LONG, "\t"), "by eight": spaced({"model": "opus"}, 8),
    "no newline at the end": spaced(LONG, end=""),
    "many newlines at the end": spaced(LONG, end="\n\n\n"),
    "space around it": "\n\n  " + spaced(LONG) + " \t\n",
    "carriage returns": spaced(LONG).replace("\n", "\r\n"),
    "carriage returns and tabs": spaced(LONG, "\t").replace("\n", "\r\n"),
    "carriage returns, no hooks": spaced({"model": "opus"}).replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + spaced(LONG),
    "byte order mark and carriage returns": "\ufeff" + spaced({"a": {"b": 1}}).replace("\n", "\r\n"),
    "blank lines between": '{\n\n  "model": "opus",\n\n\n  "env": {},\n\n  "theme": "dark"\n\n}\n',
    "indented anyhow": '{\n "a": 1,\n      "b": {\n "c": 2 },\n\t"hooks": {\n        "Stop": [\n   {"hooks": []}\n ]\n}\n}\n',
    "hooks first": spaced({"hooks": {"Stop": [{"hooks": [NOTIFY]}]}, "a": 1, "b": 2}),
    "hooks last": spaced({"a": 1, "b": 2, "hooks": {"Stop": [{"hooks": [NOTIFY]}]}}),
    "hooks alone": spaced({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [NOTIFY]}]}}),
    "hooks without events": spaced({"a": 1, "hooks": {}, "b": 2}),
    "hooks without events, with space": '{\n  "hooks": {\n\n  }\n}\n',
    "hooks without events, one line": '{"hooks": {}}',
    "events without groups": spaced({"hooks": {"Stop": [], "PreToolUse": [], "Elicitation": []}}),
    "events without groups, one line": '{"hooks":{"Stop":[],"StopFailure":[ ]}}',
    "events without groups, with space": '{\n  "hooks": {\n    "Stop": [\n    ],\n    "SessionEnd": [ ]\n  }\n}\n',
    "groups without hooks": spaced({"hooks": {"Stop": [{"matcher": "x"}, {"hooks": []}, {}]}}),
    "others on every event": spaced(EVERY_EVENT),
    "others of every kind": spaced({"hooks": {"Stop": [
        {"hooks": [{"type": "http", "url": "http://127.0.0.1:8080/x", "headers": {"A": "b"}},
                   {"type": "prompt", "prompt": "Is it done? $ARGUMENTS"}, {"type": "agent", "prompt": "look"},
                   {"type": "command", "command": "a", "args": ["b"], "async": True, "once": True, "mine": 1}]}]}}),
    "groups in one line": ONE_LINE_GROUPS,
    "commas in front": COMMAS_IN_FRONT,
    "odd events": spaced({"hooks": {"": [], "no such event": [{"hooks": [NOTIFY]}], "Stop\n": [{}]}}),
    "odd handlers": spaced({"hooks": {"Stop": [{"hooks": [None, "x", 5, [], {}, {"command": None}, {"command": 5}]}]}}),
    "plugins": spaced({key: LONG[key] for key in ("enabledPlugins", "extraKnownMarketplaces")}),
    "permissions": spaced({"permissions": LONG["permissions"]}, 4),
    "switched off": spaced({"disableAllHooks": True, **EVERY_EVENT}),
    "braces and quotes in strings": spaced({"a": '{"hooks": {"Stop": [', "b": "}]}\\\" /* , */ //", "\"hooks\": {": ["]"]}),
    "escapes": '{"a": "\\u00e9\\ud83d\\ude00\\ud800\\u0000\\/\\b", "h\\u006foks": {"St\\u006fp": []}, "\\u00e4": "\\u2028"}\n',
    "letters of the world": spaced({"ключ": "значение", "鍵": ["値", "😀", "\u2028", "\u00a0"], "": "\ufeff"}),
    "numbers as they were": '{"a": 1e999, "b": -0, "c": 1.10, "d": 1E+5, "e": 123456789012345678901234567890}\n',
    "a key twice": '{"env": {"A": "1", "A": "2"}, "model": "opus", "model": "sonnet"}\n',
    "deep": '{"a": ' + "[" * 200 + '{"hooks": []}' + "]" * 200 + "}",
    "names like ours": spaced({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "trailboss-emit"},
                                                             {"type": "command", "command": "boss-emit.sh"}]}]},
                               "trailboss-emit.sh": "trailboss-emit.sh"}),
}


EMPTY = re.compile(r"([{\[])\s+([}\]])")


def by_value(value):
    """What the settings must say with ours in them, made without a text."""
    hooks = {event: list(groups) for event, groups in value.get("hooks", {}).items()}
    for event in tb.HOOKED:
        hooks.setdefault(event, []).append({"hooks": [HOOK]})
    return {**value, "hooks": hooks}


def is_within(text, other):
    """Nothing of the text is lost: its letters are in the other in this order."""
    letters = iter(other)
    return all(letter in letters for letter in text)


def value_of(text):
    return json.loads(text.lstrip("\ufeff"))


@pytest.mark.parametrize("name", SHAPES)
def test_in_once_in_twice_and_out(name):
    text = SHAPES[name]
    new = tb.with_ours(text, HOOK)
    assert value_of(new) == by_value(value_of(text))
    assert list(value_of(new))[:len(value_of(text))] == list(value_of(text)), "their order"
    assert is_within(text, new)
    assert tb.with_ours(new, HOOK) == new
    back = tb.without_ours(new, value_of(text))
    assert back == text or EMPTY.sub(r"\1\2", back) == EMPTY.sub(r"\1\2", text), "white space in what is empty: the ledger has it"
    assert tb.without_ours(text) == text


@pytest.mark.parametrize("name", SHAPES)
def test_new_lines_look_like_their_neighbours(name):
    """The indentation of the whole and its line ends are what they were: re-indented, the text is the same."""
    text = SHAPES[name]
    new = tb.with_ours(text, HOOK)
    assert ("\r\n" in new) == ("\r\n" in text) or "\n" not in text
    if "\r\n" in text:
        assert new.count("\n") == new.count("\r\n")
    for indent in (1, 2, 3, 4, 8, "\t"):
        for end in ("", "\n", "\n\n\n"):
            if text == spaced(value_of(text), indent, end) and "\n" in text.strip() and "[]" not in text and "{}" not in text:
                assert new == spaced(value_of(new), indent, end)
    if "\n" not in text.strip() and len(text.strip()) > 3:
        assert "\n" not in new.strip()


@pytest.mark.parametrize("text", ["", "\n", " \r\n\t ", "\ufeff", "\ufeff\n"])
def test_file_without_any_text_becomes_one(text):
    new = tb.with_ours(text, HOOK)
    assert value_of(new) == by_value({}) and new.startswith("\ufeff") == text.startswith("\ufeff") and new.endswith("}\n")
    assert tb.with_ours(new, HOOK) == new
    assert value_of(tb.without_ours(new)) == {}
    assert tb.without_ours(text) == text and tb.parse_settings("f", text) == {}


def test_number_of_any_length_comes_through():
    """Python reads none of over 4,300 digits, JavaScript does."""
    text = '{"n": %s, "hooks": {"Stop": [{"hooks": [{"command": "x", "n": %s}]}]}}' % ("9" * 5000, "8" * 5000)
    new = tb.with_ours(text, HOOK)
    assert tb.parse_settings("f", new) and tb.without_ours(new, {"hooks": {"Stop": []}}) == text


def test_form_of_a_fresh_file():
    assert tb.with_ours("", HOOK) == spaced(by_value({})) == tb.with_ours("{}\n", HOOK)


@pytest.mark.parametrize("name", ["by two", "by tabs", "one line", "carriage returns", "hooks without events", "commas in front"])
@pytest.mark.parametrize("change", [
    lambda hook: hook.pop("async"), lambda hook: hook.update(timeout=60), lambda hook: hook.update(mark="trailboss"),
    lambda hook: hook.update(command="sh '/else where/trailboss-emit.sh'")])
def test_older_form_becomes_this_one(name, change):
    """Claude Code drops keys that it does not know: ours are known by their command alone."""
    older = dict(HOOK)
    change(older)
    old = tb.with_ours(SHAPES[name], older)
    assert tb.our_hooks(value_of(old))["Stop"] == [older]
    new = tb.with_ours(old, HOOK)
    assert tb.our_hooks(value_of(new)) == {event: [HOOK] for event in tb.HOOKED}
    assert tb.without_ours(new, value_of(SHAPES[name])) == SHAPES[name]


def test_too_many_of_ours_become_one_each():
    value = by_value(LONG)
    value["hooks"]["Stop"].append({"hooks": [HOOK, HOOK]})
    value["hooks"]["Stop"].insert(0, {"matcher": "*", "hooks": [HOOK]})
    value["hooks"]["PreToolUse"].append({"hooks": [HOOK]})  # an event that we once had
    new = tb.with_ours(spaced(value), HOOK)
    assert value_of(new) == by_value(LONG)
    assert tb.without_ours(spaced(value)) == spaced(LONG)


def test_only_our_hook_of_a_shared_group_goes():
    for hooks in ([HOOK, NOTIFY], [NOTIFY, HOOK], [NOTIFY, HOOK, NOTIFY], [HOOK, HOOK, NOTIFY, HOOK]):
        text = spaced({"hooks": {"Stop": [{"matcher": "x", "hooks": hooks}], "Mine": [{"hooks": [HOOK]}, {"a": 1}]}})
        kept = [hook for hook in hooks if hook != HOOK]
        assert tb.without_ours(text) == spaced({"hooks": {"Stop": [{"matcher": "x", "hooks": kept}], "Mine": [{"a": 1}]}})


@pytest.mark.parametrize("command", [
    "notify-send done; sh ~/.claude/trailboss-emit.sh", "sh ~/.claude/trailboss-emit.sh | tee /tmp/log",
    "FOO=1 sh ~/.claude/trailboss-emit.sh", "cat > ~/.claude/trailboss-emit.sh", "sh ~/.claude/trailboss-emit.sh.orig",
    "sh ~/.claude/trailboss-emit.sh 'unbalanced", "", "trailboss-emit.sh"])
def test_command_with_words_of_the_persons_own_is_theirs(command):
    text = spaced({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})
    assert tb.without_ours(text) == text and tb.without_ours(tb.with_ours(text, HOOK)) == text


def test_what_was_empty_before_stays():
    """Without knowing what was before, what is empty for want of ours goes too."""
    before = {"hooks": {"Stop": []}}
    new = tb.with_ours(spaced(before), HOOK)
    assert value_of(tb.without_ours(new, before)) == before
    assert value_of(tb.without_ours(new)) == {}
    assert value_of(tb.without_ours(new, {"a": 1})) == {}
    assert value_of(tb.without_ours(tb.with_ours('{"hooks": {}}', HOOK), {"hooks": {}})) == {"hooks": {}}


def test_edits_of_the_person_survive():
    """Ours are taken out of a text that has changed in between, by hand or by Claude Code, which writes it all anew."""
    new = value_of(tb.with_ours(spaced(LONG), HOOK))
    new["model"] = "haiku"
    new["hooks"]["Stop"].append({"hooks": [NOTIFY]})
    new["hooks"] = dict(reversed(list(new["hooks"].items())))
    want = {**LONG, "model": "haiku", "hooks": dict(reversed(list(LONG["hooks"].items())))}
    want["hooks"] = {event: [*groups, {"hooks": [NOTIFY]}] if event == "Stop" else groups for event, groups in want["hooks"].items()}
    for indent in (2, "\t", None):
        assert tb.without_ours(spaced(new, indent)) == spaced(want, indent)


def test_any_text_at_all():
    """Made-up settings in made-up forms, seeded: what is read is what is written plus ours, and out again to the byte."""
    rng = random.Random(7)

    def value(depth):
        kind = rng.randrange(7 if depth else 5)
        if kind == 5:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 6:
            return {rng.choice("abcdé\"\\{") * n: value(depth - 1) for n in range(rng.randrange(4))}
        return [None, True, -1.5, 'x"]}{[,:\\', "hooks"][kind]

    def group():
        made = {"matcher": rng.choice(["", "*", "Bash|Edit"])} if rng.random() < 0.5 else {}
        if rng.random() < 0.8:
            made["hooks"] = [rng.choice([NOTIFY, {"type": "http", "url": "u"}, value(1)]) for _ in range(rng.randrange(3))]
        return made

    def space():
        return rng.choice(["", "", " ", "\n", "\n  ", "\t", "\r\n", "\n\n    "])

    def text_of(item):
        if isinstance(item, dict):
            parts = [space() + json.dumps(key) + space() + ":" + space() + text_of(v) + space() for key, v in item.items()]
            return "{" + (",".join(parts) or space()) + "}"
        if isinstance(item, list):
            return "[" + (",".join(space() + text_of(v) + space() for v in item) or space()) + "]"
        return json.dumps(item, ensure_ascii=rng.random() < 0.5)

    for _ in range(1500):
        items = [(key, value(3)) for key in rng.sample(["a", "b", "permissions", "env", ""], rng.randrange(4))]
        if rng.random() < 0.7:
            events = rng.sample(EVENTS, rng.randrange(5))
            items.insert(rng.randrange(len(items) + 1),
                         ("hooks", {event: [group() for _ in range(rng.randrange(3))] for event in events}))
        settings = dict(items)
        text = space() + text_of(settings) + space()
        new = tb.with_ours(text, HOOK)
        assert value_of(new) == by_value(settings), text
        back = tb.without_ours(new, settings)
        assert value_of(back) == settings, text
        if all(settings.get("hooks", {"x": [0]}).values()) and settings.get("hooks") != {} and settings:
            assert back == text


# ---- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, line, column", [
    ('{\n  "a": 1, // mine\n  "b": 2\n}', 2, 11), ('{\n  "a": 1,\n}', 3, 1), ('{"a": 1', 1, 8), ("{'a': 1}", 1, 2),
    ('{"a": 1}}', 1, 9), ('{"a": [1,\n 2,\n ]}', 3, 2), ('/* x */ {}', 1, 1), ('{"a": "\n"}', 1, 8), ("not json", 1, 1),
    ('\ufeff\ufeff{}', 1, 1), ('\ufeff{\n 5}', 2, 2)])
def test_invalid_json_is_refused_with_its_place(text, line, column):
    with pytest.raises(tb.Fault, match="/s.json, line .*not valid JSON.*nothing was changed") as raised:
        tb.parse_settings("/s.json", text)
    found = [int(n) for n in str(raised.value).split("line ")[1].replace("column ", "").split(":")[0].split(", ")]
    assert found[0] in (line, line - 1) and (found == [line, column] or found[0] == line - 1 or column != found[1] != 0)


def test_what_is_no_utf8_is_refused():
    with pytest.raises(tb.Fault, match="/s.json is not UTF-8 .character 7.: nothing was changed"):
        tb.parse_settings("/s.json", b'{"a": "\xe9"}'.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a": NaN}', '{"a": -Infinity}'], ids=range(4))
def test_what_javascript_would_not_read_is_refused(text):
    with pytest.raises(tb.Fault, match="/s.json can't be taken.*nothing was changed"):
        tb.parse_settings("/s.json", text)


@pytest.mark.parametrize("text, what, line, column", [
    ("[]", "the file", 1, 1), ("null", "the file", 1, 1), (" 5", "the file", 1, 2), ('"x"', "the file", 1, 1),
    ('{\n  "hooks": []\n}', "hooks", 2, 3), ('{"a": "hooks", "hooks": null}', "hooks", 1, 16), ('{"hooks": "x"}', "hooks", 1, 2),
    ('{"hooks": 0}', "hooks", 1, 2), ('{"hooks": false}', "hooks", 1, 2),
    ('{"hooks": {\n "Stop": {}}}', "hooks.Stop", 2, 2), ('{"hooks": {"Stop": null}}', "hooks.Stop", 1, 12),
    ('{"hooks": {"Mine": [], "Stop": "x"}}', "hooks.Stop", 1, 24), ('{"hooks": {"Stop": ["x"]}}', "a group of hooks.Stop", 1, 21),
    ('{"hooks": {"Stop": [{},\nnull]}}', "a group of hooks.Stop", 2, 1),
    ('{"hooks": {"Mine": [{"hooks": {}}]}}', "a group of hooks.Mine", 1, 21),
    ('{"hooks": {"Mine": [{"hooks": [], "hooks": []}]}}', "a group of hooks.Mine", 1, 21),
    ('{"hooks": {"Mine": [[]]}}', "a group of hooks.Mine", 1, 21),
    ('{"hooks": {}, "a": 1, "hooks": {"Stop": []}}', "the second hooks", 1, 23),
    ('{"hooks": {"Stop": [], "Stop": []}}', "hooks.Stop, which is there twice,", 1, 12)])
def test_form_that_claude_code_would_not_take_is_refused(text, what, line, column):
    for prefix in ("", "\ufeff"):
        with pytest.raises(tb.Fault) as raised:
            tb.parse_settings("/s.json", prefix + text)
        assert str(raised.value).startswith("/s.json, line %d, column %d: %s has a form" % (line, column, what))
        assert "nothing was changed" in str(raised.value)


# ---- tmux.conf ---------------------------------------------------------------------------------------------------------

LINE = "source-file -q ~/.claude/trailboss.tmux.conf"


@pytest.mark.parametrize("text", ["", "set -g mouse on\n", "set -g mouse on", "# nothing\n\n", "a\r\nb\r\n", "  \n"])
def test_line_of_tmux_conf_in_once_in_twice_and_out(text):
    new = tb.with_keys(text, LINE)
    assert new.startswith(text) and new.endswith(LINE + "\n") and new.count(LINE) == 1
    assert tb.with_keys(new, LINE) == new
    assert tb.without_keys(new, [LINE]) in (text, text + "\n")
    assert tb.without_keys(text, [LINE]) == text
    assert tb.without_keys(new.replace("\n", "\r\n"), [LINE]).strip() == text.replace("\n", "\r\n").strip()


def test_lines_of_the_persons_own_stay():
    """Whatever they name: only what was written here goes."""
    text = ("source-file ~/.tmux/keys.conf # after trailboss.tmux.conf\nsource-file '/old/trailboss.tmux.conf'\n"
            "  " + LINE + "\n" + LINE + " \\; bind x kill-pane\nsource-file /src/hooks/my-trailboss.tmux.conf\n")
    new = tb.with_keys(text, LINE)
    assert new == text + LINE + "\n" and tb.without_keys(new, [LINE]) == text
    other = tb.keys_line("/w/trailboss.tmux.conf", "/home/me")
    assert tb.without_keys(new + other + "\n", [LINE, other]) == text


@pytest.mark.parametrize("end", ["", "\n"])
def test_last_line_that_goes_on_does_not_swallow_ours(end):
    text = "bind x display-message \\" + end
    assert tb.with_keys(text, LINE) == "bind x display-message \\\n\n" + LINE + "\n"


def test_line_of_tmux_conf_says_home_where_it_can():
    assert tb.keys_line("/home/me/.claude/trailboss.tmux.conf", "/home/me") == LINE
    assert tb.keys_line("/w/a b's [1]*/trailboss.tmux.conf", "/home/me") == (
        "source-file -q '/w/a b'\"'\"'s \\[1\\]\\*/trailboss.tmux.conf'")


def test_run_line_of_the_keys_file_is_replaced_by_any_command():
    conf = "# a\nset -gq @trailboss_run \"x\"\nset -g b c\n"
    command = "A='b\\1' \"$X\" \\g<0> #{y}"
    assert tb.with_run(conf, command) == "# a\nset -gq @trailboss_run %s\nset -g b c\n" % tb.tmux_word(command)
    assert shlex.split(tb.tmux_word(command)) == [command]


def test_undo_finds_just_our_keys():
    listing = ('bind-key    -T prefix       b                    run-shell -b "#{@trailboss_run} jump #{E:@trailboss_end}"\n'
               'bind-key -r -T root         \\;                   run-shell -b "#{@trailboss_run} skip \\"#{pane_id}\\" '
               '#{E:@trailboss_end}"\n'
               'bind-key    -T prefix       x                    display-message "#{@trailboss_run}"\n'
               'bind-key    -T prefix       y                    display-message x \\; run-shell -b "#{@trailboss_run} jump '
               '#{E:@trailboss_end}"\n')
    lines = tb.undo_keys(listing).splitlines()
    assert [line for line in lines if line.startswith("unbind")] == ["unbind-key -T prefix b", "unbind-key -T root \\;"]
    assert "set -gqu @trailboss_run" in lines and "set -squ 'command-alias[9004]'" in lines


# ---- a service ---------------------------------------------------------------------------------------------------------


def test_unit_names_program_and_environment():
    unit = tb.systemd_unit(["/usr/bin/python3", "/h/50% \"x\" $HOME\\.pyz", "serve"], {"B": "$b %h", "A": "é"})
    assert ('\nExecStart="/bin/sh" "-c" "exec \\"$$0\\" \\"$$@\\"" "/usr/bin/python3" "/h/50%% \\"x\\" $$HOME\\\\.pyz" "serve"\n'
            'Environment="A=é"\nEnvironment="B=$b %%h"\nRestart=on-failure\n') in unit
    assert unit.endswith("[Install]\nWantedBy=default.target\n")


def test_agent_names_program_and_environment():
    import plistlib
    agent = plistlib.loads(tb.launchd_agent(["/usr/bin/python3", "a & <b>"], {"A": "é"}, "/s/daemon.log").encode())
    assert agent["ProgramArguments"] == ["/usr/bin/python3", "a & <b>"] and agent["EnvironmentVariables"] == {"A": "é"}
    assert agent["Label"] == "dev.trailboss" and agent["RunAtLoad"] is True and agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["StandardErrorPath"] == "/s/daemon.log"


@pytest.mark.parametrize("word", ["a\nb", "\0", "\x1b[m", "\udcff", "\x85", "\ufffe"])
def test_what_a_service_file_can_not_hold_is_refused(word):
    for make in (lambda: tb.systemd_unit([word], {}), lambda: tb.systemd_unit(["x"], {"A": word}),
                 lambda: tb.launchd_agent([word], {}, "l"), lambda: tb.launchd_agent(["x"], {}, word)):
        with pytest.raises(tb.Fault, match="can't hold"):
            make()

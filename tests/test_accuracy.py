"""tests/accuracy.py, which makes the README's table: a few recordings against the whole product, and its own honesty."""
import shutil

import accuracy
import pytest

pytestmark = [pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux"),
              pytest.mark.skipif(not shutil.which("curl"), reason="no curl")]
SOME = [folder for folder in accuracy.CAPTURES if folder.name in ("deny", "queued", "nested", "2.1.150-question")]


def test_a_few_recordings_are_right():
    modes = ["plain", "both"]  # with all that helps, and with nothing of it; the command plays the other two as well
    results = accuracy.play_all(SOME, modes)
    table = accuracy.report(results)
    assert len(results) == 8 and [played for played in results if played.wrong] == [], table
    assert all(played.checks for played in results) and [mode for mode in accuracy.MODES if mode in table] == modes, table


def test_a_wrong_answer_is_not_called_right(monkeypatch):
    queue = accuracy.World.queue
    monkeypatch.setattr(accuracy.World, "queue", lambda world: [row for row in queue(world) if row[1] != "interrupted"])
    played, = accuracy.play_all([folder for folder in SOME if folder.name == "deny"], ["plain"])
    assert played.checks == 4 and len(played.took) == 2 and len(played.wrong) == 2
    assert "denied" in played.wrong[0] and "interrupted" in played.wrong[0] and "deny, plain" in accuracy.report([played])

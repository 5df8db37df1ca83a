"""Section 5: which client moves, and by which commands. Values in, values out; tests/test_tmux.py has the real tmux."""
import pytest
from support import tb


def client(name="/dev/pts/1", session="$0", pane="%0", socket="/a", activity=1, **more):
    control, readonly = more.pop("control", False), more.pop("readonly", False)
    return tb.Client(socket, name, more.pop("tty", name), activity, control, readonly, session, "@0", pane, **more)


def view(pane="%5", *places, tty="/dev/pts/9", window="@3", dead=False):
    return tb.PaneView(pane, tty, 1, dead, window, "0", places or (("$0", "main", "1"),))


def server(socket, *views, pid=1, version="3.3a"):
    return tb.Server(socket, pid, 1.0, {v.pane_id: v for v in views}, version)


def chosen(clients, *argv, **more):
    return tb.choose_client(clients, *argv, **more).name


# ---- choose_client ---------------------------------------------------------------------------------------------------

ONE, TWO = client("one", "$1", "%1", activity=10), client("two", "$2", "%2", activity=20)
FAR = client("far", "$1", "%1", socket="/b", activity=30)
VIEWER = client("viewer", "$1", "%1", activity=40, readonly=True)
ITERM = client("client-77", "$1", "%1", activity=50, control=True, tty="")


@pytest.mark.parametrize("clients, more, name", (
    ([ONE, TWO], {}, "two"),                                                      # the latest active one
    ([ONE, TWO], {"name": "one"}, "one"),                                         # the one whose key was pressed
    ([ONE, TWO], {"name": "one", "here": ("/a", "$2", "%2")}, "one"),
    ([ONE, TWO, FAR], {"here": ("/a", "$1", "")}, "one"),                         # the one in this session
    ([ONE, TWO, FAR], {"here": ("/a", "$9", "%1")}, "one"),                       # the one that looks at this pane
    ([ONE, TWO, FAR], {"here": ("/a", "$2", "%1")}, "one"),                       # ... whatever session it was made in
    ([ONE, TWO, FAR], {"here": ("/a", "$9", "%9")}, "two"),                       # one of this server
    ([ONE, TWO, FAR], {"here": ("/a", "$-1", "")}, "two"),
    ([ONE, TWO, FAR], {"here": ("/c", "$1", "%1")}, "far"),                       # nobody is here: the latest anywhere
    ([ONE, TWO, FAR], {"here": ("/c", "$1", "%1"), "prefer": "/a"}, "two"),       # ... first where the goal is
    ([ONE, TWO, FAR], {"prefer": "/a"}, "two"),
    ([ONE, TWO, FAR], {"prefer": "/c"}, "far"),
    ([ONE, TWO, FAR], {"here": ("/b", "$1", ""), "prefer": "/a"}, "far"),         # here comes before there
    ([ONE, VIEWER], {}, "one"),                                                   # read-only never
    ([ONE, TWO, VIEWER], {"here": ("/a", "$1", "%1")}, "one"),
    ([ONE, ITERM], {}, "one"),                                                   # control mode only if alone
    ([TWO, ITERM], {"here": ("/a", "$1", "%1")}, "two"),
    ([ITERM], {}, "client-77"),
    ([VIEWER, ITERM], {}, "client-77"),
    ([ONE, ITERM], {"name": "client-77"}, "client-77"),
))
def test_which_client_moves(clients, more, name):
    assert chosen(clients, **more) == name
    assert chosen(clients[::-1], **more) == name


def test_a_client_is_called_by_its_name_or_its_terminal():
    odd = client("renamed", tty="/dev/pts/3")
    assert chosen([ONE, odd], "renamed") == chosen([ONE, odd], "/dev/pts/3") == "renamed"
    assert chosen([ITERM, ONE], "") == "one"  # an empty name is none, though a control-mode client's terminal is empty


@pytest.mark.parametrize("clients, name, message", (
    ([], "", "no tmux client is attached"),
    ([VIEWER], "", "no tmux client is attached that may be moved"),
    ([VIEWER, ONE], "viewer", "the tmux client viewer is attached read-only: it can't be moved"),
    ([ONE], "/dev/pts/8", "no tmux client is called '/dev/pts/8'; `tmux list-clients` shows them"),
    ([], "one", "no tmux client is called 'one'; `tmux list-clients` shows them"),
))
def test_no_client_moves(clients, name, message):
    with pytest.raises(tb.Fault) as caught:
        tb.choose_client(clients, name)
    assert (str(caught.value), caught.value.code) == (message, 1)


# ---- where and by what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places, session, expected", (
    ((("$0", "main", "1"),), "$0", "$0"),
    ((("$0", "main", "1"), ("$4", "b", "7")), "$4", "$4"),         # its own session, where the window is linked there
    ((("$4", "b", "7"), ("$0", "main", "1")), "$9", "$0"),         # else the one that was made first
    ((("$10", "j", "1"), ("$9", "i", "1")), "$1", "$9"),           # as numbers
    ((("$10", "j", "1"), ("$9", "i", "1")), None, "$9"),
))
def test_the_session_in_which_a_pane_is_shown(places, session, expected):
    seen_by = session and client(session=session)
    assert tb.place_for(view("%5", *places), seen_by)[0] == expected
    assert tb.target_of(view("%5", *places), seen_by) == expected + ":@3.%5"


@pytest.mark.parametrize("version, zoom", (
    ("3.3a", ["-Z"]), ("3.1", ["-Z"]), ("3.10", ["-Z"]), ("next-3.8", ["-Z"]), ("openbsd-7.6", ["-Z"]),
    ("3.0a", []), ("2.9", []), ("master", []), ("", [])))
def test_a_client_is_switched_with_the_zoom_kept(version, zoom):
    assert tb.steps(view(), client(), version) == [["switch-client", *zoom, "-c", "/dev/pts/1", "-t", "$0:@3.%5"]]
    assert tb.steps(view(), ITERM._replace(session_id="$0"), version) == [
        ["select-window", "-t", "$0:@3"], ["select-pane", *zoom, "-t", "$0:@3.%5"]]


def test_a_control_mode_client_stays_in_its_session():
    goal = view("%5", ("$2", "it's far", "1"), ("$1", "near", "1"))
    assert tb.steps(goal, ITERM, "3.3a")[0] == ["select-window", "-t", "$1:@3"]
    with pytest.raises(tb.Fault) as caught:
        tb.steps(view("%5", ("$2", "it's far", "1")), ITERM._replace(socket="/a b"), "3.3a")
    assert str(caught.value) == ("the pane %5 is in the session it's far, and a control-mode client stays in its own: "
                                 "attach there with `tmux -S '/a b' -CC attach-session -t '$2'`")


@pytest.mark.parametrize("text, version", (
    ("3.3a", (3, 3)), ("next-3.8", (3, 8)), ("tmux 3.10", (3, 10)), ("2.9a", (2, 9)), ("", (0, 0)), ("master", (0, 0))))
def test_version_of(text, version):
    assert tb.version_of(text) == version


def test_what_a_person_types_to_attach():
    assert tb.attach_command("/tmp/a", view()) == "env -u TMUX tmux -S /tmp/a attach-session -t '$0:@3.%5'"
    assert tb.attach_command("/tmp/it's $(x)", view()).startswith("env -u TMUX tmux -S '/tmp/it'\"'\"'s $(x)' ")


# ---- tmux inside tmux ------------------------------------------------------------------------------------------------

SEAT, SEAT2, PLAIN = (view("%%%d" % n, tty="/dev/pts/%d" % (20 + n)) for n in (1, 2, 3))
SERVERS = {"/out": server("/out", SEAT, SEAT2, PLAIN), "/in": server("/in", view("%8", tty="/dev/pts/40"))}
INNER = client("/dev/pts/21", "$0", "%8", "/in", activity=5)
INNER2 = client("/dev/pts/22", "$0", "%8", "/in", activity=9)
OUTER = client("/dev/pts/50", "$0", "%3", "/out", activity=3)
OTHER = client("/dev/pts/51", "$0", "%1", "/out", activity=1)


def test_the_pane_that_a_client_runs_in():
    assert tb.client_terminal(INNER, SERVERS) == (SERVERS["/out"], SEAT)
    assert tb.client_terminal(OUTER, SERVERS) is None
    assert tb.client_terminal(ITERM, {"/out": server("/out", view("%1", tty=""))}) is None  # no terminal is no pane's
    assert tb.client_terminal(INNER, {"/out": server("/out", SEAT._replace(dead=True))}) is None


def test_the_client_inside():
    everyone = [INNER, OUTER, INNER2, OTHER]
    assert tb.inner_client("/in", OUTER, everyone, SERVERS) == INNER2  # the latest active
    assert tb.inner_client("/in", OTHER, everyone, SERVERS) == INNER   # ... but first the one that is looked at
    assert tb.inner_client("/in", OUTER, [INNER, INNER2._replace(readonly=True)], SERVERS) == INNER
    assert tb.inner_client("/in", OUTER, [OUTER, INNER._replace(tty="/dev/pts/99")], SERVERS) is None  # elsewhere
    assert tb.inner_client("/in", OUTER._replace(socket="/x"), everyone, SERVERS) is None
    assert tb.inner_client("/x", OUTER, everyone, SERVERS) is None


def test_the_client_around():
    everyone = [INNER, OUTER, INNER2, OTHER]
    assert tb.outer_client(INNER, everyone, SERVERS) == OTHER          # it looks at the pane
    assert tb.outer_client(INNER2, everyone, SERVERS) == OUTER         # nobody does: the latest active
    assert tb.outer_client(INNER, everyone, SERVERS, OUTER) == OUTER   # whoever asked
    assert tb.outer_client(INNER2, everyone, SERVERS, INNER) == OUTER  # asked from inside
    assert tb.outer_client(INNER, [INNER, OTHER._replace(readonly=True)], SERVERS) is None
    assert tb.outer_client(OUTER, everyone, SERVERS) is None

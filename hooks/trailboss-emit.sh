#!/bin/sh
# Tells the Trail Boss daemon of one hook event of Claude Code: the event's JSON on standard input, the rest from the
# environment. It prints nothing, always exits 0, and is done in under two seconds whatever state anything is in: a hook
# that fails or talks would show in the person's session, and one that exits 2 would stop it.
#
# The event goes to the daemon by curl. Where that fails it becomes a file in the spool, which the daemon takes in later.
# Without curl, `trailboss emit` does the same in Python.

trap 'exit 0' EXIT
exec >/dev/null 2>&1
# A session that ends takes its hooks along, and a file size limit whoever meets it. The event counts all the same, and
# this ends by itself soon enough.
trap '' HUP INT TERM XFSZ
set +aeu -f
umask 077
# An exported payload would go into the environment of every command below, and a long one lets none of them start. The
# rest would change what those commands do.
unset payload headers TZ PERL5OPT QUOTING_STYLE
# The system's own tools first: quicker than a person's wrappers, and none of a project's.
PATH=/usr/bin:/bin:/usr/local/bin${PATH:+:$PATH}
LC_ALL=C
export LC_ALL PATH

# `trailboss install` fills these in: a hook may see another environment than the daemon.
home=
python=
program=
if [ -z "$home" ]; then
    if [ -n "$TRAILBOSS_HOME" ]; then home=$TRAILBOSS_HOME
    elif [ -n "$XDG_STATE_HOME" ]; then home=$XDG_STATE_HOME/trailboss
    elif [ -n "$HOME" ]; then home=$HOME/.local/state/trailboss
    fi
fi
# A relative one would be a folder in the person's project.
case $home in /*) ;; *) exit 0 ;; esac

# When it happened. A date that knows no nanoseconds leaves the N: then the time of arrival, or the file's, is better.
at=$(date +%s.%N)
id=$at-$$
case $at in *.*[!0-9]* | *.) id=${at%.*}-$$ at= ;; esac

# The whole of standard input, or what came of it within a second: Claude Code has left it open before. More than 16 MiB
# the daemon would refuse. `cat` passes on at once what it reads, `head` alone might not. KILL, since under busybox's
# timeout TERM stays ignored, as it is here. A Mac has no timeout, but perl.
if command -v timeout; then set -- timeout -s KILL 1
elif command -v perl; then set -- perl -e '$SIG{ALRM} = "DEFAULT"; alarm 1; exec @ARGV'
else set --
fi
payload=$("$@" cat | head -c 16777217)
[ -n "$payload" ] && [ ${#payload} -le 16777216 ] || exit 0

newline='
'
# The headers as lines. A value with a control character in it is left out: it could only forge another header.
headers=
header() {
    case $2 in '' | *[[:cntrl:]]*) return ;; esac
    headers="$headers$1: $2$newline"
}
header X-Event-Id "$id"
header X-Event-Time "$at"
header X-Tmux "$TMUX"
header X-Tmux-Pane "$TMUX_PANE"
header X-Claude-Pid "$CLAUDE_PID"
header X-Claude-Entrypoint "$CLAUDE_CODE_ENTRYPOINT"
header X-Claude-Config "$CLAUDE_CONFIG_DIR"
header X-Claude-Project-Dir "$CLAUDE_PROJECT_DIR"
header X-Claude-Job-Dir "$CLAUDE_JOB_DIR"

# Is the process that wrote curl.conf still that process? Whoever else has its port by now gets neither event nor token.
# The first line is "# PID START": START as in /proc/PID/stat, field 22, or as ps prints it. A dead one that nobody has
# reaped (Z) still has its line there, but no port.
daemon_lives() {
    read -r _ pid start <"$home/curl.conf" || return
    [ -n "$start" ] || return
    if [ -r /proc/self/stat ]; then
        read -r stat <"/proc/$pid/stat" || return
        set -- ${stat##*) }
        [ "$1" != Z ] && [ "${20}" = "$start" ]
    else
        set -- $(ps -o lstart= -p "$pid")
        born=$*
        set -- $start
        [ "$born" = "$*" ]
    fi
}

# The daemon's answer: a 2xx has it for good; 400 and 413 say that no later try can do better.
send() {
    printf '%s' "$payload" | curl -q -K "$home/curl.conf" -s -m 0.6 --noproxy '*' -o /dev/null -w '%{http_code}' \
        -H 'Expect:' -H 'Content-Type: application/json' "$@" --data-binary @-
}

# The newest 499 files and 64 MiB stay: they say most about now. The .tmp of a killed emitter ages out with the rest.
make_room() {
    ls -skr | awk '$2 ~ /^[0-9][-.0-9]*[.](event|tmp)([.]|$)/ && (++files > 499 || (kib += $1) > 65536) { print $2 }' |
        xargs rm -f
}

# One file an event, written aside and renamed: whoever sees it sees all of it.
spool() {
    mkdir -p "$home/spool" && cd "$home/spool" || return
    make_room
    printf '%s\n%s' "$headers" "$payload" >"$id.tmp" && mv -f "$id.tmp" "$id.event" || rm -f "$id.tmp"
}

if ! command -v curl; then
    [ -n "$program" ] && printf '%s' "$payload" | TRAILBOSS_HOME=$home "$python" -I "$program" emit && exit 0
elif daemon_lives; then
    IFS=$newline
    set --
    for line in $headers; do set -- "$@" -H "$line"; done
    case $(send "$@") in 2?? | 400 | 413) exit 0 ;; esac
fi
spool

#!/bin/sh
# Makes trailboss.pyz beside this script: one file that any Python from 3.8 on runs. The same sources make the same bytes
# everywhere; how, trailboss.py knows (build), since `trailboss install` makes the same file.
#
#   ./build_pyz.sh                    makes it
#   ./build_pyz.sh --install [...]    makes it, installs it (what follows goes to `trailboss install`: --tmux, --service)
#                                     and starts the daemon behind
set -eu
unset CDPATH
here=$(cd -- "$(dirname -- "$0")" && pwd)

install=
case ${1-} in
'') ;;
--install) install=yes && shift ;;
*) echo "usage: $0 [--install [--tmux] [--service]]" >&2 && exit 2 ;;
esac

# -I: no PYTHON variable and no module in the current folder has a say; -B: no __pycache__ is left in the sources.
fits='import sys; sys.exit(sys.version_info < (3, 8))'
make='import hashlib, sys
sys.path.insert(0, sys.argv[1])
import trailboss
target = sys.argv[1] + "/trailboss.pyz"
try:
    trailboss.build(target)
except OSError as error:
    sys.exit("build_pyz.sh: %s" % error)
with open(target, "rb") as made:
    print("built:    %s, SHA-256 %s" % (target, hashlib.sha256(made.read()).hexdigest()))'

for python in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
    if [ -n "$python" ] && "$python" -I -c "$fits" 2>/dev/null; then
        "$python" -I -B -c "$make" "$here"
        [ -n "$install" ] || exit 0
        code=0
        said=$("$python" -I "$here/trailboss.pyz" install "$@") || code=$?
        [ -n "$said" ] || exit "$code"
        printf '%s\n' "$said" | sed '/^next: /d'
        next=$(printf '%s\n' "$said" | sed -n 's/^next: *//p')  # the command that starts the daemon, if none runs yet
        [ -z "$next" ] || eval "$next"
        exit "$code"
    fi
done
echo "build_pyz.sh: there is no Python 3.8 or newer on the PATH: install one, or name it: PYTHON=/path/to/python3 $0" >&2
exit 1

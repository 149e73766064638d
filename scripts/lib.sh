# Shared by the scripts beside it: `. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"`
# shellcheck shell=bash
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
cache="$root/.cache"

# shellcheck disable=SC2034 # for those that read this file
# The exit status of a lane that could not run here (automake's convention).
skipped=77

# Ansible refuses to start in a locale that is not UTF-8.
if [ "$(locale charmap 2>/dev/null)" != UTF-8 ]; then
    export LC_ALL=C.UTF-8
fi
# Some services and containers start commands without one.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
fail() {
    warn "$*"
    exit 1
}

# Explicit, because Ansible ignores an ansible.cfg in a world-writable directory, and because settings that the
# user keeps for other projects would hide the collection that this clone is.
use_project_settings() {
    export ANSIBLE_CONFIG="$root/ansible.cfg"
    export ANSIBLE_COLLECTIONS_PATH="$root/collections:${ANSIBLE_COLLECTIONS_PATH:-$HOME/.ansible/collections:/usr/share/ansible/collections}"
    export PATH="$venv/bin:$PATH"
}

# python_bins: every folder that may hold interpreters beyond those on PATH, one a line.
python_bins() {
    local folder
    if command -v pyenv >/dev/null 2>&1; then
        for folder in "$(pyenv root)"/versions/*/bin; do
            [ -d "$folder" ] && say "$folder"
        done
    fi
    return 0
}

# usable_python NAME MINOR...: true where NAME really is a CPython 3 of one of these minor versions that can make a
# virtual environment; prints its own path. Asking is needed: pyenv puts names on PATH that only say "not found",
# Debian's Python comes without ensurepip, and an activated environment may be the very one to be made anew.
usable_python() {
    local candidate="$1"
    shift
    "$candidate" -c '
import sys
import ensurepip, venv
if sys.version_info[0] != 3 or sys.version_info[1] not in map(int, sys.argv[1:]):
    sys.exit(1)
print(getattr(sys, "_base_executable", sys.executable))
' "$@" 2>/dev/null
}

# find_python MINOR...: prints the first usable interpreter, in the order of the minor versions given.
find_python() {
    local minor folder candidate
    for minor in "$@"; do
        candidate="$(command -v "python3.$minor" || true)"
        if [ -n "$candidate" ] && usable_python "$candidate" "$minor"; then
            return 0
        fi
        while IFS= read -r folder; do
            candidate="$folder/python3.$minor"
            if [ -x "$candidate" ] && usable_python "$candidate" "$minor"; then
                return 0
            fi
        done < <(python_bins)
        if command -v uv >/dev/null 2>&1; then
            candidate="$(UV_PYTHON_DOWNLOADS=never uv python find --no-project --system "3.$minor" 2>/dev/null || true)"
            if [ -n "$candidate" ] && usable_python "$candidate" "$minor"; then
                return 0
            fi
        fi
    done
    # `python3` last: any version of it that is among those wanted.
    candidate="$(command -v python3 || true)"
    [ -n "$candidate" ] && usable_python "$candidate" "$@"
}

# venv_is_current FOLDER LOCK: true where FOLDER was completely installed from LOCK, by the Python that is in it,
# at this place (a moved environment has scripts that point to where it was).
venv_is_current() {
    [ -x "$1/bin/python" ] && [ -f "$1/.complete" ] && [ "$(venv_stamp "$1" "$2" 2>/dev/null)" = "$(cat "$1/.complete")" ]
}

venv_stamp() {
    "$1/bin/python" -c '
import hashlib, pathlib, sys
lock, place = sys.argv[1:]
print(hashlib.sha256(pathlib.Path(lock).read_bytes()).hexdigest(), sys.version.split()[0], place)
' "$2" "$1"
}

# make_venv FOLDER LOCK PYTHON: installs exactly what LOCK names. The stamp comes last, so an interrupted run is
# simply done again.
make_venv() {
    local folder="$1" lock="$2" python="$3"
    rm -f "$folder/.complete"
    "$python" -m venv --clear "$folder"
    # Compiling all of the community package's modules costs more than installing them; few are ever imported.
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-compile --require-hashes -r "$lock"
    venv_stamp "$folder" "$lock" >"$folder/.complete"
}

# only_one NAME: waits until no other process of this clone holds the lock NAME (two lanes may set up at once).
only_one() {
    mkdir -p "$cache"
    if command -v flock >/dev/null 2>&1; then
        exec 9>"$cache/$1.lock"
        flock 9
    fi
}

# Sourced after scripts/lib.sh by the lanes that need a container engine: engine_up, then `docker` works; the engine
# is stopped when the lane ends, by its process id, where the lane started it.
# shellcheck shell=bash
# shellcheck disable=SC2154 # root, cache and skipped come from scripts/lib.sh.

engine_pid=""
work_pid=""
# Outside the clone: the path of a socket may have 107 characters at most.
engine_run="/run/gpufleet-lab"

# The systemd of each node takes several inotify instances, and all of them together have those of one user, root.
inotify_limit="/proc/sys/fs/inotify/max_user_instances"
inotify_wanted=1024
inotify_before=""

engine_answers() { timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# engine_up: an engine of the machine is used as it is; where none answers, one is started for this lane alone.
engine_up() {
    trap engine_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # Waits for another lane that has nodes of the same names, or an engine on the same folders.
    only_one lab
    if [ "$(id -u)" -eq 0 ] && [ "$(cat "$inotify_limit")" -lt "$inotify_wanted" ]; then
        inotify_before="$(cat "$inotify_limit")"
        echo "$inotify_wanted" >"$inotify_limit" || inotify_before=""
    fi
    if command -v docker >/dev/null 2>&1 && engine_answers; then
        say "Using the container engine that answers here."
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        warn "No container engine answers here: start one, or run this as root on Debian or Ubuntu."
        exit "$skipped"
    fi
    "$root/scripts/system-packages" docker.io=dockerd || exit $?
    # Debian 13 has the client in a package of its own.
    command -v docker >/dev/null 2>&1 || "$root/scripts/system-packages" docker-cli=docker || exit $?

    export DOCKER_HOST="unix://$engine_run/docker.sock"
    engine_stale
    mkdir -p "$engine_run" "$cache/docker"
    # Nodes have no network, so neither bridge nor packet filter is touched. The images stay in .cache between runs.
    # 9>&-: the lock belongs to this lane, not to the engine.
    dockerd --data-root "$cache/docker" --exec-root "$engine_run/exec" --pidfile "$engine_run/docker.pid" \
        --host "$DOCKER_HOST" --bridge=none --iptables=false --ip6tables=false --log-level=warn \
        >"$cache/dockerd.log" 2>&1 9>&- &
    engine_pid=$!
    for _ in $(seq 120); do
        if engine_answers; then
            say "Started a container engine (process $engine_pid); it is stopped at the end."
            return 0
        fi
        kill -0 "$engine_pid" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$cache/dockerd.log" >&2
    warn "dockerd did not start; its messages stand above and in $cache/dockerd.log."
    exit 1
}

# engine_stale: ends an engine that a killed run left behind.
engine_stale() {
    local pid
    pid="$(cat "$engine_run/docker.pid" 2>/dev/null || true)"
    if [ -n "$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -- "--exec-root $engine_run/exec"; then
        warn "Stopping the engine that an interrupted run left (process $pid)."
        engine_pid=$pid
        engine_down
    fi
    rm -f "$engine_run/docker.pid"
}

# with_engine COMMAND…: runs it in a process group of its own and waits for it. The shell acts upon a signal only between
# two commands, but during `wait` at once; engine_down then ends the whole group.
with_engine() {
    local status=0
    setsid "$@" &
    work_pid=$!
    wait "$work_pid" || status=$?
    work_pid=""
    return $status
}

engine_down() {
    local status=$? containers
    if [ -n "$work_pid" ]; then
        kill -TERM -- "-$work_pid" 2>/dev/null || true
        sleep 2
        kill -KILL -- "-$work_pid" 2>/dev/null || true
        work_pid=""
    fi
    [ -z "$inotify_before" ] || echo "$inotify_before" >"$inotify_limit" || true
    inotify_before=""
    [ -n "$engine_pid" ] || return $status
    containers="$(timeout 20 docker ps -aq 2>/dev/null || true)"
    # shellcheck disable=SC2086
    [ -z "$containers" ] || timeout 60 docker rm -f $containers >/dev/null 2>&1 || true
    kill -TERM "$engine_pid" 2>/dev/null || true
    for _ in $(seq 60); do
        kill -0 "$engine_pid" 2>/dev/null || break
        sleep 0.5
    done
    kill -KILL "$engine_pid" 2>/dev/null || true
    engine_pid=""
    return $status
}

# Sourced after docker_engine.sh: node_image makes gpufleet-node:bookworm, a Debian with systemd as its first process.
# No registry is asked: debootstrap fetches Debian's packages, once; the archive and the image stay in .cache.
# shellcheck shell=bash
# shellcheck disable=SC2154 # root, cache and skipped come from scripts/lib.sh.

# lab_libraries: what stands in for a kernel's file and for RDMA hardware, compiled for the nodes.
lab_libraries() {
    mkdir -p "$cache/lab/lib"
    gcc -shared -fPIC -O2 -o "$cache/lab/lib/proc_shim.so" "$root/tests/lab/proc_shim.c" -ldl
    gcc -shared -fPIC -O2 -Wl,-soname,libibverbs.so.1 -o "$cache/lab/lib/libibverbs.so.1" \
        "$root/tests/fixtures/libibverbs_stub.c"
}

node_image() {
    local name="gpufleet-node:bookworm" recipe archive former
    # The text of the function without its comments: what changes it, changes the image.
    recipe="$(declare -f node_root | sha256sum | cut -c1-16)"
    if [ "$(docker image inspect --format '{{index .Config.Labels "recipe"}}' "$name" 2>/dev/null)" = "$recipe" ]; then
        return 0
    fi
    archive="$cache/lab/node-bookworm-$recipe.tar"
    if [ ! -f "$archive" ]; then
        if [ "$(id -u)" -ne 0 ]; then
            warn "The node image must be made as root (debootstrap); run this once as root on Debian or Ubuntu."
            exit "$skipped"
        fi
        # debian-archive-keyring: Ubuntu does not know Debian's keys.
        "$root/scripts/system-packages" debootstrap=debootstrap debian-archive-keyring || exit $?
        say "Making the node image with debootstrap; the first time takes a minute or two."
        mkdir -p "$cache/lab"
        rm -rf "$cache"/lab/rootfs.* "$cache"/lab/node-bookworm-*
        node_root "$cache/lab/rootfs.$$" >"$cache/debootstrap.log" 2>&1 || {
            tail -n 20 "$cache/debootstrap.log" >&2
            rm -rf "$cache/lab/rootfs.$$"
            fail "The node image could not be made; the messages stand above and in $cache/debootstrap.log."
        }
        tar -C "$cache/lab/rootfs.$$" --numeric-owner -cf "$archive.part" .
        rm -rf "$cache/lab/rootfs.$$"
        mv "$archive.part" "$archive"
    fi
    former="$(docker image inspect --format '{{.Id}}' "$name" 2>/dev/null || true)"
    docker import --change 'CMD ["/lib/systemd/systemd"]' --change "LABEL recipe=$recipe" "$archive" "$name" >/dev/null
    [ -z "$former" ] || docker image rm "$former" >/dev/null 2>&1 || true
}

# node_root FOLDER: the files of a node. Each step is joined by &&, because `set -e` does not hold where the caller
# looks at the result.
node_root() {
    local unit
    debootstrap --variant=minbase \
        --include=systemd-sysv,dbus,udev,kmod,python3,python3-apt,iproute2,procps,sudo bookworm "$1" || return 1
    # A node that is left alone must not change: no timers, nothing that asks for the network or a console.
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
        systemd-tmpfiles-clean.timer systemd-random-seed.service systemd-update-utmp.service \
        systemd-update-utmp-runlevel.service systemd-udevd.service systemd-udev-trigger.service \
        systemd-networkd-wait-online.service e2scrub_reap.service systemd-logind.service getty.target \
        console-getty.service; do
        ln -sf /dev/null "$1/etc/systemd/system/$unit" || return 1
    done
    rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/* "$1"/usr/share/{doc,man,locale,info}/* &&
        : >"$1/etc/machine-id" || return 1
    # Two hosts on which no probe can run: a Python that says it is 3.8, and a login whose sudo wants a terminal.
    mkdir -p "$1/opt/python3.8" &&
        printf '%s\n' 'import sys' 'sys.version_info = (3, 8, 18, "final", 0)' 'sys.version = "3.8.18 (test double)"' \
            >"$1/opt/python3.8/sitecustomize.py" &&
        printf '%s\n' '#!/bin/sh' \
            'PYTHONPATH=/opt/python3.8 PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 "$@"' \
            >"$1/usr/local/bin/python3.8" &&
        chmod 755 "$1/usr/local/bin/python3.8" &&
        chroot "$1" useradd --create-home --shell /bin/bash operator-without-tty &&
        printf 'Defaults:operator-without-tty requiretty\noperator-without-tty ALL=(ALL) NOPASSWD: ALL\n' \
            >"$1/etc/sudoers.d/lab" &&
        chmod 440 "$1/etc/sudoers.d/lab"
}

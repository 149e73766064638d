# Sourced after docker_engine.sh: node_image makes gpufleet-node:bookworm, a Debian with systemd as its first process.
# No registry is asked: debootstrap fetches Debian's packages, once; the archive and the image stay in .cache.
# shellcheck shell=bash

# lab_libraries: what stands in for a kernel's file and for RDMA hardware, compiled for the nodes.
lab_libraries() {
    mkdir -p "$cache/lab/lib"
    gcc -shared -fPIC -O2 -o "$cache/lab/lib/proc_shim.so" "$root/tests/lab/proc_shim.c" -ldl
    gcc -shared -fPIC -O2 -Wl,-soname,libibverbs.so.1 -o "$cache/lab/lib/libibverbs.so.1" \
        "$root/tests/fixtures/libibverbs_stub.c"
}

node_image_name="gpufleet-node:bookworm"
node_image_packages="systemd-sysv,dbus,udev,kmod,python3,python3-apt,iproute2,procps,sudo"

node_image() {
    local recipe archive work status=0
    recipe="$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)"
    if [ "$(docker image inspect --format '{{index .Config.Labels "recipe"}}' "$node_image_name" 2>/dev/null)" = "$recipe" ]; then
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
        work="$(mktemp -d "$cache/lab/rootfs.XXXXXX")"
        chmod 755 "$work"
        debootstrap --variant=minbase --include="$node_image_packages" bookworm "$work" >"$cache/debootstrap.log" 2>&1 || status=$?
        if [ $status -ne 0 ]; then
            tail -n 20 "$cache/debootstrap.log" >&2
            rm -rf "$work"
            fail "debootstrap could not make the node image; its messages stand above and in $cache/debootstrap.log."
        fi
        # A node that is left alone must not change: no timers, nothing that asks for the network or a console.
        for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
            systemd-tmpfiles-clean.timer systemd-random-seed.service systemd-update-utmp.service \
            systemd-update-utmp-runlevel.service systemd-udevd.service systemd-udev-trigger.service \
            systemd-networkd-wait-online.service e2scrub_reap.service systemd-logind.service \
            getty.target console-getty.service; do
            ln -sf /dev/null "$work/etc/systemd/system/$unit"
        done
        rm -rf "$work"/var/cache/apt/archives/*.deb "$work"/var/lib/apt/lists/* \
            "$work"/usr/share/{doc,man,locale,info}/*
        : >"$work/etc/machine-id"
        # Two hosts on which no probe can run: a Python that says it is 3.8, and a login whose sudo wants a terminal.
        mkdir -p "$work/opt/python3.8"
        printf '%s\n' '#!/bin/sh' 'PYTHONPATH=/opt/python3.8 PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 "$@"' >"$work/usr/local/bin/python3.8"
        chmod 755 "$work/usr/local/bin/python3.8"
        printf '%s\n' 'import sys' 'sys.version_info = (3, 8, 18, "final", 0)' 'sys.version = "3.8.18 (test double)"' \
            >"$work/opt/python3.8/sitecustomize.py"
        useradd --root "$work" --create-home --shell /bin/bash operator-without-tty
        printf 'Defaults:operator-without-tty requiretty\noperator-without-tty ALL=(ALL) NOPASSWD: ALL\n' >"$work/etc/sudoers.d/lab"
        chmod 440 "$work/etc/sudoers.d/lab"
        tar -C "$work" --numeric-owner -cf "$archive.part" .
        rm -rf "$work"
        rm -f "$cache"/lab/node-bookworm-*.tar
        mv "$archive.part" "$archive"
    fi
    docker import --change 'CMD ["/lib/systemd/systemd"]' \
        --change "LABEL recipe=$recipe" "$archive" "$node_image_name" >/dev/null
}

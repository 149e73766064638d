# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# shellcheck shell=sh
#
# What gpu_fabric asks of a node: read by /bin/sh from its standard input, so that nothing is left on the node. It only
# reads. script.py puts three assignments in front: nonce (marks our lines, so that a banner is none), limit (seconds
# for a command) and listed (PCI ids of NVIDIA GPUs that are known to have no NVSwitches managed over InfiniBand).
#
# Answer: a line "NONCE KIND STATE LENGTH KEY", LENGTH bytes, an end of line; and so on. frames.py reads it.
# Where it can, it uses what the shell has built in: a node has hundreds of PCI functions.
: "${nonce:?}" "${limit:?}" "${listed?}"

# Lengths are bytes, and tools speak English.
LC_ALL=C
LANG=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL LANG PATH
cd / || exit 1

record() { # KIND STATE KEY TEXT
    printf '%s %s %s %s %s\n%s\n' "$nonce" "$1" "$2" "${#4}" "$3" "$4"
}

# first FILE: its first line, which is left in $value too.
first() {
    value=
    if [ ! -e "$1" ]; then
        record file absent "$1" ''
    elif [ -r "$1" ] && { IFS= read -r value || :; } 2>/dev/null <"$1"; then
        record file read "$1" "$value"
    else
        record file denied "$1" ''
    fi
}

# folder PATH: the names in it, one a line; none of those asked for here begins with a dot.
folder() {
    if [ ! -d "$1" ]; then
        record folder absent "$1" ''
    elif [ ! -r "$1" ] || [ ! -x "$1" ]; then
        record folder denied "$1" ''
    else
        names=
        for entry in "$1"/*; do
            if [ -e "$entry" ] || [ -h "$entry" ]; then
                names="$names${entry##*/}
"
            fi
        done
        record folder read "$1" "$names"
    fi
}

there() {
    if [ -e "$1" ]; then record exists yes "$1" ''; else record exists no "$1" ''; fi
}

# link PATH: where it leads is asked for all links together, because that needs a program.
links=
link() {
    if [ -h "$1" ]; then links="$links $1"; else record link absent "$1" ''; fi
}

# bytes FILE: in hexadecimal.
# shellcheck disable=SC2086 # $limited is several words, or none
bytes() {
    if [ ! -e "$1" ]; then
        record bytes absent "$1" ''
    elif [ ! -r "$1" ]; then
        record bytes denied "$1" ''
    elif value=$($limited od -A n -v -t x1 -N 4096 "$1" 2>/dev/null </dev/null); then
        record bytes read "$1" "$value"
    else
        record bytes failed "$1" ''
    fi
}

# run COMMAND...: what it prints; what it complains of follows the nonce on the error output.
# shellcheck disable=SC2086
run() {
    printf '\n%s\n' "$nonce" >&2
    if command -v "$1" >/dev/null 2>&1; then
        value=$($limited "$@" </dev/null)
        record run $? "$*" "$value"
    else
        record run missing "$*" ''
    fi
}

limited=
if timeout -k 1 9 true </dev/null >/dev/null 2>&1; then
    limited="timeout -k 2 $limit"
elif timeout 9 true </dev/null >/dev/null 2>&1; then
    limited="timeout $limit"
fi
# A banner may have left its last line open.
printf '\n'
record hello "${limited:+limited}" "" ''

first /proc/sys/kernel/arch
first /sys/module/nvidia/version
folder /proc/driver/nvidia-nvswitch/devices

bridged=
adapters=
folder /sys/bus/pci/devices
for device in /sys/bus/pci/devices/*; do
    [ -e "$device" ] || continue
    first "$device/vendor"
    vendor=$value
    first "$device/device"
    id=$value
    first "$device/class"
    link "$device/driver"
    case "$vendor $value" in
    "0x10de 0x03"* | "0x10de 0x12"*)
        case " $listed " in *" $id "*) ;; *) bridged=yes ;; esac
        ;;
    *" 0x0207"* | "0x15b3 0x0200"* | "0x1dd8 0x0200"*) adapters="$adapters $device" ;;
    *)
        if [ -d "$device/infiniband" ] || [ "$vendor" = 0x1d0f ]; then adapters="$adapters $device"; fi
        ;;
    esac
done
for device in $adapters; do
    there "$device/physfn"
    # Slow, so only where an adapter may lead to NVSwitches instead of to other nodes.
    if [ -n "$bridged" ]; then bytes "$device/vpd"; fi
done

folder /sys/class/infiniband
for device in /sys/class/infiniband/*; do
    [ -e "$device" ] || continue
    link "$device/device"
    for name in hca_type board_id fw_ver; do first "$device/$name"; done
    folder "$device/ports"
    for port in "$device"/ports/*; do
        [ -e "$port" ] || continue
        for name in state phys_state rate link_layer; do first "$port/$name"; done
    done
done
# shellcheck disable=SC2086
record links read "$links" "${links:+$(ls -ld $links 2>/dev/null)}"
# Commands come last: one may hang, and what was read of the kernel still stands.
record files "done" "" ''

run id -u
run uname -m
run nvidia-smi -q -x
record end "done" "" ''

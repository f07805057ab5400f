# shellcheck shell=bash
# Hosts for the scripts that try a cluster out, made of namespaces; to be sourced before anything else is done.
#
# Each has a network card, processes, a temporary directory, shared memory and a home of its own. /mnt is the same
# for all, as a file server's would be. The script itself moves into such namespaces too: whatever it starts ends with
# it, even if it is killed, and the machine stays as it was. As root, with `ip` and the commands named in NEEDS.

for command in ip nsenter ${NEEDS:-}; do
    command -v "$command" > /dev/null || { echo "the command $command is not there; see the head of $0" >&2; exit 2; }
done
if [ -z "${IN_NAMESPACES:-}" ]; then
    [ "$(id -u)" = 0 ] || { echo "$0 makes namespaces, which takes root" >&2; exit 2; }
    exec env IN_NAMESPACES=1 unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$@"
fi
trap 'exit 130' INT TERM  # as the first process of its namespace it would not hear them

export RAY_raylet_start_wait_time_s=600  # hosts share the cores of one machine
BIN=$PWD/.venv/bin
NETWORK=10.217.0
declare -A PROCESS  # the first one of each host

own_directories() {  # what a host does not share with the machine
    for directory in /tmp /run /dev/shm; do mount -t tmpfs tmpfs "$directory"; done
    mkdir -m 700 /tmp/home
    export HOME=/tmp/home
}

make_hosts() {  # NAME...: hosts with the addresses NETWORK.1, .2, ...; this script is at NETWORK.254
    mount -t tmpfs tmpfs /mnt
    own_directories
    sed 's|^\(root:.*\):[^:]*:[^:]*$|\1:/tmp/home:/bin/bash|' /etc/passwd > /mnt/passwd
    mount --bind /mnt/passwd /etc/passwd
    { echo "127.0.0.1 localhost"; for name in "$@"; do echo "$(address "$name" "$@") $name"; done; } > /mnt/hosts
    mount --bind /mnt/hosts /etc/hosts
    ip link set lo up
    ip link add switch type bridge
    ip address add "$NETWORK.254/24" dev switch
    ip link set switch up
    for name in "$@"; do
        make_host "$name"
        lay_cable "$name"
        plug_in "$name" "$(address "$name" "$@")"
    done
}

address() {  # NAME NAMES...: by the place among the names
    local name=$1 number=0
    for each in "${@:2}"; do
        number=$((number + 1))
        [ "$each" != "$name" ] || echo "$NETWORK.$number"
    done
}

make_host() {  # NAME
    # Its first process reaps what the others leave: `ray stop` would wait for zombies.
    unshare --net --uts --ipc --mount --pid --fork --mount-proc --kill-child bash -c "
        $(declare -f own_directories)
        own_directories
        hostname $1
        ip link set lo up
        touch /run/ready
        while :; do sleep 1000 & wait; done
    " &
    until PROCESS[$1]=$(cat "/proc/$!/task/$!/children") && on "$1" test -e /run/ready; do sleep 0.1; done 2> /dev/null
    PROCESS[$1]=${PROCESS[$1]% }
}

lay_cable() {  # NAME: its network card, `card`; the other end, in the switch, has the host's name
    ip link add "$1" type veth peer name card netns "${PROCESS[$1]}"
}

plug_in() {  # NAME ADDRESS: its cable is there already
    on "$1" ip address add "$2/24" dev card
    on "$1" ip link set card up
    ip link set dev "$1" master switch up
}

on() {  # NAME COMMAND...: runs it there
    nsenter --target "${PROCESS[$1]% }" --net --uts --ipc --mount --pid --wdns="$PWD" env HOME=/tmp/home "${@:2}"
}

lose_host() {  # NAME: as if its plug were pulled
    ip link delete dev "$1"
    kill -KILL "${PROCESS[$1]}"
}

same_bits() {  # DIRECTORY DIRECTORY: of two trainings
    "$BIN/python" - "$@" <<'END'
import sys
from pathlib import Path

from ttray.runs.curves import RESULTS, read_csv

runs = [Path(each) for each in sys.argv[1:]]
results = [[{key: row[key] for key in RESULTS} for row in read_csv(run / "metrics.csv")] for run in runs]
for row in results[1][:: max(len(results[1]) // 4, 1)]:
    print(f"iteration {row['iteration']:.0f}: return {row['discounted_return']}, bound {row['bound_after']}")
last = f"checkpoints/{len(results[0]):06d}/policy.safetensors"
weights = [(run / last).read_bytes() for run in runs]
same = repr(results[0]) == repr(results[1]) and weights[0] == weights[1]  # NaN included
print(f"{len(results[0])} iterations: " + ("every result and every weight has the same bits" if same else "OTHER BITS"))
sys.exit(not same)
END
}

#!/bin/bash
# Trains while the network between hosts is slow, loses packets or is cut, and compares every bit. Three hosts, made of
# namespaces (hosts.sh): a head, and two with an env runner each; cable.py is their network. One training has its driver at
# the head, and goes through one trouble after the other; the driver of a second one is at `one`, and the head is cut off.
# It prints a table, and what was said meanwhile. As root:
#
#     cluster/try_networks.sh                             (from the root of the repository, with .venv set up)
set -euo pipefail
export NEEDS="openssl"
source cluster/hosts.sh

# Each iteration asks the env runners for the bound some hundred times.
RUN=(--preset dam --checkpoint-every 2)
REMOTE=(--env-runners 2 --set optimise_on=workers)
hosts=(head one two)

lay_cable() {
    mkfifo "/mnt/orders-$1"
    nice -n -15 "$BIN/python" cluster/cable.py "$1" "$1-far" "/mnt/orders-$1" &
    until ip link set dev "$1-far" netns "${PROCESS[$1]}" name card; do sleep 0.1; done 2> /dev/null
}
network() { for host in $2; do echo "$1" > "/mnt/orders-$host"; done; }  # ORDERS "HOSTS"

RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
unset RAY_ADDRESS
HEAD=$NETWORK.1:6379
make_hosts "${hosts[@]}"

start_ray() {  # HOST OPTIONS...: again whenever it has ended, as a service would
    # shellcheck disable=SC2016  # it expands there
    on "$1" bash -c 'while :; do "$@"; sleep 1; done' start "$BIN/ray" start "${@:2}" --object-store-memory=200000000 --block \
        --node-ip-address="$(address "$1" "${hosts[@]}")" >> "/mnt/ray-$1.log" 2>&1 &
}
train() {  # HOST NAME: again whenever it is ended from outside; each line of its log with the time at which it came
    local status
    until on "$1" env RAY_ADDRESS="$HEAD" "$BIN/ttray" train "${RUN[@]}" "${REMOTE[@]}" --iterations 1000 --directory "/mnt/runs/$2" --progress 2>&1; do
        status=$?
        [ ! -e "/mnt/$2.end" ] || return 0
        echo "ended with status $status, started again"
    done | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >> "/mnt/$2.log"
}
iterations() { awk '$2 ~ /^[0-9]+\/1000$/ { last = $2 + 0 } END { print last + 0 }' "/mnt/$1.log" 2> /dev/null || echo 0; }
await_iterations() {  # NAME NUMBER: so many more
    local goal=$(($(iterations "$1") + $2))
    while [ "$(iterations "$1")" -lt "$goal" ]; do sleep 0.2; done
}
trouble() {  # NAME TITLE ORDERS SECONDS "HOSTS": for so long, or for four iterations; prints a row
    local from=$EPOCHREALTIME
    network "$3" "$5"
    if [ "$4" = 0 ]; then await_iterations "$1" 4; else sleep "$4"; fi
    network "" "$5"
    [ "$4" = 0 ] || await_iterations "$1" 2
    awk -v from="$from" -v title="$2" '
        $1 < from { last = $1; next }
        { if ($1 - last > silence) silence = $1 - last; last = $1 }
        $2 ~ /^[0-9]+\/1000$/ { number++ }
        END { printf "| %s | %d | %.0f | %.0f |\n", title, number, last - from, silence }' "/mnt/$1.log"
}
finish() {  # NAME: stops it, and compares
    touch "/mnt/$1.end"
    pgrep -f "ttray train .*/mnt/runs/$1 " | xargs kill -TERM
    while pgrep -f "ttray train .*/mnt/runs/$1 " > /dev/null; do sleep 0.5; done
    local number
    number=$(ls "/mnt/runs/$1/checkpoints" | tail -n 1)
    "$BIN/ttray" train "${RUN[@]}" --env-runners 0 --iterations "$((10#$number))" --directory "/mnt/runs/$1-here" > /mnt/here.log 2>&1 ||
        { cat /mnt/here.log; return 1; }
    same_bits "/mnt/runs/$1-here" "/mnt/runs/$1" | tail -n 1
}

start_ray head --head --port=6379 --num-cpus=0 --include-dashboard=false
for host in one two; do start_ray "$host" --address="$HEAD" --num-cpus=1; done
until on head bash -c ': > /dev/tcp/head/6379' 2> /dev/null; do sleep 1; done

train head first &
await_iterations first 2
echo "| the network | iterations | seconds | longest silence, s |"
echo "|---|---|---|---|"
trouble first "as it is" "" 0 "one two"
trouble first "one host cut off for 20 s" "cut=1" 20 "one"
trouble first "5 % of packets lost each way" "loss=0.05" 0 "one two"
trouble first "25 ± 5 ms each way" "delay=0.025 jitter=0.005" 0 "one two"
trouble first "2 Mbit/s" "rate=2e6" 0 "one two"
trouble first "both hosts cut off for 20 s" "cut=1" 20 "one two"
trouble first "one host cut off for 90 s" "cut=1" 90 "one"
finish first
train one second &
await_iterations second 2
trouble second "the head cut off for 20 s, the driver is elsewhere" "cut=1" 20 "head"
trouble second "the head cut off for 90 s, the driver is elsewhere" "cut=1" 90 "head"
finish second
echo "What was said:"
grep -Ev '^[0-9.]+ ( *[0-9]+/1000|  |TTPOIS)' /mnt/first.log /mnt/second.log | sed 's|^/mnt/||' | cut -c 1-220

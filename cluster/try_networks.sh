#!/bin/bash
# Trains while the network between hosts is slow, loses packets or is cut, and compares every bit. Three hosts, made of
# namespaces (hosts.sh): the head, and two with an env runner each; cable.py is their network. It prints a table. As root:
#
#     cluster/try_networks.sh                             (from the root of the repository, with .venv set up)
set -euo pipefail
export NEEDS="openssl"
source cluster/hosts.sh

ITERATIONS=${ITERATIONS:-12}
RUN=(--preset dam --iterations "$ITERATIONS" --env-runners 2)
ON_WORKERS=(--set optimise_on=workers)  # hundreds of small messages in each iteration
ON_LEARNER=(--set optimise_on=learner)  # all rows travel

lay_cable() {
    mkfifo "/mnt/orders-$1"
    nice -n -15 "$BIN/python" cluster/cable.py "$1" "$1-far" "/mnt/orders-$1" &
    until ip link set dev "$1-far" netns "${PROCESS[$1]}" name card; do sleep 0.1; done 2> /dev/null
}
network() { echo "${*:2}" > "/mnt/orders-$1"; }  # HOST ORDERS...

RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
unset RAY_ADDRESS
make_hosts head one two
HEAD=$NETWORK.1:6379

start_ray() {  # HOST OPTIONS...: again whenever it has ended, as a service would
    on "$1" bash -c 'while :; do "$@"; sleep 1; done' start "$BIN/ray" start "${@:2}" --object-store-memory=200000000 --block \
        --node-ip-address="$(address "$1" head one two)" >> "/mnt/ray-$1.log" 2>&1 &
}
num_nodes() {
    on head "$BIN/python" -c '
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
sys.exit(sum(node["Alive"] for node in ray.nodes()) != 3)' "$HEAD" > /dev/null 2>&1
}
await_nodes() {
    for _ in {1..60}; do
        if num_nodes; then return; fi
        sleep 2
    done
    tail -n 5 /mnt/ray-*.log
    return 1
}
train() {  # HOST NAME OPTIONS...: each line of the log with the time at which it came
    on "$1" env RAY_ADDRESS="$HEAD" "$BIN/ttray" train "${RUN[@]}" "${@:3}" --directory "/mnt/runs/$2" --progress 2>&1 |
        while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >> "/mnt/$2.log"
}
disturb() {  # NAME ORDERS SECONDS HOST...: from the third iteration on
    until grep -q "^[0-9.]* *3/" "/mnt/$1.log" 2> /dev/null; do sleep 0.1; done
    for host in "${@:4}"; do network "$host" "$2"; done
    [ "$3" = 0 ] || { sleep "$3"; for host in "${@:4}"; do network "$host"; done; }
}
try() {  # NAME TITLE ORDERS SECONDS "HOSTS" DRIVER OPTIONS...
    local name=$1 title=$2 orders=$3 seconds=$4 driver=$6 starts=1 hosts
    read -ra hosts <<< "$5"
    await_nodes
    disturb "$name" "$orders" "$seconds" "${hosts[@]}" &
    local trouble=$!
    until train "$driver" "$name" "${@:7}"; do
        starts=$((starts + 1))
        [ "$starts" -le 3 ] || { tail -n 20 "/mnt/$name.log"; return 1; }
        await_nodes
    done
    wait "$trouble"
    for host in "${hosts[@]}"; do network "$host"; done
    same_bits /mnt/runs/here "/mnt/runs/$name" > /mnt/bits.log && bits=same || bits=OTHER
    awk -F, -v title="$title" -v starts="$starts" -v bits="$bits" -v silence="$(silence "$name")" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { seconds += $column["iteration_time_s"]; again += $column["num_quotas_redispatched"] }
        END { printf "| %s | %.0f | %d | %.0f | %d | %s |\n", title, seconds, again, silence, starts, bits }' "/mnt/runs/$name/metrics.csv"
    sed -n 's/^[0-9.]* \(.*\(WARNING\|ERROR\|lost\|waiting for\|gone\|sending\).*\)/    \1/p' "/mnt/$name.log" | cut -c 1-160 >> /mnt/said
}
silence() {  # the longest time without a line, from the first iteration on
    awk '/^[0-9.]+ *1\// { last = $1 } last { if ($1 - last > longest) longest = $1 - last; last = $1 } END { print longest }' "/mnt/$1.log"
}

start_ray head --head --port="${HEAD#*:}" --num-cpus=0 --include-dashboard=false
for host in one two; do
    start_ray "$host" --address="$HEAD" --num-cpus=1
done
"$BIN/ttray" train "${RUN[@]}" --env-runners 0 --directory /mnt/runs/here > /mnt/here.log 2>&1 || { cat /mnt/here.log; exit 1; }

echo "| network of the hosts with env runners | seconds | quotas sent again | longest silence, s | starts | bits |"
echo "|---|---|---|---|---|---|"
try plain "as it is" "" 0 "one two" head "${ON_WORKERS[@]}"
try delay "25 ± 5 ms of delay each way" "delay=0.025 jitter=0.005" 0 "one two" head "${ON_WORKERS[@]}"
try loss1 "1 % of packets lost" "loss=0.01" 0 "one two" head "${ON_WORKERS[@]}"
try loss5 "5 % of packets lost" "loss=0.05" 0 "one two" head "${ON_WORKERS[@]}"
try rate "5 Mbit/s" "rate=5e6" 0 "one two" head "${ON_WORKERS[@]}"
try rows "5 Mbit/s, all rows travel" "rate=5e6" 0 "one two" head "${ON_LEARNER[@]}"
try all "all of these at once" "delay=0.025 jitter=0.005 loss=0.01 rate=5e6" 0 "one two" head "${ON_WORKERS[@]}"
try cut20 "one cut off for 20 s, in the bound" "cut=1" 20 "one" head "${ON_WORKERS[@]}"
try cut20l "one cut off for 20 s, bound in the learner" "cut=1" 20 "one" head "${ON_LEARNER[@]}"
try cut90 "one cut off for 90 s" "cut=1" 90 "one" head "${ON_WORKERS[@]}"
try both20 "both cut off for 20 s" "cut=1" 20 "one two" head "${ON_WORKERS[@]}"
try head20 "the head cut off for 20 s, driver at a worker" "cut=1" 20 "head" one "${ON_WORKERS[@]}"
try head90 "the head cut off for 90 s, driver at a worker" "cut=1" 90 "head" one "${ON_WORKERS[@]}"
echo "What was said:"
cat /mnt/said

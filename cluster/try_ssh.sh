#!/bin/bash
# Tries ray-up-ssh.yaml on three machines of a lab, which are hosts made of namespaces (hosts.sh) with an sshd each: `ray up`,
# a job, a host lost in the middle of it, `ray down`; the result is compared with the same training here, without Ray.
# As root, on Debian 12, whose Python is the 3.11 of .venv:
#
#     apt-get install openssh-server openssh-client rsync iproute2
#     make wheel && cluster/try_ssh.sh                    (from the root of the repository, with .venv set up)
set -euo pipefail
export NEEDS="/usr/sbin/sshd ssh-keygen rsync"
source cluster/hosts.sh

labs=(lab1 lab2 lab3)
RUN=(--preset dam --iterations "${ITERATIONS:-100}")
make_hosts "${labs[@]}"

# The hosts have no other network: packages come from .venv, and of `pip install` only the wheel of ttray is left.
mkdir /mnt/packages /mnt/ssh
for each in .venv/lib/python3.11/site-packages/*; do
    case $each in *ttray*) ;; *) ln -s "$PWD/$each" /mnt/packages ;; esac
done
mkdir -m 700 "$HOME/.ssh" "$HOME/.ray"
ssh-keygen -q -t ed25519 -N '' -f "$HOME/.ssh/ttray_lab"
ssh-keygen -q -t ed25519 -N '' -f /mnt/ssh/host
cp "$HOME/.ssh/ttray_lab.pub" /mnt/ssh/authorized_keys
for lab in "${labs[@]}"; do
    # shellcheck disable=SC2016  # it expands there
    on "$lab" bash -c '
        install -D -m 600 /mnt/ssh/authorized_keys ~/.ssh/authorized_keys
        /usr/bin/python3 -m venv ~/ttray/venv
        echo /mnt/packages > ~/ttray/venv/lib/python3.11/site-packages/packages.pth
        sed "1s|.*|#!$HOME/ttray/venv/bin/python|" .venv/bin/ray > ~/ttray/venv/bin/ray
        chmod +x ~/ttray/venv/bin/ray
        printf "[install]\nno-deps = true\nno-index = true\n" > ~/ttray/venv/pip.conf
        echo export RAY_raylet_start_wait_time_s="$RAY_raylet_start_wait_time_s" > ~/.bashrc
        mkdir /run/sshd
        exec /usr/sbin/sshd -D -o HostKey=/mnt/ssh/host -o UsePAM=no -o PermitRootLogin=prohibit-password' &
    disown
done
sed 's/ssh_user: rollout .*/ssh_user: root/' cluster/ray-up-ssh.yaml > /mnt/lab.yaml
diff cluster/ray-up-ssh.yaml /mnt/lab.yaml || true

export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
unset RAY_ADDRESS PYTHONPATH
"$BIN/ray" get-auth-token --generate > /dev/null 2>&1
processes() { for lab in "$@"; do echo "$lab: $(on "$lab" ps -C raylet,gcs_server -o comm= | paste -sd ' ')"; done; }
await() {  # SECONDS COMMAND...
    for ((second = 0; second < $1; second++)); do
        "${@:2}" > /dev/null 2>&1 && return
        sleep 1
    done
    echo "not after $1 s: ${*:2}" >&2
    return 1
}
num_nodes() { on lab1 "/tmp/home/ttray/venv/bin/python" -c '
import sys, ray
ray.init(address="lab1:6379", logging_level="ERROR", log_to_driver=False)
sys.exit(sum(node["Alive"] for node in ray.nodes()) != int(sys.argv[1]))' "$1"; }

echo "== ray up"
"$BIN/ray" up --yes --no-config-cache /mnt/lab.yaml > /mnt/up.log 2>&1 || { tail -n 40 /mnt/up.log; exit 1; }
await 600 num_nodes 3 || { on lab1 bash -c 'tail -n 40 /tmp/ray/session_latest/logs/monitor*'; exit 1; }
processes "${labs[@]}"

echo "== without the token"
"$BIN/ray" dashboard --port 8265 /mnt/lab.yaml > /mnt/dashboard.log 2>&1 &
await 200 bash -c ': > /dev/tcp/127.0.0.1/8265'
RAY_AUTH_MODE=disabled "$BIN/ttray" submit -- plan --preset dam 2>&1 | tail -n 1 | cut -d . -f 1 || true

echo "== the job; lab3 is lost in the middle of it"
"$BIN/ttray" submit -- train "${RUN[@]}" --env-runners 4 --directory /tmp/home/runs/try > /mnt/job.log 2>&1 &
job=$!
await 600 grep -q "^ *5/" /mnt/job.log || { cat /mnt/job.log; exit 1; }
lose_host lab3
echo "lab3 is lost after: $(tail -n 1 /mnt/job.log)"
wait "$job" || { cat /mnt/job.log; exit 1; }
cat /mnt/job.log
echo "quotas sent again: $(on lab1 awk -F, 'NR == 1 { while ($++i != "num_quotas_redispatched"); next } { sum += $i } END { print sum }' \
    /tmp/home/runs/try/metrics.csv)"

echo "== ray down"
"$BIN/ray" down --yes /mnt/lab.yaml > /mnt/down.log 2>&1 || { tail -n 40 /mnt/down.log; exit 1; }
processes lab1 lab2
started=$SECONDS
await 120 bash -c "! nsenter --target ${PROCESS[lab2]} --pid --mount ps -C raylet"
echo "lab2 has noticed by itself, $((SECONDS - started)) s later: nothing of Ray runs there"

echo "== the same in one process"
env --unset RAY_AUTH_MODE "$BIN/ttray" train "${RUN[@]}" --env-runners 0 --directory /mnt/here > /mnt/here.log 2>&1 || { cat /mnt/here.log; exit 1; }
on lab1 cp -r /tmp/home/runs/try /mnt/try
same_bits /mnt/here /mnt/try

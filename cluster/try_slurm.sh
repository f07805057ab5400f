#!/bin/bash
# Tries slurm.sbatch on SLURM itself: three nodes and a controller, which are hosts made of namespaces (hosts.sh). A job
# is submitted and ends; another one comes to its time limit, is requeued, and ends; both are compared with the same
# training here, without Ray. As root, on Debian:
#
#     apt-get install slurm-wlm munge iproute2 openssl
#     cluster/try_slurm.sh                                (from the root of the repository, with .venv set up)
set -euo pipefail
export NEEDS="slurmctld slurmd sbatch munged openssl"
source cluster/hosts.sh

nodes=(n1 n2 n3)
make_hosts "${nodes[@]}"
mkdir -p /mnt/runs /mnt/slurm/state
head -c 1024 /dev/urandom > /mnt/slurm/munge.key
chmod 400 /mnt/slurm/munge.key
export SLURM_CONF=/mnt/slurm/slurm.conf TTRAY_BIN=$BIN TTRAY_RUNS=/mnt/runs
cat > "$SLURM_CONF" <<END
ClusterName=try
SlurmctldHost=$(hostname)($NETWORK.254)
SlurmUser=root
AuthInfo=cred_expire=5
StateSaveLocation=/mnt/slurm/state
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/mnt/slurm/slurmctld.log
SlurmdSpoolDir=/run/slurmd
SlurmdPidFile=/run/slurmd.pid
SlurmdLogFile=/mnt/slurm/%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
$(for node in "${nodes[@]}"; do echo "NodeName=$node NodeAddr=$(address "$node" "${nodes[@]}") CPUs=2"; done)
PartitionName=try Nodes=ALL Default=YES
END

start_munge='mkdir -p /run/munge && munged --force --key-file=/mnt/slurm/munge.key'
bash -c "$start_munge" 2> /mnt/slurm/munge.log
slurmctld -D 2> /dev/null &
for node in "${nodes[@]}"; do
    on "$node" bash -c "$start_munge; exec slurmd -D -N $node" > /dev/null 2>&1 &
done

state() { scontrol show job --oneliner "$1" | sed 's/.*JobState=\([^ ]*\).*Restarts=\([^ ]*\).*RunTime=\([^ ]*\).*/\1, \2 restarts, \3/'; }
await() {  # JOB: tells each change of its state until it has ended
    local last='' now
    while :; do
        now=$(state "$1")
        [ "${now%,*}" = "$last" ] || echo "job $1: $now"
        last=${now%,*}
        case $now in
            COMPLETED*) return ;;
            FAILED* | TIMEOUT* | CANCELLED* | NODE_FAIL* | BOOT_FAIL*) return 1 ;;
        esac
        sleep 1
    done
}
try() {  # NAME SBATCH-OPTIONS... -- TRAIN-OPTIONS...
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    local run=(--preset dam "$@")
    job=$(sbatch --parsable --nodes 3 --cpus-per-task 2 --chdir /mnt/runs --job-name "$name" "${options[@]}" \
        cluster/slurm.sbatch "${run[@]}" --directory "/mnt/runs/$name")
    await "$job" || { tail -n 30 "/mnt/runs/ttray-$job.log" /mnt/slurm/*.log; return 1; }
    grep -v "^$" "/mnt/runs/ttray-$job.log"
    echo "-- the same in one process"
    "$BIN/ttray" train "${run[@]}" --env-runners 0 --directory "/mnt/runs/$name-here" > /mnt/here.log 2>&1 || { cat /mnt/here.log; return 1; }
    same_bits "/mnt/runs/$name-here" "/mnt/runs/$name"
}

echo "== the cluster: SLURM $(slurmctld -V | cut -d ' ' -f 2)"
for _ in {1..60}; do
    [ "$(sinfo --noheader --format %T)" != idle ] || break
    sleep 1
done
sinfo --Node --long | tail -n +2

echo "== a job that ends"
try ends --time 10 -- --iterations 10

echo "== a job that comes to its time limit"
try limited --time 3 --signal B:TERM@60 -- --iterations "${ITERATIONS:-400}"

echo "== a job that is cancelled"
job=$(sbatch --parsable --nodes 3 --cpus-per-task 2 --chdir /mnt/runs cluster/slurm.sbatch --preset dam --directory /mnt/runs/cancelled)
until grep -q "^ *2/" "/mnt/runs/ttray-$job.log" 2> /dev/null; do sleep 1; done
scancel "$job"
until [ -z "$(squeue --noheader)" ]; do sleep 1; done
echo "job $job: $(state "$job")"
echo "Ray left on the nodes: $(for node in "${nodes[@]}"; do on "$node" sh -c 'ps ax | grep -c "[r]aylet"' || true; done | paste -sd ' ')"

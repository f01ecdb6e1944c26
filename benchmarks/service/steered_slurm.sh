#!/usr/bin/env bash
# A real Slurm whose jobs are started as `apportion decide` says, beside Slurm's own ways.
#   timeout 1500 unshare -n bash benchmarks/service/steered_slurm.sh FOLDER PYTHON
# What a start costs, then 100 short jobs on 8 fake GPUs, three times: first come, first served; Slurm's own (backfill, by age and size); steered.
# In a network namespace with loopback only; ends what it starts. Debian: slurmctld, slurmd, slurm-client, munge, iproute2.
set -u
[ "$(ip -br link | wc -l)" = 1 ] || { echo "run me by: unshare -n bash $0 FOLDER PYTHON"; exit 2; }
mkdir -p "$1"; F=$(realpath "$1"); PYTHON=$2; H=$(hostname -s); PIDS=""
ip link set lo up
ip addr add 198.51.100.1/32 dev lo   # Slurm asks for addresses only if there is one beside 127.0.0.1
ended() { for one in $PIDS; do kill "$one" 2>/dev/null; done; PIDS=""; wait 2>/dev/null; }
trap ended EXIT

cluster() {
  D=$F/$1; mkdir -p "$D/state" "$D/spool"; export SLURM_CONF=$D/slurm.conf
  [ -f "$D/munge.key" ] || { dd if=/dev/urandom of="$D/munge.key" bs=1 count=1024 2>/dev/null; chmod 400 "$D/munge.key"; }
  munged --foreground --force --key-file="$D/munge.key" --socket="$D/munge.sock" --pid-file="$D/munge.pid" --log-file="$D/munge.log" --seed-file="$D/munge.seed" > /dev/null 2>&1 & PIDS="$PIDS $!"
  cat > "$D/slurm.conf" <<C
ClusterName=$1
SlurmctldHost=$H(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$D/munge.sock
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/ctld.pid
SlurmdPidFile=$D/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc=$D/jobcomp.txt
ReturnToService=2
KillWait=2
MinJobAge=3600
MpiDefault=none
$2
NodeName=$H NodeAddr=127.0.0.1 CPUs=64 Gres=gpu:a100:8 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
  for i in 0 1 2 3 4 5 6 7; do touch "$D/nv$i"; done
  echo "NodeName=$H Name=gpu Type=a100 File=$D/nv[0-7]" > "$D/gres.conf"
  slurmctld -f "$SLURM_CONF" -D > "$D/ctld.log" 2>&1 & PIDS="$PIDS $!"
  sleep 3
  slurmd -f "$SLURM_CONF" -D -N "$H" > "$D/slurmd.log" 2>&1 & PIDS="$PIDS $!"
  for _ in $(seq 30); do sinfo -h -o "%T" 2>/dev/null | grep -q idle && break; sleep 1; done
  sinfo -o "%n %G %T"
}

own="SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=100000,batch_sched_delay=0
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityMaxAge=0-1
PriorityWeightJobSize=100"
strict="SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
PriorityType=priority/basic"
for way in overhead fcfs slurm steered; do
  case $way in overhead|fcfs) cluster $way "$strict";; *) cluster $way "$own";; esac
  timeout 400 "$PYTHON" -m benchmarks.service.steered_slurm "$way" "$F" || echo "$way failed"
  ended
done
"$PYTHON" -m benchmarks.service.steered_slurm table "$F"

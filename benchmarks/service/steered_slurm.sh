#!/usr/bin/env bash
# A real Slurm whose jobs are started as `apportion decide` says, beside Slurm's own ways.
#   timeout 1500 unshare -n bash benchmarks/service/steered_slurm.sh FOLDER PYTHON [SEED [WAY...]]
# 100 short jobs on 8 fake GPUs for each way: fcfs (first come, first served), slurm (backfill, by age and size), slurm_nodes (the same
# where each GPU is a machine of its own) and steered; before them 30 jobs one after the other, by which it is measured what a start costs. Runs go on where a table is missing.
set -u
mkdir -p "$1"; F=$(realpath "$1"); PYTHON=$2; SEED=${3:-31}; WAYS=${*:4}
. "$(dirname "$0")/../slurm_cluster.sh"

records="JobCompType=jobcomp/filetxt
MinJobAge=3600"
own="SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_busy_nodes,sched_min_interval=100000,batch_sched_delay=0
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityMaxAge=0-1
PriorityWeightJobSize=100"
strict="SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
PriorityType=priority/basic"
for way in ${WAYS:-fcfs slurm slurm_nodes steered}; do
  for part in ${PARTS:-starts jobs}; do
    folder=$F/$SEED/$way/$part; [ -f "$folder/done" ] && continue
    case $way in fcfs) lines=$strict;; *) lines=$own;; esac
    case $way in slurm_nodes) each=each;; *) each="";; esac
    rm -rf "$folder"; slurm_files "$folder" steered a100:8 "$records
JobCompLoc=$folder/jobcomp.txt
$lines" $each
    slurm_daemons
    if timeout 400 "$PYTHON" -m benchmarks.service.steered_slurm "$part" "$way" "$SEED"; then touch "$folder/done"; else echo "$way $part failed"; fi
    ended
  done
done
"$PYTHON" -m benchmarks.service.steered_slurm table "$F"

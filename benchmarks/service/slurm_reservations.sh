#!/usr/bin/env bash
# Lines of `scontrol create reservation`, held to a real slurmctld with four nodes of each type and nobody on them.
#   timeout 60 unshare -n bash benchmarks/service/slurm_reservations.sh FOLDER FILE [TYPE:GPUS...]   (default: v100:4 k80:4)
# Prints what `scontrol show reservation` says; fails where a line is refused. Ends what it starts.
set -u
mkdir -p "$1"; F=$(realpath "$1"); FILE=$(realpath "$2"); TYPES=${*:3}
. "$(dirname "$0")/../slurm_cluster.sh"
slurm_files "$F/slurm" reserved gpu:1 "SchedulerType=sched/builtin
SlurmdTimeout=0"
sed -i "/^NodeName/d; /^PartitionName/d" "$SLURM_CONF"
for each in ${TYPES:-v100:4 k80:4}; do
  echo "NodeName=${each%:*}-[1-4] NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:$each Feature=${each%:*} State=IDLE" >> "$SLURM_CONF"
done
echo "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >> "$SLURM_CONF"
slurmctld -f "$SLURM_CONF" -D > "$D/ctld.log" 2>&1 & PIDS="$PIDS $!"
for _ in $(seq 20); do sinfo -h > /dev/null 2>&1 && break; sleep 0.5; done
failed=0
while read -r line || [ -n "$line" ]; do
  case $line in "scontrol create reservation "*) $line || failed=1;; esac
done < "$FILE"
scontrol show reservation -o
exit $failed

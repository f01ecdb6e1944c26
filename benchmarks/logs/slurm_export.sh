#!/usr/bin/env bash
# A real export of Slurm: about 200 short jobs of several users on fake GPUs, and what sacct prints of them.
#   timeout 500 unshare -nm bash benchmarks/logs/slurm_export.sh FOLDER   ->  FOLDER/sacct.txt
# In a network namespace with loopback only, and a mount namespace, so that its users are nobody's outside; ends what it
# starts. Debian: slurmctld, slurmd, slurmdbd, slurm-client, munge, mariadb-server, iproute2 (installed, not running).
set -u
[ "$(ip -br link | wc -l)" = 1 ] || { echo "run me by: unshare -nm bash $0 FOLDER"; exit 2; }
mkdir -p "$1/state" "$1/spool" "$1/db"; D=$(realpath "$1"); H=$(hostname -s); PIDS=""
ip link set lo up
ip addr add 198.51.100.1/32 dev lo   # Slurm asks for addresses only if there is one beside 127.0.0.1
ended() { for one in $PIDS; do kill "$one" 2>/dev/null; done; wait 2>/dev/null; }
trap ended EXIT

cp /etc/passwd "$D/passwd"
uid=61001; for user in ana ben carla dmitri eve; do echo "$user:x:$uid:65534::/tmp:/bin/sh" >> "$D/passwd"; uid=$((uid + 1)); done
mount --bind "$D/passwd" /etc/passwd
chmod 755 "$D"

[ -f "$D/munge.key" ] || { dd if=/dev/urandom of="$D/munge.key" bs=1 count=1024 2>/dev/null; chmod 400 "$D/munge.key"; }
munged --foreground --force --key-file="$D/munge.key" --socket="$D/munge.sock" --pid-file="$D/munge.pid" --log-file="$D/munge.log" --seed-file="$D/munge.seed" > /dev/null 2>&1 & PIDS="$PIDS $!"

mariadb-install-db --no-defaults --user=root --datadir="$D/db" --auth-root-authentication-method=normal > "$D/db.log" 2>&1
mariadbd --no-defaults --user=root --datadir="$D/db" --socket="$D/db.sock" --bind-address=127.0.0.1 --port=33066 >> "$D/db.log" 2>&1 & PIDS="$PIDS $!"
for _ in $(seq 30); do mariadb --no-defaults -S "$D/db.sock" -e "select 1" > /dev/null 2>&1 && break; sleep 1; done
mariadb --no-defaults -S "$D/db.sock" -e "create database slurm; create user 'slurm'@'127.0.0.1' identified by 'slurm'; grant all on slurm.* to 'slurm'@'127.0.0.1'; create user 'slurm'@'localhost' identified by 'slurm'; grant all on slurm.* to 'slurm'@'localhost';"

export SLURM_CONF=$D/slurm.conf
cat > "$D/slurmdbd.conf" <<C
AuthType=auth/munge
AuthInfo=socket=$D/munge.sock
DbdHost=$H
DbdAddr=127.0.0.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=33066
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
PidFile=$D/dbd.pid
LogFile=$D/dbd.log
C
chmod 600 "$D/slurmdbd.conf"
cat > "$D/slurm.conf" <<C
ClusterName=test
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
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass=$D/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerType=sched/backfill
PriorityType=priority/basic
MpiDefault=none
KillWait=2
NodeName=$H NodeAddr=127.0.0.1 CPUs=64 Gres=gpu:a100:8,gpu:v100:4 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=60 State=UP
C
for i in 0 1 2 3 4 5 6 7 8 9 10 11; do touch "$D/nv$i"; done
printf 'NodeName=%s Name=gpu Type=a100 File=%s\nNodeName=%s Name=gpu Type=v100 File=%s\n' "$H" "$D/nv[0-7]" "$H" "$D/nv[8-11]" > "$D/gres.conf"
slurmdbd -D > "$D/dbd.out" 2>&1 & PIDS="$PIDS $!"
for _ in $(seq 30); do sacctmgr -i add cluster test > /dev/null 2>&1 && break; sleep 1; done
sacctmgr -i add account nlp,vision cluster=test > /dev/null
sacctmgr -i add user ana,ben account=nlp > /dev/null; sacctmgr -i add user carla,dmitri,eve account=vision > /dev/null
slurmctld -f "$SLURM_CONF" -D > "$D/ctld.log" 2>&1 & PIDS="$PIDS $!"
sleep 3
slurmd -f "$SLURM_CONF" -D -N "$H" > "$D/slurmd.log" 2>&1 & PIDS="$PIDS $!"
sleep 5; sinfo -o "%n %G %T"

RANDOM=7
one() { sbatch -Q --uid="$1" --chdir=/tmp -o /dev/null "${@:2}" || true; }
for user in ana ben; do one $user -A nlp --gres=gpu:a100:1 -t 1 -J overtime --wrap "sleep 200"; done
one carla -A vision --requeue --gres=gpu:v100:1 -t 5 -J requeued --wrap "sleep 12"
sleep 3; scontrol requeue 3
for i in $(seq 170); do
  users=(ana ben carla dmitri eve); user=${users[$((RANDOM % 5))]}; account=vision
  case $user in ana|ben) account=nlp;; esac
  kinds=(a100:1 a100:1 a100:2 a100:4 v100:1 v100:2 1 2); kind=${kinds[$((RANDOM % 8))]}
  seconds=$((1 + RANDOM % 4)); partition=gpu; [ $((RANDOM % 5)) = 0 ] && partition=short
  work="sleep $seconds"; [ $((RANDOM % 10)) = 0 ] && work="sleep 1; exit 3"; [ $((RANDOM % 8)) = 0 ] && work="srun -n1 sleep 1; $work"
  what=(--gres="gpu:$kind"); [ $((RANDOM % 12)) = 0 ] && what=(-n 2)
  one "$user" -A "$account" -p "$partition" "${what[@]}" -t $((1 + RANDOM % 30)) -J "train$i" --wrap "$work"
  [ $((RANDOM % 3)) = 0 ] && sleep 0.5
  if [ $((i % 30)) = 0 ]; then
    one ben -A nlp --array=1-4%2 --gres=gpu:a100:1 -t 5 -J sweep --wrap "sleep 2"
    one dmitri -A vision --gres=gpu:a100:8 -t 10 -J large --wrap "sleep 3"
    scancel --state=PENDING -u eve
  fi
done
scancel --state=RUNNING -u dmitri
for _ in $(seq 150); do [ "$(squeue -h | wc -l)" = 0 ] && break; sleep 1; done
one eve -A vision --gres=gpu:v100:1 -t 5 -J running --wrap "sleep 60"
one ana -A nlp --gres=gpu:v100:4 -t 5 -J waiting --wrap "sleep 2"
sleep 6
sacct -P -D -a -S now-1hour -E now --format=JobID,JobName,User,Account,Partition,QOS,State,Submit,Start,End,Elapsed,Timelimit,AllocTRES,ReqTRES,ExitCode > "$D/sacct.txt"
scancel -u eve; scancel -u ana; sleep 2
wc -l "$D/sacct.txt"

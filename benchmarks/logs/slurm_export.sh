#!/usr/bin/env bash
# A real export of Slurm: about 200 short jobs of several users on fake GPUs, and what sacct prints of them.
#   timeout 500 unshare -nm bash benchmarks/logs/slurm_export.sh FOLDER   ->  FOLDER/sacct.txt
# In a network namespace with loopback only, and a mount namespace, so that its users are nobody's outside; ends what it
# starts. Debian: slurmctld, slurmd, slurmdbd, slurm-client, munge, mariadb-server, iproute2 (installed, not running).
set -u
mkdir -p "$1/db"; D=$(realpath "$1")
. "$(dirname "$0")/../slurm_cluster.sh"

cp /etc/passwd "$D/passwd"
uid=61001; for user in ana ben carla dmitri eve; do echo "$user:x:$uid:65534::/tmp:/bin/sh" >> "$D/passwd"; uid=$((uid + 1)); done
mount --bind "$D/passwd" /etc/passwd
chmod 755 "$D"

slurm_files "$D" test a100:8,v100:4 "AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass=$D/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100
SchedulerType=sched/backfill
PriorityType=priority/basic"
echo "PartitionName=short Nodes=ALL MaxTime=60 State=UP" >> "$SLURM_CONF"

mariadb-install-db --no-defaults --user=root --datadir="$D/db" --auth-root-authentication-method=normal > "$D/db.log" 2>&1
mariadbd --no-defaults --user=root --datadir="$D/db" --socket="$D/db.sock" --bind-address=127.0.0.1 --port=33066 >> "$D/db.log" 2>&1 & PIDS="$PIDS $!"
for _ in $(seq 30); do mariadb --no-defaults -S "$D/db.sock" -e "select 1" > /dev/null 2>&1 && break; sleep 1; done
mariadb --no-defaults -S "$D/db.sock" -e "create database slurm; create user 'slurm'@'127.0.0.1' identified by 'slurm'; grant all on slurm.* to 'slurm'@'127.0.0.1'; create user 'slurm'@'localhost' identified by 'slurm'; grant all on slurm.* to 'slurm'@'localhost';"

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
slurmdbd -D > "$D/dbd.out" 2>&1 & PIDS="$PIDS $!"
for _ in $(seq 30); do sacctmgr -i add cluster test > /dev/null 2>&1 && break; sleep 1; done
sacctmgr -i add account nlp,vision cluster=test > /dev/null
sacctmgr -i add user ana,ben account=nlp > /dev/null; sacctmgr -i add user carla,dmitri,eve account=vision > /dev/null
slurm_daemons

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

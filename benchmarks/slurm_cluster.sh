# Sourced by the scripts that start a real Slurm with fake GPUs; ends what it starts.
# They run in a network namespace with loopback only. Debian: slurmctld, slurmd, slurm-client, munge, iproute2.
[ "$(ip -br link | wc -l)" = 1 ] || { echo "run me with 'unshare -n' before bash"; exit 2; }
ip link set lo up
ip addr add 198.51.100.1/32 dev lo   # Slurm asks for addresses only if there is one beside 127.0.0.1
H=$(hostname -s); PIDS=""
ended() { for one in $PIDS; do kill "$one" 2>/dev/null; done; PIDS=""; wait 2>/dev/null; }
trap ended EXIT

# slurm_files FOLDER NAME GRES LINES [each]: a key, munged, slurm.conf (with LINES) and gres.conf; GRES as type:count,type:count, on one
# machine of 64 CPUs; with "each" every GPU is a machine of its own, with one CPU.
slurm_files() {
  D=$1; mkdir -p "$D/state" "$D/spool"; export SLURM_CONF=$D/slurm.conf
  [ -f "$D/munge.key" ] || { dd if=/dev/urandom of="$D/munge.key" bs=1 count=1024 2>/dev/null; chmod 400 "$D/munge.key"; }
  munged --foreground --force --key-file="$D/munge.key" --socket="$D/munge.sock" --pid-file="$D/munge.pid" --log-file="$D/munge.log" --seed-file="$D/munge.seed" > /dev/null 2>&1 & PIDS="$PIDS $!"
  local first=0 last each gres="" nodes=""; NODES=$H; : > "$D/gres.conf"
  [ -z "${5:-}" ] || NODES=""
  for each in ${3//,/ }; do
    last=$((first + ${each#*:} - 1)); gres="$gres,gpu:$each"
    for i in $(seq $first $last); do
      touch "$D/nv$i"
      [ -z "${5:-}" ] || { NODES="$NODES n$i"; echo "NodeName=n$i Name=gpu Type=${each%:*} File=$D/nv$i" >> "$D/gres.conf"; nodes="$nodes
NodeName=n$i NodeHostname=$H NodeAddr=127.0.0.1 Port=$((17000 + i)) CPUs=1 Gres=gpu:${each%:*}:1 State=UNKNOWN"; }
    done
    [ -n "${5:-}" ] || echo "NodeName=$H Name=gpu Type=${each%:*} File=$D/nv[$first-$last]" >> "$D/gres.conf"
    first=$((last + 1))
  done
  [ -n "$nodes" ] || nodes="NodeName=$H NodeAddr=127.0.0.1 CPUs=64 Gres=${gres#,} State=UNKNOWN"
  cat > "$D/slurm.conf" <<C
ClusterName=$2
SlurmctldHost=$H(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$D/munge.sock
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
SlurmctldPidFile=$D/ctld.pid
SlurmdPidFile=$D/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=2
MpiDefault=none
$4
$nodes
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
}

# slurm_daemons: slurmctld and slurmd, until all nodes are idle.
slurm_daemons() {
  slurmctld -f "$SLURM_CONF" -D > "$D/ctld.log" 2>&1 & PIDS="$PIDS $!"
  sleep 3
  local node
  for node in $NODES; do
    mkdir -p "$D/spool/$node"
    slurmd -f "$SLURM_CONF" -D -N "$node" > "$D/slurmd.$node.log" 2>&1 & PIDS="$PIDS $!"
  done
  for _ in $(seq 30); do [ "$(sinfo -h -N -o "%T" 2>/dev/null | grep -c '^idle$')" = "$(echo $NODES | wc -w)" ] && break; sleep 1; done
  sinfo -o "%n %G %T"
}

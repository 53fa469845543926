# Three nodes of MariaDB with Galera: node n answers SQL at PORT+n, the others at PORT+10+n and, for IST, PORT+20+n.

# shellcheck source=network.sh
source "$lib/network.sh"

NODES=3
REPLICATION=(--wsrep-on=ON --wsrep-provider="$programs/usr/lib/galera/libgalera_smm.so" --wsrep-cluster-name=nth
  --wsrep-sst-method=copy --binlog-format=ROW --innodb-autoinc-lock-mode=2)
NO_STATE=00000000-0000-0000-0000-000000000000

group_address() { echo "$(node_host "$1"):$((port + 10 + $1))"; }

# Starts the node with the most transactions as a new cluster, and lets the others join it.
start_all() {
  local first n
  open_network
  first=$(most_advanced)
  # A node that got its data from another has tables that nobody initialised.
  [[ -e $(data "$first")/grastate.dat ]] || initialise "$first"
  start_node "$first" --wsrep-new-cluster
  await_ready "$first"
  for n in $(all_nodes); do
    ((n != first)) || continue
    mkdir -p "$(data "$n")"
    start_node "$n"
    await_ready "$n"
  done
}

start_node() { # N [OPTION…]
  local n=$1 host position
  shift
  host=$(node_host "$n") position=$(position "$n")
  local provider=(
    "base_host=$host" "base_port=$((port + 10 + n))" "gmcast.listen_addr=tcp://$(group_address "$n")"
    "ist.recv_addr=$host:$((port + 20 + n))" gcache.size=32M
    evs.keepalive_period=PT0.5S evs.inactive_check_period=PT0.5S evs.suspect_timeout=PT2S evs.inactive_timeout=PT5S
  )
  [[ $* != *--wsrep-new-cluster* ]] || sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$(data "$n")/grastate.dat" 2>/dev/null || true
  enter "$n"
  PATH=$lib:$PATH serve "$n" "${REPLICATION[@]}" --wsrep-provider-options="$(IFS=';' && echo "${provider[*]}")" \
    --wsrep-cluster-address="gcomm://$(peers group_address)" --wsrep-node-name="n$n" \
    --wsrep-node-address="$host" ${position:+--wsrep-start-position="$position"} "$@"
}

# await_ready N: until it is a member of the primary component that has caught up with it.
await_ready() {
  await_node "$1" 120 synced is_synced "$1"
  say "node $1: synced, at $(node_host "$1"):$(node_port "$1")"
}

is_synced() {
  local status
  status=$(sql "$1" "show status where variable_name in ('wsrep_cluster_status', 'wsrep_local_state_comment')" 2>/dev/null) &&
    [[ $status == *Primary* && $status != *non-Primary* && $status == *Synced* ]] &&
    [[ $(sql "$1" 'select @@datadir' 2>/dev/null) == "$(data "$1")/" ]]
}

# position N: UUID:SEQNO of its last transaction, or nothing if it has none.
position() {
  local state uuid seqno
  state=$(data "$1")/grastate.dat
  [[ -e $state ]] || return 0
  uuid=$(awk '/^uuid:/ { print $2 }' "$state") seqno=$(awk '/^seqno:/ { print $2 }' "$state")
  [[ $uuid != "$NO_STATE" ]] || return 0
  # It is written at a clean shutdown only.
  if [[ $seqno != -1 ]]; then echo "$uuid:$seqno"; else recover_position "$1"; fi
}

# Reads from InnoDB which was the last transaction: with this option a server recovers, says it, and ends.
recover_position() {
  local log
  log=$(dirname "$(data "$1")")/recovery.log
  server_command "$1"
  "${server_command[@]}" "${REPLICATION[@]}" --skip-networking --socket=../socket \
    --wsrep-cluster-address=gcomm:// --wsrep-recover </dev/null >"$log" 2>&1 || true
  sed -nE 's/.*Recovered position: *//p' "$log" | tail -n 1 | grep . || fail "node $1 could not be recovered: see $log"
}

most_advanced() {
  local n position
  for n in $(all_nodes); do
    position=$(position "$n")
    position=${position##*:}
    echo "${position:--1} $n"
  done | sort -k 1,1nr -k 2,2n | awk 'NR == 1 { print $NF }'
}

stop_all() {
  local n
  for n in $(all_nodes | tac); do stop_node "$n"; done
  close_network
}

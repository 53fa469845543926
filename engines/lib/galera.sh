# Three nodes of MariaDB with Galera: node n answers SQL at PORT+n, the others at PORT+10+n and, for IST, PORT+20+n.

# shellcheck source=cluster.sh
source "$lib/cluster.sh"
# shellcheck source=galera-position.sh
source "$lib/galera-position.sh"

REPLICATION=(--wsrep-on=ON --wsrep-provider="$programs/usr/lib/galera/libgalera_smm.so" --wsrep-cluster-name=nth
  --wsrep-sst-method=copy --binlog-format=ROW --innodb-autoinc-lock-mode=2 --innodb-lock-wait-timeout=2)

group_address() { echo "$(node_host "$1"):$((port + 10 + $1))"; }

# Starts the node with the most transactions as a new cluster, and lets the others join it.
start_all() {
  local first n
  open_network
  first=$(most_advanced)
  if [[ -e $(data "$first")/grastate.dat ]]; then
    # By itself Galera begins only with the node that was stopped last.
    sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$(data "$first")/grastate.dat"
  else
    initialise "$first"
  fi
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
    evs.keepalive_period=PT0.5S evs.inactive_check_period=PT0.5S evs.suspect_timeout=PT3S evs.inactive_timeout=PT8S
  )
  enter "$n"
  PATH=$lib:$PATH serve "$n" "${REPLICATION[@]}" --wsrep-provider-options="$(IFS=';' && echo "${provider[*]}")" \
    --wsrep-cluster-address="gcomm://$(each_node group_address | paste -sd,)" --wsrep-node-name="n$n" \
    --wsrep-node-address="$host" ${position:+--wsrep-start-position="$position"} "$@"
}

role() { echo synced; }
has_caught_up() { [[ $(status "$1") == *' Primary Synced' ]]; }
view() { status "$1" | awk '$2 == "Primary" { print $1 }'; }

# status N: the number of its view, whether that is the primary one, and the node's own state.
status() {
  sql "$1" "show status where variable_name in
    ('wsrep_cluster_conf_id', 'wsrep_cluster_status', 'wsrep_local_state_comment')" 2 2>/dev/null | sort | cut -f 2 | paste -sd ' '
}

# Three nodes of MySQL with Group Replication and one primary: node n answers SQL at PORT+n, the group uses PORT+10+n.

# shellcheck source=cluster.sh
source "$lib/cluster.sh"
# shellcheck source=group-members.sh
source "$lib/group-members.sh"

CHANNEL=group_replication_recovery

group_address() { echo "$(node_host "$1"):$((port + 10 + $1))"; }

# Starts all servers, then the group from the one with the most transactions, and lets the others join it.
start_all() {
  local first n
  open_network
  prepare_data
  for n in $(all_nodes); do
    # Which one the group begins with isn't known before they run.
    serve_node "$n" --group-replication-start-on-boot=OFF
  done
  for n in $(all_nodes); do
    await_node "$n" 60 answering answers "$n"
    sql "$n" "change replication source to source_user = 'root' for channel '$CHANNEL'" || fail "node $n refused" "$n"
  done
  first=$(most_advanced)
  join "$first" 'set global group_replication_bootstrap_group = on'
  sql "$first" 'set global group_replication_bootstrap_group = off'
  for n in $(all_nodes); do
    ((n == first)) || join "$n"
  done
}

join() { # N [STATEMENT]
  sql "$1" "${2:-do 0}; start group_replication" 60 || fail "node $1 could not join the group" "$1"
  await_ready "$1"
}

# Initialising takes seconds, copying doesn't. What must differ is auto.cnf, the server's id.
prepare_data() {
  local n
  initialise 1
  for n in $(all_nodes); do
    [[ ! -e $dir/n$n/initialised ]] || continue
    rm -rf "$dir/n$n"
    cp -a "$dir/n1" "$dir/n$n.partial"
    rm "$dir/n$n.partial/data/auto.cnf"
    mv "$dir/n$n.partial" "$dir/n$n"
  done
}

start_node() { serve_node "$1" --group-replication-start-on-boot=ON; }

await_ready() {
  await_node "$1" 120 'a member of the group' is_member "$1"
  say "node $1: $(role "$1"), at $(address_of "$1")"
}

# One that starts while the group loses another member may give up joining it, and doesn't try again by itself.
is_member() {
  is_ready "$1" || { is_offline "$1" && sql "$1" 'start group_replication' 60 >/dev/null 2>&1; false; }
}

# Read-only until it is the primary: one that could not join its group would take writes of its own.
serve_node() { # N OPTION…
  local n=$1 group
  shift
  group=$(cksum <<<"$dir $port" | cut -d ' ' -f 1)
  enter "$n"
  serve "$n" --server-id="$n" --report-host="$(node_host "$n")" --report-port="$(node_port "$n")" \
    --gtid-mode=ON --enforce-gtid-consistency=ON --plugin-load-add=group_replication.so \
    --group-replication-group-name="$(printf '4e746800-0000-4000-8000-%012x' "$group")" \
    --group-replication-local-address="$(group_address "$n")" \
    --group-replication-group-seeds="$(each_node group_address | paste -sd,)" \
    --group-replication-ip-allowlist="$(each_node node_host | paste -sd,)" \
    --group-replication-member-expel-timeout=2 --super-read-only=ON "$@"
}

# Three nodes of MySQL with Group Replication and one primary: node n answers SQL at PORT+n, the group uses PORT+10+n.

# shellcheck source=network.sh
source "$lib/network.sh"

NODES=3
CHANNEL=group_replication_recovery

group_address() { echo "$(node_host "$1"):$((port + 10 + $1))"; }

# Starts all servers, then the group from the one with the most transactions, and lets the others join it.
start_all() {
  local first n
  open_network
  prepare_data
  for n in $(all_nodes); do
    # Without a group they must not take writes, and which one the group begins with isn't known before they run.
    serve_node "$n" --super-read-only=ON --group-replication-start-on-boot=OFF
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

# By itself a node that starts again is read-only until it is a member: otherwise it would take writes without a group.
start_node() { serve_node "$1" --group-replication-start-on-boot=ON; }

serve_node() { # N OPTION…
  local n=$1 group
  shift
  group=$(cksum <<<"$dir $port" | cut -d ' ' -f 1)
  enter "$n"
  serve "$n" --server-id="$n" --report-host="$(node_host "$n")" --report-port="$(node_port "$n")" \
    --gtid-mode=ON --enforce-gtid-consistency=ON --plugin-load-add=group_replication.so \
    --group-replication-group-name="$(printf '4e746800-0000-4000-8000-%012x' "$group")" \
    --group-replication-local-address="$(group_address "$n")" \
    --group-replication-group-seeds="$(peers group_address)" \
    --group-replication-ip-allowlist="$(peers node_host)" \
    --group-replication-member-expel-timeout=2 "$@"
}

answers() { [[ $(sql "$1" 'select @@datadir' 2>/dev/null) == "$(data "$1")/" ]]; }

# await_ready N: until it is a member that has caught up, and the group it sees has a majority.
await_ready() {
  await_node "$1" 120 'a member of the group' is_member "$1"
  say "node $1: $(sql "$1" "$ROLE"), at $(node_host "$1"):$(node_port "$1")"
}

MEMBERS=performance_schema.replication_group_members
ROLE="select lower(member_role) from $MEMBERS where member_id = @@server_uuid"

is_member() {
  [[ $(sql "$1" "select coalesce(sum(member_id = @@server_uuid and member_state = 'ONLINE'), 0)
    and sum(member_state <> 'UNREACHABLE') * 2 > count(*) from $MEMBERS" 2>/dev/null) == 1 ]]
}

# The node whose transactions include those of all others.
most_advanced() {
  local n m mine
  for n in $(all_nodes); do
    mine=$(executed "$n")
    for m in $(all_nodes); do
      [[ $(sql "$n" "select gtid_subset('$(executed "$m")', '$mine')") == 1 ]] || continue 2
    done
    echo "$n"
    return
  done
  fail 'no node has all transactions of the others'
}

executed() { sql "$1" "select replace(@@global.gtid_executed, '\n', '')"; }

stop_all() {
  local n
  for n in $(all_nodes | tac); do stop_node "$n"; done
  close_network
}

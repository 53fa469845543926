# What clusters of three nodes have in common.

# shellcheck source=network.sh
source "$lib/network.sh"

NODES=3

# await_ready N: until it is a member that has caught up, of the same group as the others that run.
await_ready() {
  await_node "$1" 120 'a member of the cluster' is_ready "$1"
  say "node $1: $(role "$1"), at $(address_of "$1")"
}

# is_ready N: it says so, and no other node has a different view. One that was frozen or cut off and has not noticed yet
# says so as well, with the view of before.
is_ready() {
  local own other n
  has_caught_up "$1" && own=$(view "$1") && [[ -n $own ]] || return 1
  for n in $(all_nodes); do
    is_running "$n" || continue
    other=$(view "$n") || continue
    [[ -z $other || $other == "$own" ]] || return 1
  done
}

# All at once: each node of a replication group takes seconds.
stop_all() {
  local n running=()
  for n in $(all_nodes); do
    heal_node "$n"
    ! is_running "$n" || running+=("$n")
  done
  for n in "${running[@]}"; do ask_to_stop "$n"; done
  for n in "${running[@]}"; do await_stop "$n"; done
  close_network
}

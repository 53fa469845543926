# One server, without a cluster.

NODES=1

node_host() { echo 127.0.0.1; }
node_port() { echo "$port"; }

start_all() {
  initialise 1
  start_node 1
  await_ready 1
}

start_node() { serve "$1"; }

await_ready() {
  await_node "$1" 60 ready answers "$1"
  say "node $1: ready at $(address_of "$1")"
}

# Another server that has the port would answer as well: so it is asked which one it is.
answers() { [[ $(sql "$1" 'select @@datadir' 2>/dev/null) == "$(data "$1")/" ]]; }

stop_all() { stop_node 1; }

cut_node() { echo "$engine: it has one node, and no others to cut it from" >&2 && exit 2; }
heal_node() { cut_node; }

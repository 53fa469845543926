# A network for a cluster's nodes: a bridge, and for each node a network namespace that is linked to it, so that a node
# can lose the other nodes and still answer clients, who come from the bridge. It needs root; without it, or where the
# kernel refuses, the nodes run on loopback and can't be cut off.
#
# Everything is named after the cluster's port. The bridge's alias says which DIR it belongs to: it is created first
# and removed last, so whatever an interrupted command left is found and removed.

bridge() { echo "nth$port"; }
namespace() { echo "nth$port-$1"; }

# Addresses are from 198.18.0.0/15, which is reserved for tests: eight for each four ports.
address() {
  local offset=$(((port >> 2 << 3) + $1))
  echo "198.$((18 + (offset >> 16))).$((offset >> 8 & 255)).$((offset & 255))"
}
CLIENTS=6 # the bridge's own

has_network() { [[ $(cat "/sys/class/net/$(bridge)/ifalias" 2>/dev/null || true) == "${dir:0:200}" ]]; }

node_host() { if has_network; then address "$1"; else echo 127.0.0.1; fi; }
node_port() { echo $((port + $1)); }

# enter N: what is launched from now on has the network of node N.
enter() { if has_network; then inside=(ip netns exec "$(namespace "$1")"); fi; }

open_network() {
  close_network
  [[ ! -e /sys/class/net/$(bridge) ]] || fail "port $port has a network of another cluster: $(cat "/sys/class/net/$(bridge)/ifalias")"
  if ! ((EUID == 0)) || ! ip link add "$(bridge)" type bridge; then
    say "no network namespaces without root: the nodes run on loopback, and can't be cut off"
    return
  fi
  ip link set "$(bridge)" alias "${dir:0:200}"
  ip address add "$(address "$CLIENTS")/29" dev "$(bridge)"
  ip link set "$(bridge)" up
  local n name
  for n in $(all_nodes); do
    name=$(namespace "$n")
    ip netns add "$name"
    ip link add "$name" type veth peer name eth0 netns "$name"
    ip link set "$name" master "$(bridge)" up
    ip -n "$name" address add "$(address "$n")/29" dev eth0
    ip -n "$name" link set eth0 up
    ip -n "$name" link set lo up
  done
}

close_network() {
  has_network || return 0
  local n
  for n in $(all_nodes); do
    [[ ! -e /run/netns/$(namespace "$n") ]] || ip netns delete "$(namespace "$n")"
    # It goes with its other end, a moment later; without a namespace nothing else removes it.
    ip link delete "$(namespace "$n")" 2>/dev/null || true
  done
  ip link delete "$(bridge)"
}

cut_node() {
  local n
  if ! has_network; then
    echo "$engine: the nodes share one network: start them as root to cut one off" >&2
    exit 3
  fi
  for n in $(all_nodes); do
    ((n == $1)) || ip -n "$(namespace "$1")" route replace blackhole "$(address "$n")/32"
  done
}

heal_node() {
  local n
  has_network || return 0
  for n in $(all_nodes); do
    ip -n "$(namespace "$1")" route delete blackhole "$(address "$n")/32" 2>/dev/null || true
  done
}

# The command line that all engines share. An engine is an executable that sets
#   suite      of Debian: bookworm, trixie or sid
#   server     mariadb or mysql: how its server is initialised and run
#   topology   single, galera or group-replication: how many nodes there are, and how they form a cluster
# and then sources this file. `server`.sh and `topology`.sh define the functions that are called here.

# A function that fails in $(…) ends the command as well.
shopt -s inherit_errexit

engine=$(basename "$0")
lib=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
for part in fetch process "$server" "$topology"; do
  # shellcheck source=/dev/null
  source "$lib/$part.sh"
done

usage() {
  cat >&2 <<EOF
usage: $engine start DIR PORT            initialises DIR if it is new, and starts every node
       $engine node DIR PORT N           starts node N if it doesn't run, and waits until it is ready
       $engine kill DIR PORT N           ends node N with SIGKILL
       $engine freeze|thaw DIR PORT N    stops node N with SIGSTOP; lets it run again
       $engine cut|heal DIR PORT N       takes from node N the network to the others, not to clients; gives it back
       $engine stop DIR PORT [N]         shuts down node N, or everything
       $engine hosts DIR PORT            prints host:port of every node, for DATABASE_URL=mysql://root@HOSTS/nth
       $engine version                   prints the server's name and version
N: 1 to $NODES. ENGINE_OPTIONS="--sync-binlog=1 …" passes options to the servers that start or node starts.
EOF
  exit 2
}

say() { echo "$engine: $*"; }

# fail MESSAGE [N]: ends with the message, and with the last lines of node N's error log.
fail() {
  echo "$engine: $1" >&2
  if [[ -n ${2:-} && -s $(error_log "$2") ]]; then
    echo "The end of $(error_log "$2"):" >&2
    tail -n 8 "$(error_log "$2")" >&2
  fi
  exit 1
}

parse_place() { # DIR PORT
  [[ -n ${1:-} && ${2:-} =~ ^[1-9][0-9]*$ ]] && (($2 >= 1024 && $2 <= 65000)) || usage
  dir=$(realpath -m "$1") port=$2
}

parse_node() { # N
  [[ ${1:-} =~ ^[1-9]$ ]] && (($1 <= NODES)) || usage
  node=$1
}

command=${1:-}
(($#)) && shift
case $command:$# in
start:2 | hosts:2 | stop:2) parse_place "$@" ;;
node:3 | kill:3 | freeze:3 | thaw:3 | cut:3 | heal:3 | stop:3) parse_place "$@" && parse_node "$3" ;;
version:0) ;;
*) usage ;;
esac

case $command in
version | start | node | cut | heal) fetch_programs ;;
esac

case $command in
version) server_version ;;
start)
  for n in $(all_nodes); do
    ! is_running "$n" || fail "node $n is running already; end it with: $engine stop $dir $port"
  done
  mkdir -p "$dir"
  echo "${ENGINE_OPTIONS:-}" >"$dir/options"
  start_all
  ;;
node)
  [[ -d $(data "$node") ]] || fail "$dir has no node $node; begin with: $engine start $dir $port"
  is_running "$node" || start_node "$node"
  await_ready "$node"
  ;;
kill) signal_node "$node" KILL && await_end "$node" 10 && say "node $node: killed" ;;
freeze) signal_node "$node" STOP && say "node $node: frozen" ;;
thaw) signal_node "$node" CONT && say "node $node: running again" ;;
cut) cut_node "$node" && say "node $node: has no network to the other nodes" ;;
heal) heal_node "$node" && say "node $node: has its network again" ;;
stop) if [[ -n ${node:-} ]]; then stop_node "$node"; else stop_all; fi ;;
hosts) for n in $(all_nodes); do echo "$(node_host "$n"):$(node_port "$n")"; done | paste -sd, ;;
esac

# What each command does. An engine is an executable that sets
#   suite      of Debian: bookworm, trixie or sid
#   server     mariadb or mysql: how its server is initialised and run
#   topology   single, galera or group-replication: how many nodes there are, and how they form a cluster
# and then sources this file. `server`.sh and `topology`.sh define the functions that are called here.

# A function that fails in $(…) ends the command as well.
shopt -s inherit_errexit

engine=$(basename "$0")
lib=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
for part in arguments fetch process "$server" "$topology"; do
  # shellcheck source=/dev/null
  source "$lib/$part.sh"
done

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

start() {
  local n
  for n in $(all_nodes); do
    ! is_running "$n" || fail "node $n is running already; end it with: $engine stop $dir $port"
  done
  mkdir -p "$dir"
  echo "${ENGINE_OPTIONS:-}" >"$dir/options"
  start_all
}

start_again() {
  [[ -d $(data "$node") ]] || fail "$dir has no node $node; begin with: $engine start $dir $port"
  is_running "$node" || start_node "$node"
  await_ready "$node"
}

parse_arguments "$@"

case $command in
version) fetch_programs && server_version ;;
start) fetch_programs && start ;;
node) fetch_programs && start_again ;;
kill) signal_node "$node" KILL && await_end "$node" 10 && say "node $node: killed" ;;
freeze) signal_node "$node" STOP && say "node $node: frozen" ;;
thaw) signal_node "$node" CONT && say "node $node: running again" ;;
cut) cut_node "$node" && say "node $node: has no network to the other nodes" ;;
heal) heal_node "$node" && say "node $node: has its network again" ;;
stop) if [[ -n $node ]]; then stop_node "$node"; else stop_all; fi ;;
hosts) each_node address_of | paste -sd, ;;
esac

# The nodes' processes. A process is found by its data directory, which is an argument of its own on its command line:
# so there is no pid file to go stale, and what a start left that was interrupted is found as well.

data() { echo "$dir/n$1/data"; }
error_log() { echo "$dir/n$1/error.log"; }
address_of() { echo "$(node_host "$1"):$(node_port "$1")"; }
all_nodes() { seq "$NODES"; }

# each_node COMMAND: what it prints for each node, a line each.
each_node() { for n in $(all_nodes); do "$1" "$n"; done; }

# pids N: the processes of node N, frozen ones too; one that has ended and not been waited for has no command line.
pids() {
  # Joined to its option, so that grep doesn't find itself.
  # shellcheck disable=SC2062 # these are files
  grep -lzxF --regexp="--datadir=$(data "$1")" /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3 || true
}

is_running() { [[ -n $(pids "$1") ]]; }

# What a node's program is run with: a cluster whose nodes have namespaces sets it.
inside=()

# launch N COMMAND…: runs it in the background, detached from this terminal; its output goes to the node's error log.
launch() {
  local n=$1
  shift
  setsid "${inside[@]}" "$@" </dev/null >>"$(error_log "$n")" 2>&1 &
  launched=$!
  disown # or the shell reports how it ended
}

# await SECONDS COMMAND…: until it succeeds.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# await_node N SECONDS STATE COMMAND…: until it succeeds, but not longer than the process lives.
await_node() {
  local n=$1 limit=$2 state=$3
  shift 3
  await "$limit" has_settled "$n" "$@" || fail "node $n was not $state within $limit s" "$n"
  is_running "$n" || fail "node $n ended before it was $state" "$n"
}

has_settled() {
  local n=$1
  shift
  "$@" || { ! is_running "$n" && ! kill -0 "${launched:-none}" 2>/dev/null; }
}

# signal_node N SIGNAL: an error if the node isn't running.
signal_node() {
  is_running "$1" || fail "node $1 isn't running"
  send "$2" "$1"
}

send() { # SIGNAL N
  local pid
  for pid in $(pids "$2"); do kill -s "$1" "$pid" 2>/dev/null || true; done
}

has_ended() { ! is_running "$1"; }
await_end() { await "$2" has_ended "$1" || fail "node $1 has not ended within $2 s" "$1"; }

# stop_node N: cleanly, or after 20 s with SIGKILL; nothing if it isn't running.
stop_node() {
  is_running "$1" || return 0
  ask_to_stop "$1"
  await_stop "$1"
}

ask_to_stop() {
  # One that is frozen gets no other signal.
  send CONT "$1"
  send TERM "$1"
}

await_stop() {
  if await 20 has_ended "$1"; then
    say "node $1: stopped"
  else
    signal_node "$1" KILL
    await_end "$1" 10
    say "node $1: killed, as it did not stop within 20 s"
  fi
}

# Options of ENGINE_OPTIONS; a node that starts again without them gets those of the start.
extra_options() {
  local options=${ENGINE_OPTIONS-$(cat "$dir/options")}
  read -ra extra <<<"$options" || true
}

# How far a Galera node that doesn't run has come. One that was killed doesn't know itself before it has asked InnoDB;
# without its position it would get all data from another node, and not only what it missed (IST).

NO_STATE=00000000-0000-0000-0000-000000000000

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

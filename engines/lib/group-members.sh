# What the nodes of a replication group say of themselves.

MEMBERS=performance_schema.replication_group_members

answers() { [[ $(sql "$1" 'select @@datadir' 2 2>/dev/null) == "$(data "$1")/" ]]; }

role() { sql "$1" "select lower(member_role) from $MEMBERS where member_id = @@server_uuid"; }

has_caught_up() { [[ -n $(view "$1") ]]; }

is_offline() { [[ $(sql "$1" "select group_concat(distinct member_state) from $MEMBERS" 2 2>/dev/null) == OFFLINE ]]; }

# view N: the id of its view, if it is a member that has caught up and the group it sees has a majority.
view() {
  sql "$1" "select view_id from $MEMBERS join performance_schema.replication_group_member_stats using (member_id)
    where member_id = @@server_uuid and member_state = 'ONLINE'
    and (select sum(member_state <> 'UNREACHABLE') * 2 > count(*) from $MEMBERS)" 2 2>/dev/null
}

# The node whose transactions include those of all others.
most_advanced() {
  local n m executed
  for n in $(all_nodes); do
    executed=$(executed "$n")
    for m in $(all_nodes); do
      [[ $(sql "$n" "select gtid_subset('$(executed "$m")', '$executed')") == 1 ]] || continue 2
    done
    echo "$n"
    return
  done
  fail 'no node has all transactions of the others'
}

executed() { sql "$1" "select replace(@@global.gtid_executed, '\n', '')"; }

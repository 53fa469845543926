# MySQL: how a server is initialised, run and asked.

PACKAGES=(mysql-server-core mysql-client-core)

server_version() {
  program usr/sbin/mysqld
  "${program[@]}" --version | sed -E 's/.*Ver ([0-9.]+).*/MySQL \1/'
}

# server_command N: sets `server_command` to the command that runs node N, with the options that all of them share.
server_command() {
  program usr/sbin/mysqld
  server_command=("${program[@]}" --no-defaults --basedir="$programs/usr" --lc-messages-dir="$programs/usr/share/mysql"
    --character-sets-dir="$programs/usr/share/mysql/charsets" --plugin-dir="$programs/usr/lib/mysql/plugin"
    --secure-file-priv=NULL --user="$(id -un)" --datadir="$(data "$1")" --innodb-redo-log-capacity=32M)
}

# serve N OPTION…: starts node N in the background.
serve() {
  local n=$1
  shift
  # What a killed server left stops a new one as long as its parent hasn't waited for it.
  rm -f "$dir/n$n/socket.lock"
  server_command "$n"
  extra_options
  launch "$n" "${server_command[@]}" --bind-address="$(node_host "$n")" --port="$(node_port "$n")" \
    --socket=../socket --mysqlx=OFF --skip-name-resolve --innodb-buffer-pool-size=64M \
    --innodb-flush-log-at-trx-commit=1 --binlog-expire-logs-seconds=3600 \
    --performance-schema-instrument='%=OFF' --performance-schema-max-thread-instances=200 "$@" "${extra[@]}"
}

# initialise N: creates its system tables, unless it has them; root has an empty password, from any address.
initialise() {
  local folder
  folder=$(dirname "$(data "$1")")
  [[ ! -e $folder/initialised ]] || return 0
  say "node $1: initialising"
  rm -rf "$folder"
  mkdir -p "$folder"
  printf '%s;\n' "create user root@'%' identified by ''" "grant all on *.* to root@'%' with grant option" >"$folder/users.sql"
  server_command "$1"
  "${server_command[@]}" --initialize-insecure --disable-log-bin --init-file="$folder/users.sql" >"$(error_log "$1")" 2>&1 ||
    fail "node $1 could not be initialised" "$1"
  touch "$folder/initialised"
}

sql() { # N STATEMENT [SECONDS]
  program usr/bin/mysql
  timeout "${3:-10}" "${program[@]}" --no-defaults --host="$(node_host "$1")" --port="$(node_port "$1")" --protocol=tcp --user=root \
    --connect-timeout=2 --ssl-mode=DISABLED --batch --skip-column-names --execute="$2"
}

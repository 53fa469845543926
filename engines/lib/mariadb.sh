# MariaDB: how a server is initialised, run and asked.

# galera-4 is small: one folder then serves single servers and clusters.
PACKAGES=(mariadb-server-core mariadb-client-core galera-4)

server_version() {
  program usr/sbin/mariadbd
  "${program[@]}" --version | sed -E 's/.*Ver ([0-9.]+).*/MariaDB \1/'
}

# server_command N: sets `server_command` to the command that runs node N, with the options that all of them share.
server_command() {
  local share=$programs/usr/share/mariadb
  # Debian 12 has them here.
  [[ -d $share/charsets ]] || share=$programs/usr/share/mysql
  program usr/sbin/mariadbd
  server_command=("${program[@]}" --no-defaults --basedir="$programs/usr" --lc-messages-dir="$share"
    --character-sets-dir="$share/charsets" --plugin-dir="$programs/usr/lib/mysql/plugin" --user="$(id -un)"
    --datadir="$(data "$1")" --innodb-log-file-size=16M)
}

# serve N OPTION…: starts node N in the background.
serve() {
  local n=$1
  shift
  server_command "$n"
  extra_options
  launch "$n" "${server_command[@]}" --bind-address="$(node_host "$n")" --port="$(node_port "$n")" --socket=../socket \
    --skip-name-resolve --character-set-server=utf8mb4 --performance-schema=OFF --innodb-buffer-pool-size=32M \
    --innodb-flush-log-at-trx-commit=1 "$@" "${extra[@]}"
}

# initialise N: creates its system tables, unless it has them; root has an empty password, from any address.
initialise() {
  local folder file
  folder=$(dirname "$(data "$1")")
  [[ ! -e $folder/initialised ]] || return 0
  say "node $1: initialising"
  rm -rf "$folder"
  mkdir -p "$(data "$1")"
  server_command "$1"
  {
    echo 'create database mysql;'
    echo 'use mysql;'
    echo 'set @auth_root_socket = null;'
    for file in "$programs"/usr/share/{mariadb/mariadb,mysql/mysql}_system_tables{,_data}.sql; do
      [[ ! -e $file ]] || cat "$file"
    done
    echo "insert into global_priv select '%', User, Priv from global_priv where User = 'root' and Host = 'localhost';"
  } | "${server_command[@]}" --bootstrap >"$(error_log "$1")" 2>&1 || fail "node $1 could not be initialised" "$1"
  touch "$folder/initialised"
}

sql() { # N STATEMENT [SECONDS]
  program usr/bin/mariadb
  timeout "${3:-10}" "${program[@]}" --no-defaults --host="$(node_host "$1")" --port="$(node_port "$1")" --protocol=tcp --user=root \
    --connect-timeout=2 --skip-ssl --batch --skip-column-names --execute="$2"
}

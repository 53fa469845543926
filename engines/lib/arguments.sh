# The command line: sets command, dir, port and node, or ends with the usage.

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
N: 1 to $NODES. PORT: 1024 to 65000.
ENGINE_OPTIONS="--sync-binlog=1 …" passes options to the servers that start or node starts.
EOF
  exit 2
}

parse_arguments() {
  command=${1:-} dir=${2:-} port=${3:-} node=${4:-}
  case $command:$# in
  version:1) return ;;
  start:3 | hosts:3 | stop:3) ;;
  node:4 | kill:4 | freeze:4 | thaw:4 | cut:4 | heal:4 | stop:4) is_number "$node" 1 "$NODES" || usage ;;
  *) usage ;;
  esac
  [[ -n $dir ]] || usage
  is_number "$port" 1024 65000 || usage
  dir=$(realpath -m "$dir")
}

is_number() { [[ $1 =~ ^[1-9][0-9]{0,4}$ ]] && (($1 >= $2 && $1 <= $3)); }

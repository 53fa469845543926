# Functions that start Nth, count, and end it. A script that sources this has a directory for files in `work`.
started=
url=

start() { # COMMAND… : runs it in the background, and sets `url` when Nth serves
  "$@" >"$work/log" 2>&1 &
  started=$!
  url=
  for _ in $(seq 600); do
    url=$(sed -n 's/.*GraphQL *\([^ ]*\)\/graphql\(\\n.*\)\?$/\1/p' "$work/log")
    [[ -z $url ]] && kill -0 $started 2>/dev/null || break
    sleep 0.1
  done
  [[ -n $url ]] || { cat "$work/log"; return 1; }
}

count() { # VALUE : what the next increment must return
  local answer
  answer=$(curl -sf "$url/graphql" -H 'content-type: application/json' \
    -d '{"query":"mutation { increment(name: \"hello\") { value } }"}')
  [[ $answer == "{\"data\":{\"increment\":{\"value\":$1}}}" ]] || { echo "answered: $answer"; return 1; }
  curl -sf "$url/health" "$url/ready" >/dev/null
}

end() { # PID : ends Nth, and waits for the command that started it
  kill -TERM "$1"
  wait "$started" || { echo "ended with $?"; cat "$work/log"; return 1; }
  started=
}

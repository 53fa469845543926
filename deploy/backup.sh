#!/bin/sh
# Backs up into a new directory, which is named by the time, and then deletes the oldest backups but 14 (or KEEP):
#   sh backup.sh DIRECTORY [KEEP]
# Only whole backups count. If it fails, it ends with an error and deletes none of them. It needs nth in the PATH, and its
# configuration.
set -eu
cd "$1"
keep=${2:-14}

# The last line of a whole one says so.
is_whole() {
  tail -n 1 "$1/nth.jsonl" 2>/dev/null | grep -q '^{"type":"end".*}$'
}

# A signal, or a failure.
fail() {
  kill "$nth" 2>/dev/null || true
  wait "$nth" || true
  is_whole "$name" || rm -rf "$name"
  exit 1
}

# Deletes what killed scripts have left: nth names the file when it is complete. Another script may be writing one that has
# changed in the last hour.
for each in ????-??-??T??.??.??Z; do
  if [ ! -e "$each/nth.jsonl" ] && changed=$(find "$each" -mmin -60 2>/dev/null) && [ -z "$changed" ]; then
    rm -rf "$each" || true
  fi
done

while
  name=$(date -u +%Y-%m-%dT%H.%M.%SZ)
  ! mkdir -m 700 "$name"
do
  # Another one began in this second.
  [ -e "$name" ]
  sleep 1
done
# In the background: otherwise the shell would act on a signal only when the command has ended.
nth backup "$name" &
nth=$!
trap fail HUP INT TERM
wait "$nth" && is_whole "$name" || fail
trap - HUP INT TERM

set --
for each in ????-??-??T??.??.??Z; do
  if is_whole "$each"; then set -- "$@" "$each"; fi
done
while [ $# -gt "$keep" ]; do
  rm -r "$1"
  shift
done

#!/bin/sh
# Backs up into a new directory, which is named by the time, and then deletes the oldest backups but 14 (or KEEP):
#   sh backup.sh DIRECTORY [KEEP]
# If it fails, it ends with an error and deletes none. It needs nth in the PATH, and its configuration.
set -eu
cd "$1"
keep=${2:-14}
name=$(date -u +%Y-%m-%dT%H.%M.%SZ)
# Another one began in this second: it must not be taken for this one, and deleted if this one fails.
while [ -e "$name" ]; do
  sleep 1
  name=$(date -u +%Y-%m-%dT%H.%M.%SZ)
done
nth backup "$name" || { rm -rf "$name"; exit 1; }
# In the order of their names.
set -- ????-??-??T??.??.??Z
while [ $# -gt "$keep" ]; do
  rm -r "$1"
  shift
done

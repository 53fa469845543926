# Debian's packages of an engine, downloaded by apt with directories of its own and unpacked: nothing is installed.
# One folder for each server and suite holds them, and is used as it is until somebody removes it.

cache=${ENGINES_DIR:-$(dirname "$(dirname "$lib")")/.nth/engines}
programs=$cache/$server-$suite
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Sets `programs` up, and fetches them if they are missing. Of two processes that need them, one waits for the other.
fetch_programs() {
  [[ -d $programs ]] || (
    mkdir -p "$cache"
    exec 9>"$programs.lock"
    flock 9
    [[ -d $programs ]] || download
  ) || exit 1
  # The programs run with the loader and the libraries of their own suite, which this system's may be older than.
  # In older suites a part of them is in lib, and not in usr/lib.
  loader=$(compgen -G "$programs/usr/lib/*/ld-linux*.so.*" || compgen -G "$programs/lib/*/ld-linux*.so.*") ||
    fail "$programs has no loader; remove it, and try again"
  local folder=${loader%/*}
  folder=${folder##*/}
  libraries=$programs/lib/$folder:$programs/usr/lib/$folder
}

# program PATH: sets `program` to the command that runs a fetched program.
program() { program=("$loader" --library-path "$libraries" "$programs/$1"); }

download() {
  local mirror log=$programs.log began=$SECONDS
  work=$programs.partial # also for own_apt and the trap
  rm -rf "$work"
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/{lists,archives}/partial "$work/root"
  mirror=$(find_mirror)
  [[ -n $mirror ]] || fail "apt on this machine has no source with Debian's packages"
  say "fetching $server of $suite to $programs"
  echo "deb [signed-by=$KEYRING] $mirror $suite main" >"$work/sources.list"
  assume_installed perl adduser mysql-common mariadb-common >"$work/status"
  {
    own_apt update --error-on=any &&
      own_apt install --yes --no-install-recommends --download-only "${PACKAGES[@]}"
  } >"$log" 2>&1 || fail "apt could not fetch ${PACKAGES[*]} of $suite: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
  for package in "$work"/archives/*.deb; do
    dpkg-deb -x "$package" "$work/root" || fail "could not unpack $package"
  done
  say "fetched $(du -ch "$work"/archives/*.deb | tail -n 1 | cut -f 1)B in $((SECONDS - began)) s"
  mv "$work/root" "$programs"
}

own_apt() {
  apt-get --quiet -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- \
    -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::State::extended_states=$work/extended" \
    -o "Dir::Cache=$work" -o "Dir::Cache::archives=$work/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# The mirror that this machine's own apt uses for Debian, in whichever form its sources are written.
find_mirror() {
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 ~ /^(bullseye|bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)$/ && $2 == "main" { print $3; exit }'
}

# Packages that the maintainers' scripts need, and the programs don't: for apt they count as installed.
assume_installed() {
  local name
  for name in "$@"; do
    printf '%s\n' "Package: $name" 'Status: install ok installed' "Architecture: $(dpkg --print-architecture)" \
      'Multi-Arch: allowed' 'Version: 9999' 'Maintainer: none' 'Description: none' ''
  done
}

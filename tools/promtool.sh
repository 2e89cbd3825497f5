#!/usr/bin/env bash
# Takes promtool, which checks rules of Prometheus, out of Debian's package below
# .cache, unless it is there, and prints its path, which the tests expect in
# PORTICO_PROMTOOL. Debian's package itself would start a Prometheus.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.cache/prometheus
program=$folder/promtool
if [ ! -x "$program" ]; then
	mkdir -p "$folder"
	download=$(mktemp -d)
	trap 'rm -rf "$download"' EXIT
	fetch() { (cd "$download" && apt-get -q download prometheus >&2); }
	# The lists of packages may be old or, on a fresh machine, empty.
	if ! fetch; then
		sudo=()
		[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
		"${sudo[@]}" apt-get update -q >&2
		fetch
	fi
	dpkg-deb --fsys-tarfile "$download"/prometheus_*.deb | tar x -C "$download" ./usr/bin/promtool
	mv "$download/usr/bin/promtool" "$program"
fi
"$program" --version >/dev/null
echo "$program"

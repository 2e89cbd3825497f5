#!/usr/bin/env bash
# Takes HAProxy, and the libraries that it needs, out of Debian's packages below .cache,
# unless it is there, and prints the path of its program, which the tests expect in
# PORTICO_HAPROXY. The package itself would start one that nobody asked for.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.cache/haproxy
program=$folder/haproxy
if [ ! -x "$program" ]; then
	rm -rf "$folder"
	mkdir -p "$folder"
	(
		cd "$folder"
		packages=(haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1)
		# The lists of packages may be old or, on a fresh machine, empty.
		apt-get -q download "${packages[@]}" >&2 || {
			sudo=()
			[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
			"${sudo[@]}" apt-get update -q >&2
			apt-get -q download "${packages[@]}" >&2
		}
		for package in *.deb; do
			dpkg-deb -x "$package" root
			rm "$package"
		done
		libraries=$(dirname "$(find "$PWD/root" -name 'liblua5.3.so.0')")
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/root/usr/sbin/haproxy "$@"\n' "$libraries" "$PWD" >haproxy.new
		chmod +x haproxy.new
		mv haproxy.new haproxy
	)
fi
"$program" -v >/dev/null
echo "$program"

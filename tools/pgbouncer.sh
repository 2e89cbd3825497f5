#!/usr/bin/env bash
# Installs PgBouncer for the tests below .cache, unless it is there, and prints the
# path of its program, which the tests expect in PORTICO_PGBOUNCER. They start one of
# their own.
#
# Debian's package would start one that nobody asked for, so that it is unpacked
# without being installed, with the libraries that it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.cache/pgbouncer
program=$folder/pgbouncer
if [ ! -x "$program" ]; then
	if installed=$(command -v pgbouncer); then
		mkdir -p "$folder"
		ln -sfn "$installed" "$program"
	else
		rm -rf "$folder"
		mkdir -p "$folder"
		(
			cd "$folder"
			packages=(pgbouncer libevent-2.1-7 libc-ares2)
			# The lists of packages may be old or, on a fresh machine, empty.
			apt-get download "${packages[@]}" >&2 || {
				sudo=()
				[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
				"${sudo[@]}" apt-get update -q >&2
				apt-get download "${packages[@]}" >&2
			}
			for package in *.deb; do
				dpkg-deb -x "$package" root
				rm "$package"
			done
			libraries=$(dirname "$(find "$PWD/root" -name 'libevent-2.1.so.7')")
			printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/root/usr/sbin/pgbouncer "$@"\n' "$libraries" "$PWD" >pgbouncer.new
			chmod +x pgbouncer.new
			mv pgbouncer.new pgbouncer
		)
	fi
fi
"$program" --version >/dev/null
echo "$program"

#!/usr/bin/env bash
# Makes sure that programs and files are there. Each argument is THING:PACKAGE,
# a program's name or an absolute path, and the Debian package that brings it.
# What is missing is installed with apt-get, by root or by a sudo that asks
# nothing.
set -euo pipefail

missing=()
for pair in "$@"; do
	thing=${pair%%:*}
	[ -e "$thing" ] || command -v "$thing" >/dev/null || missing+=("${pair#*:}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
	sudo=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${sudo[@]}" true 2>/dev/null; then
	echo "These packages are missing and cannot be installed from here: ${missing[*]}" >&2
	echo "On Debian and Ubuntu: sudo apt-get install ${missing[*]}" >&2
	exit 1
fi
install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
echo "Installing: ${missing[*]}" >&2
# The lists of packages may be old or, on a fresh machine, empty.
if ! "${install[@]}" >&2; then
	"${sudo[@]}" apt-get update -q >&2
	"${install[@]}" >&2
fi

# shellcheck shell=bash
# Sourced by the scripts that start servers for tests: where the servers keep
# their files, and how they find a port.

# state_dir NAME prints the directory of one server of this checkout and makes
# it. Below /tmp, because PostgreSQL runs as another user when root starts it
# and that user may not be able to reach the checkout.
state_dir() {
	local checkout parent
	checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
	parent=/tmp/portico-$(id -u)-$(printf %s "$checkout" | cksum | cut -d' ' -f1)
	[ -d "$parent" ] || mkdir -m 0711 "$parent"
	# The name can be guessed, so somebody else may have made it.
	if [ -L "$parent" ] || [ ! -O "$parent" ]; then
		echo "$parent belongs to another user; remove it" >&2
		return 1
	fi
	mkdir -p "$parent/$1"
	echo "$parent/$1"
}

# free_port prints a TCP port that nothing listens on.
free_port() {
	/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# random_text prints 32 characters that nobody can guess.
random_text() {
	od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

#!/usr/bin/env bash
# A private PostgreSQL for tests and benchmarks:
#
#   postgres.sh start [--durable]   starts it, unless it runs, and prints its URL
#   postgres.sh url                 prints the URL of the one that runs
#   postgres.sh stop                stops it and removes its data
#
# It listens on a free port of 127.0.0.1 and on a Unix socket, and is installed
# with apt-get when it is missing. A test's database is thrown away, so fsync
# and full_page_writes are off: a crash of the machine may lose it. Everything
# a program can observe (transactions, locks, constraints) is as in production.
# --durable leaves both on, for numbers that mean something.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/state.sh

state=$(state_dir postgres)
data=$state/data

# binaries prints the directory of the newest installed server, if any.
binaries() {
	local dir
	for dir in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -Vr) "$(pg_config --bindir 2>/dev/null || true)"; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return
		fi
	done
}

install_server() {
	# Debian's package would start a server of its own, which nobody asked for.
	local config=/etc/postgresql-common/createcluster.d/portico.conf
	if [ "$(id -u)" -eq 0 ]; then
		mkdir -p "$(dirname "$config")"
		echo "create_main_cluster = false" >"$config"
		trap 'rm -f "$config"' RETURN
	fi
	tools/packages.sh initdb:postgresql
}

# as_owner runs a command as the user that owns the data: PostgreSQL refuses
# to run as root.
owner=$(id -un)
if [ "$(id -u)" -eq 0 ]; then
	owner=nobody
	! id postgres >/dev/null 2>&1 || owner=postgres
fi
as_owner() {
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && setpriv --reuid "$owner" --regid "$(id -g "$owner")" --clear-groups -- "$@")
	else
		"$@"
	fi
}

running() {
	[ -e "$data/postmaster.pid" ] && as_owner "$bin/pg_ctl" status -D "$data" >/dev/null
}

create() {
	rm -rf "${state:?}"/*
	install -d -m 0700 -o "$owner" "$data" "$state/socket"
	(umask 077 && random_text >"$state/password")
	install -m 0600 -o "$owner" "$state/password" "$state/pwfile"
	as_owner "$bin/initdb" -D "$data" -U portico --pwfile="$state/pwfile" --auth-local=trust --auth-host=md5 \
		--encoding=UTF8 --locale=C.UTF-8 --no-sync >"$state/initdb.log" ||
		{ cat "$state/initdb.log" >&2 && return 1; }
	cat >>"$data/postgresql.conf" <<-CONF
		listen_addresses = '127.0.0.1'
		unix_socket_directories = '$state/socket'
		unix_socket_permissions = 0700
		max_connections = 1000
		timezone = 'UTC'
	CONF
	if [ "${1:-}" != --durable ]; then
		printf 'fsync = off\nfull_page_writes = off\n' >>"$data/postgresql.conf"
	fi
}

start() {
	create "$@"
	local attempt port
	# Somebody may take a free port before PostgreSQL does.
	for attempt in 1 2 3 4 5; do
		port=$(free_port)
		if as_owner "$bin/pg_ctl" start -D "$data" -w -t 60 -l "$data/server.log" -o "-p $port" >/dev/null; then
			"$bin/pg_isready" -q -h 127.0.0.1 -p "$port" -t 10
			(umask 077 && echo "postgres://portico:$(cat "$state/password")@127.0.0.1:$port/postgres?sslmode=disable" >"$state/url")
			return
		fi
		echo "PostgreSQL did not start (attempt $attempt of 5):" >&2
		tail -5 "$data/server.log" >&2
	done
	return 1
}

bin=$(binaries)
case "${1:-}" in
start)
	if [ -z "$bin" ]; then
		install_server
		bin=$(binaries)
	fi
	running || start "${2:-}"
	cat "$state/url"
	;;
url)
	if [ -z "$bin" ] || ! running; then
		echo "PostgreSQL does not run; start it with: tools/postgres.sh start" >&2
		exit 1
	fi
	cat "$state/url"
	;;
stop)
	if [ -n "$bin" ] && running; then
		as_owner "$bin/pg_ctl" stop -D "$data" -m immediate -w -t 60 >/dev/null
	fi
	rm -rf "${state:?}"
	;;
*)
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac

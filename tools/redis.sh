#!/usr/bin/env bash
# Installs Redis and its Python client for the tests below .cache, unless they are
# there, and prints the path of redis-server, which the tests expect in
# PORTICO_REDIS_SERVER. They start servers of their own.
#
# Debian's package redis-server would start one that nobody asked for. Its
# program is part of redis-tools, under another name: it goes by what it is
# called.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p .cache/redis
server=$PWD/.cache/redis/redis-server
if [ ! -x "$server" ]; then
	command -v redis-server >/dev/null || tools/packages.sh redis-check-rdb:redis-tools
	ln -sfn "$(command -v redis-server || command -v redis-check-rdb)" "$server"
fi
# Python's client, for the consumer in docs/dashboards.md.
client=redis==8.1.0
venv=.cache/redis/python
if [ ! -e "$venv/.$client" ]; then
	rm -rf "$venv"
	/usr/bin/python3 -m venv "$venv" >&2
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$client" >&2
	touch "$venv/.$client"
fi
"$server" --version >/dev/null
echo "$server"

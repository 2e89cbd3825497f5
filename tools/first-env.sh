#!/usr/bin/env bash
# Who tries the product from here wants programs to run. Where there is no .env,
# one is written that says so, so that the server and every command agree.
set -euo pipefail
cd "$(dirname "$0")/.."

[ ! -e .env ] || exit 0
cat >.env <<-'ENV'
	# Settings of the server and of every command; .env.example has them all.
	# Programs may run:
	PTC_ENABLED=true
ENV
echo "Wrote .env with PTC_ENABLED=true, so that programs may run; bin/portico reads it, too" >&2

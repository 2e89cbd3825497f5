#!/usr/bin/env bash
# Runs a command with a PostgreSQL and an S3 server of its own, and stops them
# when it ends, however it ends:
#
#   with-services.sh [--durable] COMMAND...
#
# The command finds them in PORTICO_TEST_POSTGRES_URL and PORTICO_TEST_S3_*.
# --durable starts PostgreSQL with its production durability.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/state.sh

durable=
if [ "${1:-}" = --durable ]; then
	durable=--durable
	shift
fi

exec 9>"$(state_dir run)/lock"
if ! flock -n 9; then
	echo "Another run in this checkout uses the servers; wait for it to end." >&2
	exit 1
fi

stop() {
	tools/s3.sh stop 9>&- || true
	tools/postgres.sh stop 9>&- || true
}
trap stop EXIT
# A signal ends the command first; the trap above then stops the servers.
trap 'exit 130' INT
trap 'exit 143' TERM

stop # what a killed run left behind
# The servers must not hold the lock, or it would outlive a killed run.
PORTICO_TEST_POSTGRES_URL=$(tools/postgres.sh start $durable 9>&-)
export PORTICO_TEST_POSTGRES_URL
tools/s3.sh start 9>&-
eval "$(tools/s3.sh env)"

"$@" 9>&-

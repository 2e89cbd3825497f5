#!/usr/bin/env bash
# A private S3 server for tests and benchmarks:
#
#   s3.sh start   starts it, unless it runs, with an empty bucket
#   s3.sh env     prints its address and keys as shell assignments
#   s3.sh stop    stops it and removes its data
#
# It is versitygw, which checks signatures as a real server does. It is built
# once into .cache/bin and keeps its objects in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/state.sh

version=v1.8.0
bucket=portico-test
region=us-east-1
binary=$PWD/.cache/bin/versitygw-$version
state=$(state_dir s3)

build() {
	[ ! -x "$binary" ] || return 0
	echo "Building versitygw $version; this happens once and takes some minutes." >&2
	mkdir -p "$(dirname "$binary")"
	GOBIN=$(dirname "$binary") GOFLAGS='' go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
	mv "$(dirname "$binary")/versitygw" "$binary"
}

# running also looks at the program, because process ids are used again. Its path may
# lead over links.
running() {
	[ -s "$state/pid" ] && [ "$(readlink -f "/proc/$(cat "$state/pid")/exe" 2>/dev/null)" = "$(readlink -f "$binary")" ]
}

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

launch() {
	local port access secret
	port=$(free_port) access=$(random_text) secret=$(random_text)
	# The keys go through the environment: arguments are visible to everybody.
	ROOT_ACCESS_KEY=$access ROOT_SECRET_KEY=$secret setsid "$binary" --quiet --port "127.0.0.1:$port" --region "$region" \
		posix --sidecar "$state/sidecar" "$state/objects" >"$state/log" 2>&1 </dev/null &
	echo $! >"$state/pid"
	(
		umask 077
		cat >"$state/env" <<-ENV
			export PORTICO_TEST_S3_ENDPOINT=http://127.0.0.1:$port
			export PORTICO_TEST_S3_BUCKET=$bucket
			export PORTICO_TEST_S3_ACCESS_KEY=$access
			export PORTICO_TEST_S3_SECRET_KEY=$secret
			export PORTICO_TEST_S3_REGION=$region
		ENV
	)
	local deadline=$((SECONDS + 20))
	until listening "$port"; do
		if ! kill -0 "$(cat "$state/pid")" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
			tail -5 "$state/log" >&2
			return 1
		fi
		sleep 0.1
	done
	# Through the API, so that the bucket has its owner.
	ADMIN_ACCESS_KEY=$access ADMIN_SECRET_KEY=$secret "$binary" admin --endpoint-url "http://127.0.0.1:$port" \
		create-bucket --owner "$access" --bucket "$bucket"
}

start() {
	build
	local attempt
	# Somebody may take a free port before the server does.
	for attempt in 1 2 3 4 5; do
		rm -rf "${state:?}"/*
		# The server takes each directory below its root for a bucket, so the
		# metadata is beside it.
		mkdir -p "$state/objects" "$state/sidecar"
		if launch; then
			return
		fi
		stop_server
		echo "The S3 server did not start (attempt $attempt of 5)." >&2
	done
	return 1
}

stop_server() {
	running || return 0
	local pid deadline=$((SECONDS + 10))
	pid=$(cat "$state/pid")
	kill "$pid"
	while running; do
		[ $SECONDS -lt $deadline ] || kill -9 "$pid"
		sleep 0.1
	done
}

case "${1:-}" in
start)
	running || start
	;;
env)
	if ! running; then
		echo "The S3 server does not run; start it with: tools/s3.sh start" >&2
		exit 1
	fi
	cat "$state/env"
	;;
stop)
	stop_server
	rm -rf "${state:?}"
	;;
*)
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac

#!/usr/bin/env bash
# The tests, in two parts that run each test on both databases together. They
# install and start what they need, so they work on a fresh machine with nothing
# but Go.
#
#   test.sh test    all tests, each on one of the databases
#   test.sh race    the tests with the race detector, each on the other one
set -euo pipefail
cd "$(dirname "$0")/.."

part=${1:-test}
case $part in
test | race) ;;
*)
	echo "usage: test.sh [test|race]" >&2
	exit 2
	;;
esac

step() { printf '\n== %s\n' "$*"; }

step "Preparing"
tools/setup.sh
# The race detector needs a C compiler. Debian keeps the part of Python that
# makes virtual environments in a package of its own.
ensurepip=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib") + "/ensurepip")')
tools/packages.sh gcc:gcc /usr/include/stdio.h:libc6-dev "$ensurepip:python3-venv" \
	/etc/ssl/certs/ca-certificates.crt:ca-certificates node:nodejs npm:npm
PORTICO_PYTOOLS=$(tools/pytools.sh)
PORTICO_LIBRECHAT=$(tools/librechat.sh)
PORTICO_TYPESCRIPT=$(tools/typescript.sh)
PORTICO_RUNSC=$(tools/runsc.sh)
PORTICO_CHROMIUM=$(tools/chromium.sh)
PORTICO_MCP=$(tools/mcp.sh)
PORTICO_VENDORS=$(tools/vendors.sh)
PORTICO_AXE=$(tools/axe.sh)
PORTICO_REDIS_SERVER=$(tools/redis.sh)
PORTICO_PGBOUNCER=$(tools/pgbouncer.sh)
PORTICO_HAPROXY=$(tools/haproxy.sh)
PORTICO_PROMTOOL=$(tools/promtool.sh)
export PORTICO_PYTOOLS PORTICO_LIBRECHAT PORTICO_TYPESCRIPT PORTICO_RUNSC PORTICO_CHROMIUM \
	PORTICO_MCP PORTICO_VENDORS PORTICO_AXE PORTICO_REDIS_SERVER PORTICO_PGBOUNCER PORTICO_HAPROXY PORTICO_PROMTOOL
# Nothing is skipped here: what is missing fails, and slow tests run. The garbage
# collector works less often, up to a GiB: it takes a fifth of the time otherwise, and
# a third with the race detector.
export CI=true GOGC=400 GOMEMLIMIT=1GiB

# Many tests wait for processes, so that more of them run at once than there are
# processors.
parallel="-parallel 4"

if [ "$part" = race ]; then
	step "Tests with the race detector"
	# It watches our code and its libraries, besides SQLite: that is C turned into Go,
	# has its own tests, and takes ten times as long under it.
	PORTICO_TEST_ONE_DATABASE=first tools/with-services.sh \
		go test -race $parallel '-gcflags=modernc.org/...=-race=false' -vet=off -shuffle=on -timeout 40m ./...
	exit
fi

step "Tests"
# The linters vet.
PORTICO_TEST_ONE_DATABASE=second tools/with-services.sh go test $parallel -vet=off -shuffle=on -timeout 40m ./...

#!/usr/bin/env bash
# Builds bin/portico and bin/sdkgen, and shows how far it is: the first build on
# a machine compiles more than a thousand packages.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Building bin/portico and bin/sdkgen: seconds, or 3 to 6 minutes the first time" >&2
for target in portico:cmd/api sdkgen:sdkgen; do
	# Without the tables of debuggers (-s -w): a sixth of the size; stack traces
	# stay. nomsgpack leaves out of gin a format that nobody sends.
	# Names of packages become a count; all else, such as an error, is shown.
	go build -v -trimpath -tags=nomsgpack -ldflags="-s -w" -o "bin/${target%%:*}" "./${target#*:}" 2>&1 |
		awk '/^[^ #:]+$/ { if (++n % 100 == 0) print "  " n " packages compiled"; fflush(); next } { print; fflush() }' >&2
done

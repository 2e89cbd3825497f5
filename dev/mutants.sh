#!/usr/bin/env bash
# Breaks the program on purpose, in one place at a time, and reports whether
# the test that is meant to notice does:
#
#   mutants.sh [NAME...]
#
# Each breakage is a patch in dev/mutants, whose first lines say what it
# breaks and which test must fail. All are tried, or those that are named, with
# or without their number. They are applied to a copy; this checkout, with
# what is not committed in it, stays as it is.
#
# A test counts only if it passes without the breakage. Fails when a breakage
# is not caught, or cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${PORTICO_TEST_POSTGRES_URL:-}" ]; then
	tools/setup.sh
	PORTICO_PYTOOLS=$(tools/pytools.sh)
	PORTICO_LIBRECHAT=$(tools/librechat.sh)
	PORTICO_RUNSC=$(tools/runsc.sh)
	PORTICO_CHROMIUM=$(tools/chromium.sh)
	PORTICO_TYPESCRIPT=$(tools/typescript.sh)
	PORTICO_MCP=$(tools/mcp.sh)
	PORTICO_VENDORS=$(tools/vendors.sh)
	PORTICO_AXE=$(tools/axe.sh)
	PORTICO_REDIS_SERVER=$(tools/redis.sh)
	PORTICO_PGBOUNCER=$(tools/pgbouncer.sh)
	PORTICO_HAPROXY=$(tools/haproxy.sh)
	PORTICO_PROMTOOL=$(tools/promtool.sh)
	export PORTICO_PYTOOLS PORTICO_LIBRECHAT PORTICO_RUNSC PORTICO_CHROMIUM PORTICO_TYPESCRIPT \
		PORTICO_MCP PORTICO_VENDORS PORTICO_AXE PORTICO_REDIS_SERVER PORTICO_PGBOUNCER PORTICO_HAPROXY PORTICO_PROMTOOL
	exec tools/with-services.sh dev/mutants.sh "$@"
fi
. tools/state.sh

# chosen PATCH NAMES... says whether a patch is to be tried.
chosen() {
	local name
	name=$(basename "$1" .patch)
	shift
	[ $# -eq 0 ] && return
	local want
	for want in "$@"; do
		if [ "$want" = "$name" ] || [ "$want" = "${name#*-}" ]; then return; fi
	done
	return 1
}

patches=()
for patch in "$PWD"/dev/mutants/*.patch; do
	if chosen "$patch" "$@"; then patches+=("$patch"); fi
done
if [ ${#patches[@]} -eq 0 ] || { [ $# -gt 0 ] && [ ${#patches[@]} -lt $# ]; }; then
	echo "There is no such breakage. There are:" >&2
	ls dev/mutants >&2
	exit 2
fi

# The copy has the same path each time, so that Go's build cache serves it.
copy=$(state_dir mutants)/checkout
log=$(state_dir mutants)/log
exec 8>"$(state_dir mutants)/lock"
if ! flock -n 8; then
	echo "Another run in this checkout tries breakages; wait for it to end." >&2
	exit 1
fi
rm -rf "$copy"
mkdir "$copy"
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
git ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar --null --files-from=- --create --file=- | tar --extract --directory="$copy" --file=-
# The copy is in no repository: what git finds around it is not meant.
export GIT_CEILING_DIRECTORIES
GIT_CEILING_DIRECTORIES=$(dirname "$copy")
cd "$copy"

# run PACKAGE PATTERN runs one test and prints what became of it: passed,
# failed, not built, or none.
run() {
	local code=0
	timeout -k 10 420 go test -count=1 -timeout 400s -run "$2" "$1" >"$log" 2>&1 8>&- || code=$?
	if grep -q '\[build failed\]\|\[setup failed\]' "$log"; then
		echo "not built"
	elif [ "$code" -ne 0 ]; then
		echo failed
	elif grep -q '\[no tests to run\]' "$log"; then
		echo none
	else
		echo passed
	fi
}

declare -A sound # what became of each test without a breakage
bad=0
report() { # NAME RESULT TEST SECONDS
	printf '%-44s %-16s %4ss  %s\n' "$1" "$2" "$4" "$3"
	[ "$2" = caught ] || bad=$((bad + 1))
}

for patch in "${patches[@]}"; do
	name=$(basename "$patch" .patch)
	read -r package pattern < <(sed -n 's/^# test: //p' "$patch") || true
	test="$package $pattern"
	begin=$SECONDS
	if ! git apply --check "$patch" 2>"$log"; then
		report "$name" "does not apply" "$test" 0
		sed 's/^/    /' "$log"
		continue
	fi
	if [ -z "${sound[$test]:-}" ]; then sound[$test]=$(run "$package" "$pattern"); fi
	if [ "${sound[$test]}" != passed ]; then
		report "$name" "test is broken" "$test" $((SECONDS - begin))
		echo "    Without the breakage it is: ${sound[$test]}"
		tail -n 20 "$log" | sed 's/^/    /'
		continue
	fi
	git apply "$patch"
	result=$(run "$package" "$pattern")
	git apply --reverse "$patch"
	case $result in
	failed) report "$name" caught "$test" $((SECONDS - begin)) ;;
	"not built")
		report "$name" "does not compile" "$test" $((SECONDS - begin))
		tail -n 20 "$log" | sed 's/^/    /'
		;;
	*)
		report "$name" SURVIVED "$test" $((SECONDS - begin))
		sed -n 's/^# breaks: /    /p' "$patch"
		;;
	esac
done

echo
echo "$((${#patches[@]} - bad)) of ${#patches[@]} caught"
[ "$bad" -eq 0 ]

# What the functions for tools do in bash. A tool that fails ends the script,
# unless the script asks whether it failed: in a condition, before && or ||,
# after !. Bash itself knows which calls those are: it runs no ERR trap there.
# With PORTICO_TOOL_ERRORS=continue, a failure is a status and no more.

# The shell that runs the program. Shells that it starts are scripts of their
# own: a failure there is their status.
export _portico_script=${_portico_script:-$$}

_portico_call() {
	local said restore
	{ said=$(/usr/bin/python3 -ISE /run/portico-python/languages/call.py "$@" 2>&1 >&3 3>&-); } 3>&1 && return 0
	if [[ ${PORTICO_TOOL_ERRORS-} != continue ]]; then
		restore=$(builtin trap -p ERR)
		builtin trap '_portico_end "${FUNCNAME[1]-}" "$said"' ERR
		builtin false
		builtin trap - ERR
		if [[ $restore ]]; then builtin eval "$restore"; fi
	fi
	builtin printf '%s\n' "$said" >&2
	return 1
}

# The script and the shells between it and this one die before they go on: they
# would use the output of a call that failed. The outermost is first, because it
# goes on when those that it waits for die.
_portico_end() {
	builtin trap - ERR
	if [[ $$ == "$_portico_script" ]]; then
		# start.sh shows it, wherever the errors of this shell go.
		builtin printf '%s\n' "$2" "[$1 failed, which ended the script. To go on after a failure: $1 ... || true]" >/tmp/.portico/failed
	else
		builtin printf '%s\n' "$2" >&2
	fi
	local pid=$BASHPID stat shells=()
	while [[ $pid != "$$" ]]; do
		builtin read -r stat <"/proc/$pid/stat" || pid=1
		stat=${stat##*) ? }
		pid=${stat%% *}
		if [[ $pid -le 1 ]]; then pid=$$; fi
		shells=("$pid" "${shells[@]}")
	done
	if [[ ${#shells[@]} -gt 0 ]]; then builtin kill -KILL "${shells[@]}"; fi
	builtin exit 1
}

export -f _portico_call _portico_end

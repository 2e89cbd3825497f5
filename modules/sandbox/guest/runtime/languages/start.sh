# Runs a program in bash that has tools, and says which failed tool ended it.
exec 9>&2 2>/dev/null
BASH_ENV=/tmp/.portico/tools.sh /usr/bin/bash /tmp/.portico/main.sh "$@" 2>&9 9>&-
status=$?
if [[ -e /tmp/.portico/failed ]]; then
	/usr/bin/cat /tmp/.portico/failed >&9
	exit 1
fi
exit "$status"

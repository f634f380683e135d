#!/usr/bin/env bash
# Makes the Debian package of a program that is built.
#
#   bash tools/deb.sh PROGRAM [FOLDER]      writes FOLDER/wirelens_VERSION_ARCHITECTURE.deb (target)
#
# It takes dpkg-deb, dpkg-shlibdeps, readelf and strip, and no root. The same program and commit make the
# same package to the byte.
set -euo pipefail
program=$(realpath "${1:?usage: bash tools/deb.sh PROGRAM [FOLDER]}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly OUT=${2:-target}
readonly REVISION=1
# There is no address to write to; who passes the package on gives theirs.
readonly MAINTAINER=${MAINTAINER:-The Wirelens authors <nobody@wirelens.invalid>}
readonly SIZE_MAX=25000000

fail() {
  printf 'deb: %s\n' "$*" >&2
  exit 1
}

for tool in dpkg-deb dpkg-shlibdeps readelf strip gzip; do
  command -v "$tool" >/dev/null || fail "$tool: not found in PATH; try: apt-get install dpkg-dev"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-$REVISION
architecture=$(dpkg --print-architecture)
# Of the commit, so that the package does not depend on when it is made.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
readonly STAGE=$scratch/stage
readonly DOC=$STAGE/usr/share/doc/wirelens
umask 022

# --- Files ----------------------------------------------------------------------------------

# What `make install` installs, where Debian has it.
DESTDIR=$STAGE PREFIX=/usr ZSH_FOLDER=share/zsh/vendor-completions \
  bash tools/install.sh install "$program"
strip --remove-section=.comment --remove-section=.note "$STAGE/usr/bin/wirelens"
find "$STAGE/usr/share/man" -name '*.1' -exec gzip --best --no-name {} +
# Licences are in the copyright file, as Debian wants them.
rm "$DOC/LICENSE-MIT" "$DOC/LICENSE-APACHE"

put() { install -D --mode="$1" "$2" "$STAGE/$3"; }

put 644 deploy/debian/wirelens.toml etc/wirelens/wirelens.toml
put 644 deploy/debian/wirelens.sysusers usr/lib/sysusers.d/wirelens.conf
for file in deploy/systemd/*; do
  case $file in
    *.service | *.socket | *.timer | *.path) put 644 "$file" "lib/systemd/system/${file##*/}" ;;
    *.md) ;;
    *) [ ! -f "$file" ] || put 644 "$file" "usr/share/doc/wirelens/examples/${file##*/}" ;;
  esac
done

cargo metadata --locked --offline --format-version 1 --filter-platform \
  "$(rustc --print host-tuple)" >"$scratch/metadata.json"
{
  printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' \
    'Upstream-Name: Wirelens' '' 'Files: *' 'Copyright: the Wirelens authors' \
    'License: Expat or Apache-2.0' '' 'License: Expat'
  sed -e 's/^$/./' -e 's/^/ /' LICENSE-MIT
  printf '%s\n' '' 'License: Apache-2.0' \
    ' On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.' '' \
    'Comment: The program includes these libraries, by name, version and licence.'
  python3 tools/libraries.py <"$scratch/metadata.json" | sed 's/^/ /'
} >"$scratch/copyright"
put 644 "$scratch/copyright" usr/share/doc/wirelens/copyright
# Of the program as it is in the package.
python3 tools/sbom.py "$STAGE/usr/bin/wirelens" <"$scratch/metadata.json" |
  gzip --best --no-name >"$scratch/sbom"
put 644 "$scratch/sbom" usr/share/doc/wirelens/wirelens.cdx.json.gz

date=$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" --rfc-email)
printf '%s\n' "wirelens ($version) unstable; urgency=medium" '' \
  '  * Package of this version; changes are in changelog.gz.' '' " -- $MAINTAINER  $date" |
  gzip --best --no-name >"$scratch/changelog"
put 644 "$scratch/changelog" usr/share/doc/wirelens/changelog.Debian.gz
gzip --best --no-name <CHANGELOG.md >"$scratch/upstream"
put 644 "$scratch/upstream" usr/share/doc/wirelens/changelog.gz

# --- Control --------------------------------------------------------------------------------

mkdir -p "$scratch/source/debian" "$STAGE/DEBIAN"
printf '%s\n' 'Source: wirelens' '' 'Package: wirelens' 'Architecture: any' \
  >"$scratch/source/debian/control"
depends=$(cd "$scratch/source" && dpkg-shlibdeps -O "$STAGE/usr/bin/wirelens" 2>/dev/null |
  sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || fail "dpkg-shlibdeps names no library of $program"
# It knows the libraries of this machine, whose glibc has the symbols of libdl and libpthread in
# libc. What a program that was linked with an older one needs is in the program.
glibc=$(readelf --wide --version-info "$STAGE/usr/bin/wirelens" |
  sed -n 's/.*Name: GLIBC_\(2[0-9.]*\).*/\1/p' | sort --version-sort | tail -n 1)
depends=$(sed "s/libc6 (>= [^)]*)/libc6 (>= $glibc)/" <<<"$depends")
cat >"$STAGE/DEBIAN/control" <<END
Package: wirelens
Version: $version
Architecture: $architecture
Maintainer: $MAINTAINER
Installed-Size: $(find "$STAGE/etc" "$STAGE/usr" "$STAGE/lib" -type f -printf '%s\n' 2>/dev/null |
  awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
Depends: $depends, passwd
Recommends: libpcap0.8
Suggests: python3
Section: net
Priority: optional
Description: network traffic analysis from captures and live interfaces
 Wirelens reports top talkers, flows, services and devices, latency, queue
 occupancy and congestion control, and records packets selectively, from
 captures or a live interface. Several applications run in one pass over the
 packets, with a page in the browser, an API and metrics for Prometheus.
 .
 Filters need libpcap. Models that ship are in the program. The service is
 installed and not enabled; its settings are in /etc/wirelens/wirelens.toml.
END
printf '%s\n' /etc/wirelens/wirelens.toml >"$STAGE/DEBIAN/conffiles"
for script in postinst prerm postrm; do put 755 "deploy/debian/$script" "DEBIAN/$script"; done
(cd "$STAGE" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort |
  xargs -d '\n' md5sum) >"$scratch/md5sums"
put 644 "$scratch/md5sums" DEBIAN/md5sums
find "$STAGE" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# --- Package --------------------------------------------------------------------------------

mkdir -p "$OUT"
readonly DEB=$OUT/wirelens_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$STAGE" "$DEB" >/dev/null
size=$(stat -c %s "$DEB")
[ "$size" -le $SIZE_MAX ] || fail "$DEB: $size bytes; wanted: at most $SIZE_MAX"
printf '%s: %s bytes\n' "$DEB" "$size"

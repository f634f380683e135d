#!/usr/bin/env bash
# Builds the container image of a program that is built, wirelens:VERSION.
#
#   bash tools/container.sh PROGRAM
#
# BUILDER is podman, buildah or docker, the first that is there where it is not set; BUILDER_FLAGS go
# before its command. BASE is an image of Debian 12 or later: that of its public registry where it is
# not set.
set -euo pipefail
program=$(realpath "${1:?usage: bash tools/container.sh PROGRAM}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf 'container: %s\n' "$*" >&2
  exit 1
}

find_builder() {
  local name
  for name in podman buildah docker; do
    if command -v "$name" >/dev/null; then
      echo "$name"
      return
    fi
  done
}

BUILDER=${BUILDER:-$(find_builder)}
[ -n "$BUILDER" ] || fail "podman, buildah, docker: none is in PATH; try: apt-get install buildah"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bash tools/deb.sh "$program" "$scratch"
read -ra flags <<<"${BUILDER_FLAGS:-}"
arguments=()
[ -z "${BASE:-}" ] || arguments+=(--build-arg "BASE=$BASE")
"$BUILDER" "${flags[@]}" build --file deploy/container/Containerfile --tag "wirelens:$version" \
  "${arguments[@]}" "$scratch"

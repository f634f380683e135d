#!/usr/bin/env bash
# Makes sure that what a task needs is here, and installs what is missing.
#
#   bash tools/setup.sh base     to build and run Wirelens
#   bash tools/setup.sh test     to pass its tests as well
#   bash tools/setup.sh bench    to measure it beside its peers as well
#   bash tools/setup.sh train    to train models and test their export as well
#   bash tools/setup.sh ray      to run questions over Ray as well
#   bash tools/setup.sh web      to test the page in a browser
#   bash tools/setup.sh ns3      to build the scenario of an L4S router in ns-3
#   bash tools/setup.sh nats     to test against a NATS server: builds one, with Go
#   bash tools/setup.sh portable to run programs for an old glibc and for aarch64
#   bash tools/setup.sh onnx     to measure trained models beside ONNX Runtime as well
#
# Says nothing and ends within a second where nothing is missing. System
# packages are installed by apt as root or where sudo asks for no password;
# otherwise the line to type is printed. Python packages go into .venv only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly PYTHON_MIN=3.11
# Debian keeps some programs where only root looks, and rustup where only new shells do.
export PATH="$PATH:/usr/sbin:/sbin:${CARGO_HOME:-$HOME/.cargo}/bin"

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
  say "$1"
  shift
  local line
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

has_program() { command -v "$1" >/dev/null 2>&1; }

has_library() {
  ldconfig -p 2>/dev/null | grep -q "[[:space:]]$1 " && return
  compgen -G "/usr/lib/*/$1" >/dev/null || compgen -G "/usr/lib*/$1" >/dev/null
}

can_make_venv() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

is_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# --- Rust and Python: looked for, never installed -------------------------------------------

check_rust() {
  local wanted seen
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if ! has_program cargo; then
    fail "cargo: not found in PATH, nor in ${CARGO_HOME:-$HOME/.cargo}/bin" \
      "Wirelens is built with Rust $wanted or newer; Debian's own package is older." \
      "Install it as https://www.rust-lang.org/tools/install says, then run this again." \
      "If it lies elsewhere: PATH=/its/folder:\$PATH make ..."
  fi
  seen=$(cargo --version | cut -d ' ' -f 2)
  is_at_least "$wanted" "$seen" ||
    fail "cargo: version $seen found, $wanted or newer wanted" "Try: rustup update stable"
}

check_rust_lints() {
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
  say "rustfmt and clippy: at least one is missing; installing them"
  if has_program rustup && rustup component add rustfmt clippy; then return; fi
  fail "rustfmt, clippy: missing" "Try: rustup component add rustfmt clippy"
}

check_python() {
  has_program python3 ||
    fail "python3: not found in PATH" "Python $PYTHON_MIN or newer is wanted." \
      "Try: apt-get install python3"
  python3 -c "import sys; sys.exit(sys.version_info < (${PYTHON_MIN/./, }))" ||
    fail "python3: $(python3 --version) found, $PYTHON_MIN or newer wanted"
}

# --- System packages ------------------------------------------------------------------------

missing_packages=()

# want_package PACKAGE TEST...: notes the package when its test fails.
want_package() {
  local package=$1
  shift
  "$@" || missing_packages+=("$package")
}

want_base() {
  want_package build-essential has_program cc
  want_package python3-venv can_make_venv
}

is_debian_12() { [ "$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID")" = "debian 12" ]; }

# Has the version of clang that built the BPF objects; elsewhere their comparison is skipped.
want_bpf() {
  is_debian_12 || return 0
  want_package clang has_program clang
  want_package llvm has_program llvm-strip
  want_package libbpf-dev test -e /usr/include/bpf/bpf_helpers.h
}

want_test() {
  want_package build-essential has_program c++
  want_package git has_program git
  want_package libpcap0.8 has_library libpcap.so.0.8
  want_package iproute2 has_program ip
  want_package bpftool has_program bpftool
  want_package tcpdump has_program tcpdump
  want_package strace has_program strace
  want_package tshark has_program tshark
  want_package nfdump has_program nfcapd
  want_package tcptrace has_program tcptrace
  want_package zstd has_program zstd
  want_package gzip has_program gzip
  # For manual pages and the Debian package.
  want_package groff-base has_program groff
  want_package dpkg-dev has_program dpkg-shlibdeps
  want_package debootstrap has_program debootstrap
  want_package lintian has_program lintian
  # For the container image.
  want_package buildah has_program buildah
  # For deploy/systemd/ and runs under its restrictions.
  want_package systemd has_program systemd-analyze
  want_package ethtool has_program ethtool
  want_package util-linux has_program setpriv
  # For deploy/prometheus/. Its package starts a service that listens, where there is something that starts
  # services.
  [ -d /run/systemd/system ] || want_package prometheus has_program promtool
  want_bpf
}

# Peers of make bench, which does without them too. Their packages start services that listen,
# so where there is something that starts services they are named, not installed.
want_bench() {
  local before=("${missing_packages[@]}")
  want_package softflowd has_program softflowd
  want_package nfdump has_program nfpcapd
  want_package argus-server has_program argus
  local peers=("${missing_packages[@]:${#before[@]}}")
  if [ ${#peers[@]} -gt 0 ] && [ -d /run/systemd/system ]; then
    say "not installed, as these start services: ${peers[*]}; to measure them as well, type"
    printf '  sudo apt-get install --no-install-recommends %s\n' "${peers[*]}" >&2
    missing_packages=("${before[@]}")
  fi
}

# Its headers, wherever the compiler looks for them.
has_ns3() {
  printf '#include <ns3/tcp-dctcp.h>\n' | g++ -std=c++17 -M -x c++ - >/dev/null 2>&1
}

want_ns3() {
  want_package g++ has_program g++
  want_package libns3-dev has_ns3
}

want_web() {
  want_package nodejs has_program node
  want_package npm has_program npm
  want_package chromium has_program chromium
}

install_missing() {
  [ ${#missing_packages[@]} -gt 0 ] || return 0
  mapfile -t missing_packages < <(printf '%s\n' "${missing_packages[@]}" | sort -u)
  local line="apt-get install --yes --no-install-recommends ${missing_packages[*]}"
  local as_root=()
  if ! has_program apt-get; then
    say "missing, by their Debian names: ${missing_packages[*]}; install them with your system's tool"
    return 0
  elif [ "$(id -u)" -ne 0 ]; then
    if ! { has_program sudo && sudo -n true 2>/dev/null; }; then
      say "missing: ${missing_packages[*]}; to install them, type"
      printf '  sudo apt-get update && sudo %s\n' "$line" >&2
      return 0
    fi
    as_root=(sudo -n)
  fi
  say "installing ${missing_packages[*]}"
  # shellcheck disable=SC2086  # the line is words
  if ! { "${as_root[@]}" apt-get -qq update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $line -qq >/dev/null; }; then
    say "apt-get failed; to see why, type: $line"
  fi
}

# need TEST... -- PACKAGE WHY: stops where a package that cannot be done without is not here.
need() {
  local test=()
  while [ "$1" != -- ]; do
    test+=("$1")
    shift
  done
  "${test[@]}" || fail "$2: still missing, and $3" "Try: apt-get install $2"
}

# --- The virtual environment ----------------------------------------------------------------

make_venv() {
  if ! "$VENV/bin/python" -c '' 2>/dev/null; then
    say "making $VENV"
    rm -rf "$VENV"
    if can_make_venv; then
      python3 -m venv "$VENV"
    else
      python3 -m venv --without-pip "$VENV"
    fi
  fi
}

# Installs a list of pinned packages once; a changed list is installed again. Every file has to have a
# hash of the list, and none is built: no code of a package runs when it is installed.
install_python() {
  local list=tools/requirements-$1.txt stamp=$VENV/requirements-$1.sha256
  if [ -f "$stamp" ] && sha256sum --check --status "$stamp"; then return; fi
  if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
    need can_make_venv -- python3-venv "Python packages are needed here"
    rm -rf "$VENV"
    make_venv
  fi
  say "installing Python packages of $list into $VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --requirement "$list"
  sha256sum "$list" >"$stamp"
}

# --- PyTorch --------------------------------------------------------------------------------

# PyTorch trains networks. From PyPI it comes with 5 GB for graphics cards; Debian's is 570 MB. Its
# folders alone are linked into .venv: with all of Debian's Python packages in sight, tests would
# run with other versions than those that are pinned.
readonly DEBIAN_PYTHON=/usr/lib/python3/dist-packages
readonly TORCH_LINKS=$VENV/debian-torch

can_find_torch() { "$VENV/bin/python" -c 'import torch' >/dev/null 2>&1; }

# The part of a file's name that says for which Python it was compiled.
venv_tag() { "$VENV/bin/python" -c 'import sys; print("cpython-%d%d" % sys.version_info[:2])'; }

debian_tag() {
  local version
  version=$(apt-cache policy python3 2>/dev/null |
    sed -n 's/^ *Candidate: \([0-9]*\.[0-9]*\).*/\1/p')
  echo "cpython-${version/./}"
}

link_torch() {
  compgen -G "$DEBIAN_PYTHON/torch/_C.$(venv_tag)-*.so" >/dev/null || return 0
  mkdir -p "$TORCH_LINKS"
  ln -sfn "$DEBIAN_PYTHON/torch" "$TORCH_LINKS/torch"
  ln -sfn "$DEBIAN_PYTHON/torchgen" "$TORCH_LINKS/torchgen"
  realpath "$TORCH_LINKS" >"$("$VENV/bin/python" -c \
    'import sysconfig; print(sysconfig.get_path("purelib"))')/debian-torch.pth"
}

set_up_torch() {
  can_find_torch && return
  link_torch
  can_find_torch && return
  if [ "$(debian_tag)" = "$(venv_tag)" ]; then
    missing_packages=(python3-torch libopenblas0-pthread)
    install_missing
    link_torch
    can_find_torch && return
    say "PyTorch: not there, so networks are not tested"
  else
    say "PyTorch: no package here is for $(venv_tag), so networks are not tested; for that, type"
    printf '  %s/bin/python -m pip install torch\n' "$VENV" >&2
  fi
}

# --- Tiers ----------------------------------------------------------------------------------

set_up_base() {
  check_rust
  check_python
  want_base
  install_missing
  need has_program cc -- build-essential "Rust links with a C compiler"
  make_venv
}

set_up_test() {
  check_rust
  check_python
  check_rust_lints
  want_base
  want_test
  install_missing
  need has_program cc -- build-essential "Rust links with a C compiler"
  need has_program c++ -- build-essential "the fuzzing engine is C++"
  need has_program git -- git "the tidy test asks git which files are ours"
  make_venv
  install_python test
}

set_up_train() {
  set_up_test
  install_python train
  set_up_torch
}

set_up_ray() {
  set_up_test
  install_python ray
}

set_up_onnx() {
  set_up_train
  install_python onnx
}

# debootstrap and readelf are there for other tests.
set_up_portable() {
  set_up_test
  missing_packages=()
  want_package qemu-user-static has_program qemu-aarch64-static
  install_missing
}

set_up_ns3() {
  set_up_base
  missing_packages=()
  want_ns3
  install_missing
  need has_program g++ -- g++ "ns-3 is C++"
  need has_ns3 -- libns3-dev "the scenario is built with ns-3, 3.37 or a later release like it"
}

set_up_web() {
  set_up_test
  missing_packages=()
  want_web
  install_missing
  need has_program node -- nodejs "the page is built with it"
  need has_program npm -- npm "the page is built with it"
  need has_program chromium -- chromium "the page is tested in it"
  install_python web
}

# --- A NATS server --------------------------------------------------------------------------

readonly NATS=target/tools/nats-server
readonly NATS_VERSION=2.15.3

find_go() {
  local go
  for go in "$(command -v go || true)" /usr/local/go/bin/go; do
    [ -x "$go" ] && echo "$go" && return
  done
}

# Without Go its tests are skipped, or fail as root.
set_up_nats() {
  [ -x "$NATS" ] && [ "$("$NATS" --version)" = "nats-server: v$NATS_VERSION" ] && return
  local go
  go=$(find_go)
  if [ -z "$go" ]; then
    say "go: not found in PATH, nor in /usr/local/go/bin; Go 1.25 or newer builds the NATS server"
    return 0
  fi
  say "building nats-server $NATS_VERSION into target/tools"
  GOBIN=$PWD/target/tools "$go" install "github.com/nats-io/nats-server/v2@v$NATS_VERSION"
}

set_up_bench() {
  set_up_test
  missing_packages=()
  want_bench
  install_missing
  install_python bench
}


case "${1:-}" in
  base | test | bench | train | nats | portable | ns3 | ray | web | onnx) "set_up_$1" ;;
  *) fail "usage: bash tools/setup.sh base|test|bench|train|nats|portable|ns3|ray|web|onnx (seen: ${1:-nothing})" ;;
esac

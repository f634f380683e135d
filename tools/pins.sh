#!/usr/bin/env bash
# Writes tools/requirements-NAME.txt from tools/requirements-NAME.in: every package that those of the
# list need, in one version, with the SHA-256 of each of its files. pip then installs no other file.
#
#   bash tools/pins.sh            after a change of a .in file; other versions stay as they are
#   bash tools/pins.sh --upgrade  the newest versions of what the .in files do not name
#
# The lists are for CPython 3.11 or later on Linux, on every architecture. uv, in target/tools, asks
# the package index for hashes and downloads no package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Lists of one virtual environment: later ones take the versions of the first two.
readonly TOOLS=target/tools/pins UV=$PWD/target/tools/pins/bin/uv
readonly FIRST=(test train) LATER=(ray onnx web bench portable pins)
readonly HERE="implementation_name == 'cpython' and platform_python_implementation == 'CPython' and \
sys_platform == 'linux'"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

install_uv() {
  local list=tools/requirements-pins.txt stamp=$TOOLS/requirements.sha256
  if [ -f "$stamp" ] && sha256sum --check --status "$stamp"; then return; fi
  python3 -m venv "$TOOLS"
  "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --requirement "$list"
  sha256sum "$list" >"$stamp"
}

# write NAME OPTION...: the environment is known, so it is not repeated for each package.
write() {
  local name=$1 list=$PWD/tools/requirements-$1
  shift
  if [ -f "$list.txt" ]; then cp "$list.txt" "$scratch/$name.txt"; fi
  (cd "$scratch" && "$UV" pip compile --quiet --universal --python-version 3.11 \
    --generate-hashes --no-header --no-annotate "$@" "$list.in" --output-file "$name.txt")
  {
    printf '# By tools/pins.sh from requirements-%s.in.\n' "$name"
    sed "s/ and $HERE//; s/ ; $HERE//" "$scratch/$name.txt"
  } >"$list.txt"
}

install_uv
printf 'environments = ["%s"]\n' "$HERE" | sed '1i [tool.uv]' >"$scratch/pyproject.toml"
versions=()
for name in "${FIRST[@]}" "${LATER[@]}"; do
  write "$name" "${versions[@]}" "$@"
  case " ${FIRST[*]} " in *" $name "*) versions+=(--constraint "$PWD/tools/requirements-$name.txt") ;; esac
done

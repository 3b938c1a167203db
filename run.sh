#!/usr/bin/env bash
# The one entrance: makes sure that cargo and the pinned toolchain are there, then hands over to the program in tools/.
set -eu
here=$PWD
# It may have been started through symbolic links; each is relative to the folder that it is in.
self=${BASH_SOURCE[0]}
while [ -L "$self" ]; do
    cd "$(dirname "$self")"
    self=$(readlink "$(basename "$self")")
done
cd "$(dirname "$self")"

install=yes
for word in "$@"; do
    case $word in
    --no-install) install=no ;;
    --) break ;;
    esac
done

# Prints a command and, unless --no-install, runs it. Words go to standard error: standard output is the guest's.
ensure() {
    echo "run.sh: $*" >&2
    if [ "$install" = no ]; then
        echo "run.sh: not run, because of --no-install" >&2
        exit 1
    fi
    "$@" >&2
}

PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if ! command -v rustup >/dev/null; then
    echo "run.sh: rustup is missing; see https://rustup.rs, or your distribution's package rustup" >&2
    exit 1
fi
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
targets=$(sed -n 's/^ *"\(.*\)",$/\1/p' rust-toolchain.toml)
if ! rustup toolchain list | grep -q "^$channel"; then
    ensure rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy
fi
installed=$(rustup target list --installed --toolchain "$channel")
for target in $targets; do
    if ! grep -qx "$target" <<<"$installed"; then
        ensure rustup target add --toolchain "$channel" "$target"
    fi
done

# The first build of the tool takes a minute: cargo shows it.
quiet=--quiet
if [ ! -x "${CARGO_TARGET_DIR:-target}/tools/quire-tools" ]; then
    quiet=
    echo "run.sh: building the tool behind this script, once" >&2
fi
export QUIRE_CWD=$here
exec cargo run $quiet --profile tools --package cli -- "$@"

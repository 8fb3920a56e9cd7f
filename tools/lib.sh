# shellcheck shell=bash
# Code that the scripts in this folder share. Source it after `set -euo pipefail`. It changes to the project's root.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# The folder for things that are built once per machine.
cache_dir="${XDG_CACHE_HOME:-$HOME/.cache}/windlass"

# Cargo's target folder, as an absolute path because tests run in the folders of their crates.
target_dir="${CARGO_TARGET_DIR:-$PWD/target}"

# The release that rust-toolchain.toml pins.
rust_version=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# limited SECONDS COMMAND…: runs the command with a time limit. Falls back to perl, because macOS has no `timeout`.
limited() {
    if have timeout; then
        timeout --kill-after=5 "$@"
    else
        perl -e 'alarm shift; exec @ARGV or die "exec: $!"' "$@"
    fi
}

# at_least MINIMUM VERSION: whether VERSION is MINIMUM or newer.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

has_gnu_tar() { tar --version 2>/dev/null | grep -q GNU; }

# from_caller PATH: prints the absolute path. A relative PATH counts from the caller's folder, $caller.
from_caller() {
    case "$1" in
    /*) echo "$1" ;;
    *) echo "${caller:?}/$1" ;;
    esac
}

# Prints the version of windlass that is built here.
version() { sed -n '/^\[workspace\.package\]$/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml; }

# Prints this machine's platform as in the names of archives, such as linux-x86_64.
platform() { printf '%s-%s\n' "$(uname -s | tr '[:upper:]' '[:lower:]')" "$(uname -m)"; }

# Prints the time, in seconds, that files built from this commit carry: SOURCE_DATE_EPOCH, or else the commit's time.
commit_time() {
    [ -z "${SOURCE_DATE_EPOCH:-}" ] || { echo "$SOURCE_DATE_EPOCH" && return; }
    git log -1 --format=%ct 2>/dev/null || die "this is not a Git repository: set SOURCE_DATE_EPOCH and WINDLASS_COMMIT"
}

processors() { getconf _NPROCESSORS_ONLN; }

# browser_program: prints the path of the machine's Chromium, or fails. CHROMIUM may name another program.
browser_program() {
    local program
    for program in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable; do
        ! command -v "$program" || return 0
    done
    return 1
}

is_debian() { have apt-get && have dpkg; }

# file_sha256 FILE: prints only the digest.
file_sha256() {
    if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# sources PATH…: lists the files there that were written by hand.
sources() {
    local path
    for path in "$@"; do
        ! [ -e "$path" ] || find "$path" \( -name build -o -name node_modules -o -name target -o -name templates -o -name __pycache__ -o -name .zig-cache \) -prune -o \
            -type f ! -name '*.pyc' ! -name '*.md' -print
    done | LC_ALL=C sort -u
}

# publish FOLDER NAME: gives the complete FOLDER its NAME. If several processes do so at once, the first one wins, and
# the other folders are removed.
publish() {
    # NAME is a link, because installed programs may contain their own path. Remove a link that leads nowhere.
    [ -e "$2" ] || ! [ -L "$2" ] || rm -f "$2"
    if ! ln -sn "$1" "$2" 2>/dev/null; then
        [ -e "$2" ] || die "cannot link $2 to the complete $1: is the disk full?"
        rm -rf "$1"
    fi
}

# go_program NAME FOLDER [go build flags…]: prints the path of the Go module's program. Builds it at most once per
# machine for the same sources, dependencies, flags and Go.
go_program() {
    local name=$1 folder=$2
    shift 2
    local key program
    key=$(go_program_key "$folder" "$@")
    program="$cache_dir/$name/$key/$name"
    if ! [ -x "$program" ]; then
        say "building $name, once for these sources (the first time takes minutes)"
        mkdir -p "${program%/*}"
        # Without CGO, the program is one static file that needs no library of the machine. It is linked under a
        # temporary name, then renamed.
        (cd "$folder" && CGO_ENABLED=0 ../../tools/go build -buildvcs=false -mod=readonly "$@" -o "$program.new.$$" . >&2) ||
            die "$name could not be built from $folder"
        mv "$program.new.$$" "$program"
    fi
    echo "$program"
}

go_program_key() {
    local folder=$1
    shift
    {
        printf '%s\n' "$@"
        tools/go version
        # Tests are not part of the program.
        find "$folder" -type f ! -name '*_test.go' \( -name '*.go' -o -name 'go.mod' -o -name 'go.sum' \) | LC_ALL=C sort |
            while read -r file; do echo "$file" && cat "$file"; done
    } | { if have sha256sum; then sha256sum; else shasum -a 256; fi; } | cut -c 1-16
}

# cargo_program CRATE VERSION: prints the path of the crate's program. Installs it at most once per machine.
cargo_program() {
    local crate=$1 version=$2 installed new
    installed="$cache_dir/$crate/$version"
    if ! [ -x "$installed/bin/$crate" ]; then
        say "installing $crate $version (the first time takes minutes)"
        mkdir -p "$cache_dir/$crate"
        new=$(mktemp -d "$cache_dir/$crate/$version.new.XXXXXX")
        CARGO_TARGET_DIR="$new/target" cargo install --quiet --locked --root "$new" --version "=$version" "$crate" >&2 ||
            die "$crate $version could not be installed"
        rm -rf "$new/target"
        publish "$new" "$installed"
    fi
    echo "$installed/bin/$crate"
}

# link_packages FOLDER: lets a folder with a package.json use the npm packages and the SDK without an installation of
# its own.
link_packages() {
    [ -f "$1/package.json" ] || return 0
    local packages package
    packages=$(tools/languages --npm)
    # Leave a user's own installation alone. Replace our links, because they may lead to packages of older versions.
    if [ -e "$1/node_modules" ] && ! [ -L "$1/node_modules/.bin" ]; then return 0; fi
    mkdir -p "$1/node_modules/@types"
    for package in .bin esbuild typescript componentize-qjs @types/node undici-types; do
        ln -sfn "$packages/$package" "$1/node_modules/$package"
    done
    ln -sfn "$PWD/sdk/js" "$1/node_modules/windlass"
}

# link_python_packages FOLDER: lets a Python plugin import the packages of its requirements.txt. Installs them first, once
# per machine for each list.
link_python_packages() {
    [ -f "$1/requirements.txt" ] || return 0
    # Leave a user's own installation alone.
    if [ -e "$1/packages" ] && ! [ -L "$1/packages" ]; then return 0; fi
    local packages new
    packages="$cache_dir/python-packages/$(file_sha256 "$1/requirements.txt" | cut -c 1-16)"
    if ! [ -e "$packages" ]; then
        say "installing the packages of $1/requirements.txt, once for this list"
        mkdir -p "${packages%/*}"
        new=$(mktemp -d "$packages.XXXXXX")
        PATH="$(tools/languages)" python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: --target "$new" \
            --requirement "$1/requirements.txt" >&2 || die "the packages of $1/requirements.txt could not be installed: see the error above"
        publish "$new" "$packages"
    fi
    ln -sfn "$packages" "$1/packages"
}

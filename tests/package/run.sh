#!/usr/bin/env bash
# What is installed beside the library: manual pages, the completion of shells, and the Debian package.
#
#   tests/package/run.sh        needs what `make build` makes; no root, no network
#
# The package is made twice, looked through, and installed by dpkg into a root of its own, target/package/root, which
# has Debian's libgc1 and no more than dpkg's list of what the package depends on. There a program runs on it, the
# library takes the place of the system's and leaves it again, and what is left when the package has gone is compared
# with what was there before. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || { echo "run.sh: it takes no arguments: $*" >&2; exit 2; }
. tests/package/checks.sh

out=$PWD/target/package
rm -rf "$out"
mkdir -p "$out"
pages=target/pages
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Nothing of the caller's changes what is tested.
unset GLEANER_OPTIONS GLEANER_LIBGC LD_PRELOAD LD_LIBRARY_PATH DPKG_ROOT DPKG_ADMINDIR DEB_MAINTAINER
unset SOURCE_DATE_EPOCH

. tests/package/pages.sh
. tests/package/completion.sh
. tests/package/contents.sh
. tests/package/installed.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# Copies a program and the shared libraries that it loads into a folder, the root of an image, and
# prints their sizes in KiB.
#
# usage: collect.sh PROGRAM FOLDER
set -eu

fail() {
    echo "collect.sh: $1" >&2
    exit "$2"
}

[ $# -eq 2 ] || fail "usage: collect.sh PROGRAM FOLDER" 2
[ -f "$1" ] || fail "$1 is not a file" 2
[ -n "$2" ] && [ ! -e "$2" ] || fail "'$2' exists, or has no name (expected a new folder)" 2
program=$1
root=$2

# `ldd` prints `name => path (address)`, and the loader as `path (address)`.
libraries=$(ldd -- "$program") || fail "$program is not a program that loads libraries" 1
case $libraries in
*"not found"*) fail "a library is missing: $libraries" 1 ;;
esac
libraries=$(echo "$libraries" | grep -o '/[^ ]*' | sort -u)

# Copies a library to its own place below the root.
add() {
    mkdir -p -- "$root/$(dirname "$1")"
    cp -L -- "$1" "$root/$1"
}

mkdir -p -- "$root/tmp"
cp -- "$program" "$root/"
strip -- "$root/$(basename -- "$program")"
for library in $libraries; do
    add "$library"
done
# The library of NVIDIA's driver, which is loaded at run time, names these parts of the C library.
c_library=$(dirname "$(echo "$libraries" | grep '/libc\.so')")
for part in libdl.so.2 libpthread.so.0 librt.so.1; do
    add "$c_library/$part"
done
find "$root" -type f -exec du --apparent-size -k {} + | sort -n
echo "$(du --apparent-size -sk -- "$root" | cut -f 1) total"

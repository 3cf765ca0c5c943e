#!/bin/sh
# Copies a program and the shared libraries that it loads into a folder, the root of an image, and
# prints the sizes.
#
# usage: collect.sh PROGRAM FOLDER
set -eu
program=$1
root=$2

mkdir -p "$root/tmp"
cp "$program" "$root/"
strip "$root/$(basename "$program")"
# `ldd` prints `name => path (address)`, and the loader as `path (address)`. Libraries of NVIDIA's
# driver, which are loaded at run time, need no more than the C library.
ldd "$program" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root/$(dirname "$library")"
    cp -L "$library" "$root/$library"
done
find "$root" -type f -exec du --apparent-size -k {} + | sort -n
echo "$(du --apparent-size -sk "$root" | cut -f 1) total"

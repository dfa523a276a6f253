#!/usr/bin/env bash
# The release program must run on nodes that have nothing of ours: it may need only glibc itself,
# and no newer one than Debian 12's (2.36).
# usage: release_runs_anywhere.sh PROGRAM
set -euo pipefail

program=${1:?usage: release_runs_anywhere.sh PROGRAM}
newest_allowed=2.36

foreign=$(objdump -p "$program" | awk '$1 == "NEEDED" {print $2}' |
  grep -vxE 'lib(c|m|dl|pthread|rt)\.so\.[0-9]+|ld-linux.*' || true)
if [ -n "$foreign" ]; then
  echo "release_runs_anywhere: $program needs more than glibc: $(tr '\n' ' ' <<<"$foreign")"
  exit 1
fi
newest=$(objdump -T "$program" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
if [ "$(printf '%s\n%s\n' "$newest" "$newest_allowed" | sort -V | tail -n 1)" != "$newest_allowed" ]; then
  echo "release_runs_anywhere: $program needs glibc $newest, allowed is $newest_allowed"
  exit 1
fi
echo "release_runs_anywhere: $program needs glibc $newest and nothing else"

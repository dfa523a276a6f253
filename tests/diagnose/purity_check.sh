#!/bin/sh
# Proves that archives reference nothing that opens a file or socket or reads a clock.
# Usage: purity_check.sh NM ARCHIVE...   Exit: 0 pure, 1 not, 77 nothing could be read (skipped).
nm=$1
shift
# fprintf is not on the list: the formatting library's own assertion writes to stderr and aborts.
forbidden='^(open|openat|open64|creat|fopen|fopen64|fdopen|freopen|opendir|read|pread|pread64|readv'
forbidden="$forbidden|write|pwrite|pwrite64|writev|fread|fwrite|ioctl|mmap"
forbidden="$forbidden|socket|connect|bind|listen|accept|send|sendto|sendmsg|recv|recvfrom|recvmsg"
forbidden="$forbidden|clock_gettime|clock_getres|gettimeofday|time|times|nanosleep|clock_nanosleep"
forbidden="$forbidden|usleep|sleep|system|popen|fork|execve|getenv|secure_getenv|rand|random)\$"
# std::chrono clocks, file streams, std::filesystem, std::random_device
mangled='^_ZNSt6chrono.*3now|_ZNSt.*basic_(i|o)?f(stream|ilebuf)|_ZNSt10filesystem|random_device'
mangled="$mangled|_ZSt4cout|_ZSt4cerr|_ZSt4clog"
status=0
for archive in "$@"; do
  symbols=$("$nm" --undefined-only -P "$archive" 2>/dev/null | awk 'NF >= 2 { print $1 }' |
    sed 's/@.*//' | sort -u)
  if [ -z "$symbols" ]; then
    echo "SKIP: $nm reads no symbol of $archive"
    exit 77
  fi
  found=$(printf '%s\n' "$symbols" | grep -E "$forbidden|$mangled")
  if [ -n "$found" ]; then
    echo "$archive references:"
    printf '%s\n' "$found"
    status=1
  fi
done
exit $status

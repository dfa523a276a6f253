#!/usr/bin/env bash
# The rules of diagnose/ are pure: the object code may call nothing that opens a file or a socket,
# asks for the time, reads the environment, or prints.
# usage: diagnose_is_pure.sh LIBRARY
set -euo pipefail

library=${1:?usage: diagnose_is_pure.sh LIBRARY}
forbidden='^(open|open64|openat|openat64|creat|fopen|fopen64|read|pread|pread64|write|pwrite64|readv'
forbidden+='|writev|socket|connect|bind|send|sendto|sendmsg|recv|recvfrom|recvmsg|ioctl|syscall'
forbidden+='|process_vm_readv|opendir|readdir|readdir64|stat|stat64|fstat|lstat|access|readlink'
forbidden+='|clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|getenv|secure_getenv|system|popen'
forbidden+='|fork|execve|kill|getpid|pthread_create|printf|puts|putchar|fwrite|fputs|fprintf|vfprintf'
forbidden+='|__printf_chk|__fprintf_chk|rand|random|getrandom)$'
forbidden_cxx='std::chrono::.*::now\(|std::(basic_)?(i|o)?f?stream|std::filesystem|std::random_device'
forbidden_cxx+='|std::thread|rung::(unix|mono|boot)_now_ns|rung::read_file|rung::list_folder'
forbidden_cxx+='|rung::read_link|rung::write_file_atomically|std::cout|std::cerr'

undefined=$(nm -u "$library" | awk '$1 == "U" {sub(/@.*/, "", $2); print $2}' | sort -u)
[ -n "$undefined" ] || { echo "diagnose_is_pure: no symbols in $library"; exit 1; }
if found=$(grep -E "$forbidden" <<<"$undefined") ||
   found=$(c++filt <<<"$undefined" | grep -E "$forbidden_cxx"); then
  echo "diagnose_is_pure: $library calls:"
  echo "$found"
  exit 1
fi
echo "diagnose_is_pure: $(wc -l <<<"$undefined") foreign symbols, none forbidden"

// Where the integer and pointer arguments of a C call lie at its first instruction. Shared by the
// eBPF programs (which read them) and by tests.
//
// x86-64: System V ABI, section 3.2.3. Six registers, then the stack above the return address.
// aarch64: AAPCS64, section 6.8. Eight registers, then the stack. A composite larger than 16 bytes
// (ncclUniqueId, 128 bytes) is passed by value on the x86-64 stack, by reference on aarch64.
#pragma once

#if defined(__TARGET_ARCH_x86) || (!defined(__TARGET_ARCH_arm64) && defined(__x86_64__))

#define RUNG_ABI_REGISTERS struct pt_regs
#define RUNG_ABI_REGISTER_ARGUMENTS 6
#define RUNG_ABI_FIRST_STACK_OFFSET 8
#define RUNG_ABI_BIG_STRUCT_ON_STACK 1
#define RUNG_ABI_ARGUMENT_0(regs) ((regs)->rdi)
#define RUNG_ABI_ARGUMENT_1(regs) ((regs)->rsi)
#define RUNG_ABI_ARGUMENT_2(regs) ((regs)->rdx)
#define RUNG_ABI_ARGUMENT_3(regs) ((regs)->rcx)
#define RUNG_ABI_ARGUMENT_4(regs) ((regs)->r8)
#define RUNG_ABI_ARGUMENT_5(regs) ((regs)->r9)
#define RUNG_ABI_STACK_POINTER(regs) ((regs)->rsp)

#elif defined(__TARGET_ARCH_arm64) || defined(__aarch64__)

#define RUNG_ABI_REGISTERS struct user_pt_regs
#define RUNG_ABI_REGISTER_ARGUMENTS 8
#define RUNG_ABI_FIRST_STACK_OFFSET 0
#define RUNG_ABI_BIG_STRUCT_ON_STACK 0
#define RUNG_ABI_ARGUMENT_0(regs) ((regs)->regs[0])
#define RUNG_ABI_ARGUMENT_1(regs) ((regs)->regs[1])
#define RUNG_ABI_ARGUMENT_2(regs) ((regs)->regs[2])
#define RUNG_ABI_ARGUMENT_3(regs) ((regs)->regs[3])
#define RUNG_ABI_ARGUMENT_4(regs) ((regs)->regs[4])
#define RUNG_ABI_ARGUMENT_5(regs) ((regs)->regs[5])
#define RUNG_ABI_ARGUMENT_6(regs) ((regs)->regs[6])
#define RUNG_ABI_ARGUMENT_7(regs) ((regs)->regs[7])
#define RUNG_ABI_STACK_POINTER(regs) ((regs)->sp)

#else
#error "no argument map for this architecture"
#endif

//! The entry point for Limine: 64-bit mode, on Limine's tables and stack. Switches to the boot
//! stack and calls [`boot::enter_from_limine`].

use super::boot;
use arch_boot::limine::EntryPointRequest;
use core::arch::global_asm;

unsafe extern "C" {
    safe fn limine_start() -> !;
}

#[used]
#[unsafe(link_section = ".limine_requests")]
static ENTRY: EntryPointRequest = EntryPointRequest::new().with_entry_point(from_limine);

/// The entry point with the signature that the protocol's bindings require.
extern "C" fn from_limine() -> ! {
    limine_start()
}

global_asm!(
    r#"
    .pushsection .text.boot, "ax"
    .globl limine_start
limine_start:
    movq $boot_stack_top, %rsp
    xorl %ebp, %ebp
    pushq $0
    pushq $0
    callq {enter_from_limine}
    ud2
    .popsection
    "#,
    enter_from_limine = sym boot::enter_from_limine,
    options(att_syntax)
);

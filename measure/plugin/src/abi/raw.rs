//! The declarations themselves. Names that begin with `qemu_` are as documented.
use super::{Block, Id, OnAccess, OnExecution};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `qemu_info_t`.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_current: c_int,
    pub system_emulation: bool,
    pub smp_cpus: c_int,
    pub max_cpus: c_int,
}

/// `qemu_plugin_u64`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Entry {
    pub scoreboard: *mut c_void,
    pub offset: usize,
}

/// `qemu_plugin_mem_value`: the first word of `data` has what is no longer than that.
#[repr(C)]
pub struct Value {
    pub kind: c_uint,
    pub data: [u64; 2],
}

/// `QEMU_PLUGIN_MEM_VALUE_U64`.
pub const VALUE_U64: c_uint = 3;

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const INLINE_ADD: c_uint = 0;

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub struct Descriptor {
    pub handle: *mut c_void,
    pub name: *const c_char,
    pub feature: *const c_char,
}

/// GLib's `GArray` and `GByteArray`: what the documentation of GLib calls public of both.
#[repr(C)]
pub struct Array {
    pub data: *mut u8,
    pub length: c_uint,
}

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: extern "C" fn(Id, c_uint));
    pub fn qemu_plugin_get_registers() -> *mut Array;
    pub fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array) -> c_int;
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        callback: OnExecution,
        sees: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: OnExecution,
        sees: c_uint,
        data: *mut c_void,
    );
    pub fn g_array_get_element_size(array: *mut Array) -> c_uint;
    pub fn g_array_free(array: *mut Array, with_elements: c_int) -> *mut c_char;
    pub fn g_byte_array_new() -> *mut Array;
    pub fn g_byte_array_free(array: *mut Array, with_bytes: c_int) -> *mut u8;
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: extern "C" fn(Id, Block));
    pub fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const c_void, at: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    pub fn qemu_plugin_insn_data(
        instruction: *const c_void,
        to: *mut c_void,
        length: usize,
    ) -> usize;
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        instruction: *mut c_void,
        operation: c_uint,
        entry: Entry,
        operand: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_inline_per_vcpu(
        instruction: *mut c_void,
        direction: c_uint,
        operation: c_uint,
        entry: Entry,
        operand: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        callback: OnAccess,
        sees: c_uint,
        direction: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(access: u32) -> bool;
    pub fn qemu_plugin_mem_get_value(access: u32) -> Value;
    pub fn qemu_plugin_get_hwaddr(access: u32, address: u64) -> *const c_void;
    pub fn qemu_plugin_hwaddr_is_io(at: *const c_void) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(at: *const c_void) -> u64;
    pub fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut c_void;
    pub fn qemu_plugin_u64_get(entry: Entry, cpu: c_uint) -> u64;
    pub fn qemu_plugin_num_vcpus() -> c_int;
}

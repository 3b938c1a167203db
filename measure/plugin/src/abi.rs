//! QEMU's plugin interface, version 4 (QEMU 10.0), declared from its published documentation
//! ("QEMU TCG Plugins", section "API"; why: `docs/decisions/0013*`), behind functions that are safe
//! to call. Foreign functions are only here and in the modules below.
//!
//! What QEMU passes to a callback is valid until the callback returns. The types here that stand
//! for it cannot be copied, and borrow from their block.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

mod raw;
mod registers;
mod shared;

pub use registers::{Registers, on_cpu};
pub use shared::Shared;

/// The version that this plugin was written for; QEMU reads it before it calls anything.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 4;

/// The number by which QEMU knows the plugin.
pub type Id = u64;

/// Of the machine that starts.
pub struct Target {
    /// Its architecture, as in the emulator's name.
    pub name: String,
    /// CPUs at most; 0 when there is no machine but a program.
    pub cpus: usize,
}

/// What QEMU calls when it loads the plugin. 0: it may start.
///
/// # Safety
///
/// QEMU passes a description that is valid during the call, and so many C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const raw::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description, whose name is a C string.
    let target = unsafe {
        let info = &*info;
        Target {
            name: text(info.target_name),
            cpus: if info.system_emulation {
                info.max_cpus.max(0) as usize
            } else {
                0
            },
        }
    };
    let words = (0..argc.max(0) as usize)
        // SAFETY: QEMU passes `argc` valid C strings.
        .map(|at| unsafe { text(*argv.add(at)) });
    match crate::install(id, &target, &words.collect::<Vec<_>>()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("quire-plugin: {error}");
            1
        }
    }
}

/// # Safety
///
/// `text` is a C string.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: by the caller.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Calls `callback` when a block has been translated.
pub fn on_translation(id: Id, callback: extern "C" fn(Id, Block)) {
    // SAFETY: the callback has the type that QEMU calls, and is never unloaded before QEMU ends.
    unsafe { raw::qemu_plugin_register_vcpu_tb_trans_cb(id, callback) }
}

/// A word as QEMU hands it to callbacks.
fn data(word: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(word as usize)
}

/// A block of instructions that was translated: QEMU's handle.
#[repr(transparent)]
pub struct Block(*mut c_void);

impl Block {
    /// Calls `callback` with `word` before each execution.
    pub fn on_execution(&self, sees: Sees, callback: OnExecution, word: u64) {
        let (sees, data) = (sees as c_uint, data(word));
        // SAFETY: the handle is valid during the callback that it was passed to; the callback has
        // the type that QEMU calls, and nothing is behind its last argument.
        unsafe { raw::qemu_plugin_register_vcpu_tb_exec_cb(self.0, callback, sees, data) }
    }

    /// Its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'_>> {
        // SAFETY: the handle is valid during the callback that it was passed to.
        let count = unsafe { raw::qemu_plugin_tb_n_insns(self.0) };
        (0..count).map(|at| {
            // SAFETY: as above, and the index is in range.
            let handle = unsafe { raw::qemu_plugin_tb_get_insn(self.0, at) };
            Instruction(handle, PhantomData)
        })
    }
}

/// An instruction of a block.
pub struct Instruction<'a>(*mut c_void, PhantomData<&'a Block>);

/// Which accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Loads.
    Loads = 1,
    /// Stores.
    Stores = 2,
    /// Both.
    Both = 3,
}

/// Called after an access, with the CPU, what is known of it, its virtual address, and the word
/// that was registered with it.
pub type OnAccess = extern "C" fn(c_uint, Access, u64, *mut c_void);

/// What a callback may look at; less is quicker.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Sees {
    /// Nothing of the CPU.
    Nothing = 0,
    /// Its registers.
    Registers = 1,
}

/// Called before an execution, with the CPU and the word that was registered with it.
pub type OnExecution = extern "C" fn(c_uint, *mut c_void);

impl Instruction<'_> {
    /// Calls `callback` with `word` before each execution.
    pub fn on_execution(&self, sees: Sees, callback: OnExecution, word: u64) {
        let (sees, data) = (sees as c_uint, data(word));
        // SAFETY: as in `on_access`.
        unsafe { raw::qemu_plugin_register_vcpu_insn_exec_cb(self.0, callback, sees, data) }
    }

    /// Its virtual address.
    pub fn pc(&self) -> u64 {
        // SAFETY: the handle is valid during the callback, which `self` does not outlive.
        unsafe { raw::qemu_plugin_insn_vaddr(self.0) }
    }

    /// Its bytes, at most 16.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; 16]) -> &'b [u8] {
        let pointer = buffer.as_mut_ptr().cast();
        // SAFETY: as in `pc`; QEMU writes no more than the length of the buffer.
        let length = unsafe { raw::qemu_plugin_insn_data(self.0, pointer, buffer.len()) };
        &buffer[..length]
    }

    /// Adds 1 to a counter of the CPU before each execution.
    pub fn count(&self, counter: Counter) {
        // SAFETY: as in `pc`; the counter is one of a scoreboard that is never freed.
        unsafe {
            raw::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                self.0,
                raw::INLINE_ADD,
                counter.0,
                1,
            )
        }
    }

    /// Adds 1 to a counter of the CPU after each access.
    pub fn count_accesses(&self, direction: Direction, counter: Counter) {
        // SAFETY: as in `count`.
        unsafe {
            raw::qemu_plugin_register_vcpu_mem_inline_per_vcpu(
                self.0,
                direction as c_uint,
                raw::INLINE_ADD,
                counter.0,
                1,
            )
        }
    }

    /// Calls `callback` with `word` after each access.
    pub fn on_access(&self, direction: Direction, sees: Sees, callback: OnAccess, word: u64) {
        let (sees, data) = (sees as c_uint, data(word));
        // SAFETY: as in `pc`; the callback has the type that QEMU calls, and nothing is behind its
        // last argument.
        unsafe {
            raw::qemu_plugin_register_vcpu_mem_cb(self.0, callback, sees, direction as c_uint, data)
        }
    }
}

/// What QEMU knows of an access; valid during the callback.
#[repr(transparent)]
pub struct Access(u32);

impl Access {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        // SAFETY: QEMU made this, for the callback that has it.
        1 << unsafe { raw::qemu_plugin_mem_size_shift(self.0) }
    }

    /// Whether it wrote.
    pub fn is_store(&self) -> bool {
        // SAFETY: as in `bytes`.
        unsafe { raw::qemu_plugin_mem_is_store(self.0) }
    }

    /// What was read or written, if it has 8 bytes.
    pub fn word(&self) -> Option<u64> {
        // SAFETY: as in `bytes`.
        let value = unsafe { raw::qemu_plugin_mem_get_value(self.0) };
        (value.kind == raw::VALUE_U64).then_some(value.data[0])
    }

    /// Its physical address, if that is RAM.
    pub fn physical(&self, address: u64) -> Option<u64> {
        // SAFETY: as in `bytes`, and what it returns is valid for as long.
        unsafe {
            let at = raw::qemu_plugin_get_hwaddr(self.0, address);
            let is_ram = !at.is_null() && !raw::qemu_plugin_hwaddr_is_io(at);
            is_ram.then(|| raw::qemu_plugin_hwaddr_phys_addr(at))
        }
    }
}

/// An array of bytes for each CPU, which translated code can add to without a call.
pub struct Scoreboard(*mut c_void);

// SAFETY: QEMU lets any thread read and write a scoreboard's words.
unsafe impl Send for Scoreboard {}
// SAFETY: as above.
unsafe impl Sync for Scoreboard {}

/// A word of a scoreboard.
#[derive(Clone, Copy)]
pub struct Counter(raw::Entry);

impl Scoreboard {
    /// So many bytes for each CPU, all 0. They stay until QEMU ends.
    pub fn new(bytes: usize) -> Scoreboard {
        // SAFETY: QEMU allocates, or ends.
        Scoreboard(unsafe { raw::qemu_plugin_scoreboard_new(bytes) })
    }

    /// The word at an offset in bytes, which is in range.
    pub fn counter(&self, offset: usize) -> Counter {
        Counter(raw::Entry {
            scoreboard: self.0,
            offset,
        })
    }
}

impl Counter {
    /// Its value for a CPU that the machine has.
    pub fn get(self, cpu: usize) -> u64 {
        // SAFETY: the scoreboard is never freed; it has an entry for each CPU.
        unsafe { raw::qemu_plugin_u64_get(self.0, cpu as c_uint) }
    }
}

/// How many CPUs have started so far.
pub fn cpus() -> usize {
    // SAFETY: it takes nothing.
    unsafe { raw::qemu_plugin_num_vcpus() }.max(0) as usize
}

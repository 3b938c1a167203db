//! Registers of a CPU, by their names in gdb.
use super::{Id, raw, text};
use std::collections::HashMap;
use std::ffi::{c_uint, c_void};

/// Calls `callback` when a CPU has been made, on its thread.
pub fn on_cpu(id: Id, callback: extern "C" fn(Id, c_uint)) {
    // SAFETY: the callback has the type that QEMU calls, and is never unloaded before QEMU ends.
    unsafe { raw::qemu_plugin_register_vcpu_init_cb(id, callback) }
}

/// QEMU's handles for the registers of a CPU.
pub struct Registers(HashMap<String, *mut c_void>);

// SAFETY: a handle is a number to QEMU, and valid on any thread.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    /// Those of the CPU whose callback this is.
    pub fn of_this_cpu() -> Registers {
        // SAFETY: QEMU returns an array of descriptors with C strings for names, each of which
        // lives as long as QEMU; the array is this caller's to free. It says itself how far apart
        // they are, which a later version may change.
        unsafe {
            let array = raw::qemu_plugin_get_registers();
            let stride = raw::g_array_get_element_size(array) as usize;
            let descriptor = |at: usize| {
                let descriptor = &*(*array).data.add(at * stride).cast::<raw::Descriptor>();
                (text(descriptor.name), descriptor.handle)
            };
            let registers = (0..(*array).length as usize).map(descriptor).collect();
            raw::g_array_free(array, 1);
            Registers(registers)
        }
    }

    /// The value of one, in a callback of its CPU that may read registers; 0 when there is none of
    /// this name.
    pub fn read(&self, name: &str) -> u64 {
        let Some(handle) = self.0.get(name) else {
            return 0;
        };
        // SAFETY: the handle is QEMU's, and the bytes are this caller's until they are freed.
        unsafe {
            let array = raw::g_byte_array_new();
            raw::qemu_plugin_read_register(*handle, array);
            let length = ((*array).length as usize).min(8);
            let mut bytes = [0; 8];
            if length > 0 {
                std::ptr::copy_nonoverlapping((*array).data, bytes.as_mut_ptr(), length);
            }
            raw::g_byte_array_free(array, 1);
            u64::from_le_bytes(bytes)
        }
    }
}

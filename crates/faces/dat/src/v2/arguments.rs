//! A `va_list`: the arguments of `dat_extension_op` behind the handle and the operation, as the registry hands them on.
//!
//! Read by the rules of the machine's C calling convention, since Rust has no type for it. Every argument of the extensions is
//! an integer, a pointer or a word of eight bytes, which all travel alike.

use core::ffi::c_void;

/// The list, as the convention lays it out.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
pub(crate) struct VaList {
    /// Bytes of `reg_save_area` that are used up; from 48 on there is no general register left.
    gp_offset: u32,
    fp_offset: u32,
    /// Arguments on the stack.
    overflow_arg_area: *mut c_void,
    reg_save_area: *mut c_void,
}

/// The list, as the convention lays it out.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
pub(crate) struct VaList {
    /// Arguments on the stack.
    stack: *mut c_void,
    /// End of the saved general registers.
    gr_top: *mut c_void,
    vr_top: *mut c_void,
    /// Distance from `gr_top` to the next one; from 0 on there is none left.
    gr_offs: i32,
    vr_offs: i32,
}

impl VaList {
    /// The next argument of up to eight bytes; of a smaller one the upper bits mean nothing.
    ///
    /// # Safety
    /// The list was begun by C and has such an argument left.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn word(&mut self) -> u64 {
        const END: u32 = 48;
        if self.gp_offset < END {
            // SAFETY: the registers' area has room for six words, of which this is one that is left.
            let word = unsafe { self.reg_save_area.byte_add(self.gp_offset as usize).cast::<u64>().read() };
            self.gp_offset += 8;
            return word;
        }
        // SAFETY: the caller says that there is one, and it is not in a register.
        let word = unsafe { self.overflow_arg_area.cast::<u64>().read() };
        self.overflow_arg_area = self.overflow_arg_area.wrapping_byte_add(8);
        word
    }

    /// The next argument of up to eight bytes; of a smaller one the upper bits mean nothing.
    ///
    /// # Safety
    /// The list was begun by C and has such an argument left.
    #[cfg(target_arch = "aarch64")]
    pub(crate) unsafe fn word(&mut self) -> u64 {
        if self.gr_offs < 0 {
            // SAFETY: the saved registers end at `gr_top`, and this is one that is left.
            let word = unsafe { self.gr_top.byte_offset(self.gr_offs as isize).cast::<u64>().read() };
            self.gr_offs += 8;
            return word;
        }
        // SAFETY: the caller says that there is one, and it is not in a register.
        let word = unsafe { self.stack.cast::<u64>().read() };
        self.stack = self.stack.wrapping_byte_add(8);
        word
    }

    /// The next argument as a number of 32 bits.
    ///
    /// # Safety
    /// As for [`VaList::word`].
    pub(crate) unsafe fn number(&mut self) -> u32 {
        // SAFETY: the caller's promise.
        (unsafe { self.word() }) as u32
    }

    /// The next argument as a pointer.
    ///
    /// # Safety
    /// As for [`VaList::word`].
    pub(crate) unsafe fn pointer(&mut self) -> *const c_void {
        // SAFETY: the caller's promise.
        core::ptr::with_exposed_provenance(unsafe { self.word() } as usize)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_registers_first_and_then_from_the_stack() {
        let mut registers = [1u64, 2, 3, 4, 5, 6];
        let mut stack = [7u64, 0xffff_ffff_0000_0008, 9];
        let mut list = VaList {
            gp_offset: 32, // Four were named before.
            fp_offset: 48,
            overflow_arg_area: stack.as_mut_ptr().cast(),
            reg_save_area: registers.as_mut_ptr().cast(),
        };
        // SAFETY: five words are left, two in registers.
        unsafe {
            assert_eq!([list.word(), list.word(), list.word()], [5, 6, 7]);
            assert_eq!(list.number(), 8);
            assert_eq!(list.pointer().addr(), 9);
        }
    }
}

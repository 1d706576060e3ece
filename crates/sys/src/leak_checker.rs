//! The leak checker of AddressSanitizer, where the program has it.

/// Has it look for pointers in memory that it does not know: what only they lead to is not lost. Ranges stay known.
#[cfg(target_arch = "x86_64")]
pub fn tell_leak_checker(address: usize, length: usize) {
    use std::ffi::c_void;

    let function: usize;
    // SAFETY: one load of the place where the loader puts the function's address, or 0 if nobody has it.
    unsafe {
        core::arch::asm!(
            ".weak __lsan_register_root_region",
            "mov {}, qword ptr [rip + __lsan_register_root_region@GOTPCREL]",
            out(reg) function, options(nostack, preserves_flags, pure, readonly)
        );
    }
    if function != 0 {
        // SAFETY: its signature in `sanitizer/lsan_interface.h`. It takes note of numbers.
        unsafe {
            let register = std::mem::transmute::<usize, extern "C" fn(*const c_void, usize)>(function);
            register(address as *const c_void, length);
        }
    }
}

/// Other machines' checkers are not told.
#[cfg(not(target_arch = "x86_64"))]
pub fn tell_leak_checker(_: usize, _: usize) {}

//! Waiting that does not sleep.

/// Tells the CPU that this is a spin loop.
#[inline]
pub fn cpu_relax() {
    std::hint::spin_loop();
}

/// Lets another runnable thread of this CPU go first.
pub fn yield_now() {
    std::thread::yield_now();
}

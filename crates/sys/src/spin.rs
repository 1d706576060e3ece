//! Waiting that does not sleep.

/// Tells the CPU that this is a spin loop.
#[inline]
pub fn cpu_relax() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Lets another runnable thread of this CPU go first.
pub fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

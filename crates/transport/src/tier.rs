//! Ways bytes may take, from the slowest to the fastest.

/// The best way bytes may take to a peer; each is a limit, never a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Through the ring only; the receiver places every byte.
    Ring,
    /// Also by the kernel (`process_vm_readv`, `process_vm_writev`).
    Kernel,
    /// Also by the CPU, in memory both have mapped.
    Mapped,
}

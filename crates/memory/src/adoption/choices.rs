//! What whoever adopts may choose.

/// When to adopt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdoptionPolicy {
    /// Where it pays.
    #[default]
    Auto,
    /// Also where it does not pay, as long as it is safe.
    Always,
    /// Never.
    Never,
}

/// Whether peers have any use for a region's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Peers write, read or change it themselves.
    Remote,
    /// Only this process's own requests use it; peers fetch large sends from it.
    Local,
    /// Peers map the pages, which stay theirs whatever the program does with the addresses. Memory that the program keeps out of
    /// children or core dumps is adopted too, and stays out of them; and so is memory with code.
    Window,
}

/// What holds the program's other threads back while pages are switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shield {
    /// Nothing if there are none; else the best userfaultfd to be had.
    #[default]
    Best,
    /// A userfaultfd at which system calls wait too, also if there is no other thread.
    Everything,
    /// A userfaultfd as ordinary users get it, also if there is no other thread.
    UserMode,
    /// None is to be had.
    None,
}

//! The ways bytes can take: each line gets the whole suite.

use crate::command::MemoryKind;

/// Where the server is, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The same thread: its commands run when they are given.
    SameThread,
    /// Another thread of the same process.
    OtherThread,
    /// Another process.
    OtherProcess,
}

/// One way.
#[derive(Debug)]
pub(crate) struct Arrangement {
    /// As it stands in the table.
    pub(crate) name: &'static str,
    /// Where the server is.
    pub(crate) server: Place,
    /// Where buffers live unless a rule wants a kind of its own.
    pub(crate) memory: MemoryKind,
    /// Settings of both sides.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

macro_rules! arrangements {
    ($($name:literal: $server:ident, $memory:ident, [$($variable:literal = $value:literal),*];)*) => {
        &[$(Arrangement {
            name: $name,
            server: Place::$server,
            memory: MemoryKind::$memory,
            settings: &[$(($variable, $value)),*],
        }),*]
    };
}

/// Every arrangement. A new tier, wire or face is a line here.
pub(crate) const ARRANGEMENTS: &[Arrangement] = arrangements! {
    "one thread, loopback":        SameThread,   Private, ["NONIC_TIER" = "auto"];
    "threads, loopback":           OtherThread,  Private, ["NONIC_TIER" = "auto"];
    "threads, kernel copy":        OtherThread,  Private, ["NONIC_TIER" = "kernel"];
    "threads, ring":               OtherThread,  Private, ["NONIC_TIER" = "ring"];
    "processes, mapped":           OtherProcess, Shared,  ["NONIC_TIER" = "mapped", "NONIC_PTRACE" = "any"];
    "processes, adopted memory":   OtherProcess, Pages,   ["NONIC_TIER" = "mapped", "NONIC_ADOPT" = "always"];
    "processes, device memory":    OtherProcess, Device,  ["NONIC_TIER" = "mapped", "NONIC_PTRACE" = "any"];
    "processes, kernel copy":      OtherProcess, Private, ["NONIC_TIER" = "kernel", "NONIC_PTRACE" = "any"];
    "processes, ring":             OtherProcess, Private, ["NONIC_TIER" = "ring"];
    "processes, ring, Ethernet":   OtherProcess, Private, ["NONIC_TIER" = "ring", "NONIC_LINK_LAYER" = "ethernet"];
};

impl Arrangement {
    /// The best tier bytes can take here, as the settings name it.
    pub(crate) fn tier(&self) -> &'static str {
        self.settings.iter().find(|(name, _)| *name == "NONIC_TIER").map_or("auto", |(_, value)| value)
    }
}

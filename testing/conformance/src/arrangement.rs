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

/// What is tried on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The device of verbs.
    Device,
    /// The windows of SCIF.
    Windows,
    /// Both.
    Both,
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
    /// What is tried on it.
    subject: Subject,
    /// Settings of both sides.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

macro_rules! arrangements {
    ($($name:literal: $server:ident, $memory:ident, $subject:ident, [$($variable:literal = $value:literal),*];)*) => {
        &[$(Arrangement {
            name: $name,
            server: Place::$server,
            memory: MemoryKind::$memory,
            subject: Subject::$subject,
            settings: &[$(($variable, $value)),*],
        }),*]
    };
}

/// Every arrangement. A new tier, wire or face is a line here.
pub(crate) const ARRANGEMENTS: &[Arrangement] = arrangements! {
    "one thread, loopback":        SameThread,   Private, Both,    ["NONIC_TIER" = "auto"];
    "threads, loopback":           OtherThread,  Private, Both,    ["NONIC_TIER" = "auto"];
    "threads, kernel copy":        OtherThread,  Private, Device,  ["NONIC_TIER" = "kernel"];
    "threads, ring":               OtherThread,  Private, Device,  ["NONIC_TIER" = "ring"];
    "processes, mapped":           OtherProcess, Shared,  Both,    ["NONIC_TIER" = "mapped", "NONIC_PTRACE" = "any"];
    "processes, ordinary ways":    OtherProcess, Shared,  Device,  ["NONIC_TIER" = "mapped", "NONIC_PTRACE" = "any", "NONIC_EXPRESS" = "off"];
    "processes, adopted memory":   OtherProcess, Pages,   Both,    ["NONIC_TIER" = "mapped", "NONIC_ADOPT" = "always"];
    "processes, device memory":    OtherProcess, Device,  Device,  ["NONIC_TIER" = "mapped", "NONIC_PTRACE" = "any"];
    "processes, kernel copy":      OtherProcess, Private, Device,  ["NONIC_TIER" = "kernel", "NONIC_PTRACE" = "any"];
    "processes, ring":             OtherProcess, Private, Device,  ["NONIC_TIER" = "ring"];
    "processes, ring, resting":    OtherProcess, Private, Device,  ["NONIC_TIER" = "ring", "NONIC_REST" = "always"];
    "processes, ring, Ethernet":   OtherProcess, Private, Device,  ["NONIC_TIER" = "ring", "NONIC_LINK_LAYER" = "ethernet"];
    "processes, memory left":      OtherProcess, Private, Windows, ["NONIC_ADOPT" = "never", "NONIC_PTRACE" = "any"];
};

impl Arrangement {
    /// Whether a rule with this id is tried here.
    pub(crate) fn speaks_of(&self, id: &str) -> bool {
        self.subject == Subject::Both || id.starts_with("SCIF-") == (self.subject == Subject::Windows)
    }

    /// Whether private memory stays where it is: then peers reach it by its address, and cannot map it.
    pub(crate) fn leaves_memory(&self) -> bool {
        self.settings.contains(&("NONIC_ADOPT", "never"))
    }

    /// The best tier bytes can take here, as the settings name it.
    pub(crate) fn tier(&self) -> &'static str {
        self.settings.iter().find(|(name, _)| *name == "NONIC_TIER").map_or("auto", |(_, value)| value)
    }
}

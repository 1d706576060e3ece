//! What people are told, once each: no caller can be, since registering, giving back and forking went well for it.

use std::sync::atomic::{AtomicBool, Ordering};

use nonic_sys::say_to_people;

/// Whether people want to be told nothing (`NONIC_LOG=off`).
static SILENT: AtomicBool = AtomicBool::new(false);

/// To be called before anything has to be told: right after a fork a child cannot look.
pub(super) fn learn_whom_to_tell() {
    let silent = std::env::var_os("NONIC_LOG").is_some_and(|level| level == "off");
    SILENT.store(silent, Ordering::Relaxed);
}

/// A line that each process says once.
#[derive(Debug)]
pub(super) struct Line {
    text: &'static str,
    said: AtomicBool,
}

impl Line {
    const fn new(text: &'static str) -> Self {
        Self { text, said: AtomicBool::new(false) }
    }

    /// Says it, unless it was said.
    pub(super) fn say(&self) {
        if !self.said.swap(true, Ordering::Relaxed) && !SILENT.load(Ordering::Relaxed) {
            say_to_people(self.text);
        }
    }
}

/// A child lacks memory.
pub(super) static NOT_IN_CHILD: Line = Line::new(
    "nonic: not all of the memory that the parent had registered could be copied into this child (memory was short, or the \
     child was stopped while it copied): the rest is not mapped here, and touching it ends the child\n",
);

/// Pages stay shared.
pub(super) static NOT_GIVEN_BACK: Line = Line::new(
    "nonic: memory whose region has ended could not be made private again (memory was short): it stays in the file that peers \
     map, and it is tried again whenever a region begins or ends\n",
);

/// Pages stay shared, for a driver's sake.
pub(super) static MAY_BE_HELD: Line = Line::new(
    "nonic: memory whose region has ended stays in the file that peers map, since a device is open whose driver may hold its \
     pages (AF_XDP, RDMA card, GPU, video, vhost, KVM, VFIO); it is made private when a region begins or ends after the \
     device is closed\n",
);

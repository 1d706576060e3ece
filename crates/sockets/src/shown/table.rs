//! The owner's side of the file.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use nonic_sys::{
    PerProcess, Protection, RawFd, SharedMapping, SharedMemory, inode_of_number, write_shown_record,
};

use super::{Course, LENGTH, MAGIC, OWNER, RECORD, RECORDS, SOCKETS_NAME, SocketFacts, TAKEN};
use crate::setting::Taken;
use crate::table::has_place;

#[derive(Debug)]
struct Table {
    mapping: SharedMapping,
    /// Open for as long as it is to be found.
    _memory: SharedMemory,
}

/// A child has a file of its own as soon as it has something to show. `None` where the system gives none: then nothing is shown.
static TABLE: PerProcess<Option<Table>> = PerProcess::new();

impl Table {
    fn create() -> std::io::Result<Self> {
        let memory = SharedMemory::create(SOCKETS_NAME, LENGTH)?.out_of_the_way();
        let mapping = memory.map(Protection::ReadWrite)?;
        // A kernel without this seal (before 5.1) leaves a process of the same user the freedom to write what is only shown.
        let _ = memory.seal_future_writes();
        mapping.word(OWNER).store(u64::from(std::process::id()), Ordering::Relaxed);
        mapping.word(TAKEN).store(crate::setting::taken() as u64, Ordering::Relaxed);
        mapping.word(0).store(MAGIC, Ordering::Release);
        Ok(Self { mapping, _memory: memory })
    }

    fn write(&self, number: RawFd, facts: &SocketFacts) {
        let at = RECORDS + number.cast_unsigned() as usize * RECORD;
        // Of two threads that write at once about one number one is right, and nobody can tell which.
        write_shown_record(&self.mapping, at, &facts.to_words());
    }
}

fn table() -> Option<&'static Table> {
    let make = || Table::create().inspect_err(|error| tracing::debug!(%error, "sockets are not shown")).ok();
    TABLE.get_or_make(make).as_ref()
}

/// The process shows which sockets are taken; what it shows of them comes later.
pub(crate) fn begin() {
    let _ = table();
}

/// Shows which way the socket under a number goes.
pub(crate) fn note(
    number: RawFd,
    course: Course,
    errno: i32,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
) {
    if !has_place(number) {
        return;
    }
    if let (Some(table), Ok(inode)) = (table(), inode_of_number(number)) {
        table.write(number, &SocketFacts { inode, course, errno, source, destination });
    }
}

const _: () = assert!(Taken::All as u64 == 0);

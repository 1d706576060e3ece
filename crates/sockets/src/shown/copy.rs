//! The file as somebody looks at it whose it is not. It is another process's, may be anything, and changes meanwhile: of what is copied only
//! that is used which two copies agree on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nonic_sys::{RawFd, word_of_copy, words_of_shown_record};

use super::{LENGTH, MAGIC, OWNER, RECORD, RECORDS, SocketFacts, TAKEN};
use crate::setting::Taken;
use crate::table::has_place;

/// How often a record that changes is read again.
const ATTEMPTS: usize = 8;

/// What a process shows of its sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSockets {
    /// Its process id, in its own pid namespace. A child holds its parent's file, too.
    pub owner: u32,
    /// Which sockets are taken; `None` if that makes no sense.
    pub taken: Option<Taken>,
    /// What it shows under the numbers asked for, in their order; nothing of those that were never shown, or are changing all the time.
    pub sockets: Vec<SocketFacts>,
}

/// Reads the file of a process, and there the records of these numbers. `InvalidData` if it is none.
pub fn read_sockets(file: &File, numbers: &[RawFd]) -> io::Result<ShownSockets> {
    if file.metadata()?.len() != LENGTH as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut head = [0; TAKEN + 8];
    file.read_exact_at(&mut head, 0)?;
    if word_of_copy(&head, 0) != MAGIC {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let record = |number: &RawFd| has_place(*number).then(|| read_record(file, *number)).flatten();
    Ok(ShownSockets {
        owner: word_of_copy(&head, OWNER) as u32,
        taken: Taken::from_number(word_of_copy(&head, TAKEN)),
        sockets: numbers.iter().filter_map(record).collect(),
    })
}

fn read_record(file: &File, number: RawFd) -> Option<SocketFacts> {
    let at = (RECORDS + number.cast_unsigned() as usize * RECORD) as u64;
    let [mut first, mut second] = [[0; RECORD]; 2];
    file.read_exact_at(&mut first, at).ok()?;
    for _ in 0..ATTEMPTS {
        file.read_exact_at(&mut second, at).ok()?;
        if let Some(words) = words_of_shown_record(&first, &second) {
            return SocketFacts::from_words(words);
        }
        first = second;
    }
    None
}

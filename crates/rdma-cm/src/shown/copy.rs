//! The file as somebody looks at it whose it is not. It is another process's, may be anything, and changes meanwhile: it is copied,
//! and of what is copied only that is used which two copies agree on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nonic_sys::{word_of_copy, words_of_shown_record};

use super::{BEYOND, COUNT, IdentifierFacts, LENGTH, MAGIC, OWNER, RECORD, RECORDS};

/// How often records that change are read again.
const ATTEMPTS: usize = 8;

/// What a process shows of its identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownIdentifiers {
    /// Its process id, in its own pid namespace. A child holds its parent's file, too.
    pub owner: u32,
    /// Those that have a record.
    pub identifiers: Vec<IdentifierFacts>,
    /// How many have none: the file has room for 1,023.
    pub beyond: u64,
}

/// Reads the file of a process. `InvalidData` if it is none; a record that never keeps still is left out.
pub fn read_identifiers(file: &File) -> io::Result<ShownIdentifiers> {
    if file.metadata()?.len() != LENGTH as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let [mut first, mut second] = [vec![0; LENGTH], vec![0; LENGTH]];
    file.read_exact_at(&mut first, 0)?;
    if word_of_copy(&first, 0) != MAGIC {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut found: Vec<Option<Option<IdentifierFacts>>> = vec![None; COUNT];
    for _ in 0..ATTEMPTS {
        file.read_exact_at(&mut second, 0)?;
        for (number, place) in found.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            let range = RECORDS + number * RECORD..RECORDS + (number + 1) * RECORD;
            if let Some(words) = words_of_shown_record(&first[range.clone()], &second[range]) {
                *place = Some(IdentifierFacts::from_words(words));
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
        std::mem::swap(&mut first, &mut second);
    }
    Ok(ShownIdentifiers {
        owner: word_of_copy(&second, OWNER) as u32,
        identifiers: found.into_iter().flatten().flatten().collect(),
        beyond: word_of_copy(&second, BEYOND),
    })
}

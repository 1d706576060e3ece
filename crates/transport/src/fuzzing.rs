//! What the fuzzer calls (`fuzz/`) that is not public otherwise: parsers of what other processes write, over memory that the
//! fuzzer fills.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_memory::KeyTableView;
use nonic_sys::{SharedMapping, SharedMemory};

use crate::codec::FRAGMENT;
use crate::layout::{
    CELL, CELLS, Direction, LINK_LENGTH, MAGIC, PAGE, SEGMENT_KEYS, SEGMENT_LENGTH, SEGMENT_VERSION, VERSION,
};
use crate::ring::{Consumer, RingMemory};
use crate::{read_segment_head, read_segment_regions};

/// Reads a ring whose cells, from the one that the first two bytes say, hold the rest, until there is no message more or one
/// that makes no sense.
pub fn ring(bytes: &[u8]) {
    thread_local! {
        static RING: Arc<SharedMapping> =
            Arc::new(SharedMapping::anonymous(LINK_LENGTH).expect("there is memory"));
    }
    let Some((start, content)) = bytes.split_first_chunk::<2>() else { return };
    let start = u64::from(u16::from_le_bytes(*start)) % CELLS;
    RING.with(|mapping| {
        let fill = |content: &mut dyn Iterator<Item = u64>| {
            let words = CELLS as usize * CELL / 8;
            for (index, value) in content.enumerate().take(words) {
                let word = (start as usize * CELL / 8 + index) % words;
                mapping.word(Direction::FROM_ACTIVE.cells + word * 8).store(value, Ordering::Relaxed);
            }
        };
        let words = || content.as_chunks::<8>().0.iter();
        fill(&mut words().map(|word| u64::from_le_bytes(*word)));
        read(Consumer::at(RingMemory::new(Arc::clone(mapping), Direction::FROM_ACTIVE), start));
        fill(&mut words().map(|_| 0));
    });
}

fn read(mut consumer: Consumer) {
    let mut copy = [0u8; FRAGMENT];
    for _ in 0..2 * CELLS {
        let short = consumer.peek_short().map(|found| {
            let length = found.payload.length();
            found.payload.read(&mut copy[..length]);
            (found.send, length)
        });
        match (consumer.peek(), short) {
            (Ok(Some(found)), None) => {
                let length = found.payload.length();
                found.payload.read(&mut copy[..length]);
            }
            // Both ways in see the same message.
            (Ok(Some(found)), Some((_, length))) => assert_eq!(found.payload.length(), length),
            (Ok(None) | Err(_), None) => return,
            (other, Some(short)) => panic!("a short send ({short:?}) that is no message: {other:?}"),
        }
        consumer.advance();
    }
    panic!("more messages than there are cells");
}

/// Reads a segment of which the head is the first page of `bytes`, behind its mark, and the first keys are the rest.
pub fn segment(bytes: &[u8]) {
    thread_local! {
        static FILE: RefCell<Option<File>> = const { RefCell::new(None) };
    }
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| {
            let memory = SharedMemory::create("fuzzed", SEGMENT_LENGTH).expect("there is memory");
            File::from(memory.into_descriptor())
        });
        let (head, keys) = bytes.split_at(bytes.len().min(PAGE));
        let mut page = [0u8; PAGE];
        page[..head.len()].copy_from_slice(head);
        page[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        page[SEGMENT_VERSION..SEGMENT_VERSION + 8].copy_from_slice(&u64::from(VERSION).to_ne_bytes());
        file.write_all_at(&page, 0).expect("the file takes it");
        let _ = read_segment_head(file);
        if keys.is_empty() {
            return;
        }
        let mut pages = [0u8; 4 * PAGE];
        let length = keys.len().min(pages.len());
        pages[..length].copy_from_slice(&keys[..length]);
        file.write_all_at(&pages[..length.next_multiple_of(PAGE)], SEGMENT_KEYS as u64)
            .expect("the file takes it");
        let found = read_segment_regions(file).expect("the file can be read");
        let entries = length.div_ceil(KeyTableView::ENTRY) as u64;
        assert!(found.regions.len() as u64 + found.senseless <= entries, "no more than were filled");
        let memory =
            SharedMemory::from_unsealed(file.try_clone().expect("a descriptor").into(), SEGMENT_LENGTH);
        memory
            .and_then(|memory| memory.punch(SEGMENT_KEYS as u64, pages.len() as u64))
            .expect("it can be emptied");
    });
}

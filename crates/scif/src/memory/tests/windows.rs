//! Opening and ending windows.

use super::*;
use crate::memory::area::Table;
use crate::memory::record::{Place, Record};

#[test]
fn offsets_are_chosen_from_2_to_the_62_up_and_equal_on_both_sides() {
    let (pair, pages) = (Pair::new(), Pages::new(3));
    for index in 0..3 {
        let expected = FIRST + index * pages.length as i64;
        assert_eq!((pair.open(&pages), pair.open_there(&pages)), (expected, expected));
    }
    pair.close(FIRST + pages.length as i64, pages.length).unwrap();
    assert_eq!(pair.open(&pages), FIRST + pages.length as i64);
    let hint = pair.here.register(pair.fd(), pages.start(), pages.length, FIRST, BOTH, false);
    assert_eq!(hint, Ok(FIRST + 3 * pages.length as i64));
}

#[test]
fn what_no_window_can_be_is_refused_and_nothing_moves() {
    let (pair, pages) = (Pair::new(), Pages::filled(2, 5));
    let before = pages.bytes();
    let (start, length) = (pages.start(), pages.length);
    let open = |address, length, offset, fixed| {
        pair.here.register(pair.fd(), address, length, offset, BOTH, fixed).unwrap_err()
    };
    let page = PAGE as i64;
    for refused in [
        open(start + 1, length, 0, false),
        open(start, length - 1, 0, false),
        open(start, 0, 0, false),
        open(start, length, -page, false),
        open(start, length, -page, true),
        open(start, length, 1, true),
    ] {
        assert!(matches!(refused, ScifError::Invalid(_)), "{refused:?}");
    }
    for (length, offset) in [
        (length, FIRST),
        (length, FIRST - page),
        (PAGE, i64::MAX - page + 1),
        (length, i64::MAX - page + 1),
        (usize::MAX - PAGE + 1, page),
    ] {
        assert_eq!(open(start, length, offset, true), ScifError::OffsetsTaken, "{length:#x} at {offset:#x}");
    }
    assert_eq!(open(start - PAGE, length, 0, false), ScifError::BadMemory { address: start - PAGE });
    assert_eq!(open(start, length + PAGE, 0, false), ScifError::BadMemory { address: start + length });
    assert_eq!(
        open(usize::MAX - PAGE + 1, length, 0, false),
        ScifError::BadMemory { address: usize::MAX - PAGE + 1 }
    );
    pages.protect(libc::PROT_READ);
    assert_eq!(open(start, length, 0, false), ScifError::BadMemory { address: start });
    assert!(!pair.here.has_windows());
    assert_eq!(pair.close(0, length), Err(ScifError::NoWindow));
    assert_eq!(pages.bytes(), before);
    // Nothing took an offset.
    pages.protect(libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(pair.open(&pages), FIRST);
}

#[test]
fn a_fixed_window_replaces_nothing() {
    let (pair, pages) = (Pair::new(), Pages::new(2));
    let page = PAGE as i64;
    assert_eq!(pair.fixed(&pages, 4 * page), Ok(4 * page));
    for taken in [3, 4, 5] {
        assert_eq!(pair.fixed(&pages, taken * page), Err(ScifError::OffsetsTaken));
    }
    assert_eq!(pair.fixed(&pages, 2 * page), Ok(2 * page));
    assert_eq!(pair.fixed(&pages, 6 * page), Ok(6 * page));
    assert_eq!(pair.fixed(&pages, FIRST - 2 * page), Ok(FIRST - 2 * page));
}

#[test]
fn only_whole_windows_are_closed_and_after_a_refusal_all_are_there() {
    let (pair, pages) = (Pair::new(), Pages::filled(2, 1));
    let page = PAGE as i64;
    for at in [0, 2, 6] {
        pair.fixed(&pages, at * page).unwrap();
    }
    let invalid =
        |result: Result<(), ScifError>| assert!(matches!(result, Err(ScifError::Invalid(_))), "{result:?}");
    invalid(pair.close(0, 0));
    invalid(pair.close(1, PAGE));
    invalid(pair.close(0, PAGE - 1));
    invalid(pair.close(-page, PAGE));
    invalid(pair.close(0, PAGE));
    invalid(pair.close(page, 2 * PAGE));
    invalid(pair.close(0, 7 * PAGE));
    assert_eq!(pair.close(4 * page, 2 * PAGE), Err(ScifError::NoWindow));
    assert_eq!(pair.close(i64::MAX - page + 1, 2 * PAGE), Err(ScifError::NoWindow));
    assert_eq!(pair.close(0, usize::MAX - PAGE + 1), Err(ScifError::NoWindow));
    let sink = Pages::new(2);
    for at in [0, 2, 6] {
        pair.there.read_into(sink.start(), sink.length, at * page, SYNC).unwrap();
        assert_eq!(sink.bytes(), pages.bytes());
    }
    // Whole windows with a gap between them.
    pair.close(0, 8 * PAGE).unwrap();
    assert!(!pair.here.has_windows());
    for at in [0, 2, 6] {
        assert_eq!(pair.there.read_into(sink.start(), 8, at * page, SYNC), Err(ScifError::NoWindow));
        pair.fixed(&pages, at * page).unwrap();
    }
}

#[test]
fn a_window_keeps_its_pages_whatever_becomes_of_the_addresses() {
    let (pair, pages, sink) = (Pair::new(), Pages::filled(4, 100), Pages::new(4));
    let old = pages.bytes();
    let first = pair.open(&pages);
    pages.unmap();
    pair.there.read_into(sink.start(), sink.length, first, SYNC).unwrap();
    assert_eq!(sink.bytes(), old);
    pages.replace();
    let second = pair.open(&pages);
    pages.store(8, 4711);
    pair.there.read_into(sink.start(), sink.length, second, SYNC).unwrap();
    assert_eq!((sink.load(0), sink.load(8)), (0, 4711));
    pair.there.read_into(sink.start(), sink.length, first, SYNC).unwrap();
    assert_eq!(sink.bytes(), old, "the first window has its own pages");
    pair.close(first, pages.length).unwrap();
    assert_eq!(pages.load(8), 4711);
    pair.close(second, pages.length).unwrap();
    assert_eq!(pages.load(8), 4711, "memory given back keeps its bytes");
}

#[test]
fn stores_of_both_sides_are_seen_without_a_call() {
    let (pair, pages) = (Pair::new(), Pages::new(1));
    let offset = pair.open(&pages);
    let address = pair.there.map(0, PAGE, BOTH, false, offset).unwrap();
    pages.store(0, 1);
    assert_eq!(word_at(address).load(Ordering::SeqCst), 1);
    word_at(address + 8).store(2, Ordering::SeqCst);
    assert_eq!(pages.load(8), 2);
    crate::memory::unmap(address, PAGE).unwrap();
}

#[test]
fn one_page_is_in_several_windows_of_several_connections() {
    let (one, two, pages, sink) = (Pair::new(), Pair::new(), Pages::filled(2, 7), Pages::new(2));
    let offsets = [one.open(&pages), one.fixed(&pages, 0).unwrap(), two.open(&pages)];
    one.there.write_out(word_source(77), 8, offsets[0] + 8, SYNC).unwrap();
    for (pair, offset) in [(&one, offsets[0]), (&one, offsets[1]), (&two, offsets[2])] {
        pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
        assert_eq!((sink.load(8), sink.load(16)), (77, 9));
    }
    one.close(offsets[0], pages.length).unwrap();
    one.close(offsets[1], pages.length).unwrap();
    two.there.read_into(sink.start(), 16, offsets[2], SYNC).unwrap();
    assert_eq!((sink.load(8), pages.load(8)), (77, 77));
}

fn word_source(value: u64) -> usize {
    Box::leak(Box::new(value)) as *const u64 as usize
}

#[test]
fn every_kind_of_memory_can_be_a_window() {
    let memory = SharedMemory::create("program", 3 * PAGE).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&memory.as_fd());
    let shared = libc::MAP_SHARED;
    for (name, pages, mappable) in [
        ("private", Pages::new(3), true),
        ("a file that is shared", Pages::with(3, shared, number), true),
        ("a file that is private", Pages::with(3, libc::MAP_PRIVATE, number), true),
        ("shared without a file", Pages::with(3, shared | libc::MAP_ANONYMOUS, -1), false),
    ] {
        let (pair, sink) = (Pair::new(), Pages::new(3));
        pages.store(PAGE, 11);
        let offset = pair.open(&pages);
        pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
        assert_eq!(sink.load(PAGE), 11, "{name}");
        pair.there.write_out(word_source(12), 8, offset + 2 * PAGE as i64, SYNC).unwrap();
        assert_eq!(pages.load(2 * PAGE), 12, "{name}");
        match pair.there.map(0, 3 * PAGE, BOTH, false, offset) {
            Ok(address) => {
                assert_eq!(word_at(address + PAGE).load(Ordering::SeqCst), 11, "{name}");
                crate::memory::unmap(address, 3 * PAGE).unwrap();
            }
            // Where the kernel does not open what has no name.
            Err(error) => assert!(!mappable && error == ScifError::NoMemory, "{name}: {error:?}"),
        }
        pages.unmap();
        pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
        assert_eq!((sink.load(PAGE), sink.load(2 * PAGE)), (11, 12), "{name} was unmapped");
        pair.close(offset, 3 * PAGE).unwrap();
    }
}

#[test]
fn several_kinds_of_memory_are_one_window() {
    let memory = SharedMemory::create("program", PAGE).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&memory.as_fd());
    let (pair, pages) = (Pair::new(), Pages::filled(4, 0));
    // SAFETY: the page is the test's.
    unsafe {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        libc::mmap((pages.start() + PAGE) as *mut _, PAGE, rights, flags, number, 0);
    }
    pages.store(PAGE, 21);
    let (offset, sink) = (pair.open(&pages), Pages::new(4));
    pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
    assert_eq!(sink.bytes(), pages.bytes());
    let address = pair.there.map(0, 4 * PAGE, BOTH, false, offset).unwrap();
    for page in 0..4 {
        word_at(address + page * PAGE + 8).store(page as u64 + 50, Ordering::SeqCst);
        assert_eq!(pages.load(page * PAGE + 8), page as u64 + 50);
    }
    crate::memory::unmap(address, 4 * PAGE).unwrap();
    pair.close(offset, 4 * PAGE).unwrap();
    assert_eq!(pages.load(3 * PAGE + 8), 53);
}

#[test]
fn code_can_be_read_and_not_written() {
    let (pair, sink) = (Pair::new(), Pages::new(1));
    let code = (Pair::new as *const () as usize) / PAGE * PAGE;
    let open = |protection| pair.here.register(pair.fd(), code, PAGE, 0, protection, false);
    assert_eq!(open(BOTH), Err(ScifError::BadMemory { address: code }));
    let offset = open(Protection::READ).unwrap();
    pair.there.read_into(sink.start(), PAGE, offset, SYNC).unwrap();
    assert_eq!(sink.load(0), word_at(code).load(Ordering::SeqCst));
    assert_eq!(pair.there.write_out(sink.start(), 8, offset, SYNC), Err(ScifError::Protected));
    let address = pair.there.map(0, PAGE, Protection::READ, false, offset).unwrap();
    assert_eq!(word_at(address).load(Ordering::SeqCst), sink.load(0));
    crate::memory::unmap(address, PAGE).unwrap();
}

#[test]
fn the_stack_is_reached_by_the_kernel_and_cannot_be_mapped() {
    let pair = Pair::new();
    let mut bytes = [0u8; 3 * PAGE];
    let start = (bytes.as_mut_ptr() as usize).next_multiple_of(PAGE);
    word_at(start).store(9, Ordering::SeqCst);
    let offset = pair.here.register(pair.fd(), start, PAGE, 0, BOTH, false).unwrap();
    let sink = Pages::new(1);
    pair.there.read_into(sink.start(), PAGE, offset, SYNC).unwrap();
    assert_eq!(sink.load(0), 9);
    sink.store(16, 10);
    pair.there.write_out(sink.start() + 16, 8, offset + 16, SYNC).unwrap();
    assert_eq!(word_at(start + 16).load(Ordering::SeqCst), 10);
    assert_eq!(pair.there.map(0, PAGE, BOTH, false, offset), Err(ScifError::NoMemory));
}

/// As it is when the owner has become another program, or its number is another process's.
#[test]
fn bytes_of_another_memory_than_the_window_was_opened_in_are_not_copied() {
    let pair = Pair::new();
    let mut bytes = [0u8; 3 * PAGE];
    let start = (bytes.as_mut_ptr() as usize).next_multiple_of(PAGE);
    word_at(start).store(9, Ordering::SeqCst);
    let offset = pair.here.register(pair.fd(), start, PAGE, 0, BOTH, false).unwrap();
    let area = &pair.here.own;
    let line = (0..area.used(Table::Records)).find(|line| area.read_line(Table::Records, *line).is_some());
    let mut words = area.read_line(Table::Records, line.unwrap()).unwrap();
    let record = Record::from_words(words).unwrap();
    let Place::Address { mark, .. } = record.place else { panic!("a stack lies in a file: {record:?}") };
    let at = words.iter().position(|word| *word == mark.value).unwrap();
    words[at] ^= 1;
    area.write_line(Table::Records, line.unwrap(), words);
    let sink = Pages::new(1);
    assert_eq!(pair.there.read_into(sink.start(), 8, offset, SYNC), Err(ScifError::NoWindow));
    assert_eq!(sink.load(0), 0);
    assert_eq!(pair.there.write_out(sink.start(), 8, offset, SYNC), Err(ScifError::NoWindow));
    assert_eq!(word_at(start).load(Ordering::SeqCst), 9);
}

#[test]
fn memory_kept_out_of_children_and_dumps_stays_out_of_them() {
    for pages in [1, 3] {
        let (pair, pages, sink) = (Pair::new(), Pages::filled(pages, 3), Pages::new(pages));
        pages.advise(libc::MADV_DONTFORK);
        pages.advise(libc::MADV_DONTDUMP);
        let flags = || {
            let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let head = format!("{:x}-", pages.start());
            let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
            let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
            (flags.contains(" dc"), flags.contains(" dd"))
        };
        assert_eq!(flags(), (true, true));
        let offset = pair.open(&pages);
        assert_eq!(flags(), (true, true), "while it is a window");
        let address = pair.there.map(0, pages.length, BOTH, false, offset).unwrap();
        word_at(address).store(8, Ordering::SeqCst);
        assert_eq!(pages.load(0), 8);
        crate::memory::unmap(address, pages.length).unwrap();
        pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
        assert_eq!(sink.bytes(), pages.bytes());
        pair.close(offset, pages.length).unwrap();
        assert_eq!((flags(), pages.load(0)), ((true, true), 8), "afterwards");
    }
}

#[test]
fn ten_thousand_windows_are_found() {
    let (pair, pages) = (Pair::new(), Pages::new(1));
    let count = 10_000;
    let offsets: Vec<_> = (0..count).map(|_| pair.open(&pages)).collect();
    assert_eq!(offsets[count - 1], FIRST + (count as i64 - 1) * PAGE as i64);
    for (turn, offset) in offsets.iter().enumerate().step_by(97) {
        pair.there.write_out(word_source(turn as u64), 8, *offset, SYNC).unwrap();
        assert_eq!(pages.load(0), turn as u64);
    }
    // From the middle, one by one and many at a time.
    pair.close(offsets[5000], PAGE).unwrap();
    pair.close(offsets[100], 900 * PAGE).unwrap();
    let mut word = 0u64;
    let mut read = |offset| pair.there.read_into(&raw mut word as usize, 8, offset, SYNC);
    for index in [100, 999, 5000] {
        assert_eq!(read(offsets[index]), Err(ScifError::NoWindow));
    }
    for index in [99, 1000, 4999, 5001, count - 1] {
        read(offsets[index]).unwrap();
    }
    assert_eq!(pair.open(&pages), offsets[100]);
}

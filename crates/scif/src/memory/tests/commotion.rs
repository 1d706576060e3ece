//! Everything at the same time, on one connection.

use super::*;
use crate::Initiator;
use crate::memory::unmap;

/// Places for windows, and memory to open them on.
const PLACES: i64 = 6;
const SPAN: usize = 70;

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn offset_of(place: u64) -> i64 {
    (place as usize * SPAN * PAGE) as i64
}

/// Every word of a span is the number of the memory it was opened on.
fn is_whole(address: usize, length: usize) -> bool {
    let first = word_at(address).load(Ordering::Relaxed);
    let other = (0..length).step_by(8).find(|at| word_at(address + at).load(Ordering::Relaxed) != first);
    if let Some(at) = other.or((!(1..=64).contains(&first)).then_some(0)) {
        let words: Vec<_> =
            (0..length).step_by(PAGE).map(|at| word_at(address + at).load(Ordering::Relaxed)).collect();
        eprintln!("at byte {at} of {length}; the first words of the pages are {words:?}");
        return false;
    }
    true
}

fn is_expected(error: ScifError) -> bool {
    matches!(error, ScifError::NoWindow | ScifError::OffsetsTaken)
}

#[test]
fn threads_and_children_do_everything_at_once_and_every_window_is_whole() {
    let pair = Pair::new();
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let running = || !stop.load(Ordering::Relaxed);
    let opens = |seed: u64| {
        let mut random = Random(seed);
        while running() {
            let number = seed * 8 + random.next(8) + 1;
            let pages = Pages::new(SPAN);
            for at in (0..pages.length).step_by(8) {
                pages.word(at).store(number, Ordering::Relaxed);
            }
            let offset = offset_of(random.next(PLACES as u64));
            match pair.fixed(&pages, offset) {
                Ok(_) => {
                    if random.next(2) == 0 {
                        pages.unmap();
                    }
                    std::thread::sleep(Duration::from_micros(random.next(300)));
                    pair.close(offset, pages.length).unwrap();
                }
                Err(error) => assert!(is_expected(error), "{error:?}"),
            }
        }
    };
    let reads = |seed: u64| {
        let (mut random, sink) = (Random(seed), Pages::new(SPAN));
        while running() {
            let offset = offset_of(random.next(PLACES as u64));
            match pair.there.read_into(sink.start(), sink.length, offset, SYNC) {
                Ok(()) => {
                    assert!(is_whole(sink.start(), sink.length));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(is_expected(error), "{error:?}"),
            }
        }
    };
    let maps = |seed: u64| {
        let mut random = Random(seed);
        while running() {
            let offset = offset_of(random.next(PLACES as u64));
            match pair.there.map(0, SPAN * PAGE, Protection::READ, false, offset) {
                Ok(address) => {
                    assert!(is_whole(address, SPAN * PAGE));
                    // A part first, so that what is left is told anew. The hole may be somebody else's at once.
                    let rest = PAGE * (2 + random.next(3) as usize);
                    unmap(address + PAGE, rest - PAGE).unwrap();
                    assert!(is_whole(address + rest, SPAN * PAGE - rest));
                    unmap(address, PAGE).unwrap();
                    assert!(is_whole(address + rest, SPAN * PAGE - rest));
                    unmap(address + rest, SPAN * PAGE - rest).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(is_expected(error), "{error:?}"),
            }
        }
    };
    let copies_later = || {
        let sink = Pages::new(SPAN);
        let local = pair.open_there(&sink);
        let mut random = Random(99);
        while running() {
            let offset = offset_of(random.next(PLACES as u64));
            match pair.there.read_from(local, sink.length, offset, PLAIN) {
                Ok(()) => {
                    let mark = pair.there.fence_mark(Initiator::Own).unwrap();
                    pair.there.fence_wait(mark).unwrap();
                    assert!(is_whole(sink.start(), sink.length));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(is_expected(error), "{error:?}"),
            }
        }
    };
    let forks = || {
        let mut random = Random(7);
        for _ in 0..12 {
            let place = offset_of(random.next(PLACES as u64));
            let pid = child(|| {
                let sink = Pages::new(SPAN);
                (0..20).all(|_| match pair.there.read_into(sink.start(), sink.length, place, SYNC) {
                    Ok(()) => is_whole(sink.start(), sink.length),
                    Err(error) => is_expected(error),
                })
            });
            std::thread::sleep(Duration::from_millis(20));
            if random.next(3) == 0 {
                // SAFETY: the child is the test's.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                reap(pid);
            } else {
                assert_eq!(reap(pid), 0);
            }
        }
        stop.store(true, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for seed in 1..=3 {
            scope.spawn(move || opens(seed));
        }
        scope.spawn(|| reads(11));
        scope.spawn(|| maps(12));
        scope.spawn(copies_later);
        scope.spawn(forks);
    });
    assert!(done.load(Ordering::Relaxed) > 0);
    for place in 0..PLACES as u64 {
        let pages = Pages::filled(SPAN, 1);
        wait_until("nobody uses the offsets", || pair.fixed(&pages, offset_of(place)).is_ok());
        pair.close(offset_of(place), pages.length).unwrap();
    }
}

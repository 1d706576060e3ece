//! Adopts and gives back under writers, readers by system call, purges, forks and exits, and counts what is lost.
//!
//! `ADOPTIONS` (2,000,000): how many in all. `SHIELD` (`best`, `everything`, `user-mode`): what holds the writers back.
//! `SEED` (1): which regions, in which order. Prints counts and ends with 1 if a byte was lost, or a system call failed where
//! none may.
//!
//! Most regions have 1 to 16 pages, one of 256 has up to 224. Whoever writes gives way to the adopting thread where there are
//! not enough processors for all: so it comes round often, and they wait for it at every page.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use nonic_memory::{Adopter, AdoptionPolicy, Purpose, Shield};

const PAGE: usize = 4096;
/// Pages of the memory that is registered in pieces.
const PAGES: usize = 256;
/// Words of a page: each of the two writers has one, one is for threads that come and go, then come the reader's bytes.
const WRITERS: usize = 2;
const VISITORS: usize = 2;
/// Writes of a thread before it ends.
const VISIT: u64 = 512;
const READ_AT: usize = 2048;
/// Pages at the end that the purger owns: written, forgotten, expected to be zero.
const PURGED: usize = 32;

struct Memory(usize);

impl Memory {
    fn map() -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self(start as usize)
    }

    fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(page < PAGES && word < PAGE / 8);
        // SAFETY: inside the mapping, aligned, used as an atomic only.
        unsafe { AtomicU64::from_ptr((self.0 + page * PAGE + word * 8) as *mut u64) }
    }

    fn sum(&self, word: usize) -> u64 {
        (0..PAGES - PURGED).map(|page| self.word(page, word).load(Relaxed)).sum()
    }
}

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    calls: AtomicU64,
    failed_calls: AtomicU64,
    not_zero: AtomicU64,
    visits: AtomicU64,
    forks: AtomicU64,
    wrong_children: AtomicU64,
}

/// A small generator: the same seed, the same order.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// From now on the calling thread runs when no other wants to.
fn give_way() {
    // SAFETY: no memory is touched.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Counts in its own word of every page by plain loads and stores, and returns how often.
fn write(memory: &Memory, counts: &Counts, word: usize, most: u64) -> u64 {
    give_way();
    let mut random = Random(word as u64 + 1 + most);
    let mut done = 0;
    while done < most && !counts.stop.load(Relaxed) {
        let word = memory.word(random.below(PAGES - PURGED), word);
        word.store(word.load(Relaxed) + 1, Relaxed);
        done += 1;
    }
    done
}

/// Threads that count and end, one after the other; returns how often they counted.
fn visit(memory: &Memory, counts: &Counts) -> u64 {
    give_way();
    let mut done = 0;
    while !counts.stop.load(Relaxed) {
        done += std::thread::scope(|scope| {
            let visitor = scope.spawn(|| write(memory, counts, VISITORS, VISIT));
            visitor.join().expect("a visitor only writes")
        });
        counts.visits.fetch_add(1, Relaxed);
    }
    done
}

fn read(memory: &Memory, counts: &Counts) {
    give_way();
    use std::os::fd::AsRawFd;
    let zeros = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let mut random = Random(77);
    while !counts.stop.load(Relaxed) {
        let at = memory.0 + random.below(PAGES - PURGED) * PAGE + READ_AT;
        // SAFETY: the second half of a page of the memory, which nobody else uses.
        let done = unsafe { libc::read(zeros.as_raw_fd(), at as *mut libc::c_void, PAGE - READ_AT) };
        counts.calls.fetch_add(1, Relaxed);
        counts.failed_calls.fetch_add(u64::from(done != (PAGE - READ_AT) as isize), Relaxed);
    }
}

/// Registers and gives back alone, then purges: what it gave back must read as zeros.
fn purge(memory: &Memory, adopter: &Adopter, counts: &Counts, round: u64) {
    let first = PAGES - PURGED;
    let page = first + round as usize % PURGED;
    // SAFETY: own pages; nobody holds a reference.
    unsafe { libc::madvise((memory.0 + page * PAGE) as *mut libc::c_void, PAGE, libc::MADV_DONTNEED) };
    counts.not_zero.fetch_add(u64::from(memory.word(page, 5).load(Relaxed) != 0), Relaxed);
    memory.word(page, 5).store(round | 1, Relaxed);
    let adoption = adopter.adopt(memory.0 + page * PAGE, PAGE, Purpose::Remote);
    adopter.give_back(adoption, false);
    counts.not_zero.fetch_add(u64::from(memory.word(page, 5).load(Relaxed) != round | 1), Relaxed);
}

/// Forks while pages are adopted: what the child writes must not come back, and its own words must stay.
fn fork(memory: &Memory, counts: &Counts, round: u64) {
    let word = memory.word(PAGES - 1, 9);
    word.store(round, Relaxed);
    // SAFETY: the child uses atomics and leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let same = word.load(Relaxed) == round;
            for page in 0..PAGES {
                memory.word(page, 11).store(u64::MAX, Relaxed);
            }
            libc::_exit(i32::from(!same));
        }
        word.store(round + 1, Relaxed);
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        let leaked = (0..PAGES).any(|page| memory.word(page, 11).load(Relaxed) != 0);
        let wrong = pid < 0 || status != 0 || leaked;
        counts.wrong_children.fetch_add(u64::from(wrong), Relaxed);
    }
    counts.forks.fetch_add(1, Relaxed);
}

fn main() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (wanted, seed) = (number("ADOPTIONS").unwrap_or(2_000_000), number("SEED").unwrap_or(1));
    let shield = match std::env::var("SHIELD").as_deref() {
        Ok("everything") => Shield::Everything,
        Ok("user-mode") => Shield::UserMode,
        _ => Shield::Best,
    };
    let adopter = Adopter::new(AdoptionPolicy::Always);
    adopter.set_shield(shield);
    let (memory, counts, begin) = (Memory::map(), Counts::default(), Instant::now());
    let (mut adoptions, mut plain, mut written, mut lost) = (0u64, 0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        let (memory, counts) = (&memory, &counts);
        let writers: Vec<_> =
            (0..WRITERS).map(|word| scope.spawn(move || write(memory, counts, word, u64::MAX))).collect();
        let visitors = scope.spawn(|| visit(memory, counts));
        scope.spawn(|| read(memory, counts));
        let mut random = Random(seed);
        let mut live = std::collections::VecDeque::new();
        while adoptions < wanted {
            let first = random.below(PAGES - PURGED);
            let most = if adoptions % 256 == 255 { PAGES } else { 1 << random.below(5) };
            let pages = 1 + random.below(most).min(PAGES - PURGED - first - 1);
            let adoption = adopter.adopt(memory.0 + first * PAGE, pages * PAGE, Purpose::Remote);
            plain += u64::from(adoption.pages.is_none());
            live.push_back(adoption);
            if live.len() > random.below(8)
                && let Some(oldest) = live.pop_front()
            {
                adopter.give_back(oldest, false);
            }
            adoptions += 1;
            if adoptions % 64 == 0 {
                purge(memory, &adopter, counts, adoptions);
            }
            if adoptions % 4096 == 0 {
                fork(memory, counts, adoptions);
            }
        }
        live.into_iter().for_each(|adoption| adopter.give_back(adoption, false));
        counts.stop.store(true, Relaxed);
        for (word, writer) in writers.into_iter().chain([visitors]).enumerate() {
            let done = writer.join().expect("a writer only writes");
            written += done;
            lost += done - memory.sum(word).min(done);
        }
    });
    let failed = counts.failed_calls.load(Relaxed);
    println!(
        "{shield:?}: {adoptions} adoptions ({plain} left plain) in {:.0} s, {lost} of {written} writes lost, {failed} of {} system \
         calls failed with EFAULT, {} threads ended, {} pages not zero after MADV_DONTNEED or not kept, {} forks of which {} went wrong",
        begin.elapsed().as_secs_f64(),
        counts.calls.load(Relaxed),
        counts.visits.load(Relaxed),
        counts.not_zero.load(Relaxed),
        counts.forks.load(Relaxed),
        counts.wrong_children.load(Relaxed),
    );
    let wrong = lost + plain + counts.not_zero.load(Relaxed) + counts.wrong_children.load(Relaxed);
    if wrong > 0 || (shield == Shield::Everything && failed > 0) {
        std::process::exit(1);
    }
}

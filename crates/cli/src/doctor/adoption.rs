//! Whether ordinary memory can be moved to where peers map it: tried in a process of its own, with another thread running.

use std::process::ExitCode;
use std::sync::mpsc::channel;

use nonic_memory::{AdoptedPages, Adopter, AdoptionPolicy, PlainReason, Purpose};
use nonic_sys::{Protection, Reach, SharedMemory, Userfault};
use rustix::process::Resource;
use serde::{Deserialize, Serialize};

use super::inspect::words;
use super::peer::ask_helper;
use super::report::Line;
use crate::verbs::Buffer;

/// Pages that are tried.
const PAGES: usize = 4;
const PAGE: usize = 4096;
/// Bytes of an aperture onto a peer's pages, and of one where there is less room.
const APERTURES: [u64; 2] = [64 << 30, 1 << 30];

/// What the helper process saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Seen {
    /// Why no userfaultfd is to be had at which everybody waits.
    full_refused: Option<String>,
    /// Why none of ordinary users is to be had.
    user_mode_refused: Option<String>,
    file_limit: Option<u64>,
    address_limit: Option<u64>,
    locked: Option<u64>,
    pinned: Option<u64>,
    /// Whether the file of pages could be made.
    has_file: bool,
    /// Number of a `PlainReason`; none if all pages were adopted.
    reason: Option<u8>,
    /// The aperture through which the pages were seen in the file; none if they were not.
    aperture: Option<u64>,
    /// Whether the bytes were the same all the time.
    kept: bool,
}

/// All findings about adoption.
pub(super) fn examine() -> Vec<Line> {
    match ask_helper::<Seen>(&["adoption".as_ref()]) {
        Ok(seen) => {
            vec![userfaultfd(&seen), file(&seen), aperture(&seen), held_pages(&seen), verdict(&seen)]
        }
        Err(error) => vec![Line::note("adoption", format!("cannot be told: {error}"))],
    }
}

fn userfaultfd(seen: &Seen) -> Line {
    const NAME: &str = "userfaultfd";
    match (&seen.full_refused, &seen.user_mode_refused) {
        (None, _) => Line::ok(NAME, "full: threads and system calls wait while their pages are moved"),
        (Some(_), None) => Line::ok(
            NAME,
            "user mode only: threads wait while their pages are moved; a system call that writes to them at that \
             moment fails with EFAULT",
        ),
        (Some(_), Some(error)) => {
            Line::note(NAME, format!("refused: {error}; memory is adopted only while there is one thread"))
                .fix(words::ALLOW_USERFAULTFD)
        }
    }
}

fn file(seen: &Seen) -> Line {
    const NAME: &str = "file of pages";
    match (seen.file_limit, seen.has_file) {
        (None, true) => {
            Line::ok(NAME, "yes: a memfd as large as the address space; RLIMIT_FSIZE is unlimited")
        }
        (Some(limit), _) => {
            Line::note(NAME, format!("no: RLIMIT_FSIZE is {limit} bytes")).fix("ulimit -f unlimited")
        }
        (None, false) => Line::note(NAME, "cannot be made: see memfd_create above"),
    }
}

fn aperture(seen: &Seen) -> Line {
    const NAME: &str = "address space";
    let limit = seen.address_limit.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    match seen.aperture {
        Some(size) if size == APERTURES[0] => {
            Line::ok(NAME, format!("{limit}: peers' pages are mapped in apertures of 64 GiB"))
        }
        Some(_) => {
            Line::note(NAME, format!("{limit}: peers' pages are mapped in apertures of 1 GiB, 64 at most"))
                .fix("ulimit -v unlimited")
        }
        None if seen.reason.is_some() => Line::ok(NAME, format!("{limit}; no aperture was tried")),
        None => Line::note(NAME, format!("{limit}: no aperture of 1 GiB onto a peer's pages can be mapped"))
            .fix("ulimit -v unlimited"),
    }
}

fn held_pages(seen: &Seen) -> Line {
    const NAME: &str = "locked, pinned";
    match (seen.locked, seen.pinned) {
        (Some(0), Some(0)) => Line::ok(NAME, "none (VmLck, VmPin): such pages stay where they are"),
        (Some(locked), Some(pinned)) => {
            Line::note(NAME, format!("VmLck {locked} kB, VmPin {pinned} kB")).fix(words::DO_NOT_LOCK)
        }
        _ => Line::note(NAME, "/proc/self/status does not tell VmLck and VmPin: nothing is adopted")
            .fix("mount -t proc proc /proc, on Linux 5.2 or newer"),
    }
}

fn verdict(seen: &Seen) -> Line {
    const NAME: &str = "adoption";
    let reason = seen.reason.map(|number| PlainReason::from_number(number).unwrap_or(PlainReason::Failed));
    match reason {
        None if !seen.kept => Line::problem(
            NAME,
            "bytes were lost when pages were moved in a trial",
            "NONIC_ADOPT=never; and please report it, with this output",
        ),
        None => Line::ok(
            NAME,
            format!(
                "yes: {PAGES} pages were moved and given back while another thread ran, and no byte changed"
            ),
        ),
        Some(reason) => {
            let line = Line::note(NAME, format!("no: {}", words::reason(reason)));
            match words::remedy(reason) {
                Some(fix) => line.fix(fix),
                None => line,
            }
        }
    }
}

/// In the helper process: tries everything and prints what was seen.
pub(super) fn try_and_tell() -> ExitCode {
    println!("{}", serde_json::to_string(&look()).expect("strings and numbers only"));
    ExitCode::SUCCESS
}

fn look() -> Seen {
    let refused = |reach| Userfault::open_with(reach).err().map(|error| error.to_string());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut seen = Seen {
        full_refused: refused(Reach::Everything),
        user_mode_refused: refused(Reach::UserMode),
        file_limit: rustix::process::getrlimit(Resource::Fsize).current,
        address_limit: rustix::process::getrlimit(Resource::As).current,
        locked: kilobytes(&status, "VmLck:"),
        pinned: kilobytes(&status, "VmPin:"),
        ..Seen::default()
    };
    // A thread beside this one, as most programs have: pages then move under protection or not at all.
    let (release, wait) = channel::<()>();
    let thread = std::thread::spawn(move || wait.recv().is_err());
    adopt(&mut seen);
    drop(release);
    let _ = thread.join();
    seen
}

fn adopt(seen: &mut Seen) {
    let adopter = Adopter::new(AdoptionPolicy::Always);
    let buffer = Buffer::new(PAGES * PAGE);
    let word_of = |page: usize| 0x6e6f_6e69_6300_0000 + page as u64;
    (0..PAGES).for_each(|page| buffer.store(page * PAGE, word_of(page)));
    let same = |buffer: &Buffer| (0..PAGES).all(|page| buffer.load(page * PAGE) == word_of(page));
    let adoption = adopter.adopt(buffer.as_ptr().addr(), buffer.len(), Purpose::Remote);
    seen.has_file = adopter.file().is_some();
    seen.kept = same(&buffer);
    match &adoption.pages {
        Some(pages) if pages.end - pages.start == buffer.len() => {
            seen.aperture = find_in_file(&adopter, pages, word_of(0));
        }
        _ => seen.reason = Some(adoption.reason as u8),
    }
    adopter.give_back(adoption, false);
    seen.kept &= same(&buffer);
}

/// The larger aperture in which the first adopted page is seen, as a peer would see it.
fn find_in_file(adopter: &Adopter, pages: &AdoptedPages, expected: u64) -> Option<u64> {
    let file = adopter.file()?.try_clone_to_owned().ok()?;
    let file = SharedMemory::from_peer_whole(file).ok()?;
    let offset = pages.file_offset(pages.start);
    APERTURES.into_iter().find(|size| {
        let start = offset / size * size;
        let aperture = file.map_part(start, *size as usize, Protection::Read);
        aperture.is_ok_and(|aperture| {
            let word = aperture.word((offset - start) as usize);
            word.load(std::sync::atomic::Ordering::SeqCst) == expected
        })
    })
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

//! The switch itself: pages from private memory into the file and back, with the program running.
//!
//! While a range is being switched, the calling thread writes to its own stack only (the range is never on it): it must not
//! wait for itself.

#![allow(unsafe_code)]

use std::io;

use nonic_sys::{
    AddressFile, Holding, PAGE, PageMap, PageRun, Reach, Reserve, Rights, Sharing, SignalsHeld, Userfault,
    map_nothing_over, map_zeros_over, populate, set_rights,
};

/// Pages that hold data in one piece, while other threads run: what they wait for, at most.
const PIECE_PAGES: usize = 64;
/// The same with no other thread.
const PIECE_PAGES_ALONE: usize = 512;
/// Bytes of a piece, untouched pages included.
const PIECE_BYTES: usize = 64 << 20;
/// The same behind pieces in which nothing was found, each twice as long as the one before: what programs reserve may be terabytes.
const HOLE_BYTES: usize = 4 << 30;
/// Bytes from the first that holds data on that are given back with signals held; few enough that the pages just freed are still in the caches when they are
/// used for the next ones.
const BACK_BYTES: usize = 512 << 10;
/// The same while other threads run: what memory is there twice for a moment, and counts twice towards a limit.
const BACK_BYTES_RUNNING: usize = 32 << 20;
/// So little is not divided any further where the kernel has no memory for it.
const LEAST_BYTES: usize = 64 << 10;

/// What keeps the program off the pages meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protection<'a> {
    /// No other thread of the program exists.
    Alone,
    /// Others may, and wait.
    Userfault(&'a Userfault),
}

/// A range of this process and where it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Offset in the file of the byte at `start`.
    pub(super) offset: u64,
    pub(super) rights: Rights,
}

impl Span {
    fn length(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn offset_of(&self, address: usize) -> u64 {
        self.offset + (address - self.start) as u64
    }

    pub(super) fn part(&self, start: usize, end: usize) -> Self {
        Self { start, end, offset: self.offset_of(start), ..*self }
    }

    fn writable(&self) -> Rights {
        Rights { read: true, write: true, ..self.rights }
    }
}

/// Moves private memory into the file, piece by piece. `of_file`: the memory is a private mapping of the file already, whose
/// untouched pages read as zeros. `before_data` is called before each piece that holds data, and may forbid to go on. Returns how
/// many pages held data; an error comes with the first address that was not moved.
pub(super) fn share(
    file: &AddressFile,
    pages: &mut PageMap,
    protection: Protection<'_>,
    span: Span,
    of_file: bool,
    before_data: &mut dyn FnMut() -> io::Result<()>,
) -> Result<usize, (usize, io::Error)> {
    let (mut at, mut copied, mut most) = (span.start, 0, PIECE_BYTES);
    while at < span.end {
        let end = at + most.min(span.end - at);
        let (reached, held) = share_piece(file, pages, protection, span.part(at, end), of_file, before_data)
            .map_err(|error| (at, error))?;
        (at, copied) = (reached, copied + held);
        // Protecting a mapping of a file marks each untouched page.
        most = if held == 0 && !of_file { HOLE_BYTES.min(2 * most) } else { PIECE_BYTES };
    }
    Ok(copied)
}

fn share_piece(
    file: &AddressFile,
    pages: &mut PageMap,
    protection: Protection<'_>,
    span: Span,
    of_file: bool,
    before_data: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<(usize, usize)> {
    let mut found = [PageRun::default(); PIECE_PAGES];
    let range = (span.start, span.end);
    let (count, span) = match protection {
        Protection::Alone => {
            let _held = SignalsHeld::hold();
            let (count, end) = pages.scan(range, Holding::PresentOrSwapped, PIECE_PAGES_ALONE, &mut found)?;
            if count > 0 {
                before_data()?;
            }
            let span = span.part(span.start, end);
            copy_in(file, &span, &found[..count])?;
            // SAFETY: everything the memory holds was copied; no other thread exists, no signal handler runs.
            unsafe { file.map_over(span.start, span.length(), span.rights, span.offset, Sharing::Shared)? };
            (count, span)
        }
        Protection::Userfault(userfault) => {
            let (count, end) = pages.scan(range, Holding::PresentOrSwapped, PIECE_PAGES, &mut found)?;
            if count > 0 {
                before_data()?;
            }
            let span = span.part(span.start, end);
            if userfault.reach() == Reach::UserMode {
                // Once before, so that the pages of the file exist and the time under protection is short: a system call that
                // meets it fails.
                copy_in(file, &span, &found[..count])?;
            }
            let _held = SignalsHeld::hold();
            userfault.protect(span.start, span.length(), !of_file)?;
            let switched = copy_protected(file, pages, &span, &found[..count], of_file).and_then(|()| {
                // SAFETY: everything the memory holds was copied under protection, which still stands.
                unsafe { file.map_over(span.start, span.length(), span.rights, span.offset, Sharing::Shared) }
            });
            match switched {
                Ok(()) => userfault.wake(span.start, span.length()),
                Err(error) => {
                    userfault.release(span.start, span.length());
                    return Err(error);
                }
            }
            (count, span)
        }
    };
    let mut copied = 0;
    for run in &found[..count] {
        copied += (run.end - run.start) as usize / PAGE;
        // Only spares the program the page faults. For reading: the kernel then enters many pages at once, and what it enters
        // of a shared mapping can be written too.
        let _ = populate(run.start as usize, (run.end - run.start) as usize, false);
    }
    Ok((span.end, copied))
}

/// Copies what protected memory holds: what was `found` before, what changed since, and what appeared since.
fn copy_protected(
    file: &AddressFile,
    pages: &mut PageMap,
    span: &Span,
    found: &[PageRun],
    of_file: bool,
) -> io::Result<()> {
    // Protecting a mapping of a file leaves marks on untouched pages, which look like swapped pages. So swapped pages are
    // those found before.
    let holding = if of_file {
        copy_in(file, span, found)?;
        Holding::Present
    } else {
        Holding::PresentOrSwapped
    };
    let mut now = [PageRun::default(); PIECE_PAGES];
    let mut at = span.start;
    while at < span.end {
        let (count, end) = pages.scan((at, span.end), holding, usize::MAX, &mut now)?;
        copy_in(file, span, &now[..count])?;
        at = end;
    }
    Ok(())
}

fn copy_in(file: &AddressFile, span: &Span, runs: &[PageRun]) -> io::Result<()> {
    for run in runs {
        let start = run.start as usize;
        file.write_from(start, (run.end - run.start) as usize, span.offset_of(start))?;
    }
    Ok(())
}

/// Makes memory that maps the file anonymous again, as it was made by `mmap`. No other thread of the program may exist. The
/// file keeps its pages, unless it is to be emptied (`empty`). An error comes with the address from which on the memory is still
/// a mapping of the file, and the pages are in the file. `then` is called behind each piece; its error comes with where the
/// piece begins.
pub(super) fn give_back_alone(
    file: &AddressFile,
    span: Span,
    empty: bool,
    mut then: impl FnMut() -> io::Result<()>,
) -> Result<(), (usize, io::Error)> {
    let end = span.offset_of(span.end);
    let (mut at, mut most) = (span.start, usize::MAX);
    let mut data = file.next_data(span.offset, end).map_err(|error| (at, error))?;
    // Without memory for all of it at once, in pieces.
    while at < span.end {
        let hole = data.map_or(span.end - at, |(from, _)| from.saturating_sub(span.offset_of(at)) as usize);
        let length = hole.saturating_add(BACK_BYTES).min(most).min(span.end - at);
        let part = span.part(at, at + length);
        match give_back_part(file, &part, &mut data, end) {
            Ok(()) => {
                then().map_err(|error| (at, error))?;
                if empty {
                    let _ = file.punch(part.offset, part.length() as u64);
                }
                (at, most) = (part.end, most.saturating_mul(2));
            }
            Err(error) => {
                most = smaller(&part, &error).ok_or((at, error))?;
                data = file.next_data(part.offset, end).map_err(|error| (at, error))?;
            }
        }
    }
    Ok(())
}

/// How much to try instead where the kernel has no memory for so much; `None` where that is not it, or it is little.
fn smaller(part: &Span, error: &io::Error) -> Option<usize> {
    let is_much = error.kind() == io::ErrorKind::OutOfMemory && part.length() > LEAST_BYTES;
    is_much.then(|| (part.length() / 2).next_multiple_of(PAGE))
}

fn give_back_part(
    file: &AddressFile,
    part: &Span,
    data: &mut Option<(u64, u64)>,
    end: u64,
) -> io::Result<()> {
    let _held = SignalsHeld::hold();
    unpromised_if_need_be(|reserve| {
        // SAFETY: the file holds what the memory holds; no other thread exists, no signal handler runs until it is copied back.
        unsafe { map_zeros_over(part.start, part.length(), part.writable(), reserve) }
    })?;
    let copied = copy_out(file, part, data, end).and_then(|()| restore_rights(part));
    copied.inspect_err(|_| map_back(file, part))
}

/// Tries with memory promised by the kernel, and else without: what is as large as that was made without in the first place.
fn unpromised_if_need_be(mut map: impl FnMut(Reserve) -> io::Result<()>) -> io::Result<()> {
    map(Reserve::Promised).or_else(|_| map(Reserve::None))
}

/// Maps the file again over memory that was to take its bytes and could not.
///
/// # Panics
/// If the kernel refuses: the program would go on with zeros in place of its bytes.
fn map_back(file: &AddressFile, part: &Span) {
    // SAFETY: the file still holds everything.
    let back = unsafe { file.map_over(part.start, part.length(), part.rights, part.offset, Sharing::Shared) };
    assert!(back.is_ok(), "registered memory cannot be mapped again where it was: {back:?}");
}

/// Reads what the file holds into new memory. `data` is the next run of pages up to `end`, which may go on after this part:
/// finding the end of a run takes the longer the longer it is.
fn copy_out(file: &AddressFile, span: &Span, data: &mut Option<(u64, u64)>, end: u64) -> io::Result<()> {
    let stop = span.offset_of(span.end);
    while let Some((from, to)) = data.filter(|(from, _)| *from < stop) {
        let (low, high) = (from.max(span.offset), to.min(stop));
        let (start, length) = (span.start + (low - span.offset) as usize, (high - low) as usize);
        // Only spares the copy the page faults.
        let _ = populate(start, length, true);
        // SAFETY: the memory is new and nobody else's yet.
        unsafe { file.read_into(start, length, low)? };
        if to > stop {
            break;
        }
        *data = file.next_data(to, end)?;
    }
    Ok(())
}

/// Makes memory that maps the file private while other threads use it, in steps that no system call can fail at: a private
/// mapping of the file in which every page that holds data, or `all` pages, is the process's own copy. The file keeps its pages,
/// unless it is to be emptied (`empty`): piece by piece then, since a program that is allowed half as much again as it has must not
/// be killed for having all of it twice. An error comes with the address from which on the memory is still a shared mapping.
/// `show_file`: what is private and yet shows the file, since it could not be copied; its bytes stay in the file.
pub(super) fn give_back_running(
    file: &AddressFile,
    span: Span,
    all: bool,
    empty: bool,
    show_file: &mut Vec<(u64, u64)>,
) -> Result<(), (usize, io::Error)> {
    let writable = Span { rights: span.writable(), ..span };
    let most = if empty { BACK_BYTES_RUNNING } else { usize::MAX };
    map_privately(file, writable, most, !all, |part| {
        let copied = if all {
            populate(part.start, part.length(), true)
        } else {
            for_data(file, part, |start, length| populate(start, length, true))
        };
        match copied {
            Err(_) => show_file.push((part.offset, part.offset + part.length() as u64)),
            Ok(()) if empty => drop(file.punch(part.offset, part.length() as u64)),
            Ok(()) => {}
        }
        restore_rights(&Span { rights: span.rights, ..*part })
    })
}

/// Maps the file privately over a shared mapping of it, in pieces of at most `most` bytes, or as small as the kernel insists on, and
/// calls `then` for each. `over_holes`: bytes that a piece begins with and of which the file has no pages do not count. An error comes
/// with the address from which on the mapping is a shared one.
pub(super) fn map_privately(
    file: &AddressFile,
    span: Span,
    most: usize,
    over_holes: bool,
    mut then: impl FnMut(&Span) -> io::Result<()>,
) -> Result<(), (usize, io::Error)> {
    let (mut at, mut length) = (span.start, most);
    while at < span.end {
        // Where the kernel refused so much, a hole is no exception.
        let hole = if over_holes && length == most { hole_at(file, &span, at) } else { Ok(0) };
        let hole = hole.map_err(|error| (at, error))?;
        let part = span.part(at, at + length.saturating_add(hole).min(span.end - at));
        let mapped = unpromised_if_need_be(|reserve| {
            let sharing = Sharing::Private(reserve);
            // SAFETY: a private mapping of the same bytes: this process sees no difference.
            unsafe { file.map_over(part.start, part.length(), part.rights, part.offset, sharing) }
        });
        match mapped {
            Ok(()) => {
                (at, length) = (part.end, length.saturating_mul(2).min(most));
                then(&part).map_err(|error| (at, error))?;
            }
            Err(error) => length = smaller(&part, &error).ok_or((at, error))?,
        }
    }
    Ok(())
}

/// How many bytes from `at` on have no pages in the file.
fn hole_at(file: &AddressFile, span: &Span, at: usize) -> io::Result<usize> {
    let (from, end) = (span.offset_of(at), span.offset_of(span.end));
    Ok((file.next_page(from, end)?.unwrap_or(end) - from) as usize)
}

/// Puts zeros in place of memory of a parent that its child, this process, shall find wiped. No other thread exists.
pub(super) fn wipe(span: &Span) -> io::Result<()> {
    // SAFETY: the program asked for zeros there.
    unpromised_if_need_be(|reserve| unsafe {
        map_zeros_over(span.start, span.length(), span.rights, reserve)
    })
}

/// Takes memory away from this process, a child, that it may not have: it must not see or change its parent's.
pub(super) fn block(start: usize, end: usize) {
    // SAFETY: the memory is the parent's; the program is told that it is not there.
    if unsafe { map_nothing_over(start, end - start) }.is_err() {
        // Better no child than one that writes into its parent.
        std::process::abort();
    }
}

fn restore_rights(span: &Span) -> io::Result<()> {
    if span.rights == span.writable() {
        return Ok(());
    }
    // SAFETY: the rights the program gave this memory.
    unsafe { set_rights(span.start, span.length(), span.rights) }
}

fn for_data(
    file: &AddressFile,
    span: &Span,
    mut each: impl FnMut(usize, usize) -> io::Result<()>,
) -> io::Result<()> {
    let end = span.offset + span.length() as u64;
    let mut at = span.offset;
    while let Some((from, to)) = file.next_data(at, end)? {
        // A file of one page size: what has pages has whole pages.
        debug_assert!(from.is_multiple_of(PAGE as u64) && to.is_multiple_of(PAGE as u64));
        each(span.start + (from - span.offset) as usize, (to - from) as usize)?;
        at = to;
    }
    Ok(())
}

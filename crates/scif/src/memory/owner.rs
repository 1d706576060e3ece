//! The own windows: opening and ending them, and giving their memory back when nobody uses it any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{MutexGuard, TryLockError};

use nonic_device::{ExposeError, Exposed, ExposedPlace, ExposedRun, expose};
use nonic_sys::{BorrowedFd, PAGE, RecordLock, lock_record, may_lock, process_has_ended};

use super::area::{Area, RECORDS, Table};
use super::checks::{check_pages, check_registration};
use super::far::own_mark;
use super::record::{Place, Record, State, stamp};
use super::slots::{Whose, is_busy};
use super::space::{CHOSEN_FROM, Inside, Space, Window};
use super::{RegisteredMemory, mapped};
use crate::ScifError;
use crate::options::Protection;

/// The byte of the descriptor that processes of one family lock while they change the table.
const TABLE_BYTE: u32 = 2;

/// Bytes of windows in this process, and whether they count against `RLIMIT_MEMLOCK` (`NONIC_SCIF_MEMLOCK=1`).
static REGISTERED: AtomicU64 = AtomicU64::new(0);

fn counts_against_limit() -> bool {
    use std::sync::OnceLock;
    static COUNTS: OnceLock<bool> = OnceLock::new();
    *COUNTS.get_or_init(|| std::env::var_os("NONIC_SCIF_MEMLOCK").is_some_and(|value| value == "1"))
}

/// What a process knows of its side's windows.
#[derive(Debug, Default)]
pub(super) struct Owner {
    space: Space,
    /// Of the table, as it stands in `space`.
    version: u64,
    /// Lines of the table that are free again, and the first that never was in use.
    free: Vec<u32>,
    next: u32,
    sequence: u64,
    /// The memory of the windows this process opened, by where they begin.
    exposed: BTreeMap<u64, Exposed>,
    dying: usize,
    /// So many dying windows are looked at before another one opens, if that is more than [`MANY_DYING`].
    many_dying: usize,
    closed: bool,
}

/// Dying windows that are left to whoever looks after them now and then: a program that opens and closes windows faster than that
/// would have ever more of them, each on pages of its own.
const MANY_DYING: usize = 16;

/// Memory to be given back when no lock is held.
pub(super) type Ended = Vec<Exposed>;

impl RegisteredMemory {
    /// Waits for the other processes of the family, if there are any, and learns what they did.
    fn family<'a>(
        &self,
        owner: &mut Owner,
        endpoint: BorrowedFd<'a>,
    ) -> Result<Option<RecordLock<'a>>, ScifError> {
        if !self.has_family() {
            return Ok(None);
        }
        let lock = lock_record(endpoint, TABLE_BYTE)
            .map_err(|error| ScifError::System(error.raw_os_error().unwrap_or(0)))?;
        owner.learn(&self.own);
        Ok(Some(lock))
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        super::lock(&self.process().owner)
    }

    /// Opens a window on `length` bytes at `address`.
    pub(crate) fn register(
        &self,
        endpoint: BorrowedFd<'_>,
        address: usize,
        length: usize,
        offset: i64,
        protection: Protection,
        fixed: bool,
    ) -> Result<i64, ScifError> {
        check_registration(address, length, offset, fixed)?;
        let bytes = length as u64;
        let mut ended = Ended::new();
        // The place is looked for before the memory is looked at, and once more when nothing else can refuse: while memory is
        // exposed nothing is held, since the library's own threads may want it.
        {
            let mut owner = self.owner();
            let _family = self.family(&mut owner, endpoint)?;
            self.find_place(&mut owner, (offset as u64, bytes), fixed, &mut ended)?;
        }
        // Their pages may be at the addresses of these.
        ended.clear();
        if counts_against_limit() && !may_lock(REGISTERED.load(Ordering::Relaxed).saturating_add(bytes)) {
            return Err(ScifError::TryAgain("RLIMIT_MEMLOCK allows no more registered memory"));
        }
        if mapped::has_mapping_in(address, length) {
            return Err(ScifError::BadMemory { address });
        }
        let exposed = expose(address, length, protection.write).map_err(|error| match error {
            ExposeError::NotMapped { address } | ExposeError::NotWritable { address } => {
                ScifError::BadMemory { address }
            }
            ExposeError::Refused(error) => {
                tracing::warn!(%error, "memory cannot be registered");
                ScifError::NoMemory
            }
        })?;
        let place = |run: &ExposedRun| match run.place {
            ExposedPlace::File { descriptor, identity, offset } => {
                Ok(Place::File { number: descriptor, identity, offset })
            }
            ExposedPlace::Address(address) => {
                let mark = own_mark().ok_or(ScifError::NoMemory)?;
                Ok(Place::Address { address, mark, space: None })
            }
            ExposedPlace::Segment { address, space } => {
                let mark = own_mark().ok_or(ScifError::NoMemory)?;
                Ok(Place::Address { address, mark, space: Some(space) })
            }
        };
        let places = exposed.runs().iter().map(place).collect::<Result<Vec<_>, ScifError>>()?;
        let mut owner = self.owner();
        let family = self.family(&mut owner, endpoint)?;
        let start = self.find_place(&mut owner, (offset as u64, bytes), fixed, &mut ended)?;
        let lines = owner.take_lines(places.len()).ok_or(ScifError::NoMemory)?;
        let (mut at, pid) = (start, self.process().pid);
        for ((run, place), line) in exposed.runs().iter().zip(places).zip(&lines) {
            owner.sequence += 1;
            let record = Record {
                state: State::Live,
                sequence: owner.sequence,
                offset: at,
                length: run.length as u64,
                window: start,
                protection,
                pid,
                place,
            };
            self.own.use_line(Table::Records, *line as usize);
            self.own.write_line(Table::Records, *line as usize, record.to_words());
            owner.announce(&self.own, *line);
            at += run.length as u64;
        }
        owner.space.insert(start, Window { length: bytes, dying: false, lines });
        owner.exposed.insert(start, exposed);
        REGISTERED.fetch_add(bytes, Ordering::Relaxed);
        drop(family);
        drop(owner);
        drop(ended);
        Ok(start as i64)
    }

    /// Where a window of so many bytes would be, asked for at an offset.
    fn find_place(
        &self,
        owner: &mut Owner,
        (offset, bytes): (u64, u64),
        fixed: bool,
        ended: &mut Ended,
    ) -> Result<u64, ScifError> {
        if owner.closed {
            return Err(ScifError::NotConnected);
        }
        if owner.dying >= MANY_DYING.max(owner.many_dying) {
            self.end_dying(owner, false, ended);
            // Those that stay in use are not looked at each time.
            owner.many_dying = 2 * owner.dying;
        }
        if !fixed {
            return self.choose(owner, offset, bytes, ended).ok_or(ScifError::NoMemory);
        }
        // Also what passes the end of the space.
        let end = offset.checked_add(bytes).filter(|end| *end <= CHOSEN_FROM);
        let end = end.ok_or(ScifError::OffsetsTaken)?;
        let taken = |owner: &Owner| owner.space.within(offset, end).next().is_some();
        if taken(owner) {
            self.end_dying(owner, true, ended);
            if taken(owner) {
                return Err(ScifError::OffsetsTaken);
            }
        }
        Ok(offset)
    }

    /// A place for `bytes`, near `suggestion` if that is not 0.
    fn choose(&self, owner: &mut Owner, suggestion: u64, bytes: u64, ended: &mut Ended) -> Option<u64> {
        if suggestion == 0 {
            return owner.space.choose(bytes);
        }
        let suggestion = suggestion.next_multiple_of(PAGE as u64);
        let near = |owner: &Owner| owner.space.near(suggestion, bytes);
        // As for a fixed place: what is in use no more is not in the way.
        if near(owner) != Some(suggestion) && owner.dying > 0 {
            self.end_dying(owner, true, ended);
        }
        near(owner)
    }

    /// Ends all windows that lie in a range; nothing if a part of one does.
    pub(crate) fn unregister(
        &self,
        endpoint: BorrowedFd<'_>,
        offset: i64,
        length: usize,
    ) -> Result<(), ScifError> {
        let (start, end) = check_pages(offset, length)?;
        let mut ended = Ended::new();
        let mut owner = self.owner();
        let family = self.family(&mut owner, endpoint)?;
        let starts = match owner.space.inside(start, end) {
            Inside::Whole(starts) => starts,
            Inside::Part => return Err(ScifError::Invalid("the range ends inside a window")),
            Inside::Nothing => return Err(ScifError::NoWindow),
        };
        let waiting = self.end_windows(&mut owner, &starts, &mut ended);
        drop(family);
        drop(owner);
        drop(ended);
        if waiting {
            self.watch_dying();
        }
        Ok(())
    }

    /// Ends windows: what nobody uses is given back, the rest is left to [`RegisteredMemory::end_dying`]. Whether there is a rest.
    fn end_windows(&self, owner: &mut Owner, starts: &[u64], ended: &mut Ended) -> bool {
        for start in starts {
            let Some(window) = owner.space.get_mut(*start) else { continue };
            window.dying = true;
            let lines = std::mem::take(&mut window.lines);
            for line in &lines {
                let word = self.own.word(Table::Records, *line as usize, 0);
                let sequence = word.load(Ordering::Relaxed) >> 8;
                word.store(stamp(State::Dying, sequence), Ordering::Relaxed);
                owner.announce(&self.own, *line);
            }
            if let Some(window) = owner.space.get_mut(*start) {
                window.lines = lines;
            }
            owner.dying += 1;
        }
        // Between the change and the look at the slots; see there.
        fence(Ordering::SeqCst);
        for start in starts {
            self.end_if_idle(owner, *start, false, ended);
        }
        owner.dying > 0
    }

    /// Gives back what dying windows have that nobody uses any more. Whether some are left. `thorough`: see
    /// [`RegisteredMemory::end_if_idle`].
    pub(super) fn end_dying(&self, owner: &mut Owner, thorough: bool, ended: &mut Ended) -> bool {
        let starts: Vec<_> = owner.space.all().filter(|(_, window)| window.dying).map(|(at, _)| at).collect();
        fence(Ordering::SeqCst);
        for start in starts {
            self.end_if_idle(owner, start, thorough, ended);
        }
        owner.dying > 0
    }

    /// The same, for whoever has no lock; what is left is looked at again later.
    pub(super) fn look_after_dying(&self) -> bool {
        let mut ended = Ended::new();
        // Whoever has it may wait for the library's threads.
        let mut owner = match self.process().owner.try_lock() {
            Ok(owner) => owner,
            Err(TryLockError::Poisoned(owner)) => owner.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        let left = self.end_dying(&mut owner, true, &mut ended);
        if !left {
            self.process().watched.store(false, Ordering::Release);
        }
        drop(owner);
        drop(ended);
        left
    }

    /// `thorough`: the kernel is asked whether what the peer says it has mapped still is.
    fn end_if_idle(&self, owner: &mut Owner, start: u64, thorough: bool, ended: &mut Ended) {
        let Some(window) = owner.space.get_mut(start) else { return };
        let (end, lines) = (start + window.length, window.lines.clone());
        let records = || {
            let line = |line: &u32| self.own.read_line(Table::Records, *line as usize);
            lines.iter().filter_map(line).filter_map(Record::from_words)
        };
        let mine = owner.exposed.contains_key(&start);
        let pid = records().next().map(|record| record.pid);
        if !mine && pid.is_some_and(|pid| pid == self.process().pid || !process_has_ended(pid)) {
            // Another process of the family opened it: only that one can give its memory back.
            return;
        }
        let dead = |pid: i32| pid != self.process().pid && process_has_ended(pid);
        if is_busy(&self.own, Whose::Own, (start, end), &dead)
            || is_busy(&self.peer, Whose::Peers, (start, end), &dead)
            || mapped::is_mapped(&self.peer, (start, end), thorough.then(|| records().collect()), &dead)
        {
            return;
        }
        for line in &lines {
            self.own.word(Table::Records, *line as usize, 0).store(0, Ordering::Release);
        }
        owner.free.extend(lines);
        owner.space.remove(start);
        owner.dying -= 1;
        REGISTERED.fetch_sub(if mine { end - start } else { 0 }, Ordering::Relaxed);
        ended.extend(owner.exposed.remove(&start));
    }

    /// Whether this process has opened windows that have not ended.
    pub(crate) fn has_windows(&self) -> bool {
        !self.owner().exposed.is_empty()
    }

    /// Ends all windows of this process; those in use when their last user leaves. Whether there are such.
    pub(super) fn end_all(&self) -> bool {
        let mut ended = Ended::new();
        let mut owner = self.owner();
        owner.closed = true;
        let is_live = |owner: &Owner, start: u64| {
            owner.space.within(start, start + 1).any(|(at, window)| at == start && !window.dying)
        };
        let starts: Vec<_> = owner.exposed.keys().copied().filter(|start| is_live(&owner, *start)).collect();
        self.end_windows(&mut owner, &starts, &mut ended);
        let waiting = self.end_dying(&mut owner, true, &mut ended);
        drop(owner);
        drop(ended);
        waiting
    }
}

impl Owner {
    /// Tells readers that a record has changed. One at a time: the log holds so many.
    fn announce(&mut self, area: &Area, line: u32) {
        self.version += 1;
        area.changed(self.version).store(u64::from(line), Ordering::Release);
        area.version().store(self.version, Ordering::Release);
    }

    /// Lines for so many records.
    fn take_lines(&mut self, count: usize) -> Option<Vec<u32>> {
        if self.free.len() + (RECORDS - self.next as usize) < count {
            return None;
        }
        let mut line = || {
            self.free.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            })
        };
        Some((0..count).map(|_| line()).collect())
    }

    /// Takes over what other processes of the family changed.
    fn learn(&mut self, area: &Area) {
        let mut windows = BTreeMap::<u64, Vec<(Record, u32)>>::new();
        let used = area.used(Table::Records);
        self.free.clear();
        for line in 0..used {
            match area.read_line(Table::Records, line).and_then(Record::from_words) {
                Some(record) => {
                    self.sequence = self.sequence.max(record.sequence);
                    windows.entry(record.window).or_default().push((record, line as u32));
                }
                None => self.free.push(line as u32),
            }
        }
        (self.space, self.dying, self.next) = (Space::default(), 0, used as u32);
        self.version = area.version().load(Ordering::Acquire);
        for (start, mut records) in windows {
            records.sort_unstable_by_key(|(record, _)| record.offset);
            let end = records.iter().map(|(record, _)| record.end()).max().unwrap_or(start);
            if self.space.within(start, end).next().is_some() {
                continue;
            }
            let dying = records.iter().any(|(record, _)| record.state == State::Dying);
            let lines = records.iter().map(|(_, line)| *line).collect();
            self.space.insert(start, Window { length: end - start, dying, lines });
            self.dying += usize::from(dying);
        }
    }
}

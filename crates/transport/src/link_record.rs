//! What a process says of its links in its segment, for people who ask why bytes take the way they take. Written when a
//! link comes, when its reach changes and when it goes; no device reads it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_sys::{SharedMapping, current_generation, effective_user, fork_generation, write_shown_record};
use nonic_trust::{Answer, Route, Silence};

use crate::layout::{LINK_RECORD, LINKS_SHOWN, SEGMENT_LINKS, SEGMENT_LINKS_BEYOND};

/// What came of trying to read a peer's memory through the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// It was not tried: a limit, or the peer has not introduced itself.
    #[default]
    NotTried,
    /// The peer's memory was read.
    Reached,
    /// The kernel refused, with this error number.
    Refused(u16),
    /// Some other process has that process id here: the peer is in another pid namespace.
    OtherProcess,
}

/// Whether the owner trusts the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The peer has not proved that the kernel would let it at the owner.
    #[default]
    Stranger,
    /// It has.
    Proved,
    /// The owner was told to trust its user (`NONIC_TRUST`).
    Named,
}

/// What came of the peer's question: whether the kernel lets the owner at the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answered {
    /// It did not ask.
    #[default]
    NotAsked,
    /// The owner has read the answer this way.
    By(Route),
    /// The kernel refused.
    Refused,
    /// What could be read was not meant for the owner, or the peer has ended.
    Otherwise,
}

impl From<&Result<(Answer, Route), Silence>> for Answered {
    fn from(answered: &Result<(Answer, Route), Silence>) -> Self {
        match answered {
            Ok((_, route)) => Self::By(*route),
            Err(Silence::Refused(_)) => Self::Refused,
            Err(_) => Self::Otherwise,
        }
    }
}

/// The answers in the order of their numbers.
const ANSWERS: [Answered; 6] = [
    Answered::NotAsked,
    Answered::By(Route::Descriptor),
    Answered::By(Route::Copy),
    Answered::By(Route::Memory),
    Answered::Refused,
    Answered::Otherwise,
];

/// One link, as its owner sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// The peer's process id in the owner's pid namespace; 0 if it has none there.
    pub pid: i32,
    /// The peer's user, in the owner's user namespace.
    pub uid: u32,
    /// The peer has introduced itself.
    pub met: bool,
    /// Whether the owner trusts the peer.
    pub standing: Standing,
    /// Whether the kernel lets the owner at the peer.
    pub answered: Answered,
    /// The peer shows its keys, and this side looks at them.
    pub shown: bool,
    /// The peer has a file of adopted pages.
    pub adopts: bool,
    /// The owner can map the peer's adopted pages.
    pub can_map: bool,
    /// The peer said that it can map the owner's adopted pages.
    pub peer_can_map: bool,
    /// The peer said that the kernel lets it into the owner's memory.
    pub peer_can_reach: bool,
    /// The peer once found no way to bytes it was to fetch; long sends to it travel in the ring since.
    pub pulls_stopped: bool,
    /// Whether the kernel lets the owner into the peer's memory.
    pub probe: Probe,
    /// Large apertures (64 GiB) the owner has mapped onto the peer's adopted pages.
    pub large_apertures: u8,
    /// Small apertures (1 GiB), where large ones are refused.
    pub small_apertures: u8,
    /// Error number of the last aperture that could not be mapped; 0: none.
    pub aperture_error: u16,
}

const APERTURE_ERROR_SHIFT: u32 = 40;
const PROBE_ERROR_SHIFT: u32 = 52;
const ERROR_MASK: u16 = 0xfff;

impl LinkFacts {
    /// In two words. Error numbers are below 4096 (`MAX_ERRNO`, include/linux/err.h).
    fn to_words(self) -> [u64; 2] {
        let flags = [
            self.met,
            self.shown,
            self.adopts,
            self.can_map,
            self.peer_can_map,
            self.peer_can_reach,
            self.pulls_stopped,
        ];
        let flags = flags.iter().enumerate().map(|(bit, set)| u64::from(*set) << bit).sum::<u64>();
        let (probe, error) = match self.probe {
            Probe::NotTried => (0, 0),
            Probe::Reached => (1, 0),
            Probe::Refused(error) => (2, error & ERROR_MASK),
            Probe::OtherProcess => (3, 0),
        };
        let standing = match self.standing {
            Standing::Stranger => 0,
            Standing::Proved => 1,
            Standing::Named => 2,
        };
        let answered = ANSWERS.iter().position(|known| *known == self.answered).unwrap_or(0);
        let second = flags
            | probe << 16
            | standing << 18
            | (answered as u64) << 20
            | u64::from(self.large_apertures) << 24
            | u64::from(self.small_apertures) << 32
            | u64::from(self.aperture_error & ERROR_MASK) << APERTURE_ERROR_SHIFT
            | u64::from(error) << PROBE_ERROR_SHIFT;
        [u64::from(self.pid as u32) | u64::from(self.uid) << 32, second]
    }

    /// From the words of a record, which may be another process's: any two words are some facts.
    pub(crate) fn from_words([first, second]: [u64; 2]) -> Self {
        let flag = |bit: u32| second >> bit & 1 != 0;
        Self {
            pid: first as u32 as i32,
            uid: (first >> 32) as u32,
            met: flag(0),
            shown: flag(1),
            adopts: flag(2),
            can_map: flag(3),
            peer_can_map: flag(4),
            peer_can_reach: flag(5),
            pulls_stopped: flag(6),
            probe: match second >> 16 & 3 {
                0 => Probe::NotTried,
                1 => Probe::Reached,
                2 => Probe::Refused((second >> PROBE_ERROR_SHIFT) as u16 & ERROR_MASK),
                _ => Probe::OtherProcess,
            },
            standing: match second >> 18 & 3 {
                1 => Standing::Proved,
                2 => Standing::Named,
                _ => Standing::Stranger,
            },
            answered: ANSWERS.get((second >> 20 & 7) as usize).copied().unwrap_or_default(),
            large_apertures: (second >> 24) as u8,
            small_apertures: (second >> 32) as u8,
            aperture_error: (second >> APERTURE_ERROR_SHIFT) as u16 & ERROR_MASK,
        }
    }
}

/// The table in this process's own segment.
#[derive(Debug)]
pub(crate) struct LinkTable {
    segment: Arc<SharedMapping>,
    /// A bit for each place that is taken.
    taken: Mutex<u64>,
    /// The process's own.
    user: u32,
    generation: u32,
}

const _: () = assert!(LINKS_SHOWN == u64::BITS as usize);

impl LinkTable {
    pub(crate) fn new(segment: Arc<SharedMapping>) -> Self {
        Self { segment, taken: Mutex::new(0), user: effective_user(), generation: fork_generation() }
    }

    /// Shows a link; where all places are taken it is only counted.
    pub(crate) fn enter(table: &Arc<Self>, facts: LinkFacts) -> LinkRecord {
        let mut taken = table.lock();
        let free = taken.trailing_ones();
        // Other users cannot hide the own user's links behind theirs.
        let places = if facts.uid == table.user { LINKS_SHOWN } else { LINKS_SHOWN / 2 };
        let place = Some(free as usize).filter(|free| *free < places);
        match place {
            Some(place) => *taken |= 1 << place,
            None => {
                table.segment.word(SEGMENT_LINKS_BEYOND).fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(taken);
        let record = LinkRecord { table: Arc::clone(table), place, facts: Mutex::new(Some(facts)) };
        record.write(Some(facts));
        record
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A child has its parent's segment mapped, and must leave it alone.
    fn is_own(&self) -> bool {
        self.generation == current_generation()
    }
}

/// The place of a link in the table.
#[derive(Debug)]
pub(crate) struct LinkRecord {
    table: Arc<LinkTable>,
    place: Option<usize>,
    /// Nothing once the link has gone.
    facts: Mutex<Option<LinkFacts>>,
}

impl LinkRecord {
    /// Changes what is shown of the link, unless it has gone.
    pub(crate) fn update(&self, change: impl FnOnce(&mut LinkFacts)) {
        if !self.table.is_own() {
            return;
        }
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = facts.as_mut() {
            change(facts);
            self.write(Some(*facts));
        }
    }

    /// The link has gone: its place is free for another one.
    pub(crate) fn leave(&self) {
        if !self.table.is_own() {
            return;
        }
        let gone = self.facts.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
        if !gone {
            return;
        }
        self.write(None);
        match self.place {
            Some(place) => *self.table.lock() &= !(1 << place),
            None => {
                self.table.segment.word(SEGMENT_LINKS_BEYOND).fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// One writer at a time: whoever has the facts, or makes the record.
    fn write(&self, facts: Option<LinkFacts>) {
        let Some(place) = self.place else { return };
        let [first, second] = facts.map_or([0; 2], LinkFacts::to_words);
        let words = [first, second, u64::from(facts.is_some())];
        write_shown_record(&self.table.segment, SEGMENT_LINKS + place * LINK_RECORD, &words);
    }
}

impl Drop for LinkRecord {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PAGE;
    use proptest::prelude::*;

    fn table() -> Arc<LinkTable> {
        Arc::new(LinkTable::new(Arc::new(SharedMapping::anonymous(PAGE).unwrap())))
    }

    fn shown(table: &LinkTable, place: usize) -> Option<LinkFacts> {
        let word = |number: usize| {
            let at = SEGMENT_LINKS + place * LINK_RECORD + number * 8;
            table.segment.word(at).load(Ordering::Acquire)
        };
        assert!(word(0).is_multiple_of(2));
        (word(3) == 1).then(|| LinkFacts::from_words([word(1), word(2)]))
    }

    proptest! {
        #[test]
        fn any_two_words_are_facts_that_survive(first: u64, second: u64) {
            let facts = LinkFacts::from_words([first, second]);
            prop_assert_eq!(LinkFacts::from_words(facts.to_words()), facts);
        }
    }

    #[test]
    fn a_link_is_shown_until_it_goes_and_its_place_is_used_again() {
        let table = table();
        let facts = LinkFacts { pid: 7, uid: 1000, probe: Probe::Refused(1), ..LinkFacts::default() };
        let first = LinkTable::enter(&table, facts);
        let second = LinkTable::enter(&table, LinkFacts { pid: 8, ..facts });
        assert_eq!(shown(&table, 0), Some(facts));
        first.update(|facts| facts.can_map = true);
        assert_eq!(shown(&table, 0), Some(LinkFacts { can_map: true, ..facts }));
        first.leave();
        first.update(|facts| facts.met = true);
        assert_eq!(shown(&table, 0), None);
        let third = LinkTable::enter(&table, LinkFacts { pid: 9, ..facts });
        drop(first); // It left its place before: the third has it now.
        assert_eq!(shown(&table, 0).unwrap().pid, 9);
        assert_eq!(shown(&table, 1).unwrap().pid, 8);
        drop((second, third));
        assert_eq!((shown(&table, 0), shown(&table, 1)), (None, None));
    }

    #[test]
    fn links_beyond_the_table_are_counted() {
        let table = table();
        let beyond = || table.segment.word(SEGMENT_LINKS_BEYOND).load(Ordering::Relaxed);
        let facts = LinkFacts { uid: effective_user(), ..LinkFacts::default() };
        let mut records: Vec<_> = (0..LINKS_SHOWN + 3).map(|_| LinkTable::enter(&table, facts)).collect();
        assert_eq!(beyond(), 3);
        records.truncate(LINKS_SHOWN + 1);
        assert_eq!(beyond(), 1);
        drop(records);
        assert_eq!((beyond(), *table.lock()), (0, 0));
    }

    #[test]
    fn links_of_other_users_leave_half_of_the_table_to_those_of_the_own() {
        let table = table();
        let foreign = LinkFacts { uid: effective_user() + 1, ..LinkFacts::default() };
        let _strangers: Vec<_> = (0..LINKS_SHOWN).map(|_| LinkTable::enter(&table, foreign)).collect();
        assert_eq!(table.lock().count_ones() as usize, LINKS_SHOWN / 2);
        let own = LinkTable::enter(&table, LinkFacts { uid: effective_user(), ..foreign });
        assert_eq!(own.place, Some(LINKS_SHOWN / 2));
    }
}

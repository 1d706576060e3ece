//! Programs that make their memory consistent, which the cache never hurts, and programs that forget to.

use nonic_sys::{AsFd, AsRawFd, ByteFile, SharedMapping, open_foreign_file};
use proptest::prelude::*;

use super::*;

/// Bytes of the program, and where they begin: on two pages.
const ROOM: usize = 300;
const START: u64 = 2 * SIZE as u64 - 130;

/// The memory of a program.
struct Memory(SharedMapping);

impl Memory {
    fn new() -> Self {
        Self(SharedMapping::anonymous(ROOM).unwrap())
    }

    fn slice(&self, range: Range<usize>) -> SharedSlice<'_> {
        SharedSlice::of_mapping(&self.0, range.start, range.len()).unwrap()
    }

    fn store(&self, range: Range<usize>, byte: u8) {
        self.slice(range.clone()).write(&vec![byte; range.len()]);
    }

    fn all(&self) -> Vec<u8> {
        let mut seen = vec![0; ROOM];
        self.slice(0..ROOM).read(&mut seen);
        seen
    }
}

/// What a region is on.
struct Part<'a>(&'a Memory, usize);

impl Program for Part<'_> {
    fn bytes(&self, offsets: Range<u64>) -> Option<SharedSlice<'_>> {
        Some(self.0.slice(self.1 + offsets.start as usize..self.1 + offsets.end as usize))
    }
}

/// A region, and what is done through it, by offsets in the program's memory.
struct Through<'a> {
    shadows: &'a Shadows,
    number: u32,
    shadow: Arc<Shadow>,
    part: Part<'a>,
}

impl<'a> Through<'a> {
    fn new(shadows: &'a Shadows, memory: &'a Memory, range: Range<usize>) -> Self {
        Self::of_process(shadows, memory, range, None)
    }

    /// With a shadow in common that begins some pages before the program's memory does.
    fn of_process(
        shadows: &'a Shadows,
        memory: &'a Memory,
        range: Range<usize>,
        common: Option<&Arc<CommonShadow>>,
    ) -> Self {
        let translation = Translation::Plain { address: START as usize + range.start };
        let part = Part(memory, range.start);
        let offset = START + (range.start + 7 * SIZE) as u64;
        let in_common = common.map(|shadow| InCommon { shadow, offset });
        let number = shadows.add(translation, range.len() as u64, &part, in_common).unwrap();
        Self { shadows, number, shadow: shadows.find(number).unwrap(), part }
    }

    fn positions(range: &Range<usize>) -> Range<u64> {
        START + range.start as u64..START + range.end as u64
    }

    fn range(&self) -> Range<usize> {
        self.part.1..self.part.1 + self.shadow.length() as usize
    }

    fn peer_writes(&self, range: Range<usize>, byte: u8) {
        let mut bytes = vec![byte; range.len()];
        let source = SharedSlice::of_private(&mut bytes);
        self.shadows.write(&self.shadow, Self::positions(&range), source, &self.part);
    }

    fn peer_reads(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.shadows.read(Self::positions(&range), &mut bytes);
        bytes
    }

    fn synchronize(&self, range: Range<usize>) {
        self.shadows.synchronize(&self.shadow, Self::positions(&range), &self.part);
    }

    fn publish(&self, range: Range<usize>) {
        self.shadows.publish(&self.shadow, Self::positions(&range), &self.part);
    }
}

fn with_seed(seed: u64) -> Shadows {
    let shadows = Shadows::default();
    shadows.set_seed(seed);
    shadows
}

/// Regions that overlap in every way, and one that is there twice.
const REGIONS: [Range<usize>; 6] = [0..ROOM, 0..100, 50..200, 120..140, 120..140, 199..ROOM];

#[test]
fn what_is_synchronized_through_one_region_is_so_for_all() {
    for (one, other) in [(0, 2), (2, 0), (1, 2), (3, 4), (2, 5), (5, 0)] {
        for order in [[one, other], [other, one]] {
            let (shadows, memory) = (Shadows::default(), Memory::new());
            let made = order.map(|which| Through::new(&shadows, &memory, REGIONS[which].clone()));
            let [a, b] = if order[0] == one { [&made[0], &made[1]] } else { [&made[1], &made[0]] };
            let both = a.range().start.max(b.range().start)..a.range().end.min(b.range().end);
            // What peers wrote through one is collected through the other, and read through it before that.
            a.peer_writes(both.clone(), 7);
            assert_eq!(b.peer_reads(both.clone()), vec![7; both.len()]);
            assert_eq!(memory.all(), [0; ROOM]);
            b.synchronize(both.clone());
            let mut expected = [0; ROOM];
            expected[both.clone()].fill(7);
            assert_eq!(memory.all(), expected);
            // What was stored is published through one for readers of the other.
            memory.store(both.clone(), 8);
            assert_eq!(b.peer_reads(both.clone()), vec![7; both.len()]);
            a.publish(both.clone());
            assert_eq!(b.peer_reads(both.clone()), vec![8; both.len()]);
            // And so is what is synchronized.
            memory.store(both.clone(), 9);
            b.synchronize(both.clone());
            assert_eq!(a.peer_reads(both.clone()), vec![9; both.len()]);
        }
    }
}

#[test]
fn what_was_not_collected_lasts_as_long_as_a_region_is_on_it() {
    let (shadows, memory) = (Shadows::default(), Memory::new());
    let whole = Through::new(&shadows, &memory, 0..ROOM);
    whole.peer_writes(100..180, 5);
    let part = Through::new(&shadows, &memory, 120..140);
    assert_eq!(memory.all(), [0; ROOM], "registering shows nothing");
    shadows.remove(whole.number);
    assert_eq!(part.peer_reads(120..140), [5; 20]);
    part.synchronize(120..140);
    let mut expected = [0; ROOM];
    expected[120..140].fill(5);
    assert_eq!(memory.all(), expected);
    let again = Through::new(&shadows, &memory, 0..ROOM);
    again.synchronize(0..ROOM);
    assert_eq!(memory.all(), expected, "the rest was dropped with the last region on it");
    assert_eq!(again.peer_reads(0..ROOM), expected);
    shadows.remove(again.number);
    shadows.remove(part.number);
    assert!(shadows.are_none() && shadows.state().pages.is_empty());
    assert!(shadows.find(part.number).is_none());
}

#[test]
fn an_atomic_needs_an_aligned_word_of_the_memory_it_changes() {
    let (shadows, memory) = (Shadows::default(), Memory::new());
    let region = Through::new(&shadows, &memory, 0..ROOM);
    let aligned = START.next_multiple_of(8);
    let change = |at: u64, length: u64| {
        shadows.change(&region.shadow, at..at + length, &region.part, |word| word.fetch_add(3))
    };
    assert_eq!((change(aligned, 8), change(aligned, 8)), (Some(0), Some(3)));
    assert_eq!((change(aligned + 1, 8), change(aligned, 4)), (None, None));
    assert_eq!(memory.all(), [0; ROOM]);
    region.synchronize(0..ROOM);
    let at = (aligned - START) as usize;
    assert_eq!(memory.all()[at..at + 8], 6u64.to_ne_bytes());
    assert_eq!(memory.all().iter().filter(|byte| **byte != 0).count(), 1);
}

#[test]
fn a_shadow_has_no_shadow_and_refusing_one_leaves_nothing() {
    let (shadows, memory) = (Shadows::default(), Memory::new());
    let translation = Translation::Shadow { shadow: 0, offset: 0 };
    assert!(matches!(shadows.add(translation, 8, &Part(&memory, 0), None), Err(ShadowError::OfShadow)));
    shadows.numbered.write().unwrap().next = u32::MAX;
    let full = shadows.add(Translation::Plain { address: 4096 }, 8, &Part(&memory, 0), None);
    assert!(matches!(full, Err(ShadowError::NoNumber)));
    assert!(shadows.are_none() && shadows.state().pages.is_empty());
}

/// What a program that forgets a call does, and what it believes to find afterwards.
struct Omission {
    name: &'static str,
    run: fn(&Through<'_>, &Memory),
    believed: fn(&mut [u8]),
}

const OMISSIONS: [Omission; 6] = [
    Omission {
        name: "a store, and no call before the peer's write",
        run: |region, memory| {
            memory.store(10..200, 1);
            region.peer_writes(20..190, 2);
        },
        believed: |bytes| {
            bytes[10..200].fill(1);
            bytes[20..190].fill(2);
        },
    },
    Omission {
        name: "... of a single byte",
        run: |region, memory| {
            memory.store(70..71, 1);
            region.peer_writes(70..71, 2);
        },
        believed: |bytes| bytes[70] = 2,
    },
    Omission {
        name: "a peer's write, and no call before the store",
        run: |region, memory| {
            region.peer_writes(20..190, 2);
            memory.store(100..104, 3);
        },
        believed: |bytes| {
            bytes[20..190].fill(2);
            bytes[100..104].fill(3);
        },
    },
    Omission {
        name: "... of the same bytes",
        run: |region, memory| {
            region.peer_writes(64..72, 2);
            memory.store(64..72, 3);
        },
        believed: |bytes| bytes[64..72].fill(3),
    },
    Omission {
        name: "... and another write, to other bytes of them",
        run: |region, memory| {
            region.peer_writes(20..60, 2);
            memory.store(30..40, 3);
            region.peer_writes(35..50, 4);
        },
        believed: |bytes| {
            bytes[20..60].fill(2);
            bytes[30..35].fill(3);
            bytes[35..50].fill(4);
        },
    },
    Omission {
        name: "a store between two calls, of which one has other bytes",
        run: |region, memory| {
            region.synchronize(0..ROOM);
            memory.store(130..150, 1);
            region.synchronize(0..130);
            region.peer_writes(128..152, 2);
        },
        believed: |bytes| bytes[128..152].fill(2),
    },
];

/// What the program and its peers see in the end.
fn outcome(omission: &Omission, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let (shadows, memory) = (with_seed(seed), Memory::new());
    let region = Through::new(&shadows, &memory, 0..ROOM);
    (omission.run)(&region, &memory);
    region.synchronize(0..ROOM);
    (memory.all(), region.peer_reads(0..ROOM))
}

#[test]
fn every_store_that_meets_a_peers_write_without_the_call_shows_whatever_the_seed() {
    for omission in &OMISSIONS {
        let mut believed = vec![0; ROOM];
        (omission.believed)(&mut believed);
        for seed in 0..200 {
            let (program, peers) = outcome(omission, seed);
            assert_ne!(program, believed, "{} with seed {seed}", omission.name);
            assert_eq!(program, peers, "{} with seed {seed}", omission.name);
            assert_eq!(outcome(omission, seed).0, program, "a seed does the same again");
        }
    }
}

#[test]
fn which_lines_go_back_and_when_follows_from_the_seed() {
    let outcomes: std::collections::BTreeSet<_> =
        (0..200).map(|seed| outcome(&OMISSIONS[0], seed).0).collect();
    // Three lines, or parts of them, of which the first goes back always.
    assert_eq!(outcomes.len(), 4);
    let at_once: std::collections::BTreeSet<_> = (0..200)
        .map(|seed| {
            let (shadows, memory) = (with_seed(seed), Memory::new());
            let region = Through::new(&shadows, &memory, 0..ROOM);
            (OMISSIONS[1].run)(&region, &memory);
            region.peer_reads(70..71)
        })
        .collect();
    assert_eq!(at_once.len(), 2, "at once, or with the next call");
    let kinds: std::collections::BTreeSet<_> = (0..200).map(|seed| outcome(&OMISSIONS[2], seed).0).collect();
    assert_eq!(kinds.len(), 2, "the line goes back, or is dropped");
}

#[test]
fn only_lines_in_which_the_two_met_are_harmed_and_only_inside_the_call() {
    for seed in 0..50 {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let region = Through::new(&shadows, &memory, 0..ROOM);
        region.peer_writes(0..ROOM, 2);
        memory.store(70..72, 3);
        region.synchronize(69..75);
        // The positions of a line: START is 2 bytes before one.
        let seen = memory.all();
        assert!(seen[..69].iter().chain(&seen[75..]).all(|byte| *byte == 0));
        assert_eq!(region.peer_reads(0..69), [2; 69]);
        assert_eq!(region.peer_reads(75..ROOM), [2; ROOM - 75]);
        region.synchronize(0..ROOM);
        let seen = memory.all();
        assert!(seen[..69].iter().chain(&seen[75..]).all(|byte| *byte == 2));
    }
}

#[test]
fn publishing_leaves_what_peers_wrote_and_undoes_no_store() {
    for seed in 0..50 {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let region = Through::new(&shadows, &memory, 0..ROOM);
        region.peer_writes(40..60, 2);
        memory.store(0..40, 3);
        memory.store(60..100, 3);
        region.publish(0..ROOM);
        let mut peers = vec![0; ROOM];
        peers[0..100].fill(3);
        peers[40..60].fill(2);
        assert_eq!(region.peer_reads(0..ROOM), peers);
        // A store to what was not shown is what a cache cannot keep apart.
        memory.store(50..52, 4);
        region.publish(0..ROOM);
        let mut believed = peers.clone();
        believed[50..52].fill(4);
        assert_ne!(region.peer_reads(0..ROOM), believed);
    }
}

/// What is done next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Store,
    PeerWrites,
    DeviceWrites,
    Synchronize,
    Publish,
    PeerReads,
    Register,
    Free,
}

fn steps() -> impl Strategy<Value = Vec<(Step, usize, usize, usize)>> {
    let step = prop_oneof![
        3 => Just(Step::Store), 3 => Just(Step::PeerWrites), 1 => Just(Step::DeviceWrites),
        2 => Just(Step::Synchronize), 1 => Just(Step::Publish), 2 => Just(Step::PeerReads),
        1 => Just(Step::Register), 1 => Just(Step::Free),
    ];
    prop::collection::vec((step, 0usize..REGIONS.len(), 0usize..ROOM, 1usize..90), 0..60)
}

/// A process, and what it has in common with others for each region, if anything.
type Party<'a> = (&'a Shadows, Option<&'a Arc<CommonShadow>>);

/// Against two bytes and two facts for every byte: whatever the seed, a program that leaves out no call sees what the page
/// promises. Regions are made by the parties in turn.
fn never_hurts(
    steps: Vec<(Step, usize, usize, usize)>,
    parties: [Party<'_>; 2],
    memory: &Memory,
) -> Result<(), TestCaseError> {
    let (mut program, mut peers) = ([0u8; ROOM], [0u8; ROOM]);
    let (mut unseen, mut stored) = ([false; ROOM], [false; ROOM]);
    let mut regions: [Option<Through<'_>>; REGIONS.len()] = [const { None }; REGIONS.len()];
    for (value, (step, which, at, length)) in steps.into_iter().enumerate() {
        let value = value as u8 + 1;
        let room = REGIONS[which].clone();
        let at = room.start + at % room.len();
        let range = at..(at + length).min(room.end);
        let through = regions[which].as_ref();
        match (step, through) {
            (Step::Store, _) if !unseen[range.clone()].contains(&true) => {
                memory.store(range.clone(), value);
                program[range.clone()].fill(value);
                stored[range].fill(true);
            }
            (Step::PeerWrites, Some(region)) if !stored[range.clone()].contains(&true) => {
                region.peer_writes(range.clone(), value);
                peers[range.clone()].fill(value);
                unseen[range].fill(true);
            }
            (Step::DeviceWrites, Some(region)) => {
                // At the addresses of the regions, which this memory is not at.
                memory.store(range.clone(), value);
                for (number, place, part) in parts(Through::positions(&range)) {
                    let bytes = vec![value; (part.end - part.start) as usize];
                    if let Some(page) = region.shadows.state().pages.get_mut(&number) {
                        page.with(|page| page.place(&place, &bytes));
                    }
                }
                program[range.clone()].fill(value);
                peers[range.clone()].fill(value);
                unseen[range.clone()].fill(false);
                stored[range].fill(false);
            }
            (Step::Synchronize, Some(region)) => {
                region.synchronize(range.clone());
                for at in range {
                    if unseen[at] {
                        program[at] = peers[at]
                    } else {
                        peers[at] = program[at]
                    }
                    (unseen[at], stored[at]) = (false, false);
                }
            }
            (Step::Publish, Some(region)) => {
                region.publish(range.clone());
                for at in range.filter(|at| !unseen[*at]) {
                    (peers[at], stored[at]) = (program[at], false);
                }
            }
            (Step::PeerReads, Some(region)) => {
                prop_assert_eq!(region.peer_reads(range.clone()), &peers[range]);
            }
            (Step::Register, None) => {
                let (shadows, common) = parties[which % 2];
                regions[which] = Some(Through::of_process(shadows, memory, room.clone(), common));
                for at in room.filter(|at| !unseen[*at]) {
                    (peers[at], stored[at]) = (program[at], false);
                }
            }
            (Step::Free, Some(region)) => {
                region.shadows.remove(region.number);
                regions[which] = None;
                let rest: Vec<_> = regions.iter().flatten().map(Through::range).collect();
                for at in room.filter(|at| !rest.iter().any(|other| other.contains(at))) {
                    (unseen[at], stored[at]) = (false, false);
                }
            }
            _ => {}
        }
        prop_assert_eq!(memory.all(), program);
    }
    let rest = regions.iter().flatten().count();
    for (shadows, _) in parties {
        let own = regions.iter().flatten().filter(|region| std::ptr::eq(region.shadows, shadows));
        prop_assert_eq!(shadows.are_none(), own.count() == 0);
        prop_assert!(rest > 0 || shadows.state().pages.is_empty());
    }
    Ok(())
}

/// A shadow in common as two processes have it.
fn opened_twice() -> [Arc<CommonShadow>; 2] {
    let file = ByteFile::anonymous("nonic-shadow-test").unwrap();
    let (own, number) = (std::process::id() as i32, file.as_fd().as_raw_fd() as u32);
    let again = open_foreign_file(own, number, file.as_fd()).unwrap();
    [file, ByteFile::new(again)].map(|file| Arc::new(CommonShadow::new(file, None)))
}

proptest! {
    #[test]
    fn a_program_that_leaves_out_no_call_is_never_hurt(steps in steps(), seed in 0u64..4) {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        never_hurts(steps, [(&shadows, None), (&shadows, None)], &memory)?;
    }

    #[test]
    fn processes_that_share_memory_and_leave_out_no_call_are_never_hurt(steps in steps(), seed in 0u64..4) {
        let (one, other, memory) = (with_seed(seed), with_seed(seed + 1), Memory::new());
        let [mine, theirs] = opened_twice();
        never_hurts(steps, [(&one, Some(&mine)), (&other, Some(&theirs))], &memory)?;
        prop_assert_eq!((Arc::strong_count(&mine), Arc::strong_count(&theirs)) == (1, 1), one.are_none() && other.are_none());
    }

    #[test]
    fn regions_in_common_and_others_have_one_shadow(steps in steps(), seed in 0u64..4) {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let [common, _] = opened_twice();
        never_hurts(steps, [(&shadows, None), (&shadows, Some(&common))], &memory)?;
    }
}

#[test]
fn a_region_that_cannot_be_in_common_leaves_nothing() {
    let (shadows, memory) = (Shadows::default(), Memory::new());
    let [common, _] = opened_twice();
    let translation = Translation::Plain { address: 4096 };
    for offset in [1, u64::MAX, 1 << 61] {
        let in_common = Some(InCommon { shadow: &common, offset: offset & !4095 | offset & 1 });
        let refused = shadows.add(translation, 8, &Part(&memory, 0), in_common);
        assert!(matches!(refused, Err(ShadowError::System(_))), "{offset}");
        assert!(shadows.are_none() && shadows.state().pages.is_empty());
    }
}

//! Programs that make their memory consistent, which the cache never hurts, and programs that forget to.

mod histories;
mod omissions;

use nonic_sys::{AsFd, AsRawFd, ByteFile, SharedMapping, open_foreign_file};

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

/// A shadow in common as two processes have it.
fn opened_twice() -> [Arc<CommonShadow>; 2] {
    let file = ByteFile::anonymous("nonic-shadow-test").unwrap();
    let (own, number) = (std::process::id() as i32, file.as_fd().as_raw_fd() as u32);
    let again = open_foreign_file(own, number, file.as_fd()).unwrap();
    [file, ByteFile::new(again)].map(|file| Arc::new(CommonShadow::new(file, None)))
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

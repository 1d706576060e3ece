use std::cell::{Cell, RefCell};

use nonic_memory::{
    Access, AddressRange, AdoptionPolicy, Arena, Entry, Key, KeyPair, PlainReason, RegionAddress,
    SharedSlice, Translation, ZoneId,
};
use nonic_protocol::{QpNumber, QpType};
use nonic_trust::TrustedUsers;

use super::*;
use crate::layout::{BLOCK_SIZE, LINK_LENGTH};
use crate::qp_slot::QpSlot;

/// A session in name only.
#[derive(Default)]
struct Control {
    dead: Cell<bool>,
    asked: RefCell<Vec<u32>>,
}

impl ControlPath for Control {
    fn is_dead(&self) -> bool {
        self.dead.get()
    }

    fn ask_file(&self, file: u32) {
        self.asked.borrow_mut().push(file);
    }
}

/// The two sides of one piece of memory, of processes that are one here. The second one's keys and arena the first one sees.
struct Sides {
    near: Reach,
    far: Reach,
    control: Control,
}

const PAIR: QpNumber = QpNumber(BLOCK_SIZE + 5);
const SOURCE: QpNumber = QpNumber(77);
const LENGTH: u64 = 64;

impl Sides {
    fn new() -> Self {
        let party = || {
            let arena = Arc::new(Arena::create(4096).unwrap());
            let trusted = TrustedUsers::default();
            Arc::new(
                Party::create(Tier::Mapped, AdoptionPolicy::Never, Arc::default(), vec![arena], trusted)
                    .unwrap(),
            )
        };
        let memory = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        let [near, far] = [LinkEnd::Active, LinkEnd::Passive].map(|end| Reach::new(party(), &memory, end));
        far.party.segment.add_block(1).unwrap();
        let arena = far.party.memory.arenas()[0].as_fd().try_clone_to_owned().unwrap();
        let arena = nonic_sys::SharedMemory::from_peer_whole(arena).unwrap();
        let arenas = vec![arena.map(nonic_sys::Protection::ReadWrite).unwrap()];
        let view = PeerView { segment: far.party.segment.view(), arenas, adopted: None };
        near.view.set(view).unwrap();
        Self { near, far, control: Control::default() }
    }

    /// A region of the far side, and a queue pair there to which all of it may be written by the near one.
    fn region(&self, translation: Translation) -> Key {
        let slot = QpSlot {
            zone: ZoneId(3),
            peer: SOURCE,
            access: Access::REMOTE,
            answers_reads: true,
            transport: QpType::ReliableConnection,
        };
        self.far.party.segment.publish(PAIR, Some(slot));
        self.region_with(translation, Access::REMOTE).remote
    }

    /// A region of the far side.
    fn region_with(&self, translation: Translation, access: Access) -> KeyPair {
        let entry = Entry {
            zone: ZoneId(3),
            access,
            base: RegionAddress(0),
            length: LENGTH,
            translation,
            reason: PlainReason::None,
            local_tag: 0,
            remote_tag: 0,
        };
        self.far.party.segment.keys().insert(entry).unwrap()
    }

    fn direct(&self, key: Key) -> Option<DirectAccess<'_>> {
        let request = DirectRequest {
            source: SOURCE,
            transport: QpType::ReliableConnection,
            target: self.far.party.segment.view().slot_place(PAIR).unwrap(),
            pair: PAIR,
            key,
            range: AddressRange::new(0, LENGTH),
            want: Access::REMOTE_WRITE,
        };
        self.near.direct(&self.control, &request)
    }
}

const ARENA: Translation = Translation::Device { device: 0, offset: 0 };

#[test]
fn the_side_that_is_operated_on_sees_the_operation_until_it_is_over() {
    let sides = Sides::new();
    let key = sides.region(ARENA);
    assert!(sides.far.peer_inside().is_none());
    let access = sides.direct(key).unwrap();
    assert!(sides.near.peer_inside().is_none(), "it is its own");
    let inside = sides.far.peer_inside().unwrap();
    assert!(!inside.have_left() && !sides.far.wait_for_peer(Duration::from_millis(2), &|| false));
    let mut bytes = *b"written directly";
    let (bytes, rest) = (SharedSlice::of_private(&mut bytes), &mut [7; LENGTH as usize - 16]);
    access.write(&[bytes, SharedSlice::of_private(rest)]).unwrap();
    drop(access);
    assert!(inside.have_left() && sides.far.wait_for_peer(Duration::ZERO, &|| false));
    let mut seen = [0; 17];
    sides.far.party.memory.arenas()[0].slice(0, 17).unwrap().read(&mut seen);
    assert_eq!(&seen, b"written directly\x07");
}

#[test]
fn no_operation_begins_when_the_session_has_ended() {
    let sides = Sides::new();
    let key = sides.region(ARENA);
    sides.control.dead.set(true);
    assert!(sides.direct(key).is_none());
    assert!(sides.far.peer_inside().is_none(), "it has left again");
}

#[test]
fn who_finds_no_slot_that_the_peer_sees_declines() {
    let sides = Sides::new();
    let key = sides.region(ARENA);
    let taken: Vec<_> = std::iter::from_fn(|| sides.near.own_operations.enter(|| false)).collect();
    assert!(!taken.is_empty() && sides.direct(key).is_none());
    drop(taken);
    assert!(sides.direct(key).is_some());
}

#[test]
fn a_file_is_asked_for_over_the_session_when_an_operation_needs_it() {
    let sides = Sides::new();
    let key = sides.region(Translation::SharedFile { file: 9, offset: 0, address: 0x20_0000 });
    assert!(sides.direct(key).is_none() && sides.direct(key).is_none());
    assert_eq!(*sides.control.asked.borrow(), [9]);
    let file = nonic_sys::SharedMemory::create("file", 4096).unwrap();
    sides.near.take_file(9, Some(file));
    assert!(sides.direct(key).is_some());
    sides.near.forget_file(9);
    assert!(sides.direct(key).is_none());
    assert_eq!(*sides.control.asked.borrow(), [9, 9]);
}

#[test]
fn what_is_named_and_lies_in_a_file_is_coming_until_the_peer_has_answered() {
    let sides = Sides::new();
    let named = |translation| {
        let key = sides.region_with(translation, Access::LOCAL_WRITE).local;
        let memory = NamedMemory { zone: ZoneId(3), key };
        let range = AddressRange::new(0, LENGTH);
        move |sides: &Sides| sides.near.named(&sides.control, memory, range, Access::LOCAL_WRITE).map(drop)
    };
    let given = named(Translation::SharedFile { file: 9, offset: 0, address: 0x20_0000 });
    let kept = named(Translation::SharedFile { file: 10, offset: 0, address: 0x30_0000 });
    assert_eq!([given(&sides), given(&sides), kept(&sides)], [Err(NotNamed::Coming); 3]);
    assert_eq!(*sides.control.asked.borrow(), [9, 10]);
    sides.near.take_file(9, Some(nonic_sys::SharedMemory::create("file", 4096).unwrap()));
    sides.near.take_file(10, None);
    assert_eq!([given(&sides), kept(&sides)], [Ok(()), Err(NotNamed::Unreachable)]);
    // It came between the look for it and the question what had become of it; more than it has never comes.
    assert!(sides.near.files.may_come(9, 4096) && !sides.near.files.may_come(9, 4097));
    let private = named(Translation::Plain { address: 0x40_0000 });
    assert_eq!(private(&sides), Err(NotNamed::Unreachable));
}

#[test]
fn what_a_peer_says_of_its_ways_counts_as_far_as_this_side_allows_them() {
    let of = |tier| {
        let party =
            Party::create(tier, AdoptionPolicy::Never, Arc::default(), vec![], TrustedUsers::default())
                .unwrap();
        let memory = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        let reach = Reach::new(Arc::new(party), &memory, LinkEnd::Active);
        reach.set_peer_ways(true, true);
        (reach.peer_can_reach(), reach.peer_can_map())
    };
    assert_eq!(
        [Tier::Ring, Tier::Kernel, Tier::Mapped].map(of),
        [(false, false), (true, false), (true, true)]
    );
}

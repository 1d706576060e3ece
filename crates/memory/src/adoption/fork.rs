//! A child's memory is its own: what was adopted in the parent is private memory in the child, as of the moment of the fork.
//!
//! The child copies, before `fork` returns in it; the forking thread waits for that in the parent (`handshake.rs`). What cannot
//! be copied, because memory is short or somebody has stopped the child so long that the parent went on, is not mapped in
//! the child (`leaving.rs`): never does it see, or write, its parent's pages in place of its own. If there is more to copy than
//! the limit, the child maps the file privately instead and reads from it what it has not written itself: then places
//! that are given back in the parent stay as they are until no child looks at them any more. The same holds for memory that
//! the parent had given back as a private mapping of the file: a place that a child may still look at is not used again.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nonic_sys::{ForkHandler, ForkLayer, Protection, SharedMapping, SharedMemory, on_fork};

use super::file_cell::{FileCell, FileGuard};
use super::handshake::Handshake;
use super::offspring::{Offspring, offspring};
use super::runs::Runs;
use super::state::{FORK_PATIENCE, State};
use super::telling::learn_whom_to_tell;

/// What one adopter knows. It lives as long as the process: memory stays mapped when an adopter goes.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) file: &'static FileCell,
}

struct Slot {
    shared: &'static Shared,
    taken: bool,
}

static SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

/// A state that no adopter has: one of before, with all it knows, or a new one.
pub(super) fn take_slot() -> &'static Shared {
    learn_whom_to_tell();
    on_fork(ForkLayer::Memory, &Watcher);
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slot) = slots.iter_mut().find(|slot| !slot.taken) {
        slot.taken = true;
        return slot.shared;
    }
    let file: &'static FileCell = Box::leak(Box::new(FileCell::new()));
    let shared: &'static Shared = Box::leak(Box::new(Shared { state: Mutex::new(State::new(file)), file }));
    slots.push(Slot { shared, taken: true });
    shared
}

/// Its adopter is gone.
pub(super) fn return_slot(shared: &'static Shared) {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slot) = slots.iter_mut().find(|slot| std::ptr::eq(slot.shared, shared)) {
        slot.taken = false;
    }
}

/// A child that looks at places of the file.
#[derive(Debug)]
pub(super) struct Child {
    /// The child, and its children, have it mapped until they end or run another program. Closing descriptors, as daemons
    /// do, changes nothing about that. `None` where this was another child's to watch.
    pub(super) sign: Option<SharedMemory>,
    /// Whether it reads adopted pages from the file, not only holes.
    pub(super) reads: bool,
    /// The holes it looks at.
    pub(super) holes: Runs,
}

impl Child {
    /// Whether nobody has the sign any more.
    pub(super) fn is_gone(&self) -> bool {
        self.sign.as_ref().is_none_or(|sign| sign.seal_writes().is_ok())
    }
}

/// What stands between a fork's handlers.
struct UnderWay {
    slots: MutexGuard<'static, Vec<Slot>>,
    states: Vec<MutexGuard<'static, State>>,
    files: Vec<FileGuard>,
    /// None where nothing is adopted, or none could be made: the child then copies nothing.
    handshake: Option<Handshake>,
    sign: Option<(SharedMemory, SharedMapping)>,
    offspring: MutexGuard<'static, Offspring>,
}

type Lists = (Vec<MutexGuard<'static, State>>, Vec<FileGuard>);

thread_local! {
    // Without destructors, which the C library would allocate for: a thread that forked leaves its empty lists behind.
    /// Empty lists that an earlier fork left.
    static LISTS: Cell<ManuallyDrop<Lists>> = const { Cell::new(ManuallyDrop::new((Vec::new(), Vec::new()))) };
    static UNDER_WAY: RefCell<Option<ManuallyDrop<UnderWay>>> = const { RefCell::new(None) };
}

fn take_under_way() -> Option<UnderWay> {
    UNDER_WAY.with(|place| place.borrow_mut().take()).map(ManuallyDrop::into_inner)
}

pub(super) struct Watcher;

impl ForkHandler for Watcher {
    fn prepare(&self) {
        let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut states, mut files) = ManuallyDrop::into_inner(LISTS.take());
        let lock = |slot: &Slot| slot.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        states.extend(slots.iter().map(lock));
        for state in &mut states {
            // A child that forks again has nothing of its parent's.
            state.refresh();
        }
        files.extend(slots.iter().map(|slot| slot.shared.file.hold()));
        let adopted = states.iter().any(|state| state.has_adopted());
        let leaves = states.iter().any(|state| state.leaves_places_to_children());
        let handshake = if adopted { Handshake::new().ok() } else { None };
        let sign = if leaves { sign().ok() } else { None };
        let offspring = offspring();
        let under_way = UnderWay { slots, states, files, handshake, sign, offspring };
        UNDER_WAY.with(|place| *place.borrow_mut() = Some(ManuallyDrop::new(under_way)));
    }

    fn parent(&self) {
        let Some(under_way) = take_under_way() else { return };
        let UnderWay { slots, mut states, files, handshake, sign, mut offspring } = under_way;
        offspring.has_forked();
        if let Some(handshake) = handshake {
            let patience = states.iter().map(|state| state.fork_patience).max().unwrap_or(FORK_PATIENCE);
            handshake.wait(patience);
        }
        if let Some((sign, mapping)) = sign {
            drop(mapping);
            for state in &mut states {
                if let Ok(sign) = sign.try_clone() {
                    state.add_child(sign);
                }
            }
        }
        drop((files, states, slots));
    }

    fn child(&self) {
        let Some(under_way) = take_under_way() else { return };
        let UnderWay { slots, mut states, mut files, handshake, sign, mut offspring } = under_way;
        offspring.become_child();
        // Nothing may be freed here: another thread of the parent may have held the allocator's lock.
        for state in states.iter_mut() {
            state.become_child(handshake.as_ref());
        }
        if let Some(handshake) = handshake {
            handshake.finish();
        }
        if let Some((memory, mapping)) = sign {
            std::mem::forget(mapping);
            drop(memory);
        }
        // Unlocks them; the lists themselves stay allocated, for the next fork.
        files.clear();
        states.clear();
        LISTS.set(ManuallyDrop::new((states, files)));
        drop(slots);
    }
}

fn sign() -> std::io::Result<(SharedMemory, SharedMapping)> {
    let memory = SharedMemory::create("nonic-child", nonic_sys::PAGE)?;
    let mapping = memory.map(Protection::ReadWrite)?;
    Ok((memory, mapping))
}

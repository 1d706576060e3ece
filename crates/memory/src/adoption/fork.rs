//! A child's memory is its own: what was adopted in the parent is private memory in the child, as of the moment of the fork.
//!
//! The child copies, before `fork` returns in it; the forking thread waits for that in the parent. If there is more to copy
//! than the limit, the child maps the file privately instead and reads from it what it has not written itself: then places
//! that are given back in the parent stay as they are until no child looks at them any more. The same holds for memory that
//! the parent had given back as a private mapping of the file: a place that a child may still look at is not used again.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nonic_sys::{
    AddressFile, AreaMap, AsFd, Backing, ForkHandler, ForkLayer, OwnedFd, Protection, SharedMapping,
    SharedMemory, on_fork, pipe, read_byte, wait_readable, write_byte,
};

use super::file_cell::{FileCell, FileGuard};
use super::runs::Runs;
use super::state::State;
use super::switching::{self, Span};

/// How long a parent waits for its child to have copied.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// Tells the parent that the child has copied: reading and writing end.
    copied: Option<(OwnedFd, OwnedFd)>,
    sign: Option<(SharedMemory, SharedMapping)>,
}

type Lists = (Vec<MutexGuard<'static, State>>, Vec<FileGuard>);

thread_local! {
    /// Empty lists that an earlier fork left.
    static LISTS: Cell<Lists> = const { Cell::new((Vec::new(), Vec::new())) };
    static UNDER_WAY: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
}

fn take_under_way() -> Option<UnderWay> {
    UNDER_WAY.with(|place| place.borrow_mut().take())
}

struct Watcher;

impl ForkHandler for Watcher {
    fn prepare(&self) {
        let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut states, mut files) = LISTS.take();
        let lock = |slot: &Slot| slot.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        states.extend(slots.iter().map(lock));
        for state in &mut states {
            // A child that forks again has nothing of its parent's.
            state.refresh();
        }
        files.extend(slots.iter().map(|slot| slot.shared.file.hold()));
        let adopted = states.iter().any(|state| state.has_adopted());
        let leaves = states.iter().any(|state| state.leaves_places_to_children());
        let copied = if adopted { pipe().ok() } else { None };
        let sign = if leaves { sign().ok() } else { None };
        UNDER_WAY.with(|place| *place.borrow_mut() = Some(UnderWay { slots, states, files, copied, sign }));
    }

    fn parent(&self) {
        let Some(UnderWay { slots, mut states, files, copied, sign }) = take_under_way() else { return };
        if let Some((copied, write_end)) = copied {
            drop(write_end);
            // A byte, or the end of the pipe because the child is dead or there is none.
            if wait_readable(copied.as_fd(), Some(PATIENCE)) {
                let _ = read_byte(&copied);
            }
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
        let Some(UnderWay { slots, mut states, mut files, copied, sign }) = take_under_way() else { return };
        // Nothing may be freed here: another thread of the parent may have held the allocator's lock.
        for state in states.iter_mut() {
            state.become_child();
        }
        if let Some((_read_end, write_end)) = copied {
            let _ = write_byte(&write_end);
        }
        if let Some((memory, mapping)) = sign {
            std::mem::forget(mapping);
            drop(memory);
        }
        // Unlocks them; the lists themselves stay allocated, for the next fork.
        files.clear();
        states.clear();
        LISTS.set((states, files));
        drop(slots);
    }
}

fn sign() -> std::io::Result<(SharedMemory, SharedMapping)> {
    let memory = SharedMemory::create("nonic-child", nonic_sys::PAGE)?;
    let mapping = memory.map(Protection::ReadWrite)?;
    Ok((memory, mapping))
}

/// In a child: makes every mapping of the parent's file memory of its own, by copying, or, if `read_later`, as a private
/// mapping of the file. What cannot be copied is mapped privately too: better late bytes than the parent's.
pub(super) fn leave_file(file: &AddressFile, read_later: bool) {
    let Ok(areas) = AreaMap::open() else { return };
    let mut at = 0;
    while let Ok(Some(area)) = areas.at_or_above(at) {
        at = area.end;
        let Backing::SharedFile { device, inode, offset } = area.backing else { continue };
        if (device, inode) != file.identity() {
            continue;
        }
        let span = Span { start: area.start, end: area.end, offset, rights: area.rights() };
        if read_later || switching::give_back_alone(file, span, false).is_err() {
            let _ = switching::map_privately(file, span);
        }
    }
}

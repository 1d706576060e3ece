//! Finding the engine, and what its calls are before it is found, or if it is not.

use core::cell::Cell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nonic_neighbour::Engine;

use crate::calls::{TABLE_VERSION, ViewTable};

/// The engine's table, or [`ABSENT`].
static ENGINE: Engine<ViewTable> = Engine::absent(&ABSENT);

/// Without an engine there is no tree.
static ABSENT: ViewTable = ViewTable {
    version: TABLE_VERSION,
    root: no_root,
    counter: no_counter,
    netlink: no_answer,
    leave: nothing,
};

unsafe extern "C" fn no_root(_: *mut c_char, _: usize) -> c_int {
    -libc::ENOENT
}

unsafe extern "C" fn no_counter(_: *const c_char) -> c_int {
    -libc::ENOENT
}

unsafe extern "C" fn no_answer(_: c_int, _: *const u8, _: usize) -> c_int {
    -libc::ECONNREFUSED
}

unsafe extern "C" fn nothing() {}

std::thread_local! {
    /// Whether this thread is in the engine, whose own calls of the C library are not the program's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Calls the engine.
pub(crate) fn inside<T>(work: impl FnOnce(&'static ViewTable) -> T) -> T {
    let table = found();
    let before = INSIDE.replace(true);
    let answer = work(table);
    INSIDE.set(before);
    answer
}

/// How far looking for it has come.
static FOUND: AtomicI32 = AtomicI32::new(NOT_LOOKED);
const NOT_LOOKED: i32 = 0;
const LOOKING: i32 = 1;
const LOOKED: i32 = 2;

/// The engine's calls, looked for once.
fn found() -> &'static ViewTable {
    match FOUND.compare_exchange(NOT_LOOKED, LOOKING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            let consequence = c"Files of the device are not shown.";
            INSIDE.set(true); // The loader opens files.
            // SAFETY: the engine's table of this name and version is made of the same list of calls.
            unsafe { ENGINE.connect(c"libnonic-view.so", c"nonic_view_table", TABLE_VERSION, consequence) }
            INSIDE.set(false);
            FOUND.store(LOOKED, Ordering::Release);
        }
        Err(LOOKED) => {}
        Err(_) => wait(),
    }
    ENGINE.table()
}

/// Waits for the thread that looks, as the loader would have it wait; not for ever: that thread may have been lost in a `fork`, and
/// then there is no engine here.
fn wait() {
    const LOOKS: usize = 1000;
    for _ in 0..LOOKS {
        if FOUND.load(Ordering::Acquire) == LOOKED {
            return;
        }
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // SAFETY: a time to sleep; what is left of it is not asked for.
        unsafe { libc::nanosleep(&raw const nap, core::ptr::null_mut()) };
    }
    FOUND.store(LOOKED, Ordering::Release);
}

/// Whether this process has looked at the view: from then on relative paths may begin in it.
static USED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

pub(crate) fn use_it() {
    USED.store(true, Ordering::Relaxed);
}

/// The tree is taken away, if this process is the last that has it.
pub(crate) fn leave() {
    if FOUND.load(Ordering::Acquire) == LOOKED {
        // SAFETY: asks for nothing.
        inside(|table| unsafe { (table.leave)() });
    }
}

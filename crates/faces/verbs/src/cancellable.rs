//! Waiting where a thread may be cancelled (`pthread_cancel(3)`).
//!
//! A thread is cancelled in a call of the C library, whose callers' frames are then unwound. So between the program and that
//! call only frames stand that own nothing and catch nothing: what the wait holds lies in memory of the first of them that
//! nobody drops by itself, and goes by hand, when the wait ends or when a cancelled thread leaves it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::io;

use nonic_device::{EventWait, Step};
use nonic_sys::{Sleep, cancel_if_asked, put_off_cancellation, restore_cancellation, sleep_cancellably};

use crate::errno::Errno;
use crate::guard;

/// A wait that sleeps, and what its read has taken.
struct Waiting<W> {
    wait: MaybeUninit<W>,
    taken: u64,
}

/// What stands in its place as long as it is over.
#[derive(Clone, Copy)]
enum State {
    Over(c_int),
    Sleeps(Sleep),
}

/// Waits for an event and hands it to `found`; 0, or -1 with `errno` set. A point of cancellation: a thread that is cancelled
/// has taken no event.
///
/// # Safety
/// No frame between the program's and this call owns anything or catches panics, and `begin` and `found` own nothing.
pub unsafe fn wait<W: EventWait>(begin: impl Fn() -> Result<W, Errno>, found: impl Fn(W::Event)) -> c_int {
    // SAFETY: the same for this frame, which owns nothing.
    unsafe { cancel_if_asked() };
    let cancellation = put_off_cancellation();
    let mut waiting = Waiting { wait: MaybeUninit::uninit(), taken: 0 };
    let mut state = start(&mut waiting, &begin, &found);
    while let State::Sleeps(sleep) = state {
        let (argument, taken) = ((&raw mut waiting).cast(), &raw mut waiting.taken);
        // SAFETY: as above; `waiting` holds a wait, and stays where it is.
        let error = unsafe { sleep_cancellably(sleep, taken, leave::<W>, argument, cancellation) };
        state = go_on(&mut waiting, error, &found);
    }
    restore_cancellation(cancellation);
    match state {
        State::Over(result) => result,
        State::Sleeps(_) => unreachable!("the loop ends with the wait"),
    }
}

fn start<W: EventWait>(
    waiting: &mut Waiting<W>,
    begin: &impl Fn() -> Result<W, Errno>,
    found: &impl Fn(W::Event),
) -> State {
    step(waiting, found, begin, Ok(()))
}

fn go_on<W: EventWait>(waiting: &mut Waiting<W>, error: c_int, found: &impl Fn(W::Event)) -> State {
    // SAFETY: it slept, so it is there. If it sleeps again it is put back.
    let wait = unsafe { waiting.wait.assume_init_read() };
    let slept = if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) };
    step(waiting, found, || Ok(wait), slept)
}

/// Takes a step of a wait, which is put into its place if it sleeps then, and dropped if it is over.
fn step<W: EventWait>(
    waiting: &mut Waiting<W>,
    found: &impl Fn(W::Event),
    wait: impl FnOnce() -> Result<W, Errno>,
    slept: io::Result<()>,
) -> State {
    let outcome = guard::caught(|| {
        let mut wait = wait()?;
        match wait.go_on(slept)? {
            Step::Found(event) => {
                found(event);
                Ok(State::Over(0))
            }
            Step::Sleep(sleep) => {
                waiting.taken = 0;
                waiting.wait.write(wait);
                Ok(State::Sleeps(sleep))
            }
        }
    });
    outcome.unwrap_or_else(|errno| {
        errno.set();
        State::Over(-1)
    })
}

/// Ends the wait of a thread that is cancelled in its sleep.
unsafe extern "C" fn leave<W: EventWait>(waiting: *mut c_void) {
    // SAFETY: called with what `wait` gave, while that sleeps: the wait is there, and nobody else takes it.
    let (wait, taken) = unsafe {
        let waiting = &*waiting.cast::<Waiting<W>>();
        (waiting.wait.assume_init_read(), waiting.taken)
    };
    guard::silent(|| wait.abandon(taken != 0));
}

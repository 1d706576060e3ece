//! The end of the process: what its programs have sent goes before it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nonic_sys::{PerProcess, at_exit, nap};

use crate::wire::tell_all;

/// Relays of this process.
static LIVING: PerProcess<AtomicUsize> = PerProcess::new();
static EXITS: AtomicBool = AtomicBool::new(false);

/// How long an exit waits for what is on its way.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_micros(200);

/// One that an exit waits for.
pub(super) struct Living(());

impl Living {
    pub(super) fn new() -> Self {
        LIVING.get_or_make(AtomicUsize::default).fetch_add(1, Ordering::SeqCst);
        // Later than whatever the stream goes over has asked for its turn: so it comes before that.
        at_exit(finish);
        Self(())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        if let Some(living) = LIVING.get() {
            living.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether the process exits: no endpoint of its own is open any more.
pub(super) fn is_under_way() -> bool {
    EXITS.load(Ordering::SeqCst)
}

extern "C" fn finish() {
    let Some(living) = LIVING.get() else { return };
    EXITS.store(true, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while living.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        tell_all();
        nap(LOOK);
    }
}

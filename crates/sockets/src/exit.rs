//! A program that exits and has not closed its sockets: the kernel would end their connections in order.

use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use nonic_sys::spawn_without_signals;

use crate::{carrying, table};

/// How long an exit waits for what was sent to have gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Ends connections in order when the program exits. Asked for behind the device, so that it comes before the device's own end.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| nonic_sys::at_exit(at_exit));
}

extern "C" fn at_exit() {
    say_goodbye();
}

/// Ends all connections in order. This may be called where a lock is held for ever, by a handler of a signal: then it does less.
pub fn say_goodbye() {
    let end = Instant::now() + PATIENCE;
    let streams: Vec<_> =
        table::sockets_if_free().iter().filter_map(|socket| socket.stream_if_free()).collect();
    if streams.is_empty() {
        return carrying::finish(end);
    }
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let told = Arc::clone(&done);
    // By another thread: the variables of this one may be gone already.
    let began = spawn_without_signals("goodbye", move || {
        streams.iter().for_each(|stream| stream.close_until(end));
        *told.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.1.notify_all();
    });
    if began.is_ok() {
        let over = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Each stream may take until the end to say that it cannot.
        let _ = done.1.wait_timeout_while(over, 2 * PATIENCE, |over| !*over);
    }
    carrying::finish(end);
}

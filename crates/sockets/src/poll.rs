//! `poll(2)` and `select(2)` for numbers of both kinds.

use std::time::{Duration, Instant};

use nonic_rsocket::{DescriptorSet, Result, poll_found, select_with};
use nonic_sys::{PollEntry, RawFd};

use crate::socket::Socket;
use crate::table;

/// `poll(2)`: how many are ready. `None` waits for ever.
pub fn poll(entries: &mut [PollEntry], timeout: Option<Duration>) -> Result<usize> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    for set in entries.iter().filter_map(|entry| table::event_set(entry.number)) {
        set.show();
        set.sift();
    }
    loop {
        let connecting: Vec<RawFd> =
            entries.iter().map(|entry| entry.number).filter(|number| is_connecting(*number)).collect();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let find = |number: RawFd| table::socket(number).and_then(|socket| Socket::polled(&socket, number));
        let mut count = poll_found(entries, left, &find)?;
        if count > 0 {
            count -= look_again(entries);
            if count == 0 {
                continue;
            }
        }
        // One that is refused as a stream goes on in the kernel, and is not what the program waits for yet.
        let refused = |entry: &PollEntry| entry.revents != 0 && connecting.contains(&entry.number);
        let mut again = false;
        for number in entries.iter().filter(|entry| refused(entry)).map(|entry| entry.number) {
            if let Some(socket) = table::socket(number) {
                socket.settle(number);
            }
            again |= table::socket(number).is_none_or(|socket| !socket.is_connected());
        }
        if count == 0 || !again {
            return Ok(count);
        }
    }
}

/// Asks the kernel about those that it carries: some of them it may have got while they were waited for, and event polls may have
/// news that are none. How many are not ready.
fn look_again(entries: &mut [PollEntry]) -> usize {
    let mut less = 0;
    for entry in entries.iter_mut().filter(|entry| entry.revents != 0) {
        let set = table::event_set(entry.number);
        if let Some(set) = &set {
            set.sift();
        }
        if set.is_some() || table::socket(entry.number).is_some_and(|socket| socket.is_foreign()) {
            entry.revents = nonic_sys::poll_now(entry.number, entry.events);
            less += usize::from(entry.revents == 0);
        }
    }
    less
}

fn is_connecting(number: RawFd) -> bool {
    table::socket(number).is_some_and(|socket| socket.is_connecting())
}

/// `select(2)`.
pub fn select(
    count: usize,
    sets: &mut [Option<DescriptorSet>; 3],
    timeout: Option<Duration>,
) -> Result<usize> {
    select_with(count, sets, &mut |entries| poll(entries, timeout))
}

//! The counters among the files: which there are, and what each is of what the device counts.
//!
//! The device is the host's: what one of its processes sends another receives. What is counted is what the processes of this
//! user that are alive now have done, as far as they can be looked at.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use nonic_device::{Counter, Counters, counters_of_user};

/// How old a number may be; what the kernel's file of that name says of a card's.
pub(crate) const LIFESPAN_MS: u64 = 10;

/// How a number comes from what is counted.
type Number = fn(&Counters) -> u64;

/// Of the port (IBTA vol. 1, 16.1.3.5 and 16.1.4: PortCounters, PortCountersExtended). Data is counted in words of four bytes, and
/// a message is one packet, however long: nothing divides it. Errors of a link there are none.
pub(crate) const COUNTERS: &[(&str, Number)] = &[
    ("VL15_dropped", |_| 0),
    ("excessive_buffer_overrun_errors", |_| 0),
    ("link_downed", |_| 0),
    ("link_error_recovery", |_| 0),
    ("local_link_integrity_errors", |_| 0),
    ("port_rcv_constraint_errors", |_| 0),
    ("port_rcv_data", |counted| bytes_in(counted) / 4),
    ("port_rcv_errors", |_| 0),
    ("port_rcv_packets", messages_in),
    ("port_rcv_remote_physical_errors", |_| 0),
    ("port_rcv_switch_relay_errors", |_| 0),
    ("port_xmit_constraint_errors", |_| 0),
    ("port_xmit_data", |counted| bytes_out(counted) / 4),
    ("port_xmit_discards", |_| 0),
    ("port_xmit_packets", messages_out),
    ("port_xmit_wait", |_| 0),
    ("symbol_error", |_| 0),
];

/// Of the requests, by the names that drivers give them.
pub(crate) const HARDWARE_COUNTERS: &[(&str, Number)] = &[
    ("completer_retry_err", |counted| counted.get(Counter::Repeated)),
    ("rcvd_pkts", messages_in),
    ("rdma_recvs", |counted| counted.get(Counter::Received)),
    ("rdma_sends", |counted| counted.get(Counter::Sends)),
    ("req_cqe_error", |counted| counted.get(Counter::Failed)),
    ("rx_atomic_requests", |counted| counted.get(Counter::Atomics)),
    ("rx_read_requests", |counted| counted.get(Counter::Reads)),
    ("rx_write_requests", |counted| counted.get(Counter::Writes)),
    ("sent_pkts", messages_out),
];

/// What goes out and comes in alike: a write, a read or an atomic operation is carried out by one side alone.
fn one_sided(counted: &Counters, kinds: [Counter; 3]) -> u64 {
    kinds.into_iter().fold(0, |sum, kind| sum.wrapping_add(counted.get(kind)))
}

fn messages_out(counted: &Counters) -> u64 {
    one_sided(counted, [Counter::Writes, Counter::Reads, Counter::Atomics])
        .wrapping_add(counted.get(Counter::Sends))
}

fn messages_in(counted: &Counters) -> u64 {
    one_sided(counted, [Counter::Writes, Counter::Reads, Counter::Atomics])
        .wrapping_add(counted.get(Counter::Received))
}

fn bytes_out(counted: &Counters) -> u64 {
    one_sided(counted, [Counter::WriteBytes, Counter::ReadBytes, Counter::AtomicBytes])
        .wrapping_add(counted.get(Counter::SendBytes))
}

fn bytes_in(counted: &Counters) -> u64 {
    one_sided(counted, [Counter::WriteBytes, Counter::ReadBytes, Counter::AtomicBytes])
        .wrapping_add(counted.get(Counter::ReceivedBytes))
}

/// The number behind a path of the tree, if it is one that changes.
fn number(path: &str) -> Option<Number> {
    let mut parts = path.rsplit('/');
    let (name, folder) = (parts.next()?, parts.next()?);
    let table = match folder {
        "counters" => COUNTERS,
        "hw_counters" => HARDWARE_COUNTERS,
        _ => return None,
    };
    table.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// What the file at `path` says now; `None` if it is no counter.
pub(crate) fn counter_text(path: &str) -> Option<String> {
    number(path).map(|number| format!("{}\n", number(&recent())))
}

/// What has been counted, at most [`LIFESPAN_MS`] ago: looking costs more, the more processes there are.
fn recent() -> Counters {
    static LAST: Mutex<Option<(Instant, Counters)>> = Mutex::new(None);
    let Ok(mut last) = LAST.try_lock() else { return counters_of_user() };
    match *last {
        Some((when, counted)) if when.elapsed() < Duration::from_millis(LIFESPAN_MS) => counted,
        _ => last.insert((Instant::now(), counters_of_user())).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_goes_out_and_what_was_received_comes_in_and_the_rest_does_both() {
        let counted: Counters = [
            (Counter::Sends, 3),
            (Counter::SendBytes, 40),
            (Counter::Received, 2),
            (Counter::ReceivedBytes, 24),
            (Counter::Writes, 5),
            (Counter::WriteBytes, 400),
            (Counter::Reads, 7),
            (Counter::Asked, 9),
            (Counter::Served, 9),
        ]
        .into_iter()
        .collect();
        let value = |path: &str| number(path).map(|number| number(&counted));
        assert_eq!(value("/p/counters/port_xmit_data"), Some(110));
        assert_eq!(value("/p/counters/port_rcv_data"), Some(106));
        assert_eq!(value("/p/counters/port_xmit_packets"), Some(15));
        assert_eq!(value("/p/hw_counters/rcvd_pkts"), Some(14));
        assert_eq!(value("/p/hw_counters/rx_write_requests"), Some(5));
        assert_eq!(value("/p/counters/symbol_error"), Some(0));
        for other in
            ["/p/counters", "/p/counters/rx_write_requests", "/p/hw_counters/lifespan", "/p/state", ""]
        {
            assert_eq!(value(other), None, "{other}");
        }
    }
}

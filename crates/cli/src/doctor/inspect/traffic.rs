//! What the queue pairs of a process have done: how much, and what went wrong.

use nonic_transport::{Counter, Counters};
use serde::Serialize;

use super::words::size;
use crate::doctor::report::Line;

/// Sums over all queue pairs, those that are gone included. Peers that write and read this process's memory themselves count that,
/// and this process does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traffic {
    sends: u64,
    send_bytes: u64,
    writes: u64,
    write_bytes: u64,
    reads: u64,
    read_bytes: u64,
    atomics: u64,
    atomic_bytes: u64,
    /// Writes, reads and atomics that it sent to peers to be carried out there.
    asked: u64,
    received: u64,
    received_bytes: u64,
    served: u64,
    served_bytes: u64,
    failed: u64,
    refused: u64,
    repeated: u64,
}

impl Traffic {
    pub(super) fn new(counters: &Counters) -> Self {
        let get = |counter| counters.get(counter);
        Self {
            sends: get(Counter::Sends),
            send_bytes: get(Counter::SendBytes),
            writes: get(Counter::Writes),
            write_bytes: get(Counter::WriteBytes),
            reads: get(Counter::Reads),
            read_bytes: get(Counter::ReadBytes),
            atomics: get(Counter::Atomics),
            atomic_bytes: get(Counter::AtomicBytes),
            asked: get(Counter::Asked),
            received: get(Counter::Received),
            received_bytes: get(Counter::ReceivedBytes),
            served: get(Counter::Served),
            served_bytes: get(Counter::ServedBytes),
            failed: get(Counter::Failed),
            refused: get(Counter::Refused),
            repeated: get(Counter::Repeated),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let amount = |count, what, bytes| format!("{} ({})", several(count, what), size(bytes));
        let mut done = Vec::new();
        for (count, what, bytes) in [
            (self.sends, "send", self.send_bytes),
            (self.writes, "write", self.write_bytes),
            (self.reads, "read", self.read_bytes),
            (self.atomics, "atomic", self.atomic_bytes),
        ] {
            if count > 0 {
                done.push(amount(count, what, bytes));
            }
        }
        let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
        let mut lines = vec![Line::ok("requests done", done)];
        if self.asked > 0 {
            lines.push(Line::ok(
                "done by peers",
                format!("{} of them, or tried", several(self.asked, "one-sided request")),
            ));
        }
        if self.received > 0 {
            lines.push(Line::ok("received", amount(self.received, "message", self.received_bytes)));
        }
        if self.served > 0 {
            lines.push(Line::ok(
                "done for peers",
                amount(self.served, "one-sided request", self.served_bytes),
            ));
        }
        for (name, count, words) in [
            ("failed", self.failed, "of its requests, without those flushed behind them"),
            (
                "refused",
                self.refused,
                "requests of peers: no receive was posted, or they were not allowed or made no sense",
            ),
            ("sent again", self.repeated, "times: a peer had no receive posted, or did not answer"),
        ] {
            if count > 0 {
                lines.push(Line::note(name, format!("{count} {words}")));
            }
        }
        lines
    }
}

fn several(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Section, render_sections};
    use crate::style::Style;

    fn text(traffic: Traffic) -> String {
        let mut text = String::new();
        render_sections(&[Section::new("Traffic", traffic.lines())], Style::Plain, &mut text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_did_not_happen_is_not_told() {
        let quiet = text(Traffic::default());
        assert!(quiet.contains("requests done none"), "{quiet}");
        for word in ["received", "failed", "refused", "sent again", "done by peers"] {
            assert!(!quiet.contains(word), "{word} in {quiet}");
        }
    }

    #[test]
    fn numbers_stand_with_what_they_count() {
        let busy = text(Traffic {
            sends: 1,
            send_bytes: 2048,
            atomics: 3,
            atomic_bytes: 24,
            asked: 2,
            served: 2,
            failed: 4,
            ..Traffic::default()
        });
        for words in [
            "1 send (2 KiB), 3 atomics (24 B)",
            "done by peers 2 one-sided requests",
            "2 one-sided requests (0 B)",
            "4 of its requests",
        ] {
            assert!(busy.contains(words), "no {words} in {busy}");
        }
    }
}

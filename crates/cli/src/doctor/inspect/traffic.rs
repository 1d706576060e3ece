//! What the queue pairs of a process have done: how much, and what went wrong.

use nonic_transport::{Counter, Counters};
use serde::{Serialize, Serializer};

use super::words::size;
use crate::doctor::report::Line;

/// Sums over all queue pairs, those that are gone included. Peers that write and read this process's memory themselves count that,
/// and this process does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic(pub(super) Counters);

impl Serialize for Traffic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Counter::ALL.map(|(counter, name)| (name, self.0.get(counter))))
    }
}

impl Traffic {
    pub(super) fn lines(&self) -> Vec<Line> {
        let get = |counter| self.0.get(counter);
        let amount = |count, what, bytes| format!("{} ({})", several(get(count), what), size(get(bytes)));
        let mut done = Vec::new();
        for (count, what, bytes) in [
            (Counter::Sends, "send", Counter::SendBytes),
            (Counter::Writes, "write", Counter::WriteBytes),
            (Counter::Reads, "read", Counter::ReadBytes),
            (Counter::Atomics, "atomic", Counter::AtomicBytes),
        ] {
            if get(count) > 0 {
                done.push(amount(count, what, bytes));
            }
        }
        let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
        let mut lines = vec![Line::ok("requests done", done)];
        if get(Counter::Asked) > 0 {
            let asked = several(get(Counter::Asked), "one-sided request");
            lines.push(Line::ok("sent to peers", format!("{asked} to be carried out there")));
        }
        if get(Counter::Received) > 0 {
            let received = amount(Counter::Received, "message", Counter::ReceivedBytes);
            lines.push(Line::ok("received", received));
        }
        if get(Counter::Served) > 0 {
            let served = amount(Counter::Served, "one-sided request", Counter::ServedBytes);
            lines.push(Line::ok("done for peers", served));
        }
        for (name, counter, words) in [
            ("failed", Counter::Failed, "of its requests, without those flushed behind them"),
            (
                "refused",
                Counter::Refused,
                "messages of peers, some perhaps without a word: no receive was posted, or they were not allowed or made no sense",
            ),
            ("sent again", Counter::Repeated, "times: a peer had no receive posted, or did not answer"),
        ] {
            if get(counter) > 0 {
                lines.push(Line::note(name, format!("{} {words}", get(counter))));
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
        for word in ["received", "failed", "refused", "sent again", "sent to peers"] {
            assert!(!quiet.contains(word), "{word} in {quiet}");
        }
    }

    #[test]
    fn numbers_stand_with_what_they_count() {
        let counted = [
            (Counter::Sends, 1),
            (Counter::SendBytes, 2048),
            (Counter::Atomics, 3),
            (Counter::AtomicBytes, 24),
            (Counter::Asked, 2),
            (Counter::Served, 2),
            (Counter::Failed, 4),
        ];
        let busy = text(Traffic(counted.into_iter().collect()));
        for words in [
            "1 send (2 KiB), 3 atomics (24 B)",
            "sent to peers 2 one-sided requests to be carried out there",
            "2 one-sided requests (0 B)",
            "4 of its requests",
        ] {
            assert!(busy.contains(words), "no {words} in {busy}");
        }
    }
}

//! What was asked for, what was done about it, and whether that may be.

use std::collections::VecDeque;

use nonic_protocol::Status;

/// What is known of a request that has not ended.
#[derive(Clone, Copy, Debug)]
struct Entry {
    serial: u64,
    /// The target carried it out.
    executed: bool,
    /// What the target said of it.
    refused: Option<Status>,
    /// What an atomic found.
    old: Option<u64>,
}

/// The requests of one end of a connection, until it is set up anew.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Those from this one on; of older ones somebody may still hear who has not heard that they were given up.
    first: u64,
    /// Messages may be lost on the way without a word.
    unreliable: bool,
    /// Those that have not ended, the oldest first.
    open: VecDeque<Entry>,
    /// Those that were not carried out, the oldest first, ended or not.
    undone: VecDeque<u64>,
    /// Those of which was said that they were not carried out.
    denied: Vec<u64>,
    /// A request met nobody who takes it.
    silence: bool,
    /// The other end was killed, left, or was set up anew: what it owed is lost.
    forsaken: bool,
}

impl Ledger {
    pub(crate) fn new(unreliable: bool, first: u64) -> Self {
        Self {
            first,
            unreliable,
            open: VecDeque::new(),
            undone: VecDeque::new(),
            denied: Vec::new(),
            silence: false,
            forsaken: false,
        }
    }

    /// A request met nobody who takes it.
    pub(crate) fn met_nobody(&mut self) {
        self.silence = true;
    }

    /// What the other end owed is lost.
    pub(crate) fn forsake(&mut self) {
        (self.silence, self.forsaken) = (true, true);
    }

    /// Requests that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    fn entry(&mut self, serial: u64) -> Option<&mut Entry> {
        self.open.iter_mut().find(|entry| entry.serial == serial)
    }

    pub(crate) fn posted(&mut self, serial: u64) {
        self.open.push_back(Entry { serial, executed: false, refused: None, old: None });
        self.undone.push_back(serial);
    }

    /// The last one was not taken after all.
    pub(crate) fn not_posted(&mut self) {
        self.open.pop_back();
        self.undone.pop_back();
    }

    /// The target carried a request out: once, and behind all before it, none of which was left out.
    pub(crate) fn executed(&mut self, serial: u64, old: Option<u64>) {
        if serial < self.first {
            return;
        }
        let place = self.undone.iter().position(|undone| *undone == serial);
        let place = place
            .unwrap_or_else(|| panic!("a request was carried out twice, or behind a later one: {serial}"));
        assert!(self.unreliable || place == 0, "a request was carried out before an older one: {serial}");
        self.undone.drain(..=place);
        assert!(!self.denied.contains(&serial), "a request was carried out after it was denied: {serial}");
        if let Some(entry) = self.entry(serial) {
            (entry.executed, entry.old) = (true, old);
        }
    }

    /// The target refused a request for good.
    pub(crate) fn refused(&mut self, serial: u64, status: Status) {
        if let Some(entry) = self.entry(serial) {
            entry.refused = Some(status);
        }
    }

    /// A request ended at whoever asked.
    pub(crate) fn ended(&mut self, serial: u64, status: Status) {
        let entry = self.open.pop_front().expect("a request ended, and none was open");
        assert_eq!(entry.serial, serial, "a request ended before an older one did");
        match status {
            Status::Success => {
                assert!(entry.executed || self.unreliable, "a success that nobody brought about: {entry:?}");
            }
            // The memory of a process that was killed is found gone before its end shows.
            Status::RemoteOperation if self.forsaken => {}
            Status::RemoteAccess | Status::RemoteInvalidRequest | Status::RemoteOperation => {
                assert_eq!(entry.refused, Some(status), "nobody said so: {entry:?}");
            }
            Status::RnrRetryExceeded => {
                assert!(!entry.executed, "it was carried out: {entry:?}");
                self.denied.push(serial);
            }
            Status::RetryExceeded => {
                assert!(self.silence, "somebody was there: {entry:?}");
                let judged = entry.executed || entry.refused.is_some();
                assert!(self.forsaken || !judged, "it was judged, and the verdict did not come: {entry:?}");
            }
            Status::Flushed => {}
            _ => panic!("a status without a cause: {entry:?} ended with {status:?}"),
        }
    }

    /// What the target found when it carried out an atomic that has not ended.
    pub(crate) fn found(&mut self, serial: u64) -> Option<u64> {
        self.entry(serial).and_then(|entry| entry.old)
    }
}

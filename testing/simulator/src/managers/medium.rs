//! What is between two hosts for datagrams of queue pair 1.

use std::time::Duration;

use nonic_roce::ManagementDatagram;

use crate::chance::Chance;

type Bytes = [u8; ManagementDatagram::LENGTH];

/// How bad it is: each happens once in so many datagrams; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) doubled: u32,
    pub(super) late: u32,
    /// One of its bits is another one: its check is wrong, and nobody hears it.
    pub(super) changed: u32,
    /// It and all behind it in its direction are lost, for a while.
    pub(super) silent: u32,
}

#[derive(Clone, Debug)]
struct Datagram {
    at: Duration,
    to: usize,
    bytes: Bytes,
}

/// Time on the way.
const WAY: Duration = Duration::from_millis(1);
/// Of one that is late at most, in milliseconds: as long as a packet lives.
const LATE: u32 = 250;
/// How long a direction is silent, in seconds, at most: longer than anybody is asked.
const SILENCE: u32 = 120;

/// All datagrams that are on their way.
#[derive(Debug, Default)]
pub(super) struct Medium {
    pub(super) faults: Faults,
    datagrams: Vec<Datagram>,
    silent_until: [Duration; 2],
    /// Datagrams that did not arrive.
    pub(super) harms: u64,
}

impl Medium {
    /// From now on everything arrives.
    pub(super) fn heal(&mut self) {
        self.faults = Faults::default();
        self.silent_until = [Duration::ZERO; 2];
    }

    pub(super) fn carry(&mut self, chance: &mut Chance, now: Duration, from: usize, bytes: Bytes) {
        let mut happens = |often: u32| often > 0 && chance.once_in(often);
        let Faults { lost, doubled, late, changed, silent } = self.faults;
        let [is_lost, is_doubled, is_late, is_changed, begins] =
            [lost, doubled, late, changed, silent].map(&mut happens);
        if begins && now >= self.silent_until[from] {
            self.silent_until[from] = now + Duration::from_secs(1 + u64::from(chance.below(SILENCE)));
        }
        if is_lost || is_changed || now < self.silent_until[from] {
            self.harms += 1;
            return;
        }
        let mut time = |is_late| {
            let more = if is_late { chance.below(LATE) } else { 0 };
            now + WAY + Duration::from_millis(more.into())
        };
        let at = time(is_late);
        self.datagrams.push(Datagram { at, to: 1 - from, bytes });
        if is_doubled {
            let at = time(true);
            self.datagrams.push(Datagram { at, to: 1 - from, bytes });
        }
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.datagrams.iter().map(|datagram| datagram.at).min()
    }

    /// The next one; of two that arrive at once the one that was sent first.
    pub(super) fn take_next(&mut self) -> Option<(usize, Bytes)> {
        let next = self.next_at()?;
        let index = self.datagrams.iter().position(|datagram| datagram.at == next)?;
        let Datagram { to, bytes, .. } = self.datagrams.remove(index);
        Some((to, bytes))
    }
}

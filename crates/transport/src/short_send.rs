//! The header of a short send by itself: the most frequent message by far, written and read without looking at what only
//! others have.

use nonic_queue::QpNumber;

use crate::message::{ACKNOWLEDGES, MessageKind, SOLICITED, WHOLE};
use crate::psn::Psn;

/// A send of a single fragment without immediate data. In the ring it looks as a [`crate::Header`] that says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortSend {
    /// Queue pair it is for.
    pub destination: QpNumber,
    /// Queue pair it comes from.
    pub source: QpNumber,
    /// Its number.
    pub psn: Psn,
    /// Which attempt at that number.
    pub attempt: u8,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
    /// Everything of the other direction up to this number is done.
    pub acknowledges: Option<Psn>,
}

impl ShortSend {
    /// Words of the header.
    pub(crate) const WORDS: usize = 3;

    /// The words, for a payload of so many bytes, of the lap with this stamp.
    #[inline(always)]
    pub(crate) fn to_words(self, stamp: u16, payload: u32) -> [u64; Self::WORDS] {
        let flags = WHOLE
            | if self.solicited { SOLICITED } else { 0 }
            | if self.acknowledges.is_some() { ACKNOWLEDGES } else { 0 };
        let acknowledged = self.acknowledges.map_or(0, |psn| psn.0);
        [
            u64::from(stamp) | (MessageKind::Send as u64) << 16 | flags << 24 | u64::from(payload) << 32,
            u64::from(self.destination.0) | u64::from(self.source.0) << 32,
            u64::from(self.psn.0) | u64::from(self.attempt) << 24 | u64::from(acknowledged) << 32,
        ]
    }

    /// Whether a message that begins with `first` is of this kind and carries the stamp.
    #[inline(always)]
    pub(crate) fn begins(first: u64, stamp: u16) -> bool {
        let said = first & 0xffff_ffff & !((SOLICITED | ACKNOWLEDGES) << 24);
        said == u64::from(stamp) | (MessageKind::Send as u64) << 16 | WHOLE << 24
    }

    /// Reads the words of a header that [`ShortSend::begins`]; `None` if they make no sense.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Option<Self> {
        let [first, ends, numbers] = words;
        let (destination, source) = (ends as u32, (ends >> 32) as u32);
        if destination > QpNumber::MASK || source > QpNumber::MASK {
            return None;
        }
        let acknowledged = Psn((numbers >> 32) as u32 & QpNumber::MASK);
        Some(Self {
            destination: QpNumber(destination),
            source: QpNumber(source),
            psn: Psn(numbers as u32 & QpNumber::MASK),
            attempt: (numbers >> 24) as u8,
            solicited: first >> 24 & SOLICITED != 0,
            acknowledges: (first >> 24 & ACKNOWLEDGES != 0).then_some(acknowledged),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{HEADER_WORDS, Header};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_stands_in_the_ring_as_a_header_that_says_the_same(
            destination in 0u32..1 << 24, source in 0u32..1 << 24, psn in 0u32..1 << 24, attempt: u8,
            solicited: bool, acknowledged in prop::option::of(0u32..1 << 24), payload in 0u32..=8192, stamp: u16
        ) {
            let short = ShortSend {
                destination: QpNumber(destination),
                source: QpNumber(source),
                psn: Psn(psn),
                attempt,
                solicited,
                acknowledges: acknowledged.map(Psn),
            };
            let mut header =
                Header::new(MessageKind::Send, short.destination, short.source, short.psn, attempt);
            (header.total, header.solicited, header.acknowledges) = (payload, solicited, short.acknowledges);
            let mut words = [0; HEADER_WORDS];
            words[0] = header.emit(stamp, payload, |at, word| words[at] = word);
            prop_assert_eq!(&short.to_words(stamp, payload)[..], &words[..ShortSend::WORDS]);
            prop_assert!(ShortSend::begins(words[0], stamp));
            prop_assert!(!ShortSend::begins(words[0], stamp.wrapping_add(1)));
            prop_assert_eq!(ShortSend::from_words([words[0], words[1], words[2]]), Some(short));
        }

        #[test]
        fn what_it_takes_for_its_own_the_general_reader_reads_so_too(words in prop::array::uniform3(any::<u64>()), own: bool) {
            let mut all = [words[0], words[1], words[2], 0, 0, 0, 0];
            if own {
                all[0] = all[0] & !0xffff_ffff | (MessageKind::Send as u64) << 16
                    | (WHOLE | (words[0] >> 24 & (SOLICITED | ACKNOWLEDGES))) << 24;
            }
            if ShortSend::begins(all[0], all[0] as u16) {
                let general = Header::parse(&all).map(|(header, count, _)| {
                    (header.kind, header.destination, header.source, header.psn, header.acknowledges, count)
                });
                let short = ShortSend::from_words([all[0], all[1], all[2]]).map(|short| {
                    (MessageKind::Send, short.destination, short.source, short.psn, short.acknowledges, 3)
                });
                prop_assert_eq!(general, short);
            }
        }
    }
}

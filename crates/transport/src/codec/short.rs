//! The header of a short send by itself: the most frequent message by far, written and read without looking at what only
//! others have.

use nonic_protocol::{BaseHeader, Psn, QpNumber};
#[cfg(test)]
use nonic_protocol::{Body, Extent, Message, Request, SendFragment};

use super::{ACKNOWLEDGES, Kind, SOLICITED, WHOLE, base_of, base_words, first_word, flag, high};

/// A send of a single fragment without immediate data. In the ring it looks as a [`nonic_protocol::Message`] that says the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortSend {
    /// Between whom, and which.
    pub base: BaseHeader,
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
        let flags = WHOLE | flag(self.solicited, SOLICITED) | flag(self.acknowledges.is_some(), ACKNOWLEDGES);
        let (ends, numbers) = base_words(self.base, self.acknowledges.map_or(0, |psn| psn.0));
        [first_word(stamp, Kind::Send, flags, payload), ends, numbers]
    }

    /// Whether a message that begins with `first` is of this kind and carries the stamp.
    #[inline(always)]
    pub(crate) fn begins(first: u64, stamp: u16) -> bool {
        let said = first & 0xffff_ffff & !((SOLICITED | ACKNOWLEDGES) << 24);
        said == first_word(stamp, Kind::Send, WHOLE, 0)
    }

    /// Reads the words of a header that [`ShortSend::begins`]; `None` if they make no sense.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Option<Self> {
        let [first, ends, numbers] = words;
        let acknowledged = Psn(high(numbers) & QpNumber::MASK);
        Some(Self {
            base: base_of(ends, numbers)?,
            solicited: first >> 24 & SOLICITED != 0,
            acknowledges: (first >> 24 & ACKNOWLEDGES != 0).then_some(acknowledged),
        })
    }

    /// The same as a message, for a payload of so many bytes.
    #[cfg(test)]
    pub(crate) fn to_message(self, payload: u32) -> Message {
        let Self { base, solicited, acknowledges } = self;
        let extent = Extent::whole(payload);
        let send = SendFragment { extent, immediate: None, solicited, acknowledges };
        Message { base, body: Body::Request(Request::Send(send)) }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Entry, HEADER_WORDS, emit, parse};

    proptest! {
        #[test]
        fn it_stands_in_the_ring_as_a_message_that_says_the_same(
            destination in 0u32..1 << 24, source in 0u32..1 << 24, psn in 0u32..1 << 24, attempt: u8,
            solicited: bool, acknowledged in prop::option::of(0u32..1 << 24), payload in 0u32..=8192, stamp: u16
        ) {
            let (destination, source) = (QpNumber(destination), QpNumber(source));
            let base = BaseHeader::new(destination, source, Psn(psn), attempt);
            let short = ShortSend { base, solicited, acknowledges: acknowledged.map(Psn) };
            let mut words = [0; HEADER_WORDS];
            words[0] = emit(&short.to_message(payload), stamp, payload, |at, word| words[at] = word);
            prop_assert_eq!(&short.to_words(stamp, payload)[..], &words[..ShortSend::WORDS]);
            prop_assert!(ShortSend::begins(words[0], stamp));
            prop_assert!(!ShortSend::begins(words[0], stamp.wrapping_add(1)));
            prop_assert_eq!(ShortSend::from_words([words[0], words[1], words[2]]), Some(short));
        }

        #[test]
        fn what_it_takes_for_its_own_the_general_reader_reads_so_too(words in prop::array::uniform3(any::<u64>()), own: bool) {
            let mut all = [words[0], words[1], words[2], 0, 0, 0, 0, 0];
            if own {
                all[0] = all[0] & !0xffff_ffff | first_word(0, Kind::Send, WHOLE, 0)
                    | (words[0] >> 24 & (SOLICITED | ACKNOWLEDGES)) << 24;
            }
            if ShortSend::begins(all[0], all[0] as u16) {
                let general = parse(&all);
                let short = ShortSend::from_words([all[0], all[1], all[2]]).map(|short| {
                    let payload = high(all[0]);
                    (Entry::Message(short.to_message(payload)), ShortSend::WORDS, payload)
                });
                prop_assert_eq!(general, short);
            }
        }
    }
}

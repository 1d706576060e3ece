//! What stands in front of the messages of a protocol.

use crate::{Malformed, Part, Reader, Writer};

/// Bytes that most messages have room in.
const USUAL: usize = 128;

/// A protocol: what stands in front of each of its messages, so that those of others are none of its.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    mark: [u8; 8],
    name: &'static str,
    version: Option<u32>,
}

impl Protocol {
    /// One with this mark. People read in messages that it is nonic's `name`.
    pub const fn new(mark: [u8; 8], name: &'static str) -> Self {
        Self { mark, name, version: None }
    }

    /// The same, which says its version behind the mark and refuses others.
    pub const fn version(self, version: u32) -> Self {
        Self { version: Some(version), ..self }
    }

    /// The bytes of a message.
    pub fn emit(&self, message: &impl Part) -> Vec<u8> {
        let mut writer = Writer::with_capacity(USUAL);
        writer.put(&self.mark);
        if let Some(version) = self.version {
            version.put(&mut writer);
        }
        message.put(&mut writer);
        writer.into_bytes()
    }

    /// The message that bytes of another process are, and nothing behind it.
    pub fn parse<M: Part>(&self, bytes: &[u8]) -> Result<M, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.take_array()? != self.mark {
            return Err(Malformed::Mark { of: self.name });
        }
        if let Some(ours) = self.version {
            let theirs = u32::take(&mut reader)?;
            if theirs != ours {
                return Err(Malformed::Version { of: self.name, theirs, ours });
            }
        }
        let message = M::take(&mut reader)?;
        reader.end().map(|()| message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{kinds, parts};

    const PROTOCOL: Protocol = Protocol::new(*b"a sample", "samples").version(3);
    const DATA_MAX: usize = 40;
    const BLOCKS_MAX: usize = 5;

    /// Has everything that messages are made of.
    #[derive(Clone, Debug, PartialEq)]
    enum Sample {
        Empty,
        Pair(Inner, Option<[u8; 16]>),
        Fields { small: u8, data: Box<[u8]>, count: u32, blocks: Vec<u32>, last: u64 },
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Inner {
        flag: bool,
        port: u16,
        words: Words,
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Words([u64; 2]);

    kinds!(Sample {
        1 => Empty,
        4 => Pair(inner, answer),
        7 => Fields { small, data at most DATA_MAX, count at most 9, blocks at most BLOCKS_MAX, last },
    });
    parts!(Inner { flag, port, words });
    parts!(Words(words));

    fn samples() -> impl Strategy<Value = Sample> {
        let pair = any::<(bool, u16, [u64; 2], Option<[u8; 16]>)>();
        let blocks = vec(any::<u32>(), 0..=BLOCKS_MAX);
        let fields = (any::<u8>(), vec(any::<u8>(), 0..=DATA_MAX), 0u32..=9, blocks, any::<u64>());
        prop_oneof![
            Just(Sample::Empty),
            pair.prop_map(|(flag, port, words, answer)| {
                Sample::Pair(Inner { flag, port, words: Words(words) }, answer)
            }),
            fields.prop_map(|(small, data, count, blocks, last)| Sample::Fields {
                small,
                data: data.into(),
                count,
                blocks,
                last
            }),
        ]
    }

    fn fields(data: usize, count: u32, blocks: usize) -> Sample {
        let (data, blocks) = (vec![7; data].into(), vec![8; blocks]);
        Sample::Fields { small: 1, data, count, blocks, last: 2 }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(sample in samples()) {
            prop_assert_eq!(PROTOCOL.parse(&PROTOCOL.emit(&sample)), Ok(sample));
        }

        #[test]
        fn what_ends_early_and_what_goes_on_is_refused(sample in samples(), surplus in 1usize..9) {
            let mut bytes = PROTOCOL.emit(&sample);
            for length in 0..bytes.len() {
                let early = PROTOCOL.parse::<Sample>(&bytes[..length]);
                let told = matches!(early, Err(Malformed::Short { needed, left }) if left < needed && left <= length);
                prop_assert!(told, "{length} bytes: {early:?}");
            }
            bytes.resize(bytes.len() + surplus, 0);
            prop_assert_eq!(PROTOCOL.parse::<Sample>(&bytes), Err(Malformed::Long { surplus }));
        }

        #[test]
        fn what_changed_bytes_are_read_as_is_written_as_these(
            sample in samples(),
            place in any::<prop::sample::Index>(),
            value in any::<u8>(),
        ) {
            let mut bytes = PROTOCOL.emit(&sample);
            let place = place.index(bytes.len());
            bytes[place] = value;
            if let Ok(other) = PROTOCOL.parse::<Sample>(&bytes) {
                prop_assert_eq!(PROTOCOL.emit(&other), bytes);
            }
        }

        #[test]
        fn no_bytes_do_harm(rest in vec(any::<u8>(), 0..200), kind in 0u32..9, begun in 0usize..=16) {
            let head = [&PROTOCOL.emit(&Sample::Empty)[..12], &kind.to_le_bytes()].concat();
            let bytes = [&head[..begun], &rest].concat();
            if let Ok(sample) = PROTOCOL.parse::<Sample>(&bytes) {
                prop_assert_eq!(PROTOCOL.emit(&sample), bytes);
            }
        }
    }

    #[test]
    fn the_bytes_stand_in_the_order_of_the_parts_each_with_its_least_byte_first() {
        let inner = Inner { flag: true, port: 0x0203, words: Words([4, 5 << 56]) };
        let bytes = PROTOCOL.emit(&Sample::Pair(inner, None));
        let head = *b"a sample\x03\0\0\0\x04\0\0\0";
        let told = *b"\x01\0\0\0\x03\x02\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0";
        assert_eq!(bytes, [&head[..], &told].concat());
        let bytes = PROTOCOL.emit(&fields(2, 9, 1));
        let head = *b"a sample\x03\0\0\0\x07\0\0\0";
        let told = *b"\x01\x02\0\x07\x07\x09\0\0\0\x01\0\0\0\x08\0\0\0\x02\0\0\0\0\0\0\0";
        assert_eq!(bytes, [&head[..], &told].concat());
    }

    #[test]
    fn a_limit_is_kept_at_it_and_refused_above_it() {
        let largest = fields(DATA_MAX, 9, BLOCKS_MAX);
        let bytes = PROTOCOL.emit(&largest);
        assert_eq!(PROTOCOL.parse(&bytes), Ok(largest));
        let (data, count) = (17, 19 + DATA_MAX);
        for (place, limit) in [(data, DATA_MAX), (count, 9), (count + 4, BLOCKS_MAX)] {
            let mut bytes = bytes.clone();
            bytes[place] += 1;
            let refused = Err(Malformed::Count { count: limit + 1, limit });
            assert_eq!(PROTOCOL.parse::<Sample>(&bytes), refused, "at {place}");
        }
    }

    #[test]
    fn a_flag_is_0_or_1() {
        let inner = Inner { flag: true, port: 0, words: Words([0; 2]) };
        let mut bytes = PROTOCOL.emit(&Sample::Pair(inner, None));
        bytes[16] = 2;
        assert_eq!(PROTOCOL.parse::<Sample>(&bytes), Err(Malformed::Count { count: 2, limit: 1 }));
    }

    #[test]
    fn messages_of_others_are_refused_by_what_tells_them() {
        let bytes = PROTOCOL.emit(&Sample::Empty);
        let with = |place: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            PROTOCOL.parse::<Sample>(&bytes)
        };
        assert_eq!(with(0, b'A'), Err(Malformed::Mark { of: "samples" }));
        assert_eq!(with(8, 9), Err(Malformed::Version { of: "samples", theirs: 9, ours: 3 }));
        assert_eq!(with(12, 2), Err(Malformed::Kind { of: "Sample", kind: 2 }));
    }

    #[test]
    fn a_protocol_without_a_version_has_only_its_mark() {
        const MARKED: Protocol = Protocol::new(*b"a sample", "samples");
        let bytes = MARKED.emit(&Words([1, 2]));
        assert_eq!(bytes.len(), 8 + 16);
        assert_eq!(MARKED.parse(&bytes), Ok(Words([1, 2])));
    }
}

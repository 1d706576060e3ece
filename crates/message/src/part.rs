//! What messages are made of.

use crate::{Malformed, Reader, Writer};

/// A part of a message, or all of it, that says by itself where it ends. What was written is read again as what it was.
pub trait Part: Sized {
    /// Adds it to a message.
    fn put(&self, writer: &mut Writer);
    /// The next part of a message.
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A part of a message that has a limit. Who writes one has seen to it that it is kept.
pub trait Limited: Sized {
    /// Adds it to a message.
    fn put_at_most(&self, limit: usize, writer: &mut Writer);
    /// The next part of a message, unless it goes beyond its limit.
    fn take_at_most(limit: usize, reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Part for $number {
            fn put(&self, writer: &mut Writer) {
                writer.put(&self.to_le_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.take_array().map(Self::from_le_bytes)
            }
        })+
    };
}

numbers!(u8, u16, u32, u64);

/// A `u32` that is 0 or 1.
impl Part for bool {
    fn put(&self, writer: &mut Writer) {
        u32::from(*self).put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        u32::take_at_most(1, reader).map(|flag| flag == 1)
    }
}

/// Whether it is there, and then itself.
impl<P: Part> Part for Option<P> {
    fn put(&self, writer: &mut Writer) {
        self.is_some().put(writer);
        if let Some(part) = self {
            part.put(writer);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        bool::take(reader)?.then(|| P::take(reader)).transpose()
    }
}

impl<P: Part + Copy + Default, const N: usize> Part for [P; N] {
    fn put(&self, writer: &mut Writer) {
        self.iter().for_each(|part| part.put(writer));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut parts = [P::default(); N];
        for part in &mut parts {
            *part = P::take(reader)?;
        }
        Ok(parts)
    }
}

fn within(count: usize, limit: usize) -> Result<usize, Malformed> {
    if count > limit { Err(Malformed::Count { count, limit }) } else { Ok(count) }
}

/// A number of things of which there are so many at most.
impl Limited for u32 {
    fn put_at_most(&self, limit: usize, writer: &mut Writer) {
        debug_assert!(*self as usize <= limit, "{self} of what there are {limit} at most");
        self.put(writer);
    }

    fn take_at_most(limit: usize, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = Self::take(reader)?;
        within(count as usize, limit).map(|_| count)
    }
}

/// Parts behind their number, a `u32`.
impl<P: Part> Limited for Vec<P> {
    fn put_at_most(&self, limit: usize, writer: &mut Writer) {
        (self.len() as u32).put_at_most(limit, writer);
        self.iter().for_each(|part| part.put(writer));
    }

    fn take_at_most(limit: usize, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = u32::take_at_most(limit, reader)?;
        (0..count).map(|_| P::take(reader)).collect()
    }
}

/// Bytes behind their number, a `u16`.
impl Limited for Box<[u8]> {
    fn put_at_most(&self, limit: usize, writer: &mut Writer) {
        debug_assert!(self.len() <= limit.min(0xffff), "{} bytes, {limit} at most", self.len());
        (self.len() as u16).put(writer);
        writer.put(self);
    }

    fn take_at_most(limit: usize, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = within(u16::take(reader)?.into(), limit)?;
        reader.take(count).map(Self::from)
    }
}

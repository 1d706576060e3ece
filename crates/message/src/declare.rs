//! How a type says of which parts it is made.

/// Makes a structure a [`Part`](crate::Part): its fields, in the order in which they stand in a message. One with a limit has it
/// behind `at most`. A tuple's fields are given names.
///
/// ```
/// struct Shown { keys: bool, blocks: Vec<u32> }
/// nonic_message::parts!(Shown { keys, blocks at most 16 });
///
/// struct Token([u64; 2]);
/// nonic_message::parts!(Token(words));
/// ```
#[macro_export]
macro_rules! parts {
    ($name:ident $(( $($item:ident $(at most $most:expr)?),+ ))? $({ $($field:ident $(at most $limit:expr)?),+ $(,)? })?) => {
        impl $crate::Part for $name {
            fn put(&self, writer: &mut $crate::Writer) {
                let Self $(( $($item),+ ))? $({ $($field),+ })? = self;
                $($($crate::put_part!(writer $item $($most)?);)+)?
                $($($crate::put_part!(writer $field $($limit)?);)+)?
            }

            fn take(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::Malformed> {
                Ok(Self
                    $(( $($crate::take_part!(reader $item $($most)?)),+ ))?
                    $({ $($field: $crate::take_part!(reader $field $($limit)?)),+ })?
                )
            }
        }
    };
}

/// Makes an enumeration a [`Part`](crate::Part): the number of its kind, a `u32`, and that kind's fields, as [`parts!`] has them.
/// A number that is none of these is refused ([`Malformed::Kind`](crate::Malformed::Kind)).
///
/// ```
/// enum Message { Hello { name: Box<[u8]>, blocks: u32 }, Number(u64), Goodbye }
/// nonic_message::kinds!(Message {
///     1 => Hello { name at most 20, blocks },
///     2 => Number(number),
///     7 => Goodbye,
/// });
/// ```
#[macro_export]
macro_rules! kinds {
    ($name:ident { $($number:literal => $kind:ident
        $(( $($item:ident $(at most $most:expr)?),+ ))?
        $({ $($field:ident $(at most $limit:expr)?),+ $(,)? })?
    ),+ $(,)? }) => {
        impl $crate::Part for $name {
            fn put(&self, writer: &mut $crate::Writer) {
                match self {
                    $(Self::$kind $(( $($item),+ ))? $({ $($field),+ })? => {
                        <u32 as $crate::Part>::put(&$number, writer);
                        $($($crate::put_part!(writer $item $($most)?);)+)?
                        $($($crate::put_part!(writer $field $($limit)?);)+)?
                    })+
                }
            }

            fn take(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::Malformed> {
                match <u32 as $crate::Part>::take(reader)? {
                    $($number => Ok(Self::$kind
                        $(( $($crate::take_part!(reader $item $($most)?)),+ ))?
                        $({ $($field: $crate::take_part!(reader $field $($limit)?)),+ })?
                    ),)+
                    kind => Err($crate::Malformed::Kind { of: stringify!($name), kind }),
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! put_part {
    ($writer:ident $part:ident) => {
        $crate::Part::put($part, $writer)
    };
    ($writer:ident $part:ident $limit:expr) => {
        $crate::Limited::put_at_most($part, $limit, $writer)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! take_part {
    ($reader:ident $part:ident) => {
        $crate::Part::take($reader)?
    };
    ($reader:ident $part:ident $limit:expr) => {
        $crate::Limited::take_at_most($limit, $reader)?
    };
}

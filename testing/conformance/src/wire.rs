//! How commands and replies travel to another process: every value as bytes, variants by name.

use nonic_device::{
    Access, AddressVector, AttributeMask, Capabilities, Completion, CompletionOpcode, FlushRequest,
    GlobalRoute, Key, Operation, Placement, QpAttributes, QpNumber, QpState, QpType, RemoteRange,
    ScatterGather, Selectivity, SendFlags, Status, WindowId, WindowKind,
};

/// A value that can travel.
pub(crate) trait Wire: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from the front of `bytes`; `None` if it is not there.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

fn split<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(front)
}

macro_rules! wire_integers {
    ($($integer:ty),*) => {$(
        impl Wire for $integer {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                split(bytes, size_of::<Self>())?.try_into().ok().map(Self::from_le_bytes)
            }
        }
    )*};
}

/// A structure travels as its fields.
macro_rules! wire_fields {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::wire::Wire::take(bytes)?),* })
            }
        }
    };
}

/// A choice travels as the name of the variant and its fields.
macro_rules! wire_variants {
    ($name:ident { $($variant:ident { $($field:ident),* $(,)? }),* $(,)? }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        $crate::wire::Wire::put(&stringify!($variant).to_owned(), out);
                        $($crate::wire::Wire::put($field, out);)*
                    })*
                }
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let name = <String as $crate::wire::Wire>::take(bytes)?;
                match name.as_str() {
                    $(stringify!($variant) => {
                        Some(Self::$variant { $($field: $crate::wire::Wire::take(bytes)?),* })
                    })*
                    _ => None,
                }
            }
        }
    };
}

/// Declares a choice whose values travel.
macro_rules! wire_choice {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident { $($field:ident: $type:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$doc])* $variant { $($field: $type),* }),*
        }
        $crate::wire::wire_variants!($name { $($variant { $($field),* }),* });
    };
}

/// A type with a few values travels as the place in their list.
macro_rules! wire_values {
    ($name:ident [ $($value:expr),* $(,)? ]) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let values = [$($value),*];
                let place = values.iter().position(|value| value == self);
                out.push(place.expect("a value of the list") as u8);
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let values = [$($value),*];
                values.get(usize::from(<u8 as $crate::wire::Wire>::take(bytes)?)).copied()
            }
        }
    };
}

pub(crate) use {wire_choice, wire_fields, wire_values, wire_variants};

wire_integers!(u8, u16, u32, u64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(u8::take(bytes)? != 0)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend(self.as_bytes());
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let length = u64::take(bytes)? as usize;
        Self::from_utf8(split(bytes, length)?.to_vec()).ok()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(bytes)? { Some(T::take(bytes)?) } else { None })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        (0..u64::take(bytes)?).map(|_| T::take(bytes)).collect()
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        split(bytes, N)?.try_into().ok()
    }
}

impl<T: Wire> Wire for Result<T, String> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(bytes)? { Ok(T::take(bytes)?) } else { Err(String::take(bytes)?) })
    }
}

impl Wire for Access {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_bits(u32::take(bytes)?)
    }
}

impl Wire for Key {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u32::take(bytes).map(Self)
    }
}

impl Wire for WindowId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u32::take(bytes).map(Self)
    }
}

impl Wire for QpNumber {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u32::take(bytes).map(Self)
    }
}

impl Wire for AttributeMask {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u32::take(bytes).map(Self)
    }
}

wire_values!(QpType [
    Self::ReliableConnection,
    Self::UnreliableConnection,
    Self::UnreliableDatagram,
    Self::ExtendedSend,
    Self::ExtendedReceive,
]);
wire_values!(WindowKind [Self::Type1, Self::Type2]);
wire_values!(QpState [
    Self::Reset,
    Self::Init,
    Self::ReadyToReceive,
    Self::ReadyToSend,
    Self::SendQueueDrain,
    Self::SendQueueError,
    Self::Error,
]);
wire_values!(Status [
    Self::Success,
    Self::LocalLength,
    Self::LocalQpOperation,
    Self::LocalProtection,
    Self::Flushed,
    Self::WindowBind,
    Self::BadResponse,
    Self::LocalAccess,
    Self::RemoteInvalidRequest,
    Self::RemoteAccess,
    Self::RemoteOperation,
    Self::RetryExceeded,
    Self::RnrRetryExceeded,
    Self::General,
]);
wire_values!(CompletionOpcode [
    Self::Send,
    Self::RdmaWrite,
    Self::RdmaRead,
    Self::CompareSwap,
    Self::FetchAdd,
    Self::AtomicWrite,
    Self::Flush,
    Self::Bind,
    Self::Invalidate,
    Self::Receive,
    Self::ReceiveWriteWithImmediate,
    Self::ReceiveInvalidate,
]);

wire_fields!(ScatterGather { address, length, key });
wire_fields!(RemoteRange { address, key });
wire_fields!(FlushRequest { remote, length, placement, selectivity });
wire_values!(Placement [Self::GLOBAL, Self::PERSISTENT]);
wire_values!(Selectivity [Self::Range, Self::Region]);
wire_fields!(SendFlags { fence, signaled, solicited, inline });
wire_fields!(GlobalRoute { destination, source_index, flow_label, hop_limit, traffic_class });
wire_fields!(AddressVector { destination_lid, service_level, source_path_bits, static_rate, port, global });
wire_fields!(Capabilities { send_requests, receive_requests, send_pieces, receive_pieces, inline_bytes });
wire_fields!(Completion {
    id,
    status,
    opcode,
    vendor_error,
    byte_length,
    immediate,
    qp_number,
    source_qp,
    has_global_header,
    source_lid,
    service_level,
});
wire_fields!(QpAttributes {
    state,
    current_state,
    path_mtu,
    path_migration_state,
    q_key,
    receive_psn,
    send_psn,
    destination_qp,
    access,
    address_vector,
    pkey_index,
    drained_notify,
    max_rd_atomic,
    max_dest_rd_atomic,
    min_rnr_timer,
    port,
    timeout,
    retry_count,
    rnr_retry,
});
wire_variants!(Operation {
    Send { immediate },
    Write { remote, immediate },
    Read { remote },
    CompareSwap { remote, compare, swap },
    FetchAdd { remote, add },
    AtomicWrite { remote },
    Flush { flush },
    SendInvalidate { key },
    Bind { window, key, region, address, length, access, zero_based },
    Invalidate { key },
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_and_a_cut_message_is_refused() {
        let remote = RemoteRange { address: 7, key: Key(9) };
        let value = (Operation::Write { remote, immediate: Some(3) }, QpAttributes::default());
        let mut bytes = Vec::new();
        value.0.put(&mut bytes);
        value.1.put(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!((Operation::take(&mut rest).unwrap(), QpAttributes::take(&mut rest).unwrap()), value);
        assert!(rest.is_empty());
        for length in 0..bytes.len() {
            let mut cut = &bytes[..length];
            assert!(Operation::take(&mut cut).and_then(|_| QpAttributes::take(&mut cut)).is_none());
        }
    }
}

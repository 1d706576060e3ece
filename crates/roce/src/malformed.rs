//! Why bytes are no packet. The peer is not told: what cannot be read is dropped (IBTA vol. 1, 9.6).

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends before its headers do.
    #[error("the packet ends before its {header}: {length} bytes are left, {needed} needed")]
    Short {
        /// Which header.
        header: &'static str,
        /// Bytes of it.
        needed: usize,
        /// Bytes that are left.
        length: usize,
    },
    /// The check at its end is not that of its bytes.
    #[error("the packet's check is wrong")]
    Check,
    /// Headers of another version.
    #[error("transport headers of version {version}")]
    Version {
        /// The version.
        version: u8,
    },
    /// No operation of the services that are spoken here.
    #[error("no operation has the opcode {opcode:#04x}")]
    Opcode {
        /// The opcode.
        opcode: u8,
    },
    /// Its length is no multiple of four bytes, or shorter than the padding it says it has.
    #[error("{length} bytes of payload and padding, {padding} of them padding")]
    Padding {
        /// Bytes behind the headers.
        length: usize,
        /// Bytes of padding that the packet says it has.
        padding: usize,
    },
    /// Padding between the packets of a message.
    #[error("a packet that another follows has {padding} bytes of padding")]
    PaddedBeforeEnd {
        /// Bytes of padding.
        padding: usize,
    },
    /// An operation without payload has some.
    #[error("{length} bytes of payload where there is none")]
    Payload {
        /// Bytes of payload.
        length: usize,
    },
    /// A syndrome that is reserved.
    #[error("no acknowledgement has the syndrome {syndrome:#04x}")]
    Syndrome {
        /// The syndrome.
        syndrome: u8,
    },
}

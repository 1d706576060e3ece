//! Messages: the word that comes with a write.

const OPERATION_SHIFT: u32 = 29;
const VALUE: u32 = (1 << OPERATION_SHIFT) - 1;

const DATA: u32 = 0;
const WRITE: u32 = 2;
const CREDIT: u32 = 4;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;

/// What one side tells the other in immediate data: an operation in the three highest bits, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// So many bytes were written behind those before.
    Data(u32),
    /// The sender of this takes data up to this message, counted from the first and modulo 2^16; an entry of the list of
    /// targets may have been written before.
    Credit(u16),
    /// This entry of the table of mappings was written.
    Mapping(u32),
    /// About the stream itself.
    Control(Control),
    /// Nothing that concerns a stream. Sent by nobody, and ignored by those who get it.
    Ignored,
}

/// What is said about the stream itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// It is over in both directions.
    Disconnect,
    /// Nothing more will be sent.
    Shutdown,
}

impl Control {
    const fn value(self) -> u32 {
        match self {
            Self::Disconnect => 0,
            Self::Shutdown => 2,
        }
    }
}

impl Message {
    /// Immediate data, in the order in which they go to the device.
    ///
    /// # Panics
    /// If a value is longer than 29 bits: lengths and indices are bounded before.
    pub(crate) fn immediate(self) -> u32 {
        let (operation, value) = match self {
            Self::Data(length) => (DATA, length),
            Self::Credit(limit) => (CREDIT, limit.into()),
            Self::Mapping(index) => (MAPPING, index),
            Self::Control(control) => (CONTROL, control.value()),
            Self::Ignored => (WRITE, 0),
        };
        assert!(value <= VALUE, "{self:?} does not fit in a message");
        (operation << OPERATION_SHIFT | value).to_be()
    }

    /// What immediate data say; `None` for an operation that there is not.
    pub(crate) fn of_immediate(immediate: u32) -> Option<Self> {
        let word = u32::from_be(immediate);
        let value = word & VALUE;
        match word >> OPERATION_SHIFT {
            DATA => Some(Self::Data(value)),
            WRITE => Some(Self::Ignored),
            CREDIT => Some(Self::Credit(value as u16)),
            MAPPING => Some(Self::Mapping(value)),
            CONTROL => [Control::Disconnect, Control::Shutdown]
                .into_iter()
                .find(|control| control.value() == value)
                .map_or(Some(Self::Ignored), |control| Some(Self::Control(control))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_words_that_were_recorded() {
        let recorded: [(Message, [u8; 4]); 5] = [
            (Message::Data(5), [0, 0, 0, 5]),
            (Message::Credit(384), [0x80, 0, 1, 0x80]),
            (Message::Mapping(0), [0xc0, 0, 0, 0]),
            (Message::Control(Control::Disconnect), [0xe0, 0, 0, 0]),
            (Message::Control(Control::Shutdown), [0xe0, 0, 0, 2]),
        ];
        for (message, bytes) in recorded {
            assert_eq!(message.immediate().to_ne_bytes(), bytes);
            assert_eq!(Message::of_immediate(u32::from_ne_bytes(bytes)), Some(message));
        }
    }

    #[test]
    fn an_operation_that_there_is_not_is_none_and_an_unknown_control_is_ignored() {
        for operation in [1u32, 3, 5] {
            assert_eq!(Message::of_immediate((operation << OPERATION_SHIFT).to_be()), None);
        }
        let keep_alive = (CONTROL << OPERATION_SHIFT | 1).to_be();
        assert_eq!(Message::of_immediate(keep_alive), Some(Message::Ignored));
    }
}

//! Private data in messages of the connection manager on the wire. There they are a field of fixed length; uDAPL promises the peer
//! what was said and how long it was. So the last four bytes of the field say the length, behind a mark by which it is known that they do:
//! what comes from others counts as said in full.

/// Bytes that the length takes.
const TRAILER: usize = 4;
const MARK: [u8; 3] = *b"dat";

/// Bytes of private data in a request to another host at most.
pub(crate) const REQUEST_MAX: usize = 92 - TRAILER;
/// In an acceptance.
pub(crate) const REPLY_MAX: usize = 196 - TRAILER;
/// In a rejection.
pub(crate) const REJECTION_MAX: usize = 148 - TRAILER;

/// What is said with the end of a connection that has failed.
const FAILED: &[u8] = &[1];

/// The field of a message with what is said in it; of more than there is room for, the beginning.
pub(crate) fn field<const LENGTH: usize>(said: &[u8]) -> [u8; LENGTH] {
    const { assert!(LENGTH > TRAILER && LENGTH - TRAILER <= u8::MAX as usize) };
    let room = LENGTH - TRAILER;
    let said = &said[..said.len().min(room)];
    let mut field = [0; LENGTH];
    field[..said.len()].copy_from_slice(said);
    field[room..room + MARK.len()].copy_from_slice(&MARK);
    field[LENGTH - 1] = said.len() as u8;
    field
}

/// What is said in a field.
pub(crate) fn said(field: &[u8]) -> &[u8] {
    marked(field).unwrap_or(field)
}

fn marked(field: &[u8]) -> Option<&[u8]> {
    let (data, trailer) = field.split_at_checked(field.len().checked_sub(TRAILER)?)?;
    let (mark, length) = trailer.split_at(MARK.len());
    let data = data.get(..length[0].into())?;
    (mark == MARK).then_some(data)
}

/// The field by which a connection ends that has failed here.
pub(crate) fn failure() -> [u8; 220] {
    field(FAILED)
}

/// Whether a connection ends because it has failed at the other side.
pub(crate) fn is_failure(field: &[u8]) -> bool {
    marked(field) == Some(FAILED)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_said_arrives_whole_and_with_its_length(data in vec(any::<u8>(), 0..=REQUEST_MAX)) {
            let (short, long) = (field::<92>(&data), field::<196>(&data));
            prop_assert_eq!([said(&short), said(&long)], [&data[..]; 2]);
        }

        #[test]
        fn any_field_is_understood_and_says_no_more_than_it_holds(bytes in vec(any::<u8>(), 0..230)) {
            prop_assert!(said(&bytes).len() <= bytes.len());
        }
    }

    #[test]
    fn of_too_much_the_beginning_is_said_and_what_others_say_is_said_in_full() {
        assert_eq!(said(&field::<92>(&[7; 200])), [7; REQUEST_MAX]);
        assert_eq!(said(&[3; 92]), [3; 92]);
        let mut too_long = field::<92>(&[7; 88]);
        too_long[91] = 89;
        assert_eq!(said(&too_long), too_long);
        assert_eq!(said(&[]), [0; 0]);
    }

    #[test]
    fn a_failure_is_told_from_an_end_in_order() {
        assert!(is_failure(&failure()));
        assert!(!is_failure(&[0; 220]) && !is_failure(&[1; 220]) && !is_failure(&field::<220>(&[])));
    }
}

//! What calls on windows are refused for, whatever windows there are.

use nonic_sys::PAGE;

use super::record::SPACE_END;
use crate::ScifError;

/// Refuses what no state of the endpoint could make right.
pub(crate) fn check_registration(
    address: usize,
    length: usize,
    offset: i64,
    fixed: bool,
) -> Result<(), ScifError> {
    let page = PAGE as i64;
    if offset < 0 {
        return Err(ScifError::Invalid("the offset is negative"));
    }
    if fixed && offset % page != 0 {
        return Err(ScifError::Invalid("the offset is no multiple of the page size"));
    }
    if !address.is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) || length == 0 {
        return Err(ScifError::Invalid(
            "address and length are multiples of the page size, and there is some length",
        ));
    }
    Ok(())
}

/// Refuses a range of the registered address space that cannot be one of whole pages.
pub(super) fn check_pages(offset: i64, length: usize) -> Result<(u64, u64), ScifError> {
    let Ok(start) = u64::try_from(offset) else { return Err(ScifError::Invalid("the offset is negative")) };
    if !start.is_multiple_of(PAGE as u64) || !length.is_multiple_of(PAGE) || length == 0 {
        return Err(ScifError::Invalid(
            "offset and length are multiples of the page size, and there is some length",
        ));
    }
    let end = start.checked_add(length as u64).filter(|end| *end <= SPACE_END);
    Ok((start, end.ok_or(ScifError::NoWindow)?))
}

//! What the registry has to say to people, if they ask for it (`DAT_DBG_TYPE`, `DAT_DBG_DEST`).

use std::ffi::CString;
use std::io::Write;
use std::sync::OnceLock;

/// Errors.
const ERRORS: u32 = 0x1;
/// About `dat.conf`.
pub(super) const STATIC: u32 = 0x4;
/// About providers that register themselves.
pub(super) const DYNAMIC: u32 = 0x8;

/// To the system's log instead of standard output.
const TO_LOG: u32 = 0x2;
/// To standard output.
const TO_OUTPUT: u32 = 0x1;

/// A number in the environment, decimal or hexadecimal.
fn number(variable: &str) -> Option<u32> {
    let text = std::env::var(variable).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Says why something was not used, if `DAT_DBG_TYPE` has the bit of the kind or that of errors.
pub(super) fn report(kind: u32, text: &str) {
    static WANTED: OnceLock<(u32, u32)> = OnceLock::new();
    let (kinds, destination) = *WANTED
        .get_or_init(|| (number("DAT_DBG_TYPE").unwrap_or(0), number("DAT_DBG_DEST").unwrap_or(TO_OUTPUT)));
    if kinds & (kind | ERRORS) == 0 {
        return;
    }
    if destination & TO_OUTPUT != 0 {
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "nonic: DAT registry: {text}").and_then(|()| output.flush());
    }
    if destination & TO_LOG != 0
        && let Ok(text) = CString::new(text)
    {
        // SAFETY: a format with one text, and that text; both end.
        unsafe {
            libc::syslog(libc::LOG_USER | libc::LOG_DEBUG, c"DAT registry: %s".as_ptr(), text.as_ptr())
        };
    }
}

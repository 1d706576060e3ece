//! What a library says on standard error, since it has no other place.

use std::sync::Once;

use nonic_sys::StandardError;
use tracing::level_filters::LevelFilter;

/// Sends what the device has to say to standard error, from the level `NONIC_LOG` names upward (`off`, `error`, `warn`,
/// `info`, `debug`, `trace`; default `warn`). For the C faces; a Rust program installs its own `tracing` subscriber.
pub fn log_to_standard_error() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let asked = std::env::var("NONIC_LOG").ok();
        let level = asked.as_deref().map_or(Some(LevelFilter::WARN), |name| name.trim().parse().ok());
        // A host that is itself written in Rust may have a subscriber already; then that one decides.
        let _ = tracing_subscriber::fmt()
            .with_max_level(level.unwrap_or(LevelFilter::WARN))
            // No point of cancellation, and no lock that a child could find taken.
            .with_writer(|| StandardError)
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .try_init();
        if level.is_none() {
            tracing::warn!(
                value = asked,
                "NONIC_LOG is off, error, warn, info, debug or trace; warn is used"
            );
        }
    });
}

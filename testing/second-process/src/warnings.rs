//! Counting the messages to people that a process writes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Since counting began.
static WARNINGS: AtomicU64 = AtomicU64::new(0);

struct CountWarnings;

impl tracing::Subscriber for CountWarnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        WARNINGS.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Counts the messages to people that this process writes from now on, and writes none. Once a process.
pub fn count_warnings() {
    tracing::subscriber::set_global_default(CountWarnings).unwrap();
}

/// How many there were.
pub fn warnings() -> u64 {
    WARNINGS.load(Ordering::SeqCst)
}

//! What a socket has of the device, beside memory: a queue pair, with the one completion queue of both its directions.

use std::sync::Arc;

use nonic_device::{
    Capabilities, Completion, CompletionQueue, Context, CqOverrun, QpType, QueuePair, QueuePairRequest, Zone,
};

use crate::wakeup::Wakeup;

/// Dropped, both go: whoever has one drops it before the memory that its requests lead to.
#[derive(Debug)]
pub(crate) struct Endpoint {
    queue: Arc<CompletionQueue>,
    pair: Arc<QueuePair>,
}

impl Endpoint {
    /// Creates both, with room for the completions of all requests. `wakeup` is told of completions.
    pub(crate) fn new(
        context: &Arc<Context>,
        zone: &Arc<Zone>,
        transport: QpType,
        capabilities: Capabilities,
        wakeup: &Arc<Wakeup>,
    ) -> crate::Result<Self> {
        wakeup.bell(context);
        let entries = capabilities.send_requests + capabilities.receive_requests;
        let observer = Arc::clone(wakeup);
        let queue = context.create_observed_completion_queue(entries, observer)?;
        let pair = zone.create_queue_pair(QueuePairRequest {
            transport,
            send_queue: Arc::clone(&queue),
            receive_queue: Arc::clone(&queue),
            shared_receive_queue: None,
            capabilities,
            signal_all: true,
            cookie: 0,
            observer: None,
        })?;
        Ok(Self { queue, pair })
    }

    /// The queue pair.
    pub(crate) fn pair(&self) -> &Arc<QueuePair> {
        &self.pair
    }

    /// Hands the oldest completions to `take`, `most` at most. Fails once the queue has overrun. Whoever finds nothing again and again
    /// sleeps, or lets others go first ([`crate::waiting`]).
    pub(crate) fn poll(&self, take: impl FnMut(&Completion), most: usize) -> Result<usize, CqOverrun> {
        self.queue.poll_before_sleep(take, most)
    }

    /// Whether something has completed that was not looked at.
    pub(crate) fn has_completions(&self) -> bool {
        self.queue.waiting() > 0
    }

    /// Has whoever waits be told of the next completion.
    pub(crate) fn arm(&self) {
        self.queue.request_notification(false);
    }

    /// The same for a thread that drives the device while it waits.
    pub(crate) fn arm_to_wait(&self) {
        self.queue.request_notification_to_wait();
    }

    /// Nobody waits any more.
    pub(crate) fn disarm(&self) {
        self.queue.withdraw_notification();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.pair.destroy();
        let _ = self.queue.destroy();
    }
}

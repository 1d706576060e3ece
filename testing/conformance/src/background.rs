//! What a side does on another thread while it takes further commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nonic_device::{SendRequest, Status};

use crate::command::{Job, Send};
use crate::executor::{Executor, said};
use crate::program_memory::{Buffer, post_send};

/// No job takes longer; one that does has failed, and its thread must not spin for ever.
const LONGEST: Duration = Duration::from_secs(15);

/// A job under way.
#[derive(Debug)]
pub(crate) struct Background {
    thread: JoinHandle<()>,
    result: Receiver<Result<u64, String>>,
}

/// Now, in nanoseconds, on the clock that all processes of the host share.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

type Work = Box<dyn FnOnce() -> Result<u64, String> + std::marker::Send>;

impl Background {
    /// Starts a job on objects of `side`.
    pub(crate) fn start(side: &Executor, job: Job) -> Self {
        let work = work_of(side, job);
        let (sender, result) = channel();
        let thread = std::thread::spawn(move || {
            let _ = sender.send(work());
        });
        Self { thread, result }
    }

    /// Whether it has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Its result, if it comes in time.
    pub(crate) fn join(&self, within: Duration) -> Result<u64, String> {
        match self.result.recv_timeout(within) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(format!("the job has not ended after {within:?}")),
            Err(RecvTimeoutError::Disconnected) => Err("the job panicked".into()),
        }
    }
}

fn work_of(side: &Executor, job: Job) -> Work {
    match job {
        Job::CpuAdd { buffer, offset, count } => {
            let buffer = Arc::clone(side.buffers.at(buffer));
            Box::new(move || {
                let word = buffer.word(offset);
                for _ in 0..count {
                    word.fetch_add(1, Ordering::SeqCst);
                }
                Ok(0)
            })
        }
        Job::Watch { buffer, offset, value } => {
            let buffer = Arc::clone(side.buffers.at(buffer));
            Box::new(move || watch(&buffer, offset, value).map(|()| now_ns()))
        }
        Job::WatchRange { buffer, offset, length, value } => {
            let buffer = Arc::clone(side.buffers.at(buffer));
            Box::new(move || {
                watch(&buffer, offset + length - 1, value)?;
                let others = buffer.peek(offset, length);
                Ok(others.iter().filter(|byte| **byte != value).count() as u64)
            })
        }
        Job::DestroyQueue { queue } => {
            let queue = Arc::clone(side.queues.at(queue));
            Box::new(move || queue.destroy().map(|()| 0).map_err(said))
        }
        Job::DestroyPair { pair } => {
            let pair = Arc::clone(side.pairs.at(pair));
            Box::new(move || pair.destroy().map(|()| 0).map_err(said))
        }
        Job::DestroyShared { queue } => {
            let queue = Arc::clone(side.shared.at(queue));
            Box::new(move || queue.destroy().map(|()| 0).map_err(said))
        }
        Job::SleepOnChannel { channel } => {
            let channel = Arc::clone(side.channels.at(channel));
            Box::new(move || channel.next_event().map(|_| now_ns()).map_err(said))
        }
        Job::Repeat { pair, queue, request, count } => {
            let carry_out = repetition(side, pair, queue, request);
            Box::new(move || {
                for _ in 0..count {
                    match carry_out()? {
                        Status::Success => {}
                        other => return Err(format!("a repeated request ended with {other:?}")),
                    }
                }
                Ok(count)
            })
        }
        Job::RepeatUntilRefused { pair, queue, request } => {
            let carry_out = repetition(side, pair, queue, request);
            Box::new(move || {
                let deadline = Instant::now() + LONGEST;
                while Instant::now() < deadline {
                    match carry_out()? {
                        Status::Success => {}
                        other => return Ok(other as u64),
                    }
                }
                Err("a repeated request was never refused".into())
            })
        }
    }
}

/// What posts a request and waits for its completion.
fn repetition(
    side: &Executor,
    pair: u32,
    queue: u32,
    request: Send,
) -> impl Fn() -> Result<Status, String> + std::marker::Send + 'static {
    let (pair, queue) = (Arc::clone(side.pairs.at(pair)), Arc::clone(side.queues.at(queue)));
    move || {
        let request = SendRequest {
            id: request.id,
            operation: request.operation,
            flags: request.flags,
            pieces: &request.pieces,
            destination: None,
        };
        post_send(&pair, &request).map_err(said)?;
        pair.ring_doorbell();
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            let mut status = None;
            queue.poll(|completion| status = Some(completion.status), 1).map_err(said)?;
            if let Some(status) = status {
                return Ok(status);
            }
        }
        Err("a repeated request did not complete".into())
    }
}

/// Computes, without a call into the library or the kernel, until a byte has a value.
fn watch(buffer: &Buffer, offset: u64, value: u8) -> Result<(), String> {
    let deadline = Instant::now() + LONGEST;
    while buffer.peek(offset, 1) != [value] {
        std::hint::spin_loop();
        if Instant::now() > deadline {
            return Err(format!("byte {offset} never became {value}"));
        }
    }
    Ok(())
}

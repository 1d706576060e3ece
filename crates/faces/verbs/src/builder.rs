//! Requests under construction: what a program has said between `ibv_wr_start` and `ibv_wr_complete`, see
//! `ibv_wr_post(3)`. Nothing of it reaches the engine before `ibv_wr_complete`, and then all of it or nothing.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use nonic_device::{Capabilities, Destination, Key, Operation, ScatterGather, SendFlags, SendRequest};
use nonic_sys::{RawLock, thread_mark};

use crate::abi::ibv_mw;
use crate::convert;
use crate::errno::Errno;
use crate::objects::{Addressing, QueuePairParts};

/// Marks no thread.
const NOBODY: usize = 0;

/// The builder of one queue pair. One thread at a time has it, from start to completion or abort.
pub(crate) struct Builder {
    lock: RawLock,
    /// The thread that has it.
    holder: AtomicUsize,
    batch: UnsafeCell<Batch>,
}

// SAFETY: the batch is touched only by the thread whose mark is in `holder`, which has the lock; the pointers in it are
// addresses of the program's that are looked up before they are followed.
unsafe impl Send for Builder {}
// SAFETY: as above.
unsafe impl Sync for Builder {}

impl Builder {
    /// For a queue pair that may be asked for `operations` (`enum ibv_qp_create_send_ops_flags`).
    pub(crate) fn new(operations: u64, limits: Capabilities, addressing: Addressing) -> Self {
        let batch = Batch {
            operations,
            limits,
            addressing,
            requests: Vec::new(),
            pieces: Vec::new(),
            inline: Vec::new(),
            failure: None,
        };
        Self { lock: RawLock::new(), holder: AtomicUsize::new(NOBODY), batch: UnsafeCell::new(batch) }
    }

    /// Waits until no other thread has the builder, and begins anew. A thread that has it already has made a mistake, of
    /// which its completion will tell.
    pub(crate) fn start(&self) {
        if self.with(|batch| batch.fail(Errno::EINVAL)).is_some() {
            return;
        }
        self.lock.lock();
        self.holder.store(thread_mark(), Ordering::Relaxed);
        self.with(Batch::clear);
    }

    /// Does something with the batch, if this thread has begun one.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Batch) -> R) -> Option<R> {
        // A thread finds its own mark here only if it stored it itself, after it took the lock.
        if self.holder.load(Ordering::Relaxed) != thread_mark() {
            return None;
        }
        // SAFETY: this thread has the lock, and `work` does not come back here: it is this module's, or builds one request.
        Some(work(unsafe { &mut *self.batch.get() }))
    }

    /// As [`Builder::with`], and then lets the next thread in.
    pub(crate) fn finish<R>(&self, work: impl FnOnce(&mut Batch) -> R) -> Option<R> {
        // Also when `work` panics: the thread that waits must not wait for ever.
        struct Unlock<'a>(&'a Builder);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.holder.store(NOBODY, Ordering::Relaxed);
                self.0.lock.unlock();
            }
        }
        self.with(|batch| {
            let _unlock = Unlock(self);
            work(batch)
        })
    }
}

/// Where a request's bytes are.
#[derive(Clone, Copy)]
enum Data {
    /// No setter has been called, which means no bytes.
    Unset,
    /// Pieces of the batch: the first, and how many.
    Pieces(usize, usize),
    /// Bytes of the batch: the first, and how many.
    Inline(usize, usize),
}

struct Request {
    id: u64,
    operation: Operation,
    flags: SendFlags,
    data: Data,
    destination: Option<Destination>,
    /// The window that shows its new key once the bind is posted.
    window: *mut ibv_mw,
}

/// The requests of one turn. The first failure ends it: what follows is not looked at, and nothing is posted. Its memory
/// stays for the next turn.
pub(crate) struct Batch {
    operations: u64,
    limits: Capabilities,
    addressing: Addressing,
    requests: Vec<Request>,
    pieces: Vec<ScatterGather>,
    inline: Vec<u8>,
    failure: Option<Errno>,
}

impl Batch {
    fn clear(&mut self) {
        self.requests.clear();
        self.pieces.clear();
        self.inline.clear();
        self.failure = None;
    }

    fn fail(&mut self, errno: Errno) {
        self.failure.get_or_insert(errno);
    }

    fn step(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Errno>) {
        if self.failure.is_none()
            && let Err(errno) = work(self)
        {
            self.fail(errno);
        }
    }

    /// A builder: begins a request. `EOPNOTSUPP` for an operation the queue pair was not created for, `ENOMEM` for more
    /// requests than its send queue holds, `EINVAL` for unknown flags. `IBV_SEND_INLINE` means nothing here.
    #[inline]
    pub(crate) fn add(
        &mut self,
        id: u64,
        flags: u32,
        operation_flag: u64,
        operation: impl FnOnce() -> Result<(Operation, *mut ibv_mw), Errno>,
    ) {
        self.step(|batch| {
            if batch.operations & operation_flag == 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if batch.requests.len() >= batch.limits.send_requests as usize {
                return Err(Errno::ENOMEM);
            }
            let (operation, window) = operation()?;
            let flags = SendFlags { inline: false, ..convert::send_flags(flags)? };
            batch.requests.push(Request {
                id,
                operation,
                flags,
                data: Data::Unset,
                destination: None,
                window,
            });
            Ok(())
        });
    }

    /// The request that a setter speaks of: the last one.
    fn last(&mut self) -> Result<&mut Request, Errno> {
        self.requests.last_mut().ok_or(Errno::EINVAL)
    }

    /// The same for a setter of data, of which a request takes one: `EINVAL` for a second, and for operations without.
    fn last_without_data(&mut self) -> Result<&mut Request, Errno> {
        let request = self.last()?;
        match request.data {
            Data::Unset if request.operation.has_bytes() => Ok(request),
            _ => Err(Errno::EINVAL),
        }
    }

    /// A setter: the bytes lie in these pieces. `EINVAL` for more of them than the queue pair takes.
    #[inline]
    pub(crate) fn set_pieces(&mut self, pieces: Result<&[ScatterGather], Errno>) {
        self.step(|batch| {
            let (first, pieces) = (batch.pieces.len(), pieces?);
            if pieces.len() > batch.limits.send_pieces as usize {
                return Err(Errno::EINVAL);
            }
            batch.last_without_data()?.data = Data::Pieces(first, pieces.len());
            batch.pieces.extend_from_slice(pieces);
            Ok(())
        });
    }

    /// A setter: the bytes are these, `length` of them, which `copy` writes. `EINVAL` for more of them than the queue pair
    /// takes, and for an operation that fetches its bytes.
    #[inline]
    pub(crate) fn set_inline(&mut self, length: Option<usize>, copy: impl FnOnce(&mut [u8])) {
        self.step(|batch| {
            let most = batch.limits.inline_bytes as usize;
            let length = length.filter(|length| *length <= most).ok_or(Errno::EINVAL)?;
            let start = batch.inline.len();
            let request = batch.last_without_data()?;
            if request.operation.writes_locally() {
                return Err(Errno::EINVAL);
            }
            request.data = Data::Inline(start, length);
            request.flags.inline = true;
            batch.inline.resize(start + length, 0);
            copy(&mut batch.inline[start..]);
            Ok(())
        });
    }

    /// A setter: where a request goes. `EINVAL` on a queue pair whose requests say it otherwise, and for a handle that is none.
    pub(crate) fn set_destination(
        &mut self,
        way: Addressing,
        to: impl FnOnce() -> Result<Option<Destination>, Errno>,
    ) {
        self.step(|batch| {
            if batch.addressing != way {
                return Err(Errno::EINVAL);
            }
            batch.last()?.destination = to()?;
            Ok(())
        });
    }

    /// What this release does not have.
    pub(crate) fn refuse(&mut self, errno: Errno) {
        self.fail(errno);
    }

    /// Posts all of it, or says why nothing is posted.
    pub(crate) fn post(&mut self, parts: &QueuePairParts) -> Result<(), Errno> {
        if let Some(errno) = self.failure {
            return Err(errno);
        }
        let mut posting = parts.pair()?.post()?;
        // A single request is judged by posting it.
        if self.requests.len() > 1 {
            for (ahead, request) in self.requests.iter().enumerate() {
                self.lend(request, |request| posting.check(request, ahead as u64))?;
            }
        }
        let mut result = Ok(());
        for request in &self.requests {
            // SAFETY: inline bytes are the batch's own; the program vouches for its pieces, as in `ibv_post_send`.
            result = self.lend(request, |request| unsafe { posting.post(request) });
            if result.is_err() {
                break;
            }
            if let Operation::Bind { key, .. } = request.operation {
                convert::show_key(request.window, key);
            }
        }
        posting.ring_doorbell();
        Ok(result?)
    }

    /// A request as the engine takes it.
    #[inline]
    fn lend<R>(&self, request: &Request, work: impl FnOnce(&SendRequest<'_>) -> R) -> R {
        let own;
        let pieces = match request.data {
            Data::Unset => &[],
            Data::Pieces(first, count) => &self.pieces[first..first + count],
            Data::Inline(start, length) => {
                let bytes = &self.inline[start..start + length];
                let address = bytes.as_ptr().expose_provenance() as u64;
                own = [ScatterGather { address, length: length as u32, key: Key(0) }];
                &own[..]
            }
        };
        let Request { id, operation, flags, destination, .. } = *request;
        work(&SendRequest { id, operation, flags, pieces, destination })
    }
}

/// No window is to show anything.
pub(crate) const NO_WINDOW: *mut ibv_mw = ptr::null_mut();

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Capabilities = Capabilities {
        send_requests: 2,
        receive_requests: 0,
        send_pieces: 1,
        receive_pieces: 0,
        inline_bytes: 4,
    };

    fn failure_of(steps: impl FnOnce(&mut Batch)) -> Option<Errno> {
        let builder = Builder::new(1, LIMITS, Addressing::Peer);
        builder.start();
        builder
            .finish(|batch| {
                steps(batch);
                batch.failure
            })
            .expect("this thread began it")
    }

    fn send(batch: &mut Batch) {
        batch.add(7, 0, 1, || Ok((Operation::Send { immediate: None }, NO_WINDOW)));
    }

    #[test]
    fn only_the_thread_that_began_a_batch_can_touch_it() {
        let builder = Builder::new(1, LIMITS, Addressing::Peer);
        assert!(builder.with(send).is_none() && builder.finish(|_| ()).is_none());
        builder.start();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(builder.with(send).is_none() && builder.finish(|_| ()).is_none()));
        });
        assert_eq!(builder.finish(|batch| batch.requests.len()), Some(0));
        assert!(builder.finish(|_| ()).is_none());
    }

    #[test]
    fn a_second_thread_waits_for_the_first_to_finish() {
        let builder = Builder::new(1, LIMITS, Addressing::Peer);
        let done = AtomicUsize::new(0);
        builder.start();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                builder.start();
                assert_eq!(done.load(Ordering::Relaxed), 1);
                builder.finish(|batch| assert_eq!(batch.requests.len(), 0)).expect("it has it now");
            });
            builder.with(send);
            done.store(1, Ordering::Relaxed);
            builder.finish(|_| ());
        });
    }

    #[test]
    fn a_batch_that_was_begun_twice_fails_and_the_next_does_not() {
        let builder = Builder::new(1, LIMITS, Addressing::Peer);
        builder.start();
        builder.start();
        assert_eq!(builder.finish(|batch| batch.failure), Some(Some(Errno::EINVAL)));
        builder.start();
        assert_eq!(builder.finish(|batch| batch.failure), Some(None));
    }

    #[test]
    fn each_mistake_has_its_errno_and_the_first_one_counts() {
        let pieces = [ScatterGather { address: 0, length: 1, key: Key(1) }; 2];
        assert_eq!(failure_of(send), None);
        assert_eq!(failure_of(|batch| (0..2).for_each(|_| send(batch))), None);
        assert_eq!(failure_of(|batch| (0..3).for_each(|_| send(batch))), Some(Errno::ENOMEM));
        assert_eq!(failure_of(|batch| batch.add(7, 0, 2, || unreachable!())), Some(Errno::EOPNOTSUPP));
        assert_eq!(failure_of(|batch| batch.set_pieces(Ok(&[]))), Some(Errno::EINVAL));
        let set = |count: usize| {
            failure_of(|batch| {
                send(batch);
                batch.set_pieces(Ok(&pieces[..count]));
            })
        };
        assert_eq!((set(0), set(1), set(2)), (None, None, Some(Errno::EINVAL)));
        let inline = |length| {
            failure_of(|batch| {
                send(batch);
                batch.set_inline(length, |bytes| bytes.fill(1));
            })
        };
        assert_eq!(
            (inline(Some(4)), inline(Some(5)), inline(None)),
            (None, Some(Errno::EINVAL), Some(Errno::EINVAL))
        );
        let twice = failure_of(|batch| {
            send(batch);
            batch.set_pieces(Ok(&pieces[..1]));
            batch.set_inline(Some(1), |_| unreachable!());
        });
        assert_eq!(twice, Some(Errno::EINVAL));
        let local = failure_of(|batch| {
            batch.add(7, 0, 1, || Ok((Operation::Invalidate { key: Key(1) }, NO_WINDOW)));
            batch.set_pieces(Ok(&[]));
        });
        assert_eq!(local, Some(Errno::EINVAL));
        assert_eq!(
            failure_of(|batch| batch.set_destination(Addressing::Queue, || unreachable!())),
            Some(Errno::EINVAL)
        );
        let first = failure_of(|batch| {
            batch.add(7, 0, 2, || unreachable!());
            batch.set_pieces(Ok(&[]));
        });
        assert_eq!(first, Some(Errno::EOPNOTSUPP));
    }
}

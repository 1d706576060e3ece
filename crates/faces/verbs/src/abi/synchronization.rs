//! The mutex and the condition variable inside public structures.

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, pthread_cond_t, pthread_mutex_t};

/// `mutex` and `cond` of `ibv_cq`, `ibv_qp`, `ibv_srq` and `ibv_wq`, which stand side by side in each of
/// them.
///
/// The engine does its own waiting; these exist because programs and other libraries may lock them.
#[repr(C)]
pub struct Synchronization {
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
}

impl Synchronization {
    /// Both as the C initialisers leave them.
    pub const NEW: Self = Self { mutex: PTHREAD_MUTEX_INITIALIZER, cond: PTHREAD_COND_INITIALIZER };
}

layout! {
    Synchronization: 88 { mutex @ 0, cond @ 40 }
}

//! Where children find the connections of their parent.
//!
//! A connection by a stream belongs to the process that made it, and its number to that process and its children, as every
//! descriptor does. A child that uses the number connects the kernel's socket under it to a listener of the parent's on the loopback
//! interface; the parent knows the socket by its name, and carries what goes between it and the stream. Since parent and child
//! have the same socket of the kernel's, both can use it from then on, and so can programs that they start.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nonic_sys::{
    LoopbackListener, POLL_IN, PerProcess, PollEntry, RawFd, TcpEnd, name_of_number, nap,
    spawn_without_signals,
};

use crate::carrying::{Kept, carry};
use crate::socket::Socket;
use crate::table;

/// How long to wait before the next look where there is no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);

static CARRIER: PerProcess<Mutex<Option<Arc<Carrier>>>> = PerProcess::new();
static CLAIMS: PerProcess<Mutex<Claims>> = PerProcess::new();

/// Sockets that a child has connected and that have no number here any more, by their names.
pub(crate) type Claims = Vec<(SocketAddr, Arc<Socket>)>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by whoever closes the last number of a socket that a child has, until the number is out of the table.
pub(crate) fn claims() -> MutexGuard<'static, Claims> {
    lock(CLAIMS.get_or_make(Mutex::default))
}

#[derive(Debug)]
struct Carrier(Vec<LoopbackListener>);

/// Where children find the connections of this process; the process listens there from the first time on that this is asked.
pub(crate) fn addresses() -> Vec<SocketAddr> {
    let mut running = lock(CARRIER.get_or_make(Mutex::default));
    if running.is_none() {
        let mut kept = Kept::lock();
        let listeners: Vec<_> =
            [true, false].into_iter().filter_map(|v6| LoopbackListener::open(v6).ok()).collect();
        listeners.iter().for_each(|listener| kept.add(listener.number()));
        let carrier = Arc::new(Carrier(listeners));
        let own = Arc::clone(&carrier);
        if let Err(error) = spawn_without_signals("carrier", move || own.run()) {
            tracing::warn!(%error, "children have no connections of their parent's: no thread carries them");
            return Vec::new();
        }
        *running = Some(carrier);
    }
    let carrier = running.as_ref().map_or(&[][..], |carrier| &carrier.0);
    carrier.iter().filter_map(|listener| listener.address().ok()).collect()
}

impl Carrier {
    fn run(&self) {
        loop {
            let entry = |listener: &LoopbackListener| PollEntry {
                number: listener.number(),
                events: POLL_IN,
                revents: 0,
            };
            let mut entries: Vec<_> = self.0.iter().map(entry).collect();
            if nonic_sys::poll(&mut entries, None).is_err() {
                nap(PAUSE);
            }
            for (listener, entry) in self.0.iter().zip(&entries) {
                if entry.revents != 0 && !accept(listener) {
                    nap(PAUSE);
                }
            }
        }
    }
}

/// Takes the next connection; false if that must wait.
fn accept(listener: &LoopbackListener) -> bool {
    let mut claims = claims();
    let mut kept = Kept::lock();
    let (end, peer) = match listener.accept() {
        Ok(accepted) => accepted,
        // It went before it was taken, or another failed.
        Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
    };
    let Some((number, socket)) = claimed(&mut claims, peer) else {
        tracing::debug!(%peer, "somebody who is no child of this process asks for a connection");
        return true;
    };
    kept.add(end.number());
    drop(kept);
    socket.carry(number, end);
    // Whoever closes the last number meanwhile finds it carried, and leaves no claim behind that nobody would ever take.
    drop(claims);
    true
}

/// The socket of this process that has a name, and a number of it that is in the table.
fn claimed(claims: &mut Claims, name: SocketAddr) -> Option<(Option<RawFd>, Arc<Socket>)> {
    if let Some(place) = claims.iter().position(|(other, _)| *other == name) {
        return Some((None, claims.swap_remove(place).1));
    }
    table::sockets_by_number()
        .into_iter()
        .find(|(number, socket)| {
            socket.is_inherited() && name_of_number(*number).is_ok_and(|own| own == name)
        })
        .map(|(number, socket)| (Some(number), socket))
}

/// Gives the program's socket another end here. `EISCONN` if a child was faster.
pub(crate) fn give_end(number: RawFd, v6: bool) -> std::io::Result<TcpEnd> {
    let mut kept = Kept::lock();
    let end = nonic_sys::give_tcp_end(number, v6)?;
    kept.add(end.number());
    Ok(end)
}

impl Socket {
    /// Its bytes go by the kernel's socket from now on, whose other end this is.
    fn carry(self: &Arc<Self>, number: Option<RawFd>, end: TcpEnd) {
        match self.leave_stream(number) {
            Some(stream) => carry(&stream, end),
            None => end.reset(),
        }
    }

    /// Has it go by the kernel's socket: a child is to have it, too. Whether that is so. `kept` is the number if it stays, `claims` are
    /// those to add to if it does not.
    pub(crate) fn hand_on(
        self: &Arc<Self>,
        number: RawFd,
        kept: Option<RawFd>,
        claims: Option<&mut Claims>,
    ) -> bool {
        match give_end(number, self.v6) {
            Ok(end) => self.carry(kept, end),
            Err(error) if error.raw_os_error() == Some(libc::EISCONN) => {
                // The carrier is about to find it.
                if let (Some(claims), Ok(name)) = (claims, name_of_number(number)) {
                    claims.push((name, Arc::clone(self)));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection stays in this process, its children find it reset");
                return false;
            }
        }
        true
    }
}

//! Unix sockets with abstract names, which live in a network namespace and vanish with their owner.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::fork::{forget_in_children, keep_in_children};
use crate::{is_out_of_descriptors, wait_readable};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

/// Descriptors one message carries at most.
pub const MAX_DESCRIPTORS: usize = 24;

/// Who is at the other end of a socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id as seen from here; 0 if it lives in a pid namespace this process does not see.
    pub pid: i32,
    /// Effective user id when the socket was made.
    pub uid: u32,
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(f, "a process of user {}, in a pid namespace that is not seen from here", self.uid),
            pid => write!(f, "process {pid} of user {}", self.uid),
        }
    }
}

/// Claims an abstract name by listening on it; `AddrInUse` if somebody has it.
pub fn listen_abstract(name: &str) -> io::Result<PacketSocket> {
    let socket = bind_abstract(name)?;
    socket.listen()?;
    Ok(socket)
}

/// A socket that has an abstract name, on which nobody listens yet. `AddrInUse` if the name is taken.
pub fn bind_abstract(name: &str) -> io::Result<PacketSocket> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let fd = new_socket()?;
    rustix::net::bind(&fd, &address)?;
    Ok(PacketSocket::new(fd))
}

pub(crate) fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Who listens on an abstract name of packets; `None` if it is certain that nobody does. An error if that is not to be known now: as many
/// wait there as may, or this process has no descriptor left.
pub fn holder_of(name: &str) -> io::Result<Option<Credentials>> {
    match PacketSocket::find_abstract(name)? {
        Some(socket) => socket.peer().map(Some),
        None => Ok(None),
    }
}

/// A connected or listening sequenced-packet socket; it never blocks.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// What came.
#[derive(Debug)]
pub enum Received {
    /// A message of so many bytes, with these descriptors.
    Message(usize, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    HungUp,
}

impl PacketSocket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        // A child of this process must not keep the connection alive when this process dies.
        forget_in_children(fd.as_fd());
        Self { fd }
    }

    /// Connects to an abstract name; `ConnectionRefused` if nobody has it.
    pub fn connect_abstract(name: &str) -> io::Result<Self> {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let fd = new_socket()?;
        rustix::net::connect(&fd, &address)?;
        Ok(Self::new(fd))
    }

    /// The same; `None` if it is certain that nobody takes packets there.
    pub fn find_abstract(name: &str) -> io::Result<Option<Self>> {
        // Nobody has it, or a socket of another kind.
        let nobodys = [rustix::io::Errno::CONNREFUSED, rustix::io::Errno::PROTOTYPE];
        match Self::connect_abstract(name) {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if nobodys.iter().any(|known| error.raw_os_error() == Some(known.raw_os_error())) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes connections from now on.
    pub fn listen(&self) -> io::Result<()> {
        Ok(rustix::net::listen(&self.fd, 1024)?)
    }

    /// The next connection, if one is waiting.
    pub fn accept(&self) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = rustix::net::accept_with(&self.fd, flags).map_err(io::Error::from);
        match accepted {
            // The kernel looks for a descriptor before it looks for a connection.
            Err(error)
                if is_out_of_descriptors(&error) && !wait_readable(self.fd.as_fd(), Some(Duration::ZERO)) =>
            {
                Err(io::ErrorKind::WouldBlock.into())
            }
            accepted => Ok(Self::new(accepted?)),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<Credentials> {
        crate::peer_credentials(self.fd.as_fd())
    }

    /// Sends one message with descriptors.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_message(self.fd.as_fd(), bytes, descriptors)
    }

    /// Receives one message. Descriptors are closed on exec.
    pub fn receive(&self, bytes: &mut [u8]) -> Received {
        receive_message(self.fd.as_fd(), bytes)
    }

    /// Receives one message without what descriptors come with it: those of a stranger can take long to close.
    pub fn receive_bytes(&self, bytes: &mut [u8]) -> Received {
        receive_with(self.fd.as_fd(), bytes, &mut RecvAncillaryBuffer::default())
    }

    /// Has the kernel refuse messages with descriptors to this socket, and to those accepted from it. Kernels before 6.16
    /// cannot; there they are dropped when they are received.
    pub fn refuse_descriptors(&self) {
        const SO_PASSRIGHTS: libc::c_int = 83;
        let _ = crate::stream_socket::set_option(self.fd.as_raw_fd(), SO_PASSRIGHTS, &0);
    }

    /// Has the kernel hold so many bytes that were sent and not received, or as many as it allows: a message counts as twice its length, and more.
    pub fn make_room(&self, bytes: usize) {
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&self.fd, bytes);
    }

    /// Whether the other end is gone (or never was): what is left to receive may still be there.
    pub fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        matches!(poll(&mut fds, Some(&now)), Ok(1..)) && fds[0].revents().intersects(gone)
    }

    /// Sends nothing more: the other end finds this one hung up, and can still be seen to hang up itself.
    pub fn stop_sending(&self) {
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write);
    }
}

/// Sends one message with descriptors.
pub fn send_message(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors in one message"));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message, or of a stream what came with descriptors, without waiting. Descriptors are closed on exec.
pub fn receive_message(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Received {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    receive_with(socket, bytes, &mut RecvAncillaryBuffer::new(&mut space))
}

fn receive_with(socket: BorrowedFd<'_>, bytes: &mut [u8], control: &mut RecvAncillaryBuffer<'_>) -> Received {
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut receive = || recvmsg(socket, &mut [IoSliceMut::new(bytes)], control, flags);
    // A process that ends with something unread resets its sockets. That shows once, and before what it had sent.
    let received = match receive() {
        Err(rustix::io::Errno::CONNRESET) => receive(),
        received => received,
    };
    match received {
        Ok(message) => {
            let mut descriptors = Vec::new();
            for part in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = part {
                    descriptors.extend(rights);
                }
            }
            if message.bytes == 0 || message.flags.contains(ReturnFlags::TRUNC) {
                return Received::HungUp;
            }
            Received::Message(message.bytes, descriptors)
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Received::Nothing,
        Err(_) => Received::HungUp,
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        keep_in_children(self.fd.as_fd());
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn that_nobody_has_a_name_is_told_from_that_nobody_answers_there() {
        let name = format!("nonic-sys.holder/{}", std::process::id());
        assert_eq!(holder_of(&name).unwrap(), None);
        // It is bound, and takes nothing.
        let socket = bind_abstract(&name).unwrap();
        assert_eq!(holder_of(&name).unwrap(), None);
        rustix::net::listen(&socket, 0).unwrap();
        let _first = PacketSocket::find_abstract(&name).unwrap().unwrap();
        assert_eq!(holder_of(&name).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(socket);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let other = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&other, &address).unwrap();
        rustix::net::listen(&other, 1).unwrap();
        assert_eq!(holder_of(&name).unwrap(), None, "that is no socket of packets");
    }

    #[test]
    fn what_was_sent_before_the_end_is_received_though_the_sender_left_something_unread() {
        let name = format!("nonic-sys.test/{}", std::process::id());
        let listener = listen_abstract(&name).unwrap();
        let near = PacketSocket::connect_abstract(&name).unwrap();
        let far = listener.accept().unwrap();
        near.send(b"unread", &[]).unwrap();
        far.send(b"one", &[]).unwrap();
        far.send(b"two", &[]).unwrap();
        drop(far);
        // A child that another test forks just now has a copy of it for a while.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !near.is_hung_up() {
            assert!(Instant::now() < deadline, "the other end is still there");
            std::thread::yield_now();
        }
        let mut bytes = [0; 8];
        for sent in [b"one", b"two"] {
            let Received::Message(3, _) = near.receive(&mut bytes) else { panic!("{sent:?} is lost") };
            assert_eq!(&bytes[..3], sent);
        }
        assert!(matches!(near.receive(&mut bytes), Received::HungUp));
    }

    #[test]
    fn descriptors_that_are_not_wanted_do_not_come_with_the_bytes() {
        let name = format!("nonic-sys.descriptors/{}", std::process::id());
        let listener = listen_abstract(&name).unwrap();
        assert_eq!(holder_of(&name).unwrap().unwrap().pid, std::process::id() as i32);
        let _holder = listener.accept().unwrap();
        let near = PacketSocket::connect_abstract(&name).unwrap();
        let far = listener.accept().unwrap();
        near.send(b"one", &[near.as_fd()]).unwrap();
        let mut bytes = [0; 8];
        let Received::Message(3, descriptors) = far.receive_bytes(&mut bytes) else { panic!("it is lost") };
        assert!(descriptors.is_empty());
        // Where the kernel can it refuses them before.
        listener.refuse_descriptors();
        let near = PacketSocket::connect_abstract(&name).unwrap();
        let far = listener.accept().unwrap();
        let refused = near.send(b"two", &[near.as_fd()]).is_err();
        near.send(b"three", &[]).unwrap();
        let length = if refused { 5 } else { 3 };
        assert!(matches!(far.receive_bytes(&mut bytes), Received::Message(came, _) if came == length));
    }
}

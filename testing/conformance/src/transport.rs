//! How a command reaches its side: by a call, to another thread, or to another process.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::arrangement::Place;
use crate::command::{Command, Reply};
use crate::executor::Executor;
use crate::wire::Wire;

/// The variable that makes a process the server of another.
pub(crate) const SERVER: &str = "NONIC_CONFORMANCE_SERVER";

/// The way to a side.
#[derive(Debug)]
pub(crate) enum Transport {
    /// A side of this thread.
    Here(Box<Executor>),
    /// A side of another thread.
    Thread(Sender<Command>, Receiver<Reply>),
    /// A side of another process.
    Process(UnixStream, Child),
}

impl Transport {
    /// A new side.
    pub(crate) fn open(place: Place) -> io::Result<Self> {
        Ok(match place {
            Place::SameThread => Self::Here(Box::new(Executor::open())),
            Place::OtherThread => {
                let (commands, incoming) = channel();
                let (outgoing, replies) = channel();
                std::thread::Builder::new().name("server".into()).spawn(move || {
                    let mut executor = Executor::open();
                    while let Ok(command) = incoming.recv() {
                        if outgoing.send(guarded(&mut executor, command)).is_err() {
                            break;
                        }
                    }
                })?;
                Self::Thread(commands, replies)
            }
            Place::OtherProcess => {
                let (own, theirs) = UnixStream::pair()?;
                let child = Program::new(std::env::current_exe()?)
                    .env(SERVER, "1")
                    .stdin(Stdio::from(OwnedFd::from(theirs)))
                    .spawn()?;
                Self::Process(own, child)
            }
        })
    }

    /// Has a command carried out.
    pub(crate) fn run(&mut self, command: Command) -> Reply {
        match self {
            Self::Here(executor) => executor.execute(command),
            Self::Thread(commands, replies) => {
                commands.send(command).expect("the server's thread runs");
                replies.recv().expect("the server's thread answers")
            }
            Self::Process(stream, _) => {
                write_message(stream, &command).expect("the server's process runs");
                read_message(stream)
                    .expect("the server's process answers")
                    .expect("it answers before it ends")
            }
        }
    }

    /// The process of the side, if it has one of its own.
    pub(crate) fn process(&self) -> Option<rustix::process::Pid> {
        match self {
            Self::Process(_, child) => Some(rustix::process::Pid::from_child(child)),
            _ => None,
        }
    }
}

/// A panic of the side becomes its reply.
fn guarded(executor: &mut Executor, command: Command) -> Reply {
    catch_unwind(AssertUnwindSafe(|| executor.execute(command)))
        .unwrap_or_else(|_| Err(format!("the side panicked: {}", crate::harness::last_panic())))
}

/// Serves the process that started this one, until it ends.
pub(crate) fn serve() -> io::Result<()> {
    // The server must not outlive a client that was killed, not even while it is stopped.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut executor = Executor::open();
    while let Some(command) = read_message(&mut stream)? {
        let reply = guarded(&mut executor, command);
        write_message(&mut stream, &reply)?;
    }
    Ok(())
}

fn write_message(stream: &mut UnixStream, message: &impl Wire) -> io::Result<()> {
    let mut bytes = vec![0; 8];
    message.put(&mut bytes);
    let length = bytes.len() as u64 - 8;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

fn read_message<T: Wire>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let mut length = [0; 8];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    let message = T::take(&mut bytes.as_slice());
    message
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message that makes no sense"))
}

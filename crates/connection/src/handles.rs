//! What the layer above holds: listeners, requests, connections.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_meeting::{Namespace, Place};
use nonic_sys::{PacketSocket, Seldom, bind_abstract, holder_of, random_u64};

use crate::names::{file_of_service, met_service_name, service_name};
use crate::shared::{Attempt, Command, ListenerCore, Shared, lock};
use crate::sinks::{ConnectionSink, ServiceSink};
use crate::wire::{Inquiry, Refusal};
use crate::{DATA_MAX, FACTS_MAX};

/// Offers a service. `AddrInUse` if a process of this host, of whichever user, offers it already; the error names it.
pub fn listen(space: &str, number: u64, sink: Arc<dyn ServiceSink>) -> io::Result<Listener> {
    let reservation = Reservation::make(space, number)?;
    let shared = Shared::get()?;
    reservation.open()?;
    Ok(reservation.offer(shared, sink, None))
}

/// Offers services that were reserved, all or none: if it fails they are reserved as before. Other network namespaces that are met find them,
/// too.
pub fn listen_all(
    reservations: Vec<Reservation>,
    sink: &Arc<dyn ServiceSink>,
) -> Result<Vec<Listener>, (Vec<Reservation>, io::Error)> {
    let opened = Shared::get().and_then(|shared| {
        reservations.iter().try_for_each(Reservation::open)?;
        Ok(shared)
    });
    match opened {
        Ok(shared) => {
            let offer = |name: Reservation| {
                let for_others = name.offer_to_others(shared, sink);
                name.offer(shared, Arc::clone(sink), for_others)
            };
            Ok(reservations.into_iter().map(offer).collect())
        }
        Err(error) => Err((reservations, error)),
    }
}

/// The number of a service that this process does not offer yet, and that nobody else can offer. Dropped, it is free.
pub struct Reservation {
    name: Arc<str>,
    socket: PacketSocket,
}

impl Reservation {
    /// Reserves a number. `AddrInUse` as with [`listen`].
    pub fn make(space: &str, number: u64) -> io::Result<Self> {
        let name = service_name(space, number);
        let socket = bind_abstract(&name).map_err(|error| name_holder(error, space, number, &name))?;
        Ok(Self { name, socket })
    }

    /// Lets requests in, which stand in the kernel's queue until the service is offered.
    fn open(&self) -> io::Result<()> {
        self.socket.listen()?;
        self.socket.refuse_descriptors();
        Ok(())
    }

    fn offer(
        self,
        shared: &Arc<Shared>,
        sink: Arc<dyn ServiceSink>,
        for_others: Option<ForOthers>,
    ) -> Listener {
        let Self { name, socket } = self;
        let core =
            Arc::new(ListenerCore { token: shared.new_token(), name, sink, socket: Some(socket).into() });
        lock(&shared.listeners).insert(Arc::clone(&core.name), Arc::clone(&core));
        shared.order(Command::Listen(Arc::clone(&core)));
        Listener { shared: Arc::clone(shared), core, for_others }
    }

    /// Offers it to other network namespaces, if they are met. The name in the folder is this process's alone.
    fn offer_to_others(&self, shared: &Arc<Shared>, sink: &Arc<dyn ServiceSink>) -> Option<ForOthers> {
        static UNSEEN: Seldom = Seldom::new();
        let place = nonic_meeting::place()?;
        let file = file_of_service(self.name.split_once('/')?.1);
        let socket = place.listen(&file).inspect_err(|error| {
            if let Some(unsaid) = UNSEEN.turn() {
                let folder = place.path().display();
                tracing::error!(%folder, %error, unsaid, "a service is not offered to other network namespaces");
            }
        });
        let socket = socket.ok()?;
        socket.refuse_descriptors();
        let (token, name, sink) = (shared.new_token(), Arc::clone(&self.name), Arc::clone(sink));
        let core = Arc::new(ListenerCore { token, name, sink, socket: Some(socket).into() });
        shared.order(Command::Listen(Arc::clone(&core)));
        Some(ForOthers { core, place, file })
    }
}

/// Where other network namespaces ask for a service.
struct ForOthers {
    core: Arc<ListenerCore>,
    place: Arc<Place>,
    file: String,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.name).finish()
    }
}

/// Says who has the name of a service. A stranger that has it costs this process no more than that.
fn name_holder(error: io::Error, space: &str, number: u64, name: &str) -> io::Error {
    if error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    let holder = holder_of(name)
        .ok()
        .flatten()
        .map_or_else(|| "a process that does not answer".to_owned(), |who| who.to_string());
    io::Error::new(error.kind(), format!("service {number} of {space} is offered by {holder}"))
}

/// A service this process offers, until it is dropped: then its number is free, and requests that were not taken yet are
/// refused. Requests that the sink was given stay as they are.
pub struct Listener {
    shared: Arc<Shared>,
    core: Arc<ListenerCore>,
    for_others: Option<ForOthers>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.shared.is_current() {
            lock(&self.shared.listeners).remove(&self.core.name);
            lock(&self.core.socket).take();
            self.shared.order(Command::Unlisten { token: self.core.token });
            if let Some(ForOthers { core, place, file }) = &self.for_others {
                place.forget(file);
                lock(&core.socket).take();
                self.shared.order(Command::Unlisten { token: core.token });
            }
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.core.name).finish()
    }
}

/// Asks for a connection to a service of this host, or if nobody offers it, to the next of these; `sink` learns what comes of it. After `timeout` (`None`: never) the
/// attempt ends. `facts` are at most [`FACTS_MAX`] bytes and `data` at most [`DATA_MAX`], else `InvalidInput`.
pub fn connect(
    services: &[(&str, u64)],
    facts: &[u8],
    data: &[u8],
    timeout: Option<Duration>,
    sink: Arc<dyn ConnectionSink>,
) -> io::Result<Connection> {
    let names = services.iter().map(|(space, number)| service_name(space, *number));
    ask(names, facts, data, timeout, sink)
}

/// The same in another network namespace of this host that is met.
pub fn connect_to_other(
    namespace: Namespace,
    services: &[(&str, u64)],
    facts: &[u8],
    data: &[u8],
    timeout: Option<Duration>,
    sink: Arc<dyn ConnectionSink>,
) -> io::Result<Connection> {
    let names = services.iter().map(|(space, number)| met_service_name(namespace, space, *number));
    ask(names, facts, data, timeout, sink)
}

fn ask(
    mut names: impl Iterator<Item = Arc<str>>,
    facts: &[u8],
    data: &[u8],
    timeout: Option<Duration>,
    sink: Arc<dyn ConnectionSink>,
) -> io::Result<Connection> {
    check(facts, data)?;
    let service = names.next().ok_or(io::ErrorKind::InvalidInput)?;
    let shared = Shared::get()?;
    let own = random_u64();
    shared.order(Command::Connect(Attempt {
        service,
        others: names.collect(),
        inquiry: Inquiry { process: shared.process, number: own, facts: facts.into(), data: data.into() },
        deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        sink,
    }));
    Ok(Connection { shared: Arc::clone(shared), number: own })
}

fn check(facts: &[u8], data: &[u8]) -> io::Result<()> {
    if facts.len() > FACTS_MAX || data.len() > DATA_MAX {
        let text = format!(
            "{} bytes of facts and {} of private data, of which there can be {FACTS_MAX} and {DATA_MAX}",
            facts.len(),
            data.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// A connection, or the attempt at one. Dropping it ends it.
pub struct Connection {
    shared: Arc<Shared>,
    number: u64,
}

impl Connection {
    /// Says that this side is connected, if it answered [`crate::Response::Later`] before.
    pub fn confirm(&self) {
        self.shared.order(Command::Confirm { number: self.number });
    }

    /// Ends it with a rejection, if this side was accepted and has not confirmed it. At most [`DATA_MAX`] bytes are sent.
    pub fn reject(&self, data: &[u8]) {
        let data = data[..data.len().min(DATA_MAX)].into();
        self.shared.order(Command::Reject { number: self.number, data });
    }

    /// Says something to the layer above at the other side, behind what was said before, if they are connected; to who asked
    /// once that has confirmed it. At most [`DATA_MAX`] bytes are sent.
    pub fn say(&self, word: &[u8]) {
        let word = word[..word.len().min(DATA_MAX)].into();
        self.shared.order(Command::Say { number: self.number, word });
    }

    /// Ends it, as soon as earlier messages are out. The sink hears nothing more of it, but for a call that is under way.
    /// Harmless when it has ended.
    pub fn disconnect(&self) {
        self.shared.order(Command::Disconnect { number: self.number, failed: false });
    }

    /// The same because it has failed here: to the other side it is [lost](crate::End::Lost).
    pub fn fail(&self) {
        self.shared.order(Command::Disconnect { number: self.number, failed: true });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.disconnect();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// Why a request could not be handed to another service.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    /// Nobody listens there.
    #[error("nobody listens there")]
    NobodyListens,
    /// The kernel says why not.
    #[error("the service cannot be reached: {0}")]
    System(#[from] io::Error),
}

/// Somebody asks for a connection. Dropped unanswered, it is refused. Whoever asked may have given up; then an answer goes
/// nowhere, and the sink of one who accepts learns so at once.
pub struct Request {
    shared: Arc<Shared>,
    number: u64,
    user: u32,
    facts: Box<[u8]>,
    data: Arc<[u8]>,
    answered: bool,
}

impl Request {
    pub(crate) fn new(shared: &Arc<Shared>, number: u64, user: u32, facts: &[u8], data: &[u8]) -> Self {
        Self {
            shared: Arc::clone(shared),
            number,
            user,
            facts: facts.into(),
            data: data.into(),
            answered: false,
        }
    }

    /// The user who asks, or who handed it to this process.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// The facts of the layer above.
    pub fn facts(&self) -> &[u8] {
        &self.facts
    }

    /// The private data.
    pub fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// Accepts; `sink` learns when who asked has seen it. Lengths are as in [`connect`]; on failure nothing has happened, and
    /// the request comes back.
    pub fn accept(
        self,
        facts: &[u8],
        data: &[u8],
        sink: Arc<dyn ConnectionSink>,
    ) -> Result<Connection, (io::Error, Self)> {
        if let Err(error) = check(facts, data) {
            return Err((error, self));
        }
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        let command = Command::Accept { number, facts: facts.into(), data: data.into(), sink };
        self.answer(command);
        Ok(Connection { shared, number })
    }

    /// Rejects, with at most [`DATA_MAX`] bytes of private data: more are not sent.
    pub fn reject(self, data: &[u8]) {
        let number = self.number;
        self.answer(Command::Reject { number, data: data[..data.len().min(DATA_MAX)].into() });
    }

    /// Refuses: the program was not asked, or could not decide.
    pub fn refuse(self, reason: Refusal) {
        let number = self.number;
        self.answer(Command::Refuse { number, reason });
    }

    /// Hands it to another service of this host, in whichever process, as if it had been for that one. If that is not possible
    /// the request comes back.
    pub fn hand_to(self, space: &str, number: u64) -> Result<(), (HandError, Self)> {
        if !self.shared.is_current() {
            return Err((HandError::NobodyListens, self));
        }
        let name = service_name(space, number);
        let listener = lock(&self.shared.listeners).get(&name).map(Arc::clone);
        let command = match listener {
            Some(listener) => Command::HandWithin { number: self.number, listener },
            None => match PacketSocket::connect_abstract(&name) {
                Ok(socket) => Command::HandOn { number: self.number, socket },
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err((HandError::NobodyListens, self));
                }
                Err(error) => return Err((error.into(), self)),
            },
        };
        self.answer(command);
        Ok(())
    }

    fn answer(mut self, command: Command) {
        self.answered = true;
        self.shared.order(command);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.order(Command::Refuse { number: self.number, reason: Refusal::NobodyListens });
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("data", &self.data.len()).finish_non_exhaustive()
    }
}

//! All that one engine has on the wire.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use nonic_roce::MANAGEMENT;
use nonic_sys::{AsFd, BorrowedFd, DatagramBatch, DatagramHeader, Epoll, PacketSocket, Ready};
use nonic_trust::TrustedUsers;

use crate::handing::{Handing, Share, listener};
use crate::incoming::{Arrival, Run, Taken};
use crate::losses::Losses;
use crate::outgoing::Outgoing;
use crate::station::{Location, OpenError, Station, host_address};

/// Buffers for packets on their way out that are kept for the next that needs one.
const SPARE_MAX: usize = 8;

/// What stands in front of the number of a listener, of one who hands packets on, and of one who is to be handed some, where the kernel says who has something. A
/// station has the number of its descriptor alone.
pub(crate) const LISTENER: u64 = 1 << 32;
pub(crate) const GIVER: u64 = 1 << 33;
pub(crate) const TAKER: u64 = 1 << 34;

/// The stations of an engine, and what comes to them. Nothing is open until somebody asks for a station.
#[derive(Debug)]
pub struct Wire {
    stations: RwLock<Arc<Vec<Arc<Station>>>>,
    /// The groups among them, and how often each was joined. Locked before the stations are.
    joined: Mutex<Vec<(Location, usize)>>,
    incoming: Mutex<Incoming>,
    /// Under whose names others find this process. Nothing else is locked while this is.
    listeners: Mutex<Vec<(Share, PacketSocket)>>,
    spare: Mutex<Vec<Outgoing>>,
    epoll: Epoll,
    losses: Arc<Losses>,
}

#[derive(Debug)]
struct Incoming {
    batch: DatagramBatch,
    handing: Handing,
    /// Who has something.
    ready: Vec<Ready>,
    hot: Hot,
}

/// Where something came last, if that was one place: who polls looks there.
#[derive(Debug, Default)]
struct Hot {
    station: Option<Arc<Station>>,
    /// Looks since the last at everything.
    looks: u32,
    /// The last look found something.
    is_stream: bool,
}

/// Looks at one place between two at everything.
const LOOKS_AT_ONE: u32 = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By which the kernel says that a station has something. Stations come and go, so their places say nothing.
fn token_of(station: &Station) -> u64 {
    station.as_fd().as_raw_fd() as u64
}

impl Wire {
    /// Without a station.
    pub fn new() -> io::Result<Self> {
        Self::with(Arc::default(), TrustedUsers::default())
    }

    /// The same, where these are lost of the packets that it sends. Of those that it takes whoever takes them loses some: who hands a packet on
    /// does not. Processes of these users need not prove to be of this one where the kernel says that they are.
    pub fn with(losses: Arc<Losses>, trusted: TrustedUsers) -> io::Result<Self> {
        Ok(Self {
            // Before the descriptor that is kept back: without this one there is no wire.
            epoll: Epoll::new()?,
            stations: RwLock::default(),
            joined: Mutex::default(),
            incoming: Mutex::new(Incoming {
                batch: DatagramBatch::default(),
                handing: Handing::new(trusted),
                ready: Vec::new(),
                hot: Hot::default(),
            }),
            listeners: Mutex::new(Vec::new()),
            spare: Mutex::new(Vec::new()),
            losses,
        })
    }

    /// The stations.
    pub fn stations(&self) -> Arc<Vec<Arc<Station>>> {
        Arc::clone(&self.stations.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The station at a location, which is opened if it is not there; whether it was.
    pub fn station(&self, location: Location) -> Result<(Arc<Station>, bool), OpenError> {
        let find = |stations: &[Arc<Station>]| {
            stations.iter().find(|station| station.location == location).map(Arc::clone)
        };
        if let Some(station) = find(&self.stations()) {
            return Ok((station, false));
        }
        let mut stations = self.stations.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(station) = find(&stations) {
            return Ok((station, false));
        }
        let station = Station::open(location, &self.losses)?;
        self.take_in(&mut stations, &station)?;
        Ok((station, true))
    }

    fn take_in(
        &self,
        stations: &mut Arc<Vec<Arc<Station>>>,
        station: &Arc<Station>,
    ) -> Result<(), OpenError> {
        let address = crate::station::ip_address(station.address());
        self.epoll
            .add(station.as_fd(), token_of(station))
            .map_err(|error| OpenError::Refused { address, error })?;
        let mut all = Vec::clone(stations);
        all.push(Arc::clone(station));
        *stations = Arc::new(all);
        tracing::info!(%address, port = nonic_roce::PORT, "a UDP socket for RoCEv2 is open");
        Ok(())
    }

    /// Has what is sent to a group, and comes by an interface, come here as well, until it is left as often as it was joined. Whether
    /// there is something new to look at.
    pub fn join(&self, group: Location) -> Result<bool, OpenError> {
        let mut joined = lock(&self.joined);
        if let Some((_, times)) = joined.iter_mut().find(|(known, _)| *known == group) {
            *times += 1;
            return Ok(false);
        }
        let station = Station::join(group)?;
        let mut stations = self.stations.write().unwrap_or_else(PoisonError::into_inner);
        self.take_in(&mut stations, &station)?;
        joined.push((group, 1));
        Ok(true)
    }

    /// Leaves it. What has come by now and was not taken is lost.
    pub fn leave(&self, group: Location) {
        let mut joined = lock(&self.joined);
        let Some(at) = joined.iter().position(|(known, _)| *known == group) else { return };
        joined[at].1 -= 1;
        if joined[at].1 > 0 {
            return;
        }
        joined.swap_remove(at);
        let mut stations = self.stations.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::clone(&stations);
        all.retain(|station| {
            let stays = station.location != group;
            if !stays {
                self.epoll.remove(station.as_fd());
            }
            stays
        });
        *stations = Arc::new(all);
    }

    /// Takes packets of a share that come to other processes of this user, too, from now on. False: another process does.
    pub fn claim(&self, share: Share) -> bool {
        let Some(listener) = listener(share) else { return false };
        let mut listeners = lock(&self.listeners);
        let is_watched = self.epoll.add(listener.as_fd(), LISTENER | listeners.len() as u64).is_ok();
        listeners.push((share, listener));
        is_watched
    }

    fn has(&self, share: Share) -> bool {
        lock(&self.listeners).iter().any(|(own, _)| *own == share)
    }

    /// Takes what has come, as far as it is there at once, and gives each datagram to `take`, which may take others behind it in its run,
    /// too. What is not this engine's is handed
    /// to whose it is; a management datagram that no process of this user takes is given to `unclaimed`. Whether something had come.
    pub fn receive(
        &self,
        take: &mut dyn FnMut(&mut Run<'_>) -> Taken,
        unclaimed: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> bool {
        self.receive_all(&mut lock(&self.incoming), take, unclaimed)
    }

    /// The same for who looks again at once: what came elsewhere than the last time may wait for a few looks. A call of the kernel that
    /// says where something is costs as much as one that takes it.
    pub fn receive_for_poller(
        &self,
        take: &mut dyn FnMut(&mut Run<'_>) -> Taken,
        unclaimed: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> bool {
        let mut incoming = lock(&self.incoming);
        let Incoming { batch, handing, hot, .. } = &mut *incoming;
        let Some(station) = hot.station.as_ref().filter(|_| hot.looks < LOOKS_AT_ONE) else {
            return self.receive_all(&mut incoming, take, unclaimed);
        };
        hot.looks += 1;
        hot.is_stream = self.receive_at(station, hot.is_stream, (batch, handing), take, unclaimed);
        hot.is_stream
    }

    /// Looks at everything.
    fn receive_all(
        &self,
        incoming: &mut Incoming,
        take: &mut dyn FnMut(&mut Run<'_>) -> Taken,
        unclaimed: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> bool {
        let Incoming { batch, handing, ready, hot } = incoming;
        hot.looks = 0;
        if handing.is_deaf() {
            self.listen_again(handing);
        }
        // One look, however many there are.
        self.epoll.wait(ready, Some(Duration::ZERO));
        if ready.is_empty() {
            return false;
        }
        let stations = self.stations();
        let mut worked = false;
        for token in ready.iter().map(|ready| ready.token) {
            if let Some(station) = stations.iter().find(|station| token_of(station) == token) {
                worked |= self.receive_at(station, true, (batch, handing), take, unclaimed);
                hot.station = (ready.len() == 1 && !station.is_group()).then(|| Arc::clone(station));
            } else if token & LISTENER != 0
                && let Some((_, listener)) = lock(&self.listeners).get((token & !LISTENER) as usize)
            {
                handing.welcome(listener, &self.epoll);
            } else if token & GIVER != 0 {
                worked |= handing.receive(token, &self.epoll, &stations, take);
            } else if token & TAKER != 0 {
                handing.hear(token, &self.epoll);
            }
        }
        worked
    }

    /// Looks at the listening sockets again, once there is a descriptor to spare.
    #[cold]
    fn listen_again(&self, handing: &mut Handing) {
        handing.keep_spare();
        if handing.is_deaf() {
            return;
        }
        for (number, (_, listener)) in lock(&self.listeners).iter().enumerate() {
            // (Some are looked at all along.)
            let _ = self.epoll.add(listener.as_fd(), LISTENER | number as u64);
        }
    }

    fn receive_at(
        &self,
        station: &Arc<Station>,
        several: bool,
        (batch, handing): (&mut DatagramBatch, &mut Handing),
        take: &mut dyn FnMut(&mut Run<'_>) -> Taken,
        unclaimed: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> bool {
        let come = |header: &DatagramHeader, bytes: &mut [u8]| {
            let arrival = Arrival {
                station: Arc::clone(station),
                source: host_address(header.from.ip()),
                source_port: header.from.port(),
                traffic_class: header.traffic_class,
                hop_limit: header.hop_limit,
                index: 0,
                was_handed_on: false,
            };
            let mut run = Run::new(arrival, bytes, header.segment.max(1));
            loop {
                let taken = take(&mut run);
                let (arrival, datagram) = run.current();
                if taken != Taken::Taken
                    && let Some(number) = run.destination()
                    && !handing.hand_on(number, |share| self.has(share), (arrival, datagram), &self.epoll)
                    && number == MANAGEMENT
                {
                    unclaimed(arrival, datagram);
                }
                if !run.goes_on() {
                    break;
                }
            }
        };
        let socket = station.socket();
        let count = if several { socket.receive(batch, come) } else { socket.receive_one(batch, come) };
        count > 0
    }

    /// An empty buffer for packets on their way out.
    pub fn outgoing(&self) -> Outgoing {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Takes it back.
    pub fn put_back(&self, mut outgoing: Outgoing) {
        outgoing.forget();
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX {
            spare.push(outgoing);
        }
    }
}

impl AsFd for Wire {
    /// Readable while something waits to be taken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

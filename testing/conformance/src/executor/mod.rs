//! A side of a pair as it carries commands out on the engine's own interface.

mod batch;
mod extended;
mod importing;
mod memory;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_device::{
    AddressHandle, AsyncElement, CompletionChannel, CompletionQueue, Context, DatagramDestination,
    Destination, ExtendedDomain, MemoryWindow, QpType, QueuePair, QueuePairRequest, ReceiveRequest, Region,
    SendRequest, SharedReceiveQueue, SrqNumber, Zone, devices, set_exporter,
};
use nonic_sys::{SharedMemory, wait_readable};

use crate::background::Background;
use crate::command::{Answer, Command, Reply, Send};
use crate::endpoints::Endpoints;
use crate::objects::Objects;
use crate::program_memory::{Buffer, post_send};

/// One side's objects.
#[derive(Debug)]
pub(crate) struct Executor {
    /// What it makes it makes here: on the device it has opened, or imported.
    context: Arc<Context>,
    opened: Arc<Context>,
    zones: Objects<Arc<Zone>>,
    pub(crate) buffers: Objects<Arc<Buffer>>,
    regions: Objects<Arc<Region>>,
    windows: Objects<Arc<MemoryWindow>>,
    handles: Objects<Arc<AddressHandle>>,
    pub(crate) channels: Objects<Arc<CompletionChannel>>,
    pub(crate) queues: Objects<Arc<CompletionQueue>>,
    pub(crate) shared: Objects<Arc<SharedReceiveQueue>>,
    domains: Objects<Arc<ExtendedDomain>>,
    /// By which other sides find them.
    domain_files: Vec<SharedMemory>,
    pub(crate) pairs: Objects<Arc<QueuePair>>,
    endpoints: Endpoints,
    background: Vec<Background>,
}

/// An error as text.
pub(crate) fn said(error: impl Debug) -> String {
    format!("{error:?}")
}

fn number(number: u64) -> Reply {
    Ok(Answer::Numbers { numbers: vec![number] })
}

fn numbers(numbers: impl Into<Vec<u64>>) -> Reply {
    Ok(Answer::Numbers { numbers: numbers.into() })
}

fn done<E: Debug>(result: Result<(), E>) -> Reply {
    result.map(|()| Answer::Nothing {}).map_err(said)
}

const NOTHING: Reply = Ok(Answer::Nothing {});

impl Executor {
    /// Opens the first device.
    pub(crate) fn open() -> Self {
        set_exporter(importing::find_lent);
        let opened = devices().first().expect("there is a device").open().expect("the device opens");
        Self {
            context: Arc::clone(&opened),
            opened,
            zones: Objects::new(),
            buffers: Objects::new(),
            regions: Objects::new(),
            windows: Objects::new(),
            handles: Objects::new(),
            channels: Objects::new(),
            queues: Objects::new(),
            shared: Objects::new(),
            domains: Objects::new(),
            domain_files: Vec::new(),
            pairs: Objects::new(),
            endpoints: Endpoints::default(),
            background: Vec::new(),
        }
    }

    /// Carries out one command.
    pub(crate) fn execute(&mut self, command: Command) -> Reply {
        match command {
            Command::Reset {} => self.reset(),
            Command::Address {} => self.address(),
            Command::Limits {} => self.limits(),
            Command::KeyViolations {} => number(self.context.port().qkey_violations.into()),
            Command::Background { job } => {
                let job = Background::start(self, job);
                self.background.push(job);
                NOTHING
            }
            Command::IsDone {} => number(self.background.iter().all(Background::is_done).into()),
            Command::Join { within_ms } => {
                let within = Duration::from_millis(within_ms);
                // A job that has not ended stays, to be waited for again.
                let results =
                    self.background.iter().map(|job| job.join(within)).collect::<Result<Vec<u64>, _>>()?;
                self.background.clear();
                numbers(results)
            }
            command => self.execute_on_memory(command),
        }
    }

    fn execute_on_queues(&mut self, command: Command) -> Reply {
        match command {
            Command::Channel {} => {
                number(self.channels.add(self.context.create_completion_channel().map_err(said)?))
            }
            Command::DestroyChannel { channel } => done(self.channels.at(channel).destroy()),
            Command::Queue { entries, vector, channel } => {
                let channel = channel.map(|channel| self.channels.at(channel));
                let queue =
                    self.context.create_completion_queue(entries, vector, channel, 0).map_err(said)?;
                let entries = u64::from(queue.entries());
                numbers([self.queues.add(queue), entries])
            }
            Command::Resize { queue, entries } => done(self.queues.at(queue).resize(entries)),
            Command::DestroyQueue { queue } => done(self.queues.at(queue).destroy()),
            Command::Batch { queue, ahead, reads } => self.read_batch(queue, ahead, reads),
            Command::Poll { queue, most } => self.poll(queue, most, Duration::ZERO),
            Command::Await { queue, count, within_ms } => {
                self.poll(queue, count, Duration::from_millis(within_ms))
            }
            Command::Arm { queue, solicited } => {
                self.queues.at(queue).request_notification(solicited);
                NOTHING
            }
            Command::NextEvent { channel, within_ms } => {
                let channel = self.channels.at(channel);
                if !wait_readable(channel.fd(), Some(Duration::from_millis(within_ms))) {
                    return NOTHING;
                }
                number(self.queues.number_of(&channel.next_event().map_err(said)?))
            }
            Command::AcknowledgeEvents { queue, count } => {
                self.queues.at(queue).acknowledge_events(count);
                NOTHING
            }
            Command::Shared { zone, requests, pieces, limit } => {
                let zone = self.zones.at(zone);
                let queue = zone.create_shared_receive_queue(requests, pieces, limit, 0).map_err(said)?;
                number(self.shared.add(queue))
            }
            Command::SetLimit { queue, limit } => done(self.shared.at(queue).set_limit(limit)),
            Command::ResizeShared { queue, requests, limit } => {
                done(self.shared.at(queue).modify(Some(requests), limit))
            }
            Command::PostShared { queue, receives } => {
                let queue = self.shared.at(queue);
                done(receives.iter().try_for_each(|receive| {
                    queue.post_receive(&ReceiveRequest { id: receive.id, pieces: &receive.pieces })
                }))
            }
            Command::DestroyShared { queue } => done(self.shared.at(queue).destroy()),
            Command::NextAsyncEvent { within_ms } => self.next_async_event(Duration::from_millis(within_ms)),
            Command::AcknowledgeAsyncEvent { element, number } => {
                match element {
                    1 => self.queues.at(number).acknowledge_async_event(),
                    2 => self.pairs.at(number).acknowledge_async_event(),
                    3 => self.shared.at(number).acknowledge_async_event(),
                    _ => {}
                }
                NOTHING
            }
            command => self.execute_on_pairs(command),
        }
    }

    fn execute_on_pairs(&mut self, command: Command) -> Reply {
        match command {
            Command::Pair {
                zone,
                transport,
                send_queue,
                receive_queue,
                shared,
                capabilities,
                signal_all,
            } => {
                let request = QueuePairRequest {
                    transport,
                    send_queue: Arc::clone(self.queues.at(send_queue)),
                    receive_queue: Arc::clone(self.queues.at(receive_queue)),
                    shared_receive_queue: shared.map(|queue| Arc::clone(self.shared.at(queue))),
                    capabilities,
                    signal_all,
                    cookie: 0,
                    observer: None,
                };
                let zone = self.zones.at(zone);
                let pair = if transport == QpType::ExtendedReceive {
                    let domain = zone.context().open_extended_domain(None).map_err(said)?;
                    domain.create_queue_pair(0).map_err(said)?
                } else {
                    zone.create_queue_pair(request).map_err(said)?
                };
                let own = u64::from(pair.number().0);
                numbers([self.pairs.add(pair), own])
            }
            Command::Sizes { pair } => {
                let sizes = self.pairs.at(pair).capabilities();
                let sizes = [
                    sizes.send_requests,
                    sizes.receive_requests,
                    sizes.send_pieces,
                    sizes.receive_pieces,
                    sizes.inline_bytes,
                ];
                numbers(sizes.map(u64::from))
            }
            Command::DestroyPair { pair } => done(self.pairs.at(pair).destroy()),
            Command::Modify { pair, attributes, mask } => done(self.pairs.at(pair).modify(&attributes, mask)),
            Command::Attributes { pair } => {
                Ok(Answer::Attributes { attributes: self.pairs.at(pair).attributes() })
            }
            Command::PostSend { pair, requests } => {
                let pair = self.pairs.at(pair);
                let result = requests.iter().try_for_each(|request| self.post(pair, request));
                pair.ring_doorbell();
                done(result)
            }
            Command::PostReceive { pair, receives } => {
                let pair = self.pairs.at(pair);
                done(receives.iter().try_for_each(|receive| {
                    pair.post_receive(&ReceiveRequest { id: receive.id, pieces: &receive.pieces })
                }))
            }
            Command::Replace { buffer, touchable } => done(self.buffers.at(buffer).replace(touchable)),
            Command::StoreInChild { buffer, bytes } => {
                number(self.buffers.at(buffer).store_in_child(&bytes).map_err(said)?)
            }
            Command::MapWindow { endpoint, offset, length, rights } => {
                let buffer = self.endpoints.map(endpoint, offset, length, rights).map_err(said)?;
                let address = buffer.address();
                numbers([self.buffers.add(Arc::new(buffer)), address])
            }
            command => self.execute_on_domains(command),
        }
    }

    fn post(&self, pair: &QueuePair, request: &Send) -> Result<(), nonic_device::PostError> {
        let destination = request.destination.as_ref().map(|to| {
            Destination::Datagram(DatagramDestination {
                vector: to.vector,
                zone: self.zones.at(to.zone).id(),
                qp_number: to.number,
                q_key: to.q_key,
            })
        });
        let destination = destination.or(request.queue.map(|queue| Destination::Queue(SrqNumber(queue))));
        let request = SendRequest {
            id: request.id,
            operation: request.operation,
            flags: request.flags,
            pieces: &request.pieces,
            destination,
        };
        post_send(pair, &request)
    }

    fn address(&self) -> Reply {
        let own = self.context.gid_table().first().map_or([0; 16], |entry| entry.gid);
        let lid = u64::from(self.context.port().lid);
        numbers(std::iter::once(lid).chain(own.map(u64::from)).collect::<Vec<_>>())
    }

    fn limits(&self) -> Reply {
        let limits = self.context.limits();
        numbers([
            limits.device_memory_bytes,
            limits.read_atomic_per_queue_pair.into(),
            limits.inline_bytes.into(),
            limits.completion_entries.into(),
            limits.work_requests.into(),
            limits.pieces.into(),
            limits.message_bytes.into(),
        ])
    }

    fn poll(&self, queue: u32, count: u32, within: Duration) -> Reply {
        let queue = self.queues.at(queue);
        let deadline = Instant::now() + within;
        let mut completions = Vec::new();
        loop {
            let most = count as usize - completions.len();
            queue.poll(|completion| completions.push(*completion), most).map_err(said)?;
            if completions.len() >= count as usize || Instant::now() >= deadline {
                return Ok(Answer::Completions { completions });
            }
        }
    }

    fn next_async_event(&self, within: Duration) -> Reply {
        if !wait_readable(self.context.async_fd(), Some(within)) {
            return NOTHING;
        }
        let event = self.context.next_async_event().map_err(said)?;
        let (element, number) = match &event.element {
            AsyncElement::CompletionQueue(queue) => (1, self.queues.number_of(queue)),
            AsyncElement::QueuePair(pair) => (2, self.pairs.number_of(pair)),
            AsyncElement::SharedReceiveQueue(queue) => (3, self.shared.number_of(queue)),
            _ => (0, 0),
        };
        numbers([event.kind as u64, element, number])
    }

    /// Acknowledges what a rule left open, then gives everything back in the order in which it can go.
    fn reset(&mut self) -> Reply {
        for queue in self.queues.objects.values() {
            queue.acknowledge_events(u32::MAX);
        }
        for context in [&self.context, &self.opened] {
            while wait_readable(context.async_fd(), Some(Duration::ZERO)) {
                let _ = context.next_async_event().map_err(said)?;
            }
        }
        for _ in 0..1000 {
            self.queues.objects.values().for_each(|queue| queue.acknowledge_async_event());
            self.pairs.objects.values().for_each(|pair| pair.acknowledge_async_event());
            self.shared.objects.values().for_each(|queue| queue.acknowledge_async_event());
        }
        for job in std::mem::take(&mut self.background) {
            job.join(Duration::from_secs(2)).map_err(|error| format!("a job was left behind: {error}"))?;
        }
        self.endpoints.close_all();
        self.pairs.objects.values().try_for_each(|pair| pair.destroy()).map_err(said)?;
        self.pairs.objects.clear();
        self.shared.objects.values().try_for_each(|queue| queue.destroy()).map_err(said)?;
        self.shared.objects.clear();
        self.domains.objects.values().try_for_each(|domain| domain.close()).map_err(said)?;
        self.domains.objects.clear();
        self.domain_files.clear();
        self.queues.objects.values().try_for_each(|queue| queue.destroy()).map_err(said)?;
        self.queues.objects.clear();
        self.channels.objects.values().try_for_each(|channel| channel.destroy()).map_err(said)?;
        self.channels.objects.clear();
        self.handles.objects.values().for_each(|handle| handle.destroy());
        self.handles.objects.clear();
        self.windows.objects.values().try_for_each(|window| window.release()).map_err(said)?;
        self.windows.objects.clear();
        self.regions.objects.values().try_for_each(|region| region.deregister()).map_err(said)?;
        self.regions.objects.clear();
        self.zones.objects.values().try_for_each(|zone| zone.release()).map_err(said)?;
        self.zones.objects.clear();
        let mut device = self.buffers.objects.values().filter_map(|buffer| buffer.device());
        device.try_for_each(|memory| memory.free()).map_err(said)?;
        self.buffers.objects.clear();
        self.give_back_imports();
        NOTHING
    }
}

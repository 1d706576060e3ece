//! A process that shares memory, and does what it is told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nonic_dat::{
    ConnectionEvent, Cookie, DatResult, Description, Event, LocalRegion, Privileges, ProtectionZone,
    PublicServicePoint, RemoteSegment,
};
use nonic_second_process::{SecondProcess, become_user, role};

use crate::common::peers::{Side, far};
use crate::common::{PAGE, Pages, part};

pub(crate) const PAGES: usize = 3;
pub(crate) const OTHER_MEMORY: &str = "InvalidParameter, Argument(3)";
pub(crate) const NOT_SHARED: &str = "InvalidState, None";
pub(crate) const NOT_AGREED: &str = "InsufficientResources, Resource(MemoryRegion)";

/// Cookies of a test: tests run side by side, and a cookie is the whole user's.
pub(crate) fn cookie(name: &str) -> Cookie {
    let mut cookie = [0; 40];
    cookie[1..5].copy_from_slice(&std::process::id().to_ne_bytes());
    let (_, end) = cookie.split_at_mut(40 - name.len());
    end.copy_from_slice(name.as_bytes());
    cookie
}

pub(crate) fn to_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn to_cookie(text: &str) -> Cookie {
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

pub(crate) fn register(
    zone: &Arc<ProtectionZone>,
    pages: &Pages,
    cookie: Cookie,
) -> DatResult<Arc<LocalRegion>> {
    register_part(zone, pages, cookie, 0..pages.length())
}

pub(crate) fn register_part(
    zone: &Arc<ProtectionZone>,
    pages: &Pages,
    cookie: Cookie,
    part: std::ops::Range<u64>,
) -> DatResult<Arc<LocalRegion>> {
    let description =
        Description::Shared { address: crate::common::program(pages.address() + part.start), cookie };
    LocalRegion::create(zone.adapter(), description, part.end - part.start, zone, Privileges::ALL)
}

/// A process that shares memory.
struct Sharer {
    side: Side,
    pages: Option<Pages>,
    region: Option<Arc<LocalRegion>>,
    /// On the last page.
    another: Option<Arc<LocalRegion>>,
    point: Option<Arc<PublicServicePoint>>,
}

fn numbers(rest: &str) -> Vec<u64> {
    rest.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn said<T>(result: DatResult<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "ok".to_owned())
}

impl Sharer {
    fn pages(&self) -> &Pages {
        self.pages.as_ref().unwrap()
    }

    fn piece(&self, rest: &str) -> nonic_dat::Segment {
        let numbers = numbers(rest);
        part(self.region.as_ref().unwrap(), numbers[0], numbers[1])
    }

    fn obey(&mut self, command: &str, rest: &str) -> String {
        match command {
            "private" => self.pages = Some(Pages::private(PAGES)),
            // A path, and how many pages.
            "map" => {
                let (path, pages) = rest.split_once(' ').unwrap();
                let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
                let number = std::os::fd::AsRawFd::as_raw_fd(&file);
                self.pages = Some(Pages::of_file(pages.parse().unwrap(), number));
            }
            "register" => {
                return match register(&self.side.zone, self.pages(), to_cookie(rest)) {
                    Ok(region) => {
                        let facts = region.facts();
                        self.region = Some(region);
                        format!("ok {} {}", facts.remote_context, facts.address)
                    }
                    Err(error) => error.to_string(),
                };
            }
            "register_last_page" => {
                let (pages, end) = (self.pages(), self.pages().length());
                let part = end - PAGE as u64..end;
                let region = register_part(&self.side.zone, pages, to_cookie(rest), part);
                self.another = Some(region.unwrap());
            }
            // What people are told.
            "why" => {
                let file = nonic_device::MemoryFile { device: (0, 0), inode: 0, segments: 0 };
                let memory = nonic_device::SharedMemoryRange { file, offset: 0, length: 1 };
                return match nonic_device::claim_cookie([0; 40], memory) {
                    Ok(_) => "ok".into(),
                    Err(error) => error.to_string(),
                };
            }
            "free" => return said(self.region.take().unwrap().free()),
            "store" => {
                let words = numbers(rest);
                self.pages().write(words[0] as usize, words[1] as u8);
            }
            "load" => return self.pages().read(rest.parse().unwrap()).to_string(),
            "collect" => {
                return said(self.side.adapter.sync_rdma_write([self.piece(rest)].into_iter()));
            }
            "publish" => {
                return said(self.side.adapter.sync_rdma_read([self.piece(rest)].into_iter()));
            }
            "listen" => {
                let (qualifier, point) =
                    PublicServicePoint::create_any(&self.side.adapter, &self.side.connections, false)
                        .unwrap();
                self.point = Some(point);
                return qualifier.to_string();
            }
            "accept" => {
                let mut request = None;
                let (result, _) =
                    self.side.connections.wait(Some(Duration::from_secs(60)), 1, |event| match event {
                        Event::Request { request: found, .. } => request = Some(Arc::clone(found)),
                        other => panic!("{other:?}"),
                    });
                result.unwrap();
                request.unwrap().accept(Some(&self.side.endpoint), b"").unwrap();
                assert_eq!(self.side.connection_event(), ConnectionEvent::Established);
            }
            // Makes its memory consistent for ever.
            "restless" => {
                nonic_second_process::say("ok");
                loop {
                    let whole = self.piece(&format!("0 {}", self.pages().length()));
                    self.side.adapter.sync_rdma_write([whole].into_iter()).unwrap();
                }
            }
            other => panic!("no such command: {other}"),
        }
        "ok".into()
    }
}

#[test]
fn serve() {
    if let Some(role) = role() {
        let (memory, user) = role.split_once(' ').unwrap_or((&role, ""));
        if !user.is_empty() {
            become_user(user.parse().unwrap());
        }
        let side = Side::new(memory == "coherent");
        let mut sharer = Sharer { side, pages: None, region: None, another: None, point: None };
        nonic_second_process::serve(|command, rest| sharer.obey(command, rest));
    }
}

pub(crate) fn start(coherent: bool) -> SecondProcess {
    SecondProcess::start("sharer::serve", if coherent { "coherent" } else { "noncoherent" }, &[])
}

/// Has a process map a file of this one.
pub(crate) fn map(process: &mut SecondProcess, file: libc::c_int, pages: usize) {
    assert_eq!(process.tell(&format!("map /proc/{}/fd/{file} {pages}", std::process::id())), "ok");
}

/// Has a process register what it mapped: what peers name.
pub(crate) fn share(process: &mut SecondProcess, cookie: Cookie) -> Result<(u32, u64), String> {
    let answer = process.tell(&format!("register {}", to_text(&cookie)));
    let Some(words) = answer.strip_prefix("ok ") else { return Err(answer) };
    let words = numbers(words);
    Ok((words[0] as u32, words[1]))
}

/// A process that shares a file under a cookie, and what peers name.
pub(crate) fn sharing(coherent: bool, file: libc::c_int, cookie: Cookie) -> (SecondProcess, (u32, u64)) {
    let mut process = start(coherent);
    map(&mut process, file, PAGES);
    let named = share(&mut process, cookie).unwrap();
    (process, named)
}

/// A side of this process's, connected to another.
pub(crate) fn connected_to(process: &mut SecondProcess) -> Side {
    let near = Side::new(true);
    let qualifier = process.tell("listen").parse().unwrap();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    near.endpoint.connect(address, qualifier, Some(Duration::from_secs(60)), b"", 0, 0).unwrap();
    assert_eq!(process.tell("accept"), "ok");
    assert_eq!(near.connection_event(), ConnectionEvent::Established);
    near
}

pub(crate) fn at((context, address): (u32, u64), offset: u64, length: u64) -> RemoteSegment {
    far(context, nonic_dat::Segment { context, address: address + offset, length })
}

#[track_caller]
pub(crate) fn load(process: &mut SecondProcess, offset: usize) -> u8 {
    process.tell(&format!("load {offset}")).parse().unwrap()
}

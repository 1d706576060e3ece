//! What messages cost: two processes on two CPUs answer each other, 8 bytes at a time, through endpoints and through a Unix
//! socket. Prints nanoseconds one way. Compare with a cache line's way between the same CPUs, in the same run.

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use nonic_scif::{Descriptor, Endpoint, PortId, node_ids};

const ROUNDS: usize = 200_000;
const SLOW_ROUNDS: usize = 30_000;
const REPEATS: usize = 7;

fn pin(cpu: usize) {
    // SAFETY: the set is a local of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

fn send(endpoint: Descriptor, bytes: &[u8; 8]) {
    assert_eq!(endpoint.send(bytes.as_ptr() as usize, 8, true), Ok(8));
}

fn receive(endpoint: Descriptor, bytes: &mut [u8; 8]) {
    assert_eq!(endpoint.receive(bytes.as_mut_ptr() as usize, 8, true), Ok(8));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(rounds: usize, mut turn: impl FnMut()) -> f64 {
    let once = |_| {
        let since = Instant::now();
        (0..rounds).for_each(|_| turn());
        since.elapsed().as_nanos() as f64 / rounds as f64 / 2.0
    };
    median((0..REPEATS).map(once).collect())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cpu = |index: usize| arguments[index].parse().unwrap();
    if arguments.get(1).is_some_and(|role| role == "answer") {
        return answer(cpu(2), arguments[3].parse().unwrap(), arguments[4].parse().unwrap());
    }
    let (here, there) = if arguments.len() > 2 { (cpu(1), cpu(2)) } else { (0, 1) };
    let listener = Endpoint::open().unwrap();
    let port = listener.bind(0).unwrap();
    listener.listen(1).unwrap();
    let (mut mine, theirs) = UnixStream::pair().unwrap();
    let theirs = theirs.into_raw_fd();
    // SAFETY: the descriptor was made above; the other process is to inherit it.
    unsafe { libc::fcntl(theirs, libc::F_SETFD, 0) };
    let mut other = Command::new(&arguments[0])
        .args(["answer", &there.to_string(), &port.to_string(), &theirs.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    pin(here);
    let (endpoint, _) = listener.accept(true).unwrap();
    let mut bytes = [7u8; 8];
    let scif = measure(ROUNDS, || {
        send(*endpoint, &bytes);
        receive(*endpoint, &mut bytes);
    });
    let socket = measure(SLOW_ROUNDS, || {
        mine.write_all(&bytes).unwrap();
        mine.read_exact(&mut bytes).unwrap();
    });
    println!(
        "cpus {here},{there}  endpoint {scif:.0} ns  unix socket {socket:.0} ns  ratio {:.3}",
        scif / socket
    );
    other.wait().unwrap();
}

fn answer(cpu: usize, port: u16, socket: i32) {
    pin(cpu);
    let endpoint = Endpoint::open().unwrap();
    endpoint.connect(PortId { node: node_ids().1, port }).unwrap();
    let mut bytes = [0u8; 8];
    for _ in 0..ROUNDS * REPEATS {
        receive(*endpoint, &mut bytes);
        send(*endpoint, &bytes);
    }
    // SAFETY: inherited for this process, and nobody else's here.
    let mut socket = unsafe { UnixStream::from_raw_fd(socket) };
    for _ in 0..SLOW_ROUNDS * REPEATS {
        socket.read_exact(&mut bytes).unwrap();
        socket.write_all(&bytes).unwrap();
    }
}

//! Strangers that do all they can on the name of a SCIF port, while processes of the victim's own user connect to it: these
//! are accepted and talk, and descriptors, memory and messages stay within their bounds. Needs root, to be two users, in a
//! network namespace of its own.

mod strangers;

use std::time::{Duration, Instant};

use nonic_scif::{Endpoint, PortId, ScifError, node_ids};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_sys::{Shares, descriptor_limit, effective_user};

use strangers::*;

/// How long an honest connection may take beside strangers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives every connection back what it says.
fn be_the_victim() -> ! {
    count_warnings();
    let listener = Endpoint::open().unwrap();
    let port = listener.bind(0).unwrap();
    listener.listen(1024).unwrap();
    std::thread::spawn(move || {
        loop {
            match listener.accept(true) {
                Ok((connection, _)) => {
                    let mut bytes = [0u8; 8];
                    if connection.receive(bytes.as_mut_ptr() as usize, 8, true) == Ok(8) {
                        let _ = connection.send(bytes.as_ptr() as usize, 8, true);
                    }
                }
                Err(ScifError::TryAgain(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    serve(|command, _| match command {
        "port" => port.to_string(),
        "warnings" => warnings().to_string(),
        other => panic!("{other}"),
    })
}

/// Connects and talks; how long it took. Where as many wait as may, it asks again, as any program would.
fn talk(port: u16, number: u64) -> Duration {
    let since = Instant::now();
    let connection = loop {
        let endpoint = Endpoint::open().unwrap();
        match endpoint.connect(PortId { node: node_ids().1, port }) {
            Ok(_) => break endpoint,
            Err(error) => assert!(since.elapsed() < PATIENCE, "connection {number}: {error}"),
        }
    };
    let (said, mut heard) = (number.to_le_bytes(), [0u8; 8]);
    assert_eq!(connection.send(said.as_ptr() as usize, 8, true), Ok(8));
    assert_eq!(connection.receive(heard.as_mut_ptr() as usize, 8, true), Ok(8));
    assert_eq!(heard, said);
    since.elapsed()
}

#[test]
fn whatever_a_stranger_does_processes_of_the_own_user_talk() {
    const TEST: &str = "whatever_a_stranger_does_processes_of_the_own_user_talk";
    if role().is_some() {
        be_the_victim()
    }
    let Some(_alone) = alone(TEST) else { return };
    let mut victim = SecondProcess::start(TEST, "victim", &[]);
    let port: u16 = victim.tell("port").parse().unwrap();
    let fabric = std::env::var("NONIC_SCIF_FABRIC").unwrap_or_else(|_| "0".into());
    let name = format!("nonic-scif/{}/{fabric}/{}/{port}", effective_user(), node_ids().1);
    let more = Shares::of_limit(descriptor_limit()).stranger.min(512) + IN_A_MESSAGE;
    campaign(&mut victim, Victim::Port(&name), more, |_, number| talk(port, number));
    victim.finish();
}

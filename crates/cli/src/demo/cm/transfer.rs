//! Bytes over the connection: the private data say where the target's memory lies.

use std::rc::Rc;

use super::Stage;
use super::connection::Connection;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::demo::measure::{Figure, LARGE, median_time, rate};
use crate::demo::step::Done;
use crate::demo::two_sided::{AREA, IN, OUT, STOP, ping};
use crate::verbs::{Buffer, Operation, Piece, Region, RemoteMemory, Rights, Session};

/// Bytes that say where memory lies: the address, then the key.
const WHERE: usize = 12;

fn written(memory: RemoteMemory) -> [u8; WHERE] {
    let mut bytes = [0; WHERE];
    bytes[..8].copy_from_slice(&memory.address.to_be_bytes());
    bytes[8..].copy_from_slice(&memory.key.to_be_bytes());
    bytes
}

fn read(private_data: &[u8]) -> Outcome<RemoteMemory> {
    let parts = private_data.split_first_chunk().and_then(|(address, rest)| {
        let (key, _) = rest.split_first_chunk()?;
        Some(RemoteMemory { address: u64::from_be_bytes(*address), key: u32::from_be_bytes(*key) })
    });
    parts.ok_or_else(|| Failure::new(format!("{private_data:02x?} does not say where memory lies")))
}

fn register(session: &Rc<Session>) -> Outcome<Region> {
    Ok(session.register(&Buffer::new(AREA + LARGE).into(), Rights::Remote)?)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let identifier = stage.resolve(stage.address())?;
    let session = identifier.session()?;
    let region = register(&session)?;
    let mut connection = Connection::prepare(&identifier, &session)?;
    let target = read(&connection.connect(&[])?.private_data)?;
    let endpoint = &mut connection.endpoint;
    let large = Piece::new(&region, AREA, LARGE);
    let area = AREA..AREA + LARGE;

    region.buffer().fill(area.clone(), 1);
    endpoint.perform(Operation::Send, large)?; // The target had posted its receive before it accepted.
    stage.exchange.meet()?;
    region.buffer().fill(area.clone(), 2);
    endpoint.perform(Operation::Write(target.at(AREA)), large)?;
    stage.exchange.meet()?; // The target looks, and puts other bytes there.
    stage.exchange.meet()?;
    region.buffer().clear(area.clone());
    endpoint.perform(Operation::Read(target.at(AREA)), large)?;
    region.buffer().check(area, 3, AREA)?;

    endpoint.post_receive(Piece::new(&region, IN, 8))?;
    stage.exchange.meet()?;
    let round_trip = median_time(|turn| ping(endpoint, &region, turn))?;
    ping(endpoint, &region, STOP)?;
    let figures = vec![
        Figure::latency("send 8 B, half round trip", round_trip / 2),
        rate(endpoint, "write 1 MiB", Operation::Write(target.at(AREA)), large)?,
        rate(endpoint, "read 1 MiB", Operation::Read(target.at(AREA)), large)?,
    ];
    stage.exchange.meet()?;
    connection.end()?;
    Ok(Done {
        what: "over such a connection, whose reply said where memory is, 1 MiB sent, written and read, every byte as \
               it should be"
            .to_owned(),
        figures,
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let (_, identifier) = stage.listener()?.request()?;
    let session = identifier.session()?;
    let region = register(&session)?;
    let mut connection = Connection::prepare(&identifier, &session)?;
    let area = AREA..AREA + LARGE;
    connection.endpoint.post_receive(Piece::new(&region, AREA, LARGE))?;
    connection.accept(&written(RemoteMemory::of(&region)))?;
    let endpoint = &mut connection.endpoint;

    let arrived = endpoint.receive()?.byte_count as usize;
    ensure(arrived == LARGE, || format!("{arrived} bytes arrived of {LARGE}"))?;
    region.buffer().check(area.clone(), 1, AREA)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    region.buffer().check(area.clone(), 2, AREA)?;
    region.buffer().fill(area, 3);
    stage.exchange.meet()?;

    endpoint.post_receive(Piece::new(&region, IN, 8))?;
    stage.exchange.meet()?;
    let mut value = 0;
    while value != STOP {
        endpoint.receive()?;
        value = region.buffer().load(IN);
        endpoint.post_receive(Piece::new(&region, IN, 8))?;
        region.buffer().store(OUT, value);
        endpoint.start_inline(Operation::Send, Piece::new(&region, OUT, 8))?;
    }
    endpoint.finish()?;
    stage.exchange.meet()?;
    connection.end_with_peer()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_lies_survives_private_data_and_zeros_behind() {
        let memory = RemoteMemory { address: 0x7f00_1234_5678_9abc, key: 0x0102_0304 };
        let mut bytes = written(memory).to_vec();
        bytes.resize(196, 0);
        let found = read(&bytes).unwrap();
        assert_eq!((found.address, found.key), (memory.address, memory.key));
        assert!(read(&bytes[..WHERE - 1]).is_err());
    }
}

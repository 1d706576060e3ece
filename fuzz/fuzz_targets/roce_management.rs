//! A message of the connection manager, in a datagram to queue pair 1.
#![no_main]

use nonic_roce::{AddressHeader, ManagementDatagram, Message};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = bytes.first_chunk() else { return };
    if let Some(read) = ManagementDatagram::parse(bytes) {
        assert_eq!(ManagementDatagram::parse(&read.emit()), Some(read));
        if let Message::ConnectRequest(request) = read.message
            && let Some(header) = AddressHeader::parse(&request.private_data)
        {
            assert_eq!(AddressHeader::parse(&header.emit()), Some(header));
        }
    }
});

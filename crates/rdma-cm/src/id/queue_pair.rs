//! What the queue pair of an identifier is moved with.

use nonic_device::{Access, AttributeMask, Context, QpAttributes, QpState};

use super::Core;
use crate::facts::Facts;
use crate::{Error, Id};

/// The one port of a device.
const PORT: u8 = 1;
/// `IBV_MTU_4096`.
const MTU: u32 = 5;
/// Until a packet that nobody acknowledges is sent again: 4.096 us x 2^18, about a second.
const TIMEOUT: u8 = 18;

use AttributeMask as Mask;

fn to(state: QpState) -> QpAttributes {
    QpAttributes { state, ..QpAttributes::default() }
}

impl Id {
    /// What to move a queue pair to `state` with (`rdma_init_qp_attr(3)`): INIT, RTR or RTS; that of a connection to RTR and RTS
    /// once the peer is known. Reads and atomics are those of the request or the reply.
    ///
    /// Errors: `Argument` for other states, `NoDevice` while it is bound to none, `State` while the peer is not known.
    pub fn queue_pair_attributes(&self, state: QpState) -> Result<(QpAttributes, AttributeMask), Error> {
        let core = self.lock();
        let context = core.context.as_ref().ok_or(Error::NoDevice)?;
        let is_datagram = self.is_datagram();
        let peer = || core.peer.as_ref().ok_or(Error::State(core.state));
        match state {
            QpState::Init if is_datagram => Ok(self.datagram_initial()),
            QpState::Init => Ok(connection_initial(core.peer.as_ref())),
            QpState::ReadyToReceive if is_datagram => Ok((to(state), Mask::STATE)),
            QpState::ReadyToReceive => Ok(connection_receives(&core, context, peer()?)),
            QpState::ReadyToSend if is_datagram => {
                Ok((QpAttributes { send_psn: core.packet, ..to(state) }, Mask::STATE | Mask::SQ_PSN))
            }
            QpState::ReadyToSend => Ok(connection_sends(&core, peer()?)),
            _ => Err(Error::Argument("a queue pair is moved to INIT, RTR or RTS by this")),
        }
    }

    fn datagram_initial(&self) -> (QpAttributes, AttributeMask) {
        let attributes = QpAttributes { port: PORT, q_key: Self::DEFAULT_QUEUE_KEY, ..to(QpState::Init) };
        (attributes, Mask::STATE | Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY)
    }
}

fn connection_initial(peer: Option<&Facts>) -> (QpAttributes, AttributeMask) {
    let access = match peer {
        None => Access::LOCAL_READ,
        // Only who is asked for reads and atomics answers them.
        Some(peer) if peer.parameters.initiator_depth == 0 => Access::REMOTE_WRITE,
        Some(_) => Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
    };
    let attributes = QpAttributes { port: PORT, access, ..to(QpState::Init) };
    (attributes, Mask::STATE | Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS)
}

fn connection_receives(core: &Core, context: &Context, peer: &Facts) -> (QpAttributes, AttributeMask) {
    let mut vector = core.vector(context);
    if let Some(global) = &mut vector.global {
        global.traffic_class = core.options.type_of_service;
    }
    let told = peer.seen_from_here();
    let attributes = QpAttributes {
        path_mtu: core.way.map_or(MTU, |way| way.path_mtu.into()),
        destination_qp: told.queue_pair,
        receive_psn: core.packet,
        max_dest_rd_atomic: told.responder_resources,
        address_vector: Some(vector),
        ..to(QpState::ReadyToReceive)
    };
    let mask = Mask::STATE | Mask::ADDRESS_VECTOR | Mask::PATH_MTU | Mask::DESTINATION_QP | Mask::RQ_PSN;
    (attributes, mask | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER)
}

fn connection_sends(core: &Core, peer: &Facts) -> (QpAttributes, AttributeMask) {
    let told = peer.seen_from_here();
    let attributes = QpAttributes {
        send_psn: peer.packet,
        timeout: core.options.ack_timeout.unwrap_or(core.way.map_or(TIMEOUT, |way| way.ack_timeout)),
        retry_count: core.retry_count,
        rnr_retry: told.rnr_retry_count,
        max_rd_atomic: told.initiator_depth,
        ..to(QpState::ReadyToSend)
    };
    let mask = Mask::STATE | Mask::SQ_PSN | Mask::TIMEOUT | Mask::RETRY_COUNT;
    (attributes, mask | Mask::RNR_RETRY | Mask::MAX_RD_ATOMIC)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::private_data::Kind;
    use crate::{ConnectionParameters, EventChannel, PortSpace};

    /// As the InfiniBand specification has it, and Linux: "Starting PSN" of who says it is what the other side begins with.
    #[test]
    fn the_other_side_says_with_which_number_this_one_begins() {
        let mut core = Core::new(&EventChannel::create().unwrap(), PortSpace::Tcp);
        core.packet = 0x11_1111;
        let nowhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
        let parameters = ConnectionParameters::default();
        let kind = Kind::default();
        let peer = Facts { parameters, packet: 0x22_2222, source: nowhere, destination: nowhere, kind };
        assert_eq!(connection_sends(&core, &peer).0.send_psn, 0x22_2222);
    }
}

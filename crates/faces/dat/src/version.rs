//! What differs between the versions of the interface: layouts, masks and some numbers. The calls themselves are the same code
//! for all (`entry`).

use nonic_dat::{
    AdapterAttributes, AsyncError, ConnectionEvent, DatError, EndpointAttributes, EndpointState, Privileges,
    ProviderAttributes, RemoteSegment, Segment, TransferKind, TransferStatus,
};

use crate::calls::{Context, Count, Handle, ProxyAgent, RegionDescription};
use crate::error::Numbering;
use crate::opened::Opened;

/// A version of the interface.
pub(crate) trait Version: Sized + 'static {
    /// How it numbers refusals; also tells its handles from those of the other version.
    const NUMBERING: Numbering;
    /// What a region of no bytes is refused with.
    const NO_BYTES: DatError;

    /// `DAT_LMR_TRIPLET`.
    type LmrTriplet: Copy;
    /// `DAT_RMR_TRIPLET`.
    type RmrTriplet: Copy;
    /// `DAT_EVENT`.
    type Event: Copy;
    /// `DAT_EP_ATTR`.
    type EpAttributes: Copy;
    /// `DAT_EP_PARAM`.
    type EpParam: Copy;
    /// `DAT_LMR_PARAM`.
    type LmrParam: Copy;
    /// `DAT_RMR_PARAM`.
    type RmrParam: Copy;
    /// `DAT_CNO_PARAM`.
    type CnoParam: Copy;
    /// `DAT_IA_ATTR`.
    type IaAttributes: Copy;
    /// `DAT_PROVIDER_ATTR`.
    type ProviderAttributes: Copy;

    /// `DAT_IA_FIELD_ALL`.
    const IA_MASK: u64;
    /// `DAT_LMR_FIELD_ALL`.
    const LMR_MASK: u32;
    /// `DAT_RMR_FIELD_ALL`.
    const RMR_MASK: u32;
    /// `DAT_CNO_FIELD_ALL` and every other bit that means something.
    const CNO_MASK: u32;
    /// Whether the length of a peer's segment counts for nothing.
    const IGNORES_REMOTE_LENGTH: bool = false;
    /// `DAT_SRQ_STATE_OPERATIONAL`.
    const SRQ_OPERATIONAL: u32;

    /// What the program calls an adapter.
    fn shown_adapter(opened: &Opened) -> Handle;
    /// Privileges of memory; `None` if a bit means nothing.
    fn privileges(bits: u32) -> Option<Privileges> {
        Privileges::from_bits(bits)
    }
    /// A piece of local memory.
    fn segment(triplet: &Self::LmrTriplet) -> Segment;
    /// Memory of a peer.
    fn remote_segment(triplet: &Self::RmrTriplet) -> RemoteSegment;
    /// An event of a dispatcher.
    fn event(dispatcher: Handle, event: &EventWords) -> Self::Event;
    /// Number and pointer of a software event that a program posts.
    fn software_event(event: &Self::Event) -> (u32, usize);
    /// What a program wants of an endpoint.
    fn endpoint_attributes(attributes: &Self::EpAttributes) -> AttributesWanted;
    /// A mask of endpoint members in the bits of 1.2, bit 11 for those that only this version has; `None` if a bit means
    /// nothing.
    fn endpoint_mask(mask: u64) -> Option<u64>;
    /// What a program wants to change about an endpoint.
    fn setup_words(param: &Self::EpParam) -> SetupWords;
    /// What an endpoint is.
    fn ep_param(words: &EndpointWords) -> Self::EpParam;
    /// What a local region is.
    fn lmr_param(words: &LocalRegionWords) -> Self::LmrParam;
    /// What a remote region is.
    fn rmr_param(words: &RemoteRegionWords) -> Self::RmrParam;
    /// What a notification object is.
    fn cno_param(adapter: Handle, agent: ProxyAgent) -> Self::CnoParam;
    /// What an interface adapter is; `address` is where its address lies.
    fn ia_attributes(attributes: &AdapterAttributes, address: usize) -> Self::IaAttributes;
    /// What a provider is.
    fn provider_attributes(attributes: &ProviderAttributes) -> Self::ProviderAttributes;
}

/// An event, with the handles that the program is shown.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) enum EventWords {
    Transfer {
        endpoint: Handle,
        cookie: Context,
        status: TransferStatus,
        length: u64,
        kind: TransferKind,
        immediate: u32,
    },
    Bind {
        region: Handle,
        cookie: Context,
        status: TransferStatus,
    },
    Request {
        point: Handle,
        address: usize,
        conn_qual: u64,
        request: Handle,
    },
    Connection {
        kind: ConnectionEvent,
        endpoint: Handle,
        private_data: (usize, Count),
    },
    Async {
        kind: AsyncError,
        object: Handle,
        reason: i32,
    },
    Software {
        pointer: usize,
    },
}

/// Event numbers that are not in another enumeration.
pub(crate) mod event_number {
    /// `DAT_DTO_COMPLETION_EVENT`.
    pub(crate) const TRANSFER: u32 = 0x1;
    /// `DAT_RMR_BIND_COMPLETION_EVENT`.
    pub(crate) const BIND: u32 = 0x1001;
    /// `DAT_CONNECTION_REQUEST_EVENT`.
    pub(crate) const REQUEST: u32 = 0x2001;
    /// `DAT_SOFTWARE_EVENT`.
    pub(crate) const SOFTWARE: u32 = 0x1_0001;
}

/// Attributes that a program gives for an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributesWanted {
    /// Those that every provider has.
    pub(crate) common: EndpointAttributes,
    /// How many of transport and provider there are.
    pub(crate) specific: (Count, Count),
}

/// Members of `DAT_EP_PARAM` that can be changed.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct SetupWords {
    pub(crate) zone: Handle,
    pub(crate) receive: Handle,
    pub(crate) request: Handle,
    pub(crate) connect: Handle,
    pub(crate) attributes: AttributesWanted,
}

/// Members of `DAT_EP_PARAM`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct EndpointWords {
    pub(crate) adapter: Handle,
    pub(crate) state: EndpointState,
    /// Where the address lies, and the port.
    pub(crate) local: (usize, u64),
    /// Where the peer's address lies, 0 without one, and its port.
    pub(crate) remote: (usize, u64),
    pub(crate) zone: Handle,
    pub(crate) receive: Handle,
    pub(crate) request: Handle,
    pub(crate) connect: Handle,
    pub(crate) shared_receives: Handle,
    pub(crate) attributes: EndpointAttributes,
}

/// Members of `DAT_LMR_PARAM`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct LocalRegionWords {
    pub(crate) adapter: Handle,
    pub(crate) memory_type: u32,
    pub(crate) description: RegionDescription,
    pub(crate) length: u64,
    pub(crate) zone: Handle,
    pub(crate) privileges: u32,
    pub(crate) local_context: u32,
    pub(crate) remote_context: u32,
    pub(crate) registered_size: u64,
    pub(crate) registered_address: u64,
}

/// Members of `DAT_RMR_PARAM`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct RemoteRegionWords {
    pub(crate) adapter: Handle,
    pub(crate) zone: Handle,
    pub(crate) segment: Segment,
    pub(crate) privileges: u32,
    pub(crate) context: u32,
}

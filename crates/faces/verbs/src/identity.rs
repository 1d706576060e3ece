//! What the device says it is, wherever programs ask: through calls, or in the files of the view.

use nonic_device::PortAttributes;

use crate::abi::{
    IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, IBV_PORT_ACTIVE, IBV_PORT_CM_SUP, IBV_PORT_DOWN,
    IBV_PORT_IP_BASED_GIDS, IBV_QPF_GRH_REQUIRED, LINK_SPEED_EDR, LINK_WIDTH_4X, PHYSICAL_LINK_UP,
    PHYSICAL_POLLING, ibv_port_attr,
};
use crate::convert::int;

/// Who made the device. Vendors are named by their block of Ethernet addresses; this one spells "non" and has
/// the bit of locally chosen addresses, so no maker can own it.
pub const VENDOR: u32 = 0x6e_6f_6e;

/// Which of the vendor's devices it is.
pub const PART: u32 = 1;

/// The version of its hardware.
pub const HARDWARE: u32 = 1;

/// The version of its firmware: that of the project.
pub const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// What programs read as the port. Width and speed are those of a common 100 Gb/s link: programs only
/// multiply them.
pub fn port_attributes(port: &PortAttributes) -> ibv_port_attr {
    let ethernet = port.ethernet;
    ibv_port_attr {
        state: if port.active { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
        max_mtu: int(port.max_mtu),
        active_mtu: int(port.active_mtu),
        gid_tbl_len: int(port.gid_count),
        port_cap_flags: IBV_PORT_CM_SUP | if ethernet { IBV_PORT_IP_BASED_GIDS } else { 0 },
        max_msg_sz: port.message_bytes,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: port.qkey_violations,
        pkey_tbl_len: port.pkey_count,
        lid: port.lid,
        sm_lid: port.subnet_manager_lid,
        lmc: port.lid_mask,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: LINK_WIDTH_4X,
        active_speed: LINK_SPEED_EDR,
        phys_state: if port.active { PHYSICAL_LINK_UP } else { PHYSICAL_POLLING },
        link_layer: if ethernet { IBV_LINK_LAYER_ETHERNET } else { IBV_LINK_LAYER_INFINIBAND },
        flags: if ethernet { IBV_QPF_GRH_REQUIRED } else { 0 },
        port_cap_flags2: 0,
    }
}

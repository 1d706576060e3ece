//! `struct ibv_ah_attr`.

use nonic_device::{AddressVector, GlobalRoute};

use crate::abi::{ibv_ah_attr, ibv_gid, ibv_global_route};

/// The path a program describes.
pub(crate) fn to_vector(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        destination_lid: attr.dlid,
        service_level: attr.sl,
        source_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port: attr.port_num,
        global: (attr.is_global != 0).then_some(GlobalRoute {
            destination: attr.grh.dgid.raw,
            source_index: attr.grh.sgid_index,
            flow_label: attr.grh.flow_label,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
        }),
    }
}

/// The path as a program reads it back; all zeros if there is none.
pub fn from_vector(vector: Option<&AddressVector>) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: [0; 16] },
            flow_label: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
        },
        dlid: 0,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 0,
        port_num: 0,
    };
    let Some(vector) = vector else { return attr };
    attr.dlid = vector.destination_lid;
    attr.sl = vector.service_level;
    attr.src_path_bits = vector.source_path_bits;
    attr.static_rate = vector.static_rate;
    attr.port_num = vector.port;
    if let Some(global) = &vector.global {
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: ibv_gid { raw: global.destination },
            flow_label: global.flow_label,
            sgid_index: global.source_index,
            hop_limit: global.hop_limit,
            traffic_class: global.traffic_class,
        };
    }
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_way_there_and_back() {
        let vector = AddressVector {
            destination_lid: 7,
            service_level: 1,
            source_path_bits: 2,
            static_rate: 3,
            port: 1,
            global: Some(GlobalRoute {
                destination: [9; 16],
                source_index: 1,
                flow_label: 0xabcde,
                hop_limit: 64,
                traffic_class: 4,
            }),
        };
        assert_eq!(to_vector(&from_vector(Some(&vector))), vector);
        let local = AddressVector { global: None, ..vector };
        assert_eq!(to_vector(&from_vector(Some(&local))), local);
    }
}

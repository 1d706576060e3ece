//! The layouts of `abi` against the header of the distribution, by a C program that prints what the compiler says.

use std::fmt::Write as _;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use nonic_rdmacm_face::abi::*;

/// The header the face copies.
const HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// One line for each structure and field: what C calls it, and our number.
macro_rules! layouts {
    ($($name:ident { $($field:ident $(as $c:literal)?),* $(,)? })+) => {
        vec![$(
            (format!("sizeof(struct {})", stringify!($name)), size_of::<$name>()),
            $((format!("offsetof(struct {}, {})", stringify!($name), layouts!(@name $field $($c)?)), offset_of!($name, $field)),)*
        )+]
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $c:literal) => { $c };
}

fn ours() -> Vec<(String, usize)> {
    layouts! {
        rdma_ib_addr { sgid, dgid, pkey }
        rdma_addr { src_storage, dst_storage, ibaddr as "addr.ibaddr" }
        rdma_route { addr, path_rec, num_paths }
        rdma_event_channel { fd }
        rdma_cm_id {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel, recv_cq,
            srq, pd, qp_type,
        }
        rdma_conn_param {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
            rnr_retry_count, srq, qp_num,
        }
        rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey }
        rdma_cm_event { id, listen_id, event, status, param }
        rdma_addrinfo {
            ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr, ai_dst_addr,
            ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route, ai_connect_len, ai_connect, ai_next,
        }
        sockaddr_ib { sib_family, sib_pkey, sib_flowinfo, sib_addr, sib_sid, sib_sid_mask, sib_scope_id }
        rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr }
    }
}

#[test]
fn every_structure_is_laid_out_as_in_the_header_of_the_distribution() {
    if !Path::new(HEADER).exists() {
        println!(
            "SKIPPED: {HEADER} is not installed, there is nothing to compare with (package librdmacm-dev)"
        );
        return;
    }
    let ours = ours();
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/ib.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n",
    );
    for (words, _) in &ours {
        writeln!(source, "printf(\"%zu\\n\", {words});").expect("a string takes everything");
    }
    source.push_str("return 0; }\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join("rdmacm_layout.c"), folder.join("rdmacm_layout"));
    fs::write(&file, source).expect("the folder for tests can be written to");
    let status =
        Command::new("cc").arg(&file).arg("-o").arg(&program).status().expect("there is a C compiler");
    assert!(status.success(), "the program that prints the layouts does not compile");
    let output = Command::new(&program).output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("it prints numbers");
    assert_eq!(printed.lines().count(), ours.len());
    for ((words, our), their) in ours.iter().zip(printed.lines()) {
        assert_eq!(our.to_string(), their, "{words}");
    }
}

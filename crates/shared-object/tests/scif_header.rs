//! The header: compiles alone in every C and C++ that programs of its time and of today are written in, and has every
//! public name with its value.

mod header;
mod library;

use header::{compile, holds};

/// Every constant and its value.
const CONSTANTS: [(&str, i32); 118] = [
    ("SCIF_ACCEPT_SYNC", 1),
    ("ACCEPT_SYNC", 1),
    ("SCIF_SEND_BLOCK", 1),
    ("SEND_BLOCK", 1),
    ("SCIF_RECV_BLOCK", 1),
    ("RECV_BLOCK", 1),
    ("SCIF_PROT_READ", 1),
    ("SCIF_PROT_WRITE", 2),
    ("SCIF_MAP_FIXED", 0x10),
    ("SCIF_MAP_KERNEL", 0x20),
    ("SCIF_FENCE_INIT_SELF", 1),
    ("SCIF_FENCE_INIT_PEER", 2),
    ("SCIF_FENCE_RAS_SELF", 4),
    ("SCIF_FENCE_RAS_PEER", 8),
    ("SCIF_SIGNAL_LOCAL", 0x10),
    ("SCIF_SIGNAL_REMOTE", 0x20),
    ("SCIF_RMA_USECPU", 1),
    ("SCIF_RMA_USECACHE", 2),
    ("SCIF_RMA_SYNC", 4),
    ("SCIF_RMA_ORDERED", 8),
    ("SCIF_POLLIN", 1),
    ("SCIF_POLLOUT", 4),
    ("SCIF_POLLERR", 8),
    ("SCIF_POLLHUP", 0x10),
    ("SCIF_POLLNVAL", 0x20),
    ("SCIF_COI_PORT_0", 40),
    ("SCIF_COI_PORT_1", 41),
    ("SCIF_COI_PORT_2", 42),
    ("SCIF_COI_PORT_3", 43),
    ("SCIF_COI_PORT_4", 44),
    ("SCIF_COI_PORT_5", 45),
    ("SCIF_COI_PORT_6", 46),
    ("SCIF_COI_PORT_7", 47),
    ("SCIF_COI_PORT_8", 48),
    ("SCIF_COI_PORT_9", 49),
    ("SCIF_OFED_PORT_0", 60),
    ("SCIF_OFED_PORT_1", 61),
    ("SCIF_OFED_PORT_2", 62),
    ("SCIF_OFED_PORT_3", 63),
    ("SCIF_OFED_PORT_4", 64),
    ("SCIF_OFED_PORT_5", 65),
    ("SCIF_OFED_PORT_6", 66),
    ("SCIF_OFED_PORT_7", 67),
    ("SCIF_OFED_PORT_8", 68),
    ("SCIF_OFED_PORT_9", 69),
    ("SCIF_NETDEV_PORT_0", 80),
    ("SCIF_NETDEV_PORT_1", 81),
    ("SCIF_NETDEV_PORT_2", 82),
    ("SCIF_NETDEV_PORT_3", 83),
    ("SCIF_NETDEV_PORT_4", 84),
    ("SCIF_NETDEV_PORT_5", 85),
    ("SCIF_NETDEV_PORT_6", 86),
    ("SCIF_NETDEV_PORT_7", 87),
    ("SCIF_NETDEV_PORT_8", 88),
    ("SCIF_NETDEV_PORT_9", 89),
    ("SCIF_RAS_PORT_0", 100),
    ("SCIF_RAS_PORT_1", 101),
    ("SCIF_RAS_PORT_2", 102),
    ("SCIF_RAS_PORT_3", 103),
    ("SCIF_RAS_PORT_4", 104),
    ("SCIF_RAS_PORT_5", 105),
    ("SCIF_RAS_PORT_6", 106),
    ("SCIF_RAS_PORT_7", 107),
    ("SCIF_RAS_PORT_8", 108),
    ("SCIF_RAS_PORT_9", 109),
    ("SCIF_PM_PORT_0", 120),
    ("SCIF_PM_PORT_1", 121),
    ("SCIF_PM_PORT_2", 122),
    ("SCIF_PM_PORT_3", 123),
    ("SCIF_PM_PORT_4", 124),
    ("SCIF_PM_PORT_5", 125),
    ("SCIF_PM_PORT_6", 126),
    ("SCIF_PM_PORT_7", 127),
    ("SCIF_PM_PORT_8", 128),
    ("SCIF_PM_PORT_9", 129),
    ("SCIF_BT_PORT_0", 130),
    ("SCIF_BT_PORT_1", 131),
    ("SCIF_BT_PORT_2", 132),
    ("SCIF_BT_PORT_3", 133),
    ("SCIF_BT_PORT_4", 134),
    ("SCIF_BT_PORT_5", 135),
    ("SCIF_BT_PORT_6", 136),
    ("SCIF_BT_PORT_7", 137),
    ("SCIF_BT_PORT_8", 138),
    ("SCIF_BT_PORT_9", 139),
    ("MPSSD_MONRECV", 160),
    ("MIC_NOTIFY", 161),
    ("MPSSD_CRED", 162),
    ("MPSSD_MONSEND", 163),
    ("MPSSD_MICCTRL", 164),
    ("MPSSD_RESV5", 165),
    ("MPSSD_RESV6", 166),
    ("MPSSD_RESV7", 167),
    ("MPSSD_RESV8", 168),
    ("MPSSD_RESV9", 169),
    ("SCIF_COSM_LISTEN_PORT", 201),
    ("SCIF_ADMIN_PORT_END", 1024),
    ("SCIF_MYO_PORT_0", 1025),
    ("SCIF_MYO_PORT_1", 1026),
    ("SCIF_MYO_PORT_2", 1027),
    ("SCIF_MYO_PORT_3", 1028),
    ("SCIF_MYO_PORT_4", 1029),
    ("SCIF_MYO_PORT_5", 1030),
    ("SCIF_MYO_PORT_6", 1031),
    ("SCIF_MYO_PORT_7", 1032),
    ("SCIF_MYO_PORT_8", 1033),
    ("SCIF_MYO_PORT_9", 1034),
    ("SCIF_ST_PORT_0", 1044),
    ("SCIF_ST_PORT_1", 1045),
    ("SCIF_ST_PORT_2", 1046),
    ("SCIF_ST_PORT_3", 1047),
    ("SCIF_ST_PORT_4", 1048),
    ("SCIF_ST_PORT_5", 1049),
    ("SCIF_ST_PORT_6", 1050),
    ("SCIF_ST_PORT_7", 1051),
    ("SCIF_ST_PORT_8", 1052),
    ("SCIF_ST_PORT_9", 1053),
    ("SCIF_PORT_RSVD", 1088),
];

/// Every call, as the type that programs may give a pointer to it.
const CALLS: [(&str, &str); 22] = [
    ("scif_open", "scif_epd_t (*)(void)"),
    ("scif_close", "int (*)(scif_epd_t)"),
    ("scif_bind", "int (*)(scif_epd_t, uint16_t)"),
    ("scif_listen", "int (*)(scif_epd_t, int)"),
    ("scif_connect", "int (*)(scif_epd_t, struct scif_portID *)"),
    ("scif_accept", "int (*)(scif_epd_t, struct scif_portID *, scif_epd_t *, int)"),
    ("scif_send", "int (*)(scif_epd_t, void *, int, int)"),
    ("scif_recv", "int (*)(scif_epd_t, void *, int, int)"),
    ("scif_register", "off_t (*)(scif_epd_t, void *, size_t, off_t, int, int)"),
    ("scif_unregister", "int (*)(scif_epd_t, off_t, size_t)"),
    ("scif_mmap", "void *(*)(void *, size_t, int, int, scif_epd_t, off_t)"),
    ("scif_munmap", "int (*)(void *, size_t)"),
    ("scif_readfrom", "int (*)(scif_epd_t, off_t, size_t, off_t, int)"),
    ("scif_writeto", "int (*)(scif_epd_t, off_t, size_t, off_t, int)"),
    ("scif_vreadfrom", "int (*)(scif_epd_t, void *, size_t, off_t, int)"),
    ("scif_vwriteto", "int (*)(scif_epd_t, void *, size_t, off_t, int)"),
    ("scif_fence_mark", "int (*)(scif_epd_t, int, int *)"),
    ("scif_fence_wait", "int (*)(scif_epd_t, int)"),
    ("scif_fence_signal", "int (*)(scif_epd_t, off_t, uint64_t, off_t, uint64_t, int)"),
    ("scif_get_nodeIDs", "int (*)(uint16_t *, int, uint16_t *)"),
    ("scif_poll", "int (*)(struct scif_pollepd *, unsigned int, long)"),
    ("scif_get_fd", "int (*)(scif_epd_t)"),
];

/// Every type and value that is no number, as a condition that has to hold.
const CONDITIONS: [&str; 19] = [
    "sizeof(scif_epd_t) == sizeof(int)",
    "(scif_epd_t)-1 < 0",
    "sizeof(struct scif_portID) == 4",
    "sizeof(portID_t) == 4",
    "sizeof(struct portID) == 4",
    "offsetof(struct scif_portID, node) == 0",
    "offsetof(struct scif_portID, port) == 2",
    "sizeof(((struct scif_portID *)0)->node) == 2",
    "sizeof(((portID_t *)0)->port) == 2",
    "sizeof(struct scif_pollepd) == sizeof(struct pollfd)",
    "offsetof(struct scif_pollepd, epd) == offsetof(struct pollfd, fd)",
    "offsetof(struct scif_pollepd, events) == offsetof(struct pollfd, events)",
    "offsetof(struct scif_pollepd, revents) == offsetof(struct pollfd, revents)",
    "sizeof(SCIF_OPEN_FAILED) == sizeof(scif_epd_t) && SCIF_OPEN_FAILED == -1",
    "sizeof(SCIF_REGISTER_FAILED) == sizeof(off_t) && SCIF_REGISTER_FAILED == -1",
    "sizeof(off_t) == 8",
    "sizeof(SCIF_MMAP_FAILED) == sizeof(void *)",
    "sizeof(fd_set) > 0 && EINVAL > 0 && _SC_PAGESIZE > 0",
    "sizeof(uint64_t) == 8",
];

/// A compiler and the languages it is asked to speak.
const LANGUAGES: [(&str, &str, &[&str]); 2] = [
    ("gcc", "c", &["c89", "gnu89", "c99", "gnu99", "c11", "gnu11", "c17"]),
    ("g++", "c++", &["c++98", "gnu++98", "c++11", "c++17", "c++20"]),
];

#[test]
fn the_header_compiles_alone_without_a_warning_in_every_c_and_c_plus_plus() {
    for (compiler, language, standards) in LANGUAGES {
        for standard in standards {
            let text = "#include <scif.h>\n#include <scif.h>\n";
            assert_eq!(compile(compiler, language, standard, text), "", "{standard}");
        }
    }
}

#[test]
fn every_constant_has_its_value_and_can_be_a_case() {
    let mut text = "#include <scif.h>\n".to_owned();
    for (number, (name, value)) in CONSTANTS.iter().enumerate() {
        text += &holds(number, &format!("{name} == {value}"));
        text += &format!("int case_{number}(int value);\nint case_{number}(int value)\n");
        text += &format!("{{ switch (value) {{ case {name}: return 1; default: return 0; }} }}\n");
    }
    assert_eq!(compile("gcc", "c", "c89", &text), "");
    assert_eq!(compile("g++", "c++", "c++98", &text), "");
}

#[test]
fn constants_that_programs_test_for_are_macros() {
    let mut text = "#include <scif.h>\n".to_owned();
    let enumerated = ["SCIF_PROT_", "SCIF_MAP_", "SCIF_FENCE_", "SCIF_SIGNAL_"];
    for (name, value) in CONSTANTS {
        if !enumerated.iter().any(|prefix| name.starts_with(prefix)) {
            text += &format!("#ifndef {name}\n#error {name} is no macro\n#endif\n");
            if !name.starts_with("SCIF_POLL") {
                text += &format!("#if {name} != {value}\n#error {name} is not {value}\n#endif\n");
            }
        }
    }
    for name in ["SCIF_OPEN_FAILED", "SCIF_REGISTER_FAILED", "SCIF_MMAP_FAILED", "portID", "MICACCESSAPI"] {
        text += &format!("#ifndef {name}\n#error {name} is no macro\n#endif\n");
    }
    assert_eq!(compile("gcc", "c", "c99", &text), "");
}

#[test]
fn every_type_has_its_layout_and_every_failure_its_value() {
    let mut text = "#include <scif.h>\n#include <stddef.h>\n".to_owned();
    for (number, condition) in CONDITIONS.iter().enumerate() {
        text += &holds(number, condition);
    }
    text += "int equal(void *address);\nint equal(void *address) { return address == SCIF_MMAP_FAILED; }\n";
    assert_eq!(compile("gcc", "c", "c89", &text), "");
    assert_eq!(compile("g++", "c++", "c++17", &text), "");
}

#[test]
fn every_call_has_its_type_and_c_linkage() {
    let mut text = "#include <scif.h>\n".to_owned();
    for (name, pointer) in CALLS {
        let declaration = pointer.replacen("(*)", &format!("(*pointer_to_{name})"), 1);
        text += &format!("extern {declaration};\n{declaration} = {name};\n");
    }
    assert_eq!(compile("gcc", "c", "c89", &text), "");
    assert_eq!(compile("g++", "c++", "c++98", &text), "");
    // In C++ a second declaration has to agree, with its linkage.
    let mut text = "#include <scif.h>\n".to_owned();
    for (name, pointer) in CALLS {
        text += &format!("extern \"C\" {};\n", pointer.replacen("(*)", name, 1));
    }
    assert_eq!(compile("g++", "c++", "c++98", &text), "");
}

#[test]
fn programs_that_use_the_old_names_compile() {
    let text = "#include <scif.h>\n\
        int old(scif_epd_t epd, portID_t *known);\n\
        int old(scif_epd_t epd, portID_t *known)\n\
        {\n\
            struct portID peer;\n\
            scif_epd_t fresh;\n\
            char byte = 0;\n\
            peer.node = 1;\n\
            peer.port = known->port;\n\
            return scif_accept(epd, &peer, &fresh, ACCEPT_SYNC) + scif_connect(epd, &peer)\n\
                + scif_send(epd, &byte, 1, SEND_BLOCK) + scif_recv(epd, &byte, 1, RECV_BLOCK);\n\
        }\n";
    assert_eq!(compile("gcc", "c", "c89", text), "");
    assert_eq!(compile("g++", "c++", "c++98", text), "");
}

#[test]
fn a_wrong_name_or_value_does_not_compile_so_that_these_tests_mean_something() {
    let wrong = ["SCIF_MAP_FIXED == 0x20", "sizeof(struct scif_portID) == 8", "SCIF_SUCH_NAME == 1"];
    for condition in wrong {
        let text = format!("#include <scif.h>\n{}", holds(0, condition));
        assert_ne!(compile("gcc", "c", "c89", &text), "", "{condition}");
    }
}

//! Just enough of an ELF file to know what the dynamic loader will make of it (System V ABI, chapters 4 and 5).
//!
//! The file is a stranger's: every offset is checked, every table has a limit, and what cannot be read is an error with
//! a sentence, never a guess.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

/// The four bytes an ELF file begins with.
pub(super) const MAGIC: &[u8; 4] = b"\x7fELF";

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

const HEADER_SIZE: usize = 64;
const SEGMENT_SIZE: usize = 56;
const SEGMENTS_MAX: usize = 512;
const DYNAMIC_ENTRIES_MAX: usize = 4096;
const STRING_MAX: usize = 64 << 10;

/// The machine this command was built for, as ELF numbers it.
const MACHINE_HERE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// What an ELF file says about how it wants to be loaded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elf {
    /// For another kind of machine, in words.
    Foreign(String),
    /// Without a dynamic loader: libraries cannot be put under it.
    Static,
    /// With a dynamic loader.
    Dynamic {
        /// Path of the loader.
        interpreter: OsString,
        /// `DT_RPATH`, when there is no `DT_RUNPATH` that would replace it; it beats `LD_LIBRARY_PATH`.
        rpath: Option<OsString>,
    },
}

/// Why a file that begins like ELF cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum ElfError {
    /// Something lies beyond the end of the file, or beyond all reason.
    #[error("its {0} is damaged")]
    Damaged(&'static str),
    /// The file system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    /// Reads the headers of a file that begins with [`MAGIC`].
    pub(super) fn read(file: &File) -> Result<Self, ElfError> {
        let mut header = [0; HEADER_SIZE];
        read_exactly(file, &mut header, 0, "header")?;
        if let Some(words) = foreign(&header) {
            return Ok(Self::Foreign(words));
        }
        let segments = segments(file, &header)?;
        let Some(interpreter) = segments.iter().find(|segment| segment.kind == PT_INTERP) else {
            return Ok(Self::Static);
        };
        let interpreter = string_at(file, interpreter.offset, "interpreter")?;
        Ok(Self::Dynamic { interpreter, rpath: rpath(file, &segments)? })
    }
}

/// What makes this a program for other machines, or nothing.
fn foreign(header: &[u8; HEADER_SIZE]) -> Option<String> {
    let machine = u16_at(header, 18);
    if header[4] != CLASS_64 {
        return Some("a 32-bit program".to_owned());
    }
    if header[5] != LITTLE_ENDIAN {
        return Some("a big-endian program".to_owned());
    }
    (machine != MACHINE_HERE).then(|| match machine {
        62 => "a program for x86-64".to_owned(),
        183 => "a program for aarch64".to_owned(),
        243 => "a program for RISC-V".to_owned(),
        other => format!("a program for ELF machine {other}"),
    })
}

fn segments(file: &File, header: &[u8; HEADER_SIZE]) -> Result<Vec<Segment>, ElfError> {
    let offset = u64_at(header, 32);
    let (size, count) = (usize::from(u16_at(header, 54)), usize::from(u16_at(header, 56)));
    if count > SEGMENTS_MAX || (count > 0 && size != SEGMENT_SIZE) {
        return Err(ElfError::Damaged("table of segments"));
    }
    let mut table = vec![0; count * SEGMENT_SIZE];
    read_exactly(file, &mut table, offset, "table of segments")?;
    let parse = |entry: &[u8]| Segment {
        kind: u32_at(entry, 0),
        offset: u64_at(entry, 8),
        address: u64_at(entry, 16),
        size: u64_at(entry, 32),
    };
    Ok(table.chunks_exact(SEGMENT_SIZE).map(parse).collect())
}

fn rpath(file: &File, segments: &[Segment]) -> Result<Option<OsString>, ElfError> {
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
        return Ok(None);
    };
    let entries = (dynamic.size / 16) as usize;
    if entries > DYNAMIC_ENTRIES_MAX {
        return Err(ElfError::Damaged("dynamic section"));
    }
    let mut table = vec![0; entries * 16];
    read_exactly(file, &mut table, dynamic.offset, "dynamic section")?;
    let entries = table.chunks_exact(16).map(|entry| (u64_at(entry, 0), u64_at(entry, 8)));
    let entries: Vec<_> = entries.take_while(|&(tag, _)| tag != DT_NULL).collect();
    let value = |tag| entries.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
    let (Some(rpath), None) = (value(DT_RPATH), value(DT_RUNPATH)) else {
        return Ok(None); // The loader ignores DT_RPATH beside DT_RUNPATH, and LD_LIBRARY_PATH beats that one.
    };
    let strings = value(DT_STRTAB).ok_or(ElfError::Damaged("string table"))?;
    let offset = file_offset(segments, strings).and_then(|start| start.checked_add(rpath));
    let offset = offset.ok_or(ElfError::Damaged("string table"))?;
    string_at(file, offset, "search path").map(Some)
}

/// Where the byte that will be loaded at `address` lies in the file.
fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let within = |segment: &&Segment| {
        segment.kind == PT_LOAD
            && address.checked_sub(segment.address).is_some_and(|start| start < segment.size)
    };
    segments.iter().find(within).and_then(|segment| segment.offset.checked_add(address - segment.address))
}

fn string_at(file: &File, offset: u64, what: &'static str) -> Result<OsString, ElfError> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 256];
    while bytes.len() < STRING_MAX {
        let at = offset.checked_add(bytes.len() as u64).ok_or(ElfError::Damaged(what))?;
        let length = file.read_at(&mut chunk, at)?;
        if length == 0 {
            break;
        }
        if let Some(end) = chunk[..length].iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(&chunk[..end]);
            return Ok(OsString::from_vec(bytes));
        }
        bytes.extend_from_slice(&chunk[..length]);
    }
    Err(ElfError::Damaged(what))
}

fn read_exactly(file: &File, into: &mut [u8], offset: u64, what: &'static str) -> Result<(), ElfError> {
    file.read_exact_at(into, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidInput => ElfError::Damaged(what),
        _ => ElfError::Io(error),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// One file of `(tag, string)` dynamic entries, loaded at 0x1000, with an interpreter.
    fn crafted(dynamic: &[(u64, &str)]) -> Vec<u8> {
        let segments = 3;
        let interpreter = HEADER_SIZE + segments * SEGMENT_SIZE;
        let mut strings = b"/lib/ld.so\0".to_vec();
        let mut entries = vec![(DT_STRTAB, 0x1000 + interpreter as u64)];
        for (tag, text) in dynamic {
            entries.push((*tag, strings.len() as u64));
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
        }
        entries.push((DT_NULL, 0));
        let table = interpreter + strings.len();
        let mut bytes = header(segments as u16);
        segment(&mut bytes, PT_INTERP, interpreter, 11);
        segment(&mut bytes, PT_LOAD, 0, table + entries.len() * 16);
        segment(&mut bytes, PT_DYNAMIC, table, entries.len() * 16);
        bytes.extend_from_slice(&strings);
        for (tag, value) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn header(segments: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&[CLASS_64, LITTLE_ENDIAN]);
        bytes[18..20].copy_from_slice(&MACHINE_HERE.to_le_bytes());
        bytes[32] = HEADER_SIZE as u8;
        bytes[54] = SEGMENT_SIZE as u8;
        bytes[56..58].copy_from_slice(&segments.to_le_bytes());
        bytes
    }

    fn segment(bytes: &mut Vec<u8>, kind: u32, offset: usize, size: usize) {
        let mut entry = vec![0; SEGMENT_SIZE];
        entry[..4].copy_from_slice(&kind.to_le_bytes());
        entry[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
        entry[16..24].copy_from_slice(&(0x1000 + offset as u64).to_le_bytes());
        entry[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        bytes.extend_from_slice(&entry);
    }

    fn read(bytes: &[u8]) -> Result<Elf, ElfError> {
        let descriptor = rustix::fs::memfd_create("elf", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(descriptor);
        file.write_all(bytes).unwrap();
        Elf::read(&file)
    }

    fn rpath_of(dynamic: &[(u64, &str)]) -> Option<OsString> {
        match read(&crafted(dynamic)).unwrap() {
            Elf::Dynamic { interpreter, rpath } => {
                assert_eq!(interpreter, "/lib/ld.so");
                rpath
            }
            other => panic!("read as {other:?}"),
        }
    }

    #[test]
    fn this_test_is_a_dynamic_program_or_a_static_one_but_never_damaged() {
        assert!(Elf::read(&File::open(std::env::current_exe().unwrap()).unwrap()).is_ok());
    }

    #[test]
    fn rpath_counts_only_where_runpath_does_not_replace_it() {
        assert_eq!(rpath_of(&[]), None);
        assert_eq!(rpath_of(&[(DT_RPATH, "/opt/rdma")]), Some("/opt/rdma".into()));
        assert_eq!(rpath_of(&[(DT_RUNPATH, "/opt/rdma")]), None);
        assert_eq!(rpath_of(&[(DT_RPATH, "/opt/rdma"), (DT_RUNPATH, "/x")]), None);
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert_eq!(read(&header(0)).unwrap(), Elf::Static);
    }

    #[test]
    fn programs_for_other_machines_are_named() {
        let mut small = header(0);
        small[4] = 1;
        assert_eq!(read(&small).unwrap(), Elf::Foreign("a 32-bit program".to_owned()));
        let mut riscv = header(0);
        riscv[18] = 243;
        assert_eq!(read(&riscv).unwrap(), Elf::Foreign("a program for RISC-V".to_owned()));
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_or_an_answer_and_never_a_panic() {
        let whole = crafted(&[(DT_RPATH, "/opt/rdma")]);
        for length in 0..whole.len() {
            let _ = read(&whole[..length]);
        }
    }

    #[test]
    fn a_file_with_any_one_byte_changed_is_an_error_or_an_answer_and_never_a_panic() {
        let whole = crafted(&[(DT_RPATH, "/opt/rdma")]);
        for at in 4..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = read(&changed);
            }
        }
    }
}

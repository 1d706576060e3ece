//! A side's memory and regions.

use nonic_device::{Access, Key};

use super::{Side, numbers_of};
use crate::command::{Command, MemoryKind, Source};
use crate::memory::{GUARD, Memory, UNTOUCHED};
use crate::program_memory::PAGE;

impl Side {
    pub(crate) fn zone(&mut self) -> u32 {
        self.make(Command::Zone {})
    }

    /// A buffer of a kind, and its address.
    #[track_caller]
    pub(crate) fn buffer(&mut self, kind: MemoryKind, length: u64) -> (u32, u64) {
        let made = self.ask(Command::Buffer { kind, length, log_alignment: 6 });
        (made[0] as u32, made[1])
    }

    /// Registers a part of a buffer.
    #[track_caller]
    pub(crate) fn register(
        &mut self,
        zone: u32,
        source: Source,
        base: Option<u64>,
        access: Access,
    ) -> Result<(u32, Key, Key), String> {
        let made = numbers_of(self.run(Command::Register { zone, source, base, access }))?;
        Ok((made[0] as u32, Key(made[1] as u32), Key(made[2] as u32)))
    }

    /// Registered memory of the arrangement's kind, untouched.
    #[track_caller]
    pub(crate) fn memory(&mut self, zone: u32, length: u64, access: Access) -> Memory {
        self.memory_of(self.memory, zone, length, None, access)
    }

    /// Registered memory of a kind, at a base.
    #[track_caller]
    pub(crate) fn memory_of(
        &mut self,
        kind: MemoryKind,
        zone: u32,
        length: u64,
        base: Option<u64>,
        access: Access,
    ) -> Memory {
        let (guard, registered) = match kind {
            MemoryKind::Pages => (PAGE, length.next_multiple_of(PAGE)),
            _ => (GUARD, length),
        };
        let whole = (registered + 2 * guard).next_multiple_of(8);
        let (buffer, address) = self.buffer(kind, whole);
        self.must(Command::Poke { buffer, offset: 0, bytes: vec![UNTOUCHED; whole as usize] });
        let memory = self.register_again(
            Memory {
                buffer,
                offset: guard,
                length,
                registered,
                guard,
                region: 0,
                base: base.unwrap_or(if kind == MemoryKind::Device { 0 } else { address + guard }),
                local_key: Key(0),
                remote_key: Key(0),
            },
            zone,
            access,
        );
        if kind == MemoryKind::Pages {
            let found = self.ask(Command::IsInFile { address: address + guard, length: registered });
            assert_eq!(found, [1], "the region is not adopted, though the arrangement is about that");
        }
        memory
    }

    /// Another region on the same bytes.
    #[track_caller]
    pub(crate) fn register_again(&mut self, memory: Memory, zone: u32, access: Access) -> Memory {
        let source =
            Source::Buffer { buffer: memory.buffer, offset: memory.offset, length: memory.registered };
        let (region, local_key, remote_key) =
            self.register(zone, source, Some(memory.base), access).expect("the registration is taken");
        Memory { region, local_key, remote_key, ..memory }
    }

    /// Writes bytes.
    #[track_caller]
    pub(crate) fn write(&mut self, memory: &Memory, offset: u64, bytes: &[u8]) {
        self.must(Command::Poke {
            buffer: memory.buffer,
            offset: memory.offset + offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Reads bytes.
    #[track_caller]
    pub(crate) fn read(&mut self, memory: &Memory, offset: u64, length: u64) -> Vec<u8> {
        self.peek(memory.buffer, memory.offset + offset, length)
    }

    /// The word at an offset.
    #[track_caller]
    pub(crate) fn word(&mut self, memory: &Memory, offset: u64) -> u64 {
        u64::from_ne_bytes(self.read(memory, offset, 8).try_into().expect("8 bytes"))
    }

    /// Nothing was written to the memory or its guards.
    #[track_caller]
    pub(crate) fn assert_untouched(&mut self, memory: &Memory) {
        self.assert_holds(memory, &vec![UNTOUCHED; memory.length as usize]);
    }

    /// The memory holds exactly these bytes from its beginning, and the rest and the guards are untouched.
    #[track_caller]
    pub(crate) fn assert_holds(&mut self, memory: &Memory, bytes: &[u8]) {
        let whole = (memory.registered + 2 * memory.guard).next_multiple_of(8);
        let seen = self.peek(memory.buffer, 0, whole);
        let mut expected = vec![UNTOUCHED; whole as usize];
        expected[memory.offset as usize..][..bytes.len()].copy_from_slice(bytes);
        if let Some(place) = seen.iter().zip(&expected).position(|(seen, expected)| seen != expected) {
            let wrong = seen.iter().zip(&expected).filter(|(seen, expected)| seen != expected).count();
            panic!(
                "byte {} of {} is {:#04x}, not {:#04x}; {wrong} bytes are wrong",
                place as i64 - memory.offset as i64,
                memory.length,
                seen[place],
                expected[place]
            );
        }
    }
}

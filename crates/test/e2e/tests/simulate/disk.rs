//! The journal's disk, in memory. It may be full, fail to sync, and at a kill lose or tear data
//! that was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use fastrand::Rng;
use trueup_journal::{Journal, Storage};

use crate::world::World;

/// The number of bytes that a disk writes atomically.
const BLOCK: usize = 512;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A fault of the disk, at the n-th operation of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    KillBefore,
    KillAfter,
    /// From here on, the file cannot grow.
    Full,
    /// From here on, no sync succeeds.
    SyncFails,
}

impl DiskFault {
    pub(crate) fn word(self) -> &'static str {
        match self {
            DiskFault::KillBefore | DiskFault::KillAfter => "kill at a disk write",
            DiskFault::Full => "full disk",
            DiskFault::SyncFails => "failing sync",
        }
    }
}

/// The stored bytes, and the faults.
pub(crate) struct Platter {
    bytes: Vec<u8>,
    /// The bytes that survive a loss of power.
    durable: Vec<u8>,
    pending: Vec<Piece>,
    pub(crate) faults: BTreeMap<u32, DiskFault>,
    /// Operations since the turn began.
    pub(crate) ops: u32,
    is_full: bool,
    fails_to_sync: bool,
    /// True if the process was killed: no operation reaches the disk.
    pub(crate) is_killed: bool,
    /// The number of the process that uses the disk.
    life: u64,
}

#[derive(Clone)]
enum Piece {
    Write(u64, Vec<u8>),
    Length(u64),
}

fn apply(bytes: &mut Vec<u8>, piece: &Piece) {
    match piece {
        Piece::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(data);
        }
        Piece::Length(length) => bytes.resize(*length as usize, 0),
    }
}

impl Platter {
    /// Returns a disk with an empty journal.
    pub(crate) fn formatted() -> Platter {
        static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
        let bytes = EMPTY.get_or_init(|| {
            let memory = Memory::default();
            Journal::create_on(memory.clone()).unwrap();
            memory.take()
        });
        Platter {
            bytes: bytes.clone(),
            durable: bytes.clone(),
            pending: Vec::new(),
            faults: BTreeMap::new(),
            ops: 0,
            is_full: false,
            fails_to_sync: false,
            is_killed: false,
            life: 0,
        }
    }

    /// Starts a new process, and clears the former disk faults. Returns the process's number.
    pub(crate) fn restart(&mut self) -> u64 {
        self.is_killed = false;
        self.life += 1;
        self.life
    }

    pub(crate) fn mend(&mut self) {
        self.is_full = false;
        self.fails_to_sync = false;
        self.faults.clear();
    }

    /// Kills the process. On a loss of power, any part of the data not synced is lost.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.life += 1;
        if rng.bool() {
            let mut bytes = std::mem::take(&mut self.durable);
            for piece in std::mem::take(&mut self.pending) {
                for piece in blocks(piece) {
                    match rng.u8(..4) {
                        0 => {}
                        1 => apply(&mut bytes, &torn(piece, rng)),
                        _ => apply(&mut bytes, &piece),
                    }
                }
            }
            self.durable = bytes.clone();
            self.bytes = bytes;
        }
    }

    fn change(&mut self, piece: Piece) -> io::Result<()> {
        let end = match &piece {
            Piece::Write(offset, data) => *offset as usize + data.len(),
            Piece::Length(length) => *length as usize,
        };
        if self.is_full && end > self.bytes.len() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        apply(&mut self.bytes, &piece);
        self.pending.push(piece);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.fails_to_sync {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        for piece in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &piece);
        }
        Ok(())
    }
}

fn blocks(piece: Piece) -> Vec<Piece> {
    let Piece::Write(offset, data) = piece else {
        return vec![piece];
    };
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < data.len() {
        let at = offset as usize + done;
        let count = (BLOCK - at % BLOCK).min(data.len() - done);
        pieces.push(Piece::Write(at as u64, data[done..done + count].to_vec()));
        done += count;
    }
    pieces
}

/// Returns the front or the back of a piece.
fn torn(piece: Piece, rng: &mut Rng) -> Piece {
    match piece {
        Piece::Write(offset, mut data) => {
            let cut = rng.usize(..=data.len());
            if rng.bool() {
                data.truncate(cut);
                return Piece::Write(offset, data);
            }
            Piece::Write(offset + cut as u64, data.split_off(cut))
        }
        piece => piece,
    }
}

/// A process's open file on the disk.
#[derive(Debug)]
pub(crate) struct Disk {
    world: World,
    life: u64,
}

impl Disk {
    pub(crate) fn open(world: &World) -> Disk {
        let life = world.lock().disk.restart();
        Disk { world: world.clone(), life }
    }

    fn op(&self, work: impl FnOnce(&mut Platter) -> io::Result<()>) -> io::Result<()> {
        let mut world = self.world.lock();
        if world.disk.life != self.life || world.disk.is_killed {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        world.step();
        world.disk.ops += 1;
        let ops = world.disk.ops;
        let fault = world.disk.faults.remove(&ops);
        if let Some(fault) = fault {
            world.note_fault(fault.word());
            match fault {
                DiskFault::KillBefore => {
                    world.disk.is_killed = true;
                    return Err(io::Error::from_raw_os_error(EIO));
                }
                DiskFault::KillAfter => {}
                DiskFault::Full => world.disk.is_full = true,
                DiskFault::SyncFails => world.disk.fails_to_sync = true,
            }
        }
        let done = work(&mut world.disk);
        world.disk.is_killed |= fault == Some(DiskFault::KillAfter);
        done
    }
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world.lock().disk.bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read(&self.world.lock().disk.bytes, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.op(|disk| disk.change(Piece::Write(offset, data.to_vec())))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.op(|disk| disk.change(Piece::Length(length)))
    }

    fn sync(&self) -> io::Result<()> {
        self.op(Platter::sync)
    }
}

fn read(bytes: &[u8], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let from = offset as usize;
    let there = bytes.get(from..from + out.len());
    out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

/// The bytes in which an empty journal is made once.
#[derive(Clone, Debug, Default)]
struct Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Memory {
    fn take(self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Storage for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read(&self.0.lock().unwrap(), offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        apply(&mut self.0.lock().unwrap(), &Piece::Write(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        apply(&mut self.0.lock().unwrap(), &Piece::Length(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

//! The simulated world's disk: data that was not synced is lost with the power.

use std::io;

use trueup_journal::Storage;

use crate::world::Sim;

impl Storage for Sim {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world().written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let world = self.world();
        let from = offset as usize;
        let found = world.written.get(from..from + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        if world.is_off {
            return Err(io::Error::other("no power"));
        }
        let end = offset as usize + data.len();
        if world.written.len() < end {
            world.written.resize(end, 0);
        }
        world.written[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.world();
        if world.is_off {
            return Err(io::Error::other("no power"));
        }
        world.written.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if !self.step("sync") {
            return Err(io::Error::other("no power"));
        }
        let mut world = self.world();
        world.durable = world.written.clone();
        drop(world);
        match self.step("synced") {
            true => Ok(()),
            false => Err(io::Error::other("no power")),
        }
    }
}

//! The simulated world's disk: data that was not synced is lost with the power.

use std::io;

use trueup_journal::Storage;

use crate::image::{put, set_len};
use crate::world::{Sim, World};

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
        put(&mut world.written, offset, data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.world();
        if world.is_off {
            return Err(io::Error::other("no power"));
        }
        set_len(&mut world.written, len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if !self.step("sync") {
            return Err(io::Error::other("no power"));
        }
        let mut world = self.world();
        let World { durable, written, .. } = &mut *world;
        durable.clone_from(written);
        drop(world);
        match self.step("synced") {
            true => Ok(()),
            false => Err(io::Error::other("no power")),
        }
    }
}

//! The simulated world's disk: data that was not synced is lost with the power.

use std::io;

use trueup_journal::Storage;

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
        let end = offset as usize + data.len();
        if world.written.len() < end {
            set_len(&mut world.written, end);
        }
        world.written[offset as usize..end].copy_from_slice(data);
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

/// Shortens an image, or lengthens it with zeros. `Vec::resize` is slow where it is not optimised.
fn set_len(bytes: &mut Vec<u8>, len: usize) {
    bytes.truncate(len);
    bytes.extend(vec![0; len - bytes.len()]);
}

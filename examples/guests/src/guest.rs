//! A running guest: QEMU's reports and commands.
//!
//! Each change here can be repeated, even if the last one was cut off in the middle: it first reads
//! the present state.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use qapi::qmp;
use serde_json::{Value, json};

use crate::devices::{self, node_name};
use crate::host::Bounds;
use crate::qmp::{Error, Monitor, Result};

/// The path of objects created by a user, and of removable devices, in QEMU's object tree.
const OBJECTS: &str = "/objects";
const DEVICES: &str = "/machine/peripheral";

/// A guest, as its QEMU reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Identifies the process: each start has another one.
    pub boot: String,
    /// False while its processor is paused.
    pub is_running: bool,
    /// The size of its memory, in bytes.
    pub memory: u64,
    /// Text for users; empty if there is none.
    pub description: String,
    /// The plugged-in disks, by name.
    pub disks: BTreeMap<String, Disk>,
    /// The MAC addresses of its network interfaces, by name.
    pub nics: BTreeMap<String, String>,
}

/// A plugged-in disk, as QEMU reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its size in bytes, of the overlay if there is one.
    pub size: u64,
    /// Its limits of bytes and requests a second.
    pub bounds: Bounds,
    /// True if an overlay is on top of its image.
    pub has_snapshot: bool,
}

impl Monitor {
    /// Reads all managed properties.
    pub fn guest(&mut self) -> Result<Guest> {
        let description = self.property(&format!("{OBJECTS}/description"), "data")?;
        let sizes = self.node_sizes()?;
        let (mut disks, mut nics) = (BTreeMap::new(), BTreeMap::new());
        for disk in self.children(DEVICES, "disk-")? {
            let limits = self.property(&throttle(&disk), "limits")?.unwrap_or_default();
            let limit = |name: &str| limits[name].as_u64().unwrap_or(0);
            let (bps, iops) = (limit("bps-total"), limit("iops-total"));
            let bounds = Bounds { bps, iops };
            let size = sizes.get(&node_name(&disk)).copied().unwrap_or(0);
            let has_snapshot = self.has_snapshot(&disk)?;
            let found = Disk { size, bounds, has_snapshot };
            disks.insert(disk, found);
        }
        for nic in self.children(DEVICES, "nic-")? {
            // `None`: it was removed since.
            if let Some(mac) = self.mac(&nic)? {
                nics.insert(nic, mac);
            }
        }
        Ok(Guest {
            boot: self.boot()?,
            is_running: self.run::<qmp::query_status>(json!({}))?.running,
            memory: self.run::<qmp::query_memory_size_summary>(json!({}))?.base_memory,
            description: description
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            disks,
            nics,
        })
    }

    /// Reads the value that identifies the process.
    pub fn boot(&mut self) -> Result<String> {
        Ok(self.run::<qmp::query_uuid>(json!({}))?.UUID)
    }

    /// Sets the description, text for users.
    pub fn describe(&mut self, text: &str) -> Result<()> {
        let path = format!("{OBJECTS}/description");
        self.run::<qmp::qom_set>(json!({ "path": path, "property": "data", "value": text }))?;
        Ok(())
    }

    /// Lets the processor run, or pauses it.
    pub fn set_running(&mut self, is_running: bool) -> Result<()> {
        match is_running {
            true => self.run::<qmp::cont>(json!({}))?,
            false => self.run::<qmp::stop>(json!({}))?,
        };
        Ok(())
    }

    /// Presses the power button; call it until the guest notices. If its processor is paused, it
    /// cannot notice, so its process ends at once. With `is_forced` it also ends at once.
    pub fn stop(&mut self, is_forced: bool) -> Result<()> {
        let is_running = self.run::<qmp::query_status>(json!({}))?.running;
        let asked = match is_running && !is_forced {
            true => self.run::<qmp::system_powerdown>(json!({})),
            false => self.run::<qmp::quit>(json!({})),
        };
        match asked {
            // The process may end before it answers.
            Ok(_) | Err(Error::NoAnswer(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Plugs a disk in, unless it is plugged in, and sets its bounds. Its file must exist.
    pub fn plug_disk(&mut self, disk: &str, file: &Path, bounds: Bounds) -> Result<()> {
        if self.has_device("disk-", disk)? {
            return self.set_bounds(disk, bounds);
        }
        // The rest of a removal: its file may be another one.
        self.remove_node(disk)?;
        self.run::<qmp::object_add>(devices::throttle_group(disk, bounds))?;
        self.run::<qmp::blockdev_add>(devices::disk_node(disk, file))?;
        self.run::<qmp::device_add>(devices::disk_device(disk))?;
        Ok(())
    }

    /// Fails while a disk is backed up or committed; QEMU would let the disk go nevertheless.
    pub fn refuse_while_a_job_runs(&mut self, disk: &str) -> Result<()> {
        let jobs = self.run::<qmp::query_jobs>(json!({}))?;
        let of_disk = |job: &&qmp::JobInfo| job.id.split(['.', '_']).next() == Some(disk);
        match jobs.iter().find(of_disk) {
            Some(job) => Err(Error::Refused(format!("the job {} uses the disk", job.id))),
            None => Ok(()),
        }
    }

    /// Unplugs a disk, and removes its node.
    pub fn unplug_disk(&mut self, disk: &str) -> Result<()> {
        self.device_del(&format!("disk-{disk}"))?;
        self.remove_node(disk)
    }

    fn set_bounds(&mut self, disk: &str, bounds: Bounds) -> Result<()> {
        let (path, property, limits) = (throttle(disk), "limits", devices::limits(bounds));
        self.run::<qmp::qom_set>(json!({ "path": path, "property": property, "value": limits }))?;
        Ok(())
    }

    /// Grows or shrinks a disk to `size` bytes, unless a job uses it.
    pub fn resize_disk(&mut self, disk: &str, size: u64) -> Result<()> {
        self.refuse_while_a_job_runs(disk)?;
        // An overlay's size is a multiple of a sector.
        let size = match self.has_snapshot(disk)? {
            true => size.next_multiple_of(512),
            false => size,
        };
        self.run::<qmp::block_resize>(json!({ "node-name": node_name(disk), "size": size }))?;
        Ok(())
    }

    /// Plugs a network interface in, unless there is one with its name.
    pub fn plug_nic(&mut self, nic: &str, mac: &str) -> Result<()> {
        if self.has_device("nic-", nic)? {
            return Ok(());
        }
        self.remove_netdev(nic)?;
        let net = format!("net-{nic}");
        self.run::<qmp::netdev_add>(json!({ "type": "hubport", "id": net, "hubid": 0 }))?;
        self.run::<qmp::device_add>(devices::nic_device(nic, mac))?;
        Ok(())
    }

    /// Asks the guest to release a network interface. It may take any time.
    pub fn begin_unplugging(&mut self, nic: &str) -> Result<()> {
        self.device_del(&format!("nic-{nic}"))
    }

    /// Removes the rest of an unplugged network interface.
    pub fn remove_netdev(&mut self, nic: &str) -> Result<()> {
        // Refused: it does not exist.
        match self.run::<qmp::netdev_del>(json!({ "id": format!("net-{nic}") })) {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the MAC address of a network interface; `None` if it is gone.
    pub fn mac(&mut self, nic: &str) -> Result<Option<String>> {
        let mac = self.property(&format!("{DEVICES}/nic-{nic}"), "mac")?;
        Ok(mac.and_then(|mac| Some(mac.as_str()?.to_owned())))
    }

    fn has_device(&mut self, kind: &str, name: &str) -> Result<bool> {
        Ok(self.children(DEVICES, kind)?.iter().any(|known| known == name))
    }

    fn device_del(&mut self, device: &str) -> Result<()> {
        match self.run::<qmp::device_del>(json!({ "id": device })) {
            // "Device nic-lan is already in the process of unplug", or "not found".
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a disk's node and bounds, if they exist.
    fn remove_node(&mut self, disk: &str) -> Result<()> {
        // The controller releases a disk without the guest, but a moment after its answer.
        while self.node_sizes()?.contains_key(&node_name(disk)) {
            match self.run::<qmp::blockdev_del>(json!({ "node-name": node_name(disk) })) {
                Err(Error::Refused(_)) => thread::sleep(Duration::from_millis(1)),
                removed => drop(removed?),
            }
        }
        self.remove_overlay(disk)?;
        if self.children(OBJECTS, "throttle-")?.iter().any(|name| name == disk) {
            self.run::<qmp::object_del>(json!({ "id": format!("throttle-{disk}") }))?;
        }
        Ok(())
    }

    /// Returns the sizes of all nodes in bytes, by name.
    pub(crate) fn node_sizes(&mut self) -> Result<BTreeMap<String, u64>> {
        let nodes = self.run::<qmp::query_named_block_nodes>(json!({ "flat": true }))?;
        let sizes = nodes.into_iter().map(|node| {
            let size = u64::try_from(node.image.base.virtual_size).unwrap_or(0);
            (node.node_name.unwrap_or_default(), size)
        });
        Ok(sizes.collect())
    }
}

fn throttle(disk: &str) -> String {
    format!("{OBJECTS}/throttle-{disk}")
}

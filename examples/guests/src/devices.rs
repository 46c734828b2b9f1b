//! The devices of a guest as QEMU's JSON, for its command line and its monitor.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::host::{Bounds, Parameters};
use crate::snapshot;

/// Returns the throttle group with a disk's bounds: an object that outlives the disk's device.
pub(crate) fn throttle_group(disk: &str, bounds: Bounds) -> Value {
    let id = format!("throttle-{disk}");
    json!({ "qom-type": "throttle-group", "id": id, "limits": limits(bounds) })
}

/// Returns the limits of a throttle group. Limits not mentioned stay.
pub(crate) fn limits(bounds: Bounds) -> Value {
    json!({ "bps-total": bounds.bps, "iops-total": bounds.iops })
}

/// Returns the node of a disk: its image, behind its bounds. While there is a snapshot, the overlay
/// is between the two. The image is always raw and never probed, whatever a guest writes at its
/// beginning.
pub(crate) fn disk_node(disk: &str, file: &Path) -> Value {
    let image = json!({
        "driver": "raw", "node-name": image_name(disk),
        "file": { "driver": "file", "filename": file },
    });
    let overlay = snapshot::overlay_of(file);
    let child = match overlay.exists() {
        true => json!({
            "driver": "qcow2", "node-name": overlay_name(disk),
            "file": { "driver": "file", "filename": overlay }, "backing": image,
        }),
        false => image,
    };
    json!({
        "driver": "throttle", "node-name": node_name(disk),
        "throttle-group": format!("throttle-{disk}"), "file": child,
    })
}

/// Returns the device of a disk.
pub(crate) fn disk_device(disk: &str) -> Value {
    json!({
        "driver": "scsi-hd", "id": format!("disk-{disk}"), "drive": node_name(disk),
        "bus": "scsi.0",
    })
}

/// Returns the device of a network interface.
pub(crate) fn nic_device(nic: &str, mac: &str) -> Value {
    json!({
        "driver": "virtio-net-pci", "id": format!("nic-{nic}"), "netdev": format!("net-{nic}"),
        "mac": mac,
    })
}

/// Returns the name of a disk's node. It has no full stop, unlike the names of backups.
pub(crate) fn node_name(disk: &str) -> String {
    format!("node-{disk}")
}

/// Returns the name of the node with a disk's image.
pub(crate) fn image_name(disk: &str) -> String {
    format!("image-{disk}")
}

/// Returns the name of the node with a disk's overlay.
pub(crate) fn overlay_name(disk: &str) -> String {
    format!("overlay-{disk}")
}

/// Returns QEMU's arguments for all devices at a guest's start. `file` returns a disk's file; a
/// disk without one is left out.
pub(crate) fn arguments(
    parameters: &Parameters,
    file: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<String> {
    let mut arguments = vec!["-device".to_owned(), "virtio-scsi-pci,id=scsi".to_owned()];
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    let description = &parameters.description;
    let description = json!({ "qom-type": "secret", "id": "description", "data": description });
    add("-object", description.to_string());
    for (disk, bounds) in &parameters.disks {
        if let Some(file) = file(disk) {
            add("-object", throttle_group(disk, *bounds).to_string());
            add("-blockdev", disk_node(disk, &file).to_string());
            add("-device", disk_device(disk).to_string());
        }
    }
    for (nic, mac) in &parameters.nics {
        add("-netdev", format!("hubport,id=net-{nic},hubid=0"));
        add("-device", nic_device(nic, mac).to_string());
    }
    arguments
}

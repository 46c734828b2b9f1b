//! The file of an overlay: an empty qcow2 image, by QEMU's docs/interop/qcow2.txt.
//!
//! `blockdev-create` can make one, too. But QEMU 7.2 aborts if another client asks for its nodes
//! meanwhile (`qcow2_get_specific_info`), which another agent may do at any moment. And this needs
//! no QEMU.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Clusters are 2^16 bytes large.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// The bytes covered by an entry of the first table: it refers to a table of 8192 clusters of data.
const ENTRY: u64 = CLUSTER / 8 * CLUSTER;

/// The number of entries in QEMU's largest first table.
const MAX_ENTRIES: u64 = (32 << 20) / 8;

/// The offset of the disk's size.
const SIZE_AT: u64 = 24;

/// Makes the file of an overlay without data. It names no image below it, so QEMU probes none: the
/// command line names the image. No reader sees half of the file.
///
/// # Errors
///
/// If the file cannot be written, or the disk is larger than 2 PiB.
pub(crate) fn create(path: &Path, size: u64) -> io::Result<()> {
    // QEMU's disks have whole sectors.
    let size = size.next_multiple_of(512);
    let entries = size.div_ceil(ENTRY);
    if entries > MAX_ENTRIES {
        let message = format!("a disk of {size} bytes is too large for an overlay");
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    // The header, the table of reference counts, one block of them, and the first table.
    let clusters = 3 + (entries * 8).div_ceil(CLUSTER);
    let mut header = Vec::from(*b"QFI\xfb");
    let mut add = |bytes: &[u8]| header.extend_from_slice(bytes);
    add(&3_u32.to_be_bytes());
    // No image below.
    add(&[0; 12]);
    add(&CLUSTER_BITS.to_be_bytes());
    add(&size.to_be_bytes());
    // No encryption.
    add(&[0; 4]);
    add(&u32::try_from(entries).unwrap_or(u32::MAX).to_be_bytes());
    for offset in [3 * CLUSTER, CLUSTER] {
        add(&offset.to_be_bytes());
    }
    // One cluster of reference counts.
    add(&1_u32.to_be_bytes());
    // No internal snapshots, and no features.
    add(&[0; 12 + 24]);
    // A reference count has 2^4 bits, and the header this length.
    add(&4_u32.to_be_bytes());
    add(&104_u32.to_be_bytes());
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.set_len(clusters * CLUSTER)?;
    file.write_all(&header)?;
    file.seek(SeekFrom::Start(CLUSTER))?;
    file.write_all(&(2 * CLUSTER).to_be_bytes())?;
    file.seek(SeekFrom::Start(2 * CLUSTER))?;
    for _ in 0..clusters {
        file.write_all(&1_u16.to_be_bytes())?;
    }
    fs::rename(part, path)
}

/// Returns the size of an overlay's disk in bytes.
///
/// # Errors
///
/// If the file cannot be read.
pub fn size_of(path: &Path) -> io::Result<u64> {
    let (mut file, mut size) = (File::open(path)?, [0; 8]);
    file.seek(SeekFrom::Start(SIZE_AT))?;
    file.read_exact(&mut size)?;
    Ok(u64::from_be_bytes(size))
}

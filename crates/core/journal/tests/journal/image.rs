//! The bytes of a disk; the simulated disk of `trueup-control` includes this file.

/// Shortens an image, or lengthens it with zeros. `Vec::resize` is slow where it is not optimised.
pub(crate) fn set_len(bytes: &mut Vec<u8>, len: usize) {
    bytes.truncate(len);
    bytes.extend(vec![0; len - bytes.len()]);
}

/// Writes, even past the end, as files allow.
pub(crate) fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    if bytes.len() < end {
        set_len(bytes, end);
    }
    bytes[offset as usize..end].copy_from_slice(data);
}

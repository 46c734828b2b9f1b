//! The header of a journal's file: its version, the marks of durable commits, the number of the
//! writing opener, and the journal's id. [`JournalFile`](crate::journal_file::JournalFile) explains
//! their use.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::{Error, Storage};

/// The length of the longest journal, in bytes. The bytes read and held in memory to open a file
/// grow with its length, even if it has holes.
pub(crate) const MAX_LEN: u64 = 16 << 30;

/// The header's length in bytes. redb's bytes follow.
pub(crate) const HEADER_LEN: u64 = 4096;

/// The length of redb's own header, which follows this one, in bytes.
pub(crate) const REDB_HEADER_LEN: u64 = 320;
/// The offset of the flags in redb's header.
pub(crate) const REDB_FLAGS: u64 = 9;
/// The flag of a file that is in use, or was not closed.
pub(crate) const REDB_RECOVER: u8 = 2;
/// The first of redb's bytes. They identify a journal whose header is damaged.
const REDB_MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
/// The offsets of the two mark blocks. Marks are written to them in turn, so that a torn write
/// leaves one of them whole.
pub(crate) const MARK_OFFSETS: [u64; 2] = [512, 1024];
/// The offset of the writing opener's number.
pub(crate) const OPENER_OFFSET: u64 = 1536;
/// The offset of the journal's id.
pub(crate) const ID_OFFSET: u64 = 2048;
/// The length of an id with its checksum, in bytes.
const ID_LEN: usize = 20;
/// The length of a number with its checksum, in bytes.
pub(crate) const NUMBER_LEN: usize = 12;
/// The first bytes of a journal. The format's version follows, then a checksum.
const MAGIC: &[u8; 16] = b"trueup-journal\n\0";
const VERSION: u32 = 3;

/// The content of a journal's header.
#[derive(Debug)]
pub(crate) struct Header {
    /// The number of the last commit known to be durable; 0 if none is.
    pub(crate) marked: u64,
    /// The block for the next mark.
    pub(crate) next_mark: u64,
    /// The number of the last opener that wrote; 0 if there was none.
    pub(crate) opener: u64,
    /// The journal's id; `None` if an earlier version made the journal, or if the id is damaged.
    pub(crate) id: Option<JournalId>,
    /// The error if the header differs from what was written.
    pub(crate) damage: Option<Error>,
}

/// Returns the header of a new journal.
pub(crate) fn new_header(id: JournalId) -> Vec<u8> {
    let mut header = vec![0; HEADER_LEN as usize];
    header[ID_OFFSET as usize..][..ID_LEN].copy_from_slice(&sealed_id(id));
    header[..16].copy_from_slice(MAGIC);
    header[16..20].copy_from_slice(&VERSION.to_le_bytes());
    seal(&mut header[..24]);
    header
}

/// Reads the header, even a damaged one.
///
/// # Errors
///
/// [`Format`](crate::ErrorKind::Format) if it is not a journal, or too long for one;
/// [`Damaged`](crate::ErrorKind::Damaged) if the file is shorter than the header.
pub(crate) fn read_header(storage: &dyn Storage) -> Result<Header, Error> {
    let len = storage.len().map_err(unread)?;
    let mut bytes = vec![0; len.min(HEADER_LEN + REDB_MAGIC.len() as u64) as usize];
    storage.read(0, &mut bytes).map_err(unread)?;
    let has_magic = bytes.starts_with(MAGIC) || MAGIC.starts_with(&bytes);
    let body = bytes.get(HEADER_LEN as usize..);
    if !has_magic && body != Some(REDB_MAGIC) {
        return Err(Error::format("the file does not begin as a journal does"));
    }
    if len < HEADER_LEN {
        return Err(Error::damaged(format!(
            "the file has {len} bytes, less than its header alone"
        )));
    }
    if len > MAX_LEN {
        return Err(Error::format(format!(
            "the file has {len} bytes, and a journal at most {MAX_LEN}"
        )));
    }
    let is_whole = has_magic && is_sealed(&bytes[..24]);
    let version = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
    if is_whole && version != VERSION {
        return Err(Error::format(format!("the journal is of version {version}, not {VERSION}")));
    }
    let mut header = Header {
        marked: 0,
        next_mark: 0,
        opener: number_at(&bytes, OPENER_OFFSET).unwrap_or_default(),
        id: id_at(&bytes),
        damage: (!is_whole).then(|| Error::damaged("the header's checksum does not match")),
    };
    for (slot, at) in MARK_OFFSETS.into_iter().enumerate() {
        if let Some(commit) = number_at(&bytes, at).filter(|commit| *commit > header.marked) {
            header.marked = commit;
            header.next_mark = slot as u64 + 1;
        }
    }
    Ok(header)
}

/// Returns the error for a header that cannot be read.
pub(crate) fn unread(cause: std::io::Error) -> Error {
    Error::os("cannot read the header", cause)
}

/// Writes the checksum of all bytes but the last four into the last four.
fn seal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - 4);
    sum.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
}

/// Returns a number with its checksum.
pub(crate) fn sealed_number(number: u64) -> [u8; NUMBER_LEN] {
    let mut bytes = [0; NUMBER_LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// Returns an id with its checksum.
pub(crate) fn sealed_id(id: JournalId) -> [u8; ID_LEN] {
    let mut bytes = [0; ID_LEN];
    bytes[..16].copy_from_slice(id.as_bytes());
    seal(&mut bytes);
    bytes
}

fn id_at(header: &[u8]) -> Option<JournalId> {
    let bytes: &[u8; ID_LEN] = header.get(ID_OFFSET as usize..)?.first_chunk()?;
    let id = *bytes.first_chunk()?;
    is_sealed(bytes).then_some(JournalId::from_bytes(id))
}

/// Returns the number in the header; `None` if its checksum does not match.
fn number_at(header: &[u8], offset: u64) -> Option<u64> {
    let bytes = header.get(offset as usize..)?.first_chunk()?;
    parse_number(bytes)
}

pub(crate) fn parse_number(bytes: &[u8; NUMBER_LEN]) -> Option<u64> {
    let number = *bytes.first_chunk()?;
    is_sealed(bytes).then(|| u64::from_le_bytes(number))
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (content, sum) = bytes.split_at(bytes.len() - 4);
    sum == crc32fast::hash(content).to_le_bytes()
}

/// A journal's random id, which no other journal has. A journal that was deleted and made again, or
/// repaired, has a new id; a journal [recreated](crate::Journal::recreate) with all records keeps
/// its id.
///
/// Anything signed for a journal names its id. So it is not valid for a journal without the record
/// of its use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalId([u8; 16]);

impl JournalId {
    /// Returns the id with these 16 bytes, for a program that keeps ids itself.
    pub fn from_bytes(bytes: [u8; 16]) -> JournalId {
        JournalId(bytes)
    }

    /// Returns the 16 bytes, which are random.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn random() -> Result<JournalId, Error> {
        let mut bytes = [0; 16];
        // The kernel fills so few bytes at once. It waits only if the host has just booted.
        match rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())) {
            Ok(16) => Ok(JournalId(bytes)),
            Ok(_) => Err(Error::os("cannot make an id", std::io::ErrorKind::UnexpectedEof)),
            Err(errno) => Err(Error::os("cannot make an id", errno)),
        }
    }
}

/// Formats the id as 32 hexadecimal digits.
impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32_of_ieee_802_3() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        assert!(!is_sealed(&[0; 12]), "zeros are no mark");
    }
}

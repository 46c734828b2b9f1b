//! Archives as the kernel unpacks them at boot: cpio in its "newc" form (kernel documentation,
//! driver-api/early-userspace/buffer-format.rst). Written only, and all of it root's.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive under way. Parents of what is put in come by themselves.
pub(super) struct Archive<W> {
    out: W,
    entries: u32,
    paths: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Archive<W> {
        Archive {
            out,
            entries: 0,
            paths: BTreeSet::new(),
        }
    }

    pub(super) fn directory(&mut self, path: &Path) -> io::Result<()> {
        for path in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            self.entry(path, DIRECTORY, &[])?;
        }
        Ok(())
    }

    /// A file, executable like all of them.
    pub(super) fn file(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.with_parents(path, PROGRAM, content)
    }

    pub(super) fn link(&mut self, path: &Path, to: &str) -> io::Result<()> {
        self.with_parents(path, LINK, to.as_bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.record("TRAILER!!!", 0, &[])?;
        self.out.flush()
    }

    fn with_parents(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.entry(path, mode, content)
    }

    /// Once for each path: what comes second is what was there.
    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let name = path.trim_start_matches('/');
        if name.is_empty() || !self.paths.insert(name.to_owned()) {
            return Ok(());
        }
        self.record(name, mode, content)
    }

    fn record(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let name_size =
            u32::try_from(name.len() + 1).map_err(|_| io::ErrorKind::InvalidFilename)?;
        self.entries += 1;
        let (links, owner, time, device, check) = (1, 0, 0, 0, 0);
        let fields = [
            self.entries,
            mode,
            owner,
            owner,
            links,
            time,
            size,
            device,
            device,
            device,
            device,
            name_size,
            check,
        ];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.padded(&[name.as_bytes(), b"\0"].concat(), 6 + 8 * fields.len())?;
        self.padded(content, 0)
    }

    /// Bytes, and zeros until they and what is `before` them fill whole words.
    fn padded(&mut self, bytes: &[u8], before: usize) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let over = (before + bytes.len()) % 4;
        self.out.write_all(&[0; 3][..(4 - over) % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_padded_and_parents_come_first() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file(Path::new("/a/b"), b"12345").unwrap();
        archive.file(Path::new("/a/b"), b"again").unwrap();
        archive.link(Path::new("/a/c"), "b").unwrap();
        archive.finish().unwrap();

        let mut names = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let field = |at: usize| {
                let text = std::str::from_utf8(&rest[6 + 8 * at..14 + 8 * at]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&rest[..6], b"070701");
            let (size, name) = (field(6), field(11));
            let content = (110 + name).next_multiple_of(4);
            let text = |from: usize, len: usize| {
                String::from_utf8_lossy(&rest[from..from + len]).into_owned()
            };
            names.push((
                text(110, name - 1),
                format!("{:o}", field(1)),
                text(content, size),
            ));
            rest = &rest[(content + size).next_multiple_of(4)..];
        }
        let entry = |name: &str, mode: &str, content: &str| {
            (name.to_owned(), mode.to_owned(), content.to_owned())
        };
        assert_eq!(
            names,
            [
                entry("a", "40755", ""),
                entry("a/b", "100755", "12345"),
                entry("a/c", "120777", "b"),
                entry("TRAILER!!!", "0", ""),
            ]
        );
    }
}

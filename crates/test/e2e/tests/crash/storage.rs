//! Makes and opens a journal with points around every act on its file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use trueup_journal::{Journal, Storage};
use trueup_testkit::crash::Points;

/// Does the same as [`Journal::open`], but without the lock, which dies with its holder: writes a
/// new journal beside, renames it, and syncs the directory.
pub(crate) fn open(path: &Path, points: &Points) -> Journal {
    if !path.exists() {
        let new = path.with_extension("new");
        let file = points.around("creation of the journal", || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true);
            options.open(&new)
        });
        Journal::create_on(Watched::new(file.unwrap(), points)).unwrap();
        points.around("rename of the journal", || fs::rename(&new, path)).unwrap();
        let directory = File::open(path.parent().unwrap()).unwrap();
        points.around("sync of the directory", || directory.sync_all()).unwrap();
    }
    let file = OpenOptions::new().read(true).write(true).open(path);
    Journal::open_on(Watched::new(file.unwrap(), points)).unwrap()
}

#[derive(Debug)]
struct Watched {
    file: File,
    points: Points,
}

impl Watched {
    fn new(file: File, points: &Points) -> Watched {
        let points = points.clone();
        Watched { file, points }
    }
}

impl Storage for Watched {
    fn len(&self) -> io::Result<u64> {
        Storage::len(&self.file)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(&self.file, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.points.around("write", || Storage::write(&self.file, offset, data))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.points.around("change of length", || Storage::set_len(&self.file, len))
    }

    fn sync(&self) -> io::Result<()> {
        self.points.around("sync", || Storage::sync(&self.file))
    }
}

//! The names of routing tables, and those that the system configures.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use trueup_diff::table;
use trueup_netlink::is_transient;

use crate::error::Error;

/// The largest file of names that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The numbers of routing tables by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames(BTreeMap<String, u32>);

impl Default for TableNames {
    /// Returns `main`, `default` and `local`, which every system has.
    fn default() -> TableNames {
        let fixed = [
            ("main", table::MAIN),
            ("default", table::DEFAULT),
            ("local", table::LOCAL),
        ];
        TableNames(fixed.map(|(name, id)| (name.to_owned(), id)).into())
    }
}

impl TableNames {
    /// Reads the names that the system configures: those in `/usr/share/iproute2`, overridden by
    /// those in `/etc/iproute2`, from `rt_tables` and `rt_tables.d/*.conf`. As iproute2 does, it
    /// skips a file that is missing, unreadable, or not a regular file.
    ///
    /// # Errors
    ///
    /// When a file is larger than 1 MiB, or cannot be read for lack of a resource that becomes free
    /// again, such as a descriptor: to skip it would make its names unknown. The error names the
    /// file.
    pub fn system() -> Result<TableNames, Error> {
        let mut tables = TableNames::default();
        for base in ["/usr/share/iproute2", "/etc/iproute2"] {
            for path in rt_tables(Path::new(base))? {
                tables.add_file(&path)?;
            }
        }
        Ok(tables)
    }

    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let read = fs::metadata(path).and_then(|found| match found.is_file() {
            true => File::open(path)?
                .take(MAX_BYTES + 1)
                .read_to_end(&mut bytes),
            // Opening a FIFO would wait for its other end.
            false => Err(io::ErrorKind::InvalidInput.into()),
        });
        if skip_unreadable(path, read)?.is_none() {
            return Ok(());
        }
        if bytes.len() as u64 > MAX_BYTES {
            let why = io::Error::other(
                "it is larger than 1 MiB: split it, or remove what is no name of a table",
            );
            return Err(unreadable(path, &why));
        }
        self.add(&String::from_utf8_lossy(&bytes));
        Ok(())
    }

    /// Adds the names of a text in the format of `rt_tables`: a number, white space, a name.
    /// Comments start with `#`. Other lines are skipped, and so is number 0, which is no table.
    pub fn add(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let (Some(number), Some(name), None) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let number = match number.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            if let Ok(number @ 1..) = number {
                self.0.insert(name.to_owned(), number);
            }
        }
    }

    /// Returns the number of a name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }

    /// Iterates over all names in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Turns an error into `None`, unless it is transient.
fn skip_unreadable<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.raw_os_error().is_some_and(is_transient) => {
            Err(unreadable(path, &error))
        }
        read => Ok(read.ok()),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::unreadable(&path.display().to_string(), error)
}

fn rt_tables(base: &Path) -> Result<Vec<PathBuf>, Error> {
    let more = base.join("rt_tables.d");
    let entries = skip_unreadable(&more, fs::read_dir(&more))?;
    let mut more: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "conf"))
        .collect();
    more.sort();
    more.insert(0, base.join("rt_tables"));
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_rt_tables_is_read_as_iproute2_reads_it() {
        let mut tables = TableNames::default();
        tables.add("# names\n100 blue # ours\n0x65\tgreen\n0 unspec\nx y\n200\n4294967296 big\n");
        assert_eq!(tables.number("blue"), Some(100));
        assert_eq!(tables.number("green"), Some(0x65));
        assert_eq!(tables.number("main"), Some(254));
        let names: Vec<_> = tables.names().collect();
        assert_eq!(names, ["blue", "default", "green", "local", "main"]);
    }

    #[test]
    fn files_of_a_directory_come_in_order_after_the_main_one() {
        let base = std::env::temp_dir().join(format!("trueup-tables-{}", std::process::id()));
        fs::create_dir_all(base.join("rt_tables.d")).unwrap();
        for name in ["b.conf", "a.conf", "skipped.txt"] {
            fs::write(base.join("rt_tables.d").join(name), "").unwrap();
        }
        let names: Vec<_> = rt_tables(&base)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["rt_tables", "a.conf", "b.conf"]);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_now_or_is_too_large_is_named() {
        let path = std::env::temp_dir().join(format!("trueup-large-{}", std::process::id()));
        fs::write(&path, "\n".repeat(MAX_BYTES as usize) + "100 blue\n").unwrap();
        let error = TableNames::default().add_file(&path).unwrap_err();
        let shown = path.display().to_string();
        assert!(
            error.to_string().starts_with(&format!("{shown}: ")),
            "{error}"
        );
        assert!(error.to_string().contains("larger than 1 MiB") && !error.is_transient());
        fs::write(&path, "\n".repeat(MAX_BYTES as usize - 9) + "100 blue\n").unwrap();
        let mut tables = TableNames::default();
        tables.add_file(&path).unwrap();
        assert_eq!(tables.number("blue"), Some(100));
        fs::remove_file(&path).unwrap();

        let none: io::Result<()> = Err(io::Error::from_raw_os_error(libc::EMFILE));
        let error = skip_unreadable(&path, none).unwrap_err();
        assert!(error.to_string().starts_with(&shown) && error.is_transient());
    }
}

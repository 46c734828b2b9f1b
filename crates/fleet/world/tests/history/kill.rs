//! The embedded store killed at every write, sync and change of length of its file. Every
//! acknowledged transaction must survive. Any other must survive as a whole or not at all.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_world::{Compare, Embedded, Entry, Revision, Store, Write};

/// The disk after a power loss: it keeps the writes up to the last sync, and some of those after
/// it.
#[derive(Debug, Default)]
struct Disk {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// The number of further operations that succeed.
    left: u64,
    done: u64,
}

#[derive(Clone, Debug)]
struct Backend(Arc<Mutex<Disk>>);

impl Backend {
    fn of(bytes: Vec<u8>, left: u64) -> Backend {
        Backend(Arc::new(Mutex::new(Disk { now: bytes.clone(), synced: bytes, left, done: 0 })))
    }

    fn operation<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> io::Result<T> {
        let mut disk = self.0.lock().unwrap();
        if disk.left == 0 {
            return Err(io::Error::other("killed"));
        }
        disk.left -= 1;
        disk.done += 1;
        Ok(work(&mut disk))
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap();
        let bytes = disk.now.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.operation(|disk| disk.now.resize(usize::try_from(len).unwrap(), 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operation(|disk| disk.synced.clone_from(&disk.now))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.operation(|disk| {
            let from = usize::try_from(offset).unwrap();
            disk.now[from..from + data.len()].copy_from_slice(data);
        })
    }
}

fn put(key: &str, value: &str, lease: Option<trueup_world::LeaseId>) -> Write {
    let (key, value) = (key.into(), value.into());
    Write::Put { key, value, lease }
}

/// Commits one transaction after the other, until one fails. Returns the acknowledged states, in
/// order.
fn work(store: &Embedded) -> Vec<(Revision, Vec<Entry>)> {
    let connection = store.connect();
    let mut states = vec![state(&*connection)];
    let Ok(lease) = connection.grant(Duration::from_secs(60)) else {
        return states;
    };
    for at in 0..6 {
        let value = at.to_string();
        let writes = [
            put("both", &value, None),
            put(&format!("each {at}"), &value, Some(lease)),
            match at % 2 {
                0 => put("now and then", &value, None),
                _ => Write::Delete(b"now and then".to_vec()),
            },
        ];
        match connection.commit(&[Compare::Absent(b"never".to_vec())], &writes) {
            Ok(Some(_)) => states.push(state(&*connection)),
            Ok(stale) => panic!("{stale:?}"),
            Err(_) => return states,
        }
    }
    if connection.revoke(lease).is_ok() {
        states.push(state(&*connection));
    }
    states
}

fn state(store: &dyn Store) -> (Revision, Vec<Entry>) {
    store.read(b"", None).unwrap()
}

#[test]
fn killed_at_every_write_the_store_has_what_it_acknowledged() {
    let whole = Backend::of(Vec::new(), u64::MAX);
    let all = work(&Embedded::open_on(whole.clone()).unwrap());
    assert_eq!(all.len(), 8);
    let operations = whole.0.lock().unwrap().done;
    for left in 0..operations {
        let killed = Backend::of(Vec::new(), left);
        let acknowledged = match Embedded::open_on(killed.clone()) {
            Ok(store) => work(&store),
            Err(_) => Vec::new(),
        };
        // A killed process leaves all writes, a power loss only those that were synced.
        let disk = killed.0.lock().unwrap();
        let images = [disk.now.clone(), disk.synced.clone()];
        drop(disk);
        for image in images {
            let opened = match Embedded::open_on(Backend::of(image, u64::MAX)) {
                Ok(store) => state(&*store.connect()),
                // Killed while the file was made.
                Err(error) => {
                    assert!(acknowledged.len() <= 1, "after {left}: {error}");
                    continue;
                }
            };
            let last = acknowledged.len().saturating_sub(1);
            let one_more = all.get(last + 1);
            assert!(
                opened == all[last] || Some(&opened) == one_more,
                "after {left}: {opened:?}, acknowledged {:?}",
                all[last]
            );
        }
    }
    println!("{operations} operations");
}

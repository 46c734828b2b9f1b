//! Keys and values of sysctls, and a pass over one.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use trueup_reconcile::{MemoryLedger, PassInput, Report as _, Source as _};
use trueup_sysctl::{Desired, Files, Key, Namespace, Options, Sysctl, Value};

/// Three lines: a key, the desired value, and the rest is the present value.
///
/// An accepted key is shown as text that is accepted as the same key, and its file is below
/// `/proc/sys/net`. An accepted value is one line. A pass over the two ends with the desired value,
/// and a second one writes nothing. Once no value is desired, the previous value returns, if it was
/// text.
pub fn sysctl(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default()).ok();
    let (Some(key), Some(value)) = (text(), text()) else {
        return;
    };
    let now = parts.next().unwrap_or_default();
    let (key, value) = (key.parse::<Key>(), value.parse::<Value>());
    if let Ok(key) = &key {
        let shown = key.to_string();
        assert_eq!(&shown.parse::<Key>().expect("it is shown as a key"), key);
        assert_eq!(&key.path().parse::<Key>().expect("its path is a key"), key);
        let file = key.file();
        let mut parts = file.strip_prefix("/proc/sys/net").expect("below net").components();
        assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))));
    }
    if let Ok(value) = &value {
        assert!(!value.as_str().contains(['\n', '\0']) && value.as_str().len() < 4096);
        assert_eq!(value.as_str().parse().as_ref().ok(), Some(value));
    }
    if let (Ok(key), Ok(value)) = (key, value) {
        pass(key, value, now);
    }
}

fn pass(key: Key, value: Value, now: &[u8]) {
    let file = OneFile(Arc::new(Mutex::new((now.to_vec(), 0))));
    let (mut source, mut ledger) = (Sysctl::with_files(file.clone()), MemoryLedger::default());
    let (here, options) = (Namespace::current(), Options::default().with_revert(true));
    let mut desired = Desired::default();
    desired.insert(key, value).expect("it is the first");
    let mut reconcile = |desired: &Desired| {
        let report = source.reconcile(PassInput::new(&here, desired, &mut ledger, &options));
        report.expect("the ledger is in memory, and this namespace is there")
    };
    let report = reconcile(&desired);
    let Ok(text) = std::str::from_utf8(now) else {
        assert!(!report.converged() && file.get().1 == 0);
        return;
    };
    assert!(report.converged(), "{:?}", report.ops());
    let (_, writes) = file.get();
    assert!(writes <= 1);
    let report = reconcile(&desired);
    assert!(report.converged() && report.ops().is_empty());
    assert_eq!(file.get().1, writes);
    let report = reconcile(&Desired::default());
    assert!(report.converged());
    let words = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let words: Vec<_> = text.split_ascii_whitespace().map(str::to_owned).collect();
        words.join(" ")
    };
    if report.findings().is_empty() {
        assert_eq!(words(&file.get().0), words(text.as_bytes()));
    }
}

/// A file with a value that keeps writes, and their number.
#[derive(Clone)]
struct OneFile(Arc<Mutex<(Vec<u8>, u32)>>);

impl OneFile {
    fn get(&self) -> (Vec<u8>, u32) {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone()
    }
}

impl Files for OneFile {
    fn read(&self, _: &Key) -> io::Result<Vec<u8>> {
        Ok(self.get().0)
    }

    fn write(&self, _: &Key, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner = (bytes.to_vec(), inner.1 + 1);
        Ok(bytes.len())
    }
}

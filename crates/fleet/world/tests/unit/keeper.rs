//! The events that a keeper reports.

use super::*;
use crate::{ErrorKind, Export};

#[test]
fn what_lasts_is_reported_once_and_so_is_its_end() {
    let full = || Error::new(ErrorKind::Store, "etcd: no space");
    let away = || Error::new(ErrorKind::Unavailable, "refused");
    let (mut reported, since) = (Reported::default(), Some(SystemTime::UNIX_EPOCH));
    assert!(matches!(reported.failed(full(), None), Some(SessionEvent::Failed(_))));
    for _ in 0..3 {
        assert!(reported.failed(full(), None).is_none());
    }
    assert!(matches!(reported.failed(away(), since), Some(SessionEvent::CutOff { .. })));
    assert!(reported.failed(away(), since).is_none());
    assert!(reported.failed(full(), None).is_none(), "it lasts");
    let another = Error::new(ErrorKind::Store, "permission denied");
    assert!(matches!(reported.failed(another, None), Some(SessionEvent::Failed(_))));
    assert!(matches!(reported.renewed(None), Some(SessionEvent::Reconnected)));
    assert!(reported.renewed(None).is_none());
    let restored = |made: usize, failed: usize| {
        let outcomes = (0..made + failed).map(|at| {
            let key = Export::new("k", [at as u8], "").key("a");
            (key, if at < made { Ok(true) } else { Err(full()) })
        });
        Exported { outcomes: outcomes.collect(), ..Exported::default() }
    };
    assert!(reported.renewed(Some(&restored(0, 2))).is_some());
    assert!(reported.renewed(Some(&restored(0, 2))).is_none());
    assert!(reported.renewed(Some(&restored(1, 1))).is_some());
}

//! What a keeper reports.

use super::*;
use crate::ErrorKind;

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
    let alive = Renewed::Alive(Duration::from_secs(5));
    assert!(matches!(reported.renewed(&alive), Some(SessionEvent::Reconnected)));
    assert!(reported.renewed(&alive).is_none());
    let restored = |exported, failed| Renewed::Restored { exported, failed };
    assert!(reported.renewed(&restored(0, 2)).is_some());
    assert!(reported.renewed(&restored(0, 2)).is_none());
    assert!(reported.renewed(&restored(1, 1)).is_some());
}

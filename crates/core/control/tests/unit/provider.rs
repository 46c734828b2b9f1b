//! Tests of a provider's last known state.

use super::*;
use crate::ErrorKind;

#[test]
fn a_failing_provider_keeps_what_was_known_until_it_is_stale() {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let fail = || Err(Error::new(ErrorKind::Provider, "no route to it"));
    let bound = Duration::from_secs(60);
    let known = Some(Objects::new());
    let mut last = LastKnown::new();
    last.update(fail(), at(0), bound);
    assert_eq!(last.desired(), None);
    assert!(last.failing().is_some());
    last.update(Ok(known.clone()), at(10), bound);
    assert!(last.failing().is_none());
    for seconds in [11, 70] {
        last.update(fail(), at(seconds), bound);
        assert_eq!(last.desired(), known.as_ref());
        assert_eq!(last.failing().unwrap().0, at(11));
    }
    last.update(fail(), at(71), bound);
    assert_eq!(last.desired(), None);
    last.update(fail(), at(20), bound);
    assert_eq!(last.desired(), None);
    last.update(Ok(None), at(80), bound);
    assert!(last.failing().is_none());
}

//! The operator's grants in the embedded store: who may put them, and how readers treat them.

mod list;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use trueup_reconcile::Hints;
use trueup_world::{
    Access, Embedded, ErrorKind, Grants, GrantsCheck, GrantsError, GrantsFollower, Store,
    WatchConfig, World, Write, grants_public_key,
};

const PREFIX: &str = "/test";
const KEY: &[u8] = b"/test/cluster/grants";
const SECRET: [u8; 32] = [7; 32];
const DAY: Duration = Duration::from_secs(86_400);

fn check() -> GrantsCheck {
    GrantsCheck::new(&grants_public_key(&SECRET)).unwrap()
}

fn list(serial: u64) -> Grants {
    let grants = Grants::new(serial, SystemTime::now() - DAY, 2 * DAY).unwrap();
    grants.with_grant("a", "10.20.1.0/24".parse().unwrap())
}

fn signed(serial: u64) -> Vec<u8> {
    list(serial).sign(&SECRET).unwrap()
}

struct Stores {
    host: World,
    operator: World,
    /// The operator's connection, without this crate's checks.
    raw: Arc<dyn Store>,
}

fn stores() -> Stores {
    let store = Embedded::in_memory();
    let of_host = Access::of_host(PREFIX, "b", &[]).unwrap();
    let of_operator = Access::of_operator(PREFIX).unwrap();
    let raw = store.connect_with(of_operator);
    Stores {
        host: World::new(store.connect_with(of_host), PREFIX, "b").unwrap(),
        operator: World::new(Arc::clone(&raw), PREFIX, "ops").unwrap(),
        raw,
    }
}

impl Stores {
    fn write(&self, value: Option<Vec<u8>>) {
        let key = KEY.to_vec();
        let write = match value {
            Some(value) => Write::Put { key, value, lease: None },
            None => Write::Delete(key),
        };
        let committed = self.raw.commit(&[], &[write]).unwrap();
        assert!(committed.is_some());
    }
}

#[test]
fn an_operator_puts_grants_and_a_host_only_reads_them() {
    let stores = stores();
    let now = SystemTime::now();
    let mut check = check();
    let missing = stores.host.grants(&mut check, now, |_| Ok(()));
    assert!(matches!(missing, Err(GrantsError::Missing)), "{missing:?}");
    let one = signed(1);
    let refused = stores.host.put_grants(&one, &check, now).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let operators = check.clone();
    let put = |signed: &[u8]| stores.operator.put_grants(signed, &operators, now);
    assert!(put(&one).unwrap());
    assert!(!put(&one).unwrap());
    let read = stores.host.grants(&mut check, now, |_| Ok(())).unwrap();
    assert_eq!(read.serial(), 1);
    assert!(read.allows("a", "10.20.1.0/24".parse().unwrap()));

    let forged = list(9).sign(&[8; 32]).unwrap();
    assert_eq!(put(&forged).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(put(b"?").unwrap_err().kind(), ErrorKind::Invalid);
    let expired = Grants::new(9, now - 3 * DAY, DAY).unwrap();
    let expired = expired.sign(&SECRET).unwrap();
    assert_eq!(put(&expired).unwrap_err().kind(), ErrorKind::Invalid);
    put(&signed(3)).unwrap();
    let other = list(3).with_grant("m", "::/0".parse().unwrap());
    for older in [signed(2), other.sign(&SECRET).unwrap()] {
        assert_eq!(put(&older).unwrap_err().kind(), ErrorKind::Conflict);
    }
    // A list that is not the operator's is replaced.
    stores.write(Some(forged));
    let read = stores.host.grants(&mut check, now, |_| Ok(()));
    assert!(matches!(read, Err(GrantsError::Forged)), "{read:?}");
    put(&signed(4)).unwrap();
    let read = stores.host.grants(&mut check, now, |_| Ok(())).unwrap();
    assert_eq!(read.serial(), 4);
}

#[track_caller]
fn wait_for(
    follower: &GrantsFollower,
    what: &str,
    is_right: impl Fn(&Result<Arc<Grants>, GrantsError>) -> bool,
) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let grants = follower.grants();
        if is_right(&grants) {
            return;
        }
        assert!(Instant::now() < end, "not {what}: {grants:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_follower_never_goes_back_to_an_older_list() {
    let stores = stores();
    let follow = |check: GrantsCheck| {
        let (recorded, record) = std::sync::mpsc::channel();
        let recording = move |seen: &str| {
            let _ = recorded.send(seen.to_owned());
            Ok(())
        };
        let (config, hints) = (WatchConfig::default(), Hints::new(|| {}));
        let follower = GrantsFollower::start(&stores.host, check, recording, config, hints);
        (follower.unwrap(), record)
    };
    let (follower, recorded) = follow(check());
    wait_for(&follower, "missing", |it| matches!(it, Err(GrantsError::Missing)));
    let is = |serial| {
        move |it: &Result<Arc<Grants>, GrantsError>| {
            it.as_ref().is_ok_and(|it| it.serial() == serial)
        }
    };
    let is_rolled_back = |it: &Result<Arc<Grants>, GrantsError>| {
        matches!(it, Err(GrantsError::RolledBack { serial: 1, seen: 2 }))
    };
    stores.write(Some(signed(1)));
    wait_for(&follower, "the first", is(1));
    stores.write(Some(signed(2)));
    wait_for(&follower, "the second", is(2));
    // An attacker with the operator's user, but without the operator's key, replays the first list.
    stores.write(Some(signed(1)));
    wait_for(&follower, "rolled back", is_rolled_back);
    stores.write(None);
    wait_for(&follower, "missing", |it| matches!(it, Err(GrantsError::Missing)));
    let seen: Vec<String> = recorded.try_iter().collect();
    assert!(seen[0].starts_with("1 ") && seen[1].starts_with("2 "), "{seen:?}");
    assert_eq!(seen.len(), 2);
    drop(follower);

    stores.write(Some(signed(1)));
    let (follower, recorded) = follow(check().with_seen(&seen[1]).unwrap());
    wait_for(&follower, "rolled back", is_rolled_back);
    stores.write(Some(signed(3)));
    wait_for(&follower, "the third", is(3));
    assert_eq!(recorded.try_iter().count(), 1);
}

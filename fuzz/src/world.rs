//! Keys and values that another host may write into the store, malformed ones included.

use std::time::{Duration, UNIX_EPOCH};

use trueup_world::{
    Embedded, Error, ErrorKind, Export, Filter, Grants, GrantsCheck, GrantsError, Hash, Session,
    World, Write, grants_public_key,
};

/// The ranges of keys to write, each with the longest key in it.
const RANGES: [&str; 7] = [
    "/t/resources/*/",
    "/t/resources/a/",
    "/t/hosts/",
    "/t/shared/choices/s",
    "/t/cluster/deploys/",
    "/t/cluster/size",
    "/t/shared/strings/s",
];

/// A range, a key in it, a zero byte, and a value. A host reads everything from others, and for
/// unreadable entries reports an error of the kind malformed.
pub fn world(data: &[u8]) {
    let [range, rest @ ..] = data else { return };
    let range = RANGES[usize::from(*range) % RANGES.len()];
    let (name, value) = match rest.iter().position(|byte| *byte == 0) {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &[][..]),
    };
    let connect = Embedded::in_memory().connect();
    let world = |host| World::new(connect.clone(), "/t", host).expect("a name");
    let a = Session::begin(world("a"), "a", std::time::Duration::from_secs(60)).expect("alone");
    a.declare(&[Export::new("route", "x", "1")]).expect("alone");
    let key = [range.as_bytes(), name].concat();
    let before = connect.read(&key, None).expect("it is there").1;
    if before.iter().any(|it| it.key == key) {
        return;
    }
    let put = Write::Put { key: key.clone(), value: value.to_vec(), lease: None };
    if connect.commit(&[], &[put]).is_err() {
        return;
    }
    let b = world("a");
    let collected = b.collect(&[Filter::all()]).expect("it is there");
    let good = Export::new("route", "x", "1").key("a");
    assert_eq!(collected.resources[&good].value, b"1");
    let is_resource = range.starts_with("/t/resources/");
    if is_resource && name.split(|byte| *byte == b'/').count() == 3 {
        let count = collected.resources.len() + collected.malformed.len();
        assert_eq!(count, 2, "it is either a resource or malformed");
    }
    // A key has one name: what was read is written to the same key only.
    for (key, resource) in collected.resources {
        if key.exporter != "a" {
            continue;
        }
        let mut export = Export::new(key.kind, key.name, resource.value.clone());
        export.to = key.recipient;
        if resource.lease.is_none() {
            export = export.persist();
        }
        match a.export(&[export]) {
            Ok(exported) => assert!(!exported.is_changed(), "another key"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
        }
    }
    b.members().expect("a map");
    b.string_map("m").expect("a map");
    b.offers("s").expect("a set");
    malformed_at_most(b.string("s"));
    malformed_at_most(b.choice("s"));
    malformed_at_most(b.ideal_size());
    malformed_at_most(b.deploys());
    if let Ok(text) = str::from_utf8(value) {
        malformed_at_most(b.read_uri(text));
        if let Ok(hash) = text.parse::<Hash>() {
            assert_eq!(hash.to_string(), text);
        }
    }
}

/// A list of grants, as an operator writes it or as the store has it. A parsed list is signed, and
/// read again as the same; an unsigned one grants nothing.
pub fn grants(data: &[u8]) {
    const SECRET: [u8; 32] = [1; 32];
    let check = GrantsCheck::new(&grants_public_key(&SECRET)).expect("a public key");
    match check.open(data) {
        Err(GrantsError::Forged | GrantsError::Malformed(_)) => {}
        other => panic!("nothing was signed: {other:?}"),
    }
    let begins = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let Ok(list) = Grants::read_list(data, begins, Duration::from_secs(60)) else {
        return;
    };
    // A list of many short prefixes is longer than its input, and may be too long.
    let Ok(signed) = list.sign(&SECRET) else {
        return;
    };
    assert_eq!(check.open(&signed).expect("it is signed"), list);
    let other = GrantsCheck::new(&grants_public_key(&[2; 32])).expect("a public key");
    let refused = other.open(&signed);
    assert!(matches!(refused, Err(GrantsError::Forged)), "{refused:?}");
    for (host, prefixes) in list.prefixes() {
        assert!(prefixes.iter().all(|it| list.allows(host, *it)));
    }
}

fn malformed_at_most<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        let kinds = [ErrorKind::Malformed, ErrorKind::Invalid];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

//! The contract of deploys, the scheduler and the members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_world::{
    Access, Deploy, Error, ErrorKind, Event, Hash, Schedule, Session, Strategy, World, Write,
};

use super::{
    Fixture, Test, brief_session, config, eventually, key, next, quiet, session, within, world,
};

pub(super) fn tests() -> Vec<Test> {
    tests![
        deploys_are_numbered_from_one_each_on_its_parent,
        a_racing_deployer_loses_with_conflict_and_retries,
        each_of_many_racing_deployers_gets_a_number,
        a_file_is_read_as_it_was_deployed,
        content_that_was_tampered_with_is_not_read,
        a_deploy_that_was_tampered_with_is_noticed,
        a_file_is_not_read_beyond_its_size,
        content_that_no_deploy_names_is_removed,
        deploys_that_are_added_while_content_is_removed_are_whole,
        a_watch_of_deploys_has_each,
        only_an_operator_deploys,
        a_leader_chooses_from_the_offers,
        a_choice_is_sticky,
        a_withdrawn_host_is_chosen_no_more,
        one_host_leads_at_a_time,
        a_watch_of_offers_sees_them_come_and_go,
        a_scheduler_runs_with_its_session,
        a_choice_stays_when_its_leader_is_lost,
        a_restarted_leader_leads_again,
        an_offer_goes_with_its_host,
        what_has_no_lease_is_no_sign_of_life,
        members_are_the_hosts_that_live,
        a_watch_of_members_sees_them_come_and_go,
        the_ideal_size_is_set_once,
    ]
}

fn files(content: &str) -> BTreeMap<String, Vec<u8>> {
    [("a/b".to_owned(), content.into()), ("empty".to_owned(), Vec::new())].into()
}

fn deploys_are_numbered_from_one_each_on_its_parent(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    assert_eq!(a.deploys().unwrap(), []);
    let first = a.add_deploy(None, &files("1")).unwrap();
    let second = a.add_deploy(Some(first.hash), &files("2")).unwrap();
    let third = a.add_deploy(Some(second.hash), &files("1")).unwrap();
    assert_eq!((first.number, first.parent), (1, None));
    assert_eq!((third.number, third.parent), (3, Some(second.hash)));
    // Adding the same files again makes another deploy.
    assert_ne!(first.hash, third.hash);
    assert_eq!(a.deploys().unwrap(), [first, second, third]);
}

fn a_racing_deployer_loses_with_conflict_and_retries(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| world(fixture, host));
    let first = a.add_deploy(None, &files("1")).unwrap();
    let error = b.add_deploy(None, &files("2")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.is_retryable());
    b.add_deploy(Some(first.hash), &files("2")).unwrap();
    let error = a.add_deploy(Some(first.hash), &files("3")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(a.deploys().unwrap().len(), 2);
}

fn each_of_many_racing_deployers_gets_a_number(fixture: &dyn Fixture) {
    let worlds = ["a", "b", "c"].map(|host| world(fixture, host));
    std::thread::scope(|scope| {
        for world in &worlds {
            scope.spawn(move || (0..3).for_each(|at| deploy(world, at)));
        }
    });
    let deploys = worlds[0].deploys().unwrap();
    assert_eq!(deploys.len(), 9);
    let contents = deploys.iter().map(|it| worlds[0].read_file(it, "a/b").unwrap());
    assert_eq!(contents.collect::<BTreeSet<_>>().len(), 9);

    fn deploy(world: &World, at: u32) {
        loop {
            let parent = world.deploys().unwrap().last().map(|it| it.hash);
            let content = format!("{}{at}", world.host());
            match world.add_deploy(parent, &files(&content)) {
                Ok(_) => return,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    }
}

fn a_file_is_read_as_it_was_deployed(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let long: Vec<u8> = (0..1_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let mut tree = files("1");
    tree.insert("long".into(), long);
    let deploy = a.add_deploy(None, &tree).unwrap();
    assert!(deploy.files["long"].chunks.len() > 1);
    for (path, content) in &tree {
        assert!(a.read_file(&deploy, path).unwrap() == *content);
        assert!(a.read_uri(&deploy.uri(path)).unwrap() == *content);
    }
    for wrong in ["b", "a", "", "a/b/"] {
        let error = a.read_file(&deploy, wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    for wrong in ["", "world:deploy/1", "world:deploy/1/xyz/a/b", "file:///a"] {
        assert_eq!(a.read_uri(wrong).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Writes any value to a key, or deletes it.
fn tamper(world: &World, key: Vec<u8>, value: Option<Vec<u8>>) {
    let writes = vec![match value {
        Some(value) => Write::Put { key, value, lease: None },
        None => Write::Delete(key),
    }];
    world.store().commit(&[], &writes).unwrap();
}

fn content_that_was_tampered_with_is_not_read(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let deploy = a.add_deploy(None, &files("1")).unwrap();
    let chunk = deploy.files["a/b"].chunks[0];
    let key = key(fixture, &format!("cluster/chunks/{chunk}"));
    for value in [Some(b"2".to_vec()), Some(Vec::new()), None] {
        tamper(&a, key.clone(), value);
        let error = a.read_file(&deploy, "a/b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(a.read_file(&deploy, "empty").unwrap().is_empty());
    }
    // Another deploy of the same content repairs it.
    a.add_deploy(Some(deploy.hash), &files("1")).unwrap();
    assert_eq!(a.read_file(&deploy, "a/b").unwrap(), b"1");
}

fn a_deploy_that_was_tampered_with_is_noticed(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let mut deploys: Vec<Deploy> = Vec::new();
    for content in ["1", "2", "3"] {
        let parent = deploys.last().map(|it| it.hash);
        deploys.push(a.add_deploy(parent, &files(content)).unwrap());
    }
    let key = key(fixture, "cluster/deploys/00000000000000000002");
    let entry = a.store().read(&key, None).unwrap().1.remove(0);
    let text = String::from_utf8(entry.value).unwrap();
    let malformed = |result: Result<(), Error>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Malformed);
    };
    for value in [Some(text.replace("a/b", "a/c").into_bytes()), Some(b"{".to_vec()), None] {
        tamper(&a, key.clone(), value);
        malformed(a.deploys().map(drop));
        malformed(a.read_uri(&deploys[1].uri("a/b")).map(drop));
        malformed(a.add_deploy(Some(deploys[2].hash), &files("4")).map(drop));
    }
}

/// A short record may name a large chunk many times.
fn a_file_is_not_read_beyond_its_size(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let mut deploy = a.add_deploy(None, &files("1")).unwrap();
    let mut error = |size, more: &[Hash]| {
        let file = deploy.files.get_mut("a/b").unwrap();
        file.size = size;
        file.chunks.extend(more);
        let error = a.read_file(&deploy, "a/b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        error.to_string()
    };
    let missing = [Hash::of(b"not read")];
    assert!(error(0, &missing).ends_with("has another length"));
    assert!(error(2, &[]).contains("is missing"));
    assert!(error(1 << 40, &[]).contains("more than"));
}

fn content_that_no_deploy_names_is_removed(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let all = key(fixture, "cluster/chunks/");
    let chunks = || a.store().read(&all, None).unwrap().1.len();
    let removed = |limit| a.remove_unused_chunks(limit).unwrap();
    assert_eq!(removed(10), (0, 0));
    let deploy = a.add_deploy(None, &files("1")).unwrap();
    let named = chunks();
    for unused in ["2", "3", "4"] {
        let hash = Hash::of(unused.as_bytes());
        tamper(&a, key(fixture, &format!("cluster/chunks/{hash}")), Some(unused.into()));
    }
    assert_eq!(removed(2), (2, 2));
    assert_eq!(removed(10), (1, 1));
    assert_eq!(removed(10), (0, 0));
    assert_eq!(chunks(), named);
    assert_eq!(a.read_file(&deploy, "a/b").unwrap(), b"1");
    // A removed deploy can be added again.
    let next = a.add_deploy(Some(deploy.hash), &files("2")).unwrap();
    assert_eq!(a.read_file(&next, "a/b").unwrap(), b"2");
}

fn deploys_that_are_added_while_content_is_removed_are_whole(fixture: &dyn Fixture) {
    let (a, b) = (world(fixture, "a"), world(fixture, "b"));
    let add_deploys = || {
        for number in 0..5 {
            eventually("a deploy is added", || {
                let parent = a.deploys().unwrap().last().map(|it| it.hash);
                let added = a.add_deploy(parent, &files(&number.to_string()));
                let kind = added.as_ref().err().map(Error::kind);
                assert!(matches!(kind, None | Some(ErrorKind::Conflict)), "{added:?}");
                added.ok()
            });
        }
    };
    std::thread::scope(|scope| {
        let adding = scope.spawn(add_deploys);
        // The loop ends even if adding fails, and each deploy takes bounded time.
        while !adding.is_finished() {
            b.remove_unused_chunks(100).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Err(failure) = adding.join() {
            std::panic::resume_unwind(failure);
        }
    });
    for (number, deploy) in a.deploys().unwrap().iter().enumerate() {
        let content = a.read_file(deploy, "a/b").unwrap();
        assert_eq!(content, number.to_string().as_bytes());
    }
}

fn a_watch_of_deploys_has_each(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| world(fixture, host));
    let first = a.add_deploy(None, &files("1")).unwrap();
    let mut watch = b.watch_deploys(config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(view) if view.values[&1].0 == first));
    let second = a.add_deploy(Some(first.hash), &files("2")).unwrap();
    assert!(matches!(next(&mut watch), Event::Changed { id: 2, value, .. } if value == second));
    quiet(&mut watch);
}

fn only_an_operator_deploys(fixture: &dyn Fixture) {
    let deploy = world(fixture, "b").add_deploy(None, &files("1")).unwrap();
    let access = Access::of_host(&fixture.prefix(), "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let a = World::new(store, &fixture.prefix(), "a").unwrap();
    assert_eq!(a.read_file(&deploy, "a/b").unwrap(), b"1");
    let error = a.add_deploy(Some(deploy.hash), &files("2")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(a.set_ideal_size(Some(1)).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(a.ideal_size().unwrap(), None);
}

const TWO: Schedule = Schedule { strategy: Strategy::RoundRobin, count: 2, sticky: true };

fn chosen(world: &World) -> Vec<String> {
    world.choice("s").unwrap().unwrap_or_default().into_iter().collect()
}

fn a_leader_chooses_from_the_offers(fixture: &dyn Fixture) {
    let [a, b, c] = ["a", "b", "c"].map(|host| session(fixture, host));
    assert_eq!(a.world().choice("s").unwrap(), None);
    let mut watch = c.world().watch_choice("s", config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(_)));
    b.offer("s").unwrap();
    b.offer("s").unwrap();
    c.offer("other").unwrap();
    assert_eq!(a.lead("s", TWO).unwrap(), Some(true));
    assert_eq!(a.lead("s", TWO).unwrap(), Some(false));
    assert_eq!(chosen(c.world()), ["b"]);
    assert!(matches!(next(&mut watch), Event::Changed { value, .. } if value.contains("b")));
    quiet(&mut watch);
}

fn a_choice_is_sticky(fixture: &dyn Fixture) {
    let hosts = ["a", "b", "c", "d"].map(|host| session(fixture, host));
    hosts[2].offer("s").unwrap();
    hosts[3].offer("s").unwrap();
    hosts[0].lead("s", TWO).unwrap();
    hosts[0].offer("s").unwrap();
    hosts[1].offer("s").unwrap();
    assert_eq!(hosts[0].lead("s", TWO).unwrap(), Some(false));
    assert_eq!(chosen(hosts[0].world()), ["c", "d"]);
    let one = Schedule { count: 1, ..TWO };
    hosts[0].lead("s", one).unwrap();
    assert_eq!(chosen(hosts[0].world()), ["c"]);
}

fn a_withdrawn_host_is_chosen_no_more(fixture: &dyn Fixture) {
    let hosts = ["a", "b", "c"].map(|host| session(fixture, host));
    hosts.iter().for_each(|it| it.offer("s").unwrap());
    hosts[0].lead("s", TWO).unwrap();
    assert_eq!(chosen(hosts[0].world()), ["a", "b"]);
    hosts[0].withdraw("s").unwrap();
    hosts[0].withdraw("s").unwrap();
    hosts[0].lead("s", TWO).unwrap();
    assert_eq!(chosen(hosts[0].world()), ["b", "c"]);
}

fn one_host_leads_at_a_time(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| session(fixture, host));
    a.offer("s").unwrap();
    assert!(a.lead("s", TWO).unwrap().is_some());
    assert_eq!(b.lead("s", TWO).unwrap(), None);
    assert!(b.lead("other", TWO).unwrap().is_some());
}

fn a_watch_of_offers_sees_them_come_and_go(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| session(fixture, host));
    a.offer("s").unwrap();
    b.offer("other").unwrap();
    let mut watch = b.world().watch_offers("s", config()).unwrap();
    let Event::Ready(view) = next(&mut watch) else { panic!("not ready") };
    assert_eq!(view.values.keys().collect::<Vec<_>>(), ["a"]);
    b.offer("s").unwrap();
    assert!(matches!(next(&mut watch), Event::Changed { id, .. } if id == "b"));
    a.withdraw("s").unwrap();
    assert!(matches!(next(&mut watch), Event::Deleted { id, .. } if id == "a"));
    b.withdraw("other").unwrap();
    quiet(&mut watch);
}

fn a_scheduler_runs_with_its_session(fixture: &dyn Fixture) {
    let [a, b, c] = ["a", "b", "c"].map(|host| session(fixture, host));
    a.offer("s").unwrap();
    let one = Schedule { count: 1, sticky: false, ..TWO };
    let events = Arc::new(Mutex::new(Vec::new()));
    let run = |session: &Session| {
        let events = Arc::clone(&events);
        let note = move |event| events.lock().unwrap().push(format!("{event:?}"));
        session.schedule("s", one, config(), note).unwrap()
    };
    let (first, _second) = (run(&b), run(&c));
    let is_chosen = |hosts: &[&str]| {
        eventually("chosen", || (chosen(a.world()) == hosts).then_some(()));
    };
    is_chosen(&["a"]);
    // Without any call, the host that has withdrawn is replaced.
    b.offer("s").unwrap();
    a.withdraw("s").unwrap();
    is_chosen(&["b"]);
    // The other host takes over.
    drop(first);
    b.end().unwrap();
    a.offer("s").unwrap();
    eventually("chosen", || chosen(a.world()).contains(&"a".to_owned()).then_some(()));
    let events = events.lock().unwrap();
    assert!(events.iter().all(|it| !it.starts_with("Ended")), "{events:?}");
}

fn a_choice_stays_when_its_leader_is_lost(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), session(fixture, "b"));
    b.offer("s").unwrap();
    a.lead("s", TWO).unwrap();
    let after = within(fixture, fixture.ttl() * 2, || {
        b.renew().unwrap();
        assert_eq!(chosen(b.world()), ["b"]);
        b.lead("s", TWO).unwrap()
    });
    assert!(!after);
    // The former leader wakes up.
    a.renew().unwrap();
    assert_eq!(a.lead("s", Schedule { count: 0, ..TWO }).unwrap(), None);
    assert_eq!(chosen(b.world()), ["b"]);
}

fn a_restarted_leader_leads_again(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| session(fixture, host));
    a.lead("s", TWO).unwrap();
    drop(a);
    let a = session(fixture, "a");
    b.offer("s").unwrap();
    assert_eq!(a.lead("s", TWO).unwrap(), Some(true));
    assert_eq!(b.lead("s", TWO).unwrap(), None);
}

fn an_offer_goes_with_its_host(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.offer("s").unwrap();
    assert_eq!(b.offers("s").unwrap(), BTreeSet::from(["a".to_owned()]));
    within(fixture, fixture.ttl() * 2, || b.offers("s").unwrap().is_empty().then_some(()));
    a.renew().unwrap();
    assert_eq!(b.offers("s").unwrap().len(), 1);
    // A restarted host that offers nothing.
    drop(a);
    session(fixture, "a").declare(&[]).unwrap();
    assert!(b.offers("s").unwrap().is_empty());
}

/// A key without a lease would outlive its host, and any host can write it.
fn what_has_no_lease_is_no_sign_of_life(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let world = a.world();
    let mark = br#"{"owner":"m","session":"1"}"#.to_vec();
    tamper(world, key(fixture, "hosts/m/session"), Some(mark));
    tamper(world, key(fixture, "hosts/m/offers/s"), Some(Vec::new()));
    tamper(world, key(fixture, "shared/leaders/s"), Some(b"m".to_vec()));
    assert_eq!(world.members().unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
    assert!(world.offers("s").unwrap().is_empty());
    a.offer("s").unwrap();
    assert_eq!(a.lead("s", TWO).unwrap(), Some(true));
    assert_eq!(chosen(world), ["a"]);
}

fn members_are_the_hosts_that_live(fixture: &dyn Fixture) {
    let b = world(fixture, "b");
    assert!(b.members().unwrap().is_empty());
    let a = session(fixture, "a");
    b.set_own_string("m", "no session").unwrap();
    assert_eq!(b.members().unwrap(), BTreeMap::from([("a".into(), "a".into())]));
    a.end().unwrap();
    assert!(b.members().unwrap().is_empty());
}

fn a_watch_of_members_sees_them_come_and_go(fixture: &dyn Fixture) {
    let b = world(fixture, "b");
    let mut watch = b.watch_members(config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(view) if view.values.is_empty()));
    let a = session(fixture, "a");
    assert!(matches!(next(&mut watch), Event::Changed { id, .. } if id == "a"));
    a.end().unwrap();
    assert!(matches!(next(&mut watch), Event::Deleted { id, .. } if id == "a"));
    quiet(&mut watch);
}

fn the_ideal_size_is_set_once(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let mut watch = a.watch_ideal_size(config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(_)));
    assert_eq!(a.ideal_size().unwrap(), None);
    assert!(a.set_ideal_size(Some(5)).unwrap());
    assert!(!a.set_ideal_size(Some(5)).unwrap());
    assert_eq!(a.ideal_size().unwrap(), Some(5));
    assert!(matches!(next(&mut watch), Event::Changed { value: 5, .. }));
    quiet(&mut watch);
    assert!(a.set_ideal_size(None).unwrap());
    assert!(matches!(next(&mut watch), Event::Deleted { .. }));
    tamper(&a, key(fixture, "cluster/size"), Some(b"five".to_vec()));
    assert_eq!(a.ideal_size().unwrap_err().kind(), ErrorKind::Malformed);
    assert!(matches!(next(&mut watch), Event::Malformed { .. }));
}

//! An exporting host learns of other hosts that export its prefixes. Grants refuse hostile exports.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use trueup_world::{
    Acceptance, Accepted, Collect, Contest, ContestEffect, Entry, Grants, ResourceKey,
};

use super::{acceptance, read};

fn export(name: &str, dst: &str, metric: u32) -> String {
    format!(
        "[[export]]\nname = \"{name}\"\n\
         route = {{ dst = \"{dst}\", via = \"10.0.0.11\", metric = {metric} }}\n"
    )
}

fn data(dst: &str, metric: u32) -> String {
    format!("{{ \"dst\": \"{dst}\", \"via\": \"10.0.0.9\", \"metric\": {metric} }}")
}

/// Host, name, revision, destination, metric.
type Exported = (&'static str, &'static str, u64, &'static str, u32);

fn exported(exported: &Exported) -> (ResourceKey, Arc<Entry>) {
    let (exporter, name, created, dst, metric) = *exported;
    super::exported(exporter, name, created, created, &data(dst, metric))
}

fn insert(acceptance: &mut Acceptance, one: &Exported) {
    let (key, resource) = exported(one);
    acceptance.insert(&key, &resource);
}

fn contests(sections: &str, exports: &[Exported]) -> Acceptance {
    let own = read("a", sections).exports.unwrap_or_default();
    let own = own.iter().map(|it| (&*it.name, &it.route));
    let mut contests = acceptance(&[], "a").with_exports(own);
    exports.iter().for_each(|one| insert(&mut contests, one));
    contests
}

fn effects(contests: &Acceptance) -> Vec<(String, ContestEffect, String, usize)> {
    let effect = |it: Contest| (it.name, it.effect, it.other.1.exporter, it.count);
    contests.contests().into_iter().map(effect).collect()
}

const OWN: Exported = ("a", "pods", 10, "10.20.1.0/24", 5);

#[test]
fn an_owner_learns_who_takes_its_prefix_a_part_of_it_or_waits_for_it() {
    use ContestEffect::{Takes, TakesPart, Waits};
    let own = export("pods", "10.20.1.0/24", 5);
    for (other, effect) in [
        (("b", "x", 9, "10.20.1.0/24", 5), Some(Takes)),
        (("b", "x", 11, "10.20.1.0/24", 5), Some(Waits)),
        (("b", "x", 11, "10.20.1.0/24", 4), Some(Takes)),
        (("b", "x", 9, "10.20.1.0/24", 6), Some(Waits)),
        (("b", "x", 11, "10.20.1.128/25", 5), Some(TakesPart)),
        (("b", "x", 9, "10.20.1.7/32", 9), Some(TakesPart)),
        (("b", "x", 9, "10.20.0.0/16", 0), None),
        (("b", "x", 9, "10.20.2.0/24", 0), None),
        (("b", "x", 9, "fd00::/64", 0), None),
        (("a", "x", 9, "10.20.1.0/24", 0), None),
    ] {
        let found = contests(&own, &[OWN, other]);
        let expected = effect.map(|effect| ("pods".to_owned(), effect, "b".to_owned(), 1));
        assert_eq!(effects(&found), Vec::from_iter(expected), "{other:?}");
    }
    // Its own export is not in the store yet: every stored export came first.
    let found = contests(&own, &[("b", "x", 9, "10.20.1.0/24", 5)]);
    assert_eq!(found.contests()[0].effect, Takes);
    assert_eq!(found.contests()[0].created, None);
}

#[test]
fn a_contest_names_the_taker_its_export_and_both_revisions() {
    let own = export("pods", "10.20.1.0/24", 5);
    let found = contests(&own, &[OWN, ("b", "x\u{1b}[2J", 9, "10.20.1.0/24", 5)]);
    let text = found.contests()[0].to_string();
    assert_eq!(
        text,
        "10.20.1.0/24, exported by this host as `pods`, revision 10, is taken by host b, which \
         exported it first or with a lower metric: `x\\u{1b}[2J` of host b, revision 9"
    );
}

#[test]
fn many_exports_of_one_host_are_one_contest_and_go_with_the_last() {
    let own = export("pods", "10.20.0.0/16", 0) + &export("part", "10.20.1.0/24", 0);
    let parts: Vec<(String, String)> =
        (0..200).map(|n| (format!("10.20.1.{n}/32"), format!("n{n}"))).collect();
    let mut found = contests(&own, &[]);
    let change = |found: &mut Acceptance, is_there: bool| {
        for (dst, name) in &parts {
            let (key, resource) = super::exported("b", name, 0, 3, &data(dst, 0));
            if is_there {
                found.insert(&key, &resource);
            } else {
                found.remove(&key);
            }
        }
    };
    change(&mut found, true);
    let all = found.contests();
    assert_eq!(all.len(), 1, "of the longest prefix around them: {all:?}");
    assert_eq!((&*all[0].name, all[0].count), ("part", 200));
    assert!(all[0].to_string().ends_with("and 199 more"), "{}", all[0]);
    change(&mut found, false);
    assert_eq!(found.contests(), []);
    change(&mut found, false);
}

fn only(exporter: &str, within: &str) -> Arc<Grants> {
    let grants = Grants::new(1, SystemTime::now(), Duration::from_secs(60)).unwrap();
    Arc::new(grants.with_grant(exporter, within.parse().unwrap()))
}

#[test]
fn what_is_not_granted_contests_nothing() {
    let own = export("pods", "10.20.1.0/24", 5);
    let mut found = contests(&own, &[]).granting(only("b", "10.20.1.128/25"));
    insert(&mut found, &OWN);
    insert(&mut found, &("b", "x", 1, "10.20.1.0/24", 5));
    insert(&mut found, &("c", "x", 1, "10.20.1.128/25", 5));
    assert_eq!(found.contests(), []);
    insert(&mut found, &("b", "x", 1, "10.20.1.128/26", 5));
    assert_eq!(found.contests().len(), 1);
}

fn collects() -> Vec<Collect> {
    let sections = "[[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n";
    read("m", sections).collects.unwrap()
}

fn accept(granted: Option<Arc<Grants>>, exports: &[Exported]) -> Accepted {
    let open = acceptance(&collects(), "m");
    let mut acceptance = match granted {
        Some(grants) => open.granting(grants),
        None => open,
    };
    exports.iter().for_each(|one| insert(&mut acceptance, one));
    acceptance.settle();
    acceptance.accepted()
}

fn takers(accepted: &Accepted) -> Vec<(String, &str)> {
    let routes = accepted.routes.values();
    routes.map(|(route, origin)| (route.dst.to_string(), &*origin.exporter)).collect()
}

#[test]
fn a_hostile_export_that_is_not_granted_is_refused_and_in_nobodys_way() {
    let hostile: [Exported; 5] = [
        ("m2", "same", 1, "10.20.1.0/24", 0),
        ("m2", "part", 1, "10.20.1.128/25", 0),
        ("m2", "all", 1, "10.20.0.0/16", 0),
        ("a", "more", 1, "10.20.2.0/24", 0),
        ("a", "pods", 9, "10.20.1.0/24", 0),
    ];
    // Without grants, the first export has it, and another has a part.
    let open = accept(None, &hostile);
    assert_eq!(takers(&open)[1], ("10.20.1.0/24".into(), "m2"));
    assert!(!open.overlaps.is_empty());

    let granted = accept(Some(only("a", "10.20.1.0/24")), &hostile);
    assert_eq!(takers(&granted), [("10.20.1.0/24".into(), "a")]);
    assert_eq!(granted.overlaps, []);
    let refused: Vec<String> = granted.refused.iter().map(|it| it.reason.clone()).collect();
    assert_eq!(
        refused,
        [
            "10.20.2.0/24 is not granted to host a",
            "10.20.0.0/16 is not granted to host m2",
            "10.20.1.128/25 is not granted to host m2",
            "10.20.1.0/24 is not granted to host m2",
        ]
    );
}

#[test]
fn the_same_prefix_with_a_lower_metric_is_an_overlap() {
    let both: [Exported; 2] =
        [("a", "pods", 1, "10.20.1.0/24", 10), ("b", "x", 2, "10.20.1.0/24", 5)];
    let accepted = accept(None, &both);
    assert_eq!(accepted.routes.len(), 2);
    let [overlap] = &accepted.overlaps[..] else { panic!("{:?}", accepted.overlaps) };
    assert_eq!(overlap.inner.1.exporter, "b");
    assert_eq!(overlap.outer.1.exporter, "a");
    assert_eq!(
        overlap.to_string(),
        "10.20.1.0/24 (`x` of host b, revision 2) has a lower metric than that of `pods` of host \
         a, revision 1: the kernel prefers it"
    );
    // Its own routes are no overlap.
    let own = both.map(|(_, name, created, dst, metric)| ("a", name, created, dst, metric));
    assert_eq!(accept(None, &own).overlaps, []);
}

proptest! {
    /// The contests updated with each change equal those computed from the whole state.
    #[test]
    fn contests_are_those_of_what_is_there(
        changes in prop::collection::vec(
            (0..3_usize, 0..3_usize, 1..5_u64, 0..5_usize, 0..3_u32, any::<bool>()), 0..40),
    ) {
        let own = export("pods", "10.20.0.0/23", 1) + &export("part", "10.20.1.0/24", 1);
        let dsts = ["10.20.0.0/23", "10.20.1.0/24", "10.20.1.128/25", "10.20.0.0/24", "10.0.0.0/8"];
        let mut kept = contests(&own, &[]);
        let mut there: Vec<Exported> = Vec::new();
        for (host, name, created, dst, metric, is_new) in changes {
            let one = (["a", "b", "c"][host], ["pods", "part", "x"][name], created, dsts[dst], metric);
            // One revision makes one export of a name.
            let is_made = |it: &Exported| (it.0, it.1, it.2) == (one.0, one.1, one.2);
            match there.iter().position(|it| *it == one) {
                Some(at) if !is_new => {
                    let (key, _) = exported(&there.remove(at));
                    kept.remove(&key);
                }
                None if is_new && !there.iter().any(is_made) => {
                    insert(&mut kept, &one);
                    there.push(one);
                }
                _ => {}
            }
            prop_assert_eq!(kept.contests(), contests(&own, &there).contests());
        }
    }
}

//! The acceptance updated with each change equals one computed from all resources together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use trueup_net::{Prefix, RouteKey};
use trueup_world::{Accepted, Collect, Entry, Origin, ResourceKey, Revision};

use super::{accept, acceptance, exported, read};

/// An export: the revision, the host, the name, a number of its own, and the route. A malformed one
/// has no prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Exported {
    created: u64,
    exporter: String,
    name: String,
    number: u64,
    data: String,
    dst: Option<Prefix>,
}

impl Exported {
    fn export(&self) -> (ResourceKey, Arc<Entry>) {
        let Exported { created, exporter, name, number, data, .. } = self;
        exported(exporter, name, *number, *created, data)
    }
}

fn any_export() -> impl Strategy<Value = Exported> {
    let prefix = (0..4_u8, 14..19_u8).prop_map(|(number, len)| {
        let address = u32::from_be_bytes([10, 20, number << 6, 0]) & (u32::MAX << (32 - len));
        let text = format!("{}/{len}", std::net::Ipv4Addr::from(address));
        text.parse::<Prefix>().unwrap()
    });
    let dst = prop::option::weighted(0.9, prefix);
    (0..6_u64, "[abcm]", "[xy]", dst, 1..3_u8).prop_map(|(created, exporter, name, dst, via)| {
        let data = dst.map_or("?".to_owned(), |dst| {
            format!("{{ \"dst\": \"{dst}\", \"via\": \"10.0.0.{via}\" }}")
        });
        Exported { created, exporter, name, number: 0, data, dst }
    })
}

const COLLECTS: &str = "[[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\nlimit = 2\n\
    [[collect]]\nkind = \"route\"\nfrom = \"a\"\nwithin = [\"10.0.0.0/8\"]\ntable = 100\nlimit = 1\n\
    [[collect]]\nkind = \"route\"\nfrom = \"b\"\nwithin = [\"10.20.0.0/17\"]\nlimit = 3\n";

fn collects() -> Vec<Collect> {
    read("m", COLLECTS).collects.unwrap()
}

/// The rule in its simplest form: resources one after the other, the first one first. Returns the
/// routes with their exporters, and the reasons for exports that make no route.
fn by_the_rule(
    collects: &[Collect],
    all: &[Exported],
) -> (BTreeMap<RouteKey, (String, u64)>, Vec<String>) {
    let mut all: Vec<&Exported> = all.iter().filter(|it| it.exporter != "m").collect();
    all.sort();
    let mut routes: BTreeMap<RouteKey, (String, u64)> = BTreeMap::new();
    let mut reasons = Vec::new();
    let mut taken: HashMap<(usize, &str), u32> = HashMap::new();
    for it in all {
        let mut made = Vec::new();
        let mut reason = "no collection";
        for (position, collect) in collects.iter().enumerate() {
            let Some(dst) = it.dst else {
                reason = "expected a value";
                continue;
            };
            let key = RouteKey::new(collect.table.unwrap_or(254), dst);
            let count = taken.entry((position, &it.exporter)).or_default();
            if !collect.from.contains(&it.exporter) {
                continue;
            } else if !collect.within.iter().any(|within| within.covers(dst)) {
                reason = "is not within";
            } else if routes.contains_key(&key) {
                reason = "was exported first";
            } else if *count >= collect.limit {
                reason = "the limit of";
            } else {
                *count += 1;
                made.push(key);
            }
        }
        if made.is_empty() {
            reasons.push(reason.to_owned());
        }
        let owner = (it.exporter.clone(), it.created);
        routes.extend(made.into_iter().map(|key| (key, owner.clone())));
    }
    (routes, reasons)
}

fn owners(accepted: &Accepted) -> BTreeMap<RouteKey, (String, u64)> {
    let owner = |(key, (_, origin)): (&RouteKey, &(_, Origin))| {
        (*key, (origin.exporter.clone(), origin.created.0))
    };
    accepted.routes.iter().map(owner).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_kept_from_change_to_change_is_what_all_come_to(
        changes in prop::collection::vec(
            (any_export(), 0..3_u8, 0..8_usize, any::<bool>()),
            0..40,
        ),
    ) {
        let collects = collects();
        let mut kept = acceptance(&collects, "m");
        let mut there: Vec<Exported> = Vec::new();
        let mut before = kept.accepted();
        for ((mut new, what, at, settles), number) in changes.into_iter().zip(1..) {
            let at = at % there.len().max(1);
            match (what, there.get_mut(at)) {
                (0, Some(_)) => {
                    let (key, _) = there.remove(at).export();
                    kept.remove(&key);
                }
                (1, Some(replaced)) => {
                    let Exported { exporter, name, number, .. } = replaced.clone();
                    *replaced = Exported { exporter, name, number, ..new };
                    let (key, resource) = replaced.export();
                    kept.insert(&key, &resource);
                }
                _ => {
                    new.number = number;
                    let (key, resource) = new.export();
                    kept.insert(&key, &resource);
                    there.push(new);
                }
            }
            if !settles {
                continue;
            }
            let changed = kept.settle();
            let now = kept.accepted();
            let exports: Vec<_> = there.iter().map(Exported::export).collect();
            prop_assert_eq!(&now, &accept(&collects, "m", &exports));
            prop_assert_eq!(kept.overlaps(), now.overlaps.len());
            let keys = before.routes.keys().chain(now.routes.keys());
            for key in keys.filter(|key| before.routes.get(key) != now.routes.get(key)) {
                prop_assert!(changed.contains(key), "{:?} has changed", key);
            }
            let (routes, reasons) = by_the_rule(&collects, &there);
            prop_assert_eq!(owners(&now), routes);
            prop_assert_eq!(now.refused.len(), reasons.len());
            for (refused, reason) in now.refused.iter().zip(reasons) {
                prop_assert!(refused.reason.contains(&reason), "{:?}, not {}", refused, reason);
            }
            before = now;
        }
    }
}

#[test]
fn one_that_was_not_inserted_is_removed_without_effect() {
    let mut kept = acceptance(&collects(), "m");
    let route = "{ \"dst\": \"10.20.0.0/18\", \"via\": \"10.0.0.1\" }";
    let (one, resource) = exported("a", "x", 1, 1, route);
    kept.remove(&one);
    kept.insert(&one, &resource);
    let (other, _) = exported("a", "x", 2, 1, route);
    kept.remove(&other);
    assert_eq!(kept.settle().len(), 2, "a table each");
    // A new lease or revision does not change the content.
    let renewed = Entry { modified: Revision(9), ..(*resource).clone() }.into();
    kept.insert(&one, &renewed);
    assert!(kept.settle().is_empty());
    kept.remove(&one);
    assert_eq!(kept.settle().len(), 2);
    assert_eq!(kept.accepted(), Accepted::default());
    assert!(kept.settle().is_empty());
}

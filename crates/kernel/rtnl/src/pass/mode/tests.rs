use trueup_net::Family;

use super::*;

/// Returns every combination of facts, with its mode.
fn all() -> impl Iterator<Item = (Facts, Mode)> {
    (0_u16..1 << 8).map(|bits| {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] =
            std::array::from_fn(|bit| bits & 1 << bit != 0);
        let facts = Facts {
            is_part_known: first,
            are_nexthops_due: second,
            are_routes_assigned: third,
            are_routes_due: fourth,
            are_keys_tracked: fifth,
            are_keys_alone: sixth,
            uses_nexthops: seventh,
            is_subscribed: eighth,
        };
        (facts, Mode::decide(facts, part(), objects()))
    })
}

fn part() -> DirtyPart {
    DirtyPart { rules: BTreeSet::from([Family::Inet6]), ..DirtyPart::default() }
}

fn objects() -> SingleObjects {
    let routes = BTreeSet::from([RouteKey::new(254, "10.0.0.0/8".parse().unwrap())]);
    SingleObjects { routes, ..SingleObjects::default() }
}

#[test]
fn the_keys_are_the_narrowest_that_the_facts_allow() {
    for (facts, mode) in all() {
        let are_routes_settled = facts.are_routes_assigned && !facts.are_routes_due;
        let may_point_anew = facts.uses_nexthops && facts.are_routes_due;
        let expected = match (
            facts.is_part_known,
            facts.are_nexthops_due,
            facts.are_keys_tracked,
            are_routes_settled,
            may_point_anew,
        ) {
            (false, ..) => Keys::Everything,
            (true, true, _, true, _) => Keys::Nexthops(part()),
            (true, true, _, false, _) => Keys::Everything,
            (true, false, true, ..) => Keys::Objects(part(), objects()),
            (true, false, false, _, true) => Keys::Everything,
            (true, false, false, _, false) => Keys::Part(part()),
        };
        assert_eq!(mode.keys, expected, "{facts:?}");
    }
}

#[test]
fn only_single_objects_are_not_read() {
    for (facts, Mode { keys, read, .. }) in all() {
        assert_eq!(read == Read::Nothing, keys.objects().is_some(), "{facts:?}");
        assert_ne!(read, Read::All, "{facts:?}");
    }
    assert_eq!(Mode::look().read, Read::All);
}

#[test]
fn an_echo_is_proof_only_of_objects_that_take_nothing_along() {
    for (facts, Mode { keys, verify, .. }) in all() {
        let is_proof = match keys {
            Keys::Everything => facts.is_subscribed && !facts.uses_nexthops,
            Keys::Objects(..) => facts.are_keys_alone,
            Keys::Part(_) | Keys::Nexthops(_) => false,
        };
        assert_eq!(verify == Verify::Echo, is_proof, "{facts:?}");
    }
    assert_eq!(Mode::look().verify, Verify::Read);
}

#[test]
fn everything_is_read_before_it_is_written() {
    for (facts, Mode { keys, conflicts, .. }) in all() {
        let is_read = conflicts == Conflicts::BeforeWrite;
        assert_eq!(is_read, keys.is_everything(), "{facts:?}");
    }
}

#[test]
fn a_wider_mode_reads_and_two_steps_lead_to_everything() {
    for (facts, mode) in all() {
        let was_narrow = mode.keys.objects().is_some();
        let wider = mode.wider(facts);
        assert_eq!(wider.read, Read::OutOfSync, "{facts:?}");
        let is_part = matches!(wider.keys, Keys::Part(_));
        assert_eq!(is_part, was_narrow && !facts.may_point_anew(), "{facts:?}");
        assert!(is_part || wider.keys.is_everything(), "{facts:?}");
        let checked = Mode { conflicts: Conflicts::BeforeWrite, ..wider.clone() };
        let widest = wider.wider(facts);
        assert_eq!(checked.wider(facts), widest, "{facts:?}");
        assert!(widest.keys.is_everything(), "{facts:?}");
        assert_eq!(widest.clone().wider(facts), widest);
    }
}

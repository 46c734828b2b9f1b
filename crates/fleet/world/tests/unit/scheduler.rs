//! Tests of the choice of hosts.

use proptest::prelude::*;

use super::*;

fn hosts() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[a-h]", 0..8)
}

fn schedules() -> impl proptest::strategy::Strategy<Value = Schedule> {
    let strategies =
        prop_oneof![Just(super::Strategy::RoundRobin), Just(super::Strategy::Rendezvous)];
    (strategies, 0_usize..5, any::<bool>()).prop_map(|(strategy, count, sticky)| Schedule {
        strategy,
        count,
        sticky,
    })
}

use proptest::strategy::Strategy;

proptest! {
    #[test]
    fn a_choice_is_of_those_that_offer_and_as_many_as_it_can(
        schedule in schedules(), offers in hosts(), chosen in hosts(),
    ) {
        let last = chosen.last().cloned();
        let before = Choice { last, hosts: chosen, offers: None };
        let next = before.next("s", schedule, &offers);
        prop_assert!(next.hosts.is_subset(&offers));
        prop_assert_eq!(next.hosts.len(), schedule.count.min(offers.len()));
        prop_assert_eq!(&next.next("s", schedule, &offers), &next, "it is stable");
        if schedule.sticky {
            let stayed = before.hosts.intersection(&offers).count().min(schedule.count);
            let same = next.hosts.intersection(&before.hosts).count();
            prop_assert!(same >= stayed);
        }
    }

    #[test]
    fn rendezvous_moves_no_choice_but_by_the_host_that_goes(
        offers in hosts(), count in 1_usize..5, gone in "[a-h]",
    ) {
        let schedule = Schedule { strategy: super::Strategy::Rendezvous, count, sticky: false };
        let before = Choice::default().next("s", schedule, &offers);
        let mut fewer = offers;
        fewer.remove(&gone);
        let after = Choice::default().next("s", schedule, &fewer);
        let stayed = before.hosts.into_iter().filter(|it| *it != gone);
        let stayed: BTreeSet<String> = stayed.collect();
        prop_assert!(stayed.is_subset(&after.hosts));
    }
}

#[test]
fn round_robin_takes_turns_when_the_offers_change() {
    let schedule = Schedule { strategy: super::Strategy::RoundRobin, count: 1, sticky: false };
    let mut choice = Choice::default();
    let mut chosen = Vec::new();
    for offered in ["abc", "abcd", "abc", "abc", "abcd", "abd", "abcd"] {
        let offers = offered.chars().map(String::from).collect();
        choice = choice.next("s", schedule, &offers);
        chosen.extend(choice.hosts.clone());
    }
    assert_eq!(chosen.concat(), "abccdab");
}

#[test]
fn a_weight_is_the_first_8_bytes_of_a_hash() {
    assert_eq!(Hash::of(b"abc").number(), 0xba7816bf8f01cfea);
}

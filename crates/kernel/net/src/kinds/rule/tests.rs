use super::*;

#[test]
fn a_search_takes_what_is_not_stated_for_a_wildcard() {
    let open = Rule::new(Family::Inet, 7, RuleAction::Lookup(100));
    let mut narrow = open.clone();
    narrow.from = Some("10.0.0.0/8".parse().unwrap());
    narrow.fwmark = Some(FwMark { mark: 1, mask: 0xff });
    assert_eq!((open.selectors().count(), narrow.selectors().count()), (0, 3));
    let found = |search: &Rule, rule: &Rule| {
        let by = search.selectors();
        rule.searched_by(by) == search.searched_by(by)
    };
    assert!(found(&open, &narrow));
    assert!(!found(&narrow, &open));
    let mut masked = open.clone();
    masked.fwmark = Some(FwMark { mark: 0, mask: 0xff });
    assert!(found(&masked, &narrow));
    let other = Rule { action: RuleAction::Lookup(101), ..open.clone() };
    assert!(!found(&other, &narrow));
}

#[test]
fn a_search_takes_each_selector_that_is_stated_for_itself() {
    let open = Rule::new(Family::Inet, 7, RuleAction::Lookup(100));
    let name = |text: &str| text.parse().unwrap();
    let each = [
        open.clone().with_from("10.0.0.0/8".parse().unwrap()),
        open.clone().with_to("10.0.0.0/8".parse().unwrap()),
        open.clone().with_iif(name("eth0")),
        open.clone().with_oif(name("eth0")),
        open.clone().with_fwmark(FwMark { mark: 1, mask: 0 }),
        open.clone().with_fwmark(FwMark { mark: 0, mask: 1 }),
        open.clone().with_tos(4),
        open.clone().with_ipproto(6),
        open.clone().with_sport(NumberRange { start: 1, end: 2 }),
        open.clone().with_dport(NumberRange { start: 1, end: 2 }),
        open.clone().with_uidrange(NumberRange { start: 1, end: 2 }),
        open.clone().with_l3mdev(true),
        open.clone().with_suppress_prefixlength(0),
        open.clone().with_suppress_ifgroup(0),
    ];
    for (at, search) in each.iter().enumerate() {
        let by = search.selectors();
        assert_eq!(by, Selectors(1 << at), "{search:?}");
        let found = |rule: &Rule| rule.searched_by(by) == search.searched_by(by);
        let found: Vec<usize> = (0..each.len()).filter(|at| found(&each[*at])).collect();
        assert_eq!(found, [at], "{search:?}");
        assert_ne!(search.searched_by(by), open.searched_by(by));
    }
}

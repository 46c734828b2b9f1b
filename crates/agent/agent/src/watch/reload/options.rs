//! What a running loop cannot take from a changed file.

use trueup_net::Kind;

use crate::options::Options;

/// Returns why a running loop cannot use other options, or another `[world]`.
pub(crate) fn options_error(all: &Options, were: &Options, is_same_world: bool) -> Option<String> {
    let (now, was) = (&all.network, &were.network);
    if now.protocol() != was.protocol() {
        return Some(format!(
            "`protocol` is {} now and was {}: objects with the old number would have no owner. \
             Apply it with empty sections first, then start again",
            now.protocol(),
            was.protocol()
        ));
    }
    let ownership = |kind| (now.ownership(kind), was.ownership(kind));
    let differs = [
        ("adopt", now.adopt() != was.adopt()),
        ("adopt_protocols", now.adopt_protocols() != was.adopt_protocols()),
        ("on_conflict", now.on_conflict() != was.on_conflict()),
        ("grace", now.grace() != was.grace()),
        // The limit of a file that collects stays when `[world]` leaves it.
        ("max_deletes", now.max_deletes().is_some() && now.max_deletes() != was.max_deletes()),
        ("ownership", Kind::DECLARED.map(ownership).iter().any(|(now, was)| now != was)),
        ("domain", now.domain() != was.domain()),
        ("sysctl_revert", all.settings != were.settings),
        ("world", !is_same_world),
    ];
    let (key, _) = differs.into_iter().find(|(_, differs)| *differs)?;
    Some(format!("`{key}` is changed, which a running loop cannot use: start again"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trueup_net::{Domain, Protocols};
    use trueup_rtnl::{MaxDeletes, OnConflict, Ownership};

    use super::*;
    use crate::watch::GRACE;

    #[test]
    fn a_refusal_names_the_key() {
        let was = trueup_rtnl::Options::default().with_grace(GRACE);
        let of = |network: &trueup_rtnl::Options| Options {
            network: network.clone(),
            ..Options::default()
        };
        assert_eq!(options_error(&of(&was), &of(&was), true), None);
        let now = || was.clone();
        let by_ledger = now().with_ownership(Kind::Rule, Ownership::Ledger);
        for (key, now) in [
            ("protocol", now().with_protocol(117).unwrap()),
            ("adopt", now().with_adopt(true)),
            ("adopt_protocols", now().with_adopt_protocols(Protocols::NONE.with(12))),
            ("on_conflict", now().with_on_conflict(OnConflict::Take)),
            ("grace", now().with_grace(Duration::ZERO)),
            ("max_deletes", now().with_max_deletes(MaxDeletes::Number(1))),
            ("ownership", by_ledger.clone()),
            ("ownership", by_ledger.with_ownership(Kind::Rule, Ownership::Marker)),
            ("domain", now().with_domain(Domain::default().with_tables([100..=199]))),
        ] {
            let options_error = options_error(&of(&now), &of(&was), true).unwrap();
            assert!(options_error.starts_with(&format!("`{key}` is ")), "{options_error}");
        }
        let reverting =
            Options { settings: trueup_sysctl::Options::default().with_revert(true), ..of(&was) };
        let options_error = options_error(&reverting, &of(&was), true).unwrap();
        assert!(options_error.starts_with("`sysctl_revert` is "), "{options_error}");
    }
}

//! The options of passes, from a file's settings.

use std::time::Duration;

use trueup_file::Settings;
use trueup_net::Kind;
use trueup_rtnl::{self as rtnl, MaxDeletes};
use trueup_sysctl as sysctl;

/// The default grace of a long-running agent: for this time an undeclared object with our marker is
/// left alone, because the file may be written later than the object.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// The options of passes over a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The options of the network's passes.
    pub network: rtnl::Options,
    /// The options of the sysctls' passes.
    pub settings: sysctl::Options,
}

/// Returns the options from `settings`. `grace` is the command's default. Fails if `protocol` is
/// reserved, which cannot happen with a file that was parsed.
pub(crate) fn options(settings: &Settings, grace: Duration) -> Result<Options, rtnl::Error> {
    // Limits deletions, because another host's exports may be emptied by mistake. A `partition`
    // that withdraws routes needs all of them to go.
    let keeps = settings.world.as_ref().is_some_and(|it| it.partition.is_none());
    let of_world = keeps.then_some(MaxDeletes::Percent(50));
    let mut network = rtnl::Options::default()
        .with_registered_protocol(settings.protocol)?
        .with_adopt(settings.adopt)
        .with_adopt_protocols(settings.adopt_protocols)
        .with_take(settings.take)
        .with_grace(settings.grace.unwrap_or(grace))
        .with_domain(settings.domain.clone());
    if let Some(max_deletes) = settings.max_deletes.or(of_world) {
        network = network.with_max_deletes(max_deletes);
    }
    let network = settings
        .ownership
        .iter()
        .fold(network, |options, (kind, proof)| options.with_ownership(*kind, *proof));
    let settings = sysctl::Options::default().with_revert(settings.sysctl_revert);
    Ok(Options { network, settings })
}

/// Returns why a running loop cannot switch to other options, or to another `[world]`.
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
    let differs = [
        ("adopt", now.adopt() != was.adopt()),
        ("adopt_protocols", now.adopt_protocols() != was.adopt_protocols()),
        ("on_conflict", now.take() != was.take()),
        ("grace", now.grace() != was.grace()),
        // A file that collected keeps its limit when `[world]` is removed.
        ("max_deletes", now.max_deletes().is_some() && now.max_deletes() != was.max_deletes()),
        (
            "ownership",
            Kind::DECLARED.iter().any(|kind| now.ownership(*kind) != was.ownership(*kind)),
        ),
        ("domain", now.domain() != was.domain()),
        ("sysctl_revert", all.settings != were.settings),
        ("world", !is_same_world),
    ];
    let (key, _) = differs.into_iter().find(|(_, differs)| *differs)?;
    Some(format!("`{key}` is changed, which a running loop cannot use: start again"))
}

#[cfg(test)]
mod tests {
    use trueup_net::{Domain, Ownership, Protocols};

    use super::*;

    #[test]
    fn a_file_without_settings_gives_the_defaults_and_the_grace_of_the_command() {
        let ten = Duration::from_secs(10);
        let expected = rtnl::Options::default().with_grace(ten);
        let options = options(&Settings::default(), ten).unwrap();
        assert_eq!(options.network, expected);
        assert!(!options.settings.revert());
    }

    #[test]
    fn what_is_collected_has_a_limit_unless_a_partition_lets_it_go() {
        fn max_deletes(text: &str) -> Option<MaxDeletes> {
            let text = format!("[world]\nstore = \"embedded\"\nhost = \"a\"\n{text}");
            let tables = trueup_file::TableNames::default();
            let file = trueup_file::File::parse("f", text.as_bytes(), &tables).unwrap();
            options(&file.settings, Duration::ZERO).unwrap().network.max_deletes()
        }
        assert_eq!(max_deletes(""), Some(MaxDeletes::Percent(50)));
        assert_eq!(max_deletes("partition = \"drop\""), None);
    }

    #[test]
    fn each_setting_is_an_option() {
        let settings = Settings::default()
            .with_protocol(117)
            .with_adopt(true)
            .with_adopt_protocols(Protocols::NONE.with(12))
            .with_take(true)
            .with_grace(Duration::from_millis(2500))
            .with_max_deletes(MaxDeletes::Number(7))
            .with_ownership([(Kind::Route, Ownership::Marker), (Kind::Link, Ownership::Ledger)])
            .with_domain(Domain::default().with_tables([100..=199]))
            .with_sysctl_revert(true);
        let expected = rtnl::Options::default()
            .with_protocol(117)
            .unwrap()
            .with_adopt(true)
            .with_adopt_protocols(settings.adopt_protocols)
            .with_take(true)
            .with_grace(Duration::from_millis(2500))
            .with_max_deletes(MaxDeletes::Number(7))
            .with_ownership(Kind::Route, Ownership::Marker)
            .with_ownership(Kind::Link, Ownership::Ledger)
            .with_domain(settings.domain.clone());
        let options = options(&settings, Duration::ZERO).unwrap();
        assert_eq!(options.network, expected);
        assert!(options.settings.revert());
    }

    #[test]
    fn a_refusal_names_the_key() {
        let was = rtnl::Options::default().with_grace(GRACE);
        fn of(network: &rtnl::Options) -> Options {
            Options { network: network.clone(), ..Options::default() }
        }
        assert_eq!(options_error(&of(&was), &of(&was), true), None);
        let by_ledger = was.clone().with_ownership(Kind::Rule, Ownership::Ledger);
        for (key, now) in [
            ("protocol", was.clone().with_protocol(117).unwrap()),
            ("adopt", was.clone().with_adopt(true)),
            ("adopt_protocols", was.clone().with_adopt_protocols(Protocols::NONE.with(12))),
            ("on_conflict", was.clone().with_take(true)),
            ("grace", was.clone().with_grace(Duration::ZERO)),
            ("max_deletes", was.clone().with_max_deletes(MaxDeletes::Number(1))),
            ("ownership", by_ledger.clone()),
            ("ownership", by_ledger.with_ownership(Kind::Rule, Ownership::Marker)),
            ("domain", was.clone().with_domain(Domain::default().with_tables([100..=199]))),
        ] {
            let options_error = options_error(&of(&now), &of(&was), true).unwrap();
            assert!(options_error.starts_with(&format!("`{key}` is ")), "{options_error}");
        }
        let reverting =
            Options { settings: sysctl::Options::default().with_revert(true), ..of(&was) };
        let options_error = options_error(&reverting, &of(&was), true).unwrap();
        assert!(options_error.starts_with("`sysctl_revert` is "), "{options_error}");
    }
}

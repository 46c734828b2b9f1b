//! The options of a pass, from the settings of a file.

use std::time::Duration;

use trueup_file::Settings;
use trueup_rtnl::{self as rtnl, MaxDeletes};
use trueup_sysctl as sysctl;

/// The options of passes over the namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Of the network.
    pub network: rtnl::Options,
    /// Of sysctls.
    pub settings: sysctl::Options,
}

/// Returns the options that `settings` name; `grace` is the command's own default.
///
/// # Errors
///
/// When `protocol` is reserved, which that of a file that was read never is.
pub(crate) fn options(settings: &Settings, grace: Duration) -> Result<Options, rtnl::Error> {
    // What other hosts export may be emptied by mistake. A partition may let it go.
    let of_world = settings.world.as_ref().filter(|world| world.partition.is_none());
    let of_world = of_world.map(|_| MaxDeletes::Percent(50));
    let network = rtnl::Options::default()
        .with_registered_protocol(settings.protocol)?
        .with_adopt(settings.adopt)
        .with_adopt_protocols(settings.adopt_protocols)
        .with_on_conflict(settings.on_conflict)
        .with_grace(settings.grace.unwrap_or(grace))
        .with_max_deletes(settings.max_deletes.or(of_world))
        .with_domain(settings.domain.clone());
    let network = settings
        .ownership
        .iter()
        .fold(network, |options, (kind, proof)| options.with_ownership(*kind, *proof));
    let settings = sysctl::Options::default().with_revert(settings.sysctl_revert);
    Ok(Options { network, settings })
}

#[cfg(test)]
mod tests {
    use trueup_net::{Domain, Kind, OnConflict, Ownership, Protocols};

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
        let max_deletes = |text: &str| {
            let text = format!("[world]\nstore = \"embedded\"\nhost = \"a\"\n{text}");
            let tables = trueup_file::TableNames::default();
            let file = trueup_file::File::parse("f", text.as_bytes(), &tables).unwrap();
            let options = options(&file.settings, Duration::ZERO).unwrap();
            options.network.max_deletes()
        };
        assert_eq!(max_deletes(""), Some(MaxDeletes::Percent(50)));
        assert_eq!(max_deletes("partition = \"drop\""), None);
    }

    #[test]
    fn each_setting_is_an_option() {
        let settings = Settings::default()
            .with_protocol(117)
            .with_adopt(true)
            .with_adopt_protocols(Protocols::NONE.with(12))
            .with_on_conflict(OnConflict::Take)
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
            .with_on_conflict(OnConflict::Take)
            .with_grace(Duration::from_millis(2500))
            .with_max_deletes(MaxDeletes::Number(7))
            .with_ownership(Kind::Route, Ownership::Marker)
            .with_ownership(Kind::Link, Ownership::Ledger)
            .with_domain(settings.domain.clone());
        let options = options(&settings, Duration::ZERO).unwrap();
        assert_eq!(options.network, expected);
        assert!(options.settings.revert());
    }
}

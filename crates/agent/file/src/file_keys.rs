//! The keys at the top of a file that are not sections of objects.

pub(crate) const PROTOCOL: &str = "protocol";
pub(crate) const PROTOCOL_IS_MINE: &str = "protocol_is_mine";
pub(crate) const ADOPT: &str = "adopt";
pub(crate) const ADOPT_PROTOCOLS: &str = "adopt_protocols";
pub(crate) const ON_CONFLICT: &str = "on_conflict";
pub(crate) const GRACE: &str = "grace";
pub(crate) const MAX_DELETES: &str = "max_deletes";
pub(crate) const NEXTHOPS: &str = "nexthops";
pub(crate) const DOMAIN: &str = "domain";
pub(crate) const OWNERSHIP: &str = "ownership";
pub(crate) const WORLD: &str = "world";
/// The section whose elements can be looked up by position.
pub(crate) const COLLECT: &str = "collect";
pub(crate) const SYSCTL: &str = "sysctl";
pub(crate) const SYSCTL_REVERT: &str = "sysctl_revert";

/// All of these keys, each with an example.
pub(crate) const ALL: [(&str, &str); 13] = [
    (PROTOCOL, "protocol = 116"),
    (PROTOCOL_IS_MINE, "protocol_is_mine = true"),
    (ADOPT, "adopt = true"),
    (ADOPT_PROTOCOLS, "adopt_protocols = [ 12 ]"),
    (ON_CONFLICT, "on_conflict = \"take\""),
    (GRACE, "grace = 10"),
    (MAX_DELETES, "max_deletes = \"50%\""),
    (NEXTHOPS, "nexthops = \"objects\""),
    (OWNERSHIP, "[ownership]"),
    (DOMAIN, "[domain]"),
    (WORLD, "[world] with endpoints and host"),
    (SYSCTL, "[sysctl]"),
    (SYSCTL_REVERT, "sysctl_revert = true"),
];

/// The keys that are tables and may be headers.
pub(crate) const TABLES: [&str; 4] = [OWNERSHIP, DOMAIN, WORLD, SYSCTL];

/// The keys that declare something without any section: settings of the kernel, or a store to ask.
pub(crate) const DECLARING: [&str; 2] = [SYSCTL, WORLD];

/// Finds a key by name. Returns it with its example.
pub(crate) fn find(name: &str) -> Option<(&'static str, &'static str)> {
    ALL.into_iter().find(|(known, _)| *known == name)
}

//! Messages about unknown words, with the nearest known one.

/// Returns the message about an unknown `word`. If it is another tool's word, the message says what
/// to write instead; if not, it names the nearest known word. `of` may be empty.
pub(crate) fn unknown(sort: &str, word: &str, of: &str, known: &[&str]) -> String {
    let shown: String = word.chars().take(40).collect();
    let whose = if of.is_empty() { String::new() } else { format!(" of {of}") };
    let hint = match (remedy(of, word), nearest(word, known.iter().copied())) {
        (Some(remedy), _) => format!(": {remedy}"),
        (None, Some(nearest)) => format!("; did you mean `{nearest}`?"),
        (None, None) => format!("; write one of {}", known.join(", ")),
    };
    format!("unknown {sort} `{shown}`{whose}{hint}")
}

/// Returns the known word that was probably meant. `None` if none is near enough.
///
/// ```
/// use trueup_file::nearest;
///
/// assert_eq!(nearest("gatway", ["gateway", "device"]), Some("gateway"));
/// assert_eq!(nearest("colour", ["gateway", "device"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, nearest) =
        known.into_iter().map(|candidate| (distance(word, candidate), candidate)).min()?;
    (distance <= (nearest.len() / 3).max(1)).then_some(nearest)
}

/// Returns the number of insertions, deletions, exchanges and swaps of neighbours between two
/// words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // No known word is near a word of this length.
    if a.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let shift = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { change };
                change.min(shift).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

/// The elements that wrong words appear in (any of these), the words, and the remedy.
const WORDS: &[(&str, &str, &str)] = &[
    ("a route", "to destination dest prefix network target", "write `dst`"),
    ("a route; a next hop", "gateway gw next_hop nexthop next_hop_address router", "write `via`"),
    ("a route", "pref priority preference distance", "write `metric`"),
    ("a route", "source prefsrc preferred_source", "write `src`"),
    ("a route", "lookup table_id vrf", "write `table`"),
    (
        "a route; an address",
        "netmask mask prefixlen prefix_length",
        "write the length behind the address, such as \"10.0.0.0/24\"",
    ),
    ("an address", "ip addr local addresses", "write `address`, one in each [[address]]"),
    ("a neighbour", "ip addr address to", "write `dst`"),
    ("a neighbour", "mac macaddress mac_address hwaddr", "write `lladdr`"),
    ("a link", "mac macaddress mac_address hwaddr lladdr", "write `address`"),
    (
        "a link",
        "ports slaves members interfaces bridge_ports",
        "write master = \"NAME\" in the [[link]] of each port",
    ),
    (
        "a link",
        "addresses ip ipv4 ipv6 dhcp4 dhcp6",
        "write an [[address]] with `dev` and `address` for each",
    ),
    ("a link", "routes gateway4 gateway6", "write [[route]] with `dst` and `via`"),
    ("a link", "vni vlan_id vid tag", "write `id`"),
    ("a link", "type", "write `kind`"),
    ("a link", "parent lower base_iface dev", "write `link`"),
    ("a link", "state enabled activation_mode", "write `up`"),
    ("a link", "dstport destination_port", "write `port`"),
    ("a rule", "pref preference prio order", "write `priority`"),
    ("a rule", "lookup table_id", "write `table`"),
    ("a rule", "mark", "write `fwmark`"),
    ("a rule", "src source", "write `from`"),
    ("a rule", "dst destination", "write `to`"),
    (
        "a route; an address; a neighbour; a next hop",
        "device interface iface oif ifname next_hop_interface",
        "write `dev`",
    ),
    ("a file", "nexthop next_hop", "write `via` and `dev`, or a list `nexthops`, in [[route]]"),
    (
        "a file",
        "interface ethernets bridges vlans bonds iface netdev Match",
        "write a [[link]] for each",
    ),
    ("a file", "Network network", "write [[link]], [[address]] and [[route]]"),
];

/// Returns the remedy for another tool's word for a key or section of `of`.
pub(crate) fn remedy(of: &str, word: &str) -> Option<&'static str> {
    let known = word.replace('-', "_");
    let found = WORDS.iter().find(|(all, words, _)| {
        all.split("; ").any(|it| it == of) && words.split(' ').any(|it| it == known)
    });
    found.map(|(_, _, remedy)| *remedy)
}

#[cfg(test)]
mod tests;

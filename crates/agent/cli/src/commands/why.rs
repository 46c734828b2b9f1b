//! `trueup why`: who owns an object, the proof, its declaration, and the next pass's change. Needs
//! no privilege and writes nothing. This module parses the words; the source has the answer.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use trueup::Options;
use trueup::net::{Family, IpNetwork, Prefix};
use trueup::rtnl::Query;
use trueup::world::Accepted;
use trueup_agent::{Agent, Declared};
use trueup_file::{NodeRef, TableNames};

use super::{agent, refuse_ip};
use crate::Common;
use crate::output;

/// The arguments of `why`.
#[derive(clap::Args)]
pub(crate) struct Why {
    /// The object in the words of `ip`: `link NAME`, `address ADDRESS[/LENGTH] [dev NAME]`,
    /// `neighbour ADDRESS [dev NAME]`, `route PREFIX|default [table T] [metric M] [tos T]`,
    /// `rule PRIORITY`; or `file NAME`, `exec NAME` of the file
    #[arg(required = true, value_name = "OBJECT")]
    words: Vec<String>,
    /// The desired state, TOML or JSON; `-` is the standard input. Without it the output
    /// leaves out what a pass would do
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The protocol number that marks our objects [default: the file's, else 116]
    #[arg(long, value_name = "N", conflicts_with = "file")]
    protocol: Option<u8>,
    /// Objects of IPv4 only
    #[arg(short = '4', conflicts_with = "inet6")]
    inet: bool,
    /// Objects of IPv6 only
    #[arg(short = '6')]
    inet6: bool,
}

pub(crate) fn why(common: &Common, asked: &Why) -> Result<ExitCode> {
    refuse_ip(common, "why")?;
    if let [sort, name] = &asked.words[..]
        && let Some(vertex) = vertex(sort, name)
    {
        return super::graph::why(common, asked.file.as_deref(), &vertex);
    }
    let family = match (asked.inet, asked.inet6) {
        (true, _) => Some(Family::Inet),
        (_, true) => Some(Family::Inet6),
        _ => None,
    };
    let query = query(&asked.words, family, &TableNames::system()?)?;
    let agent = agent(common)?;
    let declared = match &asked.file {
        Some(file) => Some(agent.read(file, common.writers())?),
        None => None,
    };
    let options = match (&declared, asked.protocol) {
        (Some(declared), _) => declared.options.network.clone(),
        (None, Some(protocol)) => Options::default().with_registered_protocol(protocol)?,
        (None, None) => Options::default(),
    };
    let all = trueup_agent::Options { network: options.clone(), ..Default::default() };
    let (explained, accepted) = agent.why(declared.as_ref(), &all, &query)?;
    let context = output::WhyContext {
        asked: &asked.words.join(" "),
        kind: query.kind(),
        marker: options.protocol(),
        has_file: declared.is_some(),
        place: &|position| {
            let Declared { name, file, .. } = declared.as_ref()?;
            Some((name.as_str(), file.locations.at(query.kind(), position)?))
        },
        collected: &collected(accepted.as_ref(), &query),
        contests: &match (&declared, &query) {
            (Some(declared), Query::Route { dst, .. }) => contests(declared, &agent, *dst),
            _ => Vec::new(),
        },
    };
    output::why(common.format, &context, &explained)?;
    for doubt in &explained.doubts {
        output::note(doubt);
    }
    if explained.objects.is_empty() && !explained.doubts.is_empty() {
        bail!("cannot tell whether there is such an object");
    }
    Ok(ExitCode::SUCCESS)
}

fn vertex(sort: &str, name: &str) -> Option<NodeRef> {
    match sort {
        "file" => Some(NodeRef::File(name.to_owned())),
        "exec" => Some(NodeRef::Exec(name.to_owned())),
        _ => None,
    }
}

/// Returns other hosts' exports to the destination in the query, and to parts of it.
fn collected(accepted: Option<&Accepted>, query: &Query) -> Vec<output::Collected> {
    let (Some(accepted), Query::Route { dst, .. }) = (accepted, query) else {
        return Vec::new();
    };
    let mut collected = output::Collected::all(accepted);
    collected.retain(|it| it.concerns(*dst));
    collected
}

/// Returns the problems with this host's exports of a destination: which host takes all or part of
/// its traffic. If this cannot be determined, prints a note.
fn contests(declared: &Declared, agent: &Agent, dst: Prefix) -> Vec<String> {
    let (contests, ungranted) = match agent.contests(declared) {
        Ok(found) => found,
        Err(error) => {
            let why = output::with_causes(&error);
            output::note(format_args!(
                "it is not known which hosts export the prefixes of this one: {why}"
            ));
            return Vec::new();
        }
    };
    let concerned = contests.iter().filter(|it| it.dst == dst || it.other.0 == dst);
    let mut words: Vec<String> = concerned.map(ToString::to_string).collect();
    let of_dst = format!("{dst}, ");
    words.extend(ungranted.into_iter().filter(|it| it.starts_with(&of_dst)));
    words
}

const LINK: &str = "link NAME";
const ADDRESS: &str = "address ADDRESS[/LENGTH] [dev NAME]";
const NEIGHBOUR: &str = "neighbour ADDRESS [dev NAME]";
const ROUTE: &str = "route PREFIX|default [table T] [metric M] [tos T]";
const RULE: &str = "rule PRIORITY";

/// Parses the words of a query. Each error says what to write.
fn query(words: &[String], family: Option<Family>, tables: &TableNames) -> Result<Query> {
    let usage = match words.first().map(String::as_str) {
        Some("link") => LINK,
        Some("address" | "addr") => ADDRESS,
        Some("neighbour" | "neighbor" | "neigh") => NEIGHBOUR,
        Some("route") => ROUTE,
        Some("rule") => RULE,
        _ => "",
    };
    parsed(words, family, tables).map_err(|error| {
        let text = error.to_string();
        if usage.is_empty() || text.contains("write `") {
            error
        } else {
            anyhow!("{text}: write `{usage}`")
        }
    })
}

fn parsed(words: &[String], family: Option<Family>, tables: &TableNames) -> Result<Query> {
    let (kind, rest) = words.split_first().map_or(("", words), |(kind, rest)| (kind, rest));
    Ok(match kind {
        "link" => {
            let mut words = Words { rest: rest.iter(), usage: LINK };
            let name = words.after(&["dev"])?;
            let [] = words.options([])?;
            Query::Link { name: read(name)? }
        }
        "address" | "addr" => {
            let mut words = Words { rest: rest.iter(), usage: ADDRESS };
            let (address, len) = match words.next()? {
                text if text.contains('/') => {
                    let network: IpNetwork = read(text)?;
                    (network.ip(), Some(network.prefix()))
                }
                text => (read(text)?, None),
            };
            agree(family, address)?;
            let [dev] = words.options(["dev"])?;
            Query::Address { address, len, dev: dev.map(read).transpose()? }
        }
        "neighbour" | "neighbor" | "neigh" => {
            let mut words = Words { rest: rest.iter(), usage: NEIGHBOUR };
            let dst = read(words.next()?)?;
            agree(family, dst)?;
            let [dev] = words.options(["dev"])?;
            Query::Neighbour { dst, dev: dev.map(read).transpose()? }
        }
        "route" => {
            let mut words = Words { rest: rest.iter(), usage: ROUTE };
            let dst = match words.next()? {
                "default" => Prefix::default_route(family.unwrap_or(Family::Inet)),
                text if text.contains('/') => read(text)?,
                text => Prefix::host(read(text)?),
            };
            agree(family, dst.address())?;
            let [table, metric, tos] = words.options(["table", "metric", "tos"])?;
            Query::Route {
                dst,
                table: match table {
                    Some(text) => Some(tables.number(text).map_or_else(|| number(text), Ok)?),
                    None => None,
                },
                metric: metric.map(number).transpose()?,
                tos: tos.map(number).transpose()?,
            }
        }
        "rule" => {
            let mut words = Words { rest: rest.iter(), usage: RULE };
            let priority = number(words.after(&["priority", "pref"])?)?;
            let [] = words.options([])?;
            Query::Rule { priority, family }
        }
        _ => bail!(
            "`{kind}` is no kind of object: write `{LINK}`, `{ADDRESS}`, `{NEIGHBOUR}`, `{ROUTE}` or `{RULE}`"
        ),
    })
}

/// The words after the kind.
struct Words<'a> {
    rest: std::slice::Iter<'a, String>,
    usage: &'static str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str> {
        let word = self.rest.next().map(String::as_str);
        word.ok_or_else(|| anyhow!("a word is missing: write `{}`", self.usage))
    }

    /// Returns the next word, or the one after it if the next is one of `names`.
    fn after(&mut self, names: &[&str]) -> Result<&'a str> {
        let word = self.next()?;
        if names.contains(&word) {
            return self.next();
        }
        Ok(word)
    }

    /// Parses all remaining words as names with values, each at most once.
    fn options<const N: usize>(mut self, names: [&str; N]) -> Result<[Option<&'a str>; N]> {
        let mut values = [None; N];
        while let Some(name) = self.rest.next() {
            let at = names.iter().position(|known| known == name);
            match at.and_then(|at| values.get_mut(at)) {
                Some(value @ None) => *value = Some(self.next()?),
                Some(_) => bail!("`{name}` is given twice: write `{}`", self.usage),
                None => bail!("`{name}` is not known here: write `{}`", self.usage),
            }
        }
        Ok(values)
    }
}

fn read<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| anyhow!("`{text}`: {error}"))
}

/// Parses a number. It is hexadecimal if it begins with `0x`, as in printed output.
fn number<T: TryFrom<u32>>(text: &str) -> Result<T> {
    let read = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let number = read.ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| anyhow!("`{text}` is no number that fits there"))
}

fn agree(family: Option<Family>, address: IpAddr) -> Result<()> {
    match family.filter(|family| *family != Family::of(address)) {
        Some(family) => bail!("{address} is not of the family {family}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, family: Option<Family>) -> Result<Query> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        query(&words, family, &TableNames::default())
    }

    #[test]
    fn the_words_are_those_of_ip() {
        fn route(
            text: &str,
            family: Option<Family>,
        ) -> (String, Option<u32>, Option<u32>, Option<u8>) {
            match asked(text, family).unwrap() {
                Query::Route { dst, table, metric, tos } => (dst.to_string(), table, metric, tos),
                other => panic!("{other:?}"),
            }
        }
        let whole = route("route 10.2.0.0/16 tos 0x10 table main metric 7", None);
        assert_eq!(whole, ("10.2.0.0/16".into(), Some(254), Some(7), Some(16)));
        let inet6 = Some(Family::Inet6);
        assert_eq!(route("route default", None).0, "0.0.0.0/0");
        assert_eq!(route("route default", inet6).0, "::/0");
        assert_eq!(route("route fd00::1", None).0, "fd00::1/128");
        assert_eq!(
            asked("address 10.1.0.1/24 dev br0", None).unwrap(),
            Query::Address {
                address: [10, 1, 0, 1].into(),
                len: Some(24),
                dev: Some("br0".parse().unwrap()),
            }
        );
        assert_eq!(asked("rule pref 7", None).unwrap(), asked("rule 7", None).unwrap());
        assert_eq!(asked("link dev br0", None).unwrap(), asked("link br0", None).unwrap());
    }

    #[test]
    fn what_cannot_be_asked_is_told_with_what_can() {
        for (text, expected) in [
            ("", "write `link NAME`"),
            ("tunnel x", "`tunnel` is no kind of object"),
            ("link", "write `link NAME`"),
            ("link a b", "`b` is not known here"),
            ("rule x", "`x` is no number that fits there: write `rule PRIORITY`"),
            ("neighbour v0", "invalid IP address syntax: write `neighbour ADDRESS [dev NAME]`"),
            ("link a/b", "`a/b`"),
            ("route 10.2.0.1/16", "write 10.2.0.0/16"),
            ("route 10.2.0.0/16 table", "a word is missing"),
            ("route 10.2.0.0/16 table nowhere", "`nowhere` is no number"),
            ("route 10.2.0.0/16 tos 256", "`256` is no number that fits"),
            ("route 10.2.0.0/16 metric 1 metric 2", "given twice"),
            ("address 10.1.0.300", "10.1.0.300"),
            ("rule low", "`low` is no number"),
        ] {
            let error = asked(text, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let error = asked("route 10.2.0.0/16", Some(Family::Inet6)).unwrap_err();
        assert!(error.to_string().contains("inet6"), "{error}");
    }
}

//! The output of `trueup why`.

mod record;
mod words;

use std::io::{self, Write};

use anyhow::Result;
use trueup::net::{Devices, Kind};
use trueup::rtnl::{Explained, Explanation, Step};
use trueup_file::Location;

use self::record::Records;
use self::words::{nothing_words, origin_words, title, whose_words};
use super::{Collected, Format, print, write_json};

/// The output's data beside the explanation.
pub(crate) struct WhyContext<'a> {
    /// The query as the user wrote it.
    pub(crate) asked: &'a str,
    /// The kind in the query.
    pub(crate) kind: Kind,
    /// The protocol number that marks our objects.
    pub(crate) marker: u8,
    /// True if the declared state is known.
    pub(crate) has_file: bool,
    /// Returns the file and the place in it of an object of that kind, by the object's position.
    pub(crate) place: &'a dyn Fn(usize) -> Option<(&'a str, Location)>,
    /// Other hosts' exports to the destination in the query, and to parts of it.
    pub(crate) collected: &'a [Collected],
    /// The problems with this host's exports of that destination, in words.
    pub(crate) contests: &'a [String],
}

/// Prints the explanation. Fails if the standard output cannot be written to.
pub(crate) fn why(
    format: Format,
    context: &WhyContext<'_>,
    explanation: &Explanation,
) -> Result<()> {
    let Explanation { objects, devices, .. } = explanation;
    print(|out| match format {
        Format::Json => write_json(out, &Records::new(explanation, context)),
        Format::Text if objects.is_empty() => {
            let declared = if context.has_file { ", not declared" } else { "" };
            writeln!(out, "{}: not in the kernel{declared}, and not in the ledger", context.asked)?;
            exported(out, context)
        }
        _ => {
            for (at, explained) in objects.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                text(out, explained, context, devices)?;
            }
            exported(out, context)
        }
    })
}

fn exported(out: &mut dyn Write, context: &WhyContext<'_>) -> io::Result<()> {
    context.collected.iter().try_for_each(|it| writeln!(out, "  {it}"))?;
    context.contests.iter().try_for_each(|it| writeln!(out, "  {it}"))
}

fn text(
    out: &mut dyn Write,
    explained: &Explained,
    context: &WhyContext<'_>,
    devices: &Devices,
) -> io::Result<()> {
    let Explained { key, present, entry, desired, next, .. } = explained;
    writeln!(out, "{}", title(key, devices))?;
    if present.is_empty() {
        writeln!(out, "  in the kernel: nothing")?;
    }
    for (object, whose) in present {
        writeln!(out, "  in the kernel: {}", object.spec(devices))?;
        writeln!(out, "    {}", whose_words(*whose, object, explained, context))?;
    }
    match entry {
        Some(entry) => {
            writeln!(out, "  in the ledger: {}", origin_words(entry, devices))?;
            if entry.is_open {
                writeln!(out, "    the outcome of an earlier pass's intent is not known")?;
            }
        }
        None => writeln!(out, "  in the ledger: nothing")?,
    }
    if !context.has_file {
        return writeln!(out, "  next pass: name what is declared with --file FILE");
    }
    match desired {
        Some((position, object)) => {
            let place = match (context.place)(*position) {
                Some((name, place)) => format!("{name}:{place}: "),
                None => String::new(),
            };
            writeln!(out, "  declared: {place}{}", object.spec(devices))?;
        }
        None => writeln!(out, "  declared: nothing")?,
    }
    for step in next {
        writeln!(out, "  next pass: {}", step_words(step, context, devices))?;
    }
    Ok(())
}

fn step_words(step: &Step, context: &WhyContext<'_>, devices: &Devices) -> String {
    match step {
        Step::Op { op, waits_for } => {
            let held = if op.hold.is_some() { "! " } else { "" };
            let waits = waits_for.as_ref().map_or_else(String::new, |op| {
                format!("; waits for what is held: {}", op.text(devices))
            });
            format!("{held}{}{waits}", op.text(devices))
        }
        Step::Conflict(conflict) => {
            format!("conflict: {}; it stays, as it is not ours", conflict.foreign_text(devices))
        }
        Step::Adopt => "it is adopted: ours from then on, and left as it is".to_owned(),
        nothing => format!("nothing: {}", nothing_words(nothing, context.kind)),
    }
}

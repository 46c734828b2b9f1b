//! `cargo xtask bench --work daemon`: a routing daemon's demands on trueup. Times run from the call
//! of [`Handle::change`](trueup_loop::Handle::change) to the kernel's event on a separate socket,
//! beside the same change as one raw request. There are single changes of each form of route
//! ([`forms`]), and a day among a million routes ([`day`]), with unreachable gateways and other
//! writers' routes all the time; also the command `trueup watch` ([`watch`]), and BIRD ([`bird`]).

mod bird;
mod day;
mod feed;
mod table;
mod turns;
pub(crate) mod watch;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::floor;
use crate::row::{Row, table};
use table::{EXCEPTIONS, FORMS};

/// Measures what a routing daemon asks of trueup. The prefixes of a day are read from the folder
/// that $TRUEUP_DATA names, from internet-v4.txt.gz and internet-v6.txt.gz with a prefix at the
/// start of each line; else they are made up.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Measure this part alone; may be repeated.
    #[arg(long)]
    part: Vec<Part>,
    /// How many IPv4 routes a day has; 1,000,000 by default.
    #[arg(long)]
    v4: Option<usize>,
    /// How many IPv6 routes a day has; 200,000 by default.
    #[arg(long)]
    v6: Option<usize>,
    /// How long each part of a day lasts; 60 by default.
    #[arg(long)]
    seconds: Option<u64>,
    /// Among how many routes single changes are measured, with commas between the numbers;
    /// 1000,50000,1000000 by default.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// How many single changes of each form; 500 by default.
    #[arg(long)]
    changes: Option<usize>,
    /// How many routes the file of `trueup watch` has; 50,000 by default.
    #[arg(long)]
    watched: Option<usize>,
    /// How many of them are deleted and restored; 50 by default.
    #[arg(long)]
    samples: Option<usize>,
    /// `--v4 20000 --v6 4000 --seconds 6 --sizes 1000 --changes 50 --watched 1000 --samples 5`,
    /// unless any is given.
    #[arg(long)]
    quick: bool,
    /// The command `trueup`: set by xtask. Without it `watch` is left out.
    #[arg(long)]
    trueup: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Forms,
    Day,
    Watch,
    Bird,
}

/// The base of ratios: the same change as one request, and its event.
const FLOOR: &str = "floor";
/// The name of our own rows.
const TRUEUP: &str = "trueup";

pub(crate) fn main(options: &Options) -> Result<()> {
    trueup_testkit::enter()?;
    let mut rows = Rows::default();
    for part in Part::value_variants() {
        if options.part.is_empty() || options.part.contains(part) {
            measure(*part, options, &mut rows);
        }
    }
    eprintln!("{}", table(&rows.all, FLOOR));
    ensure!(rows.failed.is_empty(), "failed: {}", rows.failed.join(", "));
    Ok(())
}

/// The rows so far, and the failed parts.
#[derive(Default)]
struct Rows {
    all: Vec<Row>,
    failed: Vec<String>,
}

impl Rows {
    /// Prints rows as lines of JSON, and keeps them for the table.
    fn show(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        for row in rows {
            row.print()?;
            self.all.push(row);
        }
        Ok(())
    }

    /// Runs a part of the benchmark, which enters its own namespace, and records its failure.
    fn piece(&mut self, name: String, piece: impl FnOnce(&mut Rows) -> Result<()>) {
        if let Err(error) = piece(self) {
            eprintln!("{name}: {error:#}");
            self.failed.push(name);
        }
    }
}

impl Options {
    fn given(&self, given: Option<usize>, quick: usize, full: usize) -> usize {
        given.unwrap_or(if self.quick { quick } else { full })
    }
}

fn measure(part: Part, options: &Options, rows: &mut Rows) {
    let of_day =
        (options.given(options.v4, 20_000, 1_000_000), options.given(options.v6, 4_000, 200_000));
    let lasts = Duration::from_secs(options.seconds.unwrap_or(if options.quick { 6 } else { 60 }));
    match (part, &options.trueup) {
        (Part::Forms, _) => {
            let changes = options.given(options.changes, 50, 500);
            let sizes = match &options.sizes[..] {
                [] if options.quick => &[1_000][..],
                [] => &[1_000, 50_000, 1_000_000],
                sizes => sizes,
            };
            for (size, form) in sizes.iter().flat_map(|size| FORMS.iter().map(move |it| (size, it)))
            {
                for exceptions in &EXCEPTIONS[..3] {
                    let name = format!("form {} {size} {}", form.name, exceptions.name);
                    rows.piece(name, |rows| {
                        rows.show(turns::forms(form, *size, exceptions, changes)?)
                    });
                }
            }
        }
        (Part::Day, _) => rows.piece("day".to_owned(), |rows| day::run(of_day, lasts, rows)),
        (Part::Watch, None) => eprintln!("watch: left out: no --trueup"),
        (Part::Watch, Some(trueup)) => {
            let (size, samples) = (
                options.given(options.watched, 1_000, 50_000),
                options.given(options.samples, 5, 50),
            );
            let watched = lasts.min(Duration::from_secs(20));
            for state in &watch::STATES {
                rows.piece(format!("watch {}", state.name), |rows| {
                    rows.show(watch::run(trueup, state, size, watched, samples)?)
                });
            }
        }
        (Part::Bird, _) => {
            eprintln!("zebra: left out: it takes changes from FRR's other daemons alone");
            if trueup_works::find("bird").is_some() {
                rows.piece("bird".to_owned(), |rows| rows.show([bird::run(of_day)?]));
            } else {
                eprintln!("bird: left out: not installed (Debian's package bird2)");
            }
        }
    }
}

/// Moves the calling thread to a namespace with the link to all gateways. With `objects`, it is
/// configured so that nexthop objects are fastest.
pub(crate) fn enter_namespace(objects: bool) -> Result<()> {
    trueup_testkit::quiet_netns();
    if objects {
        // With 1, the default, the kernel walks all routes for each changed nexthop object, to
        // announce them.
        fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0")?;
    }
    trueup_testkit::uplinks(1);
    floor::wait_until_up("up0");
    Ok(())
}

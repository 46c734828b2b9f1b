//! What others make, at the same work as trueup: `ip -batch`, the crates nlink and rtnetlink, BIRD
//! 2.
//!
//! `peers NAME WORK SIZE` does a piece of work once, in the network namespace that it is started
//! in, and prints what it took as a line of JSON; `peers list` prints what there is. Works, the
//! state that each finds and leaves, and the line are described in `benches/README.md`.
//!
//! Each peer is used as its own documentation has it, with what it offers for many objects at once.
//! Nothing here judges whether the outcome is right: whoever has it run looks at the kernel.

mod bird;
mod ip;
mod nlink;
mod rtnetlink;
mod shape;
mod took;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use shape::Work;
use took::Took;

/// A peer.
struct Peer {
    name: &'static str,
    /// What it needs installed: a program, and the Debian package that has it.
    needs: Option<(&'static str, &'static str)>,
    /// What it can do, and up to what size.
    works: &'static [(Work, usize)],
    run: fn(Work, usize) -> Result<Took>,
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "ip",
        needs: Some(("ip", "iproute2")),
        works: &ip::WORKS,
        run: ip::run,
    },
    Peer {
        name: "nlink",
        needs: None,
        works: &nlink::WORKS,
        run: nlink::run,
    },
    Peer {
        name: "nlink-declared",
        needs: None,
        works: &nlink::DECLARED,
        run: nlink::declared,
    },
    Peer {
        name: "rtnetlink",
        needs: None,
        works: &rtnetlink::WORKS,
        run: rtnetlink::run,
    },
    Peer {
        name: "bird",
        needs: Some(("bird", "bird2")),
        works: &bird::WORKS,
        run: bird::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ended = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            list();
            Ok(())
        }
        [name, work, size] => run(name, work, size),
        _ => {
            eprintln!("usage: peers list | peers NAME WORK SIZE");
            return ExitCode::from(64); // EX_USAGE
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A line `NAME WORK LARGEST-SIZE` each; what is not installed is named on stderr instead.
fn list() {
    for peer in &PEERS {
        match missing(peer) {
            Some(missing) => eprintln!("{}: left out: {missing}", peer.name),
            None => {
                for (work, most) in peer.works {
                    println!("{} {} {most}", peer.name, work.name());
                }
            }
        }
    }
}

fn run(name: &str, work: &str, size: &str) -> Result<()> {
    let peer = PEERS
        .iter()
        .find(|peer| peer.name == name)
        .with_context(|| format!("no such peer: {name}"))?;
    if let Some(missing) = missing(peer) {
        bail!("{name}: {missing}");
    }
    let size: usize = size.parse().with_context(|| format!("no size: {size}"))?;
    let &(of, most) = peer
        .works
        .iter()
        .find(|(of, _)| of.name() == work)
        .with_context(|| format!("{name} does not do {work}"))?;
    if size > most {
        bail!("{name} does {work} up to {most}");
    }
    let took = (peer.run)(of, size)?;
    println!(
        r#"{{"program":"{name}","work":"{work}","size":{size},"wall_ns":{},"cpu_ns":{},"peak_rss_kb":{}}}"#,
        took.wall.as_nanos(),
        took.cpu.as_nanos(),
        took.peak_kb
    );
    Ok(())
}

/// What is not installed, in words.
fn missing(peer: &Peer) -> Option<String> {
    let (program, package) = peer.needs?;
    ip::find(program)
        .is_none()
        .then(|| format!("`{program}` is missing (Debian's package {package})"))
}

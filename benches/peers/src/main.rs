//! Other programs that do the same works as trueup: `ip -batch`, the crates nlink and rtnetlink,
//! BIRD 2.
//!
//! `peers NAME WORK SIZE` does a piece of work once, in the network namespace in which it is
//! started, and prints its cost as a line of JSON; `peers list` prints all programs and works.
//! `benches/README.md` describes the works, the state that each finds and leaves, and the line.
//!
//! Each program is used as in its own documentation, with its means for many objects at once. This
//! code does not check the result: the caller looks at the kernel.

mod bird;
mod ip;
mod nlink;
mod rtnetlink;

use anyhow::Result;
use trueup_works::Family::{Inet, Inet6};
use trueup_works::{Program, Work, find, perform};

/// The works about routes that nearly all programs can do.
const ROUTES: [Work; 8] = [
    Work::RouteCreate(Inet),
    Work::RouteNoop(Inet),
    Work::RouteDelete(Inet),
    Work::RouteCreate(Inet6),
    Work::RouteNoop(Inet6),
    Work::RouteDelete(Inet6),
    Work::RouteGateway,
    Work::FewNoop,
];

fn main() -> Result<()> {
    let routes = ROUTES.map(|work| (work, 1_000_000));
    // For each replaced or deleted route, nlink's declared way searches a list, so the time grows
    // with the square: a delete takes 21 µs of processor time among 1,000, 31 µs among 10,000.
    let declared = ROUTES.map(|work| match work {
        Work::RouteGateway | Work::RouteDelete(_) => (work, 10_000),
        _ => (work, 1_000_000),
    });
    let mut programs = vec![
        Program { name: "nlink", works: routes.to_vec(), run: nlink::run },
        Program { name: "nlink-declared", works: declared.to_vec(), run: nlink::declared },
        Program { name: "rtnetlink", works: routes.to_vec(), run: rtnetlink::run },
    ];
    match find("ip") {
        Some(_) => programs.insert(0, Program { name: "ip", works: ip::works(), run: ip::run }),
        None => eprintln!("ip: left out: `ip` is missing (Debian's package iproute2)"),
    }
    match find("bird") {
        Some(_) => {
            programs.push(Program { name: "bird", works: routes[..6].to_vec(), run: bird::run });
        }
        None => eprintln!("bird: left out: `bird` is missing (Debian's package bird2)"),
    }
    perform(&programs, &std::env::args().skip(1).collect::<Vec<_>>())
}

//! BIRD 2: routes of a static protocol, brought into the kernel by a kernel protocol.
//!
//! It is started with its configuration beforehand, which it reads in some seconds; the clock runs
//! from the command over its control socket that sets it to work until it says that all is done.
//! Its routes bear its own protocol, 12.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::ip;
use crate::shape::{self, Family, PROTOCOL, Work};
use crate::took::{self, Took};

const ROUTES: usize = 1_000_000;

pub(crate) const WORKS: [(Work, usize); 6] = [
    (Work::RouteCreate, ROUTES),
    (Work::RouteNoop, ROUTES),
    (Work::RouteDelete, ROUTES),
    (Work::Route6Create, ROUTES),
    (Work::Route6Noop, ROUTES),
    (Work::Route6Delete, ROUTES),
];

/// Longer than anything takes that ends.
const BOUND: Duration = Duration::from_secs(300);

/// Does it.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let family = shape::family(work);
    let create = matches!(work, Work::RouteCreate | Work::Route6Create);
    if !create {
        // It leaves alone what others made. What an earlier run of it left bears its own protocol
        // and is taken over.
        let option = if family == Family::V4 { "-4" } else { "-6" };
        ip::call(&[option, "route", "flush", "protocol", &PROTOCOL.to_string()])?;
    }
    let bird = Bird::start(work, size)?;
    let mut control = Control::connect(&bird.socket)?;
    if create {
        return took::other(bird.child.id(), || {
            control.ask("enable kernel1")?;
            control.wait_exported(size)
        });
    }
    control.ask("enable kernel1")?;
    control.wait_exported(size)?;
    // A scan has to have been, after which it knows all that there is for its own.
    control.scan()?;
    took::other(bird.child.id(), || {
        if matches!(work, Work::RouteNoop | Work::Route6Noop) {
            return control.scan();
        }
        control.ask("disable static1")?;
        control.wait_exported(0)
    })
}

/// A running BIRD, killed when dropped: ended properly it would take longer, and do the same with
/// `persist`.
struct Bird {
    child: Child,
    socket: PathBuf,
    config: PathBuf,
}

impl Bird {
    fn start(work: Work, size: usize) -> Result<Bird> {
        let config = ip::write("bird.conf", |to| {
            let kind = match shape::family(work) {
                Family::V4 => "ipv4",
                Family::V6 => "ipv6",
            };
            writeln!(to, "router id 10.200.0.1;")?;
            writeln!(to, "protocol device {{ scan time 600; }}")?;
            // Metric 0 is that of the other peers' routes; `learn` lets a scan be asked for.
            writeln!(
                to,
                "protocol kernel {{ disabled; persist; learn; scan time 600; metric 0; {kind} {{ export all; }}; }}"
            )?;
            writeln!(to, "protocol static {{ {kind};")?;
            for route in shape::routes(work, size) {
                let (address, length, via) = (route.address, route.length, route.via);
                writeln!(to, "route {address}/{length} via {via};")?;
            }
            writeln!(to, "}}")
        })?;
        let socket = config.with_extension("ctl");
        let program = ip::find("bird").context("`bird` is missing")?;
        let child = Command::new(program)
            .arg("-f")
            .arg("-c")
            .arg(&config)
            .arg("-s")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Bird {
            child,
            socket,
            config,
        })
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // There is nothing to be done about what fails here.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.config);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Its control socket: a line is a command, a line that begins with four digits and a space ends
/// the answer.
struct Control(UnixStream);

impl Control {
    /// Waits for it to be there, which is once the configuration has been read.
    fn connect(socket: &Path) -> Result<Control> {
        let start = Instant::now();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(BOUND))?;
                    let mut control = Control(stream);
                    control.answer()?;
                    return Ok(control);
                }
                Err(error) if start.elapsed() > BOUND => return Err(error).context("bird"),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        writeln!(self.0, "{what}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        loop {
            let count = self.0.read(&mut buffer)?;
            ensure!(count > 0, "bird has ended");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let last = text
                .trim_end_matches('\n')
                .lines()
                .last()
                .unwrap_or_default();
            let code = last.get(..4).filter(|_| text.ends_with('\n'));
            if code.is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit()))
                && last.get(4..5).is_none_or(|after| after == " ")
            {
                // 8xxx and 9xxx are refusals.
                ensure!(!last.starts_with(['8', '9']), "bird: {last}");
                return Ok(text);
            }
        }
    }

    /// Waits until the kernel has as many of the static protocol's routes. It is asked so seldom
    /// that asking costs nothing.
    fn wait_exported(&mut self, wanted: usize) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < BOUND {
            let status = self.ask("show protocols all kernel1")?;
            let exported = status.lines().find_map(|line| {
                let (_, routes) = line.split_once("Routes:")?;
                let exported = routes.split(',').find(|part| part.contains("exported"))?;
                exported.split_whitespace().next()?.parse::<usize>().ok()
            });
            if exported == Some(wanted) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        bail!("bird is not done after {BOUND:?}")
    }

    /// Has it scan the kernel's routes. It answers the next command once it has, being of one
    /// thread.
    fn scan(&mut self) -> Result<()> {
        self.ask("reload in kernel1")?;
        self.ask("show status").map(drop)
    }
}

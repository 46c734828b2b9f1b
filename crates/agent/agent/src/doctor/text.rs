//! The findings as text: the facts, each problem with its remedy, and whether an apply could work.

use std::fmt;

use super::{Findings, JournalState};
use crate::words::count;

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self;
        let mut line = |what: &str, is: &str| writeln!(out, "{what:<18}{is}");
        let buffer = &found.receive_buffer;
        let (wanted, obtained) = (buffer.wanted, buffer.obtained);
        let known = |text: &Option<String>| text.clone().unwrap_or("not known".to_owned());
        line("kernel", &known(&found.kernel))?;
        line("boot", &known(&found.boot_id))?;
        line("namespace", &format!("cookie {}", found.cookie))?;
        line(
            "privilege",
            if found.privileged {
                "CAP_NET_ADMIN in the namespace"
            } else {
                "none to change anything in the namespace"
            },
        )?;
        line(
            "sysctls",
            if found.sysctls_writable {
                "/proc/sys/net can be written with the privilege"
            } else {
                "/proc/sys/net cannot be written: a file with [sysctl] would fail"
            },
        )?;
        line(
            "dumps",
            if found.strict_checking {
                "checked strictly, and filtered by the kernel"
            } else {
                "not checked strictly: the kernel sends all, and we filter"
            },
        )?;
        line(
            "receive buffer",
            &if obtained < wanted {
                format!("{wanted} bytes wanted, {obtained} obtained: held to net.core.rmem_max")
            } else {
                format!("{wanted} bytes wanted, and obtained")
            },
        )?;
        for proof in &found.ownership {
            line(&format!("own {}", proof.kind), &format!("by {}: {}", proof.proof, proof.reason))?;
        }
        match &found.state_directory {
            Some(directory) => {
                line("state directory", &format!("{directory}, which no other user can change"))?;
            }
            None => line("state directory", "none that can be used")?,
        }
        for journal in &found.journals {
            line("journal", &journal_text(journal))?;
        }
        for daemon in &found.daemons {
            line("beside", &format!("{}: {}", daemon.title(), daemon.effect))?;
            line("", &format!("to prevent that: {}", daemon.advice))?;
        }
        for problem in &found.problems {
            writeln!(out, "! {}", problem.problem)?;
            if let Some(remedy) = &problem.remedy {
                writeln!(out, "  remedy: {remedy}")?;
            }
        }
        match found.problems.len() {
            0 if found.sysctls_writable => writeln!(out, "an apply could work"),
            0 => writeln!(out, "an apply could work, but for sysctls"),
            problems => {
                let problems = count(problems, "problem", "problems");
                writeln!(out, "{problems} would hinder an apply")
            }
        }
    }
}

fn journal_text(journal: &JournalState) -> String {
    let domain = match &journal.domain {
        Some(domain) => format!(", domain {domain}"),
        None => String::new(),
    };
    let of = format!("{} (protocol {}{domain})", journal.file, journal.protocol);
    match &journal.holder {
        Some(holder) => format!("{of}: held by pid {} ({})", holder.pid, holder.command),
        None if journal.held => format!("{of}: held"),
        None if journal.present => format!("{of}: not held"),
        None => format!("{of}: not there yet"),
    }
}

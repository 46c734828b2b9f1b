//! Runs the built program with its own directory for files and state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trueup_e2e::shape::Shown;
use trueup_testkit::{Scratch, wait_until};

/// The path of the built `trueup`.
pub(crate) const TRUEUP: &str = env!("CARGO_BIN_EXE_trueup-under-test");

/// The documented shapes of its output. All JSON printed in a test is compared with them.
pub(crate) static SHOWN: LazyLock<Shown> = LazyLock::new(Shown::default);

/// The program, run in the calling thread's namespace. Its directory is deleted on drop.
pub(crate) struct Agent {
    directory: Scratch,
}

/// The result of a finished run: exit code and output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Agent {
    pub(crate) fn new() -> Agent {
        Agent { directory: Scratch::make("cli").unwrap() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Returns the only file with this extension in the state directory.
    pub(crate) fn state_file(&self, extension: &str) -> PathBuf {
        let files = fs::read_dir(self.state()).unwrap();
        let mut files = files
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|found| found == extension));
        let file = files.next().expect("a state file");
        assert_eq!(files.next(), None);
        file
    }

    /// Writes a file in the agent's directory, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns a command that runs the program with its state directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TRUEUP);
        command
            .args(args)
            .arg("--state")
            .arg(self.state())
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        Running::of(&mut self.command(args))
    }

    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::of(self.command(args).output().unwrap());
        SHOWN.check_output(args, &ran.out);
        ran
    }

    /// Writes `text` as the file, and plans it as JSON.
    pub(crate) fn plan(&self, text: &str) -> Ran {
        self.write("f.toml", text);
        self.run(&["plan", "f.toml", "--format", "json"])
    }

    /// Writes `text` as the file, and applies it as JSON.
    pub(crate) fn apply(&self, text: &str) -> Ran {
        self.write("f.toml", text);
        self.run(&["apply", "f.toml", "--format", "json"])
    }

    /// Applies a text, which must converge, and checks that a second pass has nothing to do.
    /// Returns the first report.
    #[track_caller]
    pub(crate) fn settle(&self, text: &str) -> Value {
        let ran = self.apply(text);
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = ran.json();
        assert_eq!(report["converged"], true);
        self.assert_nothing_to_do(text);
        report
    }

    #[track_caller]
    pub(crate) fn assert_nothing_to_do(&self, text: &str) {
        let ran = self.plan(text);
        assert_eq!((ran.code, ran.json()["ops"].to_string()), (0, "[]".into()), "{ran:?}");
    }
}

/// A running program, killed if a test fails before its end.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn of(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Ends it with a signal, as a supervisor would; it must exit with success.
    #[track_caller]
    pub(crate) fn terminate(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        let code = self.ended();
        // If another thread reads it, there is nothing to take.
        let why = self.0.stderr.take().map(std::io::read_to_string);
        assert_eq!(code, 0, "{why:?}");
    }

    /// Waits for its end, and returns its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> i32 {
        let mut status = None;
        wait_until("it ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code().expect("ended by itself")
    }

    /// Waits for its end, and returns its standard output.
    pub(crate) fn out(&mut self) -> String {
        std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap()
    }

    /// Waits for its end, and returns its standard error.
    pub(crate) fn err(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the run was refused with these words in its error, and did nothing.
    #[track_caller]
    pub(crate) fn assert_refused(&self, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
    }
}

/// The words of one family: a prefix `net`, an uplink's own addresses and others.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) flag: &'static str,
    pub(crate) family: &'static str,
    /// A destination that no other route has.
    pub(crate) dst: &'static str,
    /// Another unused destination.
    pub(crate) other: &'static str,
    /// Two gateways on the first uplink.
    pub(crate) gateways: [&'static str; 2],
    /// A gateway that no address reaches.
    pub(crate) nowhere: &'static str,
}

pub(crate) const FAMILIES: [Words; 2] = [
    Words {
        flag: "-4",
        family: "inet",
        dst: "10.99.0.0/16",
        other: "10.98.0.0/16",
        gateways: ["10.200.0.8", "10.200.0.9"],
        nowhere: "172.31.255.1",
    },
    Words {
        flag: "-6",
        family: "inet6",
        dst: "fd00:99::/64",
        other: "fd00:98::/64",
        gateways: ["fd00:200::8", "fd00:200::9"],
        nowhere: "fd00:ffff::1",
    },
];

/// Returns a `[[route]]` with `more` lines.
pub(crate) fn route(dst: &str, more: &str) -> String {
    format!("[[route]]\ndst = \"{dst}\"\n{more}\n")
}

/// Returns a `[[route]]` through a gateway.
pub(crate) fn via(dst: &str, gateway: &str) -> String {
    route(dst, &format!("via = \"{gateway}\""))
}

/// Returns the number of each outcome: applied, failed, pending, conflicts.
pub(crate) fn counts(report: &Value) -> [usize; 4] {
    ["applied", "failed", "pending", "conflicts"].map(|list| report[list].as_array().unwrap().len())
}

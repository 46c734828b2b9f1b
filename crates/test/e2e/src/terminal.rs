//! A program on a pseudoterminal, and everything it writes there.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A terminal, and everything written to it.
pub struct Terminal {
    master: File,
    written: Arc<Mutex<String>>,
}

/// Opens a pseudoterminal: its master and slave.
pub fn pair() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    let slave = options.read(true).write(true).open(name.to_str().unwrap());
    (File::from(master), slave.unwrap())
}

/// Starts a program on a terminal with colours, unless its environment says otherwise.
pub fn on(mut command: Command, slave: &File) -> Child {
    let stdio = || Stdio::from(slave.try_clone().unwrap());
    if command.get_envs().all(|(name, _)| name != "TERM") {
        command.env("TERM", "xterm");
    }
    if command.get_envs().all(|(name, _)| name != "NO_COLOR") {
        command.env_remove("NO_COLOR");
    }
    command.stdin(stdio()).stdout(stdio()).stderr(stdio());
    command.spawn().unwrap()
}

impl Terminal {
    /// Starts a program on a terminal of this size.
    pub fn running(command: Command, rows: u16, columns: u16) -> (Terminal, Child) {
        let (master, slave) = pair();
        let mut from = master.try_clone().unwrap();
        let written = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&written);
        let terminal = Terminal { master, written };
        terminal.resize(rows, columns);
        let child = on(command, &slave);
        thread::spawn(move || {
            let mut piece = [0; 65536];
            // Reading fails once no process has the other end.
            while let Ok(read) = from.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..read]).into_owned();
                into.lock().unwrap().push_str(&text);
            }
        });
        (terminal, child)
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
    }

    pub fn written(&self) -> String {
        self.written.lock().unwrap().clone()
    }

    pub fn frames(&self) -> usize {
        self.written().matches(FRAME).count()
    }

    /// Returns the last complete frame of a live view, with its colours; `None` before the first.
    pub fn frame(&self) -> Option<String> {
        let written = self.written();
        let (before, _) = written.rsplit_once("\x1b[?2026l")?;
        Some(before.rsplit_once(FRAME).expect("its beginning").1.to_owned())
    }

    /// Returns the lines of the last complete frame, without colours.
    pub fn lines(&self) -> Vec<String> {
        let mut frame = self.frame().unwrap_or_default();
        for escape in ["\x1b[K", "\x1b[J", "\x1b[0m", "\x1b[1m", "\x1b[38;5;1m", "\x1b[38;5;2m"] {
            frame = frame.replace(escape, "");
        }
        // The terminal adds a carriage return to each line feed.
        frame.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
    }

    pub fn shows(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }
}

/// The beginning of a frame.
const FRAME: &str = "\x1b[?2026h\x1b[1;1H";

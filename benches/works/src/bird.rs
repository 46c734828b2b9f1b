//! BIRD 2 as a child process with a configuration and a control socket.

use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::find;

/// The time limit of every wait, longer than any that succeeds.
pub const BOUND: Duration = Duration::from_secs(600);

/// A running BIRD, killed on drop: a proper end would take longer, with the same result, as
/// `persist` is set.
pub struct Bird {
    child: Child,
    folder: PathBuf,
    control: UnixStream,
}

impl Bird {
    /// Starts it, and waits until it has read its configuration.
    pub fn start(config: &str) -> Result<Bird> {
        let program = find("bird").context("bird is not installed (Debian's package bird2)")?;
        let folder = env::temp_dir().join(format!("trueup-bird-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let (file, socket) = (folder.join("bird.conf"), folder.join("control"));
        fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let start = Instant::now();
        let control = loop {
            ensure!(child.try_wait()?.is_none(), "bird has ended at once");
            match UnixStream::connect(&socket) {
                Ok(control) => break control,
                Err(error) if start.elapsed() > BOUND => return Err(error).context("bird"),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        control.set_read_timeout(Some(BOUND))?;
        let mut bird = Bird { child, folder, control };
        bird.answer()?;
        Ok(bird)
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command, and returns its answer.
    pub fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.control, "{command}")?;
        self.answer()
    }

    /// Reads an answer, which ends with a line that begins with four digits and a space.
    fn answer(&mut self) -> Result<String> {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let count = self.control.read(&mut buffer)?;
            ensure!(count > 0, "bird has ended");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let last = text.trim_end_matches('\n').lines().last().unwrap_or_default();
            let code = last.get(..4).filter(|_| text.ends_with('\n'));
            if code.is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit()))
                && last.get(4..5).is_none_or(|after| after == " ")
            {
                // Codes 8xxx and 9xxx are refusals.
                ensure!(!last.starts_with(['8', '9']), "bird: {last}");
                return Ok(text);
            }
        }
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // A destructor can do nothing about a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

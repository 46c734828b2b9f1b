//! The terminal: its alternate screen while `watch` runs, and the main screen afterwards. The view
//! decides what is drawn.
//!
//! `crossterm` writes the escape sequences. `ratatui` would draw only the changed cells, but a
//! frame of some 50 lines every quarter of a second does not need that.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Print, PrintStyledContent, SetAttribute, Stylize as _};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use rustix::termios::tcgetwinsize;

use super::view::{Line, Tone};
use crate::output;

/// The shortest time between two frames.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(250);
/// The longest time between two frames, because they show ages.
const MAX_REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// The time limit to restore the terminal. ^S can block it without end.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(1);

/// The terminal while `watch` draws on it. Dropping it restores the terminal.
pub(super) struct Screen {
    wake: Waker,
    gone: Receiver<()>,
}

/// A handle that redraws the screen. Clones share it.
#[derive(Clone)]
pub(super) struct Waker {
    wake: SyncSender<Wake>,
    hidden: Arc<Mutex<bool>>,
}

enum Wake {
    Draw,
    Leave,
}

impl Screen {
    /// Draws the result of `lines` for a height and a width in characters. Draws again when woken,
    /// until this is dropped. Calls `lost` if the terminal is gone. Fails if the terminal cannot be
    /// written to, or if no thread can be started.
    pub(super) fn open(
        lines: impl Fn(usize, usize) -> Vec<Line> + Send + 'static,
        lost: impl FnOnce() + Send + 'static,
    ) -> Result<Screen> {
        let (wake, woken) = sync_channel(1);
        let (leaving, gone) = sync_channel(1);
        let hidden = Arc::new(Mutex::new(false));
        let colours = output::wants_colours();
        let painter = Painter { woken, hidden: Arc::clone(&hidden), colours, leaving };
        thread::Builder::new()
            .name("screen".into())
            .spawn(move || painter.run(lines, lost))
            .context("cannot start a thread")?;
        Ok(Screen { wake: Waker { wake, hidden }, gone })
    }

    pub(super) fn waker(&self) -> Waker {
        self.wake.clone()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let until = Instant::now() + RESTORE_TIMEOUT;
        let mut leave = Wake::Leave;
        // The channel holds one message, and may be full.
        while let Err(std::sync::mpsc::TrySendError::Full(again)) = self.wake.wake.try_send(leave) {
            if Instant::now() > until {
                return;
            }
            leave = again;
            thread::sleep(Duration::from_millis(10));
        }
        if self.gone.recv_timeout(RESTORE_TIMEOUT) == Err(RecvTimeoutError::Disconnected) {
            // The thread panicked and did not restore the terminal.
            let _ = restore();
        }
    }
}

impl Waker {
    /// Requests a redraw.
    pub(super) fn wake(&self) {
        // If it is full, a redraw is due already.
        let _ = self.wake.try_send(Wake::Draw);
    }

    /// Restores the terminal for good, because the process ends at once.
    pub(super) fn restore(&self) {
        let _ = restore();
    }

    /// Restores the terminal while `work` runs.
    pub(super) fn suspend(&self, work: impl FnOnce()) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = restore();
        *hidden = true;
        work();
        *hidden = false;
        let _ = enter();
        drop(hidden);
        self.wake();
    }
}

struct Painter {
    woken: Receiver<Wake>,
    hidden: Arc<Mutex<bool>>,
    colours: bool,
    leaving: SyncSender<()>,
}

impl Painter {
    fn run(self, lines: impl Fn(usize, usize) -> Vec<Line>, lost: impl FnOnce()) {
        let mut result = enter();
        while result.is_ok() {
            result = self.draw(&lines);
            let drawn = Instant::now();
            match self.woken.recv_timeout(MAX_REDRAW_INTERVAL) {
                Ok(Wake::Leave) | Err(RecvTimeoutError::Disconnected) => {
                    let _ = restore();
                    let _ = self.leaving.send(());
                    return;
                }
                Ok(Wake::Draw) => {
                    thread::sleep(MIN_REDRAW_INTERVAL.saturating_sub(drawn.elapsed()))
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        lost();
        // The terminal is gone, so nothing is left to restore.
        let _ = self.leaving.send(());
    }

    fn draw(&self, lines: impl Fn(usize, usize) -> Vec<Line>) -> io::Result<()> {
        let hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if *hidden {
            return Ok(());
        }
        // Crossterm would ask the controlling terminal, which may not be the standard output.
        let size = tcgetwinsize(io::stdout())?;
        // A terminal that does not know its size reports 0.
        let [height, width] = [(size.ws_row, 24), (size.ws_col, 80)]
            .map(|(size, usual)| if size == 0 { usual } else { size.into() });
        let lines = lines(height, width);
        // Written as one piece, without erasing anything first, so that nothing flickers.
        let mut frame = Vec::new();
        queue!(frame, BeginSynchronizedUpdate, MoveTo(0, 0))?;
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                queue!(frame, Print("\r\n"))?;
            }
            let text = line.text.as_str();
            let text = match line.tone {
                _ if !self.colours => text.stylize(),
                Tone::Plain => text.stylize(),
                Tone::Head => text.bold(),
                Tone::Good => text.dark_green(),
                Tone::Bad => text.dark_red(),
            };
            queue!(frame, PrintStyledContent(text), Clear(ClearType::UntilNewLine))?;
        }
        queue!(frame, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
        let mut out = io::stdout().lock();
        out.write_all(&frame)?;
        out.flush()
    }
}

fn enter() -> io::Result<()> {
    execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)
}

fn restore() -> io::Result<()> {
    execute!(
        io::stdout(),
        SetAttribute(Attribute::Reset),
        EnableLineWrap,
        Show,
        LeaveAlternateScreen
    )
}

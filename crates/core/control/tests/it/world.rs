//! A simulated world: a backend with tasks and its own clock, a disk, and the power of the agent's
//! host. The power can fail at any counted step of backend or disk.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use trueup_control::{
    Action, Config, Engine, Error, ErrorKind, Fixed, Found, JournalId, Object, Objects, Provider,
    Task, Verb,
};
use trueup_journal::Journal;
use trueup_reconcile::Hints;

/// The backend's answer about a request whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The true result.
    Truth,
    /// No answer.
    Nothing,
    /// The answer that the request may be repeated.
    Repeatable,
}

/// The backend's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It acts at once.
    Done,
    /// A task takes this many seconds.
    Task(u64),
    /// A task fails after this many seconds, without an effect.
    TaskFails(u64),
    /// It refuses with this class.
    Refuses(trueup_control::ErrorClass),
    /// It acts, and the answer is lost.
    LosesAnswer,
    /// The request is lost.
    LosesRequest,
    /// It acknowledges, and stores another value.
    StoresOtherwise,
    /// It panics before it acts.
    Panics,
}

/// The channel that a call of the backend waits for; `None` if it does not wait.
pub(crate) type Waits = Option<Receiver<()>>;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) objects: Objects,
    pub(crate) mode: Mode,
    pub(crate) says: Says,
    pub(crate) is_reachable: bool,
    pub(crate) is_benign: bool,
    pub(crate) tasks: BTreeMap<String, SimTask>,
    /// The true result of each request.
    pub(crate) requests: BTreeMap<String, Found>,
    /// The number of effects, by the action's parameter `label` or its text.
    pub(crate) effects: BTreeMap<String, u32>,
    /// The number of calls that ask for a change.
    pub(crate) starts: u32,
    /// True if the backend forgets tasks once they have ended.
    pub(crate) forgets_tasks: bool,
    /// Delays the next start.
    pub(crate) start_waits: Waits,
    /// Delays the next question about a task.
    pub(crate) task_waits: Waits,
    /// Delays the next observation.
    pub(crate) observe_waits: Waits,
    /// True if the backend rounds memory up to 1024.
    pub(crate) rounds: bool,
    /// The objects that cannot be read, each with the reason.
    pub(crate) unread: BTreeMap<String, String>,
    /// The time until which no object can be read.
    pub(crate) unread_until: u64,
    /// The backend's reaction to only the next start.
    pub(crate) next_mode: Option<Mode>,
    /// The object that cannot be read once an action was started.
    pub(crate) start_hides: Option<String>,
    /// True if nothing can be observed once an action was started.
    pub(crate) start_hides_all: bool,
    /// True if nothing can be observed.
    pub(crate) hides_all: bool,
    /// The label of an action that fails, by its task or by refusal.
    pub(crate) fails: Option<&'static str>,
    /// The steps so far, and the one at which the power fails.
    pub(crate) steps: Vec<&'static str>,
    pub(crate) fails_at: Option<usize>,
    pub(crate) is_off: bool,
    /// The disk: as written, and as it is after a power failure.
    pub(crate) written: Vec<u8>,
    pub(crate) durable: Vec<u8>,
}

pub(crate) struct SimTask {
    pub(crate) ends: u64,
    pub(crate) action: Action,
    pub(crate) request: String,
    pub(crate) state: Task,
}

#[derive(Clone)]
pub(crate) struct Sim(pub(crate) Arc<Mutex<World>>);

impl Sim {
    pub(crate) fn new() -> Sim {
        let disk = Sim(Arc::new(Mutex::new(World {
            now: 1_000_000,
            objects: Objects::new(),
            mode: Mode::Done,
            says: Says::Truth,
            is_reachable: true,
            is_benign: true,
            tasks: BTreeMap::new(),
            requests: BTreeMap::new(),
            effects: BTreeMap::new(),
            starts: 0,
            forgets_tasks: false,
            fails: None,
            unread: BTreeMap::new(),
            unread_until: 0,
            next_mode: None,
            start_hides: None,
            start_hides_all: false,
            hides_all: false,
            rounds: false,
            start_waits: None,
            task_waits: None,
            observe_waits: None,
            steps: Vec::new(),
            fails_at: None,
            is_off: false,
            written: Vec::new(),
            durable: Vec::new(),
        })));
        Journal::create_on(disk.clone()).unwrap();
        disk.world().steps.clear();
        disk
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.world().now += seconds;
    }

    pub(crate) fn config(&self) -> Config {
        let clock = self.clone();
        Config::default().with_create().with_destroy().with_clock(move || clock.now())
    }

    pub(crate) fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.world().now)
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open_on(self.clone()).unwrap()
    }

    /// Returns the journal's id, even while an engine has the journal open.
    pub(crate) fn journal_id(&self) -> JournalId {
        self.journal().id().unwrap()
    }

    /// Deletes the journal, and creates another one.
    pub(crate) fn delete_journal(&self) {
        let mut world = self.world();
        world.written.clear();
        world.durable.clear();
        drop(world);
        Journal::create_on(self.clone()).unwrap();
    }

    pub(crate) fn engine<P: Provider>(&self, provider: P) -> Engine<Sim, P> {
        self.engine_on(&self.journal(), provider)
    }

    pub(crate) fn engine_on<P: Provider>(&self, journal: &Journal, provider: P) -> Engine<Sim, P> {
        Engine::new(self.clone(), provider, journal, self.config()).unwrap()
    }

    /// Turns the power on again: data that was not durable is lost.
    pub(crate) fn reboot(&self) {
        let mut world = self.world();
        world.written = world.durable.clone();
        drop(world);
        self.restart();
    }

    /// Prepares an agent's start after another was killed: written data stays.
    pub(crate) fn restart(&self) {
        let mut world = self.world();
        world.is_off = false;
        world.fails_at = None;
    }

    /// Counts a step, and returns false if the power is off.
    pub(crate) fn step(&self, name: &'static str) -> bool {
        let mut world = self.world();
        if world.is_off {
            return false;
        }
        world.steps.push(name);
        world.is_off = world.fails_at == Some(world.steps.len());
        !world.is_off
    }

    /// Makes the next such call wait until the sender sends.
    pub(crate) fn hold(&self, call: impl FnOnce(&mut World) -> &mut Waits) -> Sender<()> {
        let (release, gate) = mpsc::channel();
        *call(&mut self.world()) = Some(gate);
        release
    }

    /// Waits for the channel that delays such a call, if there is one.
    pub(crate) fn wait_for(&self, call: impl FnOnce(&mut World) -> &mut Waits) {
        let gate = call(&mut self.world()).take();
        if let Some(gate) = gate {
            gate.recv().unwrap();
        }
    }

    pub(crate) fn reach(&self, name: &'static str) -> Result<(), Error> {
        match self.step(name) && self.world().is_reachable {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Backend, "no answer")),
        }
    }
}

impl World {
    /// Ends the tasks whose time is over.
    pub(crate) fn run_tasks(&mut self) {
        let mut tasks = std::mem::take(&mut self.tasks);
        for task in tasks.values_mut() {
            if task.ends <= self.now && matches!(task.state, Task::Running { .. }) {
                match self.mode {
                    _ if self.is_failing(&task.action) => {
                        task.state = Task::Failed("no space".into());
                    }
                    Mode::TaskFails(_) => task.state = Task::Failed("no space".into()),
                    _ => {
                        self.execute(&task.action.clone());
                        task.state = Task::Succeeded;
                    }
                }
                let found = match task.state {
                    Task::Succeeded => Found::Done,
                    _ => Found::Never,
                };
                if self.forgets_tasks {
                    self.requests.insert(task.request.clone(), found);
                }
            }
        }
        if self.forgets_tasks {
            tasks.retain(|_, task| matches!(task.state, Task::Running { .. }));
        }
        self.tasks = tasks;
    }

    pub(crate) fn is_failing(&self, action: &Action) -> bool {
        let label = action.new_value("label").map(|label| label.expose());
        self.fails.is_some() && label == self.fails
    }

    pub(crate) fn execute(&mut self, action: &Action) {
        let label = action.new_value("label").map(|label| label.expose());
        let label = label.map_or_else(|| action.to_string(), str::to_owned);
        *self.effects.entry(label).or_default() += 1;
        let object = self.objects.remove(&action.key);
        if let Some(mut object) = action.apply_to(object) {
            if let (true, Some(memory)) = (self.rounds, object.fields.get_mut("memory")) {
                *memory = trueup_control::round_up(1024)(memory.expose()).into();
            }
            self.objects.insert(action.key.clone(), object);
        }
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sim")
    }
}

/// Returns objects with one field each.
pub(crate) fn objects<const N: usize>(objects: [(&str, &str); N]) -> Objects {
    let object = |memory: &str| Object::new().with("memory", memory);
    let objects = objects.map(|(key, memory)| (key.to_owned(), object(memory)));
    Objects::from(objects)
}

pub(crate) fn snapshot(key: &str, label: &str) -> Action {
    Action::new(key, Verb::Other("snapshot".into())).with("label", label)
}

pub(crate) fn fixed<const N: usize>(all: [(&str, &str); N]) -> Fixed {
    Fixed::new(objects(all))
}

/// Returns hints, and a receiver for them.
pub(crate) fn hints() -> (Hints, Receiver<()>) {
    let (sender, hinted) = mpsc::channel();
    let hints = Hints::new(move || {
        let _ = sender.send(());
    });
    (hints, hinted)
}

//! The simulated world's backend.

use trueup_control::{Action, Backend, Error, ErrorKind, Found, Object, Observed, Started, Task};

use crate::world::{Mode, Says, Sim, SimTask};

impl Backend for Sim {
    fn observe(&self) -> Result<Observed, Error> {
        self.wait_for(|world| &mut world.observe_waits);
        self.reach("observe")?;
        let mut world = self.world();
        if world.hides_all {
            return Err(Error::new(ErrorKind::Backend, "no list"));
        }
        world.run_tasks();
        let mut observed = Observed::new(world.objects.clone());
        observed.unread = world.unread.clone();
        if world.now < world.unread_until {
            let all = ["a", "b", "new"].map(|key| (key.to_owned(), "it hangs".to_owned()));
            observed.unread.extend(all);
        }
        Ok(observed)
    }

    /// The lane of `vm7/disk` is `vm7`.
    fn lane(&self, key: &str) -> String {
        key.split('/').next().unwrap_or_default().to_owned()
    }

    fn is_benign(&self, _: &Action, _: Option<&Object>) -> bool {
        self.world().is_benign
    }

    fn start(&self, action: &Action, request: &str) -> Started {
        let lost = || Started::Indeterminate { message: "596: no answer in time".into() };
        self.wait_for(|world| &mut world.start_waits);
        if self.reach("start").is_err() {
            return lost();
        }
        let mut world = self.world();
        world.run_tasks();
        world.starts += 1;
        world.hides_all |= std::mem::take(&mut world.start_hides_all);
        if let Some(key) = world.start_hides.take() {
            world.unread.insert(key, "no answer".to_owned());
        }
        let mode = world.next_mode.take().unwrap_or(world.mode);
        let is_failing = world.is_failing(action);
        let started = match mode {
            Mode::Done if is_failing => Started::Refused {
                class: trueup_control::ErrorClass::Invalid,
                message: "no space".into(),
            },
            Mode::Done | Mode::LosesAnswer => {
                world.execute(action);
                world.requests.insert(request.into(), Found::Done);
                Started::Done
            }
            Mode::Task(seconds) | Mode::TaskFails(seconds) => {
                let id = format!("task-{}", world.tasks.len() as u64 + world.now);
                let task = SimTask {
                    ends: world.now + seconds,
                    action: action.clone(),
                    request: request.into(),
                    state: Task::Running { progress: Some("10 %".into()) },
                };
                world.tasks.insert(id.clone(), task);
                world.requests.insert(request.into(), Found::Task(id.clone()));
                Started::Task(id)
            }
            Mode::Refuses(class) => Started::Refused { class, message: "refused".into() },
            Mode::StoresOtherwise => {
                let mut other = action.clone();
                for change in &mut other.changes {
                    change.new = "otherwise".into();
                }
                world.execute(&other);
                Started::Done
            }
            Mode::LosesRequest => lost(),
            Mode::Panics => {
                drop(world);
                panic!("a fault of the backend's client")
            }
        };
        drop(world);
        match self.step("started") && mode != Mode::LosesAnswer {
            true => started,
            false => lost(),
        }
    }

    fn task(&self, task: &str) -> Result<Task, Error> {
        self.wait_for(|world| &mut world.task_waits);
        self.reach("task")?;
        let mut world = self.world();
        world.run_tasks();
        let found = world.tasks.get(task);
        Ok(found.map_or(Task::Unknown, |task| task.state.clone()))
    }

    fn cancel(&self, task: &str) -> Result<(), Error> {
        self.reach("cancel")?;
        let mut world = self.world();
        world.run_tasks();
        if let Some(task) = world.tasks.get_mut(task)
            && matches!(task.state, Task::Running { .. })
        {
            task.state = Task::Failed("cancelled".into());
        }
        Ok(())
    }

    fn find(&self, request: &str) -> Result<Found, Error> {
        self.reach("find")?;
        let mut world = self.world();
        world.run_tasks();
        Ok(match world.says {
            Says::Truth => world.requests.get(request).cloned().unwrap_or(Found::Never),
            Says::Nothing => Found::NotSaid,
            Says::Repeatable => Found::Repeatable,
        })
    }
}

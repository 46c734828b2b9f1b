//! [`HostExporter`]: an exporter that begins the session of its host by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::{Hints, LateHints, Observation, PassInput, Source, Subscribed};

use super::{ExportReport, Exporter};
use crate::{
    Error, Export, Keeper, Resource, ResourceKey, Session, SessionEvent, SessionStatus, World,
};

/// What is called with what happens to the session, and how the session stands then.
type OnEvent = Arc<dyn Fn(SessionEvent, SessionStatus) + Send + Sync>;

/// The source of a host's exports, with the session that they go with.
///
/// The first pass that has something to export begins the session, and a [`Keeper`] renews it until
/// the source is dropped. Until then a host without exports is no member. A pass fails while the
/// store is not reached, or another owner has the host: have it tried again. What happens to the
/// session hints a pass, so that the last report stays true.
///
/// From then on a pass is that of an [`Exporter`].
pub struct HostExporter {
    world: World,
    owner: String,
    ttl: Duration,
    on_event: OnEvent,
    hints: LateHints,
    begun: Option<(Exporter, Keeper)>,
}

impl HostExporter {
    /// Makes the source; `owner` and `ttl` are those of [`Session::begin`].
    pub fn new(world: World, owner: impl Into<String>, ttl: Duration) -> HostExporter {
        HostExporter {
            world,
            owner: owner.into(),
            ttl,
            on_event: Arc::new(|_, _| {}),
            hints: LateHints::default(),
            begun: None,
        }
    }

    /// Sets what is called with what happens to the session, on the thread that renews it.
    #[must_use]
    pub fn on_event(
        self,
        call: impl Fn(SessionEvent, SessionStatus) + Send + Sync + 'static,
    ) -> HostExporter {
        HostExporter { on_event: Arc::new(call), ..self }
    }

    /// Returns the session, once it has begun.
    pub fn session(&self) -> Option<&Session> {
        self.begun.as_ref().map(|(exporter, _)| exporter.session())
    }

    /// Returns the exporter of the session, which begins if it has not.
    fn exporter(&mut self) -> Result<&mut Exporter, Error> {
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin()?,
        };
        Ok(&mut self.begun.insert(begun).0)
    }

    fn begin(&self) -> Result<(Exporter, Keeper), Error> {
        let session = Session::begin(self.world.clone(), &self.owner, self.ttl)?;
        let (call, hints) = (Arc::clone(&self.on_event), self.hints.hints());
        let kept = session.clone();
        let keeper = session.keep(move |event| {
            call(event, kept.status());
            hints.request_pass();
        })?;
        Ok((Exporter::new(session), keeper))
    }
}

impl Source for HostExporter {
    type Scope = ();
    type Desired = Vec<Export>;
    type Options = ();
    type Report = ExportReport;
    type Observed = BTreeMap<ResourceKey, Resource>;
    type Error = Error;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<ExportReport, Error> {
        // A pass that may write nothing does not make the host a member either.
        if self.begun.is_none() && (input.desired.is_empty() || input.limits.ops() == 0) {
            return Ok(ExportReport::without_session(&self.world, input.desired));
        }
        let exporter = self.exporter()?;
        let PassInput { scope, desired, ledger, options, limits } = input;
        exporter.reconcile(PassInput { scope, desired, ledger, options, limits })
    }

    fn observe(&mut self, _: &(), _: &()) -> Result<Observation<Self::Observed>, Error> {
        Ok(Observation::Observed(self.world.exports()?))
    }

    fn subscribe(&mut self, _: &(), hints: Hints) -> Subscribed<(), Error> {
        self.hints.set(hints);
        Subscribed::Active(())
    }
}

impl fmt::Debug for HostExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostExporter")
            .field("host", &self.world.host())
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

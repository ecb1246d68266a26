//! The in-memory cloud behind its handle and its sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::super::credentials::Fingerprint;
use super::super::{Error, ErrorKind};
use super::faults::{Call, Fault, Faults, Moment};
use super::neutron::MemoryNeutron;
use super::state::State;
use crate::clock::Clock;

pub(super) struct Cloud {
    pub(super) clock: Clock,
    // Plain mutexes, held for one step each and never across an await.
    state: Mutex<State>,
    faults: Mutex<Option<Arc<dyn Faults>>>,
    calls: Mutex<Vec<Call>>,
    pub(super) sessions: Mutex<BTreeMap<Fingerprint, Weak<MemoryNeutron>>>,
}

impl Cloud {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            faults: Mutex::new(None),
            calls: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("no code panics while it holds the log")
    }

    /// Writes a call down and gives it its number.
    pub(super) fn log(&self, mut call: Call) -> Call {
        let mut calls = self.calls();
        call.number = calls.len();
        calls.push(call.clone());
        call
    }

    pub(super) fn set_faults(&self, faults: Option<Arc<dyn Faults>>) {
        *self.faults.lock().expect("no code panics while it holds the faults") = faults;
    }

    pub(super) fn fault(&self, moment: Moment, call: &Call) -> Fault {
        let faults = self.faults.lock().expect("no code panics while it holds the faults").clone();
        faults.map_or(Fault::None, |faults| faults.at(moment, call))
    }
}

/// Keystone's no, in the words of the real session.
pub(super) fn refused() -> Error {
    let message = "Keystone refuses the credentials: check username, password, project and domain in clouds.yaml";
    Error::new(ErrorKind::Unauthorized, "authenticate", message)
}

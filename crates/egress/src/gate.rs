//! The one place where it is decided who may go where: rules, names and the number of open connections of one
//! sandbox, shared by everybody who asks (the system call watch, the name server, the front doors).

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use lazaret_policy::{
    host::{Host, Name},
    network::{Denial, Reason, Rules, Verdict},
};

use crate::names::{Names, Stand, is_synthetic};

/// Without a limit in the policy: what honest programs stay well below.
pub const MOST_CONNECTIONS: u64 = 512;

#[derive(Debug)]
pub struct Gate {
    rules: Mutex<Arc<Rules>>,
    names: Mutex<Names>,
    open: AtomicU64,
    most: u64,
}

/// Where a connection may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub host: Host,
    pub port: u16,
    /// The entry that allows it.
    pub rule: String,
}

/// The right to one connection; gives it back when dropped.
#[derive(Debug)]
pub struct Slot(Arc<Gate>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    pub fn new(rules: Rules) -> Gate {
        let most = rules.max_connections().unwrap_or(MOST_CONNECTIONS);
        Gate { rules: Mutex::new(Arc::new(rules)), names: Mutex::default(), open: AtomicU64::new(0), most }
    }

    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on others hold. What is open stays open.
    pub fn replace_rules(&self, rules: Rules) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// By what a program connects to: an address that stands for a name, or one of its own knowledge.
    pub fn judge_address(&self, to: SocketAddr) -> Result<Target, Denial> {
        let meaning = self.names().meaning_of(to.ip()).cloned();
        let host = match meaning {
            Some(name) => Host::Name(name),
            None if is_synthetic(to.ip()) => {
                return Err(Denial {
                    reason: Reason::UnknownAddress,
                    rule: None,
                    detail: format!("{} stands for no name that was looked up in this sandbox", to.ip()),
                    remedy: "look the name up again: its address is made anew in every sandbox".to_owned(),
                });
            }
            None => Host::Address(to.ip().to_canonical()),
        };
        self.judge(host, to.port())
    }

    pub fn judge(&self, host: Host, port: u16) -> Result<Target, Denial> {
        match self.rules().judge(&host, port) {
            Verdict::Allow { rule } => Ok(Target { host, port, rule }),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    /// The addresses to answer a look-up with; the inner `None` when there are too many names.
    pub fn look_up(&self, name: &Name) -> Result<Option<Stand>, Denial> {
        match self.rules().may_resolve(name) {
            Verdict::Allow { .. } => Ok(self.names().stand_for(name)),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    pub fn meaning_of(&self, address: std::net::IpAddr) -> Option<Name> {
        self.names().meaning_of(address).cloned()
    }

    /// Room for one more connection, or the limit.
    pub fn enter(self: &Arc<Self>) -> Result<Slot, u64> {
        let taken = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < self.most).then_some(open + 1)
        });
        match taken {
            Ok(_) => Ok(Slot(Arc::clone(self))),
            Err(_) => Err(self.most),
        }
    }

    pub fn most_connections(&self) -> u64 {
        self.most
    }

    pub fn open_connections(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// As [`Gate::enter`], as a denial.
    pub fn admit(self: &Arc<Self>, target: &Target) -> Result<Slot, Denial> {
        self.enter().map_err(|most| Denial {
            reason: Reason::ConnectionLimit,
            rule: Some("network.maxConnections".to_owned()),
            detail: format!("{most} connections are open, and {} would be one more", target.host),
            remedy: "to allow: a higher network.maxConnections".to_owned(),
        })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! One way to get it wrong, and what must follow: the user is told what and what to do, nothing is written while nothing
//! changes, it heals by itself once mended, and nobody else notices.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use super::secrets;
use crate::support::{
    HEALS, Kind, Manifest, Namespace, PoolBuilder, SOON, claim, condition_of, controller, eventually, pool,
    with_namespace,
};

/// Longer than two reconciles of a pool with a problem.
const CALM: Duration = Duration::from_secs(22);

/// A pool with something wrong, and a claim that waits for it.
pub(super) struct Case {
    name: &'static str,
    pool: PoolBuilder,
    secret: Option<Value>,
    reason: &'static str,
    cause: (&'static str, &'static str),
    says: Vec<String>,
    mend: Option<Mend>,
}

type Deed = Box<dyn Fn() -> BoxFuture<'static, ()>>;

enum Mend {
    Spec(Value),
    Secret(Value),
    Cloud(Deed),
}

impl Case {
    /// A case whose pool and claim have this name. Until told otherwise the pool is a good one.
    pub(super) fn new(name: &'static str) -> Self {
        let pool = pool(name).network("public-large");
        let (reason, cause) = ("", ("", ""));
        Self { name, pool, secret: None, reason, cause, says: Vec::new(), mend: None }
    }

    /// Changes the pool.
    pub(super) fn pool(mut self, change: impl FnOnce(PoolBuilder) -> PoolBuilder) -> Self {
        self.pool = change(self.pool);
        self
    }

    /// The pool names a Secret of its own, which does not exist until one is given.
    pub(super) fn own_secret(mut self) -> Self {
        self.pool = self.pool.with("identityRef", json!({"name": self.name, "cloudName": "openstack"}));
        self
    }

    /// Its own Secret has these keys.
    pub(super) fn secret(mut self, keys: Value) -> Self {
        self.secret = Some(keys);
        self.own_secret()
    }

    /// Its own Secret has this `clouds.yaml`.
    pub(super) fn clouds_yaml(self, text: impl Into<String>) -> Self {
        self.secret(json!({"clouds.yaml": text.into()}))
    }

    /// The pool is not ready for this reason, the condition of this type has this status for the same reason, and both
    /// and the claim say all of this.
    pub(super) fn tells(
        mut self,
        reason: &'static str,
        cause: (&'static str, &'static str),
        says: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        (self.reason, self.cause) = (reason, cause);
        self.says = says.into_iter().map(Into::into).collect();
        self
    }

    /// Mended by a merge patch of the pool's spec.
    pub(super) fn mended_by_spec(mut self, change: Value) -> Self {
        self.mend = Some(Mend::Spec(change));
        self
    }

    /// Mended by a Secret with these keys.
    pub(super) fn mended_by_secret(mut self, keys: Value) -> Self {
        self.mend = Some(Mend::Secret(keys));
        self
    }

    /// Mended by something done to the cloud.
    pub(super) fn mended_by(mut self, deed: impl Fn() -> BoxFuture<'static, ()> + 'static) -> Self {
        self.mend = Some(Mend::Cloud(Box::new(deed)));
        self
    }

    fn claim(&self) -> String {
        claim(self.name).name()
    }

    async fn put_secret(&self, ns: &Namespace, keys: &Value) {
        let body = json!({"metadata": {"name": self.name}, "stringData": keys});
        // Created anew, so that no key of the one before stays.
        let manifest = Manifest::new(Kind::Secret, body);
        match ns.get(Kind::Secret, self.name).await {
            None => drop(ns.create(manifest).await),
            Some(_) => drop(ns.patch(Kind::Secret, self.name, json!({"data": null, "stringData": keys})).await),
        }
    }

    async fn is_told(&self, ns: &Namespace) {
        if let Some(keys) = &self.secret {
            self.put_secret(ns, keys).await;
        }
        ns.create(self.pool.clone()).await;
        ns.create(claim(self.name).from(self.name)).await;
        let message = ns.await_condition(Kind::Pool, self.name, "Ready", "False", self.reason, SOON).await;
        for part in &self.says {
            assert!(message.contains(part), "{}: {part:?} is not in {message:?}", self.name);
        }
        let cause = ns.await_condition(Kind::Pool, self.name, self.cause.0, self.cause.1, self.reason, SOON).await;
        assert_eq!(cause, message, "{}: the condition that explains says the same", self.name);
        let waiting = ns.await_condition(Kind::Claim, &self.claim(), "Ready", "False", "PoolNotReady", SOON).await;
        let pool = self.name;
        let expected = format!("OpenStackFloatingIPPool {pool} is not ready ({}): {message}", self.reason);
        assert_eq!(waiting, expected);
    }

    async fn stays(&self, ns: &Namespace) {
        let claim = self.claim();
        tokio::join!(is_untouched(ns, Kind::Pool, self.name), is_untouched(ns, Kind::Claim, &claim));
    }

    async fn heals(&self, ns: &Namespace) {
        match self.mend.as_ref().expect("a case says how it is mended") {
            Mend::Spec(change) => drop(ns.patch(Kind::Pool, self.name, json!({"spec": change})).await),
            Mend::Secret(keys) => self.put_secret(ns, keys).await,
            Mend::Cloud(deed) => deed().await,
        }
        let healed = async {
            ns.await_condition(Kind::Pool, self.name, "Ready", "True", "Ready", HEALS).await;
            ns.await_bound(&self.claim(), HEALS).await;
        };
        timeout(HEALS, healed).await.unwrap_or_else(|_| panic!("{} is not served {HEALS:?} after the mend", self.name));
        let pool = ns.get(Kind::Pool, self.name).await.expect("it is there");
        for condition in ["CredentialsValid", "NetworkResolved"] {
            assert_eq!(condition_of(&pool, condition).expect("it is told")["status"], "True", "{condition}");
        }
        // Told once, and nothing else in between.
        for (kind, name, reasons) in [
            (Kind::Pool, self.name.to_owned(), [self.reason, "Ready"]),
            (Kind::Claim, self.claim(), ["PoolNotReady", "AddressAllocated"]),
        ] {
            eventually(SOON, async || {
                let events = ns.events(kind, &name).await;
                let is_so = events.iter().map(|(reason, _)| reason.as_str()).eq(reasons);
                if is_so { Ok(()) } else { Err(format!("events of {kind:?} {name}: {events:?}")) }
            })
            .await;
        }
    }
}

/// Runs the cases side by side in one namespace, beside pools that are well, in the same and in another namespace.
pub(super) async fn run_all(cases: impl IntoIterator<Item = Case>) {
    controller();
    let cases: Vec<Case> = cases.into_iter().collect();
    with_namespace(async |elsewhere| {
        with_namespace(async |ns| {
            for place in [ns, elsewhere] {
                place.secret_for("demo").await;
                place.create(pool("well").network("public-large")).await;
                place.await_condition(Kind::Pool, "well", "Ready", "True", "Ready", SOON).await;
            }
            each(&cases, "is told", async |case| case.is_told(ns).await).await;
            let others = async { tokio::join!(is_served(ns), is_served(elsewhere)) };
            tokio::join!(each(&cases, "stays as it is", async |case| case.stays(ns).await), others);
            each(&cases, "heals", async |case| case.heals(ns).await).await;
            for place in [ns, elsewhere] {
                let well = place.get(Kind::Pool, "well").await.expect("it is there");
                let reasons: Vec<_> = place.events(Kind::Pool, "well").await;
                assert!(reasons.iter().all(|(reason, _)| reason == "Ready"), "it was well all the time: {reasons:?}");
                assert_eq!(condition_of(&well, "Ready").expect("it is told")["status"], "True");
            }
            secrets::are_not_shown(ns).await;
        })
        .await;
    })
    .await;
}

/// Nothing is written while nothing changes, so that the message is the same at each reconcile too.
pub(super) async fn is_untouched(ns: &Namespace, kind: Kind, name: &str) {
    let before = ns.get(kind, name).await.expect("it is there");
    let is_changed =
        |now: Option<&DynamicObject>| now.is_none_or(|now| now.resource_version() != before.resource_version());
    let watch = kube::runtime::wait::await_condition(ns.api(kind), name, is_changed);
    if let Ok(changed) = timeout(CALM, watch).await {
        let now = changed.ok().flatten().map(|now| now.data["status"].to_string());
        panic!("{kind:?} {name} is written again: from {} to {now:?}", before.data["status"]);
    }
}

/// Does a step of all cases, and then says which of them failed.
async fn each(cases: &[Case], step: &str, act: impl AsyncFn(&Case)) {
    let all = cases.iter().map(|case| AssertUnwindSafe(act(case)).catch_unwind());
    let results = join_all(all).await;
    let failed: Vec<_> = cases.iter().zip(results).filter(|(_, result)| result.is_err()).collect();
    let names: Vec<_> = failed.iter().map(|(case, _)| case.name).collect();
    assert!(failed.is_empty(), "{step}: not so for {}; the reasons are above", names.join(", "));
}

/// A pool that is well serves a claim, and takes its address back.
async fn is_served(ns: &Namespace) {
    let served = async {
        ns.bind(claim("beside").from("well")).await;
        ns.release(&claim("beside").name()).await;
        ns.await_gone(Kind::Claim, &claim("beside").name(), SOON).await;
    };
    timeout(SOON, served).await.unwrap_or_else(|_| panic!("the pool that is well is held up in {}", ns.name));
}

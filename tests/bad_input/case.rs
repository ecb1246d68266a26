//! One mistake and what must follow: it is reported with its fix, nothing is written while nothing changes, it is recovered
//! from automatically once it is fixed, and other pools are not affected.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use super::secrets;
use crate::support::{
    Kind, Manifest, Namespace, PoolBuilder, RECOVERY, SOON, claim, condition_of, controller, eventually, pool,
    with_namespace,
};

/// A pool with a problem is reconciled every 8 to 10 s.
const LONGEST_RETRY: Duration = Duration::from_secs(12);

/// A pool with a mistake, and a claim that waits for it.
pub(super) struct Case {
    name: &'static str,
    pool: PoolBuilder,
    secret: Option<Value>,
    reason: &'static str,
    cause: (&'static str, &'static str),
    message_parts: Vec<String>,
    fix: Option<Fix>,
}

type Action = Box<dyn Fn() -> BoxFuture<'static, ()>>;

enum Fix {
    Spec(Value),
    Secret(Value),
    Cloud(Action),
}

impl Case {
    /// Its pool and claim have this name. The pool is correct until it is changed.
    pub(super) fn new(name: &'static str) -> Self {
        let pool = pool(name).network("public-large");
        let (reason, cause) = ("", ("", ""));
        Self { name, pool, secret: None, reason, cause, message_parts: Vec::new(), fix: None }
    }

    pub(super) fn pool(mut self, change: impl FnOnce(PoolBuilder) -> PoolBuilder) -> Self {
        self.pool = change(self.pool);
        self
    }

    /// The pool names a Secret of its own, which does not exist without [`Self::secret`].
    pub(super) fn own_secret(mut self) -> Self {
        self.pool = self.pool.with("identityRef", json!({"name": self.name, "cloudName": "openstack"}));
        self
    }

    pub(super) fn secret(mut self, keys: Value) -> Self {
        self.secret = Some(keys);
        self.own_secret()
    }

    pub(super) fn clouds_yaml(self, text: impl Into<String>) -> Self {
        self.secret(json!({"clouds.yaml": text.into()}))
    }

    /// The pool is not ready for this reason, the condition `cause` has its status for the same reason, and both messages
    /// and the claim's have all of these parts.
    pub(super) fn reports(
        mut self,
        reason: &'static str,
        cause: (&'static str, &'static str),
        message_parts: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        (self.reason, self.cause) = (reason, cause);
        self.message_parts = message_parts.into_iter().map(Into::into).collect();
        self
    }

    /// Fixed by a merge patch of the pool's spec.
    pub(super) fn fixed_by_spec(mut self, change: Value) -> Self {
        self.fix = Some(Fix::Spec(change));
        self
    }

    /// Fixed by a Secret with these keys.
    pub(super) fn fixed_by_secret(mut self, keys: Value) -> Self {
        self.fix = Some(Fix::Secret(keys));
        self
    }

    /// Fixed by a change of the cloud.
    pub(super) fn fixed_by(mut self, action: impl Fn() -> BoxFuture<'static, ()> + 'static) -> Self {
        self.fix = Some(Fix::Cloud(Box::new(action)));
        self
    }

    fn claim(&self) -> String {
        claim(self.name).name()
    }

    async fn put_secret(&self, ns: &Namespace, keys: &Value) {
        let body = json!({"metadata": {"name": self.name}, "stringData": keys});
        let manifest = Manifest::new(Kind::Secret, body);
        match ns.get(Kind::Secret, self.name).await {
            None => drop(ns.create(manifest).await),
            Some(_) => drop(ns.patch(Kind::Secret, self.name, json!({"data": null, "stringData": keys})).await),
        }
    }

    async fn create_and_await_report(&self, ns: &Namespace) {
        if let Some(keys) = &self.secret {
            self.put_secret(ns, keys).await;
        }
        ns.create(self.pool.clone()).await;
        ns.create(claim(self.name).from(self.name)).await;
        let message = ns.await_condition(Kind::Pool, self.name, "Ready", "False", self.reason, SOON).await;
        for part in &self.message_parts {
            assert!(message.contains(part), "{}: {part:?} is not in {message:?}", self.name);
        }
        let cause = ns.await_condition(Kind::Pool, self.name, self.cause.0, self.cause.1, self.reason, SOON).await;
        assert_eq!(cause, message, "{}: the condition that explains it has the same message", self.name);
        let waiting = ns.await_condition(Kind::Claim, &self.claim(), "Ready", "False", "PoolNotReady", SOON).await;
        let pool = self.name;
        let expected = format!("OpenStackFloatingIPPool {pool} is not ready ({}): {message}", self.reason);
        assert_eq!(waiting, expected);
        // Which it may notice only after its first report.
        let counts_it =
            |pool: Option<&DynamicObject>| pool.is_some_and(|it| it.data["status"]["claims"]["waiting"] == 1);
        ns.await_object(Kind::Pool, self.name, SOON, "with its waiting claim", counts_it).await;
    }

    async fn assert_nothing_is_written(&self, ns: &Namespace) {
        let claim = self.claim();
        tokio::join!(assert_not_written(ns, Kind::Pool, self.name), assert_not_written(ns, Kind::Claim, &claim));
    }

    async fn fix_and_await_recovery(&self, ns: &Namespace) {
        match self.fix.as_ref().expect("a case has a fix") {
            Fix::Spec(change) => drop(ns.patch(Kind::Pool, self.name, json!({"spec": change})).await),
            Fix::Secret(keys) => self.put_secret(ns, keys).await,
            Fix::Cloud(action) => action().await,
        }
        let recovery = async {
            ns.await_condition(Kind::Pool, self.name, "Ready", "True", "Ready", RECOVERY).await;
            ns.await_bound(&self.claim(), RECOVERY).await;
        };
        timeout(RECOVERY, recovery)
            .await
            .unwrap_or_else(|_| panic!("{} is not served {RECOVERY:?} after the fix", self.name));
        let pool = ns.get(Kind::Pool, self.name).await.expect("it is there");
        for condition in ["CredentialsValid", "NetworkResolved"] {
            assert_eq!(condition_of(&pool, condition).expect("it is set")["status"], "True", "{condition}");
        }
        // Each was reported once, with nothing in between.
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

/// Runs the cases at once in one namespace, beside healthy pools in the same and in another namespace.
pub(super) async fn run_all(cases: impl IntoIterator<Item = Case>) {
    controller();
    let cases: Vec<Case> = cases.into_iter().collect();
    with_namespace(async |elsewhere| {
        with_namespace(async |ns| {
            for place in [ns, elsewhere] {
                place.create_secret_for("demo").await;
                place.create(pool("healthy").network("public-large")).await;
                place.await_condition(Kind::Pool, "healthy", "Ready", "True", "Ready", SOON).await;
            }
            run_step(&cases, "reported", async |case| case.create_and_await_report(ns).await).await;
            let others = async { tokio::join!(assert_served(ns), assert_served(elsewhere)) };
            tokio::join!(
                run_step(&cases, "left unwritten", async |case| case.assert_nothing_is_written(ns).await),
                others
            );
            run_step(&cases, "recovered", async |case| case.fix_and_await_recovery(ns).await).await;
            for place in [ns, elsewhere] {
                let healthy = place.get(Kind::Pool, "healthy").await.expect("it is there");
                let reasons: Vec<_> = place.events(Kind::Pool, "healthy").await;
                assert!(reasons.iter().all(|(reason, _)| reason == "Ready"), "it was ready all the time: {reasons:?}");
                assert_eq!(condition_of(&healthy, "Ready").expect("it is set")["status"], "True");
            }
            secrets::assert_not_shown(ns).await;
        })
        .await;
    })
    .await;
}

/// Fails when an object is written before its next reconcile is over: nothing changes, so its message must not either.
pub(super) async fn assert_not_written(ns: &Namespace, kind: Kind, name: &str) {
    let before = ns.get(kind, name).await.expect("it is there");
    let is_written =
        |now: Option<&DynamicObject>| now.is_none_or(|now| now.resource_version() != before.resource_version());
    let watch = kube::runtime::wait::await_condition(ns.api(kind), name, is_written);
    if let Ok(changed) = timeout(LONGEST_RETRY, watch).await {
        let now = changed.ok().flatten().map(|now| now.data["status"].to_string());
        panic!("{kind:?} {name} is written again: from {} to {now:?}", before.data["status"]);
    }
}

/// Runs a step of all cases, and then fails with the names of those that failed.
async fn run_step(cases: &[Case], step: &str, act: impl AsyncFn(&Case)) {
    let all = cases.iter().map(|case| AssertUnwindSafe(act(case)).catch_unwind());
    let results = join_all(all).await;
    let failed: Vec<_> = cases.iter().zip(results).filter(|(_, result)| result.is_err()).collect();
    let names: Vec<_> = failed.iter().map(|(case, _)| case.name).collect();
    assert!(failed.is_empty(), "not {step}: {}; the reasons are above", names.join(", "));
}

/// Fails unless the healthy pool binds and releases a claim soon.
async fn assert_served(ns: &Namespace) {
    let served = async {
        ns.bind(claim("beside").from("healthy")).await;
        ns.release(&claim("beside").name()).await;
        ns.await_gone(Kind::Claim, &claim("beside").name(), SOON).await;
    };
    timeout(SOON, served).await.unwrap_or_else(|_| panic!("the healthy pool does not serve in {}", ns.name));
}

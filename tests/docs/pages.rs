//! Which pages' commands are run, and which are not.

/// The `sh` blocks of these pages are run in order, one shell for a page, by `tests/docs/commands.rs`.
pub const RUN: &[&str] = &[
    "README.md",
    "docs/logs.md",
    "docs/migration.md",
    "docs/operations.md",
    "docs/runbooks/CaipAddressConfigMapStale.md",
    "docs/runbooks/CaipAddressLost.md",
    "docs/runbooks/CaipAddressesFailed.md",
    "docs/runbooks/CaipAddressesNotMaintained.md",
    "docs/runbooks/CaipAuditOverdue.md",
    "docs/runbooks/CaipClaimsWaiting.md",
    "docs/runbooks/CaipCredentialsFailing.md",
    "docs/runbooks/CaipLeaderMissing.md",
    "docs/runbooks/CaipOpenStackUnreachable.md",
    "docs/runbooks/CaipOrphanedFloatingIPs.md",
    "docs/runbooks/CaipPoolDeletionStuck.md",
    "docs/runbooks/CaipPoolExhausted.md",
    "docs/runbooks/CaipPoolNearlyExhausted.md",
    "docs/runbooks/CaipPoolNotReady.md",
    "docs/runbooks/CaipQuotaNearlyUsed.md",
    "docs/runbooks/CaipReconcileErrors.md",
    "docs/runbooks/CaipReconcilePanics.md",
    "docs/runbooks/CaipReleasesFailing.md",
    "docs/runbooks/CaipTokensFailing.md",
    "docs/security.md",
    "docs/troubleshooting.md",
    "examples/README.md",
    "examples/api-endpoint/README.md",
];

/// Pages, and why their commands are not run.
pub const NOT_RUN: &[(&str, &str)] = &[
    ("CONTRIBUTING.md", "they start the servers and the tests that this is a part of"),
    ("config/chart/README.md", "hack/test/installs.sh runs them"),
    ("docs/benchmark.md", "a benchmark beside other tests says nothing"),
    ("docs/image.md", "hack/test/installs.sh runs them"),
    ("docs/install.md", "hack/test/installs.sh runs them"),
    ("docs/kubectl-fippool.md", "tests/plugin runs each command; the page shows what they print"),
    ("docs/laws.md", "they are longer runs of tests that run anyway"),
    ("docs/monitoring.md", "tests/observe renders the rules and checks them in the same way"),
];

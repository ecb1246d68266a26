//! Who serves the claims of a measurement: our controller, or CAPO with its built-in pool.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use crate::support::{self, ClaimBuilder, Controller, Kind, Manifest, Namespace, claim};

/// More than a project has in any measurement, with `CAIP_BALLAST`.
pub const MAX_FLOATING_IPS: &str = "--max-floating-ips=30000";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    Ours,
    InTree,
}

/// The process that serves.
#[derive(Clone)]
pub enum Process {
    Controller(Arc<Controller>),
    /// CAPO's manager with all of its controllers, which was there before.
    Capo(u32),
}

impl Provider {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "caip-openstack",
            Self::InTree => "CAPO's pool",
        }
    }

    pub fn start(self, ns: &Namespace) -> Process {
        match self {
            Self::Ours => Process::Controller(ns.start_controller(&ns.world.account, &[MAX_FLOATING_IPS])),
            Self::InTree => {
                let pid = support::required("CAIP_CAPO_PID");
                Process::Capo(pid.parse().unwrap_or_else(|_| panic!("CAIP_CAPO_PID is not a process: {pid}")))
            }
        }
    }

    pub fn pool_kind(self) -> Kind {
        match self {
            Self::Ours => Kind::Pool,
            Self::InTree => Kind::InTreePool,
        }
    }

    /// CAPO's pool `public`. It uses up its list before it creates addresses.
    pub fn in_tree_pool(network: &str, listed: Vec<&str>) -> Manifest {
        let spec = json!({
            "identityRef": {"name": "cloud", "cloudName": "openstack"}, "reclaimPolicy": "Delete",
            "floatingIPNetwork": {"filter": {"name": network}}, "preAllocatedFloatingIPs": listed,
        });
        Manifest::new(Kind::InTreePool, json!({"metadata": {"name": "public"}, "spec": spec}))
    }

    /// As CAPO makes it, but for CAPO's finalizer.
    pub fn claim(self, number: usize) -> ClaimBuilder {
        let claim = claim(&format!("server-{number:04}")).without_capo_finalizer();
        match self {
            Self::Ours => claim,
            Self::InTree => claim.pool_ref("apiGroup", "infrastructure.cluster.x-k8s.io"),
        }
    }
}

impl Process {
    pub fn pid(&self) -> u32 {
        match self {
            Self::Controller(controller) => controller.pid(),
            Self::Capo(pid) => *pid,
        }
    }

    pub fn assert_running(&self) {
        match self {
            Self::Controller(controller) => controller.assert_running(),
            Self::Capo(pid) => {
                assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "CAPO's manager has ended");
            }
        }
    }
}

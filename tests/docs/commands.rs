//! The commands of the pages, run in order as a reader would run them, one shell for a page.
//!
//! A page speaks of the namespace `team-a`, which stands for the scenario's own. There are the controller, a Cluster
//! `prod`, `kubectl` and `openstack` with a project of its own, and a `clouds.yaml` with the cloud `openstack` in the
//! folder; on most pages also the Secret `cloud`, a pool `public`, and a claim of the machine `web-0` with its address.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::manifests::made;
use super::markdown::Page;
use super::pages::RUN;
use crate::support::{
    Cloud, Kind, Manifest, Namespace, Project, RECOVERY, claim, clouds_yaml, pool, unique, with_namespace,
};

/// Until a machine has its address from a controller that has just started, in a project that is new.
const FIRST: Duration = Duration::from_secs(120);

/// The folder of the pages that are run one after another, by one test.
const RUNBOOKS: &str = "docs/runbooks/";

/// How long a page may take: a command that waits names its own time.
const PATIENCE: &str = "300";

#[tokio::test]
async fn commands_of_the_readme_lead_to_a_pool_that_is_ready() {
    follow(
        "README.md",
        async |_| {},
        async |ns| {
            ns.bind_within(claim("web-0").from("public"), FIRST).await;
        },
    )
    .await;
}

#[tokio::test]
async fn commands_of_the_log_page_run() {
    follow("docs/logs.md", with_a_machine, async |_| {}).await;
}

#[tokio::test]
async fn commands_of_the_migration_lead_to_a_pool_that_serves() {
    let prepare = async |ns: &Namespace| {
        ns.apply_secret("cloud", &clouds(ns)).await;
        let infrastructure = "infrastructure.cluster.x-k8s.io";
        for (version, kind) in [("v1alpha1", "OpenStackFloatingIPPool"), ("v1beta1", "OpenStackMachineTemplate")] {
            let version = format!("{infrastructure}/{version}");
            made(ns, &json!({"apiVersion": version, "kind": kind, "metadata": {"name": "public"}, "spec": {}})).await;
        }
    };
    follow("docs/migration.md", prepare, async |ns| {
        ns.bind_within(claim("web-0").from("machines"), FIRST).await;
    })
    .await;
}

#[tokio::test]
async fn commands_of_the_operations_page_run() {
    follow("docs/operations.md", with_a_machine, async |ns| {
        let claim = "web-0-floating-ip-address";
        let had = ns.await_bound(claim, RECOVERY).await;
        ns.kill_controllers();
        ns.delete_by_force(&[Kind::Claim, Kind::Address, Kind::Pool, Kind::Secret]).await;
        let page = read("docs/operations.md");
        let restore =
            page.blocks().into_iter().find(|block| block.not_run.as_deref() == Some("once everything is lost"));
        let script = restore.expect("the page says how to restore").code.replace("team-a", &ns.name);
        let (place, kubeconfig) = (folder(ns), ns.world.kubeconfig.clone());
        run(&script, &place, &kubeconfig, &json!({})).unwrap_or_else(|said| panic!("the restore fails:\n{said}"));
        ns.start_controller(&ns.world.account, &["--watch-filter="]);
        assert_eq!(ns.await_bound(claim, FIRST).await, had, "the claim has its old address");
        // The page has drained the pool: the law allows it no address. A release waits up to half a minute after a start.
        ns.release(claim).await;
        ns.await_gone(Kind::Claim, claim, RECOVERY * 2).await;
    })
    .await;
}

#[tokio::test]
async fn commands_of_the_runbooks_run() {
    let runbooks: Vec<&str> = RUN.iter().copied().filter(|page| page.starts_with(RUNBOOKS)).collect();
    follow_all(&runbooks, with_a_machine, async |_| {}).await;
}

#[tokio::test]
async fn application_credential_of_the_security_page_is_enough_for_a_claims_whole_life() {
    follow("docs/security.md", with_a_machine, async |ns| {
        // The rules count here: what is not among them is refused.
        let file: Value = serde_json::from_str(&clouds(ns)).expect("the page has written JSON");
        let (status, _) = Cloud::of(&file["clouds"]["openstack"]).await.call(Method::GET, "ports", None).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "a call that no rule allows");
        // A pool that is new begins with what the Secret has now: it is looked up, creates, releases and deletes by it.
        ns.create(pool("fresh").network("public").served_in(&ns.name)).await;
        ns.bind_within(claim("web-1").from("fresh"), FIRST).await;
        ns.release("web-1-floating-ip-address").await;
        ns.await_gone(Kind::Claim, "web-1-floating-ip-address", RECOVERY).await;
        ns.delete(Kind::Pool, "fresh").await;
        ns.await_gone(Kind::Pool, "fresh", RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn commands_of_the_page_for_troubles_run() {
    follow("docs/troubleshooting.md", with_a_machine, async |_| {}).await;
}

#[tokio::test]
async fn commands_of_the_examples_run() {
    follow("examples/README.md", async |_| {}, async |_| {}).await;
}

#[tokio::test]
async fn commands_of_the_api_endpoint_name_the_claims_address_for_the_api_server() {
    let prepare = async |ns: &Namespace| {
        ns.apply_secret("cloud", &clouds(ns)).await;
    };
    follow("examples/api-endpoint/README.md", prepare, async |ns| {
        let address = ns.await_bound("prod-api-server", RECOVERY).await;
        let cluster = ns.get(Kind::InfrastructureCluster, "prod").await.expect("the page has created it");
        assert_eq!(cluster.data["spec"]["apiServerFloatingIP"], address.as_str());
    })
    .await;
}

#[test]
fn every_page_whose_commands_are_run_has_a_test() {
    let source = include_str!("commands.rs");
    let has_test = |page: &str| page.starts_with(RUNBOOKS) || source.contains(&format!("\"{page}\""));
    let missing: Vec<_> = RUN.iter().filter(|page| !has_test(page)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The pool `public`, and a machine that has an address of it.
async fn with_a_machine(ns: &Namespace) {
    ns.apply_secret("cloud", &clouds(ns)).await;
    ns.create(pool("public").network("public").served_in(&ns.name)).await;
    ns.bind_within(claim("web-0").of_cluster("prod"), FIRST).await;
}

/// The `clouds.yaml` of the scenario.
fn clouds(ns: &Namespace) -> String {
    fs::read_to_string(folder(ns).join("clouds.yaml")).expect("it was written before")
}

fn folder(ns: &Namespace) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{}", ns.name))
}

/// Runs the commands of a page after `prepare`, and then `check`.
async fn follow(page: &str, prepare: impl AsyncFnOnce(&Namespace), check: impl AsyncFnOnce(&Namespace)) {
    follow_all(&[page], prepare, check).await;
}

/// Runs the commands of several pages, one page after another.
async fn follow_all(pages: &[&str], prepare: impl AsyncFnOnce(&Namespace), check: impl AsyncFnOnce(&Namespace)) {
    let project = Project::new().await;
    with_namespace(async |ns| {
        ns.use_cloud(project.cloud().await);
        let controller = ns.start_controller(&ns.world.account, &["--watch-filter="]);
        let folder = folder(ns);
        fs::create_dir_all(&folder).expect("a folder of the tests can be made");
        fs::write(folder.join("clouds.yaml"), clouds_yaml(project.entry()))
            .expect("a file of the tests can be written");
        fs::copy(folder.join("clouds.yaml"), folder.join("cloud-of-the-shell.yaml")).expect("it is there");
        symlink(controller.log_path(), folder.join("controller.log")).expect("a link can be made");
        for part in ["config", "crds", "examples"] {
            symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join(part), folder.join(part)).expect("a link can be made");
        }
        let infrastructure =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "prod"});
        let cluster = json!({"metadata": {"name": "prod"}, "spec": {"infrastructureRef": infrastructure}});
        ns.create(Manifest::new(Kind::Cluster, cluster)).await;
        prepare(ns).await;
        let script: String = pages.iter().map(|page| script(page, &ns.name)).collect();
        let (entry, kubeconfig) = (project.entry().clone(), ns.world.kubeconfig.clone());
        let place = folder.clone();
        let ended = tokio::task::spawn_blocking(move || run(&script, &place, &kubeconfig, &entry)).await;
        let said = ended.expect("a shell can be waited for").unwrap_or_else(|said| panic!("{pages:?} fail:\n{said}"));
        println!("{said}");
        check(ns).await;
        fs::remove_dir_all(&folder).expect("the folder is there");
    })
    .await;
    project.end().await;
}

/// The blocks of a page that are to be run.
fn script(page: &str, namespace: &str) -> String {
    let page = read(page);
    let is_run = |block: &&super::markdown::Block| block.language.as_deref() == Some("sh") && block.not_run.is_none();
    let mut script = "set -euo pipefail\n".to_owned();
    for block in page.blocks().iter().filter(is_run) {
        script += &format!("echo '== {}:{}'\n{}", page.path.display(), block.line, block.code);
    }
    script.replace("team-a", namespace)
}

fn read(page: &str) -> Page {
    Page::read(Path::new(env!("CARGO_MANIFEST_DIR")), Path::new(page))
}

/// What the shell said: `Err` when a command failed.
fn run(script: &str, folder: &Path, kubeconfig: &str, entry: &Value) -> Result<String, String> {
    let name = unique("script");
    fs::write(folder.join(&name), format!("exec 2>&1\n{script}")).map_err(|error| error.to_string())?;
    let output = Command::new("timeout")
        .args([PATIENCE, "bash", "-x", &name])
        .current_dir(folder)
        .env("KUBECONFIG", kubeconfig)
        .env("OS_CLIENT_CONFIG_FILE", folder.join("cloud-of-the-shell.yaml"))
        .env("OS_CLOUD", "openstack")
        .env("OS_AUTH_URL", entry["auth"]["auth_url"].as_str().unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("timeout (coreutils) cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{said}\n{}", output.status)) }
}

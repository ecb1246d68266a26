//! `migrate`: from CAPO's in-tree pool of the same Kind to one of ours. Reads what exists, and prints a plan. `--apply`
//! creates the planned objects, and changes nothing else: templates are copied, and no machine is touched.

mod input;
mod plan;
mod text;

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::Value;

use super::cli::{Format, Migrate};
use super::exit::{Answer, Failure};
use super::output::{self, Progress};
use super::session::PluginSession;
use plan::{ObjectState, Plan};

pub(super) async fn migrate_pool(
    session: &PluginSession,
    args: &Migrate,
    format: Option<Format>,
) -> Result<Answer, Failure> {
    let to = args.to.clone().unwrap_or_else(|| format!("{}-ipam", args.pool));
    let progress = Progress::start("reading CAPO's pool, templates and claims");
    let input = input::read_input(session, &args.pool, &to).await?;
    let mut plan = Plan::new(&input, &args.pool, &to);
    progress.step("validating the new objects on the API server");
    for object in plan.objects.iter().filter(|object| object.state == ObjectState::New) {
        // Schema, rules, webhooks and this user's permissions are known only to the server.
        if let Err(error) = create(session, &object.manifest, true).await {
            plan.obstacles.push(format!("the API server rejects {}: {}", object.title(), message(&error)));
        }
    }
    drop(progress);
    let is_possible = plan.obstacles.is_empty();
    if args.apply && is_possible {
        apply(session, &mut plan).await?;
    }
    output::print(&plan, format)?;
    Ok(Answer::yes_if(is_possible))
}

/// Creates the new objects. An object that appeared in the meantime is an error of the API server.
async fn apply(session: &PluginSession, plan: &mut Plan) -> Result<(), Failure> {
    for object in plan.objects.iter_mut().filter(|object| object.state == ObjectState::New) {
        match create(session, &object.manifest, false).await {
            Ok(()) => object.state = ObjectState::Created,
            Err(error) => {
                let what = format!(
                    "create {} (objects created before it remain; the command can be repeated)",
                    object.title()
                );
                return Err(Failure::kubernetes(&what, &error));
            }
        }
    }
    plan.is_applied = true;
    Ok(())
}

async fn create(session: &PluginSession, manifest: &Value, dry_run: bool) -> Result<(), kube::Error> {
    let object: DynamicObject = serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
    let api = api(session, manifest);
    api.create(&PostParams { dry_run, field_manager: Some("kubectl-fippool".into()) }, &object).await.map(drop)
}

fn api(session: &PluginSession, manifest: &Value) -> Api<DynamicObject> {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, text("kind")));
    Api::namespaced_with(session.client.clone(), &session.namespace, &resource)
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

//! `migrate`: from CAPO's in-tree pool of the same Kind to one of ours. Reads what exists, and prints a plan. `--apply`
//! creates the planned objects and adds addresses to the pools' lists. It changes nothing else: templates are copied, no
//! machine is touched, and CAPO's pool is not deleted.

mod input;
mod plan;
mod text;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::cli::Migrate;
use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Progress};
use super::session::PluginSession;
use plan::{LIST, ObjectState, Plan, PlannedObject};

pub(super) async fn migrate_pool(
    session: &PluginSession,
    args: &Migrate,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let to = args.to.clone().unwrap_or_else(|| default_name(&args.pool));
    let progress = Progress::start("reading CAPO's pool, templates and claims");
    let input = input::read_input(session, args, &to).await?;
    let mut plan = Plan::new(&input, &args.pool, &to);
    progress.step("validating the new objects on the API server");
    for object in &plan.objects {
        // Schema, rules, webhooks and this user's permissions are known only to the server.
        if let Err(error) = write(session, object, true).await {
            plan.obstacles.push(format!("the API server rejects {}: {}", object.title(), message(&error)));
        }
    }
    drop(progress);
    let is_possible = plan.obstacles.is_empty();
    if args.apply && is_possible {
        apply(session, &mut plan).await?;
    }
    plan.complete_steps();
    output::print(&plan, format)?;
    Ok(Answer::yes_if(is_possible))
}

/// The name of the new pool.
fn default_name(pool: &str) -> String {
    format!("{pool}-ipam")
}

/// Writes the objects. One that appeared in the meantime is an error of the API server.
async fn apply(session: &PluginSession, plan: &mut Plan) -> Result<(), Failure> {
    for object in &mut plan.objects {
        match write(session, object, false).await {
            Ok(state) => object.state = state,
            Err(error) => {
                let what = format!(
                    "write {} (what was written before it remains; the command can be repeated)",
                    object.title()
                );
                return Err(Failure::kubernetes(&what, &error));
            }
        }
    }
    plan.is_applied = true;
    Ok(())
}

/// Creates a new object, or completes the list of an existing one. Returns the state that it has then.
async fn write(session: &PluginSession, object: &PlannedObject, dry_run: bool) -> Result<ObjectState, kube::Error> {
    let api = api(session, &object.manifest);
    let field_manager = Some("kubectl-fippool".into());
    match object.state {
        ObjectState::New => {
            let new: DynamicObject =
                serde_json::from_value(object.manifest.clone()).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams { dry_run, field_manager }, &new).await?;
            Ok(ObjectState::Created)
        }
        ObjectState::Incomplete => {
            let list = json!({"spec": {LIST: object.manifest.pointer("/spec").and_then(|spec| spec.get(LIST))}});
            let params = PatchParams { dry_run, field_manager, ..PatchParams::default() };
            api.patch(object.name(), &params, &Patch::Merge(&list)).await?;
            Ok(ObjectState::Completed)
        }
        state => Ok(state),
    }
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

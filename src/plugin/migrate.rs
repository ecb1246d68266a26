//! `migrate`: from CAPO's in-tree pool of the same Kind to one of ours. Gathers what there is, plans, prints the plan; with
//! `--apply` creates what is planned, and nothing else: templates are new ones, and no machine is touched.

mod facts;
mod plan;
mod text;

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::Value;

use super::cli::{Format, Migrate};
use super::exit::{Answer, Failure};
use super::output::{self, Progress};
use super::session::Session;
use plan::{Plan, State};

/// Plans, and applies where that is asked for.
pub(super) async fn run(session: &Session, args: &Migrate, format: Option<Format>) -> Result<Answer, Failure> {
    let to = args.to.clone().unwrap_or_else(|| format!("{}-ipam", args.pool));
    let progress = Progress::new();
    progress.step("reading CAPO's pool, templates and claims");
    let facts = facts::gather(session, &args.pool, &to).await?;
    let mut plan = plan::make(&facts, &args.pool, &to);
    for at in 0..plan.objects.len() {
        if plan.objects[at].state != State::New {
            continue;
        }
        progress.step("asking the API server what it makes of it");
        // What only the server knows: its schema, its rules, its webhooks, this user's permissions.
        if let Err(error) = create(session, &plan.objects[at].manifest, true).await {
            let obstacle = format!("the API server refuses {}: {}", plan.objects[at].title(), said(&error));
            plan.obstacles.push(obstacle);
        }
    }
    drop(progress);
    let is_possible = plan.obstacles.is_empty();
    if args.apply && is_possible {
        apply(session, &mut plan).await?;
    }
    output::print(&plan, format)?;
    Ok(Answer::when(is_possible))
}

/// Creates what is new. Whatever is there by now is what was planned, or the API server says so.
async fn apply(session: &Session, plan: &mut Plan) -> Result<(), Failure> {
    for object in plan.objects.iter_mut().filter(|object| object.state == State::New) {
        match create(session, &object.manifest, false).await {
            Ok(()) => object.state = State::Created,
            Err(error) => {
                let what = format!(
                    "create {} (what was created before it stays; the command can be repeated)",
                    object.title()
                );
                return Err(Failure::kubernetes(&what, &error));
            }
        }
    }
    plan.is_applied = true;
    Ok(())
}

async fn create(session: &Session, manifest: &Value, dry_run: bool) -> Result<(), kube::Error> {
    let object: DynamicObject = serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
    let api = api(session, manifest);
    api.create(&PostParams { dry_run, field_manager: Some("kubectl-fippool".into()) }, &object).await.map(drop)
}

fn api(session: &Session, manifest: &Value) -> Api<DynamicObject> {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, text("kind")));
    Api::namespaced_with(session.client.clone(), &session.namespace, &resource)
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

//! The dashboard file: Grafana can lay out its panels, and its queries use existing metrics.

use std::collections::BTreeSet;

use serde_json::Value;

use super::families::series_names;
use super::{data, file, metrics_in, output_of, text};

const DASHBOARD: &str = "config/chart/files/dashboard.json";

pub struct Query {
    /// The title of its panel.
    pub panel: String,
    /// With Grafana's variables.
    pub expression: String,
}

/// All panels, including rows.
fn panels() -> Vec<Value> {
    data(DASHBOARD)["panels"].as_array().expect("a dashboard has panels").clone()
}

pub fn queries() -> Vec<Query> {
    let of_panel = |panel: Value| {
        let title = panel["title"].as_str().expect("a panel has a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| Query {
            panel: title.clone(),
            expression: target["expr"].as_str().expect("a target has an expression").to_owned(),
        })
    };
    panels().into_iter().flat_map(of_panel).collect()
}

/// What the variables of Grafana ask for, as queries whose results have the label that they choose from.
pub fn variables() -> Vec<Query> {
    let dashboard = data(DASHBOARD);
    let all = dashboard["templating"]["list"].as_array().expect("a dashboard has variables").clone();
    let asked = all.into_iter().filter_map(|variable| {
        let name = variable["name"].as_str().expect("a variable has a name").to_owned();
        let query = variable["definition"].as_str()?.strip_prefix("label_values(")?.strip_suffix(')')?.to_owned();
        let (series, label) = query.rsplit_once(", ").expect("it names a metric and a label");
        Some(Query { panel: format!("${name}"), expression: format!(r#"group by ({label}) ({series})"#) })
    });
    asked.collect()
}

/// The cells that a panel covers, of 24 columns.
fn cells(panel: &Value) -> Vec<(u64, u64)> {
    let of = |side: &str| panel["gridPos"][side].as_u64().unwrap_or_else(|| panic!("no {side} in {panel}"));
    let (x, y, w, h) = (of("x"), of("y"), of("w"), of("h"));
    assert!(w > 0 && h > 0 && x + w <= 24, "{panel}");
    (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line))).collect()
}

#[test]
fn panels_have_unique_ids_and_do_not_overlap() {
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        assert!(ids.insert(panel["id"].as_u64().expect("a panel has an id")), "{panel}");
        for cell in cells(&panel) {
            assert!(taken.insert(cell), "another panel is where this one is: {panel}");
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
            let targets = panel["targets"].as_array().expect("a panel asks for something");
            assert!(!targets.is_empty(), "{panel}");
            let references: BTreeSet<_> = targets.iter().map(|target| target["refId"].as_str()).collect();
            assert_eq!(references.len(), targets.len(), "{panel}");
        }
    }
}

#[test]
fn variables_that_are_used_are_declared() {
    let dashboard = data(DASHBOARD);
    let declared = dashboard["templating"]["list"].as_array().expect("a dashboard has variables");
    let declared: BTreeSet<_> = declared.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(declared, BTreeSet::from(["cloud", "datasource", "job", "namespace", "pool"]));
    assert_eq!(variables().len(), declared.len() - 1, "all but the data source are asked for");
    for query in queries().into_iter().chain(variables()) {
        let used = query.expression.split('$').skip(1).map(|rest| {
            rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default().to_owned()
        });
        for name in used.filter(|name| name != "__rate_interval") {
            assert!(declared.contains(name.as_str()), "{}: ${name}", query.panel);
        }
    }
}

#[test]
fn panels_ask_for_metrics_that_there_are_and_leave_none_out() {
    let known = series_names();
    let mut asked = BTreeSet::new();
    for query in queries() {
        for metric in metrics_in(&query.expression) {
            assert!(known.contains(metric), "{} asks for {metric}", query.panel);
            asked.insert(metric.to_owned());
        }
    }
    let stem =
        |name: &str| ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end).map(str::to_owned));
    let is_asked = |name: &&String| {
        asked.contains(*name) || stem(name).is_some_and(|stem| asked.contains(&format!("{stem}_bucket")))
    };
    let left_out: Vec<_> = known.iter().filter(|name| !is_asked(name)).collect();
    let expected = [
        // The alerts give the reason why a pool is not ready; the table only shows that it is not.
        "caip_openstack_pool_problem",
        // The same as others, or less clear than these; dashboards made for other controllers show them.
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "process_start_time_seconds",
        "workqueue_adds_total",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_work_duration_seconds_bucket",
        "workqueue_work_duration_seconds_count",
        "workqueue_work_duration_seconds_sum",
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn a_config_map_brings_it_to_grafana() {
    let flags = ["template", "release", "config/chart", "--set=monitoring.dashboard.enabled=true"];
    let only = ["--show-only=templates/monitoring/dashboard.yaml"];
    let rendered = output_of("helm", &[&flags[..], &only].concat(), &file(""));
    let map: Value = serde_saphyr::from_str(&rendered).expect("helm writes YAML");
    assert_eq!(map["kind"], "ConfigMap");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let brought = map["data"]["caip-openstack.json"].as_str().expect("the file is in it");
    assert_eq!(brought.trim(), text(DASHBOARD).trim());
}

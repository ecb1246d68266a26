//! The alerts, rendered by helm and tested by promtool.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::families::series_names;
use super::{data, file, metrics_in, output_of, rules, run, scratch, text};

const CHART: &str = "config/chart";

/// Files with promtool tests, and helm flags for the values that they test.
const CASES: [(&str, &[&str]); 2] =
    [("default.yaml", &[]), ("chosen.yaml", &["--values=tests/observe/alerts/chosen.values.yaml"])];

fn rendered(flags: &[&str]) -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&rules(flags)).expect("a rule file is YAML");
    file["groups"][0]["rules"].as_array().expect("it has rules").clone()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("it is an object").keys().map(String::as_str).collect()
}

fn field<'a>(rule: &'a Value, pointer: &str) -> &'a str {
    rule.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("there is no {pointer} in {rule}"))
}

#[test]
fn alerts_fire_only_when_they_should() {
    for (case, flags) in CASES {
        let folder = scratch("alerts");
        fs::write(folder.join("rules.yaml"), rules(flags)).expect("a file can be written");
        fs::copy(file(&format!("tests/observe/alerts/{case}")), folder.join(case)).expect("a file can be copied");
        output_of("promtool", &["check", "rules", "rules.yaml"], &folder);
        output_of("promtool", &["test", "rules", case], &folder);
    }
}

#[test]
fn every_alert_has_a_test_in_which_it_fires() {
    let tests = text("tests/observe/alerts/default.yaml");
    for rule in rendered(&[]) {
        let (name, severity) = (field(&rule, "/alert"), field(&rule, "/labels/severity"));
        let fires = |line: &&str| {
            line.contains(&format!(r#"alertname="{name}""#)) && line.contains(&format!(r#"severity="{severity}""#))
        };
        assert!(tests.lines().any(|line| fires(&line)), "no test has {name} ({severity}) fire");
    }
}

#[test]
fn alerts_use_existing_metrics() {
    let known = series_names();
    for rule in rendered(&["--values=tests/observe/alerts/chosen.values.yaml"]).into_iter().chain(rendered(&[])) {
        for metric in metrics_in(field(&rule, "/expr")) {
            assert!(known.contains(metric), "{} asks for {metric}", field(&rule, "/alert"));
        }
    }
}

#[test]
fn every_alert_can_be_disabled_and_is_in_the_schema() {
    let (alerts, schema) = (data("config/chart/files/alerts.yaml"), data("config/chart/values.schema.json"));
    let values = data("config/chart/values.yaml");
    let values = values.pointer("/monitoring/prometheusRule/alerts").expect("the values have alerts");
    assert_eq!(keys(values), keys(&alerts));
    let properties = "/properties/monitoring/properties/prometheusRule/properties/alerts/properties";
    assert_eq!(keys(schema.pointer(properties).expect("the schema has alerts")), keys(&alerts));
    for (key, alert) in alerts.as_object().expect("it is an object") {
        let off = format!("--set=monitoring.prometheusRule.alerts.{key}.enabled=false");
        let left: BTreeSet<_> = rendered(&[&off]).iter().map(|rule| field(rule, "/alert").to_owned()).collect();
        assert_eq!(left.len(), keys(&alerts).len() - 1, "{key}");
        assert!(!left.contains(field(alert, "/alert")), "{key}");
    }
}

#[test]
fn every_alert_has_a_runbook_and_vice_versa() {
    let mut named = BTreeSet::new();
    for rule in rendered(&[]) {
        let (alert, page) = (field(&rule, "/alert"), field(&rule, "/annotations/runbook"));
        assert_eq!(page, format!("docs/runbooks/{alert}.md"));
        let runbook = text(page);
        assert!(runbook.starts_with(&format!("# {alert}\n")), "{page} has another title");
        for section in ["Meaning", "Impact", "Diagnosis", "Mitigation"] {
            assert!(runbook.contains(&format!("\n## {section}\n")), "{page} has no section {section}");
        }
        assert!(
            !field(&rule, "/annotations/summary").is_empty() && !field(&rule, "/annotations/description").is_empty()
        );
        assert!(text("docs/monitoring.md").contains(&format!("[{alert}](runbooks/{alert}.md)")), "{alert}");
        named.insert(format!("{alert}.md"));
    }
    let pages = fs::read_dir(file("docs/runbooks")).expect("the runbooks are there");
    let pages: BTreeSet<String> =
        pages.map(|page| page.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(pages, named);
}

#[test]
fn alerts_and_dashboard_are_off_by_default() {
    let all = output_of("helm", &["template", "release", CHART], &file(""));
    assert!(!all.contains("kind: PrometheusRule") && !all.contains("grafana_dashboard"), "{all}");
}

#[test]
fn invalid_values_are_refused_with_their_field() {
    for (value, field) in [
        ("excludePools={Not_A_Name}", "excludePools"),
        ("alerts.poolExhausted.for=soon", "for"),
        ("alerts.claimsWaiting.threshold=-1", "threshold"),
        ("alerts.poolNearlyExhausted.levels.info=101", "levels"),
        ("alerts.poolExausted.enabled=true", "poolExausted"),
        ("runbookURL=here", "runbookURL"),
        ("extraRules[0].alert=Ours", "extraRules"),
    ] {
        let value = format!("--set=monitoring.prometheusRule.{value}");
        let refused = run("helm", &["template", "release", CHART, &value], &file(""));
        let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && reason.contains(field), "{value}: {reason}");
    }
}

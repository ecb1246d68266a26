//! Prints `docs/api.md`, the reference of the pool's fields, from the CRD's schema: `make generate`.

#![allow(clippy::restriction, reason = "a panic fails the build")]

use caip_openstack::api::OpenStackFloatingIPPool;
use kube::CustomResourceExt;
use serde_json::Value;

const HEAD: &str = "\
<!-- Written by `make generate` from the CRD; do not edit. -->
# API reference

The fields of `OpenStackFloatingIPPool` as the CRD has them. `kubectl explain fippool.spec` prints the same. How they
work together, and what a change of a field does: [pool.md](pool.md). What each message means:
[troubleshooting.md](troubleshooting.md).
";

fn main() -> anyhow::Result<()> {
    let crd = serde_json::to_value(OpenStackFloatingIPPool::crd())?;
    let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
    print!("{HEAD}\n{}", kind_table(spec, version));
    for section in ["spec", "status"] {
        print_object(2, section, &version["schema"]["openAPIV3Schema"]["properties"][section]);
    }
    println!("\n## Columns of kubectl get\n\n| column | value | description |\n|---|---|---|");
    for column in list(&version["additionalPrinterColumns"]) {
        let wide = if column["priority"].as_i64().unwrap_or_default() > 0 { ", with `-o wide`" } else { "" };
        let [name, path, description] = ["name", "jsonPath", "description"].map(|field| text(&column[field]));
        println!("| {name}{wide} | `{path}` | {} |", cell(description));
    }
    Ok(())
}

fn kind_table(spec: &Value, version: &Value) -> String {
    let names = &spec["names"];
    let listed = |value: &Value| list(value).map(text).collect::<Vec<_>>().join("`, `");
    format!(
        "| | |\n|---|---|\n| apiVersion | `{}/{}` |\n| kind | `{}` |\n| resource | `{}` |\n| short name | `{}` |\n| category | `{}` |\n| scope | {} |\n",
        text(&spec["group"]),
        text(&version["name"]),
        text(&names["kind"]),
        text(&names["plural"]),
        listed(&names["shortNames"]),
        listed(&names["categories"]),
        text(&spec["scope"]),
    )
}

/// An object's fields as a table, the rules across them, and then each object within it.
fn print_object(level: usize, path: &str, schema: &Value) {
    println!("\n{} {path}\n\n{}\n", "#".repeat(level), wrapped(text(&schema["description"])));
    println!("| field | type | required | default | description | validation |\n|---|---|---|---|---|---|");
    let required: Vec<&str> = list(&schema["required"]).map(text).collect();
    for (name, field) in fields(schema) {
        let is_required = if required.contains(&name.as_str()) { "yes" } else { "" };
        let (description, default) = (cell(text(&field["description"])), default_of(field));
        println!(
            "| `{name}` | {} | {is_required} | {default} | {description} | {} |",
            type_of(field),
            cell(&limits(field).join("; "))
        );
    }
    let rules = rules(schema);
    if !rules.is_empty() {
        println!("\n| rule across these fields |\n|---|");
        rules.iter().for_each(|rule| println!("| {} |", cell(rule)));
    }
    for (name, field) in fields(schema) {
        let level = (level + 1).min(4);
        if is_object(field) {
            print_object(level, &format!("{path}.{name}"), field);
        } else if is_object(&field["items"]) {
            print_object(level, &format!("{path}.{name}[]"), &field["items"]);
        }
    }
}

fn type_of(schema: &Value) -> String {
    let values: Vec<String> = list(&schema["enum"]).map(|value| format!("`{}`", plain(value))).collect();
    match text(&schema["type"]) {
        _ if !values.is_empty() => values.join(", "),
        "array" => format!("list of {}", type_of(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        other => other.to_owned(),
    }
}

/// What the schema demands of a value, for people.
fn limits(schema: &Value) -> Vec<String> {
    let mut limits: Vec<String> = [
        range(schema, "minLength", "maxLength", " characters"),
        range(schema, "minimum", "maximum", ""),
        range(schema, "minItems", "maxItems", " items"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let keys: Vec<String> = list(&schema["x-kubernetes-list-map-keys"]).map(|key| format!("`{}`", text(key))).collect();
    match text(&schema["x-kubernetes-list-type"]) {
        "set" => limits.push("no duplicates".to_owned()),
        "map" => limits.push(format!("unique by {}", keys.join(" and "))),
        _ => {}
    }
    // The rules of an object within stand in its own section.
    if !is_object(schema) {
        limits.extend(rules(schema));
    }
    if schema["items"].is_object() && !is_object(&schema["items"]) {
        limits.extend(self::limits(&schema["items"]).into_iter().map(|limit| format!("each: {limit}")));
    }
    limits
}

fn range(schema: &Value, min: &str, max: &str, unit: &str) -> Option<String> {
    let bound = |name: &str| schema[name].as_f64().map(|bound| format!("{bound}"));
    match (bound(min), bound(max)) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (None, None) => None,
    }
}

fn rules(schema: &Value) -> Vec<String> {
    list(&schema["x-kubernetes-validations"]).map(|rule| text(&rule["message"]).to_owned()).collect()
}

fn default_of(schema: &Value) -> String {
    schema.get("default").map_or_else(String::new, |default| format!("`{}`", plain(default)))
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One line that does not end the cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Paragraphs of lines that are not too long.
fn wrapped(text: &str) -> String {
    let paragraph = |paragraph: &str| {
        let mut lines = vec![String::new()];
        for word in paragraph.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) if line.chars().count() + word.chars().count() < 120 => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}
